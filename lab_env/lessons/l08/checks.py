"""Checks of lesson 08: where a corrected order lies, which index fits, what a filter skips."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from lab_env.course.answers import Unreadable, as_choice, as_int
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.lessons.table_copies import scratch_copy
from lab_env.pipeline.options import DEMO_OPTIONS, KEYS
from lab_env.probes.scans import rows_and_files_read

OLD, NEW = "2026-11-20", "2026-11-21"
ORDER, NEIGHBOUR = "O-0018", "O-0016"
RECORD_INDEXES = ("RECORD_INDEX", "GLOBAL_RECORD_LEVEL_INDEX")  # old and new name of one index
COPY = (
    KEYS
    | DEMO_OPTIONS
    | {
        "hoodie.table.name": "orders",
        "hoodie.index.bloom.num_entries": "2000",
        # Statistics cost time at the write and move no row.
        "hoodie.metadata.index.column.stats.enable": "false",
    }
)


@dataclass(frozen=True)
class CorrectedTable:
    """A table after the day of O-0018 was corrected.

    Args:
        index: the index type that the answer names.
        rows: order, status and day (of the folder) of each row of O-0018 and O-0016.
    """

    index: str
    rows: tuple[tuple[str, str, str], ...]


@check_of("08.1")
class MoveTheOrder:
    """One row of the corrected order, in its new partition."""

    @staticmethod
    def observe(lab, answer) -> CorrectedTable:
        """Correct one order with these options, in a copy of the table with a record index."""
        options = COPY | dict(answer)
        index = str(options.get("hoodie.index.type", "SIMPLE")).upper()
        if index in RECORD_INDEXES:  # it lies in the metadata table, which DEMO_OPTIONS leaves out
            options["hoodie.metadata.enable"] = "true"
        path = scratch_copy(lab, lab.path("orders_indexed"), "moved")
        correction = lab.spark.sql(f"""
            SELECT order_id, amount, 'corrected' AS status, order_ts + INTERVAL 2 HOURS AS order_ts,
                   '{NEW}' AS partition_date
            FROM shop WHERE order_id = '{ORDER}'
        """)
        correction.write.format("hudi").options(**options).mode("append").save(path)
        shown = lab.spark.read.format("hudi").load(path)
        found = (
            shown.where(shown.order_id.isin(ORDER, NEIGHBOUR))
            .selectExpr("order_id", "status", "substring_index(_hoodie_partition_path, '=', -1)")
            .collect()
        )
        return CorrectedTable(index, tuple(sorted(tuple(row) for row in found)))

    @staticmethod
    def judge(facts: CorrectedTable) -> Passed | NotYet:
        """O-0018 has one row, the corrected one, on 21 November; O-0016 is where it was."""
        mine = [row for row in facts.rows if row[0] == ORDER]
        if len(mine) > 1:
            return NotYet(
                f"Two rows: {facts.index} looked for {ORDER} in the new partition only, did not "
                "find it, and inserted it. The old row stayed."
            )
        if mine == [(ORDER, "corrected", OLD)]:
            record_index = "`hoodie.record.index.update.partition.path` defaults to false"
            why = {
                **dict.fromkeys(RECORD_INDEXES, record_index),
                "GLOBAL_BLOOM": "your `hoodie.bloom.index.update.partition.path` is false",
                "GLOBAL_SIMPLE": "your `hoodie.simple.index.update.partition.path` is false",
            }.get(facts.index, "the index found it there, and no option told it to move the row")
            return NotYet(f"One row, still in the old partition: {why}.")
        if mine != [(ORDER, "corrected", NEW)]:
            return NotYet(
                f"{ORDER} should have one corrected row in {NEW}; the table shows {mine}."
            )
        if [row[2] for row in facts.rows if row[0] == NEIGHBOUR] != [OLD]:
            return NotYet(f"{ORDER} is right, but {NEIGHBOUR}, which nobody corrected, moved.")
        if facts.index not in RECORD_INDEXES:
            return NotYet(
                f"One row, in the new partition. But to find the old row, {facts.index} opened the "
                "files of every partition. This table has a record index, which knows where the "
                "row is: use it."
            )
        return Passed(
            "One row, in the new partition: the record index found it, and your option moved it."
        )


@dataclass(frozen=True)
class Choice:
    """The chosen index for each table, and what each index was measured to do.

    Args:
        chosen: index by table.
        figures: by index, its counts: files opened, rows read in, rewritten and so on.
    """

    chosen: Mapping[str, object]
    figures: dict[str, dict[str, int]]


BEST = {"clicks": "BUCKET", "ledger": "BLOOM", "customers": "RECORD_INDEX"}


@check_of("08.2")
class ChooseAnIndex:
    """An index for three tables, by the lesson's own figures."""

    @staticmethod
    def observe(lab, answer) -> Choice:
        """Read the choice, and the figures from the lesson's view."""
        rows = [row.asDict() for row in lab.spark.table("figures").collect()]
        return Choice(dict(answer), {row.pop("index"): row for row in rows})

    @staticmethod
    def judge(facts: Choice) -> Passed | NotYet:
        """For each table, the one index that breaks no sentence of the task."""
        for table, best in BEST.items():
            index = as_choice(facts.chosen.get(table), [*facts.figures, *RECORD_INDEXES])
            index = "RECORD_INDEX" if index in RECORD_INDEXES else index
            if index != best:
                return NotYet(f"{table}: {_objection(table, index, facts.figures[index])}")
        return Passed("Each choice follows from a column of the table, none from a reputation.")


def _objection(table: str, index: str, counts: dict[str, int]) -> str:
    """Why an index does not fit a table.

    Args:
        table: clicks, ledger or customers.
        index: the one that was chosen.
        counts: its figures.
    """
    opened, rewritten = counts["files opened"], counts["rewritten"]
    if table == "customers":
        if index == "GLOBAL_BLOOM":
            return (
                f"GLOBAL_BLOOM keeps one row, but it opened {opened} files to find it, in every "
                "partition. On this table it would open every file, ten thousand."
            )
        return (
            f"{index} looks only into the partition that the row names: a customer who moved has "
            "two rows."
        )
    if index == "RECORD_INDEX":
        return (
            f"RECORD_INDEX wrote {counts['metadata files written']} files to the metadata table "
            "with one small commit, which this table must not have."
        )
    if table == "clicks":
        return f"{index} opened {opened} files and rewrote {rewritten}: it opened the rest in vain."
    if index == "BUCKET":
        return (
            f"BUCKET rewrote {rewritten} files for twenty neighbours that BLOOM finds in one: a "
            "hash scatters neighbours."
        )
    if index == "SIMPLE":
        return (
            f"SIMPLE read rows in {counts['rows read in']} files. Another index reads only the "
            "footers of most of them."
        )
    return f"{index} opened {opened} files: it also searches partitions that the rows never name."


@cache  # the same for every answer until somebody writes
def _slow_query(lab, newest: str) -> tuple[frozenset[str], int]:
    """The orders that the dashboard shows, and the number of files that its own query reads.

    Args:
        lab: of the lesson.
        newest: requested time of the table's newest instant, so that a write ends the caching.
    """
    table = lab.spark.read.format("hudi").load(lab.path("orders_indexed"))
    rows, read = rows_and_files_read(table.where("round(amount) >= 990"))
    return frozenset(row.order_id for row in rows), read


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


@check_of("08.3")
class ProveThatAFilterSkips:
    """The dashboard's rows, from fewer files, and the right number of them."""

    @staticmethod
    def observe(lab, answer) -> FastQuery:
        """Run both queries, and compare their rows and the files that they read."""
        fast, number = answer
        if not hasattr(fast, "inputFiles"):
            raise Unreadable(
                f"`fast` must be a Spark DataFrame that has not been collected, not a "
                f"{type(fast).__name__}: the check runs it and counts the files."
            )
        rows, read = rows_and_files_read(fast)
        found = {row["order_id"] for row in rows}
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
                f"{facts.missing} rows that the dashboard shows are missing. Which amounts below "
                "990 are rounded up to it?"
            )
        if facts.extra:
            return NotYet(
                f"Your query returns {facts.extra} rows that the dashboard does not show."
            )
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
