"""Figures and tables of lesson 20: bytes by commits, and the bill."""

from collections.abc import Mapping

import pandas as pd

from lab_env.lessons.recorded import SINKS
from lab_env.lessons.recorded.cost import Bill
from lab_env.platform.display.chart import COLOURS, INK, NAMES, new_chart, note, svg

KB = 1000
LATER = 3  # commits for which the chart continues the lines beyond those that were measured


def commits_until_even(written: pd.DataFrame, compaction: int) -> float:
    """Return the number of commits after which both table types have written the same bytes.

    `written` and `compaction` are as in `draw_break_even`.
    """
    return compaction / (written["cow"] - written["mor"]).mean()


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
            "a thousand sums over all orders, before services": 100_000 * bills[sink].query,
        }
        for sink in SINKS
    }
    return pd.DataFrame(rows).round(3)
