"""The environment of the lab's programs: free of other installations' variables, and marked.

The mark is how leftovers of this LAB_HOME, and of no other, are found again after a crash.
"""

import contextlib
import os
import time

import psutil

from lab_env.install.bootstrap import SCRUBBED_ENV
from lab_env.processes.state import home

MARK = "STREAMING_LAKEHOUSE_HOME"

# The supervisor and all that it starts carry this one too.
SUPERVISED = "LAKEHOUSE_LAUNCH"


def mark() -> dict[str, str]:
    """The variable by which `lab down` finds a program of this LAB_HOME, whoever started it."""
    return {MARK: str(home())}


def clean_environment() -> dict[str, str]:
    """A copy of this process's environment without the variables of other installations."""
    return {name: value for name, value in os.environ.items() if name not in SCRUBBED_ENV}


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
    """Ask processes to end and, after a time, kill them; returns when all have ended.

    Args:
        processes: what to end.
        seconds: how long they may take before they are killed.
    """
    for process in processes:
        _signal(process.terminate)
    for process in wait_until_ended(processes, seconds):
        _signal(process.kill)
    wait_until_ended(processes, 10)


def wait_until_ended(processes: list[psutil.Process], seconds: float) -> list[psutil.Process]:
    """Wait until processes have ended; a zombie has, although its parent has not noticed yet.

    Args:
        processes: what to wait for.
        seconds: the longest wait.

    Returns:
        Those that are still alive.
    """
    deadline = time.monotonic() + seconds
    alive = list(processes)
    while alive:
        psutil.wait_procs(alive, timeout=0.1)
        alive = [process for process in alive if _is_alive(process)]
        if time.monotonic() > deadline:
            break
    return alive


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _signal(send) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        send()
