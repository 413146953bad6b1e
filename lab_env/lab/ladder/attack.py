"""Climbs the ladder: delivers events, calls the learner's function, disturbs it, judges its table.

Its table is compared with the ledger of everything sent, which the function cannot see. The attack
then deletes its topic, table and ledger.
"""

import contextlib
import secrets
import signal
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from lab_env.course import registry
from lab_env.course.checking import unfilled
from lab_env.lab.job.packing import pack
from lab_env.lab.job.process import JobFailed
from lab_env.lab.ladder.fall import Fall
from lab_env.lab.ladder.history import History, Look, shortest
from lab_env.lab.ladder.result import Climb, Result
from lab_env.lab.ladder.rungs import DISTURBED, RUNGS, Rung, with_only
from lab_env.lab.ladder.stage import Fell, Stage, Writers
from lab_env.lab.ladder.target import target_of
from lab_env.platform import services
from lab_env.platform.errors import LabError
from lab_env.platform.settings import Endpoints
from lab_env.shop.model import Send


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
        job = pack(bound=True, answer=answer)
        self.writers = Writers(endpoints, namespace, job, self.target.writers)

    def climb(self, number: int, rung: Rung) -> Result:
        """Run one rung, and remove its topic, output and ledger."""
        began = time.monotonic()
        self.writers.load()  # its variables have the values of the rung before
        ascent = Ascent(self, rung)
        try:
            found, fall = ascent.outcome()
        except BaseException as error:
            if failure := self._clear(ascent.stage, kill=True):
                error.add_note(failure)
            raise
        held = fall is None
        found = f"{found} {self._clear(ascent.stage, kill=not held)}".rstrip()
        seconds = round(time.monotonic() - began, 1)
        return Result(number, rung.title, self.target.promise, held, found, seconds, fall)

    def _clear(self, stage: Stage, kill: bool) -> str:
        """Remove what a rung left behind; return a sentence if that fails."""
        try:
            with ctrl_c_waits():
                if kill:
                    self.writers.end()  # nothing may write into what is removed
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

    def close(self) -> None:
        """Kill the processes and close the gate."""
        self.writers.close()


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


class Ascent:
    """One climb of one rung: delivers, calls, disturbs, and judges what the output shows."""

    def __init__(self, attack: Attack, rung: Rung):
        self._rung, self._seed, self._target = rung, attack.seed, attack.target
        self.stage = Stage(
            attack.endpoints,
            attack.namespace,
            attack.exercise_id,
            attack.writers,
            attack.target,
            self._look_after_kill,
        )
        self._history: History | None = None
        self._looks: list[Look] = []
        self._killed = ""

    def outcome(self) -> tuple[str, Fall | None]:
        """Climb; return what the ledger found, and the fall if there was one."""
        try:
            return self._climb(), None
        except Fell as why:
            sends, looks = self.stage.sends(), tuple(self._looks)
            return str(why), Fall(self._target, sends, looks, self._history)

    def _climb(self) -> str:
        stage, sent = self.stage, 0
        for number, sends in enumerate(self._rung.deliveries(self._seed), 1):
            if self._rung.before and number == DISTURBED:
                self._rung.before(stage)
            stage.deliver(number, sends)
            sent += len(sends)
            try:
                if self._target.feeds:
                    stage.feed()
                if self._rung.disturb and number == DISTURBED:
                    self._rung.disturb(stage)
                else:
                    stage.call()
            except JobFailed as why:
                raise Fell(f"In delivery {number}, {_content(sends)}: {why}") from None
            self._judge(number)
        found = f"{sent} messages, {len(self._looks[-1].rows)} rows"
        return f"{found}: the output matches the ledger.{self._killed}"

    def _look_after_kill(self, request: str) -> None:
        self._killed = f" Killed {request}."
        self._looks.append(Look(DISTURBED, self._target.rows(self.stage), killed=request))

    def _judge(self, delivery: int) -> None:
        rows = self._target.rows(self.stage)
        rung, disturbed = self._rung, delivery == DISTURBED and not self._killed
        meanwhile = rung.title if disturbed and (rung.disturb or rung.before) else ""
        self._looks.append(Look(delivery, rows, meanwhile=meanwhile))
        sends = self._target.keyed(self.stage.sends())
        verdict = self._target.judge(sends, rows)
        if verdict.wrong:
            self._history = shortest(verdict.wrong, self._target, sends, self._looks)
            raise Fell(verdict.text)


def _content(sends: Sequence[Send]) -> str:
    malformed = sum(send.kind.startswith("malformed") for send in sends)
    return f"of {len(sends)} messages, {malformed} of them malformed"
