"""Runs a lesson's two notebooks as CI does: pytest with nbmake and the course's plugin."""

import subprocess
import sys

from lab_env.course.authoring.build import COURSE, Tree, build
from lab_env.course.source import sources
from lab_env.platform.errors import LabError


def run(number: str, tree: Tree = COURSE) -> int:
    """Build and execute both notebooks of a lesson; return pytest's exit status, 0 if both pass."""
    lesson = next((p.stem for p in sources(tree.lessons) if p.stem.startswith(f"{number}_")), None)
    if lesson is None:
        where = tree.lessons.relative_to(tree.root)
        raise LabError(f"Lesson {number} has no source in {where}.", "run: lab author new")
    build(tree)
    paths = [
        str((f / f"{lesson}.ipynb").relative_to(tree.root)) for f in (tree.learner, tree.worked)
    ]
    command = [sys.executable, "-m", "pytest", "--nbmake", "-q", "-p", "no:cacheprovider", *paths]
    return subprocess.run(command, cwd=tree.root).returncode
