"""Prints the number of test processes for this machine; the Makefile uses it.

Each process has its own lab and its own Spark. It spends a fifth of its time waiting for commits
and triggers, so three processes keep two cores busy; larger machines run one per core. A whole
run's duration is in CONTRIBUTING.md. Standard library only: it runs before there is a `.venv`.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab_env.platform.processes.container import container_memory  # noqa: E402: found by the line above

GIGABYTES_PER_PROCESS = 4


def jobs(cores: int, gigabytes: float) -> int:
    """Return the number of test processes for a machine.

    Returns:
        At least one; three on two cores, one per core on larger machines, if memory allows.
    """
    return max(1, min(max(cores, 3) if cores > 1 else 1, int(gigabytes / GIGABYTES_PER_PROCESS)))


def free_gigabytes() -> float:
    """Return the free memory in GB, within a container's limit; on macOS the installed memory."""
    allowed = container_memory()
    return min(_free_of_machine(), allowed[1] / 1e9 if allowed else float("inf"))


def _free_of_machine() -> float:
    try:
        with open("/proc/meminfo") as facts:
            lines = dict(line.split(":") for line in facts)
        return int(lines["MemAvailable"].split()[0]) / 1e6
    except (OSError, KeyError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return usable or 1


if __name__ == "__main__":
    print(jobs(usable_cores(), free_gigabytes()))
