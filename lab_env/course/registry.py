"""Reads the exercises of all lessons from the lessons' sources."""

import difflib
import hashlib
import re
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from lab_env.course.source import (
    EQUIVALENT,
    EXPECT,
    LESSONS,
    Cell,
    Lesson,
    check_call,
    read_lesson,
    sources,
    without_check,
)
from lab_env.platform.errors import LabError


@dataclass(frozen=True)
class WrongAnswer:
    """A plausible wrong answer that CI runs; the check's message must contain `expect`.

    `falls` says how it fares on the exercise's ladder: `rung 2`, `holds`, or why it is not tried.
    """

    code: str
    expect: str
    falls: str = ""


@dataclass(frozen=True)
class Exercise:
    """One exercise as declared in its lesson's source.

    `answer` is the expression passed to `lab.check`, and `solution` the code without that call.
    `equivalent` maps mutants of its code that behave like the solution to the reason, `harmless`
    those of its effects; `uses` is the id of an exercise whose reference answer the solution needs.
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
    harmless: dict[str, str] = field(default_factory=dict)
    uses: str = ""

    @property
    def task(self) -> str:
        """Short hash of the title and of what is handed in, which change with the task.

        The wording of the task is not part of it: it changes more often than what is to be done.
        """
        return hashlib.sha256(f"{self.title}\n{self.answer}".encode()).hexdigest()[:8]


@dataclass(frozen=True)
class LessonEntry:
    """One lesson's front matter and exercises; `teach` and `do` are minutes."""

    number: str
    name: str
    title: str
    teach: int
    do: int
    needs: tuple[str, ...]
    services: tuple[str, ...]
    exercises: tuple[Exercise, ...]


def lessons(folder: Path = LESSONS) -> dict[str, LessonEntry]:
    """Return all lessons by number, in order."""
    read = [_read(path, path.stat().st_mtime_ns) for path in sources(folder)]
    return {entry.number: entry for entry in read}


@lru_cache
def _read(path: Path, modified: int) -> LessonEntry:
    return _entry(read_lesson(path))


def exercise(exercise_id: str, folder: Path = LESSONS) -> Exercise:
    """Return the exercise with this id (`04.1` or `4.1`); raise a LabError if there is none."""
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


def _entry(lesson: Lesson) -> LessonEntry:
    front = lesson.front
    return LessonEntry(
        number=lesson.number,
        name=lesson.name,
        title=front["title"],
        teach=front["minutes"]["teach"],
        do=front["minutes"]["do"],
        needs=tuple(front["needs"]),
        services=tuple(front["services"]),
        exercises=tuple(_exercise(lesson, cell) for cell in lesson.cells if cell.exercise),
    )


def _declared(lesson: Lesson, option: str, exercise_id: str) -> dict[str, str]:
    """Return an exercise's mutants that are declared with this option, and why."""
    own = (cell.text for cell in lesson.cells if cell.options.get(option) == exercise_id)
    return {change: why for text in own for change, why in EQUIVALENT.findall(text)}


def _exercise(lesson: Lesson, cell: Cell) -> Exercise:
    wrong = [other.text for other in lesson.cells if other.wrong == cell.exercise]
    call = check_call(cell.versions.worked)
    assert call  # the template requires it
    return Exercise(
        id=cell.exercise,
        title=lesson.exercise_titles()[cell.exercise],
        objective=next(text for text, _, ids in lesson.objectives() if cell.exercise in ids),
        answer=call[1],
        solution=without_check(cell.versions.worked),
        hints=tuple(_hint(other.text) for other in lesson.cells if other.hint == cell.exercise),
        wrong=tuple(
            WrongAnswer(text[found.end() :].strip(), found["message"].strip(), found["falls"] or "")
            for text in wrong
            if (found := EXPECT.match(text))
        ),
        right=tuple(other.text.strip() for other in lesson.cells if other.right == cell.exercise),
        uses=cell.options.get("uses", ""),
        equivalent=_declared(lesson, "equivalent", cell.exercise),
        harmless=_declared(lesson, "harmless", cell.exercise),
    )


def _hint(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))
