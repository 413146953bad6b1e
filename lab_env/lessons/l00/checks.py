"""Checks of lesson 00: what the learner's functions did to, or read from, small tables."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from lab_env.course.answers import Unreadable, as_number, as_rows, as_text
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.lessons.table_copies import scratch_copy

TABLE = "orders"
PAID = "O-3"  # the order that the check pays; the lesson itself pays O-1
STATUSES = ("cancelled", "new", "paid", "shipped")
CENT = Decimal("0.01")

Order = tuple[str, Decimal, datetime]  # status, amount, time of its last change


@dataclass(frozen=True)
class PaidOrder:
    """A table before and after one order was paid.

    Args:
        before: status, amount and time of each order.
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
        """O-3 is paid and later, once; all others are as before."""
        gone = sorted(facts.before.keys() - facts.after.keys())
        if gone:
            return NotYet(
                f"{' and '.join(gone)} are gone: your write replaced the table. Which mode adds a "
                "write to it?"
                if len(gone) > 1
                else f"{gone[0]} is gone. Write the changed row with all columns of an order."
            )
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
        (status, amount, at), (_, amount_before, at_before) = after[PAID], facts.before[PAID]
        if status != "paid":
            return NotYet(f"{PAID} is still {status!r} in the table.")
        if amount != amount_before:
            return NotYet(f"{PAID} had the amount {amount_before}, and now it has {amount}.")
        if at <= at_before:
            return NotYet(
                f"{PAID} is paid, but its `order_ts` is still {at:%H:%M}. A late event of "
                f"{at_before:%H:%M} could win against it: make it five minutes later."
            )
        return Passed(f"{PAID} is paid, and the other rows are as they were.")


def _orders(lab, path: str) -> dict[str, list[Order]]:
    """The rows of each order."""
    found: dict[str, list[Order]] = {}
    table = lab.spark.read.format("hudi").load(path)
    for row in table.select("order_id", "status", "amount", "order_ts").collect():
        found.setdefault(row.order_id, []).append((row.status, row.amount, row.order_ts))
    return found


@dataclass(frozen=True)
class PastRows:
    """The statuses of O-1 that an answer gave, and those that were true.

    Args:
        at_insert: as of the first write.
        at_update: as of the second write.
    """

    at_insert: list[str]
    at_update: list[str]


@check_of("00.2")
class ReadsThePast:
    """A function that reads a table as of an instant."""

    @staticmethod
    def observe(lab, answer: Callable) -> PastRows:
        """Ask for the lesson's table as of its first two writes."""
        path = lab.path(TABLE)
        writes = sorted(lab.xray(path).completed_writes)[:2]
        if len(writes) < 2:
            raise Unreadable("The table has one write only. Run the cell that pays O-1 first.")
        return PastRows(*(_statuses(answer(requested, path)) for requested in writes))

    @staticmethod
    def judge(facts: PastRows) -> Passed | NotYet:
        """O-1 is new as of the insert, and paid as of the update."""
        if not facts.at_insert:
            return NotYet(
                "As of the first write your rows have no O-1. The newest rows carry the time of "
                "the newest write, so a filter on them finds no older version: ask the reader."
            )
        if facts.at_insert == ["paid"]:
            return NotYet(
                "As of the first write your rows say that O-1 is 'paid'. That is the newest state; "
                "where does the instant go?"
            )
        if (facts.at_insert, facts.at_update) != (["new"], ["paid"]):
            return NotYet(
                f"As of the first write your rows say that O-1 is {facts.at_insert}, as of the "
                f"second {facts.at_update}. It was ['new'], then ['paid']."
            )
        return Passed("O-1 was new at first, and paid after the second write.")


def _statuses(rows) -> list[str]:
    """The statuses of O-1 in a table of any kind."""
    if rows is None:
        raise Unreadable("Your function returned nothing; the rows are expected.")
    found = as_rows(rows, ["order_id", "status"])
    return [as_text(status) for order, status in found if order == "O-1"]


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
        """Give the function orders of random amounts."""
        amounts = random.Random(lab.topic("orders"))
        orders = [
            (f"O-{n}", amounts.choice(STATUSES), Decimal(amounts.randint(500, 20000)) * CENT)
            for n in range(1, 41)
        ]
        schema = "order_id STRING, status STRING, amount DECIMAL(12,2)"
        found: dict[str, list[Decimal]] = {}
        returned = answer(lab.spark.createDataFrame(orders, schema))
        if returned is None:
            raise Unreadable("Your function returned nothing; one row per status is expected.")
        for status, revenue in as_rows(returned, ["status", "revenue"]):
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
