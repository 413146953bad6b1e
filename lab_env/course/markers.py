"""Splits a cell with otter-grader-style markers into its worked version and its stub.

total = rows.count()  # SOLUTION      ->  total = ...  # YOUR CODE

# BEGIN SOLUTION                      ->  paid = ...  # YOUR CODE
# PROMPT: paid = ...
paid = orders.where("status = 'paid'")
# END SOLUTION
"""

import re
from dataclasses import dataclass

STUB = "# YOUR CODE"

_LINE = re.compile(r"^(?P<code>.*\S)\s*# SOLUTION\s*$")
_BEGIN = re.compile(r"^(?P<indent>\s*)# BEGIN SOLUTION\s*$")
_END = re.compile(r"^\s*# END SOLUTION\s*$")
_PROMPT = re.compile(r"^\s*# PROMPT: (?P<code>.*)$")
_ANY = re.compile(r"#\s*(BEGIN SOLUTION|END SOLUTION|SOLUTION|PROMPT)\b", re.IGNORECASE)

# `name = value` and `name=value,` keep their name; `"key": value,` keeps its key.
_ASSIGNMENT = re.compile(r"^(?P<kept>\s*[\w.\[\]\"', ]+?\s*=(?!=)\s*)\S.*?(?P<comma>,?)$")
_ENTRY = re.compile(r"^(?P<kept>\s*(?:\"[^\"]*\"|'[^']*')\s*:\s*)\S.*?(?P<comma>,?)$")


class MarkerError(ValueError):
    """A misplaced or misspelt marker; `offset` is its line in the cell, counted from 0."""

    def __init__(self, offset: int, what: str):
        super().__init__(what)
        self.offset = offset
        self.what = what


@dataclass(frozen=True)
class Versions:
    """A code cell's worked text, its stub with `...` for answers, and the lines of each answer."""

    worked: str
    stub: str
    answers: tuple[tuple[str, ...], ...]


def split(text: str) -> Versions:
    """Make both versions of a code cell; raise a MarkerError for a misplaced or misspelt marker."""
    worked: list[str] = []
    stub: list[str] = []
    answers: list[tuple[str, ...]] = []
    block: list[str] | None = None
    prompts: list[str] = []
    begin, indent = 0, ""
    for offset, line in enumerate(text.splitlines()):
        if match := _BEGIN.match(line):
            if block is not None:
                raise MarkerError(offset, "BEGIN SOLUTION stands inside another solution.")
            block, prompts, begin, indent = [], [], offset, match["indent"]
        elif _END.match(line):
            if not block:
                raise MarkerError(offset, "END SOLUTION ends nothing.")
            stub += [f"{indent}{code}  {STUB}" for code in prompts or ["..."]]
            worked += block
            answers.append(tuple(block))
            block = None
        elif block is not None and (match := _PROMPT.match(line)):
            prompts.append(match["code"].strip())
        elif block is not None:
            block.append(line)
        elif match := _LINE.match(line):
            worked.append(match["code"])
            stub.append(f"{_stub_of(match['code'])}  {STUB}")
            answers.append((match["code"],))
        elif _ANY.search(line):
            raise MarkerError(offset, f"This marker is misspelt or misplaced: {line.strip()}")
        else:
            worked.append(line)
            stub.append(line)
    if block is not None:
        raise MarkerError(begin, "BEGIN SOLUTION has no END SOLUTION.")
    return Versions("\n".join(worked), "\n".join(stub), tuple(answers))


def _stub_of(code: str) -> str:
    for pattern in (_ENTRY, _ASSIGNMENT):
        if match := pattern.match(code):
            return f"{match['kept']}...{match['comma']}"
    return code[: len(code) - len(code.lstrip())] + "..."
