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
    payment_in,
)

NINE, LATER = datetime(2026, 11, 20, 9, 15), datetime(2026, 11, 20, 9, 20)
HOURS_LATER = datetime(2026, 11, 20, 14, 15)
AMOUNT = Decimal("15.00")
NEW = {"customer_id": "C-17", "status": "new", "amount": AMOUNT, "order_ts": NINE}
AS_PAID = NEW | {"status": "paid", "order_ts": LATER}
BEFORE = {"O-1": NEW, "O-2": NEW, "O-3": NEW}
PAID = PaidOrder(BEFORE, {"O-1": [NEW], "O-2": [NEW], "O-3": [AS_PAID]})


def reason_of(verdict) -> str:
    assert isinstance(verdict, NotYet)
    return verdict.reason


def test_one_order_paid_and_the_others_as_they_were_passes():
    passed = PaysAnOrder.judge(PAID)
    assert isinstance(passed, Passed) and "copy of your table" in passed.note


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"O-1": None, "O-2": None}, "O-1 and O-2 are gone: your write replaced the table"),
        ({"O-3": None}, "O-3 is gone"),
        ({"O-4": [AS_PAID]}, "another order, O-4"),
        ({"O-3": [NEW, AS_PAID]}, "O-3 has 2 rows"),
        ({"O-1": [AS_PAID]}, "other orders, too: O-1"),
        ({"O-1": [NEW | {"customer_id": None}]}, "other orders, too: O-1"),
        ({"O-3": [NEW]}, "O-3 is still 'new'"),
        ({"O-3": [AS_PAID | {"amount": None}]}, "had the amount 15.00, and now it has None"),
        (
            {"O-3": [AS_PAID | {"customer_id": "C-3"}]},
            "had the customer_id C-17, and now it has C-3",
        ),
        ({"O-3": [AS_PAID | {"order_ts": NINE}]}, "its `order_ts` is still 09:15"),
        (
            {"O-3": [AS_PAID | {"order_ts": HOURS_LATER}]},
            "09:15:00 to 2026-11-20 14:15:00. Make it",
        ),
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
        (PastRows(["new"], ["new"]), "as of the payment ['new']"),
        (PastRows(["new", "new"], ["paid"]), "O-1 is ['new', 'new']"),
    ],
)
def test_another_past_gets_its_reason(rows, reason):
    assert reason in reason_of(ReadsThePast.judge(rows))


class Table:
    """A DataFrame as far as a check sees it."""

    def __init__(self, rows):
        self.toPandas = lambda: pd.DataFrame(rows)


def test_the_past_is_read_from_what_the_lesson_can_go_on_with():
    rows = [{"order_id": "O-1", "status": "new"}, {"order_id": "O-2", "status": "paid"}]
    assert _statuses(Table(rows)) == ["new"]
    with pytest.raises(Unreadable, match="returned nothing"):
        _statuses(None)
    with pytest.raises(Unreadable, match="DataFrame of Spark"):
        _statuses(pd.DataFrame(rows))


@pytest.mark.parametrize(
    "statuses", [("new", "paid"), ("new", "new", "paid"), ("new", "paid", "new", "paid", "paid")]
)
def test_the_payment_is_found_however_often_the_writes_ran(statuses):
    before, payment = payment_in({str(at): [status] for at, status in enumerate(statuses)})
    assert int(payment) == int(before) + 1
    assert (statuses[int(before)], statuses[int(payment)]) == ("new", "paid")


def test_a_table_without_a_payment_has_no_past_to_ask_for():
    with pytest.raises(Unreadable, match="not paid in the table"):
        payment_in({"1": ["new"], "2": ["new"]})


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


def judged(kept):
    """The verdict on the sums of the amounts that `kept` leaves of a status."""

    def answer(orders):
        of = {
            status: [amount for _, its, amount in orders if its == status]
            for _, status, _ in orders
        }
        return Table([{"status": name, "revenue": sum(kept(of[name]))} for name in of])

    spark = SimpleNamespace(createDataFrame=lambda rows, schema: rows)
    lab = SimpleNamespace(spark=spark, topic="lesson-00.{}".format)
    return SumsByStatus.judge(SumsByStatus.observe(lab, answer))


def test_the_board_is_asked_for_hidden_orders_of_which_some_cost_the_same():
    assert isinstance(judged(list), Passed)
    assert "add up to" in reason_of(judged(set))
