"""Each kind of malformed event is invalid in exactly the way that its name states."""

from datetime import datetime
from random import Random

import orjson
import pytest

from lab_env.pipeline.messages import Malformed, read_event
from lab_env.shop.events import MALFORMED_KINDS, malform
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


def test_a_good_event_is_valid():
    for send in SENDS:
        row, unknown = read_event(send.value, send.at)
        assert (row[0], row[1], unknown) == (send.event_id, send.op, None)
        assert row[7] == datetime.fromisoformat(orjson.loads(send.value)["order_ts"][:-1])


@pytest.mark.parametrize("kind", MALFORMED_KINDS)
def test_a_malformed_event_is_wrong_in_one_way_only_the_one_for_which_it_is_refused(kind):
    rng = Random(3)
    for send in SENDS:
        bad = malform(kind, send.value, rng)
        with pytest.raises(Malformed) as refused:
            read_event(bad, send.at)
        assert refused.value.args == (kind,)
        if kind in ONLY_FIELD:
            old, new = orjson.loads(send.value), orjson.loads(bad)
            names = {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
            assert names == {ONLY_FIELD[kind]}
        else:
            with pytest.raises(orjson.JSONDecodeError):
                orjson.loads(bad)


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="haunted"):
        malform("haunted", SENDS[0].value, Random(1))
