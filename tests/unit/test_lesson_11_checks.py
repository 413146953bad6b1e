"""Lesson 11 judges windows, runs, a commit and an alarm: each mistake has its own reason."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lab_env.course.answers import Unreadable
from lab_env.course.checking import NotYet, Passed
from lab_env.display.palette import VERMILION
from lab_env.hudi.timeline import Instant
from lab_env.lessons.l11.checks import (
    BATCHES,
    Audit,
    ExactlyOnce,
    LostWindow,
    Read,
    ReadsAWindow,
    RowsWithTheirBookmark,
    Run,
    Streamed,
    StreamsTheChanges,
    ThreeRuns,
    Window,
)
from lab_env.lessons.l11.figures import Deliveries, draw_deliveries

REQUESTED, COMPLETED = ("100", "200", "300", "400", "500"), ("150", "250", "350", "450", "550")


def reason_of(verdict) -> str:
    assert isinstance(verdict, NotYet)
    return verdict.reason


OPEN_END, FROM_START = (("O-7", 2),), (("O-1", 1), ("O-7", 1))
WINDOWS = (
    Read(2, 1, None, OPEN_END, OPEN_END),
    Read(2, 0, 1, FROM_START, FROM_START),
    Read(1, 0, None, FROM_START, FROM_START),
)


def test_a_function_that_reads_all_windows_passes():
    assert isinstance(ReadsAWindow.judge(WINDOWS), Passed)


@pytest.mark.parametrize(
    ("window", "rows", "reason"),
    [
        (0, (("O-1", 1), ("O-7", 2)), "O-1 of commit 1 is among them. That is the whole table"),
        (1, (("O-1", 1), ("O-7", 2)), "O-7 of commit 2 is among them: it does not stop at its end"),
        (1, (("O-1", 1),), "You lack O-7, which has changed since"),
        (1, (), "has 2 rows, you deliver 0"),
        (2, (("O-1", 1), ("O-7", 2)), "O-7 of commit 2 is among them, but the table at the `path`"),
        (0, (("O-8", 2),), "What lies between the begin and the end"),
    ],
)
def test_other_rows_than_the_window_has_get_their_reason(window, rows, reason):
    read = replace(WINDOWS[window], rows=rows)
    assert reason in reason_of(ReadsAWindow.judge((read,)))


@pytest.mark.parametrize("check", [ReadsAWindow, ExactlyOnce])
def test_rows_that_the_lesson_cannot_go_on_with_are_named(check):
    assert "a pandas.DataFrame" in reason_of(check.judge("pandas.DataFrame"))


# Commit 1 has four orders, commit 2 changes two of them, commit 3 comes during the second run.
EARLY = (("O-1", 1), ("O-2", 1), ("O-3", 2), ("O-4", 2))
LATE = (("O-4", 3), ("O-5", 3))
RUNS = (Run("000", EARLY, "250"), Run("250", (), "250"), Run("250", LATE, "350"))


def facts_of(*runs: Run) -> ThreeRuns:
    return ThreeRuns(runs, REQUESTED[:3], COMPLETED[:3], EARLY, LATE)


def test_each_change_once_passes():
    verdict = ExactlyOnce.judge(facts_of(*RUNS))
    assert isinstance(verdict, Passed) and "4, 0, 2" in verdict.note


def test_a_run_may_deliver_the_commit_that_completed_while_it_was_at_work():
    early = Run("250", LATE, "350")
    assert isinstance(ExactlyOnce.judge(facts_of(RUNS[0], early, Run("350", (), "350"))), Passed)


@pytest.mark.parametrize(
    ("bookmark", "reason"),
    [
        ("200", "Your bookmark 200 is the time at which it was requested"),
        ("201", "One millisecond later is still before its completion"),
        ("230", "It was completed at 250; your bookmarks were 230"),
    ],
)
def test_a_commit_that_comes_twice_gets_its_reason(bookmark, reason):
    second = Run(bookmark, EARLY[2:], "250")
    message = reason_of(ExactlyOnce.judge(facts_of(RUNS[0], second)))
    assert message.startswith("Commit 2 arrived twice, 2 rows of it.") and reason in message


def test_a_window_without_an_end_reads_beyond_the_bookmark():
    message = reason_of(ExactlyOnce.judge(facts_of(RUNS[0], Run("250", LATE, "250"), RUNS[2])))
    assert "Commit 3 arrived twice" in message and "Read up to your bookmark" in message


def test_a_bookmark_that_never_moves_is_named():
    runs = [Run("000", EARLY, "000")] * 2
    message = reason_of(ExactlyOnce.judge(facts_of(*runs)))
    assert "stays at 000: run 2 delivered everything again, 8 rows so far" in message


def test_a_run_without_rows_needs_a_bookmark_too():
    message = reason_of(ExactlyOnce.judge(facts_of(RUNS[0], replace(RUNS[1], bookmark=None))))
    assert message.startswith("Run 2 returned no text") and "It delivered 0 rows" in message


def test_who_looks_up_the_end_after_reading_loses_what_completed_in_between():
    missing = (replace(RUNS[1], bookmark="350"), Run("350", (), "350"))
    message = reason_of(ExactlyOnce.judge(facts_of(RUNS[0], *missing)))
    assert "Changes that never came: 2, such as O-4 of commit 3" in message
    assert "Choose the end of the window first" in message


def test_another_change_that_never_comes_is_named():
    first = replace(RUNS[0], rows=EARLY[1:])
    message = reason_of(ExactlyOnce.judge(facts_of(first, *RUNS[1:])))
    assert "such as O-1 of commit 1. A bookmark beyond the newest completion time" in message


def test_a_change_that_comes_a_run_late_is_refused():
    late = replace(RUNS[0], rows=EARLY[:2]), replace(RUNS[1], rows=EARLY[2:])
    assert "in a later run" in reason_of(ExactlyOnce.judge(facts_of(*late, RUNS[2])))


ONCE = Audit(1, BATCHES[0], "", {"bookmark.orders": "250", "schema": "{}"}, "250", 1)
TWICE = Audit(2, (*BATCHES[0], *BATCHES[1]), "", {"bookmark.orders": "350"}, "350", 2)


@pytest.mark.parametrize("audit", [ONCE, TWICE])
def test_every_row_with_its_bookmark_in_the_commit_passes(audit):
    assert isinstance(RowsWithTheirBookmark.judge(audit), Passed)


@pytest.mark.parametrize(
    ("audit", "reason"),
    [
        ("no file", "there is no file at the path"),
        (replace(ONCE, notes={"schema": "{}"}), "carries no note of that name. Its notes: none"),
        (replace(ONCE, notes={"orders": "250"}), "Its notes: orders."),
        (replace(ONCE, rows=BATCHES[0][1:]), "got 2 rows, the table has 1: it keeps one"),
        (replace(TWICE, rows=BATCHES[1]), "the second call replaced the first one's rows"),
        (replace(ONCE, key="order_id"), "the table has the record key order_id"),
        (replace(TWICE, notes=ONCE.notes), "Call 2 was given 350; its commit says 250"),
        (replace(TWICE, commits=4), "2 calls made 4 commits"),
    ],
)
def test_a_row_or_a_bookmark_that_is_not_kept_gets_its_reason(audit, reason):
    assert reason in reason_of(RowsWithTheirBookmark.judge(audit))


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


ONCE_READ, READ_ON = (("O-1", 1), ("O-7", 2)), (("O-1", 1), ("O-7", 2), ("O-7", 3))
STREAMED = Streamed((ONCE_READ, READ_ON), (ONCE_READ, READ_ON))


def test_a_stream_that_brings_each_change_once_passes():
    verdict = StreamsTheChanges.judge(STREAMED)
    assert (
        isinstance(verdict, Passed) and "2 rows at the first call, 1 at the second" in verdict.note
    )


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"rows": ((),), "active": True}, "after 0 of 2 rows, and its stream was still running"),
        ({"rows": (ONCE_READ[:1],)}, "After call 1 the folder has 1 rows; 2 are due"),
        ({"rows": (ONCE_READ, ONCE_READ)}, "the second call has brought 0"),
        ({"rows": (ONCE_READ, (*ONCE_READ, *READ_ON))}, "the second call has brought 3"),
        ({"rows": (ONCE_READ,), "returned": "builtins.NoneType"}, "no stream's query"),
        ({"kept": False}, "no stream's state at `checkpoint`"),
    ],
)
def test_a_stream_that_forgets_runs_on_or_reads_elsewhere_gets_its_reason(facts, reason):
    assert reason in reason_of(StreamsTheChanges.judge(replace(STREAMED, **facts)))
