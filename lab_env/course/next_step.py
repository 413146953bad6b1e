"""Chooses the one command that plain `lab` suggests to run next."""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from lab_env.course import copies
from lab_env.course.jupyterlab.running import RunningJupyterLab
from lab_env.course.progress import CourseProgress
from lab_env.platform.services import SERVICES, ServiceStatus
from lab_env.platform.settings import settings

WELL = ("ready", "external", "running", "stopped")


def next_step(
    services: Sequence[ServiceStatus],
    progress: CourseProgress,
    needs_setup: bool = False,
    jupyterlab: RunningJupyterLab | None = None,
) -> str:
    """Return the next step as text: a command, or the URL of a page in the running JupyterLab."""
    if needs_setup:
        return "make setup; something that it fetches or builds is missing"
    unwell = [service.name for service in services if service.state not in WELL]
    if servers := [name for name in unwell if name in SERVICES]:
        return f"{typed('doctor')} says what is wrong with {', '.join(servers)}"
    if unwell:
        return f"{typed(f'logs {unwell[0]}')} says what is wrong with it"
    if (found := progress.next_exercise()) is None:
        return f"{typed('certificate')}; every exercise is passed"
    lesson, exercise = found
    how = "go on with" if progress.kept["exercises"] else "begin with"
    what = f"{how} lesson {lesson.number}, exercise {exercise}"
    if jupyterlab:
        page = jupyterlab.page(f"{settings().work.name}/{copies.name_of(lesson.number)}")
        return f"{what}\nJupyterLab runs: {page}"
    return f"{typed('jupyter')}, then {what}"


def typed(command: str) -> str:
    """Return a `lab` command as the user must type it: with its path if `lab` is not on PATH."""
    own = Path(sys.executable).with_name("lab")
    return f"{'lab' if shutil.which('lab') == str(own) else '.venv/bin/lab'} {command}"
