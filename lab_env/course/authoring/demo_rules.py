"""The rules of a demo: five minutes, one question, one decisive cell and its proof.

The sources of demos are in `lab_env/lessons/demos/`. The clean notebook is for the audience; the
worked one also has the speaker's notes. Both have the metadata from which Jupyter makes slides.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from lab_env.course.authoring.proof_rules import problems_of_proofs
from lab_env.course.problems import Problem
from lab_env.course.source import Cell, Lesson

FOLDER = "demos"
HEADINGS = ["Prepare", "The question", "The decisive moment", "The twist", "In one sentence"]


def demo_sources(folder: Path) -> list[Path]:
    return sorted((folder / FOLDER).glob("*.py"))


def problems_of_demo(demo: Lesson) -> list[Problem]:
    """Return every violation of the rules for demos."""
    rules = (_front, _cells, _decisive, _notes, problems_of_proofs)
    return [problem for rule in rules for problem in rule(demo)]


def slide_type(cell: Cell) -> str:
    """Return Jupyter's slide type for a demo's cell; proof cells are skipped."""
    if cell.instructor:
        return "notes"
    if cell.proof:
        return "skip"
    if cell.kind == "markdown":
        return "slide" if cell.text.startswith("#") else "-"
    return "subslide"


def _front(demo: Lesson) -> Iterator[Problem]:
    if set(demo.front) - {"jupyter"} != {"title", "lesson"}:
        yield demo.problem(1, 'The front matter of a demo needs title: a text, and lesson: "09".')
    title = f"# Demo · {demo.front.get('title')}"
    if not demo.cells or demo.cells[0].text.split("\n")[0] != title:
        yield demo.problem(1, f"The first cell begins with the heading: {title}")
    if not any(f'Lab.start("demo-{demo.name}")' in cell.text for cell in demo.cells):
        yield demo.problem(1, f'No cell calls Lab.start("demo-{demo.name}").')


def _cells(demo: Lesson) -> Iterator[Problem]:
    shown = [cell for cell in demo.cells if not (cell.instructor or cell.proof)]
    found = [m[1] for c in shown for m in re.finditer(r"^## (.+)$", c.text, re.M)]
    if found != HEADINGS:
        yield demo.problem(1, f"The headings of a demo are: {', '.join(HEADINGS)}.")
    for cell in demo.cells:
        if cell.exercise or not cell.shown:
            yield demo.problem(cell.line, "A demo has no exercise.")


def _decisive(demo: Lesson) -> Iterator[Problem]:
    pairs = zip(demo.cells, [*demo.cells[1:], None], strict=True)
    proven = [
        bool(cell.kind == "code" and after and after.proof)
        for cell, after in pairs
        if cell.options.get("name") == "decisive"
    ]
    if proven != [True]:
        what = 'A demo has one code cell with name="decisive", and a proof cell right after it.'
        yield demo.problem(1, what)


def _notes(demo: Lesson) -> Iterator[Problem]:
    notes = "\n".join(cell.text for cell in demo.cells if cell.instructor)
    for word in ("**Ask:**", "**Common error:**", "**Say:**"):
        if word not in notes:
            yield demo.problem(1, f"The speaker's notes (tags=['instructor']) need {word}")
