"""Checks of lesson 06: what the learner's options, stream and SQL left in the object store.

Only files, instants and rows count. The tables are small: a write of a check takes about a second.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache

from lab_env.course.answers import Unreadable, as_int, as_number, as_pair, as_rows
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.lessons.boards import board_text
from lab_env.lessons.l06.figures import Work, batches_of
from lab_env.lessons.table_copies import scratch_copy
from lab_env.pipeline.options import DEMO_OPTIONS, KEYS
from lab_env.platform import store
from lab_env.platform.errors import LabError
from lab_env.tables.hudi.table import DataFile, FileSlice, Snapshot
from lab_env.tables.hudi.timeline import to_seconds

WAITS_S = 60.0  # for a compaction of three rows, also on a machine that does other work
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


@dataclass(frozen=True)
class LogCounts:
    """One table's logs, as the function counted them and as they are.

    Args:
        table: name.
        answer: what the function returned.
        to_merge: logs that a query merges in the worst file group.
        first: logs of the first current slice.
        all_logs: log files on the store.
        deltacommits: instants of that action.
    """

    table: str
    answer: int
    to_merge: int
    first: int
    all_logs: int
    deltacommits: int


@check_of("06.1")
class LogsToMerge:
    """The number that grows when nobody compacts."""

    @staticmethod
    def observe(lab, answer: Callable) -> tuple[LogCounts, ...]:
        """Call the function with the lesson's table, and with tables of several file groups."""
        tables = {"never": lab.xray(lab.path("never"))}
        chosen = random.Random(6)
        for number in range(1, 4):
            tables[f"made-up table {number}"] = made_up_table(chosen)
        return tuple(
            LogCounts(
                name,
                as_int(answer(table)),
                logs_to_merge(table),
                len(table.current[0].logs),
                sum(file.kind == "log" for file in table.files),
                sum(instant.action == "deltacommit" for instant in table.instants),
            )
            for name, table in tables.items()
        )

    @staticmethod
    def judge(facts: tuple[LogCounts, ...]) -> Passed | NotYet:
        """Right for each of the tables."""
        wrong = [counts for counts in facts if counts.answer != counts.to_merge]
        if not wrong:
            return Passed(
                f"{facts[0].to_merge} logs to merge in the table `never`, and right for tables of "
                "many file groups. Set an alarm on this number: no error will be raised."
            )
        first = wrong[0]
        answered = f"For {first.table} your function returns {first.answer}"
        if all(counts.answer == counts.all_logs for counts in facts):
            return NotYet(
                f"{answered}, but a query merges {first.to_merge}: it counts the logs of older "
                "slices and of every file group."
            )
        if all(counts.answer == counts.deltacommits for counts in facts):
            return NotYet(
                f"{answered}: it counts the writes of its whole timeline. In its worst file group "
                f"a query merges {first.to_merge} logs."
            )
        if all(counts.answer == counts.first for counts in facts):
            return NotYet(
                f"{answered}, the logs of one file group only; the worst has {first.to_merge}."
            )
        return NotYet(f"{answered}; in its worst file group a query merges {first.to_merge} logs.")


def logs_to_merge(table: "Snapshot | MadeUpTable") -> int:
    """Logs that a query of the newest state merges in the worst file group."""
    logs: dict[tuple[str, str], int] = {}
    for found in table.current:
        group = (found.partition, found.group)
        logs[group] = logs.get(group, 0) + len(found.logs)
    return max(logs.values(), default=0)


@dataclass(frozen=True)
class MadeUpTable:
    """The parts of an X-ray that the exercise names, of a table that does not exist."""

    slices: tuple[FileSlice, ...]
    instants: tuple = ()

    @property
    def current(self) -> tuple[FileSlice, ...]:
        """The slices that a query of the newest state reads."""
        return tuple(found for found in self.slices if found.current)

    @property
    def files(self) -> tuple[DataFile, ...]:
        """Data files of all slices."""
        return tuple(file for found in self.slices for file in found.files)


def made_up_table(chosen: random.Random) -> MadeUpTable:
    """A table of two partitions with three file groups each; one of them has a planned compaction.

    The worst file group is never the first one, and needs both of its current slices.
    """
    slices = []
    for partition in ("2026-11-20", "2026-11-21"):
        for number in range(3):
            group, worst = f"group-{number}", (partition, number) == ("2026-11-21", 1)
            counts = [chosen.randint(3, 5), chosen.randint(2, 4) + (4 if worst else 0)]
            old, now = (_slice(partition, group, f"{at}", counts[at]) for at in range(2))
            slices += [_not_current(old), now]
            if worst:
                slices.append(_slice(partition, group, "2", chosen.randint(1, 3)))
    return MadeUpTable(tuple(slices))


def _slice(partition: str, group: str, instant: str, logs: int) -> FileSlice:
    base = DataFile(partition, group, instant, "base", f"{group}_{instant}.parquet", 1000, True)
    names = (f".{group}_{instant}.log.{number}" for number in range(1, logs + 1))
    files = tuple(DataFile(partition, group, instant, "log", name, 100, True) for name in names)
    return FileSlice(partition, group, instant, base, files, current=True)


def _not_current(found: FileSlice) -> FileSlice:
    return FileSlice(
        found.partition, found.group, found.instant, found.base, found.logs, current=False
    )


@dataclass(frozen=True)
class BoardAnswer:
    """What the learner's board shows of a table with a log, and how fresh the options keep tables.

    Args:
        revenue: by status, as the board shows it.
        base: the revenue by status in the base file.
        merged: the same with the log.
        tables: one for each lag that was asked for; none if the board is wrong.
    """

    revenue: dict[str, Decimal]
    base: dict[str, Decimal]
    merged: dict[str, Decimal]
    tables: "tuple[Freshness, ...]" = ()


@dataclass(frozen=True)
class Freshness:
    """How a table that had just been compacted looked after each write of a board's writer.

    Args:
        may_lag: how many batches the board may be behind.
        behind: after each write, how many writes the base file lags; ends where that is not as it
            should be.
        rows: of the table, which has three orders.
        merge_on_read: whether the options leave the table type alone.
    """

    may_lag: int
    behind: tuple[int, ...] = ()
    rows: int = 3
    merge_on_read: bool = True

    @property
    def needed(self) -> tuple[int, ...]:
        """How far behind the board may be after each write, with one compaction at the last."""
        return (*range(1, self.may_lag + 1), 0)


@check_of("06.2")
class AsFreshAsNeeded:
    """A read-optimised board, and options that compact often enough for it, and no more often."""

    @staticmethod
    def observe(lab, answer) -> BoardAnswer:
        """Ask for the board; write for one that may lag by a batch, and for another."""
        parts = "The two functions are expected: `[board, inline_options]`"
        board, inline_options = as_pair(answer, parts)
        shown = _revenue(board(_with_a_log(lab)))
        facts = BoardAnswer(shown, REVENUE["base"], REVENUE["merged"])
        if shown != facts.base:
            return facts  # the options would not make it right
        tables: list[Freshness] = []
        for may_lag in (1, random.choice((2, 3))):
            tables.append(_freshness(lab, inline_options(may_lag), may_lag))
            if isinstance(_verdict_on(tables[-1]), NotYet):
                break
        return replace(facts, tables=tuple(tables))

    @staticmethod
    def judge(facts: BoardAnswer) -> Passed | NotYet:
        """The board is that of the base file, and as fresh as it has to be, by one compaction."""
        if facts.revenue == facts.base:
            return _verdict_on(facts.tables[-1])
        why = f"The base file has the statuses {' and '.join(facts.base)}, each with its own sum."
        if facts.revenue == facts.merged:
            why = f"That is the answer of a snapshot query: it merges the log. {why}"
        shown = board_text(facts.revenue) if facts.revenue else "no row"
        return NotYet(f"Your board shows {shown}. {why}")


# Prices of the check's three orders, by chance: nobody can know the board without a query.
PRICES = tuple(Decimal(random.randint(101, 999)) / 100 for _ in range(3))
# Its base file has batch 1, the first order new and the others paid; its log has batch 2.
REVENUE: dict[str, dict[str, Decimal]] = {
    "base": {"new": 2 * PRICES[0], "paid": 2 * (PRICES[1] + PRICES[2])},
    "merged": {"shipped": 3 * sum(PRICES, Decimal())},
}


@cache  # of a call that was interrupted, nothing is used
def _with_a_log(lab) -> str:
    """The path of a table with one log on its base file, written at the first call."""
    path = scratch_copy(lab, _just_compacted(lab), "board_with_log")
    _write_board(lab, path, 2, {"hoodie.compact.inline": "false"})
    return path


def _revenue(answer) -> dict[str, Decimal]:
    """A board's revenue by status."""
    if not hasattr(answer, "toPandas"):
        raise Unreadable("Your board has to be a DataFrame of Spark: do not collect it.")
    rows = as_rows(answer, ("status", "revenue"))
    if len({status for status, _ in rows}) < len(rows):
        raise Unreadable("Your board has two rows of one status.")
    return {str(status): round(as_number(revenue), 2) for status, revenue in rows}


def _freshness(lab, answer, may_lag: int) -> Freshness:
    """Write one batch more than the board may lag to a table without logs; look after each."""
    if not hasattr(answer, "items"):
        raise Unreadable("`inline_options` has to return a dictionary of options.")
    options = {str(name): _as_option(value) for name, value in answer.items()}
    if (TABLE | options)[TABLE_TYPE] != TABLE[TABLE_TYPE]:
        # The table here keeps its type; the lesson's next one would be made with the answer's.
        return Freshness(may_lag, merge_on_read=False)
    path = scratch_copy(lab, _just_compacted(lab), "board")
    behind: list[int] = []
    for batch, needed in enumerate(Freshness(may_lag).needed):
        _write_board(lab, path, 2 + batch, options)
        behind.append(max(len(found.logs) for found in lab.xray(path).current))
        if behind[-1] != needed:
            break  # more writes would not make it right
    count = lab.spark.read.format("hudi").load(path).count()
    return Freshness(may_lag, tuple(behind), count)


def _verdict_on(board: Freshness) -> Passed | NotYet:
    """Never further behind than it may be, with one compaction, and one row per order."""
    if not board.merge_on_read:
        return NotYet("The table is not Merge-on-Read any more: it has nothing to compact.")
    if board.rows != 3:
        return NotYet(
            f"The table has {board.rows} rows, not as many rows as orders, which are 3: with your "
            "options a write does not replace the order's older row."
        )
    asked = f"Asked for a board that may be {board.may_lag} behind: "
    after_each = f"after each write it was behind by {', '.join(map(str, board.behind))}"
    if max(board.behind) > board.may_lag:
        return NotYet(f"{asked}{after_each}. It has to be compacted more often.")
    if board.behind != board.needed:
        return NotYet(
            f"{asked}{after_each}. That is fresher than it has to be, and took more compactions "
            "than necessary."
        )
    return Passed("Each board is as fresh as it has to be, by one compaction.")


@cache
def _just_compacted(lab) -> str:
    """The path of a table of two batches without logs, written at the first call."""
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


def _as_option(value) -> str:
    """A Hudi option as text, as Spark's writer passes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class Streamed:
    """A table after two batches of a stream, and what a third one did.

    Args:
        batches: completed deltacommits.
        planned: compactions on the timeline.
        checkpoint: whether the stream kept its checkpoint where it should.
        rows: of the table, which has three orders.
        again: whether the third batch planned another one.
        waited: whether a batch ended only after the compaction that it had planned.
    """

    batches: int
    planned: int
    checkpoint: bool
    rows: int
    again: bool = False
    waited: bool = False


@check_of("06.3")
class StreamCompactsBeside:
    """A stream that plans a compaction after two commits and runs it in a thread."""

    @staticmethod
    def observe(lab, answer: Callable) -> Streamed:
        """Start the stream on two files of three orders each; add a third when it has compacted."""
        source, path, checkpoint = map(lab.scratch, ("changes", "stream", "checkpoint"))
        for number in range(2):
            _add_file(lab, source, number)
        query = answer(source, path, checkpoint)
        if not hasattr(query, "processAllAvailable"):
            raise Unreadable("The function must return the running query, which `start()` gives.")
        try:
            query.processAllAvailable()
            if not lab.files(path):
                raise Unreadable("Your stream wrote nothing to the path that it was given.")
            first = _streamed(lab, path, checkpoint, batches_of(query.recentProgress))
            if not first.planned or first.waited:
                return first  # a third batch would not make it right
            deadline = time.monotonic() + WAITS_S
            while lab.xray(path).planned and time.monotonic() < deadline:
                time.sleep(0.2)
            _add_file(lab, source, 2)
            query.processAllAvailable()
            return replace(first, again=_plans(lab.xray(path)) > first.planned)
        finally:
            query.stop()

    @staticmethod
    def judge(facts: Streamed) -> Passed | NotYet:
        """Two commits, one plan, three rows."""
        if facts.rows != 3:
            return NotYet(
                f"The table has {facts.rows} rows; the stream brought three orders, twice."
            )
        if not facts.checkpoint:
            return NotYet("There is no checkpoint at `checkpoint`.")
        if facts.batches < 2:
            return NotYet(
                "The stream took both files in one batch. Which option limits the files per "
                "trigger?"
            )
        if not facts.planned:
            return NotYet(
                f"After {facts.batches} commits the stream had planned no compaction. After how "
                "many deltacommits does it by default?"
            )
        if facts.again or facts.planned > 1:
            return NotYet(
                "The stream planned another compaction after a single commit more; the exercise "
                "asks for one after every second."
            )
        if facts.waited:
            return NotYet(
                "The batch that planned the compaction also ran it, and ended only after it: that "
                "is inline. Beside the stream runs a plan of which the writer says `async`."
            )
        return Passed("A plan after the second commit, none after the third.")


def _add_file(lab, source: str, number: int) -> None:
    """Put a Parquet file of three orders into the folder; it is written at the first call."""
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


def _streamed(lab, path: str, checkpoint: str, triggers: list[Work]) -> Streamed:
    """What the first batches left."""
    table = lab.xray(path)
    compacted = [
        (to_seconds(found.requested), to_seconds(found.completed))
        for found in table.instants
        if found.action == "compaction" and found.completed
    ]
    return Streamed(
        batches=sum(i.action == "deltacommit" and i.state == "completed" for i in table.instants),
        planned=_plans(table),
        checkpoint=bool(lab.files(f"{checkpoint}/commits")),
        rows=lab.spark.read.format("hudi").load(path).count(),
        waited=any(
            trigger.began < planned and ended < trigger.ended
            for trigger in triggers
            for planned, ended in compacted
        ),
    )


def _plans(table: Snapshot) -> int:
    """Compactions on a table's timeline, planned or complete."""
    return sum(instant.action == "compaction" for instant in table.instants)


@dataclass(frozen=True)
class CompactedCopy:
    """A table after the learner's SQL.

    Args:
        planned: compactions on the timeline that were not there before, after `plan`.
        written: base files that `plan` wrote.
        completed: how many of the planned ones are complete, after `run`.
        logs: of the worst file group.
        before: bytes of the base file before.
        after: bytes of the newest base file.
        deltacommits: of the table since its last compaction before.
    """

    planned: int
    written: int
    completed: int
    logs: int
    before: int
    after: int
    deltacommits: int


@check_of("06.4")
class CompactByAJob:
    """A compaction that is planned and run on a copy of the stream's table."""

    @staticmethod
    def observe(lab, answer) -> CompactedCopy:
        """Copy the table, object by object, let the functions work on it, and X-ray it."""
        plan, run = as_pair(answer, "The two functions are expected: `[plan, run]`")
        path = scratch_copy(lab, lab.path("async"), "left_by_stream")
        before = lab.xray(path)
        if not any(part.logs for part in before.current):
            raise LabError(
                "The stream's table has no log left that a job could compact.",
                "run the notebook again from its first cell.",
            )
        plan(path)
        planned = after = lab.xray(path, since=before)
        new = {i.requested for i in planned.new_instants if i.action == "compaction"}
        if new:  # else there is nothing to run
            run(path)
            after = lab.xray(path)
        return CompactedCopy(
            planned=len(new),
            written=sum(file.kind == "base" for file in planned.new_files),
            completed=sum(i.requested in new and i.state == "completed" for i in after.instants),
            logs=logs_to_merge(after),
            before=_newest_base(before),
            after=_newest_base(after),
            deltacommits=logs_to_merge(before),
        )

    @staticmethod
    def judge(facts: CompactedCopy) -> Passed | NotYet:
        """A plan without a file, then a completed compaction, and no log left to merge."""
        if not facts.planned:
            return NotYet(
                f"Nothing was planned, so nothing ran. Deltacommits since the table's last "
                "compaction: "
                f"{facts.deltacommits}, fewer than the five that the trigger asks for by default."
            )
        if facts.written:
            return NotYet("`plan` wrote a base file already: it ran what it had planned.")
        if not facts.completed:
            return NotYet("A plan exists, but no new base file. Scheduling decides; running pays.")
        if facts.logs:
            return NotYet(
                f"A compaction was completed, but {facts.logs} logs are still to be merged."
            )
        note = "A new base file, and no log to merge."
        if facts.after > 3 * facts.before:
            note += (
                f" But it has {facts.after // 1024} KB where the old one had "
                f"{facts.before // 1024}: "
                "the job did not get the writer's options and made its bloom filter for 60,000 "
                "keys."
            )
        return Passed(note)


def _newest_base(table: Snapshot) -> int:
    return max((slice_.base.size for slice_ in table.current if slice_.base), default=0)
