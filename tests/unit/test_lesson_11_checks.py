"""Lesson 11 judges four runs and an alarm: each way to be wrong has its own reason."""

from dataclasses import replace

import pandas as pd
import pytest

from lab_env.course.checking import NotYet, Passed
from lab_env.display.palette import VERMILION
from lab_env.hudi.timeline import Instant
from lab_env.lessons.l11.checks import DUE, ExactlyOnce, FourRuns, LostWindow, Run, Window
from lab_env.lessons.l11.figures import Deliveries, draw_deliveries

REQUESTED, COMPLETED = ("100", "200", "300", "400", "500"), ("150", "250", "350", "450", "550")
BEGINS, BOOKMARKS = ("000", "250", "350", "350"), ("250", "350", "350", "450")
RUNS = tuple(Run(*facts) for facts in zip(BEGINS, DUE, BOOKMARKS, strict=True))
COMMIT_2 = ((4, 2), (5, 2))


def facts_of(*runs: Run) -> FourRuns:
    return FourRuns(runs, REQUESTED, COMPLETED)


def reason_of(verdict) -> str:
    assert isinstance(verdict, NotYet)
    return verdict.reason


def test_each_change_once_passes():
    verdict = ExactlyOnce.judge(facts_of(*RUNS))
    assert isinstance(verdict, Passed) and "5, 1, 0, 1" in verdict.note


@pytest.mark.parametrize(
    ("bookmark", "reason"),
    [
        ("200", "Your bookmark 200 is the time at which it was requested"),
        ("201", "One millisecond later is still before its completion"),
        ("230", "It was completed at 250; your bookmarks were 230"),
    ],
)
def test_a_commit_that_comes_twice_gets_its_reason(bookmark, reason):
    second = Run(bookmark, (*DUE[1], *COMMIT_2), "350")
    said = reason_of(ExactlyOnce.judge(facts_of(RUNS[0], second)))
    assert said.startswith("Commit 2 arrived twice, 2 rows of it.") and reason in said


def test_a_bookmark_that_never_moves_is_named():
    runs = [replace(run, begin="000", rows=DUE[0]) for run in RUNS]
    said = reason_of(ExactlyOnce.judge(facts_of(*runs[:2])))
    assert "The bookmark stays at 000: run 2 delivered everything again, 10 rows so far" in said


def test_a_run_without_rows_needs_a_bookmark_too():
    stopped = replace(RUNS[2], bookmark=None)
    said = reason_of(ExactlyOnce.judge(facts_of(*RUNS[:2], stopped)))
    assert said.startswith("Run 3 returned None") and "no bookmark for the next run" in said


def test_a_change_that_never_comes_is_named():
    runs = (*RUNS[:3], replace(RUNS[3], rows=()))
    said = reason_of(ExactlyOnce.judge(facts_of(*runs)))
    assert "Changes that never came: 1, such as order 4 of commit 4" in said


def test_a_change_that_comes_a_run_late_is_refused():
    late = (replace(RUNS[0], rows=DUE[0][:3]), replace(RUNS[1], rows=(*COMMIT_2, *DUE[1])))
    assert "in another run" in reason_of(ExactlyOnce.judge(facts_of(*late, *RUNS[2:])))


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
        (replace(WHOLE, answer="no"), "you say 'no'. Return True or False."),
    ],
)
def test_a_wrong_alarm_gets_its_reason(window, reason):
    assert reason in reason_of(LostWindow.judge((window,)))


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
