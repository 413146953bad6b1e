"""Class data sharing (CDS) archive: Spark's JVM maps classes from it instead of parsing jars.

A session and its first Hudi write load some 20,000 classes out of 350 MB of jars. Java 17 can keep
them in an archive (JEP 350, dynamic AppCDS); set-up runs a small session to create it. Measured CPU
seconds of session start and first write: 6.8 and 12.9 without it, 3.9 and 9.7 with it.

The archive only saves time. If it is missing or does not fit, the JVM reads the jars as usual.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from lab_env.platform.install.cache import Progress, cache, partial_folder
from lab_env.platform.install.jars import jar_folder
from lab_env.platform.install.java import find_java
from lab_env.platform.install.maven import pyspark_home
from lab_env.platform.processes.environment import clean_environment


def cds_archive() -> Path | None:
    """Path of the archive; None if it does not exist."""
    archive = _target()
    return archive if archive.exists() and archive.stat().st_size else None


def java_options(others: str) -> str:
    """Add the JVM options that map the archive, if there is one.

    They fit only a session whose class path has `jar_folder("spark")/*` first, then PySpark's jars.
    """
    archive = cds_archive()
    if archive is None:
        return others
    # Without the log options, a JVM that cannot use the archive would warn at each start.
    return f'{others} "-XX:SharedArchiveFile={archive}" -Xlog:cds=off -Xlog:cds+dynamic=off'


def make_cds_archive(session: str, report_progress: Progress = print) -> None:
    """Create the archive unless the cache has it, by running the module `session`.

    The module gets two arguments: the archive and a folder for its data. If this Java cannot create
    an archive, an empty file in its place prevents further attempts.
    """
    target = _target()
    if target.exists():
        return
    report_progress("class archive for Spark: running a first session, half a minute")
    partial = cache() / "partial" / target.name
    partial.parent.mkdir(exist_ok=True)
    partial.unlink(missing_ok=True)
    _make_base_archive()
    with tempfile.TemporaryDirectory() as folder:
        environment = clean_environment() | {
            "SPARK_HOME": str(_spark_home()),
            "JAVA_HOME": str(find_java().home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "AWS_ACCESS_KEY_ID": "nobody",
            "AWS_SECRET_ACCESS_KEY": "nothing",
        }
        command = [sys.executable, "-I", "-m", session, str(partial), folder]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=folder)
    if done.returncode:
        partial.unlink(missing_ok=True)
        log = (done.stdout + done.stderr).splitlines()
        errors = (line.strip() for line in log if "Exception" in line or "Error" in line)
        reason = next(errors, "no reason given")[:300]
        report_progress(f"class archive for Spark: not made, sessions start slower; {reason}")
        return  # the next set-up tries again
    if not partial.exists():
        report_progress("class archive for Spark: this Java cannot make one; sessions start slower")
        partial.touch()
    os.replace(partial, target)


def _make_base_archive() -> None:
    """Create the archive of Java's own classes, which ours extends; the wheel's Java lacks it."""
    java = find_java()
    if java.origin == "set-up" and not (java.home / "lib" / "server" / "classes.jsa").exists():
        subprocess.run([java.home / "bin" / "java", "-Xshare:dump"], capture_output=True)


def _target() -> Path:
    """Path of the archive for this Java, these jars and this PySpark."""
    java = find_java().home
    parts = [str(java), (java / "release").read_text(), jar_folder("spark").name, _pyspark()]
    return cache() / f"classes-{hashlib.sha256(repr(parts).encode()).hexdigest()[:10]}.jsa"


def _pyspark() -> str:
    """Name of this PySpark: its version and its jars' modification time, which a JVM checks.

    The wheel is built on this machine, so a new build of the same version has different times.
    """
    [core] = (pyspark_home() / "jars").glob("spark-core_*.jar")
    return f"pyspark-{version('pyspark')}-{core.stat().st_mtime_ns}"


def _spark_home() -> Path:
    """Create a SPARK_HOME in the cache, hard-linked to PySpark's jars, that outlives any clone.

    A JVM accepts the archive only if the jars it was made from still exist and are the same files
    as those on its class path. The jars in a clone's `.venv` are deleted with the clone.
    """
    target = cache() / _pyspark()
    if not target.is_dir():
        partial = partial_folder(target.name)
        shutil.copytree(pyspark_home() / "bin", partial / "bin")
        # If cache and .venv are on two disks, the jars are copied and the archive is useless.
        shutil.copytree(pyspark_home() / "jars", partial / "jars", copy_function=_link_or_copy)
        os.replace(partial, target)
    return target


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
