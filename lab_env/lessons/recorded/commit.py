"""Evaluates and draws the requests of single commits, as recorded by `lab bench commit`."""

import pandas as pd

from lab_env.platform.display.chart import INK, NAMES, new_panels, svg
from lab_env.platform.display.palette import AMBER, BLUE, GREEN, GREY, PINK, SKY, VERMILION

# By phase, in the order of a commit: its colour.
PHASES = {
    "checkpoint": AMBER,
    "rest of .hoodie": GREY,
    "timeline": BLUE,
    "metadata table": VERMILION,
    "markers": PINK,
    "data files": GREEN,
    "cleaning": SKY,
}
OPERATIONS = ("HEAD", "GET", "LIST", "PUT", "DELETE")
# Settings: the pipeline's options, with which the others are compared, and two changes of them.
PIPELINE = "the pipeline's options"
NO_SERVER = "no timeline server"
SHORT_LIVED = "options for short-lived tables"
MEASURES = ["seconds", "CPU s", "requests"]
SHOWN = {"× seconds": BLUE, "× requests": AMBER}  # in the chart, with their colours


def phase_of(operation: str, key: str) -> str:
    """Return the phase of a streaming commit to which a request belongs: one of `PHASES`.

    Args:
        operation: one of `OPERATIONS`.
        key: key of the object, or prefix of the listing; empty if the request deletes several
            objects: S3A does that to folders of markers, those of the metadata table included.
    """
    if not key:
        return "markers"
    if "_checkpoint/" in key:
        return "checkpoint"
    if "/.hoodie/metadata" in key:
        return "metadata table"
    if "/.hoodie/.temp" in key:
        return "markers"
    if "/.hoodie/timeline" in key:
        return "cleaning" if ".clean" in key else "timeline"
    if "/.hoodie/" in key:
        return "rest of .hoodie"
    return "cleaning" if operation == "DELETE" else "data files"


def requests_of(run: dict, kind: str, setting: str = PIPELINE) -> pd.DataFrame:
    """Return the requests of a recorded commit: `ms` since its start, `waited` ms, `phase` etc."""
    (commit,) = (c for c in run["commits"] if (c["kind"], c["setting"]) == (kind, setting))
    rows = pd.DataFrame(commit["requests"], columns=["ms", "waited", "operation", "key"])
    return rows.assign(phase=[phase_of(row.operation, row.key) for row in rows.itertuples()])


def phase_table(run: dict, kind: str, setting: str = PIPELINE) -> pd.DataFrame:
    """Return one row per phase of a recorded commit, and their sum.

    Columns: requests by operation, `all`, `repeated` (same operation and key as an earlier request
    of the commit; reads of two parts of a file, too) and `waited ms` (the sum; requests of parallel
    tasks overlap).
    """
    rows = requests_of(run, kind, setting)
    by_phase = rows.groupby("phase")
    found = pd.crosstab(rows["phase"], rows["operation"]).reindex(columns=OPERATIONS, fill_value=0)
    found["all"] = by_phase.size()
    found["repeated"] = rows.duplicated(["operation", "key"]).groupby(rows["phase"]).sum()
    found["waited ms"] = by_phase["waited"].sum().round().astype(int)
    found = found.reindex([phase for phase in PHASES if phase in found.index])
    return pd.concat([found, found.sum().to_frame("all").T]).rename_axis(columns=None)


def commit_chart(run: dict, kind: str, settings: tuple[str, ...]) -> str:
    """Return a chart (SVG) of every request of a commit over time, a row per phase.

    There is one panel per setting, for comparison on the same scale.
    """
    figure, panels = new_panels(
        [f"{NAMES[kind]}, {setting}" for setting in settings],
        rows=len(settings),
        width=9.6,
        height=2.3 * len(settings),
        one_unit=False,
    )
    places = {phase: place for place, phase in enumerate(reversed(PHASES))}
    longest = 0.0
    for panel, setting in zip(panels, settings, strict=True):
        rows = requests_of(run, kind, setting)
        ends = rows["ms"] + rows["waited"].clip(lower=2)
        longest = max(longest, ends.max())
        for phase, of_phase in rows.groupby("phase"):
            # One line with gaps: a thousand short lines would be a hundred kilobytes.
            times = [t for at in of_phase.index for t in (rows["ms"][at], ends[at], float("nan"))]
            panel.plot(
                times, [places[phase]] * len(times), color=PHASES[phase], linewidth=9,
                solid_capstyle="butt",
            )  # fmt: skip
            panel.text(
                1.01, places[phase], f"{len(of_phase):,}", va="center", color=INK,
                transform=panel.get_yaxis_transform(),
            )  # fmt: skip
        panel.text(1.01, 1.03, f"{len(rows):,} requests", color=INK, transform=panel.transAxes)
        panel.set_yticks(list(places.values()), list(places))
        panel.set_ylim(-0.6, len(places) - 0.4)
    panels[-1].set_xlim(0, longest * 1.02)
    panels[-1].set_xlabel("milliseconds since the batch began")
    return svg(figure)


def option_table(run: dict) -> pd.DataFrame:
    """Return each setting's median costs per commit, by table type.

    Columns: `seconds`, `CPU s`, `requests`, and the first three as a multiple of the pipeline's,
    each the median over rounds of the ratio within a round.
    """
    columns = [*MEASURES, *(f"× {measure}" for measure in MEASURES)]
    return _ratios(run).groupby(["kind", "setting"], sort=False)[columns].median()


def _ratios(run: dict) -> pd.DataFrame:
    """Return the runs of all settings, with their costs as multiples of the pipeline's."""
    rows = pd.DataFrame(run["options"])
    base = rows[rows["setting"] == PIPELINE].set_index(["kind", "round"])[MEASURES]
    ratios = rows.join(base, on=["kind", "round"], rsuffix=" of the pipeline")
    for measure in MEASURES:
        rows[f"× {measure}"] = ratios[measure] / ratios[f"{measure} of the pipeline"]
    return rows


def options_chart(run: dict) -> str:
    """Return a chart (SVG) of each setting's costs per commit as multiples of the pipeline's.

    A dot is the median over the rounds; a line runs from the lowest to the highest.
    """
    rows = _ratios(run)
    kinds = list(dict.fromkeys(rows["kind"]))
    figure, panels = new_panels(
        [NAMES[kind] for kind in kinds], rows=len(kinds), width=9.6, height=3.6 * len(kinds),
        one_unit=False,
    )  # fmt: skip
    for panel, kind in zip(panels, kinds, strict=True):
        of_kind = rows[(rows["kind"] == kind) & (rows["setting"] != PIPELINE)]
        found = of_kind.groupby("setting")[list(SHOWN)].agg(["min", "median", "max"])
        found = found.sort_values(("× seconds", "median"), ascending=False)
        for shift, (measure, colour) in zip((0.15, -0.15), SHOWN.items(), strict=True):
            places = [place + shift for place in range(len(found))]
            spread = found[measure]
            panel.hlines(places, spread["min"], spread["max"], color=colour, linewidth=1.5)
            panel.plot(spread["median"], places, "o", color=colour, label=measure.strip("× "))
        panel.axvline(1, color=INK, linewidth=1)
        panel.set_yticks(range(len(found)), found.index)
    panels[0].legend(loc="lower right", fontsize="small")
    panels[-1].set_xlim(left=0)
    panels[-1].set_xlabel("multiple of the pipeline's")
    return svg(figure)


def caption_of(run: dict) -> str:
    """Return a caption with the date, machine and size of a run."""
    size = run["size"]
    return (
        f"Measured {run['made'][:10]} on {run['cores']} cores: commit {size['drawn']} of"
        f" {size['commits']}, {size['changes']:,} events into {size['orders']:,} orders in four"
        " partitions. The proxy that notes each request makes the commit slower."
    )
