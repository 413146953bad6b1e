"""Checks of lesson 16: the unknown fields that an alarm reports, and a table's rows after a write.

The expected values come from the topic, read without Spark, and from the table before the write.
"""

import json
import random
from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lab_env.course.answers import kind_of
from lab_env.course.checking import check, expect
from lab_env.course.traces import session_left_as_found
from lab_env.lessons.hudi_rs import rows_of
from lab_env.lessons.l16.figures import counts_of, send_events
from lab_env.lessons.rows import expect_rows, named, rows_at, without_hudis
from lab_env.lessons.streams import in_batches, own_streams_stopped, scratch_topic, started
from lab_env.lessons.table_copies import copy_table, left_alone, scratch_copy
from lab_env.lessons.timelines import completed_instants, expect_added
from lab_env.pipeline.options import DEMO_OPTIONS, KEYS
from lab_env.platform.brokers.topics import read_topic

KNOWN = ("order_id", "status", "amount", "delivery")
EVENT_V2 = (
    "order_id STRING, status STRING, amount DECIMAL(12,2), items INT, weight DOUBLE, "
    "delivery STRUCT<city: STRING>, order_ts TIMESTAMP, partition_date STRING, coupon STRING"
)
NAMES = ("gift_note", "channel", "loyalty_points", "voucher", "carrier")
OF_LESSON = "weight"  # a column of the lesson that the check does not call known
MALFORMED = ('{"order_id":"O-98","amount":"EUR 59.90"}', "ERROR checkout")
QUERY_TIMEOUT_S = 60
WRITER = KEYS | DEMO_OPTIONS | {"hoodie.table.name": "orders"}


@check("16.1")
def names_unknown_fields(lab, unknown_fields):
    """Call the function for twenty events of ten orders, and for malformed ones."""
    chosen = random.Random()
    *names, given = chosen.sample(NAMES, 3)
    known = [*KNOWN, given]  # other names than the lesson's
    carried = dict(zip((OF_LESSON, *names, "status_code"), (1, 7, 12, 4), strict=True))
    texts = list(MALFORMED)
    for number in range(20):
        event = {"order_id": f"O-{number // 2}", "status": "new", "amount": 59.9, given: 1}
        event["delivery"] = {"city": "Ulm", "floor": 3}
        new = [name for name, count in carried.items() if number < count]
        values = ["a", 7, [1], {"b": 2}, None]
        texts.append(json.dumps(event | {name: chosen.choice(values) for name in new}))
    rows = [(bytearray(text, "utf-8"),) for text in texts]
    records = lab.spark.createDataFrame(rows, "value BINARY")
    counts = counts_of(unknown_fields(records, list(known)))
    due = _counted(carried)
    expect(
        counts,
        "None, you say: `from_json` dropped it before you looked. The check's events carry {}. "
        "Look at the text, not at the parsed columns.",
        due,
    )
    expect(
        not counts.keys() & set(MALFORMED),
        "You return the text of malformed events. An extra field is no error: the events that "
        "carry {} are valid.",
        due,
    )
    old = counts.keys() & {*known}
    expect(not old, "{}: the check called it known, and known fields are no news.", named(old))
    said = _counted(counts)
    expect(counts == carried, "Your function names {}; the check's events carry {}.", said, due)
    return f"{named(carried)}: named and counted. Ask it after each batch, or once an hour."


def _counted(counts: dict[str, int]) -> str:
    return named(f"{name[:40]} ({count})" for name, count in list(counts.items())[:4])


@check("16.2")
def fills_in_coupons(lab, backfill):
    """Let the function backfill two copies of the table, each with a copy of the checkpoint."""
    messages = read_topic(lab.endpoints.kafka_bootstrap, lab.topic("orders"))
    events = [json.loads(message.value() or b"") for message in messages]
    sent = {(event["order_id"], event.get("coupon")) for event in events}
    # A replay leaves what the newest event says: later in the lesson some name no coupon.
    in_order = sorted(events, key=lambda event: event["order_ts"])
    newest = {event["order_id"]: event.get("coupon") for event in in_order}
    due = {order: coupon for order, coupon in newest.items() if coupon}
    for _ in range(2):
        path = scratch_copy(lab, lab.path("orders"), "backfill")
        checkpoint = scratch_copy(lab, lab.path("_checkpoints/orders"), "checkpoint")
        commits, before = lab.xray(path).completed_writes.keys(), rows_of(path)
        instants = completed_instants(lab, path)
        queries, progress = _first_batches(lab), {*lab.files(checkpoint)}
        with (
            left_alone(lab, lab.path("orders")),
            own_streams_stopped(lab.spark, QUERY_TIMEOUT_S) as stopped,
        ):
            backfill(path, checkpoint)
        expect(
            not stopped.at_all,
            "Your stream was still running when your function returned, or after {} s. Take the "
            "trigger that ends, and wait for the end.",
            QUERY_TIMEOUT_S,
        )
        after, (lost, new) = rows_of(path), _commits_lost_and_new(lab, path, commits)
        expect(
            not lost,
            "You have replaced the table: {} commits are gone, and with them time travel and what "
            "streams go by. A backfill upserts.",
            lost,
        )
        sizes = before.num_rows, after.num_rows
        expect(
            sizes[0] == sizes[1],
            "The table had {} rows and has {} now. A replay has to upsert.",
            *sizes,
        )
        _expect_same_columns(before, after)
        coupons = dict(_coupons(after))
        invented = {pair for pair in coupons.items() if pair[1] is not None} - sent
        expect(not invented, "{} have a coupon that no event of theirs names.", len(invented))
        missing = sum(coupons.get(order) != coupon for order, coupon in due.items())
        expect(
            not (missing and new),
            "{} commits more, and {} orders still lack their coupon. Did you parse with EVENT_V2, "
            "from the earliest offset?",
            new,
            missing,
        )
        expect(
            not (missing and _first_batches(lab) > queries),
            "Nothing was filled: your query began at batch 0, and Hudi skips batch numbers it "
            "knows. The table remembers the last batch of this writer; the name under which it "
            "does so is an option.",
        )
        expect(
            not missing,
            "{} earlier orders stay empty: their events lie before the offset at which this "
            "checkpoint goes on.",
            missing,
        )
        old, found = _by_order(before.drop(["coupon"])), _by_order(after.drop(["coupon"]))
        changed = [order for order, row in old.items() if found.get(order) != row]
        expect(not changed, "Not only coupons changed, but other columns of {}.", named(changed))
        expect(
            progress <= {*lab.files(checkpoint)},
            "The coupons are there, but you have changed the checkpoint of the table's stream, "
            "which would begin anew. Give your query a checkpoint of its own.",
        )
        expect_added(lab, path, instants, writes=new)
        expect(not _empty(lab, path, commits), "A commit of your backfill is empty.")
    return f"All {len(due)} coupons are in the table."


def _commits_lost_and_new(lab, path: str, before) -> tuple[int, int]:
    after = lab.xray(path).completed_writes.keys()
    return len(before - after), len(after - before)


def _empty(lab, path: str, before) -> set[str]:
    """Return the commits since `before` that changed no row."""
    table = lab.xray(path)
    new = map(table.commit, table.completed_writes.keys() - before)
    return {commit.requested for commit in new if not commit.inserted + commit.updated}


def _first_batches(lab) -> int:
    """Count this lesson's checkpoints that have a batch 0."""
    return sum(found.key.endswith("/offsets/0") for found in lab.files(lab.base))


def _expect_same_columns(before: pa.Table, after: pa.Table) -> None:
    old, new = ({field.name: str(field.type) for field in rows.schema} for rows in (before, after))
    other = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    expect(
        not other,
        "The table's schema has changed, in {}: a writer that does not know that is refused.",
        named(other),
    )


def _coupons(rows: pa.Table) -> list[tuple[str, str | None]]:
    columns = (rows[name].to_pylist() for name in ("order_id", "coupon"))
    return sorted(zip(*columns, strict=True), key=str)


def _by_order(rows: pa.Table) -> dict[str, dict]:
    """Return rows by order id, without Hudi's columns."""
    own = rows.drop([name for name in rows.column_names if name.startswith("_hoodie_")])
    return {row["order_id"]: row for row in own.to_pylist()}


@check("16.3")
def two_app_versions(lab, keep_coupons):
    """Stream updates by both app versions into two copies, once in one batch and once in two."""
    for batches in (1, 2):
        path, checkpoint = scratch_copy(lab, lab.path("orders"), "versions"), lab.scratch("check")
        commits, before = lab.xray(path).completed_writes.keys(), rows_of(path)
        due = _by_order(before)
        first, second = _updates(random.Random(), list(due.values()))
        changes = [*first, *second] if batches == 2 else first
        silent = {order for order, row in due.items() if row["coupon"]}
        stream = _streamed(lab, changes, len(first))
        with (
            left_alone(lab, lab.path("orders")),
            own_streams_stopped(lab.spark, QUERY_TIMEOUT_S) as stopped,
        ):
            started(keep_coupons(stream, path, checkpoint)).awaitTermination()
        expect(
            not stopped.late,
            "Your query was still running after {} s: the trigger `availableNow` ends it when it "
            "has read everything.",
            QUERY_TIMEOUT_S,
        )
        expect(lab.files(f"{checkpoint}/commits"), "No batch is committed at `checkpoint`.")
        expect(
            _commits_lost_and_new(lab, path, commits)[1],
            "Your stream has ended, and the table at `path` has no new commit. It is another path "
            "at each call.",
        )
        for change in changes:
            kept = due.get(change["order_id"], change)["coupon"]
            due[change["order_id"]] = change | {"coupon": change["coupon"] or kept}
        after = rows_of(path)
        _expect_same_columns(before, after)
        found = _by_order(after)
        for order in dict.fromkeys(change["order_id"] for change in changes):
            _expect_updated(order, due[order], found.get(order), order in silent)
        rest = [order for order, row in due.items() if found.get(order) != row]
        expect(not rest, "No change was about {}, which is now another.", named(rest[:4]))
        twice = after.num_rows - len(due)
        expect(not twice, "The table has {} rows too many: orders are there twice.", twice)
    return "Ten updates by the old app, and every coupon survived."


def _expect_updated(order: str, due: dict, found: dict | None, had_one: bool) -> None:
    """Check that an order matches its newest change and has kept its coupon."""
    expect(found, "{} is not in the table: a new order is inserted.", order)
    assert found is not None
    lost = due["coupon"] and not found["coupon"]
    expect(
        not (lost and had_one),
        "{} lost its coupon {}: the old app does not know the field, and your write took its "
        "silence for an answer.",
        order,
        due["coupon"],
    )
    expect(
        not (lost and due["status"] == "returned"),
        "{} lost the coupon {} that the first batch wrote: the second one did not see it. When "
        "does your stream read the table?",
        order,
        due["coupon"],
    )
    expect(
        found["status"] == due["status"],
        "{} is still {}; an update says {}. The old app knows nothing of coupons, but its other "
        "fields are right.",
        order,
        found["status"],
        due["status"],
    )
    for name, value in due.items():
        expect(
            found[name] == value,
            "{} has {} {}; expected is {}. Write every column of the change, and the coupon.",
            order,
            name,
            found[name],
            value,
        )


def _updates(chosen: random.Random, rows: Sequence[dict]) -> tuple[list[dict], list[dict]]:
    """Return changes in two batches, by both app versions, to orders with and without a coupon.

    In the first batch the new app version grants coupons and adds an order. In the second the old
    version updates an order that had a coupon and one that got its first in the first batch.
    """
    rows = [row for row in rows if row["partition_date"] == "2026-11-20"]
    having = chosen.sample([row for row in rows if row["coupon"]], 4)
    lacking = chosen.sample([row for row in rows if not row["coupon"]], 3)
    first = [_changed(row, "shipped", None) for row in (*having[:3], *lacking[:2])]
    first += [_changed(row, "shipped", "SORRY5") for row in (having[3], lacking[2])]
    first.append(_changed(having[0], "new", "HELLO") | {"order_id": "O-9001"})
    second = [_changed(row, "returned", None, hour=23) for row in (having[0], lacking[2])]
    return first, second


def _changed(row: dict, status: str, coupon: str | None, hour: int = 22) -> dict:
    """Return a later event of an order, which also changes amount and items."""
    return row | {
        "status": status,
        "coupon": coupon,
        "amount": row["amount"] + 1,
        "items": row["items"] + 3,
        "order_ts": row["order_ts"].replace(hour=hour),
    }


def _streamed(lab, changes: Sequence[dict], per_batch: int) -> DataFrame:
    """Send changes to a new topic, and return it as a stream with the columns of EVENT_V2."""
    topic = scratch_topic(lab)
    send_events(
        lab,
        topic,
        [
            change
            | {
                "amount": float(change["amount"]),
                "order_ts": change["order_ts"].strftime("%Y-%m-%dT%H:%M:%SZ"),
            }
            for change in changes
        ],
    )
    change = F.from_json(F.col("value").cast("string"), EVENT_V2).alias("change")
    return in_batches(lab, topic, per_batch).select(change).select("change.*")


@check("16.4")
def a_second_name(lab, offer_voucher):
    """Let the function offer `coupon` under a second name, `voucher`, in two copies of the table.

    One copy lacks the last two commits and has a column more. `coupon` must remain readable in
    both.
    """
    orders = lab.path("orders")
    for hidden in (), lab.xray(orders).instants[-2:]:
        path = lab.scratch("renamed")
        copy_table(lab, orders, path, hidden)
        if hidden:
            _add_column(lab, path)
        coupons, loaded = _coupons(rows_of(path)), rows_at(lab, path)  # loaded: it stays as it is
        wanted = without_hudis(loaded).withColumn("voucher", F.col("coupon"))
        with left_alone(lab, orders), session_left_as_found(lab.spark):
            offered = offer_voucher(path)
        expect(
            isinstance(offered, DataFrame),
            "The new dashboard reads a DataFrame of Spark; your function returned {}.",
            kind_of(offered),
        )
        now = rows_at(lab, path)
        expect(
            "coupon" in now.columns,
            "Yesterday's query fails: it asks for `coupon`, and the table has no such column now.",
        )
        by_spark = sorted(map(tuple, now.select("order_id", "coupon").collect()), key=str)
        for reader, found in ("Yesterday's query", by_spark), ("hudi-rs", _coupons(rows_of(path))):
            expect(
                found == coupons,
                "{}: {} NULLs in `coupon`, where {} orders have none. Queries by the old name lose "
                "coupons silently.",
                reader,
                *(sum(coupon is None for _, coupon in rows) for rows in (found, coupons)),
            )
        expect_rows(offered, wanted)
    return "Each coupon under both names, for all three readers."


def _add_column(lab, path: str) -> None:
    """Give one order of a table a gift note, a column that the lesson's table has not."""
    note = F.expr("nullif(order_id, '') AS gift_note")  # may be NULL: older rows have none
    rows = without_hudis(rows_at(lab, path)).limit(1).select("*", note)
    rows.write.format("hudi").options(**WRITER).mode("append").save(path)
