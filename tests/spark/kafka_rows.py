"""Kafka records in Spark, as DataFrames and as streams, for the tests of their parsers."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

COLUMNS = "value BINARY, key BINARY, topic STRING, partition INT, offset LONG, timestamp TIMESTAMP"
NOW = datetime(2026, 11, 21, 2, 14, 15, tzinfo=UTC)


def frame_of(
    spark: SparkSession,
    values: Iterable[bytes | None],
    keys: Iterable[bytes | None] | None = None,
    topic: str = "orders",
) -> DataFrame:
    """Return records of one topic partition, with offsets from 0; keys default to `k`."""
    values = list(values)
    pairs = zip(values, keys or [b"k"] * len(values), strict=True)
    rows = [
        (*(None if part is None else bytearray(part) for part in pair), topic, 0, offset, NOW)
        for offset, pair in enumerate(pairs)
    ]
    return spark.createDataFrame(rows, COLUMNS)


def streamed(
    spark: SparkSession,
    folder: Path,
    batches: Iterable[list[bytes]],
    rows: Callable[[DataFrame], DataFrame],
    name: str,
) -> list[dict]:
    """Stream each list of values as a batch of a query, and return the query's reports."""
    topic = str(folder / "topic")
    for values in batches:
        frame_of(spark, values).coalesce(1).write.mode("append").parquet(topic)
    stream = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", "1").parquet(topic)
    query = rows(stream).writeStream.format("noop").queryName(name)
    query = query.option("checkpointLocation", str(folder / "checkpoint")).start()
    query.processAllAvailable()
    query.stop()
    offsets = {"sources": [{"startOffset": None, "endOffset": {"t": {"0": 1}}}]}
    return [report | offsets for report in query.recentProgress]
