"""The worker process of one sink: `python -m lab_env.workbench.bench.worker SINK SPARK`.

Each sink has its own process, so that its processor time can be measured, and keeps it for all
rounds, so that it stays warm. The same is true of each table format and of the parts `growth` and
`tuning`. Each line of input is a task as a JSON object, each line of output its reply. The JVM's
output goes to the log.
"""

import json
import sys
import time
from functools import partial

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from lab_env.lessons.recorded.contenders import FORMATS
from lab_env.pipeline import parsing, session
from lab_env.platform.processes.tasks import serve
from lab_env.workbench.bench.batches import batches_of
from lab_env.workbench.bench.format_worker import FormatTables
from lab_env.workbench.bench.growth_worker import GrowingTables
from lab_env.workbench.bench.sink_writes import SINKS, Sink
from lab_env.workbench.bench.tuning_worker import TunedStream

# Nobody opens these pages, and three of them would compete for ports.
SPARK = {"spark.ui.enabled": "false"}


class SinkWorker:
    """Tasks of one sink; each public method is a task and returns the reply.

    Args:
        name: `json`, `cow` or `mor`.
    """

    def __init__(self, spark: SparkSession, name: str):
        self.spark, self.name = spark, name
        self.endpoints = session.endpoints_of_environment()
        self.sink: Sink  # since `begin`
        self.query: StreamingQuery  # since `follow`

    def begin(self, base: str, extra_options: dict[str, str]) -> dict:
        """Start a round in a new folder, with Hudi options in addition to the pipeline's."""
        self.sink = SINKS[self.name](self.spark, self.name, base, extra_options)
        return {}

    def ingest(self, topic: str, batch: int) -> dict:
        """Write the topic's messages that are not written yet.

        Returns:
            `batches`, as in `batches_of`.
        """
        query = self._start(topic, {"availableNow": True}, maxOffsetsPerTrigger=str(batch))
        query.awaitTermination()
        return {"batches": batches_of(query)}

    def follow(self, topic: str, trigger: float) -> dict:
        """Start to write messages as they arrive in the topic, a batch every `trigger` seconds."""
        self.query = self._start(topic, {"processingTime": f"{trigger} seconds"})
        return {}

    def settle(self) -> dict:
        """Wait until all messages of the topic are committed."""
        self.query.processAllAvailable()
        return {}

    def stop_following(self) -> dict:
        """Settle, then stop writing; return the `batches`."""
        self.settle()
        self.query.stop()
        return {"batches": batches_of(self.query)}

    def _start(self, topic: str, trigger: dict, **limits: str):
        records = parsing.read_topic(self.spark, self.endpoints.kafka_bootstrap, topic, **limits)
        return (
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


def main(name: str, spark: str) -> None:
    """Serve tasks until stdin closes.

    Args:
        name: a sink, `growth`, `tuning` or a table format.
        spark: additional Spark properties of the session, as JSON.
    """
    worker = serve(partial(_worker, name, json.loads(spark)), _failure)
    worker.spark.stop()


def _worker(
    name: str, extra: dict[str, str]
) -> SinkWorker | GrowingTables | TunedStream | FormatTables:
    spark = session.session_of_environment(f"bench {name}", SPARK | extra)
    others = {"growth": GrowingTables, "tuning": TunedStream} | dict.fromkeys(FORMATS, FormatTables)
    return others[name](spark) if name in others else SinkWorker(spark, name)


def _failure(error: Exception) -> dict:
    return {"error": f"{type(error).__name__}: {error}"[:2000]}


if __name__ == "__main__":
    main(*sys.argv[1:])
