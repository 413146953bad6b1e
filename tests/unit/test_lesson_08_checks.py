"""Lesson 08 judges rows, measured figures and files read: each mistake has its own reason."""

from dataclasses import replace

import pytest

from lab_env.course.answers import Unreadable
from lab_env.course.checking import NotYet, Passed
from lab_env.lessons.l08.checks import (
    NEW,
    OLD,
    Choice,
    ChooseAnIndex,
    CorrectedTable,
    FastQuery,
    MoveTheOrder,
    ProveThatAFilterSkips,
)

NEIGHBOUR = ("O-0016", "paid", OLD)
MOVED = ("O-0018", "corrected", NEW)


def reason_of(verdict) -> str:
    assert isinstance(verdict, NotYet)
    return verdict.reason


@pytest.mark.parametrize("index", ["RECORD_INDEX", "GLOBAL_RECORD_LEVEL_INDEX"])
def test_one_row_in_the_new_partition_passes(index):
    verdict = MoveTheOrder.judge(CorrectedTable(index, (NEIGHBOUR, MOVED)))
    assert isinstance(verdict, Passed) and "your option moved it" in verdict.note


@pytest.mark.parametrize(
    ("index", "rows", "reason"),
    [
        ("SIMPLE", (NEIGHBOUR, ("O-0018", "paid", OLD), MOVED), "Two rows: SIMPLE looked"),
        (
            "RECORD_INDEX",
            (NEIGHBOUR, ("O-0018", "corrected", OLD)),
            "One row, still in the old partition: `hoodie.record.index.update.partition.path`",
        ),
        (
            "GLOBAL_BLOOM",
            (NEIGHBOUR, ("O-0018", "corrected", OLD)),
            "`hoodie.bloom.index.update.partition.path` is false",
        ),
        ("SIMPLE", (NEIGHBOUR, ("O-0018", "corrected", OLD)), "no option told it to move"),
        ("GLOBAL_BLOOM", (NEIGHBOUR, MOVED), "GLOBAL_BLOOM opened the files of every partition"),
        ("RECORD_INDEX", (NEIGHBOUR,), "the table shows []"),
        ("RECORD_INDEX", (("O-0016", "paid", NEW), MOVED), "O-0016, which nobody corrected"),
    ],
)
def test_a_corrected_table_that_is_wrong_gets_its_reason(index, rows, reason):
    assert reason in reason_of(MoveTheOrder.judge(CorrectedTable(index, rows)))


def counts(opened, rows, rewritten, written=0) -> dict[str, int]:
    return {
        "files opened": opened,
        "rows read in": rows,
        "rewritten": rewritten,
        "metadata files written": written,
    }


FIGURES = {
    "SIMPLE": counts(4, 4, 1),
    "BLOOM": counts(4, 1, 1),
    "BUCKET": counts(4, 4, 4),
    "RECORD_INDEX": counts(1, 1, 1, written=7),
    "GLOBAL_BLOOM": counts(8, 2, 2),
}
RIGHT = {"clicks": "BUCKET", "ledger": "BLOOM", "customers": "RECORD_INDEX"}


@pytest.mark.parametrize("customers", ["RECORD_INDEX", "global_record_level_index"])
def test_the_one_index_that_fits_each_table_passes(customers):
    choice = Choice(RIGHT | {"customers": customers}, FIGURES)
    assert isinstance(ChooseAnIndex.judge(choice), Passed)


@pytest.mark.parametrize("index", ["MAGIC", None, ["BUCKET", "BLOOM"]])
def test_what_is_no_index_is_unreadable(index):
    with pytest.raises(Unreadable, match="One of "):
        ChooseAnIndex.judge(Choice(RIGHT | {"clicks": index}, FIGURES))


@pytest.mark.parametrize(
    ("table", "index", "reason"),
    [
        ("clicks", "BLOOM", "BLOOM opened 4 files and rewrote 1"),
        ("clicks", "RECORD_INDEX", "wrote 7 files to the metadata table"),
        ("clicks", "GLOBAL_RECORD_LEVEL_INDEX", "wrote 7 files to the metadata table"),
        ("clicks", "GLOBAL_BLOOM", "opened 8 files and rewrote 2"),
        ("ledger", "BUCKET", "BUCKET rewrote 4 files for twenty neighbours"),
        ("ledger", "SIMPLE", "SIMPLE read rows in 4 files"),
        ("ledger", "GLOBAL_BLOOM", "partitions that the rows never name"),
        ("ledger", "RECORD_INDEX", "wrote 7 files to the metadata table"),
        ("customers", "GLOBAL_BLOOM", "it opened 8 files"),
        ("customers", "BUCKET", "a customer who moved has two rows"),
    ],
)
def test_a_choice_that_breaks_a_sentence_gets_the_figure_that_speaks_against_it(
    table, index, reason
):
    message = reason_of(ChooseAnIndex.judge(Choice(RIGHT | {table: index}, FIGURES)))
    assert message.startswith(f"{table}: ") and reason in message


FAST = FastQuery(missing=0, extra=0, read=2, number=2, listed=8, slow=8)


def test_the_same_rows_from_fewer_files_pass():
    assert isinstance(ProveThatAFilterSkips.judge(FAST), Passed)


@pytest.mark.parametrize(
    ("difference", "reason"),
    [
        ({"missing": 4}, "4 rows that the dashboard shows are missing"),
        ({"extra": 4}, "returns 4 rows that the dashboard does not show"),
        ({"read": 8, "number": 8}, "reads every file, 8 of 8"),
        ({"number": 8}, "inputFiles lists the table's files"),
        ({"number": 3}, "It read 2 files, not 3"),
    ],
)
def test_a_query_that_proves_nothing_gets_its_reason(difference, reason):
    assert reason in reason_of(ProveThatAFilterSkips.judge(replace(FAST, **difference)))


@pytest.mark.parametrize("query", [None, [("O-0042", 991)]])
def test_rows_instead_of_a_query_are_unreadable(query):
    with pytest.raises(Unreadable, match="must be a Spark DataFrame"):
        ProveThatAFilterSkips.observe(None, (query, 2))
