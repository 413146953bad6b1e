"""Checks of lesson 11: incremental windows, bookmarks, a stream, and an alarm for lost commits.

They use their own tables. A copy at first lacks some commits' timeline files; copying these makes
the commits appear.
"""

import secrets
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from datetime import datetime, timedelta
from functools import cache, wraps
from unittest.mock import patch

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from lab_env.course.answers import Unreadable, as_bool, as_pair, as_text, kind_of
from lab_env.course.checking import check, expect
from lab_env.lessons.rows import expect_rows, rows_at, settings_of, without_hudis
from lab_env.lessons.streams import own_streams_stopped
from lab_env.lessons.table_copies import copy_table, scratch_copy
from lab_env.lessons.timelines import completed_instants, expect_added, expect_no_metadata
from lab_env.pipeline.options import DEMO_OPTIONS, KEYS
from lab_env.platform import store
from lab_env.tables.hudi.timeline import Instant

TABLE = {
    **KEYS,
    **DEMO_OPTIONS,
    "hoodie.table.name": "orders",
    "hoodie.index.bloom.num_entries": "1000",
}
MOR = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
# The orders of each commit: those of one commit are new there, or change.
COMMITS = ("id <= 20", "id IN (3, 5, 21)", "id IN (5, 7, 22)")
COMPLETED = "%Y%m%d%H%M%S%f"  # a time of the timeline
SHOWN = (2, 2, 3)  # commits when each run of 11.2 begins; the third arrives during the second run
BUSY_RUN, LATE_COMMIT = 2, 3
# The windows of 11.1: how many commits the table shows, after which of them the window begins (0 is
# before everything), with which it ends (None is no end).
WINDOWS = ((1, 0, None), (2, 1, None), (3, 0, 1), (3, 1, 2))
STREAM_TIMEOUT_S = 45  # for the whole stream of 11.4, which takes a few seconds
AUDITED = ([("O-1", "new", 5), ("O-1", "paid", 5)], [("O-1", "paid", 5), *[("O-2", "new", 7)] * 2])


@check("11.1")
def reads_a_window(lab, since):
    """Let the function query windows of one to three commits, with and without an end."""
    source, commits = _three_commits(lab)
    for shown, after, upto in WINDOWS:
        path = _showing(lab, shown)
        begin = commits[after - 1].completed if after else "000"
        end = commits[upto - 1].completed if upto else None
        rows = _table(since(begin, end, path) if end else since(begin, path=path))
        window = f"{f'after commit {after}' if after else 'from the beginning'} " + (
            f"to commit {upto}" if upto else "without an end"
        )
        for order, commit in sorted(_delivered(rows, commits)):
            row = f"The window {window}: {order} of commit {commit} is among your rows."
            expect(commit, "The window {}: It reads another table: load `path`.", window)
            expect(not upto or commit <= upto, "{} It does not stop at its end.", row)
            expect(
                commit > after,
                "{} That is the whole table, or too much of it: which type of query is it?",
                row,
            )
        wanted = _window(lab, source, begin, end or commits[shown - 1].completed)
        lacking = _delivered(wanted, commits) - _delivered(rows, commits)
        expect(
            not lacking,
            "The window {}: you lack {}. A filter of the table as it is now has no rows that have "
            "changed since; an incremental query reads the files that the commits wrote.",
            window,
            min(lacking, default=("", 0))[0],
        )
        expect_rows(rows, wanted)
    return f"Rows in {len(WINDOWS)} windows, the newest of each order in each."


@check("11.2")
def runs_exactly_once(lab, run):
    """Run the learner's job three times on a growing copy; pass on only its bookmark, as text."""
    source, commits = _three_commits(lab)
    ends = [commit.completed for commit in commits]
    early = _window(lab, source, "000", ends[1])
    due = _delivered(early, commits), _delivered(_window(lab, source, *ends[1:]), commits)
    path, marks, came = lab.scratch("job"), ["000"], Counter()
    for number, shown in enumerate(SHOWN, start=1):
        copy_table(lab, source, path, hidden=commits[shown:])
        arrival = _commit_arrives(lab, source, path) if number == BUSY_RUN else nullcontext()
        with arrival:
            answer, bookmark = as_pair(run(path, marks[-1]), "Rows and a bookmark are expected")
            rows = _delivered(_table(answer), commits)
        came += rows
        twice = {row for row, times in came.items() if times > 1}
        expect(not twice, "{}", _why_twice(commits, min(twice, key=_commit, default=None), marks))
        missing = (due[0] if number == 1 else due[0] + due[1] if number == 3 else Counter()) - came
        expect(not missing, "{}", _why_missing(min(missing, key=_commit, default=None), number))
        if number == 1:
            expect_rows(answer, early)
        try:
            marks.append(as_text(bookmark))
        except Unreadable:
            expect(
                False,
                "Run {} returned no text as bookmark, so the next run has none. It delivered {} "
                "rows: a bookmark must not depend on there being any.",
                number,
                rows.total(),
            )
    expect(came == due[0] + due[1], "Your runs deliver rows that no commit changed.")
    again, _ = as_pair(run(path, marks[-2]), "Rows and a bookmark are expected")
    expect(
        _delivered(_table(again), commits) == rows,
        "A crash lost the last bookmark, and the next run began at {}, like the one before. It "
        "delivered other rows: the bookmark that a run is given decides, nothing else.",
        marks[-2],
    )
    expect(
        completed_instants(lab, path) == completed_instants(lab, source),
        "Your job has written into the table that it reads.",
    )
    _expect_overlap_once(lab, run)
    return "Every change came once in three runs, and the job remembers one completion time."


def _expect_overlap_once(lab, run: Callable) -> None:
    """Run the job twice on a table whose last two commits overlapped, as both are complete."""
    path, commits = _overlapping(lab)
    second = commits[1].completed
    rows, bookmark = as_pair(run(path, "000"), "Rows and a bookmark are expected")
    mark = as_text(bookmark)
    again, _ = as_pair(run(path, mark), "Rows and a bookmark are expected")
    expect(
        not _delivered(_table(again), commits),
        "Commit 2 arrived twice. It was requested before commit 3, and was completed after it, at "
        "{}: two writers overlapped. Your bookmark after both is {}.",
        second,
        mark,
    )
    expect(
        set(_delivered(_table(rows), commits)) == {("O-1", 1), ("O-2", 2), ("O-3", 3)},
        "Two writers overlapped: commit 2 was completed last, at {}. Your run does not deliver the "
        "row of each commit.",
        second,
    )


def _commit(row: tuple[str, int]) -> tuple[int, str]:
    return row[1], row[0]


def _why_missing(row: tuple[str, int] | None, run: int) -> str:
    if row is None:
        return ""
    never = f"After run {run} {row[0]} of commit {row[1]} has not come."
    if row[1] == LATE_COMMIT:
        return (
            f"{never} It completed while run {BUSY_RUN} was at work: after the run had read, and "
            "before it asked for its bookmark. Choose the end of the window first, then read."
        )
    return f"{never} The first bookmark, 000, is before everything."


def _why_twice(commits: Sequence[Instant], row: tuple[str, int] | None, marks: list[str]) -> str:
    if row is None:
        return ""
    if len(marks) > 1 and marks[-1] == "000":
        return "The bookmark stays at 000: everything is delivered again."
    if not row[1]:
        return "Your rows are of commits that the table at `path` does not have."
    requested, completed = commits[row[1] - 1].requested, commits[row[1] - 1].completed
    if requested <= marks[-1] < completed:
        return (
            f"Commit {row[1]} arrived twice. Your bookmark {marks[-1]} is not before the time at "
            f"which it was requested. The window compares completion times, and it was completed "
            f"at {completed}: after your bookmark."
        )
    return (
        f"Commit {row[1]} arrived twice. It was completed at {completed}; your bookmarks were "
        f"{', '.join(marks)}. Read up to your bookmark, and no further."
    )


@contextmanager
def _commit_arrives(lab, source: str, path: str) -> Generator[None]:
    """Make the last commit appear just before the second query of the body.

    Anything that reads the table or its timeline counts as a query: a load, SQL, an X-ray.
    """
    asked = 0

    def counted(query: Callable) -> Callable:
        @wraps(query)
        def asking(*arguments, **options):
            nonlocal asked
            asked += 1
            if asked == 2:
                copy_table(lab, source, path)
            return query(*arguments, **options)

        return asking

    with ExitStack() as patches:
        for owner, name in ((DataFrameReader, "load"), (SparkSession, "sql"), (type(lab), "xray")):
            patches.enter_context(patch.object(owner, name, counted(getattr(owner, name))))
        yield


@check("11.3")
def appends_rows_with_their_bookmark(lab, append):
    """Let the function append to a new table twice; rows recur within a batch and in both."""
    path, written = lab.scratch("audit"), Counter()
    for call, batch in enumerate(AUDITED, start=1):
        bookmark = f"2026112012{secrets.randbelow(10**7):07}"
        rows = lab.spark.createDataFrame(batch, "order_id STRING, status STRING, euros INT")
        rows = rows.selectExpr(
            "order_id",
            "status",
            "CAST(euros AS DECIMAL(12,2)) AS amount",
            "timestamp'2026-11-20 12:00:00' AS order_ts",
        )
        given, before = Counter(map(tuple, rows.collect())), completed_instants(lab, path)
        append(rows.coalesce(1), bookmark, path)
        expect(lab.files(path), "Your function wrote nothing to the path that it was given.")
        table, found = lab.xray(path), without_hudis(rows_at(lab, path))
        expect(
            dict(found.dtypes) == dict(rows.dtypes),
            "Your table has the columns {}. Keep names and types of the rows.",
            found.dtypes,
        )
        written += given
        stored = Counter(map(tuple, found.select(rows.columns).collect()))
        has = f"Your function got {written.total()} rows, the table has {stored.total()}"
        expect(
            call == 1 or stored != given,
            "{}: the second call replaced the first one's rows.",
            has,
        )
        expect(
            stored == written,
            "{}: it keeps one row per order, or loses some. The audit has no record key, and its "
            "operation keeps every row.",
            has,
        )
        key = settings_of(lab, path).get("hoodie.table.recordkey.fields")
        expect(
            not key,
            "Every row is there, but the table has the record key {}, so the next upsert keeps one "
            "row per order. The audit has no record key.",
            key,
        )
        notes = {name: str(value) for name, value in table.commit().extra.items()}
        kept = notes.get("bookmark.orders")
        expect(
            kept is not None,
            "The rows are there, but the commit carries no note of that name. Its notes: {}. Only "
            "options that begin with hoodie.datasource.write.commitmeta.key.prefix are kept.",
            ", ".join(name for name in notes if name != "schema") or "none",
        )
        expect(kept == bookmark, "Call {} was given {}; its commit says {}.", call, bookmark, kept)
        why = "A job that dies between two commits has written one without the other."
        expect_added(lab, path, before, why=why)
        expect_no_metadata(lab, path, "DEMO_OPTIONS")
    return f"2 calls, 2 commits, 5 rows, and the newest commit says bookmark.orders = {kept}."


@check("11.4")
def streams_the_changes(lab, stream_once):
    """Let the function stream a copy of a table before and after a further commit appears."""
    source, commits = _three_commits(lab)
    path, folder, checkpoint = (lab.scratch(f"stream-{name}") for name in ("in", "out", "at"))
    ends = ["000", *(commits[shown - 1].completed for shown in (SHOWN[0], LATE_COMMIT))]
    windows = [_window(lab, source, *ends[call : call + 2]) for call in range(2)]
    counts = []
    for call, shown in enumerate((SHOWN[0], LATE_COMMIT)):
        copy_table(lab, source, path, hidden=commits[shown:])
        with own_streams_stopped(lab.spark, STREAM_TIMEOUT_S) as stopped:
            query = stream_once(path, folder, checkpoint)
        wanted = windows[0] if call == 0 else windows[0].union(windows[1])
        files = any(found.key.endswith(".parquet") for found in lab.files(folder))
        rows = lab.spark.read.schema(wanted.schema).parquet(folder) if files else wanted.limit(0)
        counts.append(rows.count())
        expect(
            not stopped.at_all,
            "Your function has returned or was stopped after {} rows, and its stream was still "
            "running. Take the trigger that ends, and wait for the end.",
            counts[-1],
        )
        expect(
            call == 0 or counts[1] == wanted.count(),
            "Since the first call {} rows had changed; the second call has brought {}. Where does "
            "your stream remember how far it was? One that forgets it begins with batch 0 again: "
            "with all rows, or with none, if the folder's `_spark_metadata` says that it has a "
            "batch 0.",
            windows[1].count(),
            counts[-1] - counts[0],
        )
        expect(
            counts[-1] == wanted.count(),
            "After call {} the folder has {} rows. Does the stream read the table at `path`, from "
            "its beginning, and write Parquet into `folder`?",
            call + 1,
            counts[-1],
        )
        versions = _by_version(rows), _by_version(wanted)
        expect_rows(*versions, "version", may_have_more=True)  # a folder per batch is a column
        expect(
            isinstance(query, StreamingQuery),
            "The rows are right. But you return {}, which is no stream's query: the next cell asks "
            "the query how many rows it has read.",
            kind_of(query),
        )
        expect(
            call == 0 or lab.files(f"{checkpoint}/offsets"),
            "The rows are right, but there is no stream's state at `checkpoint`.",
        )
    return (
        f"{counts[0]} rows at the first call, {counts[1] - counts[0]} at the second, and an end "
        "each time. The checkpoint is the bookmark."
    )


def _by_version(rows: DataFrame) -> DataFrame:
    """Add a key column `version`, because an order has a row for each of its commits."""
    return rows.withColumn("version", F.expr("order_id || ' of ' || _hoodie_commit_time"))


@check("11.5")
def foresees_a_lost_window(lab, lost):
    """Call the function for bookmarks in a table cleaned twice and in one never cleaned."""
    cleaned, commits = _cleaned_twice(lab)
    never, all_there = _named(lab, _three_commits(lab)[0]), _three_commits(lab)[1]
    merged, writes = _overwritten(lab)
    cases = [
        # after commit 3 only the one directly before the earliest that was retained is in question
        *((cleaned, commits, after, after < 3) for after in (1, 2, 4, 5, 6)),
        *((never, all_there, after, False) for after in (1, 3)),
        *((merged, writes, after, after < 4) for after in (1, 4)),
    ]
    kinds = {never: "never cleaned", cleaned: "cleaned twice"}
    for table, of, after, gone in cases:
        alarm = as_bool(lost(table, of[after - 1].completed))
        which = kinds.get(table, "cleaned once, a Merge-on-Read table")
        asked = (
            f"A table that was {which}, bookmark after commit {after} of {len(of)}: you say {alarm}"
        )
        expect(
            alarm or not gone,
            "{}, but files of a missed commit are gone. The timeline still lists these commits. "
            "Cleaning removes files, no instants; what it kept stands in the newest clean.",
            asked,
        )
        expect(
            gone or not alarm or after < len(of),
            "{}. A job at the newest commit has missed nothing, so it has lost nothing.",
            asked,
        )
        expect(
            gone or not alarm or table != never,
            "{}. Every file is in its place.",
            asked,
        )
        expect(
            gone or not alarm,
            "{}. The clean kept the files of all of these commits: compare its earliest commit "
            "with the commits that were missed.",
            asked,
        )
    return (
        "An alarm for each bookmark whose windows come back short, and for no other. A job that "
        "gets it reads once without an end, or starts anew."
    )


def _table(answer) -> DataFrame:
    expect(
        isinstance(answer, DataFrame),
        "Your rows are {}. The lesson goes on with them in Spark, so it needs a DataFrame of "
        "Spark.",
        kind_of(answer),
    )
    return answer


def _delivered(rows: DataFrame, commits: Sequence[Instant]) -> Counter:
    """Count pairs of order and commit number; the number is 0 if another table made the commit."""
    number = {commit.requested: n for n, commit in enumerate(commits, start=1)}
    found = rows.select("order_id", "_hoodie_commit_time").collect()
    return Counter((order, number.get(commit, 0)) for order, commit in found)


@cache  # the same for every answer
def _window(lab, path: str, begin: str, end: str) -> DataFrame:
    reader = (
        lab.spark.read.format("hudi")
        .option("hoodie.datasource.query.type", "incremental")
        .option("hoodie.datasource.read.begin.instanttime", begin)
        .option("hoodie.datasource.read.end.instanttime", end)
    )
    return reader.load(path).cache()


@cache  # nothing changes it
def _three_commits(lab) -> tuple[str, list[Instant]]:
    """Return the path of a table with three commits, and the commits."""
    path = lab.scratch("orders")
    for number, which in enumerate(COMMITS):
        _write(lab, path, which, number)
    return path, lab.xray(path).instants


@cache  # an answer only reads
def _overlapping(lab) -> tuple[str, list[Instant]]:
    """Return the path of a table whose second commit was completed after its third; its commits.

    It is Merge-on-Read, whose commits are called deltacommit. Each commit has its own table
    partition, so that no writer conflicts with another.
    """
    source, path = lab.scratch("orders"), lab.scratch("overlapping")
    for number in range(3):
        _write(lab, source, f"id = {number + 1}", number, f"2026-11-2{number}", **MOR)
    second, third = lab.xray(source).instants[1:]
    copy_table(lab, source, path, hidden=[second])
    last = datetime.strptime(third.completed, COMPLETED) + timedelta(milliseconds=1)
    later = last.strftime(COMPLETED)[: len(third.completed)]
    begin, folder = store.key_of(source), store.key_of(path)
    files = [found.key for found in lab.files(f"{source}/.hoodie/timeline")]
    renamed = {
        key: folder + key.removeprefix(begin).replace(second.completed, later)
        for key in files
        if second.requested in key
    }
    store.copy_objects(lab.endpoints, renamed)
    return path, lab.xray(path).instants


@cache  # an answer only reads
def _showing(lab, shown: int) -> str:
    """Return the path of a copy that shows only the first `shown` commits."""
    (source, commits), path = _three_commits(lab), lab.scratch("window")
    copy_table(lab, source, path, hidden=commits[shown:])
    return path


@cache  # an answer only asks
def _cleaned_twice(lab) -> tuple[str, list[Instant]]:
    """Return the name of a table with six commits, and the commits.

    The first clean, after commit 4, retained commit 3; the second retained 5 and the files of 4.
    """
    path = scratch_copy(lab, _three_commits(lab)[0], "cleaned")
    name = _named(lab, path)
    for numbers in ((3,), (4, 5)):
        for number in numbers:
            _write(lab, path, "id <= 20", number)
        _clean(lab, name, 2)
    return name, [found for found in lab.xray(path).instants if found.writes]


@cache  # an answer only asks
def _overwritten(lab) -> tuple[str, list[Instant]]:
    """Return the name of a Merge-on-Read table with four commits, and the commits.

    The third replaced the file groups of the first two; a clean after the fourth removed them.
    """
    path, merge = lab.scratch("orders"), {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
    for number, operation in enumerate(("upsert", "upsert", "insert_overwrite_table", "upsert")):
        how = merge | {"hoodie.datasource.write.operation": operation}
        _write(lab, path, "id <= 2", number, **how)
    name = _named(lab, path)
    _clean(lab, name, 1)
    return name, [found for found in lab.xray(path).instants if found.writes]


def _clean(lab, name: str, retained: int) -> None:
    lab.spark.sql(f"""
        CALL run_clean(table => '{name}', retain_commits => {retained},
                       options => 'hoodie.metadata.enable=false')
    """).collect()


@cache
def _named(lab, path: str) -> str:
    """Register a table in the catalogue; return its name."""
    name = f"table_{secrets.token_hex(3)}"
    lab.spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    return name


def _write(
    lab, path: str, which: str, number: int, day: str = "2026-11-20", **options: str
) -> None:
    """Upsert orders whose status contains the commit's number, counted from 0."""
    rows = lab.spark.sql(f"""
        SELECT 'O-' || id AS order_id, 'step {number}' AS status,
               CAST(5 AS DECIMAL(12,2)) AS amount,
               to_timestamp('2026-11-20 10:0{number}') AS order_ts, '{day}' AS partition_date
        FROM range(1, 23, 1, 1) WHERE {which}
    """)
    writer = rows.write.format("hudi").options(**TABLE).options(**options)
    writer.mode("append").save(path)
