"""Stores executed notebooks: the tests save them, and the site shows them."""

import json
import os
from pathlib import Path

import nbformat

from lab_env.course.authoring.build import COURSE, Tree
from lab_env.course.authoring.leaks import secrets_in
from lab_env.platform.errors import LabError


def shown(tree: Tree = COURSE) -> list[Path]:
    """Return the notebooks that the site shows: the worked lessons, then the demos."""
    demos = tree.learner / "demos"
    return [*sorted(tree.worked.glob("*.ipynb")), *sorted(demos.glob("*.ipynb"))]


def keep(executed: nbformat.NotebookNode, path: Path, tree: Tree = COURSE) -> None:
    """Save an executed notebook if the site shows it; raise a LabError if it contains a secret."""
    for number, cell in enumerate(executed.cells, 1):
        found = secrets_in(json.dumps(cell, ensure_ascii=False))
        if found:
            raise LabError(
                f"{path.name}, cell {number} shows a secret of the lab: {', '.join(found)}.",
                "change the cell so that it does not print it.",
            )
    if path not in shown(tree):
        return
    target = tree.executed / path.relative_to(tree.root)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(f".{os.getpid()}")
    nbformat.write(executed, partial)
    partial.replace(target)


def shortfall(tree: Tree = COURSE) -> dict[str, str]:
    """Return the reason why an executed notebook is missing or outdated, by path."""
    found = {}
    for path in shown(tree):
        name = path.relative_to(tree.root)
        executed = tree.executed / name
        if not executed.exists():
            found[str(name)] = "was not executed"
        elif _cells(executed) != _cells(path):
            found[str(name)] = "was changed after it was executed"
    return found


def _cells(path: Path) -> list[tuple[str, str]]:
    notebook = nbformat.read(path, as_version=4)
    return [(cell.cell_type, cell.source) for cell in notebook.cells]
