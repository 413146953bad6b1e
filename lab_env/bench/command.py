"""`lab bench`: what of this machine and of the three sinks is measured, and where the report goes."""

import json
import time
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from lab_env import services
from lab_env.bench import backlog, growth, machine, recorded, report, rounds
from lab_env.bench.summary import summary
from lab_env.errors import LabError
from lab_env.processes.locks import exclusive
from lab_env.processes.state import folder

PARTS = {
    "set-up": "set-up with nothing to do",
    "start-up": "start of a session",
    "load": "ceiling of the load generator",
    "backlog": "a backlog of events",
    "sinks": "JSON, COW and MOR on one stream",
    "growth": "how cost grows with the table",
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
        LabError: there is no such part, or another benchmark is running.
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
    # Two at once would take each other's buckets, topics and time.
    with exclusive(target / "lock", on_wait=_refuse):
        for stale in ("report.json", "index.html"):  # a run that breaks off leaves no older report
            (target / stale).unlink(missing_ok=True)
        began = time.monotonic()
        console.print("services up ...")
        services.up()
        report = Run(full, console, target).all(chosen)
        (target / "report.json").write_text(json.dumps(report, indent=1))
    console.print(f"Report: {target / 'report.json'} · {time.monotonic() - began:.0f} s in all")
    return 1 if report["problems"] else 0


def _refuse() -> None:
    raise LabError("Another benchmark is running in this lab.", "wait for its end.")


class Run:
    """The parts of one run, and the report that they make.

    Args:
        full: larger data and more repetitions.
        console: where the tables go.
        target: the folder for what is written.
    """

    def __init__(self, full: bool, console: Console, target: Path):
        self._full, self._console, self._target = full, console, target
        self._repeat = 5 if full else 3
        self._compared: list[machine.Comparison] = []
        self._report: dict = {"machine": [], "problems": []}

    def all(self, parts: list[str]) -> dict:
        """Measure some of `PARTS`, in that order; returns the report."""
        measures = {
            "set-up": lambda: self._compare([machine.set_up(self._repeat)]),
            "start-up": lambda: self._compare(machine.session_start(self._repeat)),
            "load": lambda: self._compare([machine.load_ceiling(10 if self._full else 6)]),
            "backlog": self._backlog,
            "sinks": self._sinks,
            "growth": self._growth,
        }
        for part in PARTS:
            if part in parts:
                self._console.print(f"{PARTS[part]} ...")
                measures[part]()
        if self._compared:
            self._console.print(machine.table(self._compared))
        self._report["machine"] = [asdict(row) | {"ratio": row.ratio} for row in self._compared]
        for problem in self._report["problems"]:
            self._console.print(problem, style="red", markup=False)
        if {"sinks", "growth"} & set(self._report):
            (self._target / "index.html").write_text(report.page(self._report))
            self._console.print(f"Page: {self._target / 'index.html'}", markup=False)
        return self._report

    def _say(self, line: str) -> None:
        self._console.print(f"  {line}", markup=False)

    def _compare(self, compared: list[machine.Comparison]) -> None:
        self._compared += compared

    def _backlog(self) -> None:
        size = backlog.backlog_size(self._full)
        with rounds.Bench(size, self._say) as bench:
            compared, problems = backlog.catch_up(bench, size, self._say)
        self._compare(compared)
        self._report["problems"] += problems

    def _sinks(self) -> None:
        figures = rounds.compare(rounds.size(self._full), self._say)
        self._report["sinks"] = summary(figures)
        self._report["problems"] += figures.problems
        self._keep("sinks", self._report["sinks"])
        self._console.print(report.text_table(self._report["sinks"]))

    def _keep(self, part: str, found: dict) -> None:
        if self._full and not found["problems"]:
            recorded.keep(part, found)

    def _growth(self) -> None:
        found = growth.grow(growth.growth_size(self._full), self._say)
        self._report["growth"] = found
        self._report["problems"] += found["problems"]
        self._keep("growth", found)
        self._compare([growth.commit_time(found)])
