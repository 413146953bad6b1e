"""Checks of lesson 08: where a corrected order lies, which index serves a table, what a filter skips."""

from dataclasses import dataclass
from functools import cache

from lab_env import store
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.pipeline.options import DEMO_OPTIONS, KEYS
from lab_env.probes.scans import rows_and_files_read

OLD, NEW = "2026-11-20", "2026-11-21"
ORDER, NEIGHBOUR = "O-0018", "O-0016"
COPY = (
    KEYS
    | DEMO_OPTIONS
    | {
        "hoodie.table.name": "orders",
        "hoodie.index.bloom.num_entries": "2000",
        # Statistics would cost time at the write, and move no row.
        "hoodie.metadata.index.column.stats.enable": "false",
    }
)


@dataclass(frozen=True)
class CorrectedTable:
    """A table after the day of O-0018 was corrected.

    Args:
        index: the index type of the answer.
        rows: order, status and day (of the folder) of each row of O-0018 and O-0016.
    """

    index: str
    rows: tuple[tuple[str, str, str], ...]


@check_of("08.1")
class MoveTheOrder:
    """One row of the corrected order, in its new partition."""

    @staticmethod
    def observe(lab, answer) -> CorrectedTable:
        """Correct one order with these options, in a copy of the lesson's table with a record index."""
        options = COPY | dict(answer)
        index = options.get("hoodie.index.type", "SIMPLE")
        if index == "RECORD_INDEX":  # it lies in the metadata table, which DEMO_OPTIONS leaves out
            options["hoodie.metadata.enable"] = "true"
        path = lab.scratch("moved")
        source = store.key_of(lab.path("orders_indexed"))
        store.copy_prefix(lab.endpoints, f"{source}/", f"{store.key_of(path)}/")
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
                f"Two rows: {facts.index} looked for {ORDER} in the new partition only, did not find it, "
                "and inserted it. The old row stayed."
            )
        if mine == [(ORDER, "corrected", OLD)]:
            option = {
                "RECORD_INDEX": "`hoodie.record.index.update.partition.path` defaults to false",
                "GLOBAL_BLOOM": "your `hoodie.bloom.index.update.partition.path` is false",
                "GLOBAL_SIMPLE": "your `hoodie.simple.index.update.partition.path` is false",
            }.get(facts.index, "the index found it there, and nothing told it to move the row")
            return NotYet(f"One row, still in the old partition: {option}.")
        if mine != [(ORDER, "corrected", NEW)]:
            return NotYet(
                f"{ORDER} should have one corrected row in {NEW}; the table shows {mine}."
            )
        if [row[2] for row in facts.rows if row[0] == NEIGHBOUR] != [OLD]:
            return NotYet(
                f"{ORDER} is right, but {NEIGHBOUR}, which nobody corrected, is not where it was."
            )
        if facts.index != "RECORD_INDEX":
            return Passed(
                f"One row, in the new partition. {facts.index} does it as well; to find the old row it "
                "opened the files of every partition. Try it with the record index."
            )
        return Passed(
            "One row, in the new partition: the record index moved it, because you said so."
        )


@dataclass(frozen=True)
class Choice:
    """The chosen index for each table, and what each index was measured to do.

    Args:
        chosen: index by table.
        figures: for each index its counts: files opened, rows read in, rewritten and so on.
    """

    chosen: dict[str, str]
    figures: dict[str, dict[str, int]]


@check_of("08.2")
class ChooseAnIndex:
    """An index for three tables, by the lesson's own figures."""

    @staticmethod
    def observe(lab, answer) -> Choice:
        """Take the choice, and the figures from the lesson's view."""
        rows = [row.asDict() for row in lab.spark.table("figures").collect()]
        return Choice(dict(answer), {row.pop("index"): row for row in rows})

    @staticmethod
    def judge(facts: Choice) -> Passed | NotYet:
        """Strike out what breaks a sentence of the task; one index is left for each table."""
        for table, wanted in (
            ("clicks", "BUCKET"),
            ("ledger", "BLOOM"),
            ("customers", "RECORD_INDEX"),
        ):
            index = facts.chosen.get(table)
            if index not in facts.figures:
                names = ", ".join(facts.figures)
                return NotYet(f"{table}: {index!r} is none of the five: {names}.")
            if index != wanted:
                reason = _against(table, index, facts.figures[index])
                return NotYet(f"{table}: {reason}")
        return Passed("Each answer follows from a column of the table, none from a reputation.")


def _against(table: str, index: str, counts: dict[str, int]) -> str:
    """What speaks against an index for a table.

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
        return f"{index} looks only into the partition that the row names: who moved has two rows."
    if index == "RECORD_INDEX":
        return (
            f"RECORD_INDEX wrote {counts['metadata files written']} files to the metadata table with "
            "one small commit, which this table must not have."
        )
    if table == "clicks":
        return (
            f"{index} opened {opened} files and rewrote {rewritten}: the others it opened in vain."
        )
    if index == "BUCKET":
        return (
            f"BUCKET rewrote {rewritten} files for twenty neighbours that BLOOM finds in one: a hash "
            "scatters neighbours."
        )
    if index == "SIMPLE":
        return f"SIMPLE read rows in {counts['rows read in']} files. Another one stops at footers."
    return f"{index} opened {opened} files: it looks into partitions that this table's rows never name."


@cache  # the same for every answer, as long as nobody writes
def _slow_query(lab, newest: str) -> tuple[frozenset[str], int]:
    """The orders that the dashboard shows, and how many files its own query reads.

    Args:
        lab: of the lesson.
        newest: the table's newest instant.
    """
    table = lab.spark.read.format("hudi").load(lab.path("orders_indexed"))
    rows, read = rows_and_files_read(table.where("round(amount) >= 990"))
    return frozenset(row.order_id for row in rows), read


@dataclass(frozen=True)
class FastQuery:
    """What a query returned and read, beside the slow one.

    Args:
        missing: rows that only the slow query returns.
        extra: rows that only this query returns.
        read: files that it read.
        number: how many the answer says.
        listed: how many `inputFiles` lists.
        slow: files that the slow query read.
    """

    missing: int
    extra: int
    read: int
    number: object
    listed: int
    slow: int


@check_of("08.3")
class ProveThatAFilterSkips:
    """The dashboard's rows, from fewer files, and the right number of them."""

    @staticmethod
    def observe(lab, answer) -> FastQuery:
        """Run both queries, and compare their rows and the files that they read."""
        fast, number = answer
        rows, read = rows_and_files_read(fast)
        found = {row.order_id for row in rows}
        newest = lab.xray(lab.path("orders_indexed")).instants[-1].requested
        wanted, slow = _slow_query(lab, newest)
        return FastQuery(
            missing=len(wanted - found),
            extra=len(found - wanted),
            read=read,
            number=number,
            listed=len(fast.inputFiles()),
            slow=slow,
        )

    @staticmethod
    def judge(facts: FastQuery) -> Passed | NotYet:
        """The same rows, fewer files, and a number that was measured."""
        if facts.missing:
            return NotYet(
                f"{facts.missing} rows that the dashboard shows are missing. Which amounts below 990 "
                "are rounded up to it?"
            )
        if facts.extra:
            return NotYet(
                f"Your query returns {facts.extra} rows that the dashboard does not show."
            )
        if facts.read >= facts.slow:
            return NotYet(
                f"The rows are right, but your query reads every file, {facts.read} of {facts.slow}: "
                "the statistics know the range of the column, not that of an expression on it."
            )
        if facts.number != facts.read:
            if facts.number == facts.listed:
                return NotYet(
                    f"The query is right, and read {facts.read} files. inputFiles lists the table's "
                    f"files before anything is skipped, so it says {facts.listed}."
                )
            return NotYet(f"The query is right. It read {facts.read} files, not {facts.number}.")
        return Passed(f"The same rows from {facts.read} files instead of {facts.slow}.")
