"""Evaluates and draws where a writer's seconds go, as recorded by `lab bench profile`."""

import pandas as pd

from lab_env.platform.display.chart import INK, NAMES, new_chart, note, svg
from lab_env.platform.display.palette import AMBER, BLUE, GREEN, GREY, PINK, SKY, VERMILION

WAITING = "waiting"  # begins the names of shares in which nothing is done
LABELLED = 0.03  # of the longest bar; a smaller share has no label
HUES = (SKY, BLUE, AMBER, GREEN, VERMILION, PINK)  # in turn; waiting is grey


def share_table(run: dict) -> pd.DataFrame:
    """Return the seconds between two triggers: a row per share of a batch, a column per sink."""
    frame = pd.DataFrame(run["seconds"]).rename(columns=NAMES)
    return frame[frame.any(axis=1)]


def profile_chart(run: dict) -> str:
    """Return a chart (SVG) with a bar per sink, divided into shares in the order of a batch."""
    frame = share_table(run)
    figure, axes = new_chart("Where the seconds between two triggers go", "seconds", "", 9.6, 5.2)
    look = {"rotation": 40, "ha": "left", "fontsize": 8}
    for row, sink in enumerate(frame):
        left = 0.0
        for number, (share, width) in enumerate(frame[sink].items()):
            hue = GREY if share.startswith(WAITING) else HUES[number % len(HUES)]
            axes.barh(row, width, 0.25, left=left, color=hue)
            if width >= LABELLED * frame.sum().max():
                note(axes, f"{share} {width:.1f}", (left + width / 2, row - 0.14), (0, 1), **look)
            left += width
    axes.set_yticks(range(len(frame.columns)), frame.columns, color=INK)
    axes.set_ylim(len(frame.columns) - 0.7, -0.95)
    return svg(figure)
