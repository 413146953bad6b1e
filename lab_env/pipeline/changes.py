"""Parses Debezium's change events of a database table into rows for Hudi, ordered by log position.

They are for tables of their own: a table whose versions are ordered by `order_ts` must not take
them, because a log position and a time cannot be compared. Every message is in exactly one of
`rows`, `dead_letters` and `tombstones`.
"""

from collections.abc import Iterable, Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

# The columns of the shop's table `orders` in PostgreSQL that go to the lake.
ORDERS = {
    "order_id": "STRING",
    "customer_id": "STRING",
    "amount": "DECIMAL(12,2)",
    "status": "STRING",
    "partition_date": "STRING",
    "updated_at": "TIMESTAMP",
}
# Without them Hudi cannot find the row of a delete, and says nothing. Debezium fills NOT NULL
# columns that it does not know with empty text, with 0 or with 1970: keep them text.
KEY, PARTITION = "order_id", "partition_date"
ENVELOPE = (
    "before MAP<STRING,STRING>, after MAP<STRING,STRING>, op STRING, source MAP<STRING,STRING>"
)
WRITES, DELETE, TRUNCATE = ("r", "c", "u"), "d", "t"
# Debezium writes it for a large value that PostgreSQL did not log because it had not changed.
UNAVAILABLE = "__debezium_unavailable_value"


def once(column: Column) -> Column:
    """The same column, computed once per row.

    Spark's optimizer inlines an expression wherever it is used, so a filter on `reason` parsed each
    message dozens of times: 7,000 messages took 13 s instead of 3. It inlines nothing through
    `explode`, which here turns one row into one row.
    """
    return F.explode(F.array(column))


def parse(records: DataFrame, columns: Mapping[str, str] = ORDERS) -> DataFrame:
    """Parse each record, and find the reason if it is no change of a row.

    Args:
        records: Kafka records whose values the JSON converter wrote without schemas, from a
            connector with `decimal.handling.mode=string`.
        columns: of the table, with their SQL types; further ones are left out.

    Returns:
        The records with `row` (struct), `op`, `commit_lsn` (of the last commit before the change's
        transaction), `lsn`, `moved_from` (the partition that an update took the row out of) and
        `reason` (null for a change of a row).
    """
    envelope = records.withColumn(
        "envelope", once(F.from_json(F.col("value").cast("string"), ENVELOPE))
    )
    image = F.when(F.col("envelope.op") == DELETE, F.col("envelope.before")).otherwise(
        F.col("envelope.after")
    )
    before, after = F.col("envelope.before"), F.col("envelope.after")
    moved = (F.col("envelope.op") == "u") & (before[PARTITION] != after[PARTITION])
    fields = [_value(name, type_).alias(name) for name, type_ in columns.items()]
    return (
        envelope.withColumn("op", F.col("envelope.op"))
        .withColumn("lsn", F.coalesce(_position(1), F.col("envelope.source")["lsn"].cast("long")))
        .withColumn("commit_lsn", F.coalesce(_position(0), F.col("lsn")))
        .withColumn("moved_from", F.when(moved, before[PARTITION]))
        .withColumn("image", image)
        .withColumn("row", F.struct(*fields))
        .withColumn("reason", _reason(columns))
        .drop("envelope", "image")
    )


def _position(place: int) -> Column:
    """A number of Debezium's `source.sequence`: of the last commit, then of the change itself.

    What an incremental snapshot reads has no `source.lsn`, but it has these.
    """
    sequence = F.col("envelope.source")["sequence"]
    return F.get_json_object(sequence, f"$[{place}]").cast("long")


def _value(name: str, wanted: str) -> Column:
    """A field of the row image as its type: dates come as days, times as microseconds or text."""
    text = F.col("image")[name]
    number = F.when(text.rlike(r"^-?\d+$"), text.cast("long"))
    if wanted == "DATE":
        return F.coalesce(F.date_from_unix_date(number.cast("int")), text.cast(wanted))
    if wanted == "TIMESTAMP":
        return F.coalesce(F.timestamp_micros(number), text.cast(wanted))
    value = text.cast(wanted)
    if wanted.startswith("DECIMAL"):  # the cast alone would round
        return F.when(value == text.cast("DECIMAL(38,18)"), value)
    return value


def _reason(names: Iterable[str]) -> Column:
    """The first problem of a record, checked from the outside in; null if there is none."""
    envelope, image, row = F.col("envelope"), F.col("image"), F.col("row")
    deleted = envelope["op"] == DELETE

    def lost(name: str) -> Column:
        return image[name].isNotNull() & row[name].isNull()

    return (
        F.when(F.col("key").isNull(), "no_key")
        .when(F.col("value").isNull(), "tombstone")
        .when(envelope["op"].isNull() & envelope["source"].isNull(), "not_an_envelope")
        .when(envelope["op"] == TRUNCATE, "truncate")
        .when(~F.coalesce(envelope["op"], F.lit("")).isin(*WRITES, DELETE), "unknown_op")
        .when(F.col("lsn").isNull(), "no_log_position")
        .when(image.isNull(), "no_row_image")
        # A delete without REPLICA IDENTITY FULL has nothing but the key.
        .when(
            _any(lambda name: F.coalesce(image[name], F.lit("")) == "", (KEY, PARTITION)),
            "key_only",
        )
        .when(_any(lambda name: image[name] == UNAVAILABLE, names) & ~deleted, "unavailable_value")
        # Of a deleted row only key and partition count.
        .when(_any(lost, names) & ~deleted, "wrong_type")
    )


def _any(condition, names) -> Column:
    return reduce(Column.__or__, map(condition, names))


def rows(parsed: DataFrame) -> DataFrame:
    """The changed rows, as Hudi takes them.

    Args:
        parsed: what `parse` returned.

    Returns:
        The columns of the row, `op`, `commit_lsn`, `lsn`, both of them as the text `log_position`
        that sorts as they do, and `_hoodie_is_deleted`. An update that
        moves a row to another partition gives two rows, of which the first deletes the old one:
        Hudi looks for a key in one partition only.
    """
    here = F.struct("row", (F.col("op") == DELETE).alias("gone"))
    there = F.struct(
        F.col("row").withField(PARTITION, F.col("moved_from")).alias("row"),
        F.lit(True).alias("gone"),
    )
    versions = F.when(F.col("moved_from").isNull(), F.array(here)).otherwise(F.array(there, here))
    changed = parsed.where("reason IS NULL").withColumn("version", F.explode(versions))
    positions = [F.lpad(F.col(name).cast("string"), 20, "0") for name in ("commit_lsn", "lsn")]
    return changed.select(
        "version.row.*",
        "op",
        "commit_lsn",
        "lsn",
        F.concat_ws("-", *positions).alias("log_position"),
        F.col("version.gone").alias("_hoodie_is_deleted"),
    )


def tombstones(parsed: DataFrame) -> DataFrame:
    """The records without a value that follow each delete, for Kafka to compact the topic by."""
    return parsed.where("reason = 'tombstone'").select("key", "partition", "offset")


def dead_letters(parsed: DataFrame) -> DataFrame:
    """The records that are no change of a row, each raw, with its reason and its place.

    Args:
        parsed: what `parse` returned.

    Returns:
        `reason`, `value` and `key` (raw bytes), `topic`, `partition`, `offset`, `timestamp`.
    """
    return parsed.where("reason <> 'tombstone'").select(
        "reason", "value", "key", "topic", "partition", "offset", "timestamp"
    )
