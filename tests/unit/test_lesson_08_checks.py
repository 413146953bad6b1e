"""Lesson 08 judges rows, files opened and files read: each mistake has its own reason."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from lab_env.course.answers import Unreadable
from lab_env.course.checking import NotYet, Passed
from lab_env.lessons.l08.checks import (
    MOVED_TO,
    NEW,
    OLD,
    FastQuery,
    ListedTable,
    MovedByIndex,
    MovedOrders,
    MoveTheOrders,
    ProveThatAFilterSkips,
    UpsertsByIndex,
    WritesListed,
)


def reason_of(verdict) -> str:
    assert isinstance(verdict, NotYet)
    return verdict.reason


BY_INDEX = MovedByIndex(
    days={"O-1": [OLD], "O-2": [NEW], "O-3": [NEW], "O-4": [NEW], "O-5": [NEW]},
    statuses={"O-1": ["new"], "O-2": ["new"], "O-3": ["paid"], "O-4": ["new"], "O-5": ["paid"]},
    metadata=False,
)


def test_an_upsert_by_the_index_that_was_named_passes():
    assert isinstance(UpsertsByIndex.judge(BY_INDEX), Passed)


@pytest.mark.parametrize(
    ("difference", "reason"),
    [
        (
            {"days": BY_INDEX.days | {"O-3": [OLD, NEW]}},
            "O-3, which changed its day, is there twic",
        ),
        ({"days": {"O-1": [OLD]}}, "afterwards the table has ['O-1']"),
        ({"days": {"O-3": [NEW], "O-5": [NEW]}}, "Only ['O-3', 'O-5'] are left"),
        ({"statuses": BY_INDEX.statuses | {"O-3": ["new"]}}, "the table says ['new']"),
        ({"metadata": True}, "did not get the options"),
    ],
)
def test_an_upsert_by_another_index_or_without_options_gets_its_reason(difference, reason):
    assert reason in reason_of(UpsertsByIndex.judge(replace(BY_INDEX, **difference)))


LISTED = ListedTable(
    frozenset({"files", "record_index"}), {"O-1": ["new"], "O-2": ["new"], "O-4": ["new"]}
)


def test_a_write_that_keeps_and_asks_the_list_passes():
    assert isinstance(WritesListed.judge(LISTED), Passed)


@pytest.mark.parametrize(
    ("difference", "reason"),
    [
        ({"parts": frozenset({"files", "column_stats"})}, "has the parts column_stats, files"),
        ({"parts": frozenset()}, "the metadata table is gone: none lists the keys"),
        ({"statuses": LISTED.statuses | {"O-3": ["new"]}}, "Which index type looks"),
        ({"statuses": LISTED.statuses | {"O-3": ["erased"]}}, "the table says ['erased']"),
        ({"statuses": {"O-1": ["new"]}}, "the table has O-1."),
    ],
)
def test_a_write_without_the_list_or_the_operation_gets_its_reason(difference, reason):
    assert reason in reason_of(WritesListed.judge(replace(LISTED, **difference)))


STAYING = ("O-0916", "paid", "7.50", OLD)
BEFORE = (("O-0117", "paid", "9.00", OLD), ("O-0318", "new", "12.00", OLD))
FIRST, SECOND = ((*row[:3], MOVED_TO) for row in BEFORE)
RIGHT = MovedOrders((FIRST, SECOND, STAYING), (*BEFORE, STAYING), opened=2, files=6)


def test_one_row_each_in_the_new_partition_passes():
    verdict = MoveTheOrders.judge(RIGHT)
    assert isinstance(verdict, Passed) and "2 of 6 files opened" in verdict.note


@pytest.mark.parametrize(
    ("difference", "reason"),
    [
        ({"rows": (FIRST, BEFORE[1], SECOND, STAYING)}, "Two rows of O-0318: the index looked"),
        ({"rows": (FIRST, BEFORE[1], STAYING)}, "move O-0318 to 2026-11-22: One row, still in the"),
        ({"rows": (FIRST, STAYING)}, "the table shows []"),
        ({"rows": ((*FIRST[:3], NEW), SECOND, STAYING)}, "O-0117 should have one row in"),
        ({"rows": (("O-0117", "new", "9.00", MOVED_TO), SECOND, STAYING)}, "else as it was"),
        ({"rows": (FIRST, SECOND, (*STAYING[:3], MOVED_TO))}, "O-0916 changed, too"),
        ({"total": 5999}, "5999 rows instead of 6000"),
        ({"opened": 6}, "opened the files of every partition to find them, 6 of 6"),
    ],
)
def test_moved_orders_that_are_wrong_get_their_reason(difference, reason):
    assert reason in reason_of(MoveTheOrders.judge(replace(RIGHT, **difference)))


FAST = FastQuery(missing=0, extra=0, read=2, number=2, listed=8, slow=8)


def test_the_same_rows_from_fewer_files_pass():
    assert isinstance(ProveThatAFilterSkips.judge(FAST), Passed)


@pytest.mark.parametrize(
    ("difference", "reason"),
    [
        ({"missing": 4}, "4 rows that the board shows are missing"),
        ({"extra": 4}, "returns 4 rows that the board does not show"),
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


def test_a_query_without_the_columns_of_the_task_is_unreadable():
    query = SimpleNamespace(inputFiles=list, columns=["order_id", "status"])
    with pytest.raises(Unreadable, match="no column partition_date and no amount"):
        ProveThatAFilterSkips.observe(None, (query, 2))
