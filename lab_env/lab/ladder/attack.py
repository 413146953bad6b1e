"""Climbs the ladder: delivers events, calls the learner's function, kills it, and judges its table.

The function runs in a process of its own, with the store behind a gate. Its table is compared with
the ledger of everything sent, which the function cannot see. The attack then deletes its topic,
table and ledger.
"""

import contextlib
import secrets
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from lab_env.course import registry
from lab_env.course.checking import unfilled
from lab_env.lab.faults.gate import Gate
from lab_env.lab.job.packing import pack
from lab_env.lab.job.process import JobFailed, JobProcess
from lab_env.lab.ladder.history import Look, Step, shortest
from lab_env.lab.ladder.result import Climb, Result, in_words
from lab_env.lab.ladder.rungs import KILLED, RUNGS, SINK, Rung
from lab_env.pipeline.layout import table_path
from lab_env.platform import store
from lab_env.platform.brokers.topics import delete_topic
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
NEVER = {
    "data": "wrote no data file below the path that it was given",
    "commits": "recorded no finished batch in the checkpoint that it was given",
}


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
) -> Climb:
    """Attack an exercise's answer until it falls, or has climbed all rungs.

    Args:
        namespace: the lesson's; a reset of the lesson also ends an attack and removes its tables.
        numbers: the rungs to climb, counted from 1; by default all.
        seed: decides the events; by default a random one.
        say: called with a line before and after each rung.

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
    with contextlib.closing(Attack(endpoints, namespace, exercise_id, answer, seed)) as under_way:
        for number, rung in chosen:
            say(f"rung {number} of {len(rungs)}, {rung.title}: {rung.promise}")
            results.append(under_way.climb(number, rung))
            say(results[-1].line())
            if not results[-1].held:
                break
    return Climb(exercise_id, seed, len(rungs), tuple(results))


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
        self.exercise_id, self.seed = exercise_id, seed
        self._job = pack(session=True, answer=answer)
        self._gate = Gate(endpoints.s3_endpoint)
        self._process: JobProcess | None = None

    def climb(self, number: int, rung: Rung) -> Result:
        """Run one rung, and remove its topic, table and ledger."""
        began = time.monotonic()
        stage = Stage(self, rung)
        try:
            held, found = True, stage.run()
        except BaseException as why:
            self._end()  # nothing may write into what is removed
            if not isinstance(why, Fell):
                raise
            held, found = False, str(why)
        finally:
            stage.remove()
        seconds = round(time.monotonic() - began, 1)
        history = tuple(stage.history)
        return Result(number, rung.title, rung.promise, held, found, history, seconds)

    def call(self, **task: str) -> None:
        """Call the function and wait until it has returned."""
        self._ready().call("run", exercise=self.exercise_id, **task)

    def call_and_kill(self, kind: str, action: str, part: str, **task: str) -> str:
        """Call the function and kill its process at a request; return the object's key.

        If no such request came, return an empty text.

        Args:
            kind, action, part: of the gate's rule.
        """
        process = self._ready()
        rule = self._gate.arm(kind, action, part=part)
        process.begin("run", exercise=self.exercise_id, **task)
        while process.busy and not rule.wait(POLL_S):
            pass
        if rule.request is None:
            self._gate.disarm()
            process.finish()
            return ""
        self._end()
        return rule.request.key

    def close(self) -> None:
        """Kill the process and close the gate."""
        self._end()
        self._gate.close()

    def _end(self) -> None:
        """Kill the process; requests that the gate holds never reach the store."""
        if self._process is not None:
            self._process.kill()
            self._process = None
        self._gate.drop()

    def _ready(self) -> JobProcess:
        if self._process is None:
            behind_gate = replace(self.endpoints, s3_endpoint=self._gate.url)
            self._process = JobProcess(behind_gate, self.namespace, PACKAGE, CALL_SECONDS)
            self._process.load(self._job)
        return self._process


class Stage:
    """The topic, the table and the ledger of one rung."""

    def __init__(self, attack: Attack, rung: Rung):
        token = secrets.token_hex(3)
        self.attack, self.rung = attack, rung
        self.endpoints = attack.endpoints
        self.topic = f"{attack.namespace}.attack-{token}"
        self.base = f"s3a://{self.endpoints.bucket}/{attack.namespace}/scratch/attack-{token}"
        self.table = table_path(self.base, SINK)
        self.ledger = Ledger(ledger_directory(self.topic))
        self.history: list[Step] = []
        self._killed = ""
        self._looks: list[Look] = []
        self._delivery: dict[str, int] = {}  # by send
        self._task = {
            "bootstrap": self.endpoints.kafka_bootstrap,
            "topic": self.topic,
            "base": self.base,
        }

    def run(self) -> str:
        """Deliver, call, kill and judge; return what the ledger found, or raise Fell."""
        for number, sends in enumerate(self.rung.deliveries(self.attack.seed), 1):
            replay(self.endpoints.kafka_bootstrap, self.topic, self.ledger.directory, sends=sends)
            self._delivery |= dict.fromkeys((send.send_id for send in sends), number)
            try:
                if self.rung.kill and number == KILLED:
                    self._kill(*self.rung.kill)
                self.attack.call(**self._task)
            except JobFailed as why:
                raise Fell(f"In delivery {number}, {_content(sends)}: {why}") from None
            self._judge(number)
        found = f"{len(self._delivery)} messages, {len(self._looks[-1].rows)} orders"
        return f"{found}: the table matches the ledger.{self._killed}"

    def remove(self) -> None:
        """Remove the topic, the table, the checkpoint and the ledger."""
        delete_topic(self.endpoints.kafka_bootstrap, self.topic)
        store.delete_prefix(self.endpoints, f"{store.key_of(self.base)}/")
        shutil.rmtree(self.ledger.directory, ignore_errors=True)

    def _kill(self, kind: str, action: str) -> None:
        folder = store.key_of(self.base)
        key = self.attack.call_and_kill(kind, action, folder, **self._task)
        if not key:
            raise Fell(f"The kill never happened: your function {NEVER[kind]}.")
        self._killed = f" Killed at {key.removeprefix(folder).strip('/')}."
        self._looks.append(Look(KILLED, self._rows(), killed=True))

    def _judge(self, delivery: int) -> None:
        rows = self._rows()
        self._looks.append(Look(delivery, rows))
        found = self.ledger.reconcile_table(rows, "your table")
        if not found.ok:
            sends = self.ledger.frame()
            sends = sends.assign(delivery=sends["send_id"].map(self._delivery))
            orders = [order for names in found.examples.values() for order in names]
            self.history = shortest(dict.fromkeys(orders), sends, self._looks)
            raise Fell(in_words(found))

    def _rows(self) -> pd.DataFrame:
        properties = f"{store.key_of(self.table)}/{PROPERTIES}"
        if not list(store.list_objects(self.endpoints, properties)):
            return pd.DataFrame(columns=list(KEYS))
        try:
            return read_rows(self.endpoints, self.table)
        except KeyError as error:
            raise Fell(f"Your table lacks a column of the events: {error}.") from None


def _content(sends: Sequence[Send]) -> str:
    malformed = sum(send.kind.startswith("malformed") for send in sends)
    return f"of {len(sends)} messages, {malformed} of them malformed"
