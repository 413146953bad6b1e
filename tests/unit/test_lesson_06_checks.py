"""Lesson 06's checks: right answers pass, and each mistake gets its own reason."""

import random
from dataclasses import replace
from types import SimpleNamespace

import pandas as pd
import pytest

from lab_env.course.answers import Unreadable
from lab_env.course.checking import NotYet, Passed
from lab_env.lessons.l06 import checks
from lab_env.lessons.l06.checks import (
    REVENUE,
    TABLE_TYPE,
    AsFreshAsNeeded,
    BoardAnswer,
    CompactByAJob,
    CompactedCopy,
    Freshness,
    LogCounts,
    LogsToMerge,
    StreamCompactsBeside,
    Streamed,
    logs_to_merge,
    made_up_table,
)

NEVER = LogCounts("never", answer=1, to_merge=1, first=3, all_logs=2, deltacommits=9)
INLINE = LogCounts("inline", answer=1, to_merge=1, first=4, all_logs=5, deltacommits=7)
STREAM = Streamed(batches=2, planned=1, checkpoint=True, rows=3)
COPY = CompactedCopy(1, 0, completed=1, logs=0, before=60_000, after=61_000, deltacommits=2)


def reason_of(verdict) -> str:
    assert isinstance(verdict, NotYet)
    return verdict.reason


def board_answer(*tables: Freshness) -> BoardAnswer:
    return BoardAnswer(REVENUE["base"], REVENUE["base"], REVENUE["merged"], tables)


@pytest.fixture
def right_board(monkeypatch):
    """A function that returns the right board without reading a table."""
    monkeypatch.setattr(checks, "_with_a_log", lambda lab: "path")
    rows = pd.DataFrame(REVENUE["base"].items(), columns=["status", "revenue"])
    return lambda path: SimpleNamespace(toPandas=lambda: rows)


def test_boards_that_are_as_fresh_as_they_have_to_be_pass():
    facts = board_answer(Freshness(1, (1, 0)), Freshness(3, (1, 2, 3, 0)))
    assert isinstance(AsFreshAsNeeded.judge(facts), Passed)


@pytest.mark.parametrize(
    ("revenue", "reason"),
    [
        (REVENUE["merged"], "That is the answer of a snapshot query: it merges the log"),
        ({"new": 1, "paid": 2}, "shows new 1, paid 2. The base file has the statuses new and paid"),
        ({}, "shows no row. The base file has"),
    ],
)
def test_another_board_gets_its_reason(revenue, reason):
    facts = replace(board_answer(), revenue=revenue)
    assert reason in reason_of(AsFreshAsNeeded.judge(facts))


def test_a_board_is_a_dataframe_of_spark_with_one_row_per_status(right_board):
    with pytest.raises(Unreadable, match="DataFrame of Spark"):
        AsFreshAsNeeded.observe(None, [lambda path: REVENUE["base"], dict])
    twice = pd.DataFrame({"status": ["new", "new"], "revenue": [1, 2]})
    with pytest.raises(Unreadable, match="two rows of one status"):
        checks._revenue(SimpleNamespace(toPandas=lambda: twice))


def test_both_functions_of_the_board_are_asked_for():
    with pytest.raises(Unreadable, match="board, inline_options"):
        AsFreshAsNeeded.observe(None, dict)


def test_options_that_change_the_table_type_are_refused_before_any_write(right_board):
    options = {TABLE_TYPE: "COPY_ON_WRITE"}
    facts = AsFreshAsNeeded.observe(None, [right_board, lambda may_lag: options])
    assert "not Merge-on-Read any more" in reason_of(AsFreshAsNeeded.judge(facts))


def test_a_function_that_returns_no_options_is_told(right_board):
    with pytest.raises(Unreadable, match="a dictionary of options"):
        AsFreshAsNeeded.observe(None, [right_board, lambda may_lag: may_lag + 1])


@pytest.mark.parametrize(
    ("board", "reason"),
    [
        (Freshness(1, (1, 2)), "may be 1 behind: after each write it was behind by 1, 2"),
        (Freshness(1, (0,)), "took more compactions than necessary"),
        (Freshness(2, (1, 0)), "may be 2 behind: after each write it was behind by 1, 0."),
        (Freshness(2, (0,), rows=12), "not as many rows as orders"),
    ],
)
def test_a_table_too_stale_or_too_eager_gets_its_reason(board, reason):
    facts = board_answer(Freshness(1, (1, 0)), board)
    assert reason in reason_of(AsFreshAsNeeded.judge(facts))


def test_the_logs_of_the_current_slices_pass():
    assert isinstance(LogsToMerge.judge((NEVER, INLINE)), Passed)


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        (
            (2, 5),
            "For never your function returns 2, but a query merges 1: it counts the logs of older",
        ),
        ((9, 7), "it counts the writes of its whole timeline. In its worst"),
        ((3, 4), "the logs of one file group only"),
        ((1, 8), "For inline your function returns 8"),
    ],
)
def test_another_count_gets_its_reason(answers, reason):
    counts = (replace(NEVER, answer=answers[0]), replace(INLINE, answer=answers[1]))
    assert reason in reason_of(LogsToMerge.judge(counts))


@pytest.mark.parametrize("seed", range(20))
def test_no_lucky_function_counts_the_logs_of_a_made_up_table(seed):
    table = made_up_table(random.Random(seed))
    counts = [len(found.logs) for found in table.current]
    lucky = (counts[0], max(counts), sum(counts), max(len(found.logs) for found in table.slices))
    assert logs_to_merge(table) not in lucky
    assert sum(file.kind == "log" for file in table.files) > sum(counts)


def test_a_stream_that_plans_passes():
    assert isinstance(StreamCompactsBeside.judge(STREAM), Passed)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (replace(STREAM, planned=0), "planned no compaction"),
        (replace(STREAM, again=True), "after a single commit more"),
        (replace(STREAM, planned=2), "after a single commit more"),
        (replace(STREAM, waited=True), "that is inline"),
        (replace(STREAM, batches=1, planned=0), "both files in one batch"),
        (replace(STREAM, checkpoint=False), "no checkpoint"),
        (replace(STREAM, rows=6), "the table has 6 rows"),
    ],
)
def test_each_other_stream_gets_its_reason(facts, reason):
    assert reason in reason_of(StreamCompactsBeside.judge(facts)).replace("The table", "the table")


def test_a_completed_compaction_passes():
    verdict = CompactByAJob.judge(COPY)
    assert isinstance(verdict, Passed) and "filter" not in verdict.note


def test_a_job_without_the_writers_options_passes_and_is_told_what_it_cost():
    verdict = CompactByAJob.judge(replace(COPY, after=490_000))
    assert isinstance(verdict, Passed) and "bloom filter for 60,000 keys" in verdict.note


@pytest.mark.parametrize(
    ("copy", "reason"),
    [
        (replace(COPY, planned=0, completed=0, logs=2), "last compaction: 2, fewer than the five"),
        (replace(COPY, completed=0, logs=2), "Scheduling decides; running pays."),
        (replace(COPY, written=1), "wrote a base file already"),
        (replace(COPY, logs=1), "1 logs are still to be merged"),
    ],
)
def test_a_job_that_falls_short_gets_its_reason(copy, reason):
    assert reason in reason_of(CompactByAJob.judge(copy))
