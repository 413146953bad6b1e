"""Reads a learner's answer in whatever form it came: one place for all checks.

The same right answer may be a Python, NumPy or Arrow scalar, a string, a row, a list, or a table of
Spark, pandas or Arrow. Each function returns plain Python, or raises `Unreadable` with a sentence
that the learner gets as a card.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import pandas as pd


class Unreadable(ValueError):
    """The answer has another form than the exercise asks for; the text says which."""


def plain(value: Any) -> Any:
    """A scalar as plain Python: of NumPy, Arrow or pandas, or a table of one row and one column.

    Missing values (NaN, NaT, pandas' NA) become None.
    """
    if isinstance(value, Mapping | list | set) or _is_table(value):
        return _only_value(value)
    if hasattr(value, "as_py"):  # Arrow
        value = value.as_py()
    if isinstance(value, pd.Timestamp):
        value = value.to_pydatetime()
    elif hasattr(value, "item") and getattr(value, "ndim", 0) == 0:  # NumPy
        value = value.item()
    return None if _is_missing(value) else value


def kind_of(answer: Any) -> str:
    """The kind of a returned value, in words: `nothing`, or for example `a DataFrame`."""
    return "nothing" if answer is None else f"a {type(answer).__name__}"


def type_of(answer: Any) -> str:
    """The type with its package, for example `pandas.DataFrame`."""
    kind = type(answer)
    return f"{kind.__module__.partition('.')[0]}.{kind.__name__}"


def as_pair(answer: Any, parts: str) -> tuple:
    """The two parts of an answer; `parts` says what is expected, for the learner."""
    if not isinstance(answer, list | tuple) or len(answer) != 2:
        raise Unreadable(f"{parts}.")
    return tuple(answer)


def as_bool(answer: Any) -> bool:
    """True or False, also as text (`"yes"`, `"no"`, `"true"`, `"false"`)."""
    value = plain(answer)
    if isinstance(value, bool):
        return value
    words = {"true": True, "yes": True, "false": False, "no": False}
    if isinstance(value, str) and value.strip().casefold() in words:
        return words[value.strip().casefold()]
    raise Unreadable(f"True or False is expected, not {_shown(answer)}.")


def as_number(answer: Any) -> Decimal:
    """A number, exactly; text such as `"4"`, `"1,200"` or `"29.50"` counts."""
    value = plain(answer)
    if isinstance(value, str):
        value = value.strip().replace(",", "").replace("_", "")
    if isinstance(value, int | float | Decimal | str) and not isinstance(value, bool):
        try:
            number = Decimal(str(value))
        except InvalidOperation:
            number = Decimal("NaN")
        if number.is_finite():
            return number
    raise Unreadable(f"A number is expected, not {_shown(answer)}.")


def as_int(answer: Any) -> int:
    """A whole number; `4.0` and `"4"` count, `4.5` does not."""
    number = as_number(answer)
    if number != number.to_integral_value():
        raise Unreadable(f"A whole number is expected, not {_shown(answer)}.")
    return int(number)


def as_text(answer: Any) -> str:
    """Text without the space around it; numbers and times are written out."""
    value = plain(answer)
    if value is None or isinstance(value, bool):
        raise Unreadable(f"Text is expected, not {_shown(answer)}.")
    return str(value).strip()


def as_choice(answer: Any, choices: Iterable[str]) -> str:
    """One of several texts; case and the space around it do not matter.

    Args:
        choices: what there is to choose from, as it is returned.
    """
    known = {choice.casefold(): choice for choice in choices}
    try:
        return known[as_text(answer).casefold()]
    except (KeyError, Unreadable):
        offered = ", ".join(repr(choice) for choice in known.values())
        raise Unreadable(f"One of {offered} is expected, not {_shown(answer)}.") from None


def as_list(answer: Any) -> list:
    """Plain values in their order: of a list, tuple, set, array, column or one-column table."""
    if isinstance(answer, str | bytes) or answer is None:
        raise Unreadable(f"A list is expected, not {_shown(answer)}.")
    if isinstance(answer, Mapping):
        return [plain(key) for key in answer]
    if isinstance(answer, pd.Series | pd.Index):
        return [plain(value) for value in answer.tolist()]
    if _is_table(answer):
        frame = as_frame(answer)
        if len(frame.columns) != 1:
            raise Unreadable(f"One column is expected, not {len(frame.columns)}.")
        return [plain(value) for value in frame.iloc[:, 0].tolist()]
    try:
        items = list(answer)
    except TypeError:
        raise Unreadable(f"A list is expected, not {_shown(answer)}.") from None
    single = all(_is_row(item) and len(item) == 1 for item in items)
    return [plain(_fields(item)[0]) if single else plain(item) for item in items]


def as_frame(answer: Any) -> pd.DataFrame:
    """A table: of Spark, pandas, Arrow or DuckDB, or a list of rows, dictionaries or tuples."""
    if isinstance(answer, pd.DataFrame):
        named = [name for name in answer.index.names if name is not None]
        return answer.reset_index() if named else answer.reset_index(drop=True)
    if isinstance(answer, pd.Series):
        return as_frame(answer.to_frame())
    for method in ("toPandas", "to_pandas", "to_df", "df"):  # Spark, Arrow, DuckDB
        if callable(getattr(answer, method, None)):
            return as_frame(getattr(answer, method)())
    if isinstance(answer, Mapping):
        answer = [answer]
    if isinstance(answer, Sequence | set) and not isinstance(answer, str | bytes):
        items = [answer] if _is_row(answer) and not _holds_rows(answer) else list(answer)
        if all(_is_row(item) for item in items):
            return pd.DataFrame([_mapping(item) for item in items])
    raise Unreadable(f"A table is expected, not {_shown(answer)}.")


def as_rows(answer: Any, columns: Sequence[str] | None = None) -> list[tuple]:
    """The rows of a table as tuples of plain values, in their order.

    Args:
        answer: a table, as for `as_frame`.
        columns: names in the order of the values; other columns are left out. Without names all
            columns count, as they come. A table without names is taken by position.
    """
    frame = as_frame(answer)
    if columns is not None:
        unnamed = all(isinstance(name, int) for name in frame.columns)
        if unnamed and len(frame.columns) == len(columns):
            frame = frame.set_axis(list(columns), axis=1)
        missing = [name for name in columns if name not in frame.columns]
        if missing and len(frame):
            raise Unreadable(f"The answer has no column {', '.join(missing)}.")
        frame = frame.reindex(columns=list(columns))
    lists = [frame.iloc[:, place].tolist() for place in range(frame.shape[1])]
    return [tuple(_value(item) for item in row) for row in zip(*lists, strict=True)]


def agree(expected: Any, actual: Any, tolerance: float = 0) -> bool:
    """True if a prediction came true.

    Numbers are compared as numbers, lists without regard to their order, everything else as text.

    Args:
        tolerance: how far a number may be off, in its own unit.
    """
    try:
        return abs(as_number(expected) - as_number(actual)) <= Decimal(str(tolerance))
    except Unreadable:
        pass
    if isinstance(actual, list | tuple | set):
        try:
            return sorted(map(str, as_list(expected))) == sorted(map(str, as_list(actual)))
        except Unreadable:
            return False
    return str(plain(expected)).strip().casefold() == str(plain(actual)).strip().casefold()


def _value(item: Any) -> Any:
    """A cell of a table; nested values stay as they are."""
    return item if isinstance(item, Mapping | list | set) else plain(item)


def _only_value(answer: Any) -> Any:
    """The value of a table or collection that holds exactly one."""
    rows = as_rows(answer) if _is_table(answer) else [(item,) for item in answer]
    if isinstance(answer, Mapping) or len(rows) != 1 or len(rows[0]) != 1:
        raise Unreadable(f"One value is expected, not {_shown(answer)}.")
    value = rows[0][0]
    return plain(_fields(value)[0] if _is_row(value) and len(value) == 1 else value)


def _is_table(value: Any) -> bool:
    if isinstance(value, pd.DataFrame | pd.Series):
        return True
    return any(callable(getattr(value, name, None)) for name in ("toPandas", "to_pandas", "to_df"))


def _is_row(value: Any) -> bool:
    """A dictionary, a tuple or one of Spark's rows."""
    return isinstance(value, Mapping | tuple)


def _holds_rows(value: Any) -> bool:
    return not isinstance(value, Mapping) and any(_is_row(item) for item in value)


def _fields(row: Any) -> list:
    return list(row.values()) if isinstance(row, Mapping) else list(row)


def _mapping(row: Any) -> dict:
    if isinstance(row, Mapping):
        return dict(row)
    return row.asDict() if hasattr(row, "asDict") else dict(enumerate(row))


def _is_missing(value: Any) -> bool:
    return isinstance(value, (float, datetime, date, type(pd.NA))) and bool(pd.isna(value))


def _shown(answer: Any) -> str:
    text = repr(answer)
    kind = type(answer).__name__
    return f"`{text}` ({kind})" if len(text) <= 60 and "\n" not in text else f"a {kind}"
