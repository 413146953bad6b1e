"""Checks of lesson 19: unread messages, an alert, a validation, and causes with their proof."""

import random
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal

import yaml

from lab_env.course.answers import (
    Unreadable,
    as_choice,
    as_frame,
    as_int,
    as_list,
    as_rows,
    as_text,
)
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.lessons.l19 import scenarios
from lab_env.lessons.l19.scenarios import ENDS, SCENARIOS, Expectation, expectation, test_file
from lab_env.lessons.l19.tickets import CAUSES, NAMES, Evidence, evidence_of
from lab_env.pipeline.checkpoint import Batch

ROWS_DDL = "order_id STRING, partition_date STRING, amount DECIMAL(12,2), order_ts TIMESTAMP"
BOOKS_DDL = "partition_date STRING, orders BIGINT, revenue DECIMAL(12,2), newest TIMESTAMP"


@dataclass(frozen=True)
class Counted:
    """What a learner's function counted in one made-up case.

    Args:
        case: which state the stream is in.
        answer: unread messages by partition, as the function counted them.
        right: as they are.
        ends: offset after the newest message, by partition.
        batches: of the checkpoint.
    """

    case: str
    answer: dict[int, int]
    right: dict[int, int]
    ends: dict[int, int]
    batches: tuple[Batch, ...]


KEEPS_UP, PLANNED, NEW_PARTITION, FIRST = "keeps up", "planned", "new partition", "first"


@check_of("19.1")
class CountsFromOutside:
    """Unread messages per partition, by the topic's ends and the checkpoint's batches."""

    @staticmethod
    def observe(lab, answer) -> list[Counted]:
        """Call the function for streams in four states."""
        if not callable(answer):
            raise Unreadable("A function `unread(ends, batches)` is expected.")
        counted = []
        for case, ends, batches in made_up_streams(random.Random(secrets.randbits(64))):
            right = unread_by_partition(ends, batches)
            found = answer(dict(ends), list(batches))
            counted.append(Counted(case, by_partition(found), right, ends, tuple(batches)))
        return counted

    @staticmethod
    def judge(facts: list[Counted]) -> Passed | NotYet:
        """Each state in its turn; the message has the numbers of that stream."""
        for found in facts:
            if found.answer == found.right:
                continue
            missing = sorted(found.ends.keys() - found.answer.keys())
            if missing:
                return NotYet(
                    f"Partition {missing[0]} is missing from your answer. The topic has it, with "
                    f"{found.ends[missing[0]]} messages; no batch of the checkpoint names it, so "
                    "nobody has read any of them."
                )
            unknown = sorted(found.answer.keys() - found.ends.keys())
            if unknown:
                return NotYet(f"You count for partition {unknown[0]}, which the topic lacks.")
            newest = found.batches[-1]
            planned = {n: found.ends[n] - newest.end.get(n, 0) for n in found.ends}
            if found.answer == planned:
                return NotYet(
                    f"You count to the end of batch {newest.number}. It was planned and never "
                    "committed: its messages are in no table yet. Planned is not done."
                )
            number = next(n for n in sorted(found.ends) if found.answer[n] != found.right[n])
            return NotYet(
                f"Partition {number} ends at {found.ends[number]}, and {_reached(found, number)}: "
                f"{found.right[number]} messages are unread, and you count {found.answer[number]}."
            )
        return Passed(
            "Right for a stream that keeps up, one that hangs in a batch, one that does not know "
            "a new partition, and one that has committed nothing yet."
        )


def _reached(found: Counted, number: int) -> str:
    done = [batch for batch in found.batches if batch.committed]
    if not done:
        return "no batch is committed"
    return f"the newest committed batch ends at {done[-1].end.get(number, 0)}"


def by_partition(found) -> dict[int, int]:
    """Unread messages by partition, of a dictionary, a series or a table of two columns."""
    if hasattr(found, "items") and not hasattr(found, "columns"):
        return {as_int(number): as_int(messages) for number, messages in found.items()}
    if found is None:
        raise Unreadable("Your function returned nothing; let it return {partition: messages}.")
    try:
        return {as_int(number): as_int(messages) for number, messages in as_rows(found)}
    except (ValueError, TypeError):
        raise Unreadable("A dictionary {partition: unread messages} is expected.") from None


def unread_by_partition(ends: Mapping[int, int], batches: Sequence[Batch]) -> dict[int, int]:
    """Messages that no committed batch holds, by partition."""
    done = [batch for batch in batches if batch.committed]
    read = done[-1].end if done else {}
    return {number: end - read.get(number, 0) for number, end in ends.items()}


def made_up_streams(rng: random.Random) -> list[tuple[str, dict[int, int], list[Batch]]]:
    """Streams in four states.

    Args:
        rng: source of chance: how many partitions, batches and messages.

    Returns:
        State, the topic's ends by partition, and the checkpoint's batches.
    """
    found = []
    for case in (KEEPS_UP, PLANNED, NEW_PARTITION, FIRST):
        count = rng.randrange(3, 6)
        known = count - 1 if case == NEW_PARTITION else count
        batches, start = [], dict.fromkeys(range(known), 0)
        for number in range(1 if case == FIRST else rng.randrange(3, 7)):
            end = {n: offset + rng.randrange(10, 90) for n, offset in start.items()}
            batches.append(Batch(number, start, end, committed=True))
            start = end
        if case in (PLANNED, FIRST):
            batches[-1] = replace(batches[-1], committed=False)
        ends = {n: offset + rng.randrange(5, 40) for n, offset in start.items()}
        if case == NEW_PARTITION:
            ends[known] = rng.randrange(40, 90)
        found.append((case, ends, batches))
    return found


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
    scenarios.MORNING.name: (
        "Fired at the first order after a quiet hour: it had waited for 4 s, and the last commit "
        "was an hour old, because there was nothing to commit. Late is a message, not a commit."
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


@check_of("19.2")
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
            "Silent in an ordinary minute, at night, at its first order, in a sale, after a hiccup "
            "and while only Spark's pages are gone. It fires when the stream hangs or is slow, and "
            "when the exporter or Kafka does not answer."
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
        orders: how many the books have, by day.
    """

    faults: dict[str, str]
    reported: frozenset[str]
    orders: dict[str, int] = field(default_factory=dict)


FAULTS = {
    "hidden": (
        "On {day} the books have {n} orders and the table has {n} rows with the same revenue, but "
        "only {fewer} different orders: {n} = {n} is not enough. Count distinct keys."
    ),
    "doubled": (
        "On {day} a free order is there twice: orders, revenue and newest change agree with the "
        "books, and the table has {more} rows for {n} orders."
    ),
    "amount": "On {day} every order is there, and the revenue is not that of the books.",
    "stale": (
        "On {day} orders and revenue agree; the newest change is older than that of the books."
    ),
    "missing": (
        "The books have {day}, the table has no row of it. A comparison with NULL is NULL, and "
        "neither an inner join, nor `where`, nor one direction of EXCEPT lets it through."
    ),
    "unknown": "The table has rows of {day}, which the books do not have.",
}


@check_of("19.3")
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
        orders = {day: count for day, count, _, _ in books}
        return Validated(faults, frozenset(days_of(found)), orders)

    @staticmethod
    def judge(facts: Validated) -> Passed | NotYet:
        """All wrong days, and none that is right."""
        unknown = facts.reported - set(facts.faults)
        if unknown:
            return NotYet(f"You report {', '.join(sorted(unknown))}, which is no day of the table.")
        if not facts.reported:
            wrong = sum(map(bool, facts.faults.values()))
            return NotYet(f"You report no day; on {wrong} of {len(facts.faults)} days they differ.")
        for fault, message in FAULTS.items():
            for day, found in facts.faults.items():
                if found == fault and day not in facts.reported:
                    n = facts.orders.get(day, 0)
                    return NotYet(message.format(day=day, n=n, fewer=n - 1, more=n + 1))
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
        if fault == "doubled":  # a gift: the sum does not tell that it is there twice
            orders[0] = (*orders[0][:2], Decimal("0.00"), orders[0][3])
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
        cause: the cause that was named; empty if the ticket was left out.
        number: the number that was given; as text if it was no whole number.
        evidence: what is measured.
    """

    cause: str
    number: int | str
    evidence: Evidence


@check_of("19.4")
class CauseAndNumber:
    """The cause of each ticket, and the number that proves it."""

    @staticmethod
    def observe(lab, answer) -> list[Finding]:
        """Measure the tickets anew, and hold the answers against that."""
        if not isinstance(answer, Mapping) or not answer or not set(answer) <= set(NAMES):
            raise Unreadable(f"A dictionary with {', '.join(NAMES)} is expected, or some of them.")
        findings = []
        for name, evidence in evidence_of(lab).items():
            if name not in answer:
                findings.append(Finding("", "", evidence))
                continue
            said = as_list(answer[name])
            if len(said) != 2:
                raise Unreadable(f"{name}: a cause and a number are expected.")
            findings.append(Finding(as_choice(said[0], CAUSES), number_in(said[1]), evidence))
        return findings

    @staticmethod
    def judge(facts: list[Finding]) -> Passed | NotYet:
        """Each ticket in its turn: the cause, then its number."""
        for finding in facts:
            found = finding.evidence
            if not finding.cause:
                continue
            if finding.cause != found.cause:
                return NotYet(f"{found.name}, {finding.cause}: {found.against(finding.cause)}")
            if finding.number != found.number:
                return NotYet(
                    f"{found.name}: the cause is right. {found.asked}, and you say "
                    f"{finding.number}."
                )
        proved = " ".join(finding.evidence.told for finding in facts if finding.cause)
        still_open = [finding.evidence.name for finding in facts if not finding.cause]
        if still_open:
            return NotYet(f"{proved} Still open: {', '.join(still_open)}.")
        return Passed(proved)


def number_in(said) -> int | str:
    """A whole number, also in a row of one field; else its text, for the message."""
    if isinstance(said, tuple) and len(said) == 1:
        said = said[0]
    try:
        return as_int(said)
    except Unreadable:
        return str(said)
