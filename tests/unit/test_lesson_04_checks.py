"""Lesson 04 judges tables by their rows: each way to be wrong has its own reason."""

from dataclasses import replace

import pytest

from lab_env.course.answers import Unreadable
from lab_env.course.checking import NotYet, Passed
from lab_env.lessons.l04.checks import (
    CancellationsDelete,
    OptionsOfATable,
    PaymentsTable,
    RepairAfterAWrongKey,
    RepairedTable,
    WarehouseTable,
    _dataframe,
    late_events_lose,
)
from lab_env.shop.reconcile import TABLE, Reconciliation

DAY, NEXT = "created_on=2026-11-20", "created_on=2026-11-21"
RIGHT = (("P-1", "captured", DAY), ("P-2", "captured", DAY), ("P-4", "authorised", NEXT))
PAYMENTS = PaymentsTable(
    newest={"P-1": "captured", "P-2": "captured", "P-4": "authorised"},
    days=frozenset({"2026-11-20", "2026-11-21"}),
    rows=RIGHT,
    late=frozenset({"P-2"}),
)


def reason_of(verdict) -> str:
    assert isinstance(verdict, NotYet)
    return verdict.reason


def test_one_row_per_payment_in_its_newest_state_and_day_passes():
    assert isinstance(OptionsOfATable.judge(PAYMENTS), Passed)


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (RIGHT[:2], "P-4 is missing"),
        ((*RIGHT, ("P-1", "authorised", NEXT)), "must not change during a key's life"),
        ((*RIGHT, ("P-1", "authorised", DAY)), "your record key differs between events"),
        (
            (RIGHT[0], ("P-2", "authorised", DAY), RIGHT[2]),
            "P-2 shows 'authorised', but it is 'captured': its late",
        ),
        ((("P-1", "authorised", DAY), *RIGHT[1:]), "not the newest change"),
        (tuple((p, s, f"payment_id={p}") for p, s, _ in RIGHT), "3 folders for 2 days"),
        (tuple((p, s, "") for p, s, _ in RIGHT), "1 folders for 2 days"),
    ],
)
def test_a_table_of_payments_that_is_wrong_gets_its_reason(rows, reason):
    assert reason in reason_of(OptionsOfATable.judge(replace(PAYMENTS, rows=rows)))


def test_the_warehouse_sees_what_may_still_be_packed():
    shown = WarehouseTable({"W-3": "paid", "W-4": "new"})
    assert isinstance(CancellationsDelete.judge(shown), Passed)


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ({"W-1": "cancelled", "W-3": "paid", "W-4": "new"}, "written like any other update"),
        ({"W-1": "new", "W-3": "paid", "W-4": "new"}, "leave out changes nothing"),
        ({"E-2": "new", "W-3": "paid", "W-4": "new"}, "The erased order E-2 is still there"),
        ({"W-3": "paid"}, "W-4 is gone"),
        ({"W-3": "new", "W-4": "new"}, "W-3 was paid"),
    ],
)
def test_a_warehouse_table_that_is_wrong_gets_its_reason(status, reason):
    shown = WarehouseTable(status)
    assert reason in reason_of(CancellationsDelete.judge(shown))


@pytest.mark.parametrize("returned", [None, "orders", []])
def test_a_function_that_returns_no_dataframe_is_unreadable(returned):
    with pytest.raises(Unreadable, match=type(returned).__name__):
        _dataframe(returned)


def verdict(**differences: int) -> Reconciliation:
    return Reconciliation("repaired", TABLE, rows=10, expected=10, **differences)


def test_a_repaired_table_reconciles_is_keyed_by_order_and_ordered_by_time():
    repaired = RepairedTable(verdict(), keyed_by_order=True, late_events_lose=True)
    assert isinstance(RepairAfterAWrongKey.judge(repaired), Passed)


@pytest.mark.parametrize(
    ("properties", "lose"),
    [
        (
            "hoodie.table.ordering.fields=order_ts\nhoodie.record.merge.mode=EVENT_TIME_ORDERING",
            True,
        ),
        ("hoodie.table.ordering.fields=order_ts", True),
        ("hoodie.record.merge.mode=COMMIT_TIME_ORDERING", False),
        ("hoodie.table.ordering.fields=sent_at,order_ts", False),
        (
            "hoodie.table.ordering.fields=order_ts\nhoodie.record.merge.mode=COMMIT_TIME_ORDERING",
            False,
        ),
    ],
)
def test_late_events_lose_only_against_order_ts(properties, lose):
    assert late_events_lose("#Updated\n" + properties) is lose


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (RepairedTable(), "wrote nothing"),
        (RepairedTable(verdict(duplicate=3), True), "3 rows too many"),
        (RepairedTable(verdict(missing=3), True), "3 orders are missing"),
        (RepairedTable(verdict(stale=3), True), "dropDuplicates keeps whichever row"),
        (RepairedTable(verdict(ghost=3), True), "never held their erasures"),
        (RepairedTable(verdict(altered=3), True), "milliseconds only"),
        (RepairedTable(verdict(), False), "the record key is not `order_id`"),
        (RepairedTable(verdict(), True, False), "does not compare versions by `order_ts`"),
        (RepairedTable(verdict(unexpected=3), True, True), "differs"),
    ],
)
def test_a_repair_that_falls_short_gets_its_reason(table, reason):
    assert reason in reason_of(RepairAfterAWrongKey.judge(table))
