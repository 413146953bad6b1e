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
from lab_env.platform import services, store
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
HELD_S = 18.0  # longest time to hold a request: S3A repeats it after 20 s
QUIET_S = 5.0


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
            sent to another process, a service is not running, or the lab itself failed.
    """
    exercise_id, rungs = rungs_of(exercise_id)
    chosen = [(n, _rung(n, rungs)) for n in numbers or range(1, len(rungs) + 1)]
    if unfilled(answer):
        raise LabError(
            f"Exercise {exercise_id} is not solved yet.", "fill in its cell, then attack it."
        )
    for name in target_of(exercise_id).services:
        if not services.service(name).running():
            raise LabError(f"The ladder of {exercise_id} needs {name}.", f"run: lab up {name}")
    seed = secrets.randbelow(10_000) if seed is None else seed
    results: list[Result] = []
    say(f"Required: {target_of(exercise_id).promise}")
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
    """Attacks one answer; its processes live from rung to rung until they are killed."""

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
        self._processes: list[JobProcess] = []  # one per writer

    def climb(self, number: int, rung: Rung) -> Result:
        """Run one rung, and remove its topic, output and ledger."""
        began = time.monotonic()
        for process in self._processes:  # its variables have the values of the rung before
            process.load(self._job)
        stage = Stage(self, rung)
        try:
            found, fall = stage.outcome()
        except BaseException as error:
            if failure := self._clear(stage, kill=True):
                error.add_note(failure)
            raise
        held = fall is None
        found = f"{found} {self._clear(stage, kill=not held)}".rstrip()
        seconds = round(time.monotonic() - began, 1)
        return Result(number, rung.title, self.target.promise, held, found, seconds, fall)

    def _clear(self, stage: "Stage", kill: bool) -> str:
        """Remove what a rung left behind; return a sentence if that fails."""
        try:
            with ctrl_c_waits():
                if kill:
                    self.end()  # nothing may write into what is removed
                stage.remove()
        except Exception as error:
            return f"Its topic, output and ledger could not all be removed: {error}"
        return ""

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

    def process(self, writer: int = 0) -> JobProcess:
        """Return the process of a writer; start those of all writers if there is none."""
        if not self._processes:
            behind_gate = replace(self.endpoints, s3_endpoint=self.gate.url)
            for n in range(self.target.writers):
                self._processes.append(
                    JobProcess(behind_gate, self.namespace, PACKAGE, CALL_SECONDS, n)
                )
            for process in self._processes:
                process.load(self._job)
        return self._processes[writer]

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

    def outcome(self) -> tuple[str, Fall | None]:
        """Run the rung; return what the ledger found, and the fall if there was one."""
        try:
            return self.run(), None
        except Fell as why:
            return str(why), self.fall()

    def fall(self) -> Fall:
        """Return what happened so far, after the output was wrong or the function failed."""
        return Fall(self.target, self.sends(), tuple(self._looks), self._history)

    def remove(self) -> None:
        """Remove the topic, the output, the checkpoint and the ledger."""
        delete_topic(self.task.bootstrap, self.task.topic)
        store.delete_prefix(self.endpoints, f"{self.folder}/")
        shutil.rmtree(self._ledger.directory, ignore_errors=True)

    def call(self) -> None:
        """Call the function and wait until it has returned, in one process after the other."""
        for writer in range(self.target.writers):
            self.begin(writer)
            self.finish(writer)

    def begin(self, writer: int = 0) -> None:
        """Call the function in one of its processes without waiting."""
        self._attack.process(writer).begin("run", **self._arguments(writer))

    def finish(self, writer: int = 0) -> None:
        """Wait until the function has returned."""
        self._attack.process(writer).finish()

    def kill_at(self, point: tuple[str, str, str], otherwise: str, k: int = 1) -> None:
        """Call the function and kill its process at a request, then look at the output.

        Args:
            point: class of the request, `hold_before` or `hold_after`, and a pattern for the key
                below the attack's folder.
            otherwise: what the function did if the request never came.
            k: which of these requests, counted from 1.
        """
        process = self._attack.process()
        kind, action, key = point
        rule = self._attack.gate.arm(kind, action, k=k, part=f"{self.folder}/{key}")
        self.begin()
        while process.busy and not rule.wait(POLL_S):
            pass
        if rule.request is None:
            self._attack.gate.disarm()
            process.finish()
            raise Fell(f"Your function {otherwise}, so there was no moment to kill it at.")
        self._attack.end()
        key = rule.request.key.removeprefix(self.folder).strip("/")
        request = f"{action.removeprefix('hold_')} {key}"
        self._killed = f" Killed {request}."
        self._looks.append(Look(DISTURBED, self.target.rows(self), killed=request))

    def hold_first(self, kind: str, action: str) -> None:
        """Call the function in two processes: a request of the first waits while the second writes.

        The request is released when the second process has ended, or has sent no request for
        `QUIET_S`: then it waits for the first one.
        """
        gate = self._attack.gate
        first, second = self._attack.process(0), self._attack.process(1)
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
        self._attack.gate.obey(*rules)
        try:
            yield
        finally:
            self._attack.gate.disarm()
        if any(rule.request is None for rule in rules):
            raise Fell("Your function wrote so little that the store had no time for trouble.")

    def look(self) -> pd.DataFrame:
        """Read the output with Spark, in the process of the function."""
        try:
            return self._attack.process().fetch("look", **self._arguments())
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

    def _arguments(self, writer: int = 0) -> dict[str, Any]:
        task = replace(self.task, writer=writer)
        return {"exercise": self._attack.exercise_id, "at": asdict(task)}

    def _quiet_since(self, began: float) -> bool:
        """True if there was a request since `began`, and none for `QUIET_S`."""
        [last] = self._attack.gate.last(1)
        return last.at > began and time.time() > last.at + QUIET_S

    def _send(self, name: str) -> None:
        self._attack.process().call(name, **self._arguments())

    def _judge(self, delivery: int) -> None:
        rows = self.target.rows(self)
        rung, disturbed = self._rung, delivery == DISTURBED and not self._killed
        meanwhile = rung.title if disturbed and (rung.disturb or rung.before) else ""
        self._looks.append(Look(delivery, rows, meanwhile=meanwhile))
        sends = self.target.keyed(self.sends())
        verdict = self.target.judge(sends, rows)
        if verdict.wrong:
            self._history = shortest(verdict.wrong, self.target, sends, self._looks)
            raise Fell(verdict.text)


def _content(sends: Sequence[Send]) -> str:
    malformed = sum(send.kind.startswith("malformed") for send in sends)
    return f"of {len(sends)} messages, {malformed} of them malformed"
