"""Identifies a check's message by an id that reveals nothing about the learner's answer.

A message often includes the learner's answer: "You say 3; the listing has 4." In the checks' source
it is a template with placeholders. A seat sends only the template's id, and the room looks it up in
its own copy of the course: "You say …; the listing has …."
"""

import ast
import builtins
import hashlib
import re
import string
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[2]
HOLE = "…"
LEAST = 12  # fixed characters that a template needs so that a match is no coincidence

# Exceptions of learners' code, in addition to Python's own.
KNOWN_ERRORS = {name for name in vars(builtins) if name.endswith(("Error", "Exception"))} | {
    "AnalysisException",
    "ArrowInvalid",
    "CatalogException",
    "ClientError",
    "IllegalArgumentException",
    "KafkaException",
    "ParseException",
    "Py4JJavaError",
    "Py4JError",
    "PythonException",
    "StreamingQueryException",
}

# Fixed parts of a template between its holes; the first and the last one may be empty.
Parts = tuple[str, ...]


def message_id(lesson: str, text: str) -> str:
    """Return the id of the lesson's message that best matches a text; empty if none does."""
    fitting = [parts for parts in _messages(lesson).values() if _fits(parts, text)]
    best = max(fitting, key=_own_characters, default=None)
    return _id(best) if best else ""


def message_text(lesson: str, known_id: str) -> str:
    """Return the message with this id, with `…` for each placeholder; empty if there is none."""
    parts = _messages(lesson).get(known_id) if known_id else None
    return HOLE.join(parts) if parts else ""


def error_name(text: str) -> str:
    """Return the exception's name at the start of an error card; empty if not in `KNOWN_ERRORS`."""
    found = re.match(r"(\w+)\b", text)
    return found[1] if found and found[1] in KNOWN_ERRORS else ""


@cache
def _messages(lesson: str) -> dict[str, Parts]:
    own = f"lessons/l{lesson}"
    if not (re.fullmatch("[0-9]{2}", lesson) and (PACKAGE / own).is_dir()):
        return {}
    folders = ("course", "lessons", "lessons/capstone", own)
    return {_id(parts): parts for folder in folders for parts in _templates_of(folder)}


@cache
def _templates_of(folder: str) -> frozenset[Parts]:
    return frozenset(
        parts
        for path in sorted((PACKAGE / folder).glob("*.py"))
        for parts in _templates_in(ast.parse(path.read_text(encoding="utf-8")))
        if _own_characters(parts) >= LEAST
    )


def _templates_in(tree: ast.AST) -> Iterator[Parts]:
    for node in ast.walk(tree):
        if parts := _parts(node):
            yield parts
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "{" in node.value:
            with suppress(ValueError):  # its braces are text
                # The empty last part allows a hole at the end.
                yield (*(text for text, *_ in string.Formatter().parse(node.value)), "")


def _parts(node: ast.AST) -> Parts | None:
    """Return the fixed parts of a string expression's template; None for other expressions."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return (node.value,)
    if isinstance(node, ast.JoinedStr):
        parts = [""]
        for value in node.values:
            if isinstance(value, ast.Constant):
                parts[-1] += str(value.value)
            else:
                parts.append("")
        return tuple(parts)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _parts(node.left), _parts(node.right)
        if left is None and right is None:
            return None
        left, right = left or ("", ""), right or ("", "")
        return (*left[:-1], left[-1] + right[0], *right[1:])
    return None


def _fits(parts: Parts, text: str) -> bool:
    """True if a text is the template with its placeholders filled."""
    if len(parts) == 1:
        return text == parts[0]
    first, *inner, last = parts
    if not text.startswith(first) or not text.endswith(last):
        return False
    at, end = len(first), len(text) - len(last)
    for part in inner:  # the first match leaves most room for the others
        at = text.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return at <= end


def _own_characters(parts: Parts) -> int:
    return sum(map(len, parts))


def _id(parts: Parts) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:10]
