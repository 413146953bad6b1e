"""The environment of the lab's programs: free of other installations' variables, and marked.

The mark is how the programs of this LAB_HOME, and of no other, are found again after a crash.
"""

import contextlib
import os

import psutil

from lab_env.install.bootstrap import SCRUBBED_ENV
from lab_env.processes.state import home
from lab_env.processes.system import environment_of
from lab_env.processes.tree import is_alive
from lab_env.settings import settings

MARK = "STREAMING_LAKEHOUSE_HOME"

# The supervisor and all that it starts carry this one too.
SUPERVISED = "LAKEHOUSE_LAUNCH"

# The namespace of the lesson whose notebook started a program.
LESSON = "STREAMING_LAKEHOUSE_LESSON"


def mark() -> dict[str, str]:
    """The variable by which `lab down` finds a program of this LAB_HOME, whoever started it."""
    return {MARK: str(home())}


def mark_of_lesson(namespace: str) -> dict[str, str]:
    """The variables by which a lesson's reset, too, finds a program that its notebook started."""
    return mark() | {LESSON: namespace}


def programs_of_lesson(namespace: str) -> list[psutil.Process]:
    """The living programs that a notebook of a lesson has started, perhaps in an earlier kernel."""
    return [p for p in marked_processes() if environment_of(p).get(LESSON) == namespace]


def clean_environment() -> dict[str, str]:
    """A copy of this process's environment without the variables of other installations."""
    kept = {name: value for name, value in os.environ.items() if name not in SCRUBBED_ENV}
    return kept | settings().conf_folders


def marked_processes(supervised: bool = False) -> list[psutil.Process]:
    """The living programs of this LAB_HOME, a dead supervisor's included; never this process.

    Args:
        supervised: only what a supervisor started; a live load in a terminal is left out.
    """
    wanted = str(home())
    return [
        process
        for process in psutil.process_iter()
        if process.pid != os.getpid()
        and _is_own(process)
        and (environment := environment_of(process)).get(MARK) == wanted
        and (SUPERVISED in environment or not supervised)
        and is_alive(process)
    ]


def _is_own(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        # A program that refuses root runs as another user, whom root started.
        return os.getuid() in (0, process.uids().real)
    return False
