"""Lesson 22's checks judge facts, and give reasons with the learner's own numbers."""

import pytest

from lab_env.course.answers import Unreadable
from lab_env.course.checking import NotYet, Passed
from lab_env.lessons.l22.checks import (
    CalledTwice,
    MayBeCalledAgain,
    Rehearsed,
    Split,
    TwoDeliveries,
    ValidOrDead,
    _named,
)
from lab_env.lessons.l22.figures import requirements, samples

TEXTS = {(0, 0): "good a", (1, 0): "good b", (2, 0): "bad", (0, 1): "clock 2031", (1, 1): "good a"}
REASONS = {(2, 0): "not_json", (0, 1): "clock"}
IDS = {(0, 0): "a", (1, 0): "b", (2, 0): "x", (0, 1): "y", (1, 1): "a"}


def split(valid, dead):
    return ValidOrDead.judge(Split(TEXTS, REASONS, IDS, valid, dead))


def test_every_message_in_its_place_passes_with_or_without_resends():
    assert isinstance(split(["a", "b", "a"], [(2, 0), (0, 1)]), Passed)
    assert (
        "2 events are valid, 2 messages are dead letters"
        in split(["a", "b"], [(0, 1), (2, 0)]).note
    )


@pytest.mark.parametrize(
    ("valid", "dead", "said"),
    [
        (["a", "b"], [(2, 0)], "1 of 2 malformed messages are in neither table"),
        (["a", "b", "y"], [(2, 0)], "1 malformed messages count as valid, for example this one (c"),
        (["a", "b", "None"], [(0, 1)], "1 malformed messages count as valid"),
        (["a"], [(2, 0), (0, 1), (1, 0)], "1 valid messages are among the dead letters"),
        (["a"], [(2, 0), (0, 1)], "1 valid messages are in neither table"),
        (["a", "b"], [(2, 0), (0, 1), (1, 0)], "1 messages are in both"),
        (["a", "b"], [(2, 0), (0, 1), (0, 1)], "there twice"),
    ],
)
def test_a_message_in_the_wrong_place_is_named(valid, dead, said):
    verdict = split(valid, dead)
    assert isinstance(verdict, NotYet) and said in verdict.reason


def called(first, second, failure=""):
    return MayBeCalledAgain.judge(CalledTwice(1_265, first, second, failure, "s3a://b/x"))


def test_a_job_that_leaves_the_same_rows_twice_passes():
    rows = {"readings": 1_200, "dead": 27}
    verdict = called(rows, rows)
    assert isinstance(verdict, Passed) and "`dead` 27, `readings` 1,200" in verdict.note


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (({}, {}), "1,265 messages are in the topic, and after `build` no Hudi table"),
        (({"r": 0}, {"r": 0}), "Where does a stream begin to read?"),
        (({}, {}, "KeyError: 'x'."), "`build` failed: KeyError: 'x'."),
        (({"r": 10}, {"r": 20}), "changed `r` from 10 rows to 20"),
        (({"q": 1, "r": 10}, {"q": 1}), "changed `r` from 10 rows to 0"),
    ],
)
def test_a_job_that_reads_nothing_fails_or_doubles_is_told_so(facts, said):
    verdict = called(*facts)
    assert isinstance(verdict, NotYet) and said in verdict.reason


def test_a_rehearsal_hands_on_what_the_examiner_said():
    verdict = TwoDeliveries.judge(Rehearsed("7 rows are missing", "late"))
    assert isinstance(verdict, NotYet) and verdict.reason == "Phase 'late': 7 rows are missing"
    assert isinstance(TwoDeliveries.judge(Rehearsed("", "", 1_500, "D-05, D-11")), Passed)


@pytest.mark.parametrize("answer", ["iot", ("iot",), ("iot", "text")])
def test_an_answer_of_another_form_is_unreadable(answer):
    with pytest.raises(Unreadable):
        _named(answer, 2)


def test_the_requirements_name_every_field_and_every_answer_in_both_forms():
    page = requirements("fraud")
    for text in (page._repr_html_(), repr(page)):
        for word in ("payment_id", "exposure", "known", "dead_letters", "chargeback", "fee"):
            assert word in text


def test_samples_show_both_versions_and_malformed_messages():
    found = samples("iot")
    assert [kind for kind, _ in found][:2] == ["version 1", "version 2"]
    assert "unit" in found[1][1] and "unit" not in found[0][1]
    assert all(kind.startswith("malformed:") for kind, _ in found[2:])
