"""Lesson 15's hidden data contains the cases in which shortcuts give a wrong answer."""

import random
from collections import Counter

import pytest

from lab_env.lessons.l15.checks import (
    TOLERANCE_BYTES,
    made_up_changes,
    made_up_records,
    made_up_slots,
    versions_of,
)

SEEDS = pytest.mark.parametrize("seed", range(20))


@SEEDS
def test_made_up_records_have_deletes_tombstones_and_a_read_without_lsn(seed):
    records, changes = made_up_records(random.Random(seed))
    assert sum(change[-1] for change in changes) == sum(r[1] is None for r in records) == 3
    assert sum(b'"lsn": null' in value for _, value, *_ in records if value) == 1
    assert len({change[8] for change in changes}) == len(changes)
    assert max(Counter(change[0] for change in changes).values()) > 1


@SEEDS
def test_kept_and_confirmed_bytes_differ_by_more_than_the_tolerance(seed):
    slots = made_up_slots(random.Random(seed), end=17_000_000)
    ahead = [done - start for *_, start, done, _ in slots if start is not None and done is not None]
    assert min(ahead) > 5 * TOLERANCE_BYTES


@SEEDS
def test_one_made_up_order_changes_its_amount_alone_and_one_commits_out_of_order(seed):
    changes = made_up_changes(random.Random(seed))
    versions, by_lsn = versions_of(changes, (5, 6)), versions_of(changes, (6,))
    assert len({change[-1] for change in changes}) == len({*changes}) < len(changes)
    assert sum(versions[order] != by_lsn[order] for order in versions) == 1
    without_amount = [(order, status, 0, *rest) for order, status, _, *rest in changes]
    counts = [sum(map(len, v.values())) for v in (versions, versions_of(without_amount, (5, 6)))]
    assert counts[1] == counts[0] - 1
