"""Lesson 13 compares the rows of engines."""

from decimal import Decimal
from unittest.mock import Mock

import pandas as pd
import pytest

from lab_env.lessons.l13.figures import EngineMatrix, Reply, message_of, query_engine

PAID = pd.DataFrame({"order_id": ["O-1", "O-2"], "status": ["paid", "new"]})
STALE = PAID.assign(status="new")


class OfTrino(Exception):
    """Error like that of Trino's client, with a name and a message in addition to its text."""

    error_name, message = "NOT_SUPPORTED", "This connector does not support versioned tables"


@pytest.mark.parametrize(
    ("rows", "verdict"),
    [
        (PAID.iloc[::-1][["status", "order_id"]], "same"),  # another order of rows and columns
        (STALE, "other"),
        (pd.concat([PAID, PAID.iloc[:1]]), "other"),
        (None, "none"),
    ],
)
def test_rows_are_compared_in_any_order_and_with_their_number(rows, verdict):
    assert verdict_on(PAID, rows) == verdict


@pytest.mark.parametrize(("amount", "verdict"), [(12.3, "same"), (12.31, "other")])
def test_a_number_is_the_same_in_each_engines_type(amount, verdict):
    spark = pd.DataFrame({"amount": [Decimal("12.30"), Decimal("100.00")], "n": [1, 2]})
    assert verdict_on(spark, pd.DataFrame({"amount": [amount, 100.0], "n": [1, 2]})) == verdict


def verdict_on(first, rows) -> str:
    """Return the verdict on an engine's rows, compared with those of the first engine."""
    replies = {("q", "cow", "first"): Reply(first), ("q", "cow", "other"): Reply(rows)}
    return EngineMatrix(replies).verdict("q", "cow", "other")


def test_cells_show_rows_changes_or_the_shortened_error():
    replies = {
        ("snapshot", "mor", "Spark SQL"): Reply(PAID),
        ("snapshot", "mor", "Trino"): Reply(None, "Config <value>"),
        ("change feed", "mor", "Spark SQL"): Reply(pd.DataFrame({"op": ["u", "i", "u"]})),
        ("change feed", "mor", "Trino"): Reply(None, "FUNCTION_NOT_FOUND: " + "x" * 200),
    }
    matrix = EngineMatrix(replies)
    cells = matrix.frame()
    assert cells.loc[("snapshot", "mor"), "Spark SQL"] == "2 rows, 1 paid"
    assert cells.loc[("change feed", "mor"), "Spark SQL"] == "1 × i, 2 × u"
    assert cells.loc[("change feed", "mor"), "Trino"].endswith("…")
    assert matrix.verdicts("Trino", "mor") == {"snapshot": "none", "change feed": "none"}
    page = matrix._repr_html_()
    assert "x" * 200 in page  # all of it in the hover text
    assert "Config &lt;value&gt;" in page


def test_an_error_is_kept_in_the_engines_own_words():
    assert message_of(OfTrino()) == f"NOT_SUPPORTED: {OfTrino.message}"
    refused = query_engine(Mock(side_effect=ValueError("line 1:73: no such function")))
    assert refused.error == "no such function"
    assert query_engine(Mock(side_effect=ValueError("first line\nsecond"))).error == "first line"
    assert query_engine(lambda: PAID).rows is PAID
