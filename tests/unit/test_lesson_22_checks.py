"""Lesson 22's hidden messages and requirements; reference answers stay apart from the learner's."""

from contextlib import contextmanager
from random import Random
from types import SimpleNamespace

import pytest

from lab_env.course import registry
from lab_env.course.answers import Unreadable
from lab_env.course.exercises import REFERENCE, Exercises
from lab_env.lessons.capstone.exam import variant_named
from lab_env.lessons.l22 import figures
from lab_env.lessons.l22.checks import _named, hidden_messages


@pytest.mark.parametrize("variant", ["iot", "fraud", "clickstream"])
def test_hidden_messages_break_every_rule(variant):
    found = hidden_messages(variant_named(variant), Random(22))
    reasons = {message.reason for message in found}
    assert {"", "not_json", "unknown_op", "no event_id", "no received_at"} < reasons
    assert sum(not message.reason for message in found) > 300
    lost = [message for message in found if not message.event_id]
    assert all(message.reason == "no event_id" for message in lost)


@pytest.mark.parametrize("answer", ["iot", ("iot",), ("iot", "text")])
def test_an_answer_of_another_form_is_unreadable(answer):
    with pytest.raises(Unreadable):
        _named(answer, 2)


def test_the_reference_of_one_exercise_does_not_use_an_answer_of_ones_own_to_another():
    mine, names = object(), {"SMALL_TABLE": {}}
    names["split"] = names["build"] = mine
    exercises = Exercises(lab=None)
    exercises.solved = {"22.1", "22.2"}
    card = repr(exercises.use_reference("22.3", names))
    assert "It builds on the reference answer of 22.2" in card and "of 22.1" in card
    for name, exercise in (("split", "22.1"), ("build", "22.2"), ("answers", "22.3")):
        assert names[name].__code__.co_filename == f"{REFERENCE} {exercise}>"
    exercises.solved.add("22.3")
    names["build"] = mine
    assert "your own answer" in repr(exercises.use_reference("22.3", names))
    assert names["build"] is mine


def test_an_exam_with_the_reference_answers_is_of_their_variant_and_no_certificate(monkeypatch):
    names: dict = {"SMALL_TABLE": {}}
    Exercises(lab=None).use_reference("22.3", names)
    asked, kept = [], []

    @contextmanager
    def examiner(lab, variant, *_, **__):
        asked.append(variant)
        yield SimpleNamespace(run=lambda note: variant, answers={})

    monkeypatch.setattr(figures, "examiner", examiner)
    monkeypatch.setattr(figures, "end_process", lambda lab: None)
    monkeypatch.setattr(figures.certificate, "keep", kept.append)
    for answers in (names["answers"], lambda spark, base: {}):
        figures.sit_exam(None, "fraud", names["build"], answers)
    assert (asked, kept) == (["iot", "fraud"], ["fraud"])


def test_every_uses_names_an_exercise_before_it():
    for entry in registry.lessons().values():
        ids = [exercise.id for exercise in entry.exercises]
        for place, exercise in enumerate(entry.exercises):
            assert not exercise.uses or exercise.uses in ids[:place]


def test_the_requirements_name_every_field_and_every_answer_in_both_forms():
    page = figures.requirements("fraud")
    for text in (page._repr_html_(), repr(page)):
        for word in ("payment_id", "exposure", "known", "dead_letters", "chargeback", "fee"):
            assert word in text


def test_samples_show_both_versions_and_malformed_messages():
    found = figures.samples("iot")
    assert [kind for kind, _ in found][:2] == ["version 1", "version 2"]
    assert "unit" in found[1][1] and "unit" not in found[0][1]
    assert all(kind.startswith("malformed:") for kind, _ in found[2:])
