"""Checks of lesson 10: since when an amount could be read, and what a replay brings into a restored table."""

from dataclasses import dataclass, replace
from functools import cache

from pyspark.sql import functions as F

from lab_env import store
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.hudi.timeline import Instant
from lab_env.xray.captions import clock

ORDER, BEFORE, AFTER = "O-12", "22.00", "26.50"
WITH_THE_BAD = ("O-21", "O-22")  # good orders that came in the bad batch
EVENT = "order_id STRING, status STRING, amount DECIMAL(12,2), order_ts TIMESTAMP"


@dataclass(frozen=True)
class Since:
    """The learner's time, and the times that matter; all as digits.

    Args:
        answer: the digits of what the learner gave.
        requested: of the write that changed the amount.
        completed: of the same write.
        row_says: the row's `_hoodie_commit_time`.
        changed: the event's own time, to the second.
        others: requested and completed times of the other writes.
    """

    answer: str
    requested: str
    completed: str
    row_says: str
    changed: str
    others: tuple[str, ...] = ()


@check_of("10.1")
class SinceWhen:
    """Since when readers could see the new amount of an order."""

    @staticmethod
    def observe(lab, answer) -> Since:
        """Set the answer beside the times of the write that changed the amount."""
        writes = [i for i in lab.xray(lab.path("orders")).instants if i.writes and i.completed]
        return replace(_change_of_the_amount(lab, tuple(writes)), answer=_digits(answer))

    @staticmethod
    def judge(facts: Since) -> Passed | NotYet:
        """The completion time of the first write with the new amount."""
        if facts.answer == facts.completed:
            return Passed(
                f"Before it, readers saw {BEFORE}. The write was requested at "
                f"{clock(facts.requested)}, and time travel shows {AFTER} from then on."
            )
        if facts.answer == facts.requested:
            return NotYet(
                f"Right write, wrong time. {clock(facts.requested)} is when it was asked for. Requested "
                f"is not yet readable: between then and its completion every reader got {BEFORE}."
            )
        if facts.answer == facts.row_says:
            return NotYet(
                f"{clock(facts.answer)} is the row's _hoodie_commit_time, and that says when the row "
                f"was last written, whatever changed in it. {ORDER} was packed then; its amount was "
                f"{AFTER} before."
            )
        if facts.answer.startswith(facts.changed):
            return NotYet(
                f"{clock(facts.answer)} is when the order changed in the shop, the event's own order_ts. "
                "The table heard of it later, and your customer's page reads the table."
            )
        if facts.answer in facts.others:
            return NotYet(
                f"{clock(facts.answer)} belongs to another write. Ask for {ORDER} as of each write: "
                f"which is the first that says {AFTER}?"
            )
        return NotYet(
            f"{facts.answer or 'That'} is no time of a write of this table. Take it from the instants "
            "of its X-ray, as 17 digits."
        )


@cache  # the same for every answer, as long as nobody writes
def _change_of_the_amount(lab, writes: tuple[Instant, ...]) -> Since:
    """Ask the table as of its writes, in their order, until the amount is the new one."""
    path = lab.path("orders")
    for write in writes:
        then = lab.spark.read.format("hudi").option("as.of.instant", write.requested)
        row = then.load(path).where(f"order_id = '{ORDER}'").first()
        if row and str(row["amount"]) == AFTER:
            break
    newest = lab.spark.read.format("hudi").load(path).where(f"order_id = '{ORDER}'").first()
    return Since(
        answer="",
        requested=write.requested,
        completed=write.completed,
        row_says=newest["_hoodie_commit_time"],
        changed=_digits(row["order_ts"]),
        others=tuple(t for i in writes if i != write for t in (i.requested, i.completed) if t),
    )


def _digits(moment: object) -> str:
    return "".join(filter(str.isdigit, str(moment)))


@dataclass(frozen=True)
class Replayed:
    """A restored table after the learner's replay, held against the topic's good events.

    Args:
        missing: orders without a row.
        stale: orders that show an older version.
        zero: rows with an amount of 0.
        commits: writes that the replay made into the table.
        checkpoints: new checkpoints that it began.
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
        """Copy the lesson's table, let the function work on the copy, and compare."""
        own, path = lab.path("orders"), lab.scratch("restored")
        source, target = store.key_of(own), store.key_of(path)
        store.copy_prefix(lab.endpoints, f"{source}/", f"{target}/")
        writes, checkpoints = _writes(lab, path), _checkpoints(lab)
        answer(path)
        missing, stale, zero = _compare(lab, path)
        return Replayed(
            missing=missing,
            stale=stale,
            zero=zero,
            commits=_writes(lab, path) - writes,
            checkpoints=_checkpoints(lab) - checkpoints,
            elsewhere=_writes(lab, own) != writes,
        )

    @staticmethod
    def judge(facts: Replayed) -> Passed | NotYet:
        """Nothing missing, stale, or zero."""
        if not (facts.missing or facts.stale or facts.zero):
            return Passed(
                "0 missing, 0 stale, 0 zero. The table says what it would say had the bad events never "
                "been sent. From here on, the shop's stream goes on with the new checkpoint."
            )
        lost = f"{len(facts.missing)} good orders are missing and {facts.stale} stale"
        if facts.elsewhere:
            return NotYet(
                "Your function wrote into the lesson's own table. Write to the path that it is given."
            )
        if not facts.commits and not facts.checkpoints:
            return NotYet(
                f"Nothing was written: {lost}. Your stream went on from a checkpoint that has read all "
                "there is. The restore moves the table, not the stream's checkpoint."
            )
        if not facts.commits:
            return NotYet(
                f"A new checkpoint, but no commit, and no error: {lost}. A new checkpoint counts from 0, "
                "and the table has seen higher numbers under the same identifier. So it took your batch "
                "0 for one that it has already."
            )
        if facts.zero:
            return NotYet(
                f"{facts.zero} orders have an amount of 0 again: the bad events are still in the topic, "
                "and your stream let them through."
            )
        if set(facts.missing) == set(WITH_THE_BAD):
            return NotYet(
                f"{' and '.join(WITH_THE_BAD)} are missing. They are good orders that stood in the bad "
                "batch. Leave out bad events, not the batch in which they came."
            )
        return NotYet(f"After the replay {lost}. Where did the savepoint's batch end in the topic?")


def _writes(lab, path: str) -> int:
    """How many writes a table's timeline has."""
    return sum(instant.writes for instant in lab.xray(path).instants)


def _checkpoints(lab) -> int:
    """How many streams of this lesson have a checkpoint."""
    return sum(found.key.endswith("/sources/0/0") for found in lab.files(lab.base))


def _compare(lab, path: str) -> tuple[tuple[str, ...], int, int]:
    """The missing orders of a table, and how many are stale or zero, by the topic's good events."""
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
    there = [row for row in rows if row["order_ts"] is not None]
    return (
        tuple(missing),
        sum(row["order_ts"] < row["newest"] for row in there),
        sum(not row["amount"] for row in there),
    )
