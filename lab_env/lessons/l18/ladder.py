"""Lesson 18 on the ladder: two jobs that write one table at the same time."""

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from lab_env.course.answers import Unreadable
from lab_env.lab.ladder.rungs import DISTURBED
from lab_env.lab.ladder.target import HELD, NewestOfEachOrder, Task
from lab_env.platform import store
from lab_env.tables.hudi_rs import KEYS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lab_env.lab.ladder.attack import Stage

JOBS = ("backfill", "stream")  # the first one is held while the second one writes
TRIES = 3  # of a write that ends in a conflict
POLL_S = 0.1


class LockOptions(NewestOfEachOrder):
    """`lock_options(job, table)` returns the options of a job.

    Each delivery is written by both jobs, each with orders of its own. In one of them they write
    at the same time. As in production, a job repeats its write after a conflict, and only then.
    """

    promise = (
        f"{NewestOfEachOrder.promise} This holds for both jobs: one that loses gets Hudi's error "
        "about a conflict, and writes again."
    )
    table = "orders"
    services = ("zookeeper",)

    def call(self, function: Callable, spark: "SparkSession", task: Task) -> None:
        from pyspark.sql import functions as F

        from lab_env.lessons.l18.checks import options_of

        table = f"{task.base}/{self.table}"
        events = _events(spark, task).persist()
        events.count()  # read now, so that the second job is not late
        own = F.expr(f"crc32(order_id) % {len(JOBS)}")
        first, second = (
            partial(_write, job, events.where(own == n), table, options_of(function, job, table))
            for n, job in enumerate(JOBS)
        )
        if task.delivery == DISTURBED:
            _at_once(first, second, task)
        else:
            first()
            second()
        events.unpersist()

    def look(self, spark: "SparkSession", task: Task) -> pd.DataFrame:
        return spark.read.format("hudi").load(f"{task.base}/{self.table}").select(*KEYS).toPandas()

    def rows(self, stage: "Stage") -> pd.DataFrame:
        # By Spark: hudi-rs may read another table where two writers did not agree on a lock.
        rows = stage.look()
        return rows.assign(key=rows["order_id"], event=rows["event_id"])


def _events(spark: "SparkSession", task: Task) -> "DataFrame":
    """Read a delivery's valid events, at rest."""
    from lab_env.pipeline import parsing

    records = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", task.bootstrap)
        .option("subscribe", task.topic)
        .option(
            "startingOffsets", json.dumps({task.topic: task.since}) if task.since else "earliest"
        )
        .load()
    )
    return parsing.with_deletes(parsing.valid_events(parsing.parse(records)))


def _at_once(first: Callable, second: Callable, task: Task) -> None:
    """Start the first write, and run the second one when the attack holds the first."""
    with ThreadPoolExecutor(1) as pool:
        under_way = pool.submit(first)
        while not (under_way.done() or _held(task)):
            time.sleep(POLL_S)
        second()
        under_way.result()


def _held(task: Task) -> bool:
    from lab_env.pipeline.session import endpoints_of_environment

    return any(store.list_objects(endpoints_of_environment(), f"{store.key_of(task.base)}/{HELD}"))


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
