"""Lesson 00 draws the board to the cent, and the recorded tour with the ledger's verdict."""

from decimal import Decimal

import pandas as pd

from lab_env.lessons.l00.figures import draw_board, draw_tour, recorded_tour, summarize


def test_the_board_names_each_status_and_its_amount_to_the_cent():
    amounts = [Decimal("1234.50"), Decimal("0.10")]
    board = pd.DataFrame({"revenue": amounts}, index=["new", "paid"])
    drawing = draw_board(board)
    assert all(text in drawing for text in ("<svg", "new", "paid", "1,234.50", "0.10"))


def test_the_recorded_tour_is_one_that_reconciles():
    tour = recorded_tour()
    assert all(sink["rows"] == sink["expected"] for sink in tour["sinks"].values())
    assert "nothing missing" in summarize(tour) and f"{tour['events_acked']:,}" in summarize(tour)
    assert all(name in draw_tour() for name in ("JSON files", "Hudi COW", "Hudi MOR"))


def test_a_tour_that_lost_events_would_say_so():
    sink = dict.fromkeys(("missing", "duplicate", "stale", "ghost"), 0) | {"missing": 2}
    tour = {"events_acked": 10, "load_seconds": 1, "sinks": {"cow": sink}}
    assert summarize(tour).endswith("2 missing")
