"""Draws late orders and the watermark, the size of state, and the shop's revenue per minute."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import pandas as pd
from matplotlib.dates import AutoDateLocator, DateFormatter, MinuteLocator, date2num
from matplotlib.ticker import MaxNLocator

from lab_env.platform.display.chart import new_chart, svg
from lab_env.platform.display.palette import AMBER, BLUE, GREEN, GREY, VERMILION

MINUTE = timedelta(minutes=1)
NEVER = datetime(1970, 1, 1)


@dataclass(frozen=True)
class Arrival:
    """One order as its batch read it: in time or late."""

    at: datetime  # event time
    watermark: datetime  # the batch's watermark; `NEVER` before there was one
    late: bool  # True if its window had ended by then


def arrivals(times: Iterable[datetime], progress: Iterable[Mapping]) -> list[Arrival]:
    """Determine which orders were late, from the sequence of arrival and a query's batches.

    A batch uses the watermark that the previous batch reported, and drops an order whose minute
    ended at or before it.

    Args:
        times: event times in the sequence of arrival.
        progress: complete `recentProgress` of a query with one-minute windows.
    """
    remaining, found, judged_by = iter(times), [], NEVER
    for batch in progress:
        for _ in range(batch["numInputRows"]):
            at = next(remaining)
            end = at.replace(second=0, microsecond=0) + MINUTE
            found.append(Arrival(at, judged_by, end <= judged_by))
        judged_by = _time(batch["eventTime"]["watermark"])
    return found


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=None)


def draw_arrivals(found: Sequence[Arrival], title: str) -> str:
    """Draw event time over arrival: a dot for each counted order, a cross for each dropped one.

    The watermark is drawn as steps. Do not pass orders whose event time is years ahead.
    """
    few = len(found) < 30
    figure, axes = new_chart(title, "order, as it arrived", "event time", 8.4, 3.6)
    places = range(1, len(found) + 1)
    lowest = date2num(min(a.at for a in found) - MINUTE)
    highest = date2num(max(a.at for a in found) + MINUTE)
    size = 7 if few else 4
    for late, look in ((False, ("o", BLUE, "counted")), (True, ("x", VERMILION, "dropped"))):
        marker, colour, label = look
        chosen = [(x, date2num(a.at)) for x, a in zip(places, found, strict=True) if a.late == late]
        if chosen:
            xs, ys = zip(*chosen, strict=True)
            axes.plot(xs, ys, marker, color=colour, markersize=size, label=label)
    steps = [(x, a.watermark) for x, a in zip(places, found, strict=True) if a.watermark > NEVER]
    if steps:
        xs = [x - 0.5 for x, _ in steps] + [steps[-1][0] + 0.5]
        ys = [date2num(at) for _, at in steps]
        ends = [date2num(at.replace(second=0, microsecond=0)) for _, at in steps]
        axes.step(xs, [*ys, ys[-1]], where="post", color=AMBER, label="watermark")
        look = {"color": GREY, "alpha": 0.25, "linewidth": 0, "label": "minutes that have ended"}
        axes.fill_between(xs, [*ends, ends[-1]], lowest, step="post", **look)
    axes.set_ylim(lowest, highest)
    axes.yaxis.set_major_locator(MinuteLocator() if few else AutoDateLocator(maxticks=8))
    axes.yaxis.set_major_formatter(DateFormatter("%H:%M"))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return svg(figure)


def rows_in_state(progress: Iterable[Mapping]) -> list[int]:
    """Return the number of rows in state after each batch of a `recentProgress` that read data."""
    return [
        batch["stateOperators"][0]["numRowsTotal"] for batch in progress if batch["numInputRows"]
    ]


def draw_state(rows: Mapping[str, Sequence[int]]) -> str:
    """Draw the number of rows in state after each batch, one line per query."""
    figure, axes = new_chart("What a query remembers", "batch", "rows in state", 7.4, 3.2)
    styles = ((VERMILION, "-"), (AMBER, "--"), (BLUE, "-"), (GREEN, "-"))
    for (name, counts), (colour, line) in zip(rows.items(), styles, strict=False):
        axes.plot(range(len(counts)), counts, "o", ls=line, color=colour, markersize=4, label=name)
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(fontsize=8)
    return svg(figure)


def beside_each_other(emitted: pd.DataFrame, by_batch: pd.DataFrame) -> pd.DataFrame:
    """Return each window's revenue in a stream's output next to that of a batch query.

    Both have customer_id, start and revenue. The result is limited to customers in both.
    """
    both = emitted.merge(by_batch, on=["customer_id", "start"])
    both = both.rename(columns={"revenue_x": "stream", "revenue_y": "batch query"})
    return both.groupby("start")[["stream", "batch query"]].sum()


def draw_board(minutes: pd.DataFrame, final_until: datetime) -> str:
    """Draw revenue per minute; minutes that end after the watermark may change and are hollow."""
    figure, axes = new_chart("Revenue per minute", "", "euro", 9.0, 3.0)
    table = minutes.sort_values("minute")
    ends = table["minute"] + MINUTE
    for final, colour, label in ((True, BLUE, "final"), (False, "none", "may still change")):
        chosen = table[(ends <= final_until) == final]
        if len(chosen):
            look = {"color": colour, "edgecolor": BLUE, "linewidth": 1, "label": label}
            places, revenue = date2num(chosen["minute"]), chosen["revenue"].astype(float)
            axes.bar(places, revenue, width=0.8 / 1440, **look)
    axes.xaxis.set_major_locator(AutoDateLocator())
    axes.xaxis.set_major_formatter(DateFormatter("%H:%M"))
    axes.margins(y=0.25)
    axes.legend(fontsize=8, loc="upper right", ncols=2)
    return svg(figure)
