"""Figures and tables of lesson 20: bytes by commit, the bill, and the articles' open questions."""

from collections.abc import Mapping

import pandas as pd

from lab_env.lessons.recorded import SINKS
from lab_env.lessons.recorded.cost import Bill
from lab_env.platform.display.card import styled
from lab_env.platform.display.chart import COLOURS, INK, NAMES, new_chart, note, svg

KB = 1000
LATER = 3  # commits for which the chart continues the lines beyond those that were measured


def draw_break_even(written: pd.DataFrame, compaction: int, commits: float) -> str:
    """Draw the bytes written since the last compaction, by number of commits.

    Dots are measured; dashed lines extrapolate with the mean bytes per commit.

    Args:
        written: bytes of each batch of changes, with the columns `cow` and `mor`.
        compaction: bytes of the compaction after these batches.
        commits: the break-even: number of commits at which Copy-on-Write has written as much as
            Merge-on-Read with its compaction.
    """
    figure, axes = new_chart(
        "Bytes written since the last compaction", "commits since then", "KB in total"
    )
    lines = {
        "cow": (written["cow"], 0, NAMES["cow"], "o-"),
        "mor": (written["mor"], compaction, f"{NAMES['mor']} and a compaction now", "o-"),
        "logs": (written["mor"], 0, f"{NAMES['mor']}, its logs alone", "o:"),
    }
    for name, (batches, extra, label, style) in lines.items():
        total = (batches.cumsum() + extra) / KB
        colour = COLOURS["cow" if name == "cow" else "mor"]
        axes.plot(range(1, len(total) + 1), total, style, color=colour, label=label)
        end, mean = len(total), batches.mean() / KB
        later = [total.iloc[-1] + mean * more for more in range(LATER + 1)]
        axes.plot(range(end, end + LATER + 1), later, "--", color=colour, alpha=0.6)
    if 0 < commits <= len(written) + LATER:
        meet = commits * written["cow"].mean() / KB
        axes.plot([commits, commits], [0, meet], color=INK, linewidth=1, alpha=0.6)
        note(axes, f"break-even: {commits:.1f} commits", (commits, 0), (4, 6))
    axes.set(ylim=(0, None), xticks=range(1, len(written) + LATER + 1))
    axes.legend(fontsize=8, loc="upper left")
    return svg(figure)


def bill_table(bills: Mapping[str, Bill]) -> pd.DataFrame:
    """Return the cost of a recorded run in US cents, one column per sink."""
    rows = {
        NAMES[sink]: {
            "to write it, table services counted": 100 * bills[sink].write,
            "to store it for a month": 100 * bills[sink].storage,
            "a thousand sums over all orders, fresh": 100_000 * bills[sink].query,
        }
        for sink in SINKS
    }
    return pd.DataFrame(rows).round(3)


def promises(sinks: dict, grown: dict, board: Mapping[str, float]):
    """Return the questions that the articles left open, this lesson's answers, and open points.

    Args:
        board: figures of the lesson's Merge-on-Read table before its compaction: `bytes`, the
            share of a snapshot query's bytes that a read-optimised query read, and `missing`, the
            revenue that the latter lacked.
    """
    largest = max(row["factor"] for row in grown["rows"])
    cow, mor = "cow against json", "mor against json"
    rate, amplification = (
        f"{metric}, services counted" for metric in ("ingest rows/s", "write amplification")
    )
    rows = [
        (
            "JSON files against Hudi, rows per second",
            "of the rows per second of the files, services counted: Copy-on-Write "
            f"{_between(sinks, rate, cow, '.0%')}, Merge-on-Read "
            f"{_between(sinks, rate, mor, '.0%')}",
            "ingest on many cores",
        ),
        (
            "JSON files against Hudi, cost",
            "bytes written, services counted, times those of the files: Copy-on-Write "
            f"{_between(sinks, amplification, cow)}, Merge-on-Read "
            f"{_between(sinks, amplification, mor)}",
            "a bill from a cloud: ours has measured work at listed prices",
        ),
        (
            "Copy-on-Write against Merge-on-Read, by type of query",
            "snapshot, fresh: Merge-on-Read takes "
            f"{_between(sinks, 'aggregate, fresh: warm s', 'mor against cow')} times as long; "
            f"read-optimised reads {board['bytes']:.0%} of the bytes of a snapshot query, and "
            f"misses the revenue by {board['missing']:,.2f} until the compaction",
            "seconds of read-optimised queries on large tables",
        ),
        (
            "Scalability",
            f"a table of {largest} times the orders: a commit writes "
            f"{_growth(grown, 'cow')} times the bytes on Copy-on-Write, {_growth(grown, 'mor')} on "
            "Merge-on-Read",
            "more load, more shards, more cores, more machines",
        ),
        (
            "Other query engines",
            "Trino, DuckDB and hudi-rs in lesson 13",
            "Redshift, Pinot, Athena",
        ),
    ]
    table = pd.DataFrame(rows, columns=["left to future articles", "answered here", "open"])
    left = [{"selector": "th, td", "props": "text-align: left; white-space: normal"}]
    return styled(table).hide(axis="index").set_table_styles(left)


def _between(run: dict, metric: str, pair: str, form: str = ".1f") -> str:
    """Format the lowest and highest ratio of two sinks' medians over all workloads."""
    found = [row["verdicts"][pair]["ratio"] for row in run["metrics"] if row["metric"] == metric]
    return f"{min(found):{form}} to {max(found):{form}}"


def _growth(run: dict, kind: str) -> str:
    """Format the growth of a commit's bytes from smallest to largest table, over all indexes."""
    rows = pd.DataFrame(run["rows"])
    rows = rows[(rows["type"] == kind) & (rows["metric"] == "bytes written")]
    sizes = rows.pivot(index="index", columns="factor", values="median")
    found = sizes[sizes.columns.max()] / sizes[sizes.columns.min()]
    return f"{found.min():.1f} to {found.max():.1f}"
