"""Answers are accepted in every equivalent form; any other form raises `Unreadable`."""

from datetime import datetime, timedelta
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import Row

from lab_env.course.answers import (
    Unreadable,
    agree,
    as_bool,
    as_choice,
    as_frame,
    as_int,
    as_list,
    as_number,
    as_rows,
    as_text,
    plain,
)

FRAME = pd.DataFrame({"order_id": ["O-1", "O-2"], "n": [1, 2]})
ONE = pd.DataFrame({"n": [4]})


@pytest.mark.parametrize(
    "four",
    [
        4, 4.0, "4", " 4 ", Decimal(4), np.int64(4), np.float32(4), np.array(4), pa.scalar(4),
        [4], [Row(n=4)], {4}, ONE, ONE["n"], pa.table({"n": [4]}), np.ceil(3.2),
    ],
)  # fmt: skip
def test_four_is_four(four):
    assert as_int(four) == 4 and type(as_int(four)) is int


@pytest.mark.parametrize(
    ("read", "others"),
    [
        (as_int, [None, ..., True, "four", "", 4.5, [4, 5], {"n": 4}, float("nan")]),
        (as_bool, [1, 0, None, "maybe"]),
        (as_list, ["O-1", None, 3, FRAME]),
        (as_frame, [None, 3, "rows", [1, 2], ...]),
    ],
)
def test_any_other_form_is_named(read, others):
    for other in others:
        with pytest.raises(Unreadable, match=r"is expected, not"):
            read(other)


@pytest.mark.parametrize("yes", [True, np.True_, "yes", "TRUE", pa.scalar(True), [True]])
def test_true_is_true(yes):
    assert as_bool(yes) is True


@pytest.mark.parametrize(
    ("answer", "number"),
    [
        ("29,50", "29.50"), ("0,125", "0.125"), ("1,200", "1200"), ("-1,200.5", "-1200.5"),
        ("12,34,56", None), ("1.234,56", "1234.56"), ("1,20 EUR", None), (0.1 + 0.2, "0.3"),
        (1764100000123457.0, "1764100000123457"),
    ],
)  # fmt: skip
def test_a_number_is_read_as_it_is_meant_or_not_at_all(answer, number):
    if number:
        assert as_number(answer) == Decimal(number)
    else:
        with pytest.raises(Unreadable):
            as_number(answer)


@pytest.mark.parametrize("unit", ["ns", "us", "s"])
def test_numpys_times_are_times(unit):
    assert plain(np.datetime64("2026-11-20T10:00", unit)) == datetime(2026, 11, 20, 10)
    assert plain(np.timedelta64(5_000_000_000, "ns").astype(f"m8[{unit}]")) == timedelta(seconds=5)
    assert plain(pd.Timedelta(seconds=5)) == timedelta(seconds=5)
    assert plain(np.datetime64("NaT", unit)) is None
    assert as_text(np.datetime64("2026-11-20")) == "2026-11-20"


def test_batches_readers_and_columns_are_tables():
    table = pa.Table.from_pandas(FRAME)
    batches = table.to_batches(max_chunksize=1)
    reader = pa.RecordBatchReader.from_batches(table.schema, batches)
    columns = {"order_id": ["O-1", "O-2"], "n": np.array([1, 2])}
    for answer in (batches, reader, columns):
        assert as_rows(answer) == [("O-1", 1), ("O-2", 2)]
    assert as_rows({"order_id": "O-1", "n": 1}) == [("O-1", 1)]


def test_a_thousands_separator_and_cents_are_exact():
    assert as_number("1,234.10") == Decimal("1234.10") == as_number(Decimal("1234.1"))
    assert as_number(0.1) == Decimal("0.1")


def test_text_and_choices():
    assert as_text(np.str_(" bloom ")) == "bloom" and as_text(17) == "17"
    assert as_choice(" Mor", ("cow", "mor")) == "mor"
    with pytest.raises(Unreadable, match="One of 'cow', 'mor' is expected, not `None`"):
        as_choice(None, ("cow", "mor"))


@pytest.mark.parametrize(
    "ids",
    [
        ["O-1", "O-2"], ("O-1", "O-2"), np.array(["O-1", "O-2"]), FRAME["order_id"],
        FRAME[["order_id"]], pa.array(["O-1", "O-2"]), [Row(order_id="O-1"), Row(order_id="O-2")],
        [{"order_id": "O-1"}, {"order_id": "O-2"}], pd.Index(["O-1", "O-2"]),
        FRAME.set_index("order_id").index, {"O-1": 1, "O-2": 2},
    ],
)  # fmt: skip
def test_a_list_in_any_form(ids):
    assert as_list(ids) == ["O-1", "O-2"]


@pytest.mark.parametrize(
    "table",
    [
        FRAME, FRAME[["n", "order_id"]], FRAME.assign(more=0), FRAME.set_index("order_id"),
        pa.table({"order_id": ["O-1", "O-2"], "n": [1, 2]}),
        [Row(order_id="O-1", n=1), Row(order_id="O-2", n=2)], [("O-1", 1), ("O-2", 2)],
        [{"order_id": "O-1", "n": 1}, {"order_id": "O-2", "n": 2}],
        FRAME.set_index("order_id")["n"],
    ],
)  # fmt: skip
def test_rows_in_any_form(table):
    assert as_rows(table, ["order_id", "n"]) == [("O-1", 1), ("O-2", 2)]


def test_a_missing_column_is_named_and_missing_values_are_none():
    with pytest.raises(Unreadable, match="no column amount"):
        as_rows(FRAME, ["order_id", "amount"])
    assert as_rows(pd.DataFrame({"a": [np.nan, 1.0], "t": [pd.NaT, pd.Timestamp(0)]})) == [
        (None, None),
        (1.0, datetime(1970, 1, 1)),
    ]
    assert as_rows([], ["order_id"]) == []


@pytest.mark.parametrize(
    ("expected", "actual", "tolerance", "right"),
    [
        (29.5, "29.50", 0, True), (400, 403, 5, True), (400, 403, 2, False),
        ("MOR", "mor", 0, True), (["a", "b"], ["b", "a"], 0, True), ("a", ["b"], 0, False),
        ("cow", 3, 0, False), (None, 3, 0, False),
    ],
)  # fmt: skip
def test_a_prediction_agrees(expected, actual, tolerance, right):
    assert agree(expected, actual, tolerance) is right
