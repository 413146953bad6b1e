"""Checks of lesson 12: answers run on the feed of the lesson's own table, compared with its rows.

Nothing is written to the lesson's tables, at most to copies, so each check takes seconds. The
checks need the feed from the table's first commit on, which the lesson's last section cleans away.
"""

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lab_env.course.answers import Unreadable, as_int, as_list, as_rows, as_text, type_of
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.errors import LabError
from lab_env.lessons.table_copies import copy_table, left_alone, scratch_copy
from lab_env.pipeline.options import DEMO_OPTIONS

IMAGE = "order_id STRING, customer_id STRING, status STRING, cents BIGINT"
LIVES = {  # the states of each order in the lesson's first four commits
    "O-12": ("new", "paid", "cancelled"),
    "O-17": ("new", "paid"),
    "O-13": ("new", "paid", None),
    "O-1001": (None, "new", None),
}
REVENUE = DEMO_OPTIONS | {  # as in the lesson
    "hoodie.table.name": "revenue",
    "hoodie.datasource.write.recordkey.field": "customer_id",
    "hoodie.index.bloom.num_entries": "1000",
}
COLUMNS = ("op", "ts_ms", "before", "after")

# Two changes that 12.3 adds to those of the lesson, and what they move.
_LATER = "29991231235959999"
MORE_CHANGES = (
    ("u", _LATER, ("O-2001", "C-3", "paid", 7301), ("O-2001", "C-4", "paid", 7301)),
    ("u", _LATER, ("O-2002", "C-5", "cancelled", 4207), ("O-2002", "C-5", "paid", 4207)),
)
MORE_MOVES = {"C-3": -7301, "C-4": 7301, "C-5": 4207}


@dataclass(frozen=True)
class Feed:
    """What the learner's function reads after the table's first commit.

    Args:
        table: which table was read: `orders_cow` or `orders_mor`.
        columns: of its answer; those of a table where the query is no CDC query.
        rows: how many rows it has.
        agrees: whether they are the changes after the first commit, row by row.
        due: how many changes there are.
        inserts: how many of its rows are inserts of the first commit.
    """

    table: str
    columns: tuple[str, ...]
    rows: int
    agrees: bool
    due: int
    inserts: int = 0


@check_of("12.1")
class ReadsTheFeed:
    """A function that reads the changes after a commit."""

    @staticmethod
    def observe(lab, answer: Callable) -> tuple[Feed, ...] | str:
        """Read the feeds of both tables of the lesson after their first commits.

        Returns:
            What came, or the type of an answer that is no DataFrame of Spark.
        """
        found = []
        for table in ("orders_cow", "orders_mor"):
            path, first = lab.path(table), _first_commits(lab, 2, table)[0]
            answered = answer(path, first)
            if not isinstance(answered, DataFrame):
                return type_of(answered)
            columns = tuple(answered.columns)
            due = _feed_rows(lab, table, first, lab.xray(path).instants[-1])
            if not {*COLUMNS} <= {*columns}:
                return (Feed(table, columns, answered.count(), False, len(due)),)
            rows = sorted(map(str, answered.select(*COLUMNS).collect()))
            of_first = sum(f"ts_ms='{first}'" in row for row in rows)
            found.append(Feed(table, columns, len(rows), rows == due, len(due), of_first))
        return tuple(found)

    @staticmethod
    def judge(facts: tuple[Feed, ...] | str) -> Passed | NotYet:
        """The changes after the first commit, and no other."""
        if isinstance(facts, str):
            return NotYet(
                f"Your function returns a {facts}. The lesson goes on with the changes in Spark, "
                "so it needs a DataFrame of Spark."
            )
        for feed in facts:
            if reason := _why_other_feed(feed):
                return NotYet(f"{feed.table}: {reason}")
        counts = " and ".join(str(feed.rows) for feed in facts)
        return Passed(
            f"{counts} changes after the first commits of the two tables, each with its two images."
        )


def _why_other_feed(feed: Feed) -> str:
    """Why these are not the changes after a table's first commit; empty if they are."""
    if not {*COLUMNS} <= {*feed.columns}:
        return (
            f"{feed.rows:,} rows with the columns of the table: newest rows, not changes. A "
            "change has the columns op, ts_ms, before and after. Which format has the query?"
        )
    if feed.inserts:
        return (
            f"{feed.rows:,} changes, {feed.inserts:,} of them inserts of the first commit: "
            f"you read from the very first commit on. After it there are {feed.due}."
        )
    if not feed.agrees and feed.rows == feed.due:
        return "as many changes as it has, but not its own. Read the table at `path`."
    if not feed.agrees:
        return f"{feed.rows:,} changes; after its first commit there are {feed.due}."
    return ""


@check_of("12.2")
class OneOrdersLife:
    """The states of four orders, put together from changes that come in two orders."""

    @staticmethod
    def observe(lab, answer) -> dict[str, object]:
        """Call the function for each order with the changes of the lesson's first four commits.

        By chance they come newest first or oldest first: in each way for one of the orders at
        least that has changed more than once.
        """
        first, *_, last = _first_commits(lab, 4)
        newest_first, oldest_first = _in_two_orders(lab, first, last)
        several = [order for order, states in LIVES.items() if len(states) > 2]
        backwards = set(random.sample(several, random.randrange(1, len(several))))
        return {
            order: answer(newest_first if order in backwards else oldest_first, order)
            for order in LIVES
        }

    @staticmethod
    def judge(facts: Mapping[str, object]) -> Passed | NotYet:
        """Right for every order, an erased one and a new one among them."""
        lives = {order: as_list(facts[order]) for order in LIVES}
        wrong = [order for order, states in LIVES.items() if lives[order] != list(states)]
        if not wrong:
            return Passed(
                "Four lives, from birth to erasure: O-1001 came and went between two looks at the "
                "table."
            )
        life, truth = lives[wrong[0]], list(LIVES[wrong[0]])
        difference = f"For {wrong[0]} you say {life}; it was {truth}."
        if life == truth[1:]:
            return NotYet(
                f"{difference} What is missing is its state before the first change: `before` of "
                "that change."
            )
        if sorted(map(str, life)) == sorted(map(str, truth)) or life[1:] == truth[:0:-1]:
            return NotYet(
                f"{difference} The rows of a feed come in no order that you may rely on: sort by "
                "`ts_ms`."
            )
        if truth[-1] is None and None not in life[1:]:
            return NotYet(
                f"{difference} You lose its end: an erasure has no image after, so no order_id "
                "there. Look in `before`, too."
            )
        return NotYet(difference)


@dataclass(frozen=True)
class Moves:
    """What each customer's revenue moved by, in cents.

    Args:
        answer: the learner's rows of customer and cents; a customer without a row did not move.
        truth: full recompute now less full recompute as of the first commit.
        after_only: the sum of `after` alone, over all customers.
        cancelled: the cents of cancelled images, in `after`.
        was_cancelled: the same in `before`.
        erased: what the erased orders were worth before.
    """

    answer: tuple[tuple[Any, Any], ...]
    truth: dict[str, int]
    after_only: int
    cancelled: int
    was_cancelled: int
    erased: int


@check_of("12.3")
class RevenueByChanges:
    """Old revenue and the answer make the revenue that a full recompute finds."""

    @staticmethod
    def observe(lab, answer) -> Moves | str:
        """Call the function with all changes since the first commit and with two more.

        One moves an order to another customer, one brings a cancelled order back. What all of
        them move is a full recompute now less one as of the first commit, and those two.

        Returns:
            The moves, or the type of an answer that Spark cannot join.
        """
        first, *_ = _first_commits(lab, 4)
        newest = lab.xray(lab.path("orders_cow")).instants[-1].requested
        changes, truth = _changes_and_truth(lab, first, newest)
        deltas = answer(changes)
        if not isinstance(deltas, DataFrame):
            return type_of(deltas)
        return replace(truth, answer=tuple(as_rows(deltas, ("customer_id", "cents"))))

    @staticmethod
    def judge(facts: Moves | str) -> Passed | NotYet:
        """Right for each customer, not only in total."""
        if isinstance(facts, str):
            return NotYet(
                f"Your function returns a {facts}. The job below joins its rows with a table, so "
                "it needs a DataFrame of Spark."
            )
        rows = [(name, as_int(cents)) for name, cents in facts.answer]
        moved = {name: cents for name, cents in rows if name is not None}
        off = {
            name: moved.get(name, 0) - facts.truth.get(name, 0)
            for name in {*moved, *facts.truth}
            if moved.get(name, 0) != facts.truth.get(name, 0)
        }
        if len({name for name, _ in rows}) < len(rows):
            return NotYet(
                f"You have {len(rows)} rows for {len(moved)} customers: sum them, one row per "
                "customer."
            )
        if off:
            return NotYet(_why_off(facts, sum(moved.values()), off))
        if len(moved) < len(rows):
            return NotYet(
                "All customers are right, but one row is without a customer: the image before an "
                "insert and the image after a delete. The job below could not write it."
            )
        count = sum(cents != 0 for cents in facts.truth.values())
        return Passed(f"All customers are right, and {count} of them moved. No order was read.")


def _why_off(facts: Moves, total: int, off: Mapping[str, int]) -> str:
    """By how much an answer is off, and which mistake makes it so.

    Args:
        facts: of the answer.
        total: the sum of the answer, in cents.
        off: by how many cents each customer is wrong.
    """
    excess = total - sum(facts.truth.values())
    difference = f"{_wrong_by(excess)}; customers that are wrong: {len(off)}."
    if total == facts.after_only:
        return (
            f"{difference} An update brings the whole order again, not what was added: "
            "subtract `before` for u and d."
        )
    if excess in _forgotten_cancellations(facts):
        return (
            f"{difference} A cancel is an update that leaves the amount as it is, so after minus "
            "before is 0. Say what a cancelled image is worth, in both places."
        )
    if excess == facts.erased:
        return (
            f"{difference} An erasure has no image after: its customer and its worth stand in "
            "`before`."
        )
    if not excess:
        return (
            f"{difference} An order may move to another customer: take its worth off the customer "
            "of `before`, and put it on that of `after`."
        )
    name = min(off)
    return f"{difference} {name} for one: {_wrong_by(off[name]).lower()}."


def _forgotten_cancellations(facts: Moves) -> set[int]:
    """By how much a sum is off that counts cancelled images in `after`, in `before`, or in both."""
    return {
        facts.cancelled,
        -facts.was_cancelled,
        facts.cancelled - facts.was_cancelled,
    } - {0}


def _wrong_by(cents: int) -> str:
    if not cents:
        return "The total is right"
    return f"Too {'high' if cents > 0 else 'low'} by {abs(cents) / 100:,.2f}"


@dataclass(frozen=True)
class Totals:
    """A copy of the totals after the learner's function.

    Args:
        before: cents and bookmark of each customer before it.
        moved: what the function was to add, by customer.
        upto: the bookmark that it was given.
        after: cents and bookmark of each customer after it.
        commits: how many it made.
    """

    before: Mapping[str, tuple[int, str]]
    moved: Mapping[str, int]
    upto: str
    after: Mapping[str, tuple[int, str]]
    commits: int


@check_of("12.4")
class TotalsWithTheirBookmark:
    """New totals and bookmark of the customers that were touched, in one commit."""

    @staticmethod
    def observe(lab, answer: Callable) -> Totals:
        """Move the totals of two customers in a copy, and those of one who has none yet."""
        path = scratch_copy(lab, _other_totals(lab), "totals")
        before = _totals(lab, path)
        newcomer = f"C-{random.randint(100, 999)}"
        touched = [*random.sample(sorted(before), 2), newcomer]
        moved = {name: random.randint(1, 9999) for name in touched}
        moved[touched[0]] *= -1
        upto = f"2999{random.randint(10**12, 10**13 - 1)}"
        rows = lab.spark.createDataFrame(list(moved.items()), "customer_id STRING, cents BIGINT")
        commits = len(lab.xray(path).completed_writes)
        with left_alone(lab, lab.path("revenue")):
            answer(rows, upto, path)
        made = len(lab.xray(path).completed_writes) - commits
        return Totals(before, moved, upto, _totals(lab, path), made)

    @staticmethod
    def judge(facts: Totals) -> Passed | NotYet:
        """The right cents first, then the bookmark, then one commit."""
        for name, cents in facts.moved.items():
            if reason := _why_other_total(facts, name, cents):
                return NotYet(reason)
        for name, row in facts.before.items():
            if name not in facts.moved and facts.after.get(name) != row:
                found = facts.after.get(name, ("no total", "no bookmark"))
                return NotYet(
                    f"{name}, whom `moved` does not name, had {row[0]} cents up to {row[1]}; now "
                    f"the table says {found[0]} up to {found[1]}. Leave the others' rows alone."
                )
        if facts.commits != 1:
            return NotYet(
                f"The totals are right, in {facts.commits} commits. A job that dies between them "
                "leaves totals without their bookmark. One write is enough."
            )
        return Passed(
            f"{len(facts.moved)} totals have moved, one of them from nothing, with their bookmark "
            "in one commit. Nobody else's row was changed."
        )


def _totals(lab, path: str) -> dict[str, tuple[int, str]]:
    rows = lab.spark.read.format("hudi").load(path).select("customer_id", "cents", "upto")
    found = {}
    for name, cents, upto in rows.collect():
        if cents is None:
            raise Unreadable(f"The cents of {name} are NULL: a sum with NULL is NULL. `coalesce`.")
        found[name] = (as_int(cents), as_text(upto))
    return found


@cache  # of a call that was interrupted, nothing is used
def _other_totals(lab) -> str:
    """A table like the lesson's `revenue` with other cents, to be copied; made once."""
    path = scratch_copy(lab, lab.path("revenue"), "other_totals")
    more = F.col("cents") + random.randint(100, 999)
    rows = (
        lab.spark.read.format("hudi").load(path).select("customer_id", more.alias("cents"), "upto")
    )
    rows.write.format("hudi").options(**REVENUE).mode("append").save(path)
    return path


def _why_other_total(facts: Totals, name: str, cents: int) -> str:
    """What is wrong with the row of a customer who was touched; empty if nothing is."""
    old = facts.before.get(name)
    due = cents + (old[0] if old else 0)
    found = facts.after.get(name)
    if found is None:
        return f"{name} has no row yet, and {cents} cents to begin with: the row is missing."
    if found[0] != due and old and found[0] == cents:
        return (
            f"{name} had {old[0]} cents, and {cents} came; now the table says {found[0]}. An "
            "upsert replaces the row: write the sum."
        )
    if found[0] != due:
        return f"{name}: {due} cents are due, {'from nothing, ' * (not old)}you have {found[0]}."
    if found[1] != facts.upto:
        return f"{name} has the right total, and the `upto` {found[1]}, not {facts.upto}."
    return ""


@dataclass(frozen=True)
class NextRun:
    """What the next run would read, beginning where the learner's function says.

    Args:
        begin: what the function returned.
        uncounted: changes that the totals do not have yet.
        missed: how many of these the run would not read.
        again: how many changes that are counted already it would read once more.
        earlier: whether the totals were those of one run earlier.
    """

    begin: str
    uncounted: int
    missed: int
    again: int
    earlier: bool = False


@check_of("12.5")
class WhereTheNextRunBegins:
    """Every change that is not counted, and no other, for the totals now and one run earlier."""

    @staticmethod
    def observe(lab, answer) -> tuple[NextRun, ...]:
        """Call the function for the totals and for an earlier copy; read the feed from there."""
        _first_commits(lab, 4)  # the feed reaches back to them
        revenue = lab.path("revenue")
        newest = [lab.xray(path).instants[-1] for path in (lab.path("orders_cow"), revenue)]
        runs = []
        for path in (revenue, _one_run_earlier(lab, revenue, newest[1])):
            begin = as_text(answer(path))
            counted = _counted(lab, path, newest[1])
            uncounted, _ = _after_and_before(lab, counted, counted, newest[0])
            read, again = _after_and_before(lab, begin, counted, newest[0])
            runs.append(NextRun(begin, uncounted, uncounted - read, again, path != revenue))
        return tuple(runs)

    @staticmethod
    def judge(facts: tuple[NextRun, ...]) -> Passed | NotYet:
        """Nothing missed, nothing twice."""
        for run in facts:
            reason = _why_wrong_begin(run)
            if reason:
                where = "For a copy of the totals as they were one run earlier: "
                return NotYet(where + reason if run.earlier else reason)
        uncounted = facts[0].uncounted
        return Passed(
            f"{uncounted} open change{'' if uncounted == 1 else 's'} found, none counted twice, "
            "and the same for the totals of one run earlier. Totals and bookmark are one commit, "
            "so a crash cannot part them."
        )


def _why_wrong_begin(run: NextRun) -> str:
    """What a run from this begin misses or repeats; empty if it does neither."""
    if run.missed and not run.begin[:1].isdigit():
        return (
            f"{run.begin!r} gives nothing at all, and no error: the feed compares it as text, and "
            "letters come after digits. Give a moment in digits."
        )
    if run.missed and run.earlier:
        return (
            f"from {run.begin} on, {run.missed} of the {run.uncounted} open changes would never be "
            "counted. A job that is started anew has no variable of this notebook: read the "
            "bookmark from the table that the function gets."
        )
    if run.missed:
        return (
            f"From {run.begin} on, {run.missed} of the {run.uncounted} open changes would never "
            "be counted. The job's own commit came after it: between reading and writing, the "
            "orders went on."
        )
    if run.again:
        return (
            f"{run.again} changes would count twice: they are in the totals already. A customer "
            "whom no change touched keeps an old `upto`."
        )
    return ""


def _first_commits(lab, count: int, table: str = "orders_cow") -> list[str]:
    """Requested times of the orders' first commits: the insert, the payments, the events, the
    erasures.

    Raises:
        LabError: the commits are not there yet, or no longer.
    """
    instants = lab.xray(lab.path(table)).instants
    commits = [instant.requested for instant in instants if instant.writes]
    if len(commits) < count:
        raise LabError(
            f"The table {table} has {len(commits)} of the {count} commits that this exercise "
            "needs.",
            "run the cells above in their order, then this one again.",
        )
    if any(instant.action == "clean" for instant in instants):
        raise LabError(
            "The lesson's last section has cleaned the changes away that this exercise needs.",
            "run the notebook again from its first cell.",
        )
    return commits[:count]


@cache  # the same for every answer, as long as nobody writes
def _feed_rows(lab, table: str, begin: str, newest) -> list[str]:
    """The rows of a table's feed after a commit, as sorted text."""
    feed = _feed(lab, begin, table=table)
    return sorted(map(str, feed.select(*COLUMNS).collect()))


@cache  # the same for every answer
def _one_run_earlier(lab, revenue: str, newest) -> str:
    """The path of a copy of the totals without their newest commit."""
    path = lab.scratch("revenue")
    copy_table(lab, revenue, path, hidden=[newest])
    return path


@cache  # the same for every answer, as long as the totals have the same newest commit
def _counted(lab, path: str, newest) -> str:
    """Up to which commit the totals count."""
    return lab.spark.read.format("hudi").load(path).agg(F.max("upto")).first()[0]


@cache  # many answers begin at the same time
def _after_and_before(lab, begin: str, counted: str, newest) -> tuple[int, int]:
    """How many changes the feed has from a begin on: after the counted ones, and among them."""
    times = [row.ts_ms for row in _changes(lab, begin).select("ts_ms").collect()]
    after = sum(time > counted for time in times)
    return after, len(times) - after


@cache  # the same for every answer
def _in_two_orders(lab, begin: str, end: str) -> tuple[DataFrame, DataFrame]:
    """The changes of some commits, newest first and oldest first."""
    changes = _changes(lab, begin, end).cache()
    return changes.orderBy(F.desc("ts_ms")).cache(), changes.orderBy("ts_ms").cache()


@cache  # the same for every answer, as long as nobody writes
def _changes_and_truth(lab, first: str, newest: str) -> tuple[DataFrame, Moves]:
    """The changes after the first commit and two more; by how much all of them move revenue.

    Args:
        lab: of the lesson.
        first: requested time of the first commit.
        newest: requested time of the newest one.
    """
    written = _changes(lab, first)
    changes = written.union(lab.spark.createDataFrame(MORE_CHANGES, written.schema)).cache()
    sums = changes.selectExpr(
        "sum(after.cents) FILTER (WHERE after.status <> 'cancelled') AS after_only",
        "sum(after.cents) FILTER (WHERE after.status = 'cancelled') AS cancelled",
        "sum(before.cents) FILTER (WHERE before.status = 'cancelled') AS was_cancelled",
        "sum(before.cents) FILTER (WHERE op = 'd' AND before.status <> 'cancelled') AS erased",
    ).collect()[0]
    path = lab.path("orders_cow")
    now = _revenue(lab.spark.read.format("hudi").load(path))
    then = _revenue(lab.spark.read.format("hudi").option("as.of.instant", first).load(path))
    more = Counter(MORE_MOVES)
    truth = {name: now.get(name, 0) - then.get(name, 0) + more[name] for name in {*now, *then}}
    return changes, Moves(
        answer=(),
        truth=truth,
        after_only=sums.after_only or 0,
        cancelled=sums.cancelled or 0,
        was_cancelled=sums.was_cancelled or 0,
        erased=sums.erased or 0,
    )


def _changes(lab, begin: str, end: str | None = None) -> DataFrame:
    """The feed of the orders with parsed images, of commits requested after begin, up to end."""
    changes = _feed(lab, begin, end)
    for image in ("before", "after"):
        row = F.from_json(image, IMAGE)
        changes = changes.withColumn(image, F.when(row["order_id"].isNotNull(), row))
    return changes


def _feed(lab, begin: str, end: str | None = None, table: str = "orders_cow") -> DataFrame:
    """The feed of the orders as the CDC query returns it."""
    reader = (
        lab.spark.read.format("hudi")
        .option("hoodie.datasource.query.type", "incremental")
        .option("hoodie.datasource.query.incremental.format", "cdc")
        .option("hoodie.datasource.read.begin.instanttime", begin)
    )
    if end:
        reader = reader.option("hoodie.datasource.read.end.instanttime", end)
    return reader.load(lab.path(table))


def _revenue(table: DataFrame) -> dict[str, int]:
    rows = table.where("status <> 'cancelled'").groupBy("customer_id").agg(F.sum("cents"))
    return {row[0]: row[1] for row in rows.collect()}
