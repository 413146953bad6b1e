"""Checks of lesson 11: what four runs of a job delivered, and which lost windows were foreseen.

Both work on copies of one small table, which the first check writes. A copy shows as many of its
commits as its timeline has, so a commit arrives when its timeline files are copied.
"""

import secrets
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, wraps
from unittest.mock import patch

from pyspark.sql import DataFrameReader, SparkSession

from lab_env.course.answers import Unreadable, as_bool, as_rows, as_text
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.hudi.timeline import Instant
from lab_env.lessons.table_copies import copy_table
from lab_env.pipeline.options import DEMO_OPTIONS, KEYS

# The orders of each commit, by number. Commit 1 creates them all, the others change some.
COMMITS = ((1, 2, 3, 4, 5), (4, 5), (1,), (4,))
STATES = ("new", "paid", "packed", "shipped")
# How many commits there are when each run of 11.1 begins. Commit 4 arrives during run 2.
SHOWN = (2, 3, 4, 4)
BUSY_RUN, LATE_COMMIT = 2, 4
# In which runs each order's change may come, by order and commit.
DUE = {
    (1, 1): {1},
    (2, 1): {1},
    (3, 1): {1},
    (4, 2): {1},
    (5, 2): {1},
    (1, 3): {2},
    (4, LATE_COMMIT): {2, 3},
}
NEXT_MILLISECOND = 1


@dataclass(frozen=True)
class Run:
    """One run of the job.

    Args:
        begin: the bookmark that it got.
        rows: what it delivered, as numbers of order and commit.
        bookmark: what it returned for the next run; None if that was no text.
    """

    begin: str
    rows: tuple[tuple[int, int], ...]
    bookmark: str | None


@dataclass(frozen=True)
class FourRuns:
    """What the job did.

    Args:
        runs: up to four; the last one may have returned no bookmark, or delivered a row again.
        requested: time of each commit.
        completed: time of each commit.
    """

    runs: tuple[Run, ...]
    requested: tuple[str, ...]
    completed: tuple[str, ...]


@check_of("11.1")
class ExactlyOnce:
    """Each change is delivered once over four runs, also one that completes during a run."""

    @staticmethod
    def observe(lab, answer) -> FourRuns:
        """Run the job four times on a growing copy, handing on nothing but its bookmark as text."""
        source, commits = _small_table(lab)
        number = {commit.requested: n for n, commit in enumerate(commits, start=1)}
        path, begin, runs = lab.scratch("job"), "000", []
        for run, shown in enumerate(SHOWN, start=1):
            copy_table(lab, source, path, hidden=commits[shown:])
            with _commit_arrives(lab, source, path) if run == BUSY_RUN else nullcontext():
                answered, bookmark = answer(path, begin)
            rows = sorted(
                (int(order.removeprefix("O-")), number[commit])
                for order, commit in as_rows(answered, ("order_id", "_hoodie_commit_time"))
            )
            runs.append(Run(begin, tuple(rows), _text_or_none(bookmark)))
            begin = runs[-1].bookmark
            if begin is None or _delivered_twice(runs):
                break  # it cannot become right any more
        return FourRuns(
            tuple(runs),
            tuple(commit.requested for commit in commits),
            tuple(commit.completed for commit in commits),
        )

    @staticmethod
    def judge(facts: FourRuns) -> Passed | NotYet:
        """Nothing twice, nothing missing, nothing late."""
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
        missing = DUE.keys() - run_of.keys()
        if missing:
            return NotYet(_why_missing(missing))
        if any(run_of[row] not in runs for row, runs in DUE.items()):
            return NotYet("Some rows came in a later run than the first one that could see them.")
        counts = ", ".join(str(len(run.rows)) for run in facts.runs)
        return Passed(
            f"Rows in the four runs: {counts}. Every change came once, and the job remembers one "
            "completion time."
        )


@contextmanager
def _commit_arrives(lab, source: str, path: str) -> Generator[None]:
    """Let the hidden commits arrive just before the second query of the body.

    Queries are what reads the table or its timeline: a load, an SQL statement, an X-ray.
    """
    asked = 0

    def counted(query: Callable) -> Callable:
        @wraps(query)
        def run(*arguments, **options):
            nonlocal asked
            asked += 1
            if asked == 2:
                copy_table(lab, source, path)
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


def _delivered_twice(runs: Sequence[Run]) -> list[tuple[int, int]]:
    """The rows that were delivered more than once."""
    times = Counter(row for run in runs for row in run.rows)
    return sorted(row for row, count in times.items() if count > 1)


def _why_missing(missing: set[tuple[int, int]]) -> str:
    """Which changes never came, and which mistake skips them."""
    order, commit = min(missing)
    count = f"Changes that never came: {len(missing)}, such as O-{order} of commit {commit}."
    if commit == LATE_COMMIT:
        return (
            f"{count} It completed while run {BUSY_RUN} was at work: after the run had read, and "
            "before it asked for its bookmark. Choose the end of the window first, then read."
        )
    return (
        f"{count} A bookmark beyond the newest completion time that was read skips what "
        "completes later."
    )


def _why_twice(facts: FourRuns, twice: list[tuple[int, int]]) -> str:
    """What came twice, and which mistake makes it so."""
    commit = twice[0][1]
    requested, completed = facts.requested[commit - 1], facts.completed[commit - 1]
    if facts.runs[-1].begin == "000":
        return (
            f"The bookmark stays at 000: run {len(facts.runs)} delivered everything again, "
            f"{sum(len(run.rows) for run in facts.runs)} rows so far."
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


@dataclass(frozen=True)
class Window:
    """What is known of one bookmark, and what the function answered.

    Args:
        cleaned: whether the table was cleaned.
        after: number of the commit whose completion is the bookmark.
        missed: commits after it.
        short: whether one of their windows delivers fewer rows than before the cleaning.
        kept: whether the cleaner promised to keep all of them.
        answer: what the function returned.
    """

    cleaned: bool
    after: int
    missed: int
    short: bool
    kept: bool
    answer: object


@check_of("11.2")
class LostWindow:
    """A window that the cleaner took is foreseen."""

    @staticmethod
    def observe(lab, answer) -> tuple[Window, ...]:
        """Call the function for a table and a cleaned copy of it, with several bookmarks."""
        whole = [len(orders) for orders in COMMITS]
        found = []
        for table in _with_and_without_cleaning(lab):
            commits = table.commits
            for after in (1, len(commits) - 1, len(commits)):
                missed = range(after, len(commits))
                found.append(
                    Window(
                        bool(table.kept_from),
                        after,
                        len(missed),
                        short=any(table.left[n] < whole[n] for n in missed),
                        kept=all(commits[n].requested >= table.kept_from for n in missed),
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
                    f"{where}, but windows of them come back with fewer rows than before. The "
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
    """A table that 11.2 asks about.

    Args:
        name: in Spark's catalogue.
        commits: in their order.
        left: how many rows the window of each commit delivers.
        kept_from: what the clean promised to keep, a requested time; empty without a clean.
    """

    name: str
    commits: list[Instant]
    left: list[int]
    kept_from: str = ""


@cache  # an answer only asks, so all answers of a lesson get the same two tables
def _with_and_without_cleaning(lab) -> tuple[_Table, _Table]:
    """Two copies of the small table, the second one cleaned."""
    source, commits = _small_table(lab)
    names = []
    for _ in range(2):
        path = lab.scratch("missed")
        names.append(f"missed_{secrets.token_hex(3)}")
        copy_table(lab, source, path)
        lab.spark.sql(f"CREATE TABLE {names[-1]} USING hudi LOCATION '{path}'")
    clean = lab.spark.sql(
        f"CALL run_clean(table => '{names[1]}', retain_commits => 1, "
        "options => 'hoodie.metadata.enable=false')"
    )
    kept_from = clean.first()["earliest_commit_to_retain"]
    return (
        _Table(names[0], commits, [len(orders) for orders in COMMITS]),
        _Table(names[1], commits, _steps(lab, path, commits), kept_from),
    )


def _small_table(lab) -> tuple[str, list[Instant]]:
    """The path of the table of both checks, written at the first call, and its commits in order."""
    path = lab.path("checks/small")
    if not lab.files(path):
        options = DEMO_OPTIONS | KEYS | {
            "hoodie.table.name": "small",
            "hoodie.index.bloom.num_entries": "1000",
        }  # fmt: skip
        for minute, (orders, status) in enumerate(zip(COMMITS, STATES, strict=True)):
            ids = lab.spark.createDataFrame([(f"O-{n}",) for n in orders], "order_id string")
            ids.coalesce(1).selectExpr(  # the columns of the lesson's own table
                "order_id",
                f"'{status}' AS status",
                "CAST(10 AS DECIMAL(12,2)) AS amount",
                "sha2(order_id, 256) AS tracking_code",
                f"timestamp'2026-11-20 12:{minute:02}:00' AS order_ts",
                "'2026-11-20' AS partition_date",
            ).write.format("hudi").options(**options).mode("append").save(path)
    return path, [instant for instant in lab.xray(path).instants if instant.writes]


def _steps(lab, path: str, commits: list[Instant]) -> list[int]:
    """How many rows the window of each commit delivers."""
    ends = [commit.completed for commit in commits]
    return [
        lab.spark.read.format("hudi")
        .option("hoodie.datasource.query.type", "incremental")
        .option("hoodie.datasource.read.begin.instanttime", begin)
        .option("hoodie.datasource.read.end.instanttime", end)
        .load(path)
        .select("order_id")
        .count()
        for begin, end in zip(["000", *ends], ends, strict=False)
    ]
