"""Checks of lesson 13: what the metastore knows after a repair, and what was counted without Spark."""

from dataclasses import dataclass
from datetime import date, timedelta

from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.pipeline.options import DEMO_OPTIONS, KEYS

RETURNS = "returns"
WRITER = (
    DEMO_OPTIONS | KEYS | {"hoodie.table.name": RETURNS, "hoodie.index.bloom.num_entries": "1000"}
)
FIRST_DAY = date(2026, 11, 21)  # after the days that the lesson writes


@dataclass(frozen=True)
class Published:
    """What the metastore knew of a table's partitions.

    Args:
        day: the partition that was written without sync, for example `partition_date=2026-11-22`.
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
        """Write one more day without sync, run the answer, and ask the metastore before and after."""
        known = _known(lab)
        day = _next_day(lab)
        _write(lab, day)
        answer(RETURNS)
        return Published(f"partition_date={day}", known, _known(lab))

    @staticmethod
    def judge(facts: Published) -> Passed | NotYet:
        """The new day is known."""
        if facts.day in facts.after:
            return Passed(
                f"The metastore knows {facts.day.partition('=')[2]} now, and so does each engine that asks it. "
                "A later write with the sync options would have brought it, too."
            )
        named = facts.after - facts.before
        if named:
            return NotYet(
                f"You name the day yourself: the metastore has learnt {', '.join(sorted(named))}, but "
                f"{facts.day} is the day that is new. Let the statement find out."
            )
        return NotYet(
            f"The metastore knows {len(facts.after)} partitions, as before; {facts.day} is not one of them. "
            "REFRESH TABLE lets this Spark session forget what it has read before, and SHOW PARTITIONS lists "
            "the folders of a Hudi table, whatever the metastore knows. Neither tells the metastore."
        )


@dataclass(frozen=True)
class Counted:
    """What an answer counted, and what there is.

    Args:
        answer: orders and paid, by those names.
        orders: in the table, as a snapshot query of Spark says.
        paid: of them.
        parquet: rows in all Parquet files below the table.
        base_paid: orders that are paid in the newest base files.
        jobs: how many jobs Spark ran for the answer.
    """

    answer: dict[str, object]
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
        """Call the answer with the lesson's table, and count what Spark did meanwhile."""
        path = lab.path("orders_mor")
        before = _jobs(lab.spark)
        told = answer(path.replace("s3a://", "s3://"))
        jobs = len(_jobs(lab.spark) - before)
        orders, paid = _orders_and_paid(lab.spark, path, "snapshot")
        return Counted(
            answer=dict(told) if isinstance(told, dict) else {},
            orders=orders,
            paid=paid,
            parquet=sum(file.rows for file in lab.xray(path).files if file.kind == "base"),
            base_paid=_orders_and_paid(lab.spark, path, "read_optimized")[1],
            jobs=jobs,
        )

    @staticmethod
    def judge(facts: Counted) -> Passed | NotYet:
        """Both numbers are right, and Spark did nothing."""
        if set(facts.answer) != {"orders", "paid"}:
            return NotYet('Return a dictionary with two numbers: {"orders": ..., "paid": ...}.')
        orders, paid = facts.answer["orders"], facts.answer["paid"]
        if facts.jobs:
            return NotYet(
                f"Spark ran {facts.jobs} jobs for it. Where there is no Java there is no Spark: "
                "read the table with hudi-rs."
            )
        if orders == facts.parquet != facts.orders:
            return NotYet(
                f"{orders:,} rows for {facts.orders:,} orders: old slices counted, logs ignored. All Parquet "
                "files of a folder are not the table. A table is what its timeline says."
            )
        if orders != facts.orders:
            return NotYet(
                f"You count {orders:,} orders; there are {facts.orders:,}. The numbers of rows that hudi-rs "
                "gives for a file slice are estimates: read the rows."
            )
        if paid == facts.base_paid != facts.paid:
            return NotYet(
                f"{paid} paid orders: you read base files only. {facts.paid} are paid, and that stands in a log."
            )
        if paid != facts.paid:
            return NotYet(f"You count {paid} paid orders; {facts.paid} are paid.")
        return Passed(
            f"{facts.orders:,} orders, {facts.paid} paid, and Spark ran no job. All Parquet files of the table "
            f"together have {facts.parquet:,} rows."
        )


def _jobs(spark) -> set[int]:
    """The numbers of the jobs that Spark has run."""
    return set(spark.sparkContext.statusTracker().getJobIdsForGroup())


def _orders_and_paid(spark, path: str, query: str) -> tuple[int, int]:
    """How many orders a query of that type finds, and how many of them are paid."""
    table = spark.read.format("hudi").option("hoodie.datasource.query.type", query).load(path)
    return tuple(table.selectExpr("count(*)", "count_if(status = 'paid')").first())


def _known(lab) -> frozenset[str]:
    """The partitions of the exercise's table that the metastore knows."""
    return frozenset(lab.known_partitions(RETURNS))


def _next_day(lab) -> str:
    """The day after the newest partition on the store."""
    folders = {file.partition for file in lab.xray(lab.path(RETURNS)).files}
    days = [date.fromisoformat(folder.partition("=")[2]) for folder in folders]
    return str(max([FIRST_DAY, *days]) + timedelta(days=1))


def _write(lab, day: str) -> None:
    """Write one row of a day, without sync."""
    rows = lab.spark.sql(f"""
        SELECT 'R-O-1-{day}' AS order_id, CAST(10 AS DECIMAL(12,2)) AS amount,
               TIMESTAMP '2026-11-20 12:00:00' AS order_ts, '{day}' AS partition_date
    """)
    rows.write.format("hudi").options(**WRITER).mode("append").save(lab.path(RETURNS))
