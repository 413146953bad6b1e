"""Finds what an answer leaves behind besides its result: in its arguments, and in the session.

A check looks at what an answer returns or writes. Whoever calls a function also counts on the lists
and dictionaries that it lends, and every other query on the session's settings and tables. So these
are watched in every check, whatever it looks at itself.
"""

import functools
import inspect
from collections.abc import Callable, Generator
from contextlib import contextmanager
from copy import copy
from types import CodeType, FunctionType
from typing import Any

from py4j.protocol import Py4JError

from lab_env.course.checking import expect
from lab_env.platform.errors import LabError

PLAIN = (str, int, float, bool, bytes, type(None))
# Hudi's own readers and its procedure hive_sync set these for the session.
HUDIS = ("spark.sql.parquet.", "hoodie.datasource.hive_sync.")


def watched(answer: Any) -> Any:
    """Return the answer; its functions raise NotYet if they change a list, dictionary or set.

    That is one which they are given, or a constant of the notebook. Only functions are watched: a
    class, a generator and a functools.partial stay as they are.
    """
    if isinstance(answer, FunctionType):
        return _watched(answer)
    return type(answer)(map(watched, answer)) if type(answer) in (list, tuple) else answer


def unwatched(function: Any) -> Any:
    """Return the learner's own function, for a check that copies or pickles it."""
    return getattr(function, "watches", function)


def _watched(function: FunctionType) -> Callable:
    @functools.wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        lent = [*given, *named.values()]
        before = [_content(value) for value in lent]
        with _constants_kept(function):
            result = function(*given, **named)
        for was, now in zip(before, lent, strict=True):
            expect(
                was == _content(now),
                "`{}` changes the {} that it is given; it is {} now. Its caller still needs it as "
                "it was. Work on a copy.",
                function.__name__,
                type(now).__name__,
                _short(now),
            )
        return result

    vars(call)["watches"] = function
    return call


@contextmanager
def _constants_kept(function: FunctionType) -> Generator[None]:
    """Expect after the body that the notebook's constants are as before; put back what is not.

    The values of default arguments count as constants.
    """
    constants = {n: function.__globals__.get(n) for n in _names(function.__code__) if n.isupper()}
    defaults = {n: one.default for n, one in inspect.signature(function).parameters.items()}
    known: dict[str, Any] = {
        name: value
        for name, value in (constants | defaults).items()
        if type(value) in (list, dict, set)
    }
    before = {name: (_content(value), copy(value)) for name, value in known.items()}
    yield
    for name, value in known.items():
        content, kept = before[name]
        if _content(value) != content:
            value.clear()
            value.extend(kept) if isinstance(value, list) else value.update(kept)
            expect(
                False,
                "`{}` changes `{}`, which other cells use as it was. Work on a copy.",
                function.__name__,
                name,
            )


def _names(code: CodeType) -> set[str]:
    """Return the names that a function's code uses, and the functions in it."""
    inner = (_names(part) for part in code.co_consts if isinstance(part, CodeType))
    return {*code.co_names}.union(*inner)


def _content(value: Any) -> Any:
    """Return what a list, dictionary or set holds, to compare; of anything else its identity."""
    if type(value) in (list, tuple):
        return [_content(item) for item in value]
    if type(value) is dict:
        return [(key, _content(item)) for key, item in value.items()]
    if type(value) is set:
        return set(map(id, value))
    return (type(value), value) if isinstance(value, PLAIN) else id(value)


@contextmanager
def session_left_as_found(spark: Any) -> Generator[None]:
    """Expect after the body the settings from before it, and no view in front of a table.

    What the body has changed is put back.

    Args:
        spark: the notebook's session; None if it has none.

    Raises:
        NotYet: a setting of the session has changed, or a table's name now means a temporary view.
        LabError: Spark does not answer.
    """
    if spark is None:
        yield
        return
    settings, hidden = _session(spark)
    try:
        yield
    finally:
        settings_now, hidden_now = _session(spark)
        changed = sorted({name for name, _ in settings.items() ^ settings_now.items()})
        for name in changed:
            if name in settings:
                spark.conf.set(name, settings[name])
            else:
                spark.conf.unset(name)
        new = sorted(hidden_now - hidden)
        for name in new:
            spark.catalog.dropTempView(name)
    expect(
        not changed,
        "Your code changes {} for the whole session. Other queries of this session count on it. "
        "Give the option to your own reader or writer, or take it back at the end (`RESET`).",
        " and ".join(f"`{name}`" for name in changed),
    )
    expect(
        not new,
        "Your code makes a temporary view with the name of a table: `{}`. Whoever asks for the "
        "table now gets the view. Take a name of your own.",
        ", ".join(new),
    )


def _session(spark: Any) -> tuple[dict[str, str], set[str]]:
    """Return the session's settings, and the temporary views that hide a table.

    One call of the JVM for each: an entry by itself would cost several.
    """
    try:
        state = spark._jsparkSession.sessionState()
        lines = state.conf().getAllConfs().mkString("\n").splitlines()
        pairs = [line.partition(" -> ") for line in lines if not line.startswith(HUDIS)]
        views = state.catalog().listLocalTempViews("*").mkString(",").replace("`", "").split(",")
        place = state.catalog().getCurrentDatabase()
        tables = state.catalog().externalCatalog().listTables(place).mkString(",").split(",")
    except (Py4JError, OSError) as error:
        raise LabError("Spark's session does not answer.", "restart the kernel.") from error
    return {name: value for name, _, value in pairs}, (set(views) & set(tables)) - {""}


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
