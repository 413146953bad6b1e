"""Start, stop, clear and describe services, without code for any particular one."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace

from lab_env.platform.errors import LabError
from lab_env.platform.install.announced import wait_for_set_up
from lab_env.platform.install.cache import cache, cache_lock, is_writable
from lab_env.platform.processes import supervisor
from lab_env.platform.processes.ports import release_ports
from lab_env.platform.processes.state import lab_lock, purge_home
from lab_env.platform.processes.system import check_user
from lab_env.platform.processes.tree import resident_bytes
from lab_env.platform.services.base import NotReady, Service
from lab_env.platform.services.registration import DEFAULT, SERVICES
from lab_env.platform.services.registration import service as service_named
from lab_env.platform.settings import Endpoints, settings

TOO_OFTEN = 3  # a server may die once or twice while it starts, for a passing reason


@dataclass(frozen=True)
class ServiceStatus:
    """One line of `lab status`: a service, or another program that the lab supervises."""

    name: str
    state: str  # ready, not ready (and why), external, or the supervisor's state in lower case
    address: str = ""
    pid: int = 0  # 0 if it does not run here
    uptime: float = 0.0  # seconds
    restarts: int = 0
    memory_mb: float = 0.0  # resident memory, child processes included
    links: dict[str, str] = field(default_factory=dict)  # URLs of its web pages, by name

    def as_dict(self) -> dict:
        """The fields as a dictionary, for JSON."""
        return asdict(self)


def up(names: Sequence[str] | None = None, progress: Callable[[str], None] = print) -> Endpoints:
    """Start services and those that they need, and wait until all are ready.

    Running services are left alone. If JupyterLab is still running a first set-up, wait for it.
    """
    check_user()
    wanted = _with_needs(names or DEFAULT)
    wait_for_set_up(progress)
    with lab_lock():
        own = [service for service in wanted if not service.external]
        # External servers first: if one refuses our keys, nothing needs to be started.
        _wait_until_ready([service for service in wanted if service.external], progress)
        for service in own:
            _fetch_on_demand(service, progress)
        try:
            _start(own)
            _wait_until_ready(own, progress)
        except LabError:
            _stop_failed(own)
            raise
        finally:
            release_ports()
    return _endpoints()


def check_for_lesson(names: Sequence[str]) -> None:
    """Raise `LabError` for an external server whose configuration a lesson would have to change."""
    for wanted in map(service_named, names):
        if wanted.own_for_lessons and wanted.external:
            raise LabError(
                f"This lesson changes the configuration of {wanted.title}, and {wanted.variables} "
                "names one that the lab does not configure.",
                f"unset {wanted.variables}; the lab then starts its own.",
            )


def start_optional(name: str, progress: Callable[[str], None] = print) -> bool:
    """Start an optional service and those that it needs, without waiting; `up` waits.

    If the machine is too small for it or it cannot be fetched, report the reason and return False.
    If `CI` is set in the environment, the service is required, and a failure is an error.
    """
    wanted = service_named(name)
    try:
        missing = "" if wanted.running() or os.environ.get("CI") else wanted.missing_resources()
        if missing:
            raise LabError(f"{missing}.", f"free some, then run: lab up {name}")
        with lab_lock():
            own = [needed for needed in _with_needs([name]) if not needed.external]
            for needed in own:
                _fetch_on_demand(needed, progress)
            _start(own)
    except LabError as error:
        if os.environ.get("CI"):
            raise
        progress(f"{wanted.title} is left out: {error.what} Next: {error.next_step}")
        return False
    return True


def down(purge: bool = False) -> None:
    """Stop services, writers and live loads, and wait until they have ended.

    JupyterLab and the Spark sessions of its kernels keep running. With `purge`, tables, topics,
    logs, passwords and progress are removed from LAB_HOME; the cache and external data stay.
    """
    with lab_lock():
        supervisor.shutdown()
        if purge:
            purge_home(SERVICES)


def purged_contents() -> str:
    """List what `down(purge=True)` removes; external servers keep their data."""
    own = [service.contents for service in SERVICES.values() if not service.external]
    return ", ".join([*filter(None, own), "ledgers, logs, passwords and progress"])


def clear(namespace: str) -> dict[str, int]:
    """Remove a lesson's data from the servers that are running or starting; see `Service.clear`."""
    for service in SERVICES.values():
        if service.contents and not service.external:
            service.wait_while_starting()
    reachable = [s for s in SERVICES.values() if s.external or s.running()]
    # In reverse: a connector must not outlive its topics and its database.
    cleared = {service.name: service.clear(namespace) for service in reversed(reachable)}
    return {what: n for service in reachable for what, n in cleared[service.name].items()}


def status() -> list[ServiceStatus]:
    """Status of the services (optional ones once started) and of other supervised programs."""
    programs = {program.name: program for program in supervisor.status()}
    used = [name for name in SERVICES if name in DEFAULT or name in programs]
    others = [name for name in programs if name not in SERVICES]
    return [_status(name, programs.get(name)) for name in [*used, *others]]


def endpoints() -> Endpoints:
    """Addresses of the running services; raise `LabError` if a default service is not running."""
    needed = map(service_named, DEFAULT)
    if stopped := [s.name for s in needed if not (s.external or s.running())]:
        raise LabError(f"The services are not running ({', '.join(stopped)}).", "run: lab up")
    return _endpoints()


def links() -> dict[str, str]:
    """URLs of the services' web pages, for a browser, by name."""
    return {name: url for service in SERVICES.values() for name, url in _links(service).items()}


def exposure() -> str:
    """Describe what LAB_BIND exposes to other machines; empty if nothing."""
    if not settings().reachable_from_outside:
        return ""
    own = [service for service in SERVICES.values() if not service.external]
    unprotected = [service.title for service in own if not service.has_login]
    protected = [service.title for service in own if service.has_login]
    return (
        f"LAB_BIND={settings().bind}: other machines can reach the lab's servers. These have no "
        f"login: {', '.join(unprotected)}, Spark's web page. Anyone who reaches them can read or "
        "change their content. These need a key but do not encrypt: "
        f"{', '.join([*protected, 'JupyterLab'])}."
    )


def _with_needs(names: Sequence[str]) -> list[Service]:
    """The named services and those that they need, in the order in which they must start."""
    ordered: list[Service] = []
    for wanted in map(service_named, names):
        ordered += [*_with_needs(wanted.needs), wanted]
    return list(dict.fromkeys(ordered))


def _fetch_on_demand(service: Service, progress: Callable[[str], None]) -> None:
    if not service.fetched_on_demand:
        return
    try:
        with cache_lock(progress):
            service.fetch(progress)
    except LabError as error:
        again = error.next_step.replace("make setup", f"lab up {service.name}")
        raise LabError(error.what, again, error.log) from None
    except PermissionError:
        if is_writable():
            raise
        raise LabError(
            f"{service.title} has not been fetched, and you cannot write to {cache()}.",
            f"let its owner run: lab up {service.name}   (or set LAB_CACHE to a folder of yours)",
        ) from None


def _start(services: list[Service]) -> None:
    if services:
        supervisor.ensure_supervisor()
        supervisor.end_orphans()
    for service in services:
        service.start()


def _wait_until_ready(waiting: list[Service], progress: Callable[[str], None]) -> None:
    deadline = {service.name: time.monotonic() + service.start_seconds for service in waiting}
    restarts = {service.name: service.restarts() for service in waiting}
    while waiting:
        still = []
        for service in waiting:
            why = _why_not_ready(service)
            if why is None:
                progress(f"{service.title} is ready at {service.address()}")
            elif service.external or time.monotonic() > deadline[service.name]:
                raise service.failure(why)
            elif service.failed_program():
                raise service.failure("its process ended")
            elif service.restarts() >= restarts[service.name] + TOO_OFTEN:
                # For example, another program has taken its port meanwhile.
                service.remove()
                raise service.failure(f"its process ended {TOO_OFTEN} times ({why})")
            else:
                still.append(service)
        waiting = still
        if waiting:
            time.sleep(0.1)


def _why_not_ready(service: Service) -> str | None:
    if not service.external and not service.running():
        return "its process does not stay up"
    try:
        service.probe()
    except NotReady as why:
        return str(why).rstrip(".")
    return None


def _stop_failed(services: list[Service]) -> None:
    """Remove services that failed to start; stop the supervisor if nothing else runs."""
    for service in services:
        if service.failed_program():
            service.remove()
    if not any(program.alive for program in supervisor.status()):
        supervisor.shutdown()


def _endpoints() -> Endpoints:
    parts = (service.endpoints() for service in SERVICES.values())
    return Endpoints(**{name: value for part in parts for name, value in part.items()})


def _status(name: str, program: supervisor.ProgramStatus | None) -> ServiceStatus:
    service = SERVICES.get(name)
    status = ServiceStatus(name, program.state.lower() if program else "stopped")
    if service and not service.external and not (program and program.alive):
        return status
    if program:
        status = replace(
            status,
            pid=program.pid,
            uptime=program.uptime,
            restarts=program.restarts,
            memory_mb=round(resident_bytes(program.pid) / 1e6, 1),
        )
    if service:
        status = replace(
            status, state=_state(service), address=service.address(), links=_links(service)
        )
    return status


def _state(service: Service) -> str:
    try:
        service.check()
    except NotReady as why:
        return f"not ready: {why}"
    return "external" if service.external else "ready"


def _links(service: Service) -> dict[str, str]:
    return {name: settings().browser_url(url) for name, url in service.links().items()}
