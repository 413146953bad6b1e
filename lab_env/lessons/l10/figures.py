"""Draws one value over time: what readers saw, and what a query AS OF each moment returns.

A query as of a moment includes the commits that had been requested by then and are complete today.
A reader at that moment saw the commits that were already complete. The two differ between a
commit's request and its completion.
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import pandas as pd
from pyspark.sql import DataFrame

from lab_env.platform.display.card import styled
from lab_env.platform.display.chart import INK, new_chart, svg
from lab_env.platform.display.palette import AMBER, GREEN, PINK, SKY
from lab_env.tables.hudi.timeline import seconds_between
from lab_env.tables.xray.captions import clock

FILLS = (SKY, AMBER, GREEN, PINK)  # black letters read well on each
LANES = {"readers saw": 1.0, "AS OF says": 0.0}
WITHIN, BETWEEN = 1.0, 1.3  # widths: from request to completion, from there to the next request


def amount_of(order: str, table: DataFrame) -> str | None:
    """Return an order's amount, or Hudi's error message; None if the order has no row."""
    try:
        row = table.where(table["order_id"] == order).select("amount").first()
    except Exception as refusal:
        java = getattr(refusal, "java_exception", None)
        return (java.getMessage() if java else str(refusal)).partition(". ")[0]
    return str(row["amount"]) if row else None


def show_answers(answers: pd.DataFrame | Mapping[str, str]):
    """Return a styled table of answers by question; both may be whole sentences."""
    frame = answers if isinstance(answers, pd.DataFrame) else pd.DataFrame({"answer": answers})
    left = [{"selector": "th, td", "props": "text-align: left; white-space: normal"}]
    return styled(frame).set_table_styles(left)


@dataclass(frozen=True)
class Version:
    """The value after one commit; `requested` and `completed` are instant times."""

    requested: str
    completed: str
    value: str  # in a query as of the requested time


class AsOf:
    """A drawing with two lanes: the value that readers saw, and that of a query AS OF.

    Two ticks mark the request and the completion of each commit, and a cursor marks one moment.

    Args:
        versions: in timeline order; each was complete before the next was requested.
        cursor: an instant time.
    """

    def __init__(self, title: str, versions: list[Version], cursor: str):
        self.title = title
        self.versions = versions
        self.cursor = cursor

    def as_of(self, moment: str) -> str | None:
        """Return today's result of a query as of a moment; None before the first request."""
        return self._at(moment, [version.requested for version in self.versions])

    def readers(self, moment: str) -> str | None:
        """Return the value that a reader saw at a moment; None before the first completion."""
        return self._at(moment, [version.completed for version in self.versions])

    def _at(self, moment: str, begins: list[str]) -> str | None:
        known = bisect_right(begins, moment)
        return self.versions[known - 1].value if known else None

    def _places(self) -> dict[str, float]:
        """Return each tick's position on the axis: evenly spaced, not to scale."""
        places, at = {}, 0.0
        for version in self.versions:
            places[version.requested] = at
            places[version.completed] = at + WITHIN
            at += WITHIN + BETWEEN
        return places

    def place(self, moment: str) -> float:
        """Return a moment's position on the axis; between two ticks, keep a distance from both."""
        places = self._places()
        if moment in places:
            return places[moment]
        ticks = list(places)
        for before, after in pairwise(ticks):
            if before < moment < after:
                share = seconds_between(before, moment) / seconds_between(before, after)
                share = min(max(share, 0.25), 0.75)
                return places[before] + share * (places[after] - places[before])
        return places[ticks[0]] - BETWEEN / 2 if moment < ticks[0] else places[ticks[-1]] + 0.5

    def _repr_html_(self) -> str:
        places = self._places()
        end = max(places.values()) + BETWEEN
        figure, axes = new_chart(self.title, "", "", 1.6 + 1.2 * len(places), 2.6)
        for lane, begin_of in (("readers saw", "completed"), ("AS OF says", "requested")):
            begins = [places[getattr(version, begin_of)] for version in self.versions]
            for n, (begin, until) in enumerate(pairwise([*begins, end])):
                y = LANES[lane]
                fill = FILLS[n % len(FILLS)]
                axes.barh(y, until - begin, 0.62, left=begin, color=fill)
                # At the end where no cursor between a request and its completion can stand.
                at, side = (
                    (begin + 0.1, "left") if lane == "readers saw" else (until - 0.1, "right")
                )
                value = self.versions[n].value
                axes.text(at, y, value, ha=side, va="center", fontsize=10, color="black")
        for version in self.versions:
            axes.axvline(places[version.requested], color=INK, linewidth=1, linestyle=":", zorder=0)
            axes.axvline(places[version.completed], color=INK, linewidth=1, zorder=0)
        at = self.place(self.cursor)
        axes.plot([at, at], [-0.45, 1.5], color=INK, linewidth=2.5)
        look = {"ha": "center", "va": "bottom", "fontsize": 9, "fontweight": "bold", "color": INK}
        axes.text(at, 1.56, f"as of {clock(self.cursor)}", **look)
        words = [word for _ in self.versions for word in ("requested", "completed")]
        labels = [f"{word}\n{clock(tick)}" for word, tick in zip(words, places, strict=True)]
        axes.set_xticks(list(places.values()), labels, fontsize=8)
        axes.set_yticks(list(LANES.values()), list(LANES))
        axes.set_xlim(-0.5, end)
        axes.set_ylim(-0.5, 1.95)
        axes.grid(False)
        axes.tick_params(length=0)
        return svg(figure)

    def __repr__(self) -> str:
        lines = [self.title]
        lines += [
            f"requested {clock(v.requested)}  completed {clock(v.completed)}: {v.value}"
            for v in self.versions
        ]
        lines.append(
            f"at {clock(self.cursor)}: readers saw {self.readers(self.cursor)}, "
            f"AS OF says {self.as_of(self.cursor)}"
        )
        return "\n".join(lines)
