"""Reads a lesson's source: its front matter and its cells with their line numbers."""

import ast
import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from textwrap import indent
from typing import Any

import yaml

from lab_env.course.markers import MarkerError, Versions, split
from lab_env.course.problems import Problem, refuse

LESSONS = Path(__file__).parents[1] / "lessons"
FILE_NAME = re.compile(r"(?P<number>\d\d)_[a-z0-9_]+")
EXERCISE_HEADING = re.compile(r"^### Exercise (?P<id>\S+) · (?P<title>.+)$", re.MULTILINE)
OPTIONS = {
    "exercise", "uses", "hint", "right", "wrong", "equivalent", "harmless", "proof", "tags",
    "name",
}  # fmt: skip
TEACHES_ASSERT = "teaches-assert"
TAGS = ("instructor", TEACHES_ASSERT)
EXPECT = re.compile(r"^# expect: (?P<message>\S.*)\n(?:# falls: (?P<falls>\S.*)\n)?")
EQUIVALENT = re.compile(r"^# (.+): (\S.*)$", re.MULTILINE)  # a mutant: why it is the same
_CELL = re.compile(r"^# %%(?P<markdown> \[markdown\])?(?P<options>\s.*)?$")
_OPTION = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|\[[^\]]*\])')
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_ITEM = re.compile(r"^- .*(?:\n(?: {2,}).*)*", re.MULTILINE)
_IDS = re.compile(r"\((\d\d\.\d(?:, \d\d\.\d)*)\)[,.;]?\s*$")


def _option(name: str) -> Any:
    """Make a property that returns one of a cell's options; empty if the cell does not have it."""
    return property(lambda cell: cell.options.get(name, ""))


@dataclass(frozen=True)
class Cell:
    """One cell of a source; `text` has no comment marks, `line` is the line of its `# %%`."""

    kind: str
    text: str
    line: int
    options: dict

    # The exercise of which the cell holds the answer, a hint, another right answer, a wrong answer
    # or its mutants that nobody can tell from it; and the claim that its assertions prove.
    exercise = _option("exercise")
    hint = _option("hint")
    right = _option("right")
    wrong = _option("wrong")
    equivalent = _option("equivalent")
    harmless = _option("harmless")
    proof = _option("proof")

    @property
    def instructor(self) -> bool:
        """True if the cell is only in the worked notebook."""
        return "instructor" in self.options.get("tags", [])

    @property
    def teaches_assert(self) -> bool:
        """True if the cell's assertions stay visible because it teaches how to write assertions."""
        return TEACHES_ASSERT in self.options.get("tags", [])

    @property
    def shown(self) -> bool:
        """True if the cell appears in a notebook; hints, declared answers and mutants do not."""
        declared = self.equivalent or self.harmless
        return not (self.hint or self.right or self.wrong or declared)

    @cached_property
    def versions(self) -> Versions:
        """The worked and the stub version; a proof is wrapped in `with lab.proof(claim):`."""
        if self.proof:
            claim = json.dumps(self.proof, ensure_ascii=False)
            line = f"with lab.proof({claim}):"
            wrapped = f"with lab.proof(\n    {claim}\n):"
            code = f"{line if len(line) <= 100 else wrapped}\n{indent(self.text, '    ')}"
            return Versions(code, code, ())
        return split(self.text) if self.kind == "code" else Versions(self.text, self.text, ())

    @property
    def first_line(self) -> int:
        return self.line + 1

    def base_id(self) -> str:
        """Return the id before duplicates are numbered; inserting cells does not change it."""
        if name := self.options.get("name") or (self.exercise and f"exercise-{self.exercise}"):
            return _slug(name)
        heading = re.match(r"#+ (.+)", self.text)
        if self.kind == "markdown" and heading:
            return _slug(heading[1])
        return f"{self.kind}-{hashlib.sha256(self.text.encode()).hexdigest()[:10]}"


@dataclass(frozen=True)
class Lesson:
    """One lesson's source, in py:percent format; `front` is its front matter."""

    path: Path
    front: dict
    cells: tuple[Cell, ...]

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def number(self) -> str:
        return self.name[:2]

    def cell_ids(self) -> list[str]:
        seen: dict[str, int] = {}
        ids = []
        for cell in self.cells:
            base = cell.base_id()
            seen[base] = seen.get(base, 0) + 1
            ids.append(base if seen[base] == 1 else f"{base}-{seen[base]}")
        return ids

    def second_level(self) -> Iterator[tuple[str, int, Cell]]:
        """Yield every `##` heading that learners see: its text, line and cell."""
        for cell in self.cells:
            if cell.kind == "markdown" and cell.shown and not cell.instructor:
                for match in _HEADING.finditer(cell.text):
                    yield match[1], cell.first_line + cell.text[: match.start()].count("\n"), cell

    def objectives(self) -> Iterator[tuple[str, int, tuple[str, ...]]]:
        """Yield each objective: its text as one line, its line number, and its exercises."""
        for name, line, cell in self.second_level():
            if name != "Objectives":
                continue
            body = cell.text[cell.text.index("## Objectives") :].split("\n## ")[0]
            for match in _ITEM.finditer(body):
                at, ids = line + body[: match.start()].count("\n"), _IDS.search(match[0])
                text = match[0][: ids.start()] if ids else match[0]
                named = tuple(ids[1].split(", ")) if ids else ()
                yield " ".join(text.removeprefix("- ").split()), at, named

    def written_file(self, name: str) -> str:
        """Return the text of a file that cells of the lesson write with `%%writefile`."""
        cells = (cell.text.partition("\n") for cell in self.cells if cell.kind == "code")
        parts = (text for magic, _, text in cells if re.match(rf"%%writefile .*\b{name}", magic))
        return "\n".join(parts)

    def exercise_titles(self) -> dict[str, str]:
        return {
            match["id"]: match["title"]
            for cell in self.cells
            if cell.kind == "markdown" and cell.shown
            for match in EXERCISE_HEADING.finditer(cell.text)
        }

    def problem(self, line: int, what: str) -> Problem:
        return Problem(self.path, line, what)


def sources(folder: Path = LESSONS) -> list[Path]:
    """Return the paths of all lessons' sources, in lesson order."""
    return sorted(folder.glob("l[0-9][0-9]/[0-9][0-9]_*.py"))


def read_lesson(path: Path) -> Lesson:
    """Read a source; raise a LabError for invalid front matter, cell options or markers."""
    lines = path.read_text(encoding="utf-8").splitlines()
    front, front_end = _front_matter(path, lines)
    begins = [n for n, line in enumerate(lines) if n >= front_end and _CELL.match(line)]
    first = next((n for n in range(front_end, len(lines)) if lines[n].strip()), len(lines))
    if first not in begins:
        refuse([Problem(path, first + 1, "There is text before the first cell (# %%).")])
    ends = [*begins[1:], len(lines)]
    cells = tuple(_cell(lines[n:end], n + 1) for n, end in zip(begins, ends, strict=True))
    lesson = Lesson(path, front, cells)
    refuse([problem for cell in cells for problem in _unreadable(lesson, cell)])
    return lesson


def _cell(lines: list[str], line: int) -> Cell:
    """Parse a cell of the percent format; invalid text after `# %%` becomes an unknown option."""
    head = _CELL.match(lines[0])
    assert head
    given = head["options"] or ""
    options = {name: json.loads(value) for name, value in _OPTION.findall(given)}
    if unread := _OPTION.sub("", given).strip():
        options[unread] = ""
    text = "\n".join(lines[1:]).strip("\n")
    if head["markdown"]:
        return Cell("markdown", re.sub(r"^# ?", "", text, flags=re.MULTILINE), line, options)
    magic = re.sub(r"^# (?=%%\w)", "", text, flags=re.MULTILINE)
    return Cell("code", magic, line, options)


def _front_matter(path: Path, lines: list[str]) -> tuple[dict, int]:
    """Parse the YAML between the two `# ---` lines; return it with its number of lines."""
    marks = [n for n, line in enumerate(lines) if line == "# ---"][:2]
    if len(marks) < 2 or marks[0] != 0:
        refuse([Problem(path, 1, "The front matter is missing: YAML between two lines '# ---'.")])
    text = "\n".join(line[2:] for line in lines[1 : marks[1]])
    try:
        return yaml.safe_load(text) or {}, marks[1] + 1
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)  # a forbidden character has none
        why = getattr(error, "problem", error)
        at = mark.line if mark else 0
        refuse([Problem(path, at + 2, f"The front matter is not valid YAML: {why}.")])
        raise AssertionError from error  # refuse has raised


def _unreadable(lesson: Lesson, cell: Cell) -> list[Problem]:
    found = [
        lesson.problem(cell.line, f"A cell has no option {name!r}: {', '.join(sorted(OPTIONS))}.")
        for name in cell.options.keys() - OPTIONS
    ]
    for tag in cell.options.get("tags", []):
        if tag not in TAGS:
            what = f"A cell has no tag {tag!r}: {', '.join(TAGS)}."
            found.append(lesson.problem(cell.line, what))
    try:
        answers = cell.versions.answers
    except MarkerError as error:
        return [*found, lesson.problem(cell.first_line + error.offset, error.what)]
    if answers and not cell.exercise:
        found.append(lesson.problem(cell.line, "Only exercise cells have answer markers."))
    return found


def check_call(code: str) -> tuple[str, str] | None:
    """Return a `lab.check` call's exercise id and answer expression; None if a cell has no call."""
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Call(ast.Attribute(attr="check"), [ast.Constant(str(exercise)), answer]):
                return exercise, ast.unparse(answer)
    return None


def without_check(code: str) -> str:
    """Remove the `lab.check` call from a cell's code; the rest is the solution."""
    lines = code.splitlines()
    for node in reversed(ast.parse(code).body):  # so that the line numbers still hold
        if check_call(ast.get_source_segment(code, node) or ""):
            first, last = lines[node.lineno - 1], lines[(node.end_lineno or 0) - 1]
            # Columns count bytes; other statements may stand on the call's lines.
            before = first.encode()[: node.col_offset].decode().rstrip("; ")
            after = last.encode()[node.end_col_offset :].decode().lstrip("; ")
            rest = "; ".join(part for part in (before, after) if part and part[0] != "#")
            lines[node.lineno - 1 : node.end_lineno] = [rest] if rest else []
    return "\n".join(lines).strip()


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:56] or "cell"
