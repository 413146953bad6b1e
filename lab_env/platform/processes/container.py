"""Memory limit of a container; psutil and `/proc/meminfo` report the host's memory instead.

Standard library only: `make test` uses it before there is a `.venv`.
"""

from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")

# For version 2 and version 1 of control groups: the limit, the memory in use, and the part of it
# that the kernel reclaims first: files read a while ago.
V2 = ("memory.max", "memory.current", "inactive_file")
V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def container_memory():
    """Bytes allowed and bytes free under this process's tightest limit; None if it has no limit."""
    found = [limit for folder, names in _groups() if (limit := _limit(folder, *names))]
    if not found:
        return None
    return min(allowed for allowed, _ in found), min(free for _, free in found)


def _groups():
    """Yield this process's control groups, from its own to the outermost visible one."""
    try:
        lines = OWN.read_text().splitlines()
    except OSError:
        return  # not Linux
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0":
            top, names = GROUPS, V2
        elif "memory" in controllers.split(","):
            top, names = GROUPS / "memory", V1
        else:
            continue
        # A container may see the host's path, but only its own group at the top.
        own = top if ".." in path else top / path.lstrip("/")
        for folder in (own, *own.parents):
            yield folder, names
            if folder == top:
                break


def _limit(folder, limit, used, reclaimed):
    try:
        allowed = int((folder / limit).read_text())
        taken = int((folder / used).read_text())
        facts = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):  # there is no such group, or its limit is the word `max`
        return None
    return allowed, max(0, allowed - taken + int(facts.get(reclaimed, 0)))
