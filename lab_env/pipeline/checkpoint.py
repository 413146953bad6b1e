"""A streaming query's checkpoint: the offsets of each batch, and whether it was committed.

This module reads the object store without Spark, so it works even after the query has died.
"""

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass

from lab_env.platform import store
from lab_env.platform.errors import LabError
from lab_env.platform.settings import Endpoints

FIRST_OFFSETS = "sources/0/0"


@dataclass(frozen=True)
class Batch:
    """Batch of a stream of one Kafka topic; `start` and `end` (exclusive) map partitions to
    offsets.
    """

    number: int
    start: dict[int, int]
    end: dict[int, int]
    committed: bool


def read_checkpoint(endpoints: Endpoints, path: str) -> list[Batch]:
    """Batches in a checkpoint, oldest first; the last one may be planned but not committed.

    Raises:
        LabError: there is no checkpoint, or its stream does not read one Kafka topic.
    """
    names, read = files_in(endpoints, path)
    _check_begun(names, path)
    return batches_of(names, read)


def files_in(
    endpoints: Endpoints, path: str, *parts: str
) -> tuple[set[str], Callable[[str], bytes]]:
    """Return the names of a checkpoint's files, relative to it, and a function that reads one.

    Args:
        path: the query's `checkpointLocation`, `s3a://...`.
        parts: name prefixes, to list only some of the files; a query's state may have thousands.
    """
    prefix = store.key_of(path).rstrip("/") + "/"
    names = {
        file.key.removeprefix(prefix)
        for part in parts or ("",)
        for file in store.list_objects(endpoints, prefix + part)
    }
    return names, lambda name: store.read(endpoints, prefix + name)


def _check_begun(names: set[str], path: str) -> None:
    if FIRST_OFFSETS not in names:
        raise LabError(
            f"There is no checkpoint of a stream in {path}.",
            "start the stream first, or look for the right path with lab.files.",
        )


def open_batch(endpoints: Endpoints, path: str) -> Batch | None:
    """Return the batch that a query has planned, but not committed, and will repeat.

    Return None if there is none, or if the stream does not read one Kafka topic.
    """
    names, read = files_in(endpoints, path, "commits/", "offsets/", FIRST_OFFSETS)
    with contextlib.suppress(LabError):
        batch = newest_batch(names, read)
        return None if batch is None or batch.committed else batch
    return None


def newest_batch(names: set[str], read: Callable[[str], bytes]) -> Batch | None:
    """Newest batch in a checkpoint, given its relative file names; None if there is no batch."""
    planned = batch_numbers(names, "offsets")
    if not planned:
        return None
    number = max(planned)
    before = f"offsets/{number - 1}" if number - 1 in planned else FIRST_OFFSETS
    start, end = offsets_in(read(before)), offsets_in(read(f"offsets/{number}"))
    return Batch(number, start, end, number in batch_numbers(names, "commits"))


def still_open(batch: Batch, sink: str, topic: str) -> str:
    """Describe, for an error message, a batch that neither an earlier run nor this one finished."""
    ranges = ((number, batch.start.get(number, 0), end) for number, end in batch.end.items())
    read = (f"partition {p} offsets {a:,} to {b - 1:,}" for p, a, b in sorted(ranges) if b > a)
    return (
        f"Batch {batch.number} of {sink} was left open by an earlier run, and this one has not"
        f" finished it either: {', '.join([f'topic {topic}', *read])}."
    )


def newest_commit(endpoints: Endpoints, path: str) -> tuple[int, dict[int, int]] | None:
    """Number of a query's newest committed batch, and each topic partition's next offset.

    Return None if the checkpoint contains no committed batch with its offsets.
    """
    names, read = files_in(endpoints, path, "commits/", "offsets/")
    complete = batch_numbers(names, "commits") & batch_numbers(names, "offsets")
    if not complete:
        return None
    newest = max(complete)
    return newest, offsets_in(read(f"offsets/{newest}"))


def first_offsets(endpoints: Endpoints, path: str) -> dict[int, int]:
    """First offset that a query read, by topic partition.

    Raises:
        LabError: there is no checkpoint.
    """
    names, read = files_in(endpoints, path, FIRST_OFFSETS)
    _check_begun(names, path)
    return offsets_in(read(FIRST_OFFSETS))


def batches_of(names: set[str], read: Callable[[str], bytes]) -> list[Batch]:
    """Batches in a checkpoint, given its relative file names; oldest first.

    Spark keeps about a hundred. Once it has deleted older ones, the oldest remaining one is left
    out, because its start offsets are no longer known.
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
    """Numbers of the batches that have a file in a checkpoint's folder `offsets` or `commits`."""
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
