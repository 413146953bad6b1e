"""Environment variables of the lab's programs: adapted to this machine, and with a mark.

The mark is a variable by which the lab finds the programs of this LAB_HOME after a crash. Variables
that point to other installations of Python, Spark or Hadoop (`SCRUBBED_ENV`) are left out.
"""

import contextlib
import os
from pathlib import Path

import psutil

from lab_env.platform.install.bootstrap import SCRUBBED_ENV
from lab_env.platform.processes.state import folder, home
from lab_env.platform.processes.system import environment_of, is_noexec
from lab_env.platform.processes.tree import is_alive
from lab_env.platform.settings import settings

MARK = "STREAMING_LAKEHOUSE_HOME"

# The supervisor and all its children carry this one too.
SUPERVISED = "LAKEHOUSE_LAUNCH"

# Namespace of the lesson whose notebook started a program.
LESSON = "STREAMING_LAKEHOUSE_LESSON"

PROXIES = ("http_proxy", "https_proxy", "all_proxy")

# Java unpacks its native libraries here on Linux, regardless of TMPDIR.
JAVA_TEMPORARY = Path("/tmp")
JAVA_OPTIONS = "JAVA_TOOL_OPTIONS"


def mark() -> dict[str, str]:
    """Variable by which `lab down` finds any program of this LAB_HOME."""
    return {MARK: str(home())}


def mark_of_lesson(namespace: str) -> dict[str, str]:
    """Variables that mark the programs of a lesson's notebook, so that its reset finds them."""
    return mark() | {LESSON: namespace}


def programs_of_lesson(namespace: str) -> list[psutil.Process]:
    """Running programs that a lesson's notebook has started, perhaps in an earlier kernel."""
    return [p for p in marked_processes() if environment_of(p).get(LESSON) == namespace]


def clean_environment() -> dict[str, str]:
    """Copy this process's environment, without `SCRUBBED_ENV` but with the `adaptations`."""
    kept = {name: value for name, value in os.environ.items() if name not in SCRUBBED_ENV}
    return kept | settings().conf_folders | adaptations()


def adapt() -> None:
    """Set the `adaptations` in this process, for its libraries and its child processes."""
    os.environ.update(adaptations())


def adaptations() -> dict[str, str]:
    """Variables that work around a proxy and a /tmp without execute permission; usually none.

    If a proxy is set, clients would use it for the lab's own servers, too. If /tmp is mounted
    noexec, Java cannot load the native libraries of Snappy, Zstandard and RocksDB from there.
    """
    return _without_proxy() | _loading_elsewhere()


def proxies() -> list[str]:
    """Names of the proxy variables that are set."""
    names = [spelling for name in PROXIES for spelling in (name, name.upper())]
    return [name for name in names if os.environ.get(name)]


def _without_proxy() -> dict[str, str]:
    if not proxies():
        return {}
    own = ["localhost", "127.0.0.1", settings().client_host, settings().spark_driver_host]
    excluded = {}
    for name, other in (("no_proxy", "NO_PROXY"), ("NO_PROXY", "no_proxy")):
        given = os.environ.get(name) or os.environ.get(other) or ""
        hosts = [host.strip() for host in given.split(",")]
        # A list with more than the star would no longer mean every host.
        hosts = hosts if hosts == ["*"] else [*hosts, *own]
        excluded[name] = ",".join(dict.fromkeys(filter(None, hosts)))
    return excluded


def _loading_elsewhere() -> dict[str, str]:
    if not is_noexec(JAVA_TEMPORARY):
        return {}
    given = os.environ.get(JAVA_OPTIONS, "")
    if "-Djava.io.tmpdir=" not in given:
        given = f'{given} "-Djava.io.tmpdir={folder("tmp", 0o700)}"'.strip()
    return {JAVA_OPTIONS: given}


def marked_processes(supervised: bool = False) -> list[psutil.Process]:
    """Return the other running programs of this LAB_HOME, even if their supervisor is dead.

    With `supervised`, leave out those that no supervisor started, such as a load in a terminal.
    """
    wanted = str(home())
    return [
        process
        for process in psutil.process_iter()
        if process.pid != os.getpid()
        and _is_own(process)
        and (environment := environment_of(process)).get(MARK) == wanted
        and (SUPERVISED in environment or not supervised)
        and is_alive(process)
    ]


def _is_own(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        # A program that refuses to run as root runs as another user, but root started it.
        return os.getuid() in (0, process.uids().real)
    return False
