"""Checks: functions that take the lab and an answer, and decide whether the answer is right.

A check calls or inspects the answer and returns the message for the card. It stops at the first
expectation that does not hold. It never reads the text of the learner's code.
"""

import ast
import importlib
import inspect
import linecache
import re
from collections.abc import Callable
from dataclasses import dataclass
from textwrap import dedent
from types import FunctionType, ModuleType, TracebackType
from typing import Any

from lab_env.platform.errors import LabError

Check = Callable[[Any, Any], str]
_SPARK = ("pyspark", "py4j")


@dataclass(unsafe_hash=True)
class NotYet(Exception):
    """The answer is not right yet; `reason` tells the learner in one or two sentences why."""

    reason: str


def expect(holds: object, sentence: str, *values: object) -> None:
    """Raise `NotYet` unless a condition holds; the sentence has a `{}` for each value."""
    if not holds:
        raise NotYet(sentence.format(*values))


def check(exercise_id: str) -> Callable[[Any], Any]:
    """Mark a function as the check of an exercise, given its id, for example `04.1`."""

    def mark(function: Any) -> Any:
        function.exercise_id = exercise_id
        return function

    return mark


def checks_in(module: ModuleType) -> dict[str, Check]:
    """Return a module's checks by exercise id; raise a LabError if an exercise has two checks."""
    found: dict[str, Check] = {}
    for value in vars(module).values():
        if "exercise_id" in getattr(value, "__dict__", ()):
            if value.exercise_id in found:
                raise LabError(f"{module.__name__} checks exercise {value.exercise_id} twice.")
            found[value.exercise_id] = value
    return found


def checks_of_lesson(number: str) -> dict[str, Check]:
    """Return the checks of a lesson by exercise id; `number` has two digits.

    Raises a LabError if the lesson has no `checks.py`.
    """
    name = f"lab_env.lessons.l{number}.checks"
    try:
        return checks_in(importlib.import_module(name))
    except ModuleNotFoundError as error:
        if error.name not in (name, name.rpartition(".")[0]):
            raise
        raise LabError(
            f"Lesson {number} has no checks.", f"write lab_env/lessons/l{number}/checks.py."
        ) from None


def unfilled(answer: Any) -> bool:
    """True if an answer is `...`, a function or class containing it, or a collection of these."""
    if isinstance(answer, FunctionType):
        return _is_stub(answer)
    if isinstance(answer, type):  # what it inherits is filled in elsewhere
        return any(map(unfilled, vars(answer).values()))
    if isinstance(answer, dict):
        return any(map(unfilled, answer.values()))
    if isinstance(answer, list | tuple | set):
        return any(map(unfilled, answer))
    return answer is ...


def _is_stub(function: FunctionType) -> bool:
    # `...`, `pass` and `return None` compile to the same: only the source tells a stub from an
    # answer that does nothing. A function without source did not come from a learner's cell.
    try:
        [definition] = ast.parse(dedent(inspect.getsource(function))).body
    except (OSError, SyntaxError, ValueError):  # or several statements on its lines
        return False
    if not isinstance(definition, ast.FunctionDef):  # a lambda
        return False
    body = definition.body[ast.get_docstring(definition) is not None :]
    return bool(body) and all(
        isinstance(line, ast.Expr) and getattr(line.value, "value", None) is ... for line in body
    )


def mistake(error: BaseException, answer: Any = None) -> str:
    """Describe a learner's exception, with the line of the learner's code that raised it."""
    kind, said = type(error).__name__, _root_message(error)
    text = f"{kind}: {said}" if said else kind
    return text.rstrip(".;") + "." + _own_line(error.__traceback__, answer)


def raised_by(answer: Any, error: BaseException) -> bool:
    """True if an exception was raised by the learner's code, or by Spark when it runs a plan.

    Any other exception was raised by the check itself, which could not handle the answer's form.
    """
    if _own_frame(error.__traceback__, answer) or type(error).__module__.startswith(_SPARK):
        return True
    name = getattr(answer, "__qualname__", None)  # a call with other arguments never begins
    return isinstance(error, TypeError) and name is not None and f"{name}()" in str(error)


def _root_message(error: BaseException) -> str:
    """Return a Java error's root cause, or the first line of any other message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    if not causes and type(error).__name__ == "Py4JJavaError" and len(lines) > 1:
        causes = [lines[1].removeprefix(": ")]
    message = (causes or lines or [""])[-1 if causes else 0]
    message = re.sub(r"^(?:[a-z]\w*\.)+([A-Z]\w*)", r"\1", message)  # java.io.IOException
    message = re.sub(r"\.?; line \d+ pos \d+;?$", ".", message)  # of Spark's plan
    return message if len(message) <= 300 else message[:297] + "..."


def _own_line(trace: TracebackType | None, answer: Any) -> str:
    name, line = _own_frame(trace, answer) or ("", "")
    function = "" if name.startswith("<") else f" of `{name}`"
    return f" This line{function} raised it:\n\n```\n{line}\n```" if line else ""


def _own_frame(trace: TracebackType | None, answer: Any) -> tuple[str, str] | None:
    own_file = answer.__code__.co_filename if isinstance(answer, FunctionType) else None
    found = None
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename == own_file or trace.tb_frame.f_globals.get("__name__") == "__main__":
            found = (code.co_name, linecache.getline(code.co_filename, trace.tb_lineno).strip())
        trace = trace.tb_next
    return found
