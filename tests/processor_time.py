"""Measures the processor time of a test process and of everything that it has started.

Servers, JVMs and kernels run in sessions of their own; all of them carry the value of
`end_of_run.VARIABLE` in their environment. Without `/proc` only this process and its ended children
count.
"""

import os
import threading
import time
from pathlib import Path

import end_of_run

PROC = Path("/proc")
TICKS = os.sysconf("SC_CLK_TCK")


class ProcessorTime:
    """The processor time of one test process; `mark` is its value of `end_of_run.VARIABLE`."""

    def __init__(self, mark: str):
        self._mark = f"{end_of_run.VARIABLE}={mark}".encode()
        self._strangers: set[int] = set()
        self._alive: dict[int, tuple[int, float]] = {}  # parent and seconds, by process id
        self._orphans = 0.0  # ended, and no parent here has waited for them
        self._lock = threading.Lock()

    def watch(self, every: float = 1.0) -> None:
        """Look from now on in the background, so that short-lived servers count."""

        def look() -> None:
            while True:
                self.seconds()
                time.sleep(every)

        threading.Thread(target=look, daemon=True).start()

    def seconds(self) -> float:
        """Return the processor seconds used so far, also those of processes that have ended."""
        with self._lock:
            return self._look()

    def _look(self) -> float:
        if not PROC.is_dir():
            return sum(os.times()[:4])
        before, self._alive = self._alive, self._now()
        for pid in before.keys() - self._alive.keys():
            parent, seconds = before[pid]
            if parent not in before:  # else the parent's time now includes it
                self._orphans += seconds
        return self._orphans + sum(seconds for _, seconds in self._alive.values())

    def _now(self) -> dict[int, tuple[int, float]]:
        pids = {int(path.name) for path in PROC.iterdir() if path.name.isdigit()}
        self._strangers &= pids
        found = {}
        for pid in sorted(pids - self._strangers):
            try:
                parent, seconds = _parent_and_seconds(pid)
                if pid in self._alive or parent in self._alive or self._is_own(pid):
                    found[pid] = parent, seconds
                else:
                    self._strangers.add(pid)
            except OSError:  # it has just ended
                continue
        return found

    def _is_own(self, pid: int) -> bool:
        return pid == os.getpid() or self._mark in (PROC / str(pid) / "environ").read_bytes()


def _parent_and_seconds(pid: int) -> tuple[int, float]:
    """Return a process's parent, and its time with that of the children that it waited for."""
    fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return int(fields[1]), sum(map(int, fields[11:15])) / TICKS
