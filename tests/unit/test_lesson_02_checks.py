"""Lesson 02 judges a key by where the events lie, and a sizing by the limit that it breaks."""

from dataclasses import replace

import numpy as np
import pytest

from lab_env.course.answers import Unreadable
from lab_env.course.checking import Passed
from lab_env.lessons.l02.checks import (
    LOADS,
    AKeyThatSpreads,
    ShardsForALoad,
    Sizing,
    Spread,
    spread,
)
from lab_env.shop.skew import CELEBRITY, marketplace_events


def event(order_id, customer_id):
    return {"order_id": order_id, "customer_id": customer_id}


def test_an_order_in_two_partitions_and_a_customer_in_two_are_counted():
    placements = [
        (event("O-1", "c-1"), "a", 0),
        (event("O-1", "c-1"), "b", 1),
        (event("O-2", CELEBRITY), "a", 0),
        (event("O-3", CELEBRITY), "c", 5),
    ]
    facts = spread(placements)
    assert (facts.split_orders, facts.split_customers) == (1, 1)
    assert (facts.partition, facts.hottest) == (0, 2 * 6 / 4)
    assert (facts.top_key, facts.top_share) == ("a", 0.5)


GOOD = Spread(1.2, 3, "c-0002", 0.05, 0, 0)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"hottest": 4.1, "top_share": 0.38, "top_key": CELEBRITY}, "carries 4.1 times the mean"),
        ({"hottest": 4.1, "top_share": 0.38, "top_key": CELEBRITY}, "c-0001 alone has 38%"),
        ({"split_orders": 212}, "Even, but 212 orders"),
        ({"split_orders": 212, "hottest": 3.0}, "Partition 3 is hot, and 212 orders"),
        ({"split_customers": 90}, "90 customers beside c-0001"),
    ],
)
def test_a_key_that_fails_is_told_which_duty_it_fails(change, reason):
    assert reason in AKeyThatSpreads.judge(replace(GOOD, **change)).reason


def test_a_key_with_all_duties_done_passes():
    assert isinstance(AKeyThatSpreads.judge(GOOD), Passed)


def test_the_marketplace_is_the_same_each_time_and_has_a_celebrity():
    events = marketplace_events(2_000)
    assert events == marketplace_events(2_000)
    share = sum(event["customer_id"] == CELEBRITY for event in events) / len(events)
    assert 0.3 < share < 0.45
    owners = {}
    for one in events:
        assert owners.setdefault(one["order_id"], one["customer_id"]) == one["customer_id"]


def judged(answer):
    return ShardsForALoad.judge(ShardsForALoad.observe(None, answer))


def test_in_the_loads_each_limit_decides_at_least_once():
    deciding = set()
    for load in LOADS:
        sizing = Sizing(*load, 0)
        limits = {"events": load[0] / 1000, "bytes": sizing.written, "readers": sizing.read / 2}
        deciding.add(max(limits, key=limits.get))
    assert deciding == {"events", "bytes", "readers"}


@pytest.mark.parametrize("form", [int, float, str, np.ceil])
def test_the_right_sizing_passes_in_any_form_of_a_whole_number(form):
    assert isinstance(judged(lambda *load: form(Sizing(*load, 0).needed)), Passed)


@pytest.mark.parametrize("shards", [None, 4.5, [4, 5], "four"])
def test_a_sizing_that_is_no_whole_number_is_unreadable(shards):
    with pytest.raises(Unreadable):
        judged(lambda *load: shards)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (lambda *load: Sizing(*load, 0).needed + 1, "you pay for 2"),
        (lambda events, size, readers: events // 1000, "0 shards take 0 events"),
        (lambda events, size, readers: -(-events // 1000), "your 2 shards take 2 MB/s"),
    ],
)
def test_a_wrong_sizing_is_told_the_limit_that_it_breaks(answer, reason):
    assert reason in judged(answer).reason
