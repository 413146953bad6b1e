"""A service defined in one file: Python's web server for the files that lessons put in a folder."""

import sys
from collections.abc import Iterator

from lab_env.platform.install.cache import Progress
from lab_env.platform.processes.supervisor import Program
from lab_env.platform.services.base import Finding, NotReady, Service, open_local
from lab_env.platform.settings import settings


class Dummy(Service):
    """Serves the files in its folder."""

    name = "dummy"
    title = "The dummy"
    port_names = ("http",)
    contents = "dummy files"
    fetched_on_demand = True

    def __init__(self, preferred_port: int):
        self.preferred_port = preferred_port  # a real service has a setting for it
        self.fetched = 0

    def preferred_ports(self) -> dict[str, int]:
        return {"http": self.preferred_port}

    def fetch(self, report_progress: Progress) -> None:
        self.fetched += 1

    def program(self, ports: dict[str, int]) -> Program:
        address = ("--bind", settings().bind, str(ports["http"]))
        command = [sys.executable, "-I", "-m", "http.server", *address]
        return Program(name=self.name, argv=command, cwd=self.folder)

    def check(self) -> None:
        try:
            open_local(self.address()).close()
        except OSError as error:
            raise NotReady(f"it does not answer ({error})") from None

    def links(self) -> dict[str, str]:
        return {"Dummy": self.address()}

    def clear(self, namespace: str) -> dict[str, int]:
        own = list(self.folder.glob(f"{namespace}.*"))
        for path in own:
            path.unlink()
        return {"files": len(own)}

    def diagnose(self) -> Iterator[Finding]:
        yield Finding(self.name, "ok", sys.executable)
