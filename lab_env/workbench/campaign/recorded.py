"""A finished campaign in one small file: the one that comes with the course, for lesson 17."""

import gzip
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median

import pandas as pd

from lab_env.shop.model import DATA
from lab_env.workbench.campaign.plan import make_plan
from lab_env.workbench.campaign.records import Result
from lab_env.workbench.campaign.report import Row, recovery_chart, summary
from lab_env.workbench.campaign.verdicts import verdicts

FILE = "campaign.json.gz"


@dataclass(frozen=True)
class Recorded:
    """A recorded run of a campaign.

    Args:
        seed: of its plan.
        size: of its plan.
        began_at: s since 1970.
        results: by case number, with evidence only for unexpected ones.
    """

    seed: int
    size: str
    began_at: float
    results: dict[str, Result]

    def rows(self) -> list[Row]:
        """Counts of each class of faults, as on a campaign's page."""
        return summary(make_plan(self.seed, self.size), self.results)

    def table(self) -> pd.DataFrame:
        """One row per class of faults: cases, as expected, outcomes, seconds to recover.

        A dash where nothing recovers by itself.
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
        """Chart of the seconds to recover, as SVG."""
        return recovery_chart(list(self.results.values()))


def keep(seed: int, size: str, results: dict[str, Result], file: Path) -> None:
    """Write a campaign's results to a file.

    Args:
        file: `....json.gz`.
    """
    short = [asdict(replace(r, evidence={} if r.ok else r.evidence)) for r in results.values()]
    began = min((result.started_at for result in results.values()), default=0.0)
    content = {"seed": seed, "size": size, "began_at": began, "results": short}
    file.write_bytes(gzip.compress(json.dumps(content, default=str).encode(), mtime=0))


def delivered(file: Path = DATA / FILE) -> Recorded:
    """The campaign that comes with the course."""
    content = json.loads(gzip.decompress(file.read_bytes()))
    results = {entry["case"]: Result(**entry) for entry in content.pop("results")}
    return Recorded(**content, results=results)
