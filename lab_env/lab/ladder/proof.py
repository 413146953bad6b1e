"""Proves the ladder itself: right answers of the lessons climb to its end, wrong ones fall."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from lab_env.course import registry
from lab_env.lab.handle import namespace_of
from lab_env.lab.ladder.answers import REFERENCE, find_answer
from lab_env.lab.ladder.attack import attack
from lab_env.lab.ladder.rungs import FALLS, HOLDS, IN_NOTEBOOK
from lab_env.platform.settings import Endpoints


@dataclass(frozen=True)
class Trial:
    """A climb of one of a lesson's answers: the rung of its fall, or `HOLDS`."""

    exercise: str
    answer: str
    expected: int
    fell: int
    found: str
    seconds: float

    def __str__(self) -> str:
        said = {HOLDS: "holds"}
        fell, expected = (said.get(n, f"falls on rung {n}") for n in (self.fell, self.expected))
        wrong = "" if self.fell == self.expected else f", BUT: {expected} is expected"
        return f"{self.exercise} {self.answer}: {fell}{wrong} ({self.seconds:.0f} s). {self.found}"


def expected(exercise_id: str) -> dict[str, int]:
    """Return an exercise's answers, each with the rung from which it falls."""
    exercise = registry.exercise(exercise_id)
    right = [REFERENCE, *(f"right-{n}" for n in range(1, len(exercise.right) + 1))]
    falls = enumerate(FALLS[exercise.id], 1)
    wrong = {f"wrong-{n}": rung for n, rung in falls if rung != IN_NOTEBOOK}
    return dict.fromkeys(right, HOLDS) | wrong


def trials(
    endpoints: Endpoints, exercises: Sequence[str], seed: int, say: Callable[[str], object]
) -> Iterator[Trial]:
    """Let every answer of these exercises climb until it falls."""
    for exercise_id in exercises:
        for answer, rung in expected(exercise_id).items():
            function = find_answer(exercise_id, endpoints, answer)
            namespace = namespace_of(exercise_id[:2])
            climb = attack(endpoints, namespace, exercise_id, function, seed=seed, say=say)
            last = climb.results[-1]
            fell = HOLDS if climb.held else last.number
            seconds = sum(result.seconds for result in climb.results)
            yield Trial(exercise_id, answer, rung, fell, last.found, seconds)
