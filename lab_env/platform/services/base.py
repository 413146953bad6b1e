"""Base class of the lab's servers: fetch, start, check, clear and examine a server.

A service is ready when a client's call succeeds, not when its process exists or a log line appears.
"""

import json
import subprocess
import time
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lab_env.platform.errors import LabError
from lab_env.platform.install.cache import Progress
from lab_env.platform.processes import supervisor
from lab_env.platform.processes.environment import clean_environment
from lab_env.platform.processes.ports import choose_ports
from lab_env.platform.processes.state import folder, read_state
from lab_env.platform.processes.supervisor import Program
from lab_env.platform.settings import settings, without_credentials

# log4j2.properties for a server. Only warnings: the last twenty lines must explain a failure.
LOG4J2 = """\
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yyyy-MM-dd HH:mm:ss.SSS} %-5p %c{1}: %m%n%ex{short}
"""


class NotReady(Exception):
    """The service does not respond properly yet; the message gives the reason."""


@dataclass(frozen=True)
class Finding:
    """One result of `lab doctor`; a warning concerns something that works but should be checked."""

    subject: str  # for example `java`
    verdict: Literal["ok", "warn", "fail"]
    fact: str
    fix: str = ""


class Service(ABC):
    """One server of the lab; all its files are in LAB_HOME, in the folder with its name."""

    name: str  # in `lab` commands
    title: str  # in messages
    port_names: tuple[str, ...]  # clients use the first
    scheme: str = "http://"  # what its address begins with
    external_setting: str = ""  # the setting with the address of an external server
    variables: str = ""  # the environment variables that replace it by an external server
    needs: tuple[str, ...] = ()  # services that are started with it
    contents: str = ""  # what users lose when its folder is removed, for example `topics`
    has_login: bool = False  # clients must present a key or a password
    fetched_on_demand: bool = False  # its first start fetches it, rather than set-up
    own_for_lessons: bool = False  # lessons change its configuration; an external one refuses that
    start_seconds: int = 60  # maximum time to become ready

    # What each server defines ---------------------------------------------------------------------

    @abstractmethod
    def program(self, ports: dict[str, int]) -> Program:
        """Prepare the server's files and describe its process."""

    @abstractmethod
    def check(self) -> None:
        """Make a quick client call that changes nothing; raise `NotReady` if it fails."""

    def preferred_ports(self) -> dict[str, int]:
        """Default ports by name, from the settings."""
        return {name: getattr(settings(), self.port_setting(name)) for name in self.port_names}

    def fetch(self, report_progress: Progress) -> None:
        """Fetch the server's programs into the cache, unless the Python packages contain them."""
        return

    def external_address(self) -> str:
        """Address of an external server from the settings; empty if they have none."""
        return getattr(settings(), self.external_setting) if self.external_setting else ""

    def probe(self) -> None:
        """Like `check`, but may also create what clients need."""
        self.check()

    def endpoints(self) -> dict[str, str]:
        """Fields of `Endpoints` that describe this server, even if it is not running."""
        return {}

    def links(self) -> dict[str, str]:
        """URLs of the server's web pages, by name."""
        return {}

    def clear(self, namespace: str) -> dict[str, int]:
        """Remove a lesson's data from this running server; return the number of items of each kind.

        The result for the namespace `lesson-05` is, for example, `{"topics": 2}`.
        """
        return {}

    def missing_resources(self) -> str:
        """Reason why this machine cannot fetch or run the server; empty if it can."""
        return ""

    def diagnose(self) -> Iterable[Finding]:
        """Check the program itself; the doctor checks the ports, and that the server answers."""
        return ()

    @property
    def programs(self) -> tuple[str, ...]:
        """Names of the server's programs; clients connect to the first."""
        return (self.name,)

    # What all servers share -----------------------------------------------------------------------

    @property
    def external(self) -> bool:
        """True if the settings name a server that the lab must not start."""
        return bool(self.external_address())

    @property
    def folder(self) -> Path:
        """The server's folder in LAB_HOME; created if missing."""
        return folder(self.name)

    def address(self) -> str:
        """Address for clients: the external server's, or that of the first port."""
        return self.external_address() or self.url(self.port_names[0], self.scheme)

    def url(self, port: str, scheme: str = "http://") -> str:
        """URL of one of the server's ports, by its name."""
        return f"{scheme}{settings().client_host}:{self.port(port)}"

    def port(self, name: str) -> int:
        """Port number chosen at the last start; before it, the preferred one."""
        ports = read_state().get(self.name, {}).get("ports", {})
        return ports.get(name, self.preferred_ports()[name])

    def port_setting(self, name: str) -> str:
        """Name of the setting for a port: `kafka_port` for the first, then `kafka_<name>_port`."""
        return f"{self.name}_port" if name == self.port_names[0] else f"{self.name}_{name}_port"

    def running(self) -> bool:
        """True if the server's process is running in this lab."""
        status = supervisor.status_of(self.name)
        return bool(status and status.state == "RUNNING")

    def wait_while_starting(self) -> None:
        """Wait until a starting server answers or its `start_seconds` have elapsed."""
        while (status := supervisor.status_of(self.name)) and status.alive:
            if status.uptime > self.start_seconds:
                return
            try:
                return self.check()
            except NotReady:
                time.sleep(0.1)

    def start(self) -> None:
        """Start the process unless it is running; `probe` succeeds once it is ready."""
        status = supervisor.status_of(self.name)
        if status is None or not status.alive:
            supervisor.remove(self.name)
            supervisor.start(self.program(choose_ports(self.name, self.preferred_ports())))

    def remove(self) -> None:
        """Stop all programs of the server and remove them from the supervisor."""
        for program in reversed(self.programs):
            supervisor.remove(program)

    def failed_program(self) -> str | None:
        """First program that is missing, is stopped or keeps exiting; None if there is none.

        A program that was killed once has not failed, because it is restarted.
        """
        known = {program.name: program.state for program in supervisor.status()}
        given_up = (None, "FATAL", "STOPPED", "BACKOFF")
        return next((name for name in self.programs if known.get(name) in given_up), None)

    def restarts(self) -> int:
        """Number of restarts by the supervisor."""
        status = supervisor.status_of(self.name)
        return status.restarts if status else 0

    def failure(self, why: str) -> LabError:
        """Build the error for a service whose last probe failed for this reason."""
        if self.external:
            return LabError(
                f"{self.title} at {self.external_address()} cannot be used: {why}.",
                f"check {self.variables}.",
            )
        program = self.failed_program() or self.name
        return LabError(
            f"{self.title} does not start: {why}.",
            f"run: lab doctor   (the whole log: {supervisor.log_path(program)})",
            supervisor.log_tail(program, 20),
        )


def open_local(request: str | urllib.request.Request, timeout: float = 2):
    """Open a URL of this machine, ignoring proxy variables; raise `OSError` if that fails."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    return opener.open(request, timeout=timeout)


def request_json(
    method: str,
    url: str,
    body: object = None,
    headers: Mapping[str, str] | None = None,
    timeout: float = 10,
):
    """Call a JSON API on this machine; return the decoded response, or None if it is empty.

    Raises:
        OSError: the server does not answer in time, or returns an error (`urllib.error.HTTPError`).
    """
    data = None if body is None else json.dumps(body).encode()
    sent = {"Content-Type": "application/json", **(headers or {})}
    request = urllib.request.Request(url, data, sent, method=method)
    with open_local(request, timeout) as answer:
        content = answer.read()
    return json.loads(content) if content else None


def run_tool(
    command: Sequence[str | Path], folder: str | Path, text: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a server's own tool in a folder, without credentials; capture its output.

    The tool reads `text` from its standard input.
    """
    return subprocess.run(
        command,
        cwd=folder,
        input=text,
        capture_output=True,
        text=True,
        env=without_credentials(clean_environment()),
    )


def write_properties(path: Path, properties: Mapping[str, str]) -> None:
    """Write a Java properties file."""
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
