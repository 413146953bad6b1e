"""Checks of lesson 18: what two writers did to one table, which files a split touches, what stays.

Only outcomes, locks, files and instants count, never the text of the learner's code.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import functions as F

from lab_env import store
from lab_env.course.answers import Unreadable
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.lessons.l18.colleague import COLLEAGUE, COMMITTED, YOU, Colleague, attempt
from lab_env.lessons.l18.locks import LockWatch
from lab_env.lessons.table_copies import scratch_copy
from lab_env.pipeline.options import DEMO_OPTIONS, KEYS

TABLE = (
    KEYS | DEMO_OPTIONS | {"hoodie.table.name": "orders", "hoodie.index.bloom.num_entries": "1000"}
)
CONFLICT = "Conflict"  # part of the name of each of Hudi's exceptions for it
DEAD = "orders_of_the_dead"  # the table as the killed writer left it


def write(rows: Any, table: str, options: Mapping[str, str]) -> None:
    """Upsert rows into a copy of the lesson's table, with a writer's options."""
    rows.write.format("hudi").options(**TABLE).options(**options).mode("append").save(table)


HER_WRITE = """
from lab_env.lessons.l18.checks import one_order, write
write(one_order(spark, key, "paid"), table, options)
"""


def one_order(spark: Any, key: int, status: str) -> Any:
    """An order of the lesson's table with a new status, as a DataFrame of one row."""
    return spark.sql(f"""
        SELECT 'O-{key}' AS order_id, '{status}' AS status,
               CAST(10 + {key} AS DECIMAL(12,2)) AS amount,
               TIMESTAMP '2026-11-21 18:00:00' AS order_ts,
               concat('2026-11-', 19 + ({key} - 1) DIV 100) AS partition_date
    """).coalesce(1)


@dataclass(frozen=True)
class TwoJobs:
    """Two writes of one file group at the same time, each with the options of its job.

    Args:
        outcomes: by writer, `committed` or an error.
        kept: by writer, whether its change is in the table.
        locks: by writer, the locks that it held.
        mode: the concurrency mode that the options name; empty if they name none.
    """

    outcomes: dict[str, str]
    kept: dict[str, bool]
    locks: dict[str, frozenset[str]]
    mode: str = ""


@check_of("18.1")
class OneLockForBoth:
    """Two jobs of one file group: does the second one notice, and do they share a lock?"""

    @staticmethod
    def observe(lab, answer) -> TwoJobs:
        """Let the colleague write with one job's options, and meanwhile write with the other's."""
        if not callable(answer):
            raise Unreadable("A function of a job's name and a table's path is expected.")
        table = scratch_copy(lab, lab.path("orders"), "two_jobs")
        stream, backfill = (_options(answer, job, table) for job in ("stream", "backfill"))
        colleague = Colleague.of(lab)
        hers, mine = random.sample(range(201, 251), 2)
        colleague.share(table=table, key=hers, options=backfill)
        with colleague.frozen_while_writing(table, HER_WRITE) as her_run:
            my_run = attempt(write, one_order(lab.spark, mine, "cancelled"), table, stream)
        wanted = {YOU: (mine, "cancelled"), COLLEAGUE: (hers, "paid")}
        held = {who: frozenset(h.path for h in her_run.locks if h.writer == who) for who in wanted}
        return TwoJobs(
            outcomes={YOU: my_run.outcome, COLLEAGUE: her_run.outcome},
            kept={who: _status(lab, table, key) == status for who, (key, status) in wanted.items()},
            locks=held,
            mode=str(stream.get("hoodie.write.concurrency.mode", "")).upper(),
        )

    @staticmethod
    def judge(facts: TwoJobs) -> Passed | NotYet:
        """Somebody compared the files, nothing committed is lost, and there was one lock."""
        happened = "; ".join(_told(who, facts) for who in (YOU, COLLEAGUE))
        noticed = any(CONFLICT in outcome for outcome in facts.outcomes.values())
        both = all(facts.kept.values())
        if not (noticed or both) or not _nothing_lost(facts):
            mode = facts.mode or "SINGLE_WRITER"
            if mode != "SINGLE_WRITER":
                return NotYet(f"{happened}. Nothing may be lost and nothing fail for this reason.")
            return NotYet(
                f"Nobody compared your files: the mode is {mode}, which takes another's unfinished "
                f"write for a failed one. {happened}."
            )
        if not all(facts.locks.values()):
            missing = " and ".join(who for who in (YOU, COLLEAGUE) if not facts.locks[who])
            return NotYet(f"The conflict was noticed, but without a lock in ZooKeeper: {missing}.")
        if facts.locks[YOU] != facts.locks[COLLEAGUE]:
            mine, hers = (", ".join(sorted(facts.locks[who])) for who in (YOU, COLLEAGUE))
            return NotYet(
                f"Two writers, two locks: you held {mine}, your colleague {hers}. Both may check "
                "at the same moment, see no commit of the other, and commit."
            )
        (path,) = facts.locks[YOU] if len(facts.locks[YOU]) == 1 else (sorted(facts.locks[YOU])[0],)
        return Passed(f"One lock, {path}, and the files were compared: {happened}.")


def _options(answer: Callable, job: str, table: str) -> dict[str, str]:
    given = answer(job, table)
    if not isinstance(given, Mapping):
        raise Unreadable("The function has to return a dictionary of options.")
    return {str(name): str(value) for name, value in given.items()}


def _status(lab, table: str, key: int) -> str:
    rows = lab.spark.read.format("hudi").load(table).where(F.col("order_id") == f"O-{key}")
    found = rows.select("status").collect()
    return found[0]["status"] if found else ""


def _nothing_lost(facts: TwoJobs) -> bool:
    return all(
        facts.kept[who] if outcome == COMMITTED else CONFLICT in outcome
        for who, outcome in facts.outcomes.items()
    )


def _told(who: str, facts: TwoJobs) -> str:
    outcome = facts.outcomes[who]
    if outcome == COMMITTED and not facts.kept[who]:
        return f"{who}: committed, and the change is not in the table"
    return f"{who}: {outcome.split(' between ')[0][:160]}"


@dataclass(frozen=True)
class Split:
    """What a backfill would write beside one batch of the stream.

    Args:
        rows: corrections that the function lets through.
        strangers: rows of it that are no corrections.
        shared: partition and file group of one file that both would write; empty without one.
        left_out: corrections that it holds back although the stream does not write their partition.
    """

    rows: int
    strangers: int
    shared: tuple[str, str] | tuple[()]
    left_out: int


@check_of("18.2")
class NoFileTwice:
    """Whether the rows that a backfill writes now share a file group with the stream's batch."""

    @staticmethod
    def observe(lab, answer) -> Split:
        """Call the function with random corrections and a random batch; look up their files."""
        if not callable(answer):
            raise Unreadable("A function of two DataFrames is expected.")
        spark, chosen = lab.spark, random.Random()
        corrections = sorted(chosen.sample(range(1, 301), 90))
        # The stream writes one file of the second day, and the third day.
        batch = [*chosen.sample(range(151, 201), 8), *chosen.sample(range(201, 301), 30)]
        given = answer(_orders(spark, corrections), _orders(spark, batch))
        if not hasattr(given, "select") or "order_id" not in given.columns:
            raise Unreadable("The function has to return a DataFrame with the column order_id.")
        allowed = [int(row["order_id"].split("-")[1]) for row in given.select("order_id").collect()]
        files = files_of(lab)
        theirs = {files[key] for key in batch}
        both = sorted(files[key] for key in allowed if files.get(key) in theirs)
        days = {partition for partition, _ in theirs}
        free = [key for key in corrections if files[key][0] not in days]
        return Split(
            rows=len(allowed),
            strangers=len(set(allowed) - set(corrections)),
            shared=both[0] if both else (),
            left_out=len(set(free) - set(allowed)),
        )

    @staticmethod
    def judge(facts: Split) -> Passed | NotYet:
        """No file twice, and every correction of a partition that the stream leaves alone."""
        if facts.strangers:
            return NotYet(f"{facts.strangers} of your rows are no corrections.")
        if facts.shared:
            partition, group = facts.shared
            return NotYet(
                f"Different rows, same file: you and the stream would both rewrite file group "
                f"{group[:8]} of {partition}. One of you would fail."
            )
        if facts.left_out:
            return NotYet(
                f"No conflict, but {facts.left_out} corrections wait although the stream writes "
                "nothing to their partition."
            )
        return Passed(f"{facts.rows} corrections go in now, and no file is written twice.")


def _orders(spark: Any, keys: list[int]) -> Any:
    keyed = spark.createDataFrame([(key,) for key in keys], "id int").coalesce(1)
    return keyed.selectExpr(
        "concat('O-', id) AS order_id",
        "'corrected' AS status",
        "CAST(10 + id AS DECIMAL(12,2)) AS amount",
        "TIMESTAMP '2026-11-21 09:00:00' + make_interval(0, 0, 0, 0, 0, id) AS order_ts",
        "concat('2026-11-', 19 + (id - 1) DIV 100) AS partition_date",
    )


def files_of(lab) -> dict[int, tuple[str, str]]:
    """Partition and file group of each order of the lesson's table, by its number."""
    table = lab.spark.read.format("hudi").load(lab.path("orders"))
    rows = table.select("order_id", "_hoodie_partition_path", "_hoodie_file_name").collect()
    return {
        int(order.split("-")[1]): (partition, name.split("_")[0]) for order, partition, name in rows
    }


@dataclass(frozen=True)
class Cleaned:
    """A table that a dead writer left, before and after the learner's function.

    Args:
        pending: instants that are not complete, afterwards.
        orphans: partition of each data file, afterwards, that belongs to no complete commit.
        rolled_back: whether the timeline has a rollback that it had not before.
        rows: orders, afterwards.
        expected: orders, before.
        commits: complete writes that the function added.
        elsewhere: whether the lesson's own table was changed instead.
        locked: whether a lock of the lesson was held meanwhile.
    """

    pending: int
    orphans: tuple[str, ...]
    rolled_back: bool
    rows: int
    expected: int
    commits: int = 0
    elsewhere: bool = False
    locked: bool = True


@check_of("18.3")
class NothingOfTheDead:
    """Whether a dead writer's instant is gone, its files with it, and the table whole."""

    @staticmethod
    def observe(lab, answer) -> Cleaned:
        """Let the function clean up a copy of the table that the killed writer left."""
        if not callable(answer):
            raise Unreadable("A function that gets the path of a table is expected.")
        source = lab.path(DEAD)
        if not lab.files(source):
            raise Unreadable("Run the cell that kills your colleague's notebook first.")
        table = scratch_copy(lab, source, "cleaned")
        # Copying would renew it: its age is that of the file.
        store.delete_prefix(lab.endpoints, store.key_of(f"{table}/.hoodie/.heartbeat") + "/")
        before, expected, own = lab.xray(table), _count(lab, table), lab.xray(source).instants
        with lab.zookeeper() as client:
            watch = LockWatch(client, lab.namespace, lambda port: "")
            try:
                answer(table)
            finally:
                held = watch.stop()
        after = lab.xray(table)
        known = {instant.requested for instant in before.instants}
        return Cleaned(
            pending=sum(not instant.completed for instant in after.instants),
            orphans=tuple(sorted(file.partition for file in after.uncommitted)),
            rolled_back=any(
                instant.action == "rollback" and instant.requested not in known
                for instant in after.instants
            ),
            rows=_count(lab, table),
            expected=expected,
            commits=len(after.completed_writes) - len(before.completed_writes),
            elsewhere=lab.xray(source).instants != own,
            locked=bool(held),
        )

    @staticmethod
    def judge(facts: Cleaned) -> Passed | NotYet:
        """Nothing pending, no file without a commit, and every order still there."""
        if facts.elsewhere:
            return NotYet("Your function changed the lesson's table. Clean up the path it gets.")
        if facts.rows != facts.expected:
            return NotYet(f"The table had {facts.expected} orders and now has {facts.rows}.")
        if facts.commits and not facts.locked:
            return NotYet(
                "Your write took no lock. As a single writer it rolls back all that is unfinished "
                "before it begins, also what a living writer is at: write with your options."
            )
        if facts.pending and facts.commits:
            return NotYet(
                f"Your write is complete, and {facts.pending} instant of the dead writer is still "
                "pending. With several writers nobody rolls back before a write: only cleaning "
                "does, and only when the heartbeat has expired."
            )
        if facts.pending:
            return NotYet(f"{facts.pending} instant of the dead writer is still pending.")
        if facts.orphans:
            places = ", ".join(sorted(set(facts.orphans)))
            return NotYet(
                f"Gone from the timeline, but {len(facts.orphans)} data file in {places} belongs "
                "to no commit now, and nothing will ever remove it."
            )
        if not facts.rolled_back:
            return NotYet("Nothing is pending, and no rollback says why. Who removed it?")
        return Passed("Rolled back: the instant and its file are gone, the timeline says so.")


def _count(lab, table: str) -> int:
    return lab.spark.read.format("hudi").load(table).count()
