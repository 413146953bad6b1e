"""The sections of a lesson: their names, and what has to run before one can begin with it.

`NN.E` is an exercise, so a section has a letter: `07b` is the second heading between Start and Key
points. `lab goto` takes both.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from string import ascii_lowercase

import nbformat

from lab_env.course.copies import LESSONS, name_of
from lab_env.errors import LabError
from lab_env.settings import REPOSITORY

# The headings that every lesson has around its sections.
OPENING = ("Questions", "Objectives", "What you need", "Start")
CLOSING = ("Key points", "What's next")

RECORDED = REPOSITORY / "data" / "entry_seconds.json"
ENTRY_LIMIT_S = 60  # what `lab goto` aims at

_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_EXERCISE = re.compile(r"^### Exercise (\S+) · ", re.MULTILINE)


@dataclass(frozen=True)
class Section:
    """One section of a lesson.

    Args:
        lesson: two digits.
        number: from 1.
        title: its heading.
        exercises: the ids of its exercises.
        cell: index in the notebook of the cell with its heading.
    """

    lesson: str
    number: int
    title: str
    exercises: tuple[str, ...]
    cell: int

    @property
    def name(self) -> str:
        """The key of its recorded seconds, for example `06.2`."""
        return f"{self.lesson}.{self.number}"

    @property
    def code(self) -> str:
        """The name in `lab goto`, for example `06b`."""
        return f"{self.lesson}{ascii_lowercase[self.number - 1]}"

    def cells_above(self, notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
        """The code cells that make the state in which the section begins.

        Proofs are left out: they change nothing, and no other cell uses their names.

        Args:
            notebook: the learner's notebook of the lesson, as the course has it.
        """
        above = notebook.cells[: self.cell]
        return [cell for cell in above if cell.cell_type == "code" and not is_proof(cell)]


def is_proof(cell: nbformat.NotebookNode) -> bool:
    """Whether a cell only asserts what the text around it claims."""
    return "proof" in cell.metadata.get("tags", [])


def notebook_of(lesson: str, lessons: Path = LESSONS) -> nbformat.NotebookNode:
    """The learner's notebook of a lesson, as the course has it.

    Raises:
        LabError: there is no such lesson.
    """
    return nbformat.read(lessons / name_of(lesson, lessons), as_version=4)


def sections(lesson: str, lessons: Path = LESSONS) -> list[Section]:
    """The sections of a lesson, in order.

    Args:
        lesson: two digits.
        lessons: folder of the lessons.

    Raises:
        LabError: there is no such lesson.
    """
    cells = notebook_of(lesson, lessons).cells
    texts = {n: cell.source for n, cell in enumerate(cells) if cell.cell_type == "markdown"}
    headings = [(n, title) for n, text in texts.items() for title in _HEADING.findall(text)]
    own = headings[len(OPENING) : -len(CLOSING)]
    ends = [n for n, _ in headings[len(OPENING) + 1 :]]
    return [
        Section(lesson, number, title, _exercises(texts, first, end), first)
        for number, ((first, title), end) in enumerate(zip(own, ends, strict=False), 1)
    ]


def section(name: str, lessons: Path = LESSONS) -> Section:
    """The section with this code, or with this exercise.

    Args:
        name: for example `06b`, or `06.2` for the section of exercise 06.2.
        lessons: folder of the lessons.

    Raises:
        LabError: there is no such lesson or section; the next step lists the lesson's own.
    """
    lesson = name[:2]
    known = sections(lesson, lessons)
    for found in known:
        if name == found.code or name in found.exercises:
            return found
    choices = [choice for found in known for choice in (found.code, *found.exercises)]
    raise LabError(
        f"Lesson {lesson} has no section or exercise {name!r}.",
        f"choose from: {', '.join(choices)}   (lab goto {lesson} lists them)",
    )


def recorded_seconds(path: Path = RECORDED) -> dict[str, float]:
    """The measured seconds to enter a section, by its name; those that were measured."""
    if not path.exists():
        return {}
    measured = json.loads(path.read_text(encoding="utf-8"))
    return {name: value for run in measured.values() for name, value in run["seconds"].items()}


def _exercises(texts: dict[int, str], first: int, end: int) -> tuple[str, ...]:
    """The exercises with a heading between two cells."""
    between = (text for n, text in texts.items() if first <= n < end)
    return tuple(found for text in between for found in _EXERCISE.findall(text))
