"""The streaming queries of the pipeline, each with its own checkpoint in the object store.

One query writes the dead letters; three write the same valid events as JSON files, as a
Copy-on-Write table and as a Merge-on-Read table. The others are optional: one keeps the revenue per
minute, and two read the changes of a database from a Debezium topic instead of events.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from pyspark.sql import DataFrame
from pyspark.sql.streaming import DataStreamWriter

from lab_env.pipeline import changes, options, parsing, revenue
from lab_env.pipeline.layout import FOLDERS as FOLDERS
from lab_env.pipeline.layout import checkpoint_path, table_path
from lab_env.platform.settings import settings

Rows = Callable[[DataFrame], DataFrame]
SinkWriter = Callable[[DataFrame, str], DataStreamWriter]

SINKS = ("json", "cow", "mor", "dead")
CHANGE_SINKS = ("changes", "dead_changes")
HUDI_SINKS = ("cow", "mor", "changes")  # written by Hudi's own sink, which counts batches


def chosen_sinks() -> tuple[str, ...]:
    """Names of the queries that a writer runs by default; the settings may add one."""
    return (*SINKS, "minutes") if settings().revenue_per_minute else SINKS


def json_writer(parsed: DataFrame, path: str) -> DataStreamWriter:
    """Append each valid event as a line of JSON."""
    return (
        parsing.valid_events(parsed)
        .writeStream.format("json")
        .partitionBy("partition_date")
        .option("path", path)
    )


def dead_letter_rows(parsed: DataFrame) -> DataFrame:
    """Malformed messages; only their query counts unknown fields, so each event is counted once."""
    return parsing.dead_letters(parsing.count_unknown_fields(parsed))


def parquet_writer(rows: Rows) -> SinkWriter:
    """Make a writer that appends the rows that `rows` selects from the parsed stream."""

    def writer(parsed: DataFrame, path: str) -> DataStreamWriter:
        return rows(parsed).writeStream.format("parquet").option("path", path)

    return writer


def hudi_writer(rows: Rows, table_options: dict[str, str]) -> SinkWriter:
    """Make a writer that upserts the rows that `rows` selects into a Hudi table."""

    def writer(parsed: DataFrame, path: str) -> DataStreamWriter:
        return (
            rows(parsed)
            .writeStream.format("hudi")
            .options(**table_options)
            .option("hoodie.table.name", path.rsplit("/", 1)[-1])
            .option("path", path)
        )

    return writer


def event_rows(parsed: DataFrame) -> DataFrame:
    """Valid events, with erase events marked as deletes."""
    return parsing.with_deletes(parsing.valid_events(parsed))


def change_rows(parsed: DataFrame) -> DataFrame:
    """Changed rows; this query also reports the position in the database's log."""
    return changes.rows(changes.with_log_ends(parsed))


def minutes_writer(parsed: DataFrame, path: str) -> DataStreamWriter:
    """Upsert the revenue of each minute: new totals replace the old ones."""
    delay = settings().watermark_seconds
    return revenue.minutes_writer(parsing.valid_events(parsed), path, delay)


WRITERS: dict[str, SinkWriter] = {
    "json": json_writer,
    "cow": hudi_writer(event_rows, options.COW),
    "mor": hudi_writer(event_rows, options.MOR),
    "dead": parquet_writer(dead_letter_rows),
    "minutes": minutes_writer,
    "changes": hudi_writer(change_rows, options.CHANGES),
    "dead_changes": parquet_writer(changes.dead_letters),
}


def share_cores(records: DataFrame, queries: int) -> DataFrame:
    """Give each query of a live topic its share of this machine's cores, at least one task.

    By default it has a task for each partition of the topic, or for each landed file. Small tasks
    are dear: while one combines the rows of a key, Spark estimates the size of its map again and
    again (`SizeTracker`), by its rule 52 times for 800 rows and 102 times for 100,000. In the tour
    on two cores, one task instead of three took 0.92 of the processor time, and half of the events
    were visible after 0.95 of the seconds (two runs each). A backlog of 200,000 events took as long
    with one as with three.

    On a cluster nothing changes: nobody has measured it there, and cores may come and go.
    """
    if not settings().spark_master.startswith("local"):
        return records
    return records.coalesce(max(1, settings().cores // queries))


def start_query(
    records: DataFrame,
    sink: str,
    base: str,
    trigger: dict,
    extra: Mapping[str, str] = MappingProxyType({}),
):
    """Start the streaming query of one sink.

    Args:
        records: stream of a topic; for `CHANGE_SINKS`, of a Debezium topic.
        trigger: keyword arguments of `DataStreamWriter.trigger`.
    """
    # A separate pool, so that one sink's long commit does not hold up the others.
    records.sparkSession.sparkContext.setLocalProperty("spark.scheduler.pool", sink)
    parse = changes.parse if sink in CHANGE_SINKS else parsing.parse
    return (
        WRITERS[sink](parse(records), table_path(base, sink))
        .queryName(sink)
        .option("checkpointLocation", checkpoint_path(base, sink))
        .options(**extra)
        .trigger(**trigger)
        .start()
    )
