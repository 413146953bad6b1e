"""What is wrong with a lesson: always a file, a line, and one sentence that says how to mend it."""

from dataclasses import dataclass
from pathlib import Path

from lab_env.errors import LabError


@dataclass(frozen=True)
class Problem:
    """One thing that breaks the template.

    Args:
        file: the source.
        line: counted from 1.
        what: one sentence.
    """

    file: Path
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.file.name}:{self.line}: {self.what}"


def refuse(problems: list[Problem]) -> None:
    """Raise when there are problems.

    Args:
        problems: what was found.

    Raises:
        LabError: it lists all of them.
    """
    if problems:
        found = "\n".join(map(str, sorted(problems, key=lambda p: (p.file.name, p.line))))
        raise LabError(found, "mend the source, then run: lab author build")
