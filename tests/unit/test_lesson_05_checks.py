"""Lesson 05 judges by what writes left: each way to be wrong has its own reason."""

from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from lab_env.course.answers import Unreadable
from lab_env.course.checking import NotYet, Passed
from lab_env.hudi.table import DataFile, Snapshot
from lab_env.lessons.l05.checks import (
    COW,
    MOR,
    Deleted,
    DeletesByKey,
    Forgets,
    Forgotten,
    TwoUpserts,
    TypeForALoad,
    WritesUpserts,
    _is_quick,
)

UNCHANGED = {"O-1": ["new"], "O-2": ["new"], "O-3": ["new"]}
UPSERTS = TwoUpserts(
    types={MOR: MOR, COW: COW},
    first=3,
    second=UNCHANGED | {"O-3": ["paid"], "O-4": ["paid"]},
)
FORGOTTEN = Forgotten(1, 0, True, frozenset({"O-1", "O-2", "O-4", "O-5", "O-6"}))


def reason_of(verdict) -> str:
    assert isinstance(verdict, NotYet)
    return verdict.reason


def test_right_facts_pass():
    assert isinstance(WritesUpserts.judge(UPSERTS), Passed)
    assert isinstance(DeletesByKey.judge(Deleted(frozenset({"O-1", "O-4", "O-6"}))), Passed)
    assert isinstance(Forgets.judge(FORGOTTEN), Passed)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (replace(UPSERTS, types={MOR: COW, COW: COW}), "Asked for MERGE_ON_READ"),
        (replace(UPSERTS, types={MOR: MOR, COW: MOR}), "Asked for COPY_ON_WRITE"),
        (replace(UPSERTS, first=1), "your function wrote 1 rows"),
        (replace(UPSERTS, second={"O-3": ["paid"], "O-4": ["paid"]}), "replaced what the first"),
        (
            replace(UPSERTS, second=UPSERTS.second | {"O-3": ["new", "paid"]}),
            "O-3 is there twice",
        ),
        (replace(UPSERTS, second=UNCHANGED), "the table says O-3 is ['new']"),
        (replace(UPSERTS, quick=False), "not as the options of `QUICK` make them"),
    ],
)
def test_each_wrong_upsert_gets_its_reason(facts, reason):
    assert reason in reason_of(WritesUpserts.judge(facts))


@pytest.mark.parametrize(
    ("left", "reason"),
    [
        ({"O-1", "O-3", "O-4", "O-6"}, "Still there: O-3"),
        ({"O-1", "O-6"}, "Other orders are gone as well: O-4"),
        (set(), "Other orders are gone as well"),
    ],
)
def test_each_wrong_delete_gets_its_reason(left, reason):
    assert reason in reason_of(DeletesByKey.judge(Deleted(frozenset(left))))


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (replace(FORGOTTEN, holding=1, compacted=False), "nothing was compacted"),
        (replace(FORGOTTEN, files=2, holding=1), "1 of 2 base files still hold the row"),
        (replace(FORGOTTEN, orders=frozenset({"O-1"})), "it has O-1"),
    ],
)
def test_each_row_that_is_left_gets_its_reason(facts, reason):
    assert reason in reason_of(Forgets.judge(facts))


def quick_table(base_bytes: int, *metadata: str) -> Snapshot:
    files = (DataFile("day", "g", "1", "base", "base-1", base_bytes, True),)
    kept = tuple(("metadata", f".hoodie/metadata/{part}/file", 1) for part in metadata)
    return Snapshot("s3a://b/t", "t", MOR, 9, (), files, (), kept)


def test_defaults_are_told_from_quick_by_the_filter_or_by_the_metadata():
    assert _is_quick(quick_table(19_000, "files"))
    assert not _is_quick(quick_table(440_000, "files"))
    assert not _is_quick(quick_table(19_000, "files", "column_stats"))
    assert not _is_quick(quick_table(19_000))


def test_an_upsert_that_writes_elsewhere_is_told():
    lab = SimpleNamespace(scratch=str, files=lambda path: [], spark=Mock())
    with pytest.raises(Unreadable, match="wrote nothing"):
        WritesUpserts.observe(lab, lambda rows, path, table_type: None)


def right(base, log, writes):
    return MOR if writes * log + base <= 0.95 * writes * base else COW.lower()


def without_compaction(base, log, writes):
    return MOR if log <= 0.95 * base else COW


@pytest.mark.parametrize(
    ("choose", "reason"),
    [
        (without_compaction, "but the compaction writes the base file as well"),
        (
            lambda base, log, writes: MOR if writes * log + base < writes * base else COW,
            "5 percent",
        ),
        (lambda base, log, writes: COW, "copies the whole base file at each write"),
        (lambda base, log, writes: MOR if writes > 1 else COW, "The logs alone would be less"),
        (lambda base, log, writes: MOR if log > base else right(base, log, writes), "or larger"),
    ],
)
def test_a_choice_that_is_wrong_for_some_loads_gets_its_reason(choose, reason):
    for _ in range(20):  # the loads are drawn anew
        assert isinstance(TypeForALoad.judge(TypeForALoad.observe(None, right)), Passed)
        assert reason in reason_of(TypeForALoad.judge(TypeForALoad.observe(None, choose)))
