"""ZooKeeper: the lock that several writers of one table share.

PySpark's own jars contain the server. It keeps its nodes in a log on disk, so a restart loses
nothing. A client whose session has expired loses its locks, here after a second at the earliest.
"""

import os
import socket
from collections.abc import Generator
from contextlib import contextmanager

from lab_env.errors import LabError
from lab_env.install.cache import Progress
from lab_env.install.java import java_program
from lab_env.install.maven import pyspark_home
from lab_env.jvm import QUICK_COMPILER
from lab_env.processes.supervisor import Program
from lab_env.services.base import LOG4J2, NotReady, Service, write_properties
from lab_env.settings import settings

TIMEOUT_S = 3
TICK_MS = 500  # sessions last from 2 to 20 ticks: from one second to ten

PROPERTIES = {
    "tickTime": str(TICK_MS),
    # Relative to the working folder: a path may hold characters with a meaning in this file.
    "dataDir": "data",
    "admin.enableServer": "false",
    "4lw.commands.whitelist": "srvr, cons",
}

JVM = (
    "-Xmx128m",
    "-XX:+UseSerialGC",
    *QUICK_COMPILER,
    # A lock is a few hundred bytes: no log of 64 MB in advance. A killed process loses nothing
    # without fsync; only a power failure could.
    "-Dzookeeper.preAllocSize=1024",
    "-Dzookeeper.forceSync=no",
    "-Dlog4j2.configurationFile=log4j2.properties",
)

# What the server needs of PySpark's jars.
JARS = ("zookeeper*", "slf4j-api-*", "log4j-*", "netty-*", "metrics-core-*", "snappy-java-*")


class ZooKeeper(Service):
    """The lab's ZooKeeper."""

    name = "zookeeper"
    title = "ZooKeeper"
    contents = "locks"
    variables = "LAB_ZOOKEEPER_CONNECT"

    def preferred_ports(self) -> dict[str, int]:
        """The port of its clients."""
        return {"client": settings().zookeeper_port}

    def external_address(self) -> str:
        """LAB_ZOOKEEPER_CONNECT."""
        return settings().zookeeper_connect

    def fetch(self, report_progress: Progress) -> None:
        """Nothing to fetch: PySpark brings it."""

    def program(self, ports: dict[str, int]) -> Program:
        """The server on its folder."""
        own = {"clientPort": str(ports["client"]), "clientPortAddress": settings().bind}
        write_properties(self.folder / "zoo.cfg", PROPERTIES | own)
        (self.folder / "log4j2.properties").write_text(LOG4J2)
        server = "org.apache.zookeeper.server.ZooKeeperServerMain"
        return Program(
            name=self.name,
            argv=[str(java_program()), *JVM, "-cp", _class_path(), server, "zoo.cfg"],
            cwd=self.folder,
        )

    def check(self) -> None:
        """Ask each server of the address for its state: one must serve requests."""
        answers = [_state_of(server) for server in self.address().split(",")]
        if not any(serves for serves, _ in answers):
            raise NotReady(answers[0][1])

    def address(self) -> str:
        """What clients connect to, `host:port`; of an external one perhaps several."""
        own = f"{settings().client_host}:{self.port('client')}"
        return self.external_address() or own

    def endpoints(self) -> dict[str, str]:
        """Its address, whether it runs or not."""
        return {"zookeeper": self.address()}

    def clear(self, namespace: str) -> dict[str, int]:
        """Delete the lesson's node, for example `/lesson-18`, with all locks below it."""
        with self.client() as client:
            path = f"/{namespace}"
            locks = len(client.get_children(path)) if client.exists(path) else 0
            client.delete(path, recursive=True)
        return {"locks": locks}

    @contextmanager
    def client(self) -> Generator:
        """A connected kazoo client, closed at the end of the `with` block.

        Raises:
            LabError: it does not answer, or ends the connection while the body runs.
        """
        from kazoo.client import KazooClient  # a quarter of a second
        from kazoo.exceptions import KazooException
        from kazoo.handlers.threading import KazooTimeoutError

        client = KazooClient(hosts=self.address(), timeout=TIMEOUT_S)
        try:
            client.start(timeout=TIMEOUT_S)
            yield client
        except (KazooException, KazooTimeoutError) as error:
            why = str(error) or type(error).__name__
            what = f"{self.title} at {self.address()} does not answer: {why}."
            raise LabError(what, "run: lab status") from None
        finally:
            client.stop()
            client.close()


def _class_path() -> str:
    jars = pyspark_home() / "jars"
    return os.pathsep.join(str(path) for jar in JARS for path in sorted(jars.glob(f"{jar}.jar")))


def _state_of(server: str) -> tuple[bool, str]:
    """Whether a server serves requests, and if not, why."""
    host, _, port = server.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), TIMEOUT_S) as connection:
            connection.sendall(b"srvr")
            with connection.makefile("rb") as answer:
                text = answer.read().decode(errors="replace")
    except OSError as error:
        return False, f"it does not answer ({error})"
    return "Mode: " in text, text.strip().splitlines()[0] if text.strip() else "it says nothing"
