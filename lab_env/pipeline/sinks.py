"""The four streaming queries of the pipeline, each with its own checkpoint in the object store.

One query owns the dead letters; the other three write the same valid events as JSON files, as a
Copy-on-Write table and as a Merge-on-Read table.
"""

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql.streaming import DataStreamWriter

from lab_env.pipeline import options, parsing

SINKS = ("json", "cow", "mor", "dead")
FOLDERS = {"json": "orders_json", "cow": "orders_cow", "mor": "orders_mor", "dead": "dead_letters"}


def table_path(base: str, sink: str) -> str:
    """Where a sink writes.

    Args:
        base: folder of the pipeline's tables, for example `s3a://lakehouse/tour`.
        sink: one of `SINKS`.

    Returns:
        The path of the sink's files.
    """
    return f"{base}/{FOLDERS[sink]}"


def json_writer(parsed: DataFrame, path: str) -> DataStreamWriter:
    """Append each valid event as a line of JSON."""
    return (
        parsing.valid_events(parsed)
        .writeStream.format("json")
        .partitionBy("partition_date")
        .option("path", path)
    )


def dead_letter_writer(parsed: DataFrame, path: str) -> DataStreamWriter:
    """Append each malformed message, raw, with its reason and its place in the topic."""
    return dead_letter_rows(parsed).writeStream.format("parquet").option("path", path)


def dead_letter_rows(parsed: DataFrame) -> DataFrame:
    """The malformed messages; the query that reads them also counts unknown fields of the others.

    Of the four queries one counts, so that an event counts once.
    """
    return parsing.dead_letters(parsing.count_unknown_fields(parsed))


def hudi_writer(table_options: dict[str, str]) -> Callable[[DataFrame, str], DataStreamWriter]:
    """A writer that upserts the valid events into a Hudi table; erase events delete."""

    def writer(parsed: DataFrame, path: str) -> DataStreamWriter:
        return (
            parsing.with_deletes(parsing.valid_events(parsed))
            .writeStream.format("hudi")
            .options(**table_options)
            .option("hoodie.table.name", path.rsplit("/", 1)[-1])
            .option("path", path)
        )

    return writer


WRITERS: dict[str, Callable[[DataFrame, str], DataStreamWriter]] = {
    "json": json_writer,
    "cow": hudi_writer(options.COW),
    "mor": hudi_writer(options.MOR),
    "dead": dead_letter_writer,
}


def start_query(parsed: DataFrame, sink: str, base: str, trigger: dict):
    """Start the streaming query of one sink.

    Args:
        parsed: the parsed stream.
        sink: one of `SINKS`.
        base: folder of the pipeline's tables.
        trigger: keyword arguments of `DataStreamWriter.trigger`.

    Returns:
        The running `StreamingQuery`.
    """
    # A pool of its own, so that one sink's long commit does not hold up the others.
    parsed.sparkSession.sparkContext.setLocalProperty("spark.scheduler.pool", sink)
    return (
        WRITERS[sink](parsed, table_path(base, sink))
        .queryName(sink)
        .option("checkpointLocation", f"{base}/_checkpoints/{sink}")
        .outputMode("append")
        .trigger(**trigger)
        .start()
    )
