"""Converts learners' answers to plain Python values for the checks.

A right answer may be a Python, NumPy or Arrow scalar, a string, a row, a list, or a Spark, pandas
or Arrow table. Each function returns plain Python values, or raises `Unreadable` with a message
for the learner's card.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import pandas as pd

READS = ("toPandas", "to_pandas", "to_df", "df", "read_pandas")  # Spark, Arrow, DuckDB
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d+)?")
DECIMAL_COMMA = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+")
DIGITS = 15  # of a float that are exact: 0.1 + 0.2 is 0.3


class Unreadable(ValueError):
    """The answer does not have the form that the exercise requires; the message states the form."""


def plain(value: Any) -> Any:
    """Convert a NumPy, Arrow or pandas scalar, or a table or list with one value, to plain Python.

    Missing values (NaN, NaT, pandas' NA) become None.
    """
    if isinstance(value, Mapping | list | set) or _is_table(value):
        return _only_value(value)
    if hasattr(value, "as_py"):  # Arrow
        value = value.as_py()
    if isinstance(value, np.datetime64 | np.timedelta64) and not _is_time(value.item()):
        value = pd.Timestamp(value) if isinstance(value, np.datetime64) else pd.Timedelta(value)
    if isinstance(value, pd.Timestamp):
        value = value.to_pydatetime()
    elif isinstance(value, pd.Timedelta):
        value = value.to_pytimedelta()
    elif hasattr(value, "item") and getattr(value, "ndim", 0) == 0:  # NumPy
        value = value.item()
    return None if _is_missing(value) else value


def kind_of(answer: Any) -> str:
    """Describe a value's type, for example `a DataFrame`; None is `nothing`."""
    return "nothing" if answer is None else f"a {type(answer).__name__}"


def type_of(answer: Any) -> str:
    """Return the type's name with its package, for example `pandas.DataFrame`."""
    kind = type(answer)
    return f"{kind.__module__.partition('.')[0]}.{kind.__name__}"


def as_pair(answer: Any, parts: str) -> tuple:
    """Return an answer as a pair, or raise Unreadable with `parts` as the message."""
    if not isinstance(answer, list | tuple) or len(answer) != 2:
        raise Unreadable(f"{parts}.")
    return tuple(answer)


def as_bool(answer: Any) -> bool:
    """Convert an answer to a bool; also accepts `"yes"`, `"no"`, `"true"` and `"false"`."""
    value = plain(answer)
    if isinstance(value, bool):
        return value
    words = {"true": True, "yes": True, "false": False, "no": False}
    if isinstance(value, str) and value.strip().casefold() in words:
        return words[value.strip().casefold()]
    raise Unreadable(f"True or False is expected, not {_shown(answer)}.")


def as_number(answer: Any) -> Decimal:
    """Convert an answer to an exact number; also accepts `"1,200"`, `"29.50"` and `"29,50"`."""
    value = plain(answer)
    if isinstance(value, str):
        value = _digits(value.strip().replace("_", ""))
    if isinstance(value, float):
        value = int(value) if value.is_integer() else f"{value:.{DIGITS}g}"
    if isinstance(value, int | float | Decimal | str) and not isinstance(value, bool):
        try:
            number = Decimal(str(value))
        except InvalidOperation:
            number = Decimal("NaN")
        if number.is_finite():
            return number
    raise Unreadable(f"A number is expected, not {_shown(answer)}.")


def _digits(text: str) -> str:
    """Return a number's text without thousands separators, and with a point before its decimals.

    Of `1,200` the comma separates thousands; of `29,50` and `1.234,56` it is the decimal one.
    """
    if THOUSANDS.fullmatch(text):
        return text.replace(",", "")
    return text.replace(".", "").replace(",", ".") if DECIMAL_COMMA.fullmatch(text) else text


def as_int(answer: Any) -> int:
    """Convert an answer to a whole number; accepts `4.0` and `"4"`, but not `4.5`."""
    number = as_number(answer)
    if number != number.to_integral_value():
        raise Unreadable(f"A whole number is expected, not {_shown(answer)}.")
    return int(number)


def as_text(answer: Any) -> str:
    """Convert an answer to text without surrounding whitespace; accepts numbers and times."""
    value = plain(answer)
    if value is None or isinstance(value, bool):
        raise Unreadable(f"Text is expected, not {_shown(answer)}.")
    return str(value).strip()


def as_choice(answer: Any, choices: Iterable[str]) -> str:
    """Return the matching choice, ignoring case and surrounding whitespace."""
    known = {choice.casefold(): choice for choice in choices}
    try:
        return known[as_text(answer).casefold()]
    except (KeyError, Unreadable):
        offered = ", ".join(repr(choice) for choice in known.values())
        raise Unreadable(f"One of {offered} is expected, not {_shown(answer)}.") from None


def as_list(answer: Any) -> list:
    """Return the items of a list, array, column or one-column table, or a dictionary's keys."""
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
    """Convert a Spark, Arrow or DuckDB table, or a list of rows, to a pandas DataFrame."""
    if isinstance(answer, pd.DataFrame):
        named = [name for name in answer.index.names if name is not None]
        return answer.reset_index() if named else answer.reset_index(drop=True)
    if isinstance(answer, pd.Series):
        return as_frame(answer.to_frame())
    for method in READS:
        if callable(getattr(answer, method, None)):
            return as_frame(getattr(answer, method)())
    if isinstance(answer, list | tuple) and answer and all(map(_is_table, answer)):  # hudi-rs
        return pd.concat([as_frame(part) for part in answer], ignore_index=True)
    if isinstance(answer, Mapping):
        several = [isinstance(value, list | pd.Series | np.ndarray) for value in answer.values()]
        return pd.DataFrame(dict(answer) if several and all(several) else [dict(answer)])
    if isinstance(answer, Sequence | set) and not isinstance(answer, str | bytes):
        items = [answer] if _is_row(answer) and not _holds_rows(answer) else list(answer)
        if all(_is_row(item) for item in items):
            return pd.DataFrame([_mapping(item) for item in items])
    raise Unreadable(f"A table is expected, not {_shown(answer)}.")


def as_rows(answer: Any, columns: Sequence[str] | None = None) -> list[tuple]:
    """Return a table's rows as tuples of plain values, in the table's order.

    `columns` selects and orders the columns; if the table has no column names, columns are
    matched by position.
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
    """Return True if a prediction matches the measured value; the order of lists is ignored."""
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
    """Convert a table cell to plain Python; nested values stay as they are."""
    return item if isinstance(item, Mapping | list | set) else plain(item)


def _only_value(answer: Any) -> Any:
    """Return the only value of a table or collection; raise Unreadable if it has more or none."""
    rows = as_rows(answer) if _is_table(answer) else [(item,) for item in answer]
    if isinstance(answer, Mapping) or len(rows) != 1 or len(rows[0]) != 1:
        raise Unreadable(f"One value is expected, not {_shown(answer)}.")
    value = rows[0][0]
    return plain(_fields(value)[0] if _is_row(value) and len(value) == 1 else value)


def _is_table(value: Any) -> bool:
    if isinstance(value, pd.DataFrame | pd.Series):
        return True
    return any(callable(getattr(value, name, None)) for name in READS)


def _is_row(value: Any) -> bool:
    return isinstance(value, Mapping | tuple)


def _holds_rows(value: Any) -> bool:
    return not isinstance(value, Mapping) and any(_is_row(item) for item in value)


def _fields(row: Any) -> list:
    return list(row.values()) if isinstance(row, Mapping) else list(row)


def _mapping(row: Any) -> dict:
    if isinstance(row, Mapping):
        return dict(row)
    return row.asDict() if hasattr(row, "asDict") else dict(enumerate(row))


def _is_time(value: Any) -> bool:
    """True for a time or span of Python; NumPy gives a number where nanoseconds have none."""
    return isinstance(value, date | timedelta)


def _is_missing(value: Any) -> bool:
    return isinstance(value, (float, datetime, date, type(pd.NA))) and bool(pd.isna(value))


def _shown(answer: Any) -> str:
    text = repr(answer)
    kind = type(answer).__name__
    return f"`{text}` ({kind})" if len(text) <= 60 and "\n" not in text else f"a {kind}"
