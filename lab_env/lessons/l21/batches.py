"""Made-up batches, each held by one resource, for the diagnosis of exercise 21.4."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from lab_env.lessons.l21.tasks import by_stage, table_of

RESOURCES = ("partition", "hot key", "bucket", "commit", "store", "cores")
READS, WRITES = 4, 6  # numbers of the two stages that do the work
ROWS = 26_000
SHOWN = ("store", "partition", "commit", "cores", "bucket", "hot key")  # as A to F


@dataclass(frozen=True)
class Batch:
    """One batch of a stream.

    Args:
        held_by: one of `RESOURCES`: what takes at least half of the batch.
        tasks: one row per task, as from `SparkPages.tasks`.
        seconds: from the first task to the end of the commit.
    """

    held_by: str
    tasks: pd.DataFrame
    seconds: float

    @property
    def stages(self) -> pd.DataFrame:
        """The tasks summed up by stage."""
        return by_stage(self.tasks)


def six_batches() -> dict[str, Batch]:
    """Return the batches that the lesson shows, one per resource, by letter."""
    rng = random.Random(21)
    return {
        letter: made_up(held, rng, cores=2) for letter, held in zip("ABCDEF", SHOWN, strict=True)
    }


def hidden_batches(rng: random.Random) -> Iterator[Batch]:
    """Yield batches in random order: exact halves, near misses, and random ones."""
    found = [
        _batch("partition", [4.0], [0.5] * 4, 8.0),
        _batch("cores", [2.0] * 4, [0.25] * 4, 8.0, cpu=0.5),
        _batch("hot key", [4.0, 0.5, 0.5, 1.0], [0.5] * 2, 8.0),
        _batch("bucket", [0.5] * 4, [4.0], 8.0),
        _batch("cores", [3.5] * 4, [0.25], 8.0),
        _batch("commit", [3.5], [0.5], 8.0),
        _batch("commit", [0.5] * 4, [3.5], 8.0, cores=4),
        _batch("store", [0.5] * 4, [1.75] * 6, 8.0, cpu=0.45),
        _batch("store", [1.75] * 6, [0.5] * 4, 8.0, cpu=0.45),
    ]
    found += [made_up(held, rng) for held in RESOURCES for _ in range(5)]
    rng.shuffle(found)
    yield from found


def made_up(held: str, rng: random.Random, cores: int | None = None) -> Batch:
    """Return a random batch that this resource holds."""
    cores = cores or rng.choice((2, 3, 4))
    seconds = rng.uniform(4, 20)
    most, least = rng.uniform(0.54, 0.7) * seconds, rng.uniform(0.08, 0.14) * seconds
    if held == "commit":
        most = rng.uniform(0.28, 0.36) * seconds
    many = _even(rng, most, cores)
    few = _even(rng, least, cores) if rng.random() < 0.5 else [least]
    match held:
        case "partition":
            reads, writes = [most], few
        case "bucket":
            reads, writes = few, [most]
        case "hot key":
            reads = [most, *(rng.uniform(0.1, 0.3) * most for _ in range(3))]
            writes = few
        case _:
            main = many if held != "commit" or rng.random() < 0.5 else [most]
            reads, writes = (main, few) if rng.random() < 0.5 else (few, main)
    cpu = rng.uniform(0.1, 0.45) if held == "store" else rng.uniform(0.55, 0.95)
    return _batch(held, reads, writes, seconds, cores, cpu)


def _even(rng: random.Random, span: float, cores: int) -> list[float]:
    """Return the seconds of two rounds of tasks that last nearly the same."""
    first = [span / 2 * rng.uniform(0.9, 1) for _ in range(cores - 1)]
    return [span / 2, *first, span / 2, *first]


def _batch(
    held: str,
    reads: Sequence[float],
    writes: Sequence[float],
    seconds: float,
    cores: int = 2,
    cpu: float = 0.75,
) -> Batch:
    """Build a batch of two stages from the seconds of their tasks."""
    gap = max(0.0, seconds - _span(reads, cores) - _span(writes, cores)) / 3
    rows, then = [*_stage(READS, 0.0, reads, cores, cpu)], _span(reads, cores) + gap
    rows += _stage(WRITES, then, writes, cores, cpu)
    return Batch(held, table_of(rows), seconds)


def _span(lasts: Sequence[float], cores: int) -> float:
    return max(free for free, _ in _placed(lasts, cores))


def _placed(lasts: Sequence[float], cores: int) -> list[tuple[float, int]]:
    """Return each task's end and executor, if the executor that is free first takes it."""
    free, placed = [0.0] * cores, []
    for seconds in lasts:
        executor = free.index(min(free))
        free[executor] += seconds
        placed.append((free[executor], executor))
    return placed


def _stage(
    stage: int, begin: float, lasts: Sequence[float], cores: int, cpu: float
) -> Iterator[dict]:
    whole = sum(lasts)
    for task, (seconds, (end, executor)) in enumerate(
        zip(lasts, _placed(lasts, cores), strict=True)
    ):
        rows = round(ROWS * seconds / whole)
        yield {
            "stage": stage,
            "stage_try": 0,
            "doing": "made up",
            "task": task,
            "attempt": 0,
            "status": "SUCCESS",
            "executor": str(executor),
            "start": begin + end - seconds,
            "end": begin + end,
            "cpu": cpu * seconds,
            "rows_read": rows if stage == READS else 0,
            "rows_fetched": rows if stage == WRITES else 0,
            "bytes_cached": 0,
            "error": "",
        }
