"""Renders the benchmark's report as one HTML page with charts, and as a table for the terminal."""

import pandas as pd
from rich.table import Table

from lab_env.lessons.recorded import SINKS, cost, growth
from lab_env.lessons.recorded.freshness import freshness_chart
from lab_env.platform.display.chart import COLOURS, INK, NAMES, new_panels, svg
from lab_env.platform.display.html import frame_table, number, render
from lab_env.tables.probes.verdict import EQUAL, INCONCLUSIVE
from lab_env.workbench.bench.config import ALL_QUERIES, BEFORE_TABLE_SERVICES
from lab_env.workbench.bench.summary import PAIRS

HEIGHT = 0.24  # of a bar, in units of one group

# The terminal shows these metrics, the page all.
HEADLINES = (
    "ingest rows/s",
    "ingest rows/s, services counted",
    "write amplification, services counted",
    "ingest puts",
    "bytes stored, fresh",
    "bytes stored, tidy",
    "aggregate, fresh: warm s",
    "point, fresh: warm s",
)
COUNTED = "table services counted"
QUERIES = ALL_QUERIES[BEFORE_TABLE_SERVICES]
# Title, metrics by the label of their panel, and the divisor from the metrics' unit to the title's.
CHARTS = (
    (
        "Rows written per second",
        {"batches": "ingest rows/s", COUNTED: "ingest rows/s, services counted"},
        1,
    ),
    (
        "Bytes written per byte of an event",
        {"batches": "write amplification", COUNTED: "write amplification, services counted"},
        1,
    ),
    ("MB stored", {state: f"bytes stored, {state}" for state in ALL_QUERIES}, 1e6),
    ("Processor seconds", {"batches": "ingest CPU s", "table services": "services CPU s"}, 1),
    ("Requests that write", {"batches": "ingest puts", "table services": "services puts"}, 1),
    ("Seconds of a query, warm, fresh", {q: f"{q}, fresh: warm s" for q in QUERIES}, 1),
    ("Requests of a query, fresh", {q: f"{q}, fresh: requests" for q in QUERIES}, 1),
)


def page(report: dict) -> str:
    """Render the page as an HTML document without scripts, for light and dark themes.

    Args:
        report: a run's `problems` and its results, `sinks` and `growth`, if measured.
    """
    sinks, grown = report.get("sinks"), report.get("growth")
    return render(
        "workbench/bench/report.html.j2",
        problems=report["problems"],
        sinks=_sinks(sinks) if sinks else None,
        growth=grown and {"chart": growth.growth_chart(grown), "caption": growth.caption_of(grown)},
    )


def _sinks(report: dict) -> dict:
    known = [row["metric"] for row in report["metrics"]]
    titles = {name: facts["title"] for name, facts in report["size"]["scenarios"].items()}
    drawn = [
        (title, {label: metric for label, metric in metrics.items() if metric in known}, scale)
        for title, metrics, scale in CHARTS
    ]
    costs = cost.costs(report)
    return {
        "report": report,
        "charts": [bars(report, *chart) for chart in drawn if chart[1]],
        "freshness": _freshness(report),
        "cost_charts": [
            cost.cost_chart(facts["bills"], titles[name], facts["crossings"])
            for name, facts in costs.items()
        ],
        "cheaper": frame_table(_cheaper(costs, titles)),
        "prices": frame_table(cost.price_table(), align="left"),
        "gb_per_vcpu": cost.GB_PER_VCPU,
        "scenarios": {
            title.capitalize(): frame_table(frame(report, name, list(dict.fromkeys(known))))
            for name, title in titles.items()
        },
    }


def _cheaper(costs: dict, titles: dict[str, str]) -> pd.DataFrame:
    rows = {
        titles[name]: {NAMES[sink]: found.text for sink, found in facts["crossings"].items()}
        for name, facts in costs.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("cheaper than the files")


def _freshness(report: dict) -> dict | None:
    """Return the freshness chart and table; None if freshness was not measured."""
    if not any(row["p50"] for row in report["freshness"]):
        return None
    columns = {
        "p50": "median s",
        "p95": "p95 s",
        "requested p50": "median s to the requested time",
        "rows/s": "rows/s visible",
    }
    rows = [
        {"rate": f"{row['rate']:,}", "sink": NAMES[row["sink"]]}
        | {title: _spread(row[name]) if row[name] else "none" for name, title in columns.items()}
        for row in report["freshness"]
    ]
    return {
        "chart": freshness_chart(report),
        "table": frame_table(pd.DataFrame(rows).set_index("rate")),
    }


def bars(report: dict, title: str, metrics: dict[str, str], scale: float = 1) -> str:
    """Return a chart (SVG): one panel per metric, one group per scenario, one bar per sink.

    Args:
        metrics: metrics of the same unit, by panel title.
        scale: divisor of the figures, for example 1e6 for MB.
    """
    scenarios = report["size"]["scenarios"]
    spreads = {(row["scenario"], row["metric"]): row["sinks"] for row in report["metrics"]}
    height = 1.1 + 0.75 * len(scenarios)
    figure, panels = new_panels(list(metrics), width=9.6, height=height)
    figure.suptitle(title, x=0.01, ha="left", color=INK, fontsize=12, fontweight="bold")
    for panel, metric in zip(panels, metrics.values(), strict=True):
        for group, scenario in enumerate(scenarios):
            for n, sink in enumerate(SINKS):
                spread, place = spreads[scenario, metric][sink], group + (n - 1) * (HEIGHT + 0.02)
                label = NAMES[sink] if group == 0 else None
                median, low, high = (spread[key] / scale for key in ("median", "low", "high"))
                panel.barh(place, median, HEIGHT, color=COLOURS[sink], label=label)
                panel.plot([low, high], [place, place], color=INK, linewidth=1.2)
        panel.set_yticks(range(len(scenarios)), [facts["title"] for facts in scenarios.values()])
        panel.set_ylim(len(scenarios) - 0.5, -0.5)
        panel.set_xlim(left=0)
        panel.locator_params(axis="x", nbins=4)
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower left", ncols=3, frameon=False
    )
    return svg(figure)


def frame(report: dict, scenario: str, metrics: list[str]) -> pd.DataFrame:
    """Return formatted metrics: one row per metric, with each sink's spread and the verdicts."""
    rows = {row["metric"]: row for row in report["metrics"] if row["scenario"] == scenario}
    cells = {
        metric: {NAMES[sink]: _spread(rows[metric]["sinks"][sink]) for sink in SINKS}
        | {f"{a} / {b}": _verdict(rows[metric]["verdicts"][f"{a} against {b}"]) for a, b in PAIRS}
        for metric in metrics
    }
    return pd.DataFrame.from_dict(cells, orient="index").rename_axis("metric")


def text_table(report: dict) -> Table:
    """Return the main figures as a table for the terminal."""
    terminal = Table(
        title=f"Median (lowest to highest) of {report['size']['rounds']} rounds",
        title_justify="left",
        box=None,
        header_style="bold",
    )
    terminal.add_column("metric", overflow="fold")
    for sink in SINKS:
        terminal.add_column(NAMES[sink], justify="right")
    terminal.add_column("mor / cow", justify="right")
    for name, facts in report["size"]["scenarios"].items():
        terminal.add_row(f"[bold]{facts['title']}[/]")
        for row in report["metrics"]:
            if row["scenario"] == name and row["metric"] in HEADLINES:
                terminal.add_row(
                    row["metric"],
                    *(_spread(row["sinks"][sink]) for sink in SINKS),
                    _verdict(row["verdicts"]["mor against cow"]),
                )
    return terminal


def _spread(spread: dict) -> str:
    median, low, high = (number(spread[key]) for key in ("median", "low", "high"))
    return median if low == high else f"{median} ({low} to {high})"


def _verdict(found: dict) -> str:
    if found["verdict"] in (INCONCLUSIVE, EQUAL) or found["ratio"] is None:
        return found["verdict"]
    return number(found["ratio"]) if found["ratio"] >= 100 else f"{found['ratio']:.2g}"
