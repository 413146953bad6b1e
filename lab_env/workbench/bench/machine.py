"""Measures this machine's set-up, session start and load generation, each against a baseline.

A single figure means little on a shared machine. So each row compares two ways to do the same work,
measured alternately and repeatedly, and reports the median ratio and its range.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from rich.table import Table

from lab_env.pipeline import session
from lab_env.platform import services
from lab_env.platform.install import cds_archive, java
from lab_env.platform.install.jars import jar_folder
from lab_env.platform.processes.environment import clean_environment
from lab_env.shop.ceiling import measure_ceiling

SESSION_GOAL = 6  # seconds until a lesson has its Spark session


@dataclass(frozen=True)
class Comparison:
    """Two ways to do the same work, measured in turn."""

    part: str  # part of the benchmark
    what: str  # name of the measured variant, whose median is `figure`
    against: str  # name of the baseline variant, whose median is `baseline`
    unit: str
    figure: float
    baseline: float
    ratios: list[float]  # figure divided by baseline, for each pair
    goal: str = ""  # desired ratio in words; empty without a goal
    met: bool | None = None  # whether the median ratio meets the goal; None without a goal

    @property
    def ratio(self) -> float:
        """Median ratio."""
        return statistics.median(self.ratios)

    def as_dict(self) -> dict:
        """Return the fields and the ratio, as plain data."""
        return asdict(self) | {"ratio": self.ratio}

    def without_goal(self) -> "Comparison":
        """Return the same figures without a verdict."""
        return replace(self, goal="", met=None)

    @classmethod
    def of(
        cls,
        part: str,
        what: str,
        against: str,
        unit: str,
        pairs: list[tuple[float, float]],
        goal: tuple[str, Callable[[float], bool]] | None = None,
    ) -> "Comparison":
        """Compare pairs of figures; the two figures of a pair were measured one after the other.

        `goal` is the goal in words, and a function that tests whether the median ratio meets it.
        """
        ratios = [round(figure / baseline, 3) for figure, baseline in pairs]
        return cls(
            part,
            what,
            against,
            unit,
            statistics.median(figure for figure, _ in pairs),
            statistics.median(baseline for _, baseline in pairs),
            ratios,
            goal[0] if goal else "",
            goal[1](statistics.median(ratios)) if goal else None,
        )

    @classmethod
    def with_goal(cls, part: str, what: str, times: list[float], goal: float) -> "Comparison":
        """Compare times with a limit, both in seconds."""
        pairs = [(time, goal) for time in times]
        small_enough = ("1 or less", lambda ratio: ratio <= 1)
        return cls.of(part, what, f"the goal, {goal:g} s", "s", pairs, small_enough)


def stamp() -> dict:
    """Return the current time (`made`) and this machine's number of `cores`."""
    return {"made": datetime.now(UTC).isoformat(timespec="seconds"), "cores": os.cpu_count()}


def _seconds(argv: list[str], **environment: str) -> float:
    began = time.monotonic()
    subprocess.run(
        argv, check=True, capture_output=True, env=clean_environment() | environment, timeout=300
    )
    return time.monotonic() - began


def set_up(repeat: int) -> Comparison:
    """Compare `repeat` runs of an up-to-date `lab setup` with starts of an empty Python process."""
    lab = [sys.executable, "-m", "lab_env.cli", "setup"]
    empty = [sys.executable, "-c", "pass"]
    pairs = [(_seconds(lab), _seconds(empty)) for _ in range(repeat)]
    return Comparison.of("set-up", "lab setup, nothing to do", "an empty Python", "s", pairs)


_SESSION = """
import json, sys, time
from pathlib import Path
from lab_env.pipeline.session import build_session
from lab_env.platform.settings import Endpoints
jars, home, extra, times = sys.argv[1:]
jars, home, extra, times = Path(jars), Path(home), json.loads(extra), Path(times)
endpoints = Endpoints("http://127.0.0.1:1", "a", "b", "us-east-1", "lakehouse", "127.0.0.1:1")
began = time.monotonic()
spark = build_session(endpoints, jars, home, "bench", {"spark.ui.enabled": "false"} | extra)
session = time.monotonic() - began
spark.range(1).count()
times.write_text(json.dumps([session, time.monotonic() - began]))
spark.stop()
"""


def session_start(repeat: int) -> list[Comparison]:
    """Compare the start of a lesson's session with one that lacks the lab's speed-ups.

    Returns three comparisons: the session's start alone; the start plus a first query, for which
    Spark loads its SQL classes; and the start against its time goal.
    """
    quick = {"spark.driver.extraJavaOptions": cds_archive.java_options(session.LESSON_JAVA_OPTIONS)}
    plain = {
        "spark.jars": ",".join(map(str, jar_folder("spark").glob("*.jar"))),
        "spark.driver.extraClassPath": "",
    }

    def start(extra: dict[str, str]) -> tuple[float, float]:
        with tempfile.TemporaryDirectory() as scratch:
            times = Path(scratch) / "seconds"
            folders = [str(jar_folder("spark")), str(java.java_home())]
            _seconds([sys.executable, "-c", _SESSION, *folders, json.dumps(extra), str(times)])
            return tuple(json.loads(times.read_text()))

    pairs = [(start(quick), start(plain)) for _ in range(repeat)]
    below_one = ("below 1", lambda ratio: ratio < 1)
    against = "spark.jars and a plain JVM"
    lesson = "a lesson's session"
    return [
        *(
            Comparison.of(
                "start-up", what, against, "s", [(a[at], b[at]) for a, b in pairs], below_one
            )
            for at, what in enumerate((lesson, "session and first answer"))
        ),
        Comparison.with_goal("start-up", lesson, [a[0] for a, _ in pairs], SESSION_GOAL),
    ]


def load_ceiling(seconds: float) -> Comparison:
    """Compare one load-generator process with a plain loop; each runs `seconds` in total."""
    return Comparison.of(
        "load",
        "Locust user, one process",
        "plain loop, same work",
        "events per processor second",
        measure_ceiling(services.endpoints().kafka_bootstrap, seconds=seconds),
        ("0.5 or more", lambda ratio: ratio >= 0.5),
    )


def table(measured: list[Comparison]) -> Table:
    """Return the comparisons as a table for the terminal."""
    table = Table(
        title=f"This machine, {os.cpu_count()} cores: medians and ratios of one run",
        title_justify="left",
        box=None,
        header_style="bold",
    )
    table.add_column("measured, against", overflow="fold")
    for column in ("figure", "baseline", "ratio", "range", "goal"):
        table.add_column(column, justify="right")
    for row in measured:
        verdict = {None: "", True: "[green]met[/]", False: "[red]missed[/]"}[row.met]
        table.add_row(
            f"{row.part}: {row.what}, against {row.against}",
            _figure(row.figure, row.unit),
            _figure(row.baseline, row.unit),
            f"{row.ratio:.2f}",
            f"{min(row.ratios):.2f}-{max(row.ratios):.2f}",
            f"{row.goal} {verdict}".strip(),
        )
    return table


def _figure(value: float, unit: str) -> str:
    return f"{value:,.2f} {unit}" if value < 100 else f"{value:,.0f} {unit}"
