"""Checks of lesson 13: what the metastore knows, what is counted without Spark, what is merged."""

import random
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache

import pandas as pd
from pyspark.sql import DataFrame

from lab_env.course.answers import as_int, as_rows, as_text
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.lessons.table_copies import scratch_copy
from lab_env.pipeline.options import DEMO_OPTIONS, KEYS

RETURNS = "returns"
WRITER = DEMO_OPTIONS | KEYS | {"hoodie.index.bloom.num_entries": "1000"}
MERGE_ON_READ = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
READ_OPTIMISED = {"hoodie.datasource.query.type": "read_optimized"}
# 13.2 writes one of these days; the lesson writes none of them.
NEW_DAYS = [str(date(2027, 1, 1) + timedelta(days=n)) for n in range(365)]

Counts = Mapping[str, int]  # orders by status


@dataclass(frozen=True)
class Registered:
    """What two calls of the learner's function left on the store and in the metastore.

    Args:
        name: the table's name, as it was given.
        sent: how many orders were given to the function, in two calls.
        orders: how many the table at its path has; None if there is no table.
        names: what the lesson's database lists that begins with the name.
        in_default: whether the database `default` lists it.
        written: the folders of the partitions that the function was given.
        known: the partitions that the metastore knows.
    """

    name: str
    sent: int
    orders: int | None
    names: frozenset[str]
    in_default: bool
    written: frozenset[str]
    known: frozenset[str]


@check_of("13.1")
class IsRegistered:
    """A write that registers its table in the metastore."""

    @staticmethod
    def observe(lab, answer: Callable) -> Registered:
        """Write twice to a Merge-on-Read table of a random name, and ask the metastore."""
        name = f"exercise_{secrets.token_hex(3)}"
        sizes = [random.randint(20, 60), random.randint(2, 9)]
        begin = 0
        for size in sizes:
            answer(_orders(lab, begin, size), name, MERGE_ON_READ)
            begin += size
        path, names = lab.path(name), _names(lab, lab.database, name)
        table = lab.spark.read.format("hudi").load(path) if lab.files(path) else None
        strays = _names(lab, "default", name)  # no reset of a lesson reaches them
        for stray in sorted(strays):
            lab.spark.sql(f"DROP TABLE IF EXISTS default.{stray}")
        return Registered(
            name,
            sum(sizes),
            None if table is None else table.count(),
            names,
            bool(strays),
            frozenset({"partition_date=2026-11-20", "partition_date=2026-11-21"}),
            frozenset(lab.known_partitions(name)) if name in names else frozenset(),
        )

    @staticmethod
    def judge(facts: Registered) -> Passed | NotYet:
        """All orders are there, and the lesson's database has the name with all partitions."""
        if facts.orders is None:
            return NotYet(f'There is no table at `lab.path("{facts.name}")`. Write it there.')
        if facts.orders != facts.sent:
            return NotYet(
                f"Two calls brought {facts.sent} orders, and the table has {facts.orders}. The "
                'second call must add to the table: an upsert with `mode("append")`.'
            )
        if facts.in_default and not facts.names:
            return NotYet(
                f"The table has its {facts.orders} orders, and its name is in the database "
                "`default`, where no reader of this lesson looks. Name the database."
            )
        if facts.name not in facts.names:
            return NotYet(
                f"The table has its {facts.orders} orders, but the metastore knows no table of "
                f"that name, {facts.name}. By default a write tells nobody: which option switches "
                "the sync on, and which one says the name?"
            )
        if facts.names == {facts.name}:
            return NotYet(
                f"The metastore lists {facts.name} alone, as for a Copy-on-Write table. `more` "
                "said MERGE_ON_READ: hand its options on."
            )
        if missing := facts.written - facts.known:
            return NotYet(
                f"The metastore knows {facts.name} without the partition "
                f"{', '.join(sorted(missing))}."
            )
        return Passed(
            f"{facts.orders} orders in {len(facts.known)} partitions, and the metastore has "
            f"{len(facts.names)} names for them."
        )


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


@check_of("13.2")
class NewDayIsKnown:
    """A partition that a writer did not sync is known to the metastore."""

    @staticmethod
    def observe(lab, answer: Callable) -> Published:
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
class States:
    """An uncompacted Merge-on-Read table: its orders by status, by the way of asking.

    Args:
        now: by a snapshot query of Spark.
        then: as of the first commit.
        base: of the newest base files alone.
        parquet: rows in all Parquet files below the table.
    """

    now: Counts
    then: Counts
    base: Counts
    parquet: int


@dataclass(frozen=True)
class Asked:
    """What the learner's function returned for three questions.

    Args:
        kind: the type of what it returned first.
        now: orders by status, asked of the newest state.
        then: the same, asked with the options of the first commit.
        unchanged: number of orders that changed in a window in which none did.
        states: what is true.
        jobs: how many jobs Spark ran meanwhile.
    """

    kind: str
    now: Counts
    then: Counts
    unchanged: int
    states: States
    jobs: int


BY_STATUS = "SELECT status, count(*) AS orders FROM orders GROUP BY status"
NUMBER = "SELECT count(*) AS orders FROM orders"


@check_of("13.3")
class WithoutJava:
    """SQL about an uncompacted Merge-on-Read table, answered in Python."""

    @staticmethod
    def observe(lab, answer: Callable) -> Asked:
        """Ask about a table that it does not know, and count Spark's jobs meanwhile."""
        from hudi import HudiQueryType, HudiReadOptions

        path, states = _unknown_table(lab)
        address = path.replace("s3a://", "s3://")
        first, *_, last = lab.xray(path).instants
        before = _jobs(lab.spark)
        now = answer(BY_STATUS, address)
        if not isinstance(now, pd.DataFrame):
            return Asked(type(now).__name__, {}, {}, 0, states, len(_jobs(lab.spark) - before))
        then = answer(BY_STATUS, address, HudiReadOptions().with_as_of_timestamp(first.requested))
        nothing = HudiReadOptions().with_query_type(HudiQueryType.Incremental)
        ((unchanged,),) = as_rows(
            answer(NUMBER, address, nothing.with_start_timestamp(last.completed)), ("orders",)
        )
        jobs = len(_jobs(lab.spark) - before)
        return Asked(
            "DataFrame", _by_status(now), _by_status(then), as_int(unchanged), states, jobs
        )

    @staticmethod
    def judge(facts: Asked) -> Passed | NotYet:
        """All three answers are right, and Spark did nothing."""
        states = facts.states
        orders, rows = sum(states.now.values()), sum(facts.now.values())
        if facts.jobs:
            return NotYet(
                f"Spark ran {facts.jobs} jobs for it. Where there is no Java there is no Spark: "
                "read the table with hudi-rs."
            )
        if facts.kind != "DataFrame":
            return NotYet(
                f"Your function returns a {facts.kind}. Return DuckDB's answer as a pandas "
                "DataFrame: `.df()`, or `.to_arrow_table().to_pandas()`."
            )
        if rows == states.parquet != orders:
            return NotYet(
                f"{rows:,} rows for {orders:,} orders: old slices counted, logs ignored. All "
                "Parquet files of a folder are not the table. A table is what its timeline says."
            )
        if facts.now == states.base != states.now:
            return NotYet(
                f"You count {_words(facts.now)}: you read base files only. The table has "
                f"{_words(states.now)}; the rest stands in logs."
            )
        if facts.now != states.now:
            return NotYet(f"You count {_words(facts.now)}; the table has {_words(states.now)}.")
        if facts.then == states.now != states.then:
            return NotYet(
                f"Asked for the state of the first commit, you count {_words(facts.then)}, as now. "
                f"Then it was {_words(states.then)}. Your function does not hand on the options."
            )
        if facts.then != states.then:
            return NotYet(
                f"Asked for the state of the first commit, you count {_words(facts.then)}; it was "
                f"{_words(states.then)}."
            )
        if facts.unchanged:
            return NotYet(
                f"Asked for what changed after the last commit, you count {facts.unchanged} "
                "orders. Nothing has."
            )
        return Passed(
            f"Now {_words(states.now)}, at the first commit {_words(states.then)}, and Spark ran "
            f"no job. All Parquet files of the table together have {states.parquet:,} rows."
        )


@dataclass(frozen=True)
class Compacted:
    """What a read-optimised query says of a table before and after the answer.

    Args:
        before: orders by status before it, by a snapshot query.
        base_before: before it, by a read-optimised query.
        deltacommits: how many there were since the last compaction.
        now: after it, by a snapshot query.
        base: after it, by a read-optimised query.
        planned: number of compactions that are planned and were not run.
        kept: whether the earlier commits are still on the timeline.
    """

    before: Counts
    base_before: Counts
    deltacommits: int
    now: Counts
    base: Counts
    planned: int
    kept: bool


@check_of("13.4")
class LogsAreMerged:
    """A table whose base files have the newest state."""

    @staticmethod
    def observe(lab, answer: Callable) -> Compacted:
        """Let it compact a copy of a table with logs, and once more after one more deltacommit."""
        path, _ = _unknown_table(lab)
        copy = scratch_copy(lab, path, "logs")
        found = _compacted(lab, answer, copy, deltacommits=2)
        if isinstance(_merged(found), Passed):
            shipped = _some_orders(lab, "id < 30", "'shipped'", minute=2)
            _append(shipped, copy, MERGE_ON_READ | {"hoodie.table.name": _name(path)})
            found = _compacted(lab, answer, copy, deltacommits=1)
        return found

    @staticmethod
    def judge(facts: Compacted) -> Passed | NotYet:
        """The read-optimised answer is the newest state, which is what it was."""
        return _merged(facts)


def _compacted(lab, answer: Callable, path: str, deltacommits: int) -> Compacted:
    """Call an answer for a table, and ask the table before and after."""
    instants = {instant.requested for instant in lab.xray(path).instants}
    before = _counts(lab.spark, path), _counts(lab.spark, path, READ_OPTIMISED)
    answer(path)
    after = lab.xray(path).instants
    return Compacted(
        *before,
        deltacommits,
        _counts(lab.spark, path),
        _counts(lab.spark, path, READ_OPTIMISED),
        sum(found.action == "compaction" and not found.completed for found in after),
        instants <= {instant.requested for instant in after},
    )


def _merged(facts: Compacted) -> Passed | NotYet:
    """Whether the base files have the newest state, and the table is what it was."""
    if facts.now != facts.before or not facts.kept:
        return NotYet(
            f"The table had {_words(facts.before)}, and now it has {_words(facts.now)} and "
            f"{'its' if facts.kept else 'not all of its'} earlier commits. Only merge the "
            "logs: a compaction changes no row, and keeps the timeline."
        )
    if facts.planned:
        return NotYet(
            f"The compaction is planned, and nobody has run it: read-optimised says "
            f"{_words(facts.base)}, as before. `op` says what the procedure does."
        )
    if facts.base == facts.base_before != facts.now:
        return NotYet(
            f"Read-optimised says {_words(facts.base)}, as before; the snapshot says "
            f"{_words(facts.now)}. Nothing was merged: by default the procedure waits for five "
            f"deltacommits. This table has had {facts.deltacommits} since its last compaction, "
            "and your function must not wait for another."
        )
    if facts.base != facts.now:
        return NotYet(
            f"Read-optimised says {_words(facts.base)}; the snapshot says {_words(facts.now)}."
        )
    return Passed(
        f"Before, a read-optimised query said {_words(facts.base_before)}. Now it says "
        f"{_words(facts.base)}, as the snapshot does: after two deltacommits, and after one more."
    )


@cache  # answers read it, or a copy of it
def _unknown_table(lab) -> tuple[str, States]:
    """The path of a table with random numbers of orders in three partitions, and what it says.

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
        rows = _some_orders(lab, which, f"IF({paid}, 'paid', 'new')", minute)
        _append(rows, path, MERGE_ON_READ)
    table = lab.xray(path)
    return path, States(
        now=_counts(lab.spark, path),
        then=_counts(lab.spark, path, {"as.of.instant": table.instants[0].requested}),
        base=_counts(lab.spark, path, READ_OPTIMISED),
        parquet=sum(file.rows for file in table.files if file.kind == "base"),
    )


def _some_orders(lab, which: str, status: str, minute: int) -> DataFrame:
    """Orders of three days: those for which a condition on `id` holds, with a status in SQL."""
    return lab.spark.sql(f"""
        SELECT 'O-' || id AS order_id, {status} AS status,
               TIMESTAMP '2026-11-20 12:0{minute}:00' AS order_ts,
               '2026-11-2' || (id % 3) AS partition_date
        FROM range(0, 300, 1, 1) WHERE {which}
    """)


def _jobs(spark) -> set[int]:
    """The numbers of the jobs that Spark has run."""
    return set(spark.sparkContext.statusTracker().getJobIdsForGroup())


def _counts(spark, path: str, options: Mapping[str, str] | None = None) -> Counts:
    """Orders by status, as Spark reads a table."""
    table = spark.read.format("hudi").options(**(options or {})).load(path)
    return {row["status"]: row["count"] for row in table.groupBy("status").count().collect()}


def _by_status(answer) -> Counts:
    return {
        as_text(status): as_int(orders) for status, orders in as_rows(answer, ("status", "orders"))
    }


def _words(counts: Counts) -> str:
    """For example `180 new, 40 paid`."""
    return ", ".join(f"{orders:,} {status}" for status, orders in sorted(counts.items())) or "none"


def _names(lab, database: str, begin: str) -> frozenset[str]:
    """The tables of a database whose names begin so."""
    rows = lab.spark.sql(f"SHOW TABLES IN {database} LIKE '{begin}*'").collect()
    return frozenset(row["tableName"] for row in rows)


def _orders(lab, begin: int, size: int) -> DataFrame:
    """New orders, half of them on each of two days."""
    return lab.spark.sql(f"""
        SELECT 'O-' || id AS order_id, 'C-1' AS customer_id, 'new' AS status,
               CAST(id AS DECIMAL(12,2)) AS amount, TIMESTAMP '2026-11-20 12:00:00' AS order_ts,
               '2026-11-2' || (id % 2) AS partition_date
        FROM range({begin}, {begin + size}, 1, 1)
    """)


def _write_return(lab, day: str) -> None:
    """Write one return of a day, without sync."""
    rows = lab.spark.sql(f"""
        SELECT 'O-1-{day}' AS order_id, 'C-1' AS customer_id, 'returned' AS status,
               CAST(10 AS DECIMAL(12,2)) AS amount, TIMESTAMP '2026-11-20 12:00:00' AS order_ts,
               '{day}' AS partition_date
    """)
    _append(rows, lab.path(RETURNS))


def _append(rows: DataFrame, path: str, options: dict[str, str] | None = None) -> None:
    options = WRITER | {"hoodie.table.name": _name(path)} | (options or {})
    rows.write.format("hudi").options(**options).mode("append").save(path)


def _name(path: str) -> str:
    return path.rpartition("/")[2]
