"""How many test processes `make test` runs on this machine: printed for the Makefile.

Each has a lab and a Spark of its own. They wait for commits and triggers a fifth of their time, so two
cores do best with three processes; a core more each is enough from four cores on. Measured figures are
in CONTRIBUTING.md.
"""

import os

GIGABYTES_PER_PROCESS = 4


def jobs(cores: int, gigabytes: float) -> int:
    """Test processes for a machine.

    Args:
        cores: that this process may use.
        gigabytes: of memory that are free.

    Returns:
        At least one; three on two cores, as many as cores on larger machines, if memory allows.
    """
    return max(1, min(max(cores, 3) if cores > 1 else 1, int(gigabytes / GIGABYTES_PER_PROCESS)))


def free_gigabytes() -> float:
    """Memory that programs can take, as the system estimates; without its word, what is installed."""
    try:
        with open("/proc/meminfo") as facts:
            lines = dict(line.split(":") for line in facts)
        return int(lines["MemAvailable"].split()[0]) / 1e6
    except (OSError, KeyError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9


if __name__ == "__main__":
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    print(jobs(usable or 1, free_gigabytes()))
