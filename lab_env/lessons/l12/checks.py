"""Checks of lesson 12: run answers on the lesson's change feeds and on made-up changes."""

import json
import random
from collections import Counter
from functools import cache
from itertools import pairwise
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lab_env.course.answers import as_int, as_list, as_rows, as_text, type_of
from lab_env.course.checking import NotYet, check, expect
from lab_env.lessons.rows import as_dataframe, expect_rows, rows_at
from lab_env.lessons.table_copies import copy_table, left_alone, overlay_table, scratch_copy
from lab_env.lessons.timelines import completed_instants, expect_added
from lab_env.pipeline.options import DEMO_OPTIONS
from lab_env.platform import store
from lab_env.platform.errors import LabError

REVENUE = DEMO_OPTIONS | {  # as in the lesson
    "hoodie.table.name": "revenue",
    "hoodie.datasource.write.recordkey.field": "customer_id",
    "hoodie.index.bloom.num_entries": "1000",
}
COLUMNS = ("op", "ts_ms", "before", "after")
FIELDS = ("order_id", "customer_id", "status", "cents")
IMAGE = "STRUCT<order_id: STRING, customer_id: STRING, status: STRING, cents: BIGINT>"
CHANGES = f"op STRING, ts_ms STRING, before {IMAGE}, after {IMAGE}"
Image = tuple[str, str, str, int]
# An order for nothing without a customer; then it has one, and is worth more than an INT holds.
ODD = (
    dict(zip(FIELDS, ("O-0", None, "new", 0), strict=True)),
    dict(zip(FIELDS, ("O-0", "C-1", "paid", 3_000_000_000), strict=True)),
)
STRANGER = "C-999"  # no customer of the lesson
TOTALS = "customer_id STRING, cents BIGINT, upto STRING"


@check("12.1")
def images_as_columns(lab, parsed):
    """Let the function parse the payments of both feeds; compare its images with the tables' rows.

    Each payment is also given as an insert and as a delete, so that either image is missing once.
    """
    for table, missing in (("orders_cow", "null"), ("orders_mor", None)):
        created, paid = _commits(lab, 2, table)[:2]
        was, now = _images(lab, table, created), _images(lab, table, paid)
        orders = [order for order in now if now[order] != was[order]]
        real = _feed(lab, table, created).where(F.col("ts_ms") == paid).select(*COLUMNS)
        none = F.lit(missing).cast("string")
        born = real.withColumn("op", F.lit("i")).withColumn("before", none)
        gone = real.withColumn("op", F.lit("d")).withColumn("after", none)
        odd = lab.spark.createDataFrame([("u", paid, *map(json.dumps, ODD))], real.schema)
        given = real.union(born).union(gone).union(odd)
        changes = as_dataframe(parsed(given), "the changes")
        _expect_images(changes)
        rows = changes.select(*COLUMNS).collect()
        found: list[tuple[Any, ...]] = [
            (row.op, _image(row.before), _image(row.after)) for row in rows
        ]
        images = [image for _, *pair in found for image in pair if image is not None]
        nothing = (None,) * len(FIELDS)
        empty = sum(image == nothing for image in images)
        expect(
            not empty,
            "{}: {} of the images that are not there are a row of NULLs. They must be NULL, so "
            "that a job can tell an insert from an update.",
            table,
            empty,
        )
        without = sum(image[-1] is None for image in images)
        expect(
            not without,
            "{}: {} of {} images have no cents, and no error says so. Print one image as `feed` "
            "returns it: what does the text say of the amount, and what of the cents?",
            table,
            without,
            len(images),
        )
        wanted: list[tuple[Any, ...]] = [("u", was[order], now[order]) for order in orders]
        wanted += [("i", None, now[order]) for order in orders]
        wanted += [("d", was[order], None) for order in orders]
        wanted.append(("u", *(tuple(image.values()) for image in ODD)))
        expect(
            len(found) == len(wanted),
            "{}: {} changes go in, and {} come out.",
            table,
            len(wanted),
            len(found),
        )
        wrong = Counter(found) - Counter(wanted)
        expect(
            not wrong,
            "{}: {} of {} changes differ from the rows of the table before and after them. Each "
            "image comes from its own column.",
            table,
            wrong.total(),
            len(found),
        )
        expect(
            {row.ts_ms for row in rows} == {paid},
            "{}: `ts_ms` is no longer the time of the change, by which the lesson sorts.",
            table,
        )
    return (
        f"{len(orders)} payments of each table: the images agree with the rows before and after "
        "them, to the cent, and a missing image is NULL."
    )


def _expect_images(changes: DataFrame) -> None:
    """Check that both images are columns with all fields, and the cents an integer."""
    for name in COLUMNS:
        expect(name in changes.columns, "The column `{}` is missing.", name)
    for name in ("before", "after"):
        kind = changes.schema[name].dataType
        fields = getattr(kind, "fields", ())  # of a struct
        expect(
            fields,
            "`{}` is of the type {}. The lesson reads `{}.cents`: make columns of the text.",
            name,
            kind.simpleString(),
            name,
        )
        types = {field.name: field.dataType.simpleString() for field in fields}
        for field in FIELDS:
            expect(field in types, "`{}` has no `{}`.", name, field)
        expect(
            types["cents"] in ("bigint", "int"),
            "`{}.cents` is of the type {}; the table has BIGINT.",
            name,
            types["cents"],
        )


@cache  # the same for every answer: later commits do not change it
def _images(lab, table: str, instant: str) -> dict[str, tuple]:
    """The fields of every order as of an instant."""
    past = lab.spark.read.format("hudi").option("as.of.instant", instant).load(lab.path(table))
    return {row.order_id: tuple(row) for row in past.select(*FIELDS).collect()}


def _image(row: Any) -> tuple | None:
    return None if row is None else tuple(row[name] for name in FIELDS)


@check("12.2")
def one_orders_life(lab, life):
    """Let the function reconstruct seven made-up order histories from their shuffled changes."""
    lives = made_up_lives(random.Random())
    changes = lab.spark.createDataFrame(changes_of(lives), CHANGES).coalesce(1)
    for order, truth in lives.items():
        found = as_list(life(changes, order))
        told = f"For {order} you say {found}; it was {truth}."
        expect(
            found != truth[1:],
            "{} What is missing is its state before the first change: `before` of that change.",
            told,
        )
        expect(
            found[1:] == truth[1:] or Counter(found[1:]) != Counter(truth[1:]),
            "{} The rows of a feed come in no order that you may rely on: sort by `ts_ms`.",
            told,
        )
        expect(
            found.count(None) >= truth.count(None),
            "{} You lose a state in which it is not there: an erasure has no image after, and a "
            "new order none before, so no order_id there. Look in the other image, too.",
            told,
        )
        expect(found == truth, "{}", told)
    return "Seven lives, from birth to erasure, one of them with a second birth."


def made_up_lives(chosen: random.Random) -> dict[str, list[str | None]]:
    """Return order histories: states by order id; some ids are prefixes of others."""
    number = chosen.randint(2, 9)
    states: tuple[list[str | None], ...] = (
        ["new", "paid", "packed", "shipped", "returned"],
        ["new", "paid", "cancelled"],
        ["new", "paid", None],
        [None, "new", None],
        [None, "new", "paid", None, "new", "paid"],
        ["new", "paid"],
        ["new", "paid", "paid", "shipped"],  # a change that keeps the status
    )
    ids = [f"O-{number}{more}" for more in ("", "1", "11", "2", "21", "112", "22")]
    chosen.shuffle(ids)
    return dict(zip(ids, states, strict=True))


def changes_of(lives: dict[str, list[str | None]]) -> list[tuple]:
    """Return the changes in made-up order histories as rows of the feed, shuffled."""
    rows = []
    for order, states in lives.items():
        images = [(order, "C-1", state, 500) if state else None for state in states]
        rows += [_change(step, *pair) for step, pair in enumerate(pairwise(images))]
    random.shuffle(rows)
    return rows


def _change(number: int, before: Image | None, after: Image | None) -> tuple:
    """Return a row of the change feed; later changes have higher numbers."""
    op = "i" if before is None else "u" if after else "d"
    return op, f"2026112010{number:07}", before, after  # all within one second


@check("12.3")
def revenue_by_changes(lab, deltas):
    """Let the function compute revenue deltas of made-up changes; compare with a full recompute."""
    images = made_up_images(random.Random())
    rows = [_change(number, *pair) for number, pair in enumerate(images)]
    moved = deltas(lab.spark.createDataFrame(rows, CHANGES))
    expect(
        isinstance(moved, DataFrame),
        "Your function returns a {}. The job below joins its rows with a table, so it needs a "
        "DataFrame of Spark.",
        type_of(moved),
    )
    found = [(name, as_int(cents)) for name, cents in as_rows(moved, ("customer_id", "cents"))]
    by_name = {name: cents for name, cents in found if name is not None}
    expect(
        len({name for name, _ in found}) == len(found),
        "You have {} rows for {} customers: sum them, one row per customer.",
        len(found),
        len(by_name),
    )
    due = Counter({name: _revenue(images, 1, name) - _revenue(images, 0, name) for name in NAMES})
    off = {n: by_name.get(n, 0) - due[n] for n in {*by_name, *due}}
    off = {name: cents for name, cents in off.items() if cents}
    if off:
        raise NotYet(_why_off(images, sum(by_name.values()) - due.total(), off))
    expect(
        None not in dict(found),
        "All customers are right, but one row is without a customer: the image before an insert "
        "and the image after a delete. The job below could not write it.",
    )
    kind = dict(moved.dtypes)["cents"]
    expect(
        kind in ("bigint", "int"),
        "All customers are right, but `cents` has become {}, and the table of totals has BIGINT.",
        kind,
    )
    return f"All {len(NAMES)} customers are right. No order was read."


NAMES = ("C-101", "C-102", "C-103", "C-104", "C-105", "C-106")


def made_up_images(chosen: random.Random) -> list[tuple[Image | None, Image | None]]:
    """Return the images before and after changes of every kind, in random order."""
    made: list[tuple[Image | None, Image | None]] = [
        (None, ("O-99", NAMES[0], "cancelled", 100)),  # whose sum is 0, not NULL
        *((None, (order, NAMES[2], "new", 500)) for order in ("O-96", "O-97")),  # alike
    ]
    for number, (old, new) in enumerate(
        (
            (None, "new"), (None, "cancelled"), (None, "cancelled"), ("paid", "paid"),
            ("new", "paid"), ("paid", "cancelled"), ("cancelled", "paid"),
            ("cancelled", "cancelled"), ("paid", None), ("cancelled", None), ("new", "moved"),
            ("paid", "moved"), ("packed", "shipped"),
        )
    ):  # fmt: skip
        order, (at, to) = f"O-{number}", chosen.sample(NAMES[1:], 2)
        was, now = chosen.sample(range(10**6, 10**7), 2)
        if old and "cancelled" in (old, new):
            now = was  # a cancellation leaves the amount
        if new == "moved":
            after = (order, to, "paid", now)
        else:
            after = (order, at, new, now) if new else None
        made.append(((order, at, old, was) if old else None, after))
    steps = (("new", 700), ("paid", 900), ("cancelled", 900))
    images = [None, *(("O-98", NAMES[1], status, cents) for status, cents in steps)]
    made += pairwise(images)  # several changes of one order, none of which says it all
    chosen.shuffle(made)
    return made


def _revenue(images: list[tuple[Image | None, Image | None]], side: int, name: str = "") -> int:
    """Sum the revenue (cents) of the images before (0) or after (1), for one customer or all."""
    return sum(
        image[3]
        for pair in images
        if (image := pair[side]) and image[2] != "cancelled" and name in ("", image[1])
    )


def _why_off(images: list, excess: int, off: dict[str, int]) -> str:
    """Explain by how much an answer is wrong, and the mistake that causes it."""
    erased = _revenue([pair for pair in images if pair[1] is None], 0)

    def cancelled(side: int, only: bool) -> int:
        """Sum the cents of cancelled images; with `only`, of inserts or deletes alone."""
        chosen = [pair[side] for pair in images if not (only and pair[1 - side])]
        return sum(image[3] for image in chosen if image and image[2] == "cancelled")

    def forgotten(only: bool) -> set[int]:
        after, before = cancelled(1, only), cancelled(0, only)
        return {after, -before, after - before}

    told = f"{_wrong_by(excess)}; customers that are wrong: {len(off)}. "
    if excess == _revenue(images, 0):
        return told + (
            "An update brings the whole order again, not what was added: subtract `before` for u "
            "and d."
        )
    if excess in forgotten(only=False):
        return told + (
            "A cancel is an update that leaves the amount as it is, so after minus before is 0. "
            "Say what a cancelled image is worth, in both places."
        )
    if excess in forgotten(only=True):
        return told + (
            "An order may come in cancelled, and a cancelled one may be erased: it is worth "
            "nothing then, too."
        )
    if excess == erased:
        return told + (
            "An erasure has no image after: its customer and its worth stand in `before`."
        )
    if not excess:
        return told + (
            "An order may move to another customer: take its worth off the customer of `before`, "
            "and put it on that of `after`."
        )
    name = min(off)
    return f"{told}{name} for one: {_wrong_by(off[name]).lower()}."


def _wrong_by(cents: int) -> str:
    if not cents:
        return "The total is right"
    return f"Too {'high' if cents > 0 else 'low'} by {abs(cents) / 100:,.2f}"


@check("12.4")
def totals_with_their_bookmark(lab, write_totals):
    """Let the function change the totals of some customers, in two copies; one falls to 0."""
    for to_nothing in (True, False):
        path = scratch_copy(lab, _other_totals(lab), "totals")
        before = {row.customer_id: row for row in _totals(lab, path).collect()}
        falls, *others = random.sample(sorted(n for n, row in before.items() if row.cents), 3)
        moved = {name: random.randint(1, 9999) for name in (*others, STRANGER)}
        moved[falls] = -before[falls].cents if to_nothing else -random.randint(1, 9999)
        moved[others[0]] = 0  # an order came and was cancelled
        upto = f"2999{random.randint(10**12, 10**13 - 1)}"
        rows = lab.spark.createDataFrame(list(moved.items()), "customer_id STRING, cents BIGINT")
        instants = completed_instants(lab, path)
        with left_alone(lab, lab.path("revenue")):
            write_totals(rows, upto, path)
        after = {row.customer_id: row for row in _totals(lab, path).collect()}
        for name, cents in moved.items():
            old = before[name].cents if name in before else 0
            _expect_total(name, old, cents, after.get(name), upto)
        for name in before.keys() - moved:
            expect(
                after.get(name) == before[name],
                "{}, whom `moved` does not name, had {} cents up to {}; now the table says {} "
                "up to {}. Leave the others' rows alone.",
                *before[name],
                *(after.get(name) or ("", "no total", "no bookmark"))[1:],
            )
        due = [(name, after[name].cents, after[name].upto) for name in {**before, **moved}]
        expect_rows(rows_at(lab, path), lab.spark.createDataFrame(due, TOTALS), "customer_id")
        alone = "A job that dies between them leaves totals without their bookmark."
        expect_added(lab, path, instants, why=alone)
        expect(
            not any("/.hoodie/metadata/" in file.key for file in lab.files(path)),
            "The totals are right, but the table has a metadata table now, which the options "
            "`REVENUE` switch off. Write with them.",
        )
    return (
        "Totals have moved, one of them from nothing and one to 0, with their bookmark in one "
        "commit. Nobody else's row was changed."
    )


def _totals(lab, path: str) -> DataFrame:
    return rows_at(lab, path).select("customer_id", "cents", "upto")


def _expect_total(name: str, old: int, cents: int, row: Any, upto: str) -> None:
    """Check a customer's sum and the new bookmark."""
    expect(row, "{} has no row yet, and {} cents to begin with: the row is missing.", name, cents)
    expect(
        row.cents is not None,
        "The cents of {} are NULL: a sum with NULL is NULL. `coalesce`.",
        name,
    )
    expect(
        not old or row.cents != cents,
        "{} had {} cents, and {} came; now the table says {}. An upsert replaces the row: write "
        "the sum.",
        name,
        old,
        cents,
        row.cents,
    )
    expect(
        row.cents == old + cents,
        "{} had {} cents, and {} came; now the table says {}.",
        name,
        old,
        cents,
        row.cents,
    )
    expect(
        row.upto == upto,
        "{} has the right total, and the `upto` {}, not {}.",
        name,
        row.upto,
        upto,
    )


@cache  # of a call that was interrupted, nothing is used
def _other_totals(lab) -> str:
    """Return the path of a table like the lesson's `revenue`, with other cents and bookmarks.

    Customers with the newest bookmark have 0 cents. Its folder also has files with larger
    bookmarks and one customer more, from a write that is not on its timeline.
    """
    made, commits = scratch_copy(lab, lab.path("revenue"), "totals"), _commits(lab, 4)
    more, old = random.randint(100, 999), _totals(lab, made).collect()
    random.shuffle(old)
    for counted, extra in (commits[:3], more), (commits[-1:], 2 * more):
        uptos = [counted[n % len(counted)] for n in range(len(old))]
        rows = [
            (row.customer_id, 0 if upto == commits[2] else row.cents + extra, upto)
            for row, upto in zip(old, uptos, strict=True)
        ]
        if counted == commits[-1:]:
            rows.append((STRANGER, more, counted[0]))
        frame = lab.spark.createDataFrame(rows, TOTALS)
        frame.write.format("hudi").options(**REVENUE).mode("append").save(made)
    path = lab.scratch("other_totals")
    copy_table(lab, made, path, hidden=lab.xray(made).instants[-1:])
    return path


@check("12.5")
def where_the_next_run_begins(lab, begin_of_next_run):
    """Call the function for a copy of the lesson's totals, then when it has other bookmarks.

    A run that begins at the returned time must read exactly the changes not yet in the totals.
    """
    times, others = _times(lab, _commits(lab, 4)[-1]), _other_totals(lab)
    path, open_changes = scratch_copy(lab, lab.path("revenue"), "moved_on"), 0
    for where in "", "For a table of other totals: ":
        if where:
            store.delete_prefix(lab.endpoints, f"{store.key_of(path)}/")
            overlay_table(lab, others, path)
        begin = as_text(begin_of_next_run(path))
        upto = max(row.upto for row in _totals(lab, path).collect())
        due = [time for time in times if time > upto]  # the feed compares text, too
        missed = f"{sum(time <= begin for time in due)} of the {len(due)} open changes"
        misses = any(time <= begin for time in due)
        expect(
            not misses or begin[:1].isdigit(),
            "{}{!r} gives nothing at all, and no error: the feed compares it as text, and letters "
            "come after digits. Give a moment in digits.",
            where,
            begin,
        )
        expect(
            not (misses and where),
            "{}from {} on, {} would never be counted. A job that is started anew has no variable "
            "of this notebook: read the bookmark from the table that the function gets.",
            where,
            begin,
            missed,
        )
        expect(
            not misses,
            "From {} on, {} would never be counted. The job's own commit came after it: between "
            "reading and writing, the orders went on.",
            begin,
            missed,
        )
        again = sum(begin < time <= upto for time in times)
        expect(
            not again,
            "{}{} changes would count twice: they are in the totals already. A customer whom no "
            "change touched keeps an old `upto`.",
            where,
            again,
        )
        open_changes += len(due)
    return (
        f"{open_changes} open changes of two tables found, none counted twice. Totals and bookmark "
        "are one commit, so a crash cannot part them."
    )


def _commits(lab, count: int, table: str = "orders_cow") -> list[str]:
    """Return the requested times of the orders' commits: insert, payments, events and erasures.

    Raises:
        LabError: there are fewer than `count` commits, or the table has been cleaned.
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
    return commits


@cache
def _times(lab, newest: str) -> list[str]:
    """Return the times of all changes after the first commit."""
    changes = _feed(lab, "orders_cow", _commits(lab, 4)[0])
    return [row.ts_ms for row in changes.select("ts_ms").collect()]


def _feed(lab, table: str, begin: str) -> DataFrame:
    """Return the orders' change feed after a commit, by a CDC query."""
    return (
        lab.spark.read.format("hudi")
        .option("hoodie.datasource.query.type", "incremental")
        .option("hoodie.datasource.query.incremental.format", "cdc")
        .option("hoodie.datasource.read.begin.instanttime", begin)
        .load(lab.path(table))
    )
