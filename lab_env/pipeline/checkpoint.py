"""A streaming query's checkpoint: the offsets of each batch, and whether it was committed.

It is read from the object store, not through Spark, so this works even after the query has died.
"""

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass

from lab_env.platform import store
from lab_env.platform.errors import LabError
from lab_env.platform.settings import Endpoints

FIRST_OFFSETS = "sources/0/0"
NO_CHECKPOINT = "start the stream first, or look for the right path with lab.files."


@dataclass(frozen=True)
class Batch:
    """One batch of a stream that reads one Kafka topic.

    Args:
        number: counted from 0.
        start: topic partition to the first offset it reads.
        end: topic partition to the offset after the last one it reads.
        committed: True if the query has recorded that the batch is done.
    """

    number: int
    start: dict[int, int]
    end: dict[int, int]
    committed: bool


def read_checkpoint(endpoints: Endpoints, path: str) -> list[Batch]:
    """Batches in a checkpoint, oldest first; the last one may be planned but not committed.

    Args:
        path: the query's `checkpointLocation`, `s3a://...`.

    Raises:
        LabError: there is no checkpoint, or its stream does not read one Kafka topic.
    """
    prefix = store.key_of(path).rstrip("/") + "/"
    names = {file.key.removeprefix(prefix) for file in store.list_objects(endpoints, prefix)}
    if FIRST_OFFSETS not in names:
        raise LabError(f"There is no checkpoint of a stream in {path}.", NO_CHECKPOINT)
    return batches_of(names, lambda name: store.read(endpoints, prefix + name))


def open_batch(endpoints: Endpoints, path: str) -> Batch | None:
    """Batch that a query has planned but not committed, and will repeat at its next start.

    Args:
        path: the query's `checkpointLocation`, `s3a://...`.

    Returns:
        The batch; None if there is none, or if the stream does not read one Kafka topic.
    """
    prefix = store.key_of(path).rstrip("/") + "/"
    names = {
        file.key.removeprefix(prefix)
        for part in ("commits/", "offsets/", FIRST_OFFSETS)
        for file in store.list_objects(endpoints, prefix + part)
    }
    with contextlib.suppress(LabError):
        batch = newest_batch(names, lambda name: store.read(endpoints, prefix + name))
        return None if batch is None or batch.committed else batch
    return None


def newest_batch(names: set[str], read: Callable[[str], bytes]) -> Batch | None:
    """Newest batch in a checkpoint's files; None before the first.

    Args:
        names: the files, relative to the checkpoint.
    """
    planned = batch_numbers(names, "offsets")
    if not planned:
        return None
    number = max(planned)
    before = f"offsets/{number - 1}" if number - 1 in planned else FIRST_OFFSETS
    start, end = offsets_in(read(before)), offsets_in(read(f"offsets/{number}"))
    return Batch(number, start, end, number in batch_numbers(names, "commits"))


def still_open(batch: Batch, sink: str, topic: str) -> str:
    """Describe, for an error, a batch that neither an earlier run of a query nor this one finished.

    Args:
        topic: topic of the query; the sentence gives the first and last offset per partition.
    """
    ranges = ((number, batch.start.get(number, 0), end) for number, end in batch.end.items())
    read = (f"partition {p} offsets {a:,} to {b - 1:,}" for p, a, b in sorted(ranges) if b > a)
    return (
        f"Batch {batch.number} of {sink} was left open by an earlier run, and this one has not"
        f" finished it either: {', '.join([f'topic {topic}', *read])}."
    )


def newest_commit(endpoints: Endpoints, path: str) -> tuple[int, dict[int, int]] | None:
    """Newest committed position of a query; None if no committed batch still has its offsets.

    Args:
        path: the query's `checkpointLocation`, `s3a://...`.

    Returns:
        The number of its newest committed batch and, by topic partition, the offset of the next
        message.
    """
    prefix = store.key_of(path).rstrip("/") + "/"
    names = {
        file.key.removeprefix(prefix)
        for folder in ("commits/", "offsets/")  # not all: state may be thousands of files
        for file in store.list_objects(endpoints, prefix + folder)
    }
    complete = batch_numbers(names, "commits") & batch_numbers(names, "offsets")
    if not complete:
        return None
    newest = max(complete)
    return newest, offsets_in(store.read(endpoints, f"{prefix}offsets/{newest}"))


def first_offsets(endpoints: Endpoints, path: str) -> dict[int, int]:
    """First offset that a query read, by topic partition.

    Raises:
        LabError: there is no checkpoint.
    """
    key = f"{store.key_of(path).rstrip('/')}/{FIRST_OFFSETS}"
    found = {file.key for file in store.list_objects(endpoints, key)}
    if key not in found:
        raise LabError(f"There is no checkpoint of a stream in {path}.", NO_CHECKPOINT)
    return offsets_in(store.read(endpoints, key))


def batches_of(names: set[str], read: Callable[[str], bytes]) -> list[Batch]:
    """Batches in a checkpoint's files.

    Spark keeps about a hundred. Once it has deleted older ones, the oldest one kept is left out,
    because its start offsets are no longer known.

    Args:
        names: the files, relative to the checkpoint.
    """
    planned, done = sorted(batch_numbers(names, "offsets")), batch_numbers(names, "commits")
    start = offsets_in(read(FIRST_OFFSETS)) if planned[:1] == [0] else None
    batches = []
    for number in planned:
        end = offsets_in(read(f"offsets/{number}"))
        if start is not None:
            batches.append(Batch(number, start, end, number in done))
        start = end
    return batches


def batch_numbers(names: set[str], folder: str) -> set[int]:
    """Numbers of the batches that have a file in a folder of a checkpoint.

    Args:
        names: the files, relative to the checkpoint.
        folder: `offsets` or `commits`.
    """
    found = (name.removeprefix(f"{folder}/") for name in names if name.startswith(f"{folder}/"))
    return {int(name) for name in found if name.isdigit()}


def offsets_in(file: bytes) -> dict[int, int]:
    """Parse the content of a checkpoint's file with `topic_offsets`.

    Raises:
        LabError: the file is damaged, or the stream does not read one Kafka topic.
    """
    try:
        return topic_offsets(file.decode())
    except ValueError:
        raise LabError(
            "A file of offsets in this checkpoint is damaged, or its stream does not read one Kafka"
            f" topic: {file[:60]!r}.",
            "put back the checkpoint's last good copy, if it is damaged.",
        ) from None


def topic_offsets(text: str) -> dict[int, int]:
    """Parse a checkpoint's file `offsets/N` or `sources/0/0` into a dict from partition to offset.

    Raises:
        ValueError: its last line is not the JSON of one topic's offsets.
    """
    (last_line,) = text.splitlines()[-1:]
    (offsets,) = json.loads(last_line[last_line.index("{") :]).values()
    if not isinstance(offsets, dict):
        raise ValueError(f"no offsets of a topic: {offsets!r}")
    return {int(partition): offset for partition, offset in offsets.items()}
