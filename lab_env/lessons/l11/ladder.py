"""Lesson 11 on the ladder: jobs that copy what has changed in a table of orders."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pandas as pd

from lab_env.course.answers import as_pair, as_text
from lab_env.lab.ladder.answers import reference_of
from lab_env.lab.ladder.rungs import DISTURBED
from lab_env.lab.ladder.stage import Stage, Task
from lab_env.lab.ladder.target import (
    FEWER_STEPS,
    HALVES,
    Target,
    check_ended,
    check_query,
    delivered,
    look_below,
    part_files,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lab_env.lab.handle import Lab

ORDERS, AUDIT = "orders", "audit"  # tables below the attack's folder
ALL_ORDERS = "all_orders"  # like `ORDERS`, but always with all commits
FILES, CHECKPOINT = "changes", "_checkpoints/changes"  # of 11.4
ROW = (
    *("order_id", "event_id", "status", "amount", "order_ts", "partition_date"),
    "_hoodie_is_deleted",
)
AUDITED = ("order_id", "event_id", "status", "amount", "order_ts", "delivery")
SHOWN = "order_id STRING, event_id STRING, delivery INT"


class EachChangeOnce(Target):
    """An output to which each commit's changes are appended.

    A change is an order's newest event in a delivery. A late event that loses is none, and an
    incremental query does not show an erasure.
    """

    noun = "change"
    promise = (
        "Each row that a delivery writes to the table of orders is in the output exactly once: the "
        "order's newest event, also if sent again. Erasures and late events that lose are not."
    )
    write = ("data", "hold_after", f"{AUDIT}/")
    receipt = ("instant", "hold_after", f"{AUDIT}/")
    feeds = True

    def feed(self, spark: "SparkSession", task: Task) -> None:
        """Commit the delivery to the table of orders."""
        _upsert(delivered(spark, task), task, ORDERS)

    def rows(self, stage: Stage) -> pd.DataFrame:
        return changes(stage.hudi_rows(AUDIT, ("order_id", "event_id", "delivery")))

    def keyed(self, sends: pd.DataFrame) -> pd.DataFrame:
        """Add to each valid send its order's newest time `before` the delivery."""
        valid = changes(sends[~sends["kind"].str.startswith("malformed")])
        newest = valid.groupby(["order_id", "delivery"])["order_ts"].max()
        so_far = newest.groupby("order_id").cummax()
        before = so_far.groupby("order_id").shift(fill_value=0).rename("before")
        return valid.join(before, on=["order_id", "delivery"])

    def right(self, own: pd.DataFrame) -> list[str]:
        if own.empty:
            return []
        newest = own.loc[own["order_ts"].idxmax()]
        # An event that is sent again replaces itself: a commit has written its row, too.
        changed = newest["order_ts"] >= newest["before"] and newest["op"] != "erase"
        return [newest["event_id"]] if changed else []


class Run(EachChangeOnce):
    """`run(path, begin)` returns the rows that have changed, and the next bookmark.

    The job appends the rows and keeps the bookmark as in the lesson. The delivery that a rung
    disturbs is two commits, and the second one comes while the function is at work. The function
    writes nothing, so there is no kill in mid-write.
    """

    def feed(self, spark: "SparkSession", task: Task) -> None:
        from lab_env.lessons.table_copies import copy_table

        events, hidden = delivered(spark, task), 0
        lab, everything = _lab(), _path(task, ALL_ORDERS)
        if task.delivery == DISTURBED:
            _upsert(events.where(HALVES[0]), task, ALL_ORDERS)
            events, hidden = events.where(HALVES[1]), 1
        _upsert(events, task, ALL_ORDERS)
        commits = lab.xray(everything).instants
        copy_table(lab, everything, _path(task, ORDERS), commits[len(commits) - hidden :])

    def call(self, function: Callable, spark: "SparkSession", task: Task) -> None:
        from lab_env.lessons.l11.checks import _commit_arrives
        from lab_env.lessons.table_copies import copy_table

        lab, tables = _lab(), (_path(task, ALL_ORDERS), _path(task, ORDERS))
        append = reference_of("11.3", lab.endpoints, spark)

        def while_a_commit_arrives(path: str, begin: str) -> Any:
            with _commit_arrives(lab, *tables):
                return function(path, begin)

        if task.delivery == DISTURBED:
            _run_job(lab, while_a_commit_arrives, append, task)
            copy_table(lab, *tables)  # a function with a single query has not let it arrive
        _run_job(lab, function, append, task)


class Append(EachChangeOnce):
    """`append(rows, bookmark, path)` commits the rows and their bookmark."""

    def call(self, function: Callable, spark: "SparkSession", task: Task) -> None:
        lab = _lab()
        _run_job(lab, reference_of("11.2", lab.endpoints, spark), function, task)


class StreamOnce(EachChangeOnce):
    """`stream_once(path, folder, checkpoint)` returns the query, which has ended."""

    write = part_files(FILES)
    receipt = Target.receipt

    def call(self, function: Callable, spark: "SparkSession", task: Task) -> None:
        query = function(*(_path(task, name) for name in (ORDERS, FILES, CHECKPOINT)))
        check_ended(spark)
        check_query(query)

    def look(self, spark: "SparkSession", task: Task) -> pd.DataFrame:
        return spark.read.schema(SHOWN).parquet(_path(task, FILES)).toPandas()

    def rows(self, stage: Stage) -> pd.DataFrame:
        return changes(look_below(stage, FILES, ("order_id", "event_id", "delivery")))


def changes(rows: pd.DataFrame) -> pd.DataFrame:
    """Name the change of each row by its order and its delivery."""
    key = rows["order_id"] + " in delivery " + rows["delivery"].astype(str)
    return rows.assign(key=key, event=rows["event_id"])


def _run_job(lab: "Lab", run: Callable, append: Callable, task: Task) -> None:
    """Append what has changed since the audit's bookmark, if anything has."""
    from lab_env.lessons.l11.figures import kept_bookmark
    from lab_env.lessons.rows import as_dataframe

    audit = _path(task, AUDIT)
    answer = run(_path(task, ORDERS), kept_bookmark(lab, audit))
    rows, bookmark = as_pair(answer, "Rows and a bookmark are expected")
    rows = as_dataframe(rows, "the rows").select(*AUDITED).coalesce(1).cache()
    if not rows.isEmpty():
        append(rows, as_text(bookmark), audit)
    rows.unpersist()


def _upsert(events: "DataFrame", task: Task, table: str) -> None:
    """Commit events to a table, with the number of their delivery."""
    from lab_env.lessons.l11.checks import TABLE

    rows = events.selectExpr(*ROW, f"{task.delivery} AS delivery")
    rows = rows.coalesce(1).write.format("hudi").options(**TABLE | FEWER_STEPS)
    rows.mode("append").save(_path(task, table))


def _lab() -> "Lab":
    """Return a handle that lists tables; it needs no session."""
    from lab_env.lab.handle import Lab
    from lab_env.pipeline.session import endpoints_of_environment

    return Lab("11", endpoints_of_environment())


def _path(task: Task, name: str) -> str:
    return f"{task.base}/{name}"


TARGETS = {"11.2": Run(), "11.3": Append(), "11.4": StreamOnce()}
