"""Lesson 18 judges two writers by their changes, a split by its files, a clean-up by what stays."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from lab_env.course.answers import Unreadable
from lab_env.course.checking import NotYet, Passed
from lab_env.errors import LabError
from lab_env.lessons.l18.checks import (
    Cleaned,
    NoFileTwice,
    NothingOfTheDead,
    OneLockForBoth,
    Split,
    TwoJobs,
)
from lab_env.lessons.l18.colleague import COLLEAGUE, COMMITTED, YOU, Colleague, attempt, why_failed

CONFLICT = "HoodieWriteConflictException: ConcurrentModificationException: Cannot resolve conflicts"
LOCK = frozenset({"/lesson-18/orders"})
TWO = TwoJobs(
    outcomes={YOU: COMMITTED, COLLEAGUE: CONFLICT},
    kept={YOU: True, COLLEAGUE: False},
    locks={YOU: LOCK, COLLEAGUE: LOCK},
    mode="OPTIMISTIC_CONCURRENCY_CONTROL",
)


def reason_of(verdict) -> str:
    assert isinstance(verdict, NotYet)
    return verdict.reason


@pytest.mark.parametrize(
    "facts",
    [
        TWO,
        replace(
            TWO,
            outcomes={YOU: "HoodieEarlyConflictDetectionException", COLLEAGUE: COMMITTED},
            kept={YOU: False, COLLEAGUE: True},
        ),
        # A writer that tries again after the conflict
        replace(
            TWO, outcomes=dict.fromkeys(TWO.outcomes, COMMITTED), kept=dict.fromkeys(TWO.kept, True)
        ),
    ],
)
def test_two_jobs_pass_if_one_lock_was_used_and_nothing_was_lost(facts):
    verdict = OneLockForBoth.judge(facts)
    assert isinstance(verdict, Passed) and "/lesson-18/orders" in verdict.note


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (
            replace(TWO, mode="", outcomes={YOU: COMMITTED, COLLEAGUE: "HoodieIOException"}),
            "the mode is SINGLE_WRITER",
        ),
        (
            replace(TWO, mode="", outcomes=dict.fromkeys(TWO.outcomes, COMMITTED)),
            "committed, and the change is not in the table",
        ),
        (
            replace(TWO, locks={YOU: LOCK, COLLEAGUE: frozenset()}),
            "without a lock in ZooKeeper: colleague",
        ),
        (
            replace(TWO, locks={YOU: LOCK, COLLEAGUE: frozenset({"/lesson-18/hers"})}),
            "Two writers, two locks",
        ),
        (
            replace(TWO, outcomes={YOU: COMMITTED, COLLEAGUE: "HoodieLockException: no"}),
            "Nothing may be lost",
        ),
    ],
)
def test_each_wrong_pair_of_options_has_its_reason(facts, reason):
    assert reason in reason_of(OneLockForBoth.judge(facts))


def test_a_split_passes_if_no_file_is_written_twice_and_nothing_waits_in_vain():
    split = Split(rows=40, strangers=0, shared=(), left_out=0)
    assert "40 corrections" in NoFileTwice.judge(split).note
    twice = replace(split, shared=("partition_date=2026-11-20", "abcdefgh-1"))
    assert "Different rows, same file" in reason_of(NoFileTwice.judge(twice))
    assert "abcdefgh of partition_date=2026-11-20" in reason_of(NoFileTwice.judge(twice))
    assert "3 corrections wait" in reason_of(NoFileTwice.judge(replace(split, left_out=3)))
    assert "no corrections" in reason_of(NoFileTwice.judge(replace(split, strangers=1)))


CLEAN = Cleaned(pending=0, orphans=(), rolled_back=True, rows=300, expected=300)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (replace(CLEAN, pending=1, commits=1), "only cleaning does"),
        (replace(CLEAN, commits=1, locked=False), "took no lock"),
        (replace(CLEAN, pending=1), "still pending"),
        (
            replace(CLEAN, orphans=("day=20",), rolled_back=False),
            "1 data file in day=20 belongs to no commit",
        ),
        (replace(CLEAN, rolled_back=False), "no rollback says why"),
        (replace(CLEAN, rows=250), "had 300 orders and now has 250"),
        (replace(CLEAN, elsewhere=True), "the path it gets"),
    ],
)
def test_each_unfinished_clean_up_has_its_reason(facts, reason):
    assert isinstance(NothingOfTheDead.judge(CLEAN), Passed)
    assert reason in reason_of(NothingOfTheDead.judge(facts))


@pytest.mark.parametrize("check", [OneLockForBoth, NoFileTwice, NothingOfTheDead])
def test_something_else_than_a_function_is_unreadable(check):
    with pytest.raises(Unreadable, match="A function"):
        check.observe(None, {"hoodie.write.concurrency.mode": "x"})


def test_options_that_are_no_dictionary_are_unreadable():
    lab = SimpleNamespace(path=lambda name: name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lab_env.lessons.l18.checks.scratch_copy", lambda *a: "s3a://b/t")
        with pytest.raises(Unreadable, match="dictionary"):
            OneLockForBoth.observe(lab, lambda job, table: [job, table])


def test_without_a_colleague_the_error_says_where_to_begin():
    with pytest.raises(LabError) as error:
        Colleague.of(SimpleNamespace(namespace="lesson-18"))
    assert "first cell" in error.value.next_step


CAUSE = (
    "Caused by: org.apache.hudi.exception.HoodieWriteConflictException: "
    "java.util.ConcurrentModificationException: Cannot resolve"
)
STACK = f"""An error occurred while calling o92.save.
: org.apache.spark.SparkException: Writing job failed
\tat org.apache.spark.Something(Some.scala:1)
{CAUSE}
\tat org.apache.hudi.More(More.java:2)
Caused by: java.util.ConcurrentModificationException: Cannot resolve
"""


def test_the_reason_of_a_failed_write_is_the_exception_of_hudi():
    assert why_failed(STACK) == (
        "HoodieWriteConflictException: ConcurrentModificationException: Cannot resolve"
    )
    lost = STACK.replace("ConcurrentModification", "io.FileNotFound")
    closed = lost.replace(
        "java.util.io.FileNotFoundException: Cannot resolve\n\tat", "not closed\n\tat"
    )
    assert why_failed(closed) == (
        "HoodieWriteConflictException: not closed (FileNotFoundException: Cannot resolve)"
    )
    assert why_failed("name 'upsert' is not defined") == "name 'upsert' is not defined"


def test_an_attempt_notes_its_end_and_does_not_fail():
    good, bad = attempt(dict, a=1), attempt(int, "O-17")
    assert good.outcome == COMMITTED and good.ended >= good.began
    assert "invalid literal" in bad.outcome
