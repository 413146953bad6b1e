"""Lesson 12's waterfall chart must add up; its table marks absent orders."""

from decimal import Decimal

import pytest

from lab_env.lessons.l12.figures import draw_waterfall, first_words, tell
from lab_env.platform.errors import LabError


def test_a_picture_that_does_not_add_up_is_refused_with_what_is_missing():
    steps = {"new orders": Decimal("50.25"), "late events": Decimal(0)}
    with pytest.raises(LabError, match=r"20\.00 is not explained"):
        draw_waterfall("Revenue", Decimal("1000.00"), steps, Decimal("1030.25"), "euro")


def test_a_life_names_the_states_in_which_the_order_is_not_there():
    told = tell(
        {"O-1": "came", "O-2": "went"}, {"O-1": "new"}, {"O-1": [None, "new"], "O-2": ["a"]}
    )
    assert list(told["incremental query"]) == ["new", "no row"]
    assert list(told["change feed"]) == ["not there → new", "a"]


def test_a_refusal_is_one_line_without_its_stack_trace():
    assert first_words(ValueError("Config conflict:\n\tkey\n\tat org.x.Y(Y.java:1)")) == (
        "Config conflict: key"
    )
