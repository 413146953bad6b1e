"""Lesson 04 judges tables by their rows: each way to be wrong has its own reason."""

from dataclasses import replace

import pytest

from lab_env.course.checking import NotYet, Passed
from lab_env.lessons.l04.checks import (
    CancellationsDelete,
    OptionsOfATable,
    PaymentsTable,
    RepairAfterAWrongKey,
    RepairedTable,
    WarehouseTable,
)
from lab_env.shop.reconcile import TABLE, Reconciliation

DAY, NEXT = "created_on=2026-11-20", "created_on=2026-11-21"
RIGHT = (("P-1", "captured", DAY), ("P-2", "captured", DAY), ("P-4", "authorised", NEXT))
PAYMENTS = PaymentsTable(
    newest={"P-1": "captured", "P-2": "captured", "P-4": "authorised"},
    days=frozenset({"2026-11-20", "2026-11-21"}),
    rows=RIGHT,
)


def reason_of(verdict) -> str:
    assert isinstance(verdict, NotYet)
    return verdict.reason


def test_one_row_a_payment_in_its_newest_state_and_day_passes():
    assert isinstance(OptionsOfATable.judge(PAYMENTS), Passed)


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (RIGHT[:2], "P-4 is missing"),
        ((*RIGHT, ("P-1", "authorised", NEXT)), "must not change during a key's life"),
        ((*RIGHT, ("P-1", "authorised", DAY)), "your record key differs between events"),
        ((RIGHT[0], ("P-2", "authorised", DAY), RIGHT[2]), "P-2 shows 'authorised'"),
        (tuple((p, s, f"payment_id={p}") for p, s, _ in RIGHT), "3 folders for 2 days"),
        (tuple((p, s, "") for p, s, _ in RIGHT), "1 folders for 2 days"),
    ],
)
def test_a_table_of_payments_that_is_wrong_gets_its_reason(rows, reason):
    assert reason in reason_of(OptionsOfATable.judge(replace(PAYMENTS, rows=rows)))


def test_the_warehouse_sees_what_may_still_be_packed():
    shown = WarehouseTable("DataFrame", {"W-3": "paid", "W-4": "new"})
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
    shown = WarehouseTable("DataFrame", status)
    assert reason in reason_of(CancellationsDelete.judge(shown))


def test_a_function_that_returns_no_dataframe_is_told_so():
    assert "returned str" in reason_of(CancellationsDelete.judge(WarehouseTable("str", {})))


def verdict(**differences: int) -> Reconciliation:
    return Reconciliation("repaired", TABLE, rows=10, expected=10, **differences)


def test_a_repaired_table_reconciles_and_is_keyed_by_order():
    assert isinstance(RepairAfterAWrongKey.judge(RepairedTable(True, verdict(), True)), Passed)


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (RepairedTable(False), "wrote nothing"),
        (RepairedTable(True, verdict(duplicate=3), True), "3 rows too many"),
        (RepairedTable(True, verdict(missing=3), True), "3 orders are missing"),
        (RepairedTable(True, verdict(stale=3), True), "dropDuplicates keeps whichever row"),
        (RepairedTable(True, verdict(ghost=3), True), "never held their erasures"),
        (RepairedTable(True, verdict(altered=3), True), "milliseconds only"),
        (RepairedTable(True, verdict(), False), "the record key is not `order_id`"),
        (RepairedTable(True, verdict(unexpected=3), True), "differs"),
    ],
)
def test_a_repair_that_falls_short_gets_its_reason(table, reason):
    assert reason in reason_of(RepairAfterAWrongKey.judge(table))
