"""Effect mutants: what is disturbed in a value, a DataFrame and a call, each change for itself."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

import pandas as pd
import pytest

from lab_env.course.authoring.disturb import changes_of, off
from lab_env.course.authoring.effects import Disturbed


@dataclass(frozen=True)
class Batch:
    number: int


VALUES = [
    (True, ["off by one unit", "None for it"], False),
    (4, ["off by one unit", "None for it"], 5),
    (Decimal("29.50"), ["off by one unit", "None for it", "rounded"], Decimal("29.51")),
    (datetime(2026, 1, 1), ["off by one unit", "None for it"], datetime(2026, 1, 1, 0, 0, 0, 1)),
    ("new", ["off by one unit", "None for it"], "newx"),
    (Batch(3), ["number off by one unit"], Batch(4)),
    ({"a": 1}, ["an entry less", "an entry more", "a: off by one unit", "a: None for it"], {}),
    ({"a"}, ["an element less", "an element more"], set()),
    ([3], ["an element less", "an element twice", "element 1: off by one unit",
           "element 1: None for it"], []),
    ((3,), ["element 1: off by one unit", "element 1: None for it"], (4,)),
    ([], [], None),
    (None, [], None),
]  # fmt: skip


@pytest.mark.parametrize(("value", "names", "first"), VALUES)
def test_each_kind_of_value_is_disturbed_in_its_own_ways(value, names, first):
    changes = dict(changes_of(value))
    assert [*changes] == names
    if changes:
        assert next(iter(changes.values()))(value) == first
    for change in changes.values():
        assert change(value) != value


def test_a_list_of_several_comes_in_another_order():
    assert dict(changes_of([1, 2]))["in another order"]([1, 2]) == [2, 1]
    assert "in another order" not in dict(changes_of([1, 1]))
    assert off(None) is None


def _facts(frame):
    """Return what a change can alter in a frame: names, types and rows, without their order."""
    if isinstance(frame, pd.DataFrame):
        rows = [tuple(map(str, row)) for row in frame.itertuples(index=False)]
        return tuple(frame.columns), Counter(rows)
    return tuple(frame.dtypes), Counter(map(str, frame.collect()))


def test_each_change_of_a_dataframe_changes_it(spark):
    rows = spark.sql(
        """SELECT * FROM VALUES ('O-1', 1.50BD, TIMESTAMP '2026-01-01', 1.5D, 1, true),
                               ('O-2', NULL, NULL, NULL, 2, NULL)
           AS t(order_id, amount, at, rate, n, paid)"""
    )
    changes = dict(changes_of(rows))
    assert {
        "a row less", "a row twice", "a column more", "a column less", "a column renamed in case",
        "amount as double", "at as string", "n as bigint", "amount off by one unit",
        "at off by one unit", "a value for NULL in amount", "NaN for NULL in rate", "NULL for paid",
        "two rows' paid exchanged",
    } <= changes.keys()  # fmt: skip
    for name, change in changes.items():
        assert _facts(change(rows)) != _facts(rows), name
    amounts = changes["amount off by one unit"](rows).collect()
    assert [row.amount for row in amounts] == [Decimal("1.51"), None]


def test_each_change_of_a_pandas_frame_changes_it():
    frame = pd.DataFrame({"order_id": ["O-1", "O-2"], "n": [1, 2]})
    changes = dict(changes_of(frame))
    assert len(changes) == 8
    for name, change in changes.items():
        assert _facts(change(frame)) != _facts(frame), name
    assert {*dict(changes_of(frame.head(0)))} == {"a column more", "a column less"}


def _with(effect, answer, *given):
    disturbed = Disturbed(None, effect)
    result = disturbed.wrap(answer)(*given)
    return result, disturbed


def test_without_an_effect_the_answer_is_only_watched_and_with_one_it_happens():
    kept = [1, 2]
    total, seen = _with("", sum_of, kept)
    assert total == 3 and not seen.happened
    assert [*seen.names] == ["off by one unit", "None for it", "the list emptied"]
    assert _with("off by one unit", sum_of, kept)[0] == 4
    total, emptied = _with("the list emptied", sum_of, kept)
    assert total == 3 and emptied.happened and not kept
    assert not _with("a row less", sum_of, kept)[1].happened


def test_a_disturbance_that_fails_is_no_refusal():
    disturbed = Disturbed(None, "off by one unit")
    with pytest.raises(ZeroDivisionError):
        disturbed._one_of(iter([("off by one unit", lambda: 1 / 0)]), None)
    assert disturbed.broken.startswith("ZeroDivisionError") and not disturbed.happened


def sum_of(numbers):
    return sum(numbers)


def test_of_several_functions_each_has_its_own_effects():
    seen = Disturbed(None)
    both = seen.wrap([sum_of, sum_of])
    both[0]([]), both[1]([])
    assert [*seen.names] == ["sum_of: off by one unit", "sum_of: None for it"]
    assert Disturbed(None).wrap(("a variant", sum_of))[0] == "a variant"
