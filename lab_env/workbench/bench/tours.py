"""Measures how fresh the tables are in the tour, and whether they keep up with its load.

Each tour sends the same load to all sinks, and reconciles every event with the ledger.
"""

import io
import json

from rich.console import Console

from lab_env.lessons.recorded import SINKS
from lab_env.platform.display.chart import NAMES
from lab_env.platform.errors import LabError
from lab_env.platform.install.cache import Progress
from lab_env.platform.processes.state import folder
from lab_env.workbench.bench.machine import Comparison, stamp
from lab_env.workbench.tour import tour
from lab_env.workbench.tour.tour import RATE, SECONDS, TABLES

GOALS = {"p50": 7.5, "p95": 10.0}  # s from sent to visible
# A steadily growing lag makes the second half three times as old; a constant lag, equally old.
KEEPS_UP = 1.5


def run_tours(number: int, report_progress: Progress = print) -> dict:
    """Run the tour several times.

    Returns:
        `made`, `cores`, `rate` (events/s), `load_seconds`, `problems`, and `tours`: for each tour
        the number of acknowledged events, each sink's verdict and freshness (s), and the quantiles
        of its freshness in steps of 2 %.
    """
    tours, problems = [], []
    for count in range(1, number + 1):
        report_progress(f"tour {count} of {number}: {RATE} events/s for {SECONDS} s")
        tour.main(SECONDS, RATE, Console(file=io.StringIO()))
        report = json.loads((folder("tour") / "report.json").read_text())
        problems += [f"tour {count}: {problem}" for problem in report["problems"]]
        curves = report["series"]["freshness_quantiles"]
        if lost := [sink for sink in SINKS if sink not in curves]:
            raise LabError(f"The freshness of {', '.join(lost)} is unknown.", "run it again.")
        tours.append(
            {
                "events_acked": report["events_acked"],
                "sinks": {sink: report["sinks"][sink] for sink in SINKS},
                "freshness_quantiles": {sink: curves[sink] for sink in SINKS},
            }
        )
    found = {"rate": RATE, "load_seconds": SECONDS, "problems": problems, "tours": tours}
    return stamp() | found


def comparisons(run: dict) -> list[Comparison]:
    """Compare each table's freshness with the goals, and the events' second half with the first."""
    found = []
    for sink in TABLES:
        measured = [tour["sinks"][sink] for tour in run["tours"]]
        halves = [sinks["freshness_p50_halves_s"] for sinks in measured]
        for name, share in (("p50", 50), ("p95", 95)):
            what = f"{NAMES[sink]}, {share} % of the events visible"
            times = [sinks[f"freshness_{name}_s"] for sinks in measured]
            found.append(Comparison.with_goal("tour", what, times, GOALS[name]))
        found.append(
            Comparison.of(
                "tour",
                f"{NAMES[sink]}, second half of the events",
                "first half",
                "s",
                [(later, first) for first, later in halves],
                (f"{KEEPS_UP} or less", lambda ratio: ratio <= KEEPS_UP),
            )
        )
    return found
