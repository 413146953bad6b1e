"""The stage of a rung: topic, output and ledger, and the processes that call the function.

The function runs in a process of its own for each writer, with the store behind a gate, so that a
request can be held, refused or lost, and the process killed at it.
"""

import secrets
import shutil
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

import pandas as pd

from lab_env.lab.faults.gate import Gate, Rule
from lab_env.lab.job.process import JobFailed, JobProcess
from lab_env.platform import store
from lab_env.platform.brokers.topics import delete_topic, topic_end_offsets
from lab_env.platform.settings import Endpoints
from lab_env.shop.ledger.book import Ledger, ledger_directory
from lab_env.shop.model import Send
from lab_env.shop.replay import replay
from lab_env.tables.hudi.reader import PROPERTIES
from lab_env.tables.hudi_rs import KEYS, read_rows

PACKAGE = "lab_env.lab.ladder"
CALL_SECONDS = 120  # limit of one call on a slow machine, with the start of its process
POLL_S = 0.1
HELD_S = 18.0  # longest time to hold a request: S3A repeats it after 20 s
QUIET_S = 5.0


class Fell(Exception):
    """The function did not keep a rung's promise; the message says why."""


@dataclass(frozen=True)
class Task:
    """A call of the function: its source and destination, and the delivery before it.

    `since` has the offsets at which the delivery begins, by topic partition; `writer` is the number
    of the process, if several write.
    """

    bootstrap: str
    topic: str
    base: str
    delivery: int
    since: dict[str, int]
    writer: int = 0


class Points(Protocol):
    """Requests at which an exercise's function may be killed, see `Target`."""

    write: tuple[str, str, str]
    receipt: tuple[str, str, str]
    compaction: str


class Writers:
    """The processes that call the function; they live from rung to rung until they are killed."""

    def __init__(self, endpoints: Endpoints, namespace: str, job: bytes, number: int):
        self.number, self.gate = number, Gate(endpoints.s3_endpoint)
        self._endpoints = replace(endpoints, s3_endpoint=self.gate.url)
        self._namespace, self._job = namespace, job
        self._processes: list[JobProcess] = []

    def process(self, writer: int = 0) -> JobProcess:
        """Return the process of a writer; start those of all writers if there is none."""
        if not self._processes:
            for n in range(self.number):
                self._processes.append(
                    JobProcess(self._endpoints, self._namespace, PACKAGE, CALL_SECONDS, n)
                )
            self.load()
        return self._processes[writer]

    def load(self) -> None:
        """Load the function into all running processes, with its variables as they were."""
        for process in self._processes:
            process.load(self._job)

    def end(self) -> None:
        """Kill the processes; requests that the gate holds never reach the store."""
        while self._processes:
            self._processes[-1].kill()
            self._processes.pop()  # not before: Ctrl-C may have ended the kill early
        self.gate.drop()

    def close(self) -> None:
        """Kill the processes and close the gate."""
        self.end()
        self.gate.close()


class Stage:
    """The topic, the output and the ledger of one rung.

    Args:
        namespace: the lesson's; a reset of the lesson also removes what is on the stage.
        points: where a rung may kill the function.
        after_kill: called after a kill, with the request before or after which it came.
    """

    def __init__(
        self,
        endpoints: Endpoints,
        namespace: str,
        exercise_id: str,
        writers: Writers,
        points: Points,
        after_kill: Callable[[str], object],
    ):
        token = secrets.token_hex(3)
        base = f"s3a://{endpoints.bucket}/{namespace}/scratch/attack-{token}"
        topic = f"{namespace}.attack-{token}"
        self.endpoints, self.points = endpoints, points
        self.task = Task(endpoints.kafka_bootstrap, topic, base, 0, {})
        self.folder = store.key_of(base)
        self._exercise, self._writers, self._after_kill = exercise_id, writers, after_kill
        self._ledger = Ledger(ledger_directory(topic))
        self._delivery: dict[str, int] = {}  # by send, as the next
        self._value: dict[str, str] = {}

    def deliver(self, number: int, sends: Sequence[Send]) -> None:
        """Send the events of a delivery to the topic."""
        since = {}
        if number > 1:
            ends = topic_end_offsets(self.task.bootstrap, self.task.topic)
            since = {str(partition): end for partition, end in ends.items()}
        self.task = replace(self.task, delivery=number, since=since)
        replay(self.task.bootstrap, self.task.topic, self._ledger.directory, sends=sends)
        self._delivery |= dict.fromkeys((send.send_id for send in sends), number)
        for send in sends:  # a malformed message may have any bytes
            self._value[send.send_id] = send.value.decode(errors="backslashreplace")

    def feed(self) -> None:
        """Let the target prepare the function's input from the delivery."""
        self._writers.process().call("feed", **self._arguments())

    def call(self) -> None:
        """Call the function and wait until it has returned, in one process after the other."""
        for writer in range(self._writers.number):
            self.begin(writer)
            self.finish(writer)

    def begin(self, writer: int = 0) -> None:
        """Call the function in one of its processes without waiting."""
        self._writers.process(writer).begin("run", **self._arguments(writer))

    def finish(self, writer: int = 0) -> None:
        """Wait until the function has returned."""
        self._writers.process(writer).finish()

    def kill_at(self, point: tuple[str, str, str], otherwise: str, k: int = 1) -> None:
        """Call the function and kill its process at a request.

        Args:
            point: class of the request, `hold_before` or `hold_after`, and a pattern for the key
                below the attack's folder.
            otherwise: what the function did if the request never came.
            k: which of these requests, counted from 1.
        """
        process = self._writers.process()
        kind, action, key = point
        rule = self._writers.gate.arm(kind, action, k=k, part=f"{self.folder}/{key}")
        self.begin()
        while process.busy and not rule.wait(POLL_S):
            pass
        if rule.request is None:
            self._writers.gate.disarm()
            process.finish()
            raise Fell(f"Your function {otherwise}, so there was no moment to kill it at.")
        self._writers.end()
        key = rule.request.key.removeprefix(self.folder).strip("/")
        self._after_kill(f"{action.removeprefix('hold_')} {key}")

    def hold_first(self, kind: str, action: str) -> None:
        """Call the function in two processes: a request of the first waits while the second writes.

        The request is released when the second process has ended, or has sent no request for
        `QUIET_S`: then it waits for the first one.
        """
        gate = self._writers.gate
        first, second = self._writers.process(0), self._writers.process(1)
        rule = gate.arm(kind, action, part=f"{self.folder}/", seconds=HELD_S)
        self.begin()
        while first.busy and not rule.wait(POLL_S):
            pass
        if rule.request is None:
            gate.disarm()
            self.finish()
            raise Fell("The two jobs never met: the first one wrote nothing.")
        began = time.time()
        self.begin(1)
        while second.busy and time.time() < began + HELD_S and not self._quiet_since(began):
            time.sleep(POLL_S)
        gate.disarm()
        self.finish()
        self.finish(1)

    @contextmanager
    def ruled(self, *rules: Rule) -> Generator[None]:
        """Let the gate apply these rules while the body runs; raise Fell if it could not."""
        self._writers.gate.obey(*rules)
        try:
            yield
        finally:
            self._writers.gate.disarm()
        if any(rule.request is None for rule in rules):
            raise Fell("Your function wrote so little that the store had no time for trouble.")

    def look(self) -> pd.DataFrame:
        """Read the output with Spark, in the process of the function."""
        try:
            return self._writers.process().fetch("look", **self._arguments())
        except JobFailed as why:
            raise Fell(f"The output cannot be read: {why}") from None

    def hudi_rows(self, table: str, columns: Sequence[str] = KEYS) -> pd.DataFrame:
        """Read columns of a Hudi table below the attack's folder without Spark."""
        properties = f"{self.folder}/{table}/{PROPERTIES}"
        if not list(store.list_objects(self.endpoints, properties)):
            return pd.DataFrame(columns=list(columns))
        try:
            return read_rows(self.endpoints, f"{self.task.base}/{table}", columns)
        except KeyError as error:
            raise Fell(f"Your table lacks a column: {error}.") from None

    def sends(self) -> pd.DataFrame:
        """Return the ledger's frame, with each send's delivery and value."""
        sends = self._ledger.frame()
        ids = sends["send_id"]
        return sends.assign(delivery=ids.map(self._delivery), value=ids.map(self._value))

    def remove(self) -> None:
        """Remove the topic, the output, the checkpoint and the ledger."""
        delete_topic(self.task.bootstrap, self.task.topic)
        store.delete_prefix(self.endpoints, f"{self.folder}/")
        shutil.rmtree(self._ledger.directory, ignore_errors=True)

    def _arguments(self, writer: int = 0) -> dict[str, Any]:
        task = replace(self.task, writer=writer)
        return {"exercise": self._exercise, "at": asdict(task)}

    def _quiet_since(self, began: float) -> bool:
        """True if there was a request since `began`, and none for `QUIET_S`."""
        [last] = self._writers.gate.last(1)
        return last.at > began and time.time() > last.at + QUIET_S
