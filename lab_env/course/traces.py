"""Finds what an answer leaves behind besides its result: in its arguments, and in the session.

A check looks at what an answer returns or writes. Whoever calls a function also counts on its own
lists and dictionaries, and every other query on the session's settings and tables. So each check
watches these, for every exercise alike.
"""

import functools
from collections.abc import Callable, Generator
from contextlib import contextmanager
from copy import deepcopy
from types import FunctionType
from typing import Any

from lab_env.course.checking import expect

SHARED = (list, dict, set)  # arguments that a function can change in place
HUDIS = ("spark.sql.parquet.",)  # Hudi's own readers switch these for the session


def watched(answer: Any) -> Any:
    """Return the answer; its functions raise NotYet if they change an argument in place."""
    if isinstance(answer, FunctionType):
        return _watched(answer)
    return type(answer)(map(watched, answer)) if type(answer) in (list, tuple) else answer


def _watched(function: FunctionType) -> Callable:
    @functools.wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        lent = [value for value in (*given, *named.values()) if type(value) in SHARED]
        before = deepcopy(lent) if lent else lent
        result = function(*given, **named)
        for was, now in zip(before, lent, strict=True):
            expect(
                was == now,
                "`{}` changes the {} that it is given: from {} to {}. Its caller still needs the "
                "old one. Work on a copy.",
                function.__name__,
                type(now).__name__,
                _short(was),
                _short(now),
            )
        return result

    return call


@contextmanager
def session_left_as_found(spark: Any) -> Generator[None]:
    """Expect after the body the settings from before it, and no view in front of a table.

    Args:
        spark: the notebook's session; None if it has none.

    Raises:
        NotYet: a setting of the session has changed, or a table's name now means a temporary view.
    """
    if spark is None:
        yield
        return
    before, hidden = _settings(spark), _hidden(spark)
    yield
    changed = sorted({pair.partition(" -> ")[0] for pair in _settings(spark) ^ before})
    expect(
        not changed,
        "Your code changes {} for the whole session. Other queries of this session count on it. "
        "Give the option to your own reader or writer.",
        " and ".join(f"`{name}`" for name in changed),
    )
    expect(
        not (new := _hidden(spark) - hidden),
        "Your code makes a temporary view with the name of a table: `{}`. Whoever asks for the "
        "table now gets the view. Take a name of your own.",
        ", ".join(sorted(new)),
    )


def _settings(spark: Any) -> set[str]:
    """Return the session's own settings as text, `name -> value`; one call of the JVM."""
    text = spark._jsparkSession.sessionState().conf().getAllConfs().mkString("\n")
    return {line for line in text.splitlines() if not line.startswith(HUDIS)}


def _hidden(spark: Any) -> set[str]:
    """Return the names of temporary views that hide a table of the current database."""
    catalog = spark._jsparkSession.sessionState().catalog()
    views = catalog.listLocalTempViews("*").mkString(",").replace("`", "").split(",")
    place = catalog.getCurrentDatabase()
    tables = catalog.externalCatalog().listTables(place).mkString(",").split(",")
    return (set(views) & set(tables)) - {""}


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
