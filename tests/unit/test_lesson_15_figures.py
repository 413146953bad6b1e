"""Lesson 15 draws a slot's WAL, and turns Connect's refusals into errors with a next step."""

import io
import urllib.error
from decimal import Decimal
from email.message import Message

import pytest

from lab_env.lessons.l15 import figures
from lab_env.lessons.l15.figures import Connect, checkpoint_until_lost, draw_wal
from lab_env.platform.errors import LabError


class FakeDatabase:
    """A database that counts checkpoints, and loses its slot after `lost_after` of them."""

    def __init__(self, lost_after):
        self.checkpoints, self.lost_after = 0, lost_after

    def execute(self, statement, values=None):
        self.checkpoints += statement == "CHECKPOINT"
        return self

    def fetchone(self):
        return ("lost" if self.checkpoints >= self.lost_after else "reserved",)


class FakeLab:
    def address(self, service):
        return f"http://{service}"


def refusal(code, text):
    return urllib.error.HTTPError("http://connect", code, "", Message(), io.BytesIO(text))


def test_a_lost_slot_is_a_cross_and_not_a_bar_of_zero():
    for nothing in (None, 0):
        drawing = draw_wal([("stopped", Decimal(2**20)), ("limit of 4 MB", nothing)], limit_mb=4)
        assert ">1.0<" in drawing and ">0.0<" not in drawing and ">lost<" in drawing


@pytest.fixture
def connect(monkeypatch):
    """Function that returns a client with queued answers of Connect, and the unused answers."""

    def with_answers(*answers):
        left = list(answers)

        def answer(method, url, body, timeout):
            found = left.pop(0)
            if isinstance(found, Exception):
                raise found
            return found

        monkeypatch.setattr(figures, "request_json", answer)
        return Connect(FakeLab()), left

    return with_answers


def test_a_refusal_has_connects_reason_without_its_stack_trace(connect):
    text = b'{"error_code": 400, "message": "No such topic\\n at java.lang"}'
    client, _ = connect(refusal(400, text))
    with pytest.raises(LabError, match=r"refuses PUT /connectors: No such topic") as error:
        client.put("/connectors", {})
    assert "java" not in str(error.value)


def test_a_worker_that_is_still_changing_a_state_is_asked_again(connect):
    client, _ = connect(refusal(409, b"rebalancing"), {"state": "ok"})
    assert client.get("/connectors") == {"state": "ok"}


def test_a_worker_that_does_not_answer_names_the_command_that_starts_it(connect):
    client, _ = connect(ConnectionRefusedError("refused"))
    with pytest.raises(LabError, match="lab up connect"):
        client.get("/connectors")


def test_a_connector_is_stopped_when_its_tasks_are_gone(connect):
    stopped = {"connector": {"state": "STOPPED"}, "tasks": []}
    client, left = connect({**stopped, "tasks": [{"id": 0}]}, stopped)
    client.wait_until("/status", "STOPPED")
    assert not left


def test_to_watch_is_to_ask_more_than_once_however_short_the_time(connect, monkeypatch):
    client, _ = connect(*range(100))
    monkeypatch.setattr(figures.time, "sleep", lambda seconds: None)
    assert client.watch("/status", seconds=0) == [0, 1]


def test_a_state_that_never_comes_is_an_error_that_names_the_log(connect, monkeypatch):
    monkeypatch.setattr(figures, "TIMEOUT_S", 0)
    client, _ = connect(*[{"connector": {"state": "RUNNING"}, "tasks": []}] * 100)
    with pytest.raises(LabError, match="is RUNNING, not STOPPED") as error:
        client.wait_until("/status", "STOPPED")
    assert "lab logs connect" in str(error.value)


def test_a_checkpoint_that_came_before_the_new_limit_is_followed_by_another():
    database = FakeDatabase(lost_after=3)
    checkpoint_until_lost(database, "orders")
    assert database.checkpoints == 3


def test_a_slot_that_is_never_lost_is_an_error_that_names_the_setting(monkeypatch):
    monkeypatch.setattr(figures, "TIMEOUT_S", 0)
    with pytest.raises(LabError, match="orders is reserved, not lost") as error:
        checkpoint_until_lost(FakeDatabase(lost_after=1000), "orders")
    assert "max_slot_wal_keep_size" in str(error.value)
