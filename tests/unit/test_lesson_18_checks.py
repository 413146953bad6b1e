"""Lesson 18 judges two writers by their changes, a split by its files, a clean-up by what stays."""

import contextlib
import random
from dataclasses import replace
from queue import Empty
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
    batches_of,
    split_of,
)
from lab_env.lessons.l18.colleague import (
    COLLEAGUE,
    COMMITTED,
    YOU,
    Colleague,
    Running,
    WriteFailed,
    attempt,
    why_failed,
)

CONFLICT = "HoodieWriteConflictException: ConcurrentModificationException: Cannot resolve conflicts"
LOCK = frozenset({"/lesson-18/orders"})
TWO = TwoJobs(
    outcomes={YOU: COMMITTED, COLLEAGUE: CONFLICT},
    kept={YOU: True, COLLEAGUE: False},
    locks={YOU: LOCK, COLLEAGUE: LOCK},
    modes=dict.fromkeys((YOU, COLLEAGUE), "OPTIMISTIC_CONCURRENCY_CONTROL"),
)
NO_MODE = dict.fromkeys((YOU, COLLEAGUE), "")


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
            replace(TWO, modes=NO_MODE, outcomes={YOU: COMMITTED, COLLEAGUE: "HoodieIOException"}),
            "the mode is SINGLE_WRITER",
        ),
        (
            replace(TWO, modes=NO_MODE, outcomes=dict.fromkeys(TWO.outcomes, COMMITTED)),
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
            replace(
                TWO,
                modes=TWO.modes | {COLLEAGUE: "SINGLE_WRITER"},
                outcomes=dict.fromkeys(TWO.outcomes, COMMITTED),
            ),
            "Only one of you compares: the options of the backfill have no concurrency mode",
        ),
        (
            replace(TWO, outcomes={YOU: COMMITTED, COLLEAGUE: "HoodieLockException: no"}),
            "Both of you have a mode, but this was no conflict: you: committed; "
            "colleague: HoodieLockException: no.",
        ),
        (
            TwoJobs({}, {}, {}, TWO.modes, failed="HoodieException: Unable to load class x.Lock"),
            "failed before there was a race: HoodieException: Unable to load class x.Lock. Compare",
        ),
    ],
)
def test_each_wrong_pair_of_options_has_its_reason(facts, reason):
    assert reason in reason_of(OneLockForBoth.judge(facts))


FILES = {key: (f"day={(key - 1) // 100}", f"file-{(key - 1) // 50}") for key in range(1, 301)}


def judged(answer, chosen):
    """The verdict on a function of the numbers of corrections and of a batch."""
    corrections = sorted(chosen.sample(range(1, 301), 90))
    splits = []
    for batch in batches_of(chosen):
        allowed = [f"O-{key}" for key in answer(corrections, batch)]
        splits.append(split_of(allowed, (), corrections, batch, FILES))
    return NoFileTwice.judge(splits)


def days_of(keys):
    return {FILES[key][0] for key in keys}


def other_days(corrections, batch):
    return [key for key in corrections if FILES[key][0] not in days_of(batch)]


def other_files(corrections, batch):
    busy = {FILES[key] for key in batch}
    return [key for key in corrections if FILES[key] not in busy]


@pytest.mark.parametrize("seed", range(20))
def test_a_split_by_day_or_by_file_passes_and_no_lucky_one(seed):
    for right in (other_days, other_files):
        assert isinstance(judged(right, random.Random(seed)), Passed)
    lucky = {
        "one day": lambda keys, batch: [key for key in keys if key <= 100],
        "another day": lambda keys, batch: [key for key in keys if 100 < key <= 200],
        "the days before": lambda keys, batch: [
            key for key in keys if FILES[key][0] < min(days_of(batch))
        ],
        "the days after": lambda keys, batch: [
            key for key in keys if FILES[key][0] > max(days_of(batch))
        ],
        "other orders": lambda keys, batch: [key for key in keys if key not in batch],
        "nothing": lambda keys, batch: [],
    }
    for name, answer in lucky.items():
        assert isinstance(judged(answer, random.Random(seed)), NotYet), name


def test_what_a_split_does_wrong_is_said_with_its_own_numbers():
    files = {1: ("day=19", "abcdefgh-1"), 101: ("day=20", "b"), 102: ("day=20", "b")}

    def reason(allowed, lost=(), batch=(1,)):
        return reason_of(NoFileTwice.judge([split_of(allowed, lost, [1, 101, 102], batch, files)]))

    assert "file group abcdefgh of day=19" in reason(["O-1", "O-101", "O-102"])
    assert "1 corrections of day=20 wait" in reason(["O-101"])
    assert "You return O-101 more than once" in reason(["O-101", "O-101", "O-102"])
    assert "lost columns: status, amount" in reason(["O-101", "O-102"], ("status", "amount"))
    assert "1 of your rows are no corrections" in reason(["O-101", "O-102", "O-7"])
    both = [Split(rows=40), Split(rows=25)]
    assert NoFileTwice.judge(both).note.startswith("40 and 25 corrections")


CLEAN = Cleaned(pending=0, orphans=(), rolled_back=True, rows=300, expected=300)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (replace(CLEAN, pending=1, commits=1), "only cleaning does"),
        (replace(CLEAN, commits=1, locked=False), "took no lock"),
        (replace(CLEAN, commits=1, locked=False, killed=True), "also what belongs to the living"),
        (replace(CLEAN, killed=True), "An unfinished instant is not a dead one"),
        (replace(CLEAN, commits=1, changed=300), "Your write changed 300 orders"),
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


def colleague_who(is_alive: bool, messages=()) -> Colleague:
    """A colleague without a kernel, whose notebook says what a test wants."""
    mara, said = Colleague.__new__(Colleague), iter(messages)
    mara._manager = SimpleNamespace(is_alive=lambda: is_alive)
    mara._last = "code"

    def next_message(timeout):
        for message in said:
            return message
        raise Empty

    mara._client = SimpleNamespace(
        execute=lambda code, store_history: "code", get_iopub_msg=next_message
    )
    mara._start = Running(COLLEAGUE, 1.0, ended=2.0, outcome=COMMITTED)
    return mara


def message(kind: str, **content) -> dict:
    return {"parent_header": {"msg_id": "code"}, "msg_type": kind, "content": content}


def test_after_a_colleague_was_killed_the_error_says_how_to_start_another():
    with pytest.raises(LabError, match="has ended") as error:
        colleague_who(is_alive=False).run("1 + 1")
    assert "colleague = Colleague(lab)" in error.value.next_step


def test_what_her_write_failed_with_is_part_of_the_error():
    said = [
        message("error", ename="Py4JJavaError", evalue=STACK),
        message("status", execution_state="idle"),
    ]
    with pytest.raises(WriteFailed) as error:
        colleague_who(is_alive=True, messages=said).run("write()")
    assert error.value.outcome.startswith("HoodieWriteConflictException")


def test_a_typo_in_the_options_is_a_card_and_no_error(monkeypatch):
    lab = SimpleNamespace(path=lambda name: name)

    @contextlib.contextmanager
    def frozen_while_writing(table, code):
        raise WriteFailed("HoodieException: Unable to load class")
        yield

    colleague = SimpleNamespace(
        share=lambda **values: None, frozen_while_writing=frozen_while_writing
    )
    monkeypatch.setattr("lab_env.lessons.l18.checks.scratch_copy", lambda *a: "s3a://b/t")
    monkeypatch.setattr(Colleague, "of", lambda lab: colleague)
    facts = OneLockForBoth.observe(lab, lambda job, table: {})
    assert "Unable to load class" in reason_of(OneLockForBoth.judge(facts))


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
