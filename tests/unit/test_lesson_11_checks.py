"""Lesson 11 judges four runs and an alarm: each way to be wrong has its own reason."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lab_env.course.answers import Unreadable
from lab_env.course.checking import NotYet, Passed
from lab_env.display.palette import VERMILION
from lab_env.hudi.timeline import Instant
from lab_env.lessons.l11.checks import ExactlyOnce, FourRuns, LostWindow, Run, Window
from lab_env.lessons.l11.figures import Deliveries, draw_deliveries

REQUESTED, COMPLETED = ("100", "200", "300", "400", "500"), ("150", "250", "350", "450", "550")
RUNS = (
    Run("000", ((1, 1), (2, 1), (3, 1), (4, 2), (5, 2)), "250"),
    Run("250", ((1, 3),), "350"),
    Run("350", ((4, 4),), "450"),  # commit 4 completed while run 2 was at work
    Run("450", (), "450"),
)
COMMIT_2, COMMIT_4 = ((4, 2), (5, 2)), ((4, 4),)


def facts_of(*runs: Run) -> FourRuns:
    return FourRuns(runs, REQUESTED, COMPLETED)


def reason_of(verdict) -> str:
    assert isinstance(verdict, NotYet)
    return verdict.reason


def test_each_change_once_passes():
    verdict = ExactlyOnce.judge(facts_of(*RUNS))
    assert isinstance(verdict, Passed) and "5, 1, 1, 0" in verdict.note


def test_a_run_may_deliver_the_commit_that_completed_while_it_was_at_work():
    early = replace(RUNS[1], rows=(*RUNS[1].rows, *COMMIT_4), bookmark="450")
    rest = (replace(RUNS[3], begin="450"), RUNS[3])
    assert isinstance(ExactlyOnce.judge(facts_of(RUNS[0], early, *rest)), Passed)


@pytest.mark.parametrize(
    ("bookmark", "reason"),
    [
        ("200", "Your bookmark 200 is the time at which it was requested"),
        ("201", "One millisecond later is still before its completion"),
        ("230", "It was completed at 250; your bookmarks were 230"),
    ],
)
def test_a_commit_that_comes_twice_gets_its_reason(bookmark, reason):
    second = Run(bookmark, (*RUNS[1].rows, *COMMIT_2), "350")
    message = reason_of(ExactlyOnce.judge(facts_of(RUNS[0], second)))
    assert message.startswith("Commit 2 arrived twice, 2 rows of it.") and reason in message


def test_a_window_without_an_end_reads_beyond_the_bookmark():
    second = replace(RUNS[1], rows=(*RUNS[1].rows, *COMMIT_4))
    message = reason_of(ExactlyOnce.judge(facts_of(RUNS[0], second, RUNS[2])))
    assert "Commit 4 arrived twice" in message and "Read up to your bookmark" in message


def test_a_bookmark_that_never_moves_is_named():
    runs = [replace(run, begin="000", rows=RUNS[0].rows) for run in RUNS]
    message = reason_of(ExactlyOnce.judge(facts_of(*runs[:2])))
    assert "stays at 000: run 2 delivered everything again, 10 rows so far" in message


def test_a_run_without_rows_needs_a_bookmark_too():
    stopped = replace(RUNS[3], bookmark=None)
    message = reason_of(ExactlyOnce.judge(facts_of(*RUNS[:3], stopped)))
    assert message.startswith("Run 4 returned no text") and "It delivered 0 rows" in message


def test_who_looks_up_the_end_after_reading_loses_what_completed_in_between():
    missing = (replace(RUNS[1], bookmark="450"), replace(RUNS[3], begin="450"), RUNS[3])
    message = reason_of(ExactlyOnce.judge(facts_of(RUNS[0], *missing)))
    assert "Changes that never came: 1, such as O-4 of commit 4" in message
    assert "Choose the end of the window first" in message


def test_another_change_that_never_comes_is_named():
    message = reason_of(ExactlyOnce.judge(facts_of(RUNS[0], replace(RUNS[1], rows=()), *RUNS[2:])))
    assert "such as O-1 of commit 3. A bookmark beyond the newest completion time" in message


def test_a_change_that_comes_a_run_late_is_refused():
    late = (
        replace(RUNS[0], rows=RUNS[0].rows[:3]),
        replace(RUNS[1], rows=(*COMMIT_2, *RUNS[1].rows)),
    )
    assert "in a later run" in reason_of(ExactlyOnce.judge(facts_of(*late, *RUNS[2:])))


LOST = Window(cleaned=True, after=1, missed=4, short=True, kept=False, answer=True)
EDGE = Window(cleaned=True, after=2, missed=3, short=False, kept=False, answer=True)
NEWEST = Window(cleaned=True, after=5, missed=0, short=False, kept=True, answer=False)
WHOLE = Window(cleaned=False, after=1, missed=4, short=False, kept=True, answer=False)
UP_TO_DATE = replace(WHOLE, after=5, missed=0)


@pytest.mark.parametrize("early_alarm", [True, False])
def test_an_alarm_for_what_is_lost_passes_and_may_go_off_one_commit_early(early_alarm):
    windows = (WHOLE, UP_TO_DATE, LOST, replace(EDGE, answer=early_alarm), NEWEST)
    assert isinstance(LostWindow.judge(windows), Passed)


@pytest.mark.parametrize(
    ("window", "reason"),
    [
        (replace(LOST, answer=False), "Cleaning removes files, no instants"),
        (replace(NEWEST, answer=True), "has missed nothing"),
        (replace(UP_TO_DATE, answer=True), "An increment is empty when nothing has changed since"),
        (replace(WHOLE, answer=True), "Nothing was ever cleaned there"),
        (replace(NEWEST, missed=1, answer=True), "kept the files of all of these commits"),
        (replace(LOST, answer=np.False_), "Cleaning removes files, no instants"),
    ],
)
def test_a_wrong_alarm_gets_its_reason(window, reason):
    assert reason in reason_of(LostWindow.judge((window,)))


@pytest.mark.parametrize("answer", [None, [], 1])
def test_an_alarm_is_true_or_false(answer):
    with pytest.raises(Unreadable, match="is expected, not"):
        LostWindow.judge((replace(LOST, answer=answer),))


INSTANTS = [Instant(r, c, "commit", "completed") for r, c in zip(REQUESTED, COMPLETED, strict=True)]


def delivered(*rows: tuple[str, str]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["_hoodie_commit_time", "order_id"])


FIRST = delivered(("100", "O-1"), ("200", "O-2"))


def test_a_row_is_twice_only_when_both_runs_have_it_of_the_same_commit():
    second = delivered(("200", "O-2"), ("300", "O-1"))
    counts = Deliveries("200", FIRST, second).counts(INSTANTS)
    assert counts.sum().to_dict() == {"first": 1, "second": 1, "twice": 1}
    assert counts.loc["200", "twice"] == 1


def test_the_drawing_is_red_only_where_rows_came_twice():
    again = Deliveries("200", FIRST, delivered(("200", "O-2")))
    once = Deliveries("250", FIRST, delivered(("300", "O-1")))
    red = VERMILION.lower()
    assert red in draw_deliveries(INSTANTS, {"again": again}).lower()
    assert red not in draw_deliveries(INSTANTS, {"once": once}).lower()
    assert "1 rows twice" in draw_deliveries(INSTANTS, {"again": again})
