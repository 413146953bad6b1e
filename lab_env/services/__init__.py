"""Starts, stops and describes the lab's servers; everything else asks here where they are.

Kernels attach to services that run elsewhere: nothing here keeps state in this process.
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from lab_env.errors import LabError
from lab_env.install.cache import cache_lock
from lab_env.processes import supervisor
from lab_env.processes.state import lab_lock, purge_home
from lab_env.processes.tree import resident_bytes
from lab_env.services.base import NotReady, Service
from lab_env.services.kafka import Kafka
from lab_env.services.kinesis import Kinesis
from lab_env.services.metastore import Metastore
from lab_env.services.minio import MinIO, credentials
from lab_env.services.trino import Trino
from lab_env.settings import Endpoints, settings

SERVICES: dict[str, Service] = {
    service.name: service for service in (MinIO(), Kafka(), Kinesis(), Metastore(), Trino())
}
DEFAULT = ("minio", "kafka")


@dataclass(frozen=True)
class ServiceStatus:
    """One line of `lab status`.

    Args:
        name: of the service, or of another program that the lab supervises.
        state: ready, starting, external, stopped, or what the supervisor says.
        address: what a client needs.
        pid: process id, 0 when it does not run here.
        uptime: seconds since its start.
        restarts: how often the supervisor had to start it again.
        memory_mb: resident memory with its children.
        links: web pages, name and URL.
    """

    name: str
    state: str
    address: str
    pid: int
    uptime: float
    restarts: int
    memory_mb: float
    links: dict[str, str]

    def as_dict(self) -> dict:
        """The same facts as a dictionary, for JSON."""
        return asdict(self)


def up(names: Sequence[str] | None = None, progress: Callable[[str], None] = print) -> Endpoints:
    """Have services running and ready; what runs already is left alone.

    Args:
        names: services; the default ones when not given.
        progress: receives one short line at a time.

    Returns:
        Where the services are.

    Raises:
        LabError: a name is unknown, or a service does not come up.
    """
    wanted = _with_needs(names or DEFAULT)
    with lab_lock():
        own = [service for service in wanted if not service.external]
        # What somebody else runs is asked first: nothing is started for a store that refuses us.
        _wait_until_ready([service for service in wanted if service.external], progress)
        for service in own:
            _fetch_on_demand(service, progress)
        try:
            if own:
                supervisor.ensure_supervisor()
                supervisor.end_orphans()
            for service in own:
                service.start()
            _wait_until_ready(own, progress)
        except LabError:
            _stop_failed(own)
            raise
    return _endpoints()


def start_optional(name: str, progress: Callable[[str], None] = print) -> bool:
    """Start a service that its user can do without, and do not wait until it is ready; `up` waits.

    Where the machine is too small for it, or it cannot be fetched, it is left out, and said so. With
    `CI` in the environment it is never left out.

    Args:
        name: of the service; those that it needs are started, too.
        progress: receives one short line at a time.

    Returns:
        Whether it has been started.

    Raises:
        LabError: the supervisor does not start, or, in CI, the service cannot be fetched.
    """
    wanted = service(name)
    try:
        lack = "" if wanted.running() or os.environ.get("CI") else wanted.missing_resources()
        if lack:
            raise LabError(f"{lack}.", f"when there is more, run: lab up {name}")
        with lab_lock():
            own = [needed for needed in _with_needs([name]) if not needed.external]
            for needed in own:
                _fetch_on_demand(needed, progress)
            supervisor.ensure_supervisor()
            for needed in own:
                needed.start()
    except LabError as error:
        if os.environ.get("CI"):
            raise
        progress(f"{wanted.title} is left out: {error.what} Next: {error.next_step}")
        return False
    return True


def down(purge: bool = False) -> None:
    """Stop services, writers and live loads; returns when none of them is left.

    JupyterLab and the Spark of its kernels go on: they belong to whoever started them.

    Args:
        purge: remove tables, topics, logs, passwords and progress too, as far as they lie in LAB_HOME; the
            cache is spared.

    Raises:
        LabError: a process does not end, or LAB_HOME is not a folder that the lab made.
    """
    with lab_lock():
        supervisor.shutdown()
        if purge:
            purge_home()


def kept_in_home() -> str:
    """What `down(purge=True)` removes, in words: another server's tables and topics are not here."""
    here = {"tables": "minio", "topics": "kafka"}
    own = [what for what, name in here.items() if not SERVICES[name].external]
    return ", ".join([*own, "ledgers, logs, passwords and progress"])


def status() -> list[ServiceStatus]:
    """How every service and every other supervised program is doing.

    A service beyond the default ones is listed once a lesson has asked for it.
    """
    programs = {program.name: program for program in supervisor.status()}
    rows = [
        _service_row(service, programs.get(name))
        for name, service in SERVICES.items()
        if name in DEFAULT or name in programs
    ]
    others = [program for name, program in programs.items() if name not in SERVICES]
    return rows + [_program_row(program, program.state.lower(), "", {}) for program in others]


def endpoints() -> Endpoints:
    """Where the running services are.

    Raises:
        LabError: they do not run.
    """
    stopped = [
        name for name in DEFAULT if not SERVICES[name].external and not SERVICES[name].running()
    ]
    if stopped:
        raise LabError(f"The services are not running ({', '.join(stopped)}).", "run: lab up")
    return _endpoints()


def links() -> dict[str, str]:
    """The web pages of the services: name and URL."""
    return {name: url for service in SERVICES.values() for name, url in service.links().items()}


def exposure() -> str:
    """What other machines can reach because of LAB_BIND; empty if they can reach nothing."""
    if not settings().reachable_from_outside:
        return ""
    own = [service for service in SERVICES.values() if not service.external]
    unprotected = [service.title for service in own if not service.has_login]
    return (
        f"LAB_BIND={settings().bind}: other machines can reach the lab's servers."
        f" These have no login: {', '.join(unprotected)}, Spark's web page."
        " Whoever reaches them can read and change everything in them."
        " MinIO and JupyterLab ask for a key, but the connection is not encrypted."
    )


def service(name: str) -> Service:
    """A service by its name.

    Args:
        name: for example `kafka`.

    Raises:
        LabError: there is none of that name; the text says which there are.
    """
    if name not in SERVICES:
        raise LabError(f"There is no service {name!r}.", f"choose from: {', '.join(SERVICES)}")
    return SERVICES[name]


def _with_needs(names: Sequence[str]) -> list[Service]:
    ordered: dict[str, Service] = {}

    def add(name: str) -> None:
        for needed in service(name).needs:
            add(needed)
        ordered.setdefault(name, service(name))

    for name in names:
        add(name)
    return list(ordered.values())


def _fetch_on_demand(service: Service, progress: Callable[[str], None]) -> None:
    """Fetch what set-up leaves out."""
    if not service.fetched_on_demand:
        return
    try:
        with cache_lock(progress):
            service.fetch(progress)
    except LabError as error:
        again = error.next_step.replace("make setup", f"lab up {service.name}")
        raise LabError(error.what, again, error.log) from None


def _wait_until_ready(waiting: list[Service], progress: Callable[[str], None]) -> None:
    deadline = {service.name: time.monotonic() + service.start_seconds for service in waiting}
    while waiting:
        still = []
        for service in waiting:
            why = _why_not_ready(service)
            if why is None:
                progress(f"{service.title} is ready at {service.address()}")
            elif service.external or time.monotonic() > deadline[service.name]:
                raise service.failure(why)
            elif service.failed():
                raise service.failure("its process ended")
            else:
                still.append(service)
        waiting = still
        if waiting:
            time.sleep(0.1)


def _stop_failed(services: list[Service]) -> None:
    """Leave nothing that tries again and again, nor a supervisor with nothing to look after."""
    for service in services:
        if service.failed():
            supervisor.remove(service.name)
    if not any(program.alive for program in supervisor.status()):
        supervisor.shutdown()


def _why_not_ready(service: Service) -> str | None:
    if not service.external and not service.running():
        return "its process does not stay up"
    try:
        service.probe()
    except NotReady as why:
        return str(why).rstrip(".")
    return None


def _endpoints() -> Endpoints:
    endpoint, access_key, secret_key = credentials()
    return Endpoints(
        s3_endpoint=endpoint,
        s3_access_key=access_key,
        s3_secret_key=secret_key,
        s3_region=settings().s3_region,
        bucket=settings().s3_bucket,
        kafka_bootstrap=SERVICES["kafka"].address(),
    )


def _service_row(service: Service, program: supervisor.ProgramStatus | None) -> ServiceStatus:
    if not service.external and (program is None or not program.alive):
        state = program.state.lower() if program else "stopped"
        return ServiceStatus(service.name, state, "", 0, 0.0, 0, 0.0, {})
    try:
        service.check()
        state = "external" if service.external else "ready"
    except NotReady as why:
        state = f"not ready: {why}"
    return _program_row(program, state, service.address(), service.links(), service.name)


def _program_row(
    program: supervisor.ProgramStatus | None,
    state: str,
    address: str,
    links: dict[str, str],
    name: str = "",
) -> ServiceStatus:
    if program is None:
        return ServiceStatus(name, state, address, 0, 0.0, 0, 0.0, links)
    memory = round(resident_bytes(program.pid) / 1e6, 1)
    return ServiceStatus(
        program.name,
        state,
        address,
        program.pid,
        program.uptime,
        program.restarts,
        memory,
        links,
    )
