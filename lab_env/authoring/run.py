"""Runs a lesson's two notebooks as CI does: pytest with nbmake and the course's plugin."""

import subprocess
import sys
from pathlib import Path

from lab_env.authoring.build import COURSE, Tree
from lab_env.errors import LabError


def notebooks_of(number: str, tree: Tree = COURSE) -> list[Path]:
    """The learner's and the worked notebook of a lesson; LabError if it has none."""
    found = [*tree.learner.glob(f"{number}_*.ipynb"), *tree.worked.glob(f"{number}_*.ipynb")]
    if not found:
        raise LabError(f"Lesson {number} has no notebooks.", "run: lab author build")
    return found


def run(number: str, tree: Tree = COURSE) -> int:
    """Execute both notebooks of a lesson; returns pytest's exit status, 0 if both pass."""
    paths = [str(path.relative_to(tree.root)) for path in notebooks_of(number, tree)]
    command = [sys.executable, "-m", "pytest", "--nbmake", "-q", "-p", "no:cacheprovider", *paths]
    return subprocess.run(command, cwd=tree.root).returncode
