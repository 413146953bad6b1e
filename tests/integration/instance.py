"""A lab that tests control as a user does: with the `lab` command."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from own_lab import lab_environment

from lab_env.platform.processes.environment import MARK
from lab_env.platform.processes.system import environment_of
from lab_env.platform.processes.tree import is_alive
from lab_env.platform.store import s3_client


class Instance:
    """One LAB_HOME and the programs that run for it.

    Args:
        home: the lab's LAB_HOME.
        settings: LAB_* variables in addition to LAB_HOME.
        command: command line that starts `lab`.
    """

    def __init__(self, home: Path, settings: dict[str, str], command: list[str] | None = None):
        self.home = home
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("LAB_")}
        kept = ("LAB_CACHE", "LAB_MINIO_BINARY")
        self.environment |= {k: v for k, v in os.environ.items() if k in kept}
        self.environment |= settings | {"LAB_HOME": str(home)}
        self.command = command or [sys.executable, "-I", "-m", "lab_env.cli"]

    def lab(
        self, *arguments: str, timeout: float = 360, **more: str
    ) -> subprocess.CompletedProcess:
        """Run a `lab` command with additional variables, and wait for at most `timeout` seconds."""
        return subprocess.run(
            [*self.command, *arguments],
            env=self.environment | more,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    def begin(self, *arguments: str) -> subprocess.Popen:
        """Start a `lab` command as if in another terminal."""
        return subprocess.Popen(
            [*self.command, *arguments],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def up(self) -> None:
        """Run `lab up`; it must succeed."""
        done = self.lab("up")
        assert done.returncode == 0, done.stdout + done.stderr

    def status(self) -> dict[str, dict]:
        """Return the rows of `lab status --json` by name."""
        return {row["name"]: row for row in json.loads(self.lab("status", "--json").stdout)}

    def down(self) -> None:
        """Run `lab down`; it must succeed and leave no process."""
        done = self.lab("down")
        assert done.returncode == 0, done.stdout + done.stderr
        assert self.processes() == []

    def address(self, name: str) -> str:
        """Return `host:port` of the object store or broker without calling `lab status`."""
        ports = json.loads((self.home / "state.json").read_text())[name]["ports"]
        return f"127.0.0.1:{next(iter(ports.values()))}"

    def supervisor_pid(self) -> int:
        """Return the process id of the supervisor."""
        return int((self.home / "run" / "supervisord.pid").read_text())

    def processes(self) -> list[psutil.Process]:
        """Return all running processes marked as started for this LAB_HOME."""
        return [
            process
            for process in psutil.process_iter()
            if environment_of(process).get(MARK) == str(self.home) and is_alive(process)
        ]

    def store_keys(self) -> tuple[str, str]:
        """Return the generated access key and secret key of the object store."""
        kept = json.loads((self.home / "secrets.json").read_text())
        return kept["s3_access_key"], kept["s3_secret_key"]

    def s3(self):
        """Return a client of the object store."""
        return s3_client(f"http://{self.address('minio')}", *self.store_keys(), "us-east-1")

    def put_object(self, key: str, body: bytes) -> None:
        """Write an object to the lab's bucket."""
        self.s3().put_object(Bucket="lakehouse", Key=key, Body=body)

    def get_object(self, key: str) -> bytes:
        """Read an object from the lab's bucket."""
        return self.s3().get_object(Bucket="lakehouse", Key=key)["Body"].read()

    def send(self, topic: str, value: bytes) -> None:
        """Send a record and wait until the broker has acknowledged it."""
        bootstrap = self.address("kafka")
        admin = AdminClient({"bootstrap.servers": bootstrap})
        if topic not in admin.list_topics(timeout=10).topics:
            admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(20)
        outcome = []
        producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": 20_000})
        producer.produce(topic, value, on_delivery=lambda error, _: outcome.append(error))
        producer.flush(25)
        assert outcome == [None]

    def records(self, topic: str) -> list[bytes]:
        """Return all records of a topic."""
        options = {
            "bootstrap.servers": self.address("kafka"),
            "group.id": "test",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
        consumer = Consumer(options)
        consumer.subscribe([topic])
        values = []
        while True:
            message = consumer.poll(30)
            assert message is not None, "Kafka did not answer"
            if message.error():  # the end of the only partition
                consumer.close()
                return values
            values.append(message.value())


@contextmanager
def running_instance(home: Path) -> Iterator[Instance]:
    """Start a separate lab; at the end stop it and check that no process is left."""
    instance = Instance(home, lab_environment(home))
    try:
        instance.up()
        yield instance
    finally:
        instance.down()


def instance_of_this_run() -> Instance:
    """Return the lab of this test run, whose services the fixture `services` starts."""
    chosen = {name: value for name, value in os.environ.items() if name.startswith("LAB_")}
    return Instance(Path(os.environ["LAB_HOME"]), chosen)


def programs_showing(text: str) -> list[str]:
    """Return the running programs with a text in their arguments, which every user can read."""
    return [
        process.info["name"]
        for process in psutil.process_iter(["name", "cmdline"])
        if any(text in argument for argument in process.info["cmdline"] or ())
    ]
