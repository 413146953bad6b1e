"""The pytest plugin: exercises must have the expected outcomes; notebooks have time limits."""

from datetime import UTC, datetime, timedelta

import pytest

from lab_env.course.authoring import times
from lab_env.course.authoring.pytest_plugin import (
    entry_seconds,
    failed_proofs,
    late_sections,
    over_budget,
    shortcomings,
    slowness,
)
from lab_env.course.registry import Exercise, LessonEntry, WrongAnswer
from lab_env.course.sections import notebook_of, sections

EXERCISE = Exercise(
    "77.1", "A", "b", "x", "x = 1", ("hint",), (WrongAnswer("x = 2", "too many"),), ("x = int(1)",)
)
LESSON = LessonEntry("77", "77_a", "A", 1, 1, (), (), (EXERCISE,))
PASSED = {"exercise": "77.1", "outcome": "passed", "text": ""}
EMPTY = {"exercise": "77.1", "outcome": "not attempted", "text": ""}
REJECTED = {"exercise": "77.1", "wrong": 0, "outcome": "not yet", "text": "That is too many."}
ALIKE = {"exercise": "77.1", "right": 0, "outcome": "passed", "text": ""}
UNLIKE = ALIKE | {"outcome": "not yet", "text": "No."}


@pytest.mark.parametrize(
    ("worked", "facts", "said"),
    [
        (True, [PASSED, ALIKE, REJECTED], ""),
        (False, [EMPTY], ""),
        (True, [], "exercise 77.1 is not checked"),
        (True, [EMPTY, REJECTED], "exercise 77.1 is not attempted"),
        (False, [PASSED], "exercise 77.1 is passed"),
        (False, [], "exercise 77.1 is not checked"),
        (True, [PASSED], "wrong answer 1 of 77.1: was not tried"),
        (True, [PASSED, REJECTED], "right answer 1 of 77.1: was not tried"),
        (True, [PASSED, UNLIKE, REJECTED], "right answer 1 of 77.1: not yet No."),
        (True, [PASSED, REJECTED | {"outcome": "passed"}], "wrong answer 1 of 77.1: passed"),
        (True, [PASSED, REJECTED | {"outcome": "did not run"}], "1 of 77.1: did not run"),
        (True, [PASSED, REJECTED | {"text": "Too few."}], "got 'Too few.' instead of 'too many'"),
        (True, [PASSED, REJECTED, PASSED | {"exercise": "77.9"}], "77.9 is no exercise"),
    ],
)
def test_what_is_not_proven_is_named(worked, facts, said):
    found = "; ".join(shortcomings(LESSON, worked, facts))
    assert said in found and bool(said) == bool(found)


def test_a_proof_that_fails_is_named_with_what_differs():
    holds = {"proof": "Two rows.", "outcome": "holds"}
    differs = {"proof": "One log.", "outcome": "differs", "text": "Expected `logs == 1`."}
    assert failed_proofs([holds, PASSED, REJECTED]) == []
    assert failed_proofs([holds, differs]) == ["One log. Expected `logs == 1`."]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        ({}, ""),
        ({"notebooks/a": 42, "solutions/a": 60}, ""),
        ({"notebooks/a": 20, "notebooks/b": 60}, ""),
        ({"notebooks/a": 10, "notebooks/b": 61}, "notebooks/b used 61 s; 60"),
        ({"solutions/a": 10, "solutions/b": 81}, "solutions/b used 81 s; 80"),
        ({"notebooks/demos/a": 61}, "notebooks/demos/a used 61 s; 60"),
        ({"solutions/21": 151, "solutions/b": 9, "solutions/c": 9}, "solutions/21 used 151 s; 150"),
        ({"notebooks/demos/exactly-once.x": 151}, "notebooks/demos/exactly-once.x used 151 s; 150"),
        # Neither a demo nor the other folder makes room.
        ({"notebooks/a": 43, "notebooks/demos/b": 9, "solutions/a": 9}, "notebooks is 43.0 s; 42"),
        ({"solutions/a": 61}, "solutions is 61.0 s; 60"),
    ],
)
def test_what_is_over_the_budget_is_named(seconds, said):
    found = "; ".join(over_budget(seconds)).removeprefix("The average of ")
    assert found == (f"{said} s is the most." if said else "")


def run_of(seconds: float) -> times.Run:
    parts = {times.CELLS: times.Cost(seconds), times.OTHERS: times.Cost(500)}
    return times.Run(
        notebooks={f"notebooks/{n}": times.NotebookCosts(parts, {}) for n in range(20)}
    )


def test_a_slow_machine_is_known_by_all_notebooks_and_not_by_one_that_became_dearer():
    seconds = {f"notebooks/{n}::{n}": 60.0 for n in range(20)}
    assert slowness(seconds, run_of(30)) == 2
    assert slowness(seconds, run_of(90)) == 1
    dearer = seconds | {"notebooks/3::3": 900.0}
    assert slowness(dearer, run_of(60)) == 1
    assert slowness({"notebooks/3::3": 900.0, "notebooks/new::new": 1.0}, run_of(60)) == 1


def test_a_section_is_entered_when_the_kernel_and_the_cells_above_it_but_no_proof_have_run():
    began = datetime(2026, 11, 25, 12, 0, 0, tzinfo=UTC)
    executed, clock = notebook_of("06"), began + timedelta(seconds=5)
    for cell in executed.cells:
        if cell.cell_type == "code":
            busy, clock = clock, clock + timedelta(seconds=2)
            cell.metadata["execution"] = {
                "iopub.status.busy": f"{busy:%Y-%m-%dT%H:%M:%S.%fZ}",
                "shell.execute_reply": f"{clock:%Y-%m-%dT%H:%M:%S.%fZ}",
            }
    seconds = entry_seconds("06", executed, began)
    expected = {found.name: 5 + 2 * len(found.cells_above(executed)) for found in sections("06")}
    assert seconds == expected and len(seconds) == 4


def test_a_section_that_is_entered_late_is_named():
    seconds = {"06d": 61.0, "15e": 181.0, "21e": 140.0, "22c": 151.0}
    assert late_sections(seconds, 1, margin=1.5) == [
        "Section 15e begins after 181 s; 90 s is the most."
    ]
    assert [name[8:11] for name in late_sections(seconds, 1)] == ["06d", "15e", "22c"]
    assert late_sections(seconds, 3) == []
