"""Lesson 10 tells when readers and AS OF see a write; its checks hide what a restore undid."""

import threading
from decimal import Decimal
from types import SimpleNamespace
from unittest.mock import MagicMock

import pandas as pd
import pytest

from lab_env.course.answers import Unreadable
from lab_env.course.checking import NotYet
from lab_env.lessons.boards import as_board
from lab_env.lessons.l10.checks import _after_the_restore, _moments
from lab_env.lessons.l10.figures import AsOf, Version, amount_of
from lab_env.lessons.l10.shop import read_during
from lab_env.tables.hudi.timeline import Instant


def test_the_moments_lie_at_completions_within_a_write_and_after_all():
    writes = tuple(
        Instant(f"2026112109{minute}00000", f"2026112109{minute}02000", "commit", "completed")
        for minute in (10, 20, 30)
    )
    completions, interrupted = set(), set()
    for _ in range(50):
        later, at_completion, within, at_last = _moments(writes)
        assert later > writes[-1].completed == at_last
        completions.add(at_completion)
        interrupted |= {write for write in writes if write.requested < within < write.completed}
    assert completions == {write.completed for write in writes[:-1]}
    assert interrupted == set(writes[1:])


@pytest.mark.parametrize(
    "answer",
    [
        {"new": 11, "paid": "16.50"},
        pd.DataFrame({"status": ["new", "paid"], "revenue": [11, 16.5]}),
        pd.Series([11, 16.5], index=pd.Index(["new", "paid"], name="status"), name="amount"),
    ],
)
def test_a_board_may_come_in_any_form(answer):
    assert as_board(answer) == {"new": Decimal("11"), "paid": Decimal("16.5")}


def test_a_board_with_two_rows_of_a_status_is_none():
    with pytest.raises(NotYet, match="3 rows for 2 statuses"):
        as_board([("new", 1), ("paid", 2), ("new", 3)])


def test_the_check_hides_what_came_after_the_restore_and_needs_one():
    actions = ("commit", "restore", "commit", "commit")
    instants = [Instant(str(at), f"{at}9", act, "completed") for at, act in enumerate(actions)]
    assert [found.requested for found in _after_the_restore(instants)] == ["2", "3"]
    assert _after_the_restore(instants[:2]) == ()
    with pytest.raises(Unreadable, match="they restore the table"):
        _after_the_restore(instants[:1])


FIRST = Version("20261121090000000", "20261121090004000", "27.00")
SECOND = Version("20261121091000000", "20261121091002000", "31.50")
BETWEEN = "20261121091001000"
PICTURE = AsOf("O-17", [FIRST, SECOND], cursor=BETWEEN)


@pytest.mark.parametrize(
    ("moment", "readers", "as_of"),
    [
        ("20261121085959999", None, None),
        (FIRST.requested, None, "27.00"),
        (FIRST.completed, "27.00", "27.00"),
        (BETWEEN, "27.00", "31.50"),
        (SECOND.completed, "31.50", "31.50"),
        ("20991231000000000", "31.50", "31.50"),
    ],
)
def test_the_two_lanes_change_at_different_ticks(moment, readers, as_of):
    assert (PICTURE.readers(moment), PICTURE.as_of(moment)) == (readers, as_of)


def test_a_refused_query_is_told_in_its_own_words_and_a_missing_row_is_none():
    table = MagicMock()
    first = table.where.return_value.select.return_value.first
    first.side_effect = [{"amount": 31.5}, None, ValueError("Too old. Ask later")]
    assert [amount_of("O-17", table) for _ in range(3)] == ["31.5", None, "Too old"]


def lab_with(*completed: str) -> SimpleNamespace:
    """Return a lab whose table has writes with these completion times; empty if in progress."""
    instants = [SimpleNamespace(completed=time) for time in completed]
    return SimpleNamespace(xray=lambda path: SimpleNamespace(instants=instants))


def test_the_read_happens_before_the_write_is_complete():
    may_finish, events = threading.Event(), []

    def save(path):
        may_finish.wait(60)
        events.append("written")

    def read():
        events.append("read")
        may_finish.set()
        return 40

    assert read_during(lab_with("1", ""), "s3a://t", SimpleNamespace(save=save), read) == 40
    assert events == ["read", "written"]


def test_a_write_that_nobody_could_read_in_is_an_error():
    writer = SimpleNamespace(save=lambda path: None)
    with pytest.raises(RuntimeError, match="run the cell again"):
        read_during(lab_with("1", "2"), "s3a://t", writer, lambda: pytest.fail("read too late"))
