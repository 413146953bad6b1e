"""Checks of lesson 11: windows, what three runs of a job delivered, a commit with its bookmark,
what a stream brought, and which lost windows were foreseen.

They work on the lesson's own tables and on copies of them. A copy shows as many of its commits as
its timeline has, so a commit arrives when its timeline files are copied.
"""

import secrets
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, wraps
from unittest.mock import patch

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.streaming import StreamingQuery

from lab_env.course.answers import Unreadable, as_bool, as_rows, as_text, type_of
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.errors import LabError
from lab_env.hudi.timeline import Instant
from lab_env.lessons.streams import own_streams_stopped
from lab_env.lessons.table_copies import copy_table

# How many commits there are when each run of 11.2 begins. Commit 3 arrives during run 2.
SHOWN = (2, 2, 3)
BUSY_RUN, LATE_COMMIT = 2, 3
NEXT_MILLISECOND = 1
STREAM_TIMEOUT_S = 60  # for the whole stream of 11.4, which takes a few seconds
FALLBACK = "hoodie.datasource.read.incr.fallback.fulltablescan.enable"
# The windows of 11.1: how many commits the table shows, after which of them the window begins (0 is
# before everything), with which it ends (None is no end).
WINDOWS = ((2, 1, None), (2, 0, 1), (1, 0, None))
Rows = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Read:
    """One window that the learner's function was asked for.

    Args:
        commits: how many the table shows.
        after: number of the commit whose completion is the begin; 0 is before everything.
        upto: number of the commit whose completion is the end; None if no end was asked for.
        rows: what it delivered, as orders with the number of their commit.
        due: what the window holds.
    """

    commits: int
    after: int
    upto: int | None
    rows: Rows
    due: Rows

    @property
    def name(self) -> str:
        """The window in words."""
        begin = f"after commit {self.after}" if self.after else "from the beginning"
        return f"{begin} {f'to commit {self.upto}' if self.upto else 'without an end'}"


@check_of("11.1")
class ReadsAWindow:
    """A function that reads the rows of a window, with an end and without."""

    @staticmethod
    def observe(lab, answer: Callable) -> tuple[Read, ...] | str:
        """Ask copies of the orders for windows with an end and without.

        Returns:
            What came, up to the first wrong window, or the type of an answer that is no DataFrame
            of Spark.
        """
        source, commits = _uncleaned(lab, 2)
        number = {commit.requested: n for n, commit in enumerate(commits, start=1)}
        found = []
        for shown, after, upto in WINDOWS:
            path = _showing(lab, source, shown)
            begin = commits[after - 1].completed if after else "000"
            end = commits[upto - 1].completed if upto else None
            rows = answer(begin, end, path) if end else answer(begin, path=path)
            if not isinstance(rows, DataFrame):
                return type_of(rows)
            due = _numbers(_window(lab, source, begin, end or commits[shown - 1].completed), number)
            found.append(Read(shown, after, upto, _numbers(rows, number), due))
            if found[-1].rows != due:
                break
        return tuple(found)

    @staticmethod
    def judge(facts: tuple[Read, ...] | str) -> Passed | NotYet:
        """Each window has the newest row of each order that changed in it."""
        if isinstance(facts, str):
            return NotYet(
                f"Your function returns a {facts}. The lesson goes on with its rows in Spark, so "
                "it needs a DataFrame of Spark."
            )
        for read in facts:
            if read.rows != read.due:
                return NotYet(
                    f"The window {read.name} has {len(read.due):,} rows, you deliver "
                    f"{len(read.rows):,}. {_why_other_rows(read)}"
                )
        counts = ", ".join(f"{len(read.rows):,}" for read in facts)
        return Passed(f"Rows in {len(facts)} windows: {counts}, the newest of each order in each.")


def _why_other_rows(read: Read) -> str:
    """Which mistake makes a window's rows other than they are."""
    too_many = sorted(set(read.rows) - set(read.due))
    lacking = sorted(set(read.due) - set(read.rows))
    if any(commit > read.commits for _, commit in read.rows):
        order, commit = max(too_many, key=lambda row: row[1])
        return (
            f"{order} of commit {commit} is among them, but the table at the `path` that your "
            f"function got shows {read.commits}. It reads another table: load `path`."
        )
    if not read.upto and any(commit <= read.after for _, commit in read.rows):
        return (
            f"{too_many[0][0]} of commit {too_many[0][1]} is among them. That is the whole table: "
            "which type of query is it?"
        )
    if read.upto and any(commit > read.upto for _, commit in read.rows):
        order, commit = max(too_many, key=lambda row: row[1])
        return f"{order} of commit {commit} is among them: it does not stop at its end."
    if lacking and not too_many:
        return (
            f"You lack {lacking[0][0]}, which has changed since. A filter of the table as it is "
            "now has no older rows; an incremental query reads the files that the commits wrote."
        )
    return "What lies between the begin and the end, and is the newest row of its order there?"


def _numbers(rows: object, number: dict[str, int]) -> Rows:
    """An answer's rows as sorted orders with the number of their commit."""
    found = as_rows(rows, ("order_id", "_hoodie_commit_time"))
    return tuple(sorted((order, number.get(commit, 0)) for order, commit in found))


@cache  # an answer only reads
def _showing(lab, source: str, commits: int) -> str:
    """The path of a copy of the orders that shows its first commits."""
    path = lab.scratch("window")
    copy_table(lab, source, path, hidden=_commits(lab, source, commits)[commits:])
    return path


@cache  # the same for every answer
def _window(lab, path: str, begin: str, end: str) -> DataFrame:
    """The rows of a window, kept."""
    return (
        lab.spark.read.format("hudi")
        .option("hoodie.datasource.query.type", "incremental")
        .option("hoodie.datasource.read.begin.instanttime", begin)
        .option("hoodie.datasource.read.end.instanttime", end)
        .load(path)
        .select("order_id", "_hoodie_commit_time")
        .cache()
    )


def _commits(lab, path: str, count: int) -> list[Instant]:
    """The commits of a table of the lesson, in order.

    Raises:
        LabError: there are fewer than `count`.
    """
    commits = (
        [found for found in lab.xray(path).instants if found.writes] if lab.files(path) else []
    )
    if len(commits) < count:
        raise LabError(
            f"The table {path.rsplit('/', 1)[-1]} has {len(commits)} of the {count} commits that "
            "this exercise needs.",
            "run the cells above in their order, then this one again.",
        )
    return commits


@dataclass(frozen=True)
class Run:
    """One run of the job.

    Args:
        begin: the bookmark that it got.
        rows: what it delivered, as orders with the number of their commit.
        bookmark: what it returned for the next run; None if that was no text.
    """

    begin: str
    rows: Rows
    bookmark: str | None


@dataclass(frozen=True)
class ThreeRuns:
    """What the job did.

    Args:
        runs: up to three; the last one may have returned no bookmark, or delivered a row again.
        requested: time of each commit.
        completed: time of each commit.
        early: what the first two commits hold: the first run has to deliver it.
        late: what the third commit changed: the second run or the third one delivers it.
    """

    runs: tuple[Run, ...]
    requested: tuple[str, ...]
    completed: tuple[str, ...]
    early: Rows
    late: Rows


@check_of("11.2")
class ExactlyOnce:
    """Each change is delivered once over three runs, also one that completes during a run."""

    @staticmethod
    def observe(lab, answer) -> ThreeRuns | str:
        """Run the job three times on a growing copy, handing on nothing but its bookmark as text.

        Returns:
            The runs, or the type of rows that are no DataFrame of Spark.
        """
        source, commits = _uncleaned(lab, LATE_COMMIT)
        number = {commit.requested: n for n, commit in enumerate(commits, start=1)}
        path, begin, runs = lab.scratch("job"), "000", []
        for run, shown in enumerate(SHOWN, start=1):
            copy_table(lab, source, path, hidden=commits[shown:])
            arrival = _commit_arrives(lab, source, path, commits[LATE_COMMIT:])
            with arrival if run == BUSY_RUN else nullcontext():
                answered, bookmark = answer(path, begin)
                if not isinstance(answered, DataFrame):
                    return type_of(answered)
                rows = _numbers(answered, number)
            runs.append(Run(begin, rows, _text_or_none(bookmark)))
            begin = runs[-1].bookmark
            if begin is None or _delivered_twice(runs):
                break  # it cannot become right any more
        ends = [commit.completed for commit in commits]
        early, late = (
            _numbers(_window(lab, source, begin, end), number)
            for begin, end in (
                ("000", ends[SHOWN[0] - 1]),
                (ends[SHOWN[0] - 1], ends[LATE_COMMIT - 1]),
            )
        )
        times = zip(*((commit.requested, commit.completed) for commit in commits), strict=True)
        return ThreeRuns(tuple(runs), *times, early, late)

    @staticmethod
    def judge(facts: ThreeRuns | str) -> Passed | NotYet:
        """Nothing twice, nothing missing, nothing late."""
        if isinstance(facts, str):
            return NotYet(
                f"Your rows are a {facts}. The job below writes them with Spark, so it needs a "
                "DataFrame of Spark."
            )
        last = facts.runs[-1]
        if last.bookmark is None:
            return NotYet(
                f"Run {len(facts.runs)} returned no text as bookmark, so the job has no bookmark "
                f"for the next run. It delivered {len(last.rows)} rows: a bookmark must not depend "
                "on there being any."
            )
        twice = _delivered_twice(facts.runs)
        if twice:
            return NotYet(_why_twice(facts, twice))
        run_of = {row: n for n, run in enumerate(facts.runs, start=1) for row in run.rows}
        missing = {*facts.early, *facts.late} - run_of.keys()
        if missing:
            return NotYet(_why_missing(missing))
        if any(run_of[row] > 1 for row in facts.early):
            return NotYet("Some rows came in a later run than the first one that could see them.")
        counts = ", ".join(f"{len(run.rows):,}" for run in facts.runs)
        return Passed(
            f"Rows in the three runs: {counts}. Every change came once, and the job remembers one "
            "completion time."
        )


@contextmanager
def _commit_arrives(lab, source: str, path: str, hidden: Sequence[Instant]) -> Generator[None]:
    """Let commits that are not hidden arrive just before the second query of the body.

    Queries are what reads the table or its timeline: a load, an SQL statement, an X-ray.
    """
    asked = 0

    def counted(query: Callable) -> Callable:
        @wraps(query)
        def run(*arguments, **options):
            nonlocal asked
            asked += 1
            if asked == 2:
                copy_table(lab, source, path, hidden)
            return query(*arguments, **options)

        return run

    with ExitStack() as patches:
        for owner, name in ((DataFrameReader, "load"), (SparkSession, "sql"), (type(lab), "xray")):
            patches.enter_context(patch.object(owner, name, counted(getattr(owner, name))))
        yield


def _text_or_none(bookmark: object) -> str | None:
    try:
        return as_text(bookmark)
    except Unreadable:
        return None


def _delivered_twice(runs: Sequence[Run]) -> list[tuple[str, int]]:
    """The rows that were delivered more than once."""
    times = Counter(row for run in runs for row in run.rows)
    return sorted(row for row, count in times.items() if count > 1)


def _why_missing(missing: set[tuple[str, int]]) -> str:
    """Which changes never came, and which mistake skips them."""
    order, commit = min(missing)
    count = f"Changes that never came: {len(missing):,}, such as {order} of commit {commit}."
    if commit == LATE_COMMIT:
        return (
            f"{count} It completed while run {BUSY_RUN} was at work: after the run had read, and "
            "before it asked for its bookmark. Choose the end of the window first, then read."
        )
    return (
        f"{count} A bookmark beyond the newest completion time that was read skips what "
        "completes later."
    )


def _why_twice(facts: ThreeRuns, twice: list[tuple[str, int]]) -> str:
    """What came twice, and which mistake makes it so."""
    commit = twice[0][1]
    requested, completed = facts.requested[commit - 1], facts.completed[commit - 1]
    if facts.runs[-1].begin == "000":
        return (
            f"The bookmark stays at 000: run {len(facts.runs)} delivered everything again, "
            f"{sum(len(run.rows) for run in facts.runs):,} rows so far."
        )
    marks = [run.begin for run in facts.runs if run.begin != "000"]
    count = f"Commit {commit} arrived twice, {sum(row[1] == commit for row in twice)} rows of it."
    if requested in marks:
        return (
            f"{count} Your bookmark {requested} is the time at which it was requested. The window "
            f"compares completion times, and it was completed at {completed}: after your bookmark."
        )
    if str(int(requested) + NEXT_MILLISECOND) in marks:
        return (
            f"{count} It was requested at {requested} and completed at {completed}. One "
            "millisecond later is still before its completion."
        )
    if commit == LATE_COMMIT:
        return (
            f"{count} It completed while run {BUSY_RUN} was at work, after your bookmark was "
            "taken. Read up to your bookmark, and no further."
        )
    return f"{count} It was completed at {completed}; your bookmarks were {', '.join(marks)}."


BATCHES = ((("O-1", "new"), ("O-1", "paid")), (("O-1", "packed"), ("O-2", "new")))


@dataclass(frozen=True)
class Audit:
    """The table after one call of the learner's function, or after two.

    Args:
        commits: how many writes its timeline has.
        rows: its orders and their statuses.
        key: the table's record key; empty without one.
        notes: of the newest commit.
        bookmark: what the newest call was given.
        calls: how often the function was called, each time with two rows.
    """

    commits: int
    rows: tuple[tuple[str, str], ...]
    key: str
    notes: dict[str, str]
    bookmark: str
    calls: int


@check_of("11.3")
class RowsWithTheirBookmark:
    """A function that appends rows, and keeps a bookmark in the same commit."""

    @staticmethod
    def observe(lab, answer: Callable) -> Audit | str:
        """Append twice to a table of its own; stop after the first call if it was wrong."""
        path = lab.scratch("audit")
        for call, batch in enumerate(BATCHES, start=1):
            bookmark = f"2026112012{secrets.randbelow(10**7):07}"
            rows = lab.spark.createDataFrame(batch, "order_id string, status string").selectExpr(
                "*",
                "CAST(10 AS DECIMAL(12,2)) AS amount",
                f"timestamp'2026-11-20 12:0{call}:00' AS order_ts",
            )
            answer(rows.coalesce(1), bookmark, path)
            if not lab.files(path):
                return "no file"
            table = lab.xray(path)
            stored = lab.spark.read.format("hudi").load(path).select("order_id", "status")
            found = Audit(
                sum(instant.writes for instant in table.instants),
                tuple(sorted((row.order_id, row.status) for row in stored.collect())),
                _record_key(lab, path),
                {name: str(value) for name, value in table.commit().extra.items()},
                bookmark,
                call,
            )
            if not isinstance(_judged(found), Passed):
                break
        return found

    @staticmethod
    def judge(facts: Audit | str) -> Passed | NotYet:
        """Every row, and the bookmark in the newest commit."""
        return _judged(facts)


def _judged(facts: Audit | str) -> Passed | NotYet:
    """Whether every row is there, and the bookmark in the newest commit."""
    if isinstance(facts, str):
        return NotYet(f"After the call there is {facts} at the path that your function got.")
    written = [row for batch in BATCHES[: facts.calls] for row in batch]
    has = f"Your function got {len(written)} rows, the table has {len(facts.rows)}"
    if facts.calls > 1 and sorted(facts.rows) == sorted(BATCHES[1]):
        return NotYet(f"{has}: the second call replaced the first one's rows.")
    if sorted(facts.rows) != sorted(written):
        return NotYet(
            f"{has}: it keeps one row per order, or loses some. The audit "
            "has no record key, and its operation keeps every row."
        )
    if facts.key:
        return NotYet(
            f"Every row is there, but the table has the record key {facts.key}, so the next upsert "
            "keeps one row per order. The audit has no record key."
        )
    kept = facts.notes.get("bookmark.orders")
    if kept is None:
        names = [name for name in facts.notes if name != "schema"]
        return NotYet(
            "The rows are there, but the commit carries no note of that name. Its notes: "
            f"{', '.join(names) or 'none'}. Only options that begin with "
            "hoodie.datasource.write.commitmeta.key.prefix are kept."
        )
    if kept != facts.bookmark:
        return NotYet(f"Call {facts.calls} was given {facts.bookmark}; its commit says {kept}.")
    if facts.commits > facts.calls:
        return NotYet(
            f"{facts.calls} calls made {facts.commits} commits. A job that dies between two "
            "commits has written one without the other."
        )
    return Passed(
        f"{facts.calls} calls, {facts.commits} commits, {len(facts.rows)} rows, and the newest "
        f"commit says bookmark.orders = {kept}."
    )


def _record_key(lab, path: str) -> str:
    """The fields of a table's record key, from its properties; empty without one."""
    rows = lab.spark.sql(f"CALL show_table_properties(path => '{path}', limit => 100)").collect()
    return {row["key"]: row["value"] for row in rows}.get("hoodie.table.recordkey.fields", "")


@dataclass(frozen=True)
class Streamed:
    """What two calls of the learner's function have brought.

    Args:
        rows: in the folder after each call, as orders with the number of their commit; one call
            only if it was wrong.
        due: what has to be there after each call.
        active: whether a stream still ran when the function had returned.
        returned: the type of what it returned, if that was no query.
        kept: whether the checkpoint is where it was to be.
    """

    rows: tuple[Rows, ...]
    due: tuple[Rows, Rows]
    active: bool = False
    returned: str = ""
    kept: bool = True


@check_of("11.4")
class StreamsTheChanges:
    """All rows at the first call, the newer ones at the second, and an end each time."""

    @staticmethod
    def observe(lab, answer: Callable) -> Streamed:
        """Stream a copy, let a commit arrive, and stream it again."""
        source, commits = _uncleaned(lab, LATE_COMMIT)
        number = {commit.requested: n for n, commit in enumerate(commits, start=1)}
        path, folder, checkpoint = (lab.scratch(f"stream-{name}") for name in ("in", "out", "at"))
        first, second = (commits[shown - 1].completed for shown in (SHOWN[0], LATE_COMMIT))
        early = _numbers(_window(lab, source, "000", first), number)
        late = _numbers(_window(lab, source, first, second), number)
        due = early, tuple(sorted((*early, *late)))
        found: list[Rows] = []
        for shown in (SHOWN[0], LATE_COMMIT):
            copy_table(lab, source, path, hidden=commits[shown:])
            with own_streams_stopped(lab.spark, STREAM_TIMEOUT_S) as stopped:
                query = answer(path, folder, checkpoint)
            found.append(_numbers(_parquet(lab, folder), number))
            returned = "" if isinstance(query, StreamingQuery) else type_of(query)
            if stopped.at_all or returned or found[-1] != due[len(found) - 1]:
                break  # it cannot become right any more
        kept = bool(lab.files(f"{checkpoint}/offsets"))
        return Streamed(tuple(found), due, stopped.at_all, returned, kept)

    @staticmethod
    def judge(facts: Streamed) -> Passed | NotYet:
        """Nothing missing, nothing twice, nothing still running."""
        rows, due = facts.rows[-1], facts.due[len(facts.rows) - 1]
        if facts.active:
            return NotYet(
                f"Your function has returned or was stopped after {len(rows):,} of {len(due):,} "
                "rows, and its stream was still running. Take the trigger that ends, and wait for "
                "the end."
            )
        if rows != due and len(facts.rows) > 1:
            return NotYet(
                f"Since the first call {len(due) - len(facts.due[0])} rows had changed; the second "
                f"call has brought {len(rows) - len(facts.due[0]):,}. Where does your stream "
                "remember how far it was? One that forgets it begins with batch 0 again: with all "
                "rows, or with none, if the folder's `_spark_metadata` says that it has a batch 0."
            )
        if rows != due:
            return NotYet(
                f"After call {len(facts.rows)} the folder has {len(rows):,} rows; "
                f"{len(due):,} are due. Does the stream read the table at `path`, from its "
                "beginning, and write Parquet into `folder`?"
            )
        if facts.returned:
            return NotYet(
                f"The rows are right. But you return {facts.returned}, which is no stream's query: "
                "the next cell asks the query how many rows it has read."
            )
        if not facts.kept:
            return NotYet("The rows are right, but there is no stream's state at `checkpoint`.")
        first, second = (len(rows) for rows in facts.rows)
        return Passed(
            f"{first:,} rows at the first call, {second - first} at the second, and an end each "
            "time. The checkpoint is the bookmark."
        )


def _parquet(lab, folder: str) -> DataFrame:
    """The rows of Parquet files; none if there is no file."""
    columns = "order_id string, _hoodie_commit_time string"
    if not any(found.key.endswith(".parquet") for found in lab.files(folder)):
        return lab.spark.createDataFrame([], columns)
    return lab.spark.read.schema(columns).parquet(folder)


@dataclass(frozen=True)
class Window:
    """What is known of one bookmark, and what the function answered.

    Args:
        cleaned: whether the table was cleaned.
        after: number of the commit whose completion is the bookmark.
        missed: commits after it.
        short: whether files of one of them are gone, so that its window comes back short.
        kept: whether the cleaner promised to keep all of them.
        answer: what the function returned.
    """

    cleaned: bool
    after: int
    missed: int
    short: bool
    kept: bool
    answer: object


@check_of("11.5")
class LostWindow:
    """A window that the cleaner took is foreseen."""

    @staticmethod
    def observe(lab, answer) -> tuple[Window, ...]:
        """Call the function for the cleaned orders and the uncleaned audit."""
        found = []
        for table in _with_and_without_cleaning(lab):
            commits = table.commits
            for after in (1, *([len(commits) - 1] if table.kept_from else []), len(commits)):
                missed = commits[after:]
                found.append(
                    Window(
                        bool(table.kept_from),
                        after,
                        len(missed),
                        short=any(table.lacks.get(commit.requested, False) for commit in missed),
                        kept=all(commit.requested >= table.kept_from for commit in missed),
                        answer=answer(table.name, commits[after - 1].completed),
                    )
                )
        return tuple(found)

    @staticmethod
    def judge(facts: tuple[Window, ...]) -> Passed | NotYet:
        """True where rows are lacking, False where the cleaner kept everything."""
        alarms = [as_bool(window.answer) for window in facts]
        for window, alarm in zip(facts, alarms, strict=True):
            where = (
                f"{'The cleaned' if window.cleaned else 'The uncleaned'} table, bookmark after "
                f"commit {window.after}, {window.missed} commits missed: you say {alarm}"
            )
            if window.short and not alarm:
                return NotYet(
                    f"{where}, but files of one of them are gone: its window comes back short. The "
                    "timeline still lists these commits. Cleaning removes files, no instants; what "
                    "it kept stands in the clean."
                )
            if window.kept and alarm:
                return NotYet(f"{where}. {_why_safe(window)}")
        return Passed(
            f"{sum(alarms)} of {len(facts)} bookmarks got an alarm, among them each whose windows "
            "came back short. A job that gets it reads once without an end, or starts anew."
        )


def _why_safe(window: Window) -> str:
    if not window.missed and not window.cleaned:
        return "An increment is empty when nothing has changed since; that is no loss."
    if not window.missed:
        return (
            "A job at the newest commit has missed nothing, so the cleaner can have taken nothing."
        )
    if not window.cleaned:
        return "Nothing was ever cleaned there: every file is in its place."
    return (
        "The clean kept the files of all of these commits: compare its earliest commit with them."
    )


@dataclass(frozen=True)
class _Table:
    """A table that 11.5 asks about.

    Args:
        name: in Spark's catalogue.
        commits: in their order.
        kept_from: what the clean promised to keep, a requested time; empty without a clean.
        lacks: whether the strict reader failed, by the requested time of the commits it was asked.
    """

    name: str
    commits: list[Instant]
    kept_from: str
    lacks: dict[str, bool]


@cache  # an answer only asks, so all answers of a lesson get the same two tables
def _with_and_without_cleaning(lab) -> tuple[_Table, _Table]:
    """The audit, which was never cleaned, and the orders, which were.

    Raises:
        LabError: the orders were not cleaned yet.
    """
    tables = {}
    for table in ("audit", "orders"):
        tables[table] = f"{table}_{secrets.token_hex(3)}"
        lab.spark.sql(f"CREATE TABLE {tables[table]} USING hudi LOCATION '{lab.path(table)}'")
    audit, orders = _commits(lab, lab.path("audit"), 2), _commits(lab, lab.path("orders"), 3)
    cleans = lab.spark.sql(f"CALL show_cleans(table => '{tables['orders']}')").collect()
    if not cleans:
        raise LabError(
            "The table orders was not cleaned yet.",
            "run the cells above in their order, then this one again.",
        )
    kept_from = max(row["earliest_commit_to_retain"] for row in cleans)
    second = orders[1]
    lacks = {second.requested: _lacks_files(lab, orders[0].completed, second.completed)}
    return (
        _Table(tables["audit"], audit, "", {}),
        _Table(tables["orders"], orders, kept_from, lacks),
    )


def _lacks_files(lab, begin: str, end: str) -> bool:
    """Whether the strict reader finds that files of a window of the orders are gone."""
    reader = (
        lab.spark.read.format("hudi")
        .option("hoodie.datasource.query.type", "incremental")
        .option("hoodie.datasource.read.begin.instanttime", begin)
        .option("hoodie.datasource.read.end.instanttime", end)
        .option(FALLBACK, "false")
    )
    try:
        reader.load(lab.path("orders")).select("order_id").count()
    except Exception as error:
        if "FileNotFoundException" not in str(error):
            raise
        return True
    return False


def _uncleaned(lab, count: int) -> tuple[str, list[Instant]]:
    """A copy of the orders as they were before the lesson cleans them, and its commits in order.

    Raises:
        LabError: the orders lack commits, or were cleaned before the copy had as many.
    """
    orders, copy = lab.path("orders"), lab.path("checks/orders")
    _commits(lab, orders, count)
    if not any(instant.action == "clean" for instant in lab.xray(orders).instants):
        copy_table(lab, orders, copy)
    elif not lab.files(copy) or sum(found.writes for found in lab.xray(copy).instants) < count:
        raise LabError(
            "The lesson's last section has cleaned files away that this exercise needs.",
            "run the notebook again from its first cell.",
        )
    return copy, _commits(lab, copy, count)
