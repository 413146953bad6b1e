"""Lesson 00 judges what the learner's functions did to rows, and quotes the numbers they gave."""

from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from types import SimpleNamespace

import pandas as pd
import pytest

from lab_env.course.answers import Unreadable
from lab_env.course.checking import NotYet, Passed
from lab_env.lessons.l00.checks import (
    BoardOfAnswer,
    PaidOrder,
    PastRows,
    PaysAnOrder,
    ReadsThePast,
    SumsByStatus,
    _statuses,
)

NINE, LATER = datetime(2026, 11, 20, 9, 15), datetime(2026, 11, 20, 9, 20)
AMOUNT = Decimal("15.00")
NEW = ("new", AMOUNT, NINE)
BEFORE = {"O-1": NEW, "O-2": NEW, "O-3": NEW}
PAID = PaidOrder(BEFORE, {"O-1": [NEW], "O-2": [NEW], "O-3": [("paid", AMOUNT, LATER)]})


def reason_of(verdict) -> str:
    assert isinstance(verdict, NotYet)
    return verdict.reason


def test_one_order_paid_and_the_others_as_they_were_passes():
    assert isinstance(PaysAnOrder.judge(PAID), Passed)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"O-1": None, "O-2": None}, "O-1 and O-2 are gone: your write replaced the table"),
        ({"O-3": None}, "O-3 is gone"),
        ({"O-3": [NEW, ("paid", AMOUNT, LATER)]}, "O-3 has 2 rows"),
        ({"O-1": [("paid", AMOUNT, LATER)]}, "other orders, too: O-1"),
        ({"O-3": [NEW]}, "O-3 is still 'new'"),
        ({"O-3": [("paid", None, LATER)]}, "had the amount 15.00, and now it has None"),
        ({"O-3": [("paid", AMOUNT, NINE)]}, "its `order_ts` is still 09:15"),
    ],
)
def test_a_payment_that_went_wrong_gets_its_reason(changed, reason):
    after = {order: rows for order, rows in (PAID.after | changed).items() if rows}
    assert reason in reason_of(PaysAnOrder.judge(replace(PAID, after=after)))


def test_the_past_is_new_and_then_paid():
    assert isinstance(ReadsThePast.judge(PastRows(["new"], ["paid"])), Passed)


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (PastRows([], ["paid"]), "your rows have no O-1"),
        (PastRows(["paid"], ["paid"]), "That is the newest state"),
        (PastRows(["new"], ["new"]), "as of the second ['new']"),
        (PastRows(["new", "new"], ["paid"]), "O-1 is ['new', 'new']"),
    ],
)
def test_another_past_gets_its_reason(rows, reason):
    assert reason in reason_of(ReadsThePast.judge(rows))


def test_the_past_is_read_from_a_table_of_any_kind_and_from_nothing_else():
    frame = pd.DataFrame({"order_id": ["O-1", "O-2"], "status": ["new", "paid"], "amount": [1, 2]})
    assert _statuses(frame) == _statuses(frame.to_dict("records")) == ["new"]
    with pytest.raises(Unreadable, match="returned nothing"):
        _statuses(None)


def test_a_table_with_one_write_has_no_past_to_ask_for():
    lab = SimpleNamespace(
        path=str, xray=lambda path: SimpleNamespace(completed_writes={"20261120091500705": None})
    )
    with pytest.raises(Unreadable, match="one write only"):
        ReadsThePast.observe(lab, lambda instant, path: [])


BOARD = BoardOfAnswer(
    answer={"new": [Decimal("30.10")], "paid": [Decimal("7.00")]},
    revenue={"new": Decimal("30.10"), "paid": Decimal("7.00")},
    orders={"new": 2, "paid": 1},
)


def test_a_board_that_is_right_to_the_cent_passes():
    assert isinstance(SumsByStatus.judge(BOARD), Passed)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"new": [Decimal(1), Decimal(2)]}, "new has 2 rows"),
        ({"sent": [Decimal(1)]}, "your board has new, paid, sent"),
        ({"new": [Decimal(2)]}, "says 2: it has the number of orders"),
        ({"new": [Decimal("30.20")]}, "says 30.20; the amounts add up to 30.10"),
    ],
)
def test_a_wrong_board_gets_its_own_numbers_back(changed, reason):
    assert reason in reason_of(SumsByStatus.judge(replace(BOARD, answer=BOARD.answer | changed)))


def test_the_board_is_asked_for_hidden_orders_and_read_from_any_table():
    def answer(rows):
        frame = pd.DataFrame(rows, columns=["order_id", "status", "revenue"])
        return frame.groupby("status")["revenue"].sum()

    spark = SimpleNamespace(createDataFrame=lambda rows, schema: rows)
    lab = SimpleNamespace(spark=spark, topic="lesson-00.{}".format)
    facts = SumsByStatus.observe(lab, answer)
    assert isinstance(SumsByStatus.judge(facts), Passed)
    assert len(facts.revenue) == 4 and sum(facts.orders.values()) == 40
    with pytest.raises(Unreadable, match="returned nothing"):
        SumsByStatus.observe(lab, lambda rows: None)
