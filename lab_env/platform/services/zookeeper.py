"""ZooKeeper: holds the locks that several writers of one table share.

PySpark's own jars contain the server. It keeps its nodes in a log on disk, so a restart loses
nothing. A client whose session expires loses its locks; here a session lasts at least a second.
"""

import os
import socket
from collections.abc import Generator
from contextlib import contextmanager, suppress

from lab_env.platform.errors import LabError
from lab_env.platform.install.java import java_program
from lab_env.platform.install.maven import pyspark_home
from lab_env.platform.jvm import QUICK_COMPILER, SAME_EVERYWHERE
from lab_env.platform.processes.supervisor import Program
from lab_env.platform.services.base import LOG4J2, NotReady, Service, write_properties
from lab_env.platform.settings import settings

TIMEOUT_S = 3
TICK_MS = 500  # a session lasts at least two ticks

PROPERTIES = {
    "tickTime": str(TICK_MS),
    # Hudi's default session timeout. A holder that is silent for longer loses its lock and may
    # still commit: by default a session ends after 20 ticks.
    "maxSessionTimeout": "60000",
    # Relative to the working folder: a path may contain characters with a meaning in this file.
    "dataDir": "data",
    "admin.enableServer": "false",
    "4lw.commands.whitelist": "srvr",
    # Hours; each start leaves a snapshot and a log.
    "autopurge.purgeInterval": "1",
}

JVM = (
    "-Xmx128m",
    "-XX:+UseSerialGC",
    *QUICK_COMPILER,
    *SAME_EVERYWHERE,
    # A lock is a few hundred bytes, so no 64 MB log is preallocated. A killed process loses nothing
    # without fsync; only a power failure could.
    "-Dzookeeper.preAllocSize=1024",
    "-Dzookeeper.forceSync=no",
    "-Dlog4j2.configurationFile=log4j2.properties",
)

# Where Hudi puts locks if its lock provider has no base path.
IMPLICIT = "/tmp"

# The part of PySpark's jars that the server needs.
JARS = ("zookeeper*", "slf4j-api-*", "log4j-*", "netty-*", "metrics-core-*", "snappy-java-*")


class ZooKeeper(Service):
    name = "zookeeper"
    title = "ZooKeeper"
    port_names = ("client",)
    scheme = ""
    external_setting = "zookeeper_connect"
    contents = "locks"
    variables = "LAB_ZOOKEEPER_CONNECT"

    def program(self, ports: dict[str, int]) -> Program:
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
        """Check that at least one server in the address serves requests."""
        answers = [_state_of(server) for server in self.address().split(",")]
        if not any(serves for serves, _ in answers):
            raise NotReady(answers[0][1])

    def endpoints(self) -> dict[str, str]:
        return {"zookeeper": self.address()}

    def clear(self, namespace: str) -> dict[str, int]:
        """Delete the lesson's nodes, for example `/lesson-18` and `/lakehouse/lesson-18`.

        Notebooks create nodes below the first; the pipeline's options put the locks of all the
        lesson's tables below the second, by bucket and path. On the lab's own server, free locks in
        Hudi's default place are also deleted, because they do not show their owner. Raise
        `LabError` if a writer holds a lock.
        """
        from kazoo.exceptions import NotEmptyError

        found = (f"/{namespace}", f"/{settings().s3_bucket}/{namespace}")
        with self.client() as client:
            locks = sum(len(client.get_children(path)) for path in found if client.exists(path))
            try:
                for path in found:
                    client.delete(path, recursive=True)
            except NotEmptyError:
                what = f"A writer keeps taking the locks of {namespace} in {self.title}."
                raise LabError(what, "end the writer, then run this again.") from None
            if not self.external:
                _delete_implicit(client)
        return {"locks": locks}

    @contextmanager
    def client(self) -> Generator:
        """A connected kazoo client, closed at the end of the `with` block.

        It raises a `LabError` if the server does not answer, at the start or during the block.
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


def _delete_implicit(client) -> None:
    """Delete the locks in Hudi's default place, `/tmp/HASH/lock_key`, that no writer holds."""
    from kazoo.exceptions import NotEmptyError

    for name in client.get_children(IMPLICIT) if client.exists(IMPLICIT) else ():
        folder = f"{IMPLICIT}/{name}"
        for path in (*(f"{folder}/{lock}" for lock in client.get_children(folder)), folder):
            with suppress(NotEmptyError):
                client.delete(path)


def _state_of(server: str) -> tuple[bool, str]:
    """Return whether a server serves requests, and the first line of its answer or the error."""
    host, _, port = server.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), TIMEOUT_S) as connection:
            connection.sendall(b"srvr")
            with connection.makefile("rb") as answer:
                text = answer.read().decode(errors="replace")
    except OSError as error:
        return False, f"it does not answer ({error})"
    return "Mode: " in text, text.strip().splitlines()[0] if text.strip() else "it returned no mode"
