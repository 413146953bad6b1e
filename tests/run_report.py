"""What a test run says while it runs, and what it has cost.

A failure is printed as soon as it happens, with the command that repeats it alone. Each minute a
line says how far the run is. At its end, the costs of each file go to `build/times.json`, which
`lab author times` reads.
"""

import shlex
import threading
import time
from collections.abc import Generator

import pytest
from processor_time import ProcessorTime

from lab_env.course.authoring import times
from lab_env.course.authoring.pytest_plugin import processes_of

LINES = 30  # of a failure's text; the end of the run shows all of it
PROCESSOR = "processor seconds"  # of one phase of a test, in its report


class Cost:
    """Adds the processor time of each phase of a test to its report; runs in each test process."""

    def __init__(self, mark: str):
        self._time = ProcessorTime(mark)
        self._time.watch()
        self._before = self._time.seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        now = self._time.seconds()
        report.user_properties = [*report.user_properties, (PROCESSOR, now - self._before)]
        self._before = now
        return report


class RunReport:
    """The run as its first process sees it: with pytest-xdist no test runs there."""

    def __init__(self, config: pytest.Config):
        self._config = config
        self._began = time.monotonic()
        self._expected = 0
        self._running: dict[str, float] = {}
        self._done: set[str] = set()
        self._failed: list[str] = []
        self._run = times.Run(processes=processes_of(config))
        self._ended = threading.Event()

    def say(self, text: str, **markup: bool) -> None:
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        terminal.write_line(f"\n{text}", **markup)  # the line before may hold dots
        terminal.flush()

    def pytest_sessionstart(self) -> None:
        threading.Thread(target=self._say_each_minute, daemon=True).start()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._expected = len(session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self._expected = len(ids)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._running[nodeid] = time.monotonic()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._running.pop(nodeid, None)
        self._done.add(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        facts = dict(report.user_properties)
        file = report.nodeid.partition("::")[0]
        ended = report.when == "teardown"
        self._run.files[file].add(facts.get(PROCESSOR, 0.0), report.duration, ended)
        if report.when == "call" and times.PARTS in facts:
            self._run.notebooks[file] = times.costs_of(facts[times.PARTS])
        if report.failed:
            self._failed.append(report.nodeid)
            lines = report.longreprtext.splitlines()
            self.say(f"FAILED {report.nodeid} ({report.when})", red=True)
            self.say("\n".join(lines[-LINES:]))
            self.say(f"To repeat it alone: {again(report.nodeid)}", bold=True)

    def pytest_sessionfinish(self) -> None:
        self._ended.set()
        if self._config.getoption("prove"):  # a run of `make`, not one of a few tests
            self._run.elapsed = time.monotonic() - self._began
            self._run.save()

    def _say_each_minute(self) -> None:
        while not self._ended.wait(60):
            self.say(self.progress(time.monotonic()))

    def progress(self, now: float) -> str:
        """Return a line: minutes, tests done, failures, and what runs for how long."""
        running = sorted(self._running.copy().items(), key=lambda item: item[1])
        runs = ", ".join(f"{_short(nodeid)} {now - began:.0f} s" for nodeid, began in running)
        failed = f", {len(self._failed)} failed" if self._failed else ""
        done = f"{len(self._done)} of {self._expected or '?'} done{failed}"
        return f"{(now - self._began) / 60:.0f} min: {done}; running: {runs or 'nothing'}"


def _short(nodeid: str) -> str:
    """Return the path of a notebook, or the name of a test with its file."""
    path, _, name = nodeid.partition("::")
    return path if path.endswith(".ipynb") else f"{path.rpartition('/')[2]}::{name}"


def again(nodeid: str) -> str:
    """Return the command that repeats one test or notebook alone."""
    path = nodeid.partition("::")[0]
    chosen = ["--nbmake", path] if path.endswith(".ipynb") else [nodeid]
    return shlex.join([".venv/bin/python", "-m", "pytest", *chosen])
