"""Lesson 03's tables of messages and orders, and its search for the Java error."""

from types import SimpleNamespace

import pandas as pd

from lab_env.lessons.l03.figures import books, one_of_each
from lab_env.lessons.l03.jars import first_java_error
from lab_env.shop.events import MALFORMED_KINDS

SENDS = pd.DataFrame(
    [
        ("event", "acked", 0, 0),
        ("malformed:empty", "acked", 0, 1),
        ("malformed:not_json", "acked", 1, 0),
        ("resend", "acked", 1, 1),
        ("malformed:not_json", "failed", -1, -1),
    ],
    columns=["kind", "state", "partition", "offset"],
)


def test_one_message_of_each_kind_comes_in_the_order_of_the_shops_list():
    found = one_of_each(SimpleNamespace(frame=lambda: SENDS)).to_dict("list")
    assert found == {"kind": ["not_json", "empty"], "partition": [1, 0], "offset": [0, 1]}
    assert MALFORMED_KINDS.index("not_json") < MALFORMED_KINDS.index("empty")


def test_the_books_hold_one_row_per_order_and_no_erased_one():
    few, more = books(n=500), books(n=5200)
    assert set(more.columns) == {"status", "orders", "revenue"}
    assert "erased" not in set(more["status"])
    assert 300 < few["orders"].sum() < 500 < more["orders"].sum() < 5200


def test_the_first_line_that_names_a_java_error_is_the_telling_one():
    log = "WARN x\njava.lang.NoSuchMethodError: 'void a.B()'\n\tat c\njava.lang.Other: z"
    assert first_java_error(log) == "java.lang.NoSuchMethodError: 'void a.B()'"
    assert first_java_error("all well") == ""
