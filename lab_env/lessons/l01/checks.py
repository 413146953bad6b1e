"""Checks of lesson 01: a send, tasks, a pace and a shape, judged by what the users do."""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import sqrt
from statistics import median
from time import perf_counter
from unittest.mock import patch

import pandas as pd
from confluent_kafka import Message, Producer

from lab_env.course.answers import as_list, as_number
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.platform.brokers.topics import read_topic, topic_end_offsets

# Nobody listens there: the client gives an event up after `message.timeout.ms`.
NOBODY = {"bootstrap.servers": "127.0.0.1:1", "message.timeout.ms": 400, "log_level": 2}
SLOW_ANSWER_MS = 300  # with fifty polls per second an answer is taken in within some 20 ms
SLOW_SEND_MS = 100  # `produce` and `poll(0)` take less than one


@dataclass(frozen=True)
class Sending:
    """What a user's `send` did on the lab's broker, and then with a broker that never answers.

    Args:
        sends: number of events that `send` was called with.
        arrived: those of them that the topic holds.
        keyed: those of these whose key is their order's id.
        handed: reports of `HANDED`.
        answered: reports of `KAFKA`.
        median_ms: median response time of the latter.
        silent_successes: events that never arrived, and were reported as a success of `KAFKA`.
        silent_ms: median duration of a send without an answer.
        unanswered: sends to the silent broker without any report of `KAFKA` when the users had
            stopped.
        error: the first exception; empty if there was none.
    """

    sends: int
    arrived: int
    keyed: int
    handed: int
    answered: int
    median_ms: float = 0.0
    silent_successes: int = 0
    silent_ms: float = 0.0
    unanswered: int = 0
    error: str = ""


@dataclass
class _Calls:
    """What the users of a run were asked to do, and what it raised."""

    events: list[str] = field(default_factory=list)
    durations_ms: list[float] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)


@check_of("01.1")
class SendAndReport:
    """A send reports `HANDED` at once and `KAFKA` with the broker's answer, each once."""

    @staticmethod
    def observe(lab, answer) -> Sending:
        """Run five users on the lab's broker, then two with a producer that reaches nobody."""
        kafka, topic = lab.endpoints.kafka_bootstrap, lab.topic("shop")
        before = topic_end_offsets(kafka, topic)
        calls, reports = _run_send(answer, users=5, seconds=1.2)
        # The answer finds `producer` among its notebook's variables.
        with patch.dict(answer.send.__globals__, producer=Producer(NOBODY)):
            silent_calls, silent = _run_send(answer, users=2, seconds=0.6)
        arrived = {
            event["event_id"]: message.key() == str(event["order_id"]).encode()
            for message, event in _events_since(kafka, topic, before)
        }
        mine = [arrived[event_id] for event_id in calls.events if event_id in arrived]
        answers = reports.loc[reports["type"] == "KAFKA"]
        silent_answers = int((silent["type"] == "KAFKA").sum())
        successes = silent[(silent["type"] == "KAFKA") & ~silent["failed"].astype(bool)]
        return Sending(
            sends=len(calls.events),
            arrived=len(mine),
            keyed=sum(mine),
            handed=int((reports["type"] == "HANDED").sum()),
            answered=len(answers),
            median_ms=float(answers["ms"].median()) if len(answers) else 0.0,
            silent_successes=sum(id_ not in arrived for id_ in successes.get("event_id", ())),
            silent_ms=median(silent_calls.durations_ms or [0.0]),
            unanswered=len(silent_calls.events) - silent_answers,
            error=_first_error(calls.errors + silent_calls.errors),
        )

    @staticmethod
    def judge(facts: Sending) -> Passed | NotYet:
        """Each event arrives under its key, and its success is the broker's."""
        sends, arrived, answered = facts.sends, facts.arrived, facts.answered
        if facts.error and not answered:
            return NotYet(f"Your user raised an error: {facts.error}")
        if arrived < sends:
            return NotYet(
                f"`send` was called with {sends} events, and {arrived} of them are in the topic. "
                "`producer.produce` takes the topic and the event as JSON text."
            )
        if facts.keyed < arrived:
            return NotYet(
                f"{arrived - facts.keyed} of {arrived} events have another key than the id of "
                "their order, event['order_id']."
            )
        if facts.handed != sends:
            return NotYet(
                f"`send` was called {sends} times, and `HANDED` was reported {facts.handed} times. "
                "Report it once, when `produce` has returned."
            )
        if facts.silent_successes:
            return NotYet(
                f"With a broker that never answers, you reported {facts.silent_successes} "
                "successes of `KAFKA`. Report it in the function that `produce` gets as "
                "`on_delivery`, with the error that this function is given."
            )
        if facts.silent_ms > SLOW_SEND_MS:
            return NotYet(
                f"While a broker is silent, each send takes {facts.silent_ms / 1000:.1f} seconds, "
                "and all other users wait. In `send` only look for answers with `producer.poll(0)`."
            )
        if not answered:
            return NotYet(
                f"{arrived} events are in the topic, and no answer was reported. The client calls "
                "`on_delivery` only inside `poll` and `flush`."
            )
        late = "The last answers come after the last send: `on_stop` waits for them with `flush`."
        if answered != arrived:
            return NotYet(
                f"{arrived} events are in the topic, and {answered} answers were reported. {late}"
            )
        if facts.unanswered > 0:
            return NotYet(
                f"When the users of a silent broker had stopped, {facts.unanswered} events had "
                f"been reported neither as a success nor as a failure. {late}"
            )
        if facts.median_ms > SLOW_ANSWER_MS:
            return NotYet(
                f"Half of the answers were taken in {facts.median_ms:.0f} ms after the send, or "
                "later: they lay in the client. Call `producer.poll(0)` at each send."
            )
        if facts.error:
            return NotYet(f"Your user raised an error: {facts.error}")
        return Passed(
            f"{arrived} events arrived, and each was answered, half of them within "
            f"{facts.median_ms:.0f} ms. With a broker that never answers you report no success."
        )


def _run_send(user: type, users: int, seconds: float) -> tuple[_Calls, pd.DataFrame]:
    """Run users at ten sends per second, and note each call of `send`."""
    from lab_env.shop.locust_run import LocustRun, locust

    calls = _Calls()

    class Observed(user):  # ty: ignore[unsupported-base]  (the learner's class)
        wait_time = locust.poisson(10)

        def send(self, event):
            calls.events.append(event["event_id"])
            began = perf_counter()
            try:
                return super().send(event)
            finally:
                calls.durations_ms.append(1000 * (perf_counter() - began))

        def on_stop(self):
            try:
                super().on_stop()
            except Exception as error:
                calls.errors.append(error)

    with LocustRun(Observed, users, seconds) as run:
        pass
    calls.errors += run.errors
    return calls, run.reports


def _first_error(errors: list[Exception]) -> str:
    return f"{type(errors[0]).__name__}: {errors[0]}" if errors else ""


def _events_since(
    kafka: str, topic: str, before: dict[int, int]
) -> Iterable[tuple[Message, dict[str, object]]]:
    """The topic's messages after these offsets, with their events; what is no event is left out."""
    for message in read_topic(kafka, topic):
        if message.offset() >= before[message.partition()]:
            try:
                event = json.loads(message.value())
            except (ValueError, TypeError):
                continue
            if isinstance(event, dict) and {"event_id", "order_id", "op"} <= event.keys():
                yield message, event


@dataclass(frozen=True)
class Mix:
    """What a topic holds after a run with three tasks.

    Args:
        ops: number of events by operation.
        changed_after: orders that changed again after their cancellation.
        weights: weight of each task.
        error: the first exception of a task; empty if there was none.
    """

    ops: dict[str, int]
    changed_after: int = 0
    weights: dict[str, int] = field(default_factory=dict)
    error: str = ""

    def share(self, op: str) -> float:
        """The part of the events that are of this operation, from 0 to 1."""
        return self.ops.get(op, 0) / max(1, sum(self.ops.values()))

    def is_share(self, op: str, share: float) -> bool:
        """Whether that part is what it should be, within four standard deviations."""
        events = sum(self.ops.values())
        deviation = sqrt(share * (1 - share) * events)
        return abs(self.ops.get(op, 0) - share * events) <= 4 * deviation

    def has_right_weights(self) -> bool:
        """Whether three tasks have weights like 6 to 3 to 1; other tasks have their shares only."""
        weights = sorted(self.weights.values())
        return len(weights) != 3 or weights == [weights[0] * part for part in (1, 3, 6)]


@check_of("01.2")
class TheMix:
    """Of ten events three are updates and one a cancellation, and nothing follows that."""

    @staticmethod
    def observe(lab, answer) -> Mix:
        """Run ten hurried users, and read what they sent."""
        from lab_env.shop.locust_run import LocustRun, locust

        kafka, topic = lab.endpoints.kafka_bootstrap, lab.topic("shop")
        before = topic_end_offsets(kafka, topic)
        hurried = type("Hurried", (answer,), {"wait_time": locust.constant_throughput(80)})
        with LocustRun(hurried, 10, 1.5) as run:
            pass
        weights = Counter(task.__name__ for task in answer.tasks)
        events = (
            (message.offset(), event) for message, event in _events_since(kafka, topic, before)
        )
        return mix_of(events, dict(weights), _first_error(run.errors))

    @staticmethod
    def judge(facts: Mix) -> Passed | NotYet:
        """Both shares, within what chance explains, and no event after a cancellation."""
        weights = ", ".join(f"{name} {weight}" for name, weight in facts.weights.items())
        lacking = [op for op in ("update", "cancel") if not facts.ops.get(op)]
        if facts.error:
            return NotYet(f"A task raised an error: {facts.error}")
        if lacking:
            return NotYet(
                f"{sum(facts.ops.values())} events arrived, and none has the operation "
                f'"{lacking[0]}". Your tasks, with their weights: {weights or "none"}.'
            )
        right_shares = facts.is_share("update", 0.3) and facts.is_share("cancel", 0.1)
        if not (right_shares and facts.has_right_weights()):
            return NotYet(
                f"{facts.share('update'):.0%} of the events are updates and "
                f"{facts.share('cancel'):.0%} cancellations. Weights are compared with each "
                f"other: yours are {weights}."
            )
        if facts.changed_after:
            return NotYet(
                f"{facts.changed_after} orders changed again after their cancellation. Take a "
                "cancelled order out of self.orders."
            )
        return Passed(
            f"Of {sum(facts.ops.values())} events {facts.share('update'):.0%} are updates and "
            f"{facts.share('cancel'):.0%} cancellations, each the last event of its order."
        )


def mix_of(events: Iterable[tuple[int, dict]], weights: dict[str, int], error: str = "") -> Mix:
    """Count a topic's events by operation.

    Args:
        events: offset and event; all events of an order lie in one partition.
    """
    ops: dict[str, list[str]] = {}
    for _, event in sorted(events, key=lambda found: found[0]):
        ops.setdefault(event["order_id"], []).append(event["op"])
    counts = Counter(op for order in ops.values() for op in order)
    changed = sum("cancel" in order[:-1] for order in ops.values())
    return Mix(dict(counts), changed, weights, error)


@dataclass(frozen=True)
class Pace:
    """How fast twenty users were.

    Args:
        rate: events per second of all users, measured.
        wait: mean seconds between two events of one user, as the pace asks for.
        users: how many there were.
    """

    rate: float
    wait: float
    users: int = 20

    @property
    def requested_rate(self) -> float:
        """Events per second of all users, as the pace asks for."""
        return float(f"{self.users / self.wait:.3g}") if self.wait else float("inf")


@check_of("01.3")
class FiveHundredASecond:
    """Twenty users send 500 events per second in total."""

    @staticmethod
    def observe(lab, answer) -> Pace:
        """Read the pace that users ask for, then run twenty and count the events of one second."""
        from lab_env.shop.locust_run import LocustRun

        # A pace may be random: ask many users. A pace corrects itself: ask each user once.
        wait = sum(answer(None).wait_time() for _ in range(40_000)) / 40_000
        with LocustRun(answer, 20, 1.5) as run:
            pass
        handed = run.reports[run.reports["type"] == "HANDED"]
        return Pace(float(handed["second"].between(0.4, 1.4).sum()), float(wait))

    @staticmethod
    def judge(facts: Pace) -> Passed | NotYet:
        """Judge the requested rate (within 3 %): a busy machine sends less than any pace asks."""
        if facts.requested_rate < 485:
            return NotYet(
                f"Each user waits {facts.wait:.3g} seconds between two events, so {facts.users} "
                f"users send {facts.requested_rate:.1f} events a second. constant and "
                "constant_pacing take seconds; constant_throughput takes tasks a second, for each "
                "user."
            )
        if facts.requested_rate > 515:
            return NotYet(
                f"{facts.rate:,.0f} events a second arrived. The pace is that of one user: you "
                f"asked for {facts.requested_rate:,.0f} a second in all."
            )
        note = f"You asked for {facts.requested_rate:.0f} events a second and got {facts.rate:.0f}"
        if facts.rate < 400:
            return Passed(f"{note}: the pace is right, and this machine is busy.")
        return Passed(f"{note}, measured.")


# Users at the end of each second of the sale that exercise 01.4 asks for.
SALE = (5, 5, 25, 25, 25, 25, 5, 5)


@dataclass(frozen=True)
class Shape:
    """How many users a load shape has.

    Args:
        users: at the end of second 0, 1, 2 and so on, while the test runs.
    """

    users: tuple[float, ...]


@check_of("01.4")
class Sale:
    """Five users, then 25 for four seconds, then five, then the end at second 8."""

    @staticmethod
    def observe(lab, answer: Callable) -> Shape:
        """Ask the shape second by second, as Locust does."""
        shape = answer()

        def tick(clock: "_Clock"):
            shape.get_run_time = clock.get_run_time
            return shape.tick()

        return shape_of(tick)

    @staticmethod
    def judge(facts: Shape) -> Passed | NotYet:
        """Compare every second of the sale, then the end of the test."""
        users = facts.users
        if len(users) < len(SALE):
            return NotYet(
                f"The test ends at second {len(users)}. A tick that returns None ends the test: "
                "before second 8 it returns numbers."
            )
        if users[1] != 5:  # the first users may take two seconds to start
            return NotYet(f"Before the sale there are {users[1]:g} users, not 5.")
        if max(users[2:6]) < 25:
            return NotYet(
                f"The burst reaches only {max(users[2:6]):g} users. The second number is how many "
                "users may start or stop in a second."
            )
        for second in range(2, 8):
            if users[second] != SALE[second]:
                return NotYet(
                    f"Between second {second} and second {second + 1} you reach "
                    f"{users[second]:g} users, not {SALE[second]}. The sale lasts from second 2 to "
                    "second 6; users start and stop at the speed of the second number."
                )
        if len(users) > len(SALE):
            return NotYet("The test goes on after second 8. A tick that returns None ends it.")
        return Passed("5 users, 25 within a second, 5 again, and the end.")


class _Clock:
    """Stands for the `self` of a tick: a load shape that knows the seconds since the start."""

    def __init__(self, seconds: float):
        self.seconds = seconds

    def get_run_time(self) -> float:
        return self.seconds


def shape_of(tick: Callable, at_most: int = 12) -> Shape:
    """How many users a load shape has, by the rule of one Locust process (2.47, LocalRunner).

    Locust asks the shape about once a second. Users start and stop at the speed that the shape
    returned last. (A master with workers asks again only when all users run.)

    Args:
        tick: takes an object with `get_run_time()`; returns users and how many may start or stop
            in a second, or None. It is asked in the middle of each second.
        at_most: seconds to look at.
    """
    count, users = 0.0, []
    for second in range(at_most):
        answer = tick(_Clock(second + 0.5))
        if answer is None:
            break
        target, speed = (float(as_number(number)) for number in as_list(answer)[:2])
        count = min(target, count + speed) if count < target else max(target, count - speed)
        users.append(count)
    return Shape(tuple(users))
