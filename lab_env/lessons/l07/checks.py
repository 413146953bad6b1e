"""Checks of lesson 07: streamed writes, clustering, file sizing, and queries around cleaning.

No check writes to the lesson's tables; each creates new tables or copies.
"""

import io
import secrets
from collections import Counter
from functools import cache
from itertools import zip_longest

import pyarrow.parquet as pq
from pyspark.sql import functions as F

from lab_env.course.answers import Unreadable
from lab_env.course.checking import check, expect
from lab_env.lessons.boards import Board, as_board, board_text, expect_decimal
from lab_env.lessons.rows import as_dataframe, expect_rows, named, rows_at, without_hudis
from lab_env.lessons.streams import own_streams_stopped, session_spared
from lab_env.lessons.table_copies import copy_table, empty_copy, named_table, scratch_copy
from lab_env.lessons.timelines import completed_instants, expect_added, expect_no_metadata
from lab_env.pipeline.options import DEMO_OPTIONS, KEYS
from lab_env.platform import store
from lab_env.tables.hudi.table import DataFile, Snapshot
from lab_env.tables.hudi.timeline import Instant

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
FURTHER = {"hoodie.parquet.compression.codec": "uncompressed"}  # the default is gzip
ORDER = "order_id STRING, status STRING, order_ts TIMESTAMP, partition_date STRING"
# Minutes between commits, and of the longest query: rounding up adds to the first, not the second.
ROUNDED, EVEN = ((4, 10), (3, 8), (4, 7), (5, 9)), ((5, 10), (3, 9), (4, 8))


@check("07.1")
def writes_the_stream(lab, stream_into):
    """Let the function stream three rows: bulk insert keeps all three, upsert keeps two."""
    path = lab.scratch("stream-table")
    _stream(lab, stream_into, path, "bulk_insert", rows=3)
    # A copy without a commit, because a stream looks for a new table's properties for 5 s.
    _stream(lab, stream_into, empty_copy(lab, path, "stream-table"), "upsert", rows=2)
    return (
        "All three rows by bulk insert, one row per order by upsert; the progress in its folder, "
        "and an end."
    )


def _stream(lab, stream_into, path: str, operation: str, rows: int) -> None:
    """Run the answer's stream from two files into a table; two of the rows have the same key."""
    checkpoint = lab.scratch("stream-checkpoint")
    files = lab.spark.readStream.schema(ORDER).option("maxFilesPerTrigger", 1)
    with session_spared(), own_streams_stopped(lab.spark, STREAM_TIMEOUT_S) as stopped:
        stream_into(path, checkpoint, files.parquet(_two_files(lab)), operation, **FURTHER)
    table = lab.xray(path) if lab.files(path) else None
    commits = len(table.completed_writes) if table else 0
    shown = rows_at(lab, path).count() if commits else 0
    expect(
        not stopped.late,
        "After {} seconds your stream still ran, with {} rows of 3 written, and the check has "
        "stopped it. Which trigger ends when all that is there has been read?",
        STREAM_TIMEOUT_S,
        shown,
    )
    expect(
        commits,
        "When your function returned, the table had no commit. `start` returns at once: what waits "
        "for the end of the query?",
    )
    expect(
        shown != 2 or rows == 2,
        "Asked for {}, your stream left 2 rows of 3, one per key: it did an upsert. By default a "
        "write is one; the operation is an argument.",
        operation,
    )
    expect(
        shown != 3 or rows == 3,
        "Asked for {}, your stream left both rows of one order: it did an insert. It may be asked "
        "for another operation than the lesson's first one.",
        operation,
    )
    expect(shown == rows, "Three rows were sent, and the table shows {}.", shown)
    columns = sorted(without_hudis(rows_at(lab, path)).columns)
    sent = sorted(column.split()[0] for column in ORDER.split(", "))
    expect(
        columns == sent, "The table has the columns {}, which were not all sent.", named(columns)
    )
    expect(
        commits == 2,
        "The stream limits a micro-batch to one of its two files, and yours made {} commits of "
        "them. Which trigger keeps to such limits?",
        commits,
    )
    assert table  # it has commits
    expect(
        all(_codec(lab, file.key) == "UNCOMPRESSED" for file in lab.files(path) if _is_base(file)),
        "Your stream ignores `extra_options`. The check asked for files without compression, and "
        "they have one.",
    )
    expect(
        lab.files(checkpoint),
        "All rows are there. The folder for the progress is empty: the checkpoint lies somewhere "
        "else, and a restart would look for it here.",
    )
    expect_added(lab, path, (), writes=2)


def _is_base(file) -> bool:
    return file.key.endswith(".parquet") and "/.hoodie/" not in file.key


def _codec(lab, key: str) -> str:
    content = io.BytesIO(store.read(lab.endpoints, key))
    return pq.ParquetFile(content).metadata.row_group(0).column(0).compression


@check("07.2")
def clusters(lab, cluster):
    """Let the function cluster a copy of a table with 18 files in two partitions."""
    path = scratch_copy(lab, _many_files(lab), "cluster")
    before = completed_instants(lab, path)
    cluster(path)
    picture = lab.xray(path)
    files = sum(len(found.files) for found in picture.current)
    actions = [i.action for i in picture.instants if i.state == "completed"]
    expect(
        all(i.state == "completed" for i in picture.instants),
        "A clustering was planned, and nobody carried it out: a query still reads {} files.",
        files,
    )
    untouched = [it for it in actions if it != "clean"] == ["commit"] * WRITES
    expect(
        "clustering" in actions,
        "The timeline has {}, no clustering, and a query reads {} files. {}",
        ", ".join(actions),
        files,
        "Cleaning removes files that no query of the newest state reads; it merges no files."
        if untouched
        else "Whoever reads all rows and writes them again makes a commit of every row. A table "
        "service does it as an action of its own: which procedure clusters?",
    )
    expect(files <= MOST_FILES, "There was a clustering, but a query still reads {} files.", files)
    largest = max(file.size for file in picture.files)
    expect_no_metadata(lab, path, "OPTIONS")
    expect(
        largest <= KEY_FILTER_BYTES,
        "All orders are in {} files. But the procedure did not get all of `OPTIONS`: a file has {} "
        "KB, most of it for a bloom filter.",
        files,
        largest // 1000,
    )
    expect_rows(rows_at(lab, path), _orders_of_two_days(lab, 0, WRITES * ROWS, 1))
    expect_added(lab, path, before, services={"clustering"})
    return f"All {WRITES * ROWS} orders in {files} files, one per day."


@check("07.3")
def few_files(lab, answer):
    """Write three batches with the learner's options; check files, rows and timeline actions."""
    path = lab.scratch("few_files")
    options = BULK | {"hoodie.table.name": "few_files"} | dict(answer)
    _write_many_files(lab, path, options)
    shown = rows_at(lab, path)
    [(rows, orders)] = shown.selectExpr("count(order_id)", "count(DISTINCT order_id)").collect()
    picture = lab.xray(path)
    files = sum(len(found.files) for found in picture.current)
    actions = Counter(instant.action for instant in picture.instants)
    clusterings = actions["clustering"]
    expect(
        rows == orders == WRITES * ROWS,
        "The table shows {} rows of {} orders; {} orders were written. Fewer files must not mean "
        "other rows.",
        rows,
        orders,
        WRITES * ROWS,
    )
    few = files <= MOST_FILES
    expect(
        not few or clusterings <= 1,
        "{} files hold all {} orders, but after {} clusterings. Each one copies the rows that the "
        "one before it had written. For {} writes one clustering is enough: when should it run?",
        files,
        rows,
        clusterings,
        WRITES,
    )
    expect(
        not few or clusterings,
        "{} files hold all {} orders, without a clustering: your options changed the operation, so "
        "each write copied the rows of the writes before it. Let the operation stay a bulk insert.",
        files,
        rows,
    )
    expect(
        few or not clusterings,
        "There was a clustering, but a query still reads {} files, because more writes followed "
        "it. The check makes three writes: cluster after the third.",
        files,
    )
    expect(
        few or str(options["hoodie.clean.automatic"]).lower() != "true",
        "The cleaner was on, and a query still reads {} files. Cleaning removes files that no "
        "query of the newest state reads; it merges none.",
        files,
    )
    expect(
        few,
        "A query reads {} files, and the timeline has {}: no clustering. A bulk insert does not "
        "look at files that are there, whatever the size limit is. Inline clustering waits for as "
        "many commits as its option says, four by default.",
        files,
        ", ".join(f"{n} {action}" for action, n in sorted(actions.items())),
    )
    return (
        f"{files} files hold all {rows} orders. {len(picture.files) - files} older files wait for "
        "the cleaner: the next section is about them."
    )


@check("07.4")
def looks_again(lab, board_now):
    """Call the function before a table's last write, then again after that write and a cleaning."""
    source, path = lab.path("orders"), lab.scratch("board")
    newest = lab.xray(source)
    late = _since_the_last_write(newest)
    copy_table(lab, source, path, hidden=late)
    true_first, true_second = _true_boards(lab, late)
    first = as_board(as_dataframe(board_now(path), "the rows of the board"))
    expect(
        first == true_first,
        "At the first call your board says {}. The table at `path` says {}. Which table did you "
        "read, and when was it opened?",
        board_text(first),
        board_text(true_first),
    )
    copy_table(lab, source, path)
    for file in _replaced(newest):
        store.delete(lab.endpoints, f"{store.key_of(path)}/{file.key}")
    then = "The first call was right. Then came a write and a cleaning, and the second call"
    try:
        board = as_dataframe(board_now(path), "the rows of the board")
        second = as_board(board)
    except Exception as error:  # Spark's own exception comes through Py4J
        expect(
            "SparkFileNotFoundException" not in str(error),
            "{} failed: a file was not found. Your DataFrame was opened before the cleaning, and "
            "its plan names files that are gone.",
            then,
        )
        raise
    expect(
        second == true_second,
        "{} says {}. The table says {}. Ask it again at each call.",
        then,
        "the same" if second == first else board_text(second),
        board_text(true_second),
    )
    expect_decimal(board)
    expect(len(board.columns) == 2, "The board has {} columns; it shows two.", len(board.columns))
    return (
        f"First {board_text(first)}; after a write and a cleaning {board_text(second)}. Each call "
        "opened the table as it was."
    )


def _since_the_last_write(table: Snapshot) -> tuple[Instant, ...]:
    """Return a table's last write and all of its cleans."""
    writes = [instant for instant in table.instants if instant.writes and instant.completed]
    cleans = [instant for instant in table.instants if instant.action == "clean"]
    if len(writes) < 2 or not cleans:
        raise Unreadable("Run the cells of this section first: they write and clean the table.")
    return (writes[-1], *cleans)


def _replaced(table: Snapshot) -> list[DataFile]:
    """Return the data files that a snapshot query does not read."""
    current = {file for found in table.current for file in found.files}
    return [file for file in table.files if file not in current]


@cache  # no later write changes what the table was
def _true_boards(lab, late: tuple[Instant, ...]) -> tuple[Board, Board]:
    """Return the right boards of the lesson's table, without and with the instants in `late`."""
    before = lab.scratch("board")
    copy_table(lab, lab.path("orders"), before, hidden=late)
    first, second = (
        rows_at(lab, path).groupBy("status").agg(F.sum("amount"))
        for path in (before, lab.path("orders"))
    )
    return as_board(dict(first.collect())), as_board(dict(second.collect()))


@check("07.5")
def cleans_for_the_readers(lab, clean_for):
    """Let the function clean copies of the lesson's table for two random workloads."""
    for every, longest in (secrets.choice(ROUNDED), secrets.choice(EVEN)):
        path = scratch_copy(lab, lab.path("orders_sized"), "retention")
        before, instants = lab.xray(path), completed_instants(lab, path)
        versions = _versions(before)
        with named_table(lab, path) as name:
            clean_for(name, every, longest)
        after = lab.xray(path)
        kept = _versions(after)
        asked = f"Commits every {every} minutes, queries of {longest}:"
        lost = versions - kept
        expect(
            lost,
            "{} The cleaner deleted nothing: all {} versions are still there, one per commit. Your "
            "readers are safe, but how many commits can complete while one of them reads for {} "
            "minutes?",
            asked,
            versions,
            longest,
        )
        # A reader of a version is safe from the next commit on until the cleaning.
        safe = every * (versions - (lost + 1))
        expect(
            safe >= longest,
            "{} The reader that opened at commit {} lost its file at commit {}. It may have opened "
            "just before commit {}, so you guarantee {} minutes.",
            asked,
            lost,
            versions,
            lost + 1,
            safe,
        )
        needed = -(-longest // every) + 1  # the newest, and those that such a query may still read
        expect(
            kept == needed,
            "{} Every reader is safe, for {} minutes. But {} versions are kept where {} are "
            "enough.",
            asked,
            safe,
            kept,
            needed,
        )
        useless = {*after.files} - _readable(before, needed - 1)
        expect(
            not useless,
            "{} Every reader is safe, and the group of the last writes keeps what is needed. But "
            "{} files of other groups are kept that no query reads any more: they were replaced "
            "earlier. A policy that counts versions does not look at the time.",
            asked,
            len(useless),
        )
        expect_no_metadata(lab, path, "CLEAN_OPTIONS")
        expect_added(lab, path, instants, writes=0, services={"clean"})
    return (
        f"{asked} the newest version and {kept - 1} older ones are kept. A reader of the oldest of "
        f"them has {safe} minutes from the commit that superseded it. The rule: longest query "
        "divided by the time between commits, rounded up."
    )


def _readable(table: Snapshot, commits: int) -> set[DataFile]:
    """Return the files that a query may read which opened the table up to `commits` commits ago."""
    late = sorted(table.completed_writes)[-commits:]
    groups: dict[str, list[DataFile]] = {}
    for file in sorted(table.files, key=lambda file: file.instant):
        groups.setdefault(file.group, []).append(file)
    return {
        file
        for versions in groups.values()
        for file, newer in zip_longest(versions, versions[1:])
        if newer is None or newer.instant in late
    }


def _two_files(lab) -> str:
    """Return a folder of two Parquet files, O-1 and O-1 with O-2, written on the first call."""
    path = lab.path("exercise/two_files")
    if not lab.files(path):
        one = _orders_of_two_days(lab, 1, 2, tasks=1)
        paid = _orders_of_two_days(lab, 1, 3, tasks=1).replace("new", "paid", "status")
        one.union(paid).write.parquet(path)
    return path


def _orders_of_two_days(lab, begin: int, end: int, tasks: int):
    """Return orders numbered from `begin` to `end` - 1, in `tasks` Spark partitions."""
    return lab.spark.range(begin, end, 1, tasks).selectExpr(
        "concat('O-', id) AS order_id",
        "'new' AS status",
        "timestamp'2026-11-20 12:00:00' AS order_ts",
        "cast(date_sub('2026-11-21', cast(id % 2 AS int)) AS string) AS partition_date",
    )


def _write_many_files(lab, path: str, options: dict[str, object]) -> None:
    """Write orders of two days in three writes of three tasks each."""
    for number in range(WRITES):
        rows = _orders_of_two_days(lab, number * ROWS, (number + 1) * ROWS, TASKS)
        rows.write.format("hudi").options(**options).mode("append").save(path)


def _many_files(lab) -> str:
    """Return the path of a table with 18 files, written on the first call."""
    path = lab.path("exercise/many_files")
    if not lab.files(path):
        _write_many_files(lab, path, BULK | {"hoodie.table.name": "many_files"})
    return path


def _versions(table) -> int:
    """Return the largest number of versions in a file group."""
    return max(Counter(file.group for file in table.files).values())
