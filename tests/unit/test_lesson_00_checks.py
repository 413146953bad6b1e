"""Lesson 00 judges file names and times as a learner would write them."""

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from lab_env.course.answers import Unreadable
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


def lab_with(insert=INSERT, update=UPDATE):
    """A lab whose table has these two writes."""
    instants = [
        SimpleNamespace(requested=requested, completed=completed)
        for requested, completed in (insert, update)
    ]
    return SimpleNamespace(
        path="s3a://lakehouse/{}".format, xray=lambda path: SimpleNamespace(instants=instants)
    )


@pytest.mark.parametrize(
    "answer", ["09:15:11.333", "09:15:11", UPDATE[1], int(UPDATE[1]), "2026-11-20 09:15:11.333"]
)
def test_a_time_counts_as_the_picture_shows_it_and_as_an_instant(answer):
    facts = SinceWhenVisible.observe(lab_with(), answer)
    assert isinstance(SinceWhenVisible.judge(facts), Passed)


@pytest.mark.parametrize("zone", [None, UTC])
def test_a_time_counts_as_a_datetime(zone):
    answer = datetime(2026, 11, 20, 9, 15, 11, 333_000, tzinfo=zone)
    facts = SinceWhenVisible.observe(lab_with(), answer)
    assert isinstance(SinceWhenVisible.judge(facts), Passed)


@pytest.mark.parametrize(
    ("check", "answer", "reason"),
    [
        (SinceWhenVisible, UPDATE[0], "when the write was requested"),
        (SinceWhenVisible, INSERT[1], "brought the order as new"),
        (SinceWhenVisible, "09", "The timeline has no such time"),
        (SinceWhenVisible, "soon", "The timeline has no such time"),
        (WhichWriteMadeAFile, UPDATE[0], "did not touch this partition"),
        (WhichWriteMadeAFile, INSERT[1], "Files carry the requested time"),
    ],
)
def test_another_time_gets_its_reason(check, answer, reason):
    verdict = check.judge(check.observe(lab_with(), answer))
    assert isinstance(verdict, NotYet) and reason in verdict.reason


@pytest.mark.parametrize("check", [SinceWhenVisible, WhichWriteMadeAFile])
def test_a_second_with_two_times_needs_milliseconds(check):
    same_second = TimeNamed("091500", ("20261120091500101", "20261120091500705"), UPDATE)
    assert "09:15:00.101, 09:15:00.705" in check.judge(same_second).reason


def test_a_missing_time_is_unreadable():
    with pytest.raises(Unreadable):
        SinceWhenVisible.observe(lab_with(), None)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"new", "other", "old"}, "You name 3 files, and one of them is an older version"),
        ({"new"}, "You name 1 of the 2 files"),
        ({"new", "another"}, "no data file 'another'"),
    ],
)
def test_files_that_a_query_does_not_open_or_that_lack_get_their_reason(answer, reason):
    facts = FilesOpened(frozenset(answer), frozenset({"new", "other"}), frozenset({"old"}))
    assert reason in WhatAReaderOpens.judge(facts).reason


@pytest.mark.parametrize("answer", [2, None, "two"])
def test_a_count_in_place_of_names_is_unreadable(answer):
    lab = SimpleNamespace(path="{}".format, xray=lambda path: SimpleNamespace(current=[], files=[]))
    with pytest.raises(Unreadable):
        WhatAReaderOpens.observe(lab, answer)
