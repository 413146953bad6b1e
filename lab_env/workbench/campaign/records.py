"""Stores results in one file per case, so that a campaign can be resumed at any time."""

import json
import os
from dataclasses import asdict

from lab_env.lessons.recorded.campaign import Result
from lab_env.lessons.recorded.campaign_plan import Case
from lab_env.platform.processes.state import folder


class Records:
    """The folder of one campaign's results."""

    def __init__(self, seed: int, size: str):
        self.folder = folder("campaign") / f"{seed}-{size}"
        self.folder.mkdir(exist_ok=True)
        self.page = self.folder / "index.html"

    def clear(self) -> None:
        """Delete the results of an earlier campaign with the same plan."""
        for file in self.folder.iterdir():
            if file.suffix in (".json", ".html", ".gz", ".new"):
                file.unlink()

    def save(self, result: Result) -> None:
        """Save a case's result atomically."""
        self._write(f"case-{result.case}.json", asdict(result))

    def save_group(self, group: int, attempt: int, facts: dict) -> None:
        """Save facts about a group's pair of tables."""
        self._write(f"group-{group:02d}-{attempt}.json", facts)

    def results(self) -> dict[str, Result]:
        """Return the results so far, by case number."""
        found = (json.loads(file.read_text()) for file in sorted(self.folder.glob("case-*.json")))
        return {entry["case"]: Result(**entry) for entry in found}

    def groups(self) -> dict[str, dict]:
        """Return the facts about the groups so far, by group number and attempt."""
        files = sorted(self.folder.glob("group-*.json"))
        return {file.stem.removeprefix("group-"): json.loads(file.read_text()) for file in files}

    def attempt(self, group: int) -> int:
        """Return the number of a group's next attempt, which gets new tables."""
        made = [result.attempt for result in self.results().values() if result.group == group]
        made += [int(name.split("-")[1]) for name in self.groups() if int(name[:2]) == group]
        return max(made, default=0) + 1

    def open_cases(self, plan: tuple[Case, ...]) -> list[Case]:
        """Return the cases without a result."""
        known = self.results()
        return [case for case in plan if case.id not in known]

    def _write(self, name: str, content: dict) -> None:
        partial = self.folder / f"{name}.new"
        partial.write_text(json.dumps(content, indent=1, default=str))
        os.replace(partial, self.folder / name)
