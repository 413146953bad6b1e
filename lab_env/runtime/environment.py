"""The environment of the lab's programs: free of other installations' variables, and marked.

The mark is how leftovers of this LAB_HOME, and of no other, are found again after a crash.
"""

import contextlib
import os

import psutil

from lab_env.runtime.bootstrap import FOREIGN
from lab_env.runtime.state import home

MARK = "STREAMING_LAKEHOUSE_HOME"

# The supervisor and all that it starts carry this one too.
SUPERVISED = "LAKEHOUSE_LAUNCH"


def mark() -> dict[str, str]:
    """The variable by which `lab down` finds a program of this LAB_HOME, whoever started it."""
    return {MARK: str(home())}


def clean_environment() -> dict[str, str]:
    """A copy of this process's environment without the variables of other installations."""
    return {name: value for name, value in os.environ.items() if name not in FOREIGN}


def marked_processes(supervised: bool = False) -> list[psutil.Process]:
    """The living programs of this LAB_HOME, a dead supervisor's included; never this process.

    Args:
        supervised: only what a supervisor started, so not a live load of some terminal.
    """
    found = []
    wanted = mark()
    for process in psutil.process_iter():
        try:
            if process.pid == os.getpid() or process.uids().real != os.getuid():
                continue
            if process.status() == psutil.STATUS_ZOMBIE:
                continue
            environment = process.environ()
            if wanted.items() <= environment.items() and (
                SUPERVISED in environment or not supervised
            ):
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def end_processes(processes: list[psutil.Process], seconds: float = 10) -> None:
    """Ask processes to end and, after a time, kill them; returns when all are gone.

    Args:
        processes: what to end.
        seconds: how long they may take before they are killed.
    """
    for process in processes:
        _signal(process.terminate)
    _, alive = psutil.wait_procs(processes, timeout=seconds)
    for process in alive:
        _signal(process.kill)
    psutil.wait_procs(alive, timeout=10)


def _signal(send) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        send()
