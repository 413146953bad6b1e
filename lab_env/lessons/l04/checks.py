"""Checks of lesson 04: compare a table's rows after writes with the learner's code or options."""

import json
import time
from collections.abc import Iterable
from decimal import Decimal
from operator import itemgetter

from lab_env.course.answers import Unreadable, as_pair
from lab_env.course.checking import check, expect
from lab_env.lessons.l04.figures import COLUMNS, SAMPLE, with_month
from lab_env.lessons.rows import (
    expect_rows,
    expect_type,
    keys_of,
    named,
    rows_at,
    settings_of,
)
from lab_env.lessons.streams import session_spared, started
from lab_env.lessons.table_copies import named_table, scratch_copy
from lab_env.lessons.timelines import completed_instants, expect_added, expect_no_metadata
from lab_env.pipeline.options import DEMO_OPTIONS, KEYS
from lab_env.shop.events import FIELDS
from lab_env.shop.record import recording

Events = Iterable[tuple[str, ...]]

# What arrives before and after the events that the lesson shows. O-33's newest state comes first in
# the alphabet and has the lower event_id; and O-33 shares no day with O-31. Only the first write
# brings O-34, so a second one that replaces the table loses it.
BEFORE = (("e-6", "O-33", "create", "new", "21 09:00", "21 09:00", "21", "21"),)
AFTER = (
    ("e-8", "O-33", "update", "shipped", "21 10:00", "21 10:01", "21", "21"),
    ("e-7", "O-33", "update", "delivered", "21 10:30", "21 10:31", "21", "21"),
)
FIRST_ONLY = (("e-9", "O-34", "create", "new", "20 11:00", "20 11:00", "20", "20"),)
# Orders with two events in the first write and none later, one with the older event last.
TWICE = (
    ("e-10", "O-35", "create", "new", "20 09:00", "20 09:00", "20", "20"),
    ("e-11", "O-35", "update", "paid", "20 09:10", "20 09:10", "20", "20"),
    ("e-13", "O-36", "update", "paid", "20 09:10", "20 09:10", "20", "20"),
    ("e-12", "O-36", "create", "new", "20 09:00", "20 09:20", "20", "20"),
)
# Another table than `ORDERS` makes, as the lesson asks for them later.
FOLDER_NAMES = "hoodie.datasource.write.hive_style_partitioning"
OTHER = {
    "hoodie.datasource.write.recordkey.field": "event_id",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
}


@check("04.1")
def upserts_orders(lab, answer):
    """Let the function upsert events in two writes, then create a table with other options."""
    parts = "The options and the function are expected: `[ORDERS, upsert]`"
    options, upsert = as_pair(answer, parts)
    if not hasattr(options, "items"):
        raise Unreadable("`ORDERS` has to be a dictionary of options.")
    path, other = lab.scratch("orders"), lab.scratch("other-orders")
    events = (*BEFORE, *SAMPLE, *AFTER, *FIRST_ONLY, *TWICE)
    first = [event for event in events if event[3] == "new" or event in TWICE]
    upsert(_events(lab, first), path)
    expect_type(lab, path, "COPY_ON_WRITE")
    upsert(_events(lab, [event for event in events if event not in first]), path)

    table = rows_at(lab, path)
    rows = table.select("order_id", "status", "_hoodie_partition_path").collect()
    counts = keys_of(table)
    expect(
        "O-34" in counts,
        "After two writes the table has {}: the second write replaced what the first one had "
        "written. Which mode adds a write to a table?",
        named(counts),
    )
    newest = {event[1]: event for event in _newest(events)}
    missing = newest.keys() - counts.keys()
    expect(
        not missing,
        "{} is missing. It shares the value of your record key with another order, and one key has "
        "one row: the one with the higher ordering value stays.",
        named(missing),
    )
    for order, times in counts.items():
        folders = {row[2] for row in rows if row.order_id == order}
        expect(
            len(folders) == 1,
            "{} has {} rows, in {}. A partition value must not change during a key's life.",
            order,
            times,
            " and ".join(sorted(folders)),
        )
        expect(
            times == 1,
            "{} has {} rows: your record key differs between events of one order, or the write was "
            "no upsert.",
            order,
            times,
        )
    sent = {event[1]: event for event in sorted(events, key=itemgetter(5))}
    for order, status, _ in rows:
        expect(
            status == newest[order][3],
            "{} shows {!r}, and that is not its newest state: {}. Which column says when the "
            "change happened?",
            order,
            status,
            "its late event was sent last, and your table let it win"
            if sent[order] != newest[order]
            else "the highest value of your ordering field is not the newest change",
        )
    expect_rows(table, _events(lab, newest.values()))
    expect_added(lab, path, (), writes=2)

    folders = {row[2] for row in rows}
    days = {f"2026-11-{event[6]}" for event in events}
    expect(
        {folder.partition("=")[2] or folder for folder in folders} == days,
        "The rows are right, but they lie in {} folders for {} days of creation. Choose the day on "
        "which an order was created.",
        len(folders),
        len(days),
    )
    expect(
        all("=" in folder for folder in folders),
        "The rows are right, but a folder is named {}, without the column. Which option gives the "
        "folders readable names?",
        min(folders),
    )
    expect_no_metadata(lab, path, "DEMO_OPTIONS")
    plain = {name: value for name, value in options.items() if name != FOLDER_NAMES}
    upsert(_events(lab, FIRST_ONLY), other, {**plain, **OTHER})
    made = settings_of(lab, other) if lab.files(other) else {}
    expect(
        [made.get(f"hoodie.table.{name}") for name in ("recordkey.fields", "type")]
        == list(OTHER.values()),
        "The table of `ORDERS` is right. But asked for a Merge-on-Read table with the key "
        "`event_id`, your function made another: it has to use its `options`, which are `ORDERS` "
        "only by default.",
    )
    expect(
        made.get(FOLDER_NAMES, "false") == "false",
        "The table of `ORDERS` is right. But asked to write without the option for readable folder "
        "names, your function added it: it has to use its `options`, and only them.",
    )
    return f"{len(counts)} orders, one row each, and no order in two places."


def _events(lab, events: Events):
    """Convert events to a Spark DataFrame with the columns of `COLUMNS`."""
    texts = ", ".join(f"{name} STRING" for name in COLUMNS)
    times = {name: f"to_timestamp({name}) AS {name}" for name in ("order_ts", "sent_at")}
    rows = lab.spark.createDataFrame(list(with_month(events)), texts)
    return rows.selectExpr(*(times.get(name, name) for name in COLUMNS))


def _newest(events: Events) -> list[tuple[str, ...]]:
    """Return the event with the highest `order_ts` of each order that is not erased."""
    newest = {event[1]: event for event in sorted(events, key=itemgetter(4))}
    return [event for event in newest.values() if event[2] != "erase"]


# Two batches, as a stream brings them: an erasure finds its order in the table, or next to it. A
# cancelled order stays, and so does one whose status only says erased. S-5 has one event, late.
STREAM_BATCHES = (
    (
        ("s-1", "S-1", "create", "new", "20 12:00", "20 12:00", "20", "20"),
        ("s-2", "E-2", "create", "new", "20 12:00", "20 12:00", "20", "20"),
        ("s-3", "S-3", "update", "shipped", "20 12:10", "20 12:10", "20", "20"),
    ),
    (
        ("s-4", "S-1", "update", "paid", "20 12:10", "20 12:10", "20", "20"),
        ("s-5", "E-2", "erase", "erased", "20 12:20", "20 12:20", "20", "20"),
        ("s-6", "S-3", "update", "paid", "20 12:05", "20 12:20", "20", "20"),
        ("s-7", "S-31", "create", "new", "20 12:00", "20 12:00", "20", "20"),
        ("s-8", "S-31", "cancel", "cancelled", "20 12:10", "20 12:10", "20", "20"),
        ("s-9", "E-21", "create", "new", "20 12:00", "20 12:00", "20", "20"),
        ("s-10", "E-21", "erase", "erased", "20 12:10", "20 12:10", "20", "20"),
        ("s-11", "S-4", "update", "erased", "20 12:10", "20 12:10", "20", "20"),
        ("s-12", "S-5", "update", "paid", "20 11:00", "20 12:20", "20", "20"),
    ),
)
READ_LATER = ("event_id", "order_id", "status", "amount", "order_ts", "partition_date")
WAITS_S = 60.0  # for two small batches, also on a machine that does other work
ENDS_IN_S = 15.0  # a query that has read all and waits for nothing else


@check("04.2")
def streams_into_a_table(lab, start_table):
    """Let the function stream two small files, one per batch, with an erasure and a late event."""
    source, path = _stream_source(lab), lab.scratch("stream-orders")
    checkpoint = lab.scratch("stream-checkpoint")
    schema = _shop_events(lab, STREAM_BATCHES[0]).schema
    reader = lab.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    with session_spared():
        query = started(start_table(reader.parquet(source), path, checkpoint))
    expect(
        _ended(query),
        "Your query did not end by itself: it waits for further events. Which trigger reads what "
        "is there, and ends?",
    )
    expect(
        lab.files(path),
        "Your query wrote nothing to `path`: it has another path, or Hudi refused each batch. Did "
        "the write get the options of `ORDERS`?",
    )
    expect_type(lab, path, "COPY_ON_WRITE")
    table = rows_at(lab, path)
    status = {row.order_id: row.status for row in table.select("order_id", "status").collect()}
    expect(
        status.get("E-2") != "erased",
        "The erased order E-2 is still there, and it shows 'erased': its event was written like "
        "any other update. Mark it as a delete.",
    )
    expect(
        "E-2" not in status,
        "The erased order E-2 is still there, as {!r}. Its row came with an earlier batch. An "
        "event that you leave out changes nothing: Hudi must get it, marked as a delete.",
        status.get("E-2"),
    )
    expect(
        "E-21" not in status,
        "E-21 was created and erased in one batch, and it is there. Let Hudi get both events in "
        "one write: it compares their `order_ts`.",
    )
    expect(
        status.get("S-31") == "cancelled",
        "S-31 was cancelled, and the table shows {!r}. A cancelled order keeps its row.",
        status.get("S-31"),
    )
    expect(
        status.get("S-3") != "paid",
        "S-3 was shipped at 12:10, and the table shows 'paid': the late event of 12:05 won. Did "
        "the write get the options of `ORDERS`?",
    )
    newest = _newest(event for batch in STREAM_BATCHES for event in batch)
    expect_rows(table, _shop_events(lab, newest).select(*READ_LATER), may_have_more=True)
    expect(
        lab.files(f"{checkpoint}/offsets"),
        "The rows are right, but the query keeps its progress in another place than the "
        "`checkpoint` that your function was given.",
    )
    expect_no_metadata(lab, path, "DEMO_OPTIONS")
    return "Two batches: updates, two erasures, and one late event that lost."


def _shop_events(lab, events: Events):
    """Convert events to a DataFrame with the columns of the lesson's stream."""
    more = {
        "customer_id": "'C-1' AS customer_id",
        "product_id": "'P-1' AS product_id",
        "amount": "CAST(substring(event_id, 3) * 1.25 AS DECIMAL(12,2)) AS amount",
    }
    return _events(lab, events).selectExpr(*(more.get(name, name) for name in FIELDS))


def _stream_source(lab) -> str:
    """Return a folder with one Parquet file per batch, written on the first call."""
    folder = lab.path("exercise/stream")
    if not lab.files(folder):
        for batch in STREAM_BATCHES:
            _shop_events(lab, batch).coalesce(1).write.mode("append").parquet(folder)
            time.sleep(1.1)  # the source reads its files in the order of their seconds
    return folder


def _ended(query) -> bool:
    """Wait until a query has read both batches, then stop it; True if it had ended by itself."""
    deadline = time.monotonic() + WAITS_S
    while not query.awaitTermination(0.5) and time.monotonic() < deadline:
        latest = query.lastProgress
        if latest and latest["batchId"] >= 1 and not query.status["isTriggerActive"]:
            query.awaitTermination(ENDS_IN_S)
            break
    ended = not query.isActive
    query.stop()
    return ended


# What the ledger finds, and where it comes from.
FINDINGS = {
    "duplicate": "{:,} rows too many: some orders have more than one. One row per order needs "
    "`order_id` as the record key, and an upsert.",
    "missing": "{:,} orders are missing: {}.",
    "stale": "{:,} orders show an old version: {}. The newest event of each order has to win. "
    "dropDuplicates keeps whichever row it meets; the ordering field compares.",
    "ghost": "{:,} orders are back that customers had erased: {}. The broken table never held "
    "their erasures. Start from a source that does, and let them delete.",
    "altered": "{:,} orders show the right event with another time. JSON files keep milliseconds "
    "only: start from the topic.",
}
KINDS = {"amount": "decimal(12,2)", "order_ts": "timestamp", "sent_at": "timestamp"}


@check("04.3")
def repairs(lab, repair):
    """Let the function write a repaired table to a new path; compare it with ledger and topic."""
    path = lab.scratch("repaired")
    repair(path)
    expect_type(lab, path, "COPY_ON_WRITE")
    table = rows_at(lab, path)
    kinds = dict(table.dtypes)
    for name in FIELDS:
        kind = KINDS.get(name, "string")
        expect(name in kinds, "The column `{}` is missing. Keep all columns of the events.", name)
        expect(kinds[name] == kind, "The column `{}` has become `{}`.", name, kinds[name])
    rows = table.selectExpr(
        *(name for name in FIELDS if name not in KINDS),
        *("amount", "unix_micros(order_ts) AS order_ts"),
        *("_hoodie_record_key AS key", "_hoodie_partition_path AS folder"),
    ).toPandas()
    verdict = lab.ledger(lab.topic("orders")).reconcile_table(rows, "repaired")
    for category, sentence in FINDINGS.items():
        some = ", ".join(verdict.examples.get(category, [])[:3])
        expect(not getattr(verdict, category), sentence, getattr(verdict, category), some)
    expect(verdict.ok, "{}", verdict)

    # A key of one field is stored as its value, a key of several as `field:value,...`.
    expect(
        (rows["key"] == rows["order_id"]).all(),
        "The rows are right today. But the record key is not `order_id`, so the next update of an "
        "order would be a second row.",
    )
    settings = settings_of(lab, path)
    expect(
        settings.get("hoodie.table.ordering.fields", "").split(",")[0] == "order_ts"
        and settings.get("hoodie.record.merge.mode") != "COMMIT_TIME_ORDERING",
        "The rows are right today. But the table does not compare versions by `order_ts`, so the "
        "next late event would replace a newer version.",
    )
    sends = (send.value for send in recording() if not send.kind.startswith("malformed"))
    events = {event["event_id"]: event for event in map(_read, sends)}
    misplaced = [
        order
        for order, event, folder in zip(
            rows["order_id"], rows["event_id"], rows["folder"], strict=True
        )
        if not folder.endswith(events[event]["partition_date"])
    ]
    expect(
        not misplaced,
        "The rows are right today. But {:,} orders, for example {}, lie in another folder than "
        "that of their day of creation, so their next event would be a second row.",
        len(misplaced),
        min(misplaced, default=""),
    )
    for name in (name for name in FIELDS if name not in ("order_ts", "sent_at")):
        for event, value in zip(rows["event_id"], rows[name], strict=True):
            expect(
                value == events[event][name],
                "The orders are the right ones, but `{}` of {} is {}: another than was sent.",
                name,
                event,
                value,
            )
    return f"{verdict.rows:,} rows, and the ledger has nothing to say against any."


def _read(message: bytes) -> dict:
    return json.loads(message, parse_float=Decimal)


# The table before the merge, and what arrives: a late event, two erasures, an update, a
# cancellation, a new order, ones of which the table lacks the creation, an erasure older than its
# row, one that is as old, and an update to a status that only says erased.
MERGE_BEFORE = (
    ("m-1", "O-41", "update", "shipped", "20 12:10", "20 12:10", "20", "20"),
    ("m-2", "O-42", "create", "new", "20 12:00", "20 12:00", "20", "20"),
    ("m-3", "O-43", "create", "new", "20 12:00", "20 12:00", "20", "20"),
    ("m-4", "O-46", "create", "new", "20 12:00", "20 12:00", "20", "20"),
    ("m-12", "O-48", "update", "shipped", "20 12:30", "20 12:30", "20", "20"),
    ("m-13", "O-49", "create", "new", "20 12:00", "20 12:00", "20", "20"),
    ("m-16", "O-50", "update", "shipped", "20 12:30:00.500", "20 12:30", "20", "20"),
    ("m-17", "O-51", "create", "new", "20 12:00", "20 12:00", "20", "20"),
)
MERGE_EVENTS = (
    ("m-5", "O-41", "update", "paid", "20 12:05", "20 12:30", "20", "20"),
    ("m-6", "O-42", "erase", "erased", "20 13:00", "20 13:00", "20", "20"),
    ("m-7", "O-43", "update", "paid", "20 12:20", "20 12:20", "20", "20"),
    ("m-8", "O-44", "create", "new", "20 12:30", "20 12:30", "20", "20"),
    ("m-9", "O-45", "erase", "erased", "20 12:40", "20 12:40", "20", "20"),
    ("m-10", "O-46", "cancel", "cancelled", "20 12:50", "20 12:50", "20", "20"),
    ("m-11", "O-47", "update", "paid", "20 12:50", "20 12:50", "20", "20"),
    ("m-14", "O-48", "erase", "erased", "20 12:10", "20 13:00", "20", "20"),
    ("m-15", "O-49", "erase", "erased", "20 12:00", "20 13:00", "20", "20"),
    ("m-18", "O-50", "erase", "erased", "20 12:30:00.499", "20 13:00", "20", "20"),
    ("m-19", "O-51", "update", "erased", "20 12:20", "20 12:20", "20", "20"),
    ("m-20", "O-52", "update", "paid", "21 00:10", "21 00:10", "20", "21"),
)
MERGE_COLUMNS = ("order_id", "status", "order_ts", "partition_date")


@check("04.4")
def merges_events(lab, merge_into):
    """Let the function merge a view of events into a copy of a small table."""
    path = lab.path("exercise/merge")
    if not lab.files(path):
        options = {**DEMO_OPTIONS, **KEYS, "hoodie.table.name": "scratch"}
        rows = _events(lab, MERGE_BEFORE).select(*MERGE_COLUMNS)
        rows.write.format("hudi").options(**options).mode("append").save(path)
    copy = scratch_copy(lab, path, "merge")
    before = completed_instants(lab, copy)
    view = "merge_events_" + copy.rpartition("-")[2]
    events = _events(lab, MERGE_EVENTS).select("op", *MERGE_COLUMNS)
    events.createOrReplaceTempView(view)
    try:
        with named_table(lab, copy) as table:
            merge_into(table, view)
    finally:
        lab.spark.catalog.dropTempView(view)
    found = rows_at(lab, copy)
    status = {row.order_id: row.status for row in found.select("order_id", "status").collect()}
    expect(
        "O-42" not in status,
        "O-42 was erased, and the table shows it as {!r}. Hudi tries the rules that update before "
        "the one that deletes, whatever their order: let each rule have a condition that the "
        "others do not meet.",
        status.get("O-42"),
    )
    expect(
        "O-45" not in status,
        "O-45 is in the table, as {!r}: its erasure found no row, and your rule for unmatched "
        "events inserted it.",
        status.get("O-45"),
    )
    expect(
        status.get("O-41") != "paid",
        "O-41 was shipped at 12:10, and the table shows 'paid', of 12:05: the ordering time has to "
        "travel with the status.",
    )
    expect(
        "O-48" in status,
        "O-48 was shipped at 12:30, and its row is gone: an erasure of 12:10 deleted it. On "
        "Copy-on-Write Hudi compares an update with the ordering field, but not a delete. Which "
        "erasures may delete?",
    )
    expect(
        "O-49" not in status,
        "O-49 was created and erased at 12:00, and it is still there. Its erasure is not older "
        "than the row.",
    )
    wanted = _events(lab, _newest([*MERGE_BEFORE, *MERGE_EVENTS])).select(*MERGE_COLUMNS)
    expect_rows(found, wanted)
    expect_added(lab, copy, before)
    return "One statement: updates, deletes, inserts, and two late events that lost."
