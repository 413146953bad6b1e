"""Which lessons' other answers have been tried since anything changed that gives them a verdict.

`make prove SUBJECT=answers` tries the declared right and wrong answers of every exercise, and keeps
a fingerprint of each lesson. `make test` tries those of a lesson only if its fingerprint changed.
"""

import ast
import hashlib
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from lab_env.course.authoring.build import COURSE
from lab_env.course.authoring.code_lines import code_lines
from lab_env.course.source import Lesson, read_lesson, sources
from lab_env.platform.settings import REPOSITORY

RECORD = REPOSITORY / "data" / "answers_tried"
# What a check's modules may import of the project; what else they use, such as the reader of
# Hudi's timeline, has tests of its own.
JUDGING = ("lab_env.lessons.", "lab_env.course.answers", "lab_env.course.checking")
LOCK, PINS = "requirements.lock", "lab_env/platform/install/versions.toml"
FALLS = re.compile(r"^# falls: .*\n", re.MULTILINE)  # proven by the ladder's own test
TOOLS = ("uv", "sphinx-revealjs", "axe", "py-spy", "profiler")  # pinned, but run by no lesson


def fingerprint(number: str) -> str:
    """Hash the code, answers and checks of a lesson, what they share with others, and the pins."""
    (path,) = (path for path in sources() if path.stem.startswith(number))
    parts = [*_code(read_lesson(path))]
    parts += [line for file in _modules(number) for line in code_lines(file.read_text("utf-8"))]
    parts.append((REPOSITORY / LOCK).read_text(encoding="utf-8"))
    for kind, pins in tomllib.loads((REPOSITORY / PINS).read_text(encoding="utf-8")).items():
        parts += [f"{kind} {name} {pin}" for name, pin in pins.items() if name not in TOOLS]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def recorded() -> dict[str, str]:
    """Return the fingerprint with which each lesson's other answers were tried, by lesson."""
    return {path.name: path.read_text(encoding="utf-8").strip() for path in RECORD.glob("??")}


def keep(number: str, of: str) -> None:
    """Record that a lesson's other answers got their verdicts; `of` is its fingerprint then."""
    RECORD.mkdir(exist_ok=True)
    (RECORD / number).write_text(f"{of}\n", encoding="utf-8")


def _code(lesson: Lesson) -> Iterator[str]:
    """Yield the code that runs, and the declared answers with their messages; no text, no proof."""
    for cell in lesson.cells:
        if cell.right or cell.wrong or (cell.kind == "code" and not cell.proof):
            yield f"{cell.right}{cell.wrong}{FALLS.sub('', cell.versions.worked)}"


def _modules(number: str) -> list[Path]:
    """Return the files of a lesson's checks, and of all that they import to judge."""
    found: dict[Path, None] = {}
    waiting = [COURSE.lesson(number) / "checks.py"]
    while waiting:
        file = waiting.pop()
        if file not in found:
            found[file] = None
            waiting += _imported(file)
    return sorted(found)


@cache
def _imported(file: Path) -> tuple[Path, ...]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    paths = (REPOSITORY / f"{n.replace('.', '/')}.py" for n in names if n.startswith(JUDGING))
    return tuple(sorted(path for path in paths if path.is_file()))
