"""Checks of lesson 13: what the metastore knows after a repair, what was counted without Spark."""

import random
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache

from pyspark.sql import DataFrame

from lab_env.course.answers import as_int, as_rows
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.pipeline.options import DEMO_OPTIONS, KEYS

RETURNS = "returns"
WRITER = DEMO_OPTIONS | KEYS | {"hoodie.index.bloom.num_entries": "1000"}
# 13.1 writes one of these days; the lesson writes none of them.
NEW_DAYS = [str(date(2027, 1, 1) + timedelta(days=n)) for n in range(365)]


@dataclass(frozen=True)
class Published:
    """What the metastore knew of a table's partitions.

    Args:
        day: the partition that was written without sync, for example `partition_date=2027-02-15`.
        before: what the metastore knew when the answer was called.
        after: what it knew when the answer had ended.
    """

    day: str
    before: frozenset[str]
    after: frozenset[str]


@check_of("13.1")
class NewDayIsKnown:
    """A partition that a writer did not sync is known to the metastore."""

    @staticmethod
    def observe(lab, answer) -> Published:
        """Write a random day without sync, run the answer, ask the metastore before and after."""
        before = frozenset(lab.known_partitions(RETURNS))
        folders = {file.partition for file in lab.xray(lab.path(RETURNS)).files}
        written = {folder.partition("=")[2] for folder in folders}
        day = random.choice([day for day in NEW_DAYS if day not in written])
        _write_return(lab, day)
        answer(RETURNS)
        after = frozenset(lab.known_partitions(RETURNS))
        return Published(f"partition_date={day}", before, after)

    @staticmethod
    def judge(facts: Published) -> Passed | NotYet:
        """The new day is known."""
        if facts.day in facts.after:
            return Passed(
                f"The metastore knows {facts.day.partition('=')[2]} now, and so does each engine "
                "that asks it. A later write with the sync options would have brought it, too."
            )
        named = facts.after - facts.before
        if named:
            return NotYet(
                f"You name the day yourself: the metastore has learnt {', '.join(sorted(named))}, "
                f"but {facts.day} is the day that is new. Let the statement find out."
            )
        return NotYet(
            f"The metastore knows {len(facts.after)} partitions, as before; {facts.day} is not one "
            "of them. REFRESH TABLE lets this Spark session forget what it has read before, and "
            "SHOW PARTITIONS lists the folders of a Hudi table, whatever the metastore knows. "
            "Neither tells the metastore."
        )


@dataclass(frozen=True)
class Counted:
    """What an answer counted, and what there is.

    Args:
        answer: what the function returned.
        orders: in the table, by a snapshot query of Spark.
        paid: how many of them are paid.
        parquet: rows in all Parquet files below the table.
        base_paid: orders that are paid in the newest base files.
        jobs: how many jobs Spark ran for the answer.
    """

    answer: object
    orders: int
    paid: int
    parquet: int
    base_paid: int
    jobs: int


@check_of("13.2")
class WithoutJava:
    """The orders of an uncompacted Merge-on-Read table, counted in Python."""

    @staticmethod
    def observe(lab, answer) -> Counted:
        """Call the answer with a table that it does not know, and count Spark's jobs meanwhile."""
        path, facts = _unknown_table(lab)
        before = _jobs(lab.spark)
        counts = answer(path.replace("s3a://", "s3://"))
        return Counted(counts, **facts, jobs=len(_jobs(lab.spark) - before))

    @staticmethod
    def judge(facts: Counted) -> Passed | NotYet:
        """Both numbers are right, and Spark did nothing."""
        try:
            ((orders, paid),) = as_rows(facts.answer, ("orders", "paid"))
        except ValueError:
            return NotYet('Return a dictionary with two numbers: {"orders": ..., "paid": ...}.')
        orders, paid = as_int(orders), as_int(paid)
        if facts.jobs:
            return NotYet(
                f"Spark ran {facts.jobs} jobs for it. Where there is no Java there is no Spark: "
                "read the table with hudi-rs."
            )
        if orders == facts.parquet != facts.orders:
            return NotYet(
                f"{orders:,} rows for {facts.orders:,} orders: old slices counted, logs ignored. "
                "All Parquet files of a folder are not the table. A table is what its timeline "
                "says."
            )
        if orders != facts.orders:
            return NotYet(
                f"You count {orders:,} orders; there are {facts.orders:,}. The numbers of rows "
                "that hudi-rs gives for a file slice are estimates: read the rows."
            )
        if paid == facts.base_paid != facts.paid:
            return NotYet(
                f"{paid} paid orders: you read base files only. {facts.paid} are paid, and the "
                "rest of them stands in logs."
            )
        if paid != facts.paid:
            return NotYet(f"You count {paid} paid orders; {facts.paid} are paid.")
        return Passed(
            f"{facts.orders:,} orders, {facts.paid} paid, and Spark ran no job. All Parquet files "
            f"of the table together have {facts.parquet:,} rows."
        )


@cache  # an answer only reads, so all answers get the same table
def _unknown_table(lab) -> tuple[str, dict[str, int]]:
    """The path of a table with random numbers of orders in three partitions, and its counts.

    The second commit pays orders of two partitions, which makes logs, and adds orders to the third,
    which makes a new base file beside the old one.
    """
    path = lab.scratch("orders")
    first, more = random.randint(120, 240), random.randint(20, 60)
    paid_later, paid_early = random.randint(60, 100), random.randint(3, 9)
    writes = (
        (f"id < {first}", f"id % {paid_early} = 0"),
        (
            f"id < {paid_later} AND id % 3 > 0 OR "
            f"id BETWEEN {first} AND {first + more} AND id % 3 = 0",
            f"id < {paid_later}",
        ),
    )
    for minute, (which, paid) in enumerate(writes):
        rows = lab.spark.sql(f"""
            SELECT 'O-' || id AS order_id, IF({paid}, 'paid', 'new') AS status,
                   TIMESTAMP '2026-11-20 12:0{minute}:00' AS order_ts,
                   '2026-11-2' || (id % 3) AS partition_date
            FROM range(0, 300, 1, 1) WHERE {which}
        """)
        _append(rows, path, {"hoodie.datasource.write.table.type": "MERGE_ON_READ"})
    orders, paid = _orders_and_paid(lab.spark, path, "snapshot")
    base_files = [file for file in lab.xray(path).files if file.kind == "base"]
    return path, {
        "orders": orders,
        "paid": paid,
        "parquet": sum(file.rows for file in base_files),
        "base_paid": _orders_and_paid(lab.spark, path, "read_optimized")[1],
    }


def _jobs(spark) -> set[int]:
    """The numbers of the jobs that Spark has run."""
    return set(spark.sparkContext.statusTracker().getJobIdsForGroup())


def _orders_and_paid(spark, path: str, query: str) -> tuple[int, int]:
    """How many orders a query of that type finds, and how many of them are paid."""
    table = spark.read.format("hudi").option("hoodie.datasource.query.type", query).load(path)
    return tuple(table.selectExpr("count(*)", "count_if(status = 'paid')").first())


def _write_return(lab, day: str) -> None:
    """Write one return of a day, without sync."""
    rows = lab.spark.sql(f"""
        SELECT 'R-O-1-{day}' AS order_id, CAST(10 AS DECIMAL(12,2)) AS amount,
               TIMESTAMP '2026-11-20 12:00:00' AS order_ts, '{day}' AS partition_date
    """)
    _append(rows, lab.path(RETURNS))


def _append(rows: DataFrame, path: str, options: dict[str, str] | None = None) -> None:
    options = WRITER | {"hoodie.table.name": path.rpartition("/")[2]} | (options or {})
    rows.write.format("hudi").options(**options).mode("append").save(path)
