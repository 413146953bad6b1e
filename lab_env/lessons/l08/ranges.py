"""Draws each file's range of a column's values as a bar, and a filter as a band."""

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lab_env.platform.display.chart import INK, new_panels, svg
from lab_env.platform.display.palette import BLUE, GREY, VERMILION

HIT, MISS, FILTER = BLUE, GREY, VERMILION


def range_chart(
    panels: dict[str, pd.DataFrame], filters: dict[str, tuple[float, float]], label: str = ""
) -> str:
    """Draw a bar from each file's smallest to its largest value; blue if it overlaps the filter.

    Args:
        panels: by title, a table with the columns low and high and one row per file.
        filters: by title, the lowest and the highest value that the filter selects.
    """
    files = max(len(ranges) for ranges in panels.values())
    figure, axes_of = new_panels(list(panels), width=8.4, height=0.9 + 0.2 * files)
    for axes, (title, ranges) in zip(axes_of, panels.items(), strict=True):
        low, high = filters[title]
        meets = (ranges["low"] <= high) & (ranges["high"] >= low)
        colours = [HIT if met else MISS for met in meets]
        widths = ranges["high"] - ranges["low"]
        widths = widths.clip(lower=widths.max() / 99)  # a range of a single value is visible, too
        axes.barh(range(len(ranges)), widths, left=ranges["low"], color=colours, height=0.7)
        axes.axvspan(low, high, color=FILTER, alpha=0.25)
        axes.axvline(low, color=FILTER, linewidth=1.6)
        axes.set_yticks([])
        axes.set_ylim(files - 0.4, -0.6)
        axes.set_xlabel(label)
        axes.set_ylabel("files", color=INK)
        axes.spines["left"].set_visible(False)
    return svg(figure)


def draw_orders(found: pd.DataFrame, hours: tuple[float, float], large_amount: float) -> str:
    """Draw each file's range of times and of amounts, with a filter on each.

    Args:
        found: one row per file: minimum and maximum of `order_ts` and `amount`.
        hours: the times that the first filter selects, in hours since the first order.
        large_amount: the smallest amount that the second filter selects.
    """
    times, amounts = "order_ts, in hours from the start", "amount"
    ordered = found[["min(order_ts)", "max(order_ts)"]]
    ordered = (ordered - ordered["min(order_ts)"].min()) / pd.Timedelta("1h")
    panels = {times: ordered, amounts: found[["min(amount)", "max(amount)"]].astype(float)}
    by_time = ordered["min(order_ts)"].sort_values().index
    panels = {
        title: ranges.set_axis(["low", "high"], axis=1).loc[by_time]
        for title, ranges in panels.items()
    }
    return range_chart(panels, {times: hours, amounts: (large_amount, 1000)})


def column_ranges(spark: SparkSession, path: str) -> pd.DataFrame:
    """Return each file's smallest and largest `order_ts` and `amount`, for `draw_orders`."""
    rows = spark.read.format("hudi").load(path).groupBy(F.input_file_name())
    return rows.agg(
        *[of(name) for name in ("order_ts", "amount") for of in (F.min, F.max)]
    ).toPandas()
