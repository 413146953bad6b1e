"""The shop's events follow the rules that the ledger's verdicts rely on."""

from collections import Counter, defaultdict
from datetime import datetime
from itertools import pairwise

import orjson
import pytest

from lab_env.platform.errors import LabError
from lab_env.shop.events import FIELDS, MALFORMED_KINDS, OPS, STATUSES
from lab_env.shop.model import OrderModel, Shares, SimulatedClock, WallClock, generate

HORIZON = 5_000_000
SHARES = {
    "update": 0.30,
    "cancel": 0.03,
    "erase": 0.02,
    "late": 0.10,
    "duplicate": 0.05,
    "malformed": 0.02,
    "lateness_seconds": 5.0,
}


@pytest.fixture(scope="module")
def sends():
    return list(generate(40_000, seed=7, **SHARES))


@pytest.fixture(scope="module")
def valid(sends):
    return [send for send in sends if not send.kind.startswith("malformed")]


@pytest.fixture(scope="module")
def by_order(sends):
    return _by_order(sends)


def test_every_valid_send_carries_the_whole_event(valid):
    for send in valid[:5_000]:
        event = orjson.loads(send.value)
        assert tuple(event) == FIELDS
        assert (event["event_id"], event["op"]) == (send.event_id, send.op)
        assert event["order_id"] == send.order_id == send.key
        assert event["status"] in STATUSES
        micros = datetime.fromisoformat(event["order_ts"]).timestamp() * 1e6
        assert round(micros) == send.order_ts
        assert b'"amount":%.2f,' % event["amount"] in send.value


def test_no_two_events_of_an_order_have_the_same_time_or_run_backwards(by_order):
    for order in by_order.values():
        stamped = {send.event_id: send.order_ts for send in order}
        assert len(set(stamped.values())) == len(stamped)
        in_order = [stamped[event_id] for event_id in sorted(stamped)]  # event ids count upwards
        assert in_order == sorted(stamped.values())


def test_event_times_rise_even_when_the_clock_stands_still():
    model = OrderModel(3, Shares.of(**SHARES), "w", SimulatedClock(1_800_000_000_000_000))
    test_no_two_events_of_an_order_have_the_same_time_or_run_backwards(
        _by_order(model.next() for _ in range(3_000))
    )


def _by_order(sends):
    orders = defaultdict(list)
    for send in sends:
        if not send.kind.startswith("malformed"):
            orders[send.order_id].append(send)
    return orders


def test_the_first_event_of_an_order_creates_it_on_its_partition_date(by_order):
    for order in by_order.values():
        first = orjson.loads(order[0].value)
        assert first["op"] == "create"
        assert first["partition_date"] == first["order_ts"][:10]


def test_the_partition_date_of_an_order_never_changes():
    sends = generate(20_000, seed=2, rate=5, start="2026-01-05T23:30:00Z", malformed=0)
    dates = defaultdict(set)
    for send in sends:
        dates[send.order_id].add(orjson.loads(send.value)["partition_date"])
    assert all(len(of_order) == 1 for of_order in dates.values())
    assert len(set.union(*dates.values())) > 1


def test_a_late_event_was_overtaken_by_a_newer_one_of_its_order(by_order):
    late = 0
    for order in by_order.values():
        for place, send in enumerate(order):
            if send.kind == "late":
                late += 1
                assert max(earlier.order_ts for earlier in order[:place]) > send.order_ts
    assert late > 500


def test_no_event_arrives_later_than_the_horizon(valid):
    step = 10_000  # the stream's own resolution: a send may wait for the next tick of the clock
    assert max(send.at - send.order_ts for send in valid) < HORIZON + step
    assert max(send.at - send.order_ts for send in valid) > HORIZON / 2


def test_a_resend_has_the_bytes_of_the_first_send(valid):
    first = {send.event_id: send.value for send in valid if send.kind != "resend"}
    resends = [send for send in valid if send.kind == "resend"]
    assert len(resends) > 1_000
    assert all(send.value == first[send.event_id] for send in resends)


def test_an_erase_waits_until_the_order_has_been_quiet_for_the_horizon(by_order):
    erased = 0
    for order in by_order.values():
        for before, send in pairwise(order):
            if send.op == "erase":
                erased += 1
                assert send.at - before.at > HORIZON
    assert erased > 300


def test_an_erase_stays_the_last_word_when_the_sender_stalls():
    clock = SimulatedClock(1_800_000_000_000_000)
    model = OrderModel(5, Shares.of(**SHARES | {"erase": 0.3}), "w", clock)
    sends = []
    for turn in range(20_000):
        clock.advance(20_000_000 if turn % 500 == 0 else 2_000)
        sends.append(model.next())
    sends += model.drain()
    orders = _by_order(sends)
    assert sum(order[-1].op == "erase" for order in orders.values()) > 500
    assert not any(send.op == "erase" for order in orders.values() for send in order[:-1])


def test_nothing_is_held_back_after_the_drain():
    model = OrderModel(1, Shares.of(**SHARES), "w", WallClock())
    made = [model.next() for _ in range(3_000)]
    drained = list(model.drain())
    assert {send.kind for send in drained} == {"late", "resend"}
    assert not list(model.drain())
    assert len({send.send_id for send in made + drained}) == 3_000 + len(drained)


def test_the_shares_are_those_asked_for(sends):
    settled = [send for send in sends if send.at > sends[0].at + 4 * HORIZON]  # erasures start late
    new = [send for send in settled if send.kind != "resend"]
    good = [send for send in new if "malformed" not in send.kind]
    kinds = {send.kind.partition(":")[2] for send in new} - {""}
    assert kinds == set(MALFORMED_KINDS)
    ops = Counter(send.op for send in good)
    assert set(ops) == set(OPS)
    for op, share in (("update", 0.30), ("cancel", 0.03), ("erase", 0.02), ("create", 0.65)):
        assert ops[op] / len(good) == pytest.approx(share, rel=0.1), op
    late = sum(send.kind == "late" for send in good)
    assert late / ops["update"] == pytest.approx(0.10, rel=0.1)
    assert (len(new) - len(good)) / len(new) == pytest.approx(0.02, rel=0.15)
    assert (len(settled) - len(new)) / len(good) == pytest.approx(0.05, rel=0.1)


@pytest.mark.parametrize(
    ("overrides", "word"),
    [
        ({"update": 0.9, "cancel": 0.2}, "add up"),
        ({"late": 1.5}, "late=1.5"),
        ({"lateness_seconds": -1}, "lateness_seconds=-1"),
        ({"malfomed": 0.1}, "malfomed"),
    ],
)
def test_impossible_shares_are_refused_by_name(overrides, word):
    with pytest.raises(LabError, match=word):
        Shares.of(**overrides)
