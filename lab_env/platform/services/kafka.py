"""Kafka: one broker that is also its own KRaft controller."""

import logging
import os
import shlex
import shutil
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lab_env.platform.brokers.kafka_client import confluent_options
from lab_env.platform.brokers.topics import delete_topics
from lab_env.platform.errors import LabError
from lab_env.platform.install.cache import Progress
from lab_env.platform.install.jars import fetch_jars, jar_folder
from lab_env.platform.install.java import java_program
from lab_env.platform.jvm import QUICK_COMPILER, SAME_EVERYWHERE
from lab_env.platform.processes.state import read_state, update_state
from lab_env.platform.processes.supervisor import Program
from lab_env.platform.services.base import Finding, NotReady, Service, run_tool, write_properties
from lab_env.platform.settings import settings

# One broker cannot replicate. The other values keep start-up and disk use small.
PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "auto.create.topics.enable": "false",
    "num.partitions": "3",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.retention.hours": "168",
    "log.retention.bytes": "2147483648",
    "log.segment.bytes": "134217728",
    "log.cleaner.dedupe.buffer.size": "16777216",
    "num.network.threads": "2",
    "num.io.threads": "4",
}

# Only the quick compiler: this broker lives minutes to hours and mostly copies bytes. Measured in
# processor seconds until it answers, and after 900,000 messages of 300 bytes: 4.0 and 7.7 with the
# quick compiler alone, 5.3 and 10.7 with both.
JVM = ("-Xmx384m", "-XX:+UseSerialGC", *QUICK_COMPILER, *SAME_EVERYWHERE)

MILESTONES = (
    "kafka.server.KafkaRaftServer",
    "kafka.server.BrokerServer",
    "org.apache.kafka.storage.internals.log.LogManager",
)


class Kafka(Service):
    name = "kafka"
    title = "Kafka"
    port_names = ("broker", "controller")
    scheme = ""
    external_setting = "kafka_bootstrap"
    contents = "topics"
    variables = "LAB_KAFKA_BOOTSTRAP and LAB_KAFKA_SECURITY"

    def fetch(self, report_progress: Progress) -> None:
        fetch_jars(self.name, report_progress)

    def program(self, ports: dict[str, int]) -> Program:
        _configure(self.folder / "server.properties", ports, "data")
        if not (self.folder / "data" / "meta.properties").exists():
            _format_storage(self.folder, ports)
        return Program(
            name=self.name,
            argv=[*_java(*JVM, *quiet_log(*MILESTONES)), "kafka.Kafka", "server.properties"],
            cwd=self.folder,
            stop_seconds=20,
        )

    def check(self) -> None:
        """Read the cluster's metadata; the cluster must be this lab's."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        options: dict[str, Any] = {
            **confluent_options(self.address()),
            "socket.timeout.ms": 3000,
            "reconnect.backoff.max.ms": 200,
            "logger": logging.Logger("silent", logging.CRITICAL + 1),
        }
        try:
            cluster = AdminClient(options).list_topics(timeout=3)
        except KafkaException as error:
            raise NotReady(f"it does not answer ({error.args[0].str()})") from None
        if not cluster.brokers:
            raise NotReady("the broker is not registered yet")
        if not self.external and cluster.cluster_id != read_state()[self.name]["cluster_id"]:
            raise NotReady(f"another Kafka answers at {self.address()}")

    def endpoints(self) -> dict[str, str]:
        return {"kafka_bootstrap": self.address()}

    def diagnose(self) -> Iterator[Finding]:
        """Check that the file in LAB_KAFKA_SECURITY is usable, and readable only by its owner."""
        if path := settings().kafka_security:
            confluent_options(self.address())  # its errors are findings
            if path.stat().st_mode & 0o077:
                fact = f"other users can read LAB_KAFKA_SECURITY={path}"
                yield Finding(self.name, "warn", fact, f"run: chmod 600 {shlex.quote(str(path))}")
            else:
                yield Finding(self.name, "ok", f"clients sign in with {path}")

    def clear(self, namespace: str) -> dict[str, int]:
        """Delete the lesson's topics, for example `lesson-05.orders`."""
        return {"topics": len(delete_topics(self.address(), f"{namespace}."))}


def _configure(path: Path, ports: dict[str, int], data: str) -> None:
    """Write the broker's settings; it keeps its data in the folder `data` next to them."""
    bind, host = settings().bind, settings().client_host
    broker, controller = ports["broker"], ports["controller"]
    own = {
        "listeners": f"PLAINTEXT://{bind}:{broker},CONTROLLER://{bind}:{controller}",
        "advertised.listeners": f"PLAINTEXT://{host}:{broker}",
        "controller.quorum.voters": f"1@{host}:{controller}",
        # Relative to the working folder: a path may contain characters with a meaning in this file.
        "log.dirs": data,
    }
    write_properties(path, PROPERTIES | own)


def _format_storage(folder: Path, ports: dict[str, int]) -> None:
    """Create the data folder for a new cluster, with a new cluster ID, in one step."""
    cluster = _cluster_id()
    shutil.rmtree(folder / "data", ignore_errors=True)
    shutil.rmtree(folder / "fresh", ignore_errors=True)
    _configure(folder / "format.properties", ports, "fresh")
    command = [*_java(*JVM), "kafka.tools.StorageTool", "format"]
    options = ["--cluster-id", cluster, "--config", "format.properties"]
    done = run_tool([*command, *options], folder)
    if done.returncode != 0:
        raise LabError(
            "Kafka's storage could not be formatted.",
            "run: lab doctor",
            "\n".join((done.stdout + done.stderr).splitlines()[-20:]),
        )
    update_state(Kafka.name, cluster_id=cluster)
    os.replace(folder / "fresh", folder / "data")
    (folder / "format.properties").unlink()


def _cluster_id() -> str:
    """Make a random cluster ID that does not begin with a dash, which looks like an option."""
    while (name := urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return name


def _java(*options: str) -> list[str]:
    return [str(java_program()), *options, "-cp", f"{jar_folder('kafka')}/*"]


def quiet_log(*milestones: str) -> list[str]:
    """JVM options that log only warnings and milestones, so the last lines explain a failure."""
    log = "-Dorg.slf4j.simpleLogger"
    return [
        f"{log}.showDateTime=true",
        f"{log}.dateTimeFormat=yyyy-MM-dd HH:mm:ss.SSS",
        f"{log}.defaultLogLevel=warn",
        *(f"{log}.log.{name}=info" for name in milestones),
    ]
