"""Problems in a lesson's source, each with a file, a line and a one-sentence description."""

from dataclasses import dataclass
from pathlib import Path

from lab_env.platform.errors import LabError


@dataclass(frozen=True)
class Problem:
    """One violation of the lesson template; `line` counts from 1, `what` is one sentence."""

    file: Path
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.file.name}:{self.line}: {self.what}"


def refuse(problems: list[Problem]) -> None:
    """Raise a LabError that lists all problems; do nothing if there are none."""
    if problems:
        found = "\n".join(map(str, sorted(problems, key=lambda p: (p.file.name, p.line))))
        raise LabError(found, "fix the source, then run: lab author build")
