"""Lesson 07 judges the files that a write and a cleaning left."""

from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace

import pytest

from lab_env.course.answers import Unreadable
from lab_env.course.checking import NotYet, Passed
from lab_env.hudi.timeline import Instant
from lab_env.lessons.l07.checks import (
    CleansForTheReaders,
    Clustered,
    Clusters,
    FewFiles,
    Looked,
    LooksAgain,
    Retention,
    Streamed,
    ThreeWrites,
    WritesTheStream,
    _board,
    _since_the_last_write,
)

CLUSTERED = ThreeWrites(
    files=2, older=18, rows=120, orders=120, actions={"commit": 3, "clustering": 1}
)


def test_one_file_a_day_by_one_clustering_passes():
    assert isinstance(FewFiles.judge(CLUSTERED), Passed)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"rows": 40, "orders": 40}, "Fewer files must not mean other rows"),
        ({"rows": 160}, "160 rows of 120 orders"),
        ({"actions": {"commit": 3, "clustering": 3}}, "2 files hold all 120 orders, but after 3"),
        ({"actions": {"commit": 3}}, "without a clustering: your options changed the operation"),
        ({"files": 8}, "cluster after the third"),
        ({"files": 18, "actions": {"commit": 3}, "cleaner": True}, "it merges none"),
        ({"files": 18, "actions": {"commit": 3}}, "has 3 commit: no clustering"),
    ],
)
def test_a_table_with_many_files_or_other_rows_gets_its_reason(change, reason):
    verdict = FewFiles.judge(replace(CLUSTERED, **change))
    assert isinstance(verdict, NotYet) and reason in verdict.reason


ALL_STREAMED = Streamed("bulk_insert", rows=3, commits=2, progress=9)


@pytest.mark.parametrize("facts", [ALL_STREAMED, Streamed("upsert", 2, commits=2, progress=9)])
def test_a_stream_that_leaves_what_its_operation_leaves_passes(facts):
    assert facts.right and isinstance(WritesTheStream.judge(facts), Passed)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"commits": 0, "rows": 0}, "had no commit"),
        ({"stopped": True}, "your stream still ran, with 3 rows of 3"),
        ({"rows": 2}, "the operation is an argument"),
        ({"operation": "upsert"}, "left both rows of one order"),
        ({"commits": 1}, "wrote both in one commit"),
        ({"further": False}, "ignores `extra_options`"),
        ({"rows": 6}, "the table shows 6"),
        ({"progress": 0}, "The folder for the progress is empty"),
    ],
)
def test_another_stream_gets_its_reason(change, reason):
    facts = replace(ALL_STREAMED, **change)
    verdict = WritesTheStream.judge(facts)
    assert not facts.right and isinstance(verdict, NotYet) and reason in verdict.reason


BY_HAND = Clustered(2, 120, ("commit", "commit", "commit", "clustering"), planned=False)


def test_a_clustering_of_all_rows_passes():
    assert isinstance(Clusters.judge(BY_HAND), Passed)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"rows": 80}, "had 120 orders and shows 80"),
        ({"planned": True, "files": 18}, "planned, and nobody carried it out"),
        ({"actions": ("commit", "commit", "commit", "clean")}, "it merges no files"),
        ({"actions": ("commit",)}, "which procedure clusters"),
        ({"metadata": True}, "not get all of `OPTIONS`: it made a metadata table"),
        ({"largest": 440_000}, "not get all of `OPTIONS`: a file has 440 KB"),
        ({"files": 6}, "still reads 6 files"),
    ],
)
def test_what_is_no_clustering_gets_its_reason(change, reason):
    verdict = Clusters.judge(replace(BY_HAND, **change))
    assert isinstance(verdict, NotYet) and reason in verdict.reason


UNPAID = {"new": Decimal(30)}
PAID = {"new": Decimal(20), "paid": Decimal(10)}
LOOKED = Looked(UNPAID, UNPAID, PAID, PAID)


def test_the_board_of_both_moments_passes():
    verdict = LooksAgain.judge(LOOKED)
    assert isinstance(verdict, Passed) and "First new 30; after" in verdict.note


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"first": {}}, "At the first call your board says none"),
        ({"first": PAID}, "The table at `path` says new 30"),
        ({"second": None}, "opened before the cleaning, and its plan names files that are gone"),
        ({"second": UNPAID}, "says the same, new 30. The table says new 20, paid 10"),
        ({"second": {"new": Decimal(20)}}, "says new 20. The table says new 20, paid 10"),
    ],
)
def test_another_board_gets_its_reason(change, reason):
    verdict = LooksAgain.judge(replace(LOOKED, **change))
    assert isinstance(verdict, NotYet) and reason in verdict.reason


def test_the_board_hides_the_last_write_and_all_cleans_and_needs_both():
    actions = ("commit", "clustering", "commit", "clean")
    instants = [Instant(str(at), f"{at}9", act, "completed") for at, act in enumerate(actions)]
    hidden = _since_the_last_write(SimpleNamespace(instants=instants))
    assert [instant.requested for instant in hidden] == ["2", "3"]
    with pytest.raises(Unreadable, match="they write and clean the table"):
        _since_the_last_write(SimpleNamespace(instants=instants[:3]))


def test_a_board_is_a_spark_dataframe_because_the_lesson_goes_on_with_it():
    with pytest.raises(Unreadable, match="A Spark DataFrame is expected"):
        _board(PAID)


@pytest.mark.parametrize("facts", [Retention(3, 10, 8, kept=5), Retention(5, 10, 6, kept=3)])
def test_the_fewest_versions_that_cover_the_longest_reader_pass(facts):
    assert isinstance(CleansForTheReaders.judge(facts), Passed)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (Retention(3, 10, 8, 3), "opened at commit 5 lost its file at commit 8"),
        (Retention(3, 10, 8, 3), "you guarantee 6 minutes"),
        (Retention(3, 10, 8, 4), "you guarantee 9 minutes"),
        (Retention(3, 10, 8, 6), "6 versions are kept where 5 are enough"),
        (Retention(5, 10, 6, 4), "Commits every 5 minutes, queries of 10"),
        (Retention(3, 10, 8, 8), "deleted nothing: all 8 versions"),
    ],
)
def test_another_retention_is_too_short_or_too_long(facts, reason):
    verdict = CleansForTheReaders.judge(facts)
    assert isinstance(verdict, NotYet) and reason in verdict.reason
