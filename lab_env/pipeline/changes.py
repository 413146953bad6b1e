"""Parse Debezium's change events of a database table into rows for Hudi, ordered by log position.

These rows go to separate tables, not to one whose versions are ordered by `order_ts`: a log
position and a time cannot be compared. Every message is in exactly one of `rows`, `dead_letters`
and `tombstones`. `envelopes` parses them; its `REASONS` lists why one is rejected.
"""

import sys
from collections.abc import Mapping
from functools import partial
from operator import itemgetter

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lab_env.pipeline import envelopes, messages
from lab_env.pipeline.envelopes import (
    DECIMAL_TYPE,
    DELETE,
    ORDERS,
    PARTITION,
    ChangeReader,
    Malformed,
)
from lab_env.pipeline.envelopes import UNAVAILABLE as UNAVAILABLE
from lab_env.pipeline.parsing import TEXT, TIME, read_in_workers, structs
from lab_env.platform.errors import LabError

TYPES = {
    "STRING": pa.string(),
    "BOOLEAN": pa.bool_(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "DATE": pa.date32(),
}  # the others are decimals and times
NUMBER = pa.int64()
ADDED = {
    "op": TEXT,
    "commit_lsn": NUMBER,
    "lsn": NUMBER,
    "moved_from": TEXT,
    "committed_ms": NUMBER,
    "reason": TEXT,
}
LOG_ENDS = "log_ends"
NOWHERE = {"position": "", "committed_ms": 0}
CLOCK_MS = 60_000  # tolerated correction of a database's clock


def parse(records: DataFrame, columns: Mapping[str, str] = ORDERS, table: str = "") -> DataFrame:
    """Parse each record, and add the reason if it does not describe a row's change.

    Args:
        records: Kafka records whose values the JSON converter wrote without schemas, from a
        connector with `decimal.handling.mode=string`.
        columns: types of the table's columns, as in `envelopes.ORDERS`; other columns are dropped.
        table: `schema.table`; by default taken from the topic's name, else the shop's table.

    Returns:
        The records with `row` (struct), `reason` (null for a change of a row) and the fields of
        `envelopes.Change`.
    """
    row = pa.struct([(name, _arrow_type(form)) for name, form in columns.items()])
    read = partial(_read_batch, ChangeReader(columns, table), row)
    modules = (messages, envelopes, sys.modules[__name__])
    return read_in_workers(records, read, pa.schema({"row": row} | ADDED), *modules)


def _arrow_type(form: str) -> pa.DataType:
    if found := DECIMAL_TYPE.fullmatch(form):
        return pa.decimal128(*map(int, found.groups()))
    return TYPES.get(form, TIME)


def _read_batch(
    reader: ChangeReader, row: pa.StructType, batch: pa.RecordBatch
) -> dict[str, pa.Array]:
    values = (batch.column(name).to_pylist() for name in ("key", "value", "topic"))
    read = [_read(reader, *record) for record in zip(*values, strict=True)]
    images, *others = zip(*read, strict=True) if read else ((),) * 7
    malformed = pa.array([why is not None for why in others[-1]], pa.bool_())
    rows = [image or (None,) * len(row) for image in images]
    columns = zip(others, ADDED.items(), strict=True)
    return {"row": structs(rows, row, malformed)} | {
        name: pa.array(values, kind) for values, (name, kind) in columns
    }


def _read(reader: ChangeReader, key: bytes | None, value: bytes | None, topic: str | None) -> tuple:
    try:
        return (*reader.read(key, value, topic or ""), None)
    except Malformed as malformed:
        return (*(None,) * len(ADDED), malformed.args[0])


def rows(parsed: DataFrame) -> DataFrame:
    """Return the changed rows of parsed records, with the columns that Hudi's sink needs.

    These are the row's columns, `op`, `commit_lsn`, `lsn`, `log_position` (a text that sorts by
    both) and `_hoodie_is_deleted`. An update that moves a row to another table partition gives two
    rows; the first one deletes the old row, because Hudi looks for a key in one partition only.
    """
    here = F.struct("row", (F.col("op") == DELETE).alias("gone"))
    there = F.struct(
        F.col("row").withField(PARTITION, F.col("moved_from")).alias("row"),
        F.lit(True).alias("gone"),
    )
    versions = F.when(F.col("moved_from").isNull(), F.array(here)).otherwise(F.array(there, here))
    changed = parsed.where("reason IS NULL").withColumn("version", F.explode(versions))
    return changed.select(
        "version.row.*",
        "op",
        "commit_lsn",
        "lsn",
        _log_position().alias("log_position"),
        F.col("version.gone").alias("_hoodie_is_deleted"),
    )


def _log_position() -> Column:
    positions = [F.lpad(F.col(name).cast("string"), 20, "0") for name in ("commit_lsn", "lsn")]
    return F.concat_ws("-", *positions)


def with_log_ends(parsed: DataFrame) -> DataFrame:
    """Pass parsed rows through, and report two changes of each batch, which `LogOrder` checks.

    These are the change with the highest log position and the one with the newest commit time. They
    are in `observedMetrics` of the batch's progress, under `LOG_ENDS`.
    """
    position, committed = _log_position().alias("position"), F.col("committed_ms")
    known = F.col("reason").isNull() & committed.isNotNull()
    return parsed.observe(
        LOG_ENDS,
        F.max(F.when(known, F.struct(position, committed))).alias("furthest"),
        F.max(F.when(known, F.struct(committed, position))).alias("newest"),
    )


class LogOrder:
    """Detects that the database's log was rewound: positions fall while commit times rise.

    After a restore from a backup, or a failover to a replica that lacked the end of the log, new
    changes get positions that the table already has, so they lose against its rows without an
    error. Changes that a connector resends do not trigger it: their commit times are old, too.
    """

    def __init__(self) -> None:
        self.furthest: dict = NOWHERE

    def check(self, batch: int, ends: dict) -> None:
        """Compare the `LOG_ENDS` of a batch with those of all earlier ones.

        Batch 0 begins a new stream into a new table.

        Raises:
            LabError: the log was rewound.
        """
        newest, furthest = ends.get("newest"), self.furthest if batch else NOWHERE
        if newest and newest["position"] < furthest["position"]:
            later_ms = newest["committed_ms"] - furthest["committed_ms"]
            if later_ms > CLOCK_MS:
                raise LabError(
                    f"The database's log has gone back: a change committed {later_ms / 1000:,.0f} "
                    f"s later has the position {newest['position']}, but the table has changes up "
                    f"to {furthest['position']}. Changes below that are lost in this table, as "
                    "after a restore from a backup.",
                    "start the writer with a new folder, and let Debezium take a new snapshot",
                )
        self.note(batch, ends)

    def note(self, batch: int, ends: dict) -> None:
        """Remember a batch of an earlier run without checking it."""
        furthest = self.furthest if batch else NOWHERE
        self.furthest = max(furthest, ends.get("furthest") or furthest, key=itemgetter("position"))


def tombstones(parsed: DataFrame) -> DataFrame:
    """Records without a value, which follow each delete; Kafka uses them to compact the topic."""
    return parsed.where("reason = 'tombstone'").select("key", "partition", "offset")


def dead_letters(parsed: DataFrame) -> DataFrame:
    """Records that do not describe a row's change, as raw bytes, with reason and position."""
    return parsed.where("reason <> 'tombstone'").select(
        "reason", "value", "key", "topic", "partition", "offset", "timestamp"
    )
