"""Draws the ladder of receipts: what checkpoint and table hold of a batch at several moments."""

from collections.abc import Mapping

from lab_env.display.chart import INK, new_chart, svg
from lab_env.display.palette import GREEN, GREY, VERMILION
from lab_env.lessons.l17.receipts import Receipts

RUNGS = ("offsets/N: the plan", "marker", "data file", "completed instant", "commits/N")
THERE, MISSING, REMOVED = "there", "missing", "removed"


def rungs_of(receipts: Receipts) -> dict[str, tuple[str, str]]:
    """Each receipt of the newest planned batch: whether it is there, and what stands beside it.

    Args:
        receipts: of one moment.

    Returns:
        State (`there`, `missing` or `removed`) and label by rung. A marker is removed when its
        write is complete.
    """
    batch = receipts.offsets
    in_table = receipts.table >= batch
    wrote = receipts.completed == in_table and receipts.data > 0
    marker = THERE if receipts.markers else REMOVED if in_table else MISSING
    batch_in_table = f"batch {receipts.table}" if in_table else ""
    committed = receipts.commits >= batch
    return {
        RUNGS[0]: (THERE, f"offsets/{batch}"),
        RUNGS[1]: (marker, ".temp" if receipts.markers else ""),
        RUNGS[2]: (THERE, f"{receipts.data} parquet") if wrote else (MISSING, ""),
        RUNGS[3]: (THERE if in_table else MISSING, batch_in_table),
        RUNGS[4]: (THERE if committed else MISSING, f"commits/{batch}" if committed else ""),
    }


def draw_ladder(moments: Mapping[str, Receipts]) -> str:
    """Draw the five receipts of a batch, in the order in which they are written, top to bottom.

    Args:
        moments: the receipts, by the moment's name; one column each.

    Returns:
        An `<svg>` element: a full square for a receipt that is there, an empty one for a missing
        one, a grey dot for a marker that was removed because its write is complete.
    """
    figure, axes = new_chart("", "", "", width=2.2 + 2.0 * len(moments), height=2.9)
    for column, receipts in enumerate(moments.values()):
        axes.plot([column, column], [0, len(RUNGS) - 1], color=INK, alpha=0.2, zorder=1)
        for row, (state, label) in enumerate(rungs_of(receipts).values()):
            _draw_rung(axes, column, row, state)
            axes.text(column + 0.14, row, label, va="center", fontsize=8.5, color=INK)
    titles = [f"{name}\nbatch {receipts.offsets}" for name, receipts in moments.items()]
    axes.set_xticks(range(len(moments)), titles)
    axes.xaxis.tick_top()
    axes.set_yticks(range(len(RUNGS)), RUNGS)
    axes.set_xlim(-0.4, len(moments) - 0.3)
    axes.set_ylim(len(RUNGS) - 0.5, -0.5)
    axes.grid(visible=False)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    return svg(figure)


def _draw_rung(axes, column: int, row: int, state: str) -> None:
    if state == THERE:
        axes.scatter(column, row, marker="s", s=120, color=GREEN, zorder=2)
    elif state == REMOVED:
        axes.scatter(column, row, marker="o", s=18, color=GREY, zorder=2)
    else:
        axes.scatter(
            column, row, marker="s", s=120, facecolors="none", edgecolors=VERMILION,
            linewidths=1.8, zorder=2,
        )  # fmt: skip
