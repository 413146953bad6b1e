"""Lesson 20 judges a rule by its verdicts on rounds, and an option by answers before bytes."""

import pytest

from lab_env.course.answers import Unreadable
from lab_env.course.checking import NotYet, Passed
from lab_env.lessons.l20.checks import Judged, Lighter, TheSameAnswersForLess, WhenIsItADifference

RIGHT = ("lower", "higher", "equal", *["inconclusive"] * 5)


def test_the_rule_with_both_halves_passes():
    assert isinstance(WhenIsItADifference.judge(Judged(RIGHT)), Passed)


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (0, "you say 'higher', it is 'lower'"),
        (2, "All rounds gave the same figure"),
        (3, "the rounds are not"),
        (4, "the medians alone"),
        (5, "varies by itself by 0.9"),
        (6, "lies above one of the second"),
        (7, "lies below one of the second"),
    ],
)
def test_each_half_that_is_missing_gets_its_reason(case, reason):
    answers = [*RIGHT]
    answers[case] = "higher"
    outcome = WhenIsItADifference.judge(Judged(tuple(answers)))
    assert isinstance(outcome, NotYet) and reason in outcome.reason


@pytest.mark.parametrize("answer", [None, 1, ["lower", "higher"], "faster"])
def test_a_verdict_is_one_of_four_words(answer):
    with pytest.raises(Unreadable, match="One of 'lower', 'higher', 'equal', 'inconclusive'"):
        WhenIsItADifference.judge(Judged((answer, *RIGHT[1:])))


def test_less_than_half_with_right_answers_passes():
    assert isinstance(TheSameAnswersForLess.judge(Lighter("1000", 400, [])), Passed)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (Lighter(1000, 900, ()), "still writes 90% of the bytes: not half"),
        (Lighter(1000, 100, ("aggregate: 3 is not 4",)), "wrong answers: aggregate: 3 is not 4"),
    ],
)
def test_a_knob_that_does_not_help_or_harms_gets_its_reason(facts, reason):
    outcome = TheSameAnswersForLess.judge(facts)
    assert isinstance(outcome, NotYet) and reason in outcome.reason


def test_bytes_that_are_no_number_are_named():
    with pytest.raises(Unreadable, match="A number is expected"):
        TheSameAnswersForLess.judge(Lighter(1000, None, ()))
