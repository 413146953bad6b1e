"""Lesson 02: where messages with a key lie, and the events and loads that its checks make up."""

from random import Random

import pandas as pd
import pytest

from lab_env.course.answers import Unreadable
from lab_env.lessons.l02 import checks
from lab_env.shop.skew import CELEBRITY, marketplace_events


def test_the_check_sends_keys_of_every_form_that_the_client_takes():
    keys = {type(checks.key_of_the_check(event)) for event in marketplace_events(100)}
    assert keys == {str, bytes, type(None)}


@pytest.mark.parametrize(
    ("key", "hashed"),
    [(b"21", -973932308), ("foobar", -790332482), ("a-little-bit-long-string", -985981536)],
)
def test_a_key_lies_where_the_hash_of_the_java_client_says(key, hashed):
    assert checks.place_of(key, 2**31) == hashed & 0x7FFFFFFF


def test_a_key_that_is_no_text_is_unreadable():
    with pytest.raises(Unreadable):
        checks.place_of(7, 3)


def test_the_orders_of_a_customer_come_from_two_days_and_an_order_from_one():
    events = pd.DataFrame(checks.two_days(seed=5))
    days = {
        key: events.groupby(key)["partition_date"].nunique() for key in ("customer_id", "order_id")
    }
    assert days["customer_id"].eq(2).sum() > 100 and days["order_id"].eq(1).all()


def test_each_limit_decides_a_load():
    deciding = set()
    for events, size, applications in checks.loads(Random(3)):
        written = events * size / 1e6
        limits = {"events": events / 1000, "bytes": written, "readers": written * applications / 2}
        deciding.add(max(limits, key=limits.get))
    assert deciding == {"events", "bytes", "readers"}


def test_the_marketplace_is_the_same_each_time_and_has_a_celebrity():
    events = marketplace_events(2_000)
    assert events == marketplace_events(2_000)
    share = sum(event["customer_id"] == CELEBRITY for event in events) / len(events)
    assert 0.3 < share < 0.45
    owners = {}
    for one in events:
        assert owners.setdefault(one["order_id"], one["customer_id"]) == one["customer_id"]
