"""An order's trace shows which of its events a sink contains, and the ledger's verdict."""

from types import SimpleNamespace

import pandas as pd

from lab_env.lessons.l04.figures import OrderTrace, changed_after_midnight, side_by_side, summarize
from lab_env.shop.ledger.reconcile import TABLE, Reconciliation

GOOD = Reconciliation("table", TABLE, rows=1, expected=1)
BAD = Reconciliation("table", TABLE, rows=3, expected=1, duplicate=2226, ghost=68)


def trace_of(**shown: list[str]) -> OrderTrace:
    """Return the trace of an order whose payment arrives twice, only after the order was packed."""
    arrived = pd.DataFrame(
        [
            ("e-1", "event", "new", 10_000_000),
            ("e-3", "event", "packed", 30_000_000),
            ("e-2", "late", "paid", 20_000_000),
            ("e-2", "resend", "paid", 20_000_000),
        ],
        columns=["event_id", "kind", "status", "order_ts"],
    )
    trace = OrderTrace("o-1", arrived)
    trace.sinks = {name: (ids, GOOD) for name, ids in shown.items()}
    return trace


def test_a_resend_is_marked_only_where_it_is_a_row_of_its_own():
    trace = trace_of(json=["e-1", "e-2", "e-2", "e-3"], by_event=["e-1", "e-2", "e-3"])
    assert trace.marks("json") == ["older", "newest", "older", "older"]
    assert trace.marks("by_event") == ["older", "newest", "older", ""]


def test_a_verdict_names_only_what_differs():
    assert summarize(BAD) == "2,226 duplicate\n68 ghost"


def test_orders_with_events_of_two_days_count_unless_erased():
    day = 24 * 3600 * 1_000_000
    rows = [
        ("o-1", "create", day - 1, "event", "acked"),
        ("o-1", "update", day, "event", "acked"),
        ("o-2", "create", day - 1, "event", "acked"),
        ("o-2", "erase", day, "event", "acked"),
        ("o-3", "create", day - 1, "event", "acked"),
        ("o-3", "update", day, "event", "failed"),
        ("o-4", "create", day, "event", "acked"),
    ]
    frame = pd.DataFrame(rows, columns=["order_id", "op", "order_ts", "kind", "state"])
    assert changed_after_midnight(SimpleNamespace(frame=lambda: frame)) == 1


def test_tables_side_by_side_say_where_an_order_has_no_row():
    one = pd.DataFrame({"order_id": ["O-18", "O-19"], "status": ["paid", "erased"]})
    together = side_by_side({"a": one, "b": one[1:]})
    assert together.loc["O-18"].tolist() == ["paid", "no row"]
    assert together.loc["O-19"].tolist() == ["erased", "erased"]
