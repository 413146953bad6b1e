"""Lesson 12's measurements and drawings: costs, totals, order histories, and a waterfall chart."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from decimal import Decimal
from itertools import accumulate

import pandas as pd

from lab_env.platform.display.chart import INK, new_chart, note, svg
from lab_env.platform.display.palette import GREEN, VERMILION
from lab_env.platform.errors import LabError
from lab_env.tables.probes.inputs import InputBytes
from lab_env.tables.probes.s3_requests import count_requests

UP, DOWN = GREEN, VERMILION
HALF = 0.36  # of a bar's width, in steps
ABSENT = "not there"


class Cost:
    """Measures the queries in a `with` block: bytes read by Spark's tasks, and requests."""

    def __init__(self, spark, path: str):
        self._spark = spark
        self._path = path
        #: `bytes` and `requests`, known after the block.
        self.numbers: dict[str, int] = {}

    def __enter__(self) -> "Cost":
        self._stack = ExitStack()
        self._read = self._stack.enter_context(InputBytes(self._spark, self._path))
        self._sent = self._stack.enter_context(count_requests(self._spark))
        return self

    def __exit__(self, *raised) -> None:
        self._stack.__exit__(*raised)
        self.numbers = {"bytes": self._read.bytes, "requests": self._sent.total}


def euro(rows) -> Decimal:
    """Return the sum of a DataFrame's column `cents`, in euros; 0 if it has no rows."""
    return Decimal(rows.agg({"cents": "sum"}).first()[0] or 0) / 100


def differences(kept, truth) -> list[str]:
    """Return the customers whose stored `cents` are wrong, missing or unexpected."""
    old, new = ({row.customer_id: row.cents for row in rows.collect()} for rows in (kept, truth))
    return sorted(name for name in old | new if old.get(name) != new.get(name))


def tell(
    stories: Mapping[str, str], increment: Mapping[str, str], lives: Mapping[str, Sequence]
) -> pd.DataFrame:
    """Return orders' histories next to the results of an incremental query and the change feed.

    Args:
        stories: the history in words, by order.
        increment: the status that the incremental query returns, by order.
        lives: the states in the change feed, by order; None while the order does not exist.
    """
    states = {
        order: " → ".join(ABSENT if pd.isna(state) else str(state) for state in life)
        for order, life in lives.items()
    }
    return pd.DataFrame(
        {
            "what happened": dict(stories),
            "incremental query": {order: increment.get(order, "no row") for order in stories},
            "change feed": states,
        }
    )


def first_words(refusal: Exception) -> str:
    """Return a Spark error on one line, without its stack trace."""
    return " ".join(str(refusal).split("\tat ")[0].split())


def draw_waterfall(
    title: str, old: Decimal, steps: Mapping[str, Decimal], new: Decimal, unit: str
) -> str:
    """Draw how an old total became a new one, by the amount that each kind of change added.

    The totals are lines, not bars, because the axis does not start at 0, so only the lengths of
    steps can be compared. Raises `LabError` if `old` plus the steps is not `new`.
    """
    rest = new - old - sum(steps.values())
    if rest:
        raise LabError(
            f"The steps do not lead from {old:,.2f} to {new:,.2f}: {rest:,.2f} is not explained.",
            "look for a kind of change that is missing from the steps.",
        )
    figure, axes = new_chart(title, "", unit, width=2.2 + 1.1 * len(steps), height=3.4)
    levels = list(accumulate([old, *steps.values()]))
    room = (max(levels) - min(levels)) * Decimal("0.15") or 1  # for the labels above the bars
    _total(axes, 0, old)
    for x, size in enumerate(steps.values(), 1):
        begin, end = levels[x - 1 : x + 1]
        axes.bar(x, float(size), 2 * HALF, bottom=float(begin), color=UP if size > 0 else DOWN)
        _level(axes, x - 1, begin)
        _label(axes, x, max(begin, end), f"{size:+,.2f}" if size else "0.00")
    last = len(steps) + 1
    _level(axes, last - 1, new)
    _total(axes, last, new)
    names = ["before", *(name.replace(" ", "\n") for name in steps), "now"]
    axes.set_xticks(range(last + 1), names)
    axes.tick_params(axis="x", length=0)
    axes.grid(axis="x", visible=False)
    axes.set_ylim(float(min(levels) - room), float(max(levels) + room))
    axes.yaxis.set_major_formatter("{x:,.0f}")
    return svg(figure)


def _total(axes, x: int, amount: Decimal) -> None:
    axes.hlines(float(amount), x - HALF, x + HALF, color=INK, linewidth=3)
    _label(axes, x, amount, f"{amount:,.2f}")


def _level(axes, x: int, amount: Decimal) -> None:
    ends = (x + HALF, x + 1 - HALF)
    axes.hlines(float(amount), *ends, color=INK, linewidth=0.8, linestyle=":")


def _label(axes, x: int, amount: Decimal, text: str) -> None:
    note(axes, text, (x, float(amount)), (0, 4), ha="center", fontsize=8)
