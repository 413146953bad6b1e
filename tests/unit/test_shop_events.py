"""Each malformed event is wrong in exactly the way that its kind says."""

from datetime import datetime
from random import Random

import orjson
import pytest

from lab_env.shop.events import EVENT_DDL, FIELDS, MALFORMED_KINDS, MAX_EVENT_BYTES, OPS, malform
from lab_env.shop.model import generate

GOOD = [send.value for send in generate(200, seed=1, malformed=0, duplicate=0)]
READABLE = {
    "wrong_type",
    "missing_key",
    "null_key",
    "unknown_op",
    "negative_amount",
    "impossible_timestamp",
    "oversized",
}


def made(kind):
    rng = Random(3)
    return [(good, malform(kind, good, rng)) for good in GOOD]


def differing_fields(good, bad):
    good, bad = orjson.loads(good), orjson.loads(bad)
    return {name for name in good.keys() | bad.keys() if good.get(name) != bad.get(name)}


def test_there_are_ten_kinds():
    assert len(MALFORMED_KINDS) == 10 and len(set(MALFORMED_KINDS)) == 10


def test_a_good_event_is_none_of_them():
    for good in GOOD:
        event = orjson.loads(good)
        assert event["op"] in OPS and event["amount"] >= 0 and len(good) <= MAX_EVENT_BYTES


def test_the_schema_for_spark_names_the_fields_in_their_order():
    columns = EVENT_DDL.replace("DECIMAL(12,2)", "DECIMAL").split(", ")
    assert tuple(column.split()[0] for column in columns) == FIELDS


@pytest.mark.parametrize("kind", ["not_json", "empty", "truncated"])
def test_unreadable_kinds_are_not_json(kind):
    for _, bad in made(kind):
        with pytest.raises(orjson.JSONDecodeError):
            orjson.loads(bad)


def test_a_truncated_event_is_the_beginning_of_the_good_one():
    assert all(good.startswith(bad) and 0 < len(bad) < len(good) for good, bad in made("truncated"))


def test_what_is_not_json_does_not_look_like_the_beginning_of_an_object():
    assert not any(bad.lstrip().startswith(b"{") for _, bad in made("not_json"))


def test_an_empty_event_holds_nothing_but_blanks():
    assert {bad.strip() for _, bad in made("empty")} == {b""}


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        ("wrong_type", "amount"),
        ("missing_key", "order_id"),
        ("null_key", "order_id"),
        ("unknown_op", "op"),
        ("negative_amount", "amount"),
        ("impossible_timestamp", "order_ts"),
        ("oversized", "note"),
    ],
)
def test_readable_kinds_are_wrong_in_one_field_only(kind, field):
    assert {frozenset(differing_fields(good, bad)) for good, bad in made(kind)} == {
        frozenset([field])
    }


def test_each_readable_kind_has_its_own_fault():
    for kind in READABLE:
        for _, bad in made(kind):
            assert faults(bad) == {kind}


def faults(value):
    event = orjson.loads(value)
    found = set()
    if "order_id" not in event:
        found.add("missing_key")
    elif event["order_id"] is None:
        found.add("null_key")
    if event["op"] not in OPS:
        found.add("unknown_op")
    if not isinstance(event["amount"], float) or isinstance(event["amount"], bool):
        found.add("wrong_type")
    elif event["amount"] < 0:
        found.add("negative_amount")
    try:
        if not 2020 <= datetime.fromisoformat(event["order_ts"]).year <= 2030:
            found.add("impossible_timestamp")
    except ValueError:
        found.add("impossible_timestamp")
    if len(value) > MAX_EVENT_BYTES:
        found.add("oversized")
    return found


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="haunted"):
        malform("haunted", GOOD[0], Random(1))
