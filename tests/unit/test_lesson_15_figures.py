"""Lesson 15 draws WAL positions, and turns Connect's refusals into errors with a next step."""

import io
import urllib.error
from datetime import UTC, datetime
from decimal import Decimal
from email.message import Message

import pandas as pd
import pytest

from lab_env.lessons.l15 import figures
from lab_env.lessons.l15.figures import (
    Connect,
    Lane,
    checkpoint_until_lost,
    draw_lanes,
    draw_versions,
    draw_wal,
)
from lab_env.platform.errors import LabError

NOON = datetime(2026, 11, 20, 12, 0, 0, 250_000, tzinfo=UTC)


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

    def topic(self, name):
        return name


def refusal(code, text):
    return urllib.error.HTTPError("http://connect", code, "", Message(), io.BytesIO(text))


def test_lanes_show_when_each_transaction_began_changed_and_committed():
    lanes = [
        Lane("A", NOON, Decimal(1000), 1900, Decimal(2000)),
        Lane("B", NOON, Decimal(1000), 1500, Decimal(1900)),
    ]
    drawing = draw_lanes(lanes)
    assert drawing.startswith("<svg")
    texts = ("now() = 12:00:00.250", "begins", "changes O-17", "commits", "1,500", "2,000")
    assert all(text in drawing for text in texts)


def test_a_lost_slot_is_a_cross_and_not_a_bar_of_zero():
    for nothing in (None, 0):
        drawing = draw_wal([("stopped", Decimal(2**20)), ("limit of 4 MB", nothing)], limit_mb=4)
        assert ">1.0<" in drawing and ">0.0<" not in drawing and ">lost<" in drawing


def test_a_version_without_an_end_reaches_the_end_of_the_chart():
    versions = pd.DataFrame(
        {
            "order_id": ["O-1", "O-1"],
            "status": ["new", "paid"],
            "amount": [Decimal("5.00")] * 2,
            "valid_from": [1000, 2000],
            "valid_to": [2000, None],
        }
    )
    drawing = draw_versions(versions)
    assert all(text in drawing for text in ("O-1", "new", "paid", "1,000", "2,000"))


def test_a_refusal_has_connects_reason_without_its_stack_trace(monkeypatch):
    def refuse(method, url, body, timeout):
        raise refusal(400, b'{"error_code": 400, "message": "No such topic\\n at java.lang"}')

    monkeypatch.setattr(figures, "request_json", refuse)
    with pytest.raises(LabError, match=r"refuses PUT /connectors: No such topic") as error:
        Connect(FakeLab()).put("/connectors", {})
    assert "java" not in str(error.value)


def test_a_worker_that_is_still_changing_a_state_is_asked_again(monkeypatch):
    answers = iter([refusal(409, b"rebalancing"), {"state": "ok"}])

    def answer(method, url, body, timeout):
        found = next(answers)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(figures, "request_json", answer)
    assert Connect(FakeLab()).get("/connectors") == {"state": "ok"}


def test_a_worker_that_does_not_answer_names_the_command_that_starts_it(monkeypatch):
    def refuse(method, url, body, timeout):
        raise ConnectionRefusedError("refused")

    monkeypatch.setattr(figures, "request_json", refuse)
    with pytest.raises(LabError, match="lab up connect"):
        Connect(FakeLab()).get("/connectors")


def test_a_connector_is_stopped_when_its_tasks_are_gone(monkeypatch):
    stopped = {"connector": {"state": "STOPPED"}, "tasks": []}
    answers = iter([{**stopped, "tasks": [{"id": 0}]}, stopped])
    monkeypatch.setattr(figures, "request_json", lambda *call, timeout: next(answers))
    Connect(FakeLab()).wait_until("/status", "STOPPED")
    assert next(answers, None) is None


def test_to_watch_is_to_ask_more_than_once_however_short_the_time(monkeypatch):
    answers = iter(range(100))
    monkeypatch.setattr(figures, "request_json", lambda *call, timeout: next(answers))
    monkeypatch.setattr(figures.time, "sleep", lambda seconds: None)
    assert Connect(FakeLab()).watch("/status", seconds=0) == [0, 1]


def test_a_state_that_never_comes_is_an_error_that_names_the_log(monkeypatch):
    monkeypatch.setattr(figures, "TIMEOUT_S", 0)
    running = {"connector": {"state": "RUNNING"}, "tasks": []}
    monkeypatch.setattr(figures, "request_json", lambda *call, timeout: running)
    with pytest.raises(LabError, match="is RUNNING, not STOPPED") as error:
        Connect(FakeLab()).wait_until("/status", "STOPPED")
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
