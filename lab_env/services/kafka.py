"""Kafka, one broker that is its own KRaft controller: the stream that every lesson reads."""

import logging
import os
import shutil
import subprocess
import uuid
from base64 import urlsafe_b64encode
from pathlib import Path

from lab_env.errors import LabError
from lab_env.install.cache import Progress
from lab_env.install.jars import fetch_jars, jar_folder
from lab_env.install.java import java_program
from lab_env.jvm import QUICK_COMPILER
from lab_env.processes.environment import clean_environment
from lab_env.processes.state import folder, read_state, update_state
from lab_env.processes.supervisor import Program
from lab_env.services.base import NotReady, Service
from lab_env.settings import settings, without_credentials

# One broker: nothing can be replicated. The other values keep a laptop's start and disk small.
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

# The quick compiler only: this broker lives minutes to hours and its work is copying bytes. Measured,
# processor seconds until it answers, and after 900,000 messages of 300 bytes: 4.0 and 7.7 with it,
# 5.3 and 10.7 without.
JVM = ("-Xmx384m", "-XX:+UseSerialGC", *QUICK_COMPILER)


class Kafka(Service):
    """The broker of the lab."""

    name = "kafka"
    title = "Kafka"
    variables = "LAB_KAFKA_BOOTSTRAP"

    def preferred_ports(self) -> dict[str, int]:
        """The broker, and its controller."""
        return {"broker": settings().kafka_port, "controller": settings().kafka_controller_port}

    def external_address(self) -> str:
        """LAB_KAFKA_BOOTSTRAP."""
        return settings().kafka_bootstrap

    def fetch(self, report_progress: Progress) -> None:
        """Fetch the broker's jars."""
        fetch_jars(self.name, report_progress)

    def program(self, ports: dict[str, int]) -> Program:
        """The broker on one folder of LAB_HOME, which is formatted at its first start."""
        place = folder("kafka")
        _write_properties(place / "server.properties", ports, "data")
        if not (place / "data" / "meta.properties").exists():
            _format_storage(place, ports)
        return Program(
            name=self.name,
            argv=[*_java(*JVM, *_quiet()), "kafka.Kafka", "server.properties"],
            cwd=place,
            stop_seconds=20,
        )

    def check(self) -> None:
        """Ask for the metadata of the cluster, and see that it is ours."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        options = {
            "bootstrap.servers": self.address(),
            "socket.timeout.ms": 3000,
            "reconnect.backoff.max.ms": 200,
            "logger": _silent_logger(),
        }
        try:
            cluster = AdminClient(options).list_topics(timeout=3)
        except KafkaException as error:
            raise NotReady(f"it does not answer ({error.args[0].str()})") from None
        if not cluster.brokers:
            raise NotReady("the broker is not registered yet")
        if not self.external and cluster.cluster_id != read_state()[self.name]["cluster_id"]:
            raise NotReady(f"another Kafka answers at {self.address()}")

    def address(self) -> str:
        """The bootstrap servers."""
        return self.external_address() or f"{settings().client_host}:{self.port('broker')}"


def _write_properties(path: Path, ports: dict[str, int], data: str) -> None:
    bind, host = settings().bind, settings().client_host
    properties = PROPERTIES | {
        "listeners": f"PLAINTEXT://{bind}:{ports['broker']},CONTROLLER://{bind}:{ports['controller']}",
        "advertised.listeners": f"PLAINTEXT://{host}:{ports['broker']}",
        "controller.quorum.voters": f"1@{host}:{ports['controller']}",
        # Relative to the working folder, so that no character of LAB_HOME meets this file's syntax.
        "log.dirs": data,
    }
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))


def _format_storage(place: Path, ports: dict[str, int]) -> None:
    """Write the cluster's identity into a fresh data folder, in one step."""
    cluster = _cluster_id()
    shutil.rmtree(place / "data", ignore_errors=True)
    shutil.rmtree(place / "fresh", ignore_errors=True)
    _write_properties(place / "format.properties", ports, "fresh")
    command = [*_java(*JVM), "kafka.tools.StorageTool", "format"]
    done = subprocess.run(
        [*command, "--cluster-id", cluster, "--config", "format.properties"],
        cwd=place,
        capture_output=True,
        text=True,
        env=without_credentials(clean_environment()),
    )
    if done.returncode != 0:
        raise LabError(
            "Kafka's storage could not be prepared.",
            "run: lab doctor",
            "\n".join((done.stdout + done.stderr).splitlines()[-20:]),
        )
    update_state(Kafka.name, cluster_id=cluster)
    os.replace(place / "fresh", place / "data")
    (place / "format.properties").unlink()


def _cluster_id() -> str:
    """A random name as Kafka writes them; one in 64 begins with a dash, and would be taken for an option."""
    while (name := urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return name


def _java(*options: str) -> list[str]:
    return [str(java_program()), *options, "-cp", f"{jar_folder('kafka')}/*"]


def _quiet() -> list[str]:
    """A log of warnings and milestones: its last twenty lines must explain a failure."""
    log = "-Dorg.slf4j.simpleLogger"
    return [
        f"{log}.showDateTime=true",
        f"{log}.dateTimeFormat=yyyy-MM-dd HH:mm:ss.SSS",
        f"{log}.defaultLogLevel=warn",
        f"{log}.log.kafka.server.KafkaRaftServer=info",
        f"{log}.log.kafka.server.BrokerServer=info",
        f"{log}.log.org.apache.kafka.storage.internals.log.LogManager=info",
    ]


def _silent_logger() -> logging.Logger:
    logger = logging.getLogger("lab_env.kafka.probe")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger
