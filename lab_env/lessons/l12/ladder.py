"""Lesson 12 on the ladder: a job that keeps each customer's total from a table's change feed."""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import pandas as pd

from lab_env.course.answers import Unreadable, as_text
from lab_env.lab.ladder.answers import reference_of
from lab_env.lab.ladder.rungs import DISTURBED
from lab_env.lab.ladder.stage import Stage, Task
from lab_env.lab.ladder.target import FEWER_STEPS, HALVES, Target, delivered
from lab_env.pipeline.options import DEMO_OPTIONS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


ORDERS, TOTALS = "orders", "totals"  # tables below the attack's folder
ORDERS_OPTIONS = DEMO_OPTIONS | {
    "hoodie.table.name": "orders",
    "hoodie.table.cdc.enabled": "true",
    "hoodie.datasource.write.recordkey.field": "order_id",
    "hoodie.table.ordering.fields": "order_ts",
    **FEWER_STEPS,
}
ROW = (
    *("order_id", "customer_id", "status", "order_ts", "partition_date", "_hoodie_is_deleted"),
    "CAST(amount * 100 AS BIGINT) AS cents",
)
# The exercises whose functions are the job: parsed, deltas, write_totals, begin_of_next_run.
JOB = ("12.1", "12.3", "12.4", "12.5")
# Of the delivery that a rung disturbs, half of the orders change before the job runs, the others
# while it runs. Each commit costs two seconds, so in the last delivery nothing changes meanwhile.
BEFORE, MEANWHILE = HALVES
Upto = Mapping[str, str]  # the bookmark of each customer


class Totals(Target):
    """The lesson's job, with the learner's function as one of its three parts.

    The totals begin as a recompute of the first delivery; the job counts all later changes.
    """

    noun = "customer"
    promise = (
        "Each customer's total is the sum of the customer's orders as they are now, without "
        "cancelled and erased ones. A customer without a row has the total 0."
    )
    receipt = ("instant", "hold_after", f"{TOTALS}/")
    feeds = True
    begins = 2
    part = ""  # the learner's, of `JOB`

    def feed(self, spark: "SparkSession", task: Task) -> None:
        events = delivered(spark, task)
        _upsert(events.where(BEFORE) if task.delivery == DISTURBED else events, task)
        if task.delivery == 1:
            _begin_totals(spark, task)

    def call(self, function: Callable, spark: "SparkSession", task: Task) -> None:
        """Run the job; run it again if orders have changed while it ran."""
        from lab_env.pipeline.session import endpoints_of_environment

        job = {part: reference_of(part, endpoints_of_environment(), spark) for part in JOB}
        job[self.part] = function
        if task.delivery == DISTURBED:
            _run(job, spark, task, lambda: _upsert(delivered(spark, task).where(MEANWHILE), task))
        _run(job, spark, task, lambda: None)

    def rows(self, stage: Stage) -> pd.DataFrame:
        customers = self.keyed(stage.sends())["key"]
        return with_absent(stage.hudi_rows(TOTALS, ("customer_id", "cents")), customers)

    def keyed(self, sends: pd.DataFrame) -> pd.DataFrame:
        """Return each send once per customer that its order has had."""
        sends = sends[~sends["kind"].str.startswith("malformed")]
        events = sends["value"].map(json.loads)
        customer = events.map(lambda event: event["customer_id"])
        cents = events.map(lambda event: round(event["amount"] * 100))
        sends = sends.assign(
            event=sends["event_id"],
            customer=customer,
            status=events.map(lambda event: event["status"]),
            cents=cents,
            about=customer + ", " + cents.map(_amount),
        )
        had = sends[["order_id", "customer"]].drop_duplicates()
        return sends.merge(had.rename(columns={"customer": "key"}), on="order_id")

    def right(self, own: pd.DataFrame) -> list[str]:
        if not (own["customer"] == own["key"]).any():
            return []  # no order has moved to this customer yet
        newest = own.sort_values("order_ts", kind="stable").drop_duplicates("order_id", keep="last")
        counted = newest[~newest["status"].isin(["cancelled", "erased"])]
        return [_amount(counted.loc[counted["customer"] == counted["key"], "cents"].sum())]


class Deltas(Totals):
    """`deltas(changes)` returns what each customer's total changes by."""

    part = "12.3"


class WriteTotals(Totals):
    """`write_totals(moved, upto, path)` commits new totals with their bookmark."""

    promise = f"{Totals.promise} The row of a customer without changes keeps its `upto`."
    part = "12.4"

    def call(self, function: Callable, spark: "SparkSession", task: Task) -> None:
        def and_check(moved: "DataFrame", upto: str, path: str) -> None:
            names, before = {row.customer_id for row in moved.collect()}, _bookmarks(spark, path)
            function(moved, upto, path)
            check_others(names, before, _bookmarks(spark, path))

        super().call(and_check, spark, task)


class BeginOfNextRun(Totals):
    """`begin_of_next_run(totals)` returns the bookmark."""

    part = "12.5"


def with_absent(totals: pd.DataFrame, customers: pd.Series) -> pd.DataFrame:
    """Return the totals as rows of the output, with 0 for each customer who has none."""
    # With a NULL among them, the cents are read as floating-point numbers.
    event = totals["cents"].astype("Int64").astype(object).map(_amount, na_action="ignore")
    rows = totals.assign(key=totals["customer_id"], event=event.fillna("NULL"))
    absent = [name for name in customers.unique() if name not in set(rows["key"])]
    return pd.concat([rows, pd.DataFrame({"key": absent, "event": _amount(0)})]).fillna("")


def _amount(cents: int) -> str:
    return f"{cents / 100:.2f}"


def check_others(moved: set[str], before: Upto, after: Upto) -> None:
    """Raise Unreadable if a customer who is not in `moved` has no row or another bookmark."""
    for name in sorted(before.keys() - moved):
        if after.get(name) != before[name]:
            raise Unreadable(
                f"`moved` does not name {name}, and its `upto` has become {after.get(name)}. Write "
                "only the rows of the customers in `moved`."
            )


def _run(
    job: Mapping[str, Callable], spark: "SparkSession", task: Task, meanwhile: Callable[[], None]
) -> None:
    """Add the changes since the bookmark to the totals; call `meanwhile` after reading them."""
    totals = _path(task, TOTALS)
    begin = as_text(job["12.5"](totals))
    window = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.query.incremental.format": "cdc",
        "hoodie.datasource.read.begin.instanttime": begin,
    }
    feed = spark.read.format("hudi").options(**window).load(_path(task, ORDERS))
    changes = job["12.1"](feed).cache()
    found = changes.count()  # reads the feed now, before more orders come in
    meanwhile()
    if found:
        moved = _as_deltas(job["12.3"](changes))
        job["12.4"](moved, _newest(changes, "ts_ms"), totals)
    changes.unpersist()


def _as_deltas(answer: object) -> "DataFrame":
    """Return the answer if the totals can be written from it, or raise Unreadable."""
    from lab_env.lessons.rows import as_dataframe

    rows = as_dataframe(answer, "the deltas")
    kinds = dict(rows.dtypes)
    if "customer_id" not in kinds or kinds.get("cents") not in ("bigint", "int"):
        raise Unreadable(
            "The job needs `customer_id`, and `cents` as a whole number. Your columns: "
            + ", ".join(f"`{name}` ({kind})" for name, kind in kinds.items())
        )
    return rows


def _newest(rows: "DataFrame", column: str) -> str:
    from pyspark.sql import functions as F

    [row] = rows.agg(F.max(column)).collect()
    return row[0]


def _upsert(events: "DataFrame", task: Task) -> None:
    rows = events.selectExpr(*ROW).coalesce(1).write.format("hudi").options(**ORDERS_OPTIONS)
    rows.mode("append").save(_path(task, ORDERS))


def _begin_totals(spark: "SparkSession", task: Task) -> None:
    """Make the table of totals from all orders, which have one commit so far."""
    from pyspark.sql import functions as F

    orders = spark.read.format("hudi").load(_path(task, ORDERS))
    upto = _newest(orders, "_hoodie_commit_time")
    counted = orders.where("status <> 'cancelled'").groupBy("customer_id")
    totals = counted.agg(F.sum("cents").alias("cents")).withColumn("upto", F.lit(upto))
    _write_totals(totals, _path(task, TOTALS))


def _write_totals(rows: "DataFrame", path: str) -> None:
    from lab_env.lessons.l12.checks import REVENUE

    rows.write.format("hudi").options(**REVENUE).mode("append").save(path)


def _bookmarks(spark: "SparkSession", path: str) -> dict[str, str]:
    rows = spark.read.format("hudi").load(path).select("customer_id", "upto").collect()
    return {row.customer_id: row.upto for row in rows}


def _path(task: Task, table: str) -> str:
    return f"{task.base}/{table}"


TARGETS = {"12.3": Deltas(), "12.4": WriteTotals(), "12.5": BeginOfNextRun()}
