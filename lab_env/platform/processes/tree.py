"""A program and its descendants: find these processes, wait for them, end or kill them."""

import contextlib
import time
from collections.abc import Iterable

import psutil


def process_tree(pid: int) -> list[psutil.Process]:
    """A process, then all its descendants; empty if it has ended, or for pid 0 (nothing runs)."""
    try:
        root = psutil.Process(pid) if pid else None
        return [root, *root.children(recursive=True)] if root else []
    except psutil.NoSuchProcess:
        return []


def jvm_below(pid: int) -> psutil.Process | None:
    """First JVM among a process and its descendants; None if there is none."""
    for process in process_tree(pid):
        with contextlib.suppress(psutil.Error):
            if "java" in process.name():
                return process
    return None


def resident_bytes(pid: int) -> int:
    """Resident memory (RSS) of a process tree; pages that two of them share count twice."""
    total = 0
    for process in process_tree(pid):
        with contextlib.suppress(psutil.Error):
            total += process.memory_info().rss
    return total


def end_processes(processes: Iterable[psutil.Process], seconds: float = 10) -> None:
    """Terminate processes, kill those that do not end, and return when all have ended."""
    processes = list(processes)
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    kill_processes(wait_until_ended(processes, seconds))


def kill_processes(processes: Iterable[psutil.Process]) -> None:
    """Kill processes (SIGKILL) and return when they have ended, or after 10 s."""
    processes = list(processes)
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    wait_until_ended(processes, 10)


def wait_until_ended(processes: Iterable[psutil.Process], seconds: float) -> list[psutil.Process]:
    """Wait until processes have ended, and return those that are still alive.

    A zombie counts as ended, even before its parent notices.
    """
    deadline = time.monotonic() + seconds
    alive = [process for process in processes if is_alive(process)]
    while alive and time.monotonic() < deadline:
        psutil.wait_procs(alive, timeout=0.1)
        alive = [process for process in alive if is_alive(process)]
    return alive


def is_alive(process: psutil.Process) -> bool:
    """True if a process still runs; a zombie does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
