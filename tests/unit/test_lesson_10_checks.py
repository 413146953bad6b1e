"""Lesson 10's checks choose moments to query, read boards, and hide writes after a restore."""

from decimal import Decimal

import pandas as pd
import pytest

from lab_env.course.answers import Unreadable
from lab_env.course.checking import NotYet
from lab_env.lessons.boards import as_board
from lab_env.lessons.l10.checks import _after_the_restore, _moments
from lab_env.tables.hudi.timeline import Instant


def test_the_moments_lie_at_completions_within_a_write_and_after_all():
    writes = tuple(
        Instant(f"2026112109{minute}00000", f"2026112109{minute}02000", "commit", "completed")
        for minute in (10, 20, 30)
    )
    completions, interrupted = set(), set()
    for _ in range(50):
        later, at_completion, within = _moments(writes)
        assert later > writes[-1].completed
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
