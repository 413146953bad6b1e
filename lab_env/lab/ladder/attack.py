"""Climbs the ladder: delivers events, calls the learner's function, kills it, and judges its table.

The function runs in a process of its own, with the store behind a gate. Its table is compared with
the ledger of everything sent, which the function cannot see. The attack then deletes its topic,
table and ledger.
"""

import contextlib
import secrets
import shutil
import signal
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

import pandas as pd

from lab_env.course import registry
from lab_env.course.checking import unfilled
from lab_env.lab.faults.gate import Gate, Rule
from lab_env.lab.job.packing import pack
from lab_env.lab.job.process import JobFailed, JobProcess
from lab_env.lab.ladder.fall import Fall
from lab_env.lab.ladder.history import History, Look, shortest
from lab_env.lab.ladder.result import Climb, Result
from lab_env.lab.ladder.rungs import DISTURBED, RUNGS, Rung, with_only
from lab_env.lab.ladder.target import Task, target_of
from lab_env.platform import store
from lab_env.platform.brokers.topics import delete_topic, topic_end_offsets
from lab_env.platform.errors import LabError
from lab_env.platform.settings import Endpoints
from lab_env.shop.ledger.book import Ledger, ledger_directory
from lab_env.shop.model import Send
from lab_env.shop.replay import replay
from lab_env.tables.hudi.reader import PROPERTIES
from lab_env.tables.hudi_rs import KEYS, read_rows

PACKAGE = "lab_env.lab.ladder"
CALL_SECONDS = 120  # limit of one call on a slow machine, with the start of its process
POLL_S = 0.1


class Fell(Exception):
    """The function did not keep a rung's promise; the message says why."""


def attack(
    endpoints: Endpoints,
    namespace: str,
    exercise_id: str,
    answer: Any,
    numbers: Sequence[int] = (),
    seed: int | None = None,
    say: Callable[[str], object] = print,
    shrink: bool = False,
) -> Climb:
    """Attack an exercise's answer until it falls, or has climbed all rungs.

    Args:
        namespace: the lesson's; a reset of the lesson also ends an attack and removes its tables.
        numbers: the rungs to climb, counted from 1; by default all.
        seed: decides the events; by default a random one.
        say: called with what is promised, then with a line before and after each rung.
        shrink: whether to run the rung of a fall again, with fewer messages.

    Raises:
        LabError: the exercise has no ladder or no such rung, the answer is missing or cannot be
            sent to another process, or the lab itself failed.
    """
    exercise_id, rungs = rungs_of(exercise_id)
    chosen = [(n, _rung(n, rungs)) for n in numbers or range(1, len(rungs) + 1)]
    if unfilled(answer):
        raise LabError(
            f"Exercise {exercise_id} is not solved yet.", "fill in its cell, then attack it."
        )
    seed = secrets.randbelow(10_000) if seed is None else seed
    results: list[Result] = []
    say(f"Promised: {target_of(exercise_id).promise}")
    with contextlib.closing(Attack(endpoints, namespace, exercise_id, answer, seed)) as under_way:
        for number, rung in chosen:
            say(f"rung {number} of {len(rungs)}, {rung.title}: {rung.hardship}")
            results.append(under_way.climb(number, rung))
            say(results[-1].outcome())
            if not results[-1].held:
                if shrink:
                    results[-1] = under_way.shrink(rung, results[-1], say)
                break
    return Climb(exercise_id, seed, len(rungs), tuple(results), whole=not numbers)


def rungs_of(exercise_id: str) -> tuple[str, tuple[Rung, ...]]:
    """Return an exercise's full id and its rungs; raise a LabError if it has none."""
    exercise_id = registry.exercise(exercise_id).id
    if exercise_id not in RUNGS:
        raise LabError(
            f"Exercise {exercise_id} has no ladder.", f"choose from: {', '.join(RUNGS)}."
        )
    return exercise_id, RUNGS[exercise_id]


def _rung(number: int, rungs: Sequence[Rung]) -> Rung:
    if not 1 <= number <= len(rungs):
        raise LabError(f"There is no rung {number}.", f"choose from 1 to {len(rungs)}.")
    return rungs[number - 1]


class Attack:
    """Attacks one answer; its process lives from rung to rung until it is killed."""

    def __init__(
        self, endpoints: Endpoints, namespace: str, exercise_id: str, answer: Any, seed: int
    ):
        if not endpoints.s3_endpoint.startswith("http://"):
            raise LabError(
                "The ladder can disturb only a store that answers plain HTTP.",
                "unset LAB_S3_ENDPOINT and run: lab up",
            )
        self.endpoints, self.namespace = endpoints, namespace
        self.exercise_id, self.target, self.seed = exercise_id, target_of(exercise_id), seed
        self._job = pack(bound=True, answer=answer)
        self.gate = Gate(endpoints.s3_endpoint)
        self._process: JobProcess | None = None

    def climb(self, number: int, rung: Rung) -> Result:
        """Run one rung, and remove its topic, output and ledger."""
        began = time.monotonic()
        stage = Stage(self, rung)
        held, fall = False, None
        try:
            found = stage.run()
            held = True
        except Fell as why:
            found, fall = str(why), stage.fall()
        finally:
            with ctrl_c_waits():
                if not held:
                    self.end()  # nothing may write into what is removed
                stage.remove()
        seconds = round(time.monotonic() - began, 1)
        return Result(number, rung.title, self.target.promise, held, found, seconds, fall)

    def shrink(self, rung: Rung, fallen: Result, say: Callable[[str], object]) -> Result:
        """Run a rung again with fewer messages, at most three times, until it falls again.

        Returns:
            The smaller fall, or the same one with a sentence that says why there is none.
        """
        if fallen.fall is None or fallen.history is None:
            why = f"no single {self.target.noun} shows what went wrong"
            return replace(fallen, shrunk=f"Not shrunk: {why}.")
        sent = len(fallen.fall.sends)
        for kept in fallen.fall.smaller():
            say(f"rung {fallen.number} again, with {len(kept)} of its {sent} messages")
            result = self.climb(fallen.number, with_only(rung, kept))
            say(result.outcome())
            if result.fall and result.history:
                left = len(result.fall.sends)
                return replace(result, shrunk=f"It falls with {left} of the {sent} messages, too.")
        return replace(fallen, shrunk="Not shrunk: with fewer messages it holds.")

    def process(self) -> JobProcess:
        """Return the process of the function, started if there is none."""
        if self._process is None:
            behind_gate = replace(self.endpoints, s3_endpoint=self.gate.url)
            self._process = JobProcess(behind_gate, self.namespace, PACKAGE, CALL_SECONDS)
            self._process.load(self._job)
        return self._process

    def end(self) -> None:
        """Kill the process; requests that the gate holds never reach the store."""
        if self._process is not None:
            self._process.kill()
            self._process = None
        self.gate.drop()

    def close(self) -> None:
        """Kill the process and close the gate."""
        self.end()
        self.gate.close()


@contextmanager
def ctrl_c_waits() -> Generator[None]:
    """Finish the body even if somebody presses Ctrl-C; interrupt after it."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Python interrupts only the main thread
        return
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt


class Stage:
    """The topic, the output and the ledger of one rung."""

    def __init__(self, attack: Attack, rung: Rung):
        token = secrets.token_hex(3)
        self._attack, self._rung = attack, rung
        self.target, self.endpoints = attack.target, attack.endpoints
        base = f"s3a://{self.endpoints.bucket}/{attack.namespace}/scratch/attack-{token}"
        topic = f"{attack.namespace}.attack-{token}"
        self.task = Task(self.endpoints.kafka_bootstrap, topic, base, 0, {})
        self.folder = store.key_of(base)
        self._history: History | None = None
        self._ledger = Ledger(ledger_directory(topic))
        self._killed = ""
        self._looks: list[Look] = []
        self._delivery: dict[str, int] = {}  # by send, as the next
        self._value: dict[str, str] = {}

    def run(self) -> str:
        """Deliver, call, disturb and judge; return what the ledger found, or raise Fell."""
        for number, sends in enumerate(self._rung.deliveries(self._attack.seed), 1):
            self._deliver(number, sends)
            try:
                if self.target.feeds:
                    self._send("feed")
                if self._rung.disturb and number == DISTURBED:
                    self._rung.disturb(self)
                else:
                    self.call()
            except JobFailed as why:
                raise Fell(f"In delivery {number}, {_content(sends)}: {why}") from None
            self._judge(number)
        found = f"{len(self._delivery)} messages, {len(self._looks[-1].rows)} rows"
        return f"{found}: the output matches the ledger.{self._killed}"

    def fall(self) -> Fall:
        """Return what happened so far, after the output was wrong or the function failed."""
        return Fall(self.target, self._sends(), tuple(self._looks), self._history)

    def remove(self) -> None:
        """Remove the topic, the output, the checkpoint and the ledger."""
        delete_topic(self.task.bootstrap, self.task.topic)
        store.delete_prefix(self.endpoints, f"{self.folder}/")
        shutil.rmtree(self._ledger.directory, ignore_errors=True)

    def call(self) -> None:
        """Call the function and wait until it has returned."""
        self._send("run")

    def begin(self) -> None:
        """Call the function without waiting."""
        self._attack.process().begin("run", **self._arguments())

    def finish(self) -> None:
        """Wait until the function has returned."""
        self._attack.process().finish()

    def kill_at(self, point: tuple[str, str, str], otherwise: str) -> None:
        """Call the function and kill its process at a request, then look at the output.

        Args:
            point: class of the request, action of the gate, and the beginning of the key.
            otherwise: what the function did if the request never came.
        """
        process = self._attack.process()
        kind, action, key = point
        rule = self._attack.gate.arm(kind, action, part=f"{self.folder}/{key}")
        self.begin()
        while process.busy and not rule.wait(POLL_S):
            pass
        if rule.request is None:
            self._attack.gate.disarm()
            process.finish()
            raise Fell(f"The kill never happened: your function {otherwise}.")
        self._attack.end()
        request = rule.request.key.removeprefix(self.folder).strip("/")
        self._killed = f" Killed at {request}."
        self._looks.append(Look(DISTURBED, self.target.rows(self), request))

    @contextmanager
    def ruled(self, *rules: Rule) -> Generator[None]:
        """Let the gate apply these rules while the body runs."""
        self._attack.gate.obey(*rules)
        try:
            yield
        finally:
            self._attack.gate.disarm()

    def look(self) -> pd.DataFrame:
        """Read the output with Spark, in the process of the function."""
        return self._attack.process().fetch("look", **self._arguments())

    def hudi_rows(self, table: str) -> pd.DataFrame:
        """Read a Hudi table below the attack's folder without Spark."""
        properties = f"{self.folder}/{table}/{PROPERTIES}"
        if not list(store.list_objects(self.endpoints, properties)):
            return pd.DataFrame(columns=list(KEYS))
        try:
            return read_rows(self.endpoints, f"{self.task.base}/{table}")
        except KeyError as error:
            raise Fell(f"Your table lacks a column of the events: {error}.") from None

    def _deliver(self, number: int, sends: list[Send]) -> None:
        since = {}
        if number > 1:
            if self._rung.before and number == DISTURBED:
                self._rung.before(self)
            ends = topic_end_offsets(self.task.bootstrap, self.task.topic)
            since = {str(partition): end for partition, end in ends.items()}
        self.task = replace(self.task, delivery=number, since=since)
        replay(self.task.bootstrap, self.task.topic, self._ledger.directory, sends=sends)
        self._delivery |= dict.fromkeys((send.send_id for send in sends), number)
        for send in sends:  # a malformed message may have any bytes
            self._value[send.send_id] = send.value.decode(errors="backslashreplace")

    def _arguments(self) -> dict[str, Any]:
        return {"exercise": self._attack.exercise_id, "at": asdict(self.task)}

    def _send(self, name: str) -> None:
        self._attack.process().call(name, **self._arguments())

    def _judge(self, delivery: int) -> None:
        rows = self.target.rows(self)
        self._looks.append(Look(delivery, rows))
        sends = self.target.keyed(self._sends())
        verdict = self.target.judge(sends, rows)
        if verdict.wrong:
            self._history = shortest(verdict.wrong, self.target, sends, self._looks)
            raise Fell(verdict.text)

    def _sends(self) -> pd.DataFrame:
        """Return the ledger's frame, with each send's delivery and value."""
        sends = self._ledger.frame()
        ids = sends["send_id"]
        return sends.assign(delivery=ids.map(self._delivery), value=ids.map(self._value))


def _content(sends: Sequence[Send]) -> str:
    malformed = sum(send.kind.startswith("malformed") for send in sends)
    return f"of {len(sends)} messages, {malformed} of them malformed"
