"""Compares and draws the effects of single settings, as recorded by `lab bench tuning`."""

import pandas as pd

from lab_env.platform.display.chart import new_panels, svg
from lab_env.platform.display.palette import GREEN, GREY, VERMILION
from lab_env.tables.probes.verdict import HIGHER, LOWER, Spread, verdict

# By knob: the two settings to compare, and the knob's value in each.
KNOBS = {
    "shuffle tasks": ("plain", "eight tasks", "2 → 8"),
    "buckets": ("plain", "eight buckets", "2 → 8"),
    "small file limit": ("no small file limit", "small file limit", "off → 100 MB"),
    "compaction": ("inline", "beside", "inline → async"),
    "delta commits": ("beside", "after five", "2 → 5"),
    "commit interval": ("every 2 s", "every 8 s", "2 s → 8 s"),
}
COUNTS = ("requests", "MB written", "files", "query requests")
METRICS = ("batch s", "CPU s", *COUNTS, "visible after s")
COUNT_NOISE = 0.05  # counts of the same setting differ by less between rounds; times by more


def compared(run: dict) -> pd.DataFrame:
    """Return the effect of each setting: medians, their ratio, and whether the rounds overlap.

    Returns:
        By setting (`knob`) and metric: `from` and `to` (medians), `ratio`, `verdict` (`to` is
        lower, higher, equal or inconclusive) and `rounds`. One round is enough for counts that
        differ by more than `COUNT_NOISE`, but never for times.
    """
    by_setting: dict[str, dict[int, dict]] = {}
    for row in run["runs"]:
        by_setting.setdefault(row["setting"], {})[row["round"]] = row
    rows = []
    for knob, (before, after, _) in KNOBS.items():
        both = sorted(set(by_setting.get(before, ())) & set(by_setting.get(after, ())))
        for metric in METRICS:
            if not both or metric not in by_setting[before][both[0]]:
                continue
            old, new = (
                Spread.of([by_setting[name][number][metric] for number in both])
                for name in (before, after)
            )
            ratio = new.median / old.median if old.median else float("nan")
            found = verdict(new, old)
            if len(both) == 1 and metric in COUNTS and abs(ratio - 1) > COUNT_NOISE:
                found = HIGHER if ratio > 1 else LOWER
            rows.append((knob, metric, old.median, new.median, ratio, found, len(both)))
    columns = ["knob", "metric", "from", "to", "ratio", "verdict", "rounds"]
    return pd.DataFrame(rows, columns=columns).set_index(["knob", "metric"])


def knobs_chart(run: dict) -> str:
    """Return a chart (SVG) of each setting's effect on each metric: ratio of the medians.

    A filled dot means that the rounds do not overlap or, where both settings have one round, that a
    count differs by more than `COUNT_NOISE`.
    """
    found = compared(run)
    titles = [f"{knob}: {turned}" for knob, (_, _, turned) in KNOBS.items()]
    figure, panels = new_panels(titles, rows=2, width=9.6, height=5.0)
    places = {metric: place for place, metric in enumerate(reversed(METRICS))}
    for panel, knob in zip(panels, KNOBS, strict=True):
        panel.axvline(1, color=GREY, linewidth=1)
        for metric, row in found.loc[knob].iterrows():
            colour = {LOWER: GREEN, HIGHER: VERMILION}.get(row["verdict"], GREY)
            face = "none" if colour == GREY else colour
            place = places[metric]
            panel.plot([1, row["ratio"]], [place, place], "-", color=colour, linewidth=1)
            panel.plot(row["ratio"], place, "o", color=colour, markerfacecolor=face)
        panel.set_xscale("log")
        panel.set_xlim(0.12, 8)
        panel.set_xticks([0.25, 0.5, 1, 2, 4], ["1/4", "1/2", "1", "2", "4"])
        panel.set_xticks([], minor=True)
        panel.set_yticks(list(places.values()), list(places))
        panel.set_ylim(-0.6, len(places) - 0.4)
    for panel in panels[-len(titles) // 2 :]:
        panel.set_xlabel("after / before")
    return svg(figure)
