"""Renders the tour's report as one HTML page with charts, for light and dark themes.

The page has no scripts and needs no network.
"""

import pandas as pd

from lab_env.platform.display.chart import COLOURS, NAMES, new_chart, plot_freshness, svg
from lab_env.platform.display.html import frame_table, render, table
from lab_env.platform.display.palette import VERMILION

VERDICTS = ["rows", "expected", "missing", "duplicate", "stale", "ghost", "unexpected"]
COSTS = {
    "commits": "commits",
    "files": "files",
    "megabytes": "MB",
    "freshness_p50_s": "freshness, median s",
    "freshness_p95_s": "freshness, 95th percentile s",
}
MINUTES = {
    "minute": "minute",
    "orders": "orders",
    "revenue": "revenue",
    "batch_orders": "orders, batch",
    "batch_revenue": "revenue, batch",
}


def tour_page(tour) -> str:
    """Render the report as an HTML document."""
    sinks = pd.DataFrame(tour.sinks).T.rename(index=NAMES).rename_axis("sink")
    costs = sinks.assign(megabytes=sinks["bytes"] / 1e6)[list(COSTS)].rename(columns=COSTS)
    queries = pd.DataFrame(tour.queries, columns=["sink", "query", "rows", "seconds"])
    queries.index = queries["sink"].map(NAMES) + ": " + queries["query"]
    return render(
        "workbench/tour/report.html.j2",
        tour=tour,
        problems=tour.problems,
        verdicts=frame_table(sinks[VERDICTS]),
        accounting=[
            *(f"{NAMES[sink]}: {sentence(a)}." for sink, a in tour.accounting.items()),
            unknown_fields(tour),
        ],
        costs=frame_table(costs.where(costs.notna(), "not measured")),
        charts=[
            rate_chart(tour),
            freshness_chart(tour),
            store_chart(tour, "Files per sink, bookkeeping included", "files", "files", 1),
            store_chart(tour, "Bytes per sink, bookkeeping included", "MB", "bytes", 1e6),
        ],
        minutes=minutes_table(tour.minutes),
        queries=frame_table(queries[["rows", "seconds"]].rename_axis("query")),
        seconds=frame_table(pd.DataFrame({"seconds": tour.seconds}).rename_axis("phase")),
    )


def minutes_table(minutes: list[dict]) -> str:
    """Return a table of revenue per minute: the stream's result next to that of a batch query."""
    return table(list(MINUTES.values()), [[row[name] for name in MINUTES] for row in minutes])


def sentence(accounting: dict[str, int]) -> str:
    """Return a sentence that accounts for all of a sink's acknowledged sends."""
    return (
        "{acked:,} acknowledged = {applied:,} applied + {superseded:,} superseded"
        " + {duplicate:,} duplicate + {dead:,} dead".format(**accounting)
    )


def unknown_fields(tour) -> str:
    """Return a sentence about events with unknown fields, which the pipeline drops."""
    if not tour.unknown_fields:
        return "All fields of all events are known to the pipeline."
    return (
        f"{tour.events_with_unknown_fields:,} events had fields that the pipeline does not know "
        f"and drops: {', '.join(tour.unknown_fields)}."
    )


def rate_chart(tour) -> str:
    """Return a chart of acknowledged events/s during the load."""
    figure, axes = new_chart("Rate over time", "seconds of load", "acknowledged events/s")
    rates = tour.series.get("acked_per_second", [])
    rates = rates[: tour.load_seconds]  # the last second is incomplete
    axes.plot(range(len(rates)), rates, color=VERMILION, linewidth=1.5)
    axes.axhline(tour.rate, color=VERMILION, linestyle=":", linewidth=1, label="requested")
    axes.set_ylim(0, max([*rates, tour.rate]) * 1.15)
    axes.legend(loc="lower center")
    return svg(figure)


def freshness_chart(tour) -> str:
    """Return a chart of the share of visible events, by sink and seconds since sending."""
    title = "Freshness: event sent to commit completed"
    figure, axes = new_chart(title, "seconds", "share of events visible, %")
    # A Kinesis stream is not measured.
    plot_freshness(axes, tour.series.get("freshness_quantiles", {}))
    return svg(figure)


def store_chart(tour, title: str, unit: str, column: str, scale: float) -> str:
    """Return a chart of each sink's files or bytes over time, including table metadata."""
    figure, axes = new_chart(title, "seconds since the first event", unit)
    samples = pd.DataFrame(tour.series["store"])
    samples = samples[samples["at"] >= tour.series["began_at"] - 5]
    for sink, group in samples.groupby("sink", sort=False):
        seconds = group["at"] - tour.series["began_at"]
        axes.plot(seconds, group[column] / scale, color=COLOURS[sink], label=NAMES[sink])
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left")
    return svg(figure)
