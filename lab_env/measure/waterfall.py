"""A waterfall: an old total, what each kind of change did to it, and the new total."""

from collections.abc import Mapping
from decimal import Decimal

from lab_env.errors import LabError
from lab_env.measure.charts import INK, new_chart, svg
from lab_env.palette import GREEN, VERMILION

UP, DOWN = GREEN, VERMILION
HALF = 0.36  # of a bar's width, in steps


def draw_waterfall(
    title: str, old: Decimal, steps: Mapping[str, Decimal], new: Decimal, unit: str
) -> str:
    """Draw how an old total became a new one.

    The totals are lines, not bars, because the axis does not begin at 0: only the length of a step
    may be compared with that of another.

    Args:
        title: what the chart shows.
        old: the total before, in `unit`.
        steps: what each kind of change added (or took, below 0), in the order of drawing.
        new: the total after.
        unit: label of the vertical axis.

    Returns:
        An `<svg>` element.

    Raises:
        LabError: old and steps together are not new, so the picture would lie.
    """
    rest = new - old - sum(steps.values())
    if rest:
        raise LabError(
            f"The steps do not lead from {old:,} to {new:,}: {rest:,} is not explained.",
            "look for a kind of change that is missing from the steps.",
        )
    figure, axes = new_chart(title, "", unit, width=2.2 + 1.1 * len(steps), height=3.4)
    level = old
    _total(axes, 0, old)
    for place, size in enumerate(steps.values(), 1):
        colour = UP if size > 0 else DOWN
        axes.bar(place, float(size), 2 * HALF, bottom=float(level), color=colour)
        _level(axes, place - 1, level)
        level += size
        _label(axes, place, max(level, level - size), f"{size:+,}" if size else "0.00")
    last = len(steps) + 1
    _level(axes, last - 1, level)
    _total(axes, last, new)
    names = ["before", *(name.replace(" ", "\n") for name in steps), "now"]
    axes.set_xticks(range(last + 1), names)
    axes.tick_params(axis="x", length=0)
    axes.grid(axis="x", visible=False)
    axes.margins(y=0.18)
    return svg(figure)


def _total(axes, place: int, amount: Decimal) -> None:
    axes.hlines(float(amount), place - HALF, place + HALF, color=INK, linewidth=3)
    _label(axes, place, amount, f"{amount:,}")


def _level(axes, place: int, amount: Decimal) -> None:
    """The thin line from one step to the next: where the one ends, the other begins."""
    ends = (place + HALF, place + 1 - HALF)
    axes.hlines(float(amount), *ends, color=INK, linewidth=0.8, linestyle=":")


def _label(axes, place: int, amount: Decimal, text: str) -> None:
    where = {"xy": (place, float(amount)), "xytext": (0, 4), "textcoords": "offset points"}
    axes.annotate(text, **where, ha="center", fontsize=8, color=INK)
