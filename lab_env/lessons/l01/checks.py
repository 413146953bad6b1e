"""Checks of lesson 01: tasks, paces and shapes of Locust users, judged by the load they made."""

import base64
import json
import secrets
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.errors import LabError
from lab_env.shop.locust_run import LocustRun
from lab_env.shop.topics import ensure_topic, read_topic

# The class of the learner's file with one thing replaced. The change comes pickled, because it is
# made in a notebook and used in a process of its own.
ANSWER = """\
import base64
import pickle

import locust
import shop_user


class Answer(shop_user.Shopper):
    wait_time = locust.constant_throughput(40)
    {change}


@locust.events.test_start.add_listener
def say_pace(environment, **_):
    # Of many users: a pace may be drawn by chance. Of new ones: a pace corrects itself later.
    waits = [Answer(environment).wait_time() for _ in range(200)]
    print("WAIT", sum(waits) / len(waits), flush=True)
"""
TASK = "{name} = locust.task({weight!r})(pickle.loads(base64.b64decode({pickled!r})))"
SECONDS = 1.5


def _run(lab, change: str, users: int, name: str) -> tuple[LocustRun, str]:
    """Run the lesson's user with a change, on a topic of its own; returns the run and the topic."""
    if not (lab.folder / "shop_user.py").exists():
        raise LabError("shop_user.py is not there.", "run the cell that writes it first.")
    name = f"{name}-{secrets.token_hex(2)}"
    topic = lab.topic(f"scratch-{name}")
    ensure_topic(lab.endpoints.kafka_bootstrap, topic)
    file = lab.folder / f"{name}.py"
    file.write_text(ANSWER.format(change=change), encoding="utf-8")
    places = {"BOOTSTRAP": lab.endpoints.kafka_bootstrap, "TOPIC": topic}
    journal = str(file.with_suffix(".tsv"))
    try:
        with LocustRun(file, users, SECONDS, **places, JOURNAL=journal) as run:
            pass
    except LabError as error:  # what Locust says about the learner's code
        said = [line for line in error.log.splitlines() if line.strip()]
        raise RuntimeError(said[-1] if said else error.what) from None
    return run, topic


@dataclass(frozen=True)
class Cancelling:
    """What a topic holds after a run with a task that cancels.

    Args:
        weight: of the task.
        events: number of events.
        cancels: number of cancellations.
        changed_after: orders that changed again after their cancellation.
        complaint: what a task raised, if it raised.
    """

    weight: object
    events: int
    cancels: int
    changed_after: int
    complaint: str = ""


@check_of("01.1")
class EveryTenthACancellation:
    """Every tenth event is a cancellation, and nothing happens to an order after it."""

    @staticmethod
    def observe(lab, answer) -> Cancelling:
        """Run ten users with the task and read their topic."""
        from pyspark import cloudpickle

        cancel, weight = answer
        pickled = base64.b64encode(cloudpickle.dumps(cancel)).decode()
        change = TASK.format(name="cancel", weight=weight, pickled=pickled)
        run, topic = _run(lab, change, 10, "cancel")
        return cancelling(
            weight,
            (
                (message.offset(), json.loads(message.value()))
                for message in read_topic(lab.endpoints.kafka_bootstrap, topic)
            ),
            _complaint(run.log),
        )

    @staticmethod
    def judge(facts: Cancelling) -> Passed | NotYet:
        """A tenth, give or take chance; and cancelled is the end."""
        if facts.complaint and not facts.cancels:
            return NotYet(f"The task raised an error each time: {facts.complaint}")
        if not facts.cancels:
            return NotYet(
                f"{facts.events} events arrived, and none is a cancellation. Send them with the "
                'operation "cancel".'
            )
        share = facts.cancels / facts.events
        if not 0.05 <= share <= 0.16:
            return NotYet(
                f"{share:.0%} of the events are cancellations. Weights are compared with each other: "
                f"yours is {facts.weight} beside 6 and 3."
            )
        if facts.changed_after:
            return NotYet(
                f"{facts.changed_after} orders changed again after their cancellation. Take a "
                "cancelled order out of self.orders."
            )
        return Passed(
            f"{facts.cancels} of {facts.events} events are cancellations, and each is its order's last."
        )


def cancelling(weight, messages, complaint: str = "") -> Cancelling:
    """The facts about a topic with cancellations.

    Args:
        weight: of the task.
        messages: offset and event; an order's events all lie in one partition.
        complaint: what a task raised.
    """
    ops: dict[str, list[str]] = {}
    for _, event in sorted(messages, key=lambda message: message[0]):
        ops.setdefault(event["order_id"], []).append(event["op"])
    counts = Counter(op for order in ops.values() for op in order)
    changed = sum("cancel" in order[:-1] for order in ops.values())
    return Cancelling(weight, counts.total(), counts["cancel"], changed, complaint)


def _complaint(log: str) -> str:
    """The last line of the first error that a task raised."""
    lines = log.partition("Traceback (most recent call last)")[2].splitlines()
    told = (line for line in lines[1:] if line and not line.startswith(" "))
    return next(told, "")


@dataclass(frozen=True)
class Pace:
    """How fast twenty users were.

    Args:
        rate: events per second in all, measured.
        wait: mean seconds from a user's first event to its second, as the pace asks for.
        users: how many there were.
    """

    rate: float
    wait: float
    users: int = 20

    @property
    def asked(self) -> float:
        """Events per second in all, as the pace asks for."""
        return float(f"{self.users / self.wait:.3g}") if self.wait else float("inf")


@check_of("01.2")
class FiveHundredASecond:
    """Twenty users send 500 events a second in all."""

    @staticmethod
    def observe(lab, answer) -> Pace:
        """Run twenty users at that pace and measure between their start and their end."""
        change = f"wait_time = eval({str(answer)!r}, dict(vars(locust)))"
        run, _ = _run(lab, change, 20, "pace")
        waits = [line.split()[1] for line in run.log.splitlines() if line.startswith("WAIT ")]
        lines = pd.read_csv(run.locustfile.with_suffix(".tsv"), sep="\t", header=None)
        handed = lines.loc[lines[4] == "handed over", 0] - lines[0].min()
        return Pace(float(handed.between(0.4, 1.4).sum()), float(waits[0]))

    @staticmethod
    def judge(facts: Pace) -> Passed | NotYet:
        """The pace decides, because a busy machine sends fewer events than any pace asks for."""
        if facts.asked < 450:
            return NotYet(
                f"Each user waits {facts.wait:.3g} seconds between two events, so {facts.users} users "
                f"send {facts.asked:.1f} events a second. constant and constant_pacing take seconds; "
                "constant_throughput takes tasks a second, for each user."
            )
        if facts.asked > 550:
            return NotYet(
                f"{facts.rate:,.0f} events a second arrived. The pace is that of one user: you asked "
                f"for {facts.asked:,.0f} a second in all."
            )
        if facts.rate < 400:
            return Passed(
                f"You asked for {facts.asked:.0f} events a second and got {facts.rate:.0f}: the pace "
                "is right, and this machine is busy."
            )
        return Passed(
            f"You asked for {facts.asked:.0f} events a second and got {facts.rate:.0f}, measured."
        )


@dataclass(frozen=True)
class Shape:
    """How many users a load shape has.

    Args:
        users: in second 0, 1, 2 and so on, while the test runs.
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
        """The burst, its height, its end, and the end of the test."""
        users = facts.users
        if len(users) < 7:
            return NotYet(
                f"The test ends at second {len(users)}. A tick that returns None ends the test: "
                "before second 7 it returns numbers."
            )
        if users[1] != 5:
            return NotYet(f"Before the sale there are {users[1]:g} users, not 5.")
        peak = max(users[2:5])
        if peak < 25:
            return NotYet(
                f"The burst reaches only {peak:g} users. The second number is how many users may "
                "start or stop in a second."
            )
        if users[3] < 25:
            return NotYet(f"A second after the sale began there are {users[3]:g} users, not 25.")
        if peak > 25 or users[6] != 5:
            return NotYet(
                f"There are {peak:g} users in the burst and {users[6]:g} after it, not 25 and 5. Users "
                "stop at the speed of the second number, too."
            )
        if len(users) > 8:
            return NotYet("The test goes on after second 7. A tick that returns None ends it.")
        return Passed("5 users, 25 within a second, 5 again, and the end.")


class _Clock:
    """What a tick asks: the seconds since the start."""

    def __init__(self, seconds: float):
        self.seconds = seconds

    def get_run_time(self) -> float:
        return self.seconds


def shape_of(tick: Callable, at_most: int = 12) -> Shape:
    """How many users there are under a load shape.

    As one Locust process does it (LocalRunner of 2.47): the shape is asked about once a second, and users
    start and stop at the speed that it gave last. A master asks again only when all users run.

    Args:
        tick: takes an object with `get_run_time()`; returns users and how many may start or stop
            in a second, or None.
        at_most: seconds to look at.
    """
    count, users = 0.0, []
    for second in range(at_most):
        answer = tick(_Clock(float(second)))
        if answer is None:
            break
        wanted, speed = float(answer[0]), float(answer[1])
        count = min(wanted, count + speed) if count < wanted else max(wanted, count - speed)
        users.append(count)
    return Shape(tuple(users))
