"""Checks of lesson 19: unread messages, an alert, a comparison of totals, and incident tickets."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
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
from lab_env.course.checking import check, expect
from lab_env.lessons.l19 import scenarios
from lab_env.lessons.l19.scenarios import ENDS, SCENARIOS, Expectation, expectation, test_file
from lab_env.lessons.l19.tickets import CAUSES, NAMES, evidence_of
from lab_env.pipeline.checkpoint import Batch

ROWS_DDL = "order_id STRING, partition_date STRING, amount DECIMAL(12,2), order_ts TIMESTAMP"
BOOKS_DDL = "partition_date STRING, orders BIGINT, revenue DECIMAL(12,2), newest TIMESTAMP"
CENT = Decimal("0.01")
KEEPS_UP, PLANNED, NEW_PARTITION, FIRST = "keeps up", "planned", "new partition", "first"


@check("19.1")
def counts_from_outside(_lab, unread):
    """Run the function on made-up streams in four states."""
    if not callable(unread):
        raise Unreadable("A function `unread(ends, batches)` is expected.")
    for ends, batches in made_up_streams(random.Random()).values():
        found = by_partition(unread(dict(ends), list(batches)))
        right = unread_by_partition(ends, batches)
        for number in sorted(right.keys() - found.keys()):
            expect(
                False,
                "Partition {} is missing from your answer. {}",
                number,
                f"The topic has it, with {ends[number]} messages; no batch of the checkpoint names "
                "it, so nobody has read any of them."
                if right[number]
                else "Everything in it is read: say 0.",
            )
        unknown = sorted(found.keys() - right.keys())
        expect(not unknown, "You count for partition {}, which the topic lacks.", *unknown)
        newest = batches[-1]
        expect(
            found == right or found != {n: ends[n] - newest.end.get(n, 0) for n in ends},
            "You count to the end of batch {}. It was planned and never committed: its messages "
            "are in no table yet. Planned is not done.",
            newest.number,
        )
        done = [batch for batch in batches if batch.committed]
        for number in sorted(right):
            expect(
                found[number] == right[number],
                "Partition {} ends at {}, and {}: {} messages are unread, and you count {}.",
                number,
                ends[number],
                f"the newest committed batch ends at {done[-1].end.get(number, 0)}"
                if done
                else "no batch is committed",
                right[number],
                found[number],
            )
    return (
        "Right for a stream that keeps up, one that hangs in a batch, one that does not know a "
        "new partition, and one that has committed nothing yet."
    )


def by_partition(found) -> dict[int, int]:
    """Convert an answer, a dictionary, series or table, to unread messages by topic partition.

    Raises:
        Unreadable: the answer is none of these, or has a topic partition twice.
    """
    if found is None:
        raise Unreadable("Your function returned nothing; let it return {partition: messages}.")
    series = hasattr(found, "items") and not hasattr(found, "columns")
    try:
        pairs = list(found.items()) if series else as_rows(found)
        rows = [(as_int(number), as_int(messages)) for number, messages in pairs]
    except (ValueError, TypeError):
        raise Unreadable("A dictionary {partition: unread messages} is expected.") from None
    if len(rows) > len(dict(rows)):
        raise Unreadable("Your answer has a partition twice.")
    return dict(rows)


def unread_by_partition(ends: Mapping[int, int], batches: Sequence[Batch]) -> dict[int, int]:
    """Return the number of messages after the last committed batch, by topic partition."""
    done = [batch for batch in batches if batch.committed]
    read = done[-1].end if done else {}
    return {number: end - read.get(number, 0) for number, end in ends.items()}


def made_up_streams(rng: random.Random) -> dict[str, tuple[dict[int, int], list[Batch]]]:
    """Return made-up streams in four states.

    Returns:
        By state: the topic's end offsets by topic partition, and the checkpoint's batches.
    """
    found = {}
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
        if case == KEEPS_UP:
            number = rng.randrange(count)
            ends[number] = start[number]  # everything is read
        if case == NEW_PARTITION:
            ends[known] = rng.randrange(40, 90)
        found[case] = ends, batches
    return found


# What a scenario says to a rule that rings in it, or does not. False alarms come first.
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


@check("19.2")
def rings_when_it_should(lab, answer):
    """Test the rule with `promtool test rules` on all scenarios in one run, then one by one."""
    rules = yaml.safe_dump(as_rules(answer))

    def trial(*expected: Expectation):
        return lab.prometheus.test_rules(rules, yaml.safe_dump(test_file(expected, lab.namespace)))

    expected = {scenario.name: expectation(scenario) for scenario in SCENARIOS}
    if not trial(*expected.values(), ENDS).ok:
        for name, message in RINGS.items():
            if not trial(expected[name]).ok:
                other = trial(expected[name].other)
                expect(other.ok, "Prometheus cannot use this rule: {}", other.output.strip()[-300:])
                expect(False, "{}", message)
        expect(False, "The stream had caught up for 20 s, and the alert still fired.")
    return (
        "Silent in an ordinary minute, at night, at its first order, in a sale, after a hiccup and "
        "while only Spark's pages are gone. It fires when the stream hangs or is slow, and when "
        "the exporter or Kafka does not answer."
    )


def as_rules(answer) -> dict:
    """Convert an answer (a rule, its two fields, or YAML text) to the content of a rule file."""
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


FAULTS = {
    "hidden": (
        "On {day} the books have {n} orders and the table has {n} rows with the same revenue, but "
        "only {fewer} different orders: {n} = {n} is not enough. Count distinct keys."
    ),
    "doubled": (
        "On {day} a free order is there twice: orders, revenue and newest change agree with the "
        "books, and the table has {more} rows for {n} orders."
    ),
    "lost": (
        "On {day} a free order is missing: revenue and newest change agree, and the table has "
        "fewer orders than the books."
    ),
    "amount": "On {day} every order is there, and the revenue is more than that of the books.",
    "cheaper": "On {day} every order is there, and the revenue is less than that of the books.",
    "stale": (
        "On {day} orders and revenue agree; the newest change is older than that of the books."
    ),
    "ahead": (
        "On {day} orders and revenue agree; the newest change is later than that of the books."
    ),
    "missing": (
        "The books have {day}, the table has no row of it. A comparison with NULL is NULL, and "
        "neither an inner join, nor `where`, nor one direction of EXCEPT lets it through."
    ),
    "unknown": "The table has rows of {day}, which the books do not have.",
}


@check("19.3")
def agrees_with_the_books(lab, find_wrong):
    """Run the function on a made-up table and the accountants' totals; most days have one fault."""
    if not callable(find_wrong):
        raise Unreadable("A function `find_wrong(rows, books)` is expected.")
    rows, books, faults = made_up_days(random.Random())
    table = lab.spark.createDataFrame(rows, ROWS_DDL)
    reported = set(days_of(find_wrong(table, lab.spark.createDataFrame(books, BOOKS_DDL))))
    unknown = ", ".join(sorted(reported - faults.keys()))
    expect(not unknown, "You report {}, which is no day of the table.", unknown)
    expect(reported, "You report no day; on {} of {} days they differ.", len(FAULTS), len(faults))
    orders = {day: count for day, count, *_ in books}
    day_of = {fault: day for day, fault in faults.items()}
    for fault, message in FAULTS.items():
        day = day_of[fault]
        n = orders.get(day, 0)
        expect(day in reported, "{}", message.format(day=day, n=n, fewer=n - 1, more=n + 1))
    fine = sorted(day for day in reported if not faults[day])
    expect(not fine, "You report {}, which agrees with the books.", *fine)
    return f"All {len(FAULTS)} wrong days, each wrong in another way, and none of the right ones."


def days_of(found) -> list[str]:
    """Return an answer's days, given as a list, or as rows or a table with `partition_date`."""
    if found is None:
        raise Unreadable("Your function returned nothing; let it return the wrong days.")
    rows = isinstance(found, list | tuple) and found and isinstance(found[0], Mapping | tuple)
    if rows or hasattr(found, "columns"):
        frame = as_frame(found)
        if "partition_date" in frame.columns:
            return [as_text(day)[:10] for day in frame["partition_date"]]
    return [as_text(day)[:10] for day in as_list(found)]


def made_up_days(rng: random.Random) -> tuple[list[tuple], list[tuple], dict[str, str]]:
    """Return a table's rows, the accountants' totals, and each day's fault.

    Returns:
        Rows (order, day, amount, time), totals (day, orders, revenue, newest), fault by day.
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
        if fault in ("doubled", "lost"):  # a gift, of which the sum tells nothing
            orders[0] = (*orders[0][:2], Decimal("0.00"), orders[0][3])
        if fault != "unknown":
            newest = orders[-1][3]
            books.append((day, count, sum(order[2] for order in orders), newest))
        rows += _with_fault(orders, fault)
    rng.shuffle(rows)
    return rows, books, faults


def _with_fault(orders: list[tuple], fault: str) -> list[tuple]:
    """Return a day's rows with a fault."""
    first, *rest = orders
    *others, last = orders
    key, day, amount, at = first
    late = timedelta(milliseconds=1) if fault == "ahead" else timedelta(seconds=-90)
    return {
        # Order 3 costs what order 0 costs: order 0 is there twice, order 3 is missing.
        "hidden": [row for row in orders if row is not orders[3]] + [first],
        "doubled": [*orders, first],
        "lost": rest,
        "amount": [(key, day, amount + CENT, at), *rest],
        "cheaper": [(key, day, amount - CENT, at), *rest],
        "stale": [*others, (*last[:3], last[3] + late)],
        "ahead": [*others, (*last[:3], last[3] + late)],
        "missing": [],
    }.get(fault, orders)


@check("19.4")
def cause_and_number(lab, findings):
    """Measure the tickets again, and compare the learner's findings with the results."""
    if not isinstance(findings, Mapping) or not findings or not set(findings) <= set(NAMES):
        raise Unreadable(f"A dictionary with {', '.join(NAMES)} is expected, or some of them.")
    proved, still_open = [], []
    for name, evidence in evidence_of(lab).items():
        if name not in findings:
            still_open.append(name)
            continue
        said = as_list(findings[name])
        if len(said) != 2:
            raise Unreadable(f"{name}: a cause and a number are expected.")
        cause, number = as_choice(said[0], CAUSES), number_in(said[1])
        if cause != evidence.cause:
            expect(False, "{}, {}: {}", name, cause, evidence.against(cause))
        expect(
            number == evidence.number,
            "{}: the cause is right. {}, and you say {}.",
            name,
            evidence.asked,
            number,
        )
        proved.append(evidence.told)
    told = " ".join(proved)
    expect(not still_open, "{} Still open: {}.", told, ", ".join(still_open))
    return told


def number_in(said) -> int | str:
    """Return a whole number, also from a row with one field; return anything else as text."""
    if isinstance(said, tuple) and len(said) == 1:
        said = said[0]
    try:
        return as_int(said)
    except Unreadable:
        return str(said)
