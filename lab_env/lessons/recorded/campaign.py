"""Results of a finished fault campaign, saved in one file; lesson 17 shows the course's own."""

import gzip
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd

from lab_env.lessons.recorded.campaign_plan import Case, make_plan
from lab_env.lessons.recorded.verdicts import NOT_RUN, as_expected, verdicts
from lab_env.platform.display.chart import new_chart, svg
from lab_env.platform.display.palette import BLUE, VERMILION
from lab_env.shop.model import DATA

FILE = "campaign.json.gz"


@dataclass
class Result:
    """The result of one case."""

    case: str
    fault: str
    group: int
    attempt: int  # number of the group's run, from 1; each gets new tables
    where: str  # planned target of the fault
    outcome: str = NOT_RUN  # one of `verdicts.OUTCOMES`, or `broken` if the campaign itself failed
    landed: str = ""  # actual target of the fault
    recovery_seconds: float | None = None  # from the fault's end until all sent was committed
    seconds: float = 0  # duration of the whole case
    restarts: int = 0  # of the writer
    judgements: list[str] = field(default_factory=list)  # sentences about the tables
    readers: dict[str, str] = field(default_factory=dict)  # each reader's result on a damaged table
    evidence: dict[str, Any] = field(default_factory=dict)  # facts for a failure report
    started_at: float = 0  # seconds since 1970

    @property
    def ok(self) -> bool:
        """True if the outcome is as expected."""
        return as_expected(self.fault, self.outcome)


Results = Mapping[str, Result]


@dataclass(frozen=True)
class Row:
    """The results of one class of faults."""

    fault: str
    planned: int  # number of cases in the plan, of which `run` have run
    run: int
    as_expected: int  # number of those that had an expected outcome
    outcomes: dict[str, int]  # number of cases by outcome

    @property
    def not_run(self) -> int:
        """Number of cases that have not run; they count as not passed."""
        return self.planned - self.run

    @property
    def failed(self) -> int:
        """Number of cases whose outcome is not as expected."""
        return self.run - self.as_expected


def summary(plan: Sequence[Case], results: Results) -> list[Row]:
    """Return the results per class of faults, in the order of `verdicts.toml`."""
    rows = []
    for fault in verdicts():
        cases = [case for case in plan if case.fault == fault]
        ran = [results[case.id] for case in cases if case.id in results]
        if cases:
            outcomes = Counter(result.outcome for result in ran)
            good = sum(result.ok for result in ran)
            rows.append(Row(fault, len(cases), len(ran), good, dict(outcomes)))
    return rows


@dataclass(frozen=True)
class Recorded:
    """A recorded run of a campaign."""

    seed: int
    size: str
    began_at: float  # seconds since 1970
    results: dict[str, Result]  # by case number; only unexpected ones include evidence

    def rows(self) -> list[Row]:
        """Return the results per class of faults, as on a campaign's page."""
        return summary(make_plan(self.seed, self.size), self.results)

    def table(self) -> pd.DataFrame:
        """Return one row per class of faults: number of cases, outcomes, seconds to recover.

        A dash means that no case of the class recovered by itself.
        """
        table = pd.DataFrame(
            [
                {
                    "fault": verdicts()[row.fault].title,
                    "cases": row.planned,
                    "as expected": row.as_expected,
                    "outcomes": ", ".join(f"{n} {name}" for name, n in row.outcomes.items()),
                    **self._recovery(row.fault),
                }
                for row in self.rows()
            ]
        )
        return table.astype(object).where(table.notna(), "–")

    def _recovery(self, fault: str) -> dict[str, float | None]:
        results = [result for result in self.results.values() if result.fault == fault]
        seconds = [r.recovery_seconds for r in results if r.recovery_seconds is not None]
        return {
            "back in (median s)": median(seconds) if seconds else None,
            "at most (s)": max(seconds, default=None),
        }

    def recovery(self) -> str:
        """Return a chart of the seconds to recover, as SVG."""
        return recovery_chart(list(self.results.values()))


def keep(seed: int, size: str, results: dict[str, Result], file: Path) -> None:
    """Write a campaign's results to a `.json.gz` file."""
    short = [asdict(replace(r, evidence={} if r.ok else r.evidence)) for r in results.values()]
    began = min((result.started_at for result in results.values()), default=0.0)
    content = {"seed": seed, "size": size, "began_at": began, "results": short}
    file.write_bytes(gzip.compress(json.dumps(content, default=str).encode(), mtime=0))


def delivered(file: Path = DATA / FILE) -> Recorded:
    """Return the course's own recorded campaign."""
    content = json.loads(gzip.decompress(file.read_bytes()))
    results = {entry["case"]: Result(**entry) for entry in content.pop("results")}
    return Recorded(**content, results=results)


def recovery_chart(ran: Sequence[Result]) -> str:
    """Return a chart of the seconds until the pipeline had caught up, one dot per case."""
    faults = [f for f in verdicts() if any(r.fault == f and r.recovery_seconds for r in ran)]
    figure, axes = new_chart(
        "Recovery", "seconds until everything sent was committed", "", width=8.0,
        height=1.2 + 0.34 * len(faults),
    )  # fmt: skip
    for result in ran:
        if result.recovery_seconds is not None and result.fault in faults:
            colour = BLUE if result.ok else VERMILION
            place = faults.index(result.fault) + 0.12 * (int(result.case[-1:] or 0) % 5 - 2)
            axes.plot(result.recovery_seconds, place, "o", color=colour, markersize=5, alpha=0.8)
    axes.set_yticks(range(len(faults)), [verdicts()[fault].title for fault in faults])
    axes.set_ylim(len(faults) - 0.5, -0.5)
    axes.set_xlim(left=0)
    return svg(figure)
