"""Checks of lesson 04: which rows a table shows after writes with the learner's code or options.

Each check writes to a scratch table and reads it back; rows, folders and table settings count.
"""

from collections import Counter
from dataclasses import dataclass

from lab_env.course.answers import Unreadable
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.hudi.reader import PROPERTIES
from lab_env.pipeline.options import DEMO_OPTIONS, KEYS
from lab_env.shop.reconcile import Reconciliation
from lab_env.store import key_of, read

SCRATCH = DEMO_OPTIONS | {
    "hoodie.table.name": "scratch",
    "hoodie.datasource.write.hive_style_partitioning": "true",
}


def _upsert(rows, path: str, options: dict) -> None:
    """Upsert rows into the scratch table at a path."""
    rows.write.format("hudi").options(**(SCRATCH | options)).mode("append").save(path)


# The check adds this payment: its newest state comes first in the alphabet, not in time.
HIDDEN_PAYMENT = """
    SELECT 'P-5', 'O-34', state, day, day, day || ' ' || changed, day || ' ' || received
    FROM VALUES ('captured', '2026-11-21', '10:00', '10:01'),
                ('cancelled', '2026-11-21', '10:30', '10:31')
         AS events(state, day, changed, received)
"""


@dataclass(frozen=True)
class PaymentsTable:
    """What a table of payments shows, and what it should.

    Args:
        newest: the newest state of each payment, by its id.
        days: the days of creation.
        rows: payment, state and folder of each row of the table.
        late: payments whose last received event is not their newest.
    """

    newest: dict[str, str]
    days: frozenset[str]
    rows: tuple[tuple[str, str, str], ...]
    late: frozenset[str] = frozenset()


@check_of("04.1")
class OptionsOfATable:
    """Record key, ordering field and partition of a table of payments."""

    @staticmethod
    def observe(lab, answer) -> PaymentsTable:
        """Write the payments and a hidden one with these options."""
        payments = lab.spark.table("payments").union(lab.spark.sql(HIDDEN_PAYMENT))
        path = lab.scratch("payments")
        _upsert(payments, path, dict(answer))
        table = lab.spark.read.format("hudi").load(path)
        shown = table.select("payment_id", "state", "_hoodie_partition_path").collect()
        events = payments.toPandas()
        newest, received = (
            events.sort_values(time).groupby("payment_id")["state"].last()
            for time in ("changed_at", "received_at")
        )
        return PaymentsTable(
            newest=newest.to_dict(),
            days=frozenset(events["created_on"]),
            rows=tuple(sorted(tuple(row) for row in shown)),
            late=frozenset(newest.index[newest != received]),
        )

    @staticmethod
    def judge(facts: PaymentsTable) -> Passed | NotYet:
        """One row per payment, in its newest state, in the folder of its day of creation."""
        counts = Counter(payment for payment, _, _ in facts.rows)
        missing = sorted(facts.newest.keys() - counts.keys())
        if missing:
            return NotYet(
                f"{missing[0]} is missing. It shares the value of your record key with another "
                "payment, and one key has one row: the one with the higher ordering value stays."
            )
        double = next((payment for payment in sorted(counts) if counts[payment] > 1), None)
        if double:
            folders = sorted({folder for payment, _, folder in facts.rows if payment == double})
            if len(folders) > 1:
                return NotYet(
                    f"{double} has {counts[double]} rows, in {' and '.join(folders)}. "
                    "A partition value must not change during a key's life."
                )
            return NotYet(
                f"{double} has {counts[double]} rows: your record key differs between events of "
                "one payment."
            )
        for payment, state, _ in facts.rows:
            if state != facts.newest[payment]:
                return _stale(payment, state, facts)
        folders = {folder.partition("=")[2] for _, _, folder in facts.rows}
        if folders != facts.days:
            return NotYet(
                f"The rows are right, but they lie in {len(folders)} folders for {len(facts.days)} "
                "days of creation. Choose the day on which a payment was created."
            )
        return Passed("One row per payment, newest state, and no payment in two places.")


def _stale(payment: str, state: str, facts: PaymentsTable) -> NotYet:
    wrong = f"{payment} shows {state!r}, but it is {facts.newest[payment]!r}"
    question = "Which column says when the change happened?"
    if payment in facts.late:
        return NotYet(
            f"{wrong}: its late event was received last, and your ordering field let it win. "
            f"{question}"
        )
    return NotYet(
        f"{wrong}: the highest value of your ordering field is not the newest change. (The check "
        f"adds a payment P-5 that was captured and then cancelled.) {question}"
    )


@dataclass(frozen=True)
class WarehouseTable:
    """What the warehouse's table shows.

    Args:
        status: the status of each order that the table shows.
    """

    status: dict[str, str]


# Two batches, as a stream brings them: a cancellation finds its order in the table, not beside it.
WAREHOUSE_BATCHES = (
    (
        ("W-1", "create", "new", "12:00", "2026-11-20"),
        ("E-2", "create", "new", "12:00", "2026-11-21"),
        ("W-3", "create", "new", "12:00", "2026-11-21"),
        ("W-4", "create", "new", "12:00", "2026-11-20"),
    ),
    (
        ("W-1", "cancel", "cancelled", "12:10", "2026-11-20"),
        ("E-2", "erase", "erased", "12:10", "2026-11-21"),
        ("W-3", "update", "paid", "12:10", "2026-11-21"),
    ),
)


@check_of("04.2")
class CancellationsDelete:
    """Cancelled and erased orders leave the table, the others stay."""

    @staticmethod
    def observe(lab, answer) -> WarehouseTable:
        """Let the function prepare two batches, and upsert what it returns for each."""
        path = lab.scratch("warehouse")
        for batch in WAREHOUSE_BATCHES:
            events = lab.spark.sql(f"""
                SELECT order_id, op, status,
                       to_timestamp(partition_date || ' ' || at) AS order_ts, partition_date
                FROM VALUES {", ".join(map(str, batch))}
                     AS rows(order_id, op, status, at, partition_date)
            """)
            _upsert(_dataframe(answer(events)), path, KEYS)
        table = lab.spark.read.format("hudi").load(path)
        rows = table.select("order_id", "status").collect()
        return WarehouseTable(dict(tuple(row) for row in rows))

    @staticmethod
    def judge(facts: WarehouseTable) -> Passed | NotYet:
        """W-3 and W-4 are there, W-1 and E-2 are not."""
        if "W-1" in facts.status:
            if facts.status["W-1"] == "cancelled":
                return NotYet(
                    "The cancelled order W-1 is still there, as 'cancelled': its event was written "
                    "like any other update. Mark it as a delete."
                )
            return NotYet(
                f"The cancelled order W-1 is still there, as {facts.status['W-1']!r}. Its row came "
                "with an earlier batch. An event that you leave out changes nothing: Hudi must get "
                "it, marked as a delete."
            )
        if "E-2" in facts.status:
            return NotYet("The erased order E-2 is still there. An erase must still delete.")
        lost = sorted({"W-3", "W-4"} - facts.status.keys())
        if lost:
            return NotYet(f"{lost[0]} is gone, but nobody cancelled it.")
        if facts.status["W-3"] != "paid":
            return NotYet(f"W-3 was paid, but the table shows {facts.status['W-3']!r}.")
        return Passed(
            "The table shows what may still be packed. But now a cancellation leaves no row: what "
            "would an update do that arrives after it? The next section tries it."
        )


def _dataframe(returned):
    """What a function returned, if Hudi can write it."""
    from pyspark.sql import DataFrame

    if not isinstance(returned, DataFrame):
        kind = type(returned).__name__
        raise Unreadable(f"Your function returned a {kind}; it must return a Spark DataFrame.")
    return returned


@dataclass(frozen=True)
class RepairedTable:
    """What the ledger says of a table, and how the table tells rows and versions apart.

    Args:
        verdict: of the ledger; None if nothing lies at the path.
        keyed_by_order: whether each row's record key is its order.
        late_events_lose: whether the table's settings compare versions by `order_ts`.
    """

    verdict: Reconciliation | None = None
    keyed_by_order: bool = False
    late_events_lose: bool = False


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
            "order_id", "event_id", "unix_micros(order_ts) AS order_ts", "_hoodie_record_key AS key"
        ).toPandas()
        return RepairedTable(
            verdict=lab.ledger(lab.topic("orders")).reconcile_table(rows, "repaired"),
            # A key of one field is stored as its value, a key of several as `field:value,...`.
            keyed_by_order=bool((rows["key"] == rows["order_id"]).all()),
            late_events_lose=late_events_lose(
                read(lab.endpoints, f"{key_of(path)}/{PROPERTIES}").decode()
            ),
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
        if not verdict.ok:
            return NotYet(str(verdict))
        return Passed(f"{verdict.rows:,} rows, and the ledger has nothing to say against any.")


def late_events_lose(properties: str) -> bool:
    """Whether a table keeps the version with the higher `order_ts`.

    Args:
        properties: the text of its `hoodie.properties`.
    """
    options = dict(line.split("=", 1) for line in properties.splitlines() if "=" in line)
    ordering = options.get("hoodie.table.ordering.fields", "").split(",")
    by_arrival = options.get("hoodie.record.merge.mode") == "COMMIT_TIME_ORDERING"
    return ordering[0] == "order_ts" and not by_arrival


def _some(verdict: Reconciliation, category: str) -> str:
    """Up to three of the orders that differ."""
    return ", ".join(verdict.examples.get(category, [])[:3])
