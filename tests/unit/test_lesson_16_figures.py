"""Lesson 16 judges a write by the table's schema afterwards, and parses counts and boards."""

from decimal import Decimal

import pandas as pd
import pytest
from pyspark.sql import Row

from lab_env.course.answers import Unreadable
from lab_env.lessons.l16.figures import SchemaTrials, board_of, counts_of, reason_of

REFUSAL = RuntimeError(
    "An error occurred while calling o1.save.\n"
    ": org.apache.hudi.exception.MissingSchemaFieldException: Schema validation failed due to "
    "missing field. Fields missing from incoming schema: {orders_record.items}\n\tat org.apache"
)
BEFORE = {"order_id": "string", "items": "int", "delivery": "struct<city:string>"}
TRIALS = SchemaTrials(
    BEFORE,
    {
        "coupon": BEFORE | {"coupon": "string"},
        "floor": BEFORE | {"delivery": "struct<city:string,floor:int>"},
        "text": BEFORE | {"items": "string"},
        "other struct": BEFORE | {"delivery": "struct<town:string>"},
        "reordered": dict(reversed(BEFORE.items())),
        "missing": REFUSAL,
    },
)


@pytest.mark.parametrize(
    ("write", "verdict", "outcome"),
    [
        ("coupon", "added", "coupon: string"),
        ("floor", "added", "delivery: struct<city:string,floor:int>"),
        ("text", "changed", "items: string"),
        ("other struct", "changed", "delivery: struct<town:string>"),
        ("reordered", "as before", "-"),
        ("missing", "refused", "MissingSchemaFieldException: orders_record.items"),
    ],
)
def test_a_write_is_judged_by_the_schema_that_it_leaves(write, verdict, outcome):
    assert (TRIALS.verdict(write), TRIALS.outcome(write)) == (verdict, outcome)


def test_types_and_reasons_are_text_in_the_grid_and_never_html():
    page = SchemaTrials({}, {"<b>": {"c": "struct<a:int>"}, "x": ValueError("'<i>'")})._repr_html_()
    assert "<b>" not in page.replace("<b></b>", "") and "<i>" not in page
    assert "struct&lt;a:int&gt;" in page


def test_an_error_without_hudis_class_keeps_its_own_first_line():
    assert reason_of(ValueError("no such table\nmore")) == "ValueError: no such table"


def test_the_board_takes_the_newest_version_and_the_last_coupon_that_was_named():
    def event(order, status, at, amount, **more):
        return {"order_id": order, "status": status, "order_ts": at, "amount": amount, **more}

    events = [
        event("O-1", "paid", "12:30", 10.2),  # an old app: no coupon
        event("O-1", "new", "12:00", 10.1, coupon="SAVE10"),
        event("O-2", "new", "12:00", 5.55),
        event("O-3", "new", "12:00", 0.05),
    ]
    rows = [tuple(row) for row in board_of(events).itertuples(index=False)]
    assert rows == [("new", "no", Decimal("5.60")), ("paid", "yes", Decimal("10.20"))]


@pytest.mark.parametrize(
    "answer",
    [
        {"channel": 7},
        [("channel", 7)],
        [Row(field="channel", count=7)],
        pd.DataFrame({"n": [7], "field": ["channel"]}),
        pd.Series([7], index=pd.Index(["channel"], name="field"), name="n"),
    ],
)
def test_counts_are_read_in_whatever_form(answer):
    assert counts_of(answer) == {"channel": 7}


@pytest.mark.parametrize("answer", [[("channel",)], [("channel", "seven")], 7])
def test_what_is_no_count_by_name_is_unreadable(answer):
    with pytest.raises(Unreadable):
        counts_of(answer)
