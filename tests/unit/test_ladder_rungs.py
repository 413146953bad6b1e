"""The ladder's events are hard enough on every seed, and the right table is well defined."""

import json
from dataclasses import replace

import pytest

from lab_env.course import registry
from lab_env.lab.ladder.rungs import (
    DISTURBED,
    FALLS,
    IN_NOTEBOOK,
    RUNGS,
    SENDS,
    late_and_twice,
    malformed_between,
    with_new_field,
    with_only,
)
from lab_env.lab.ladder.target import target_of

SEEDS = range(30)
DAY = 86_400_000_000  # microseconds


def test_each_exercise_of_the_ladder_exists_and_its_function_can_be_called():
    for exercise_id in RUNGS:
        assert registry.exercise(exercise_id).id == exercise_id
        assert target_of(exercise_id).promise


def test_for_each_wrong_answer_the_table_says_where_it_falls():
    assert FALLS.keys() == RUNGS.keys()
    for exercise_id, falls in FALLS.items():
        assert len(falls) == len(registry.exercise(exercise_id).wrong), exercise_id
        assert all(IN_NOTEBOOK <= rung <= len(RUNGS[exercise_id]) for rung in falls)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_first_rung_has_late_events_resends_and_erasures_across_its_deliveries(seed):
    parts = late_and_twice(seed)
    assert sum(map(len, parts)) == SENDS and len(parts) > DISTURBED
    seen: dict[str, int] = {}
    late = erased = 0
    for part in parts:
        late += sum(s.kind == "late" and seen.get(s.order_id, 0) > s.order_ts for s in part)
        erased += sum(s.op == "erase" and s.order_id in seen for s in part)
        for send in part:
            seen[send.order_id] = max(seen.get(send.order_id, 0), send.order_ts)
    assert late and erased
    newest = max(send.order_ts for part in parts[:-1] for send in part)
    (very_late,) = {s.order_id for s in parts[-1] if s.order_ts < newest - 3_600_000_000}
    assert len({s.event_id for part in parts for s in part if s.order_id == very_late}) == 1
    sends = [send for part in parts for send in part]
    assert any(send.kind == "resend" for send in sends)
    days = {(send.order_id, send.order_ts // DAY) for send in sends}
    assert len(days) > len({order for order, _ in days}), "no order has events on two days"


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_of_an_order_follows_its_erasure(seed):
    for deliveries in (late_and_twice(seed), malformed_between(seed)):
        sends = [send for part in deliveries for send in part]
        gone: set[str] = set()
        for send in sends:
            assert send.order_id not in gone or send.kind.startswith("malformed")
            if send.op == "erase" and not send.kind.startswith("malformed"):
                gone.add(send.order_id)


@pytest.mark.parametrize("seed", SEEDS)
def test_between_good_messages_comes_a_delivery_of_malformed_ones_alone(seed):
    first, alone, last = malformed_between(seed)
    assert alone and all(s.kind.startswith("malformed") for s in alone)
    for part in (first, last):
        assert any(not send.kind.startswith("malformed") for send in part)
    assert any(send.kind.startswith("malformed") for send in (*first, *last))


def test_a_seed_gives_the_same_events_again():
    assert late_and_twice(17) == late_and_twice(17) != late_and_twice(18)


def test_a_rung_with_fewer_events_has_as_many_deliveries_and_none_is_empty():
    rung = RUNGS["04.2"][1]
    first, alone, last = rung.deliveries(17)
    small = with_only(rung, {last[0].send_id}).deliveries(17)
    assert [len(part) for part in small] == [1, 1, 1] and small[2] == [last[0]]
    assert small[0][0] in first and not small[0][0].kind.startswith("malformed")
    assert small[1] == [alone[0]]


def test_a_new_field_comes_after_the_first_delivery_and_changes_nothing_else():
    before, after = late_and_twice(3), with_new_field(3)
    assert after[0] == before[0]
    for old, new in zip(before[1] + before[2], after[1] + after[2], strict=True):
        assert json.loads(new.value) == json.loads(old.value) | {"coupon": "SPRING"}
        assert replace(new, value=old.value) == old
