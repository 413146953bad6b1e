"""Pickles the learner's functions for another process."""

import io
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from lab_env.course.traces import unwatched
from lab_env.platform.errors import LabError
from lab_env.platform.processes.state import folder

SESSION = "the session of the process that loads the functions"
LAB = "the handle of that process"


class Session:
    """Stands for the Spark session where there is none; `unpack` puts the running one in place."""


def pack(bound: bool = False, **functions: Callable) -> bytes:
    """Pickle a notebook's functions by name, with every notebook variable that they use.

    Args:
        bound: whether they may use the notebook's Spark session and its `lab`; they get those of
            the other process in their place.

    Raises:
        LabError: an argument is not a function, or uses a value bound to this process.
    """
    functions = {name: unwatched(function) for name, function in functions.items()}
    for name, function in functions.items():
        if not callable(function):
            raise LabError(
                f"`{name}` is of type {type(function).__name__}, not a function.",
                f"define `{name}` as the exercise asks.",
            )
        for used, value in _globals_of(function):
            if _belongs_here(value) and not (bound and _token_of(value)):
                raise LabError(
                    f"`{name}` uses `{used}` of this notebook ({type(value).__name__}), which "
                    "cannot be sent along: the job runs in its own process, as in production.",
                    "take the session, the topic and the folder from the function's arguments.",
                )
            _send_own_module(value)
    try:
        return _dumps(functions)
    except Exception as error:
        raise LabError(
            f"Your functions cannot be sent to another process: {error}",
            "let them use functions, constants and imports only.",
        ) from None


def unpack(job: bytes, spark: Any, lab: Any = None) -> dict[str, Callable]:
    """Load pickled functions by name; they use `spark` and `lab` in place of their notebook's."""
    reader = pickle.Unpickler(io.BytesIO(job))
    reader.persistent_load = {SESSION: spark, LAB: lab}.__getitem__
    return reader.load()


def _dumps(functions: dict[str, Callable]) -> bytes:
    from pyspark.cloudpickle import CloudPickler

    class Pickler(CloudPickler):
        def persistent_id(self, obj: object) -> str | None:
            return _token_of(obj)

    file = io.BytesIO()
    Pickler(file).dump(functions)
    return file.getvalue()


def _globals_of(function: Callable, seen: set[int] | None = None) -> Iterator[tuple[str, object]]:
    """Return the notebook variables that a function uses, directly or through its callees."""
    seen = set() if seen is None else seen
    if not isinstance(function, FunctionType) or id(function) in seen:
        return
    seen.add(id(function))
    for name in _names_in(function.__code__):
        if name in function.__globals__:
            value = function.__globals__[name]
            yield name, value
            if getattr(value, "__module__", None) == "__main__":
                yield from _globals_of(value, seen)


def _send_own_module(value: object) -> None:
    """Pickle the code of a module that the notebook wrote, which the other process lacks."""
    from pyspark import cloudpickle

    module = sys.modules.get(getattr(value, "__module__", None) or "")
    file = getattr(module, "__file__", None)
    if module and file and Path(file).is_relative_to(folder("lessons")):
        cloudpickle.register_pickle_by_value(module)


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


def _belongs_here(value: object) -> bool:
    """True if a value is bound to this process: a Spark session, a DataFrame, the `lab` object."""
    module = type(value).__module__
    names = ("SparkSession", "Session", "SparkContext", "DataFrame", "Lab")
    return type(value).__name__ in names and module.startswith(("pyspark", "lab_env"))


def _token_of(value: object) -> str | None:
    """Return what stands for a value that each process has of its own."""
    kind, module = type(value).__name__, type(value).__module__
    if isinstance(value, Session) or (kind == "SparkSession" and module.startswith("pyspark")):
        return SESSION
    return LAB if kind == "Lab" and module.startswith("lab_env") else None
