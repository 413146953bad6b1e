"""Checks of lesson 19: an alert, a validation against the books, and causes with their proof."""

import random
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

import yaml

from lab_env.course.answers import Unreadable, as_choice, as_frame, as_int, as_list, as_text
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.lessons.l19 import scenarios
from lab_env.lessons.l19.scenarios import ENDS, SCENARIOS, Expectation, expectation, test_file
from lab_env.lessons.l19.tickets import CAUSES, NAMES, Evidence, evidence_of

ROWS_DDL = "order_id STRING, partition_date STRING, amount DECIMAL(12,2), order_ts TIMESTAMP"
BOOKS_DDL = "partition_date STRING, orders BIGINT, revenue DECIMAL(12,2), newest TIMESTAMP"


@dataclass(frozen=True)
class Alarm:
    """What an alert did in the made-up scenarios.

    Args:
        fired: whether it rang in time, or at all where it must not, by the scenario's name.
        still: whether it still rang twenty seconds after the stream had caught up.
        broken: what promtool says of a rule that cannot be used.
    """

    fired: dict[str, bool] = field(default_factory=dict)
    still: bool = False
    broken: str = ""


EXPECTED = {scenario.name: scenario.rings for scenario in SCENARIOS}
RINGS = {
    scenarios.CALM.name: (
        "Fired in an ordinary minute, with no message of yours older than 2 s. Does your "
        "expression return something all the time? `> bool` returns 0, and for an alert 0 is "
        "something. Or does it ring for the pipeline `returns`, another team's? Select your own "
        "by its labels."
    ),
    scenarios.NIGHT.name: (
        "Fired at 03:00, when nobody ordered: no commit for an hour, because there was nothing to "
        "commit. What makes a customer wait is a message that nobody read."
    ),
    scenarios.SALE.name: (
        "Fired during a sale: 2,000 messages were waiting, the oldest for 4.9 s. That is within "
        "5 s; a number of messages is not an age."
    ),
    scenarios.HICCUP.name: (
        "Fired for a hiccup: 2 s above the limit, or a single scrape without an answer. Who is "
        "woken by that switches the alarm off. Let it hold for 3 s."
    ),
    scenarios.PAGES.name: (
        "Fired because Spark's pages did not answer for 20 s, while the stream went on and every "
        "order was read in time."
    ),
    scenarios.HANG.name: (
        "The stream hung for 50 s, and 12 s after it had begun to, your rule did not fire. Which "
        "number grows from the first second?"
    ),
    scenarios.SLOW.name: (
        "For 50 s the oldest message waited 6 s. Within 12 s your rule did not fire; the limit is "
        "5 s, for 3 s."
    ),
    scenarios.EXPORTER.name: (
        "The exporter died and your rule fell silent: a comparison with nothing is nothing. Ring "
        "for `absent(...)`, too."
    ),
    scenarios.BROKER.name: (
        "Kafka did not answer. The exporter lived and its `up` was 1, but the age was gone, and "
        "your rule fell silent. `absent(...)` of the age covers both."
    ),
}


@check_of("19.1")
class RingsWhenItShould:
    """An alert rings when the stream or its exporter dies, and at no other time."""

    @staticmethod
    def observe(lab, answer) -> Alarm:
        """Try the rule by `promtool test rules`: on all scenarios, then on one after the other."""
        rules = yaml.safe_dump(as_rules(answer))

        def trial(*expected: Expectation):
            return lab.prometheus.test_rules(rules, yaml.safe_dump(test_file(expected)))

        expected = [expectation(scenario) for scenario in SCENARIOS]
        if trial(*expected, ENDS).ok:
            return Alarm(EXPECTED)
        for single in expected:
            if not trial(single).ok:
                other = trial(single.other)
                if not other.ok:
                    return Alarm(broken=other.output.strip()[-300:])
                return Alarm(EXPECTED | {single.scenario.name: single.other.fired})
        return Alarm(EXPECTED, still=True)

    @staticmethod
    def judge(facts: Alarm) -> Passed | NotYet:
        """False alarms first, because they are what people switch off."""
        if facts.broken:
            return NotYet(f"Prometheus cannot use this rule: {facts.broken}")
        for scenario, message in RINGS.items():
            if facts.fired[scenario] == EXPECTED[scenario]:
                continue
            return NotYet(message)
        if facts.still:
            return NotYet("The stream had caught up for 20 s, and the alert still fired.")
        return Passed(
            "Silent in an ordinary minute, at night, in a sale, after a hiccup and while only "
            "Spark's pages are gone; rings when the stream hangs or is slow, and when the exporter "
            "or Kafka does not answer."
        )


def as_rules(answer) -> dict:
    """A rule file of a learner's answer: a rule, its two fields, or a text of YAML."""
    if isinstance(answer, str):
        try:
            answer = yaml.safe_load(answer)
        except yaml.YAMLError as error:
            raise Unreadable(f"This is no YAML: {error}") from None
    if isinstance(answer, list | tuple) and len(answer) == 2 and all(
        isinstance(part, str) for part in answer
    ):  # fmt: skip
        answer = {"expr": answer[0], "for": answer[1]}
    if isinstance(answer, Mapping) and "groups" in answer:
        return dict(answer)
    rules = [answer] if isinstance(answer, Mapping) else answer
    if not isinstance(rules, list | tuple) or not all(
        isinstance(rule, Mapping) and "expr" in rule for rule in rules
    ):
        raise Unreadable('A rule is expected: a dictionary with "alert", "expr" and "for".')
    named = [{"alert": "OrdersLate", **rule} for rule in rules]
    return {"groups": [{"name": "shop", "rules": named}]}


@dataclass(frozen=True)
class Validated:
    """Which days a learner's validation reports.

    Args:
        faults: what is wrong with each day of the hidden table; empty where it agrees.
        reported: the days that the answer names.
    """

    faults: dict[str, str]
    reported: frozenset[str]


FAULTS = {
    "hidden": (
        "1,000 = 1,000 is not enough: on {day} some orders are missing, and as many rows are there "
        "twice, so the rows and their sum agree with the books. Count distinct keys."
    ),
    "doubled": (
        "On {day} some orders are there twice: as many different orders as in the books, but more "
        "rows."
    ),
    "amount": "On {day} every order is there, and the revenue is not that of the books.",
    "stale": (
        "On {day} orders and revenue agree; the newest change is older than that of the books."
    ),
    "missing": (
        "The books have {day}, the table has no row of it. A comparison with NULL is NULL, and "
        "neither an inner join nor `where` lets it through."
    ),
    "unknown": "The table has rows of {day}, which the books do not have.",
}


@check_of("19.2")
class AgreesWithTheBooks:
    """The days of a table that do not agree with the books."""

    @staticmethod
    def observe(lab, answer) -> Validated:
        """Give the function a hidden table and books, with one fault per day."""
        if not callable(answer):
            raise Unreadable("A function `find_wrong(rows, books)` is expected.")
        rows, books, faults = made_up_days(random.Random(secrets.randbits(64)))
        spark = lab.spark
        found = answer(
            spark.createDataFrame(rows, ROWS_DDL), spark.createDataFrame(books, BOOKS_DDL)
        )
        return Validated(faults, frozenset(days_of(found)))

    @staticmethod
    def judge(facts: Validated) -> Passed | NotYet:
        """All wrong days, and none that is right."""
        unknown = facts.reported - set(facts.faults)
        if unknown:
            return NotYet(f"You report {', '.join(sorted(unknown))}, which is no day of the table.")
        for fault, message in FAULTS.items():
            for day, found in facts.faults.items():
                if found == fault and day not in facts.reported:
                    return NotYet(message.format(day=day))
        false_alarms = sorted(day for day in facts.reported if not facts.faults[day])
        if false_alarms:
            return NotYet(f"You report {false_alarms[0]}, which agrees with the books.")
        wrong = sum(map(bool, facts.faults.values()))
        return Passed(
            f"All {wrong} wrong days, each wrong in another way, and none of the right ones."
        )


def days_of(found) -> list[str]:
    """The days that an answer names: a list, or a table with `partition_date`."""
    if found is None:
        raise Unreadable("Your function returned nothing; let it return the wrong days.")
    if hasattr(found, "columns"):
        frame = as_frame(found)
        if "partition_date" in frame.columns:
            return [as_text(day) for day in frame["partition_date"]]
    return [as_text(day) for day in as_list(found)]


def made_up_days(rng: random.Random) -> tuple[list[tuple], list[tuple], dict[str, str]]:
    """Rows of a table, the books, and what is wrong with each day.

    Args:
        rng: source of chance: which day has which fault, and how many orders.

    Returns:
        Rows (order, day, amount, time), books (day, orders, revenue, newest), fault by day.
    """
    days = [f"2026-03-{day:02}" for day in rng.sample(range(1, 29), len(FAULTS) + 2)]
    faults = dict(zip(days, (*FAULTS, "", ""), strict=True))
    rows, books = [], []
    for day, fault in faults.items():
        midnight = datetime.fromisoformat(day)
        count, price = rng.randrange(12, 30), Decimal(rng.randrange(500, 9000)) / 100
        orders = [
            (f"o-{day}-{n}", day, price + n % 3, midnight + timedelta(minutes=n + 1))
            for n in range(count)
        ]
        if fault != "unknown":
            newest = orders[-1][3]
            books.append((day, count, sum(order[2] for order in orders), newest))
        rows += _with_fault(orders, fault)
    rng.shuffle(rows)
    return rows, books, faults


def _with_fault(orders: list[tuple], fault: str) -> list[tuple]:
    """The rows of a day as the table has them."""
    first, *rest = orders
    key, day, amount, at = first
    if fault == "hidden":  # order 3 costs what order 0 costs: order 0 is twice, order 3 missing
        return [row for row in orders if row is not orders[3]] + [first]
    if fault == "doubled":
        return [*orders, first]
    if fault == "amount":
        return [(key, day, amount + 1, at), *rest]
    if fault == "stale":
        *others, (key, day, amount, at) = orders
        return [*others, (key, day, amount, at - timedelta(seconds=90))]
    return [] if fault == "missing" else orders


@dataclass(frozen=True)
class Finding:
    """What a learner says of one ticket, and what the lab holds.

    Args:
        cause: the cause that was named.
        number: the number that was given; None if it was no whole number.
        evidence: what is measured.
    """

    cause: str
    number: int | None
    evidence: Evidence


@check_of("19.3")
class CauseAndNumber:
    """The cause of each ticket, and the number that proves it."""

    @staticmethod
    def observe(lab, answer) -> list[Finding]:
        """Measure the tickets anew, and hold the answers against that."""
        if not isinstance(answer, Mapping) or set(answer) != set(NAMES):
            raise Unreadable(f"A dictionary with {', '.join(NAMES)} is expected.")
        findings = []
        for name, evidence in evidence_of(lab).items():
            said = as_list(answer[name])
            if len(said) != 2:
                raise Unreadable(f"{name}: a cause and a number are expected.")
            cause = as_choice(said[0], CAUSES)
            try:
                number = as_int(said[1])
            except Unreadable:
                number = None
            findings.append(Finding(cause, number, evidence))
        return findings

    @staticmethod
    def judge(facts: list[Finding]) -> Passed | NotYet:
        """Each ticket in its turn: the cause, then its number."""
        for finding in facts:
            found = finding.evidence
            if finding.cause != found.cause:
                return NotYet(f"{found.name}, {finding.cause}: {found.against(finding.cause)}")
            if finding.number != found.number:
                return NotYet(
                    f"{found.name}: the cause is right. {found.asked}, and you say "
                    f"{finding.number}."
                )
        return Passed(" ".join(finding.evidence.told for finding in facts))
