"""The exercises of all lessons as data: what `lab author build` took out of the lessons' sources.

Each lesson's `exercises.json` is generated and committed; nobody edits it by hand.
"""

import difflib
import re
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter

from lab_env.errors import LabError

REGISTRY = Path(__file__).parents[1] / "lessons"


@dataclass(frozen=True)
class WrongAnswer:
    """A plausible wrong answer that CI runs.

    Args:
        code: what a learner might write instead of the answer.
        expect: a part of the message that it must get.
    """

    code: str
    expect: str


@dataclass(frozen=True)
class Exercise:
    """One exercise as its lesson's source declares it.

    Args:
        id: lesson and number, for example `04.1`.
        title: the rest of its heading.
        objective: the objective that names it.
        answer: the expression that the notebook gives to `lab.check`.
        solution: the worked code.
        hints: to be shown one after another.
        wrong: plausible wrong answers.
        right: code of other right answers, in another style.
        equivalent: mutants of the solution that mean the same, and why.
    """

    id: str
    title: str
    objective: str
    answer: str
    solution: str
    hints: tuple[str, ...]
    wrong: tuple[WrongAnswer, ...]
    right: tuple[str, ...] = ()
    equivalent: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class LessonEntry:
    """One lesson's front matter and exercises.

    Args:
        number: two digits.
        name: the file's name without its ending, for example `04_first_hudi_table`.
        title: as in its first heading.
        teach: minutes of reading and running.
        do: minutes of exercises.
        needs: numbers of the lessons that should come before.
        services: names of the services it uses.
        exercises: in their order.
    """

    number: str
    name: str
    title: str
    teach: int
    do: int
    needs: tuple[str, ...]
    services: tuple[str, ...]
    exercises: tuple[Exercise, ...]


_FORMAT = TypeAdapter(LessonEntry)


def to_json(entry: LessonEntry) -> str:
    """The entry as the text of its registry file."""
    return _FORMAT.dump_json(entry, indent=1, exclude_defaults=True).decode() + "\n"


def lessons(folder: Path = REGISTRY) -> dict[str, LessonEntry]:
    """All lessons by number, in their order.

    Args:
        folder: where the lessons' folders lie.
    """
    entries = (
        _FORMAT.validate_json(path.read_text(encoding="utf-8"))
        for path in sorted(folder.glob("l[0-9][0-9]/exercises.json"))
    )
    return {entry.number: entry for entry in entries}


def exercise(exercise_id: str, folder: Path = REGISTRY) -> Exercise:
    """The exercise with that id.

    Args:
        exercise_id: for example `04.1`.
        folder: where the lessons' folders lie.

    Raises:
        LabError: there is none; the text names the nearest ids.
    """
    known = {item.id: item for entry in lessons(folder).values() for item in entry.exercises}
    exercise_id = str(exercise_id).strip()
    if re.fullmatch(r"\d\.\d", exercise_id):  # 4.2 for 04.2
        exercise_id = f"0{exercise_id}"
    if exercise_id in known:
        return known[exercise_id]
    same_lesson = [name for name in known if name[:3] == str(exercise_id)[:3]]
    near = same_lesson or difflib.get_close_matches(str(exercise_id), known)
    raise LabError(
        f"There is no exercise {exercise_id!r}.",
        f"choose from: {', '.join(near)}." if near else "see lab.progress() for all exercises.",
    )
