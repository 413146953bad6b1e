"""What differs between operating systems: Linux, on which the lab is tested, and macOS.

psutil hides most differences. What it cannot hide, and what only Linux has, is here.
"""

import contextlib
import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import psutil

from lab_env.errors import LabError
from lab_env.processes.container import container_memory

KERNEL = Path("/proc/version")

# What opens an address in Windows' browser from WSL: wslu's program, else one of Windows itself.
WINDOWS_BROWSERS = {
    "wslview": "wslview %s",
    "powershell.exe": "powershell.exe -NoProfile -Command \"Start-Process '%s'\"",
}


def environment_of(process: psutil.Process) -> dict[str, str]:
    """The environment that a process was started with; empty if it is not ours to read, or gone.

    Both systems show a user the environment of their own programs. macOS hides that of programs it
    protects, such as those in /usr/bin, so the lab marks only programs of its own.
    """
    try:
        return process.environ()
    except (psutil.Error, OSError):
        return {}


def memory_of(process: psutil.Process) -> int:
    """The bytes of memory that a process accounts for; 0 if it is gone.

    On Linux this is the proportional set size (PSS): a page that three processes share counts a
    third. macOS has no such number, and tells the closest one (USS) of other processes only to
    root. There it is the resident set size (RSS): a shared page counts whole in each process.
    """
    for ask in (lambda: process.memory_full_info().pss, lambda: process.memory_info().rss):
        with contextlib.suppress(psutil.Error, OSError, AttributeError):
            return ask()
    return 0


def check_user() -> None:
    """Refuse a user without a name, as a container may have: Spark's Hadoop does not start then.

    Raises:
        LabError: /etc/passwd, or what stands in for it, has no entry for this user.
    """
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        raise LabError(
            f"User id {os.getuid()} has no entry in /etc/passwd, so Spark cannot start.",
            "add one, or choose a user who has one.",
        ) from None


class Memory(NamedTuple):
    """Bytes of memory.

    Args:
        total: that this machine has, or its container is allowed.
        available: without swapping.
    """

    total: int
    available: int


def memory() -> Memory:
    """The memory that programs here may use: the machine's, or less in a container with a limit."""
    machine = psutil.virtual_memory()
    total, free = container_memory() or (machine.total, machine.available)
    return Memory(min(machine.total, total), min(machine.available, free))


def is_noexec(folder: Path) -> bool:
    """Whether no program and no library can be run from a folder; only Linux tells."""
    return bool(os.statvfs(folder).f_flag & getattr(os, "ST_NOEXEC", 0))


def is_wsl() -> bool:
    """Whether this Linux runs inside Windows (WSL); its kernel says so."""
    try:
        return "microsoft" in KERNEL.read_text().lower()
    except OSError:
        return False  # not Linux


def windows_browser() -> str:
    """The command that opens an address in Windows' browser, as the variable BROWSER takes it.

    Empty outside WSL, and where Windows' programs are not on PATH.
    """
    if is_wsl():
        for program, command in WINDOWS_BROWSERS.items():
            if shutil.which(program):
                return command
    return ""


def browser_environment() -> dict[str, str]:
    """The variable by which Python opens a browser, where it would not find one by itself.

    A BROWSER that the user has set wins.
    """
    command = "" if os.environ.get("BROWSER") else windows_browser()
    return {"BROWSER": command} if command else {}


def open_browser(address: str) -> None:
    """Open an address in the user's browser; without one, nothing happens."""
    import webbrowser

    os.environ |= browser_environment()  # webbrowser reads it when it is first used
    webbrowser.open(address)


def has_display() -> bool:
    """Whether a browser can be opened: on macOS always, on Linux with a display or Windows."""
    return sys.platform == "darwin" or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or windows_browser()
    )


def in_namespace(kind: str, prepare: str, subject: str = "sh") -> tuple[str, ...]:
    """The words that run a command in a namespace of its own; Linux only, see `allows`.

    All paths are whole, because a bare machine's PATH may lack the tools. A user who is not root is
    root of a user namespace.

    Args:
        kind: an option of `unshare`, for example `--mount`.
        prepare: the shell command that comes first there.
        subject: its `$0`.
    """
    unshare = (shutil.which("unshare") or "unshare", *(["--map-root-user"] if os.getuid() else []))
    shell = (shutil.which("sh") or "sh", "-c", f'{prepare} && exec "$@"', subject)
    return (*unshare, kind, *shell)


def with_small_disk(folder: Path, megabytes: int) -> tuple[str, ...]:
    """The words that run a command with a disk of this size mounted on a folder, for it alone."""
    mount = f'{shutil.which("mount")} -t tmpfs -o size={megabytes}m none "$0"'
    return in_namespace("--mount", mount, str(folder))


def as_seen_by(pid: int, path: Path) -> Path:
    """The way from here to a path in another process's namespace; Linux only."""
    return Path(f"/proc/{pid}/root{path}")


# As an unprivileged user, for root's programs that refuse to run as root. Both ways keep access to
# root's files. In a user namespace root is called 65534, and the files' owner is still root; where
# containers forbid that, the program becomes user 65534 and keeps the right to open any file.
_NOBODY = "65534"
_FILES = "-all,+dac_override"
_WITHOUT_ROOT = (
    (
        shutil.which("unshare") or "unshare",
        *("--user", f"--map-user={_NOBODY}", f"--map-group={_NOBODY}"),
    ),
    (
        shutil.which("setpriv") or "setpriv",
        *(f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"),
        # Otherwise access(2) would ignore that right.
        "--securebits=+no_setuid_fixup",
        *(f"--inh-caps={_FILES}", f"--ambient-caps={_FILES}", f"--bounding-set={_FILES}"),
    ),
)


def without_root(title: str) -> tuple[str, ...]:
    """The words before a command that must not run as root; empty for any other user.

    The process that results has the same pid as one without these words.

    Args:
        title: the program's name in the error.

    Raises:
        LabError: this user is root, and this machine has no way to give up root's rights.
    """
    if os.getuid() != 0:
        return ()
    for words in _WITHOUT_ROOT:
        if allows(words):
            return words
    raise LabError(
        f"{title} refuses to run as root, and this machine allows neither user namespaces"
        " (unshare) nor setpriv.",
        "start the lab as another user.",
    )


def allows(words: tuple[str, ...]) -> bool:
    """Whether this machine runs a command behind such words."""
    try:
        return subprocess.run([*words, "true"], capture_output=True).returncode == 0
    except OSError:
        return False
