"""Kafka Connect with Debezium's connector for PostgreSQL: one standalone worker.

Set-up leaves it out: the first `lab up connect` fetches it. A standalone worker saves its
connectors' offsets in a file, but not the connectors: after a restart they must be created again,
and then resume from their offsets. Lesson 15 teaches this, so the lab does not hide it.
"""

import os
import re
import time
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from lab_env.platform.errors import LabError
from lab_env.platform.install.archives import archive_folder, fetch_archive
from lab_env.platform.install.cache import Progress
from lab_env.platform.install.jars import fetch_jars, jar_folder
from lab_env.platform.install.java import java_program
from lab_env.platform.jvm import QUICK_COMPILER, SAME_EVERYWHERE
from lab_env.platform.processes.supervisor import Program
from lab_env.platform.services.base import (
    Finding,
    NotReady,
    Service,
    request_json,
    write_properties,
)
from lab_env.platform.services.kafka import Kafka, quiet_log
from lab_env.platform.services.postgres import USER, Postgres, password
from lab_env.platform.settings import settings

CONNECTOR = "io.debezium.connector.postgresql.PostgresConnector"
PASSWORD = "POSTGRES_PASSWORD"  # connectors name it as ${env:POSTGRES_PASSWORD}
MEGABYTES = 17  # to fetch: the worker's jars and the connector
PATIENCE_S = 60  # on a busy machine a task needs many seconds to stop
OFFSETS = "offsets"  # the file that outlives a restart

JVM = ("-Xmx256m", "-XX:+UseSerialGC", *QUICK_COMPILER, *SAME_EVERYWHERE)

CONVERTER = "org.apache.kafka.connect.json.JsonConverter"

PROPERTIES = {
    # Plain JSON like the course's other events: no schema in each message.
    "key.converter": CONVERTER,
    "key.converter.schemas.enable": "false",
    "value.converter": CONVERTER,
    "value.converter.schemas.enable": "false",
    "offset.storage.file.filename": OFFSETS,
    # Relative to the working folder: a path may contain characters with a meaning in this file.
    "plugin.path": "plugins",
    # Trust the lists in the jars instead of scanning every class.
    "plugin.discovery": "service_load",
    # The connector's configuration refers to the password in the worker's environment.
    "config.providers": "env",
    "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
    "config.providers.env.param.allowlist.pattern": PASSWORD,
}


class Connect(Service):
    name = "connect"
    title = "Kafka Connect"
    port_names = ("rest",)
    contents = "offsets of connectors"
    needs = ("kafka",)
    fetched_on_demand = True

    def fetch(self, report_progress: Progress) -> None:
        """Fetch the worker, which also uses the broker's jars, and Debezium's connector."""
        fetch_jars("kafka", report_progress)
        fetch_jars(self.name, report_progress)
        fetch_archive(self.name, report_progress)

    def program(self, ports: dict[str, int]) -> Program:
        plugin = archive_folder(self.name)
        if plugin is None:
            raise LabError("Kafka Connect has not been fetched yet.", "run: lab up connect")
        _configure(self.folder, ports["rest"], plugin)
        jars = os.pathsep.join(f"{jar_folder(name)}/*" for name in (self.name, "kafka"))
        log = quiet_log("org.apache.kafka.connect.runtime.Connect")
        return Program(
            name=self.name,
            argv=[
                *(str(java_program()), *JVM, *log, "-cp", jars),
                *("org.apache.kafka.connect.cli.ConnectStandalone", "worker.properties"),
            ],
            env={PASSWORD: password()},
            cwd=self.folder,
        )

    def check(self) -> None:
        """List the plugins; Debezium's connector must be one of them."""
        try:
            found = request_json("GET", f"{self.address()}/connector-plugins", timeout=2)
            plugins = {plugin["class"] for plugin in found or ()}
        except (OSError, ValueError) as error:
            raise NotReady(f"it does not answer ({error})") from None
        if CONNECTOR not in plugins:
            raise NotReady(f"{CONNECTOR} is not among its plugins")

    def clear(self, namespace: str) -> dict[str, int]:
        """Delete the lesson's connectors, for example `lesson-15.orders`, and their offsets.

        If PostgreSQL is running, also delete the offsets of connectors that a restart has
        forgotten. Kafka Connect deletes offsets only of an existing connector, and a connector
        cannot be created while its database is down.
        """
        prefix = f"{namespace}."
        known = {name for name in self._call("GET", "/connectors") if name.startswith(prefix)}
        forgotten = _names_with_offsets(self.folder / OFFSETS, prefix) - known
        if forgotten and Postgres().running():
            for name in forgotten:
                self._call("POST", "/connectors", _stopped_connector(name))
            known |= forgotten
        for name in known:
            path = f"/connectors/{quote(name)}"
            self._call("PUT", f"{path}/stop")  # else its offsets cannot be deleted
            self._call("DELETE", f"{path}/offsets")
            self._call("DELETE", path)
        return {"connectors": len(known)}

    def diagnose(self) -> Iterator[Finding]:
        fetched = archive_folder(self.name)
        missing = f"not fetched; lab up {self.name} fetches it once ({MEGABYTES} MB)"
        yield Finding(self.name, "ok", str(fetched or missing))

    def _call(self, method: str, path: str, body: dict | None = None):
        """Call the REST API; retry while Connect is changing state and answers 400 or 409."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return request_json(method, self.address() + path, body, timeout=PATIENCE_S)
            except urllib.error.HTTPError as error:
                why = error.read().decode(errors="replace")
                if error.code not in (400, 409) or time.monotonic() > deadline:
                    break
                time.sleep(0.2)
            except (OSError, ValueError) as error:
                why = str(error)
                break
        what = f"{self.title} at {self.address()} failed at {method} {path}: {why}"
        raise LabError(what, f"run: lab logs {self.name}")


def _stopped_connector(name: str) -> dict:
    """Describe a stopped connector, through which the offsets under its name can be deleted."""
    return {
        "name": name,
        "initial_state": "STOPPED",
        "config": {
            "connector.class": CONNECTOR,
            "topic.prefix": "none",
            "plugin.name": "pgoutput",
            "database.hostname": settings().client_host,
            "database.port": str(Postgres().port("sql")),
            "database.user": USER,
            "database.password": f"${{env:{PASSWORD}}}",
            "database.dbname": "postgres",
        },
    }


def _names_with_offsets(path: Path, prefix: str) -> set[str]:
    """Connectors with this prefix that have offsets in a worker's file.

    The file is a serialized Java map. A key, such as `["lesson-15.orders",{"server":"x"}]`, is
    plain text in it; `p` after it is Java's null, which deleted offsets leave.
    """
    content = path.read_bytes() if path.exists() else b""
    key = rb'\["(' + re.escape(prefix).encode() + rb'[^"]*)",\{[^{}]*\}\](?!p)'
    return {name.decode() for name in re.findall(key, content)}


def _configure(folder: Path, port: int, plugin: Path) -> None:
    """Write the worker's settings and link the one plugin that it looks for."""
    plugins = folder / "plugins"
    plugins.mkdir(exist_ok=True)
    link = plugins / "debezium"
    link.unlink(missing_ok=True)
    link.symlink_to(plugin)
    own = {
        # Commit offsets every ten minutes (Connect's default is one): lesson 15 stores them by
        # stopping a connector, and so decides what is repeated after a kill.
        "offset.flush.interval.ms": str(settings().connect_flush_seconds * 1000),
        "bootstrap.servers": Kafka().address(),
        "listeners": f"http://{settings().bind}:{port}",
    }
    write_properties(folder / "worker.properties", PROPERTIES | own)
