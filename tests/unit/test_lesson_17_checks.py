"""Lesson 17 judges a restart by its receipts, a replay and a sink by what they left, a count."""

from dataclasses import replace

import pytest

from lab_env.course.answers import Unreadable
from lab_env.course.checking import NotYet, Passed
from lab_env.lessons.l17.checks import (
    BroughtBack,
    Delivered,
    DeliveredOnce,
    Missing,
    MissingMessages,
    Replayed,
    Restart,
    WhatARestartDoes,
    new_process,
)

REPLAYED = Replayed(before=300, commits=1, planned=2000, known=2)
DELIVERED = Delivered()
MISSING = Missing(answer=9)


def reason_of(verdict) -> str:
    assert isinstance(verdict, NotYet)
    return verdict.reason


@pytest.mark.parametrize(
    ("receipts", "batch", "does"),
    [
        ((7, 6, 6), 7, "write"),
        ((7, 6, 7), 7, "skip"),
        ((7, 7, 7), 8, "write"),
        ((-1, -1, 9), 0, "skip"),
        ((-1, -1, -1), 0, "write"),
        ((0, -1, -1), 0, "write"),
    ],
)
def test_the_restart_of_each_set_of_receipts(receipts, batch, does):
    facts = Restart(*receipts, batch=batch, does=does)
    assert facts.right and isinstance(WhatARestartDoes.judge(facts), Passed)
    assert not replace(facts, batch=batch + 1).right


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (Restart(7, 6, 6, 8, "write"), "Batch 7 has offsets and no commit: Spark runs it again"),
        (Restart(7, 7, 7, 7, "write"), "so Spark plans the next one: 8"),
        (Restart(7, 6, 7, 7, "write"), "The table knows batch 7"),
        (Restart(7, 6, 6, 7, "skip"), "so the sink has to write it"),
    ],
)
def test_each_wrong_restart_has_its_reason(facts, reason):
    assert reason in reason_of(WhatARestartDoes.judge(facts))


@pytest.mark.parametrize(
    "right",
    [
        lambda o, c, t: (o if o > c else c + 1, "write" if max(o, c + 1) > t else "skip"),
        lambda o, c, t: [str(max(o, c + 1)), "WRITE" if max(o, c + 1) > t else "Skip"],
    ],
)
def test_a_right_function_may_return_any_pair(right):
    facts = WhatARestartDoes.observe(None, right)
    assert isinstance(WhatARestartDoes.judge(facts), Passed)


def test_a_function_that_fits_the_lessons_cases_only_is_refused():
    def lucky(offsets, commits, table):
        return max(offsets, commits + 1), "skip" if table > 6 and offsets != 6 else "write"

    assert not any(WhatARestartDoes.observe(None, lucky).right for _ in range(3))


@pytest.mark.parametrize("answer", [None, ("7", "write")])
def test_something_else_than_a_function_is_unreadable(answer):
    with pytest.raises(Unreadable, match="A function"):
        WhatARestartDoes.observe(None, answer)


def test_a_replay_that_leaves_nothing_missing_passes():
    verdict = BroughtBack.judge(REPLAYED)
    assert isinstance(verdict, Passed) and "300 orders were missing or old" in verdict.note


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (replace(REPLAYED, missing=250, commits=0), "0 is not above 2"),
        (replace(REPLAYED, missing=250, commits=0, planned=0), "Nothing was replayed"),
        (replace(REPLAYED, missing=250, commits=0, planned=None), "no stream was started"),
        (replace(REPLAYED, missing=20, wrong=3), "20 orders are missing and 3 wrong"),
        (replace(REPLAYED, elsewhere=True), "into the lesson's table"),
    ],
)
def test_each_replay_that_brings_too_little_has_its_reason(facts, reason):
    assert reason in reason_of(BroughtBack.judge(facts))


def test_a_sink_that_leaves_each_message_once_passes():
    assert isinstance(DeliveredOnce.judge(DELIVERED), Passed)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (replace(DELIVERED, once=0, again=None), "Crashed after the receipt: batch 0 is missing"),
        (replace(DELIVERED, once=80, again=None), "80 rows of batch 0"),
        (replace(DELIVERED, again=80), "The restart emptied it"),
        (replace(DELIVERED, again=80, outside=True), "Two places cannot be written in one step"),
        (replace(DELIVERED, next_rows=0), "Of batch 1, 35 messages, the table has 0"),
    ],
)
def test_each_sink_that_loses_or_doubles_has_its_reason(facts, reason):
    assert reason in reason_of(DeliveredOnce.judge(facts))


KNOWN: set[int] = set()


def remember(number):
    KNOWN.add(number)


def deliver(number, seen=[]):  # noqa: B006  it is what this test is about
    remember(number)
    seen.append(number)
    return sorted(KNOWN), list(seen)


def test_a_new_process_remembers_nothing_of_the_last_one():
    first = new_process(deliver)
    assert first(1) == ([1], [1]) and first(2) == ([1, 2], [1, 2])
    assert new_process(deliver)(3) == ([3], [3])
    assert not KNOWN


def test_exactly_the_missing_messages_pass():
    assert isinstance(MissingMessages.judge(MISSING), Passed)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [(5, "hides one that is missing"), (0, "Each partition counts from 0"), (31, "31 missing")],
)
def test_each_wrong_count_has_its_reason(answer, reason):
    assert reason in reason_of(MissingMessages.judge(replace(MISSING, answer=answer)))
