"""The targets of lessons 12 and 14: the right totals, and events that are hard on every seed."""

import json
from decimal import Decimal
from types import SimpleNamespace

import pandas as pd
import pytest
from ladder_ledger import sent

from lab_env.course.answers import Unreadable
from lab_env.lab.ladder import rungs
from lab_env.lab.ladder.history import Look, as_text, history
from lab_env.lab.ladder.rungs import customer_of, moved_and_cancelled, new_orders
from lab_env.lab.ladder.target import target_of
from lab_env.lessons.l12.ladder import check_others, with_absent
from lab_env.shop.model import SECOND, Send

SEEDS = range(30)
WATERMARK = 120 * SECOND
TOTALS, BOARD = target_of("12.3"), target_of("14.4")


def event(number: int, order: str, status: str, cents: int, customer: str, kind="event") -> Send:
    """Return an event; a higher number is a newer one."""
    op = {"cancelled": "cancel", "erased": "erase"}.get(status, "update")
    fields = {"customer_id": customer, "status": status, "amount": cents / 100}
    value = json.dumps(fields).encode()
    name = f"{order}-{number}"
    return Send(f"{name}-{kind}", name, order, order, value, kind, op, number * SECOND, 0)


def totals(*sends: Send) -> dict[str, str]:
    """Return the right total of each customer."""
    keyed = TOTALS.keyed(sent(list(sends)))
    return {key: TOTALS.right(own)[0] for key, own in keyed.groupby("key")}


def test_a_total_counts_the_newest_event_of_each_order_once():
    late = event(1, "o-1", "new", 100, "c-1", "late")
    paid = event(2, "o-1", "paid", 290, "c-1")
    again = event(2, "o-1", "paid", 290, "c-1", "resend")
    assert totals(paid, late, again, event(3, "o-2", "new", 1999, "c-1")) == {"c-1": "22.89"}


@pytest.mark.parametrize("status", ["cancelled", "erased"])
def test_a_cancelled_or_erased_order_is_worth_nothing(status):
    assert totals(event(1, "o-1", "new", 100, "c-1"), event(2, "o-1", status, 100, "c-1")) == {
        "c-1": "0.00"
    }


def test_an_order_that_has_moved_counts_for_its_new_customer_only():
    sends = event(1, "o-1", "new", 100, "c-1"), event(2, "o-1", "paid", 150, "c-2")
    assert totals(*sends) == {"c-1": "0.00", "c-2": "1.50"}


def test_a_malformed_message_has_no_customer():
    bad = event(2, "o-1", "paid", 900, "c-1", "malformed:empty")
    bad.value = b"  "
    assert totals(event(1, "o-1", "new", 100, "c-1"), bad) == {"c-1": "1.00"}


def shown(**cents: float | None) -> pd.DataFrame:
    """Return the rows of a table of totals; two of its customers may have none."""
    table = pd.DataFrame({"customer_id": cents.keys(), "cents": cents.values()})
    return with_absent(table, pd.Series(["a", "b"]))


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        (shown(a=100, b=0), ""),
        (shown(a=100), ""),
        (shown(a=100, b=None), "1 customer is in the output with another value (b)."),
        (shown(b=0), "1 customer is in the output with another value (a)."),
        (shown(a=100, b=7), "1 customer is in the output with another value (b)."),
    ],
)
def test_no_row_counts_as_0_and_a_null_does_not(rows, found):
    sends = [event(1, "o-1", "new", 100, "a"), event(2, "o-2", "cancelled", 50, "b")]
    assert TOTALS.judge(TOTALS.keyed(sent(sends)), rows).text == found


def test_the_history_of_a_customer_has_all_events_of_an_order_that_moved():
    sends = [event(1, "o-1", "new", 100, "a")], [event(2, "o-1", "paid", 150, "b")]
    looks = [Look(1, shown(a=100)), Look(2, shown(a=100, b=150))]
    told = as_text(history("a", TOTALS, TOTALS.keyed(sent(*sends)), looks))
    assert "paid at 00:00:02.000, b, 1.50 (" in told
    assert "1.00; it must show 0.00   <-- here" in told


def test_nothing_is_promised_of_a_customer_before_the_first_order():
    sends = [event(1, "o-1", "new", 100, "a")], [event(2, "o-1", "paid", 150, "b")]
    rows = pd.DataFrame({"key": ["a"], "event": ["1.00"]})
    looks = [Look(1, rows), Look(2, shown(a=100, b=0))]
    told = as_text(history("b", TOTALS, TOTALS.keyed(sent(*sends)), looks))
    assert told.splitlines()[-1].split(maxsplit=1)[1] == "0.00; it must show 1.50   <-- here"


def test_only_customers_who_have_moved_get_a_new_bookmark():
    before = {"a": "1", "b": "1"}
    check_others({"a", "c"}, before, {"a": "2", "b": "1", "c": "2"})
    with pytest.raises(Unreadable, match="does not name b, and its `upto` has become 2"):
        check_others({"a"}, before, {"a": "2", "b": "2"})


@pytest.mark.parametrize("seed", SEEDS)
def test_orders_move_and_a_cancelled_one_is_erased_across_deliveries(seed):
    newest: dict[str, Send] = {}
    moved = erased = 0
    for part in moved_and_cancelled(seed):
        before = dict(newest)
        for send in sorted(part, key=lambda send: send.order_ts):
            if send.order_id not in newest or newest[send.order_id].order_ts <= send.order_ts:
                newest[send.order_id] = send
        for old, new in ((old, newest[order]) for order, old in before.items()):
            counts = {old.op, new.op} <= {"create", "update"}
            moved += counts and customer_of(old) != customer_of(new)
            erased += old.op == "cancel" and new.op == "erase"
    assert moved and erased


@pytest.mark.parametrize("seed", SEEDS)
def test_a_new_customer_comes_after_the_first_delivery(seed):
    first, *later = moved_and_cancelled(seed)
    known = {customer_of(send) for send in first}
    assert any(customer_of(send) not in known for part in later for send in part)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_order_comes_later_than_the_watermark_of_two_minutes_allows(seed):
    parts, newest = new_orders(seed), 0
    assert {send.op for part in parts for send in part} == {"create"}
    for part in parts:
        assert all(send.order_ts > newest - WATERMARK for send in part)
        newest = max(newest, *(send.order_ts for send in part))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_minute_goes_on_in_the_next_delivery_and_another_one_is_over(seed):
    parts = [set(BOARD.keyed(sent(part))["key"]) for part in new_orders(seed)]
    assert parts[0] & parts[1] and parts[1] & parts[2]
    assert parts[0] - parts[1] - parts[2]
    assert {send.kind for part in new_orders(seed) for send in part} == {"event", "late", "resend"}


def test_a_minute_shows_its_orders_and_their_sum():
    sends = sent([event(1, "o-1", "new", 250, "c"), event(59, "o-2", "new", 1005, "c")])
    keyed = BOARD.keyed(sends)
    assert set(keyed["key"]) == {"1970-01-01 00:00"}
    assert BOARD.right(keyed) == ["2 orders, 12.55"]


def test_the_output_of_14_4_shows_the_same():
    table = pd.DataFrame(
        {
            "minute": pd.to_datetime([0, 60 * SECOND], unit="us", utc=True),
            "orders": [2, 1],
            "revenue": [Decimal("12.55"), None],
        }
    )
    rows = BOARD.rows(SimpleNamespace(hudi_rows=lambda path, columns: table))
    assert rows["key"].tolist() == ["1970-01-01 00:00", "1970-01-01 00:01"]
    assert rows["event"].tolist() == ["2 orders, 12.55", "1 orders, nan"]
    nothing = SimpleNamespace(hudi_rows=lambda path, columns: pd.DataFrame(columns=columns))
    assert BOARD.rows(nothing).empty


def test_the_output_of_12_3_has_all_customers():
    sends = sent([event(1, "o-1", "new", 100, "a")])
    stage = SimpleNamespace(
        sends=lambda: sends, hudi_rows=lambda path, columns: pd.DataFrame(columns=columns)
    )
    assert TOTALS.rows(stage)[["key", "event"]].to_numpy().tolist() == [["a", "0.00"]]


def test_the_rungs_of_14_4_have_new_orders_only():
    assert {rung.deliveries for rung in rungs.RUNGS["14.4"]} == {new_orders}
