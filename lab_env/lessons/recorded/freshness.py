"""Draws freshness by event rate, as recorded by `lab bench sinks`."""

from lab_env.lessons.recorded import SINKS
from lab_env.platform.display.chart import COLOURS, NAMES, new_chart, svg


def freshness_chart(report: dict) -> str:
    """Return a chart (SVG) of an event's seconds from being sent to being visible, by rate.

    Dotted lines show the seconds up to the commit's requested time.
    """
    figure, axes = new_chart(
        "Event sent to commit completed", "events/s", "seconds, median and p95"
    )
    for sink in SINKS:
        rows = [row for row in report["freshness"] if row["sink"] == sink and row["p50"]]
        rates, colour = [row["rate"] for row in rows], COLOURS[sink]
        middle = [row["p50"]["median"] for row in rows]
        axes.plot(rates, middle, "o-", color=colour, label=NAMES[sink])
        axes.vlines(rates, middle, [row["p95"]["median"] for row in rows], color=colour)
        requested = [
            (row["rate"], row["requested p50"]["median"]) for row in rows if row["requested p50"]
        ]
        if requested:
            label = f"{NAMES[sink]}, to the requested time"
            axes.plot(*zip(*requested, strict=True), "o:", color=colour, label=label, alpha=0.7)
    axes.set_xscale("log")
    known = sorted({row["rate"] for row in report["freshness"]})
    axes.set_xticks(known, [f"{rate:,}" for rate in known])
    axes.set_xticks([], minor=True)
    axes.set_xlim(known[0] / 2, known[-1] * 2)
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left", fontsize=8)
    return svg(figure)
