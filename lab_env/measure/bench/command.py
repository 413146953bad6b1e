"""`lab bench`: what of this machine and of the three sinks is measured, and where the report goes."""

import json
import time
from collections.abc import Callable
from dataclasses import asdict

from rich.console import Console

from lab_env import services
from lab_env.errors import LabError
from lab_env.measure.bench import machine, page, rounds
from lab_env.measure.bench.summary import summary
from lab_env.runtime.state import folder

PARTS = {
    "set-up": "set-up with nothing to do",
    "start-up": "start of a session",
    "load": "ceiling of the load generator",
    "sinks": "JSON, COW and MOR on one stream",
}


def main(parts: list[str] | None = None, full: bool = False, console: Console | None = None) -> int:
    """Measure, print what was found, and write `report.json` and a page to `LAB_HOME/bench`.

    Args:
        parts: of `PARTS`; all when none is given.
        full: larger data and more repetitions.
        console: where the tables go.

    Returns:
        0; 1 when the sinks do not give the right answers, which makes their figures worthless. A goal
        that is missed is shown, not an error.

    Raises:
        LabError: there is no such part.
    """
    unknown = set(parts or ()) - set(PARTS)
    if unknown:
        raise LabError(
            f"There is nothing to measure called {', '.join(sorted(unknown))}.",
            f"choose from: {', '.join(PARTS)}",
        )
    chosen = parts or list(PARTS)
    console = console or Console()
    target = folder("bench")
    for stale in ("report.json", "index.html"):  # a run that breaks off leaves no older report
        (target / stale).unlink(missing_ok=True)
    began = time.monotonic()
    console.print("services up ...")
    services.up()
    repeat = 5 if full else 3
    measures: dict[str, Callable[[], list[machine.Comparison]]] = {
        "set-up": lambda: [machine.set_up(repeat)],
        "start-up": lambda: [machine.session_start(repeat)],
        "load": lambda: [machine.load_ceiling(10 if full else 6)],
    }
    compared: list[machine.Comparison] = []
    for part in PARTS:
        if part in chosen and part in measures:
            console.print(f"{PARTS[part]} ...")
            compared += measures[part]()
    report = {"machine": [asdict(row) | {"ratio": row.ratio} for row in compared]}
    if compared:
        console.print(machine.table(compared))
    if "sinks" in chosen:
        console.print(f"{PARTS['sinks']} ...")
        figures = rounds.compare(
            rounds.size(full), lambda line: console.print(f"  {line}", markup=False)
        )
        report["sinks"] = summary(figures)
        (target / "index.html").write_text(page.page(report["sinks"]))
        console.print(page.text_table(report["sinks"]))
        for problem in figures.problems:
            console.print(problem, style="red", markup=False)
        console.print(f"Page: {target / 'index.html'}", markup=False)
    (target / "report.json").write_text(json.dumps(report, indent=1))
    console.print(f"Report: {target / 'report.json'} · {time.monotonic() - began:.0f} s in all")
    return 1 if report.get("sinks", {}).get("problems") else 0
