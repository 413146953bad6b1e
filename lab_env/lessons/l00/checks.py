"""Checks of lesson 00: what the learner's functions did to, or read from, small tables."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

from lab_env.course.answers import Unreadable, as_number, as_rows, as_text
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.lessons.table_copies import scratch_copy

TABLE = "orders"
PAID = "O-3"  # the order that the check pays; the lesson itself pays O-1
STATUSES = ("cancelled", "new", "paid", "shipped")
CENT = Decimal("0.01")

COLUMNS = ("order_id", "customer_id", "status", "amount", "order_ts", "partition_date")
LATER = timedelta(minutes=5)

Order = dict[str, Any]  # its row, by column


@dataclass(frozen=True)
class PaidOrder:
    """A table before and after one order was paid.

    Args:
        before: the row of each order.
        after: the same afterwards; a list of rows per order.
    """

    before: dict[str, Order]
    after: dict[str, list[Order]]


@check_of("00.1")
class PaysAnOrder:
    """A function that changes one row of a table."""

    @staticmethod
    def observe(lab, answer: Callable) -> PaidOrder:
        """Have O-3 paid in a copy of the lesson's table."""
        path = scratch_copy(lab, lab.path(TABLE), "pay")
        before = {order: rows[0] for order, rows in _orders(lab, path).items()}
        answer(PAID, path)
        return PaidOrder(before, _orders(lab, path))

    @staticmethod
    def judge(facts: PaidOrder) -> Passed | NotYet:
        """O-3 is paid and later, once; everything else is as before."""
        gone = sorted(facts.before.keys() - facts.after.keys())
        if gone:
            return NotYet(
                f"{' and '.join(gone)} are gone: your write replaced the table. Which mode adds a "
                "write to it?"
                if len(gone) > 1
                else f"{gone[0]} is gone. Write the changed row with all columns of an order."
            )
        if more := sorted(facts.after.keys() - facts.before.keys()):
            return NotYet(f"The table has got another order, {more[0]}. Write {PAID} only.")
        twice = [order for order, rows in facts.after.items() if len(rows) > 1]
        if twice:
            return NotYet(
                f"{twice[0]} has {len(facts.after[twice[0]])} rows. An upsert with the options "
                "`table_options` replaces a row by its key."
            )
        after = {order: rows[0] for order, rows in facts.after.items()}
        others = [
            order for order in facts.before if order != PAID and after[order] != facts.before[order]
        ]
        if others:
            return NotYet(
                f"Asked to pay {PAID}, your function has changed other orders, too: "
                f"{', '.join(sorted(others))}. Take only the row of the one order."
            )
        return _judge_payment(facts.before[PAID], after[PAID])


def _judge_payment(before: Order, after: Order) -> Passed | NotYet:
    """The order is paid five minutes later, and nothing else of it has changed."""
    if after["status"] != "paid":
        return NotYet(f"{PAID} is still {after['status']!r} in the table.")
    for column in before.keys() - {"status", "order_ts"}:
        if after[column] != before[column]:
            return NotYet(
                f"{PAID} had the {column} {before[column]}, and now it has {after[column]}."
            )
    if after["order_ts"] == before["order_ts"]:
        return NotYet(
            f"{PAID} is paid, but its `order_ts` is still {before['order_ts']:%H:%M}. A late event "
            f"of {before['order_ts']:%H:%M} could win against it: make it five minutes later."
        )
    if after["order_ts"] != before["order_ts"] + LATER:
        return NotYet(
            f"{PAID} is paid, but its `order_ts` went from {before['order_ts']} to "
            f"{after['order_ts']}. Make it five minutes later."
        )
    return Passed(
        f"In a copy of your table the check paid {PAID}, and the other rows are as they were."
    )


def _orders(lab, path: str) -> dict[str, list[Order]]:
    """The rows of each order."""
    found: dict[str, list[Order]] = {}
    for row in lab.spark.read.format("hudi").load(path).select(*COLUMNS).collect():
        found.setdefault(row.order_id, []).append(row.asDict())
    return found


@dataclass(frozen=True)
class PastRows:
    """The statuses of O-1 in what an answer returned.

    Args:
        at_insert: as of the last write before the payment.
        at_update: as of the payment.
    """

    at_insert: list[str]
    at_update: list[str]


@check_of("00.2")
class ReadsThePast:
    """A function that reads a table as of an instant."""

    @staticmethod
    def observe(lab, answer: Callable) -> PastRows:
        """Ask for the lesson's table as of the payment of O-1 and of the write before it."""
        path = lab.path(TABLE)
        reader = lab.spark.read.format("hudi")
        history = {
            requested: _statuses(reader.option("as.of.instant", requested).load(path))
            for requested in sorted(lab.xray(path).completed_writes)
        }
        return PastRows(*(_statuses(answer(write, path)) for write in payment_in(history)))

    @staticmethod
    def judge(facts: PastRows) -> Passed | NotYet:
        """O-1 is new before the payment, and paid as of the payment."""
        if not facts.at_insert:
            return NotYet(
                "As of the write before the payment your rows have no O-1. The newest rows carry "
                "the time of the newest write, so a filter on them finds no older version: ask the "
                "reader."
            )
        if facts.at_insert == ["paid"]:
            return NotYet(
                "As of the write before the payment your rows say that O-1 is 'paid'. That is the "
                "newest state; where does the instant go?"
            )
        if (facts.at_insert, facts.at_update) != (["new"], ["paid"]):
            return NotYet(
                f"As of the write before the payment your rows say that O-1 is {facts.at_insert}, "
                f"as of the payment {facts.at_update}. It was ['new'], then ['paid']."
            )
        return Passed("O-1 was new before its payment, and paid as of it.")


def payment_in(history: dict[str, list[str]]) -> tuple[str, str]:
    """The last two writes in a row between which O-1 was paid.

    Args:
        history: the true statuses of O-1 as of each write, in the order of the writes, which a
            learner may have run more than once.

    Raises:
        Unreadable: it was not paid.
    """
    pairs = [
        (before, payment)
        for before, payment in pairwise(history)
        if (history[before], history[payment]) == (["new"], ["paid"])
    ]
    if not pairs:
        raise Unreadable("O-1 is not paid in the table. Run the cell that pays it first.")
    return pairs[-1]


def _statuses(rows) -> list[str]:
    """The statuses of O-1 in a DataFrame."""
    found = as_rows(_dataframe(rows, "the rows"), ["order_id", "status"])
    return [as_text(status) for order, status in found if order == "O-1"]


def _dataframe(answer, wanted: str):
    """The answer, if the lesson can go on with it as with a DataFrame of Spark.

    Raises:
        Unreadable: it is something else.
    """
    if answer is None:
        raise Unreadable(f"Your function returned nothing; {wanted} are expected.")
    if not callable(getattr(answer, "toPandas", None)):
        raise Unreadable(
            f"Your function returned a {type(answer).__name__}; {wanted} are expected as a "
            "DataFrame of Spark, because the lesson goes on with it."
        )
    return answer


@dataclass(frozen=True)
class BoardOfAnswer:
    """What an answer says of a day's orders, and what is true.

    Args:
        answer: revenue by status; a list, in case a status comes twice.
        revenue: the true revenue by status.
        orders: the number of orders by status.
    """

    answer: dict[str, list[Decimal]]
    revenue: dict[str, Decimal]
    orders: dict[str, int]


@check_of("00.3")
class SumsByStatus:
    """A function that computes revenue by status."""

    @staticmethod
    def observe(lab, answer: Callable) -> BoardOfAnswer:
        """Give the function orders of random amounts; some orders cost the same."""
        chance = random.Random(lab.topic("orders"))
        prices = [Decimal(chance.randint(500, 20000)) * CENT for _ in range(5)]
        orders = [(f"O-{n}", chance.choice(STATUSES), chance.choice(prices)) for n in range(1, 41)]
        schema = "order_id STRING, status STRING, amount DECIMAL(12,2)"
        found: dict[str, list[Decimal]] = {}
        board = _dataframe(answer(lab.spark.createDataFrame(orders, schema)), "rows by status")
        for status, revenue in as_rows(board, ["status", "revenue"]):
            found.setdefault(as_text(status), []).append(as_number(revenue))
        statuses = sorted({status for _, status, _ in orders})
        of = {status: [paid for _, its, paid in orders if its == status] for status in statuses}
        return BoardOfAnswer(
            found, {name: sum(of[name], Decimal(0)) for name in of}, {n: len(of[n]) for n in of}
        )

    @staticmethod
    def judge(facts: BoardOfAnswer) -> Passed | NotYet:
        """One row per status, with the sum of its amounts."""
        twice = [status for status, found in facts.answer.items() if len(found) > 1]
        if twice:
            return NotYet(f"{twice[0]} has {len(facts.answer[twice[0]])} rows: one per status.")
        if facts.answer.keys() != facts.revenue.keys():
            return NotYet(
                f"The orders have the statuses {', '.join(facts.revenue)}; your board has "
                f"{', '.join(sorted(facts.answer)) or 'none'}."
            )
        for status, (revenue,) in facts.answer.items():
            if revenue == facts.orders[status] != facts.revenue[status]:
                return NotYet(
                    f"For {status!r} your board says {revenue}: it has the number of orders, not "
                    "the sum of their amounts."
                )
            if abs(revenue - facts.revenue[status]) >= CENT:
                return NotYet(
                    f"For {status!r} your board says {revenue}; the amounts add up to "
                    f"{facts.revenue[status]}."
                )
        return Passed("Right to the cent.")
