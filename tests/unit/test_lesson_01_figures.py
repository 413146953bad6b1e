"""Lesson 01 computes events per second in half-second bins."""

import pandas as pd

from lab_env.lessons.l01.figures import rate

REPORTS = pd.DataFrame(
    [(0.1, "HANDED", False), (0.2, "KAFKA", False), (0.7, "HANDED", False), (1.6, "KAFKA", True)],
    columns=["second", "type", "failed"],
)


def test_a_rate_counts_each_half_second_to_the_end_of_the_run_also_those_without_a_report():
    assert rate(REPORTS).to_dict() == {0.25: 4, 0.75: 2, 1.25: 0, 1.75: 2}
    assert rate(REPORTS[:0], seconds=1.2).to_dict() == {0.25: 0, 0.75: 0, 1.25: 0}
