"""Draws the shop's board, and the finished pipeline's results in a recorded tour."""

import gzip
import json
from decimal import Decimal
from functools import cache
from html import escape

import pandas as pd

from lab_env.platform.display.chart import INK, new_chart, plot_freshness, svg
from lab_env.platform.display.palette import BLUE
from lab_env.platform.settings import REPOSITORY
from lab_env.shop.events import STATUSES

TOURS = REPOSITORY / "data" / "tour.json.gz"
DIFFERENCES = ("missing", "duplicate", "stale", "ghost")


def draw_board(board: pd.DataFrame) -> str:
    """Draw `revenue` in euros by status (the index): a bar per status, in lifecycle order."""
    life = [status for status in STATUSES if status in board.index]
    revenue = board["revenue"].reindex(life[::-1])  # Matplotlib draws the last bar on top
    figure, axes = new_chart("Revenue by status", "euro", "", height=0.9 + 0.36 * len(revenue))
    bars = axes.barh(list(revenue.index), revenue.astype(float), color=BLUE)
    axes.bar_label(bars, [f"{Decimal(amount):,.2f}" for amount in revenue], padding=4, color=INK)
    axes.set_xlim(right=1.25 * float(revenue.max()))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.grid(axis="y", visible=False)
    return svg(figure)


def draw_tour() -> str:
    """Draw the freshness of each sink in the recorded tour, with the ledger's verdict as title."""
    tour = recorded_tour()
    figure, axes = new_chart(summarize(tour), "seconds since the event was sent", "visible, %")
    plot_freshness(axes, tour["freshness_quantiles"])
    return svg(figure)


def summarize(tour: dict) -> str:
    """Return two lines about a `recorded_tour`: its load and the ledger's verdict."""
    sinks = tour["sinks"].values()
    wrong = {name: sum(sink[name] for sink in sinks) for name in DIFFERENCES}
    found = ", ".join(f"{count:,} {name}" for name, count in wrong.items() if count)
    load = f"{tour['events_acked']:,} events in {tour['load_seconds']} s"
    nothing = "nothing missing, doubled, stale or back from the dead"
    return escape(f"A recorded tour: {load}, three sinks:\n{found or nothing}", quote=False)


@cache
def recorded_tour() -> dict:
    """Return the recorded tour with the median freshness.

    It contains the load, and for each sink the ledger's verdict and the freshness in seconds.
    """
    run = json.loads(gzip.decompress(TOURS.read_bytes()))
    tours = sorted(run["tours"], key=lambda tour: tour["sinks"]["mor"]["freshness_p95_s"])
    return run | tours[len(tours) // 2]
