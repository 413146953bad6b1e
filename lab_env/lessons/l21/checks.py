"""Checks of lesson 21: parallel parsing, repeated tasks, cores for a load, what holds a stream."""

import math
import random
import secrets
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import astuple, dataclass

import pandas as pd

from lab_env.course.answers import as_int, as_text, plain
from lab_env.course.checking import check, expect
from lab_env.lessons.hudi_rs import rows_of
from lab_env.lessons.l21.batches import RESOURCES, Batch, hidden_batches
from lab_env.lessons.l21.tasks import table_of
from lab_env.lessons.streams import own_streams_stopped, spark_settings, started
from lab_env.platform.brokers.topics import topic_end_offsets

CORES = 2  # of the lab's cluster
MOST_OF_ONE_TASK = 0.75  # share of the rows: with more, one core does most of the work
QUERY_SECONDS = 120
TOPIC = "orders"  # the lesson's topic of one partition
REFUSED = {"kafka.enable.auto.commit": "true"}  # Spark keeps the offsets itself


@check("21.1")
def every_core_parses(lab, ingest):
    """Let the function write a new table in two batches, and compare the table with the ledger."""
    topic, table, checkpoint = lab.topic(TOPIC), lab.scratch("orders"), lab.scratch("checkpoint")
    half = sum(topic_end_offsets(lab.endpoints.kafka_bootstrap, topic).values()) // 2 + 1
    setting = "spark.sql.shuffle.partitions"
    with (
        spark_settings(lab.spark, {setting: lab.spark.conf.get(setting)}),
        own_streams_stopped(lab.spark, QUERY_SECONDS) as stopped,
    ):
        query = started(ingest(topic, table, checkpoint, maxOffsetsPerTrigger=half))
        waited = not query.isActive
        query.awaitTermination()
        set_to = lab.spark.conf.get(setting)
    expect(
        not stopped.late,
        "Your query was still running after {} seconds. With the trigger `availableNow=True` it "
        "ends when it has read what is there.",
        QUERY_SECONDS,
    )
    expect(not waited, "Your query had ended when your function returned: do not wait in it.")
    expect(
        lab.files(f"{table}/.hoodie"),
        "Nothing was written to the table whose path your function got.",
    )
    found = read_table(table)
    expect(
        "parsed_by" in found,
        "The table has no column parsed_by. Let `parse` parse the messages.",
    )
    parsed = Counter(found["parsed_by"])
    most = max(parsed.values(), default=0) / max(1, len(found))
    both = most <= MOST_OF_ONE_TASK
    compared = lab.ledger(topic).reconcile_table(found)
    expect(
        not compared.missing,
        "{:,} orders are missing. Does your stream read from `earliest`?",
        compared.missing,
    )
    expect(
        not compared.stale,
        "{}, and {:,} orders are stale. Tasks end in any order, so the order of arrival decides "
        "nothing: let the field `order_ts` decide (`ORDERS`).",
        "Both cores work" if both else "One task parsed",
        compared.stale,
    )
    other = compared.duplicate + compared.ghost + compared.altered
    expect(not other, "{:,} orders are doubled, altered or not erased.", other)
    expect(
        both or int(set_to) == CORES,
        "One task parsed {:.0%} of the rows: the source still had one task at a time, because the "
        "topic has 1 partition. `spark.sql.shuffle.partitions` counts what comes after a shuffle.",
        most,
    )
    expect(
        both,
        "One task parsed {:.0%} of the rows. A topic of 1 partition gives one task unless the "
        "source or a shuffle *before* the parsing divides its rows.",
        most,
    )
    expect(
        sum(report["numInputRows"] > 0 for report in query.recentProgress) > 1,
        "`maxOffsetsPerTrigger` had no effect: hand `**options` to the source. The rest of the "
        "lesson does.",
    )
    expect(
        _hands_on(lab, ingest, topic, REFUSED),
        "`maxOffsetsPerTrigger` had an effect, but you drop other options: with {!r} Spark would "
        "have refused to read. Hand on `**options`.",
        *REFUSED,
    )
    expect(
        lab.files(f"{checkpoint}/offsets"),
        "The table is right, but there is no stream's state at `checkpoint`.",
    )
    picture = lab.xray(table)
    expect(
        all(picture.commit(name).checkpoint for name in picture.completed_writes),
        "The table is right, but its commits do not say which batch they hold, and the lesson goes "
        "on with that. Let Hudi's own sink write.",
    )
    return (
        f"{len(parsed)} tasks parsed, the largest of them {most:.0%} of the rows, and every order "
        "is there in its newest version."
    )


def _hands_on(lab, ingest: Callable, topic: str, refused: Mapping[str, str]) -> bool:
    """Return whether the source gets an option with which Spark refuses to read."""
    from pyspark.errors import IllegalArgumentException

    with own_streams_stopped(lab.spark, QUERY_SECONDS), suppress(IllegalArgumentException):
        ingest(topic, lab.scratch("orders"), lab.scratch("checkpoint"), **refused)
        return False
    return True


def read_table(path: str) -> pd.DataFrame:
    """Return a table's newest rows, read with hudi-rs."""
    return rows_of(path).to_pandas()


@check("21.2")
def what_ran_twice(lab, done_twice):
    """Call the function for made-up task lists, one of them without repeated tasks."""
    for tasks in made_up_lists():
        said = done_twice(tasks.copy())
        expect(said is not None, "Your function returns nothing.")
        said, right = as_int(said), counts(tasks)["twice"]
        here = f"In a list of {len(tasks)} tries you count {said}; {right} tasks ran more than once"
        for count, why in WHY_NOT.items():
            expect(said == right or said != counts(tasks)[count], f"{here}. {why}")
        expect(said == right, f"{here}. A task is a stage and a number in it; each row is one try.")
    return "Right for every list: failed tasks, lost results and whole stages."


WHY_NOT = {
    "tries": "But that is every try.",
    "tasks": "But that is every task.",
    "further attempts": "`attempt` counts within one try of a stage: when Spark runs a stage "
    "again, its tasks begin at attempt 0.",
    "failed": "A task may have succeeded before its executor died: what it had kept for the next "
    "stage is gone, and it runs again.",
    "further stages": "A stage runs again only where results are lost; a task that failed is tried "
    "again within its stage.",
}


def counts(tasks: pd.DataFrame) -> dict[str, int]:
    """Return the right count for a task list, and the wrong ones that learners may return."""
    tries = tasks.groupby(["stage", "task"]).size()
    return {
        "twice": int((tries > 1).sum()),
        "tries": len(tasks),
        "tasks": len(tries),
        "further attempts": int((tasks["attempt"] > 0).sum()),
        "failed": int((tasks["status"] == "FAILED").sum()),
        "further stages": int((tasks["stage_try"] > 0).sum()),
    }


def made_up_lists() -> list[pd.DataFrame]:
    """Return task lists as after an executor's death, and one without repeated tasks.

    In the lists after a death, every wrong count of `counts` differs from the right one.
    """
    return [*(_made_up_list() for _ in range(3)), table_of([_try(7, task) for task in range(4)])]


def _made_up_list() -> pd.DataFrame:
    lost = 2 + secrets.randbelow(3)  # succeeded, and their results went with the executor
    failed = lost + 2 + secrets.randbelow(2)  # were at work on it
    stages = secrets.randbelow(30)
    rows = [_try(stages, task, executor=str(1 + task % 2)) for task in range(6 + lost)]
    rows += [_try(stages, task, stage_try=1) for task in range(lost)]
    rows.append(_try(stages, 6 + lost, stage_try=1))  # its first try is in the stage's second
    rows += [_try(40, 11), _try(401, 1)]  # two tasks, whose numbers in a row are the same text
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


@dataclass(frozen=True)
class Load:
    """The requirements of a stream.

    Args:
        rate: rows per second.
        a: seconds per batch.
        b: core-seconds per row.
        freshness: maximum age of an event when it becomes visible, seconds.
        partitions: number of partitions of the topic.
    """

    rate: float
    a: float
    b: float
    freshness: float
    partitions: int

    @property
    def interval(self) -> float:
        """Seconds between batches; an event waits for up to one, and is written during the next."""
        return self.freshness / 2

    @property
    def exact(self) -> float:
        """Number of cores needed, not rounded; infinite if `a` alone fills the interval."""
        left = self.interval - self.a
        return self.b * self.rate * self.interval / left if left > 0 else math.inf

    def behind(self, cores: float) -> float:
        """Return the lag's growth in rows per second on this many cores; 0 if they keep up."""
        done = max(0.0, self.interval - self.a) * cores / self.b / self.interval
        return max(0.0, self.rate - done)


SHOWN_FIRST = (
    Load(2_000, 1.0, 0.001, 10, 12),  # 2.5 -> 3; without the fixed part 2
    Load(4_000, 1.0, 0.002, 8, 12),  # 10.7 -> 11
    Load(5_000, 2.2, 0.001, 4, 64),  # nothing helps
    Load(8_000, 1.0, 0.002, 6, 6),  # 24 -> more than partitions
    Load(50, 0.5, 0.0005, 60, 4),  # one core does it
)


@check("21.3")
def cores_for_a_load(lab, cores_for):
    """Call the function for fixed and random loads; it returns the fewest cores that keep up."""
    for load in [*SHOWN_FIRST, *_loads(random.Random())]:
        said = _cores(cores_for(*astuple(load)))
        here = (
            f"{load.rate:,.0f} rows/s, a = {load.a:g} s, b = {load.b * 1000:g} ms, events at most "
            f"{load.freshness:g} s old, {load.partitions} partitions: you say "
            f"{'None' if said == math.inf else said}."
        )
        expect(
            load.exact < math.inf or said == math.inf,
            "{} A batch may last {:g} s, and {:g} s of that pass on any number of cores: nothing "
            "is left for the rows. No number is enough (None).",
            here, load.interval, load.a,
        )  # fmt: skip
        if load.exact == math.inf:
            continue
        needed = max(1, math.ceil(load.exact))
        if needed > load.partitions:
            expect(
                said == math.inf,
                "{} {} cores for {} partitions: only {} of them get work. No number is enough "
                "(None).",
                here, needed, load.partitions, load.partitions,
            )  # fmt: skip
            continue
        expect(said < math.inf, "{} {} cores keep up.", here, needed)
        expect(said >= 1, "{} Without a core nothing is read.", here)
        expect(
            said >= needed,
            "{} In {:g} of each {:g} s nobody parses; the lag grows by {:,.0f} rows/s.",
            here, load.a, load.interval, load.behind(said),
        )  # fmt: skip
        expect(said <= needed, "{} {} cores keep up, too.", here, needed)
    return "Right for every load, also where no number of cores is enough."


def _cores(answer) -> float:
    """Return the answer's number of cores; infinity if the answer is that no number is enough."""
    value = plain(answer)
    if value is None or (isinstance(value, float) and math.isinf(value)):
        return math.inf
    return as_int(value)


def _loads(rng: random.Random) -> list[Load]:
    """Return loads for which rounding errors cannot change the answer.

    Their exact number of cores is not close to a whole number, or they consist of powers of two.
    """
    loads = []
    while len(loads) < 40:
        load = Load(
            rate=100 * rng.randint(1, 100),
            a=rng.randint(1, 40) / 10,
            b=rng.randint(1, 30) / 10_000,
            freshness=rng.randint(2, 31),
            partitions=rng.randint(4, 63),
        )
        clear = math.isinf(load.exact) or abs(load.exact - round(load.exact)) > 0.01
        if clear and abs(load.interval - load.a) > 0.01:
            loads.append(load)
    for cores in (1, 2, 4, 8, 16):
        a = 2.0 ** rng.randint(-2, 2)
        rate = 2 ** rng.randint(9, 12)
        for partitions in (cores + 5, cores, cores - 1):  # half of the interval is left for rows
            loads.append(Load(rate, a, cores / rate / 2, 4 * a, partitions))
    loads.append(Load(1_000, 2.0, 0.001, 4.0, 8))  # nothing is left
    return [load for load in loads if load.partitions]


@check("21.4")
def what_holds_a_stream(lab, held_by):
    """Call the function for batches that it has not seen, each held by one resource."""
    for batch in hidden_batches(random.Random()):
        said = as_text(held_by(batch.stages, batch.seconds))
        expect(
            said in RESOURCES,
            "You say {!r}. The names are {}.",
            said,
            ", ".join(RESOURCES),
        )
        expect(said == batch.held_by, "You say {!r}. {}", said, _why(batch))
    return "Right for every batch: now you know when another machine helps."


def _why(batch: Batch) -> str:
    """Return what a batch shows."""
    stage = batch.stages.loc[batch.stages["lasts"].idxmax()]
    here = (
        f"A batch of {batch.seconds:.1f} s has a longest stage of {stage['lasts']:.1f} s, with "
        f"{stage['tasks']:.0f} task{'s' if stage['tasks'] > 1 else ''}."
    )
    why = {
        "commit": "No stage takes half of the batch: outside the stages only the driver works.",
        "store": f"The tasks last {stage['work']:.1f} s together, and the processors worked for "
        f"{stage['cpu']:.1f} s of that: the tasks wait.",
        "partition": "Its only task reads, and the other executors have nothing to read.",
        "bucket": "Its only task got its rows through a shuffle: it writes.",
        "hot key": f"They read, but one of them alone lasts {stage['longest']:.1f} s.",
        "cores": "No task takes half of the batch, and the processors work: one more core would "
        "take some of the tasks.",
    }
    return f"{here} {why[batch.held_by]}"
