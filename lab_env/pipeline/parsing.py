"""Turn Kafka records into typed order events, or return the reason why a record is malformed.

Every message is in exactly one of `valid_events` and `dead_letters`: the filters are complementary.
`messages` reads and validates each message once, in Spark's Python workers, which exchange columns
with the JVM as Arrow batches.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from types import ModuleType

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from lab_env.pipeline import messages
from lab_env.pipeline.messages import Malformed, read_event
from lab_env.platform.brokers.kafka_client import spark_options
from lab_env.shop.events import FIELDS

UNKNOWN_FIELDS = "unknown_fields"  # in a batch's progress: its events with fields outside `FIELDS`
TIME, TEXT = pa.timestamp("us", "UTC"), pa.string()
TYPES = {"amount": pa.decimal128(12, 2), "order_ts": TIME, "sent_at": TIME}  # the others are text
EVENT = pa.struct([(field, TYPES.get(field, TEXT)) for field in FIELDS])
PARSED = pa.schema({"event": EVENT, "reason": TEXT, "unknown": pa.list_(TEXT)})
BatchReader = Callable[[pa.RecordBatch], dict[str, pa.Array]]
NO_EVENT = (None,) * len(FIELDS)


def read_topic(spark: SparkSession, bootstrap: str, topic: str, **options: str) -> DataFrame:
    """Stream a topic's records, with Kafka's columns, from its beginning.

    The options are added to those of the Kafka source, for example `maxOffsetsPerTrigger="50000"`;
    `assign` selects topic partitions, the default is all.
    """
    chosen = {} if "assign" in options else {"subscribe": topic}
    return (
        spark.readStream.format("kafka")
        .options(**spark_options(bootstrap))
        .options(**chosen)
        # Kafka's default would turn messages of aborted transactions into orders.
        .option("kafka.isolation.level", "read_committed")
        # A stream defaults to `latest` and would lose messages sent before its first start.
        .option("startingOffsets", "earliest")
        # Offsets that the broker no longer has stop the query instead of being skipped silently.
        .option("failOnDataLoss", "true")
        .options(**options)
        .load()
    )


def parse(records: DataFrame) -> DataFrame:
    """Parse each record's value, and add the reason if it is malformed.

    Args:
        records: Kafka records with `value` (binary) and `timestamp`, and any other columns.

    Returns:
        The records with `event` (struct of the typed fields, null if malformed), `reason` (null for
        a valid one) and `unknown` (names of a valid one's unknown fields, if any).
    """
    return read_in_workers(records, _read_batch, PARSED, messages)


def read_in_workers(
    records: DataFrame, read: BatchReader, added: pa.Schema, *modules: ModuleType
) -> DataFrame:
    """Add columns that Spark's Python workers compute from the records.

    `read` computes a batch's new columns; workers get the code of `modules` and of this module.
    """
    # A cluster's workers have jiter, pandas and PyArrow, but not this code.
    for module in (*modules, sys.modules[__name__]):
        cloudpickle.register_pickle_by_value(module)
    fields = [*records.schema, *from_arrow_schema(added)]
    return records.mapInArrow(partial(read_batches, read), StructType(fields))


def read_batches(read: BatchReader, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Add the result of `read` to each batch."""
    for batch in batches:
        columns = dict(zip(batch.schema.names, batch.columns, strict=True)) | read(batch)
        yield pa.RecordBatch.from_pydict(columns)


def _read_batch(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    arrived = batch.column("timestamp").cast(pa.int64()).to_pylist()
    read = list(map(_read, batch.column("value").to_pylist(), arrived))
    events, reasons, unknown = zip(*read, strict=True) if read else ((), (), ())
    return {
        "event": structs(events, EVENT, pa.array([why is not None for why in reasons], pa.bool_())),
        "reason": pa.array(reasons, TEXT),
        "unknown": pa.array(unknown, pa.list_(TEXT)),
    }


def _read(value: bytes | None, arrived: int | None) -> tuple:
    try:
        event, unknown = read_event(value, arrived)
    except Malformed as malformed:
        return NO_EVENT, malformed.args[0], None
    return event, None, unknown


def structs(rows: Sequence[tuple], kind: pa.StructType, missing: pa.Array) -> pa.StructArray:
    """Convert rows to a column of structs, null where `missing` is true."""
    columns = zip(*rows, strict=True) if rows else [()] * len(kind)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, kind, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=missing)


def valid_events(parsed: DataFrame) -> DataFrame:
    """Valid events as typed rows, one per message, from the result of `parse`."""
    return parsed.where("reason IS NULL").select("event.*")


def dead_letters(parsed: DataFrame) -> DataFrame:
    """Malformed messages, each with its reason, its raw bytes and its position in the topic."""
    return parsed.where("reason IS NOT NULL").select(
        "reason", "value", "key", "topic", "partition", "offset", "timestamp"
    )


def count_unknown_fields(parsed: DataFrame) -> DataFrame:
    """Pass parsed rows through, and count valid events with unknown fields, which the tables drop.

    The counts are in `observedMetrics` of each batch's progress, under `UNKNOWN_FIELDS`.
    """
    return parsed.observe(UNKNOWN_FIELDS, *unknown_fields())


def unknown_fields() -> tuple[Column, Column]:
    """Aggregates of parsed rows: the number of valid events with unknown fields, and their names.

    Only the first and the last list of names in a batch are kept, so that a sender with a new name
    in each event cannot fill the writer's memory.
    """
    return (
        F.count("unknown").alias("events"),
        F.array_union(F.min("unknown"), F.max("unknown")).alias("fields"),
    )


def with_deletes(events: DataFrame) -> DataFrame:
    """Mark erase events as deletes for Hudi, which orders them by `order_ts` too."""
    return events.withColumn("_hoodie_is_deleted", F.col("op") == "erase")
