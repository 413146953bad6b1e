"""Tries each exercise's declared right and wrong answers in a notebook's kernel, for CI.

The pytest plugin runs this in the kernel. In a worked notebook, after each exercise, the other
right answers must pass and the wrong ones must get their messages. In a learner's notebook, the
cells below an exercise must also work after another right answer.
"""

from collections.abc import Iterator
from typing import Any

from lab_env.course import registry
from lab_env.course.checking import mistake
from lab_env.course.exercises import Exercises, run_cell
from lab_env.course.outcomes import Card, report


def try_answers(exercise_id: str, namespace: dict[str, Any]) -> None:
    """Run every right and wrong answer with a copy of the notebook's variables; report results."""
    exercises: Exercises = namespace["lab"].exercises
    exercise = registry.exercise(exercise_id, exercises.folder)
    for kind, number, code in _answers(exercise):
        own = dict(namespace)
        try:
            run_cell(code, f"<{kind} answer {number + 1} of {exercise_id}>", own)
            outcome = exercises.judge(exercise_id, eval(exercise.answer, own))
            result, text = outcome.kind, outcome.text
        except Exception as error:
            result, text = "did not run", mistake(error)
        report(exercise=exercise_id, **{kind: number}, outcome=result, text=text)


def go_on_with_right_answers() -> None:
    """Patch `use_reference` to run the reference answer, then the first other right answer."""
    reference = Exercises.use_reference

    def both(self: Exercises, exercise_id: str, namespace: dict[str, Any]) -> Card:
        card = reference(self, exercise_id, namespace)
        exercise = registry.exercise(exercise_id, self.folder)
        run_cell(exercise.right[0], f"<right answer of {exercise_id}>", namespace)
        return card

    Exercises.use_reference = both


def _answers(exercise: registry.Exercise) -> Iterator[tuple[str, int, str]]:
    for number, code in enumerate(exercise.right):
        yield "right", number, code
    for number, wrong in enumerate(exercise.wrong):
        yield "wrong", number, wrong.code
