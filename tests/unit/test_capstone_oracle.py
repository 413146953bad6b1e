"""The capstone's events and oracle: hand-computed cases, and properties that hold for any seed."""

import json
from decimal import Decimal
from functools import cache
from random import Random

import pytest

from lab_env.lessons.capstone import CLICKSTREAM, FRAUD, IOT, VARIANTS
from lab_env.lessons.capstone.story import CRASHES, DELIVERIES, FIRST, LATE, VERSION_2

SEEDS = (22, 917_345)
story_of = cache(lambda variant, seed: variant.story(seed))


def reading(event_id, ts, value, revision=0, device="D-01", op="reading"):
    at = f"2026-11-16T{ts}Z"
    return {"event_id": event_id, "op": op, "device_id": device, "ts": at, "revision": revision,
            "value": value, "received_at": at}  # fmt: skip


def payment(event_id, op, ts, cents, fee=0, received="", number="P-1", card="C-1"):
    ts = f"2026-11-{ts}:00:00Z"
    received = f"2026-11-{received}:00:00Z" if received else ts
    return {"event_id": event_id, "op": op, "payment_id": number, "card_id": card,
            "amount": cents, "fee": fee, "ts": ts, "received_at": received}  # fmt: skip


def view(event_id, ts, page="/", visitor="V-1"):
    at = f"2026-11-16T{ts}Z"
    return {"event_id": event_id, "op": "view", "visitor_id": visitor, "page": page, "ts": at,
            "received_at": at}  # fmt: skip


def as_tuples(frame):
    return list(frame.itertuples(index=False, name=None))


def test_the_highest_revision_wins_and_means_are_made_of_winners():
    events = [
        reading("a", "10:01:00", 4.0),
        reading("b", "10:04:59", 6.0),
        reading("c", "10:05:00", 8.0),
        reading("a2", "10:01:00", 5.0, revision=2),
        reading("a1", "10:01:00", 9.0, revision=1),
    ]
    found = IOT.oracle(events)
    assert {row["event_id"] for row in found["readings"].to_dict("records")} == {"a2", "b", "c"}
    assert as_tuples(found["latest"]) == [("D-01", "2026-11-16T10:05:00Z", 8.0)]
    assert as_tuples(found["means"]) == [
        ("D-01", "2026-11-16T10:00:00Z", 5.5),
        ("D-01", "2026-11-16T10:05:00Z", 8.0),
    ]


def test_what_is_forgotten_stays_away_whatever_arrives_later():
    forget = {"event_id": "f", "op": "forget", "device_id": "D-01", "received_at": ""}
    events = [reading("a", "10:00:00", 4.0), forget, reading("b", "10:01:00", 5.0)]
    other = reading("c", "10:00:00", 6.0, device="D-02")
    found = IOT.oracle([*events, other])
    assert list(found["readings"]["device_id"]) == ["D-02"]


def test_exposure_counts_fees_and_no_payment_that_was_charged_back():
    events = [
        payment("a", "pay", "17T08", 1_000, number="P-1"),
        payment("b", "change", "17T10", 2_010, number="P-1"),
        payment("c", "pay", "20T09", 500, fee=25, number="P-2"),
        payment("d", "pay", "17T08", 999, number="P-3"),
        payment("e", "chargeback", "19T08", 999, number="P-3"),
    ]
    found = FRAUD.oracle(events)
    assert as_tuples(found["exposure"]) == [("C-1", Decimal("25.35"))]
    assert as_tuples(found["known"]) == [("C-1", Decimal("30.09"))]


def test_known_is_what_was_received_by_then_not_what_had_happened():
    late = payment("b", "change", "17T10", 5_000, received="20T01")
    found = FRAUD.oracle([payment("a", "pay", "17T08", 1_000), late])
    assert as_tuples(found["known"]) == [("C-1", Decimal("10"))]
    assert as_tuples(found["exposure"]) == [("C-1", Decimal("50"))]


def test_a_session_ends_after_more_than_half_an_hour():
    events = [
        view("a", "10:00:00", "/search"),
        view("b", "10:30:00", "/help"),
        view("b", "10:30:00", "/help"),
        view("c", "11:00:01", "/basket"),
    ]
    day = "2026-11-16T"
    assert as_tuples(CLICKSTREAM.oracle(events)["sessions"]) == [
        ("V-1", f"{day}10:00:00Z", f"{day}10:30:00Z", 2, "/search"),
        ("V-1", f"{day}11:00:01Z", f"{day}11:00:01Z", 1, "/basket"),
    ]


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=list(VARIANTS))
@pytest.mark.parametrize("seed", SEEDS)
class TestEveryStory:
    def test_the_seed_decides_and_another_one_differs(self, variant, seed):
        messages = story_of(variant, seed).messages()
        assert variant.story(seed).messages() == messages
        assert variant.story(seed + 1).messages() != messages

    def test_the_order_of_arrival_does_not_change_the_truth(self, variant, seed):
        events = story_of(variant, seed).events()
        shuffled = Random(seed).sample(events, len(events))
        right, found = variant.oracle(events), variant.oracle(shuffled)
        for name, frame in right.items():
            order = list(frame.columns[:2])
            one, other = (f.sort_values(order).to_dict("records") for f in (frame, found[name]))
            assert one == other

    def test_a_resend_is_the_same_bytes_and_changes_nothing(self, variant, seed):
        messages = story_of(variant, seed).messages()
        resends = [sent for sent in messages if sent.send.kind == "resend"]
        others = [s for s in messages if s.event is not None and s.send.kind != "resend"]
        first = {sent.send.event_id: sent.send.value for sent in reversed(others)}
        assert len(resends) > 20
        assert all(first[sent.send.event_id] == sent.send.value for sent in resends)
        once = {sent.send.event_id: sent.event for sent in messages if sent.event is not None}
        every = story_of(variant, seed).events()
        rows = [variant.oracle(events)[variant.rows.name] for events in (once.values(), every)]
        assert len(rows[0]) == len(rows[1])

    def test_each_phase_has_something_to_find_out(self, variant, seed):
        story = story_of(variant, seed)
        assert set(story.deliveries) == set(DELIVERIES)
        for name in DELIVERIES:
            assert any(sent.event is None for sent in story.deliveries[name]), name
        before = story.events((FIRST, *CRASHES))
        after = story.events((FIRST, *CRASHES, LATE))
        gone = variant.forgotten(after)
        assert len(gone) == 2 and len(variant.forgotten(before)) == 1
        late = (e for e in story.events([LATE]) if e["op"] != variant.forget_op)
        assert set(gone) <= {e[variant.entity] for e in late}
        newest = {e["event_id"] for e in variant.winners(story.events()).values()}
        assert all(newest & {e["event_id"] for e in story.events([name])} for name in DELIVERIES)

    def test_late_versions_would_overwrite_newer_ones(self, variant, seed):
        story = story_of(variant, seed)
        events = (event for event in story.events() if event["op"] != variant.forget_op)
        last = {variant.key_of(event): event["event_id"] for event in events}
        stale = [k for k, e in variant.winners(story.events()).items() if last[k] != e["event_id"]]
        assert len(stale) >= 5 or variant is CLICKSTREAM  # a view has one version

    def test_version_2_looks_otherwise(self, variant, seed):
        messages = story_of(variant, seed).deliveries[VERSION_2]
        valid = (json.loads(sent.send.value) for sent in messages if sent.event is not None)
        assert sum(bool({"unit", "fee", "view"} & set(fields)) for fields in valid) > 20
