"""Reads a pipeline's topic, checkpoint and table, without Spark."""

import time
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from lab_env.lab.monitor.metrics import Position, Topic
from lab_env.pipeline.checkpoint import first_offsets, newest_commit
from lab_env.platform.brokers.kafka_client import confluent_options
from lab_env.platform.errors import LabError
from lab_env.platform.settings import Endpoints
from lab_env.platform.store import StoredTable
from lab_env.tables.hudi.files import TableFiles
from lab_env.tables.hudi.history import HISTORY
from lab_env.tables.hudi.reader import TIMELINE, read_table
from lab_env.tables.hudi.table import Snapshot
from lab_env.tables.hudi.timeline import parse_timeline_key

TIMEOUT_S = 3.0


def read_position(endpoints: Endpoints, checkpoint: str) -> Position:
    """Return the position after a query's last committed batch; before one, the start position.

    If there is no checkpoint, or its query does not read exactly one topic, raise `LabError`.
    """
    commit = newest_commit(endpoints, checkpoint)
    if commit is None:
        return Position(first_offsets(endpoints, checkpoint))
    number, offsets = commit
    return Position(offsets, number)


class TopicReader:
    """Reads a topic's end offsets, and the last read and first unread message of a reader.

    It joins no consumer group and commits no offsets, so it leaves no trace on the broker.
    """

    def __init__(self, bootstrap: str, topic: str):
        self._topic = topic
        self._options = confluent_options(bootstrap) | {
            "group.id": "exporter",  # the client requires one
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",  # like the pipeline
            "log_level": 2,
            "socket.timeout.ms": int(TIMEOUT_S * 1000),
            "reconnect.backoff.max.ms": 500,
            # Two or three messages per topic partition are enough.
            "fetch.message.max.bytes": 65_536,
            "queued.min.messages": 1,
            "fetch.wait.max.ms": 50,
        }
        self._consumer: Consumer | None = None

    def read(self, position: Position | None) -> Topic:
        """Read the topic's current state, given the reader's position (None if unknown).

        If the broker does not answer, or has no such topic, raise `LabError`.
        """
        try:
            consumer = self._connected()
            bounds = self._bounds(consumer)
            ends = {number: end for number, (_, end) in bounds.items()}
            begins = {number: begin for number, (begin, _) in bounds.items()}
            if position is None:
                return Topic(ends, begins=begins)
            unread, read = self._times(consumer, bounds, position.offsets)
            return Topic(ends, position, unread, read, begins)
        except KafkaException as error:
            self.close()  # the next reading opens a new connection
            raise LabError(f"Kafka does not answer: {error.args[0].str()}.") from None

    def close(self) -> None:
        """Close the connection to the broker."""
        if self._consumer is not None:
            self._consumer.close()
        self._consumer = None

    def _connected(self) -> Consumer:
        if self._consumer is None:
            self._consumer = Consumer(self._options)
        return self._consumer

    def _bounds(self, consumer: Consumer) -> dict[int, tuple[int, int]]:
        """Return each topic partition's first offset and the offset after its last message."""
        known = consumer.list_topics(self._topic, TIMEOUT_S).topics[self._topic]
        if known.error or not known.partitions:
            raise LabError(f"There is no topic {self._topic}.")
        return {
            number: consumer.get_watermark_offsets(TopicPartition(self._topic, number), TIMEOUT_S)
            for number in sorted(known.partitions)
        }

    def _times(
        self,
        consumer: Consumer,
        bounds: Mapping[int, tuple[int, int]],
        offsets: Mapping[int, int],
    ) -> tuple[dict[int, float], dict[int, float]]:
        """Return, by topic partition, the times of the first unread and the last read message."""
        first_unread = {n: max(offsets.get(n, 0), first) for n, (first, _) in bounds.items()}
        # Start at the last message read, if the broker still has it. A transaction's marker may
        # follow it.
        begin = {n: max(first_unread[n] - 2, bounds[n][0]) for n in bounds}
        waiting = {n for n in bounds if begin[n] < bounds[n][1]}
        unread: dict[int, float] = {}
        read: dict[int, float] = {}
        if not waiting:
            return unread, read
        consumer.assign([TopicPartition(self._topic, n, begin[n]) for n in sorted(waiting)])
        deadline = time.monotonic() + TIMEOUT_S
        try:
            while waiting and time.monotonic() < deadline:
                message = consumer.poll(0.2)
                if message is None:
                    continue
                number = message.partition()
                if message.error():
                    if message.error().code() != KafkaError._PARTITION_EOF:
                        raise KafkaException(message.error())
                    waiting.discard(number)
                    continue
                kind, milliseconds = message.timestamp()
                target = unread if message.offset() >= first_unread[number] else read
                if kind and number in waiting:
                    target[number] = milliseconds / 1000
                done = first_unread[number] >= bounds[number][1]  # nothing is unread
                if target is unread or (done and message.offset() >= bounds[number][1] - 1):
                    waiting.discard(number)
        finally:
            consumer.unassign()
        if waiting:
            raise LabError(f"Kafka sent no message of {self._topic} within {TIMEOUT_S:.0f} s.")
        return unread, read


class TableReader:
    """Reads snapshots of one table; fetches each timeline and history file only once."""

    def __init__(self, endpoints: Endpoints, path: str):
        self._files = _Remembered(StoredTable(endpoints, path))

    def read(self) -> Snapshot:
        """Read the table's current state; raise `LookupError` if there is none."""
        return read_table(self._files)


class _Remembered:
    """A table's files; caches each immutable one as long as it is listed with the same size.

    Files of the timeline and its history are immutable, except the history's `_version_`.
    """

    def __init__(self, files: TableFiles):
        self.path = files.path
        self._files = files
        self._contents: dict[str, bytes] = {}
        self._sizes: dict[str, int] = {}

    def sizes(self) -> dict[str, int]:
        before, self._sizes = self._sizes, self._files.sizes()
        same = self._contents.keys() & self._sizes.keys()
        self._contents = {
            key: self._contents[key] for key in same if self._sizes[key] == before.get(key)
        }
        return self._sizes

    def read(self, key: str) -> bytes:
        if key in self._contents:
            return self._contents[key]
        content = self._files.read(key)
        archived = key.startswith(HISTORY) and not key.endswith("/_version_")
        if archived or (key.startswith(TIMELINE) and parse_timeline_key(key)):
            self._contents[key] = content
        return content
