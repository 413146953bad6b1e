"""Proves the ladder itself: right answers of the lessons climb to its end, wrong ones fall."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from lab_env.course import registry
from lab_env.lab.handle import namespace_of
from lab_env.lab.ladder.answers import REFERENCE, find_answer
from lab_env.lab.ladder.attack import attack
from lab_env.platform.settings import Endpoints

HOLDS = "holds"
NOT_TRIED = "needs the notebook"  # an answer that uses values which only a running notebook has


@dataclass(frozen=True)
class Trial:
    """A climb of one of a lesson's answers: the rung from which it fell, or `HOLDS`."""

    exercise: str
    answer: str
    expected: str
    fell: str
    found: str
    seconds: float

    def __str__(self) -> str:
        wrong = "" if self.fell == self.expected else f", BUT {self.expected} is expected"
        fared = f"{self.exercise} {self.answer}: {self.fell}{wrong}"
        return f"{fared} ({self.seconds:.0f} s). {self.found}"


def expected(exercise_id: str) -> dict[str, str]:
    """Return an exercise's answers, each with the rung from which it falls, or `HOLDS`."""
    exercise = registry.exercise(exercise_id)
    right = [REFERENCE, *(f"right-{n}" for n in range(1, len(exercise.right) + 1))]
    wrong = {f"wrong-{n}": answer.falls for n, answer in enumerate(exercise.wrong, 1)}
    tried = {name: falls for name, falls in wrong.items() if falls != NOT_TRIED}
    return dict.fromkeys(right, HOLDS) | tried


def trials(
    endpoints: Endpoints, exercises: Sequence[str], seed: int, say: Callable[[str], object]
) -> Iterator[Trial]:
    """Let every answer of these exercises climb until it falls."""
    for exercise_id in exercises:
        for answer, due in expected(exercise_id).items():
            function = find_answer(exercise_id, endpoints, answer)
            namespace = namespace_of(exercise_id[:2])
            climb = attack(endpoints, namespace, exercise_id, function, seed=seed, say=say)
            last = climb.results[-1]
            fell = HOLDS if climb.held else f"rung {last.number}"
            seconds = sum(result.seconds for result in climb.results)
            yield Trial(exercise_id, answer, due, fell, last.found, seconds)
