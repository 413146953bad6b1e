"""Runs a lesson's two notebooks as CI does: with pytest, nbmake and the course's plugin."""

import subprocess
import sys

from lab_env.course.authoring.build import COURSE, build
from lab_env.course.source import sources
from lab_env.platform.errors import LabError


def run(number: str) -> int:
    """Build and execute both notebooks of a lesson; return pytest's exit status (0: both pass)."""
    lesson = next((p.stem for p in sources() if p.stem.startswith(f"{number}_")), None)
    if lesson is None:
        what = f"Lesson {number} has no source in lab_env/lessons."
        raise LabError(what, "run: lab author new")
    build()
    paths = [f"{folder.name}/{lesson}.ipynb" for folder in (COURSE.learner, COURSE.worked)]
    command = [sys.executable, "-m", "pytest", "--nbmake", "-q", "-p", "no:cacheprovider", *paths]
    return subprocess.run(command, cwd=COURSE.root).returncode
