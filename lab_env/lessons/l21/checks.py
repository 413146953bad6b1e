"""Checks of lesson 21: who parsed, what ran twice, how many cores, and what they cost."""

import math
import secrets
from collections import Counter
from dataclasses import dataclass

import pandas as pd

from lab_env.course.answers import Unreadable, as_int, as_number, plain
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.lessons.hudi_rs import rows_of
from lab_env.lessons.l21.tasks import table_of
from lab_env.lessons.streams import own_streams_stopped, started
from lab_env.shop.topics import topic_end_offsets

CORES = 2  # of the lab's cluster
MOST_OF_ONE_TASK = 0.75  # share of the rows: with more, one core does most of the work
QUERY_SECONDS = 120
TOPIC = "orders"  # the lesson's topic of one partition
NEAR = 1e-6  # a number of cores this close to a whole one may be rounded either way


# ---------------------------------------------------------------------------- 21.1 Both cores


@dataclass(frozen=True)
class BothCores:
    """What the learner's stream left in a table of its own.

    Args:
        rows: of the table.
        parsed: rows by the task that parsed them.
        batches: that it took, asked for two.
        missing: orders that the ledger has and the table has not.
        stale: orders of an older version.
        other: orders that are doubled, not erased or changed.
        partitions: of the topic.
        shuffle_partitions: the session's setting.
        running: whether the query did not end by itself.
        elsewhere: whether nothing was written to the path that the function got.
    """

    rows: int
    parsed: dict[int, int]
    batches: int = 2
    missing: int = 0
    stale: int = 0
    other: int = 0
    partitions: int = 1
    shuffle_partitions: int = 2
    running: bool = False
    elsewhere: bool = False

    @property
    def most(self) -> float:
        """Share of the rows that one task parsed, 0 to 1."""
        return max(self.parsed.values(), default=0) / max(1, sum(self.parsed.values()))


@check_of("21.1")
class EveryCoreParses:
    """Whether several tasks parsed, and every order is there in its newest version."""

    @staticmethod
    def observe(lab, answer) -> BothCores:
        """Let the function write a table of its own, and hold that against the ledger."""
        if not callable(answer):
            raise Unreadable("A function of a topic, a table and a checkpoint is expected.")
        spark, topic = lab.spark, lab.topic(TOPIC)
        table, checkpoint = lab.scratch("orders"), lab.scratch("checkpoint")
        shuffle = spark.conf.get("spark.sql.shuffle.partitions")
        half = sum(topic_end_offsets(lab.endpoints.kafka_bootstrap, topic).values()) // 2 + 1
        try:
            with own_streams_stopped(spark, QUERY_SECONDS) as stopped:
                query = started(answer(topic, table, checkpoint, maxOffsetsPerTrigger=half))
                waited = not query.isActive
                query.awaitTermination()
        finally:
            set_to = spark.conf.get("spark.sql.shuffle.partitions")
            spark.conf.set("spark.sql.shuffle.partitions", shuffle)
        if stopped.late:
            return BothCores(0, {}, running=True)
        if waited:
            raise Unreadable("Your query had ended when your function returned: do not wait in it.")
        if not lab.files(f"{table}/.hoodie"):
            return BothCores(0, {}, elsewhere=True)
        found = read_table(table)
        if "parsed_by" not in found:
            raise Unreadable("The table has no column parsed_by. Let `parse` parse the messages.")
        compared = lab.ledger(topic).reconcile_table(found)
        return BothCores(
            rows=len(found),
            batches=sum(report["numInputRows"] > 0 for report in query.recentProgress),
            parsed={int(task): rows for task, rows in Counter(found["parsed_by"]).items()},
            missing=compared.missing,
            stale=compared.stale,
            other=compared.duplicate + compared.ghost + compared.altered,
            shuffle_partitions=int(set_to),
        )

    @staticmethod
    def judge(facts: BothCores) -> Passed | NotYet:
        """Every order right, and no task with most of the rows."""
        if facts.running:
            return NotYet(
                f"Your query was still running after {QUERY_SECONDS} seconds. With the trigger "
                "`availableNow=True` it ends when it has read what is there."
            )
        if facts.elsewhere:
            return NotYet("Nothing was written to the table whose path your function got.")
        both = facts.most <= MOST_OF_ONE_TASK
        if facts.missing:
            return NotYet(
                f"{facts.missing:,} orders are missing. Does your stream read from `earliest`?"
            )
        if facts.stale:
            begin = "Both cores work, and" if both else "One task parsed, and"
            return NotYet(
                f"{begin} {facts.stale:,} orders are stale. Tasks end in any order, so the order "
                "of arrival decides nothing: let the field `order_ts` decide (`ORDERS`)."
            )
        if facts.other:
            return NotYet(f"{facts.other:,} orders are doubled, altered or not erased.")
        if both and facts.batches < 2:
            return NotYet(
                "`maxOffsetsPerTrigger` had no effect: hand `**options` to the source. The rest of "
                "the lesson does."
            )
        if both:
            return Passed(
                f"{len(facts.parsed)} tasks parsed, the largest of them {facts.most:.0%} of the "
                "rows, and every order is there in its newest version."
            )
        said = f"One task parsed {facts.most:.0%} of the rows"
        if facts.shuffle_partitions != CORES:
            return NotYet(
                f"{said}: the source still had one task at a time, because the topic has "
                f"{facts.partitions} partition. `spark.sql.shuffle.partitions` is about what comes "
                "after a shuffle."
            )
        return NotYet(
            f"{said}. A topic of {facts.partitions} partition gives one task unless the source or "
            "a shuffle *before* the parsing divides its rows."
        )


def read_table(path: str) -> pd.DataFrame:
    """A table's newest rows, by hudi-rs."""
    return rows_of(path).to_pandas()


# ---------------------------------------------------------------------------- 21.2 Done twice


@dataclass(frozen=True)
class DoneTwice:
    """What the learner's function counts in one list of tasks, and what is in it.

    Args:
        said: the number that it returned.
        twice: tasks with more than one try.
        tries: rows of the list.
        tasks: different tasks.
        further_attempts: tries with an attempt above 0.
        failed: tries that failed.
        further_stages: tries in a second try of their stage.
        real: whether it is the list of the lesson's own run.
    """

    said: int
    twice: int
    tries: int
    tasks: int
    further_attempts: int
    failed: int
    further_stages: int
    real: bool = False


@check_of("21.2")
class WhatRanTwice:
    """How many tasks ran more than once, in lists of several kinds."""

    @staticmethod
    def observe(lab, answer) -> DoneTwice:
        """Ask the function about made-up lists; the first wrong answer is kept."""
        if not callable(answer):
            raise Unreadable("A function of a list of tasks is expected.")
        for tasks in made_up_lists():
            returned = answer(tasks.copy())
            if returned is None:
                raise Unreadable("Your function returns nothing.")
            facts = count_tries(tasks, as_int(returned))
            if facts.said != facts.twice:
                break
        return facts

    @staticmethod
    def judge(facts: DoneTwice) -> Passed | NotYet:
        """The number of tasks with more than one try; else what was counted instead."""
        here = f"In a list of {facts.tries} tries of {facts.tasks} tasks you count {facts.said}"
        if facts.said == facts.twice:
            return Passed("Right for every list: failed tasks, lost results and whole stages.")
        if facts.said == facts.tries:
            return NotYet(f"{here}: that is every try. {facts.tasks - facts.twice} ran once.")
        if facts.said == facts.tasks:
            once = facts.tasks - facts.twice
            return NotYet(f"{here}: that is every task. {once} of {facts.tasks} ran once.")
        if facts.said == facts.further_attempts:
            return NotYet(
                f"{here}; {facts.twice} ran more than once. `attempt` counts within one try of a "
                "stage: when Spark runs a stage again, its tasks begin at attempt 0."
            )
        if facts.said == facts.failed:
            return NotYet(
                f"{here}; {facts.twice} ran more than once. A task may have succeeded before its "
                "executor died: what it had kept for the next stage is gone, and it runs again."
            )
        if facts.said == facts.further_stages:
            return NotYet(
                f"{here}; {facts.twice} ran more than once. A stage runs again only where results "
                "are lost; a task that failed is tried again within its stage."
            )
        return NotYet(
            f"{here}; {facts.twice} ran more than once. A task is a stage and a number in it; "
            "each row is one try of it."
        )


def count_tries(tasks: pd.DataFrame, said: int) -> DoneTwice:
    """A list of tasks, counted in every way that a learner may take for the right one.

    Args:
        tasks: as of `SparkPages.tasks`.
        said: what the learner's function counts in it.
    """
    tries = tasks.groupby(["stage", "task"]).size()
    return DoneTwice(
        said=said,
        twice=int((tries > 1).sum()),
        tries=len(tasks),
        tasks=len(tries),
        further_attempts=int((tasks["attempt"] > 0).sum()),
        failed=int((tasks["status"] == "FAILED").sum()),
        further_stages=int((tasks["stage_try"] > 0).sum()),
    )


def made_up_lists() -> list[pd.DataFrame]:
    """Lists of tasks as a dead executor leaves them: in each, every wrong way to count differs."""
    return [_made_up_list() for _ in range(3)]


def _made_up_list() -> pd.DataFrame:
    lost = 2 + secrets.randbelow(3)  # succeeded, and their results went with the executor
    failed = lost + 1 + secrets.randbelow(2)  # were at work on it
    stages = secrets.randbelow(30)
    rows = [_try(stages, task, executor=str(1 + task % 2)) for task in range(6 + lost)]
    rows += [_try(stages, task, stage_try=1) for task in range(lost)]
    for task in range(failed + 3):
        dies = task < failed
        rows.append(_try(stages + 1, task, status="FAILED" if dies else "SUCCESS"))
        if dies:
            rows.append(_try(stages + 1, task, attempt=1))
    rows.append(_try(stages + 1, 0, attempt=2))  # one of them needs a third try
    rows.append(_try(stages + 1, failed, attempt=1))  # it succeeded, and its result was lost
    return table_of(rows)


def _try(stage, task, stage_try=0, attempt=0, status="SUCCESS", executor="1") -> dict:
    start = 10.0 * stage + 3.0 * stage_try + attempt + secrets.randbelow(100) / 100
    return {
        "stage": stage,
        "stage_try": stage_try,
        "doing": "made up",
        "task": task,
        "attempt": attempt,
        "status": status,
        "executor": executor,
        "start": start,
        "end": start + 0.5,
        "cpu": 0.4,
        "rows_read": 100,
        "rows_fetched": 0,
        "bytes_cached": 0,
        "error": "" if status == "SUCCESS" else "ExecutorLostFailure",
    }


# ---------------------------------------------------------------------------- 21.3 Cores


@dataclass(frozen=True)
class Load:
    """A load, and what the learner's function says of it.

    Args:
        rate: rows per second.
        a: seconds per batch.
        b: core-seconds per row.
        freshness: the oldest that an event may be when readers see it, seconds.
        partitions: of the topic.
        said: number of cores; None for "no number is enough".
    """

    rate: float
    a: float
    b: float
    freshness: float
    partitions: int
    said: int | None = None

    @property
    def interval(self) -> float:
        """Seconds from one batch to the next: an event waits for one and is written in the next."""
        return self.freshness / 2

    @property
    def exact(self) -> float:
        """Cores that it takes, not yet rounded; infinite if the fixed part fills the interval."""
        left = self.interval - self.a
        return self.b * self.rate * self.interval / left if left > 0 else math.inf

    @property
    def right(self) -> int | None:
        """The smallest number of cores that is enough; None if there is none."""
        if math.isinf(self.exact):
            return None
        cores = max(1, math.ceil(self.exact - NEAR))
        return cores if cores <= self.partitions else None

    @property
    def is_right(self) -> bool:
        """Whether the answer is right."""
        return self.said == self.right

    def behind(self, cores: int) -> float:
        """By how many rows per second the lag grows on so many cores; 0 if they keep up."""
        done = max(0.0, self.interval - self.a) * cores / self.b / self.interval
        return max(0.0, self.rate - done)


SHOWN_FIRST = (
    (2_000, 1.0, 0.001, 10, 12),  # 2.5 -> 3; without the fixed part 2
    (4_000, 1.0, 0.002, 8, 12),  # 10.7 -> 11
    (5_000, 2.2, 0.001, 4, 64),  # nothing helps
    (8_000, 1.0, 0.002, 6, 6),  # 24 -> more than partitions
    (50, 0.5, 0.0005, 60, 4),  # one core does it
)


@check_of("21.3")
class CoresForALoad:
    """The smallest number of cores that keeps up, or that there is none."""

    @staticmethod
    def observe(lab, answer) -> Load:
        """Ask the function about known and random loads; the first wrong answer is kept."""
        if not callable(answer):
            raise Unreadable("A function of five numbers is expected.")
        for case in [*SHOWN_FIRST, *(_random_load() for _ in range(40))]:
            facts = Load(*case, said=_cores(answer(*case)))
            if not facts.is_right:
                break
        return facts

    @staticmethod
    def judge(facts: Load) -> Passed | NotYet:
        """As few cores as keep up; else what happens with the number given."""
        asked = (
            f"{facts.rate:,.0f} rows/s, a = {facts.a:g} s, b = {facts.b * 1000:g} ms, events at "
            f"most {facts.freshness:g} s old, {facts.partitions} partitions"
        )
        if facts.is_right:
            return Passed("Right for every load, also where no number of cores is enough.")
        if facts.exact == math.inf:
            return NotYet(
                f"{asked}: you say {facts.said}. A batch may last {facts.interval:g} s, and "
                f"{facts.a:g} s of that pass on any number of cores: nothing is left for the rows. "
                "No number is enough (None)."
            )
        needed = max(1, math.ceil(facts.exact - NEAR))
        if facts.right is None:
            return NotYet(
                f"{asked}: you say {facts.said}. It takes {needed} cores, and "
                f"{facts.partitions} partitions give work to {facts.partitions}: "
                f"{needed} cores for {facts.partitions} partitions. No number is enough (None)."
            )
        if facts.said is None:
            return NotYet(f"{asked}: you say that no number is enough. {needed} cores keep up.")
        if facts.said < 1:
            return NotYet(f"{asked}: you say {facts.said}. Without a core nothing is read.")
        if facts.said < needed:
            return NotYet(
                f"{asked}: you say {facts.said}. In {facts.a:g} of each {facts.interval:g} s "
                f"nobody parses; the lag grows by {facts.behind(facts.said):,.0f} rows/s."
            )
        return NotYet(f"{asked}: you say {facts.said}. {needed} cores keep up, too.")


def _cores(answer) -> int | None:
    """A number of cores; None and infinity say that there is none."""
    value = plain(answer)
    if value is None or (isinstance(value, float) and math.isinf(value)):
        return None
    return as_int(value)


def _random_load() -> tuple[float, float, float, float, int]:
    while True:
        case = Load(
            rate=100 * (1 + secrets.randbelow(100)),
            a=(1 + secrets.randbelow(40)) / 10,
            b=(1 + secrets.randbelow(30)) / 10_000,
            freshness=2 + secrets.randbelow(30),
            partitions=4 + secrets.randbelow(60),
        )
        clear = math.isinf(case.exact) or abs(case.exact - round(case.exact)) > 0.01
        if clear and abs(case.interval - case.a) > 0.01:
            return case.rate, case.a, case.b, case.freshness, case.partitions


# ---------------------------------------------------------------------------- 21.4 The bill


@dataclass(frozen=True)
class Billed:
    """An application, and what the learner's function says that it costs.

    Args:
        parallelism: tasks at once.
        per_kpu: tasks per KPU.
        hours: how long it runs.
        price: US dollars per KPU-hour.
        said: US dollars.
    """

    parallelism: int
    per_kpu: int
    hours: float
    price: float
    said: float = 0.0

    @property
    def kpus(self) -> int:
        """KPUs that run tasks."""
        return -(-self.parallelism // self.per_kpu)

    @property
    def right(self) -> float:
        """US dollars, with the one KPU of the application itself."""
        return (self.kpus + 1) * self.hours * self.price

    @property
    def is_right(self) -> bool:
        """Right to half a cent, or to the digits of a float where the sum is large."""
        return math.isclose(self.said, self.right, rel_tol=1e-6, abs_tol=0.0051)


@check_of("21.4")
class TheBill:
    """What an application of a managed service costs, by its parallelism."""

    @staticmethod
    def observe(lab, answer) -> Billed:
        """Ask the function about known and random applications; the first wrong one is kept."""
        if not callable(answer):
            raise Unreadable("A function of four numbers is expected.")
        drawn = (
            (
                1 + secrets.randbelow(30),
                1 + secrets.randbelow(7),
                10.0 * (1 + secrets.randbelow(90)),
            )
            for _ in range(12)
        )
        for parallelism, per_kpu, hours in [(4, 2, 730.0), (5, 2, 730.0), (8, 1, 24.0), *drawn]:
            price = 0.11
            said = float(as_number(answer(parallelism, per_kpu, hours, price)))
            facts = Billed(parallelism, per_kpu, hours, price, said)
            if not facts.is_right:
                break
        return facts

    @staticmethod
    def judge(facts: Billed) -> Passed | NotYet:
        """Whole KPUs and one more, times hours and price; else how many were charged instead."""
        asked = (
            f"Parallelism {facts.parallelism}, {facts.per_kpu} per KPU, {facts.hours:g} h at "
            f"${facts.price:g}: you say ${facts.said:,.2f}"
        )
        if facts.is_right:
            return Passed("Right for every application, the one KPU of its own included.")
        charged = facts.said / (facts.hours * facts.price)
        if math.isclose(charged, facts.kpus, rel_tol=1e-3):
            return NotYet(
                f"{asked}, which is {facts.kpus} KPUs. The tasks take all of them. "
                f"Billed: {facts.kpus + 1}, one for the application itself."
            )
        parts = facts.parallelism / facts.per_kpu
        if math.isclose(charged, parts, rel_tol=1e-3) or math.isclose(
            charged, parts + 1, rel_tol=1e-3
        ):
            return NotYet(
                f"{asked}, which is {charged:.2f} KPUs. They are whole ones: {facts.parallelism} "
                f"tasks need {facts.kpus}, and the application one more."
            )
        return NotYet(
            f"{asked}, which is {charged:.2f} KPUs. {facts.kpus} run tasks, and the application "
            f"has one more: ${facts.right:,.2f}."
        )
