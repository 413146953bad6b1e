"""Lesson 05 judges by what writes left: each way to be wrong has its own reason."""

from dataclasses import replace

import pytest

from lab_env.course.answers import Unreadable
from lab_env.course.checking import NotYet, Passed
from lab_env.lessons.l05.checks import (
    COW,
    MOR,
    Deleted,
    DeletesByKey,
    Forgets,
    Forgotten,
    Sizes,
    TwoUpserts,
    TypeForAWorkload,
    WritesUpserts,
)

UNCHANGED = {"O-1": ["new"], "O-2": ["new"], "O-3": ["new"]}
UPSERTS = TwoUpserts(
    types={MOR: MOR, COW: COW},
    first=3,
    second=UNCHANGED | {"O-3": ["paid"], "O-4": ["paid"]},
)
FORGOTTEN = Forgotten(1, 0, True, frozenset({"O-1", "O-2", "O-4", "O-5", "O-6"}))
CHOICE = {"archive": COW, "status feed": MOR, "repricing": COW}
SIZES = Sizes(
    CHOICE,
    insert={COW: 40_000, MOR: 40_000},
    ten={COW: 40_000, MOR: 3_000},
    all={COW: 40_000, MOR: 200_000},
)


def reason_of(verdict) -> str:
    assert isinstance(verdict, NotYet)
    return verdict.reason


def test_right_facts_pass():
    assert isinstance(WritesUpserts.judge(UPSERTS), Passed)
    assert isinstance(DeletesByKey.judge(Deleted(frozenset({"O-1", "O-4", "O-6"}))), Passed)
    assert isinstance(Forgets.judge(FORGOTTEN), Passed)
    assert "times as many bytes for the status feed" in TypeForAWorkload.judge(SIZES).note


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


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"archive": MOR}, "An insert makes base files on both types"),
        ({"status feed": COW}, "copies 990 orders that did not change"),
        ({"repricing": MOR}, "the log alone is larger than the base file"),
    ],
)
def test_a_dearer_type_gets_its_figures(answer, reason):
    assert reason in reason_of(TypeForAWorkload.judge(replace(SIZES, answer=CHOICE | answer)))


def test_a_missing_workload_is_named():
    assert "no choice for 'archive'" in reason_of(
        TypeForAWorkload.judge(replace(SIZES, answer={"repricing": COW}))
    )


def test_an_answer_that_is_no_dictionary_is_said(monkeypatch):
    class Picture:
        instants = [type("Instant", (), {"requested": "1"})] * 4

        def commit(self, requested):
            return type("Commit", (), {"bytes_written": 1})

    lab = type("Lab", (), {"path": lambda self, name: name, "xray": lambda self, path: Picture()})()
    with pytest.raises(Unreadable, match="A dictionary"):
        TypeForAWorkload.observe(lab, "mor")
    assert TypeForAWorkload.observe(lab, {"archive": " merge_on_read"}).answer == {"archive": MOR}
