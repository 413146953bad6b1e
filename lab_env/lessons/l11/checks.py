"""Checks of lesson 11: what four runs of a job delivered, and which lost windows a function foresaw.

Both work on copies of one small table, written at the first check. A copy shows as many of its commits
as its timeline has, so a commit "arrives" when its timeline files are copied.
"""

import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from lab_env import store
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.hudi.timeline import Instant, parse_timeline_key
from lab_env.pipeline.options import DEMO_OPTIONS, KEYS

# The orders of each commit. Commit 1 creates them all, the others change some.
COMMITS = ((1, 2, 3, 4, 5), (4, 5), (1,), (4,))
# How many commits are there at each run of 11.1, and which orders of which commit each must deliver.
RUNS = (2, 3, 3, 4)
DUE = (((1, 1), (2, 1), (3, 1), (4, 2), (5, 2)), ((1, 3),), (), ((4, 4),))
NEXT_MILLISECOND = 1


@dataclass(frozen=True)
class Run:
    """One run of the job.

    Args:
        begin: the bookmark that it got.
        rows: what it delivered, as numbers of order and commit.
        bookmark: what it returned for the next run.
    """

    begin: str
    rows: tuple[tuple[int, int], ...]
    bookmark: object


@dataclass(frozen=True)
class FourRuns:
    """What the job did.

    Args:
        runs: up to four; it ends with a run that returned no bookmark or delivered a row again.
        requested: of each commit.
        completed: of each commit.
    """

    runs: tuple[Run, ...]
    requested: tuple[str, ...]
    completed: tuple[str, ...]


@check_of("11.1")
class ExactlyOnce:
    """Each change is delivered once over four runs."""

    @staticmethod
    def observe(lab, answer) -> FourRuns:
        """Run the job four times on a growing copy, handing on nothing but its bookmark as text."""
        source, commits = _small_table(lab)
        number = {commit.requested: n for n, commit in enumerate(commits, start=1)}
        path, begin, runs = lab.scratch("job"), "000", []
        for shown in RUNS:
            _copy(lab, source, path, commits[shown:])
            rows, bookmark = answer(path, begin)
            delivered = rows.select("order_id", "_hoodie_commit_time").collect()
            runs.append(
                Run(
                    begin,
                    tuple(
                        sorted(
                            (int(row.order_id), number[row._hoodie_commit_time])
                            for row in delivered
                        )
                    ),
                    bookmark,
                )
            )
            if not isinstance(bookmark, str) or _came_twice(runs):
                break  # it cannot become right any more
            begin = str(bookmark)
        return FourRuns(
            tuple(runs),
            tuple(commit.requested for commit in commits),
            tuple(commit.completed for commit in commits),
        )

    @staticmethod
    def judge(facts: FourRuns) -> Passed | NotYet:
        """Nothing twice, nothing missing."""
        without = next(
            (n for n, r in enumerate(facts.runs, 1) if not isinstance(r.bookmark, str)), 0
        )
        if without:
            return NotYet(
                f"Run {without} returned {facts.runs[without - 1].bookmark!r}, so the job has no "
                f"bookmark for the next run. It delivered {len(facts.runs[without - 1].rows)} rows: "
                "a bookmark must not depend on there being any."
            )
        twice = _came_twice(facts.runs)
        if twice:
            return NotYet(_why_twice(facts, twice))
        missing = {row for due in DUE for row in due} - {
            row for run in facts.runs for row in run.rows
        }
        if missing:
            order, commit = min(missing)
            return NotYet(
                f"Changes that never came: {len(missing)}, such as order {order} of commit {commit}. A "
                "bookmark beyond the newest completion time that was read skips what completes later."
            )
        if tuple(run.rows for run in facts.runs) != DUE:
            return NotYet("Some rows came in another run than the first one that could see them.")
        counts = ", ".join(str(len(run.rows)) for run in facts.runs)
        return Passed(
            f"Rows in the four runs: {counts}. Every change came once, and the job remembers one "
            "completion time."
        )


def _came_twice(runs: Sequence[Run]) -> list[tuple[int, int]]:
    """The rows that were delivered more than once."""
    times = Counter(row for run in runs for row in run.rows)
    return sorted(row for row, count in times.items() if count > 1)


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
    told = (
        f"Commit {commit} arrived twice, {len([r for r in twice if r[1] == commit])} rows of it. "
    )
    if requested in marks:
        return told + (
            f"Your bookmark {requested} is the time at which it was requested. The window compares "
            f"completion times, and it was completed at {completed}: after your bookmark."
        )
    if str(int(requested) + NEXT_MILLISECOND) in marks:
        return told + (
            f"It was requested at {requested} and completed at {completed}. One millisecond later is "
            "still before its completion."
        )
    return told + f"It was completed at {completed}; your bookmarks were {', '.join(marks)}."


@dataclass(frozen=True)
class Window:
    """What is known of one bookmark, and what the function said.

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
        """Ask the function about a table and a cleaned copy of it, for several bookmarks."""
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
        for window in facts:
            where = (
                f"{'The cleaned' if window.cleaned else 'The uncleaned'} table, bookmark after commit "
                f"{window.after}, {window.missed} commits missed: you say {window.answer!r}"
            )
            if not isinstance(window.answer, bool):
                return NotYet(f"{where}. Return True or False.")
            if window.short and not window.answer:
                return NotYet(
                    f"{where}, but windows of them come back with fewer rows than before. The "
                    "timeline still lists these commits. Cleaning removes files, no instants; what it "
                    "kept stands in the clean."
                )
            if window.kept and window.answer:
                return NotYet(f"{where}. {_why_safe(window)}")
        alarms = sum(bool(window.answer) for window in facts)
        return Passed(
            f"{alarms} of {len(facts)} bookmarks got an alarm, among them every one whose windows "
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
        _copy(lab, source, path)
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
    """The table of both checks, written once in a lesson, and its commits in order."""
    path = lab.path("checks/small")
    if not lab.files(path):
        options = DEMO_OPTIONS | KEYS | {
            "hoodie.table.name": "small",
            "hoodie.index.bloom.num_entries": "1000",
        }  # fmt: skip
        for minute, orders in enumerate(COMMITS):
            rows = lab.spark.createDataFrame([(str(n),) for n in orders], "order_id string")
            rows.coalesce(1).selectExpr(
                "order_id",
                f"timestamp'2026-11-20 12:{minute:02}:00' AS order_ts",
                "'2026-11-20' AS partition_date",
            ).write.format("hudi").options(**options).mode("append").save(path)
    return path, [instant for instant in lab.xray(path).instants if instant.writes]


def _copy(lab, source: str, target: str, hidden: Sequence[Instant] = ()) -> None:
    """Copy what the target lacks, but for the timeline files of the hidden commits."""
    s3, bucket = store.client(lab.endpoints), lab.endpoints.bucket
    begin, folder = store.key_of(source), store.key_of(target)
    there = {found.key for found in lab.files(target)}
    late = {instant.requested for instant in hidden}
    for found in lab.files(source):
        part = found.key.removeprefix(begin)
        instant = parse_timeline_key(part)
        arrived = instant is None or instant.requested not in late
        if arrived and folder + part not in there:
            s3.copy_object(
                Bucket=bucket, Key=folder + part, CopySource={"Bucket": bucket, "Key": found.key}
            )


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
