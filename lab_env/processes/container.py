"""A container's memory limit; psutil and `/proc/meminfo` report the host's memory instead.

Standard library only: `make test` asks for it before there is a `.venv`.
"""

from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")

# Of version 2 and version 1 of control groups: the limit, what is in use, and the part of it that
# the kernel gives up first, files read a while ago.
V2 = ("memory.max", "memory.current", "inactive_file")
V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def container_memory():
    """The tightest memory limit of this process's control groups.

    Returns:
        Bytes that they allow, and bytes that are still free; None without a limit.
    """
    found = [limit for folder, names in _groups() if (limit := _limit(folder, *names))]
    if not found:
        return None
    return min(allowed for allowed, _ in found), min(free for _, free in found)


def _groups():
    """The folders of this process's groups, from its own to the outermost that is visible here."""
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
        # A container may see the path that the host has, but only its own group at the top.
        own = top if ".." in path else top / path.lstrip("/")
        for folder in (own, *own.parents):
            yield folder, names
            if folder == top:
                break


def _limit(folder, limit, used, reclaimed):
    """What a group allows, and how much of it is free; None without a limit."""
    try:
        allowed = int((folder / limit).read_text())
        taken = int((folder / used).read_text())
        facts = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):  # there is no such group, or its limit is the word `max`
        return None
    return allowed, max(0, allowed - taken + int(facts.get(reclaimed, 0)))
