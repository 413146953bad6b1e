"""Lesson 07 judges the files that a write and a cleaning left."""

from dataclasses import replace

import pytest

from lab_env.course.answers import Unreadable
from lab_env.course.checking import NotYet, Passed
from lab_env.lessons.l07.checks import FewFiles, RetainForTheReaders, Retention, ThreeWrites

CLUSTERED = ThreeWrites(
    files=2, older=18, rows=120, orders=120, actions={"commit": 3, "clustering": 1}
)


def test_one_file_a_day_passes_whichever_way_it_came():
    assert isinstance(FewFiles.judge(CLUSTERED), Passed)
    assert isinstance(FewFiles.judge(replace(CLUSTERED, actions={"commit": 3})), Passed)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"rows": 40, "orders": 40}, "Fewer files must not mean other rows"),
        ({"rows": 160}, "160 rows of 120 orders"),
        ({"actions": {"commit": 3, "clustering": 3}}, "2 files hold all 120 orders, but after 3"),
        ({"files": 8}, "cluster after the third"),
        ({"files": 18, "actions": {"commit": 3}, "cleaner": True}, "it merges none"),
        ({"files": 18, "actions": {"commit": 3}}, "has 3 commit: no clustering"),
    ],
)
def test_a_table_with_many_files_or_other_rows_gets_its_reason(change, reason):
    verdict = FewFiles.judge(replace(CLUSTERED, **change))
    assert isinstance(verdict, NotYet) and reason in verdict.reason


def test_the_fewest_commits_that_cover_the_longest_reader_pass():
    assert isinstance(RetainForTheReaders.judge(Retention(4, versions=8, kept=5)), Passed)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (Retention(0), "0 commits cannot be retained"),
        (Retention(2, 8, 3), "opened at commit 5 lost its file at commit 8"),
        (Retention(2, 8, 3), "you guarantee 6 minutes"),
        (Retention(3, 8, 4), "you guarantee 9 minutes"),
        (Retention(5, 8, 6), "6 versions are kept where 5 are enough"),
        (Retention(10, 8, 8), "deleted nothing: all 8 versions"),
    ],
)
def test_another_retention_is_too_short_or_too_long(facts, reason):
    verdict = RetainForTheReaders.judge(facts)
    assert isinstance(verdict, NotYet) and reason in verdict.reason


@pytest.mark.parametrize("answer", [None, [3, 4], "four", 3.5])
def test_a_retention_that_is_no_whole_number_is_unreadable(answer):
    with pytest.raises(Unreadable, match="is expected"):
        RetainForTheReaders.observe(None, answer)
