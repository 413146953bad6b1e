"""Checks of lesson 00: run the learner's functions on small tables and compare the results."""

from collections import defaultdict
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random

from pyspark.sql import DataFrame

from lab_env.course.answers import as_number, as_rows, as_text
from lab_env.course.checking import check, expect
from lab_env.lessons.boards import expect_decimal
from lab_env.lessons.rows import as_dataframe, expect_rows, named, rows_at, without_hudis
from lab_env.lessons.table_copies import copy_table, left_alone, scratch_copy
from lab_env.lessons.timelines import completed_instants, expect_added
from lab_env.pipeline.options import KEYS

SCHEMA = (
    "order_id STRING, customer_id STRING, status STRING, amount DECIMAL(12,2), "
    "order_ts TIMESTAMP, partition_date STRING"
)
STATUSES = ("cancelled", "new", "paid", "returned", "shipped")
CENT = Decimal("0.01")
FOUR = ("O-1", "O-10", "O-101", "O-1010")  # the hidden orders; each id contains those before it


@check("00.1")
def pays_an_order(lab, pay):
    """Let the function pay one of four hidden orders, in its own copy of the table."""
    source = _four_orders(lab)
    was = {row.order_id: row for row in _orders_at(lab, source).collect()}
    order = Random().choice(FOUR[1:3])
    path = scratch_copy(lab, source, "pay")
    before = completed_instants(lab, path)
    with left_alone(lab, lab.path("orders")):
        pay(order, path)
    found = _orders_at(lab, path)
    now = {row.order_id: row for row in found.collect()}
    gone = was.keys() - now.keys()
    expect(
        len(gone) < 2,
        "{} are gone: your write replaced the table. Which mode adds a write to it?",
        named(gone),
    )
    others = [name for name in was if name != order and now.get(name) != was[name]]
    expect(
        not others,
        "Asked to pay {}, your function has changed other orders, too: {}. Take only the row of "
        "the one order.",
        order,
        named(others),
    )
    expect(order in now, "{} is gone.", order)
    expect(now[order].status == "paid", "{} is {!r} in the table.", order, now[order].status)
    later = was[order].order_ts + timedelta(minutes=5)
    paid = was[order].asDict() | {"status": "paid", "order_ts": later}
    expect(
        now[order].order_ts == later,
        "{} is paid, but its `order_ts` went from {} to {}. A late event could win against it: "
        "Make it five minutes later.",
        order,
        was[order].order_ts,
        now[order].order_ts,
    )
    expect_rows(found, lab.spark.createDataFrame([*(was | {order: paid}).values()], SCHEMA))
    expect_added(lab, path, before)
    return "In a copy of a table the check paid one of four orders, and no other row changed."


def _four_orders(lab) -> str:
    """Return the path of a table of four hidden orders, written on the first call."""
    path = lab.path("exercise/four-orders")
    if not lab.files(path):
        rng = Random()
        # The two in the middle are in no order the first or the last: not by id, time or amount.
        # Five minutes later is the next day, which an order's partition must not follow.
        amounts, seconds = (
            sorted(rng.sample(range(500, 20000), 4)),
            sorted(rng.sample(range(60), 4)),
        )
        rows = [
            (FOUR[n], f"C-{rng.randint(1, 99)}", status, amounts[n] * CENT,
             datetime(2026, 11, 22 + n % 2, 23, 57, seconds[n], 123456), f"2026-11-{22 + n % 2}")
            for n, status in enumerate(("new", "new", "cancelled", "new"))
        ]  # fmt: skip
        writer = lab.spark.createDataFrame(rows, SCHEMA).write.format("hudi").options(**KEYS)
        writer.option("hoodie.table.name", "orders").mode("append").save(path)
    return path


def _orders_at(lab, path: str) -> DataFrame:
    return rows_at(lab, path).select(*(part.split()[0] for part in SCHEMA.split(", ")))


@check("00.2")
def reads_the_past(lab, as_of):
    """Let the function query a table as of the write before a payment, and as of the payment."""
    path, unpaid = lab.path("orders"), lab.scratch("unpaid")
    writes = sorted(lab.xray(path).completed_writes)
    expect(
        _status(rows_at(lab, path)) == ["paid"],
        "O-1 is not paid in the table. Run the cell that pays it first.",
    )
    later = [instant for instant in lab.xray(path).instants if instant.requested > writes[0]]
    copy_table(lab, path, unpaid, hidden=later)
    for table, instant, right in (
        (path, writes[0], "new"),
        (path, writes[-1], "paid"),
        (unpaid, writes[-1], "new"),
    ):
        rows = as_dataframe(as_of(instant, table), "the rows")
        said = _status(rows)
        when = "As of the write before the payment" if instant == writes[0] else "As of the payment"
        expect(
            said,
            "{} your rows have no O-1. The newest rows carry the time of the newest write, so a "
            "filter on them finds no older version: ask the reader.",
            when,
        )
        expect(
            said == [right] or table == unpaid,
            "{} your rows say that O-1 is {}, not {}. {}",
            when,
            " and ".join(said),
            right,
            "That is the newest state; where does the instant go?" if said == ["paid"] else "",
        )
        expect(
            said == [right],
            "Asked for a copy of the table in which nobody has paid O-1, your rows say that it is "
            "{}. Does your function read the table at `path`?",
            " and ".join(said),
        )
        past = lab.spark.read.format("hudi").option("as.of.instant", instant).load(table)
        expect_rows(rows, without_hudis(past))
    return "O-1 was new before its payment, and paid as of it."


def _status(rows: DataFrame) -> list[str]:
    return [row.status for row in rows.where("order_id = 'O-1'").select("status").collect()]


@check("00.3")
def sums_by_status(lab, revenue_by_status):
    """Run the function on two lists of random orders, some with equal amounts."""
    rng = Random()
    for _ in range(2):
        prices = [rng.randint(500, 20000) * CENT for _ in range(5)]
        orders = [(rng.choice(STATUSES), rng.choice(prices)) for _ in range(40)]
        orders.append(("replaced", 0 * CENT))
        amounts = defaultdict(list)
        for status, amount in orders:
            amounts[status].append(amount)
        frame = lab.spark.createDataFrame(orders, "status STRING, amount DECIMAL(12,2)")
        board = as_dataframe(revenue_by_status(frame), "rows by status")
        found = [(as_text(s), as_number(r)) for s, r in as_rows(board, ["status", "revenue"])]
        statuses = sorted(status for status, _ in found)
        expect(
            statuses == sorted(amounts),
            "The orders have the statuses {}; your board has the rows {}.",
            ", ".join(sorted(amounts)),
            ", ".join(statuses) or "of none",
        )
        for status, revenue in found:
            expect(
                revenue != len(amounts[status]),
                "For {!r} your board says {}: it has the number of orders, not the sum of their "
                "amounts.",
                status,
                revenue,
            )
            expect(
                abs(revenue - sum(amounts[status])) < CENT,
                "For {!r} your board says {}, and that is not the sum of all {} amounts.",
                status,
                revenue,
                len(amounts[status]),
            )
        expect_decimal(board)
    return "Right to the cent."
