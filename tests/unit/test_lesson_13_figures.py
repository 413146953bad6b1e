"""Lesson 13 compares engines' rows, and names a faster engine only if times clearly differ."""

from decimal import Decimal

import pandas as pd
import pytest

from lab_env.lessons.l13.figures import (
    EngineMatrix,
    Race,
    Reply,
    message_of,
    query_engine,
    race,
)

PAID = pd.DataFrame({"order_id": ["O-1", "O-2"], "status": ["paid", "new"]})
STALE = PAID.assign(status="new")


def fails(error):
    def question():
        raise error

    return question


class OfTrino(Exception):
    """Error like those of Trino's client, with a name and a message in addition to its text."""

    error_name, message = "NOT_SUPPORTED", "This connector does not support versioned tables"


@pytest.fixture
def matrix():
    replies = {
        ("snapshot", "mor", "Spark SQL"): Reply(PAID),
        ("snapshot", "mor", "Trino"): Reply(STALE),
        ("snapshot", "mor", "hudi-rs"): Reply(PAID.iloc[::-1][["status", "order_id"]]),
        ("change feed", "mor", "Spark SQL"): Reply(pd.DataFrame({"op": ["u", "i", "u"]})),
        ("change feed", "mor", "Trino"): Reply(None, "FUNCTION_NOT_FOUND: " + "x" * 200),
        ("change feed", "mor", "hudi-rs"): Reply(None, "Config <value>"),
    }
    return EngineMatrix(replies)


def test_rows_are_compared_whatever_their_order_and_that_of_the_columns(matrix):
    assert matrix.verdict("snapshot", "mor", "hudi-rs") == "same"


def test_other_rows_are_no_same_rows_though_they_are_as_many(matrix):
    assert matrix.verdicts("Trino", "mor") == {"snapshot": "other", "change feed": "none"}


def test_a_duplicate_row_is_no_same_answer(matrix):
    twice = pd.concat([PAID, PAID.iloc[:1]])
    more = dict(matrix.replies) | {("snapshot", "mor", "Trino"): Reply(twice)}
    assert EngineMatrix(more).verdict("snapshot", "mor", "Trino") == "other"


def test_cells_show_rows_changes_or_the_shortened_error(matrix):
    replies = matrix.frame()
    assert replies.loc[("snapshot", "mor"), "Trino"] == "2 rows, 0 paid"
    assert replies.loc[("change feed", "mor"), "Spark SQL"] == "1 × i, 2 × u"
    assert replies.loc[("change feed", "mor"), "Trino"].endswith("…")
    page = matrix._repr_html_()
    assert "x" * 200 in page  # all of it in the hover text
    assert "Config &lt;value&gt;" in page


def test_an_error_is_kept_in_the_engines_own_words():
    assert message_of(OfTrino()) == f"NOT_SUPPORTED: {OfTrino.message}"
    refused = query_engine(fails(ValueError("line 1:73: no such function")))
    assert refused.error == "no such function"
    assert query_engine(fails(ValueError("first line\nsecond"))).error == "first line"
    assert query_engine(lambda: PAID).rows is PAID


def test_an_engine_is_asked_with_all_that_belongs_to_the_question():
    asked = []
    query_engine(lambda *question: asked.append(question), "snapshot", "orders_mor")
    assert asked == [("snapshot", "orders_mor")]


def test_a_number_is_the_same_in_each_engines_type(matrix):
    spark = pd.DataFrame({"amount": [Decimal("12.30"), Decimal("100.00")], "n": [1, 2]})
    duckdb = pd.DataFrame({"amount": [12.3, 100.0], "n": [1, 2]})
    cent_more = pd.DataFrame({"amount": [12.31, 100.0], "n": [1, 2]})
    replies = {
        ("snapshot", "cow", "Spark SQL"): Reply(spark),
        ("snapshot", "cow", "DuckDB"): Reply(duckdb),
        ("snapshot", "cow", "other"): Reply(cent_more),
    }
    verdicts = [
        EngineMatrix(replies).verdict("snapshot", "cow", name) for name in ("DuckDB", "other")
    ]
    assert verdicts == ["same", "other"]


def test_the_faster_of_two_engines_is_named_only_where_the_rounds_tell():
    times = Race({"a": [0.1, 0.1, 0.2], "b": [0.4, 0.5, 0.5], "c": [0.3, 0.9, 0.9]})
    assert times.verdicts().to_dict() == {
        "a or b": "a",
        "a or c": "a",
        "b or c": "inconclusive",
    }
    assert list(times.frame().loc["a"]) == [100, 100, 200]


def test_engines_are_asked_in_turns():
    asked = []
    times = race({"a": (asked.append, "a"), "b": (asked.append, "b")}, 2)
    assert asked == ["a", "b", "a", "b"]
    assert len(times.rounds["a"]) == 2
