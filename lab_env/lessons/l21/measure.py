"""Measures batches of two sizes on the lab's cluster."""

from collections.abc import Callable

import pandas as pd

from lab_env.lessons.l21.machines import wait_for_executors
from lab_env.lessons.l21.tasks import SparkPages, at_once
from lab_env.lessons.table_copies import empty_copy

SIZES = {"orders": 2_416, "backlog": 19_326}  # messages per batch: a quarter of each topic
LEAST_GAIN = 1.05  # of two cores: with less, other work held them


def measure(lab, ingest: Callable, table: str, cores: int) -> pd.DataFrame:
    """Run four batches of each size on this many cores, and return the last three as rounds.

    The first batch creates the table's files.

    Args:
        ingest: the answer to 21.1.
        table: a table whose properties the measured ones get.

    Returns:
        One row per round: cores, rows, at once (cores that worked simultaneously), cpu-ms per row
        (processor time of the tasks) and seconds (of the batch).
    """
    pages, found = SparkPages(lab.spark), []
    wait_for_executors(lab.spark, cores)
    for topic, size in SIZES.items():
        before, target = pages.newest_stage(), empty_copy(lab, table, "measured")
        query = ingest(
            lab.topic(topic), target, lab.scratch("checkpoint"), maxOffsetsPerTrigger=size
        )
        query.awaitTermination()
        tasks, reports = pages.tasks(after=before), query.recentProgress
        done = sum(report["numInputRows"] for report in reports)
        work = {"cores": cores, "rows": size, "at once": at_once(tasks)}
        work["cpu-ms per row"] = 1000 * tasks["cpu"].sum() / done
        for report in reports[1:4]:
            found.append(work | {"seconds": report["durationMs"]["triggerExecution"] / 1000})
    return pd.DataFrame(found)


def gain(runs: pd.DataFrame) -> float:
    """Return how many times as fast as on one core large batches were on two, by fastest rounds."""
    large = runs[runs["rows"] == max(SIZES.values())]
    fastest = large.groupby("cores")["seconds"].min()
    return float(fastest[1] / fastest[2])
