"""Helpers for checks of streaming functions: sources, leftover queries, session settings."""

import secrets
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Timer

from lab_env.course.answers import Unreadable, kind_of


def scratch_topic(lab) -> str:
    """Return an unused topic name for a check."""
    return lab.topic(f"scratch-{secrets.token_hex(3)}")


def in_batches(lab, topic: str, per_batch: int):
    """Return a topic's records as a stream from the beginning.

    Args:
        per_batch: maximum number of records per batch.
    """
    return (
        lab.spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", lab.endpoints.kafka_bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", per_batch)
        .load()
    )


def started(answer):
    """Return the answer if it is a running query.

    Raises:
        Unreadable: the answer is something else.
    """
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

    if isinstance(answer, DataStreamWriter):
        raise Unreadable(
            "Your function returned the description of a stream, and nobody has started it. "
            "`.start()` does, and returns the query."
        )
    if not isinstance(answer, StreamingQuery):
        raise Unreadable(
            f"Your function returned {kind_of(answer)}; the running query is expected, which "
            "`start()` gives."
        )
    return answer


@dataclass
class Stopped:
    """Flags for streams that had to be stopped.

    Args:
        late: True if the body waited for a stream that was then stopped at the time limit.
        left: True if a stream was still running after the body.
    """

    late: bool = False
    left: bool = False

    @property
    def at_all(self) -> bool:
        """True if any stream had to be stopped."""
        return self.late or self.left


@contextmanager
def own_streams_stopped(spark, seconds: float, may_leave: bool = False) -> Generator[Stopped]:
    """Stop streams started by the body if they run too long, or still run after the body.

    Args:
        seconds: how long the body may wait for its streams to end.
        may_leave: True if streams may still run after the body.
    """
    others = {query.id for query in spark.streams.active}
    stopped = Stopped()

    def own() -> list:
        return [query for query in spark.streams.active if query.id not in others]

    def stop_late() -> None:
        for query in own():
            stopped.late = True  # first: the body goes on as soon as its stream is stopped
            query.stop()

    timer = Timer(seconds, stop_late)
    timer.start()
    try:
        yield stopped
    finally:
        timer.cancel()
        for query in [] if may_leave else own():
            stopped.left = True
            query.stop()


@contextmanager
def session_spared() -> Generator[None]:
    """Let Hudi's sink skip a failed batch; by default it exits the JVM, which ends the session."""
    from pyspark.sql.streaming import DataStreamWriter

    options = {
        "hoodie.datasource.write.streaming.ignore.failed.batch": "true",
        "hoodie.datasource.write.streaming.retry.count": "1",
    }
    start = DataStreamWriter.start

    def spared(writer, *given, **named):
        return start(writer.options(**options), *given, **named)

    DataStreamWriter.start = spared
    try:
        yield
    finally:
        DataStreamWriter.start = start


@contextmanager
def spark_settings(spark, names: Mapping[str, str]) -> Generator[None]:
    """Change Spark SQL settings while the body runs, and restore the previous ones."""
    before = {name: spark.conf.get(name, None) for name in names}
    for name, value in names.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)
