"""What the lab knows about a server: how it is fetched, started, and known to be ready.

Ready means that a client's call worked, not that a process exists or a log line appeared.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

from lab_env.errors import LabError
from lab_env.processes import supervisor
from lab_env.processes.ports import choose_ports
from lab_env.processes.state import read_state
from lab_env.processes.supervisor import Program

Progress = Callable[[str], None]


class NotReady(Exception):
    """The service does not answer as it should yet; the text says how."""


class Service(ABC):
    """One server of the lab.

    Attributes:
        name: what `lab` commands call it.
        title: what it is, for people.
        variables: the settings that name another server instead.
        needs: names of the services that are started with it.
        has_login: whether it asks its clients for a key or a password.
        fetched_on_demand: whether it is fetched when it is first started, and not by set-up.
        start_seconds: how long it may take until it is ready.
    """

    name: str
    title: str
    variables: str
    needs: tuple[str, ...] = ()
    has_login: bool = False
    fetched_on_demand: bool = False
    start_seconds: int = 60

    @abstractmethod
    def preferred_ports(self) -> dict[str, int]:
        """For each port its number in the settings; the first one is what clients use."""

    @abstractmethod
    def external_address(self) -> str:
        """The address of the server that the settings name instead, else an empty text."""

    @abstractmethod
    def fetch(self, report_progress: Progress) -> None:
        """Have in the cache all that the server runs on."""

    @abstractmethod
    def program(self, ports: dict[str, int]) -> Program:
        """Prepare the server's files, and describe its process."""

    @abstractmethod
    def check(self) -> None:
        """Make a quick client's call that changes nothing.

        Raises:
            NotReady: the call did not work.
        """

    def probe(self) -> None:
        """Make a client's call and leave the service usable.

        Raises:
            NotReady: the call did not work.
        """
        self.check()

    @abstractmethod
    def address(self) -> str:
        """What a client needs to reach it."""

    def links(self) -> dict[str, str]:
        """Web pages of the server: name and URL."""
        return {}

    def missing_resources(self) -> str:
        """What this machine has too little of to fetch and run it, in words; nothing where it fits."""
        return ""

    @property
    def external(self) -> bool:
        """Whether the settings name a server that the lab must not start."""
        return bool(self.external_address())

    def port(self, name: str) -> int:
        """A port of the running service.

        Args:
            name: one of `preferred_ports()`.
        """
        ports = read_state().get(self.name, {}).get("ports", {})
        return ports.get(name, self.preferred_ports()[name])

    def port_variable(self, name: str) -> str:
        """The setting of a port: `LAB_KAFKA_PORT` for what clients use, else with the port's name.

        Args:
            name: one of `preferred_ports()`.
        """
        first = next(iter(self.preferred_ports()))
        part = "" if name == first else f"_{name}"
        return f"LAB_{self.name}{part}_PORT".upper()

    def running(self) -> bool:
        """Whether the supervisor has it running."""
        status = supervisor.status_of(self.name)
        return bool(status and status.state == "RUNNING")

    def start(self) -> None:
        """Start the process unless it runs; `probe` tells when it is ready."""
        status = supervisor.status_of(self.name)
        if status is None or not status.alive:
            supervisor.remove(self.name)
            supervisor.start(self.program(choose_ports(self.name, self.preferred_ports())))

    def failed(self) -> bool:
        """Whether the process does not stay up; one that was killed is about to be started again."""
        status = supervisor.status_of(self.name)
        return status is None or status.state in ("FATAL", "STOPPED", "BACKOFF")

    def failure(self, why: str) -> LabError:
        """The error for a service that does not come up.

        Args:
            why: what its last probe said.
        """
        if self.external:
            return LabError(
                f"{self.title} at {self.external_address()} cannot be used: {why}.",
                f"check {self.variables}.",
            )
        return LabError(
            f"{self.title} does not start: {why}.",
            f"run: lab doctor   (the whole log: {supervisor.log_path(self.name)})",
            supervisor.log_tail(self.name, 20),
        )
