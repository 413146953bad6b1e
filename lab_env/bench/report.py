"""The benchmark's report as one HTML page with charts, and as a table for the terminal."""

from html import escape

import pandas as pd
from rich.table import Table

from lab_env.bench import cost, growth
from lab_env.bench.rounds import ALL_QUERIES, BEFORE_TABLE_SERVICES, SINKS
from lab_env.bench.summary import PAIRS
from lab_env.display.chart import COLOURS, INK, NAMES, new_chart, new_panels, svg
from lab_env.probes.verdict import EQUAL, INCONCLUSIVE
from lab_env.tour.report import STYLE

HEIGHT = 0.24  # of a bar, in units of one group

# What a terminal shows; the page has all.
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


def page(report: dict) -> str:
    """The page.

    Args:
        report: of a run: `problems`, and of `sinks` (what `summary` returned) and `growth` (what
            `growth.grow` returned) those that were measured.

    Returns:
        A complete HTML document without scripts, for light and dark.
    """
    problems = "".join(f"<pre>{escape(problem)}</pre>" for problem in report["problems"])
    state = (
        f"<p class='verdict bad'>There were wrong answers: the figures are worthless.</p>{problems}"
        if problems
        else "<p class='verdict good'>All answers were right.</p>"
    )
    parts = _sinks(report["sinks"]) if "sinks" in report else ""
    if "growth" in report:
        parts += _growth(report["growth"])
    return (
        "<!doctype html><html lang='en'><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>JSON, COW and MOR on one stream</title><style>{STYLE}"
        "figure { max-width: 48rem; } .wide td:last-child { white-space: normal; overflow-wrap: anywhere; }</style>"
        f"<h1>JSON, COW and MOR on one stream</h1>{state}{parts}</html>"
    )


def _growth(run: dict) -> str:
    return (
        "<h2>How cost grows with the table</h2><p>The same change while the table becomes 4 and 16"
        " times as large, under two kinds of index. The bucket index has its number of file groups"
        " fixed; under the bloom index a table of more than 2 MB a partition gets more files.</p>"
        f"<figure>{growth.growth_chart(run)}</figure><p>{escape(growth.said_of(run))}</p>"
    )


def _sinks(report: dict) -> str:
    cores = report["machine"]["cores"]
    rules = "".join(f"<li>{escape(rule)}</li>" for rule in report["rules"])
    sections = "".join(
        f"<h2>{escape(facts['title'].capitalize())}</h2>{_scenario(report, name)}"
        for name, facts in report["size"]["scenarios"].items()
    )
    return (
        f"<p>{report['size']['rounds']} rounds on {cores} cores, {report['made'][:10]}. Bars are medians,"
        " thin lines go from the lowest to the highest round. What is said of a difference follows"
        " from them; with few rounds or a busy machine much stays inconclusive.</p>"
        f"{charts(report)}{_freshness(report)}{_costs(report)}{sections}<h2>The rules of the comparison</h2><ul>{rules}</ul>"
    )


def charts(report: dict) -> str:
    """The charts of a report, as HTML.

    Args:
        report: what `summary` returned.
    """
    wanted = [
        ("Rows written a second", ["ingest rows/s", "ingest rows/s, services counted"], 1),
        ("Bytes written for each byte of an event", ["write amplification", "write amplification, services counted"], 1),
        ("MB stored", ["bytes stored, fresh", "bytes stored, tidy"], 1e6),
        ("Processor seconds", ["ingest CPU s", "services CPU s"], 1),
        ("Requests that write", ["ingest puts", "services puts"], 1),
        ("Seconds of a query, warm, fresh", [f"{q}, fresh: warm s" for q in ALL_QUERIES[BEFORE_TABLE_SERVICES]], 1),
        ("Requests of a query, fresh", [f"{q}, fresh: requests" for q in ALL_QUERIES[BEFORE_TABLE_SERVICES]], 1),
    ]  # fmt: skip
    known = {row["metric"] for row in report["metrics"]}
    drawn = [(title, [m for m in metrics if m in known], scale) for title, metrics, scale in wanted]
    return "".join(
        f"<figure>{bars(report, title, metrics, scale)}</figure>"
        for title, metrics, scale in drawn
        if metrics
    )


def _label(metric: str) -> str:
    """What tells a metric from the others of one chart."""
    if metric.endswith(", services counted"):
        return "table services counted"
    if metric in ("bytes stored, fresh", "bytes stored, tidy"):
        return metric.rpartition(", ")[2]
    if metric.startswith("services "):
        return "table services"
    return metric.partition(",")[0] if ":" in metric else "batches"


def bars(report: dict, title: str, metrics: list[str], scale: float = 1) -> str:
    """One chart: a panel a metric, a group of bars a scenario, a bar a sink.

    Args:
        report: what `summary` returned.
        title: what the chart shows.
        metrics: names of metrics of one unit.
        scale: what the figures are divided by, for example 1e6 for MB.

    Returns:
        SVG text.
    """
    scenarios = report["size"]["scenarios"]
    spreads = {(row["scenario"], row["metric"]): row["sinks"] for row in report["metrics"]}
    labels = [_label(metric) for metric in metrics]
    height = 1.1 + 0.75 * len(scenarios)
    figure, panels = new_panels(labels, width=9.6, height=height)
    figure.suptitle(title, x=0.01, ha="left", color=INK, fontsize=12, fontweight="bold")
    for panel, metric in zip(panels, metrics, strict=True):
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
        *panels[0].get_legend_handles_labels(), loc="outside lower left", ncols=3,
        labelcolor=INK, frameon=False,
    )  # fmt: skip
    return svg(figure)


def freshness_chart(report: dict) -> str:
    """Seconds from sent to visible over the rate of sending, and what requested times would say.

    Args:
        report: what `summary` returned, with freshness measured.

    Returns:
        SVG text.
    """
    figure, axes = new_chart(
        "Event sent to commit completed", "events/s", "seconds, median and p95"
    )
    for sink in SINKS:
        rows = [row for row in report["freshness"] if row["sink"] == sink and row["p50"]]
        rates, colour = [row["rate"] for row in rows], COLOURS[sink]
        middle = [row["p50"]["median"] for row in rows]
        axes.plot(rates, middle, "o-", color=colour, label=NAMES[sink])
        axes.vlines(rates, middle, [row["p95"]["median"] for row in rows], color=colour)
        told = [
            (row["rate"], row["requested p50"]["median"]) for row in rows if row["requested p50"]
        ]
        if told:
            label = f"{NAMES[sink]}, to the requested time"
            axes.plot(*zip(*told, strict=True), "o:", color=colour, label=label, alpha=0.7)
    axes.set_xscale("log")
    known = sorted({row["rate"] for row in report["freshness"]})
    axes.set_xticks(known, [f"{rate:,}" for rate in known])
    axes.set_xticks([], minor=True)
    axes.set_xlim(known[0] / 2, known[-1] * 2)
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left", fontsize=8)
    return svg(figure)


def _freshness(report: dict) -> str:
    if not any(row["p50"] for row in report["freshness"]):
        return ""
    head = ["rate", "sink", "median s", "p95 s", "median s to the requested time", "rows/s visible"]
    names = ("p50", "p95", "requested p50", "rows/s")
    body = [
        [
            f"{row['rate']:,}",
            NAMES[row["sink"]],
            *(_spread(row[name]) if row[name] else "none" for name in names),
        ]
        for row in report["freshness"]
    ]
    return (
        "<h2>Freshness</h2><p>The source articles end the interval at the commit's requested time,"
        " which each row carries. Nobody can read the row then: it flatters by the length of the"
        " commit. The last column counts from the first event to the last commit: in a run of seconds"
        f" it stays below the rate of sending, even where a sink keeps up.</p><figure>{freshness_chart(report)}</figure>{_html_table(head, body)}"
    )


def _costs(report: dict) -> str:
    found = cost.costs(report)
    charts = "".join(
        f"<figure>{cost.cost_chart(facts['bills'], _title(report, name), facts['crossings'])}</figure>"
        for name, facts in found.items()
    )
    cheaper = _html_table(
        ["cheaper than the files", *(NAMES[sink] for sink in ("cow", "mor"))],
        [
            [_title(report, name), *(facts["crossings"][sink].said for sink in ("cow", "mor"))]
            for name, facts in found.items()
        ],
    )
    head = ["item", "unit", "US dollars", "region", "as of", "source"]
    return (
        "<h2>What it would cost</h2><p>The measured run at cloud prices: its batches and table"
        " services, a month of what it stores, and aggregate queries of the fresh table. A"
        " dot marks where a table becomes cheaper than the files, if the rounds agree on it. Memory"
        f" is counted as {cost.GB_A_VCPU} GB a vCPU. No table size but the measured one is meant.</p><div class='grid'>"
        f"{charts}</div>{cheaper}<div class='wide'>{_html_table(head, cost.price_rows())}</div>"
    )


def _title(report: dict, scenario: str) -> str:
    return report["size"]["scenarios"][scenario]["title"]


def _html_table(head: list[str], body: list[list[str]]) -> str:
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    cells = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>" for line in body
    )
    return f"<div class='scroll'><table><tr>{top}</tr>{cells}</table></div>"


def _scenario(report: dict, name: str) -> str:
    rows = [row for row in report["metrics"] if row["scenario"] == name]
    head = ["metric", *(NAMES[sink] for sink in SINKS), *(f"{a} / {b}" for a, b in PAIRS)]
    body = [
        [
            row["metric"],
            *(_spread(row["sinks"][sink]) for sink in SINKS),
            *(_verdict(row["verdicts"][f"{a} against {b}"]) for a, b in PAIRS),
        ]
        for row in rows
    ]
    return _html_table(head, body)


def frame(report: dict, scenario: str, metrics: list[str]) -> pd.DataFrame:
    """Some metrics for a notebook: a row each, with the spread of each sink and the verdicts.

    Args:
        report: what `summary` returned.
        scenario: name of one of its scenarios.
        metrics: names of metrics.
    """
    rows = {row["metric"]: row for row in report["metrics"] if row["scenario"] == scenario}
    return pd.DataFrame(
        {
            metric: {
                **{NAMES[sink]: _spread(rows[metric]["sinks"][sink]) for sink in SINKS},
                **{
                    f"{a} / {b}": _verdict(rows[metric]["verdicts"][f"{a} against {b}"])
                    for a, b in PAIRS
                },
            }
            for metric in metrics
        }
    ).T


def text_table(report: dict) -> Table:
    """The headlines for a terminal.

    Args:
        report: what `summary` returned.
    """
    table = Table(
        title=f"Median (lowest to highest) of {report['size']['rounds']} rounds",
        title_justify="left",
        box=None,
        header_style="bold",
    )
    table.add_column("metric", overflow="fold")
    for sink in SINKS:
        table.add_column(NAMES[sink], justify="right")
    table.add_column("mor / cow", justify="right")
    for name, facts in report["size"]["scenarios"].items():
        table.add_row(f"[bold]{facts['title']}[/]")
        for row in report["metrics"]:
            if row["scenario"] == name and row["metric"] in HEADLINES:
                table.add_row(
                    row["metric"],
                    *(_spread(row["sinks"][sink]) for sink in SINKS),
                    _verdict(row["verdicts"]["mor against cow"]),
                )
    return table


def _spread(spread: dict) -> str:
    median, low, high = (number(spread[key]) for key in ("median", "low", "high"))
    return median if low == high else f"{median} ({low} to {high})"


def _verdict(found: dict) -> str:
    if found["verdict"] in (INCONCLUSIVE, EQUAL) or found["ratio"] is None:
        return found["verdict"]
    return number(found["ratio"]) if found["ratio"] >= 100 else f"{found['ratio']:.2g}"


def number(value: float) -> str:
    """A figure in three digits or so, for people."""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"
