"""Checks of lesson 14: results, lost orders and state of the learner's query, and its table.

Each runs the answer on its own stream with one partition, a few batches and fixed event times, so
the number of late orders depends on the answer alone.
"""

import secrets
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

from lab_env.course.answers import Unreadable, kind_of
from lab_env.course.checking import check, expect
from lab_env.lessons.boards import expect_decimal
from lab_env.lessons.l14.arrivals import (
    NOON,
    PER_BATCH,
    Order,
    make_order,
    phone_orders,
    send_orders,
)
from lab_env.lessons.l14.crash import forget_last_commit
from lab_env.lessons.l14.quick import EXTRA_BATCHES, QUICK, finish
from lab_env.lessons.rows import as_dataframe, rows_at
from lab_env.lessons.streams import in_batches, scratch_topic, spark_settings
from lab_env.lessons.timelines import expect_no_metadata

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
    """Return the beginning of the minute that contains a time."""
    return at.replace(second=0, microsecond=0)


def revenue_of(orders: Iterable[Order], clock_of: str = "order_ts") -> Minutes:
    """Return revenue per minute in euros, computed without Spark."""
    cents: dict[datetime, int] = defaultdict(int)
    for order in orders:
        cents[minute_of(getattr(order, clock_of))] += order.cents
    return {minute: Decimal(total) / 100 for minute, total in sorted(cents.items())}


def clock(minute: datetime) -> str:
    """Format a time of day, for example as `12:04`."""
    return f"{minute:%H:%M}"


# --- running an answer on a stream -------------------------------------------------------------


def streamed(lab, orders: Sequence[Order], per_batch: int):
    """Send orders to a new topic; return a stream that reads `per_batch` of them per batch."""
    from pyspark.sql import functions as F

    topic = scratch_topic(lab)
    send_orders(lab.endpoints.kafka_bootstrap, topic, orders)
    records = in_batches(lab, topic, per_batch)
    order = F.from_json(F.col("value").cast("string"), SCHEMA).alias("order")
    return records.select(order, "timestamp", "offset").select("order.*", "timestamp", "offset")


def at_rest(lab, orders: Iterable[Order]):
    """Return a batch DataFrame with the same columns as `streamed`."""
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
    """Run a streaming query until it has read its source; return its progress and its output."""
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
    """Return the largest `revenue` per key, which is the final one, because sums only grow.

    Args:
        table: a Spark table with a column `revenue`.
        columns: key columns; those in `CLOCKS` must be timestamps, and are returned in UTC.
    """
    from pyspark.sql import functions as F

    needed = {*columns, "revenue"}
    if missing := needed - set(table.columns):
        raise Unreadable(
            f"Your result has the columns {', '.join(table.columns)}; missing: "
            f"{', '.join(sorted(missing))}."
        )
    keys = [
        microseconds(table, name) if name in CLOCKS else F.col(name).alias(name) for name in columns
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


def microseconds(table, clock: str):
    """Return a timestamp column in microseconds since 1970, so the driver's zone plays no part.

    Raises:
        Unreadable: the column is of another type.
    """
    from pyspark.sql import functions as F

    kind = table.schema[clock].dataType.simpleString()
    if kind not in ("timestamp", "timestamp_ntz"):
        raise Unreadable(f"Your column `{clock}` is a {kind}; a timestamp is expected.")
    return F.unix_micros(F.col(clock).cast("timestamp")).alias(clock)


def _utc(since_1970: int) -> datetime:
    return datetime(1970, 1, 1) + timedelta(microseconds=since_1970)


@check("14.1")
def revenue_per_minute(lab, answer):
    """Run the answer on a stream, and on a batch of orders that arrived hours late."""
    from pyspark.errors import AnalysisException

    orders = some_orders(secrets.randbelow(1_000_000))
    returned = as_dataframe(answer(at_rest(lab, orders)), "the minutes")
    _expect_columns(returned, "minute", "revenue", "orders")
    rows = returned.select(microseconds(returned, "minute"), "revenue", "orders").collect()
    found = {_utc(minute): Decimal(str(revenue)) for minute, revenue, _ in rows}
    right, total = revenue_of(orders), sum(revenue_of(orders).values())
    expect(
        found != revenue_of(orders, "sent_at"),
        "Your {} minutes are those in which the orders *arrived*. They were made in {} other "
        "minutes: which column says so?",
        len(found),
        len(right),
    )
    answered = sum(Decimal(str(revenue)) for _, revenue, _ in rows)
    expect(
        answered == total,
        "Your minutes add up to {:,.2f} euro, the orders to {:,.2f}. In how many of your windows "
        "does one order lie?",
        answered,
        total,
    )
    expect(
        found == right and len(rows) == len(found),
        "The sum is right, but you have {} windows; the orders were made in {} different minutes, "
        "from {} to {}.",
        len(rows),
        len(right),
        clock(min(right)),
        clock(max(right)),
    )
    numbers = {_utc(minute): int(number) for minute, _, number in rows}
    expect(
        numbers == Counter(minute_of(order.order_ts) for order in orders),
        "Revenue is right. `orders` adds up to {}, and {} orders were made; each minute has its "
        "own number.",
        sum(numbers.values()),
        len(orders),
    )
    expect_decimal(returned)
    try:
        _start_and_stop(lab, answer)
    except AnalysisException as error:
        said = str(error).splitlines()[0].partition(";")[0]
        expect(
            False,
            "The numbers are right, and as a stream Spark refuses your function: {!r}. Group by "
            "the whole `F.window(...)`, and take its start after `agg`: only of a window does "
            "Spark know when it ends.",
            said,
        )
    return f"{len(found)} minutes, {total:,.2f} euro, and it runs on a stream."


def _expect_columns(rows, *due: str) -> None:
    missing, more = set(due) - set(rows.columns), sorted(set(rows.columns) - set(due))
    expect(not missing, "Your result lacks the columns {}.", ", ".join(sorted(missing)))
    expect(not more, "Your result has columns that nobody asked for: {}.", ", ".join(more))


def some_orders(seed: int) -> list[Order]:
    """Return sixty orders, made within two hours, that arrive three hours later in five minutes.

    The first one is for nothing, as with a voucher.
    """
    rng = Random(seed)
    made = [NOON + timedelta(seconds=rng.randrange(7200)) for _ in range(60)]
    arrived = [NOON + timedelta(hours=3, seconds=rng.randrange(300)) for _ in range(60)]
    return [
        Order(
            f"O-{number}",
            f"C-{rng.randint(1, 9)}",
            rng.randint(100, 9000) if number > 1 else 0,
            at,
            later,
        )
        for number, (at, later) in enumerate(zip(made, arrived, strict=True), 1)
    ]


def _text(at: datetime) -> str:
    return at.isoformat(sep=" ")


def _start_and_stop(lab, answer: Callable) -> None:
    """Start the answer on a stream with a watermark, in append mode, and stop it immediately."""
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


@check("14.2")
def final_soon_enough(lab, start_final):
    """Run the query on a hidden stream; `judge_final` tests the result."""
    orders = phone_orders(secrets.randbelow(1_000_000))
    name = f"check_{secrets.token_hex(3)}"
    with spark_settings(lab.spark, QUICK | {EXTRA_BATCHES: "true"}):
        query = finish(start_final(streamed(lab, orders, PER_BATCH), name))
    if not lab.spark.catalog.tableExists(name):
        raise Unreadable(f"After your query there is no memory table `{name}`, the given name.")
    table = lab.spark.table(name)
    emitted, times = amounts_by(table, "minute"), table.count()
    counted = None
    if "orders" in table.columns:
        counted = sum(int(row["orders"]) for row in table.select("orders").collect())
    lab.spark.catalog.dropTempView(name)
    lost = judge_final(orders, emitted, watermark_of(query.lastProgress or {}), counted)
    expect(
        times == len(emitted), "{} rows for {} minutes: each is emitted once.", times, len(emitted)
    )
    return f"{len(emitted)} minutes are final, and they lack {lost:,.2f} euro."


def judge_final(
    orders: Sequence[Order],
    emitted: Minutes,
    watermark: datetime | None,
    counted: int | None = None,
) -> Decimal:
    """Check that only final minutes were emitted, soon enough, and with little revenue lost.

    Args:
        orders: the stream's orders, in the sequence of their arrival.
        watermark: the query's last watermark; None if it has none.
        counted: orders in the emitted minutes, if the answer counts them.

    Returns:
        Revenue missing from the final minutes, in euros.

    Raises:
        NotYet: a condition does not hold.
    """
    right, newest = revenue_of(orders), max(order.order_ts for order in orders)
    final = final_minutes(right, emitted)
    strange = sorted(set(emitted) - set(right))
    expect(
        not strange,
        "Your query emitted {}, in which nobody ordered: is the window one minute of `order_ts`?",
        clock(strange[0]) if strange else "",
    )
    early = [m for m in sorted(emitted) if m + timedelta(minutes=1) > (watermark or datetime.min)]
    expect(
        not early,
        "Your query has emitted {}, and that minute is not final: the watermark {}. Which output "
        "mode waits until a window has ended?",
        clock(early[0]) if early else "",
        f"stands at {watermark:%H:%M:%S}" if watermark else "is missing",
    )
    over = [minute for minute in final if emitted.get(minute, 0) > right[minute]]
    expect(
        not over,
        "{} has more euro than were ordered. Does your query read `orders`?",
        clock(over[0]) if over else "",
    )
    revenue = sum((right[minute] for minute in final), Decimal(0))
    lost = revenue - sum(emitted.values())
    made = sum(minute_of(order.order_ts) in final for order in orders)
    expect(
        lost <= MAY_LOSE * revenue,
        "{} late orders were dropped, {:,.2f} euro or {:.1%} of the revenue. Wait longer.",
        "Some" if counted is None else made - counted,
        lost,
        lost / revenue if revenue else 0,
    )
    wait = timedelta(minutes=1 + FINAL_WITHIN)
    still = [m for m in right if m + wait <= newest and m not in final]
    expect(
        not still,
        "{}, but orders of {:%H:%M} are there and {} is not final: it should be within {} minutes. "
        "Wait less.",
        f"{lost:,.2f} euro lost" if lost else "Nothing lost",
        newest,
        clock(still[0]) if still else "",
        FINAL_WITHIN,
    )
    return lost


def final_minutes(expected: Iterable[datetime], emitted: Iterable[datetime]) -> list[datetime]:
    """Return the minutes that are final in an append query's output.

    A final minute may not have been emitted, because all of its orders may have been too late.
    """
    last = max(emitted, default=datetime.min)
    return [minute for minute in expected if minute <= last]


@check("14.3")
def state_that_ends(lab, per_customer):
    """Run the answer on four streamed batches, then on batch data with two window lengths."""
    orders = customers_come_and_go(secrets.randbelow(1_000_000))
    with spark_settings(lab.spark, QUICK | {EXTRA_BATCHES: "false"}):
        progress, table = collected(
            lab, per_customer(streamed(lab, orders, COMING), "1 minute"), "update"
        )
    right = by_customer(orders, 1)
    expect(
        amounts_by(table, "customer_id", "start") == right,
        "The revenue per customer and minute is not right: compare with "
        "`orders.groupBy('customer_id', F.window('order_ts', '1 minute'))`.",
    )
    expect(
        table.count() == table.distinct().count(),
        "The revenue is right, but your stream delivers rows twice in a batch.",
    )
    batches = [batch for batch in progress if batch["numInputRows"]]
    if not batches[-1]["stateOperators"]:
        raise Unreadable("Your query keeps no state: it has no `groupBy`.")
    state = [batch["stateOperators"][-1] for batch in batches]
    rows = [operator["numRowsTotal"] for operator in state]
    removed = any(operator["numRowsRemoved"] for operator in state)
    newest = max(order.order_ts for order in orders[:-COMING])  # it made the last watermark
    judge_state(rows, removed, len(right), watermark_of(batches[-1]), newest)
    others = some_orders(secrets.randbelow(1_000_000))
    for minutes in (OTHER_LENGTH, 1):
        windows = as_dataframe(per_customer(at_rest(lab, others), f"{minutes} minutes"), "the rows")
        expect(not windows.isStreaming, "Given orders at rest, you return a stream: use `orders`.")
        found, due = amounts_by(windows, "customer_id", "start"), by_customer(others, minutes)
        expect(
            found == due and windows.count() == len(due),
            "With `length` {} minutes your {} rows are not the {} that are expected: is the window "
            "as long as `length` says?",
            minutes,
            len(found),
            len(due),
        )
    _expect_columns(windows, "customer_id", "start", "revenue")
    expect_decimal(windows)
    return f"After each batch: {', '.join(map(str, rows))} rows in state, of {len(right)} in all."


def judge_state(
    rows: Sequence[int], removed: bool, keys: int, watermark: datetime | None, newest: datetime
) -> None:
    """Check that the watermark waits for late orders and that old state is removed.

    Args:
        rows: number of rows in state after each batch.
        removed: True if any rows were removed from the state.
        keys: number of distinct pairs of customer and minute in the stream.
        watermark: the watermark of the last batch; None if there is none.
        newest: newest `order_ts` before the last batch, which determines the watermark; `sent_at`
            is an hour later.

    Raises:
        NotYet: a condition does not hold.
    """
    grew = f"{rows[-1]} of {keys} rows stay in state"
    expect(watermark, "There is no watermark, so {}: nothing may ever be forgotten.", grew)
    assert watermark
    expect(
        watermark <= newest,
        "{}: the key's time has no watermark. Yours follows another column; it stands at {:%H:%M}, "
        "made by orders up to {:%H:%M}.",
        grew,
        watermark,
        newest,
    )
    delay = newest - watermark
    expect(
        delay >= AS_LATE,
        "Your watermark is {:.0f} seconds behind the newest order. Orders come up to two minutes "
        "late, and would find their minute closed.",
        delay.total_seconds(),
    )
    ended = rows[-1] < ENDED * keys
    minutes = f"{delay.total_seconds() / 60:,.0f} minutes behind"
    expect(
        ended or not removed,
        "It ends, but late: your watermark is {}, and {}. Orders come at most two minutes late.",
        minutes,
        grew,
    )
    expect(
        ended or delay <= timedelta(minutes=10),
        "{}: your watermark is {}. Nothing is old enough to be forgotten, and orders come at most "
        "two minutes late.",
        grew,
        minutes,
    )
    expect(
        ended,
        "The watermark moves, and {}: to Spark your key holds no event time. Which function makes "
        "a key whose end Spark knows?",
        grew,
    )


BATCHES, COMING = 4, 12
OTHER_LENGTH = 15  # minutes; the hidden windows of another length


def by_customer(orders: Iterable[Order], minutes: int) -> dict[tuple[str, datetime], Decimal]:
    """Return revenue in euros by customer and window start, computed without Spark.

    Args:
        minutes: length of a window; must divide 60.
    """
    found: dict[tuple[str, datetime], Decimal] = defaultdict(Decimal)
    for order in orders:
        minute = minute_of(order.order_ts)
        start = minute.replace(minute=minute.minute // minutes * minutes)
        found[order.customer_id, start] += Decimal(order.cents) / 100
    return dict(found)


def customers_come_and_go(seed: int) -> list[Order]:
    """Return four batches of twelve orders, half an hour apart; each batch has other customers.

    The device's clock, `sent_at`, is an hour ahead.
    """
    rng = Random(seed)
    orders = []
    for batch in range(BATCHES):
        for place in range(COMING):
            at = NOON + timedelta(minutes=30 * batch, seconds=rng.randrange(60))
            customer = f"C-{100 * batch + place * 2 // 3}"  # some come twice
            number = batch * COMING + place + 1
            orders.append(
                Order(f"O-{number}", customer, rng.randint(100, 9000), at, at + timedelta(hours=1))
            )
    return orders


def watermark_of(progress: Mapping) -> datetime | None:
    """Return a batch's watermark; None if there is none or it has not moved.

    Args:
        progress: an item of `StreamingQuery.recentProgress`.
    """
    text = (progress.get("eventTime") or {}).get("watermark")
    if not text or text.startswith("1970"):
        return None
    return datetime.fromisoformat(text).replace(tzinfo=None)


@check("14.4")
def same_after_replay(lab, start_board):
    """Stream two batches into a new table, delete the second batch's commit file, and restart."""
    orders = two_batches(secrets.randbelow(1_000_000))
    right, total = revenue_of(orders), sum(revenue_of(orders).values())
    path, checkpoint = lab.scratch("minutes"), lab.scratch("checkpoint")
    with spark_settings(lab.spark, QUICK | {EXTRA_BATCHES: "false"}):
        stream = streamed(lab, orders, len(orders) // 2)
        query = finish(start_board(stream, path, checkpoint))
        first = _minutes_at(lab, path, right)
        wrong = _differs(first, right)
        expect(
            not wrong,
            "After two batches {} has {} euro in the table, and {} were ordered. What does update "
            "mode deliver: an increase, or a total?",
            *_compared(wrong, first, right),
        )
        finished = {minute_of(order.order_ts) for order in orders[: len(orders) // 2]}
        finished -= {minute_of(order.order_ts) for order in orders[len(orders) // 2 :]}
        again = sorted(finished & _newest_write(lab, path))
        expect(
            not again,
            "Your second batch has written {} again, and no order came for it: complete mode "
            "delivers every minute of the day in each batch, and its state never ends.",
            clock(again[0]) if again else "",
        )
        made_before = [order.order_ts for order in orders[: len(orders) // 2]]
        batch = [batch for batch in query.recentProgress if batch["numInputRows"]][-1]
        late = max(made_before) - (watermark_of(batch) or datetime.max)
        expect(
            late >= AS_LATE,
            "The minutes are right, but the state of your count {}: it needs a watermark of two "
            "minutes.",
            "does not wait for late orders" if watermark_of(batch) else "never ends",
        )
        expect_no_metadata(lab, path, "MINUTES")
        if not lab.files(f"{checkpoint}/commits"):
            raise Unreadable("No batch is committed at `checkpoint`.")
        last = forget_last_commit(lab, checkpoint)
        restarted = finish(start_board(stream, path, checkpoint))
    expect(
        any(batch["batchId"] == last for batch in restarted.recentProgress),
        "The restart did not do the last batch again: is the checkpoint at `checkpoint`?",
    )
    second = _minutes_at(lab, path, right)
    wrong = _differs(second, right)
    expect(
        not wrong,
        "The repeated batch counts twice: {} has {} euro after the restart, and {} were ordered.",
        *_compared(wrong, second, right),
    )
    return f"{len(second)} minutes, {total:,.2f} euro, before and after the repeated batch."


def two_batches(seed: int) -> list[Order]:
    """Return twelve orders for two batches of six; one minute occurs in both batches."""
    rng = Random(seed)
    minutes = (0, 0, 1, 1, 2, 2, 2, 2, 3, 3, 4, 4)
    return [
        make_order(number, NOON + timedelta(minutes=minute, seconds=number), rng.randint(100, 9000))
        for number, minute in enumerate(minutes, 1)
    ]


def _minutes_at(lab, path: str, right: Minutes) -> Minutes:
    """Return a table's revenue per minute; check that it has exactly one row per minute."""
    if not lab.files(f"{path}/.hoodie"):
        raise Unreadable("There is no Hudi table at `path` after the stream.")
    table = rows_at(lab, path)
    minutes = amounts_by(table, "minute")
    missing = [minute for minute in right if minute not in minutes]
    expect(
        not missing,
        "{} minutes counted, {} in the table: {} is gone. Does a batch add to the table, or "
        "replace it?",
        len(right),
        len(minutes),
        clock(missing[0]) if missing else "",
    )
    stored = table.select(microseconds(table, "minute")).collect()
    (minute, times), *_ = Counter(_utc(at) for (at,) in stored).most_common()
    expect(
        times == 1,
        "{} stands {} times in the table. What is the record key, and which operation replaces a "
        "row?",
        clock(minute),
        times,
    )
    return minutes


def _newest_write(lab, path: str) -> set[datetime]:
    """Return the minutes whose row was written by the newest write."""
    newest = max(lab.xray(path).completed_writes)
    rows = rows_at(lab, path).where(f"_hoodie_commit_time = '{newest}'")
    return {_utc(at) for (at,) in rows.select(microseconds(rows, "minute")).collect()}


def _compared(minute: datetime | None, found: Minutes, right: Minutes) -> tuple:
    if minute is None:
        return "", 0, 0
    return clock(minute), found.get(minute, Decimal(0)), right.get(minute, Decimal(0))


def _differs(found: Minutes, right: Minutes) -> datetime | None:
    """Return the first minute with a wrong revenue; None if there is none."""
    return next((m for m in sorted(found) if found[m] != right.get(m)), None)
