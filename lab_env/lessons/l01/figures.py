"""Draws the load of lesson 01: rates, users, and the effect of a frozen broker."""

import pandas as pd

from lab_env.platform.display.chart import COLOURS, INK, new_chart, new_panels, svg

GREY = "#999999"
BIN_S = 0.5
HEIGHT = 4.8


def rate(reports: pd.DataFrame, seconds: float | None = None) -> pd.Series:
    """Return reports per second in half-second bins, indexed by the middle of the bin.

    `seconds` is the length of the run; by default, it ends with the last report.
    """
    end = reports["second"].max() if seconds is None else seconds
    bins = range(int(end // BIN_S) + 1)
    counts = (reports["second"] // BIN_S).astype(int).value_counts().reindex(bins, fill_value=0)
    return counts.set_axis([(number + 0.5) * BIN_S for number in bins]) / BIN_S


def draw_rate(reports: pd.DataFrame, requested: float) -> str:
    """Draw a run's acknowledged events per second, and a line at the requested rate."""
    figure, axes = new_chart("The rate that we got", "seconds", "events per second")
    answered = rate(reports[_is_acknowledged(reports)])
    axes.plot(answered.iloc[:-1], color=COLOURS["cow"], linewidth=2, label="acknowledged")
    axes.axhline(
        requested, color=GREY, linestyle="--", linewidth=1, label=f"asked for: {requested:g}"
    )
    axes.set_ylim(0)
    axes.legend(loc="lower right")
    return svg(figure)


def draw_sale(
    reports: pd.DataFrame, user_counts: pd.Series, frozen_from: float, frozen_until: float
) -> str:
    """Draw a run's users and, below, its events per second; the broker's freeze is shaded.

    All times, including the index of `user_counts`, are seconds since the start.
    """
    titles = ["Users", "HANDED reports no failures while the broker is frozen"]
    figure, panels = new_panels(titles, rows=2, width=6.4, height=HEIGHT)
    end = reports["second"].max()
    panels[0].step(user_counts.index, user_counts, where="post", color=INK, linewidth=1.5)
    panels[0].set_ylim(0)
    lines = {
        "handed over": ("json", reports["type"] == "HANDED"),
        "acknowledged": ("cow", _is_acknowledged(reports)),
        "timed out": ("dead", (reports["type"] == "KAFKA") & reports["failed"].astype(bool)),
    }
    for label, (colour, chosen) in lines.items():
        panels[1].plot(rate(reports[chosen], end), color=COLOURS[colour], linewidth=2, label=label)
    for axes, label in zip(panels, (None, "broker frozen"), strict=True):
        axes.axvspan(frozen_from, frozen_until, color=GREY, alpha=0.3, lw=0, label=label)
    panels[0].set_ylabel("users")
    panels[1].set(xlabel="seconds", ylabel="events per second")
    panels[1].legend(loc="upper left")
    return svg(figure)


def draw_load(stats: pd.DataFrame) -> str:
    """Draw the rate and, dotted and on a second axis, the response time of the shop's own load."""
    figure, axes = new_chart("The shop's load on two processes", "seconds", "events per second")
    axes.plot(stats["seconds"], stats["rate"], color=COLOURS["cow"], linewidth=2)
    axes.set_ylim(0)
    times = axes.twinx()
    times.plot(stats["seconds"], stats["p95_ms"], color=COLOURS["json"], linestyle=":", linewidth=2)
    times.set_ylim(0, 1.2 * stats["p95_ms"].max())
    times.set_ylabel("p95 of the answers, ms (dotted)", color=INK)
    times.tick_params(colors=INK)
    times.spines[:].set_visible(False)
    return svg(figure)


def _is_acknowledged(reports: pd.DataFrame) -> pd.Series:
    return (reports["type"] == "KAFKA") & ~reports["failed"].astype(bool)
