"""Lesson 20 judges a rule by what it says of rounds, and a knob by the answers before the bytes."""

import pytest

from lab_env.course.checking import NotYet, Passed
from lab_env.lessons.l20.checks import (
    Judged,
    Lighter,
    TheSameAnswersForLess,
    WhenIsItADifference,
)

RIGHT = ("lower", "higher", "inconclusive", "inconclusive", "inconclusive")


@pytest.mark.parametrize("same_rounds", ["equal", "inconclusive"])
def test_the_rule_passes_with_either_word_for_rounds_that_are_all_the_same(same_rounds):
    verdicts = (*RIGHT[:2], same_rounds, *RIGHT[3:])
    assert isinstance(WhenIsItADifference.judge(Judged(verdicts)), Passed)


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        (0, "you say None, it is 'lower'"),
        (2, "it is 'equal'"),
        (3, "the medians alone"),
        (4, "varies by itself by 0.9"),
    ],
)
def test_each_half_that_is_missing_gets_its_reason(place, reason):
    said = [*RIGHT]
    said[place] = None
    verdict_ = WhenIsItADifference.judge(Judged(tuple(said)))
    assert isinstance(verdict_, NotYet) and reason in verdict_.reason


def test_less_than_half_with_right_answers_passes():
    assert isinstance(TheSameAnswersForLess.judge(Lighter(1000, 400, ())), Passed)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (Lighter(1000, 900, ()), "still writes 90% of the bytes: not half"),
        (Lighter(1000, 100, ("aggregate: 3 is not 4",)), "wrong answers: aggregate: 3 is not 4"),
    ],
)
def test_a_knob_that_does_not_help_or_harms_gets_its_reason(facts, reason):
    verdict_ = TheSameAnswersForLess.judge(facts)
    assert isinstance(verdict_, NotYet) and reason in verdict_.reason
