"""Lesson 01's charts show events per second, counted in intervals of half a second."""

import pandas as pd
import pytest

from lab_env.lessons.l01.figures import draw_load, draw_rate, draw_sale, rate

REPORTS = pd.DataFrame(
    [
        (0.1, "HANDED", False),
        (0.2, "KAFKA", False),
        (0.7, "HANDED", False),
        (1.6, "KAFKA", True),
    ],
    columns=["second", "type", "failed"],
)


def test_a_rate_counts_each_half_second_also_those_without_a_report():
    assert rate(REPORTS).to_dict() == {0.25: 4, 0.75: 2, 1.25: 0, 1.75: 2}


def test_a_rate_without_a_report_is_zero_to_the_end_of_the_run():
    assert rate(REPORTS[:0], seconds=1.2).to_dict() == {0.25: 0, 0.75: 0, 1.25: 0}


@pytest.mark.parametrize(
    "drawing",
    [
        draw_rate(REPORTS, requested=500),
        draw_sale(REPORTS, pd.Series({0.0: 5, 1.0: 25}), 0.5, 1.0),
        draw_load(pd.DataFrame({"seconds": [0, 1], "rate": [0, 400], "p95_ms": [9, 12]})),
    ],
)
def test_each_chart_is_an_svg_in_the_pages_colours(drawing):
    assert drawing.startswith("<svg") and "var(--jp-content-font-color1" in drawing


def test_the_sale_names_each_fate_and_the_time_of_the_frozen_broker():
    drawing = draw_sale(REPORTS, pd.Series({0.0: 5}), 0.5, 1.0)
    for label in ("handed over", "acknowledged", "failed", "broker frozen"):
        assert label in drawing
