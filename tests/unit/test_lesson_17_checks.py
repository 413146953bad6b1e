"""Lesson 17 judges a restart by its receipts, a stream and a sink by what they left, a count."""

from collections import Counter, defaultdict, deque
from dataclasses import replace

import pytest

from lab_env.course.answers import Unreadable
from lab_env.course.checking import NotYet, Passed
from lab_env.lessons.l17.checks import (
    Continued,
    Delivered,
    DeliveredOnce,
    GoesOn,
    Missing,
    MissingMessages,
    Noticed,
    Restart,
    WhatARestartDoes,
    WhoMissesAFile,
    count_gaps,
    messages_with_gaps,
    new_process,
)

CONTINUED = Continued(before=300, commits=1, planned=2000, known=2)
DELIVERED = Delivered()
MISSING = Missing(answer=9)
NOTICED = Noticed(whole=(100, 21), left=(30, 21), said=(100, 21), found=(30, 21))


def reason_of(verdict) -> str:
    assert isinstance(verdict, NotYet)
    return verdict.reason


@pytest.mark.parametrize(
    ("receipts", "said"),
    [
        ((7, 6, 6), (7, "again", "write")),
        ((7, 6, 7), (7, "again", "skip")),
        ((7, 7, 7), (8, "new", "write")),
        ((-1, -1, 9), (0, "new", "skip")),
        ((-1, -1, -1), (0, "new", "write")),
        ((0, -1, -1), (0, "again", "write")),
        ((0, 0, 9), (1, "new", "skip")),
    ],
)
def test_the_restart_of_each_set_of_receipts(receipts, said):
    facts = Restart(*receipts, *said)
    assert facts.right and isinstance(WhatARestartDoes.judge(facts), Passed)
    assert not replace(facts, batch=said[0] + 1).right


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (Restart(7, 6, 6, 8, "new", "write"), "Batch 7 has offsets and no commit: Spark runs it"),
        (Restart(7, 7, 7, 7, "again", "write"), "so Spark plans the next one: 8"),
        (Restart(7, 6, 6, 7, "new", "write"), "the batch gets the messages of that plan"),
        (Restart(7, 7, 7, 8, "again", "write"), "Batch 8 has no plan yet"),
        (Restart(7, 6, 7, 7, "again", "write"), "The table knows batch 7"),
        (Restart(7, 6, 6, 7, "again", "skip"), "so the sink has to write it"),
    ],
)
def test_each_wrong_restart_has_its_reason(facts, reason):
    assert reason in reason_of(WhatARestartDoes.judge(facts))


def planned(offsets, commits):
    return "again" if offsets > commits else "new"


@pytest.mark.parametrize(
    "right",
    [
        lambda o, c, t: (max(o, c + 1), planned(o, c), "write" if max(o, c + 1) > t else "skip"),
        lambda o, c, t: [str(c + 1), planned(o, c).upper(), "WRITE" if c + 1 > t else "Skip"],
    ],
)
def test_a_right_function_may_return_any_three(right):
    facts = WhatARestartDoes.observe(None, right)
    assert isinstance(WhatARestartDoes.judge(facts), Passed)


def test_a_function_that_fits_the_lessons_cases_only_is_refused():
    def lucky(offsets, commits, table):
        does = "skip" if table > 6 and offsets != 6 else "write"
        return max(offsets, commits + 1), planned(offsets, commits), does

    assert not any(WhatARestartDoes.observe(None, lucky).right for _ in range(3))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "A function"),
        (("7", "write"), "A function"),
        (lambda o, c, t: None, "For offsets 7, commits 6, table 6 your function returns nothing"),
        (lambda o, c, t: (7, "write"), "Three things"),
        (lambda o, c, t: (7, "again", "writes"), "One of 'write', 'skip'"),
    ],
)
def test_an_answer_of_another_form_is_told_what_is_expected(answer, said):
    with pytest.raises(Unreadable, match=said):
        WhatARestartDoes.observe(None, answer)


def test_a_stream_that_repairs_and_keeps_its_checkpoint_passes():
    verdict = GoesOn.judge(CONTINUED)
    assert isinstance(verdict, Passed) and "300 orders were missing or old" in verdict.note


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (replace(CONTINUED, running=True), "wait for the end with `awaitTermination()`"),
        (replace(CONTINUED, elsewhere=True), "into the lesson's table"),
        (replace(CONTINUED, kept=False), "the next call could not go on"),
        (replace(CONTINUED, missing=250, commits=0), "0 is not above 2"),
        (replace(CONTINUED, missing=250, commits=0, planned=0), "Nothing was read"),
        (replace(CONTINUED, missing=250, commits=0, planned=None), "no stream was started"),
        (replace(CONTINUED, missing=99, skipped=750), "750 were in batches 0 to 2, which were ski"),
        (replace(CONTINUED, wrong=40), "Every order is there, and 40 are doubled or old"),
        (replace(CONTINUED, missing=20, wrong=3), "20 orders are missing and 3 wrong"),
    ],
)
def test_each_stream_that_brings_too_little_has_its_reason(facts, reason):
    assert reason in reason_of(GoesOn.judge(facts))


def test_a_sink_that_leaves_each_message_once_passes():
    assert isinstance(DeliveredOnce.judge(DELIVERED), Passed)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (replace(DELIVERED, once=0, again=None), "Crashed after the receipt: batch 0 is missing"),
        (replace(DELIVERED, once=80, again=None), "80 rows of batch 0"),
        (replace(DELIVERED, between=80), "Your write makes two commits"),
        (replace(DELIVERED, again=0), "none of its rows are left"),
        (replace(DELIVERED, again=80), "A receipt in a variable is gone after the restart"),
        (replace(DELIVERED, again=80, noted=("0", "0")), "`receipts_in` gives text (['0', '0'])"),
        (replace(DELIVERED, again=80, noted=("0",)), "40 messages are 80 rows"),
        (replace(DELIVERED, again=80, outside=True), "Two places cannot be written in one step"),
        (replace(DELIVERED, next_rows=0), "Of batch 1, 35 messages, the table has 0"),
        (replace(DELIVERED, kept=0), "Your write replaces what the table held"),
        (replace(DELIVERED, messages=74), "74 different messages of 75"),
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


class Memory:
    """A sink's own object, as a notebook would define it."""

    def __init__(self):
        self.seen = []


@pytest.mark.parametrize(
    ("memory", "add"),
    [
        (set(), lambda memory, number: memory.add(number)),
        (deque(), lambda memory, number: memory.append(number)),
        (defaultdict(int), lambda memory, number: memory.update({number: 1})),
        (Counter(), lambda memory, number: memory.update([number])),
        (Memory(), lambda memory, number: memory.seen.append(number)),
    ],
)
def test_a_new_process_forgets_what_a_closure_or_an_object_remembered(memory, add):
    def known():
        return list(memory.seen if isinstance(memory, Memory) else memory)

    def deliver_with_memory(number, retry=True):
        add(memory, number)
        return deliver_with_memory(number, retry=False) if retry else set(known())

    assert new_process(deliver_with_memory)(1) == {1}
    assert new_process(deliver_with_memory)(2) == {2}
    assert not known()


def test_exactly_the_missing_messages_pass():
    assert isinstance(MissingMessages.judge(MISSING), Passed)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (5, "hides one that is missing"),
        (79, "You count from offset 0"),
        (6, "From 5 to 7 are three offsets"),
        (31, "Offsets are numbered per partition"),
    ],
)
def test_each_wrong_count_has_its_reason(answer, reason):
    assert reason in reason_of(MissingMessages.judge(replace(MISSING, answer=answer)))


def test_no_wrong_way_of_counting_is_lucky():
    for _ in range(300):
        rows = messages_with_gaps()
        missing, doubled, partitions, before_first = count_gaps(rows)
        offsets = [offset for _, offset in rows]
        ranges = sum(
            max(found) - min(found) + 1
            for partition in range(3)
            if (found := [offset for place, offset in rows if place == partition])
        )
        assert ranges - len({*rows}) == missing > 0 < doubled != partitions and before_first
        assert max(offsets) - min(offsets) + 1 - len(set(offsets)) != missing
        assert ranges - len(set(offsets)) != missing


def test_a_lost_file_that_only_the_metadata_table_misses_passes():
    verdict = WhoMissesAFile.judge(NOTICED)
    assert isinstance(verdict, Passed) and "30 orders, 21 paid without it" in verdict.note


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"said": (100, 0)}, "you say 100 orders, 0 paid. Nothing is paid there: the log file was"),
        ({"said": (21, 100)}, "you say 21 orders, 100 paid. First the orders"),
        ({"listed": (30, 21)}, "you say 30 orders, 21 paid, and there was no error"),
        ({"found": None}, "With `metadata=False` your read failed"),
        ({"found": (30, 30)}, "With `metadata=False` you say 30 orders, 30 paid"),
    ],
)
def test_each_reader_that_notices_too_much_or_too_little_has_its_reason(facts, reason):
    assert reason in reason_of(WhoMissesAFile.judge(replace(NOTICED, **facts)))
