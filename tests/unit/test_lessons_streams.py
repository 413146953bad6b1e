"""An answer cannot make a check wait forever, and streams that it leaves running are stopped."""

import threading
from types import SimpleNamespace

import pytest

from lab_env.lessons.streams import own_streams_stopped


class Query:
    def __init__(self, session, name: str):
        self.id, self.ended, self._active = name, threading.Event(), session.streams.active
        self._active.append(self)

    def stop(self) -> None:
        self._active.remove(self)
        self.ended.set()


@pytest.fixture
def spark():
    return SimpleNamespace(streams=SimpleNamespace(active=[]))


def test_what_a_function_leaves_running_is_stopped_and_what_ran_before_goes_on(spark):
    lesson = Query(spark, "lesson")
    with own_streams_stopped(spark, 60) as stopped:
        Query(spark, "left")
    assert (stopped.late, stopped.left) == (False, True)
    assert spark.streams.active == [lesson]


def test_a_function_that_waits_in_vain_goes_on_when_its_time_is_up(spark):
    with own_streams_stopped(spark, 0.05) as stopped:
        assert Query(spark, "waited for").ended.wait(10)
        assert stopped.late
    assert not stopped.left


def test_after_an_error_nothing_runs_on(spark):
    with pytest.raises(ValueError, match="typing"), own_streams_stopped(spark, 60):
        Query(spark, "left")
        raise ValueError("typing")
    assert spark.streams.active == []


def test_what_may_be_left_runs_on(spark):
    with own_streams_stopped(spark, 60, may_leave=True) as stopped:
        left = Query(spark, "left")
    assert spark.streams.active == [left] and not stopped.at_all
