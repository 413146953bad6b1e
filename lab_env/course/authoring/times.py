"""What a whole test run costs, by folder, by file and by part of a notebook.

`make test` and `make prove` write `build/times.json`. `lab author times` shows it, and with
`--record` keeps it in `data/times.json`, from which the table in CONTRIBUTING is made.
"""

import json
import os
import platform
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any

from lab_env.course.registry import lessons
from lab_env.platform.errors import LabError
from lab_env.platform.settings import REPOSITORY

BUILT = REPOSITORY / "build" / "times.json"
RECORDED = REPOSITORY / "data" / "times.json"
PAGE = REPOSITORY / "CONTRIBUTING.md"
PARTS = "parts"  # name of a notebook's costs among the properties of its test
START, CELLS, OTHERS = "kernel and first cell", "other cells, with checks", "other answers"
GROUPS = {
    "solutions/": "worked notebooks",
    "notebooks/demos/": "demos",
    "notebooks/": "learners' notebooks",
}
_TABLE = re.compile(r"(?<=<!-- times -->\n).*?(?=<!-- /times -->)", re.DOTALL)


@dataclass
class Cost:
    """Processor seconds and elapsed seconds, summed over the test processes."""

    processor: float = 0.0
    elapsed: float = 0.0
    tests: int = 0

    def add(self, processor: float, elapsed: float, tests: int = 0) -> None:
        self.processor += processor
        self.elapsed += elapsed
        self.tests += tests

    def rounded(self) -> dict[str, float]:
        return {name: round(value, 1) for name, value in asdict(self).items()}


@dataclass(frozen=True)
class NotebookCosts:
    """The costs of a notebook's parts, and the seconds of each check of its own answer."""

    parts: dict[str, Cost]
    checks: dict[str, float]


@dataclass
class Run:
    """One test run on one machine; `elapsed` in seconds."""

    elapsed: float = 0.0
    processes: int = 1
    files: dict[str, Cost] = field(default_factory=lambda: defaultdict(Cost))
    notebooks: dict[str, NotebookCosts] = field(default_factory=dict)
    machine: str = ""
    made: str = ""

    def groups(self) -> dict[str, Cost]:
        """Return the costs of each kind of notebook and each folder of tests."""
        found: dict[str, Cost] = defaultdict(Cost)
        for file, cost in self.files.items():
            name = next((GROUPS[g] for g in GROUPS if file.startswith(g)), str(Path(file).parent))
            found[f"`{name}`" if "/" in name else name].add(
                cost.processor, cost.elapsed, cost.tests
            )
        return dict(sorted(found.items(), key=lambda item: -item[1].processor))

    def whole(self) -> Cost:
        total = Cost()
        for cost in self.files.values():
            total.add(cost.processor, cost.elapsed, cost.tests)
        return total

    def parts_of(self, folder: str) -> dict[str, Cost]:
        """Return the mean costs of the notebooks of a folder, by part."""
        of = [n for file, n in self.notebooks.items() if Path(file).parent == Path(folder)]
        found: dict[str, Cost] = defaultdict(Cost)
        for notebook in of:
            for part, cost in notebook.parts.items():
                found[part].add(cost.processor / len(of), cost.elapsed / len(of))
        return dict(found)

    def checks(self) -> dict[str, float]:
        """Return the seconds of each check of a reference answer, slowest first."""
        found = {name: s for n in self.notebooks.values() for name, s in n.checks.items()}
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def slowest(self, most: int = 40) -> list[tuple[str, Cost]]:
        """Return the files that used the most processor time."""
        return sorted(self.files.items(), key=lambda item: -item[1].processor)[:most]

    def save(self, path: Path = BUILT) -> None:
        """Write the run with this machine's facts."""
        facts = {
            "made": self.made or date.today().isoformat(),
            "machine": self.machine or machine(),
            "processes": self.processes,
            "elapsed": round(self.elapsed),
            "files": {name: cost.rounded() for name, cost in sorted(self.files.items())},
            "notebooks": {
                name: {
                    "parts": {part: cost.rounded() for part, cost in of.parts.items()},
                    "checks": {name: round(s, 2) for name, s in of.checks.items()},
                }
                for name, of in sorted(self.notebooks.items())
            },
        }
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def machine() -> str:
    """Return the number of cores, the memory and the Python of this machine."""
    gigabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    python = ".".join(platform.python_version_tuple()[:2])
    return f"{os.cpu_count()} cores, {gigabytes:.0f} GB, Python {python}, {platform.system()}"


def costs_of(facts: dict[str, Any]) -> NotebookCosts:
    """Make the costs of a notebook from their JSON form."""
    return NotebookCosts({n: Cost(**c) for n, c in facts["parts"].items()}, facts["checks"])


def read(path: Path = BUILT) -> Run:
    """Read a saved run; raise a LabError if there is none."""
    if not path.exists():
        raise LabError("No test run has been measured.", "run: make test")
    facts = json.loads(path.read_text(encoding="utf-8"))
    facts["files"] = {name: Cost(**cost) for name, cost in facts["files"].items()}
    facts["notebooks"] = {name: costs_of(of) for name, of in facts["notebooks"].items()}
    return Run(**facts)


def lines(run: Run) -> Iterator[str]:
    """Yield the costs of a run as Markdown: folders, parts of notebooks, slow checks."""
    whole = run.whole()
    yield f"| {run.machine}, {run.processes} test processes | processor minutes | minutes | tests |"
    yield "|---|--:|--:|--:|"
    for name, cost in run.groups().items():
        yield f"| {name} | {cost.processor / 60:.1f} | {cost.elapsed / 60:.1f} | {cost.tests} |"
    yield (
        f"| **the whole, elapsed: {run.elapsed / 60:.0f} minutes** | **{whole.processor / 60:.0f}**"
        f" | {whole.elapsed / 60:.0f} | {whole.tests} |"
    )
    kinds = {"worked": run.parts_of("solutions"), "learner's": run.parts_of("notebooks")}
    yield ""
    yield "| a lesson's notebook on average, processor seconds (elapsed) | worked | learner's |"
    yield "|---|--:|--:|"
    for part in (START, CELLS, OTHERS):
        cells = [kind.get(part, Cost()) for kind in kinds.values()]
        yield (
            f"| {part} | "
            + " | ".join(f"{c.processor:.1f} ({c.elapsed:.1f})" for c in cells)
            + " |"
        )
    if checks := run.checks():
        slow = [f"{name} {seconds:.0f} s" for name, seconds in checks.items() if seconds > 6]
        yield ""
        yield (
            f"A check of a reference answer took {median(checks.values()):.1f} s in the median of "
            f"{len(checks)}, beside the other test processes. Longer than 6 s: "
            f"{', '.join(slow) or 'none'}."
        )


def page(text: str, run: Run) -> str:
    """Return CONTRIBUTING's text with the table of a recorded run."""
    table = "\n".join(lines(run))
    return _TABLE.sub(lambda _: f"{table}\n", text)


def record(run: Run) -> None:
    """Keep a whole run of `make test`, and write its table into CONTRIBUTING.

    Raises a LabError if the run left out a worked notebook.
    """
    missing = {entry.name for entry in lessons().values()} - {Path(n).stem for n in run.notebooks}
    if missing:
        raise LabError(f"The last run left out {', '.join(sorted(missing))}.", "run: make test")
    run.save(RECORDED)
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), run), encoding="utf-8")
