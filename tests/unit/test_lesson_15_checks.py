"""Lesson 15 judges rows, queries and histories on made-up data: each mistake has its own reason."""

import random
from collections import Counter
from dataclasses import replace

import pytest

from lab_env.course.checking import NotYet, Passed
from lab_env.lessons.l15.checks import (
    DeleteByHand,
    Deleted,
    Envelopes,
    EnvelopeToRow,
    Followed,
    FollowTheTopic,
    Histories,
    Slots,
    SurvivesAReplay,
    TheAlarm,
    made_up_changes,
    made_up_records,
    made_up_slots,
    versions_of,
)

RECORDS, CHANGES = made_up_records(random.Random(15))
TOMBSTONES = sum(value is None for _, value, *_ in RECORDS)
DELETE = next(change for change in CHANGES if change.deleted)
FOLLOWED = Followed(batches=(503, 501), again=0, records=1004, limit=503)
KEPT = {"orders_10": 9_000_000, "stock_20": 4_000_000}
CONFIRMED = {"orders_10": 3_000_000, "stock_20": 1_000_000}


def envelopes(rows, kind="decimal(12,2)"):
    return Envelopes(tuple(CHANGES), tuple(rows), TOMBSTONES, kind)


def reason_of(verdict) -> str:
    assert isinstance(verdict, NotYet)
    return verdict.reason


def without(change):
    return [row for row in CHANGES if row is not change]


def test_a_row_for_each_change_passes_in_any_order():
    assert isinstance(EnvelopeToRow.judge(envelopes(reversed(CHANGES))), Passed)


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (
            [*CHANGES, *(replace(DELETE, order_id=None, lsn=None) for _ in range(TOMBSTONES))],
            f"{TOMBSTONES} rows without a key",
        ),
        (without(DELETE), f"{DELETE.order_id} lives: no row says that it was deleted"),
        (
            [*without(DELETE), replace(DELETE, deleted=False)],
            f"{DELETE.order_id} lives: the row of its delete is not marked",
        ),
        ([*CHANGES[1:], replace(CHANGES[0], deleted=True)], "its change is no delete"),
        ([*CHANGES[1:], replace(CHANGES[0], lsn=None)], "1 rows have no `lsn`"),
        (CHANGES[1:], f"{len(CHANGES)} changes, {len(CHANGES) - 1} rows"),
        ([*CHANGES, CHANGES[0]], f"{len(CHANGES)} changes, {len(CHANGES) + 1} rows"),
        ([*CHANGES[1:], replace(CHANGES[0], status="lost")], "your row says lost"),
        ([*CHANGES[1:], replace(CHANGES[0], commit_lsn=0)], "commit_lsn of"),
    ],
)
def test_a_row_that_is_not_the_change_gets_its_reason(rows, reason):
    assert reason in reason_of(EnvelopeToRow.judge(envelopes(rows)))


def test_money_in_binary_is_refused():
    assert "money needs a decimal" in reason_of(EnvelopeToRow.judge(envelopes(CHANGES, "double")))


@pytest.mark.parametrize("seed", range(20))
def test_made_up_records_have_deletes_tombstones_and_a_read_without_lsn(seed):
    records, changes = made_up_records(random.Random(seed))
    assert sum(change.deleted for change in changes) == sum(r[1] is None for r in records) == 3
    assert sum(b'"lsn": null' in value for _, value, *_ in records if value) == 1
    assert len({change.lsn for change in changes}) == len(changes)
    assert max(Counter(change.order_id for change in changes).values()) > 1


def test_everything_once_in_bounded_batches_passes():
    assert isinstance(FollowTheTopic.judge(FOLLOWED), Passed)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"batches": (), "active": False}, "a new stream begins at the end of the topic"),
        ({"again": 1004}, "1,004 records once more"),
        ({"batches": (1004,)}, "a batch had 1,004 records: pass `limits` on"),
        ({"batches": (503,)}, "The topic has 1,004 records; `apply` got 503"),
        ({"batches": (503,), "active": True}, "was still running"),
    ],
)
def test_a_stream_that_misses_repeats_or_goes_on_gets_its_reason(change, reason):
    assert reason in reason_of(FollowTheTopic.judge(replace(FOLLOWED, **change)))


def test_the_bytes_kept_pass_though_the_log_has_grown_meanwhile():
    answer = {name: kept + 5_000 for name, kept in KEPT.items()} | {"old": None}
    assert isinstance(TheAlarm.judge(Slots(answer, KEPT, CONFIRMED)), Passed)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (CONFIRMED, "What the reader has confirmed, not what is kept: orders_10"),
        ({"orders_10": True, "stock_20": False}, "how many bytes are kept"),
        ({"orders_10": 9_000_000}, "has a slot stock_20, which keeps 4,000,000 bytes"),
        ({"orders_10": 1, "stock_20": 2}, "orders_10 keeps 9,000,000 bytes; your query says 1"),
    ],
)
def test_another_number_than_the_bytes_kept_gets_its_reason(answer, reason):
    assert reason in reason_of(TheAlarm.judge(Slots(answer, KEPT, CONFIRMED)))


@pytest.mark.parametrize("seed", range(20))
def test_what_made_up_slots_keep_and_confirm_differs_by_far_more_than_the_tolerance(seed):
    slots = made_up_slots(random.Random(seed), end=17_000_000)
    tolerance = Slots({}, {}, {}).tolerance
    kept = [flushed - restart for _, _, restart, flushed, _ in slots if restart is not None]
    assert min(kept) > 5 * tolerance


def history_of(made, seed=15):
    changes = made_up_changes(random.Random(seed))
    expected, by_lsn = versions_of(changes, (5, 6)), versions_of(changes, (6,))
    lsns = frozenset(change[-1] for change in changes)
    return Histories(made(expected), expected, by_lsn, lsns)


def test_the_versions_that_the_database_made_pass():
    assert isinstance(SurvivesAReplay.judge(history_of(lambda expected: expected)), Passed)


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (
            lambda expected: {
                name: [(*version[:3], None) for version in versions]
                for name, versions in expected.items()
            },
            "3 current versions",
        ),
        (
            lambda expected: {name: versions[-1:] for name, versions in expected.items()},
            "versions, the database made",
        ),
        (
            lambda expected: {
                name: [(status, amount, 1795370596279, end) for status, amount, _, end in versions]
                for name, versions in expected.items()
            },
            "1795370596279, which is no LSN of a change",
        ),
        (
            lambda expected: {
                name: [("new", *version[1:]) for version in versions]
                for name, versions in expected.items()
            },
            "you have new",
        ),
        (lambda expected: {name: [] for name in expected}, "and so is another amount"),
        (
            lambda expected: {
                name: [version for version in versions for _ in range(2) if version[3] or _]
                for name, versions in expected.items()
            },
            "A change that comes twice",
        ),
    ],
)
def test_other_versions_get_their_reason(made, reason):
    assert reason in reason_of(SurvivesAReplay.judge(history_of(made)))


def test_an_order_by_lsn_alone_is_told_that_commits_come_first():
    changes = made_up_changes(random.Random(15))
    reason = reason_of(SurvivesAReplay.judge(history_of(lambda _: versions_of(changes, (6,)))))
    assert "By `lsn` alone" in reason and "is new" in reason and "database says paid" in reason


@pytest.mark.parametrize("seed", range(20))
def test_in_made_up_changes_no_short_cut_gives_the_versions(seed):
    changes = made_up_changes(random.Random(seed))
    expected = versions_of(changes, (5, 6))
    once = set(changes)
    versions = sum(map(len, expected.values()))
    assert versions < len(once) < len(changes)
    assert len({change[-1] for change in once}) == len(once)
    assert any(versions and versions[-1][3] is not None for versions in expected.values())
    of_one_amount = {(order, *rest) for order, *rest in ((c[0], c[1], c[4], *c[5:]) for c in once)}
    without = [(order, status, 0, "", *rest) for order, status, *rest in of_one_amount]
    assert sum(map(len, versions_of(without, (5, 6)).values())) == versions - 1
    different = [
        order for order in expected if versions_of(changes, (6,))[order] != expected[order]
    ]
    assert len(different) == 1
    assert all(begin < (end or begin + 1) for v in expected.values() for _, _, begin, end in v)


GONE = Deleted(("O-3", "O-7"), others=8)


def test_orders_that_are_gone_from_the_same_table_pass():
    verdict = DeleteByHand.judge(GONE)
    assert isinstance(verdict, Passed) and "O-3, O-7 are gone, and the 8 others" in verdict.note


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"left": ("O-7",)}, "O-7 are still there"),
        ({"missing": ("O-1", "O-2")}, "Of 8 rows that were to stay, 2 others are missing"),
        ({"changed": ("O-5",)}, "O-5 was not to be touched"),
        ({"same_table": False}, "a new table"),
    ],
)
def test_a_delete_that_leaves_or_takes_too_much_gets_its_reason(facts, reason):
    assert reason in reason_of(DeleteByHand.judge(replace(GONE, **facts)))
