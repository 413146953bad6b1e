"""Lesson 14 derives which orders were late; its hidden streams tell delays apart."""

from datetime import datetime, timedelta
from types import SimpleNamespace
from unittest.mock import Mock

import pandas as pd
import pytest

from lab_env.course.answers import Unreadable
from lab_env.course.checking import NotYet
from lab_env.lessons.l14.arrivals import PER_BATCH, PHONE_BATCHES, phone_orders
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
from lab_env.lessons.l14.crash import forget_last_commit
from lab_env.lessons.l14.figures import arrivals, beside_each_other, rows_in_state
from lab_env.lessons.l14.quick import finish
from lab_env.lessons.streams import spark_settings
from lab_env.platform.errors import LabError

NOON = datetime(2026, 11, 20, 12)
BEGIN = "1970-01-01T00:00:00.000Z"


def at(minutes: float, seconds: int = 0) -> datetime:
    return NOON + timedelta(minutes=minutes, seconds=seconds)


def batch(orders: int, watermark: str, rows: int = 0) -> dict:
    """Return a query's progress report, with a watermark such as `12:04:30`."""
    moment = BEGIN if watermark == BEGIN else f"2026-11-20T{watermark}.000Z"
    return {
        "numInputRows": orders,
        "eventTime": {"watermark": moment},
        "stateOperators": [{"numRowsTotal": rows}],
    }


# What Spark 3.5.7 reported for these orders: a batch without rows moves the watermark.
TIMES = [at(0, 5), at(1, 10), at(6, 30), at(4, 10), at(3, 50)]
PROGRESS = [
    batch(2, BEGIN, 2),
    batch(0, "11:59:10", 2),
    batch(1, "11:59:10", 3),
    batch(0, "12:04:30", 1),
    batch(1, "12:04:30", 2),
    batch(1, "12:04:30", 2),
]


def test_an_order_is_late_if_its_minute_had_ended_by_the_watermark_before_its_batch():
    found = arrivals(TIMES, PROGRESS)
    assert [arrival.late for arrival in found] == [False, False, False, False, True]
    assert found[3].watermark == at(4, 30) > found[3].at
    assert rows_in_state(PROGRESS) == [2, 3, 2, 2]  # of the batches that read something


def test_without_a_batch_between_a_late_order_survives_one_batch_longer():
    progress = [batch(1, BEGIN), batch(1, "11:58:05"), batch(1, "12:08:00"), batch(1, "12:08:00")]
    times = [at(0, 5), at(10), at(0, 10), at(0, 15)]
    assert [a.late for a in arrivals(times, progress)] == [False, False, False, True]


class Conf(dict):
    set = dict.__setitem__
    unset = dict.__delitem__


def test_settings_are_put_back_also_after_a_failure():
    spark = SimpleNamespace(conf=Conf(partitions="2"))
    with pytest.raises(ZeroDivisionError), spark_settings(spark, {"partitions": "1", "new": "x"}):
        assert spark.conf == {"partitions": "1", "new": "x"}
        raise ZeroDivisionError
    assert spark.conf == {"partitions": "2"}


def test_without_a_commit_there_is_nothing_to_forget_and_the_error_says_what_to_do():
    with pytest.raises(LabError, match="run the stream with this checkpoint first"):
        forget_last_commit(SimpleNamespace(files=lambda path: []), "s3a://lakehouse/checkpoint")


def test_only_customers_windows_that_the_stream_emitted_are_compared():
    start = pd.Timestamp(at(0))
    emitted = pd.DataFrame({"customer_id": ["C-1"], "start": [start], "revenue": [10]})
    by_batch = pd.DataFrame(
        {
            "customer_id": ["C-1", "C-2", "C-1"],
            "start": pd.to_datetime([at(0), at(0), at(5)]),
            "revenue": [30, 40, 80],
        }
    )
    table = beside_each_other(emitted, by_batch)
    assert list(table.index) == [start]
    assert table.loc[start].to_dict() == {"stream": 10, "batch query": 30}


def query_at(end: int, ends: bool = False) -> Mock:
    """Return a query that waits after a batch that read up to `end` of 12 orders."""
    query = Mock(status={"message": "Waiting for next trigger", "isTriggerActive": False})
    offsets = {"endOffset": {"t": {"0": end}}, "latestOffset": {"t": {"0": 12}}}
    query.lastProgress = {"sources": [offsets]}
    query.awaitTermination.return_value, query.exception.return_value = ends, None
    return query


@pytest.mark.parametrize("query", [query_at(12), query_at(6, ends=True)])
def test_a_query_is_stopped_when_it_has_read_all_or_has_ended(query):
    assert finish(query).stop.called


def test_a_query_that_never_gets_through_is_stopped_with_the_next_step():
    query = query_at(6)
    with pytest.raises(LabError, match="still reading") as raised:
        finish(query, timeout_s=0)
    assert query.stop.called
    assert "availableNow" in raised.value.next_step


def test_what_is_no_query_is_named():
    with pytest.raises(Unreadable, match="returned nothing"):
        finish(None)


@pytest.mark.parametrize("seed", range(10))
def test_arrival_times_and_other_windows_differ_in_every_hidden_table(seed):
    orders = some_orders(seed)
    made, arrived = revenue_of(orders), revenue_of(orders, "sent_at")
    assert not set(made) & set(arrived)
    assert len(made) > 2 * len(arrived)
    longer, shorter = by_customer(orders, OTHER_LENGTH), by_customer(orders, 1)
    assert len(longer) < len(shorter)
    for one, other in ((made, arrived), (longer, shorter)):
        assert sum(one.values()) == sum(other.values())


def test_a_minute_whose_orders_all_came_too_late_is_final_and_lost():
    assert final_minutes([at(0), at(1), at(2)], [at(1)]) == [at(0), at(1)]


def dropped_with(delay_minutes: float, orders) -> list:
    """Return the late orders that Spark drops by the watermark of the batch before."""
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
