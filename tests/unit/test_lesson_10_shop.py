"""Lesson 10's shop reads a table while a write to it is in progress."""

import threading
from types import SimpleNamespace

import pytest

from lab_env.lessons.l10.shop import read_during


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
