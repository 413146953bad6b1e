"""Generates the page docs/formats.md from the recorded runs of `lab bench formats` and `bill`.

No table name or figure is written by hand: every statement is derived from the recorded rounds. A
format is called ahead only if one of its tables beats every table of the other formats, by the rule
of `tables.probes.verdict`.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import asdict
from pathlib import Path
from statistics import median

import pandas as pd

from lab_env.lessons import recorded
from lab_env.lessons.recorded.contenders import (
    CODEC,
    CONTENDERS,
    FEED,
    FORMATS,
    HUDI,
    Contender,
    options_of_all,
)
from lab_env.lessons.recorded.cost import read_prices
from lab_env.lessons.recorded.formats import (
    GROUPS,
    MEASURES,
    Claim,
    Measure,
    claims,
    rounds_of,
    spreads,
    undecided,
)
from lab_env.platform.display.html import number, render
from lab_env.platform.settings import REPOSITORY
from lab_env.tables.probes.verdict import HIGHER, INCONCLUSIVE, LOWER, Spread, verdict
from lab_env.workbench.bench import bill as bills
from lab_env.workbench.bench.format_chart import chart, line_chart
from lab_env.workbench.bench.formats import formats_config
from lab_env.workbench.bench.machine import Comparison
from lab_env.workbench.bench.order_stream import ERASED, NEW

PAGE = REPOSITORY / "docs" / "formats.md"
QUIET_LOAD = 0.8  # processes that want to run, when nothing but the benchmark begins
GROWN = ("commit: s", "commit: CPU s", "commit: bytes written", "aggregate, before compaction: s")
# Drawn at the largest size.
CHARTS = {"commit": "commit: s", "query": "aggregate, before compaction: s"}
COMMIT_GOAL = 1.2  # times the quickest commit of another format


def commit_time(run: dict) -> list[Comparison]:
    """Compare small commits to the smallest tables: Hudi's fastest with the other formats' fastest.

    Return no comparison if the run has wrong answers.
    """
    size, factor = run["size"], run["size"]["factors"][0]
    figures = rounds_of(run, "commit: s", factor)
    if not figures:
        return []
    quickest = sorted(figures, key=lambda key: median(figures[key]))
    hudi = next(key for key in quickest if CONTENDERS[key].format == HUDI)
    peer = next(key for key in quickest if CONTENDERS[key].format != HUDI)
    return [
        Comparison.of(
            "formats",
            f"commit of {size['small']:,} events into {_orders(run, factor)} orders,"
            f" {CONTENDERS[hudi].title}",
            CONTENDERS[peer].title,
            "s",
            list(zip(figures[hudi], figures[peer], strict=True)),
            (f"{COMMIT_GOAL} or less", lambda ratio: ratio <= COMMIT_GOAL),
        )
    ]


def write_page() -> list[Path]:
    """Write the page and its charts from the recorded run that is part of the repository."""
    files = files_of(recorded.delivered("formats"), recorded.delivered("bill"))
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
    return list(files)


def files_of(run: dict, bill: dict) -> dict[Path, str]:
    """Return the text of the page and of its charts, keyed by file."""
    bars = {path: chart(*parts) for path, parts in charts(run).items()}
    path, title, figures, alt = bill_chart(bill)
    return {PAGE: page(run, bill), path: line_chart(title, figures, alt)} | bars


def bill_chart(bill: dict) -> tuple[Path, str, dict[str, list[int]], str]:
    """Return the file, title, figures and alternative text of the chart of requests."""
    figures = {
        key: bills.frame(commits).groupby("commit")["requests"].sum().tolist()
        for key, commits in bill["commits"].items()
    }
    title = f"S3 requests of each commit of {bill['size']['changes']:,} events"
    values = ", ".join(
        f"{CONTENDERS[key].title} from {found[0]:,} to {found[-1]:,}"
        for key, found in figures.items()
    )
    return PAGE.parent / "images" / "formats-bill.svg", title, figures, f"{title}: {values}."


def charts(run: dict) -> dict[Path, tuple[str, dict[str, Spread], str]]:
    """Return the title, figures and alternative text of each chart, keyed by its file."""
    factor = run["size"]["factors"][-1]
    measures = {measure.metric: measure for measure in MEASURES}
    found = {}
    for name, metric in CHARTS.items():
        unit = f"{_orders(run, factor)} orders; {measures[metric].better} is better"
        title = f"{_title(run, measures[metric])} ({unit})"
        figures = spreads(run, metric, factor)
        values = ", ".join(f"{c.title} {number(figures[c.key].median)}" for c in _contenders(run))
        path = PAGE.parent / "images" / f"formats-{name}.svg"
        found[path] = title, figures, f"{title}: {values}."
    return found


def page(run: dict, bill: dict) -> str:
    """Return the page on a comparison and a request count as Markdown; neither may have problems.

    Args:
        run: of `lab bench formats`.
        bill: of `lab bench bill`.
    """
    factors = run["size"]["factors"]
    before, after = (
        spreads(run, f"aggregate, {state} compaction: requests", factors[-1])
        for state in ("before", "after")
    )
    return render(
        "workbench/bench/format_page.md.j2",
        run=run,
        size=run["size"],
        machine=run["machine"],
        quiet_load=QUIET_LOAD,
        older=run.get("options") != options_of_all(),
        full=_full_size(run),
        tables=len(CONTENDERS),
        formats=", ".join(f"{FORMATS[name]} {run['versions'][name]}" for name in FORMATS),
        score=_score(run),
        charts=charts(run),
        rounds=_rounds(run),
        smallest=_orders(run, factors[0]),
        largest=_orders(run, factors[-1]),
        **_sizes(run),
        updated=f"{100 * (1 - NEW - ERASED):.0f}",
        erased=f"{100 * ERASED:.0f}",
        new=f"{100 * NEW:.0f}",
        first_places=_first_places(run),
        figures={_orders(run, factor): _figures(run, factor) for factor in factors},
        growth=_growth(run) if len(factors) > 1 else "",
        options=_options(),
        codec=CODEC,
        dv_before=number(before["delta-dv"].median),
        dv_after=number(after["delta-dv"].median),
        without_dv=number(before["delta"].median),
        feed=CONTENDERS[FEED].title,
        bill=bill,
        bill_chart=bill_chart(bill),
        bill_table=_bill_table(bill),
        bill_growth=_bill_growth(bill),
        prices=read_prices(),
    )


def _bill_table(bill: dict) -> str:
    found = bills.bill_table(bill)
    rows = [
        (*names, *(number(value) for value in row))
        for names, row in zip(found.index, found.to_numpy(), strict=True)
    ]
    return _table((*found.index.names, *found.columns), rows)


def _bill_growth(bill: dict) -> str:
    """List each table's requests of its last commits as a multiple of its first ones."""
    requests = bills.bill_table(bill)["all"]
    return ", ".join(
        f"{title} {number(of_table.iloc[-1] / of_table.iloc[-2])}"
        for title, of_table in requests.groupby("table", sort=False)
        if len(of_table) > 2  # rows: the first commit, the first ten, the last ten
    )


def _full_size(run: dict) -> dict[str, object]:
    """Return a full run's sizes as text; empty if this run is a full one."""
    config = formats_config(full=True)
    full = asdict(config) | {"factors": list(config.factors)}
    if run["size"].items() <= full.items():
        return {}
    return _sizes({"size": full}) | {
        "rounds": config.rounds,
        "orders": " and ".join(f"{factor * config.orders:,}" for factor in config.factors),
    }


def _score(run: dict) -> str:
    """Write a sentence on how often each format came first, beginning with the best one."""
    found = Counter(FORMATS[CONTENDERS[claim.table].format] for claim in claims(run))
    if not found:
        return "No format is first in any comparison."
    first, *others = sorted(FORMATS.values(), key=lambda title: -found[title])
    behind = " and ".join(f"{title} in {found[title]}" for title in others)
    return (
        f"{first} came first in {found[first]} of {found.total() + len(undecided(run))} comparisons"
        f" with both other formats, {behind}; {len(undecided(run))} are {INCONCLUSIVE}."
    )


def _first_places(run: dict) -> str:
    """Write a Markdown table of the tables that beat both other formats, by measure and size."""
    first = {(claim.measure, claim.factor): _first_place(run, claim) for claim in claims(run)}
    factors = run["size"]["factors"]
    rows = [
        (_title(run, measure), *(first.get((measure, factor), "nobody") for factor in factors))
        for measure in MEASURES
        if measure.claimed
    ]
    return _table(("measure", *(f"{_orders(run, factor)} orders" for factor in factors)), rows)


def _first_place(run: dict, claim: Claim) -> str:
    figures = rounds_of(run, claim.measure.metric, claim.factor)
    first, following = (
        f"{CONTENDERS[table].title} {number(median(figures[table]) / claim.measure.divisor)}"
        for table in (claim.table, claim.next_table)
    )
    return f"{first} ({following})"


def _figures(run: dict, factor: int) -> dict[str, str]:
    """Return a Markdown table for each group of measures, keyed by the group's title."""
    tables = {}
    for title, group in GROUPS.items():
        figures = [spreads(run, measure.metric, factor) for measure in group]
        heads = [measure.column.format(**_sizes(run)) for measure in group]
        rows = [
            (
                c.title,
                *(
                    _text(found[c.key], measure) if c.key in found else "–"
                    for found, measure in zip(figures, group, strict=True)
                ),
            )
            for c in _contenders(run)
            if any(c.key in found for found in figures)
        ]
        tables[title] = _table(("table", *heads), rows)
    return tables


def _growth(run: dict) -> str:
    """Write a Markdown table of each figure's ratio between the largest and the smallest size."""
    factors = run["size"]["factors"]
    measures = [measure for measure in MEASURES if measure.metric in GROWN]
    figures = [
        [spreads(run, measure.metric, factor) for factor in (factors[-1], factors[0])]
        for measure in measures
    ]
    rows = [
        (c.title, *(_ratio(large[c.key], small[c.key]) for large, small in figures))
        for c in _contenders(run)
    ]
    return _table(("table", *(_title(run, measure) for measure in measures)), rows)


def _options() -> str:
    """Write a Markdown table of the formats' tuning steps and their table properties."""
    rows = {}
    for contender in CONTENDERS.values():
        for advice in contender.advice:
            same = (c for c in CONTENDERS.values() if c.format == contender.format and c.tuned)
            everywhere = all(advice in other.advice for other in same)
            only = "" if everywhere else f" ({contender.title} only)"
            values = ", ".join(f"`{key}={value}`" for key, value in advice.all_options.items())
            what = f"[{advice.what}]({advice.guide}){only}"
            row = (FORMATS[contender.format], what, values or "–")
            rows.setdefault((contender.format, advice.what), row)
    return _table(("format", "tuning step", "properties"), rows.values())


def text_table(run: dict) -> str:
    """Return tables of the medians for a terminal, one per size."""
    if not run["rows"]:
        return "No figures: the answers are wrong."
    rows = pd.DataFrame(run["rows"])
    parts = []
    for factor, of_size in rows.groupby("factor"):
        frame = of_size.pivot(index="metric", columns="contender", values="median")
        order = [c.key for c in _contenders(run)]
        parts.append(f"{_orders(run, factor)} orders\n{frame[order].round(2).to_string()}")
    return "\n\n".join(parts)


def _contenders(run: dict) -> list[Contender]:
    measured = {row["contender"] for row in run["rows"]}
    return [contender for key, contender in CONTENDERS.items() if key in measured]


def _sizes(run: dict) -> dict[str, str]:
    return {name: f"{run['size'][name]:,}" for name in ("small", "large")}


def _title(run: dict, measure: Measure) -> str:
    return (measure.title or measure.column).format(**_sizes(run))


def _rounds(run: dict) -> str:
    rounds = run["size"]["rounds"]
    return "one round" if rounds == 1 else f"{rounds} rounds"


def _orders(run: dict, factor: int) -> str:
    return f"{factor * run['size']['orders']:,}"


def _text(spread: Spread, measure: Measure) -> str:
    median, low, high = (
        number(value / measure.divisor) for value in (spread.median, spread.low, spread.high)
    )
    return median if low == high else f"{median} ({low} to {high})"


def _ratio(this: Spread, other: Spread) -> str:
    found = verdict(this, other)
    if found not in (LOWER, HIGHER) or not other.median:
        return found
    return f"{this.median / other.median:.2g}"


def _table(heads: Collection[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [heads, ["---" for _ in heads], *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
