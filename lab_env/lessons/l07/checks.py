"""Checks of lesson 07: a stream's files, a clustering, a board after a cleaning, versions kept.

No check writes to the lesson's tables: they make new tables, or copies.
"""

import secrets
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lab_env import store
from lab_env.course.answers import Unreadable
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.hudi.table import DataFile, Snapshot
from lab_env.hudi.timeline import Instant
from lab_env.lessons.boards import Board, as_board, board_text
from lab_env.lessons.streams import own_streams_stopped
from lab_env.lessons.table_copies import copy_table, empty_copy, scratch_copy
from lab_env.pipeline.options import DEMO_OPTIONS, KEYS

WRITES, ROWS, TASKS = 3, 40, 3
BULK = (
    DEMO_OPTIONS
    | KEYS
    | {
        "hoodie.index.bloom.num_entries": "1000",
        "hoodie.datasource.write.operation": "bulk_insert",
    }
)
MOST_FILES = 2
STREAM_TIMEOUT_S = 120
KEY_FILTER_BYTES = 100_000  # more than that of 1,000 keys, less than the default's
IDENTIFIER = "hoodie.datasource.write.streaming.checkpoint.identifier"
ORDER = "order_id STRING, status STRING, order_ts TIMESTAMP, partition_date STRING"
# Minutes between commits, and of the longest query.
WORKLOADS = ((3, 10), (5, 10))


@dataclass(frozen=True)
class Streamed:
    """A table after the learner's stream of three rows in two files, two rows of one order.

    Args:
        operation: that the stream was asked for.
        rows: number of rows that the table shows when the function has returned.
        commits: number of its completed commits; the stream offers a file per micro-batch.
        progress: number of objects in the checkpoint's folder.
        further: whether an option that was given in addition arrived.
        stopped: whether the check had to stop the stream.
    """

    operation: str
    rows: int
    commits: int
    progress: int
    further: bool = True
    stopped: bool = False

    @property
    def expected(self) -> int:
        """An upsert keeps one row per order."""
        return 2 if self.operation == "upsert" else 3

    @property
    def right(self) -> bool:
        """Whether all arrived, in both micro-batches, by the operation and with its progress."""
        complete = self.rows == self.expected and self.commits == 2 and self.progress
        return bool(complete) and self.further and not self.stopped


@check_of("07.1")
class WritesTheStream:
    """A function that streams into a table until all is there."""

    @staticmethod
    def observe(lab, answer: Callable) -> Streamed:
        """Stream three rows by bulk insert, and if that is right by an upsert, which keeps two."""
        path = lab.scratch("stream-table")
        facts = _streamed(lab, answer, path, "bulk_insert")
        if facts.right:
            # A copy without a commit, because a stream looks for a new table's properties for 5 s.
            facts = _streamed(lab, answer, empty_copy(lab, path, "stream-table"), "upsert")
        return facts

    @staticmethod
    def judge(facts: Streamed) -> Passed | NotYet:
        """All rows, progress where it was asked for, and an end."""
        if facts.stopped:
            return NotYet(
                f"After {STREAM_TIMEOUT_S} seconds your stream still ran, with {facts.rows} rows "
                "of 3 written, and the check has stopped it. Which trigger ends when all that is "
                "there has been read?"
            )
        if not facts.commits:
            return NotYet(
                "When your function returned, the table had no commit. `start` returns at once: "
                "what waits for the end of the query?"
            )
        if facts.rows == 2 != facts.expected:
            return NotYet(
                f"Asked for {facts.operation}, your stream left 2 rows of 3, one per key: it did "
                "an upsert. By default a write is one; the operation is an argument."
            )
        if facts.rows == 3 != facts.expected:
            return NotYet(
                f"Asked for {facts.operation}, your stream left both rows of one order: it did an "
                "insert. It may be asked for another operation than the lesson's first one."
            )
        if facts.rows != facts.expected:
            return NotYet(f"Three rows were sent, and the table shows {facts.rows}.")
        if facts.commits == 1:
            return NotYet(
                "The stream limits a micro-batch to one of its two files, and yours wrote both in "
                "one commit: its trigger ignores such limits. Which trigger keeps to them?"
            )
        if not facts.further:
            return NotYet(
                "Your stream ignores `extra_options`. The check gave it an identifier, and the "
                "commit has the default one."
            )
        if not facts.progress:
            return NotYet(
                "All rows are there. The folder for the progress is empty: the checkpoint lies "
                "somewhere else, and a restart would look for it here."
            )
        return Passed(
            "All three rows by bulk insert, one row per order by upsert; the progress in its "
            "folder, and an end."
        )


def _streamed(lab, answer: Callable, path: str, operation: str) -> Streamed:
    """Let the answer stream two files into a table, and stop what it has left running."""
    checkpoint = lab.scratch("stream-checkpoint")
    files = lab.spark.readStream.schema(ORDER).option("maxFilesPerTrigger", 1)
    with own_streams_stopped(lab.spark, STREAM_TIMEOUT_S) as stopped:
        answer(path, checkpoint, files.parquet(_two_files(lab)), operation, **{IDENTIFIER: "check"})
    table = lab.xray(path) if lab.files(path) else None
    commits = len(table.completed_writes) if table else 0
    return Streamed(
        operation,
        lab.spark.read.format("hudi").load(path).count() if commits else 0,
        commits,
        len(lab.files(checkpoint)),
        bool(table and commits and "check" in (table.commit().checkpoint or ())),
        stopped.late,
    )


@dataclass(frozen=True)
class Clustered:
    """A copy of a table of 18 files in two partitions, after the learner's function.

    Args:
        files: number of files that a query of the newest state reads.
        rows: number of rows that it shows.
        actions: actions on the timeline that are complete.
        planned: whether a clustering is planned and not complete.
        metadata: whether the table has a metadata table, which `OPTIONS` switch off.
        largest: bytes of the largest file, small with the bloom filter of `OPTIONS`.
    """

    files: int
    rows: int
    actions: tuple[str, ...]
    planned: bool
    metadata: bool = False
    largest: int = 0


@check_of("07.2")
class Clusters:
    """A function that clusters a table."""

    @staticmethod
    def observe(lab, answer: Callable) -> Clustered:
        """Cluster a copy of a small table."""
        path = scratch_copy(lab, _many_files(lab), "cluster")
        answer(path)
        picture = lab.xray(path)
        return Clustered(
            files=sum(len(found.files) for found in picture.current),
            rows=lab.spark.read.format("hudi").load(path).count(),
            actions=tuple(i.action for i in picture.instants if i.state == "completed"),
            planned=any(i.state != "completed" for i in picture.instants),
            metadata=any(part == "metadata" for part, _, _ in picture.bookkeeping),
            largest=max(file.size for file in picture.files),
        )

    @staticmethod
    def judge(facts: Clustered) -> Passed | NotYet:
        """One clustering, two files, all rows."""
        if facts.rows != WRITES * ROWS:
            return NotYet(
                f"The table had {WRITES * ROWS} orders and shows {facts.rows}. A table service "
                "changes no row."
            )
        if facts.planned:
            return NotYet(
                f"A clustering was planned, and nobody carried it out: a query still reads "
                f"{facts.files} files."
            )
        if "clustering" not in facts.actions:
            untouched = [it for it in facts.actions if it != "clean"] == ["commit"] * WRITES
            what = (
                "Cleaning removes files that no query of the newest state reads; it merges no "
                "files."
                if untouched
                else "Whoever reads all rows and writes them again makes a commit of every row. A "
                "table service does it as an action of its own: which procedure clusters?"
            )
            return NotYet(
                f"The timeline has {', '.join(facts.actions)}, no clustering, and a query reads "
                f"{facts.files} files. {what}"
            )
        if facts.files > MOST_FILES:
            return NotYet(f"There was a clustering, but a query still reads {facts.files} files.")
        if facts.metadata or facts.largest > KEY_FILTER_BYTES:
            what = (
                "it made a metadata table"
                if facts.metadata
                else f"a file has {facts.largest // 1000} KB, most of it for a bloom filter"
            )
            return NotYet(
                f"All {facts.rows} orders in {facts.files} files. But the procedure did not get "
                f"all of `OPTIONS`: {what}."
            )
        return Passed(f"All {facts.rows} orders in {facts.files} files, one per day.")


@dataclass(frozen=True)
class ThreeWrites:
    """The table after three writes with the learner's options.

    Args:
        files: number of data files that a query of the newest state reads.
        older: number of the other data files.
        rows: number of rows that the table shows.
        orders: number of different orders among them.
        actions: number of completed instants by action.
        cleaner: whether the options switched the cleaner on.
    """

    files: int
    older: int
    rows: int
    orders: int
    actions: dict[str, int]
    cleaner: bool = False


@check_of("07.3")
class FewFiles:
    """Options that leave at most two files to read after three bulk inserts."""

    @staticmethod
    def observe(lab, answer) -> ThreeWrites:
        """Write three batches with these options, then count files, rows and actions."""
        extra_options = dict(answer)
        path = lab.scratch("few_files")
        options = BULK | {"hoodie.table.name": "few_files"} | extra_options
        _write_many_files(lab, path, options)
        shown = lab.spark.read.format("hudi").load(path)
        rows, orders = shown.selectExpr("count(order_id)", "count(DISTINCT order_id)").first()
        picture = lab.xray(path)
        files = sum(len(found.files) for found in picture.current)
        return ThreeWrites(
            files=files,
            older=len(picture.files) - files,
            rows=rows,
            orders=orders,
            actions=dict(Counter(instant.action for instant in picture.instants)),
            cleaner=str(options["hoodie.clean.automatic"]).lower() == "true",
        )

    @staticmethod
    def judge(facts: ThreeWrites) -> Passed | NotYet:
        """Every order once, in at most two files, by at most one clustering."""
        if not facts.rows == facts.orders == WRITES * ROWS:
            return NotYet(
                f"The table shows {facts.rows} rows of {facts.orders} orders; {WRITES * ROWS} "
                "orders were written. Fewer files must not mean other rows."
            )
        clusterings = facts.actions.get("clustering", 0)
        if facts.files <= MOST_FILES and clusterings > 1:
            return NotYet(
                f"{facts.files} files hold all {facts.rows} orders, but after {clusterings} "
                "clusterings. Each one copies the rows that the one before it had written. For "
                f"{WRITES} writes one clustering is enough: when should it run?"
            )
        if facts.files <= MOST_FILES and not clusterings:
            return NotYet(
                f"{facts.files} files hold all {facts.rows} orders, without a clustering: your "
                "options changed the operation, so each write copied the rows of the writes before "
                "it. Let the operation stay a bulk insert."
            )
        if facts.files <= MOST_FILES:
            return Passed(
                f"{facts.files} files hold all {facts.rows} orders. {facts.older} older files wait "
                "for the cleaner: the next section is about them."
            )
        if clusterings:
            return NotYet(
                f"There was a clustering, but a query still reads {facts.files} files, because "
                "more writes followed it. The check makes three writes: cluster after the third."
            )
        if facts.cleaner:
            return NotYet(
                f"The cleaner was on, and a query still reads {facts.files} files. Cleaning "
                "removes files that no query of the newest state reads; it merges none."
            )
        written = ", ".join(f"{n} {action}" for action, n in sorted(facts.actions.items()))
        return NotYet(
            f"A query reads {facts.files} files, and the timeline has {written}: no clustering. "
            "A bulk insert does not look at files that are there, whatever the size limit is. "
            "Inline clustering waits for as many commits as its option says, four by default."
        )


@dataclass(frozen=True)
class Looked:
    """What the learner's board showed of a table before and after a write and a cleaning.

    Args:
        first: the board at the first call.
        true_first: what the table said then.
        second: at the second call; None if a file was missing.
        true_second: what the table said then.
    """

    first: Board
    true_first: Board
    second: Board | None = None
    true_second: Board | None = None


@check_of("07.4")
class LooksAgain:
    """A board that may be asked again after a cleaning."""

    @staticmethod
    def observe(lab, answer: Callable) -> Looked:
        """Show a copy of the lesson's table without its last write, then with it and cleaned."""
        source, path = lab.path("orders"), lab.scratch("board")
        newest = lab.xray(source)
        late = _since_the_last_write(newest)
        copy_table(lab, source, path, hidden=late)
        true_first, true_second = _true_boards(lab, late)
        first = _board(answer(path))
        if first != true_first:
            return Looked(first, true_first)
        copy_table(lab, source, path)
        for file in _replaced(newest):
            store.delete(lab.endpoints, f"{store.key_of(path)}/{file.key}")
        try:
            second = _board(answer(path))
        except Exception as error:  # Spark's own exception comes through Py4J
            if "SparkFileNotFoundException" not in str(error):
                raise
            second = None
        return Looked(first, true_first, second, true_second)

    @staticmethod
    def judge(facts: Looked) -> Passed | NotYet:
        """The table's board at both calls."""
        if facts.first != facts.true_first:
            return NotYet(
                f"At the first call your board says {board_text(facts.first)}. The table at "
                f"`path` says {board_text(facts.true_first)}. Which table did you read, and when "
                "was it opened?"
            )
        then = "The first call was right. Then came a write and a cleaning, and the second call "
        if facts.second is None:
            return NotYet(
                f"{then}failed: a file was not found. Your DataFrame was opened before the "
                "cleaning, and its plan names files that are gone."
            )
        if facts.second == facts.first != facts.true_second:
            return NotYet(
                f"{then}says the same, {board_text(facts.second)}. The table says "
                f"{board_text(facts.true_second or {})}. Ask it again at each call."
            )
        if facts.second != facts.true_second:
            return NotYet(
                f"{then}says {board_text(facts.second)}. The table says "
                f"{board_text(facts.true_second or {})}."
            )
        return Passed(
            f"First {board_text(facts.first)}; after a write and a cleaning "
            f"{board_text(facts.second)}. Each call opened the table as it was."
        )


def _since_the_last_write(table: Snapshot) -> tuple[Instant, ...]:
    """A table's last write and its cleans."""
    writes = [instant for instant in table.instants if instant.writes and instant.completed]
    cleans = [instant for instant in table.instants if instant.action == "clean"]
    if len(writes) < 2 or not cleans:
        raise Unreadable("Run the cells of this section first: they write and clean the table.")
    return (writes[-1], *cleans)


def _replaced(table: Snapshot) -> list[DataFile]:
    """The data files that no query of the newest state reads."""
    current = {file for found in table.current for file in found.files}
    return [file for file in table.files if file not in current]


def _board(answer) -> Board:
    if not isinstance(answer, DataFrame):
        raise Unreadable("A Spark DataFrame is expected, with the columns status and revenue.")
    return as_board(answer)


@cache  # no later write changes what the table was
def _true_boards(lab, late: tuple[Instant, ...]) -> tuple[Board, Board]:
    """The board of the lesson's table without the late instants, and that of now."""
    before = lab.scratch("board")
    copy_table(lab, lab.path("orders"), before, hidden=late)
    first, second = (
        lab.spark.read.format("hudi").load(path).groupBy("status").agg(F.sum("amount"))
        for path in (before, lab.path("orders"))
    )
    return as_board(dict(first.collect())), as_board(dict(second.collect()))


@dataclass(frozen=True)
class Retention:
    """What the learner's cleaning left of one file group.

    Args:
        commit_minutes: between two commits.
        query_minutes: of the longest query.
        versions: number of versions of the file before the cleaning.
        kept: number of versions after it.
    """

    commit_minutes: int
    query_minutes: int
    versions: int
    kept: int

    @property
    def needed(self) -> int:
        """The newest version and those that commits of the longest query's time supersede."""
        return -(-self.query_minutes // self.commit_minutes) + 1


@check_of("07.5")
class CleansForTheReaders:
    """A cleaning that keeps the files of the longest query, and no more."""

    @staticmethod
    def observe(lab, answer: Callable) -> Retention:
        """Clean copies of the lesson's table, for one workload and then for another."""
        facts = _cleaned_copy(lab, answer, *WORKLOADS[0])
        if facts.kept == facts.needed:
            facts = _cleaned_copy(lab, answer, *WORKLOADS[1])
        return facts

    @staticmethod
    def judge(facts: Retention) -> Passed | NotYet:
        """The fewest versions that keep the files of every reader."""
        every, longest = facts.commit_minutes, facts.query_minutes
        asked = f"Commits every {every} minutes, queries of {longest}: "
        lost = facts.versions - facts.kept
        if not lost:
            return NotYet(
                f"{asked}The cleaner deleted nothing: all {facts.versions} versions are still "
                "there, one per commit. Your readers are safe, but how many commits can complete "
                f"while one of them reads for {longest} minutes?"
            )
        # A reader of a version is safe from the next commit on until the cleaning.
        safe = every * (facts.versions - (lost + 1))
        if safe < longest:
            return NotYet(
                f"{asked}The reader that opened at commit {lost} lost its file at commit "
                f"{facts.versions}. It may have opened just before commit {lost + 1}, so you "
                f"guarantee {safe} minutes."
            )
        if facts.kept > facts.needed:
            return NotYet(
                f"{asked}Every reader is safe, for {safe} minutes. But {facts.kept} versions are "
                f"kept where {facts.needed} are enough."
            )
        return Passed(
            f"{asked}The newest version and {facts.kept - 1} older ones are kept. A reader of the "
            f"oldest of them has {safe} minutes from the commit that superseded it. The rule: "
            "longest query divided by the time between commits, rounded up."
        )


def _cleaned_copy(lab, answer: Callable, commit_minutes: int, query_minutes: int) -> Retention:
    """Let the answer clean a copy of the lesson's table."""
    path = scratch_copy(lab, lab.path("orders_sized"), "retention")
    name = f"retention_{secrets.token_hex(3)}"
    versions = _versions(lab.xray(path))
    lab.spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    answer(name, commit_minutes, query_minutes)
    lab.spark.sql(f"DROP TABLE {name}")
    return Retention(commit_minutes, query_minutes, versions, _versions(lab.xray(path)))


def _two_files(lab) -> str:
    """A folder with O-1 in one Parquet file, O-1 and O-2 in another; written at the first call."""
    path = lab.path("exercise/two_files")
    if not lab.files(path):
        one = _orders_of_two_days(lab, 1, 2, tasks=1)
        one.union(_orders_of_two_days(lab, 1, 3, tasks=1)).write.parquet(path)
    return path


def _orders_of_two_days(lab, begin: int, end: int, tasks: int):
    """Orders with the numbers from `begin` to before `end`, written by so many tasks."""
    return lab.spark.range(begin, end, 1, tasks).selectExpr(
        "concat('O-', id) AS order_id",
        "'new' AS status",
        "timestamp'2026-11-20 12:00:00' AS order_ts",
        "cast(date_sub('2026-11-21', cast(id % 2 AS int)) AS string) AS partition_date",
    )


def _write_many_files(lab, path: str, options: dict[str, object]) -> None:
    """Write orders in three writes of three tasks, each for two days."""
    for number in range(WRITES):
        rows = _orders_of_two_days(lab, number * ROWS, (number + 1) * ROWS, TASKS)
        rows.write.format("hudi").options(**options).mode("append").save(path)


def _many_files(lab) -> str:
    """The path of a table of 18 files, written at the first call."""
    path = lab.path("exercise/many_files")
    if not lab.files(path):
        _write_many_files(lab, path, BULK | {"hoodie.table.name": "many_files"})
    return path


def _versions(table) -> int:
    """The number of versions of the file group that has most."""
    return max(Counter(file.group for file in table.files).values())
