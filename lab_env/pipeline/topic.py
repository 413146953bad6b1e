"""Keep a Kafka stream correct when its topic is recreated, loses its end or gets more partitions.

Spark's checkpoint names a topic and its offsets. A topic that was deleted and recreated has the
same name but other messages at these offsets, so each checkpoint also keeps the topic's id.

A broker acknowledges a message that is not yet on its disk. If a power cut takes messages that no
other broker has, new ones get their offsets, and a stream that has read the old ones skips them.
Each start of a broker begins a new leader epoch, and a message knows the epoch in which it was
written. So each checkpoint also keeps the epochs, and where a message that it has read is of a
later one, the topic has lost its end.

When partitions are added to a topic, most keys move to another partition, and Kafka keeps events in
sequence only within one. If a batch takes only part of a backlog, it may read an erase before the
event that creates the order. Hudi keeps no trace of a delete that finds no row, so the erased order
would return. After such a change, each batch therefore takes everything available, because within a
batch an order's newest event wins. This ends once all messages sent around the change are in the
tables: then the partitions are *settled*.
"""

import contextlib
import json
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from lab_env.pipeline import hadoop
from lab_env.pipeline.checkpoint import topic_offsets
from lab_env.pipeline.guard import ERASED_RETURN, REPLAY, Refused

NOTE = "topic.json"  # in a checkpoint; Spark passes over it
LOOK_SECONDS = 2.0
# Producers refresh a topic's partitions every five minutes, and retry a send for as long (the
# defaults of librdkafka; Java's clients retry for two).
SETTLE_SECONDS = 600.0
RECREATED = "was deleted and recreated"
LOST_ITS_END = "has lost its newest messages"
LOOK_BACK = 20  # offsets: the last ones may be marks of transactions, which no consumer gets
NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # from a broker before Kafka 2.8


START_ANEW = (
    "start a pipeline in a new folder. Or, to keep the Hudi tables, delete all of {folder}, move "
    "the folders of JSON files and dead letters away (Spark skips batches that these have), and "
    f"set {REPLAY} for one start. {ERASED_RETURN}"
)


class StartAgain(Exception):
    """The queries must be restarted with other options for reading their topic."""


@dataclass(frozen=True)
class Note:
    """Facts about a query's topic, stored in an extra file in its checkpoint.

    Args:
        id: the topic's id; empty if its broker provides none.
        settled: number of settled partitions; if the topic has no others, a batch may take only
        part of a backlog.
        seen: number of partitions at the last check; `since` is when that number was first seen.
        epochs: leader epoch by topic partition, as a text; empty if the broker provides none.
    """

    id: str
    settled: int
    seen: int
    since: float
    epochs: dict[str, int] = field(default_factory=dict)


class Topic:
    """Kafka admin client for one topic, in Spark's JVM; it signs in as Spark's Kafka source does.

    `connection` has the `kafka.*` options of Spark's source.
    """

    def __init__(self, spark: SparkSession, name: str, connection: dict[str, str]):
        self._jvm, self.name = spark._jvm, name
        self._kafka = spark._jvm.org.apache.kafka
        properties = spark._jvm.java.util.Properties()
        for option, value in connection.items():
            properties.setProperty(option.removeprefix("kafka."), value)
        self._properties = properties
        self._admin = self._kafka.clients.admin.Admin.create(properties)

    def describe(self) -> tuple[str, int]:
        """Id of the topic (empty if the broker provides none) and its number of partitions."""
        found = self._admin.describeTopics([self.name]).allTopicNames().get().get(self.name)
        known = found.topicId().toString()
        return "" if known == NO_ID else known, found.partitions().size()

    def ends(self, partitions: int) -> dict[int, int]:
        """End offset of each partition: the one after the last message that a stream may read."""
        latest = self._kafka.clients.admin.OffsetSpec.latest()
        return {number: at for number, (at, *_) in self._offsets(partitions, latest).items()}

    def epochs(self, partitions: int) -> dict[int, tuple[int, int]]:
        """Leader epoch of each partition, and its end offset; none if the broker provides none."""
        latest = self._kafka.clients.admin.OffsetSpec.latest()
        found = self._offsets(partitions, latest)
        return {n: (epoch.get(), at) for n, (at, _, epoch) in found.items() if epoch.isPresent()}

    def epochs_before(self, offsets: dict[int, int]) -> dict[int, int]:
        """Leader epoch in which the last message before an offset was written, by partition.

        A partition without such a message is left out.
        """
        properties = self._jvm.java.util.Properties()
        properties.putAll(self._properties)
        properties.setProperty("auto.offset.reset", "none")
        for part in "key", "value":
            name = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
            properties.setProperty(f"{part}.deserializer", name)
        consumer = self._kafka.clients.consumer.KafkaConsumer(properties)
        try:
            return {n: e for n, at in offsets.items() if (e := self._epoch(consumer, n, at)) >= 0}
        finally:
            consumer.close()

    def _epoch(self, consumer, partition: int, offset: int) -> int:
        place = self._kafka.common.TopicPartition(self.name, partition)
        places = self._jvm.java.util.List.of(place)
        consumer.assign(places)
        begin = consumer.beginningOffsets(places).get(place)
        end = min(offset, consumer.endOffsets(places).get(place))
        consumer.seek(place, max(begin, end - LOOK_BACK))
        newest, five = -1, self._jvm.java.time.Duration.ofSeconds(5)
        for _ in range(LOOK_BACK):  # each poll brings some messages, or the broker is gone
            if not begin < end > consumer.position(place):
                break
            for record in consumer.poll(five).records(place):
                if record.offset() >= end:
                    return newest
                newest = record.leaderEpoch().orElse(-1)
        return newest

    def first_since(self, partitions: int, milliseconds: int) -> dict[int, tuple[int, int]]:
        """Offset and time (ms since 1970) of each partition's first message at or after a time.

        A partition without such a message is left out.
        """
        spec = self._kafka.clients.admin.OffsetSpec.forTimestamp(milliseconds)
        found = self._offsets(partitions, spec)
        return {number: (at, time) for number, (at, time, _) in found.items() if at >= 0}

    def _offsets(self, partitions: int, spec) -> dict[int, tuple[int, int, Any]]:
        wanted = self._jvm.java.util.HashMap()
        for number in range(partitions):
            wanted.put(self._kafka.common.TopicPartition(self.name, number), spec)
        # Like the queries: up to the first message of an open transaction.
        level = self._kafka.common.IsolationLevel.READ_COMMITTED
        options = self._kafka.clients.admin.ListOffsetsOptions(level)
        found = self._admin.listOffsets(wanted, options).all().get()
        return {
            entry.getKey().partition(): (at.offset(), at.timestamp(), at.leaderEpoch())
            for entry in found.entrySet()
            for at in [entry.getValue()]
        }


class TopicWatch(threading.Thread):
    """Decides how the queries read their topic, and watches the topic while they run.

    Args:
        checkpoints: the `checkpointLocation` of each query.
        limit: maximum messages per batch; 0 for no limit.

    Attributes:
        options: current options of Spark's source for the queries.
        says: reason why `limit` is not applied now; empty if it is, or if there is no limit.
        error: reason why the queries must end; None while they may continue.

    Raises:
        Refused: the topic is missing, or a checkpoint has read another topic.
    """

    def __init__(
        self, spark: SparkSession, topic: Topic, checkpoints: Sequence[str], limit: int = 0
    ):
        super().__init__(name="topic", daemon=True)
        self._spark, self._topic, self._wanted_limit = spark, topic, limit
        self._stopped = threading.Event()
        self._ends: dict[int, int] | None = None  # of the messages sent until the topic had settled
        self.error: Exception | None = None
        try:
            self._id, self._seen = topic.describe()
        except Py4JJavaError as error:
            raise Refused(
                f"Kafka does not know the topic {topic.name}: {_cause(error)}",
                "create the topic, or check the broker's address.",
            ) from None
        self._found = topic.epochs(self._seen)  # at the last look
        self._notes = {path: self._noted(path) for path in checkpoints}
        self._write_notes()
        in_step = self._settled >= self._seen
        # The partitions of a limited query may not change while it runs.
        self._assigned = self._seen if limit and in_step else 0
        assigned = {topic.name: list(range(self._assigned))}
        limited = {"assign": json.dumps(assigned), "maxOffsetsPerTrigger": str(limit)}
        self.options: dict[str, str] = limited if self._assigned else {}
        self.says = "" if in_step or not limit else _all_at_once(topic.name, limit)

    def run(self) -> None:
        """Check the topic every few seconds; stop with `error` set if the queries must end."""
        while not self._stopped.is_set():
            try:
                self._look()
            except (Py4JError, OSError):  # broker, store or JVM are gone: the queries notice it
                pass
            except Exception as error:  # any failure: a topic without its watch is not safe
                self.error = error
                return
            self._stopped.wait(LOOK_SECONDS)

    def check_id(self) -> None:
        """Raise `Refused` if the topic was recreated; a query may fail of it before `run` sees it.

        Nothing is raised if the broker does not answer.
        """
        with contextlib.suppress(Py4JError):
            self._check_id(self._topic.describe()[0])

    def stop(self) -> None:
        """Stop watching; call it when the queries have ended or are about to end."""
        self._stopped.set()
        self.join(timeout=5)
        with contextlib.suppress(Py4JError, OSError):
            self._settle()

    @property
    def _settled(self) -> int:
        return min(note.settled for note in self._notes.values())

    def _look(self) -> None:
        found, partitions = self._topic.describe()
        self._check_id(found)
        if 0 < self._assigned < partitions:
            raise StartAgain(
                f"The topic {self._topic.name} had {self._assigned} partitions, but now it has "
                f"{partitions}."
            )
        if self._note_epochs():
            self._write_notes()
        if partitions != self._seen:
            self._seen, self._ends = partitions, None
            changed = {"seen": partitions, "since": time.time()}
            self._notes = {path: replace(note, **changed) for path, note in self._notes.items()}
            self._write_notes()
        since = max(note.since for note in self._notes.values())
        if self._settled < self._seen and time.time() >= since + SETTLE_SECONDS:
            self._ends = self._ends or self._topic.ends(self._seen)
            if self._settle() and self._wanted_limit:
                raise StartAgain(
                    "All messages sent while partitions were added to the topic "
                    f"{self._topic.name} are in the tables."
                )

    def _check_id(self, found: str) -> None:
        for path, note in self._notes.items():
            check_id(self._topic.name, path, note.id, found)

    def _note_epochs(self) -> bool:
        """Note the topic's leader epochs, and say if they are new.

        Raises:
            Refused: messages were lost that a stream had read at the last look.
        """
        found = self._topic.epochs(self._seen)
        epochs = _epochs(found)
        if new := any(note.epochs != epochs for note in self._notes.values()):
            for path, note in self._notes.items():
                planned = offsets_of(self._spark, path, "offsets") or {}
                read = {n: min(planned.get(n, 0), end) for n, (_, end) in self._found.items()}
                self._check_end(path, note, read, found)
            noted = {path: replace(note, epochs=epochs) for path, note in self._notes.items()}
            self._notes = noted
        self._found = found
        return new

    def _check_end(
        self, path: str, note: Note, ends: dict[int, int], found: dict[int, tuple[int, int]]
    ) -> None:
        """Refuse a topic that no longer has the messages up to `ends`, of the epochs noted.

        `found` is what `Topic.epochs` says now. Without a new epoch no message is asked for.
        """
        known = {int(number): epoch for number, epoch in note.epochs.items()}
        asked = {n: end for n, end in ends.items() if end and n in known and n in found}
        newer = {n: end for n, end in asked.items() if found[n][0] != known[n]}
        written = self._topic.epochs_before(newer) if newer else {}
        for number, end in asked.items():
            if found[number][1] < end or written.get(number, -1) > known[number]:
                raise Refused(
                    f"The topic {self._topic.name} {LOST_ITS_END}: partition {number} had {end:,}, "
                    f"some are gone, and new ones get their offsets. {path} has read those that "
                    "are gone, and would skip the new ones without an error.",
                    START_ANEW.format(folder=path.rpartition("/")[0]),
                )

    def _settle(self) -> bool:
        """Record that all partitions are settled, if they are; else return False."""
        if self._ends is None or not all(map(self._reached, self._notes)):
            return False
        settled = len(self._ends)
        self._notes = {path: replace(note, settled=settled) for path, note in self._notes.items()}
        self._write_notes()
        return True

    def _reached(self, path: str) -> bool:
        committed = offsets_of(self._spark, path, "commits") or {}
        return all(committed.get(number, 0) >= end for number, end in (self._ends or {}).items())

    def _noted(self, path: str) -> Note:
        """Read a checkpoint's note; make a new one if it is missing or no batch was planned yet."""
        file = f"{path}/{NOTE}"
        known = None
        if hadoop.exists(self._spark, file):
            known = Note(**json.loads(hadoop.read(self._spark, file)))
        planned = offsets_of(self._spark, path, "offsets")
        if planned is None:  # it has read nothing
            added_to = known and min(known.settled, known.seen) < self._seen
            settled = 0 if added_to or not self._began_together() else self._seen
            return Note(self._id, settled, self._seen, time.time(), _epochs(self._found))
        note = known or Note(self._id, len(planned), len(planned), 0.0)
        check_id(self._topic.name, path, note.id, self._id)
        self._check_end(path, note, planned, self._found)
        if note.seen != self._seen:
            note = replace(note, seen=self._seen, since=time.time())
        return replace(note, id=note.id or self._id, epochs=_epochs(self._found))

    def _began_together(self) -> bool:
        """True if a limited first batch reads all messages older than the newest partition's first.

        Otherwise the newest partition may have been added when the others already had a backlog. A
        partition that has lost messages to retention cannot be the newest one.
        """
        firsts = self._topic.first_since(self._seen, 0)
        ends = self._topic.ends(self._seen)
        sizes = {number: ends[number] - first for number, (first, _) in firsts.items()}
        total, limit = sum(sizes.values()), self._wanted_limit
        if not limit or total <= limit:
            return True
        if any(ends[number] == 0 for number in ends):
            return False
        whole = [at for first, at in firsts.values() if first == 0]
        if not whole:
            return True
        then = self._topic.first_since(self._seen, max(whole))
        before = {n: then.get(n, (ends[n], 0))[0] - first for n, (first, _) in firsts.items()}
        # Spark takes of each partition its share of the limit.
        return all(before[n] <= limit * size // total for n, size in sizes.items())

    def _write_notes(self) -> None:
        for path, note in self._notes.items():
            hadoop.write(self._spark, f"{path}/{NOTE}", json.dumps(asdict(note)))


def offsets_of(spark: SparkSession, path: str, folder: str) -> dict[int, int] | None:
    """Offsets of a checkpoint's newest batch, by topic partition; None if there is no batch.

    `folder` is `offsets` for the newest planned batch, `commits` for the newest committed one.
    """
    number = hadoop.newest(spark, f"{path}/{folder}")
    if number == hadoop.NONE:
        return None
    return topic_offsets(hadoop.read(spark, f"{path}/offsets/{number}"))


def _epochs(found: dict[int, tuple[int, int]]) -> dict[str, int]:
    return {str(number): epoch for number, (epoch, _) in found.items()}


def check_id(topic: str, path: str, known: str, found: str) -> None:
    """Raise `Refused` if a checkpoint has read another topic; an id is empty if it is not known."""
    if known and found and known != found:
        raise Refused(
            f"The topic {topic} {RECREATED}: its id is {found}, but the checkpoint "
            f"{path} has read the one with the id {known}. Its offsets now count other messages, "
            "so new ones would be skipped without an error.",
            START_ANEW.format(folder=path.rpartition("/")[0]),
        )


def _all_at_once(topic: str, limit: int) -> str:
    return (
        f"Partitions were added to the topic {topic}, or some began later than others: until they "
        f"are in step, each batch takes all available messages, not {limit:,} at most."
    )


def _cause(error: Py4JJavaError) -> str:
    cause = error.java_exception.getCause() or error.java_exception
    return str(cause.getMessage())
