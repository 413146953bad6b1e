"""Lesson 18's checks: no wrong split passes by luck, and a bad answer gets a reason."""

import contextlib
import random
from types import SimpleNamespace

import pytest

from lab_env.course.answers import Unreadable
from lab_env.course.checking import NotYet, checks_of_lesson
from lab_env.lessons.l18.checks import batches_of, expect_no_conflict, one_lock_for_both
from lab_env.lessons.l18.colleague import Colleague, WriteFailed

FILES = {key: (f"day={(key - 1) // 100}", f"file-{(key - 1) // 50}") for key in range(1, 301)}


def judged(answer, chosen) -> None:
    """Judge a function that chooses which corrections (by number) to write during a batch."""
    corrections = sorted(chosen.sample(range(1, 301), 90))
    for batch in batches_of(chosen):
        allowed = [f"O-{key}" for key in answer(corrections, batch)]
        expect_no_conflict(allowed, corrections, batch, FILES)


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
        judged(right, random.Random(seed))
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
    for answer in lucky.values():
        with pytest.raises(NotYet):
            judged(answer, random.Random(seed))


@pytest.mark.parametrize("check", checks_of_lesson("18").values())
def test_something_else_than_a_function_is_unreadable(check):
    with pytest.raises(Unreadable, match="A function"):
        check(None, {"hoodie.write.concurrency.mode": "x"})


def test_options_that_are_no_dictionary_are_unreadable():
    lab = SimpleNamespace(path=lambda name: name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lab_env.lessons.l18.checks.scratch_copy", lambda *a: "s3a://b/t")
        with pytest.raises(Unreadable, match="dictionary"):
            one_lock_for_both(lab, lambda job, table: [job, table])


def test_a_typo_in_the_options_is_a_card_and_no_error(monkeypatch):
    lab = SimpleNamespace(path=lambda name: name)

    @contextlib.contextmanager
    def frozen_while_writing(table, code):
        raise WriteFailed("HoodieException: Unable to load class")
        yield

    colleague = SimpleNamespace(share=dict, frozen_while_writing=frozen_while_writing)
    monkeypatch.setattr("lab_env.lessons.l18.checks.scratch_copy", lambda *a: "s3a://b/t")
    monkeypatch.setattr(Colleague, "of", lambda lab: colleague)
    with pytest.raises(NotYet, match="Unable to load class"):
        one_lock_for_both(lab, lambda job, table: {})
