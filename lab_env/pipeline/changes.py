"""Parses Debezium's change events of a database table into rows for Hudi, ordered by log position.

They are for tables of their own: a table whose versions are ordered by `order_ts` must not take
them, because a log position and a time cannot be compared. Every message is in exactly one of
`rows`, `dead_letters` and `tombstones`.
"""

from collections.abc import Iterable, Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lab_env.pipeline.parsing import once

# The columns of the shop's table `orders` in PostgreSQL that go to the lake.
ORDERS = {
    "order_id": "STRING",
    "customer_id": "STRING",
    "amount": "DECIMAL(12,2)",
    "status": "STRING",
    "partition_date": "STRING",
    "updated_at": "TIMESTAMP",
}
REQUIRED = ("order_id", "partition_date")  # without them Hudi cannot find a row, and says nothing
ENVELOPE = (
    "before MAP<STRING,STRING>, after MAP<STRING,STRING>, op STRING, source MAP<STRING,STRING>"
)
WRITES, DELETE, TRUNCATE = ("r", "c", "u"), "d", "t"
# Debezium writes it for a large value that PostgreSQL did not log because it had not changed.
UNAVAILABLE = "__debezium_unavailable_value"


def parse(records: DataFrame, columns: Mapping[str, str] = ORDERS) -> DataFrame:
    """Parse each record, and find the reason if it is no change of a row.

    Args:
        records: Kafka records whose values the JSON converter wrote without schemas, from a
            connector with `decimal.handling.mode=string`.
        columns: of the table, with their SQL types; further ones are left out.

    Returns:
        The records with `row` (struct), `op`, `lsn` and `reason` (null for a change of a row).
    """
    envelope = records.withColumn(
        "envelope", once(F.from_json(F.col("value").cast("string"), ENVELOPE))
    )
    image = F.when(F.col("envelope.op") == DELETE, F.col("envelope.before")).otherwise(
        F.col("envelope.after")
    )
    fields = [_value(name, type_).alias(name) for name, type_ in columns.items()]
    return (
        envelope.withColumn("op", F.col("envelope.op"))
        .withColumn("lsn", F.col("envelope.source")["lsn"].cast("long"))
        .withColumn("image", image)
        .withColumn("row", F.struct(*fields))
        .withColumn("reason", _reason(columns))
        .drop("envelope", "image")
    )


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
        .when(_any(lambda name: image[name] == UNAVAILABLE, names), "unavailable_value")
        .when(_any(lost, names), "wrong_type")
        # A delete without REPLICA IDENTITY FULL has nothing but the key.
        .when(_any(lambda name: F.coalesce(image[name], F.lit("")) == "", REQUIRED), "key_only")
    )


def _any(condition, names) -> Column:
    return reduce(Column.__or__, map(condition, names))


def rows(parsed: DataFrame) -> DataFrame:
    """The changed rows, as Hudi takes them.

    Args:
        parsed: what `parse` returned.

    Returns:
        The columns of the row, `op`, `lsn`, and `_hoodie_is_deleted`, true for a delete.
    """
    changed = parsed.where("reason IS NULL")
    return changed.select("row.*", "op", "lsn", (F.col("op") == DELETE).alias("_hoodie_is_deleted"))


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
