"""Lesson 10 judges a time against the timeline, and a replay by what it left in the table."""

from dataclasses import replace
from datetime import datetime

import pandas as pd
import pytest

from lab_env.course.answers import Unreadable
from lab_env.course.checking import NotYet, Passed
from lab_env.lessons.l10.checks import Replayed, Since, SinceWhen, UndoneWithoutLoss, _digits

SINCE = Since(
    order="O-12",
    amount="26.50",
    answer="20261121091002500",
    requested="20261121091000000",
    completed="20261121091002500",
    row_says="20261121092000000",
    changed="20261120080000",
    others=("20261121090000000", "20261121090003000", "20261121092000000"),
)
REPLAYED = Replayed()


def reason_of(verdict) -> str:
    assert isinstance(verdict, NotYet)
    return verdict.reason


def test_the_completion_of_the_write_that_changed_the_amount_passes():
    verdict = SinceWhen.judge(SINCE)
    assert (
        isinstance(verdict, Passed)
        and "as of 09:10:00.000, when the write was requested" in verdict.note
    )


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (SINCE.requested, "Right write, wrong time. 09:10:00.000 is when the write of O-12"),
        (SINCE.row_says, "09:20:00.000 is the row's _hoodie_commit_time"),
        (SINCE.changed, "08:00:00 is when O-12 changed in the shop"),
        (SINCE.others[1], "09:00:03.000 belongs to another write"),
        ("2026", "2026 is no time of a write"),
        ("", "Your answer is no time of a write"),
    ],
)
def test_another_time_gets_its_reason(answer, reason):
    assert reason in reason_of(SinceWhen.judge(replace(SINCE, answer=answer)))


@pytest.mark.parametrize("answer", [None, SINCE.completed])
def test_a_time_instead_of_a_function_is_unreadable(answer):
    with pytest.raises(Unreadable, match="A function is expected"):
        SinceWhen.observe(None, answer)


@pytest.mark.parametrize(
    "moment",
    [
        "2026-11-21 09:10:02.500",
        20261121091002500,
        datetime(2026, 11, 21, 9, 10, 2, 500_000),
        pd.Timestamp("2026-11-21 09:10:02.5"),
    ],
)
def test_a_time_may_come_in_any_form(moment):
    assert _digits(moment) == SINCE.completed


def test_a_replay_that_leaves_nothing_wrong_passes():
    assert isinstance(UndoneWithoutLoss.judge(REPLAYED), Passed)


SIX = ("O-21", "O-22", "O-23", "O-24", "O-25", "O-26")


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (
            replace(REPLAYED, missing=SIX, stale=1, commits=0, checkpoints=0),
            "Nothing was written: 6",
        ),
        (replace(REPLAYED, missing=SIX, stale=1, commits=0), "took your batch 0 for one"),
        (replace(REPLAYED, zero=8), "8 orders have an amount of 0 again"),
        (replace(REPLAYED, missing=SIX[:2]), "O-21 and O-22 are missing"),
        (replace(REPLAYED, missing=SIX[2:], stale=1), "After the replay 4 good orders are missing"),
        (replace(REPLAYED, missing=SIX, commits=0, elsewhere=True), "the lesson's own table"),
    ],
)
def test_each_way_to_lose_orders_has_its_reason(found, reason):
    assert reason in reason_of(UndoneWithoutLoss.judge(found))
