"""Checks of lesson 01: tasks, paces and shapes of Locust users, judged by the load they produce."""

import base64
import json
import re
import secrets
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

import pandas as pd

from lab_env.course.answers import as_int, as_list, as_number, as_text
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.errors import LabError
from lab_env.shop.locust_run import LocustRun
from lab_env.shop.topics import ensure_topic, read_topic

# The learner's `shop_user.py` with one attribute of the user replaced. A function arrives pickled:
# it was defined in the notebook, and Locust runs in a process of its own.
ANSWER = """\
import base64
import pickle

import locust
import shop_user


class Answer(shop_user.Shopper):
    wait_time = locust.constant_throughput(40)
    {change}


@locust.events.test_start.add_listener
def report_pace(environment, **_):
    # A pace may be random: take many users. A pace corrects itself: take new users.
    waits = [Answer(environment).wait_time() for _ in range(100_000)]
    print("WAIT", sum(waits) / len(waits), flush=True)
"""
TASK = "{name} = locust.task({weight})(pickle.loads(base64.b64decode({pickled!r})))"
PACE = "wait_time = eval({text!r}, dict(vars(locust), locust=locust))"
SECONDS = 1.5


def _run(lab, change: str, users: int, name: str) -> tuple[LocustRun, str]:
    """Run the lesson's user with a change on a new topic; returns the run and the topic."""
    if not (lab.folder / "shop_user.py").exists():
        raise LabError("shop_user.py is not there.", "run the cell that writes it first.")
    name = f"{name}-{secrets.token_hex(2)}"
    topic = lab.topic(f"scratch-{name}")
    bootstrap = lab.endpoints.kafka_bootstrap
    ensure_topic(bootstrap, topic)
    file = lab.folder / f"{name}.py"
    file.write_text(ANSWER.format(change=change), encoding="utf-8")
    journal = str(file.with_suffix(".tsv"))
    try:
        with LocustRun(
            file, users, SECONDS, BOOTSTRAP=bootstrap, TOPIC=topic, JOURNAL=journal
        ) as run:
            pass
    except LabError as error:  # Locust could not load the learner's code
        lines = [line for line in error.log.splitlines() if line.strip()]
        raise RuntimeError(lines[-1] if lines else error.what) from None
    return run, topic


@dataclass(frozen=True)
class Cancelling:
    """What a topic holds after a run with a task that cancels.

    Args:
        weight: of the task.
        events: number of events.
        cancels: number of cancellations.
        changed_after: orders that changed again after their cancellation.
        task_error: what the task raised; empty if it raised nothing.
    """

    weight: int
    events: int
    cancels: int
    changed_after: int
    task_error: str = ""

    @property
    def is_a_tenth(self) -> bool:
        """Whether a tenth of the events are cancellations, within 3.5 standard deviations."""
        return abs(self.cancels - self.events / 10) <= 3.5 * sqrt(0.09 * self.events)


@check_of("01.1")
class EveryTenthACancellation:
    """Every tenth event is a cancellation, and nothing happens to an order after it."""

    @staticmethod
    def observe(lab, answer) -> Cancelling:
        """Run ten users with the task and read their topic."""
        from pyspark import cloudpickle

        cancel, weight = answer[0], as_int(answer[1])
        pickled = base64.b64encode(cloudpickle.dumps(cancel)).decode()
        change = TASK.format(name="cancel", weight=weight, pickled=pickled)
        run, topic = _run(lab, change, 10, "cancel")
        return cancelling(
            weight,
            (
                (message.offset(), json.loads(message.value()))
                for message in read_topic(lab.endpoints.kafka_bootstrap, topic)
            ),
            _task_error(run.log),
        )

    @staticmethod
    def judge(facts: Cancelling) -> Passed | NotYet:
        """A tenth, within what chance explains, and no event after a cancellation."""
        if facts.task_error and not facts.cancels:
            return NotYet(f"The task raised an error each time: {facts.task_error}")
        if not facts.cancels:
            return NotYet(
                f"{facts.events} events arrived, and none is a cancellation. Send them with the "
                'operation "cancel".'
            )
        if not facts.is_a_tenth:
            return NotYet(
                f"{facts.cancels / facts.events:.0%} of the events are cancellations. Weights are "
                f"compared with each other: yours is {facts.weight} beside 6 and 3."
            )
        if facts.changed_after:
            return NotYet(
                f"{facts.changed_after} orders changed again after their cancellation. Take a "
                "cancelled order out of self.orders."
            )
        return Passed(
            f"{facts.cancels} of {facts.events} events are cancellations, and each is the last "
            "event of its order."
        )


def cancelling(weight: int, messages, task_error: str = "") -> Cancelling:
    """Count the cancellations among a topic's messages.

    Args:
        weight: of the task that cancels.
        messages: offset and event; all events of an order lie in one partition.
        task_error: what the task raised.
    """
    ops: dict[str, list[str]] = {}
    for _, event in sorted(messages, key=lambda message: message[0]):
        ops.setdefault(event["order_id"], []).append(event["op"])
    counts = Counter(op for order in ops.values() for op in order)
    changed = sum("cancel" in order[:-1] for order in ops.values())
    return Cancelling(weight, counts.total(), counts["cancel"], changed, task_error)


def _task_error(log: str) -> str:
    """The message of the first traceback in Locust's log; empty if there is none."""
    lines = log.partition("Traceback (most recent call last)")[2].splitlines()
    return next((line for line in lines[1:] if line and not line.startswith(" ")), "")


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


@check_of("01.2")
class FiveHundredASecond:
    """Twenty users send 500 events per second in total."""

    @staticmethod
    def observe(lab, answer) -> Pace:
        """Run twenty users at that pace, and count the events of one second."""
        text = re.sub(r"^wait_time\s*=", "", as_text(answer)).strip()
        run, _ = _run(lab, PACE.format(text=text), 20, "pace")
        waits = [line.split()[1] for line in run.log.splitlines() if line.startswith("WAIT ")]
        lines = pd.read_csv(run.locustfile.with_suffix(".tsv"), sep="\t", header=None)
        sent_at = lines.loc[lines[4] == "handed over", 0] - lines[0].min()
        return Pace(float(sent_at.between(0.4, 1.4).sum()), float(waits[0]))

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


# Users at the end of each second of the sale that exercise 01.3 asks for.
SALE = (5, 5, 25, 25, 25, 5, 5)


@dataclass(frozen=True)
class Shape:
    """How many users a load shape has.

    Args:
        users: at the end of second 0, 1, 2 and so on, while the test runs.
    """

    users: tuple[float, ...]


@check_of("01.3")
class Sale:
    """Five users, then 25 for three seconds, then five, then the end at second 7."""

    @staticmethod
    def observe(lab, answer: Callable) -> Shape:
        """Ask the shape second by second, as Locust does."""
        return shape_of(answer)

    @staticmethod
    def judge(facts: Shape) -> Passed | NotYet:
        """Compare every second of the sale, then the end of the test."""
        users = facts.users
        if len(users) < len(SALE):
            return NotYet(
                f"The test ends at second {len(users)}. A tick that returns None ends the test: "
                "before second 7 it returns numbers."
            )
        if users[1] != 5:  # the first users may take two seconds to start
            return NotYet(f"Before the sale there are {users[1]:g} users, not 5.")
        if max(users[2:5]) < 25:
            return NotYet(
                f"The burst reaches only {max(users[2:5]):g} users. The second number is how many "
                "users may start or stop in a second."
            )
        for second in range(2, 7):
            if users[second] != SALE[second]:
                return NotYet(
                    f"Between second {second} and second {second + 1} you reach "
                    f"{users[second]:g} users, not {SALE[second]}. The sale lasts from second 2 to "
                    "second 5; users start and stop at the speed of the second number."
                )
        if len(users) > len(SALE):
            return NotYet("The test goes on after second 7. A tick that returns None ends it.")
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
