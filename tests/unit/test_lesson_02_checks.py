"""Lesson 02 judges a key by where the events lie, and a sizing by the limit that it breaks."""

import time
from dataclasses import replace
from itertools import count

import numpy as np
import pandas as pd
import pytest

from lab_env.course.answers import Unreadable
from lab_env.course.checking import Passed
from lab_env.lessons.l02 import checks
from lab_env.lessons.l02.checks import (
    LOADS,
    AKeyThatSpreads,
    OnePartition,
    ReadPartition,
    SendAndKeepReceipts,
    Sent,
    ShardsForALoad,
    Sizing,
    Spread,
    spread,
)
from lab_env.lessons.l02.figures import draw_busy, draw_measures, placed
from lab_env.shop.skew import CELEBRITY, marketplace_events


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (Sent(400, 0, 0), "0 receipts for 400 events; handed over is not delivered"),
        (Sent(400, 395, 400), "395 receipts for 400"),
        (Sent(400, 400, 390), "the topic holds 390"),
        (Sent(400, 800, 400), "800 receipts for 400 events: one for each"),
        (Sent(400, 400, 400, other_key=400), "400 have another key"),
        (Sent(400, 400, 800, other_event=400), "400 messages of the topic are none"),
        (Sent(400, 400, 400, refused_receipts=1), "The broker refused it"),
    ],
)
def test_a_send_that_loses_or_changes_events_is_told_its_numbers(facts, reason):
    assert reason in SendAndKeepReceipts.judge(facts).reason


def test_the_check_sends_keys_of_every_form_that_the_client_takes():
    keys = {type(checks.key_of_the_check(event)) for event in marketplace_events(100)}
    assert keys == {str, bytes, type(None)}


def test_a_receipt_for_each_event_passes():
    assert isinstance(SendAndKeepReceipts.judge(Sent(400, 400, 400)), Passed)


@pytest.mark.parametrize(
    ("read", "ended", "reason"),
    [
        ((), True, "none of the 3 events"),
        ((4, 5), True, "2 of 3 events"),
        ((4, 5, 6, 1), True, "1 events of other partitions"),
        ((4, 6, 5), True, "in another order"),
        ((4, 5, 6, 6), True, "4 events for 3"),
        ((), False, "had not returned"),
    ],
)
def test_a_partition_read_wrongly_is_told_what_was_read(read, ended, reason):
    asked = ReadPartition(1, (4, 5, 6), read, frozenset({0, 1}), ended)
    assert reason in OnePartition.judge((asked,)).reason


def test_whole_partitions_and_an_empty_one_pass():
    facts = (ReadPartition(1, (), (), frozenset({1})), ReadPartition(0, (1,), (1,), frozenset()))
    assert isinstance(OnePartition.judge(facts), Passed)


def test_an_answer_that_never_returns_is_given_up():
    assert checks._within(0.1, time.sleep, 5) == ((), False)


@pytest.mark.parametrize(
    "events", [None, 5, [1, 2], [{"order_id": "O-1"}], ({"number": n} for n in count())]
)
def test_what_is_no_list_of_events_is_unreadable(events):
    with pytest.raises(Unreadable):
        checks._within(5, lambda: events)


def test_the_error_of_an_answer_is_the_learners_to_see():
    with pytest.raises(ZeroDivisionError):
        checks._within(5, lambda: 1 / 0)


class Receipt:
    """A message as Kafka's client hands it over."""

    def __init__(self, key, partition):
        self.key, self.partition = lambda: key, lambda: partition

    def value(self):
        return b'{"order_id": "O-1"}'


def test_receipts_become_a_table_of_places():
    table = placed([Receipt(b"c-1", 4), Receipt(None, 2)])
    assert table.to_dict("list") == {
        "order_id": ["O-1", "O-1"],
        "key": ["c-1", None],
        "partition": [4, 2],
        "bytes": [19, 19],
    }


def test_loads_and_measures_are_drawn():
    read = pd.DataFrame({"customer_id": [3, 9], "order_id": [6, 6]})
    assert draw_busy(read).startswith("<svg")
    measures = pd.DataFrame({"hottest": [1.0, 6.0], "split": [0, 512]}, index=["a", "b"])
    assert "512" in draw_measures(measures)


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


def test_the_orders_of_a_customer_come_from_two_days_and_an_order_from_one():
    events = pd.DataFrame(checks.two_days(seed=5))
    days = {
        key: events.groupby(key)["partition_date"].nunique() for key in ("customer_id", "order_id")
    }
    assert days["customer_id"].eq(2).sum() > 100 and days["order_id"].eq(1).all()


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
        (
            lambda events, size, readers: Sizing(events, size / 1.048576, readers, 0).needed,
            "are 1.02 MB/s; your 1 shards",
        ),
    ],
)
def test_a_wrong_sizing_is_told_the_limit_that_it_breaks(answer, reason):
    assert reason in judged(answer).reason
