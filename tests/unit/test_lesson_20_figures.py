"""Lesson 20 draws a break-even and tabulates bills."""

import pandas as pd
import pytest

from lab_env.lessons.l20.figures import bill_table, commits_until_even, draw_break_even
from lab_env.lessons.recorded.cost import Bill

WRITTEN = pd.DataFrame({"cow": [100_000] * 3, "mor": [40_000] * 3}, index=[1, 2, 3])


@pytest.mark.parametrize(("commits", "marked"), [(1.7, True), (50.0, False)])
def test_the_break_even_is_marked_where_the_chart_reaches_it(commits, marked):
    drawn = draw_break_even(WRITTEN, 100_000, commits)
    assert (f"break-even: {commits:.1f} commits" in drawn) == marked
    assert "Hudi COW" in drawn and "Hudi MOR and a compaction now" in drawn
    assert commits_until_even(WRITTEN, 90_000) == 1.5  # the savings have paid for the compaction


def test_a_bill_is_a_table_of_numbers_in_cents():
    bills = {sink: Bill(0.02, 0.001, 0.00003) for sink in ("json", "cow", "mor")}
    table = bill_table(bills)
    assert list(table.columns) == ["JSON files", "Hudi COW", "Hudi MOR"]
    assert table["Hudi COW"].tolist() == [2.0, 0.1, 3.0]
