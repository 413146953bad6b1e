"""The tour's report as one HTML page with pictures: no script, no network, light and dark theme."""

from html import escape

import pandas as pd

from lab_env.display.chart import COLOURS, NAMES, new_chart, svg
from lab_env.display.palette import VERMILION

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; } .scroll { overflow-x: auto; }
th, td { padding: .25rem .7rem; text-align: right; border-bottom: 1px solid #8884; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
svg { max-width: 100%; height: auto; } .good { color: #1a9850; } .bad { color: #d73027; }
@media (prefers-color-scheme: dark) { .good { color: #66d394; } .bad { color: #ff8a75; } }
.verdict { font-size: 1.3rem; font-weight: 600; } 
.grid { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(28rem, 100%), 1fr)); gap: 1rem; }
figure { margin: 0; } svg { width: 100%; }
"""


def tour_page(tour) -> str:
    """The page of a tour.

    Args:
        tour: a `lab_env.tour.tour.Tour`.

    Returns:
        A complete HTML document.
    """
    verdict = (
        "<p class='verdict good'>Every sink reconciles with the ledger.</p>"
        if tour.ok
        else "<p class='verdict bad'>Something does not reconcile.</p>"
        + "".join(f"<pre>{escape(problem)}</pre>" for problem in tour.problems)
    )
    charts = "".join(
        f"<figure>{draw(tour)}</figure>"
        for draw in (rate_chart, freshness_chart, files_chart, bytes_chart)
    )
    return (
        "<!doctype html><html lang='en'><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>Tour of the streaming lakehouse</title><style>{STYLE}</style>"
        f"<h1>Tour of the streaming lakehouse</h1>{verdict}"
        f"<p>{tour.events_acked:,} acknowledged sends at {tour.rate:,} events/s for"
        f" {tour.load_seconds} s, {tour.events_dead:,} of them malformed,"
        f" {tour.events_resent:,} intended resends.</p>"
        f"<h2>Each sink against the ledger</h2>{_sink_table(tour)}{_accounting(tour)}"
        "<h2>What it cost, and how fresh it was</h2>"
        "<p>Freshness is the time from an event sent to the completion of the commit that holds it,"
        f" so that a reader can see it.</p>{_cost_table(tour)}<div class='grid'>{charts}</div>"
        f"<h2>Queries with plain Spark</h2>{_query_table(tour)}"
        f"<h2>Time and memory</h2>{_time_table(tour)}"
        f"<p>Peak memory {tour.memory_peak_mb.get('total', 0):,} MB (proportional set size of"
        " services, Spark and load together, sampled each second).</p></html>"
    )


def rate_chart(tour) -> str:
    """Acknowledged events/s over the load."""
    figure, axes = new_chart("Rate over time", "seconds of load", "acknowledged events/s")
    rates = tour.series.get("acked_per_second", [])
    rates = rates[: tour.load_seconds]  # the last acknowledgements arrive in a part of a second
    axes.plot(range(len(rates)), rates, color=VERMILION, linewidth=1.5)
    axes.axhline(tour.rate, color=VERMILION, linestyle=":", linewidth=1, label="asked for")
    axes.set_ylim(0, max([*rates, tour.rate]) * 1.15)
    axes.legend(loc="lower center")
    return svg(figure)


def freshness_chart(tour) -> str:
    """Share of events visible within so many seconds, by sink."""
    figure, axes = new_chart(
        "Freshness: event sent to commit completed", "seconds", "share of events visible, %"
    )
    for sink, quantiles in tour.series.get("freshness_quantiles", {}).items():
        share = [100 * i / (len(quantiles) - 1) for i in range(len(quantiles))]
        axes.plot(quantiles, share, color=COLOURS[sink], label=NAMES[sink])
    axes.set_xlim(left=0)
    axes.legend(loc="lower right")
    return svg(figure)


def files_chart(tour) -> str:
    """Files of each sink over time, the table's own bookkeeping included."""
    return _store_chart(tour, "Files per sink, bookkeeping included", "files", "files", 1)


def bytes_chart(tour) -> str:
    """Bytes of each sink over time."""
    return _store_chart(tour, "Bytes per sink, bookkeeping included", "MB", "bytes", 1e6)


def _store_chart(tour, title: str, unit: str, column: str, scale: float) -> str:
    figure, axes = new_chart(title, "seconds since the first event", unit)
    samples = pd.DataFrame(tour.series["store"])
    samples = samples[samples["at"] >= tour.series["began_at"] - 5]
    for sink, group in samples.groupby("sink", sort=False):
        axes.plot(
            group["at"] - tour.series["began_at"],
            group[column] / scale,
            color=COLOURS[sink],
            label=NAMES[sink],
        )
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left")
    return svg(figure)


def _sink_table(tour) -> str:
    columns = ["rows", "expected", "missing", "duplicate", "stale", "ghost", "unexpected"]
    return _facts_table(tour, {column: column for column in columns})


def _cost_table(tour) -> str:
    return _facts_table(
        tour,
        {
            "commits": "commits",
            "files": "files",
            "megabytes": "MB",
            "freshness_p50_s": "freshness, median s",
            "freshness_p95_s": "freshness, 95th percentile s",
        },
    )


def _facts_table(tour, columns: dict[str, str]) -> str:
    rows = [
        [NAMES[sink], *(_number((facts | _sizes(facts))[column]) for column in columns)]
        for sink, facts in tour.sinks.items()
    ]
    return _table(["sink", *columns.values()], rows)


def _sizes(facts: dict) -> dict[str, float]:
    return {"megabytes": facts["bytes"] / 1e6}


def _accounting(tour) -> str:
    return "".join(
        f"<p>{NAMES[sink]}: {a['acked']:,} acknowledged = {a['applied']:,} applied"
        f" + {a['superseded']:,} superseded + {a['duplicate']:,} duplicate + {a['dead']:,} dead.</p>"
        for sink, a in tour.accounting.items()
    )


def _query_table(tour) -> str:
    rows = [
        [f"{NAMES[q['sink']]}: {q['query']}", _number(q["rows"]), _number(q["seconds"])]
        for q in tour.queries
    ]
    return _table(["query", "rows", "seconds"], rows)


def _time_table(tour) -> str:
    rows = [[phase, f"{seconds:.1f}"] for phase, seconds in tour.seconds.items()]
    return _table(["phase", "seconds"], rows)


def _table(head: list[str], rows: list[list[str]]) -> str:
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<div class='scroll'><table><tr>{top}</tr>{body}</table></div>"


def _number(value) -> str:
    if value is None:
        return "not measured"
    return f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"
