"""Metrics of a pipeline, computed from readings of its topic, checkpoint and table.

Nothing here does I/O, so tests can pass any state. A metric whose value is unknown is left out,
rather than reported as 0 or with its previous value.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from lab_env.tables.hudi.table import CommitNotFound, Snapshot
from lab_env.tables.hudi.timeline import to_seconds

METRICS = {
    "pipeline_watched": "Pipelines that the exporter watches.",
    "pipeline_up": "Whether this part of the pipeline could be read within the last 5 s.",
    "pipeline_lag_messages": "Messages of the topic partition not yet in a committed batch.",
    "pipeline_expired_messages": "Messages that the topic dropped before they were read.",
    "pipeline_oldest_unread_seconds": "Age of the oldest message not yet in a committed batch.",
    "pipeline_newest_message_seconds": "Age of the newest message in a committed batch.",
    "pipeline_clock_ahead_seconds": "How far the newest time read is ahead of this clock, or 0.",
    "pipeline_last_commit_seconds": "Time since the table's newest completed write of rows.",
    "pipeline_pending_instants": "Instants of the table's timeline that are not complete.",
    "pipeline_oldest_pending_seconds": "Age of the oldest pending instant, 0 without one.",
    "pipeline_file_slices": "File slices that a query of the latest state reads.",
    "pipeline_log_files": "Log files in these slices.",
    "pipeline_log_files_per_slice_max": "Most log files that a query merges in one file group.",
    "pipeline_savepoints": "Savepoints of the table; the cleaner keeps their files.",
    "pipeline_bytes": "Bytes of the table's folder.",
    "pipeline_batch": "Number of the newest committed batch, as recorded here.",
}

# Times further ahead of this clock give no age: any of the clocks may be wrong.
CLOCK_LIMIT_S = 1.0

# Actions that add rows; compaction and clustering only move them.
ROW_ACTIONS = ("commit", "deltacommit", "replacecommit")


@dataclass(frozen=True)
class Sample:
    """One value of one metric of `METRICS`, in the unit that the metric's name states."""

    metric: str
    labels: Mapping[str, str]  # label values, by label name
    value: float


@dataclass(frozen=True)
class Position:
    """A query's reading position, from its checkpoint."""

    # By topic partition, the offset of the first message not yet in a committed batch.
    offsets: Mapping[int, int]
    batch: int | None = None  # number of the newest committed batch; None before the first


@dataclass(frozen=True)
class Topic:
    """A topic on the broker and a reader's position in it; the keys are topic partitions."""

    ends: Mapping[int, int]  # offset after the newest message
    position: Position | None = None  # None if unknown
    # Times (s since 1970) of the oldest unread message, and of the newest message already read.
    unread: Mapping[int, float] = field(default_factory=dict)
    read: Mapping[int, float] = field(default_factory=dict)
    begins: Mapping[int, int] = field(default_factory=dict)  # offset of the oldest stored message


def topic_samples(labels: Mapping[str, str], topic: Topic, now: float) -> Iterator[Sample]:
    """Yield a reader's lag, and the ages of its messages; nothing while its position is unknown.

    A message's time comes from the producer's clock, or from the broker's if the topic is set to
    `LogAppendTime`. `now` is in seconds since 1970.
    """
    if topic.position is None:
        return
    offsets = topic.position.offsets
    lag = {number: end - offsets.get(number, 0) for number, end in topic.ends.items()}
    for number, messages in sorted(lag.items()):
        by_partition = {**labels, "partition": str(number)}
        yield Sample("pipeline_lag_messages", by_partition, messages)
        # A topic partition that the checkpoint does not name is new: its first message is unread.
        expired = max(0, topic.begins.get(number, 0) - offsets[number]) if number in offsets else 0
        yield Sample("pipeline_expired_messages", by_partition, expired)
    behind = [number for number, messages in lag.items() if messages > 0]
    # A partition that lags without a message time makes the age unknown.
    if all(number in topic.unread for number in behind):
        oldest = min((topic.unread[number] for number in behind), default=now)
        yield from _age("pipeline_oldest_unread_seconds", labels, oldest, now)
    if topic.read:
        newest = max(topic.read.values())
        yield from _age("pipeline_newest_message_seconds", labels, newest, now)
    yield _clock_ahead(labels, "topic", (*topic.unread.values(), *topic.read.values()), now)


def checkpoint_samples(labels: Mapping[str, str], position: Position) -> Iterator[Sample]:
    """Yield the number of the newest batch committed in the checkpoint."""
    if position.batch is not None:
        recorded = {**labels, "recorded_in": "checkpoint"}
        yield Sample("pipeline_batch", recorded, position.batch)


def table_samples(labels: Mapping[str, str], table: Snapshot, now: float) -> Iterator[Sample]:
    """Yield the metrics of a table's timeline and files; `now` is in seconds since 1970."""
    writes = [i for i in table.completed_writes.values() if i.action in ROW_ACTIONS]
    if writes:
        completed = max(to_seconds(write.completed) for write in writes)
        yield from _age("pipeline_last_commit_seconds", labels, completed, now)
        yield _clock_ahead(labels, "table", [completed], now)
    pending = [instant for instant in table.instants if not instant.completed]
    yield Sample("pipeline_pending_instants", labels, len(pending))
    oldest = min((to_seconds(instant.requested) for instant in pending), default=now)
    yield Sample("pipeline_oldest_pending_seconds", labels, max(0.0, now - oldest))
    # While a compaction is pending, a file group has two such slices, and a query merges both.
    logs: Counter[tuple[str, str]] = Counter()
    for part in table.current:
        logs[part.partition, part.group] += sum(file.kind == "log" for file in part.logs)
    yield Sample("pipeline_file_slices", labels, len(table.current))
    yield Sample("pipeline_log_files", labels, logs.total())
    yield Sample("pipeline_log_files_per_slice_max", labels, max(logs.values(), default=0))
    savepoints = [i for i in table.instants if i.action == "savepoint" and i.completed]
    yield Sample("pipeline_savepoints", labels, len(savepoints))
    for part, size in _bytes(table).items():
        yield Sample("pipeline_bytes", {**labels, "part": part}, size)
    batch = _batch(table, [write.requested for write in writes])
    if batch is not None:
        yield Sample("pipeline_batch", {**labels, "recorded_in": "table"}, batch)


def _age(metric: str, labels: Mapping[str, str], at: float, now: float) -> Iterator[Sample]:
    """Yield a time's age; nothing for a future time, whose age is unknown rather than 0."""
    if at - now <= CLOCK_LIMIT_S:
        yield Sample(metric, labels, max(0.0, now - at))


def _clock_ahead(
    labels: Mapping[str, str], part: str, times: Iterable[float], now: float
) -> Sample:
    """Return how many seconds the newest of the given times is ahead of this machine's clock."""
    ahead = max((at - now for at in times), default=0.0)
    value = ahead if ahead > CLOCK_LIMIT_S else 0.0
    return Sample("pipeline_clock_ahead_seconds", {**labels, "part": part}, value)


def up_sample(labels: Mapping[str, str], part: str, up: bool) -> Sample:
    """Return a sample: 1 if a pipeline's part (topic, checkpoint, table) could be read, else 0."""
    return Sample("pipeline_up", {**labels, "part": part}, int(up))


def _bytes(table: Snapshot) -> dict[str, int]:
    data = sum(file.size for file in table.files)
    current = sum(file.size for part in table.current for file in part.files)
    uncommitted = sum(file.size for file in table.uncommitted)
    return {
        "current": current,
        "older": data - current - uncommitted,
        "uncommitted": uncommitted,
        "bookkeeping": sum(size for _, _, size in table.bookkeeping),
    }


def _batch(table: Snapshot, writes: list[str]) -> int | None:
    """Return the streaming query's batch number, from the newest write that records one."""
    for requested in sorted(writes, reverse=True):
        try:
            recorded = table.commit(requested).checkpoint
        except CommitNotFound:
            continue
        numbers = [int(batch) for batch in (recorded or {}).values() if str(batch).isdigit()]
        if numbers:
            return max(numbers)
    return None
