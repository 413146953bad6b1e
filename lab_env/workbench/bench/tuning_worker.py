"""Tasks of the worker `tuning`: stream a topic into a Hudi table with given options."""

import time

from pyspark.sql import SparkSession

from lab_env.pipeline import parsing
from lab_env.pipeline.session import endpoints_of_environment
from lab_env.pipeline.sinks import event_rows, hudi_writer, table_path
from lab_env.platform.brokers.topics import topic_end_offsets
from lab_env.workbench.bench.batches import batches_of

TIMEOUT_S = 90


class TunedStream:
    """A stream from a topic into a table; each method is a task of the worker."""

    def __init__(self, spark: SparkSession):
        self.spark = spark
        self.endpoints = endpoints_of_environment()

    def begin(self, base: str, kind: str, table_options: dict[str, str]) -> dict:
        """Choose the table for the tasks that follow.

        Args:
            base: a new folder, `s3a://...`.
            kind: `cow` or `mor`.
        """
        self.base, self.table_options = base, table_options
        self.path = table_path(base, kind)
        return {}

    def follow(self, topic: str, trigger: float, batch: int = 0) -> dict:
        """Start to write the topic's messages, both existing and new ones.

        Args:
            trigger: seconds between the starts of two batches; 0 starts each right after the one
                before.
            batch: maximum messages per batch; 0 for no limit.
        """
        limits = {"maxOffsetsPerTrigger": str(batch)} if batch else {}
        kafka = self.endpoints.kafka_bootstrap
        records = parsing.read_topic(self.spark, kafka, topic, **limits)
        self.topic = topic
        self.query = (
            hudi_writer(event_rows, self.table_options)(parsing.parse(records), self.path)
            .option("checkpointLocation", f"{self.base}/_checkpoint")
            .outputMode("append")
            .trigger(processingTime=f"{trigger} seconds")
            .start()
        )
        return {}

    def settle(self) -> dict:
        """Wait until all messages that the topic has now are committed.

        `processAllAvailable` would also wait for one more trigger, which finds no messages.

        Raises:
            RuntimeError: the stream ended, or took longer than TIMEOUT_S seconds.
        """
        ends = topic_end_offsets(self.endpoints.kafka_bootstrap, self.topic)
        deadline = time.monotonic() + TIMEOUT_S
        while reached(self.query.lastProgress) != ends:
            if not self.query.isActive:
                raise RuntimeError(f"the stream ended: {self.query.exception()}")
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"after {TIMEOUT_S} s the stream is at {reached(self.query.lastProgress)}, "
                    f"the topic ends at {ends}"
                )
            time.sleep(0.1)
        return {}

    def stop_following(self) -> dict:
        """Stop writing; return the `batches`."""
        self.query.stop()
        return {"batches": batches_of(self.query)}

    def run_query(self) -> dict:
        """Open and sum the table; return `answer`: number of rows, and the sum of their cents."""
        table = self.spark.read.format("hudi").load(self.path)
        found = table.selectExpr("count(*)", "cast(sum(amount) * 100 AS long)").collect()[0]
        return {"answer": list(found)}


def reached(report: dict | None) -> dict[int, int]:
    """Return a progress report's end offsets by topic partition; empty if it has none."""
    if not report or not report["sources"][0]["endOffset"]:
        return {}
    (offsets,) = report["sources"][0]["endOffset"].values()
    return {int(partition): offset for partition, offset in offsets.items()}
