"""Looks over this machine and this lab, and says how to mend what is wrong.

Each check states one fact with a verdict: ok, warn (works, but look at it) or fail.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import psutil

from lab_env.errors import LabError
from lab_env.install import bootstrap
from lab_env.install.archives import archive_folder
from lab_env.install.cache import cache
from lab_env.install.jars import corrupt_jars, jar_folder
from lab_env.install.java import VERSION, find_java, java_version
from lab_env.install.versions import versions
from lab_env.jvm import exhaustion_in
from lab_env.processes import supervisor
from lab_env.processes.ports import port_is_free
from lab_env.processes.state import folder, home
from lab_env.processes.tree import resident_bytes
from lab_env.services import SERVICES, exposure
from lab_env.services.base import NotReady
from lab_env.services.minio_program import find_minio, minio_on_path, objection
from lab_env.settings import settings

GIGABYTE = 1e9
NEEDED_MEMORY = 4  # gigabytes, for services, Spark and load together
COMFORTABLE_DISK, LEAST_DISK = 5, 1  # gigabytes


@dataclass(frozen=True)
class Finding:
    """What one check found.

    Args:
        subject: what was looked at.
        verdict: ok, warn or fail.
        fact: what was found.
        mend: how to mend it; empty when there is nothing to mend.
    """

    subject: str
    verdict: Literal["ok", "warn", "fail"]
    fact: str
    fix: str = ""


def run_checks() -> list[Finding]:
    """Run every check; a check that cannot run is a finding itself.

    Nothing can be said about a lab whose settings are wrong: then that is the only finding.
    """
    try:
        settings()
    except LabError as error:
        return [Finding("settings", "fail", error.what, error.next_step)]
    checks = (
        _settings,
        _bind,
        _python,
        _packages,
        _java,
        _spark_home,
        _jars,
        _on_demand,
        _minio,
        _disk,
        _memory,
        _leftovers,
        _ports,
        _services,
        _exhausted,
    )
    findings = []
    for check in checks:
        try:
            findings += check()
        except LabError as error:
            subject = check.__name__.strip("_")
            findings.append(Finding(subject, "fail", error.what, error.next_step))
    return findings


def _bind() -> Iterator[Finding]:
    if warning := exposure():
        fix = "unset LAB_BIND, or let a firewall keep other machines from these ports"
        yield Finding("network", "warn", warning, fix)
    else:
        yield Finding(
            "network", "ok", f"servers listen on {settings().bind}, for this machine only"
        )


def _python() -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] in bootstrap.SUPPORTED_PYTHONS:
        yield Finding("python", "ok", f"{version} ({sys.executable})")
    else:
        yield Finding(
            "python", "fail", f"{version}; {bootstrap.pythons()} is needed", "run: make setup"
        )


def _packages() -> Iterator[Finding]:
    if bootstrap.VENV.resolve() != os.path.realpath(sys.prefix) and "CONDA_PREFIX" in os.environ:
        yield Finding("packages", "ok", f"conda environment {sys.prefix}")
    elif bootstrap.is_complete():
        yield Finding("packages", "ok", "as requirements.lock says")
    else:
        yield Finding("packages", "warn", "not as requirements.lock says", "run: make setup")


def _java() -> Iterator[Finding]:
    java = find_java()
    yield Finding("java", "ok", f"{VERSION} from {java.origin} ({java.home})")
    wanted = os.environ.get("JAVA_HOME")
    if wanted and java.origin != "JAVA_HOME":
        found = java_version(bootstrap.Path(wanted))
        yield Finding(
            "java",
            "warn",
            f"JAVA_HOME={wanted} is {f'Java {found}' if found else 'no Java'}; it is not used",
            "nothing, or set JAVA_HOME to a Java 17.",
        )


def _spark_home() -> Iterator[Finding]:
    for name in ("SPARK_HOME", "SPARK_CONF_DIR", "PYTHONPATH", "PYTHONHOME", "HADOOP_CONF_DIR"):
        if os.environ.get(name):
            fact = f"{name}={os.environ[name]} is set; the lab's own programs do not see it"
            yield Finding("environment", "warn", fact, f"unset {name}")


def _jars() -> Iterator[Finding]:
    sets = ", ".join(f"{name} ({len(pins)})" for name, pins in versions()["jars"].items())
    for name in versions()["jars"]:
        jar_folder(name)
    corrupt = corrupt_jars()
    for jar in corrupt:
        yield Finding("jars", "fail", f"{jar} is damaged", f"rm -r {jar.parent}; make setup")
    if not corrupt:
        yield Finding("jars", "ok", f"complete and unchanged: {sets}")


def _on_demand() -> Iterator[Finding]:
    for name, pin in versions()["archives"].items():
        fetched = archive_folder(name)
        size = f"{pin['megabytes'] / 1000:.1f} GB"
        fact = str(fetched) if fetched else f"not fetched; lab up {name} does it once ({size})"
        yield Finding(name, "ok", fact)


def _minio() -> Iterator[Finding]:
    if SERVICES["minio"].external:
        return
    on_path = minio_on_path()
    if on_path and not settings().minio_binary and (why := objection(on_path, again=True)):
        fact = f"{on_path}, found on PATH, is not used: {why}"
        yield Finding("minio", "warn", fact, "nothing, or update it, or remove it from PATH")
    found = find_minio()
    if found is None:
        yield Finding("minio", "fail", "there is no MinIO program", "run: make setup")
        return
    answer = subprocess.run([found.path, "--version"], capture_output=True, text=True)
    if answer.returncode:
        yield Finding("minio", "fail", f"{found.path} does not run", "remove it, then: make setup")
        return
    built = found.origin == "set-up"
    version = (
        versions()["go"]["minio"]["version"] if built else "".join(answer.stdout.splitlines()[:1])
    )
    yield Finding("minio", "ok", f"{version} from {found.origin} ({found.path})")


def _disk() -> Iterator[Finding]:
    for name, place in (("LAB_HOME", home()), ("LAB_CACHE", cache())):
        free = shutil.disk_usage(place).free / GIGABYTE
        verdict = "ok" if free >= COMFORTABLE_DISK else "warn" if free >= LEAST_DISK else "fail"
        fix = "" if verdict == "ok" else f"free some space, or set {name} to a larger disk."
        yield Finding("disk", verdict, f"{free:.1f} GB free for {name}={place}", fix)


def _memory() -> Iterator[Finding]:
    memory = psutil.virtual_memory()
    free, total = memory.available / GIGABYTE, memory.total / GIGABYTE
    used_by_lab = sum(resident_bytes(program.pid) for program in supervisor.status()) / GIGABYTE
    enough = free + used_by_lab >= NEEDED_MEMORY
    fact = f"{free:.1f} of {total:.1f} GB free; services, Spark and load need {NEEDED_MEMORY} GB"
    fix = "" if enough else "close other programs, or set LAB_SPARK_MEMORY=700m."
    yield Finding("memory", "ok" if enough else "warn", fact, fix)


def _leftovers() -> Iterator[Finding]:
    orphans = supervisor.orphans()
    for stray in orphans:
        fact = f"process {stray.pid} ({stray.name()}) is left from a crash"
        yield Finding("leftovers", "warn", fact, "run: lab up   (or lab down)")
    if supervisor.stale_files():
        fact = "socket and pid files of a supervisor that is gone"
        yield Finding("leftovers", "warn", fact, "run: lab up   (or lab down)")
    elif not orphans:
        yield Finding("leftovers", "ok", "none")


def _ports() -> Iterator[Finding]:
    for service in SERVICES.values():
        if service.external or service.running():
            continue
        for name, port in service.preferred_ports().items():
            if port_is_free(port):
                yield Finding("ports", "ok", f"{port} is free for {service.title} ({name})")
            else:
                fact = f"{port} for {service.title} ({name}) is busy"
                fix = f"nothing: lab up takes a free one. Or set {service.port_variable(name)}."
                yield Finding("ports", "warn", fact, fix)


def _services() -> Iterator[Finding]:
    for service in SERVICES.values():
        status = supervisor.status_of(service.name)
        if not service.external and (status is None or status.state == "STOPPED"):
            yield Finding("services", "ok", f"{service.title} does not run")
            continue
        try:
            service.check()
            yield Finding("services", "ok", f"{service.title} answers at {service.address()}")
        except NotReady as why:
            fix = f"lab logs {service.name}; then: lab down; lab up"
            yield Finding("services", "fail", f"{service.title}: {why}", fix)


def _exhausted() -> Iterator[Finding]:
    """JVMs that ran out of something: the exceptions that follow name anything but the cause."""
    for log in sorted(folder("logs").glob("*.log")):
        found = exhaustion_in(log)
        if found:
            fact = f"{log.stem}: {found.cause} (in {log})"
            yield Finding("jvm", "warn", fact, f"start it again; {found.next_step}")


def _settings() -> Iterator[Finding]:
    chosen = sorted(name for name in os.environ if name.startswith("LAB_"))
    shown = (n if "SECRET" in n or "KEY" in n else f"{n}={os.environ[n]}" for n in chosen)
    yield Finding("settings", "ok", ", ".join(shown) or "all as they come")
