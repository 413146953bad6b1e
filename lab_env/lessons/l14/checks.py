"""Checks of lesson 14: what the learner's query counted, lost, remembered, and wrote to a table.

Each runs the answer on a stream of its own, of one partition and a few batches, with event times
that are written down. So how many orders are late depends on the answer alone.
"""

import secrets
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

from lab_env.course.answers import Unreadable, kind_of
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.lessons.l14.arrivals import (
    NOON,
    PER_BATCH,
    Order,
    make_order,
    phone_orders,
    send_orders,
)
from lab_env.lessons.l14.crash import forget_last_commit
from lab_env.lessons.l14.quick import EXTRA_BATCHES, QUICK, finish, spark_settings
from lab_env.lessons.streams import in_batches, scratch_topic

SCHEMA = (
    "order_id STRING, customer_id STRING, amount DECIMAL(12,2), order_ts TIMESTAMP, "
    "sent_at TIMESTAMP"
)
MAY_LOSE = Decimal("0.005")  # of the revenue of the minutes that are final
FINAL_WITHIN = 12  # minutes of event time
ENDED = 0.7  # of all keys: more rows than that in state means that nothing ends, or late
AS_LATE = timedelta(minutes=2)  # as the orders of 14.3 may be
CLOCKS = ("minute", "start")  # columns that hold the beginning of a window

Minutes = dict[datetime, Decimal]


def minute_of(at: datetime) -> datetime:
    """The beginning of the minute that a time lies in."""
    return at.replace(second=0, microsecond=0)


def revenue_of(orders: Iterable[Order], clock_of: str = "order_ts") -> Minutes:
    """Revenue per minute in euro, counted without Spark.

    Args:
        orders: each of them once.
        clock_of: the time that counts.
    """
    cents: dict[datetime, int] = defaultdict(int)
    for order in orders:
        cents[minute_of(getattr(order, clock_of))] += order.cents
    return {minute: Decimal(total) / 100 for minute, total in sorted(cents.items())}


def clock(minute: datetime) -> str:
    """A time of the day as text, `12:04`."""
    return f"{minute:%H:%M}"


# --- running an answer on a stream -------------------------------------------------------------


def streamed(lab, orders: Sequence[Order], per_batch: int):
    """Send orders to a topic of their own; returns the stream that takes so many per batch."""
    from pyspark.sql import functions as F

    topic = scratch_topic(lab)
    send_orders(lab.endpoints.kafka_bootstrap, topic, orders)
    records = in_batches(lab, topic, per_batch)
    order = F.from_json(F.col("value").cast("string"), SCHEMA).alias("order")
    return records.select(order, "timestamp", "offset").select("order.*", "timestamp", "offset")


def at_rest(lab, orders: Iterable[Order]):
    """The same columns as those of `streamed`, as a table that a batch query reads."""
    from pyspark.sql import functions as F

    rows = [
        (o.order_id, o.customer_id, Decimal(o.cents) / 100, _text(o.order_ts), _text(o.sent_at))
        for o in orders
    ]
    texts = "order_id STRING, customer_id STRING, amount DECIMAL(12,2), made STRING, sent STRING"
    return (
        lab.spark.createDataFrame(rows, texts)
        .withColumn("order_ts", F.to_timestamp("made"))
        .withColumn("sent_at", F.to_timestamp("sent"))
        .withColumn("timestamp", F.col("sent_at"))
        .withColumn("offset", F.lit(0))
        .drop("made", "sent")
    )


def collected(lab, rows, output_mode: str) -> tuple[list[dict], Any]:
    """Run a streaming query until its source is read; returns its progress and what it emitted."""
    from pyspark.sql import DataFrame

    if not isinstance(rows, DataFrame) or not rows.isStreaming:
        raise Unreadable(
            f"Your function returned {kind_of(rows)}; the stream that it makes of `orders` is "
            "expected."
        )
    name = f"check_{secrets.token_hex(3)}"
    query = (
        rows.writeStream.format("memory")
        .queryName(name)
        .outputMode(output_mode)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    try:
        return list(query.recentProgress), lab.spark.table(name)
    finally:
        lab.spark.catalog.dropTempView(name)


def amounts_by(table, *columns: str) -> dict:
    """The largest `revenue` for each value of the columns: amounts only add up, so the last one.

    Args:
        table: a Spark table with a column `revenue`.
        columns: key columns; one of `CLOCKS` must be a timestamp, and comes back as a UTC time.
    """
    from pyspark.sql import functions as F

    needed = {*columns, "revenue"}
    if missing := needed - set(table.columns):
        raise Unreadable(
            f"Your result has the columns {', '.join(table.columns)}; missing: "
            f"{', '.join(sorted(missing))}."
        )
    keys = [
        F.col(name).cast("timestamp").cast("long").alias(name) if name in CLOCKS else F.col(name)
        for name in columns
    ]
    found: dict = {}
    for *key, revenue in table.select(*keys, "revenue").collect():
        values = [
            _utc(value) if name in CLOCKS else value
            for name, value in zip(columns, key, strict=True)
        ]
        group = tuple(values) if len(values) > 1 else values[0]
        found[group] = max(found.get(group, Decimal(0)), Decimal(str(revenue)))
    return found


def _utc(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)


# --- 14.1 --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Counted:
    """What a function made of orders at rest, and whether it works on a stream.

    Args:
        found: revenue per minute, as the answer says.
        orders: how many orders the answer counted in all.
        expected: revenue per minute of the event time.
        made: number of orders.
        arrived: revenue per minute of the arrival.
        refusal: what Spark said when the answer ran on a stream; empty if it ran.
    """

    found: Minutes
    orders: int
    expected: Minutes
    made: int
    arrived: Minutes
    refusal: str = ""


@check_of("14.1")
class RevenuePerMinute:
    """A function from orders to revenue per minute; runs on a table and on a stream."""

    @staticmethod
    def observe(lab, answer: Callable) -> Counted:
        """Run it on orders that arrived hours after they were made, and start it as a stream."""
        from pyspark.errors import AnalysisException
        from pyspark.sql import DataFrame
        from pyspark.sql import functions as F

        orders = some_orders(secrets.randbelow(1_000_000))
        returned = answer(at_rest(lab, orders))
        if not isinstance(returned, DataFrame):
            raise Unreadable(
                f"Your function returned {kind_of(returned)}; a DataFrame is expected."
            )
        if missing := {"minute", "revenue", "orders"} - set(returned.columns):
            raise Unreadable(
                f"Your result has the columns {', '.join(returned.columns)}; missing: "
                f"{', '.join(sorted(missing))}."
            )
        seconds = F.col("minute").cast("timestamp").cast("long")
        rows = returned.select(seconds, "revenue", "orders").collect()
        refusal = ""
        try:
            _start_and_stop(lab, answer)
        except AnalysisException as error:
            refusal = str(error).splitlines()[0].partition(";")[0]
        return Counted(
            {_utc(second): Decimal(str(revenue)) for second, revenue, _ in rows},
            sum(int(number) for *_, number in rows),
            revenue_of(orders),
            len(orders),
            revenue_of(orders, "sent_at"),
            refusal,
        )

    @staticmethod
    def judge(facts: Counted) -> Passed | NotYet:
        """Each minute to the cent, and a key that a stream can end."""
        total, answered = sum(facts.expected.values()), sum(facts.found.values())
        if facts.found == facts.arrived != facts.expected:
            return NotYet(
                f"Your {len(facts.found)} minutes are those in which the orders *arrived*. They "
                f"were made in {len(facts.expected)} other minutes: which column says so?"
            )
        if answered != total:
            return NotYet(
                f"Your minutes add up to {answered:,.2f} euro, the orders to {total:,.2f}. In how "
                "many of your windows does one order lie?"
            )
        if facts.found != facts.expected:
            return NotYet(
                f"The sum is right, but you have {len(facts.found)} windows; the orders were made "
                f"in {len(facts.expected)} different minutes, from "
                f"{clock(min(facts.expected))} to {clock(max(facts.expected))}."
            )
        if facts.orders != facts.made:
            return NotYet(
                f"Revenue is right. `orders` adds up to {facts.orders}, and {facts.made} orders "
                "were made."
            )
        if facts.refusal:
            return NotYet(
                "The numbers are right, and as a stream Spark refuses your function: "
                f'"{facts.refusal}". Group by the whole `F.window(...)`, and take its start after '
                "`agg`: only of a window does Spark know when it ends."
            )
        return Passed(f"{len(facts.found)} minutes, {total:,.2f} euro, and it runs on a stream.")


def some_orders(seed: int) -> list[Order]:
    """Sixty orders of two hours; they arrive within five minutes, three hours later."""
    rng = Random(seed)
    made = [NOON + timedelta(seconds=rng.randrange(7200)) for _ in range(60)]
    arrived = [NOON + timedelta(hours=3, seconds=rng.randrange(300)) for _ in range(60)]
    return [
        Order(f"O-{number}", f"C-{rng.randint(1, 9)}", rng.randint(100, 9000), at, later)
        for number, (at, later) in enumerate(zip(made, arrived, strict=True), 1)
    ]


def _text(at: datetime) -> str:
    return at.isoformat(sep=" ")


def _start_and_stop(lab, answer: Callable) -> None:
    """Start the answer on a stream without rows, with a watermark, in append mode."""
    nothing = (
        lab.spark.readStream.format("rate")
        .option("rowsPerSecond", 1)
        .load()
        .selectExpr(
            "CAST(value AS STRING) AS order_id",
            "'C-1' AS customer_id",
            "CAST(1 AS DECIMAL(12,2)) AS amount",
            "timestamp AS order_ts",
            "timestamp AS sent_at",
            "timestamp",
            "value AS offset",
        )
        .withWatermark("order_ts", "1 minute")
    )
    answer(nothing).writeStream.format("noop").outputMode("append").start().stop()


# --- 14.2 --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FinalMinutes:
    """What a query emitted of the phone app's stream.

    Args:
        emitted: revenue of each minute that became final.
        expected: revenue of each minute, late orders included.
        newest: event time of the newest order.
        dropped: orders of the final minutes that are missing.
        watermark: the last one of the query; None without one.
    """

    emitted: Minutes
    expected: Minutes
    newest: datetime
    dropped: int
    watermark: datetime | None

    @property
    def final(self) -> list[datetime]:
        """Minutes that are final: none of them is after the last one that was emitted."""
        return final_minutes(self.expected, self.emitted)

    @property
    def early(self) -> list[datetime]:
        """Minutes that were emitted although the watermark has not passed their end."""
        passed = self.watermark or datetime.min
        return [m for m in sorted(self.emitted) if m + timedelta(minutes=1) > passed]

    @property
    def lost(self) -> Decimal:
        """Euro that the final minutes lack."""
        return sum((self.expected[minute] for minute in self.final), Decimal(0)) - sum(
            self.emitted.values()
        )


def final_minutes(expected: Iterable[datetime], emitted: Iterable[datetime]) -> list[datetime]:
    """Minutes that an append query is done with; all orders of one may have come too late."""
    last = max(emitted, default=datetime.min)
    return [minute for minute in expected if minute <= last]


@check_of("14.2")
class FinalSoonEnough:
    """A query that emits final minutes only, loses little and does not keep readers waiting."""

    @staticmethod
    def observe(lab, answer: Callable) -> FinalMinutes:
        """Let the answer start its query on a hidden stream of the phone app."""
        orders = phone_orders(secrets.randbelow(1_000_000))
        name = f"check_{secrets.token_hex(3)}"
        with spark_settings(lab.spark, QUICK | {EXTRA_BATCHES: "true"}):
            query = finish(answer(streamed(lab, orders, PER_BATCH), name))
        if not lab.spark.catalog.tableExists(name):
            raise Unreadable(f"After your query there is no memory table `{name}`, the given name.")
        table = lab.spark.table(name)
        emitted = amounts_by(table, "minute")
        expected = revenue_of(orders)
        closed = set(final_minutes(expected, emitted))
        final = [order for order in orders if minute_of(order.order_ts) in closed]
        counted = len(final)
        if "orders" in table.columns:
            counted = sum(int(row["orders"]) for row in table.select("orders").collect())
        lab.spark.catalog.dropTempView(name)
        return FinalMinutes(
            emitted,
            expected,
            max(order.order_ts for order in orders),
            len(final) - counted,
            watermark_of(query.lastProgress or {}),
        )

    @staticmethod
    def judge(facts: FinalMinutes) -> Passed | NotYet:
        """Only final minutes; under half a percent lost; final after `FINAL_WITHIN` minutes."""
        if strange := sorted(set(facts.emitted) - set(facts.expected)):
            return NotYet(
                f"Your query emitted {clock(strange[0])}, in which nobody ordered: is the window "
                "one minute of `order_ts`?"
            )
        if facts.early:
            stands = f"stands at {facts.watermark:%H:%M:%S}" if facts.watermark else "is missing"
            return NotYet(
                f"Your query has emitted {clock(facts.early[0])}, and that minute is not final: "
                f"the watermark {stands}. Which output mode waits until a window has ended?"
            )
        if over := [m for m in facts.final if facts.emitted.get(m, 0) > facts.expected[m]]:
            more = facts.emitted[over[0]] - facts.expected[over[0]]
            return NotYet(
                f"{clock(over[0])} has {more:,.2f} euro more than was ordered. Does your query "
                "read `orders`?"
            )
        revenue = sum((facts.expected[minute] for minute in facts.final), Decimal(0))
        due = [
            minute
            for minute in facts.expected
            if minute + timedelta(minutes=1 + FINAL_WITHIN) <= facts.newest
        ]
        open_still = [minute for minute in due if minute not in facts.final]
        if revenue and facts.lost > MAY_LOSE * revenue:
            return NotYet(
                f"{facts.dropped} late orders were dropped, {facts.lost:,.2f} euro or "
                f"{facts.lost / revenue:.1%} of the revenue. Wait longer."
            )
        if open_still:
            lost = f"{facts.lost:,.2f} euro lost" if facts.lost else "Nothing lost"
            return NotYet(
                f"{lost}, but orders of {facts.newest:%H:%M} are there and {clock(open_still[0])} "
                f"is not final: it should be within {FINAL_WITHIN} minutes. Wait less."
            )
        return Passed(
            f"{len(facts.emitted)} minutes are final when orders of {facts.newest:%H:%M} are "
            f"there; they lack {facts.lost:,.2f} of {revenue:,.2f} euro."
        )


# --- 14.3 --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Remembered:
    """What a stateful query kept, batch by batch.

    Args:
        rows: rows in state after each batch.
        removed: rows that went from state in all batches.
        keys: different customers and minutes in the stream.
        right: whether each customer's minute has its revenue.
        windows: how many windows the answer made of orders at rest, of `OTHER_LENGTH` minutes.
        expected_windows: how many there are.
        right_windows: whether each of those has its revenue.
        watermark: by which the last batch is judged; None without a watermark.
        newest: newest `order_ts` of the batches before, which made that watermark; `sent_at` is an
            hour later.
    """

    rows: tuple[int, ...]
    removed: int
    keys: int
    right: bool
    watermark: datetime | None
    newest: datetime
    windows: int = 0
    expected_windows: int = 0
    right_windows: bool = True


@check_of("14.3")
class StateThatEnds:
    """Revenue per customer and window, with state that does not grow for ever."""

    @staticmethod
    def observe(lab, answer: Callable) -> Remembered:
        """Run the answer in update mode on four batches, ten minutes apart, of new customers."""
        orders = customers_come_and_go(secrets.randbelow(1_000_000))
        with spark_settings(lab.spark, QUICK | {EXTRA_BATCHES: "false"}):
            result = answer(streamed(lab, orders, COMING), "1 minute")
            progress, table = collected(lab, result, "update")
        expected = by_customer(orders, 1)
        others = some_orders(secrets.randbelow(1_000_000))
        windows = answer(at_rest(lab, others), f"{OTHER_LENGTH} minutes")
        if getattr(windows, "isStreaming", False):
            raise Unreadable("Given orders at rest, your function returned a stream: use `orders`.")
        found = amounts_by(windows, "customer_id", "start")
        due = by_customer(others, OTHER_LENGTH)
        batches = [batch for batch in progress if batch["numInputRows"]]
        if not batches[-1]["stateOperators"]:
            raise Unreadable("Your query keeps no state: it has no `groupBy`.")
        return Remembered(
            tuple(batch["stateOperators"][-1]["numRowsTotal"] for batch in batches),
            sum(batch["stateOperators"][-1]["numRowsRemoved"] for batch in batches),
            len(expected),
            amounts_by(table, "customer_id", "start") == expected,
            watermark_of(batches[-1]),
            max(order.order_ts for order in orders[:-COMING]),
            len(found),
            len(due),
            found == due,
        )

    @staticmethod
    def judge(facts: Remembered) -> Passed | NotYet:
        """Right sums, a watermark that waits for late orders, and state that ends."""
        grew = f"{facts.rows[-1]} of {facts.keys} rows stay in state"
        if not facts.right:
            return NotYet(
                "The revenue per customer and minute is not right: compare with "
                "`orders.groupBy('customer_id', F.window('order_ts', '1 minute'))`."
            )
        if facts.watermark is None:
            return NotYet(f"There is no watermark, so {grew}: nothing may ever be forgotten.")
        if facts.watermark > facts.newest:
            return NotYet(
                f"{grew}: the key's time has no watermark. Yours follows another column; it "
                f"stands at {facts.watermark:%H:%M}, made by orders up to {facts.newest:%H:%M}."
            )
        delay = facts.newest - facts.watermark
        if delay < AS_LATE:
            return NotYet(
                f"Your watermark is {delay.total_seconds():.0f} seconds behind the newest order. "
                "Orders come up to two minutes late, and would find their minute closed."
            )
        if facts.rows[-1] < ENDED * facts.keys:
            if not facts.right_windows:
                return NotYet(
                    f"With `length` {OTHER_LENGTH} minutes your {facts.windows} rows are not the "
                    f"{facts.expected_windows} that are expected: is the window as long as "
                    "`length` says?"
                )
            return Passed(
                f"After each batch: {', '.join(map(str, facts.rows))} rows in state, of "
                f"{facts.keys} that there were."
            )
        behind = f"your watermark is {delay.total_seconds() / 60:,.0f} minutes behind"
        if facts.removed:
            return NotYet(
                f"It ends, but late: {behind}, and {grew}. Orders come at most two minutes late."
            )
        if delay > timedelta(minutes=10):
            return NotYet(
                f"{grew}: {behind}. Nothing is old enough to be forgotten, and orders come at "
                "most two minutes late."
            )
        return NotYet(
            f"The watermark moves, and {grew}: to Spark your key holds no event time. Which "
            "function makes a key whose end Spark knows?"
        )


BATCHES, COMING = 4, 12
OTHER_LENGTH = 15  # minutes; the hidden windows of another length


def by_customer(orders: Iterable[Order], minutes: int) -> dict[tuple[str, datetime], Decimal]:
    """Revenue by customer and beginning of a window, counted without Spark.

    Args:
        orders: each of them once.
        minutes: length of a window; it divides an hour.
    """
    found: dict[tuple[str, datetime], Decimal] = defaultdict(Decimal)
    for order in orders:
        minute = minute_of(order.order_ts)
        start = minute.replace(minute=minute.minute // minutes * minutes)
        found[order.customer_id, start] += Decimal(order.cents) / 100
    return dict(found)


def customers_come_and_go(seed: int) -> list[Order]:
    """Four batches of twelve orders, ten minutes apart, by customers who do not come back.

    The device's clock, `sent_at`, is an hour ahead.
    """
    rng = Random(seed)
    orders = []
    for batch in range(BATCHES):
        for place in range(COMING):
            at = NOON + timedelta(minutes=10 * batch, seconds=rng.randrange(60))
            customer = f"C-{100 * batch + place * 2 // 3}"  # some come twice
            number = batch * COMING + place + 1
            orders.append(
                Order(f"O-{number}", customer, rng.randint(100, 9000), at, at + timedelta(hours=1))
            )
    return orders


def watermark_of(progress: Mapping) -> datetime | None:
    """The watermark that a batch reports; None if the query has none or it has not moved.

    Args:
        progress: one of `StreamingQuery.recentProgress`.
    """
    text = (progress.get("eventTime") or {}).get("watermark")
    if not text or text.startswith("1970"):
        return None
    return datetime.fromisoformat(text).replace(tzinfo=None)


# --- 14.4 --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Written:
    """A table of minutes after a stream, and after its last batch was done again.

    Args:
        expected: revenue per minute.
        first: the table after the stream.
        again: the table after the last batch's commit was deleted and the stream restarted.
        replayed: whether the restart did the last batch again.
        twice: minutes that stand in the table more than once, and how often.
    """

    expected: Minutes
    first: Minutes
    again: Minutes
    replayed: bool = True
    twice: Mapping[datetime, int] = field(default_factory=dict)


@check_of("14.4")
class SameAfterReplay:
    """A stream into a Hudi table that may do a batch twice."""

    @staticmethod
    def observe(lab, answer: Callable) -> Written:
        """Stream two batches into a new table, forget that the second was done, and restart."""
        orders = two_batches(secrets.randbelow(1_000_000))
        path, checkpoint = lab.scratch("minutes"), lab.scratch("checkpoint")
        with spark_settings(lab.spark, QUICK | {EXTRA_BATCHES: "false"}):
            stream = streamed(lab, orders, len(orders) // 2)
            finish(answer(stream, path, checkpoint))
            first, twice = _minutes_at(lab, path)
            expected = revenue_of(orders)
            if first != expected or twice:
                return Written(expected, first, {}, twice=twice)
            if not lab.files(f"{checkpoint}/commits"):
                raise Unreadable("No batch is committed at `checkpoint`.")
            last = forget_last_commit(lab, checkpoint)
            restarted = finish(answer(stream, path, checkpoint))
        replayed = any(batch["batchId"] == last for batch in restarted.recentProgress)
        again, twice = _minutes_at(lab, path)
        return Written(expected, first, again, replayed, twice)

    @staticmethod
    def judge(facts: Written) -> Passed | NotYet:
        """The same table both times, and the right one."""
        total = sum(facts.expected.values())
        missing = [minute for minute in facts.expected if minute not in facts.first]
        if missing:
            return NotYet(
                f"{len(facts.expected)} minutes counted, {len(facts.first)} in the table: "
                f"{clock(missing[0])} is gone. Does a batch add to the table, or replace it?"
            )
        if facts.twice:
            minute, times = min(facts.twice.items())
            return NotYet(
                f"{clock(minute)} stands {times} times in the table. What is the record key, and "
                "which operation replaces a row?"
            )
        if wrong := _differs(facts.first, facts.expected):
            return NotYet(
                f"After two batches {clock(wrong)} has {facts.first[wrong]} euro in the table, and "
                f"{facts.expected.get(wrong, Decimal(0))} were ordered. What does update mode "
                "deliver: an increase, or a total?"
            )
        if not facts.replayed:
            return NotYet(
                "The restart did not do the last batch again: is the checkpoint at `checkpoint`?"
            )
        if wrong := _differs(facts.again, facts.expected):
            return NotYet(
                f"The repeated batch counts twice: {clock(wrong)} had {facts.first[wrong]} euro, "
                f"and after the restart it has {facts.again.get(wrong, Decimal(0))}."
            )
        return Passed(
            f"{len(facts.again)} minutes, {total:,.2f} euro, before and after the repeated batch."
        )


def two_batches(seed: int) -> list[Order]:
    """Twelve orders of five minutes; a minute that the first six began goes on in the second."""
    rng = Random(seed)
    minutes = (0, 0, 1, 1, 2, 2, 2, 2, 3, 3, 4, 4)
    return [
        make_order(number, NOON + timedelta(minutes=minute, seconds=number), rng.randint(100, 9000))
        for number, minute in enumerate(minutes, 1)
    ]


def _minutes_at(lab, path: str) -> tuple[Minutes, dict[datetime, int]]:
    """Revenue per minute in a table, and the minutes that stand in it more than once."""
    if not lab.files(f"{path}/.hoodie"):
        raise Unreadable("There is no Hudi table at `path` after the stream.")
    table = lab.spark.read.format("hudi").load(path)
    minutes = amounts_by(table, "minute")
    seconds = table.selectExpr("CAST(CAST(minute AS TIMESTAMP) AS LONG)").collect()
    times = Counter(_utc(second) for (second,) in seconds)
    return minutes, {minute: number for minute, number in times.items() if number > 1}


def _differs(found: Minutes, expected: Minutes) -> datetime | None:
    """The first minute with another revenue than expected."""
    return next((m for m in sorted(found) if found[m] != expected.get(m)), None)
