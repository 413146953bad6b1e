"""Lesson 12's waterfall shows each step and must add up; its table marks absent orders."""

from decimal import Decimal
from xml.etree import ElementTree

import pytest

from lab_env.lessons.l12.figures import draw_waterfall, first_words, tell
from lab_env.platform.errors import LabError

STEPS = {"new orders": Decimal("50.25"), "late events": Decimal(0), "erasures": Decimal("-20.00")}


def texts(steps=STEPS, new="1030.25") -> list[str]:
    drawn = draw_waterfall("Revenue", Decimal("1000.00"), steps, Decimal(new), "euro")
    return [part.text for part in ElementTree.fromstring(drawn).iter() if part.text]


def test_totals_and_each_step_with_its_sign_are_told():
    told = texts()
    assert {"1,000.00", "+50.25", "0.00", "-20.00", "1,030.25", "before", "now"} <= set(told)


def test_a_picture_that_does_not_add_up_is_refused_with_what_is_missing():
    with pytest.raises(LabError, match=r"20\.00 is not explained"):
        texts({name: size for name, size in STEPS.items() if name != "erasures"}, "1030.25")


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
