"""Lesson 00 judges times and counts as a learner would write them."""

import pytest

from lab_env.course.checking import NotYet, Passed
from lab_env.lessons.l00.checks import (
    FilesOpened,
    SinceWhenVisible,
    TimeNamed,
    WhatAReaderOpens,
    WhichWriteMadeAFile,
)

INSERT = ("20261120091500705", "20261120091503111")
UPDATE = ("20261120091509222", "20261120091511333")


def told(answer: str) -> TimeNamed:
    return TimeNamed("".join(filter(str.isdigit, answer)), INSERT, UPDATE)


@pytest.mark.parametrize("answer", ["09:15:11.333", "09:15:11", UPDATE[1]])
def test_a_time_counts_as_the_picture_shows_it(answer):
    assert isinstance(SinceWhenVisible.judge(told(answer)), Passed)


@pytest.mark.parametrize(
    ("check", "answer", "reason"),
    [
        (SinceWhenVisible, UPDATE[0], "when the write was asked for"),
        (SinceWhenVisible, INSERT[1], "brought the order as new"),
        (SinceWhenVisible, "09", "The timeline has no such time"),
        (SinceWhenVisible, "soon", "The timeline has no such time"),
        (WhichWriteMadeAFile, UPDATE[0], "did not touch this partition"),
        (WhichWriteMadeAFile, INSERT[1], "Files carry the requested time"),
    ],
)
def test_another_time_gets_its_reason(check, answer, reason):
    verdict = check.judge(told(answer))
    assert isinstance(verdict, NotYet) and reason in verdict.reason


@pytest.mark.parametrize(("answer", "right"), [(2, True), (3, False), (1, False), ("2", False)])
def test_only_current_files_count(answer, right):
    verdict = WhatAReaderOpens.judge(FilesOpened(answer, stored=3, current=2))
    assert isinstance(verdict, Passed) is right
