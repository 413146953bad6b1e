"""Checks of lesson 04: which rows a table shows after writes with the learner's code or options.

Each check lets the answer write to a scratch table and reads it back; rows, folders and table
settings count.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from lab_env.course.answers import Unreadable, as_pair, kind_of
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.hudi.reader import PROPERTIES
from lab_env.lessons.l04.figures import COLUMNS, SAMPLE, with_month
from lab_env.lessons.table_copies import scratch_copy
from lab_env.pipeline.options import DEMO_OPTIONS, KEYS
from lab_env.shop.reconcile import Reconciliation
from lab_env.shop.record import recording
from lab_env.store import key_of, read

TABLE = DEMO_OPTIONS | KEYS | {"hoodie.table.name": "scratch"}

# What arrives before and after the events that the lesson shows. O-33's newest state comes first in
# the alphabet and has the lower event_id; and O-33 shares no day with O-31.
BEFORE = (("e-6", "O-33", "create", "new", "21 09:00", "21 09:00", "21", "21"),)
AFTER = (
    ("e-8", "O-33", "update", "shipped", "21 10:00", "21 10:01", "21", "21"),
    ("e-7", "O-33", "update", "delivered", "21 10:30", "21 10:31", "21", "21"),
)


@dataclass(frozen=True)
class OrdersTable:
    """What a table of orders shows after two upserts, and what it should.

    Args:
        newest: the newest status of each order, by its id.
        days: the days of creation.
        rows: order, status and folder of each row of the table.
        late: orders whose last event to arrive is not their newest.
        first: orders that only the first upsert brought.
        obeys: whether a table that was asked for with other options has these.
    """

    newest: dict[str, str]
    days: frozenset[str]
    rows: tuple[tuple[str, str, str], ...]
    late: frozenset[str] = frozenset()
    first: frozenset[str] = frozenset()
    obeys: bool = True


# Another table than `ORDERS` makes, as the lesson asks for them later.
OTHER = {
    "hoodie.datasource.write.recordkey.field": "event_id",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
}


@check_of("04.1")
class UpsertsOrders:
    """A function that upserts orders: record key, ordering field, partition and mode."""

    @staticmethod
    def observe(lab, answer) -> OrdersTable:
        """Upsert the first event of each order, then all others; make a table of other options."""
        parts = "The options and the function are expected: `[ORDERS, upsert]`"
        options, upsert = as_pair(answer, parts)
        if not hasattr(options, "items"):
            raise Unreadable("`ORDERS` has to be a dictionary of options.")
        path, other = lab.scratch("orders"), lab.scratch("other-orders")
        events = (*BEFORE, *SAMPLE, *AFTER, *FIRST_ONLY)
        first = [event for event in events if event[3] == "new"]
        upsert(_events(lab, first), path)
        if lab.files(path):
            upsert(_events(lab, [e for e in events if e not in first]), path)
            upsert(_events(lab, FIRST_ONLY), other, {**options, **OTHER})
        return OrdersTable(
            newest=_last_status(sorted(events, key=lambda event: event[4])),
            days=frozenset(f"2026-11-{event[6]}" for event in events),
            rows=tuple(sorted(_rows(lab, path))),
            late=frozenset(_late(events)),
            first=frozenset(event[1] for event in FIRST_ONLY),
            obeys=_has_other_options(lab, other),
        )

    @staticmethod
    def judge(facts: OrdersTable) -> Passed | NotYet:
        """One row per order, in its newest status, in the folder of its day of creation."""
        counts = Counter(order for order, _, _ in facts.rows)
        if not counts:
            return NotYet("Your function wrote nothing to the path that it was given.")
        if not facts.first & counts.keys() and facts.first:
            return NotYet(
                f"After two writes the table has {', '.join(sorted(counts))}: the second write "
                "replaced what the first one had written. Which mode adds a write to a table?"
            )
        missing = sorted(facts.newest.keys() - counts.keys())
        if missing:
            return NotYet(
                f"{missing[0]} is missing. It shares the value of your record key with another "
                "order, and one key has one row: the one with the higher ordering value stays."
            )
        double = next((order for order in sorted(counts) if counts[order] > 1), None)
        if double:
            folders = sorted({folder for order, _, folder in facts.rows if order == double})
            if len(folders) > 1:
                return NotYet(
                    f"{double} has {counts[double]} rows, in {' and '.join(folders)}. "
                    "A partition value must not change during a key's life."
                )
            return NotYet(
                f"{double} has {counts[double]} rows: your record key differs between events of "
                "one order, or the write was no upsert."
            )
        for order, status, _ in facts.rows:
            if status != facts.newest[order]:
                return _stale(order, status, facts)
        folders = {folder.partition("=")[2] or folder for _, _, folder in facts.rows}
        if folders != facts.days:
            return NotYet(
                f"The rows are right, but they lie in {len(folders)} folders for {len(facts.days)} "
                "days of creation. Choose the day on which an order was created."
            )
        bare = next((folder for _, _, folder in facts.rows if "=" not in folder), None)
        if bare:
            return NotYet(
                f"The rows are right, but a folder is named {bare}, without the column. Which "
                "option gives the folders readable names?"
            )
        if not facts.obeys:
            return NotYet(
                "The table of `ORDERS` is right. But asked for a Merge-on-Read table with the key "
                "`event_id`, your function made another: it has to use its `options`, which are "
                "`ORDERS` only by default."
            )
        return Passed(f"{len(counts)} orders, one row each, and no order in two places.")


# Only the first write brings this order, so a second one that replaces the table loses it.
FIRST_ONLY = (("e-9", "O-34", "create", "new", "20 11:00", "20 11:00", "20", "20"),)


def _events(lab, events: Iterable[tuple[str, ...]]):
    """Events as a Spark DataFrame with the columns of `COLUMNS`."""
    texts = ", ".join(f"{name} STRING" for name in COLUMNS)
    times = {name: f"to_timestamp({name}) AS {name}" for name in ("order_ts", "sent_at")}
    rows = lab.spark.createDataFrame(list(with_month(events)), texts)
    return rows.selectExpr(*(times.get(name, name) for name in COLUMNS))


def _last_status(events: Iterable[tuple[str, ...]]) -> dict[str, str]:
    return {event[1]: event[3] for event in events}


def _late(events: Iterable[tuple[str, ...]]) -> set[str]:
    """Orders whose last event to be sent is not their newest."""
    sent = _last_status(sorted(events, key=lambda event: event[5]))
    newest = _last_status(sorted(events, key=lambda event: event[4]))
    return {order for order in newest if newest[order] != sent[order]}


def _rows(lab, path: str) -> list[tuple[str, str, str]]:
    """Order, status and folder of each row; none if nothing lies at the path."""
    if not lab.files(path):
        return []
    table = lab.spark.read.format("hudi").load(path)
    rows = table.select("order_id", "status", "_hoodie_partition_path").collect()
    return [tuple(row) for row in rows]


def _has_other_options(lab, path: str) -> bool:
    """Whether the table at a path was made with the options `OTHER`."""
    if not lab.files(path):
        return False
    settings = _settings(lab, path)
    made = settings.get("hoodie.table.recordkey.fields"), settings.get("hoodie.table.type")
    return made == tuple(OTHER.values())


def _settings(lab, path: str) -> dict[str, str]:
    """A table's settings, as its `hoodie.properties` has them."""
    text = read(lab.endpoints, f"{key_of(path)}/{PROPERTIES}").decode()
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def _stale(order: str, status: str, facts: OrdersTable) -> NotYet:
    wrong = f"{order} shows {status!r}, but it is {facts.newest[order]!r}"
    question = "Which column says when the change happened?"
    if order in facts.late:
        return NotYet(
            f"{wrong}: its late event was sent last, and your table let it win. {question}"
        )
    return NotYet(
        f"{wrong}: the highest value of your ordering field is not the newest change. (The check "
        f"adds an order O-33 that was shipped and then delivered.) {question}"
    )


# Two batches, as a stream brings them: an erasure finds its order in the table, not beside it.
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
    ),
)
WAITS_S = 60.0  # for two small batches, also on a machine that does other work
ENDS_IN_S = 15.0  # a query that has read all and waits for nothing else


@dataclass(frozen=True)
class StreamTable:
    """What a table shows after a stream of two batches.

    Args:
        statuses: of the rows of each order.
        ended: whether the query ended by itself.
        checkpointed: whether its progress is where it was told to keep it.
    """

    statuses: dict[str, list[str]]
    ended: bool = True
    checkpointed: bool = True


@check_of("04.2")
class StreamIntoTable:
    """A streaming query that keeps a table: updates, an erasure, a late event."""

    @staticmethod
    def observe(lab, answer: Callable) -> StreamTable:
        """Give the function a stream of two small files, one per batch."""
        source, path = _stream_source(lab), lab.scratch("stream-orders")
        checkpoint = lab.scratch("stream-checkpoint")
        schema = _events(lab, SAMPLE).schema
        reader = lab.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        query = answer(reader.parquet(source), path, checkpoint)
        if not hasattr(query, "recentProgress"):
            raise Unreadable(
                f"Your function returned {kind_of(query)}; the query is expected, which `start()` "
                "gives."
            )
        ended = _wait(query)
        found: dict[str, list[str]] = {}
        for order, status, _ in _rows(lab, path):
            found.setdefault(order, []).append(status)
        return StreamTable(found, ended, bool(lab.files(f"{checkpoint}/offsets")))

    @staticmethod
    def judge(facts: StreamTable) -> Passed | NotYet:
        """S-1 is paid, S-3 still shipped, E-2 gone; the query has ended."""
        if not facts.ended:
            return NotYet(
                "Your query did not end by itself: it waits for further events. Which trigger "
                "reads what is there, and ends?"
            )
        if not facts.statuses:
            return NotYet("Your query wrote nothing to the path that it was given.")
        double = next((name for name, found in facts.statuses.items() if len(found) > 1), None)
        if double:
            return NotYet(
                f"{double} has {len(facts.statuses[double])} rows. One row per order needs the "
                "record key of `ORDERS`, and an upsert."
            )
        status = {name: found[0] for name, found in facts.statuses.items()}
        if status.get("E-2") == "erased":
            return NotYet(
                "The erased order E-2 is still there, and it shows 'erased': its event was written "
                "like any other update. Mark it as a delete."
            )
        if "E-2" in status:
            return NotYet(
                f"The erased order E-2 is still there, as {status['E-2']!r}. Its row came with an "
                "earlier batch. An event that you leave out changes nothing: Hudi must get it, "
                "marked as a delete."
            )
        lost = sorted({"S-1", "S-3"} - status.keys())
        if lost:
            return NotYet(f"{lost[0]} is gone, but nobody erased it.")
        if status["S-3"] != "shipped":
            return NotYet(
                f"S-3 was shipped at 12:10, and the table shows {status['S-3']!r}: the late event "
                "of 12:05 won. Did the write get the options of `ORDERS`?"
            )
        if status["S-1"] != "paid":
            return NotYet(f"S-1 was paid, but the table shows {status['S-1']!r}.")
        if not facts.checkpointed:
            return NotYet(
                "The rows are right, but the query keeps its progress in another place than the "
                "`checkpoint` that your function was given."
            )
        return Passed("Two batches: one update, one delete, and one late event that lost.")


def _stream_source(lab) -> str:
    """A folder with one Parquet file per batch, written at the first call."""
    folder = lab.path("exercise/stream")
    if not lab.files(folder):
        for batch in STREAM_BATCHES:
            _events(lab, batch).coalesce(1).write.mode("append").parquet(folder)
            time.sleep(1.1)  # the source reads its files in the order of their seconds
    return folder


def _wait(query) -> bool:
    """Wait until a query has read its two batches, and stop it; whether it had ended."""
    deadline = time.monotonic() + WAITS_S
    while query.isActive and time.monotonic() < deadline:
        if query.awaitTermination(0.5):
            break
        latest = query.lastProgress
        if latest and latest["batchId"] >= 1 and not query.status["isTriggerActive"]:
            break  # it waits for a third batch
        if latest and latest["numInputRows"] == 0:
            break
    ended = not query.isActive
    if not ended:
        ended = bool(query.awaitTermination(ENDS_IN_S))
    query.stop()
    if error := query.exception():
        raise error
    return ended


@dataclass(frozen=True)
class RepairedTable:
    """What the ledger says of a table, and how the table tells rows and versions apart.

    Args:
        verdict: of the ledger; None if nothing lies at the path.
        keyed_by_order: whether each row's record key is its order.
        late_events_lose: whether the table's settings compare versions by `order_ts`.
        misplaced: orders that lie in a folder that is not of their day of creation.
    """

    verdict: Reconciliation | None = None
    keyed_by_order: bool = False
    late_events_lose: bool = False
    misplaced: tuple[str, ...] = ()


@check_of("04.3")
class RepairAfterAWrongKey:
    """A table of the lesson's stream that the ledger accepts."""

    @staticmethod
    def observe(lab, answer) -> RepairedTable:
        """Let the function write to a new path, and reconcile the table there with the ledger."""
        path = lab.scratch("repaired")
        answer(path)
        if not lab.files(path):
            return RepairedTable()
        table = lab.spark.read.format("hudi").load(path)
        rows = table.selectExpr(
            *("order_id", "event_id", "unix_micros(order_ts) AS order_ts"),
            *("_hoodie_record_key AS key", "_hoodie_partition_path AS folder"),
        ).toPandas()
        return RepairedTable(
            verdict=lab.ledger(lab.topic("orders")).reconcile_table(rows, "repaired"),
            # A key of one field is stored as its value, a key of several as `field:value,...`.
            keyed_by_order=bool((rows["key"] == rows["order_id"]).all()),
            late_events_lose=late_events_lose(_settings(lab, path)),
            misplaced=misplaced(zip(rows["order_id"], rows["folder"], strict=True)),
        )

    @staticmethod
    def judge(facts: RepairedTable) -> Passed | NotYet:
        """Every order once, newest, none erased; keyed by the order and ordered by its time."""
        verdict = facts.verdict
        if verdict is None:
            return NotYet("Your function wrote nothing to the path that it was given.")
        if verdict.duplicate:
            return NotYet(
                f"{verdict.duplicate:,} rows too many: some orders have more than one. One row per "
                "order needs `order_id` as the record key, and an upsert."
            )
        if verdict.missing:
            return NotYet(f"{verdict.missing:,} orders are missing: {_some(verdict, 'missing')}.")
        if verdict.stale:
            return NotYet(
                f"{verdict.stale:,} orders show an old version: {_some(verdict, 'stale')}. The "
                "newest event of each order has to win. dropDuplicates keeps whichever row it "
                "meets; the ordering field compares."
            )
        if verdict.ghost:
            return NotYet(
                f"{verdict.ghost:,} orders are back that customers had erased: "
                f"{_some(verdict, 'ghost')}. The broken table never held their erasures. Start "
                "from a source that does, and let them delete."
            )
        if verdict.altered:
            return NotYet(
                f"{verdict.altered:,} orders show the right event with another time. JSON files "
                "keep milliseconds only: start from the topic."
            )
        if not facts.keyed_by_order:
            return NotYet(
                "The rows are right today. But the record key is not `order_id`, so the next "
                "update of an order would be a second row."
            )
        if not facts.late_events_lose:
            return NotYet(
                "The rows are right today. But the table does not compare versions by `order_ts`, "
                "so the next late event would replace a newer version."
            )
        if facts.misplaced:
            return NotYet(
                f"The rows are right today. But {len(facts.misplaced):,} orders, for example "
                f"{facts.misplaced[0]}, lie in another folder than that of their day of creation, "
                "so their next event would be a second row."
            )
        if not verdict.ok:
            return NotYet(str(verdict))
        return Passed(f"{verdict.rows:,} rows, and the ledger has nothing to say against any.")


def late_events_lose(settings: Mapping[str, str]) -> bool:
    """Whether a table keeps the version with the higher `order_ts`.

    Args:
        settings: those of its `hoodie.properties`.
    """
    ordering = settings.get("hoodie.table.ordering.fields", "").split(",")
    by_arrival = settings.get("hoodie.record.merge.mode") == "COMMIT_TIME_ORDERING"
    return ordering[0] == "order_ts" and not by_arrival


def misplaced(rows: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """The orders of the recording whose folder names another day than that of their creation.

    Args:
        rows: order and folder; a table without folders has the empty one.
    """
    created = {
        send.order_id: json.loads(send.value)["partition_date"]
        for send in recording()
        if not send.kind.startswith("malformed")
    }
    wrong = (
        order for order, folder in rows if folder and not folder.endswith(created.get(order, ""))
    )
    return tuple(sorted(wrong))


def _some(verdict: Reconciliation, category: str) -> str:
    """Up to three of the orders that differ."""
    return ", ".join(verdict.examples.get(category, [])[:3])


# The table before the merge, and what arrives: a late event, two erasures, an update, a new order.
MERGE_BEFORE = (
    ("m-1", "O-41", "update", "shipped", "20 12:10", "20 12:10", "20", "20"),
    ("m-2", "O-42", "create", "new", "20 12:00", "20 12:00", "20", "20"),
    ("m-3", "O-43", "create", "new", "20 12:00", "20 12:00", "20", "20"),
)
MERGE_EVENTS = (
    ("m-4", "O-41", "update", "paid", "20 12:05", "20 12:30", "20", "20"),
    ("m-5", "O-42", "erase", "erased", "20 13:00", "20 13:00", "20", "20"),
    ("m-6", "O-43", "update", "paid", "20 12:20", "20 12:20", "20", "20"),
    ("m-7", "O-44", "create", "new", "20 12:30", "20 12:30", "20", "20"),
    ("m-8", "O-45", "erase", "erased", "20 12:40", "20 12:40", "20", "20"),
)
MERGE_COLUMNS = ("order_id", "status", "order_ts", "partition_date")


@dataclass(frozen=True)
class MergedTable:
    """What a table shows after the merge.

    Args:
        statuses: of the rows of each order.
    """

    statuses: dict[str, list[str]]


@check_of("04.4")
class MergesEvents:
    """One MERGE INTO that updates, deletes and inserts."""

    @staticmethod
    def observe(lab, answer: Callable) -> MergedTable:
        """Let the function merge a view of events into a copy of a small table."""
        path = lab.path("exercise/merge")
        if not lab.files(path):
            rows = _events(lab, MERGE_BEFORE).select(*MERGE_COLUMNS)
            rows.write.format("hudi").options(**TABLE).mode("append").save(path)
        copy = scratch_copy(lab, path, "merge")
        table = "merge_" + copy.rpartition("-")[2]
        view = f"{table}_events"
        events = _events(lab, MERGE_EVENTS)
        events.select("op", *MERGE_COLUMNS).createOrReplaceTempView(view)
        lab.spark.sql(f"CREATE TABLE {table} USING hudi LOCATION '{copy}'")
        try:
            answer(table, view)
        finally:
            lab.spark.sql(f"DROP TABLE {table}")
            lab.spark.catalog.dropTempView(view)
        found: dict[str, list[str]] = {}
        for order, status, _ in _rows(lab, copy):
            found.setdefault(order, []).append(status)
        return MergedTable(found)

    @staticmethod
    def judge(facts: MergedTable) -> Passed | NotYet:
        """O-41 still shipped, O-42 gone, O-43 paid, O-44 there, O-45 not."""
        double = next((name for name, found in facts.statuses.items() if len(found) > 1), None)
        if double:
            return NotYet(
                f"{double} has {len(facts.statuses[double])} rows: match the events with the rows "
                "by `order_id`."
            )
        status = {name: found[0] for name, found in facts.statuses.items()}
        if "O-42" in status:
            return NotYet(
                f"O-42 was erased, and the table shows it as {status['O-42']!r}. Hudi tries the "
                "rules that update before the one that deletes, whatever their order: let each "
                "rule have a condition that the others do not meet."
            )
        if "O-45" in status:
            return NotYet(
                "O-45 is in the table, as 'erased': its erasure found no row, and your rule for "
                "unmatched events inserted it."
            )
        if "O-44" not in status:
            return NotYet("O-44 is new, and the table does not have it.")
        lost = sorted({"O-41", "O-43"} - status.keys())
        if lost:
            return NotYet(f"{lost[0]} is gone, but nobody erased it.")
        if status["O-43"] != "paid":
            return NotYet(f"O-43 was paid, but the table shows {status['O-43']!r}.")
        if status["O-41"] != "shipped":
            return NotYet(
                f"O-41 was shipped at 12:10, and the table shows {status['O-41']!r}, of 12:05: the "
                "ordering time has to travel with the status."
            )
        return Passed("One statement: an update, a delete, an insert, and a late event that lost.")
