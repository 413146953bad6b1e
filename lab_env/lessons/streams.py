"""The streams of a check: hidden messages for a learner's function, its query, and its end."""

import secrets
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Timer

from lab_env.course.answers import Unreadable, kind_of


def scratch_topic(lab) -> str:
    """The name of a topic that a check makes for itself."""
    return lab.topic(f"scratch-{secrets.token_hex(3)}")


def in_batches(lab, topic: str, per_batch: int):
    """A topic's records as a stream, from its beginning, so many in each batch."""
    return (
        lab.spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", lab.endpoints.kafka_bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", per_batch)
        .load()
    )


def started(answer):
    """The running query of an answer.

    Raises:
        Unreadable: it is something else.
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
    """Streams that had to be stopped.

    Args:
        late: when the time was up: the function waited for an end that did not come.
        left: when the function had returned, and they ran on.
    """

    late: bool = False
    left: bool = False

    @property
    def at_all(self) -> bool:
        """True if one still ran when the function had returned."""
        return self.late or self.left


@contextmanager
def own_streams_stopped(spark, seconds: float, may_leave: bool = False) -> Generator[Stopped]:
    """Stop the streams that the body starts: those that run for too long, and what it leaves.

    Args:
        seconds: how long the body may wait for an end that may never come.
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
    """Let Hudi's sink drop a batch that fails; by itself it ends the JVM, and so the session."""
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
