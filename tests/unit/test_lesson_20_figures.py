"""Lesson 20 draws a break-even, tabulates bills and scores bets."""

from random import Random
from statistics import median

import pandas as pd
import pytest

from lab_env.lessons.l20.bets import Machine, scorecard
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


def test_bets_are_scored_by_what_is_true():
    always = scorecard(lambda buy: "lower", bets=10)
    assert always == {"false alarms, %": 100, "differences found, %": 50, "rounds per bet": 0}
    assert scorecard(lambda buy: "equal", bets=10)["false alarms, %"] == 0


def test_a_slow_round_is_slow_for_both_systems():
    rng, machine = Random(1), Machine(slow_rounds=0.5, disturbed=0)
    rounds = [machine.round(rng, 1.3) for _ in range(500)]
    assert max(this for this, _ in rounds) > 2 * min(this for this, _ in rounds)
    assert 1.28 < median(this / other for this, other in rounds) < 1.32


def test_a_bet_ends_after_a_hundred_rounds():
    def forever(buy):
        while True:
            buy()

    with pytest.raises(ValueError, match="100 rounds"):
        scorecard(forever, bets=2)
