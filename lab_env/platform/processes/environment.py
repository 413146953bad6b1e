"""Environment variables of the lab's programs: adapted to this machine, and with a mark.

The mark is a variable by which the lab finds the programs of this LAB_HOME after a crash. Language,
time zone and configuration of the lab's programs are the lab's, so that a lesson runs everywhere as
it was tested: variables of the user's other work (`bootstrap.is_foreign`) are left out.
"""

import contextlib
import os
import shutil
import time
from importlib.util import find_spec
from pathlib import Path

import psutil

from lab_env.platform.install.bootstrap import is_foreign
from lab_env.platform.processes.state import folder, home
from lab_env.platform.processes.system import environment_of, is_noexec
from lab_env.platform.processes.tree import is_alive
from lab_env.platform.settings import AWS_CREDENTIALS, settings

MARK = "STREAMING_LAKEHOUSE_HOME"

# The supervisor and all its children carry this one too.
SUPERVISED = "LAKEHOUSE_LAUNCH"

# Namespace of the lesson whose notebook started a program.
LESSON = "STREAMING_LAKEHOUSE_LESSON"

PROXIES = ("http_proxy", "https_proxy", "all_proxy")

# Java unpacks its native libraries here on Linux, regardless of TMPDIR; Spark and S3A put their
# files there, too.
JAVA_TEMPORARY = Path("/tmp")
LEAST_TEMPORARY = 500e6  # bytes that must be free
JAVA_OPTIONS = "JAVA_TOOL_OPTIONS"

# The store's variables that the lab sets itself.
OWN_AWS = (*AWS_CREDENTIALS, "AWS_ENDPOINT", "AWS_REGION", "AWS_ALLOW_HTTP")
NO_FILE = {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}

# Variables of this process's user that the lab does without.
left_out: dict[str, str] = {}


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
    """Copy this process's environment, without foreign variables but with the `adaptations`."""
    kept = {name: value for name, value in os.environ.items() if not _is_foreign(name)}
    return kept | settings().conf_folders | adaptations()


def adapt() -> None:
    """Do the same to this process, for its libraries and its child processes."""
    for name in filter(_is_foreign, [*os.environ]):
        if name not in settings().conf_folders:
            left_out[name] = os.environ.pop(name)
    os.environ.update(adaptations())
    time.tzset()


def adaptations() -> dict[str, str]:
    """Variables by which the lab's programs run alike on every machine.

    Java and Hudi write numbers and names in the user's language: with Turkish or Persian they fail.
    If a proxy is set, clients would use it for the lab's own servers, too. If /tmp is mounted
    noexec, Java cannot load the native libraries of Snappy, Zstandard and RocksDB from there.
    """
    alike = {"LC_ALL": "C.UTF-8", "TZ": "UTC"}
    if matplotlib := find_spec("matplotlib"):
        alike["MATPLOTLIBRC"] = str(Path(str(matplotlib.origin)).parent / "mpl-data/matplotlibrc")
    if settings().keeps_data_here:
        alike |= NO_FILE
    return alike | _without_proxy() | _temporary_elsewhere()


def _is_foreign(name: str) -> bool:
    if name.startswith("AWS_") and settings().keeps_data_here:
        return name not in (*OWN_AWS, *NO_FILE)
    return is_foreign(name)


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


def _temporary_elsewhere() -> dict[str, str]:
    small = shutil.disk_usage(JAVA_TEMPORARY).free < LEAST_TEMPORARY
    if not (small or is_noexec(JAVA_TEMPORARY)):
        return {}
    place = str(folder("tmp", 0o700))
    given = os.environ.get(JAVA_OPTIONS, "")
    if "-Djava.io.tmpdir=" not in given:
        given = f'{given} "-Djava.io.tmpdir={place}"'.strip()
    return {JAVA_OPTIONS: given, "TMPDIR": place}


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
