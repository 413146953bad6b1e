"""Checks that a table has every expected row exactly once, with the right values and types."""

from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, Row

from lab_env.course.answers import Unreadable, kind_of
from lab_env.course.checking import expect
from lab_env.platform import store
from lab_env.tables.hudi.reader import PROPERTIES, parse_properties
from lab_env.tables.xray import XRay

_READ: WeakKeyDictionary[DataFrame, list[Row]] = WeakKeyDictionary()


def rows_at(lab, path: str) -> DataFrame:
    """Return the newest rows of a Hudi table."""
    return lab.spark.read.format("hudi").load(path)


def without_hudis(rows: DataFrame) -> DataFrame:
    """Return the rows without the columns that Hudi adds."""
    return rows.drop(*[name for name in rows.columns if name.startswith("_hoodie_")])


def settings_of(lab, path: str) -> dict[str, str]:
    """Return a table's settings, from its `hoodie.properties`."""
    text = store.read(lab.endpoints, f"{store.key_of(path)}/{PROPERTIES}").decode()
    return parse_properties(text)


def expect_type(lab, path: str, asked: str) -> XRay:
    """Check that there is a table of this type at a path; return its X-ray.

    Raises:
        NotYet: the table has another type, or there is none.
    """
    expect(lab.files(path), "Your function wrote nothing to the path that it was given.")
    table = lab.xray(path)
    expect(
        table.table_type == asked,
        "Asked for {}, your function made a {} table.",
        asked,
        table.table_type,
    )
    return table


def keys_of(rows: DataFrame, key: str = "order_id") -> Counter:
    """Count how often each key occurs."""
    return Counter(row[key] for row in _collected(rows))


def _collected(rows: DataFrame) -> list[Row]:
    """Return a DataFrame's rows; it is read once, because a read of a Hudi table takes a second."""
    if rows not in _READ:
        _READ[rows] = rows.collect()
    return _READ[rows]


def expect_rows(
    found: DataFrame, wanted: DataFrame, key: str = "order_id", may_have_more: bool = False
) -> None:
    """Check that the rows and columns are exactly the expected ones, beside Hudi's own columns.

    Args:
        wanted: the expected rows, with unique keys; the message does not reveal their values.
        may_have_more: whether the task leaves open which other columns there are.

    Raises:
        NotYet: the rows differ; the message names columns or keys, and the learner's value.
    """
    types = dict(found.dtypes)
    for name, kind in wanted.dtypes:
        expect(name in types, "The column `{}` is missing.", name)
        expect(types[name] == kind, "The column `{}` has become `{}`.", name, types[name])
        expect(found.columns.count(name) == 1, "The column `{}` is there twice.", name)
    more = [name for name in types if name not in wanted.columns and not name.startswith("_hoodie")]
    expect(
        may_have_more or not more,
        "There are columns that nobody asked for: {}.",
        named(more),
    )
    with ThreadPoolExecutor(1) as meanwhile:
        right_rows = meanwhile.submit(wanted.collect)
        rows = _collected(found)
    by_key = {row[key]: row for row in rows}
    right = {row[key]: row for row in right_rows.result()}
    twice = [name for name, times in Counter(row[key] for row in rows).items() if times > 1]
    expect(not twice, "{} is there twice. Which operation replaces a row by key?", named(twice))
    expect(right.keys() <= by_key.keys(), "{} is missing.", named(right.keys() - by_key.keys()))
    expect(
        by_key.keys() <= right.keys(),
        "{} is there, and should not be.",
        named(by_key.keys() - right.keys()),
    )
    for name, row in right.items():
        for column in wanted.columns:
            value = by_key[name][column]
            expect(value == row[column], "{}: `{}` is {!r}.", name, column, _spelt(value))


def as_dataframe(answer: object, wanted: str) -> DataFrame:
    """Return the answer if it is a Spark DataFrame, which later cells of the lesson need.

    Args:
        wanted: what the DataFrame should contain, for example `the rows`.

    Raises:
        Unreadable: the answer is something else.
    """
    if not isinstance(answer, DataFrame):
        raise Unreadable(
            f"Your function returned {kind_of(answer)}; {wanted} are expected as a DataFrame of "
            "Spark, because the lesson goes on with it."
        )
    return answer


def named(keys: Iterable) -> str:
    """Return the keys as sorted text, for example `O-1, O-2`; `no order` if there are none."""
    return ", ".join(sorted(map(str, keys))) or "no order"


def _spelt(value: object) -> object:
    return value if isinstance(value, int | str | bool | type(None)) else str(value)
