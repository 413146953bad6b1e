"""`lab bench`: run the parts of the benchmark and write the report."""

import json
import os
import time
from pathlib import Path

from rich.console import Console

from lab_env.lessons import recorded
from lab_env.lessons.recorded.readers import counts_of
from lab_env.platform import services
from lab_env.platform.errors import LabError
from lab_env.platform.processes.locks import exclusive
from lab_env.platform.processes.state import folder
from lab_env.workbench.bench import (
    backlog,
    bill,
    commit,
    format_page,
    formats,
    growth,
    machine,
    profile,
    readers,
    report,
    tours,
    tuning,
)
from lab_env.workbench.bench.config import sinks_config
from lab_env.workbench.bench.rounds import Bench
from lab_env.workbench.bench.summary import summary

PARTS = {
    "set-up": "set-up with nothing to do",
    "start-up": "start of a session",
    "load": "ceiling of the load generator",
    "tour": "freshness under the tour's load",
    "profile": "where the seconds between two triggers go",
    "backlog": "a backlog of events",
    "sinks": "JSON, COW and MOR on one stream",
    "growth": "how cost grows with the table",
    "readers": "what readers saw while tables were written",
    "commit": "small commits, request by request",
    "tuning": "tuning knobs, one at a time",
    "formats": "Hudi, Delta Lake and Iceberg compared",
    "bill": "requests of each commit, by format",
}
# The query sheet shows the first, lessons 20 and 19 use the next two, docs/formats.md two more.
ONLY_BY_NAME = {"readers", "commit", "tuning", "formats", "bill", "profile"}


def main(parts: list[str] | None = None, full: bool = False, console: Console | None = None) -> int:
    """Run the benchmark, print the results, write `report.json` and a page to `LAB_HOME/bench`.

    Args:
        parts: keys of `PARTS`; by default all except those in `ONLY_BY_NAME`.

    Returns:
        Exit status: 1 if a sink gave wrong answers, which invalidates all figures, else 0.

    Raises:
        LabError: a part is unknown, or another benchmark is running.
    """
    unknown = set(parts or ()) - set(PARTS)
    if unknown:
        raise LabError(
            f"The benchmark has no part {', '.join(sorted(unknown))}.",
            f"choose from: {', '.join(PARTS)}",
        )
    chosen = parts or [part for part in PARTS if part not in ONLY_BY_NAME]
    console = console or Console()
    target = folder("bench")
    load = os.getloadavg()[0]  # before this lab adds to it
    # Two would share buckets, topics and processor time.
    with exclusive(target / "lock", on_wait=_refuse):
        for stale in ("report.json", "index.html"):  # an aborted run must not leave an older report
            (target / stale).unlink(missing_ok=True)
        began = time.monotonic()
        console.print("services up ...")
        services.up()
        report = Run(full, console, target, load).all(chosen)
        (target / "report.json").write_text(json.dumps(report, indent=1))
    console.print(f"Report: {target / 'report.json'} · {time.monotonic() - began:.0f} s in all")
    return 1 if report["problems"] else 0


def _refuse() -> None:
    raise LabError("Another benchmark is running in this lab.", "wait until it ends.")


class Run:
    """One benchmark run: measures parts and collects the report.

    Args:
        target: folder in which the page is written.
        load: the machine's load before the services were started.
    """

    def __init__(self, full: bool, console: Console, target: Path, load: float):
        self._full, self._console, self._target = full, console, target
        self._load = load
        self._repeat = 5 if full else 3
        self._compared: list[machine.Comparison] = []
        self._report: dict = {"machine": [], "problems": []}

    def all(self, parts: list[str]) -> dict:
        """Measure the given parts of `PARTS` in order; return the report."""
        measures = {
            "set-up": lambda: self._compare([machine.set_up(self._repeat)]),
            "start-up": lambda: self._compare(machine.session_start(self._repeat)),
            "load": lambda: self._compare([machine.load_ceiling(10 if self._full else 6)]),
            "tour": self._tour,
            "profile": self._profile,
            "backlog": self._backlog,
            "sinks": self._sinks,
            "growth": self._growth,
            "readers": self._readers,
            "commit": self._commit,
            "tuning": self._tuning,
            "formats": self._formats,
            "bill": self._bill,
        }
        for part in PARTS:
            if part in parts:
                self._console.print(f"{PARTS[part]} ...")
                measures[part]()
        if self._compared:
            self._console.print(machine.table(self._compared))
        self._report["machine"] = [row.as_dict() for row in self._compared]
        for problem in self._report["problems"]:
            self._console.print(problem, style="red", markup=False)
        if {"sinks", "growth"} & set(self._report):
            (self._target / "index.html").write_text(report.page(self._report))
            self._console.print(f"Page: {self._target / 'index.html'}", markup=False)
        return self._report

    def _print_progress(self, line: str) -> None:
        self._console.print(f"  {line}", markup=False)

    def _compare(self, compared: list[machine.Comparison]) -> None:
        # Goals hold for full runs: a quick run's figures are too unsteady to judge.
        self._compared += compared if self._full else [row.without_goal() for row in compared]

    def _tour(self) -> None:
        found = tours.run_tours(5 if self._full else 1, self._print_progress)
        self._compare(tours.comparisons(found))
        self._keep("tour", found)

    def _profile(self) -> None:
        found = profile.profile_tour(self._target / "profile", self._print_progress)
        self._report["profile"] = found
        self._keep("profile", found)
        self._console.print(profile.text_table(found))

    def _backlog(self) -> None:
        config = backlog.backlog_config(self._full)
        with Bench(config, self._print_progress) as bench:
            compared, problems = backlog.catch_up(bench, config, self._print_progress)
        self._compare(compared)
        rows = [row.as_dict() for row in compared]
        self._keep("backlog", machine.stamp() | {"rows": rows, "problems": problems})

    def _sinks(self) -> None:
        config = sinks_config(self._full)
        with Bench(config, self._print_progress) as bench:
            found = summary(bench.measure(config, self._print_progress))
        self._report["sinks"] = found
        self._keep("sinks", found)
        self._console.print(report.text_table(found))

    def _growth(self) -> None:
        found = growth.grow(growth.growth_config(self._full), self._print_progress)
        self._report["growth"] = found
        self._keep("growth", found)
        self._compare(growth.commit_times(found))

    def _readers(self) -> None:
        found = readers.watch_readers(readers.readers_config(self._full), self._print_progress)
        self._report["readers"] = found
        self._keep("readers", found)
        self._console.print(counts_of(found).to_string(), markup=False)

    def _commit(self) -> None:
        config = commit.commit_config(self._full)
        found = commit.measure_commits(config, self._print_progress)
        self._report["commit"] = found
        self._keep("commit", found)
        self._console.print(commit.text_table(found), markup=False)

    def _tuning(self) -> None:
        # Separate, so that a small run does not remove a full one's results.
        runs = self._target / ("tuning" if self._full else "tuning-small")
        found = tuning.tune(tuning.tuning_config(self._full), runs, self._print_progress)
        self._report["tuning"] = found
        self._keep("tuning", found, found["complete"])
        self._console.print(tuning.text_table(found), markup=False)
        self._console.print(f"Each run: {runs}", markup=False)

    def _formats(self) -> None:
        found = formats.compare_formats(
            formats.formats_config(self._full),
            self._target / "formats",
            self._print_progress,
            self._load,
        )
        self._report["formats"] = found
        self._keep("formats", found, found["complete"])
        if not found["complete"]:
            self._report["problems"].append(
                "Comparison of table formats: out of time before a round was complete."
            )
        self._compare(format_page.commit_time(found))
        self._console.print(format_page.text_table(found), markup=False)

    def _bill(self) -> None:
        found = bill.count_requests(
            bill.bill_config(self._full), self._target / "bill", self._print_progress
        )
        self._report["bill"] = found
        self._keep("bill", found, found["complete"])
        if not found["complete"]:
            self._report["problems"].append("Request bill: out of time before the last commit.")
        self._console.print(bill.text_table(found), markup=False)

    def _keep(self, part: str, found: dict, complete: bool = True) -> None:
        """Report a part's problems; save a complete full run that has none."""
        self._report["problems"] += found["problems"]
        if self._full and complete and not found["problems"]:
            recorded.keep(part, found)
