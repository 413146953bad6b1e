"""Lesson 14's checks: hidden streams, and the revenue that each watermark delay loses."""

from datetime import datetime, timedelta

import pytest

from lab_env.course.checking import NotYet
from lab_env.lessons.l14.arrivals import BATCH_MINUTES, PER_BATCH, PHONE_BATCHES, phone_orders
from lab_env.lessons.l14.checks import (
    MAY_LOSE,
    OTHER_LENGTH,
    by_customer,
    customers_come_and_go,
    final_minutes,
    judge_final,
    minute_of,
    revenue_of,
    some_orders,
    two_batches,
    watermark_of,
)

NOON = datetime(2026, 11, 20, 12)


def at(minute: float) -> datetime:
    return NOON + timedelta(minutes=minute)


@pytest.mark.parametrize("seed", range(10))
def test_event_time_and_arrival_differ_in_every_hidden_table(seed):
    orders = some_orders(seed)
    made, arrived = revenue_of(orders), revenue_of(orders, "sent_at")
    assert not set(made) & set(arrived)
    assert len(made) > 2 * len(arrived)
    assert sum(made.values()) == sum(arrived.values())


def test_a_minute_whose_orders_all_came_too_late_is_final_and_lost():
    assert final_minutes([at(0), at(1), at(2)], [at(1)]) == [at(0), at(1)]


def dropped_with(delay_minutes: float, orders) -> list:
    """Return the late orders that Spark drops.

    Spark applies the watermark of the previous batch.
    """
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

    def said(delay: float) -> str:
        watermark = newest - timedelta(minutes=delay)  # the extra batch moves it to here
        dropped = dropped_with(delay, orders)
        counted = revenue_of(o for o in orders if o not in dropped)
        emitted = {m: r for m, r in counted.items() if m + timedelta(minutes=1) <= watermark}
        try:
            judge_final(orders, emitted, watermark)
        except NotYet as not_yet:
            return not_yet.reason
        return ""

    assert not any(said(delay) for delay in (7, 9, 10, 12))
    assert "12:02 is not final" in said(13)
    assert "late orders were dropped" in said(5)


@pytest.mark.parametrize("seed", range(10))
def test_the_newest_order_of_a_batch_lies_in_its_stretch_of_event_time(seed):
    orders = phone_orders(seed)
    for batch in range(PHONE_BATCHES):
        rows = orders[batch * PER_BATCH : (batch + 1) * PER_BATCH]
        newest = max(row.order_ts for row in rows)
        assert at(BATCH_MINUTES * batch) <= newest < at(BATCH_MINUTES * (batch + 1))


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


def test_the_second_batch_goes_on_in_a_minute_of_the_first_and_leaves_others_alone():
    orders = two_batches(seed=3)
    first, second = revenue_of(orders[:6]), revenue_of(orders[6:])
    assert set(first) & set(second)
    assert set(first) - set(second)
    assert set(second) - set(first)
