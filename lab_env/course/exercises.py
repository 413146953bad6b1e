"""Handles the exercises of a running notebook: checks, hints, solutions and predictions.

`Lab` delegates to this module, which only passes the lab on to the checks.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from lab_env.course import progress, registry
from lab_env.course.answers import Unreadable, agree, as_choice, as_number
from lab_env.course.checking import Check, NotYet, checks_of_lesson, mistake, raised_by, unfilled
from lab_env.course.outcomes import Card, Outcome, report
from lab_env.course.patience import explained
from lab_env.course.source import LESSONS
from lab_env.course.traces import session_left_as_found, watched
from lab_env.platform.errors import LabError
from lab_env.platform.settings import settings


class Watcher(Protocol):
    """An object that is notified of each check, for example a seat of a lab room."""

    def checked(self, exercise: str, outcome: str, attempts: int, text: str) -> None:
        """Called after each check of an answer."""

    def trouble(self, place: str) -> None:
        """Called when the lab itself failed."""


NO_ANSWER = object()
REFERENCE = "<reference answer of"  # begins the file name of its code


class Exercises:
    """The exercises of one running notebook; `checks` returns the checks of a lesson."""

    def __init__(
        self,
        lab: Any,
        folder: Path = LESSONS,
        checks=checks_of_lesson,
        watcher: Watcher | None = None,
    ):
        self.lab = lab
        self.watcher = watcher
        self.folder = folder
        self.checks = checks
        self.solved: set[str] = set()  # in this notebook's run

    def check(self, exercise_id: str, answer: Any = NO_ANSWER) -> Outcome:
        """Judge an answer and count it as an attempt, unless it is still a stub.

        Raises a LabError for an unknown exercise, without an answer and, with LAB_STRICT, for an
        answer that fails.
        """
        exercise = registry.exercise(exercise_id, self.folder)
        exercise_id, began = exercise.id, time.monotonic()
        if answer is NO_ANSWER:
            complete = f'lab.check("{exercise_id}", your_answer)'
            raise LabError(f"Exercise {exercise_id} needs an answer.", f"write: {complete}")
        try:
            with explained(exercise_id, self._check_of(exercise_id)):
                outcome = self.judge(exercise_id, answer)
        except LabError:
            if self.watcher:
                self.watcher.trouble(exercise_id)
            raise
        if outcome.passed:
            self.solved.add(exercise_id)
        attempts = progress.record_outcome(exercise, outcome.kind)
        if self.watcher:
            self.watcher.checked(exercise_id, outcome.kind, attempts, outcome.text)
        seconds = time.monotonic() - began
        report(exercise=exercise_id, outcome=outcome.kind, text=outcome.text, seconds=seconds)
        if outcome.passed:
            done, link = self.progress().after(exercise_id)
            next_step = "\n\n".join(part for part in (_other_ways(exercise), done) if part)
            outcome = replace(outcome, next_step=next_step, link=link)
        if settings().strict and not outcome.passed:
            raise LabError(f"{outcome.title}. {outcome.text}", outcome.next_step)
        return outcome

    def hint(self, exercise_id: str) -> Card:
        """Return an exercise's next hint; once all have been shown, the last one again."""
        exercise = registry.exercise(exercise_id, self.folder)
        exercise_id, hints = exercise.id, exercise.hints
        number = progress.next_hint(exercise)
        title = f"Exercise {exercise_id}: hint {number + 1} of {len(hints)}"
        text = hints[number]
        if number + 1 == len(hints):
            text += f'\n\nAfter an attempt, `lab.solution("{exercise_id}")` shows an answer.'
        return Card(title, text)

    def solution(self, exercise_id: str) -> Card:
        """Return the solution after a first attempt; once passed, also the other right answers."""
        exercise = registry.exercise(exercise_id, self.folder)
        exercise_id = exercise.id
        if not progress.attempted(exercise):
            return Card(
                f"Exercise {exercise_id}: the solution waits for your first attempt",
                f'Fill in the cell and run it, or ask for a hint: `lab.hint("{exercise_id}")`.',
            )
        ways = [exercise.solution, *(exercise.right if progress.passed(exercise) else ())]
        title = "one solution" if len(ways) == 1 else f"{len(ways)} right ways"
        return Card(f"Exercise {exercise_id}: {title}", code="\n\n\n# Or:\n".join(ways))

    def use_reference(self, exercise_id: str, namespace: dict) -> Card:
        """Run the reference answer, unless the exercise was solved since the kernel started.

        First run the reference answers that it builds on, even if those exercises are solved.
        """
        exercise = registry.exercise(exercise_id, self.folder)
        exercise_id = exercise.id
        if exercise_id in self.solved:
            return Card(f"Exercise {exercise_id}: your own answer is used", tone=True)
        text = "You have not solved it here, and the next cells need an answer."
        chain = [exercise]
        while chain[0].uses:
            chain.insert(0, registry.exercise(chain[0].uses, self.folder))
            text += f" It builds on the reference answer of {chain[0].id}, which is used, too."
        for one in chain:
            run_cell(one.solution, f"{REFERENCE} {one.id}>", namespace)
        return Card(f"Exercise {exercise_id}: the reference answer is used", text)

    def answer(self, exercise_id: str, namespace: dict) -> Any:
        """Return a notebook's present answer to an exercise; `...` if there is none yet."""
        try:
            return eval(registry.exercise(exercise_id, self.folder).answer, namespace)
        except NameError:
            return ...

    def predict(
        self,
        prediction_id: str,
        expected: Any,
        choices: Sequence[str] | None = None,
        tolerance: float = 0,
    ) -> Card:
        """Record a prediction: one of the choices, or a number; `...` does not count as one."""
        title = f"Prediction {prediction_id}"
        offered = f" Choose one of: {', '.join(choices)}." if choices else ""
        if unfilled(expected):
            return Card(f"{title}: put your guess in place of the dots.{offered}")
        try:
            guess = as_choice(expected, choices) if choices else as_number(expected)
        except Unreadable as why:
            return Card(f"{title}: not recorded", str(why), tone="warn")
        progress.keep_prediction(prediction_id, expected=guess, tolerance=tolerance)
        return Card(f"{title}: you expect {guess}")

    def record_actual(self, prediction_id: str, value: Any) -> Card:
        """Record the measured value and compare it with the prediction."""
        kept = progress.keep_prediction(prediction_id, actual=value)
        if "expected" not in kept:
            return Card(f"Prediction {prediction_id}: measured: {kept['actual']}")
        right = agree(kept["expected"], kept["actual"], float(kept.get("tolerance", 0)))
        both = f"you expected {kept['expected']}; measured: {kept['actual']}"
        return Card(f"Prediction {prediction_id}: {both}", tone=True if right else "warn")

    def progress(self) -> progress.CourseProgress:
        """Return the learner's progress through the whole course."""
        return progress.CourseProgress(registry.lessons(self.folder), progress.read())

    def _check_of(self, exercise_id: str) -> Check | None:
        return self.checks(exercise_id.split(".")[0]).get(exercise_id)

    def judge(self, exercise_id: str, answer: Any) -> Outcome:
        """Return a check's verdict on an answer without recording an attempt."""
        exercise = registry.exercise(exercise_id, self.folder)
        if unfilled(answer):
            step = f'Replace the dots, then run the cell. Stuck? `lab.hint("{exercise.id}")`'
            return Outcome(exercise.id, "not attempted", next_step=step)
        check = self._check_of(exercise.id)
        if check is None:
            raise LabError(f"Exercise {exercise.id} has no check.", "run: lab author check")
        step = f'Change it and run the cell again. `lab.hint("{exercise.id}")` gives a hint.'
        try:
            with session_left_as_found(getattr(self.lab, "running_spark", None)):
                said = check(self.lab, watched(answer))
            return Outcome(exercise.id, "passed", said)
        except LabError:
            raise  # the lab's trouble, not the learner's
        except (NotYet, Unreadable) as why:
            return Outcome(exercise.id, "not yet", str(why), step)
        except Exception as error:
            said = mistake(error, answer)
            if raised_by(answer, error):
                return Outcome(exercise.id, "error in your code", said, step)
            text = f"Your answer has a form that this exercise cannot compare: {said}"
            return Outcome(exercise.id, "not yet", text, step)


def _other_ways(exercise: registry.Exercise) -> str:
    others = len(exercise.right)
    ways = "another right way" if others == 1 else f"{others} other right ways"
    return f'`lab.solution("{exercise.id}")` shows {ways}.' if others else ""


def is_reference(exercise_id: str, answer: Any) -> bool:
    """True if an answer is the function that `use_reference` has defined, not the learner's own."""
    code = getattr(answer, "__code__", None)
    return code is not None and code.co_filename == f"{REFERENCE} {exercise_id}>"


def run_cell(code: str, name: str, namespace: dict) -> None:
    """Run a cell's code with a notebook's variables; magics work only inside IPython."""
    shell = namespace.get("get_ipython")
    if shell:
        code = shell().transform_cell(code)
    exec(compile(code, name, "exec"), namespace)
