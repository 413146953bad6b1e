"""Checks this machine and this lab, and names the fix for each problem."""

import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from lab_env.platform.errors import LabError
from lab_env.platform.install import bootstrap
from lab_env.platform.install.cache import cache
from lab_env.platform.install.jars import ON_DEMAND, corrupt_jars, jar_folder, jars_fetched
from lab_env.platform.install.java import VERSION, find_java, java_version
from lab_env.platform.install.versions import versions
from lab_env.platform.jvm import exhaustion_in
from lab_env.platform.processes import supervisor
from lab_env.platform.processes.container import container_memory
from lab_env.platform.processes.environment import (
    JAVA_TEMPORARY,
    clean_environment,
    left_out,
    proxies,
)
from lab_env.platform.processes.locks import is_free
from lab_env.platform.processes.ports import port_is_free
from lab_env.platform.processes.state import folder, home
from lab_env.platform.processes.system import check_user, is_noexec, is_wsl, memory
from lab_env.platform.processes.tree import resident_bytes
from lab_env.platform.services.base import Finding, NotReady
from lab_env.platform.services.manager import exposure
from lab_env.platform.services.minio import disk_refused
from lab_env.platform.services.minio_program import find_minio
from lab_env.platform.services.registration import SERVICES
from lab_env.platform.settings import settings, unknown_variables

GIGABYTE = 1e9
NEEDED_MEMORY = 4  # gigabytes, for services, Spark and load together
COMFORTABLE_DISK, LEAST_DISK = 5, 1  # gigabytes
NEEDED_FILES = 4096


def run_checks(try_session: Callable[[], None] | None = None) -> list[Finding]:
    """Run every check; a check that fails to run is reported as a finding.

    If the settings are invalid, that is the only finding, because every other check needs them.
    `try_session` comes last, and only if nothing has failed; it raises LabError.
    """
    try:
        settings()
    except LabError as error:
        return [Finding("settings", "fail", error.what, error.next_step)]
    checks = {
        "settings": _settings,
        "network": _bind,
        "user": _user,
        "python": _python,
        "packages": _packages,
        "java": _java,
        "java starts": _java_starts,
        "java libraries": _java_libraries,
        "environment": _foreign_variables,
        "proxy": _proxy,
        "jars": _jars,
        "checksums": _checksums,
        **{service.name: service.diagnose for service in SERVICES.values()},
        "disk": _disk,
        "locks": _locks,
        "open files": _open_files,
        "clock": _clock,
        "memory": _memory,
        "leftovers": _leftovers,
        "reach": _reach,
        "ports": _ports,
        "services": _services,
        "jvm": _exhausted,
    }
    findings = _findings(checks)
    if try_session and all(finding.verdict != "fail" for finding in findings):
        findings += _findings({"session": lambda: _session(try_session)})
    return findings


def needs_setup() -> bool:
    """True if something is missing that `make setup` provides; quick, as it skips checksums."""
    checks = {"packages": _packages, "java": _java, "jars": _jars, "minio": _minio}
    found = _findings(checks)
    return any("make setup" in finding.fix for finding in found)


def _findings(checks: Mapping[str, Callable[[], Iterable[Finding]]]) -> list[Finding]:
    findings: list[Finding] = []
    for subject, check in checks.items():
        try:
            findings += check()
        except LabError as error:
            findings.append(Finding(subject, "fail", error.what, error.next_step))
    return findings


def _bind() -> Iterator[Finding]:
    if warning := exposure():
        fix = "unset LAB_BIND, or block these ports for other machines with a firewall"
        yield Finding("network", "warn", warning, fix)
    else:
        fact = f"{settings().bind}: only users of this machine can reach the servers"
        yield Finding("network", "ok", fact)


def _user() -> Iterable[Finding]:
    check_user()
    return ()


def _python() -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    usable = bootstrap.usable_pythons()
    if sys.version_info[:2] in usable:
        yield Finding("python", "ok", f"{version} ({sys.executable})")
    else:
        fact = f"{version}; {bootstrap.pythons(usable)} is needed"
        yield Finding("python", "fail", fact, "run: make setup")


def _packages() -> Iterator[Finding]:
    in_venv = Path(sys.prefix).resolve() == bootstrap.VENV.resolve()
    if Path(sys.prefix, "conda-meta").exists() and not in_venv:
        yield Finding("packages", "ok", f"conda environment {sys.prefix}")
    elif bootstrap.is_complete():
        yield Finding("packages", "ok", "the versions of requirements.lock")
    else:
        fact = "not the versions of requirements.lock"
        yield Finding("packages", "warn", fact, "run: make setup")


def _java() -> Iterator[Finding]:
    java = find_java()
    yield Finding("java", "ok", f"{VERSION} from {java.origin} ({java.home})")
    chosen = os.environ.get("JAVA_HOME")
    if chosen and java.origin != "JAVA_HOME":
        version = java_version(Path(chosen))
        kind = f"Java {version}" if version else "not a Java"
        yield Finding("java", "ok", f"the lab does not use JAVA_HOME={chosen}: it is {kind}")


def _java_starts() -> Iterator[Finding]:
    java = find_java()
    started = subprocess.run(
        [java.program, "-version"], env=clean_environment(), capture_output=True, text=True
    )
    if started.returncode:
        fix = "remove what it names, or let make setup fetch another: unset JAVA_HOME; make setup"
        yield Finding("java", "fail", f"{java.program} fails: {started.stderr.strip()}", fix)


def _foreign_variables() -> Iterator[Finding]:
    """List what the lab leaves out: variables of the user's other work, and no settings of ours."""
    if found := sorted({*left_out, *unknown_variables()}):
        yield Finding("environment", "ok", f"the lab's programs do not see {', '.join(found)}")


def _proxy() -> Iterator[Finding]:
    if found := proxies():
        fact = f"{', '.join(found)}: not used for servers on this machine"
        yield Finding("environment", "ok", fact)


def _java_libraries() -> Iterator[Finding]:
    """Check that noexec does not keep Java from loading Snappy, Zstandard and RocksDB."""
    if not is_noexec(JAVA_TEMPORARY):
        return
    if not is_noexec(home()):
        fact = f"{JAVA_TEMPORARY} is mounted noexec, so Java unpacks its libraries below {home()}"
        yield Finding("java", "ok", fact)
    else:
        fact = f"{JAVA_TEMPORARY} and {home()} are mounted noexec: Java can load no library there"
        yield Finding("java", "fail", fact, "set LAB_HOME to a folder on a disk without noexec")


def _jars() -> Iterator[Finding]:
    optional = [s.name for s in SERVICES.values() if s.fetched_on_demand or s.external]
    optional += ON_DEMAND
    sets = []
    for name, pins in versions()["jars"].items():
        if name not in optional or jars_fetched(name):
            jar_folder(name)  # an error if one is missing
            sets.append(f"{name} ({len(pins)})")
    yield Finding("jars", "ok", f"complete: {', '.join(sets)}")


def _minio() -> Iterator[Finding]:
    if not SERVICES["minio"].external and find_minio() is None:
        yield Finding("minio", "fail", "MinIO is not installed", "run: make setup")


def _checksums() -> Iterator[Finding]:
    for jar in corrupt_jars():
        yield Finding("jars", "fail", f"{jar} is damaged", f"run: rm -r {jar.parent}; make setup")


def _disk() -> Iterator[Finding]:
    for name, path in (("LAB_HOME", home()), ("LAB_CACHE", cache())):
        free = shutil.disk_usage(path).free / GIGABYTE
        verdict = "ok" if free >= COMFORTABLE_DISK else "warn" if free >= LEAST_DISK else "fail"
        if name == "LAB_HOME" and (why := disk_refused(path)):
            yield Finding("disk", "fail", f"{why} ({path})", "free some space")
            continue
        fix = f"free some space, or set {name} to a folder on a larger disk"
        fact = f"{free:.1f} GB free in {name}={path}"
        yield Finding("disk", verdict, fact, "" if verdict == "ok" else fix)


def _locks() -> Iterable[Finding]:
    """Try a lock where the lab needs one; a file system without locks raises the error."""
    for lock in (folder("run", 0o700) / "lock", cache() / "lock"):
        if os.access(lock.parent, os.W_OK):
            is_free(lock)
    return ()


def _open_files() -> Iterator[Finding]:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if 0 < most < NEEDED_FILES:
        fact = f"a program may open {most} files; MinIO and Kafka need up to {NEEDED_FILES}"
        yield Finding("open files", "warn", fact, f"raise the limit: ulimit -Hn {NEEDED_FILES}")


def _clock() -> Iterator[Finding]:
    """Compare the clock with files that the lab has written: Hudi's instants must not go back."""
    newest = max((log.stat().st_mtime for log in folder("logs").glob("*.log")), default=0)
    if newest > time.time() + 60:
        fact = f"the clock is {newest - time.time():.0f} s behind the newest log of the lab"
        yield Finding("clock", "warn", fact, "set it right, or start anew: lab down --purge")


def _reach() -> Iterator[Finding]:
    if supervisor.unreachable():
        yield Finding("leftovers", "fail", supervisor.OUT_OF_REACH, "run: lab down; lab up")


def _memory() -> Iterator[Finding]:
    found = memory()
    free, total = found.available / GIGABYTE, found.total / GIGABYTE
    used_by_lab = sum(resident_bytes(program.pid) for program in supervisor.status()) / GIGABYTE
    enough = free + used_by_lab >= NEEDED_MEMORY
    where, more = "", "close other programs"
    if container_memory():
        where, more = " in this container", "give the container more"
    fact = f"{free:.1f} of {total:.1f} GB free{where}; the lab needs {NEEDED_MEMORY}"
    fix = f"{more}, or set LAB_SPARK_MEMORY=700m"
    if is_wsl():
        fix += (
            ", or give WSL more: memory=6GB below [wsl2] in .wslconfig in your Windows home,"
            " then wsl --shutdown"
        )
    yield Finding("memory", "ok" if enough else "warn", fact, "" if enough else fix)


def _leftovers() -> Iterator[Finding]:
    orphans = supervisor.orphans()
    for orphan in orphans:
        fact = f"process {orphan.pid} ({orphan.name()}) is left from a crash"
        yield Finding("leftovers", "warn", fact, "run: lab up, or lab down")
    if supervisor.stale_files():
        fact = "socket and pid files of a supervisor that has ended"
        yield Finding("leftovers", "warn", fact, "run: lab up, or lab down")
    elif not orphans:
        yield Finding("leftovers", "ok", "none")


def _ports() -> Iterator[Finding]:
    """Check the ports of stopped services; a busy one is fine, because `lab up` takes another."""
    wanted = {
        port: f"LAB_{service.port_setting(name)}".upper()
        for service in SERVICES.values()
        if not (service.external or service.running())
        for name, port in service.preferred_ports().items()
    }
    busy = [f"{port} ({variable})" for port, variable in wanted.items() if not port_is_free(port)]
    if busy:
        yield Finding("ports", "ok", f"in use: {', '.join(busy)}; lab up takes free ones instead")
    elif wanted:
        yield Finding("ports", "ok", "the preferred ports are free")


def _services() -> Iterator[Finding]:
    stopped = []
    for service in SERVICES.values():
        status = supervisor.status_of(service.name)
        if not service.external and (status is None or status.state == "STOPPED"):
            stopped.append(service.name)
            continue
        try:
            service.check()
            yield Finding("services", "ok", f"{service.title} answers at {service.address()}")
        except NotReady as why:
            restart = f"run: lab logs {service.name}   (then: lab down; lab up)"
            fix = f"check {service.variables}" if service.external else restart
            yield Finding("services", "fail", f"{service.title}: {why}", fix)
    if stopped:
        yield Finding("services", "ok", f"not running: {', '.join(stopped)}")


def _session(try_session: Callable[[], None]) -> Iterator[Finding]:
    begun = time.monotonic()
    try_session()
    yield Finding("session", "ok", f"Spark starts and counts ({time.monotonic() - begun:.0f} s)")


def _exhausted() -> Iterator[Finding]:
    """Find JVMs that ran out of a resource: later exceptions do not name that cause."""
    for log in sorted(folder("logs").glob("*.log")):
        if found := exhaustion_in(log):
            fact = f"{log.stem}: {found.cause} (in {log})"
            yield Finding("jvm", "warn", fact, f"restart it; {found.next_step}")


def _settings() -> Iterator[Finding]:
    """List settings that differ from their defaults; secrets are shown as asterisks."""
    chosen = settings().model_fields_set
    shown = [f"LAB_{name.upper()}={getattr(settings(), name)}" for name in sorted(chosen)]
    yield Finding("settings", "ok", ", ".join(shown) or "all have their defaults")
