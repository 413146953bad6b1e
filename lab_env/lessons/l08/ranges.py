"""The range of a column's values in each file as a bar, and a filter as a line across the bars."""

import pandas as pd

from lab_env.display.chart import INK, new_panels, svg
from lab_env.display.palette import BLUE, GREY, VERMILION

HIT, MISS, FILTER = BLUE, GREY, VERMILION


def range_chart(
    panels: dict[str, pd.DataFrame], filters: dict[str, tuple[float, float]], label: str = ""
) -> str:
    """Bars from the smallest to the largest value in each file; those that meet the filter are blue.

    Args:
        panels: for each title a table with a row a file and the columns low and high, in the
            order of drawing from above; the panels stand side by side.
        filters: for each title the lowest and highest value that a filter asks for.
        label: of the horizontal axes.

    Returns:
        SVG text.
    """
    files = max(len(ranges) for ranges in panels.values())
    figure, axes_of = new_panels(list(panels), width=8.4, height=0.9 + 0.2 * files)
    for axes, (title, ranges) in zip(axes_of, panels.items(), strict=True):
        low, high = filters[title]
        meets = (ranges["low"] <= high) & (ranges["high"] >= low)
        colours = [HIT if met else MISS for met in meets]
        axes.barh(
            range(len(ranges)),
            # A range of one value must be seen, too.
            (ranges["high"] - ranges["low"]).clip(
                lower=(ranges["high"] - ranges["low"]).max() / 99
            ),
            left=ranges["low"],
            color=colours,
            height=0.7,
        )
        axes.axvspan(low, high, color=FILTER, alpha=0.25)
        axes.axvline(low, color=FILTER, linewidth=1.6)
        axes.set_yticks([])
        axes.set_ylim(files - 0.4, -0.6)
        axes.set_xlabel(label)
        axes.set_ylabel("files", color=INK)
        axes.spines["left"].set_visible(False)
    return svg(figure)
