"""A writer's handle says how far it is behind, also on a topic that grows meanwhile."""

import pytest

from lab_env.pipeline.handle import Writer
from lab_env.settings import Endpoints

HERE = Endpoints("http://127.0.0.1:1", "key", "secret", "us-east-1", "lakehouse", "127.0.0.1:1")


@pytest.fixture
def writer(home, monkeypatch):
    reached = {"cow": {0: 10, 1: 7}, "mor": {}}
    monkeypatch.setattr(Writer, "committed", lambda self, endpoints: reached)
    return Writer("writer-test")


def test_what_a_sink_has_read_beyond_the_given_offsets_makes_up_for_nothing(writer):
    assert writer.lag(HERE, {0: 12, 1: 4}) == {"cow": 2, "mor": 16}


def test_a_sink_that_is_beyond_the_given_offsets_is_not_behind(writer):
    """Otherwise whoever waits for it while events are sent waits for ever."""
    assert writer.lag(HERE, {0: 9, 1: 7})["cow"] == 0
