"""Builds the two notebooks of each lesson and demo.

The output is deterministic. `build` writes the files, and `drift` compares the committed files
with a fresh build.
"""

from pathlib import Path

import nbformat

from lab_env.course.authoring.demo_rules import FOLDER as DEMOS
from lab_env.course.authoring.demo_rules import demo_sources, problems_of_demo, slide_type
from lab_env.course.authoring.template import problems_of
from lab_env.course.problems import refuse
from lab_env.course.source import Cell, Lesson, read_lesson, sources
from lab_env.platform.settings import REPOSITORY

_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


class Tree:
    """The folders of sources and generated files, below a root laid out like the repository."""

    def __init__(self, root: Path = REPOSITORY):
        self.root = root
        self.learner = root / "notebooks"
        self.worked = root / "solutions"
        self.lessons = root / "lab_env" / "lessons"
        self.executed = root / "build" / "executed"  # the notebooks as last executed
        self.site = root / "build" / "site"

    def lesson(self, number: str) -> Path:
        """Return the folder that contains a lesson's source, checks and figures."""
        return self.lessons / f"l{number}"

    def generated(self) -> set[Path]:
        """Return the existing files that `build` manages."""
        return {
            *self.learner.glob("*.ipynb"),
            *self.worked.glob("*.ipynb"),
            *(self.learner / DEMOS).glob("*.ipynb"),
            *(self.worked / DEMOS).glob("*.ipynb"),
        }


COURSE = Tree()


def make(tree: Tree = COURSE) -> dict[Path, str]:
    """Return the content of every generated file, by path.

    Like `build` and `drift`, raises a LabError that lists every violation of the template.
    """
    lessons = [read_lesson(path) for path in sources(tree.lessons)]
    demos = [read_lesson(path) for path in demo_sources(tree.lessons)]
    refuse(
        [problem for lesson in lessons for problem in problems_of(lesson)]
        + [problem for demo in demos for problem in problems_of_demo(demo)]
    )
    made: dict[Path, str] = {}
    for below, sources_there in (("", lessons), (DEMOS, demos)):
        for source in sources_there:
            name = f"{source.name}.ipynb"
            made[tree.learner / below / name] = notebook(source, worked=False)
            made[tree.worked / below / name] = notebook(source, worked=True)
    return made


def build(tree: Tree = COURSE) -> list[Path]:
    """Write all generated files, delete those without a source, and return the changed paths."""
    made = make(tree)
    changed = []
    for path, text in made.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            changed.append(path)
    for stray in sorted(tree.generated() - made.keys()):
        stray.unlink()
        changed.append(stray)
    return changed


def drift(tree: Tree = COURSE) -> list[str]:
    """Return a sentence for each generated file that is missing, outdated or without a source."""
    made = make(tree)
    found = []
    for path, text in made.items():
        name = path.relative_to(tree.root)
        if not path.exists():
            found.append(f"{name} is missing")
        elif path.read_bytes() != text.encode():
            found.append(f"{name} is not what its source makes")
    orphans = sorted(tree.generated() - made.keys())
    orphans += [p for p in sorted(tree.learner.rglob("*.ipynb")) if p.parent != tree.learner]
    skip = ("__pycache__", ".ipynb_checkpoints", "demos")
    return found + [
        f"{path.relative_to(tree.root)} is stray: no lesson makes it"
        for path in orphans
        if not set(path.relative_to(tree.root).parts) & set(skip)
    ]


def notebook(lesson: Lesson, worked: bool) -> str:
    """Return a lesson's or demo's notebook as JSON; only demos have slide metadata."""
    slides = lesson.path.parent.name == DEMOS
    cells = [
        _notebook_cell(cell, cell_id, worked, slides)
        for cell, cell_id in zip(lesson.cells, lesson.cell_ids(), strict=True)
        if cell.shown and (worked or not cell.instructor)
    ]
    made = nbformat.v4.new_notebook(cells=cells, metadata=_METADATA)
    nbformat.validate(made)
    return nbformat.writes(made, indent=1) + "\n"


def _notebook_cell(cell: Cell, cell_id: str, worked: bool, slides: bool):
    text = cell.versions.worked if worked else cell.versions.stub
    metadata: dict[str, object] = {"tags": ["instructor"]} if cell.instructor else {}
    if cell.proof:  # JupyterLab shows its input collapsed, the site folded
        metadata = {"tags": ["proof", "hide-input"], "jupyter": {"source_hidden": True}}
    if slides:
        metadata["slideshow"] = {"slide_type": slide_type(cell)}
    if cell.kind == "markdown":
        return nbformat.v4.new_markdown_cell(text, id=cell_id, metadata=metadata)
    return nbformat.v4.new_code_cell(text, id=cell_id, metadata=metadata)
