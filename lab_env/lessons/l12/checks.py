"""Checks of lesson 12: answers run on the feed of the lesson's own table, held against its rows.

Nothing is written, so each check takes a second or two. They need the feed from the table's first
commit on, which the lesson's last section cleans away.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.errors import LabError

IMAGE = "order_id STRING, customer_id STRING, status STRING, cents BIGINT"
LIVES = {  # of each order the states that the lesson's first five commits gave it
    "O-12": ("new", "paid", "cancelled"),
    "O-17": ("new", "paid"),
    "O-13": ("new", "paid", None),
    "O-1001": (None, "new", None),
}


@check_of("12.1")
class OneOrdersLife:
    """The states of four orders, put together from changes that come newest first."""

    @staticmethod
    def observe(lab, answer) -> dict[str, list]:
        """Call the function for each order with the changes of the lesson's first five commits."""
        changes = _newest_first(lab, *_first_commits(lab))
        return {order: _life(answer, changes, order) for order in LIVES}

    @staticmethod
    def judge(facts: Mapping[str, list]) -> Passed | NotYet:
        """Right for every order, an erased one and a new one among them."""
        wrong = {order: list(facts[order]) for order in LIVES if facts[order] != [*LIVES[order]]}
        if not wrong:
            return Passed(
                "Four lives, from birth to erasure: O-1001 came and went between two looks at the table."
            )
        order, said = next(iter(wrong.items()))
        truth = [*LIVES[order]]
        told = f"For {order} you say {said}; it was {truth}."
        if said == truth[1:]:
            return NotYet(
                f"{told} What is missing is its state before the first change: `before` of that change."
            )
        if sorted(map(str, said)) == sorted(map(str, truth)) or said[1:] == truth[:0:-1]:
            return NotYet(
                f"{told} The rows of a feed come in no order that you may rely on: sort by `ts_ms`."
            )
        if truth[-1] is None and None not in said[1:]:
            return NotYet(
                f"{told} You lose its end: an erasure has no image after, so no order_id there. "
                "Look in `before`, too."
            )
        return NotYet(told)


def _life(answer, changes: DataFrame, order: str) -> list:
    said = answer(changes, order)
    return list(said) if isinstance(said, list | tuple) else [said]


@dataclass(frozen=True)
class Moves:
    """What each customer's revenue moved by, in cents.

    Args:
        answer: the learner's; a customer that is not named did not move.
        truth: full recompute now less full recompute as of the first commit.
        after_only: what `after` alone adds up to, over all customers.
        cancelled: what cancelled orders are still worth to the one who forgets that they are not.
        erased: what the erased orders were worth before.
        columns: of the learner's DataFrame.
    """

    answer: dict[str | None, int]
    truth: dict[str, int]
    after_only: int
    cancelled: int
    erased: int
    columns: tuple[str, ...] = ("customer_id", "cents")


@check_of("12.2")
class RevenueByChanges:
    """Old revenue and the answer make the revenue that a full recompute says."""

    @staticmethod
    def observe(lab, answer) -> Moves:
        """Call the function with all changes since the first commit, and recompute twice."""
        first, _ = _first_commits(lab)
        newest = lab.xray(lab.path("orders_cow")).instants[-1].requested
        changes, truth = _changes_and_truth(lab, first, newest)
        said = answer(changes)
        columns = tuple(getattr(said, "columns", ()))
        moved = {}
        if {"customer_id", "cents"} <= set(columns):
            moved = {row.customer_id: int(row.cents or 0) for row in said.collect()}
        return replace(truth, answer=moved, columns=columns)

    @staticmethod
    def judge(facts: Moves) -> Passed | NotYet:
        """Right for each customer, not only in all."""
        if not {"customer_id", "cents"} <= set(facts.columns):
            return NotYet(
                f"The columns are {', '.join(facts.columns) or 'none'}; customer_id and cents are needed."
            )
        said = {name: cents for name, cents in facts.answer.items() if name is not None}
        off = {
            name: said.get(name, 0) - facts.truth.get(name, 0)
            for name in {*said, *facts.truth}
            if said.get(name, 0) != facts.truth.get(name, 0)
        }
        if not off:
            moved = sum(cents != 0 for cents in facts.truth.values())
            return Passed(f"All customers are right, and {moved} of them moved. No order was read.")
        excess = sum(said.values()) - sum(facts.truth.values())
        told = f"{_wrong_by(excess)}; customers that are wrong: {len(off)}."
        if sum(said.values()) == facts.after_only:
            return NotYet(
                f"{told} An update brings the whole order again, not what was added: "
                "subtract `before` for u and d."
            )
        if excess == facts.cancelled:
            return NotYet(
                f"{told} A cancel is an update that leaves the amount as it is, so after minus before "
                "is 0. Say what a cancelled image is worth, in both places."
            )
        if excess == facts.erased:
            return NotYet(
                f"{told} An erasure has no image after: its customer and its worth stand in `before`."
            )
        name = min(off, key=str)
        return NotYet(f"{told} {name} for one: {_wrong_by(off[name]).lower()}.")


def _wrong_by(cents: int) -> str:
    if not cents:
        return "The total is right"
    return f"Too {'high' if cents > 0 else 'low'} by {abs(cents) / 100:,.2f}"


@dataclass(frozen=True)
class NextRun:
    """What a run would read that begins where the learner says.

    Args:
        begin: what the function returned.
        uncounted: changes that the totals do not have yet.
        missed: how many of these the run would not read.
        again: how many that are counted it would read once more.
    """

    begin: str
    uncounted: int
    missed: int
    again: int


@check_of("12.3")
class WhereTheNextRunBegins:
    """Every change that is not counted, and no other."""

    @staticmethod
    def observe(lab, answer) -> NextRun:
        """Compare the feed from the learner's beginning with what the newest `upto` leaves open."""
        begin = str(answer())
        newest = [
            lab.xray(lab.path(name)).instants[-1].requested for name in ("orders_cow", "revenue")
        ]
        counted, open_changes = _counted_and_open(lab, *newest)
        read = [row.ts_ms for row in _changes(lab, begin).select("ts_ms").collect()]
        again = sum(at <= counted for at in read)
        return NextRun(begin, open_changes, open_changes - (len(read) - again), again)

    @staticmethod
    def judge(facts: NextRun) -> Passed | NotYet:
        """Nothing missed, nothing twice."""
        if facts.missed and not facts.begin[:1].isdigit():
            return NotYet(
                f"{facts.begin!r} gives nothing at all, and no error: the feed compares it as text, and "
                "letters come after digits. Give a moment in digits."
            )
        if facts.missed:
            return NotYet(
                f"From {facts.begin} on, {facts.missed} of the {facts.uncounted} open changes would never "
                "be counted. The job's own commit came after it: between reading and writing, the "
                "orders went on."
            )
        if facts.again:
            return NotYet(
                f"{facts.again} changes would count twice: they are in the totals already. A customer "
                "whom no change touched keeps an old `upto`."
            )
        return Passed(
            f"{facts.uncounted} open change{'' if facts.uncounted == 1 else 's'} found, none counted twice. "
            "Totals and bookmark are one commit, so a crash cannot part them."
        )


def _first_commits(lab) -> tuple[str, str]:
    """Requested times of the first commit of the orders and of the fifth: the erasures."""
    commits = [
        instant.requested
        for instant in lab.xray(lab.path("orders_cow")).instants
        if instant.action == "commit"
    ]
    if len(commits) < 5:
        raise LabError(
            "The table orders_cow has not all of its first five commits yet.",
            "run the cells above in their order, then this one again.",
        )
    if any(found.action == "clean" for found in lab.xray(lab.path("orders_cow")).instants):
        raise LabError(
            "The lesson's last section has cleaned the changes away that this exercise needs.",
            "run the notebook again from its first cell.",
        )
    return commits[0], commits[4]


@cache  # the same for every answer, as long as nobody writes
def _counted_and_open(lab, newest_order: str, newest_total: str) -> tuple[str, int]:
    """Up to which commit the totals count, and how many changes came after it.

    Args:
        lab: of the lesson.
        newest_order: requested time of the newest instant of the orders.
        newest_total: of the totals.
    """
    kept = lab.spark.read.format("hudi").load(lab.path("revenue"))
    counted = kept.agg(F.max("upto")).first()[0]
    return counted, _changes(lab, counted).count()


@cache  # the same for every answer
def _newest_first(lab, begin: str, end: str) -> DataFrame:
    """The changes of some commits in an order that nobody should rely on."""
    return _changes(lab, begin, end).orderBy(F.desc("ts_ms")).cache()


@cache  # the same for every answer, as long as nobody writes
def _changes_and_truth(lab, first: str, newest: str) -> tuple[DataFrame, Moves]:
    """The changes after the first commit, and by how much they moved each customer's revenue.

    Args:
        lab: of the lesson.
        first: requested time of the first commit.
        newest: of the newest one.
    """
    changes = _changes(lab, first).cache()
    sums = changes.selectExpr(
        "sum(after.cents) FILTER (WHERE after.status <> 'cancelled') AS after_only",
        "sum(after.cents) FILTER (WHERE after.status = 'cancelled') AS cancelled",
        "sum(before.cents) FILTER (WHERE op = 'd' AND before.status <> 'cancelled') AS erased",
    ).first()
    path = lab.path("orders_cow")
    now = _revenue(lab.spark.read.format("hudi").load(path))
    then = _revenue(lab.spark.read.format("hudi").option("as.of.instant", first).load(path))
    return changes, Moves(
        answer={},
        truth={name: now.get(name, 0) - then.get(name, 0) for name in {*now, *then}},
        after_only=sums.after_only or 0,
        cancelled=sums.cancelled or 0,
        erased=sums.erased or 0,
    )


def _changes(lab, begin: str, end: str | None = None) -> DataFrame:
    """The feed of the orders with parsed images, of commits requested after begin, up to end."""
    reader = (
        lab.spark.read.format("hudi")
        .option("hoodie.datasource.query.type", "incremental")
        .option("hoodie.datasource.query.incremental.format", "cdc")
        .option("hoodie.datasource.read.begin.instanttime", begin)
    )
    if end:
        reader = reader.option("hoodie.datasource.read.end.instanttime", end)
    changes = reader.load(lab.path("orders_cow"))
    for image in ("before", "after"):
        row = F.from_json(image, IMAGE)
        changes = changes.withColumn(image, F.when(row["order_id"].isNotNull(), row))
    return changes


def _revenue(table: DataFrame) -> dict[str, int]:
    rows = table.where("status <> 'cancelled'").groupBy("customer_id").agg(F.sum("cents"))
    return {row[0]: row[1] for row in rows.collect()}
