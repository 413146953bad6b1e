"""A check that takes its time says what it does; a quick one says nothing."""

import time

import pytest

from lab_env.course import patience
from lab_env.course.checking import checks_of_lesson
from lab_env.course.registry import lessons


def slow(lab, answer):
    """Let the function write twice, then read.

    The second paragraph is for authors.
    """


@pytest.mark.parametrize(("seconds", "said"), [(0.3, True), (0.0, False)])
def test_who_waits_is_told_what_the_check_does(monkeypatch, capsys, seconds, said):
    monkeypatch.setattr(patience, "AFTER_S", 0.1)
    monkeypatch.setattr(patience, "EVERY_S", 0.1)
    with patience.explained("05.1", slow):
        time.sleep(seconds)
    shown = capsys.readouterr().out
    assert (
        "Checking 05.1: 0 s" in shown and "Let the function write twice, then read." in shown
    ) is said


def test_every_check_has_a_sentence_to_show():
    for lesson in lessons():
        for name, check in checks_of_lesson(lesson).items():
            assert 10 < len(patience.first_sentence(check)) < 120, name
