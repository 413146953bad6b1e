"""Lesson 07's checks hide the last write and all cleans in a copy of the table."""

from types import SimpleNamespace

import pytest

from lab_env.course.answers import Unreadable
from lab_env.lessons.l07.checks import _since_the_last_write
from lab_env.tables.hudi.timeline import Instant


def test_the_board_hides_the_last_write_and_all_cleans_and_needs_both():
    actions = ("commit", "clustering", "commit", "clean")
    instants = [Instant(str(at), f"{at}9", act, "completed") for at, act in enumerate(actions)]
    hidden = _since_the_last_write(SimpleNamespace(instants=instants))
    assert [instant.requested for instant in hidden] == ["2", "3"]
    with pytest.raises(Unreadable, match="they write and clean the table"):
        _since_the_last_write(SimpleNamespace(instants=instants[:3]))
