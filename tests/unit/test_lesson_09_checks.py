"""Lesson 09 judges by what readers really returned: each mistake has its own reason."""

from dataclasses import replace
from decimal import Decimal

import pandas as pd
import pytest

from lab_env.course.checking import NotYet, Passed
from lab_env.lessons.boards import as_board, board_of
from lab_env.lessons.l09.checks import (
    COLUMNS,
    TYPES,
    BoardOfATrueState,
    Boards,
    FindsStaleOrders,
    Found,
    Newest,
    NewestRowsByName,
    Opened,
    OpensByQueryType,
    States,
)

TEN, FOUR = Decimal("10.00"), Decimal("4.00")
BEFORE = {f"O-{n}": ("new", TEN) for n in (1, 2, 3, 4)}
NEW = {"O-1002": ("new", Decimal("25.00"))}
STATES = States(
    before=BEFORE,
    snapshot={"O-1": ("new", FOUR), "O-2": ("paid", TEN), "O-4": ("new", TEN)} | NEW,
    read_optimized=BEFORE | NEW,
    all_files=9,
)


def rows(orders) -> list[tuple]:
    return [(key, status, amount) for key, (status, amount) in orders.items()]


def reason_of(verdict) -> str:
    assert isinstance(verdict, NotYet)
    return verdict.reason


def test_the_states_know_their_orders():
    assert (STATES.changed, STATES.repaid, STATES.erased) == ("O-1", "O-2", "O-3")
    assert STATES.stale == {"O-1", "O-2", "O-3"}


OPENED = Opened({kind: rows(getattr(STATES, kind)) for kind in TYPES}, STATES)


def test_both_query_types_pass_with_their_own_rows():
    verdict = OpensByQueryType.judge(OPENED)
    assert isinstance(verdict, Passed) and "4.00 by snapshot, and 10.00 by" in verdict.note


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"rows": dict.fromkeys(TYPES, rows(STATES.snapshot))}, "the answer of a snapshot query"),
        ({"rows": dict.fromkeys(TYPES, rows(STATES.read_optimized))}, "of a read_optimized query"),
        ({"rows": dict.fromkeys(TYPES, rows(BEFORE) * 2 + rows(NEW))}, "returns 9 rows; the table"),
        ({"rows": dict.fromkeys(TYPES, rows(NEW))}, "returns 1 rows; the query has 4"),
        ({"session_type": "read_optimized"}, "leaves the session with"),
    ],
)
def test_another_way_to_open_gets_its_reason(change, reason):
    assert reason in reason_of(OpensByQueryType.judge(replace(OPENED, **change)))


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (rows(BEFORE), "O-1 costs 10.00 by your function. That was right before the last commit"),
        (rows(STATES.read_optimized), "a read-optimised query"),
        (rows(BEFORE) * 2 + rows(NEW), "9 rows; the table has 4"),
        (rows(NEW), "Your function returns 1 rows"),
    ],
)
def test_rows_that_are_not_the_newest_get_their_reason(found, reason):
    assert reason in reason_of(NewestRowsByName.judge(Newest(found, STATES)))


def test_the_newest_rows_pass_in_any_order():
    found = list(reversed(rows(STATES.snapshot)))
    assert isinstance(NewestRowsByName.judge(Newest(found, STATES)), Passed)


def test_all_stale_orders_and_no_other_pass():
    assert isinstance(FindsStaleOrders.judge(Found(frozenset(STATES.stale), STATES)), Passed)


@pytest.mark.parametrize(
    ("orders", "reason"),
    [
        ({"O-1", "O-2"}, "You return O-1, O-2. O-3 is not among them: it was erased"),
        ({"O-1", "O-3"}, "its status is paid in one and new in the other"),
        ({"O-1"}, "its amount is the same in both"),
        ({"O-1", "O-2", "O-3", "O-1002"}, "both queries show it alike"),
        ({"O-1", "O-2", "O-3", "O-4"}, "Of these O-4 is the same"),
        (set(), "You return no order. O-1, O-2, O-3 is shown differently"),
    ],
)
def test_another_list_gets_its_reason(orders, reason):
    assert reason in reason_of(FindsStaleOrders.judge(Found(frozenset(orders), STATES)))


def test_a_new_order_that_only_a_log_has_counts():
    facts = Found(frozenset(STATES.stale), STATES, logged=frozenset())
    assert "you return no order, and O-2 alone is right" in reason_of(FindsStaleOrders.judge(facts))


TRUE, OLD, CHEAP = (board_of(s) for s in (STATES.snapshot, BEFORE, STATES.read_optimized))
ALL_FILES = {"new": Decimal("105.00")}


def test_the_newest_board_for_both_names_passes():
    verdict = BoardOfATrueState.judge(Boards(TRUE, TRUE, STATES))
    assert isinstance(verdict, Passed) and verdict.note.startswith("new 39.00, paid 10.00, for")


@pytest.mark.parametrize(
    ("plain", "suffixed", "reason"),
    [
        (OLD, OLD, "For the table your board says new 40.00; the table says new 39.00, paid"),
        (OLD, TRUE, "right before the last commit"),
        (TRUE, OLD, "For its _ro name your board says new 40.00"),
        (TRUE, CHEAP, "mixes two commits"),
        (ALL_FILES, ALL_FILES, "an older base file counts"),
        (TRUE, {"new": TEN}, "One row per status"),
        ({}, {}, "your board says none"),
    ],
)
def test_another_board_gets_its_reason(plain, suffixed, reason):
    assert reason in reason_of(BoardOfATrueState.judge(Boards(plain, suffixed, STATES)))


def test_a_right_board_that_changes_the_session_does_not_pass():
    facts = Boards(TRUE, TRUE, STATES, session_type="")
    assert "before, and is unset now" in reason_of(BoardOfATrueState.judge(facts))


def test_the_ways_to_be_wrong_give_different_boards():
    boards = [TRUE, OLD, CHEAP, ALL_FILES]
    assert all(a != b for n, a in enumerate(boards) for b in boards[n + 1 :])
    assert COLUMNS == ("order_id", "status", "amount")


@pytest.mark.parametrize(
    "answer",
    [
        TRUE,
        {"new": "39.00", "paid": 10},
        pd.DataFrame({"revenue": [10.0, 39.0], "status": ["paid", "new"]}),
        pd.Series([10.0, 39.0], index=pd.Index(["paid", "new"], name="status"), name="revenue"),
        [{"status": "new", "revenue": 39}, {"status": "paid", "revenue": 10}],
    ],
)
def test_a_board_may_come_in_any_form(answer):
    assert as_board(answer) == TRUE
