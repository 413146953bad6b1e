"""Lesson 12 judges by what changes add up to: each mistake has its own reason and figure."""

from dataclasses import replace

import pandas as pd
import pytest

from lab_env.course.answers import Unreadable
from lab_env.course.checking import NotYet, Passed
from lab_env.lessons.l12.checks import (
    COLUMNS,
    LIVES,
    Feed,
    Moves,
    NextRun,
    OneOrdersLife,
    ReadsTheFeed,
    RevenueByChanges,
    Totals,
    TotalsWithTheirBookmark,
    WhereTheNextRunBegins,
)

TRUE_LIVES = {order: list(states) for order, states in LIVES.items()}


def reason_of(verdict) -> str:
    assert isinstance(verdict, NotYet)
    return verdict.reason


TEN = Feed("orders_cow", COLUMNS, rows=10, agrees=True, due=10)


def test_the_changes_after_the_first_commits_pass():
    assert isinstance(ReadsTheFeed.judge((TEN, replace(TEN, table="orders_mor"))), Passed)


@pytest.mark.parametrize(
    ("feed", "reason"),
    [
        (replace(TEN, columns=("status",), rows=1000), "1,000 rows with the columns of the table"),
        (replace(TEN, rows=1010, agrees=False, inserts=1000), "1,000 of them inserts"),
        (replace(TEN, rows=0, agrees=False), "0 changes; after its first commit there are 10"),
        (replace(TEN, table="orders_mor", agrees=False), "orders_mor: as many changes as it has"),
    ],
)
def test_another_feed_gets_its_reason(feed, reason):
    assert reason in reason_of(ReadsTheFeed.judge((TEN, feed)))


def test_a_feed_that_spark_cannot_go_on_with_is_named():
    assert "returns a pandas.DataFrame" in reason_of(ReadsTheFeed.judge("pandas.DataFrame"))


def test_every_life_from_its_state_before_to_its_end_passes():
    assert isinstance(OneOrdersLife.judge(TRUE_LIVES), Passed)
    as_series = {order: pd.Series(states) for order, states in TRUE_LIVES.items()}
    assert isinstance(OneOrdersLife.judge(as_series), Passed)


@pytest.mark.parametrize("answer", [None, "new", 3])
def test_a_life_is_a_list(answer):
    with pytest.raises(Unreadable, match="A list is expected"):
        OneOrdersLife.judge(TRUE_LIVES | {"O-17": answer})


@pytest.mark.parametrize(
    ("lives", "reason"),
    [
        ({order: states[1:] for order, states in TRUE_LIVES.items()}, "before the first change"),
        # Newest first: the start is the newest change's `before`, then the states backwards.
        ({"O-12": ["paid", "cancelled", "paid"]}, "sort by `ts_ms`"),
        ({"O-12": ["cancelled", "paid", "new"]}, "sort by `ts_ms`"),
        ({"O-13": ["new", "paid"]}, "Look in `before`, too"),
        ({"O-1001": [None, "new"]}, "Look in `before`, too"),
        ({"O-17": ["new", "paid", "reserved"]}, "it was ['new', 'paid']"),
    ],
)
def test_a_wrong_life_gets_its_reason(lives, reason):
    assert reason in reason_of(OneOrdersLife.judge(TRUE_LIVES | lives))


def test_a_life_of_one_state_too_few_is_not_taken_for_right():
    assert isinstance(OneOrdersLife.judge(TRUE_LIVES | {"O-17": []}), NotYet)


# C-1 paid 250 cents more; C-2's order of 4,000 was cancelled; C-3's of 7,000 erased; C-5's of 900
# had been cancelled, and is paid after all.
MOVES = Moves(
    answer=(("C-1", 250), ("C-2", -4000), ("C-3", -7000), ("C-5", 900)),
    truth={"C-1": 250, "C-2": -4000, "C-3": -7000, "C-4": 0, "C-5": 900},
    after_only=17_250,
    cancelled=4000,
    was_cancelled=900,
    erased=7000,
)
TRUTH = dict(MOVES.answer)


def test_the_right_moves_pass_with_a_customer_that_did_not_move_left_out_or_named():
    assert isinstance(RevenueByChanges.judge(MOVES), Passed)
    named = replace(MOVES, answer=tuple(MOVES.truth.items()))
    assert isinstance(RevenueByChanges.judge(named), Passed)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"C-1": 17_250}, "Too high by 271.00; customers that are wrong: 4. An update brings"),
        (TRUTH | {"C-2": 0}, "Too high by 40.00; customers that are wrong: 1. A cancel is an"),
        (TRUTH | {"C-5": 0}, "Too low by 9.00; customers that are wrong: 1. A cancel is an"),
        (TRUTH | {"C-2": 0, "C-5": 0}, "Too high by 31.00; customers that are wrong: 2. A cancel"),
        (TRUTH | {"C-3": 0}, "Too high by 70.00; customers that are wrong: 1. An erasure has no"),
        (TRUTH | {"C-3": 0, None: -7000}, "An erasure has no image after"),
        (TRUTH | {"C-1": 251}, "C-1 for one: too high by 0.01"),
        (TRUTH | {"C-1": -250, "C-2": -3500}, "The total is right; customers that are wrong: 2."),
        (TRUTH | {"C-1": -250, "C-2": -3500}, "An order may move to another customer"),
    ],
)
def test_wrong_moves_get_their_figure_and_their_reason(answer, reason):
    facts = replace(MOVES, answer=tuple(answer.items()))
    assert reason in reason_of(RevenueByChanges.judge(facts))


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ((None, 0), "one row is without a customer"),
        (("C-1", 0), "5 rows for 4 customers"),
    ],
)
def test_right_sums_with_a_row_too_many_are_refused(row, reason):
    facts = replace(MOVES, answer=(*MOVES.answer, row))
    assert reason in reason_of(RevenueByChanges.judge(facts))


def test_an_answer_that_spark_cannot_join_is_named():
    assert "returns a NoneType" in reason_of(RevenueByChanges.judge("NoneType"))


@pytest.mark.parametrize("cents", [None, "much", 2.5])
def test_a_move_is_a_whole_number(cents):
    with pytest.raises(Unreadable):
        RevenueByChanges.judge(replace(MOVES, answer=(("C-1", cents),)))


RUN = NextRun("20261120120000000", uncounted=1, missed=0, again=0)
EARLIER = NextRun("20261120110000000", uncounted=3, missed=0, again=0, earlier=True)


def test_a_run_that_reads_what_is_open_and_nothing_else_passes():
    assert isinstance(WhereTheNextRunBegins.judge((RUN, EARLIER)), Passed)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (replace(RUN, missed=1), "1 of the 1 open changes would never be counted"),
        (replace(RUN, again=14), "14 changes would count twice"),
        (replace(RUN, begin="earliest", missed=1), "gives nothing at all"),
    ],
)
def test_a_begin_that_misses_or_repeats_gets_the_number(facts, reason):
    assert reason in reason_of(WhereTheNextRunBegins.judge((facts, EARLIER)))


def test_a_begin_from_a_variable_of_the_session_misses_changes_of_an_earlier_table():
    reason = reason_of(WhereTheNextRunBegins.judge((RUN, replace(EARLIER, missed=2))))
    assert "one run earlier: from" in reason and "2 of the 3 open changes" in reason


OLD = {"C-1": (500, "100"), "C-2": (700, "100")}
NEW = {"C-1": (450, "200"), "C-2": (700, "100"), "C-99": (80, "200")}
ADDED = Totals(OLD, {"C-1": -50, "C-99": 80}, "200", NEW, 1)


def test_totals_with_their_bookmark_in_one_commit_pass():
    assert isinstance(TotalsWithTheirBookmark.judge(ADDED), Passed)


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ({"C-1": (-50, "200")}, "C-1 had 500 cents, and -50 came; now the table says -50"),
        ({"C-1": (400, "200")}, "C-1: 450 cents are due, you have 400"),
        ({"C-99": (81, "200")}, "C-99: 80 cents are due, from nothing, you have 81"),
        ({"C-1": (450, "100")}, "the right total, and the `upto` 100, not 200"),
        ({"C-2": (700, "200")}, "C-2, whom `moved` does not name, had 700 cents up to 100"),
    ],
)
def test_another_row_of_the_totals_gets_its_reason(rows, reason):
    facts = replace(ADDED, after=NEW | rows)
    assert reason in reason_of(TotalsWithTheirBookmark.judge(facts))


def test_a_lost_row_and_a_second_commit_get_their_reasons():
    lost = {name: row for name, row in NEW.items() if name != "C-99"}
    judge = TotalsWithTheirBookmark.judge
    assert "C-99 has no row yet, and 80 cents" in reason_of(judge(replace(ADDED, after=lost)))
    lost = {name: row for name, row in NEW.items() if name != "C-2"}
    assert "C-2, whom `moved`" in reason_of(judge(replace(ADDED, after=lost)))
    assert "in 2 commits" in reason_of(judge(replace(ADDED, commits=2)))
