"""The process of one sink: `python -m lab_env.bench.agent SINK`, told what to do line by line.

Each sink has a process of its own, warm for all rounds, so that its processor time is its own; so has
`growth`, which makes tables that grow. It reads one JSON object a line and answers with one; what the JVM
prints goes to its log.
"""

import json
import os
import sys
import time
import traceback
from pathlib import Path

from pyspark.sql import SparkSession

from lab_env.bench.growth_worker import GrowingTables
from lab_env.bench.sink_writes import SINKS
from lab_env.pipeline import parsing, session
from lab_env.pipeline.writer import endpoints_of_environment

# Nobody looks at these pages, and three of them would compete for ports.
SPARK = {"spark.ui.enabled": "false"}


class Agent:
    """Does what it is told with one sink.

    Args:
        spark: the session.
        name: `json`, `cow` or `mor`.
    """

    def __init__(self, spark: SparkSession, name: str):
        self.spark, self.name = spark, name
        self.endpoints = endpoints_of_environment()
        self.sink = self.query = None

    def begin(self, base: str, extra_options: dict[str, str]) -> dict:
        """A new round: another folder, and Hudi options on top of the pipeline's."""
        self.sink = SINKS[self.name](self.spark, self.name, base, extra_options)
        return {}

    def ingest(self, topic: str, batch: int) -> dict:
        """Write all that the topic holds and was not yet written, in batches.

        Args:
            topic: what to read.
            batch: most messages a batch.

        Returns:
            `batches`, as `_batches` tells them.
        """
        query = self._start(topic, {"availableNow": True}, maxOffsetsPerTrigger=str(batch))
        query.awaitTermination()
        return {"batches": _batches(query)}

    def follow(self, topic: str, trigger: float) -> dict:
        """Begin to write what the topic gets, a batch each `trigger` seconds."""
        self.query = self._start(topic, {"processingTime": f"{trigger} seconds"})
        return {}

    def settle(self) -> dict:
        """Wait until all that the topic holds is committed."""
        self.query.processAllAvailable()
        return {}

    def halt(self) -> dict:
        """Settle, then end; returns the `batches`."""
        self.settle()
        self.query.stop()
        return {"batches": _batches(self.query)}

    def _start(self, topic: str, trigger: dict, **limits: str):
        records = parsing.read_topic(self.spark, self.endpoints.kafka_bootstrap, topic, **limits)
        return (
            self.sink.writer(parsing.parse(records))
            .option("checkpointLocation", f"{self.sink.base}/_checkpoint")
            .outputMode("append")
            .trigger(**trigger)
            .start()
        )

    def tidy(self) -> dict:
        """Run the sink's table services."""
        self.sink.tidy()
        return {}

    def ask(self, query: str, batch: int = 0, warm: int = 2) -> dict:
        """Ask a query, first of a table opened anew, then again of the opened one.

        Args:
            query: as in `Sink.ask`, or `incremental` or `time travel`.
            batch: the batch that the last two are about.
            warm: how often to ask again.

        Returns:
            `cold`: seconds of the first time; `warm`: seconds of the others; `answer`: what they say.
        """
        opening = {
            "incremental": lambda: self.sink.changed_since(batch),
            "time travel": lambda: self.sink.as_of(batch),
        }.get(query, self.sink.table)
        began = time.monotonic()
        table = opening()
        answers = [tuple(self.sink.ask(query, table).collect()[0])]
        cold = time.monotonic() - began
        seconds = []
        for _ in range(warm):
            began = time.monotonic()
            answers.append(tuple(self.sink.ask(query, table).collect()[0]))
            seconds.append(time.monotonic() - began)
        if len(set(answers)) > 1:
            raise RuntimeError(f"{query} answered {answers} in a row")
        return {"cold": cold, "warm": seconds, "answer": list(answers[0])}


def _batches(query) -> list[dict]:
    """The batches of a query that wrote something: rows, seconds and the offsets behind the last ones."""
    done = [report for report in query.recentProgress if report["numInputRows"]]
    return [
        {
            "batch": report["batchId"],
            "rows": report["numInputRows"],
            "seconds": report["durationMs"]["triggerExecution"] / 1000,
            "end_offsets": next(iter(report["sources"][0]["endOffset"].values())),
        }
        for report in done
    ]


def main(name: str, jars: str, java_home: str, java_options: str) -> None:
    """Answer until the other end hangs up.

    Args:
        name: a sink, or `growth`.
        jars: folder of the connector jars.
        java_home: the Java to run on.
        java_options: of its JVM.
    """
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # all that the JVM prints
    spark = session.build_session(
        endpoints_of_environment(),
        Path(jars),
        Path(java_home),
        f"bench {name}",
        SPARK | {"spark.driver.extraJavaOptions": java_options},
    )
    agent = GrowingTables(spark) if name == "growth" else Agent(spark, name)
    replies.write("{}\n")
    for line in sys.stdin:
        order = json.loads(line)
        try:
            reply = getattr(agent, order.pop("do"))(**order)
        except Exception as error:
            traceback.print_exc()
            reply = {"error": f"{type(error).__name__}: {error}"[:2000]}
        replies.write(json.dumps(reply) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
