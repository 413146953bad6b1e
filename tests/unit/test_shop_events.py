"""Each kind of malformed event is invalid in exactly the way that its name states."""

from datetime import datetime
from random import Random

import orjson
import pytest

from lab_env.pipeline.messages import Malformed, read_event
from lab_env.shop.events import EVENT_DDL, FIELDS, MALFORMED_KINDS, malform
from lab_env.shop.model import generate

SENDS = list(generate(200, seed=1, malformed=0, duplicate=0))
ONLY_FIELD = {
    "wrong_type": "amount",
    "missing_key": "order_id",
    "null_key": "order_id",
    "unknown_op": "op",
    "negative_amount": "amount",
    "impossible_timestamp": "order_ts",
    "oversized": "note",
}


def made(kind):
    rng = Random(3)
    return [(send.value, malform(kind, send.value, rng)) for send in SENDS]


def test_a_good_event_is_valid():
    for send in SENDS:
        row, unknown = read_event(send.value, send.at)
        assert (row[0], row[1], unknown) == (send.event_id, send.op, None)
        assert row[7] == datetime.fromisoformat(orjson.loads(send.value)["order_ts"][:-1])


@pytest.mark.parametrize("kind", MALFORMED_KINDS)
def test_a_malformed_event_is_refused_with_its_kind_as_the_reason(kind):
    for (_, bad), send in zip(made(kind), SENDS, strict=True):
        with pytest.raises(Malformed) as refused:
            read_event(bad, send.at)
        assert refused.value.args == (kind,)


def test_the_schema_for_spark_names_the_fields_in_their_order():
    columns = EVENT_DDL.replace("DECIMAL(12,2)", "DECIMAL").split(", ")
    assert tuple(column.split()[0] for column in columns) == FIELDS


@pytest.mark.parametrize("kind", MALFORMED_KINDS)
def test_a_kind_is_unreadable_or_wrong_in_one_field_only(kind):
    for good, bad in made(kind):
        if kind in ONLY_FIELD:
            old, new = orjson.loads(good), orjson.loads(bad)
            names = {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
            assert names == {ONLY_FIELD[kind]}
        else:
            with pytest.raises(orjson.JSONDecodeError):
                orjson.loads(bad)


def test_a_truncated_event_is_the_beginning_of_the_good_one():
    assert all(good.startswith(bad) and 0 < len(bad) < len(good) for good, bad in made("truncated"))


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="haunted"):
        malform("haunted", SENDS[0].value, Random(1))
