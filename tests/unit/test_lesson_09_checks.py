"""Lesson 09 judges by what queries really returned: each mistake has its own reason."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from lab_env.course.answers import Unreadable
from lab_env.course.checking import NotYet, Passed
from lab_env.lessons.l09.checks import (
    ALL_FILES,
    BEFORE,
    ERASE,
    NEW_DAY,
    NOW,
    READ_OPTIMISED,
    UPDATE,
    RevenueOfATrueState,
    SeenByReadOptimised,
    ThreeWrites,
    Totals,
)

SEEN = {UPDATE: False, ERASE: False, NEW_DAY: True}
WRITES = ThreeWrites(SEEN, SEEN)
TOTALS = Totals(NOW, NOW)


def reason_of(verdict) -> str:
    assert isinstance(verdict, NotYet)
    return verdict.reason


@pytest.mark.parametrize("no, yes", [(False, True), ("no", "yes"), (np.False_, np.True_)])
def test_only_the_base_file_of_the_new_day_is_seen(no, yes):
    answer = {UPDATE: no, ERASE: no, NEW_DAY: yes}
    assert isinstance(SeenByReadOptimised.judge(replace(WRITES, answer=answer)), Passed)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (dict.fromkeys(SEEN, False), "as of its last compaction"),
        (SEEN | {UPDATE: True}, "says that O-17 is new"),
        (SEEN | {ERASE: True}, "still returns O-18"),
        ({UPDATE: True, ERASE: False, NEW_DAY: False}, "says that O-17 is new"),
    ],
)
def test_another_answer_gets_its_reason(answer, reason):
    assert reason in reason_of(SeenByReadOptimised.judge(replace(WRITES, answer=answer)))


@pytest.mark.parametrize("answer", [SEEN | {NEW_DAY: "later"}, {UPDATE: False}])
def test_an_answer_without_true_or_false_is_unreadable(answer):
    with pytest.raises(Unreadable, match="True or False is expected"):
        SeenByReadOptimised.judge(replace(WRITES, answer=answer))


def test_a_new_day_that_is_missed_is_explained_when_something_else_is_seen():
    seen = {UPDATE: False, ERASE: True, NEW_DAY: True}
    facts = ThreeWrites(seen | {NEW_DAY: False}, seen)
    assert "O-1300 is in the answer" in reason_of(SeenByReadOptimised.judge(facts))


def test_the_newest_total_for_both_names_passes():
    verdict = RevenueOfATrueState.judge(TOTALS)
    assert isinstance(verdict, Passed) and verdict.note.startswith("229.00 for both names")


@pytest.mark.parametrize(
    ("plain", "suffixed", "reason"),
    [
        (BEFORE, BEFORE, "For the table you return 210.00"),
        (BEFORE, NOW, "right before the last commit"),
        (NOW, BEFORE, "For its _ro name you return 210.00"),
        (NOW, READ_OPTIMISED, "mixes two commits"),
        (ALL_FILES, ALL_FILES, "an older base file counts"),
        (NOW, Decimal("1"), "For its _ro name you return 1; the table says 229.00. Add"),
    ],
)
def test_another_total_gets_its_reason(plain, suffixed, reason):
    assert reason in reason_of(RevenueOfATrueState.judge(Totals(plain, suffixed)))


def test_the_ways_to_be_wrong_give_different_totals():
    assert len({BEFORE, NOW, READ_OPTIMISED, ALL_FILES}) == 4
