"""Mutants: what the operators make, and that no check lets one pass which nobody has declared."""

import contextlib
import re
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock, PropertyMock

import nbformat
import pytest

from lab_env.course import registry
from lab_env.course.authoring import mutation
from lab_env.course.authoring.build import COURSE
from lab_env.course.authoring.mutants import OPERATORS, mutants
from lab_env.course.authoring.mutation import (
    CODE,
    EFFECTS,
    fingerprint,
    outcome_of,
    recorded,
    try_mutants,
)
from lab_env.course.exercises import Exercises
from lab_env.platform.errors import LabError

EXERCISES = {x.id: x for entry in registry.lessons().values() for x in entry.exercises}

# Of these lessons; the others' effects were not tried yet.
WITH_EFFECTS = sorted(name for name in registry.lessons() if recorded(name, EFFECTS))
HOLES = 16  # effect mutants that pass and are not declared: only ever lower it

EXAMPLES = [
    ("call_left_out", "rows.where(x).sort()", "rows.where(x)"),
    ("entry_left_out", "f({'a': 1, 'b': 2})", "f({'a': 1})"),
    ("statement_dropped", "a = 1\nb = 2", "a = 1"),
    ("comparison", "a <= b", "a < b"),
    ("logic", "a and b", "a or b"),
    ("arithmetic", "a // b", "a / b"),
    ("name_swapped", "max(a)", "min(a)"),
    ("value_of_option", "w.mode('append')", "w.mode('overwrite')"),
    ("constant", "f('5', 1)", "f('4', 1)"),
    ("type_of_column", "c.cast('decimal(12,2)')", "c.cast('double')"),
    ("sql", "spark.sql('SELECT a FROM t WHERE b < 1')", "spark.sql('SELECT a FROM t')"),
    ("sql", "f'SELECT a FROM {t} WHERE b < {n}'", "f'SELECT a FROM {t} WHERE b <= {n}'"),
    ("sql", "f('SELECT max(a), b FROM t')", "f('SELECT MIN(a), b FROM t')"),
    ("sql", "f('SELECT a, b FROM t')", "f('SELECT a FROM t')"),
    ("sql", "F.expr('a = b AND c = d')", "F.expr('a = b OR c = d')"),
    (
        "sql",
        "f\"CALL run_clean(table => '{n}', retain_commits => 1)\"",
        "f\"CALL run_clean(table => '{n}')\"",
    ),
    ("sql", "f(\"CALL f(op => 'schedule')\")", "f(\"CALL f(op => 'scheduleandexecute')\")"),
]


def made(code: str, operator: str) -> list[str]:
    return [mutant.code for mutant in mutants(code) if mutant.operator == operator]


@pytest.mark.parametrize(("operator", "code", "mutant"), EXAMPLES)
def test_each_operator_makes_its_examples(operator, code, mutant):
    assert {operator for operator, _, _ in EXAMPLES} == {*OPERATORS}
    changed = {text.replace('"', "'") for text in made(code, operator)}
    assert mutant.replace('"', "'") in changed


def test_mutants_are_unique_compile_and_leave_the_docstring():
    code = 'def f(a):\n    """Say `max`."""\n    return max(a, 1) if a < 1 else [1, 2]'
    found = mutants(code)
    assert len({mutant.code for mutant in found}) == len(found) > 10
    assert len({mutant.change for mutant in found}) == len(found)
    assert all('"""Say `max`."""' in mutant.code for mutant in found)


def imports_of(lesson: str) -> dict[str, Any]:
    """The names that a worked notebook imports."""
    notebook = nbformat.read(COURSE.worked / f"{registry.lessons()[lesson].name}.ipynb", 4)
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in notebook.cells:
        lines = cell.source.splitlines() if cell.cell_type == "code" else []
        for line in lines:
            if re.fullmatch(r"(from [\w.]+ )?import [\w., ]+", line):
                with contextlib.suppress(ModuleNotFoundError):  # a module that the lesson writes
                    exec(line, names)
    return names


def test_mutants_need_a_reference_that_passes_and_a_spark_that_runs():
    exercises = Exercises(lab=None)
    names = imports_of("20") | {"lab": SimpleNamespace(exercises=exercises)}
    with pytest.raises(LabError, match=r"reference answer of 20\.2 does not pass"):
        try_mutants("20.2", CODE, 0, names)
    exercises.solved.add("20.2")
    ended = Mock(streams=SimpleNamespace(active=()))
    type(ended).sparkContext = PropertyMock(side_effect=ConnectionRefusedError)
    with pytest.raises(LabError, match="JVM has ended"):
        try_mutants("20.2", CODE, 0, names | {"spark": ended})


@pytest.mark.parametrize("exercise_id", EXERCISES)
def test_no_mutant_passes_a_check_that_needs_no_lab(exercise_id):
    exercise = EXERCISES[exercise_id]
    exercises, names = Exercises(lab=None), imports_of(exercise_id[:2])
    if outcome_of(exercise.solution, exercise, exercises, names)[0] != "passed":
        pytest.skip("it needs the lab: the test of its record counts")
    for mutant in mutants(exercise.solution):
        kind, _ = outcome_of(mutant.code, exercise, exercises, names)
        assert kind != "passed" or mutant.change in exercise.equivalent, mutant.change


@pytest.mark.parametrize("lesson", sorted(registry.lessons()))
def test_the_record_is_of_todays_answers_and_checks_and_no_undeclared_mutant_passed(lesson):
    trials = recorded(lesson)
    for exercise in registry.lessons()[lesson].exercises:
        trial = trials[exercise.id]
        again = f"run: lab author mutants {exercise.id}"
        assert trial.of == fingerprint(exercise), again
        assert trial.tried == len(mutants(exercise.solution)), again
        assert set(trial.survived) == exercise.equivalent.keys()


@pytest.mark.parametrize("lesson", WITH_EFFECTS)
def test_the_effects_record_is_of_todays_answers_and_checks_and_declares_what_passes(lesson):
    trials = recorded(lesson, EFFECTS)
    for exercise in registry.lessons()[lesson].exercises:
        trial, again = trials.get(exercise.id), f"run: lab author mutants {exercise.id}"
        assert trial and trial.of == fingerprint(exercise), again
        assert exercise.harmless.keys() <= {*trial.survived}


def test_no_more_effect_mutants_pass_than_did_and_few_are_declared():
    trials = {k: v for lesson in WITH_EFFECTS for k, v in recorded(lesson, EFFECTS).items()}
    holes = [
        f"{name}: {effect}"
        for name, trial in trials.items()
        for effect in trial.survived
        if effect not in EXERCISES[name].harmless
    ]
    assert len(holes) <= HOLES, "\n".join(holes)
    declared = sum(len(EXERCISES[name].harmless) for name in trials)
    assert declared <= 0.08 * sum(trial.tried for trial in trials.values())


def test_few_mutants_are_declared_to_be_the_same():
    tried = sum(len(mutants(exercise.solution)) for exercise in EXERCISES.values())
    declared = sum(len(exercise.equivalent) for exercise in EXERCISES.values())
    assert declared <= 0.05 * tried


def test_a_record_is_of_its_own_check_and_what_that_uses(tmp_path, monkeypatch):
    exercise = EXERCISES["05.1"]
    of, room = fingerprint(exercise), tmp_path / "l05"
    room.mkdir()
    monkeypatch.setattr(mutation, "COURSE", SimpleNamespace(lesson=lambda lesson: room))
    text = (COURSE.lesson("05") / "checks.py").read_text()
    other = {
        text.replace('"""', '"""In other words: ', 1): True,
        text.replace("from lab_env", "import math\nfrom lab_env", 1): True,
        text.replace("expect(", "expect(True or ", 1): False,
        text.replace("status, to_timestamp", "status, to_date", 1): False,  # of a helper
        text.replace("0.95 * self", "0.9 * self", 1): True,  # of another exercise
    }
    for changed, holds in other.items():
        assert changed != text
        (room / "checks.py").write_text(changed)
        assert (fingerprint(exercise) == of) is holds
