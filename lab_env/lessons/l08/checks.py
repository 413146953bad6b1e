"""Checks of lesson 08: rows found by an index, a list of keys, a moved order, files skipped."""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from pyspark.sql import functions as F

from lab_env.course.answers import Unreadable, as_int
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.lessons.l08.figures import metadata_parts, watch_lookup
from lab_env.lessons.table_copies import scratch_copy
from lab_env.pipeline.options import DEMO_OPTIONS, KEYS
from lab_env.probes.scans import rows_and_files_read

OLD, NEW = "2026-11-20", "2026-11-21"
MOVED_TO = "2026-11-22"  # no day of the lesson
FAST_COLUMNS = ("order_id", "partition_date", "amount")
BULK = {
    "hoodie.table.name": "orders",
    "hoodie.index.bloom.num_entries": "1000",  # 12 KB of filter instead of 430
    "hoodie.datasource.write.operation": "bulk_insert",
}
RECORD_INDEX = {
    "hoodie.metadata.enable": "true",
    "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.global.record.level.index.min.filegroup.count": "1",
    # The statistics that the lesson's tables have: else each answer would have to make them first.
    "hoodie.metadata.index.column.stats.file.group.count": "1",
    "hoodie.metadata.index.column.stats.column.list": "order_id,amount,order_ts",
}


@dataclass(frozen=True)
class MovedByIndex:
    """A table of O-1 to O-4 after an upsert by GLOBAL_BLOOM that moves O-3 and brings O-5.

    Args:
        days: of each row, by order.
        statuses: of each row, by order.
        metadata: whether the table has a metadata table, which the options switch off.
    """

    days: dict[str, list[str]]
    statuses: dict[str, list[str]]
    metadata: bool


@check_of("08.1")
class UpsertsByIndex:
    """A function that upserts by the index that it is given."""

    @staticmethod
    def observe(lab, answer: Callable) -> MovedByIndex:
        """Let an order change its partition by GLOBAL_BLOOM, with the metadata table off."""
        path = scratch_copy(lab, _four_orders(lab), "upsert")
        rows = _orders(lab, "id IN (3, 5)", "paid", NEW, "11:00")
        answer(rows, path, "GLOBAL_BLOOM", DEMO_OPTIONS)
        days: dict[str, list[str]] = {}
        statuses: dict[str, list[str]] = {}
        for row in lab.spark.read.format("hudi").load(path).orderBy("status").collect():
            days.setdefault(row.order_id, []).append(row._hoodie_partition_path.rpartition("=")[2])
            statuses.setdefault(row.order_id, []).append(row.status)
        return MovedByIndex(days, statuses, not metadata_parts(lab.xray(path)).empty)

    @staticmethod
    def judge(facts: MovedByIndex) -> Passed | NotYet:
        """O-3 moved, O-5 came, nothing else changed, and no metadata table was made."""
        if "O-3" not in facts.days or "O-5" not in facts.days:
            return NotYet(
                f"The check writes O-3 and O-5; afterwards the table has {sorted(facts.days)}."
            )
        if len(facts.days["O-3"]) > 1:
            return NotYet(
                "Asked to find rows by GLOBAL_BLOOM, your function found them by another index: "
                f"O-3, which changed its day, is there twice: {facts.days['O-3']}. "
                "GLOBAL_BLOOM looks into every partition."
            )
        if "O-1" not in facts.days:
            return NotYet(
                f"Only {sorted(facts.days)} are left: your write replaced the table. Which mode "
                "adds to it?"
            )
        if facts.statuses["O-3"] != ["paid"] or facts.statuses["O-1"] != ["new"]:
            return NotYet(
                f"O-3 was paid, O-1 was not touched; the table says {facts.statuses['O-3']} and "
                f"{facts.statuses['O-1']}."
            )
        if facts.metadata:
            return NotYet(
                "Your write did not get the options: the check switched the metadata table off in "
                "`options`, and the write made one."
            )
        return Passed("O-3 moved to its new day: your write found it by the index that was named.")


@dataclass(frozen=True)
class ListedTable:
    """A table with a list of its keys after a delete of O-3 by the learner's write.

    The row that is to be deleted names another day, so that only a global index finds it.

    Args:
        parts: of its metadata table.
        statuses: by order; O-3 was `new`, and the row to delete says `erased`.
    """

    parts: frozenset[str]
    statuses: dict[str, list[str]]


@check_of("08.2")
class WritesListed:
    """A function that writes with an operation, and keeps and uses a record index."""

    @staticmethod
    def observe(lab, answer: Callable) -> ListedTable:
        """Delete from a copy of a small table with a record index."""
        path = scratch_copy(lab, _four_orders(lab, listed=True), "listed")
        answer(_orders(lab, "id = 3", "erased", NEW, "11:00"), path, "delete")
        return ListedTable(
            frozenset(metadata_parts(lab.xray(path)).index),
            _statuses(lab, path),
        )

    @staticmethod
    def judge(facts: ListedTable) -> Passed | NotYet:
        """The list is kept, the row was found by it, and the operation is the given one."""
        if "record_index" not in facts.parts:
            parts = f"has the parts {', '.join(sorted(facts.parts))}" if facts.parts else "is gone"
            return NotYet(
                f"After your write the metadata table {parts}: none lists the keys. Which option "
                "makes the table keep the list?"
            )
        o3 = facts.statuses.get("O-3", [])
        if "erased" in o3:
            return NotYet(
                f"Asked for a delete of O-3, your write added its row: the table says {o3}. The "
                "operation is an argument."
            )
        if o3:
            return NotYet(
                "The list is kept, but your write did not ask it: O-3, whose row to delete names "
                "another day, was not found and is still there. Which index type looks into the "
                "list?"
            )
        if sorted(facts.statuses) != ["O-1", "O-2", "O-4"]:
            return NotYet(
                f"O-3 alone was to go; the table has {', '.join(sorted(facts.statuses))}."
            )
        return Passed("Your write keeps the list of keys, and finds its rows by it.")


Row = tuple[str, str, str, str]  # order, status, amount, and day of the folder


@dataclass(frozen=True)
class MovedOrders:
    """A copy of the lesson's table after two of its orders were to move to another day.

    Args:
        rows: of these two and a third order.
        before: the same before the move, one row each; the last one is to stay.
        opened: files that were opened.
        files: files that the table had.
        total: rows of the table.
        expected: rows that it had before.
    """

    rows: tuple[Row, ...]
    before: tuple[Row, ...]
    opened: int
    files: int
    total: int = 6000
    expected: int = 6000


@check_of("08.3")
class MoveTheOrders:
    """One row of each order, in its new partition, found by the record index."""

    @staticmethod
    def observe(lab, answer: Callable) -> MovedOrders:
        """Move orders in a copy of the lesson's table, and watch which files are opened."""
        path = scratch_copy(lab, lab.path("orders_indexed"), "moved")
        newest = lab.xray(path).instants[-1].requested
        before, expected = _rows_before(lab, newest)
        orders = [row[0] for row in before]
        with watch_lookup(lab, path) as found:
            answer(path, orders[:-1], MOVED_TO)
        rows, total = _rows_of(lab, path, orders)
        opened, files = found.figures["files opened"], len(found.files)
        return MovedOrders(rows, before, opened, files, total, expected)

    @staticmethod
    def judge(facts: MovedOrders) -> Passed | NotYet:
        """Each has one row, on its new day, and nothing else changed."""
        *moving, staying = facts.before
        for was in moving:
            order = was[0]
            mine = [row for row in facts.rows if row[0] == order]
            if len(mine) > 1:
                return NotYet(
                    f"Two rows of {order}: the index looked for it in the new partition only, did "
                    "not find it, and inserted it. The old row stayed."
                )
            if [row[3] for row in mine] == [was[3]]:
                return NotYet(
                    f"Asked to move {order} to {MOVED_TO}: One row, still in the old partition. A "
                    "global index finds the row there; whether it moves is an option of that "
                    "index, and `hoodie.record.index.update.partition.path` defaults to false."
                )
            if mine != [(*was[:3], MOVED_TO)]:
                return NotYet(
                    f"{order} should have one row in {MOVED_TO}, else as it was ({was}); the table "
                    f"shows {mine}."
                )
        if [row for row in facts.rows if row[0] == staying[0]] != [staying]:
            return NotYet(f"Both orders are right, but {staying[0]} changed, too.")
        if facts.total != facts.expected:
            return NotYet(
                f"Both orders are right, but the table has {facts.total} rows instead of "
                f"{facts.expected}."
            )
        if facts.opened == facts.files:
            return NotYet(
                "One row each, in the new partition. But your function opened the files of every "
                f"partition to find them, {facts.opened} of {facts.files}. This table has a list "
                "of its keys, which knows where the rows are: use it."
            )
        return Passed(
            f"One row each, in the new partition; {facts.opened} of {facts.files} files opened: "
            "the record index found them, and your option moved them."
        )


def _orders(lab, which: str, status: str, day: str, at: str):
    """Orders O-1 to O-5, those for which the condition on `id` holds."""
    return lab.spark.sql(f"""
        SELECT 'O-' || id AS order_id, CAST(5 AS DECIMAL(12, 2)) AS amount, '{status}' AS status,
               to_timestamp('{OLD} {at}') AS order_ts, '{day}' AS partition_date
        FROM range(1, 6) WHERE {which}
    """)


def _four_orders(lab, listed: bool = False) -> str:
    """The path of a table with O-1 to O-4, two a day, written at the first call.

    Args:
        lab: of the lesson.
        listed: whether it has a record index.
    """
    path = lab.path(f"exercise/four{'_listed' * listed}")
    if not lab.files(path):
        day = F.expr(f"IF(order_id IN ('O-1', 'O-3'), '{OLD}', '{NEW}')")
        rows = _orders(lab, "id < 5", "new", OLD, "10:00").withColumn("partition_date", day)
        options = KEYS | DEMO_OPTIONS | BULK | (RECORD_INDEX if listed else {})
        rows.coalesce(1).write.format("hudi").options(**options).mode("append").save(path)
    return path


def _statuses(lab, path: str) -> dict[str, list[str]]:
    """The statuses of each order in a table."""
    found: dict[str, list[str]] = {}
    table = lab.spark.read.format("hudi").load(path).select("order_id", "status")
    for row in table.orderBy("order_id", "status").collect():
        found.setdefault(row.order_id, []).append(row.status)
    return found


def _rows_of(lab, path: str, orders: Sequence[str]) -> tuple[tuple[Row, ...], int]:
    """The rows of some orders, and the number of all rows."""
    row = """struct(order_id, status, CAST(amount AS STRING),
                    substring_index(_hoodie_partition_path, '=', -1))"""
    table = lab.spark.read.format("hudi").load(path)
    rows, total = table.selectExpr(
        f"collect_list({row}) FILTER (WHERE order_id IN {tuple(orders)})", "count(order_id)"
    ).first()
    return tuple(sorted(tuple(row) for row in rows)), total


@cache  # the same for every answer until somebody writes
def _rows_before(lab, newest: str) -> tuple[tuple[Row, ...], int]:
    """The same of the lesson's table, for three orders of its first day that are drawn by chance.

    Args:
        lab: of the lesson.
        newest: requested time of the table's newest instant, so that a write ends the caching.
    """
    drawn = secrets.SystemRandom().sample(range(20, 3000), 3)  # not those that the lesson moves
    return _rows_of(lab, lab.path("orders_indexed"), [f"O-{number:04}" for number in drawn])


@cache  # the same for every answer until somebody writes
def _slow_query(lab, newest: str) -> tuple[frozenset[tuple], int]:
    """The rows that the board shows, and the number of files that its own query reads.

    Args:
        lab: of the lesson.
        newest: requested time of the table's newest instant, so that a write ends the caching.
    """
    table = lab.spark.read.format("hudi").load(lab.path("orders_indexed"))
    rows, read = rows_and_files_read(table.where("round(amount) >= 990"))
    return frozenset(_fields(row) for row in rows), read


def _fields(row) -> tuple:
    """What is compared of a row of the board."""
    return tuple(row[name] for name in FAST_COLUMNS)


@dataclass(frozen=True)
class FastQuery:
    """What a query returned and read, compared with the slow one.

    Args:
        missing: number of rows that only the slow query returns.
        extra: number of rows that only this query returns, or returns again.
        read: number of files that it read.
        number: the same, as the answer says it.
        listed: number of files that `inputFiles` lists.
        slow: number of files that the slow query read.
    """

    missing: int
    extra: int
    read: int
    number: int
    listed: int
    slow: int


@check_of("08.4")
class ProveThatAFilterSkips:
    """The board's rows, from fewer files, and the right number of them."""

    @staticmethod
    def observe(lab, answer) -> FastQuery:
        """Run both queries, and compare their rows and the files that they read."""
        fast, number = answer
        if not hasattr(fast, "inputFiles"):
            raise Unreadable(
                f"`fast` must be a Spark DataFrame that has not been collected, not a "
                f"{type(fast).__name__}: the check runs it and counts the files."
            )
        lacking = [name for name in FAST_COLUMNS if name not in fast.columns]
        if lacking:
            raise Unreadable(
                f"`fast` has no column {' and no '.join(lacking)}: return the columns of `ask`."
            )
        rows, read = rows_and_files_read(fast)
        found = {_fields(row) for row in rows}
        newest = lab.xray(lab.path("orders_indexed")).instants[-1].requested
        shown, slow = _slow_query(lab, newest)
        return FastQuery(
            missing=len(shown - found),
            extra=len(rows) - len(found & shown),
            read=read,
            number=as_int(number),
            listed=len(fast.inputFiles()),
            slow=slow,
        )

    @staticmethod
    def judge(facts: FastQuery) -> Passed | NotYet:
        """The same rows, fewer files, and a number that was measured."""
        if facts.missing:
            return NotYet(
                f"{facts.missing} rows that the board shows are missing. Which amounts below "
                "990 are rounded up to it?"
            )
        if facts.extra:
            return NotYet(f"Your query returns {facts.extra} rows that the board does not show.")
        if facts.read >= facts.slow:
            return NotYet(
                f"The rows are right, but your query reads every file, {facts.read} of "
                f"{facts.slow}. The statistics hold the range of the column, not the range of an "
                "expression on it."
            )
        if facts.number != facts.read:
            if facts.number == facts.listed:
                return NotYet(
                    f"The query is right, and read {facts.read} files. inputFiles lists the "
                    f"table's files before anything is skipped, so it says {facts.listed}."
                )
            return NotYet(f"The query is right. It read {facts.read} files, not {facts.number}.")
        return Passed(f"The same rows from {facts.read} files instead of {facts.slow}.")
