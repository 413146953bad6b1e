"""Lesson 14 judges what a query counted, lost, kept and wrote; each mistake has its own reason."""

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

import pytest

from lab_env.course.checking import NotYet, Passed
from lab_env.lessons.l14.arrivals import BATCH_MINUTES, PER_BATCH, PHONE_BATCHES, phone_orders
from lab_env.lessons.l14.checks import (
    MAY_LOSE,
    OTHER_LENGTH,
    Counted,
    FinalMinutes,
    FinalSoonEnough,
    Remembered,
    RevenuePerMinute,
    SameAfterReplay,
    StateThatEnds,
    Written,
    by_customer,
    customers_come_and_go,
    final_minutes,
    minute_of,
    revenue_of,
    some_orders,
    two_batches,
    watermark_of,
)

NOON = datetime(2026, 11, 20, 12)


def at(minute: float) -> datetime:
    return NOON + timedelta(minutes=minute)


def euro(**minutes: int) -> dict[datetime, Decimal]:
    """Revenue by minute: `euro(m0=20)` is 20 euro at 12:00."""
    return {at(int(name[1:])): Decimal(amount) for name, amount in minutes.items()}


def reason_of(verdict) -> str:
    assert isinstance(verdict, NotYet)
    return verdict.reason


# --- 14.1

COUNTED = Counted(euro(m0=20, m1=10), 3, euro(m0=20, m1=10), 3, euro(m180=30))


def test_each_minute_to_the_cent_passes():
    assert isinstance(RevenuePerMinute.judge(COUNTED), Passed)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"found": euro(m180=30)}, "those in which the orders *arrived*"),
        ({"found": euro(m0=40, m1=20)}, "add up to 60.00 euro, the orders to 30.00"),
        ({"found": euro(m0=30)}, "you have 1 windows; the orders were made in 2"),
        ({"orders": 2}, "`orders` adds up to 2, and 3 orders"),
        ({"refusal": "no watermark"}, 'Spark refuses your function: "no watermark"'),
    ],
)
def test_another_way_to_count_gets_its_reason(change, reason):
    assert reason in reason_of(RevenuePerMinute.judge(replace(COUNTED, **change)))


@pytest.mark.parametrize("seed", range(10))
def test_event_time_and_arrival_differ_in_every_hidden_table(seed):
    orders = some_orders(seed)
    made, arrived = revenue_of(orders), revenue_of(orders, "sent_at")
    assert not set(made) & set(arrived)
    assert len(made) > 2 * len(arrived)
    assert sum(made.values()) == sum(arrived.values())


# --- 14.2

FINAL = FinalMinutes(
    emitted=euro(m0=100, m1=100),
    expected=euro(m0=100, m1=100, m9=50),
    newest=at(13.5),
    dropped=0,
    watermark=at(5.5),
)


def test_a_delay_that_loses_little_and_is_soon_final_passes():
    assert isinstance(FinalSoonEnough.judge(FINAL), Passed)
    little = replace(FINAL, expected=euro(m0=100, m1=101, m9=50), dropped=1)
    assert little.lost == 1 <= MAY_LOSE * 201
    assert isinstance(FinalSoonEnough.judge(little), Passed)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            {"emitted": euro(m0=90, m1=100), "dropped": 2},
            "2 late orders were dropped, 10.00 euro or 5.0%",
        ),
        ({"emitted": {}}, "Nothing lost, but orders of 12:13 are there and 12:00 is not final"),
        ({"emitted": euro(m0=100, m1=100, m4=5)}, "emitted 12:04, in which nobody ordered"),
        ({"emitted": euro(m0=100, m1=130)}, "30.00 euro more than was ordered"),
        (
            {"watermark": at(1.5)},
            "has emitted 12:01, and that minute is not final: the watermark stands at 12:01:30",
        ),
        ({"watermark": None}, "has emitted 12:00, and that minute is not final: the watermark is"),
    ],
)
def test_a_delay_too_short_or_too_long_gets_its_reason(change, reason):
    assert reason in reason_of(FinalSoonEnough.judge(replace(FINAL, **change)))


def test_a_minute_is_final_when_the_watermark_reaches_its_end():
    assert not replace(FINAL, watermark=at(2)).early
    assert replace(FINAL, watermark=at(1.99)).early == [at(1)]


def test_a_minute_whose_orders_all_came_too_late_is_final_and_lost():
    assert final_minutes([at(0), at(1), at(2)], [at(1)]) == [at(0), at(1)]
    facts = FinalMinutes(euro(m1=1000), euro(m0=1, m1=1000, m9=5), at(13), 1, at(3))
    assert facts.lost == 1
    assert isinstance(FinalSoonEnough.judge(facts), Passed)


def dropped_with(delay_minutes: float, orders) -> list:
    """Orders that Spark drops: a batch is judged by the watermark before the batch before it."""
    dropped, ends = [], []
    for batch in range(PHONE_BATCHES):
        rows = orders[batch * PER_BATCH : (batch + 1) * PER_BATCH]
        if len(ends) >= 2:
            watermark = max(ends[:-1]) - timedelta(minutes=delay_minutes)
            dropped += [
                row for row in rows if minute_of(row.order_ts) + timedelta(minutes=1) <= watermark
            ]
        ends.append(max(row.order_ts for row in rows))
    return dropped


@pytest.mark.parametrize("seed", range(30))
def test_on_every_hidden_stream_six_minutes_lose_too_much_and_seven_to_twelve_do_not(seed):
    orders = phone_orders(seed)
    assert len(orders) == PHONE_BATCHES * PER_BATCH
    revenue = sum(order.cents for order in orders)

    def lost(delay: float) -> int:
        return sum(order.cents for order in dropped_with(delay, orders))

    assert all(lost(delay) > 2 * float(MAY_LOSE) * revenue for delay in (1 / 60, 2, 4, 5, 6))
    assert all(0 < lost(delay) < float(MAY_LOSE) * revenue / 4 for delay in (7, 8, 9, 10, 12))


@pytest.mark.parametrize("seed", range(30))
def test_twelve_minutes_are_soon_enough_on_every_hidden_stream_and_thirteen_are_not(seed):
    orders = phone_orders(seed)
    newest = max(order.order_ts for order in orders)
    revenue = revenue_of(orders)

    def verdict(delay: float):
        watermark = newest - timedelta(minutes=delay)  # the extra batch moves it to here
        dropped = dropped_with(delay, orders)
        counted = revenue_of(o for o in orders if o not in dropped)
        emitted = {m: r for m, r in counted.items() if m + timedelta(minutes=1) <= watermark}
        return FinalSoonEnough.judge(FinalMinutes(emitted, revenue, newest, 1, watermark))

    assert all(isinstance(verdict(delay), Passed) for delay in (7, 9, 10, 12))
    assert "12:02 is not final" in reason_of(verdict(13))
    assert "late orders were dropped" in reason_of(verdict(5))


@pytest.mark.parametrize("seed", range(10))
def test_the_newest_order_of_a_batch_lies_in_its_stretch_of_event_time(seed):
    orders = phone_orders(seed)
    for batch in range(PHONE_BATCHES):
        rows = orders[batch * PER_BATCH : (batch + 1) * PER_BATCH]
        newest = max(row.order_ts for row in rows)
        assert at(BATCH_MINUTES * batch) <= newest < at(BATCH_MINUTES * (batch + 1))


# --- 14.3

ENDS = Remembered((12, 24, 24, 24), 24, 48, right=True, watermark=at(18), newest=at(20))
GREW = {"rows": (12, 24, 36, 48), "removed": 0}


def test_state_that_stays_flat_passes():
    assert isinstance(StateThatEnds.judge(ENDS), Passed)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"right": False}, "revenue per customer and minute is not right"),
        ({**GREW, "watermark": None}, "There is no watermark, so 48 of 48"),
        ({**GREW, "watermark": at(78)}, "the key's time has no watermark"),
        (GREW, "The watermark moves, and 48 of 48 rows stay in state"),
        ({**GREW, "watermark": at(-600)}, "your watermark is 620 minutes behind. Nothing is old"),
        ({"watermark": at(20)}, "Your watermark is 0 seconds behind the newest order"),
        ({"watermark": at(18.5)}, "Your watermark is 90 seconds behind the newest order"),
        (
            {"rows": (12, 24, 36, 36), "removed": 12, "watermark": at(5)},
            "It ends, but late: your watermark is 15 minutes behind, and 36 of 48 rows",
        ),
        (
            {"windows": 58, "expected_windows": 40, "right_windows": False},
            "With `length` 15 minutes your 58 rows are not the 40 that are expected",
        ),
    ],
)
def test_state_that_grows_gets_its_reason(change, reason):
    assert reason in reason_of(StateThatEnds.judge(replace(ENDS, **change)))


@pytest.mark.parametrize("seed", range(10))
def test_windows_of_another_length_differ_on_every_hidden_table(seed):
    orders = some_orders(seed)
    longer, shorter = by_customer(orders, OTHER_LENGTH), by_customer(orders, 1)
    assert len(longer) < len(shorter)
    assert sum(longer.values()) == sum(shorter.values())


def test_no_customer_of_the_hidden_stream_comes_back_in_another_batch():
    orders = customers_come_and_go(seed=1)
    batches = {order.customer_id: set() for order in orders}
    for order in orders:
        batches[order.customer_id].add(minute_of(order.order_ts))
        assert order.sent_at - order.order_ts == timedelta(hours=1)
    assert all(len(minutes) == 1 for minutes in batches.values())


@pytest.mark.parametrize(
    ("progress", "expected"),
    [
        ({"eventTime": {"watermark": "2026-11-20T12:04:30.000Z"}}, at(4.5)),
        ({"eventTime": {"watermark": "1970-01-01T00:00:00.000Z"}}, None),
        ({"eventTime": {}}, None),
        ({}, None),
    ],
)
def test_a_query_without_a_watermark_reports_none(progress, expected):
    assert watermark_of(progress) == expected


# --- 14.4

TABLE = euro(m0=20, m1=10)
WRITTEN = Written(TABLE, TABLE, TABLE)


def test_the_same_table_twice_passes():
    assert isinstance(SameAfterReplay.judge(WRITTEN), Passed)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"first": euro(m1=10)}, "2 minutes counted, 1 in the table: 12:00 is gone"),
        ({"first": euro(m0=30, m1=10)}, "After two batches 12:00 has 30 euro"),
        ({"first": euro(m0=20, m1=10, m7=5)}, "After two batches 12:07 has 5 euro"),
        ({"twice": {at(1): 2}}, "12:01 stands 2 times in the table"),
        ({"again": euro(m0=20, m1=20)}, "The repeated batch counts twice: 12:01 had 10 euro"),
        ({"replayed": False}, "is the checkpoint at `checkpoint`"),
    ],
)
def test_a_table_that_a_batch_spoils_gets_its_reason(change, reason):
    assert reason in reason_of(SameAfterReplay.judge(replace(WRITTEN, **change)))


def test_the_second_batch_goes_on_in_a_minute_of_the_first_and_leaves_others_alone():
    orders = two_batches(seed=3)
    first, second = revenue_of(orders[:6]), revenue_of(orders[6:])
    assert set(first) & set(second)
    assert set(first) - set(second)
    assert set(second) - set(first)
