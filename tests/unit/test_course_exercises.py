"""Exercises have four outcomes; hints come one by one, and the solution only after an attempt."""

import json
import re
import time
from html import unescape
from types import SimpleNamespace

import pandas as pd
import pytest

from lab_env.course import patience, progress
from lab_env.course.authoring.other_answers import try_answers
from lab_env.course.checking import check, checks_in, checks_of_lesson, expect, unfilled
from lab_env.course.exercises import Exercises, is_reference
from lab_env.course.outcomes import Card
from lab_env.course.progress import CourseProgress
from lab_env.course.registry import lessons
from lab_env.lab.handle import Lab
from lab_env.platform.errors import LabError
from lab_env.platform.settings import REPOSITORY


@check("77.1")
def adds_up(lab, answer):
    """Expect the sum of two amounts, or a function that adds them; `lab` is the list of amounts."""
    value = answer(lab) if callable(answer) else answer
    expect(value == 30, "{} is not the sum.", value)
    return "Right."


CHECKS = {"77.1": adds_up}
SOURCE = """# ---
# title: Sums
# minutes: {teach: 1, do: 1}
# needs: []
# services: []
# ---

# %% [markdown]
# # 77 · Sums
#
# ## Objectives
#
# - add (77.1)
#
# ### Exercise 77.1 · Add

# %% exercise="77.1"
total = sum(amounts)  # SOLUTION
lab.check("77.1", total)

# %% [markdown] hint="77.1"
# Think.

# %% [markdown] hint="77.1"
# Use `sum`.

# %% right="77.1"
total = 0
for amount in amounts: total += amount

# %% wrong="77.1"
# expect: is not the sum
total = amounts[0]
"""


@pytest.fixture
def exercises(tmp_path, configure):
    configure(progress=tmp_path / "progress.json")
    (tmp_path / "l77").mkdir()
    (tmp_path / "l77" / "77_sums.py").write_text(SOURCE)
    return Exercises([10, 20], tmp_path, lambda number: CHECKS)


def test_a_wrong_answer_gets_its_reason_and_a_next_step(exercises):
    outcome = exercises.check("77.1", 10)
    assert outcome.kind == "not yet"
    assert "10 is not the sum." in repr(outcome) and 'lab.hint("77.1")' in repr(outcome)
    assert "exercises passed" not in repr(outcome)


def test_under_strict_a_right_answer_passes_and_any_other_raises(exercises, configure):
    configure(strict="1")
    outcome = exercises.check("77.1", 30)
    assert outcome.passed and outcome.text == "Right."
    assert "1 of 1 exercises passed" in repr(outcome)  # the lesson's last one
    for answer in (10, ...):
        with pytest.raises(LabError, match=r"Exercise 77\.1: not"):
            exercises.check("77.1", answer)


def stub(amounts): ...  # YOUR CODE


def documented_stub(amounts):
    """Adds up."""
    ...  # YOUR CODE


def does_nothing(amounts):
    pass


class DoesNothing:
    def stop(self):
        return None


class Stub:
    def add(self, amounts):
        return sum(amounts)

    def stop(self): ...  # YOUR CODE


class Heir(Stub):
    pace = 1  # what it inherits does not count as its own


class UnfilledHeir(Stub):
    pace = ...  # YOUR CODE


@pytest.mark.parametrize(
    "answer",
    [
        *(..., {"a": 1, "b": ...}, {"a": [1, ...]}, [1, ...], stub, documented_stub, [len, stub]),
        *(Stub, UnfilledHeir),
    ],
)
def test_an_unfilled_stub_is_not_attempted(exercises, answer):
    assert exercises.check("77.1", answer).kind == "not attempted"
    assert progress.read()["exercises"] == {}


@pytest.mark.parametrize(
    "answer",
    [0, "", False, None, {}, [], lambda amounts: None, does_nothing, DoesNothing, Heir],
)
def test_an_answer_that_is_merely_empty_is_judged(answer):
    assert not unfilled(answer)


def wrong_key(amounts):
    rows = {"amount": amounts}
    return rows["amuont"]


def test_the_learners_own_exception_becomes_a_card_that_names_its_line(exercises):
    outcome = exercises.check("77.1", wrong_key)
    assert outcome.kind == "error in your code"
    assert "KeyError: 'amuont'" in outcome.text
    assert 'This line of `wrong_key` raised it:\n\n```\nreturn rows["amuont"]\n```' in outcome.text
    assert "Traceback" not in repr(outcome) and "exercises.py" not in repr(outcome)


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (
            "An error occurred while calling o57.save.\n: org.apache.spark.SparkException: Job\n"
            "\tat a.b\nCaused by: org.apache.hudi.exception.HoodieKeyException: no key\n\tat c.d",
            "HoodieKeyException: no key",
        ),
        (
            "[UNRESOLVED_COLUMN] `amout` cannot be resolved. Is it [`amount`].; line 1 pos 0;"
            "\nProject [amout]",
            "[UNRESOLVED_COLUMN] `amout` cannot be resolved. Is it [`amount`]",
        ),
    ],
)
def test_an_error_of_java_or_spark_is_told_by_its_cause(exercises, message, told):
    def fails(amounts):
        raise RuntimeError(message)

    said = exercises.check("77.1", fails).text
    assert said.startswith(f"RuntimeError: {told}. This line of `fails` raised it:")


def test_trouble_of_the_lab_is_not_blamed_on_the_learner(exercises):
    def stopped(amounts):
        raise LabError("The services are not running.", "run: lab up")

    with pytest.raises(LabError, match="not running"):
        exercises.check("77.1", stopped)


def test_hints_come_one_after_another(exercises):
    titles = [exercises.hint("77.1").title for _ in range(3)]
    assert [title[-6:] for title in titles] == ["1 of 2", "2 of 2", "2 of 2"]
    assert exercises.hint("77.1").text == (
        'Use `sum`.\n\nAfter an attempt, `lab.solution("77.1")` shows an answer.'
    )


def test_the_last_exercise_of_a_lesson_leads_to_the_next_lesson():
    some = {number: lessons()[number] for number in ("00", "01")}
    passed = {e.id: {"outcome": "passed"} for e in some["00"].exercises}
    begun = {"exercises": passed | {"00.3": {"outcome": "not yet"}}, "predictions": {}}
    assert CourseProgress(some, begun).after("00.2") == ("", "")
    done = CourseProgress(some, {"exercises": passed, "predictions": {}})
    sentence, link = done.after("00.3")
    assert sentence == "Lesson 00: 3 of 3 exercises passed. Next: lesson 01."
    assert link == "01_load_with_locust.ipynb" and (REPOSITORY / "notebooks" / link).exists()


def test_the_best_climb_of_a_ladder_is_kept(exercises):
    for held in (2, 4, 3):
        progress.record_climb("04.2", held, 7)
    progress.record_climb("17.3", 0, 4)
    kept = progress.read()
    assert (kept["ladder"]["04.2"]["held"], kept["ladder"]["17.3"]["held"]) == (4, 0)
    assert kept["ladder"]["04.2"]["at"] > "2026"
    assert "Ladder of faults: 04.2 4 of 7" in CourseProgress(lessons(), kept)._repr_html_()


def test_a_solution_is_coloured_and_unchanged():
    html = Card("One solution", code='total = sum(x < "a&b")\n')._repr_html_()
    assert "editor-operator-color)'>=</span>" in html and "editor-builtin-color)'>sum<" in html
    code = re.search(r"<pre[^>]*>(.*)</pre>", html, re.S)[1]
    assert unescape(re.sub(r"</?span[^>]*>", "", code)) == 'total = sum(x < "a&b")\n'


def test_the_solution_waits_for_an_attempt_and_other_right_ways_for_a_pass(exercises):
    assert "sum(amounts)" not in repr(exercises.solution("77.1"))
    exercises.check("77.1", ...)
    assert "sum(amounts)" not in repr(exercises.solution("77.1"))
    exercises.check("77.1", 1)
    shown = repr(exercises.solution("77.1"))
    assert "total = sum(amounts)" in shown and "for amount in amounts" not in shown
    assert "shows another right way" in repr(exercises.check("77.1", 30))
    shown = repr(exercises.solution("77.1"))
    assert "2 right ways" in shown and "total = sum(amounts)\n\n\n# Or:\ntotal = 0" in shown


def test_the_reference_answer_is_brought_only_when_unsolved(exercises):
    names = {"amounts": [10, 20]}
    assert "reference answer is used" in repr(exercises.use_reference("77.1", names))
    assert names["total"] == 30
    exercises.check("77.1", 30)
    names["total"] = "mine"
    assert "your own answer" in repr(exercises.use_reference("77.1", names))
    assert names["total"] == "mine"


def test_the_reference_function_is_told_from_the_learners_own(home):
    names = {}
    Exercises(None).use_reference("17.3", names)
    assert is_reference("17.3", names["deliver"]) and not is_reference("17.2", names["deliver"])
    exec("def deliver(rows, batch, table): pass", names)
    assert not is_reference("17.3", names["deliver"]) and not is_reference("17.3", ...)


def test_a_check_without_an_answer_says_how_to_pass_one(exercises):
    with pytest.raises(LabError, match=r"Exercise 77\.1 needs an answer") as refused:
        exercises.check("77.1")
    assert 'lab.check("77.1", your_answer)' in refused.value.next_step


def test_an_unknown_exercise_names_those_of_the_lesson(exercises):
    with pytest.raises(LabError) as refused:
        exercises.check("77.4", 1)
    assert "77.1" in refused.value.next_step


def test_each_check_and_each_other_answer_is_reported(exercises, configure, tmp_path):
    configure(outcomes=tmp_path / "outcomes.jsonl")
    names = {"amounts": [10, 20], "total": 30, "lab": SimpleNamespace(exercises=exercises)}
    exercises.check("77.1", 30)
    try_answers("77.1", names)
    reports = map(json.loads, (tmp_path / "outcomes.jsonl").read_text().splitlines())
    first, right, wrong = reports
    assert (first["exercise"], first["outcome"]) == ("77.1", "passed")
    assert (right["right"], right["outcome"]) == (0, "passed")
    assert (wrong["wrong"], wrong["outcome"], wrong["text"]) == (0, "not yet", "10 is not the sum.")
    assert names["total"] == 30  # the trial leaves the notebook's names alone
    assert progress.read()["exercises"]["77.1"]["attempts"] == 1


def test_an_answer_that_the_check_cannot_compare_is_a_card(exercises):
    outcome = exercises.check("77.1", pd.Series([30, 30]))
    assert outcome.kind == "not yet"
    assert "a form that this exercise cannot compare" in outcome.text


def test_what_was_passed_stays_passed(exercises):
    exercises.check("77.1", 30)
    exercises.check("77.1", 10)
    exercises.check("77.1", ...)
    assert "1 of 1 passed" in repr(exercises.progress())
    assert progress.read()["exercises"]["77.1"]["attempts"] == 2


def test_an_exercise_whose_task_an_update_changed_is_not_attempted(exercises, tmp_path):
    exercises.check("77.1", 30)
    source = tmp_path / "l77" / "77_sums.py"
    source.write_text(SOURCE.replace("· Add", "· Add all"))
    changed = "Changed by an update, so not attempted: 1 of 1 exercises."
    assert changed in repr(exercises.progress()).splitlines()
    assert changed in exercises.progress()._repr_html_()
    assert "0 of 1 passed" in repr(exercises.progress())
    assert "waits for your first attempt" in repr(exercises.solution("77.1"))
    exercises.check("77.1", 10)
    assert "open: 77.1 not yet" in exercises.progress()._repr_html_()
    assert progress.read()["exercises"]["77.1"]["attempts"] == 1
    assert "Changed by" not in repr(exercises.progress())


def test_what_an_earlier_version_of_the_lab_kept_stays_passed(exercises, tmp_path):
    kept = {"exercises": {"77.1": {"outcome": "passed", "attempts": 3}}}
    (tmp_path / "progress.json").write_text(json.dumps(kept))
    shown = repr(exercises.progress())
    assert "1 of 1 passed" in shown and "Changed by" not in shown
    exercises.check("77.1", 10)
    assert "1 of 1 passed" in repr(exercises.progress())


def test_progress_names_what_is_open(exercises):
    exercises.check("77.1", 10)
    page = exercises.progress()._repr_html_()
    assert "Sums" in page and "0 of 1 passed; open: 77.1 not yet" in page


def test_predictions_are_set_beside_what_happened(exercises):
    assert "in place of the dots" in repr(exercises.predict("77.p1", ...))
    assert "measured: 11" in repr(exercises.record_actual("77.p1", 11))
    exercises.predict("77.p1", 3)
    assert "you expected 3; measured: 11" in repr(exercises.record_actual("77.p1", 11))
    assert ">77.p1</td>" in exercises.progress()._repr_html_()
    assert "0 of 1 predictions were right" in repr(exercises.progress())


def test_what_was_measured_is_shown_wherever_in_a_cell_it_is_recorded(exercises, capsys):
    assert Lab.record_actual(SimpleNamespace(exercises=exercises), "77.p1", 11) is None
    assert "measured: 11" in capsys.readouterr().out


def test_a_prediction_is_right_within_its_tolerance_or_as_one_of_its_choices(exercises):
    exercises.predict("77.p1", 400, tolerance=5)
    assert exercises.record_actual("77.p1", 403).tone is True
    assert exercises.record_actual("77.p1", 406).tone == "warn"
    refused = exercises.predict("77.p2", "both", choices=("cow", "mor"))
    assert "One of 'cow', 'mor' is expected" in repr(refused)
    assert "Prediction 77.p2: measured: cow" in repr(exercises.record_actual("77.p2", "cow"))
    exercises.predict("77.p2", "MOR", choices=("cow", "mor"))
    assert exercises.record_actual("77.p2", "mor").tone is True


def test_a_damaged_progress_file_is_named(exercises, tmp_path):
    (tmp_path / "progress.json").write_text("{")
    with pytest.raises(LabError, match=r"progress\.json is damaged"):
        exercises.progress()


def test_one_exercise_has_one_check():
    other = check("77.1")(lambda lab, answer: "")
    module = SimpleNamespace(__name__="m", a=adds_up, b=other)
    with pytest.raises(LabError, match="twice"):
        checks_in(module)


def slow(lab, answer):
    """Let the function write twice, then read.

    The second paragraph is for authors.
    """


@pytest.mark.parametrize(("seconds", "said"), [(0.3, True), (0.0, False)])
def test_who_waits_for_a_check_is_told_what_it_does(monkeypatch, capsys, seconds, said):
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
        for name, one in checks_of_lesson(lesson).items():
            assert 10 < len(patience.first_sentence(one)) < 120, name
