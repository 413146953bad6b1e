"""Ways of reading a Hudi table: each function asks once and returns what it saw.

They show the rows by their key and by the commit that wrote them. To stay quick with a large
table, all readers return the same part of the keys.
"""

import secrets
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from zlib import crc32

import pyarrow as pa
from hudi import HudiReadOptions, HudiTable, HudiTableBuilder
from pyspark.sql import Column, DataFrame, SparkSession
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
    properties: Mapping[str, str]  # of `hoodie.properties`
    parts: int = 1  # one key in so many is read

    @property
    def merges(self) -> bool:
        """True for Merge-on-Read."""
        return self.properties.get("hoodie.table.type") == "MERGE_ON_READ"

    def load(self, **options: str) -> DataFrame:
        """Open the table anew with options of the Hudi source; dots are written as `__`."""
        given = {name.replace("__", "."): value for name, value in options.items()}
        return self.spark.read.format("hudi").options(**given).load(self.path)

    def rows(self, table: DataFrame) -> Rows:
        """Read the chosen keys of a DataFrame."""
        return self.chosen(table, F.concat_ws("/", PARTITION, KEY), COMMIT)

    def chosen(self, table: DataFrame, key: Column, commit: str) -> Rows:
        """Read the chosen keys with the commit of each row."""
        chosen = table.where(F.crc32(key) % self.parts == 0).select(key, commit)
        return tuple((row[0], row[1]) for row in chosen.collect())


Ask = Callable[[], Seen | None]  # None if there is nothing to ask


@contextmanager
def readers(table: Table) -> Generator[dict[str, Ask]]:
    """Yield all ways of reading by name; afterwards the table's second name is gone."""
    name = f"observed_{secrets.token_hex(3)}"
    table.spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{table.path}'")
    ways = {
        "snapshot": lambda: Seen(table.rows(table.load())),
        "incremental chain": chain(table, table.rows),
        "time travel": time_travel(table),
        "a name in the catalog": lambda: Seen(table.rows(table.spark.table(name))),
        "a DataFrame kept": held(table),
        **without_spark(table.path, table.parts),
    }
    if table.merges:
        read_optimized = {"hoodie__datasource__query__type": "read_optimized"}
        ways["read-optimised"] = lambda: Seen(table.rows(table.load(**read_optimized)))
    if (key := _key_of_changes(table.properties)) is not None:
        feed = chain(
            table,
            lambda changes: table.chosen(changes, key, "ts_ms"),
            hoodie__datasource__query__incremental__format="cdc",
        )
        ways["change feed"] = feed
    try:
        yield ways
    finally:
        table.spark.sql(f"DROP TABLE IF EXISTS {name}")


def chain(table: Table, rows: Callable[[DataFrame], Rows], **options: str) -> Ask:
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
            **options,
        )
        seen = Seen(rows(changes), newest[0], begin[0])
        after = newest
        return seen

    return ask


def _key_of_changes(properties: Mapping[str, str]) -> Column | None:
    """Return the key of a change feed's rows, which have it in their JSON only.

    None without a change feed, or if the key is made of several columns.
    """
    if properties.get("hoodie.table.cdc.enabled") != "true":
        return None
    key, folder = (
        properties.get(f"hoodie.table.{of}.fields", "") for of in ("recordkey", "partition")
    )
    if "," in f"{key}{folder}" or not folder:
        return None
    deleted = F.col("after").isNull() | (F.col("after") == "null")  # the text on Copy-on-Write
    row = F.when(deleted, F.col("before")).otherwise(F.col("after"))
    path = F.get_json_object(row, f"$.{folder}")
    if properties.get("hoodie.datasource.write.hive_style_partitioning") == "true":
        path = F.concat(F.lit(f"{folder}="), path)
    return F.concat_ws("/", path, F.get_json_object(row, f"$.{key}"))


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
