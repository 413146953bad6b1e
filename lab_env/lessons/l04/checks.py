"""Checks of lesson 04: which rows a table shows after a write with the learner's options or function.

Each check writes to a scratch table and reads it back; only the rows and folders count.
"""

from collections import Counter
from dataclasses import dataclass

from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.pipeline.options import DEMO_OPTIONS, KEYS
from lab_env.shop.reconcile import Reconciliation

SCRATCH = DEMO_OPTIONS | {
    "hoodie.table.name": "scratch",
    "hoodie.datasource.write.hive_style_partitioning": "true",
}


def _written(lab, rows, name: str, options: dict):
    """Upsert rows into a new scratch table and read it."""
    path = lab.scratch(name)
    rows.write.format("hudi").options(**(SCRATCH | options)).mode("append").save(path)
    return lab.spark.read.format("hudi").load(path)


@dataclass(frozen=True)
class PaymentsTable:
    """What a table of payments shows, and what it should.

    Args:
        newest: the newest state of each payment, by its id.
        days: the days of creation.
        rows: payment, state and folder of each row of the table.
    """

    newest: dict[str, str]
    days: frozenset[str]
    rows: tuple[tuple[str, str, str], ...]


@check_of("04.1")
class OptionsOfATable:
    """Record key, ordering field and partition of a table of payments."""

    @staticmethod
    def observe(lab, answer) -> PaymentsTable:
        """Write the payments with these options."""
        payments = lab.spark.table("payments")
        events = payments.toPandas().sort_values("changed_at")
        table = _written(lab, payments, "payments", dict(answer))
        shown = table.select("payment_id", "state", "_hoodie_partition_path").collect()
        return PaymentsTable(
            newest=dict(zip(events["payment_id"], events["state"], strict=True)),
            days=frozenset(events["created_on"]),
            rows=tuple(sorted(tuple(row) for row in shown)),
        )

    @staticmethod
    def judge(facts: PaymentsTable) -> Passed | NotYet:
        """One row a payment, in its newest state, in the folder of its day of creation."""
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
                return NotYet(
                    f"{payment} shows {state!r}, but it is {facts.newest[payment]!r}: its late event "
                    "was received last, and your ordering field let it win. Which column says when "
                    "the change happened?"
                )
        folders = {folder.partition("=")[2] for _, _, folder in facts.rows}
        if folders != facts.days:
            return NotYet(
                f"The rows are right, but they lie in {len(folders)} folders for {len(facts.days)} "
                "days of creation. Choose the day on which a payment was created."
            )
        return Passed("One row a payment, newest state, and no payment in two places.")


@dataclass(frozen=True)
class WarehouseTable:
    """What the warehouse's table shows.

    Args:
        returned: type of what the function returned.
        status: the status of each order that the table shows.
    """

    returned: str
    status: dict[str, str]


WAREHOUSE_EVENTS = (
    ("W-1", "create", "new", "12:00"),
    ("E-2", "create", "new", "12:00"),
    ("W-3", "create", "new", "12:00"),
    ("W-4", "create", "new", "12:00"),
    ("W-1", "cancel", "cancelled", "12:10"),
    ("E-2", "erase", "erased", "12:10"),
    ("W-3", "update", "paid", "12:10"),
)


@check_of("04.2")
class CancellationsDelete:
    """Cancelled and erased orders leave the table, the others stay."""

    @staticmethod
    def observe(lab, answer) -> WarehouseTable:
        """Let the function prepare seven events, and write what it returns."""
        from pyspark.sql import DataFrame

        events = lab.spark.sql(f"""
            SELECT order_id, op, status, to_timestamp('2026-11-20 ' || at) AS order_ts,
                   '2026-11-20' AS partition_date
            FROM VALUES {", ".join(map(str, WAREHOUSE_EVENTS))} AS rows(order_id, op, status, at)
        """)
        prepared = answer(events)
        if not isinstance(prepared, DataFrame):
            return WarehouseTable(type(prepared).__name__, {})
        table = _written(lab, prepared, "warehouse", KEYS)
        rows = table.select("order_id", "status").collect()
        return WarehouseTable("DataFrame", dict(tuple(row) for row in rows))

    @staticmethod
    def judge(facts: WarehouseTable) -> Passed | NotYet:
        """W-3 and W-4 are there, W-1 and E-2 are not."""
        if facts.returned != "DataFrame":
            return NotYet(f"Your function returned {facts.returned}; it must return a DataFrame.")
        if "W-1" in facts.status:
            if facts.status["W-1"] == "cancelled":
                return NotYet(
                    "The cancelled order W-1 is still there, as 'cancelled': its event was written "
                    "like any other update. Mark it as a delete."
                )
            return NotYet(
                f"The cancelled order W-1 is still there, as {facts.status['W-1']!r}. An event that "
                "you leave out changes nothing: Hudi must get it, marked as a delete."
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


@dataclass(frozen=True)
class RepairedTable:
    """What the ledger says of a table, and which key it has.

    Args:
        written: whether anything lies at the path.
        verdict: of the ledger.
        keyed_by_order: whether each row's record key is its order.
    """

    written: bool
    verdict: Reconciliation | None = None
    keyed_by_order: bool = False


@check_of("04.3")
class RepairAfterAWrongKey:
    """A table of the lesson's stream that the ledger accepts."""

    @staticmethod
    def observe(lab, answer) -> RepairedTable:
        """Let the function write to a new path, and hold the table there against the ledger."""
        path = lab.scratch("repaired")
        answer(path)
        if not lab.files(path):
            return RepairedTable(written=False)
        table = lab.spark.read.format("hudi").load(path)
        rows = table.selectExpr(
            "order_id", "event_id", "unix_micros(order_ts) AS order_ts", "_hoodie_record_key AS key"
        ).toPandas()
        # A key of one field is kept as its value, a key of several as `field:value,...`.
        return RepairedTable(
            True,
            lab.ledger(lab.topic("orders")).reconcile_table(rows, "repaired"),
            bool((rows["key"] == rows["order_id"]).all()),
        )

    @staticmethod
    def judge(facts: RepairedTable) -> Passed | NotYet:
        """Every order once, newest, none that was erased, and keyed by the order."""
        verdict = facts.verdict
        if not facts.written:
            return NotYet("Your function wrote nothing to the path that it was given.")
        if verdict.duplicate:
            return NotYet(
                f"{verdict.duplicate:,} rows too many: some orders have more than one. One row an "
                "order needs `order_id` as the record key, and an upsert."
            )
        if verdict.missing:
            return NotYet(f"{verdict.missing:,} orders are missing: {_some(verdict, 'missing')}.")
        if verdict.stale:
            return NotYet(
                f"{verdict.stale:,} orders show an old version: {_some(verdict, 'stale')}. The newest "
                "event of each order has to win. dropDuplicates keeps whichever row it meets; the "
                "ordering field compares."
            )
        if verdict.ghost:
            return NotYet(
                f"{verdict.ghost:,} orders are back that customers had erased: "
                f"{_some(verdict, 'ghost')}. The broken table never held their erasures. Start from "
                "a source that does, and let them delete."
            )
        if verdict.altered:
            return NotYet(
                f"{verdict.altered:,} orders show the right event with another time. JSON files keep "
                "milliseconds only: start from the topic."
            )
        if not facts.keyed_by_order:
            return NotYet(
                "The rows are right today. But the record key is not `order_id`, so the next update "
                "of an order would be a second row."
            )
        if not verdict.ok:
            return NotYet(str(verdict))
        return Passed(f"{verdict.rows:,} rows, and the ledger has nothing to say against any.")


def _some(verdict: Reconciliation, category: str) -> str:
    return ", ".join(verdict.examples.get(category, [])[:3])
