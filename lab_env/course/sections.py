"""The sections and exercises that `lab goto` can enter, and the cells to run before each.

`06b` is the second section of lesson 06: the second heading between Start and Key points. `06.2` is
exercise 06.2.
"""

import json
import re
from dataclasses import dataclass
from string import ascii_lowercase
from urllib.parse import quote

import nbformat

from lab_env.course.copies import LESSONS, known_lessons, name_of
from lab_env.platform.errors import LabError
from lab_env.platform.settings import REPOSITORY

# The headings that every lesson has around its sections.
OPENING = ("Questions", "Objectives", "What you need", "Start")
CLOSING = ("Key points", "What's next")

RECORDED = REPOSITORY / "data" / "entry_seconds.json"
ENTRY_LIMIT_S = 60  # what `lab goto` aims at

_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
EXERCISE = re.compile(r"^### (Exercise (\S+) · .+)$", re.MULTILINE)


@dataclass(frozen=True)
class Section:
    """A section (`06b`) or an exercise (`06.2`); `cell` is the index of its heading's cell."""

    name: str
    title: str
    exercises: tuple[str, ...]
    cell: int

    @property
    def lesson(self) -> str:
        return self.name[:2]

    @property
    def fragment(self) -> str:
        """URL fragment that opens the notebook's page at the heading."""
        return f"#heading={quote(self.title.replace(' ', '-'))}"

    def cells_above(self, notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
        """Return the code cells to run before the section, except proof cells."""
        above = notebook.cells[: self.cell]
        return [cell for cell in above if cell.cell_type == "code" and not is_proof(cell)]


def is_proof(cell: nbformat.NotebookNode) -> bool:
    return "proof" in cell.metadata.get("tags", [])


def notebook_of(lesson: str) -> nbformat.NotebookNode:
    """Read a lesson's learner notebook as shipped; raise a LabError if there is none."""
    return nbformat.read(LESSONS / name_of(lesson), as_version=4)


def sections(lesson: str) -> list[Section]:
    """Return the sections of a lesson, given its two digits, in order."""
    texts = _texts(lesson)
    headings = [(n, title) for n, text in texts.items() for title in _HEADING.findall(text)]
    own = headings[len(OPENING) : -len(CLOSING)]
    ends = [n for n, _ in headings[len(OPENING) + 1 :]]
    return [
        Section(f"{lesson}{letter}", title, _exercises(texts, first, end), first)
        for letter, (first, title), end in zip(ascii_lowercase, own, ends, strict=False)
    ]


def full_name(place: str) -> str:
    """Return the name with both digits of its lesson: 04.2 for 4.2."""
    return f"0{place}" if re.fullmatch(r"\d([a-z]|\.\d)?", place) else place


def section(name: str) -> Section:
    """Return a section (`06b`) or an exercise (`06.2`); raise a LabError if there is none."""
    lesson = name[:2]
    exercises = [
        Section(found[1], found[0], (found[1],), n)
        for n, text in _texts(lesson).items()
        for found in EXERCISE.findall(text)
    ]
    known = {found.name: found for found in (*sections(lesson), *exercises)}
    if name not in known:
        raise LabError(
            f"Lesson {lesson} has no section or exercise {name!r}.",
            f"choose from: {', '.join(known)}   (lab goto {lesson} lists them)",
        )
    return known[name]


def section_of_proof(lesson: str, claim: str) -> Section | None:
    """Return the section to enter again for a proof: its own, or the first if it is in Start.

    Returns None for a demo, which has no sections, and if the lesson has no such proof.
    """
    if lesson not in known_lessons():
        return None
    for place, cell in enumerate(notebook_of(lesson).cells):
        if is_proof(cell) and claim in cell.source:
            first, *others = sections(lesson)
            return [first, *(found for found in others if found.cell < place)][-1]
    return None


def recorded_seconds() -> dict[str, float]:
    """Return the recorded seconds that entering a section takes, by name; some may be missing."""
    measured = json.loads(RECORDED.read_text(encoding="utf-8"))
    return {name: value for run in measured.values() for name, value in run["seconds"].items()}


def _texts(lesson: str) -> dict[int, str]:
    cells = notebook_of(lesson).cells
    return {n: cell.source for n, cell in enumerate(cells) if cell.cell_type == "markdown"}


def _exercises(texts: dict[int, str], first: int, end: int) -> tuple[str, ...]:
    between = (text for n, text in texts.items() if first <= n < end)
    return tuple(found[1] for text in between for found in EXERCISE.findall(text))
