"""Ways of reading a Hudi table: each function asks once and returns what it saw.

They show the rows by their key and by the commit that wrote them. To stay quick with a large
table, all readers return the same part of the keys.
"""

import secrets
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from zlib import crc32

import pyarrow as pa
from hudi import HudiReadOptions, HudiTable, HudiTableBuilder
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

KEY, PARTITION, COMMIT = "_hoodie_record_key", "_hoodie_partition_path", "_hoodie_commit_time"
MOST_KEYS = 1000

Rows = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Seen:
    """The rows that a reader saw, and the bounds it asked for (see `judge.Read`)."""

    rows: Rows
    until: str = ""
    after: str | None = None


@dataclass
class Table:
    """A table to be read: `noticed` returns its completed writes, newest last.

    They are pairs of requested time and completion time.
    """

    spark: SparkSession
    path: str
    noticed: Callable[[], list[tuple[str, str]]]
    merges: bool  # whether it is Merge-on-Read
    parts: int = 1  # one key in so many is read

    def load(self, **options: str) -> DataFrame:
        """Open the table anew with options of the Hudi source; dots are written as `__`."""
        given = {name.replace("__", "."): value for name, value in options.items()}
        return self.spark.read.format("hudi").options(**given).load(self.path)

    def rows(self, table: DataFrame) -> Rows:
        """Read the chosen keys of a DataFrame."""
        key = F.concat_ws("/", PARTITION, KEY)
        chosen = table.where(F.crc32(key) % self.parts == 0).select(key, COMMIT)
        return tuple((row[0], row[1]) for row in chosen.collect())


Ask = Callable[[], Seen | None]  # None if there is nothing to ask


@contextmanager
def readers(table: Table) -> Generator[dict[str, Ask]]:
    """Yield all ways of reading by name; afterwards the table's second name is gone."""
    name = f"observed_{secrets.token_hex(3)}"
    table.spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{table.path}'")
    ways = {
        "snapshot": lambda: Seen(table.rows(table.load())),
        "incremental chain": incremental(table),
        "time travel": time_travel(table),
        "a name in the catalog": lambda: Seen(table.rows(table.spark.table(name))),
        "a DataFrame kept": held(table),
        **without_spark(table.path, table.parts),
    }
    if table.merges:
        read_optimized = {"hoodie__datasource__query__type": "read_optimized"}
        ways["read-optimised"] = lambda: Seen(table.rows(table.load(**read_optimized)))
    try:
        yield ways
    finally:
        table.spark.sql(f"DROP TABLE IF EXISTS {name}")


def incremental(table: Table) -> Ask:
    """Ask for the changes since the last call, up to the newest commit noticed."""
    after = "", "000"

    def ask() -> Seen | None:
        nonlocal after
        begin, newest = after, table.noticed()[-1]
        if newest == begin:
            return None
        changes = table.load(
            hoodie__datasource__query__type="incremental",
            hoodie__datasource__read__begin__instanttime=begin[1],
            hoodie__datasource__read__end__instanttime=newest[1],
        )
        seen = Seen(table.rows(changes), newest[0], begin[0])
        after = newest
        return seen

    return ask


def time_travel(table: Table) -> Ask:
    """Ask for the state after the newest commit noticed."""

    def ask() -> Seen:
        newest, _ = table.noticed()[-1]
        return Seen(table.rows(table.load(as__of__instant=newest)), newest)

    return ask


def held(table: Table) -> Ask:
    """Ask one DataFrame, opened before, again and again."""
    kept = table.load()
    return lambda: Seen(table.rows(kept))


def without_spark(path: str, parts: int) -> dict[str, Ask]:
    """Return the ways of hudi-rs by name; one key in so many `parts` is read.

    One opens the table anew at each read, the other keeps it open.
    """

    def opened() -> HudiTable:
        return HudiTableBuilder.from_base_uri(path.replace("s3a://", "s3://")).build()

    kept = opened()
    return {
        "hudi-rs": lambda: Seen(_rows_of(opened(), parts)),
        "hudi-rs, kept open": lambda: Seen(_rows_of(kept, parts)),
    }


def _rows_of(opened: HudiTable, parts: int) -> Rows:
    batches = opened.read(HudiReadOptions())
    if not batches:
        return ()
    columns = pa.Table.from_batches(batches).select([PARTITION, KEY, COMMIT]).to_pydict()
    rows = zip(columns[PARTITION], columns[KEY], columns[COMMIT], strict=True)
    keyed = ((f"{part}/{key}", commit) for part, key, commit in rows)
    return tuple(row for row in keyed if crc32(row[0].encode()) % parts == 0)
