"""Measures all watched pipelines in parallel, without waiting long for a server that hangs.

A broker or a store may hang instead of refusing connections. So each part of a pipeline (topic,
checkpoint, table) is read in its own thread: a hanging read does not delay the others, and counts
as failed after a few seconds.
"""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Generic, TypeVar

from lab_env.lab.monitor import metrics
from lab_env.lab.monitor.metrics import Position, Sample, Topic
from lab_env.lab.monitor.readers import TableReader, TopicReader, read_position
from lab_env.lab.monitor.watched import Pipeline, watched
from lab_env.platform.settings import Endpoints

# Maximum age of a reading while the next one still runs. Ages are recomputed each time, so only the
# newest changes are missing.
LIMIT_S = 5.0

Read = TypeVar("Read")
Report = Callable[[str], object]


class Latest(Generic[Read]):
    """Newest result of a read that is repeated and may fail or hang."""

    def __init__(self, read: Callable[[], Read], clock: Callable[[], float] = time.monotonic):
        self._read = read
        self._clock = clock
        self._newest: tuple[Read | None, float] = (None, 0.0)  # None if it failed; time it began
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._stopped = False
        self.why = ""  # the last failure

    @property
    def running(self) -> bool:
        """True while a read is running."""
        return self._thread is not None and self._thread.is_alive()

    def begin(self) -> None:
        """Start a new read, unless the last one is still running or `stop` was called."""
        with self._lock:
            if not self.running and not self._stopped:
                thread = threading.Thread(target=self._run, daemon=True)
                thread.start()
                self._thread = thread  # not before: another scrape may start waiting at any moment

    def stop(self) -> bool:
        """Start no more reads; return False if one is still running."""
        with self._lock:
            self._stopped = True
            return not self.running

    def get(self, seconds: float) -> Read | None:
        """Wait at most `seconds` for the value; return None if the read failed or is too old."""
        if self._thread is not None:
            self._thread.join(max(0.0, seconds))
        value, began = self._newest
        return value if self._clock() - began <= LIMIT_S else None

    def _run(self) -> None:
        began = self._clock()
        try:
            value, self.why = self._read(), ""
        except Exception as error:  # any error of a client library: the part is down
            value, self.why = None, f"{type(error).__name__}: {error}"
        self._newest = value, began


class Watch:
    """Latest values read from one pipeline's topic, checkpoint and table.

    `report` is called with a line of text whenever the reason why a part is unreadable changes.
    """

    def __init__(self, endpoints: Endpoints, pipeline: Pipeline, report: Report):
        self._labels = pipeline.labels
        self._report = report
        self._reported: dict[str, str] = {}
        self._reader = TopicReader(endpoints.kafka_bootstrap, pipeline.topic)
        self._position: Position | None = None
        self._checkpoint: Latest[Position] = Latest(
            lambda: read_position(endpoints, pipeline.checkpoint)
        )
        self._topic: Latest[Topic] = Latest(lambda: self._reader.read(self._position))
        table = TableReader(endpoints, pipeline.table) if pipeline.table else None
        self._table = Latest(table.read) if table else None

    def begin(self) -> None:
        """Start reading checkpoint and table."""
        self._checkpoint.begin()
        if self._table:
            self._table.begin()

    def begin_topic(self, seconds: float) -> None:
        """Wait at most `seconds` for the checkpoint's position, then start reading the topic."""
        self._position = self._checkpoint.get(seconds)
        self._topic.begin()

    def samples(self, deadline: float) -> Iterator[Sample]:
        """Yield the samples ready by the deadline (monotonic s); unread parts count as down."""
        table = self._table.get(deadline - time.monotonic()) if self._table else None
        topic = self._topic.get(deadline - time.monotonic())
        position = self._position or self._checkpoint.get(deadline - time.monotonic())
        self._report_failures()
        now = time.time()
        yield metrics.up_sample(self._labels, "topic", topic is not None)
        yield metrics.up_sample(self._labels, "checkpoint", position is not None)
        if position is not None:
            yield from metrics.checkpoint_samples(self._labels, position)
        if topic is not None:
            yield from metrics.topic_samples(self._labels, topic, now)
        if self._table:
            yield metrics.up_sample(self._labels, "table", table is not None)
        if table is not None:
            yield from metrics.table_samples(self._labels, table, now)

    def _report_failures(self) -> None:
        parts = {"topic": self._topic, "checkpoint": self._checkpoint, "table": self._table}
        for part, latest in parts.items():
            why = latest.why if latest else ""
            if why != self._reported.get(part, ""):
                name = "/".join(self._labels.values())
                self._report(f"{name}, {part}: {why or 'can be read again'}")
                self._reported[part] = why

    def close(self) -> None:
        """Close the connection to the broker, unless a read is still using it."""
        if self._topic.stop():
            self._reader.close()


class Collector:
    """Collects the samples of all watched pipelines of this LAB_HOME; see `Watch`."""

    def __init__(self, home: Path, endpoints: Endpoints, report: Report = lambda line: None):
        self._home = home
        self._endpoints = endpoints
        self._report = report
        self._watches: dict[Pipeline, Watch] = {}
        self._lock = threading.Lock()

    def samples(self, seconds: float = 0.7) -> list[Sample]:
        """Return the current metrics, after at most `seconds`."""
        return list(self._samples(time.monotonic() + seconds, seconds))

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            for watch in self._watches.values():
                watch.close()
            self._watches = {}

    def _samples(self, deadline: float, seconds: float) -> Iterator[Sample]:
        watches = self._current()
        yield Sample("pipeline_watched", {}, len(watches))
        for watch in watches:
            watch.begin()
        for watch in watches:
            watch.begin_topic(deadline - 0.4 * seconds - time.monotonic())
        for watch in watches:
            yield from watch.samples(deadline)

    def _current(self) -> list[Watch]:
        with self._lock:
            before = self._watches
            self._watches = {
                pipeline: before.get(pipeline) or Watch(self._endpoints, pipeline, self._report)
                for pipeline in watched(self._home)
            }
            for pipeline in before.keys() - self._watches.keys():
                before[pipeline].close()
            return list(self._watches.values())
