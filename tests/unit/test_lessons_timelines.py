"""A table keeps its history, and gets the writes that are due and nothing else."""

from types import SimpleNamespace

import pytest

from lab_env.course.checking import NotYet
from lab_env.lessons.timelines import completed_instants, expect_added
from lab_env.tables.hudi.timeline import Instant


def _instant(number: int, action: str = "commit", state: str = "completed") -> Instant:
    completed = f"{number}9" if state == "completed" else ""
    return Instant(f"{number}0", completed, action, state)


def _lab(*instants: Instant, archived: tuple[Instant, ...] = ()):
    """A lab whose only table has these instants."""
    table = SimpleNamespace(instants=instants, history=archived)
    return SimpleNamespace(files=lambda path: instants, xray=lambda path: table)


OLD, NEW, NEWER = _instant(1), _instant(2), _instant(3)


@pytest.mark.parametrize(
    ("lab", "said"),
    [
        (_lab(NEW), "lost its history"),
        (_lab(OLD, NEW, NEWER), "took 2 commits, not 1"),
        (_lab(OLD, NEW, _instant(3, "clean")), "a service of the table: clean"),
        (_lab(OLD, NEW, _instant(3, "savepoint")), "a service of the table: savepoint"),
    ],
)
def test_what_nobody_asked_for_is_named(lab, said):
    with pytest.raises(NotYet, match=said):
        expect_added(lab, "a table", {OLD})


def test_a_write_is_fine_and_so_is_what_is_archived_pending_or_allowed():
    expect_added(_lab(OLD, NEW), "a table", {OLD})
    expect_added(_lab(NEW, archived=(OLD,)), "a table", {OLD})
    expect_added(_lab(OLD, NEW, _instant(3, state="inflight")), "a table", {OLD})
    expect_added(_lab(OLD, NEW, NEWER), "a table", {OLD}, writes=2)
    clean = _instant(3, "clean")
    expect_added(_lab(OLD, NEW, clean), "a table", {OLD}, services={"clean"})


def test_where_there_is_no_table_yet_there_is_no_instant():
    assert completed_instants(_lab(), "a table") == frozenset()
    assert completed_instants(_lab(NEW, archived=(OLD,)), "a table") == {OLD, NEW}
