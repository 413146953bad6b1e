"""Lesson 18 on the ladder: two jobs that write one table at the same time."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pandas as pd

from lab_env.course.answers import Unreadable
from lab_env.lab.ladder.stage import Stage, Task
from lab_env.lab.ladder.target import NewestOfEachOrder, delivered
from lab_env.tables.hudi_rs import KEYS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


JOBS = ("backfill", "stream")  # by the number of the process; a rung holds the first one
TRIES = 3  # of a write that ends in a conflict


class LockOptions(NewestOfEachOrder):
    """`lock_options(job, table)` returns the options of a job; each job is a process.

    Each job writes the orders of a delivery that are its own. As in production, it repeats a write
    after a conflict, and only then.
    """

    promise = (
        f"{NewestOfEachOrder.promise} This holds for both jobs: one that loses gets Hudi's error "
        "about a conflict, and writes again."
    )
    table = "orders"
    writers, services = len(JOBS), ("zookeeper",)

    def call(self, function: Callable, spark: "SparkSession", task: Task) -> None:
        from lab_env.lessons.l18.checks import _options

        job, table = JOBS[task.writer], f"{task.base}/{self.table}"
        own = f"crc32(order_id) % {len(JOBS)} = {task.writer}"
        _write(job, delivered(spark, task).where(own), table, _options(function, job, table))

    def look(self, spark: "SparkSession", task: Task) -> pd.DataFrame:
        return spark.read.format("hudi").load(f"{task.base}/{self.table}").select(*KEYS).toPandas()

    def rows(self, stage: Stage) -> pd.DataFrame:
        # By Spark: hudi-rs may read another table where two writers did not agree on a lock.
        rows = stage.look()
        return rows.assign(key=rows["order_id"], event=rows["event_id"])


def _write(job: str, rows: "DataFrame", table: str, options: dict[str, str]) -> None:
    """Upsert rows, again after a conflict; raise Unreadable after any other error."""
    from lab_env.lessons.l18.checks import CONFLICT, write
    from lab_env.lessons.l18.colleague import why_failed

    for _ in range(TRIES):
        try:
            write(rows, table, options)
            return
        except Exception as error:  # Spark's own exception comes through Py4J
            if CONFLICT not in (why := why_failed(str(error))):
                raise Unreadable(
                    f"The {job} failed, and not because of a conflict: {why}"
                ) from None
    raise Unreadable(f"The {job} had a conflict {TRIES} times: {why}")


TARGETS = {"18.1": LockOptions()}
