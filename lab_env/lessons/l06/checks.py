"""Checks of lesson 06: inspect files, instants and rows after the learner's writes and SQL.

The tables are small, so that a check's write takes about a second.
"""

import random
import time
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache

from pyspark.sql import functions as F

from lab_env.course.answers import Unreadable, as_int, as_pair
from lab_env.course.checking import check, expect
from lab_env.course.traces import session_left_as_found
from lab_env.lessons.boards import as_board, board_text, expect_decimal
from lab_env.lessons.l06.figures import batches_of
from lab_env.lessons.rows import expect_rows, keys_of, named, rows_at, settings_of, without_hudis
from lab_env.lessons.streams import own_streams_stopped, session_spared, spark_settings, started
from lab_env.lessons.table_copies import scratch_copy
from lab_env.lessons.timelines import completed_instants, expect_added, expect_no_metadata
from lab_env.pipeline.options import DEMO_OPTIONS, KEYS
from lab_env.platform import store
from lab_env.platform.errors import LabError
from lab_env.tables.hudi.table import DataFile, FileSlice, Snapshot
from lab_env.tables.hudi.timeline import to_seconds

ANOTHER_DAY = "2026-12-31"
WAITS_S = 45.0  # for a compaction of three rows, also on a machine that does other work
BEGINS_S = 15.0  # until a thread beside the stream takes up its plan
STREAM_TIMEOUT_S = 150.0
TABLE_TYPE = "hoodie.datasource.write.table.type"
TABLE = (
    KEYS
    | DEMO_OPTIONS
    | {
        "hoodie.table.name": "scratch",
        TABLE_TYPE: "MERGE_ON_READ",
        "hoodie.index.bloom.num_entries": "1000",
    }
)
# Random prices of the check's three orders, so that the board takes a query; two are equal.
_NEW, _PAID = (Decimal(random.randint(101, 999)) / 100 for _ in range(2))
PRICES = (_NEW, _PAID, _PAID)


@check("06.1")
def metric_to_monitor(lab, count_logs):
    """Call the function for the lesson's table, and for made-up tables with several file groups."""
    chosen = random.Random()
    tables = {"the table `never`": lab.xray(lab.path("never"))}
    for number in range(1, 5):
        tables[f"made-up table {number}"] = made_up_table(chosen, logs=number < 4)
    for name, table in tables.items():
        answer, right = as_int(count_logs(table)), logs_to_merge(table)
        mistakes = {
            sum(i.action == "deltacommit" for i in table.instants): (
                "It counts the writes of its whole timeline."
            ),
            len(table.current[0].logs): "It counts the logs of one file group only.",
            sum(file.kind == "log" for file in table.files): (
                "It counts the logs of older slices and of every file group."
            ),
        }
        expect(
            answer == right,
            "For {} your function returns {}, but in its worst file group a query merges {} logs. "
            "{}",
            name,
            answer,
            right,
            mistakes.get(answer, ""),
        )
    return (
        f"{logs_to_merge(tables['the table `never`'])} logs to merge in the table `never`, and "
        "right for tables of many file groups. Set an alarm on this number: no error will be "
        "raised."
    )


def logs_to_merge(table: "Snapshot | MadeUpTable") -> int:
    """Return the number of logs that a snapshot query merges in the worst file group."""
    logs: dict[tuple[str, str], int] = {}
    for found in table.current:
        group = (found.partition, found.group)
        logs[group] = logs.get(group, 0) + len(found.logs)
    return max(logs.values(), default=0)


@dataclass(frozen=True)
class MadeUpTable:
    """A fake X-ray of a table that does not exist, with the attributes that the exercise names."""

    slices: tuple[FileSlice, ...]
    instants: tuple = ()

    @property
    def current(self) -> tuple[FileSlice, ...]:
        """The file slices that a snapshot query reads."""
        return tuple(found for found in self.slices if found.current)

    @property
    def files(self) -> tuple[DataFile, ...]:
        """The data files of all slices."""
        return tuple(file for found in self.slices for file in found.files)


def made_up_table(chosen: random.Random, logs: bool = True) -> MadeUpTable:
    """Return a table of two partitions with three file groups each; one has a planned compaction.

    The worst file group is never the first one, and the logs of both of its current slices count.

    Args:
        chosen: random generator for the numbers of logs.
        logs: True if the current slices have logs.
    """
    slices = []
    for partition in ("2026-11-20", "2026-11-21"):
        for number in range(3):
            group, worst = f"group-{number}", (partition, number) == ("2026-11-21", 1)
            many = chosen.randint(2, 4) + (4 if worst else 0)
            slices.append(_slice(partition, group, "0", chosen.randint(3, 5), current=False))
            slices.append(_slice(partition, group, "1", many * logs))
            if worst:
                planned = _slice(partition, group, "2", chosen.randint(1, 3) * logs)
                slices.append(replace(planned, base=None))  # no base file before it is compacted
    return MadeUpTable(tuple(slices))


def _slice(partition: str, group: str, at: str, logs: int, current: bool = True) -> FileSlice:
    base = DataFile(partition, group, at, "base", f"{group}_{at}.parquet", 1000, True)
    names = (f".{group}_{at}.log.{number}" for number in range(1, logs + 1))
    files = tuple(DataFile(partition, group, at, "log", name, 100, True) for name in names)
    return FileSlice(partition, group, at, base, files, current)


@check("06.2")
def as_fresh_as_needed(lab, answer):
    """Query the board of a table with a log; then write with the options for two permitted lags."""
    board, inline_options = as_pair(
        answer, "The two functions are expected: `[board, inline_options]`"
    )
    _expect_board(lab, board, _with_a_log(lab), 1)
    for may_lag in (1, random.choice((2, 3))):
        options = inline_options(may_lag)
        if not hasattr(options, "items"):
            raise Unreadable("`inline_options` has to return a dictionary of options.")
        options = {str(name): _as_option(value) for name, value in options.items()}
        options["hoodie.table.name"] = TABLE["hoodie.table.name"]
        expect(
            (TABLE | options)[TABLE_TYPE] == TABLE[TABLE_TYPE],
            "The table is not Merge-on-Read any more: it has nothing to compact.",
        )
        path = scratch_copy(lab, _just_compacted(lab), "board")
        behind: list[int] = []
        for batch in range(2, may_lag + 3):
            _write_board(lab, path, batch, options)
            behind.append(max(len(found.logs) for found in lab.xray(path).current))
            needed = len(behind) if len(behind) <= may_lag else 0
            if behind[-1] != needed:
                break  # more writes would not make it right
        rows = rows_at(lab, path).count()
        expect(
            rows == 3,
            "The table has {} rows for 3 orders: with your options a write does not replace the "
            "order's older row.",
            rows,
        )
        asked = (
            f"Asked for a board that may be {may_lag} behind: after each write it was behind by "
            f"{', '.join(map(str, behind))}."
        )
        expect(behind[-1] <= may_lag, "{} It has to be compacted more often.", asked)
        expect(
            behind[-1] == needed,
            "{} That is fresher than it has to be, and took more compactions than necessary.",
            asked,
        )
        _expect_board(lab, board, path, may_lag + 2)
    return "Each board is as fresh as it has to be, by one compaction."


def _expect_board(lab, board, path: str, batch: int) -> None:
    """Check that the learner's board is the right one after a batch."""
    with session_left_as_found(lab.spark):
        answer = board(path)
    if not hasattr(answer, "toPandas"):
        raise Unreadable("Your board has to be a DataFrame of Spark: do not collect it.")
    shown, columns = as_board(answer), answer.columns
    expect(
        len(columns) == 2,
        "The board shows status and revenue; yours has also {}.",
        named(name for name in columns if name not in ("status", "revenue")),
    )
    expect_decimal(answer)
    new, first, second = (price * (batch + 1) for price in PRICES)
    right = {"new": new, "paid": first + second} if batch < 2 else {"shipped": new + first + second}
    expect(
        shown == right or shown.keys() != keys_of(rows_at(lab, path), "status").keys(),
        "Your board shows {}. That is the answer of a snapshot query: it merges the log.",
        board_text(shown),
    )
    expect(
        shown == right,
        "Your board shows {}. The base file has the statuses {}, each with its own sum.",
        board_text(shown),
        " and ".join(right),
    )


@cache  # of a call that was interrupted, nothing is used
def _with_a_log(lab) -> str:
    """Return the path of a table whose base file has one log, written on the first call."""
    path = scratch_copy(lab, _just_compacted(lab), "board_with_log")
    _write_board(lab, path, 2, {"hoodie.compact.inline": "false"})
    return path


@cache
def _just_compacted(lab) -> str:
    """Return the path of a table with two batches and no logs, written on the first call."""
    path = lab.scratch("compacted_board")
    inline = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "2"}
    for batch in range(2):
        _write_board(lab, path, batch, inline)
    return path


def _write_board(lab, path: str, batch: int, options: dict[str, str]) -> None:
    """Upsert a batch of the same three orders."""
    first, second, third = PRICES
    rows = lab.spark.sql(f"""
        SELECT order_id, {batch} AS batch, '2026-11-20' AS partition_date,
               CASE WHEN {batch} > 1 THEN 'shipped' ELSE before END AS status,
               CAST(price * ({batch} + 1) AS DECIMAL(12,2)) AS amount,
               TIMESTAMP '2026-11-20 12:00:00' + make_interval(0, 0, 0, 0, 0, {batch}) AS order_ts
        FROM VALUES ('O-17', 'new', {first}), ('O-18', 'paid', {second}), ('O-19', 'paid', {third})
             AS orders(order_id, before, price)
    """)
    rows.write.format("hudi").options(**(TABLE | options)).mode("append").save(path)


def _as_option(value: object) -> str:
    """Convert a Hudi option's value to text, as Spark's writer does."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@check("06.3")
def compacts_beside_the_stream(lab, start_stream):
    """Start the stream on two files of three orders each; add a third once it has compacted."""
    source, path, checkpoint = map(lab.scratch, ("changes", "stream", "checkpoint"))
    for number in range(2):
        _add_file(lab, source, number)
    with own_streams_stopped(lab.spark, STREAM_TIMEOUT_S) as stopped:
        with session_spared(), session_left_as_found(lab.spark):
            query = started(start_stream(source, path, checkpoint))
        expect(
            not stopped.late,
            "Your function waited for the end of a stream that goes on. Return the running query.",
        )
        query.processAllAvailable()
        expect(lab.files(path), "Your stream wrote nothing to the path that it was given.")
        table, batches = lab.xray(path), batches_of(query.recentProgress)
        commits = sum(i.action == "deltacommit" and bool(i.completed) for i in table.instants)
        expect_rows(rows_at(lab, path), lab.spark.read.parquet(f"{source}/0.parquet"))
        expect(lab.files(f"{checkpoint}/commits"), "There is no checkpoint at `checkpoint`.")
        expect_no_metadata(lab, path, "ORDERS")
        expect(
            commits == 2,
            "The stream took both files in one batch. Which option limits the files per trigger?",
        )
        expect(
            query.isActive,
            "Your stream took both files and ended, so it will not take a third. A stream without "
            "a trigger goes on.",
        )
        expect(
            _plans(table),
            "After {} commits the stream had planned no compaction. After how many deltacommits "
            "does it by default?",
            commits,
        )
        table, waited = _after_compaction(lab, path)
        expect(
            not table.planned,
            "The stream planned a compaction, and {:.0f} seconds later nobody had carried it out. "
            "Who runs the plans of a stream whose writer does not?",
            waited,
        )
        ran = [i for i in table.instants if i.action == "compaction" and i.completed]
        expect(
            not any(
                batch.began < to_seconds(found.requested)
                and to_seconds(found.completed) < batch.ended
                for batch in batches
                for found in ran
            ),
            "The batch that planned the compaction also ran it, and ended only after it: that is "
            "inline. Beside the stream runs a plan of which the writer says `async`.",
        )
        _add_file(lab, source, 2)
        query.processAllAvailable()
        expect(
            _plans(lab.xray(path)) == 1,
            "The stream planned another compaction after a single commit more; the exercise asks "
            "for one after every second.",
        )
    return "A plan after the second commit, none after the third."


@cache
def _with_another_day(lab) -> str:
    """Return the path of a copy of the stream's table with a base file in another partition."""
    path = scratch_copy(lab, lab.path("async"), "another_day")
    _update_another_day(lab, path)
    return path


def _update_another_day(lab, path: str) -> None:
    """Upsert an order of another day: the first time into a base file, then into a log."""
    row = without_hudis(rows_at(lab, path)).limit(1)
    name = {"hoodie.table.name": settings_of(lab, path)["hoodie.table.name"]}
    options = TABLE | name | {"hoodie.compact.inline": "false"}
    row = row.withColumn("partition_date", F.lit(ANOTHER_DAY))
    row.write.format("hudi").options(**options).mode("append").save(path)


def _after_compaction(lab, path: str) -> tuple[Snapshot, float]:
    """Wait until no plan is left or the time is up; return the table and the seconds waited."""
    began = time.monotonic()
    while True:
        table, waited = lab.xray(path), time.monotonic() - began
        inflight = any(i.action == "compaction" and i.state == "inflight" for i in table.instants)
        if not table.planned or waited > (WAITS_S if inflight else BEGINS_S):
            return table, waited
        time.sleep(0.5)


def _plans(table: Snapshot) -> int:
    """Count the compactions on a table's timeline, planned or complete."""
    return sum(instant.action == "compaction" for instant in table.instants)


def _add_file(lab, source: str, number: int) -> None:
    """Copy a Parquet file of three orders, written on the first call, into the source folder."""
    folder = lab.path("exercise/changes")
    if not lab.files(folder):
        rows = lab.spark.sql("""
            SELECT order_id, 'paid' AS status, CAST(5 AS DECIMAL(12,2)) AS amount,
                   '' AS tracking_code,
                   0 AS batch, TIMESTAMP '2026-11-20 12:00:00' AS order_ts,
                   '2026-11-20' AS partition_date
            FROM VALUES ('O-17'), ('O-18'), ('O-19') AS orders(order_id)
        """)
        rows.coalesce(1).write.parquet(folder)
    (written,) = (file.key for file in lab.files(folder) if file.key.endswith(".parquet"))
    bucket = lab.endpoints.bucket
    store.client(lab.endpoints).copy_object(
        Bucket=bucket,
        Key=f"{store.key_of(source)}/{number}.parquet",
        CopySource={"Bucket": bucket, "Key": written},
    )


@check("06.4")
def compacts_by_a_job(lab, answer):
    """Let the functions plan and run a compaction of two copies of the stream's table."""
    plan, run = as_pair(answer, "The two functions are expected: `[plan, run]`")
    for which in ("the first", "the second"):
        path = scratch_copy(lab, _with_another_day(lab), "left_by_stream")
        before = lab.xray(path)
        if not any(part.logs for part in before.current):
            raise LabError(
                "The stream's table has no log left that a job could compact.",
                "run the notebook again from its first cell.",
            )
        with session_left_as_found(lab.spark):
            plan(path)
        planned = lab.xray(path, since=before)
        new = {i.requested for i in planned.new_instants if i.action == "compaction"}
        expect(
            new,
            "Nothing was planned in {} table, so nothing ran. Deltacommits since its last "
            "compaction: {}, fewer than the five that the trigger asks for by default.",
            which,
            logs_to_merge(before),
        )
        expect(
            not any(file.kind == "base" for file in planned.new_files),
            "`plan` wrote a base file already: it ran what it had planned.",
        )
        _expect_only_plans(before, planned)
        trigger = {}
        if which == "the second":
            _update_another_day(lab, path)
            trigger = {"hoodie.compact.inline.max.delta.commits": "1"}  # would plan that write, too
        with spark_settings(lab.spark, trigger), session_left_as_found(lab.spark):
            ready = completed_instants(lab, path)
            run(path)
        after = lab.xray(path)
        expect(
            _plans(after) == _plans(planned),
            "A write came between `plan` and `run`, and your `run` planned another compaction. It "
            "carries out the plan that is there: which `op` does only that?",
        )
        expect(
            any(i.requested in new and i.state == "completed" for i in after.instants),
            "A plan exists in {} table, but no new base file. Scheduling decides; running pays.",
            which,
        )
        logs = max(len(s.logs) for s in after.current if not s.partition.endswith(ANOTHER_DAY))
        expect(not logs, "A compaction was completed, but {} logs are still to be merged.", logs)
        old, base = (max(s.base.size for s in t.current if s.base) for t in (before, after))
        expect(
            base <= 3 * old,
            "No log is left to merge. But the new base file has {} KB where the old one had {}: "
            "`run` did not get the writer's options, `JOB`, and made its bloom filter for 60,000 "
            "keys.",
            base // 1024,
            old // 1024,
        )
        expect_added(lab, path, ready, why="`run` carries out one plan.")
        expect_no_metadata(lab, path, "JOB")
    return "A new base file, and no log to merge."


def _expect_only_plans(before: Snapshot, planned: Snapshot) -> None:
    """Check that nothing was completed but what had been before."""
    done = {(i.requested, i.action) for i in before.instants if i.completed}
    more = [
        i.action for i in planned.instants if i.completed and (i.requested, i.action) not in done
    ]
    expect(not more, "`plan` did more than to plan: the table has a new {}.", " and ".join(more))
