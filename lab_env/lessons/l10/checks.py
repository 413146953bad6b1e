"""Checks of lesson 10: since when an amount was readable, what a replay brings into a table."""

import secrets
from dataclasses import dataclass, replace
from functools import cache

from pyspark.sql import functions as F

from lab_env.course.answers import Unreadable, as_text
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.hudi.timeline import Instant
from lab_env.lessons.table_copies import scratch_copy
from lab_env.xray.captions import clock

ASKED = ("O-12", "26.50")
WITH_THE_BAD = ("O-21", "O-22")  # good orders that came in the bad batch
EVENT = "order_id STRING, status STRING, amount DECIMAL(12,2), order_ts TIMESTAMP"


@dataclass(frozen=True)
class Since:
    """The times that could be taken for the one since when an order has an amount; all as digits.

    Args:
        order: for example `O-12`.
        amount: for example `26.50`.
        requested: requested time of the first write with this amount.
        completed: completion time of the same write.
        changed: the event's own time, to the second.
        others: requested and completion times of the other writes.
        row_says: `_hoodie_commit_time` of the last row with this amount.
        answer: what the learner's function returned.
    """

    order: str
    amount: str
    requested: str
    completed: str
    changed: str
    others: tuple[str, ...]
    row_says: str = ""
    answer: str = ""


@check_of("10.1")
class SinceWhen:
    """Since when readers could see an amount of an order."""

    @staticmethod
    def observe(lab, answer) -> Since:
        """Ask the function for O-12, and if it is right, for an order of another write."""
        if not callable(answer):
            raise Unreadable("A function is expected: the check asks it for another order, too.")
        writes = tuple(i for i in lab.xray(lab.path("orders")).instants if i.writes and i.completed)
        amounts = _amounts(lab, writes)
        asked = amounts[ASKED]
        another = [found for found in amounts.values() if found.requested != asked.requested]
        for facts in (asked, secrets.choice(another)):
            facts = replace(facts, answer=_digits(answer(facts.order, facts.amount)))
            if facts.answer != facts.completed:
                break
        return facts

    @staticmethod
    def judge(facts: Since) -> Passed | NotYet:
        """The completion time of the first write with the amount."""
        given, value = clock(facts.answer), f"{facts.order} with {facts.amount}"
        if facts.answer == facts.completed:
            return Passed(
                "Right for every order. Take the last one: time travel shows "
                f"{value} as of {clock(facts.requested)}, when the write was requested. "
                f"Readers saw it from {given} on, when the write was complete."
            )
        if facts.answer == facts.requested:
            return NotYet(
                f"Right write, wrong time. {given} is when the write of {value} was requested. "
                "Requested is not yet readable: until its completion no reader got it."
            )
        if facts.answer == facts.row_says:
            return NotYet(
                f"{given} is the row's _hoodie_commit_time, and that says when the row was last "
                f"written, whatever changed in it. {facts.order} had {facts.amount} before."
            )
        if facts.answer.startswith(facts.changed):
            return NotYet(
                f"{given} is when {facts.order} changed in the shop, the event's own order_ts. "
                "The table got the event later, and your customer's page reads the table."
            )
        if facts.answer in facts.others:
            return NotYet(
                f"{given} belongs to another write. Read {facts.order} as of each write: which is "
                f"the first that says {facts.amount}?"
            )
        return NotYet(
            f"{facts.answer or 'Your answer'} is no time of a write of this table. Take it from "
            "the instants of its X-ray, as 17 digits."
        )


@cache  # the same for every answer until somebody writes
def _amounts(lab, writes: tuple[Instant, ...]) -> dict[tuple[str, str], Since]:
    """The times of every order and amount, read as of each write in their order."""
    found: dict[tuple[str, str], Since] = {}
    for write in writes:
        times = write.requested, write.completed
        others = tuple(t for i in writes if i != write for t in (i.requested, i.completed))
        reader = lab.spark.read.format("hudi").option("as.of.instant", write.requested)
        for row in reader.load(lab.path("orders")).collect():
            value = row["order_id"], str(row["amount"])
            first = found.get(value) or Since(*value, *times, _digits(row["order_ts"]), others)
            found[value] = replace(first, row_says=row["_hoodie_commit_time"])
    return found


def _digits(moment: object) -> str:
    """The digits of a time, down to the millisecond."""
    return "".join(filter(str.isdigit, as_text(moment)))[:17]


@dataclass(frozen=True)
class Replayed:
    """A restored table after the learner's replay, compared with the topic's good events.

    Args:
        missing: orders without a row.
        stale: number of orders that show an older version.
        zero: number of rows with an amount of 0.
        commits: number of writes that the replay made into the table.
        checkpoints: number of checkpoints that it began.
        elsewhere: whether it wrote into the lesson's own table instead.
    """

    missing: tuple[str, ...] = ()
    stale: int = 0
    zero: int = 0
    commits: int = 1
    checkpoints: int = 1
    elsewhere: bool = False


@check_of("10.2")
class UndoneWithoutLoss:
    """A replay that brings every good event after the savepoint, and no bad one."""

    @staticmethod
    def observe(lab, answer) -> Replayed:
        """Copy the lesson's table, call the function on the copy, and compare."""
        path = scratch_copy(lab, lab.path("orders"), "restored")
        writes, checkpoints = _writes(lab, path), _checkpoints(lab)
        answer(path)
        missing, stale, zero = _compare(lab, path)
        return Replayed(
            missing=missing,
            stale=stale,
            zero=zero,
            commits=_writes(lab, path) - writes,
            checkpoints=_checkpoints(lab) - checkpoints,
            elsewhere=_writes(lab, lab.path("orders")) != writes,
        )

    @staticmethod
    def judge(facts: Replayed) -> Passed | NotYet:
        """Nothing missing, stale, or zero."""
        if not (facts.missing or facts.stale or facts.zero):
            return Passed(
                "0 missing, 0 stale, 0 zero. The table says what it would say if the bad events "
                "had never been sent. The shop's stream continues with the new checkpoint."
            )
        lost = f"{len(facts.missing)} good orders are missing and {facts.stale} stale"
        if facts.elsewhere:
            return NotYet(
                "Your function wrote into the lesson's own table. Write to the path that it gets."
            )
        if not facts.commits and not facts.checkpoints:
            return NotYet(
                f"Nothing was written: {lost}. Your stream continued from a checkpoint that has "
                "read everything. The restore moves the table, not the stream's checkpoint."
            )
        if not facts.commits:
            return NotYet(
                f"A new checkpoint, but no commit, and no error: {lost}. A new checkpoint counts "
                "its batches from 0, and the table has seen higher numbers under the same "
                "identifier. So it took your batch 0 for one that it has already."
            )
        if facts.zero:
            return NotYet(
                f"{facts.zero} orders have an amount of 0 again: the bad events are still in the "
                "topic, and your stream let them through."
            )
        if set(facts.missing) == set(WITH_THE_BAD):
            return NotYet(
                f"{' and '.join(WITH_THE_BAD)} are missing. They are good orders that stood in the "
                "bad batch. Leave out bad events, not the batch in which they came."
            )
        return NotYet(f"After the replay {lost}. Where did the savepoint's batch end in the topic?")


def _writes(lab, path: str) -> int:
    """The number of writes on a table's timeline."""
    return sum(instant.writes for instant in lab.xray(path).instants)


def _checkpoints(lab) -> int:
    """The number of streams of this lesson that have a checkpoint."""
    return sum(found.key.endswith("/sources/0/0") for found in lab.files(lab.base))


def _compare(lab, path: str) -> tuple[tuple[str, ...], int, int]:
    """Compare a table with the topic's good events: missing orders, number of stale and zero."""
    records = (
        lab.spark.read.format("kafka")
        .option("kafka.bootstrap.servers", lab.endpoints.kafka_bootstrap)
        .option("subscribe", lab.topic("orders"))
        .load()
    )
    events = records.select(F.from_json(F.col("value").cast("string"), EVENT).alias("e"))
    good = (
        events.where("e.amount > 0").groupBy("e.order_id").agg(F.max("e.order_ts").alias("newest"))
    )
    table = lab.spark.read.format("hudi").load(path).select("order_id", "amount", "order_ts")
    rows = good.join(table, "order_id", "left").collect()
    missing = sorted(row["order_id"] for row in rows if row["order_ts"] is None)
    present = [row for row in rows if row["order_ts"] is not None]
    return (
        tuple(missing),
        sum(row["order_ts"] < row["newest"] for row in present),
        sum(not row["amount"] for row in present),
    )
