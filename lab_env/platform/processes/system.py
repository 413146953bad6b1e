"""Differences between operating systems: Linux, on which the lab is tested, and macOS.

psutil hides most of them. The remaining ones, and Linux-only features, are here.
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

from lab_env.platform.errors import LabError
from lab_env.platform.processes.container import container_memory

KERNEL = Path("/proc/version")

# Programs that open an address in Windows' browser from WSL: wslu's, else one of Windows itself.
WINDOWS_BROWSERS = {
    "wslview": "wslview %s",
    "powershell.exe": "powershell.exe -NoProfile -Command \"Start-Process '%s'\"",
}


def environment_of(process: psutil.Process) -> dict[str, str]:
    """Environment that a process was started with; empty if it is unreadable or the process ended.

    Both systems show users the environment of their own programs. macOS hides that of programs it
    protects, such as those in /usr/bin, so the lab marks only its own programs.
    """
    try:
        return process.environ()
    except (psutil.Error, OSError):
        return {}


def memory_of(process: psutil.Process) -> int:
    """Memory that a process uses, in bytes; 0 if it has ended.

    On Linux this is the proportional set size (PSS): each of three processes that share a page is
    charged a third of it. On macOS it is the resident set size (RSS), which charges each one the
    full page: macOS has no PSS, and shows the USS of other processes only to root.
    """
    for ask in (lambda: process.memory_full_info().pss, lambda: process.memory_info().rss):
        with contextlib.suppress(psutil.Error, OSError, AttributeError):
            return ask()
    return 0


def check_user() -> None:
    """Reject a user without an entry in /etc/passwd, as in some containers: Spark needs one."""
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        raise LabError(
            f"User id {os.getuid()} has no entry in /etc/passwd, so Spark cannot start.",
            "add one, or run as a user who has one.",
        ) from None


class Memory(NamedTuple):
    """Bytes of memory."""

    total: int  # of this machine, or its container's limit
    available: int  # without swapping


def memory() -> Memory:
    """Memory that programs here may use: the machine's, or less in a container with a limit."""
    machine = psutil.virtual_memory()
    total, free = container_memory() or (machine.total, machine.available)
    return Memory(min(machine.total, total), min(machine.available, free))


def is_noexec(folder: Path) -> bool:
    """True if a folder is mounted noexec; only Linux reports it."""
    return bool(os.statvfs(folder).f_flag & getattr(os, "ST_NOEXEC", 0))


def is_wsl() -> bool:
    """True if this Linux runs inside Windows (WSL), according to its kernel."""
    try:
        return "microsoft" in KERNEL.read_text().lower()
    except OSError:
        return False  # not Linux


def windows_browser() -> str:
    """Command for BROWSER that opens an address in Windows' browser; empty outside WSL."""
    if is_wsl():
        for program, command in WINDOWS_BROWSERS.items():
            if shutil.which(program):
                return command
    return ""


def browser_environment() -> dict[str, str]:
    """The variable BROWSER, if Python needs it to find a browser and the user has not set it."""
    command = "" if os.environ.get("BROWSER") else windows_browser()
    return {"BROWSER": command} if command else {}


def open_browser(address: str) -> None:
    """Open an address in the user's browser; do nothing if there is none."""
    import webbrowser

    os.environ |= browser_environment()  # webbrowser reads it at its first use
    webbrowser.open(address)


def has_display() -> bool:
    """True if a browser can be opened: on macOS always, on Linux with a display or in WSL."""
    return sys.platform == "darwin" or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or windows_browser()
    )


def in_namespace(kind: str, prepare: str, subject: str = "sh") -> tuple[str, ...]:
    """Command prefix that runs a command in its own namespace; Linux only, see `allows`.

    All paths are absolute, because a bare machine's PATH may lack the tools. A user who is not root
    becomes root in a user namespace. `kind` is an option of `unshare`, such as `--mount`; `prepare`
    is a shell command that runs in the namespace first, with `subject` as its `$0`.
    """
    unshare = (shutil.which("unshare") or "unshare", *(["--map-root-user"] if os.getuid() else []))
    shell = (shutil.which("sh") or "sh", "-c", f'{prepare} && exec "$@"', subject)
    return (*unshare, kind, *shell)


def with_small_disk(folder: Path, megabytes: int) -> tuple[str, ...]:
    """Command prefix that mounts a disk of this size on a folder, visible only to that command."""
    mount = f'{shutil.which("mount")} -t tmpfs -o size={megabytes}m none "$0"'
    return in_namespace("--mount", mount, str(folder))


def as_seen_by(pid: int, path: Path) -> Path:
    """Path by which this process reaches a path in another process's namespace; Linux only."""
    return Path(f"/proc/{pid}/root{path}")


# Run root's programs that refuse root as an unprivileged user. Both ways keep access to root's
# files. In a user namespace root appears as 65534, and the files' owner is still root; where
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
    """Command prefix that runs a program, with the same pid, without root's rights.

    Empty if this user is not root. Raise an error if this machine cannot drop root's rights.
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
    """True if this machine can run a command with this prefix."""
    try:
        return subprocess.run([*words, "true"], capture_output=True).returncode == 0
    except OSError:
        return False
