"""Checks of lesson 01: run Locust users to test `send`, task weights, a pace and a load shape."""

import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import sqrt
from statistics import median
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pandas as pd
from confluent_kafka import Producer

from lab_env.course.answers import as_list, as_number
from lab_env.course.checking import check, expect
from lab_env.platform.brokers.topics import read_topic, topic_end_offsets

SILENT = {"message.timeout.ms": 400, "log_level": 2}  # after so long the client gives an event up
SLOW_ANSWER_MS = 300  # with fifty polls per second an answer is taken in within some 20 ms
SLOW_SEND_MS = 100  # `produce` and `poll(0)` take less than one
PRODUCE_MS = 20  # so long a `SlowProducer` takes
WAITS_MS = 25  # so long a `send` may take beside
LAST_ANSWERS = "The last answers come after the last send: `on_stop` waits for them with `flush`."
CLOCKS = (time.time, time.perf_counter, time.monotonic)


@check("01.1")
def reports_what_the_broker_answers(lab, user):
    """Run five users on the lab's broker, then two on a broker that never answers."""
    kafka, topic = lab.endpoints.kafka_bootstrap, lab.topic("shop")
    before = topic_end_offsets(kafka, topic)
    sends = _run_send(user, users=5, seconds=1.2)
    with socket.create_server(("127.0.0.1", 0)) as nobody:  # takes connections and says nothing
        address = "{}:{}".format(*nobody.getsockname())
        producer = SlowProducer(SILENT | {"bootstrap.servers": address})
        # The answer finds `producer` among its notebook's variables.
        with patch.dict(user.send.__globals__, producer=producer):
            silent = _run_send(user, users=2, seconds=0.6)
    _expect_no_error(sends.errors + silent.errors)
    events, sent = sends.events, len(sends.events)
    expect(sent, "Your users ran for a second, and `send` was not called.")
    new = [m for m in read_topic(kafka, topic) if m.offset() >= before[m.partition()]]
    found = [(message.key(), _event(message.value())) for message in new]
    in_topic = {event.get("event_id") for _, event in found}
    arrived = len(events.keys() & in_topic)
    expect(
        arrived == sent,
        "`send` was called with {} events, and {} of them are in the topic. `producer.produce` "
        "takes the topic and the event as JSON text.",
        sent,
        arrived,
    )
    own = [(key, event) for key, event in found if event.get("event_id") in events]
    same = sum(event == events[event["event_id"]] for _, event in own)
    expect(
        len(own) == same == sent,
        "For {} events the topic has {} messages, {} of them with the whole event as it was.",
        sent,
        len(own),
        same,
    )
    keyed = sum(key == event["order_id"].encode() for key, event in own)
    expect(
        keyed == sent,
        "{} of {} events have another key than the id of their order, event['order_id'].",
        sent - keyed,
        sent,
    )
    handed, answers, silent_answers = sends.of("HANDED"), sends.of("KAFKA"), silent.of("KAFKA")
    in_time = handed["since"] <= handed["event_id"].map(sends.lasted) + 1
    expect(
        Counter(handed["event_id"]) == Counter(list(events)) and in_time.all(),
        "`send` was called {} times, and `HANDED` was reported {} times, {} times before `send` "
        "returned. Report it once for each event, when `produce` has returned.",
        sent,
        len(handed),
        in_time.sum(),
    )
    early = (silent.of("HANDED")["since"] < PRODUCE_MS).sum()
    expect(
        not early,
        "You reported `HANDED` {} times before `produce` had returned. Until then nobody knows: "
        "`produce` refuses an event when the client's queue is full.",
        early,
    )
    successes = silent_answers.loc[~silent_answers["failed"].astype(bool), "event_id"]
    lies = sum(event_id not in in_topic for event_id in successes)
    expect(
        not lies,
        "With a broker that never answers, you reported {} successes of `KAFKA`. Report it in the "
        "function that `produce` gets as `on_delivery`, with the error that this function is "
        "given.",
        lies,
    )
    silent_ms = median(silent.lasted.values() or [0.0])
    expect(
        silent_ms <= PRODUCE_MS + WAITS_MS,
        "While a broker is silent, each send takes {:.2f} seconds, and all other users wait. In "
        "`send` only look for answers with `producer.poll(0)`.",
        silent_ms / 1000,
    )
    expect(
        Counter(answers["event_id"]) == Counter(list(events)),
        "{} events are in the topic, and {} answers were reported, not one for each. The client "
        "calls `on_delivery` only inside `poll` and `flush`. {}",
        sent,
        len(answers),
        LAST_ANSWERS,
    )
    refused = answers["failed"].sum()
    expect(not refused, "The broker took {} events that you report as failed.", refused)
    unanswered = len(silent.events.keys() - set(silent_answers["event_id"]))
    expect(
        not unanswered,
        "When the users of a silent broker had stopped, {} events had been reported neither as a "
        "success nor as a failure. {}",
        unanswered,
        LAST_ANSWERS,
    )
    for kind, reports in (("HANDED", handed), ("KAFKA", answers)):
        said, took = reports["ms"].median(), reports["since"].median()
        expect(
            abs(said - took) < SLOW_SEND_MS,
            "By your reports a `{}` takes {:,.0f} ms, and it took {:,.0f}. `report` subtracts "
            "`handed_at` from `time.perf_counter()`: take both from this clock.",
            kind,
            said,
            took,
        )
    median_ms = answers["ms"].median()
    expect(
        median_ms <= SLOW_ANSWER_MS,
        "Half of the answers were taken in {:.0f} ms after the send, or later: they lay in the "
        "client. Call `producer.poll(0)` at each send.",
        median_ms,
    )
    return (
        f"{sent} events arrived, and each was answered, half of them within {median_ms:.0f} ms. "
        "With a broker that never answers you report no success."
    )


class SlowProducer(Producer):
    """A producer whose `produce` takes a moment, so that it shows what was reported before."""

    def produce(self, *given: Any, **named: Any) -> None:
        time.sleep(PRODUCE_MS / 1000)
        super().produce(*given, **named)


@dataclass
class Sends:
    """The calls of `send` in one run, by event id, and the users' reports.

    Args:
        began: start of each call, in seconds since the run's start.
        lasted: duration of each call in milliseconds.
        errors: exceptions raised by the users.
        reports: the users' reports to Locust.
    """

    events: dict[str, dict] = field(default_factory=dict)
    began: dict[str, float] = field(default_factory=dict)
    lasted: dict[str, float] = field(default_factory=dict)
    errors: list[Exception] = field(default_factory=list)
    reports: pd.DataFrame = field(default_factory=pd.DataFrame)

    def of(self, kind: str) -> pd.DataFrame:
        """Return the reports of a kind; `since` is milliseconds since `send` was called."""
        found = self.reports.reindex(columns=["type", "second", "ms", "failed", "event_id"])
        found = found[found["type"] == kind]
        return found.assign(since=1000 * (found["second"] - found["event_id"].map(self.began)))


def _run_send(user: type, users: int, seconds: float) -> Sends:
    """Run users that each send ten events per second, and record every call of `send`."""
    from lab_env.shop.locust_run import LocustRun, locust

    sends = Sends()

    class Observed(user):  # ty: ignore[unsupported-base]  (the learner's class)
        wait_time = locust.poisson(10)

        def send(self, event):
            event_id, began = event["event_id"], run.elapsed
            sends.events[event_id], sends.began[event_id] = dict(event), began
            try:
                return super().send(event)
            finally:
                sends.lasted[event_id] = 1000 * (run.elapsed - began)

        def on_stop(self):
            try:
                super().on_stop()
            except Exception as error:
                sends.errors.append(error)

    with LocustRun(Observed, users, seconds) as run:
        pass
    sends.errors += run.errors
    sends.reports = run.reports
    return sends


def _expect_no_error(errors: list[Exception]) -> None:
    named = [f"{type(error).__name__}: {error}" for error in errors]
    expect(not named, "Your user raised an error: {}", *named[:1] or [""])


def _event(value: bytes | None) -> dict:
    """Parse a message's event; return an empty dictionary if it contains none."""
    try:
        event = json.loads(value or b"")
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}


@check("01.2")
def sends_the_mix(lab, user):
    """Run ten fast users, then twenty that start with one order each and create no more."""
    from lab_env.shop.locust_run import LocustRun, locust

    senders: dict[str, set[int]] = {}

    class Hurried(user):
        wait_time = locust.constant_throughput(80)

        def send(self, event):
            senders.setdefault(event["order_id"], set()).add(id(self))
            return super().send(event)

    with LocustRun(Hurried, 10, 1.5) as run:
        pass
    _expect_no_error(run.errors)
    orders = _operations(run.reports)
    ops = Counter(op for order in orders for op in order)
    events = sum(ops.values())
    tasks = Counter(getattr(task, "__name__", str(task)) for task in user.tasks)
    weights = ", ".join(f"{name} {weight}" for name, weight in tasks.items())
    for op in ("update", "cancel"):
        expect(
            ops[op],
            '{} events were sent, and none has the operation "{}". Your tasks, with their weights: '
            "{}.",
            events,
            op,
            weights or "none",
        )
    # Chance hides a weight that is one off: three tasks must have the right ones.
    lowest = min(tasks.values())
    right = len(tasks) != 3 or sorted(tasks.values()) == [lowest, 3 * lowest, 6 * lowest]
    for op, share in (("update", 0.3), ("cancel", 0.1)):
        deviation = sqrt(share * (1 - share) * events)
        right = right and abs(ops[op] - share * events) <= 4 * deviation
    shares = f"{ops['update'] / events:.0%} are updates and {ops['cancel'] / events:.0%} "
    shares += "cancellations"
    expect(
        right,
        "Of {} events, {}. Weights are compared with each other: yours are {}.",
        events,
        shares,
        weights,
    )
    unknown = sum(order[0] != "create" for order in orders)
    expect(not unknown, "{} orders were changed that nobody had created.", unknown)

    shared = sum(len(users) > 1 for users in senders.values())
    expect(
        not shared,
        "{} orders were created by one user and changed by another. Take an order from the user's "
        "own list, self.orders.",
        shared,
    )

    class Closing(Hurried):
        def on_start(self):
            super().on_start()
            self.create()

    Closing.tasks = [task for task in user.tasks if getattr(task, "__name__", "") != "create"]
    with LocustRun(Closing, 20, 0.7) as run:
        pass
    _expect_no_error(run.errors)
    closing = _operations(run.reports)
    expect(
        len(closing) <= 20,
        "20 users without `create` began with an order each, and {} orders were created. Without "
        "an open order `update` and `cancel` do nothing.",
        len(closing),
    )
    after = sum("cancel" in order[:-1] for order in orders + closing)
    expect(
        not after,
        "{} orders changed again after their cancellation. Take a cancelled order out of "
        "self.orders.",
        after,
    )
    expect(
        any(order.count("update") > 1 or order[-2:] == ["update", "cancel"] for order in closing),
        "No order changed again after an update. It is still open: keep it in self.orders.",
    )
    return f"Of {events} events, {shares}, each the last event of its order."


def _operations(reports: pd.DataFrame) -> list[list[str]]:
    """Return for each order the operations that users handed to the producer, in sequence."""
    handed = reports[reports["type"] == "HANDED"]
    if "order_id" not in handed:
        return []
    return handed.groupby("order_id")["op"].agg(list).tolist()


@check("01.3")
def five_hundred_a_second(lab, user):
    """Compute the rate that twenty users request, on a simulated clock; then run the users."""
    from lab_env.shop.locust_run import Environment, LocustRun, locust

    users, asked = 20, 0.0
    # The functions of Locust import their clock by its name, and so may the learner's.
    pace, own = locust.constant_pacing(1), [user.wait_time, user.on_start]
    with _own_clock(*(getattr(one, "__globals__", {}) for one in (pace, *own))) as clock:
        for _ in range(users):
            one, began = user(Environment()), clock.now
            one.on_start()
            for _ in range(1000):  # a pace may be random
                clock.now += max(0.0, float(as_number(one.wait_time())))
            asked += 1000 / (clock.now - began) if clock.now > began else float("inf")
    with LocustRun(user, users, 1.5) as run:
        pass
    _expect_no_error(run.errors)
    seconds = run.reports.loc[run.reports["type"] == "HANDED", "second"]
    rate = seconds.between(0.4, 1.4).sum()
    expect(
        asked >= 485,
        "Each user waits {:.3g} seconds between two events, so {} users send {:.1f} events a "
        "second. constant and constant_pacing take seconds; constant_throughput takes tasks a "
        "second, for each user.",
        users / asked,
        users,
        asked,
    )
    expect(
        asked <= 515,
        "{:,.0f} events a second arrived. The pace is that of one user: you asked for {:,.0f} a "
        "second in all.",
        rate,
        asked,
    )
    expect(len(seconds), "The pace is right, but your users sent no event.")
    expect(
        len(seconds) / 1.5 < 625,
        "The pace is right, but {:,.0f} events a second arrived: a task sends more than one.",
        len(seconds) / 1.5,
    )
    note = f"You asked for {asked:.0f} events a second and got {rate:.0f}"
    return f"{note}, measured." if rate >= 400 else f"{note}: this machine is busy."


@contextmanager
def _own_clock(*namespaces: dict) -> Generator[SimpleNamespace]:
    """Yield a fake clock for this thread; the body sets its `now`, in seconds.

    Args:
        namespaces: `__globals__` of functions that may have imported a clock by name.
    """
    clock, here = SimpleNamespace(now=time.time()), threading.get_ident()
    clocks = [
        (names, name, real)
        for names in (vars(time), *namespaces)
        for name, real in names.items()
        if any(real is one for one in CLOCKS)
    ]

    def set_by_us(real):
        return lambda: clock.now if threading.get_ident() == here else real()

    try:
        for names, name, real in clocks:
            names[name] = set_by_us(real)
        yield clock
    finally:
        for names, name, real in clocks:
            names[name] = real


# Users at the end of each second of the sale that exercise 01.4 asks for.
SALE = (5, 5, 25, 25, 25, 25, 5, 5)


@check("01.4")
def shapes_the_sale(lab, shape_class):
    """Simulate the users that the load shape requests; it must end the test after 8 seconds."""
    halves, asked = users_of(shape_class)
    ends, users = len(halves) / 2, halves[1::2]
    expect(
        ends >= len(SALE),
        "The test ends at second {:g}. A tick that returns None ends the test: before second 8 it "
        "returns numbers.",
        ends,
    )
    # The first users may take two seconds to start.
    expect(users[1] == 5, "Before the sale there are {:g} users, not 5.", users[1])
    burst = max(users[2:6])
    expect(
        burst >= 25 or max(asked, default=0) < 25,
        "The burst reaches only {:g} users. The second number is how many users may start or stop "
        "in a second.",
        burst,
    )
    for second in range(2, 8):
        expect(
            users[second] == SALE[second],
            "Between second {} and second {} you reach {:g} users, not {}. The sale lasts from "
            "second 2 to second 6; users start and stop at the speed of the second number.",
            second,
            second + 1,
            users[second],
            SALE[second],
        )
    expect(
        ends == len(SALE),
        "The test goes on after second 8. A tick that returns None ends it.",
    )
    return "5 users, 25 within a second, 5 again, and the end."


def users_of(shape_class: Any) -> tuple[list[float], list[float]]:
    """Call a load shape's `tick` twice a second, for twelve seconds or until it ends the test.

    The clock is simulated. Users start and stop at the rate that the shape last returned, as in one
    Locust process (2.47, LocalRunner). A master with workers calls `tick` again only once all users
    are running.

    Returns:
        The number of users after each half second, and the number that the shape requested.
    """
    count, users, asked = 0.0, [], []
    with _own_clock(shape_class.tick.__globals__) as clock:
        shape, began = shape_class(), clock.now
        while len(users) < 24:
            clock.now = began + len(users) / 2 + 0.25
            answer = shape.tick()
            if answer is None:
                break
            target, speed = (float(as_number(number)) for number in as_list(answer)[:2])
            step = speed / 2
            count = min(target, count + step) if count < target else max(target, count - step)
            users.append(count)
            asked.append(target)
    return users, asked
