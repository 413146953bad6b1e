"""The worker process of one sink: `python -m lab_env.workbench.bench.worker SINK SPARK`.

Each sink has its own process, so that its processor time can be measured. The process lives for
all rounds, so that it stays warm. The table formats and the parts `growth` and `tuning` also have
their own. Each line of input is a task as a JSON object, each line of output its reply. The JVM's
output goes to the log.
"""

import json
import sys
import time
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from lab_env.lessons.recorded.contenders import FORMATS
from lab_env.pipeline import parsing, session
from lab_env.pipeline.sinks import event_rows, hudi_writer
from lab_env.platform.brokers.topics import topic_end_offsets
from lab_env.platform.processes.tasks import serve
from lab_env.workbench.bench.format_worker import FormatTables
from lab_env.workbench.bench.growth_worker import GrowingTables
from lab_env.workbench.bench.sink_writes import SINKS, HudiTable, Sink

# Nobody opens these pages, and three of them would compete for ports.
SPARK = {"spark.ui.enabled": "false"}
SETTLE_TIMEOUT_S = 90


class SinkWorker:
    """Tasks of one sink; each public method is a task and returns the reply.

    `batches` in a reply is the result of `_batches`.
    """

    def __init__(self, spark: SparkSession, name: str):
        self.spark, self.name = spark, name
        self.kafka = session.endpoints_of_environment().kafka_bootstrap
        self.sink: Sink  # since `begin`
        self.topic: str  # since `follow`, as is `query`
        self.query: StreamingQuery

    def begin(self, base: str, extra_options: dict[str, str]) -> dict:
        """Start a round in a new folder, with Hudi options in addition to the pipeline's."""
        self.sink = SINKS[self.name](self.spark, self.name, base, extra_options)
        return {}

    def ingest(self, topic: str, batch: int) -> dict:
        """Write the topic's messages that have not been written yet; return the `batches`."""
        self._start(topic, batch, availableNow=True)
        self.query.awaitTermination()
        return {"batches": _batches(self.query)}

    def follow(self, topic: str, trigger: float, batch: int = 0) -> dict:
        """Start writing the topic's messages, both existing and new ones.

        Args:
            trigger: seconds between the starts of two batches; 0 starts each batch right after the
                previous one.
            batch: maximum messages per batch; 0 for no limit.
        """
        self._start(topic, batch, processingTime=f"{trigger} seconds")
        return {}

    def settle(self) -> dict:
        """Wait until all messages of the topic are committed."""
        self.query.processAllAvailable()
        return {}

    def stop_following(self) -> dict:
        """Stop writing; return the `batches`."""
        self.query.stop()
        return {"batches": _batches(self.query)}

    def _start(self, topic: str, batch: int, **trigger) -> None:
        limits = {"maxOffsetsPerTrigger": str(batch)} if batch else {}
        records = parsing.read_topic(self.spark, self.kafka, topic, **limits)
        self.topic = topic
        self.query = (
            self.sink.writer(parsing.parse(records))
            .option("checkpointLocation", f"{self.sink.base}/_checkpoint")
            .outputMode("append")
            .trigger(**trigger)
            .start()
        )

    def run_table_services(self) -> dict:
        """Run the sink's table services."""
        self.sink.run_table_services()
        return {}

    def run_query(self, query: str, batch: int = 0, warm: int = 2) -> dict:
        """Open the table, run a query, and repeat it on the open table.

        Args:
            query: as in `Sink.run_query`, or `incremental` or `time travel`.
            batch: batch after which an incremental query starts, or whose state a time-travel query
                reads.

        Returns:
            `cold`, seconds of opening and the first run; `warm`, seconds of each repetition;
            `answer`.
        """
        open_table = {
            "incremental": lambda: self.sink.changed_since(batch),
            "time travel": lambda: self.sink.as_of(batch),
        }.get(query, self.sink.table)
        began = time.monotonic()
        table = open_table()
        answers = [tuple(self.sink.run_query(query, table).collect()[0])]
        cold = time.monotonic() - began
        seconds = []
        for _ in range(warm):
            began = time.monotonic()
            answers.append(tuple(self.sink.run_query(query, table).collect()[0]))
            seconds.append(time.monotonic() - began)
        if len(set(answers)) > 1:
            raise RuntimeError(f"{query} gave different answers: {answers}")
        return {"cold": cold, "warm": seconds, "answer": list(answers[0])}


class TunedTable(HudiTable):
    """A table of the part `tuning`; `extra_options` contains all its options."""

    def writer(self, parsed: DataFrame) -> DataStreamWriter:
        return hudi_writer(event_rows, self.extra_options)(parsed, self.path)


class TunedWorker(SinkWorker):
    """Tasks of the worker `tuning`, which streams a topic into tables with given options."""

    def begin(self, base: str, extra_options: dict[str, str], kind: str = "mor") -> dict:
        """Create a table, `cow` or `mor`, in a new folder."""
        self.sink = TunedTable(self.spark, kind, base, extra_options)
        return {}

    def settle(self) -> dict:
        """Wait until all messages that the topic has now are committed.

        `processAllAvailable` would also wait for one more trigger, which finds no messages.
        """
        ends = topic_end_offsets(self.kafka, self.topic)
        deadline = time.monotonic() + SETTLE_TIMEOUT_S
        while reached(self.query.lastProgress) != ends:
            if not self.query.isActive:
                raise RuntimeError(f"the stream ended: {self.query.exception()}")
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"after {SETTLE_TIMEOUT_S} s the stream is at "
                    f"{reached(self.query.lastProgress)}, the topic ends at {ends}"
                )
            time.sleep(0.1)
        return {}


def reached(report: dict | None) -> dict[int, int]:
    """Return a progress report's end offsets by topic partition; empty if it has none."""
    if not report or not report["sources"][0]["endOffset"]:
        return {}
    (offsets,) = report["sources"][0]["endOffset"].values()
    return {int(partition): offset for partition, offset in offsets.items()}


def _batches(query: StreamingQuery) -> list[dict]:
    """Return rows, seconds and end offsets of each batch that wrote data."""
    return [
        {
            "batch": report["batchId"],
            "rows": report["numInputRows"],
            "seconds": report["durationMs"]["triggerExecution"] / 1000,
            "end_offsets": next(iter(report["sources"][0]["endOffset"].values())),
        }
        for report in query.recentProgress
        if report["numInputRows"]
    ]


def _worker(name: str, extra: dict[str, str]) -> SinkWorker | GrowingTables | FormatTables:
    spark = session.session_of_environment(f"bench {name}", SPARK | extra)
    if name in FORMATS:
        return FormatTables(spark)
    if name == "growth":
        return GrowingTables(spark)
    return TunedWorker(spark, name) if name == "tuning" else SinkWorker(spark, name)


def _failure(error: Exception) -> dict:
    return {"error": f"{type(error).__name__}: {error}"[:2000]}


if __name__ == "__main__":
    serve(partial(_worker, sys.argv[1], json.loads(sys.argv[2])), _failure).spark.stop()
