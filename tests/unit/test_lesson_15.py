"""Lesson 15 explains Connect's refusals; its hidden data contain what shortcuts get wrong."""

import io
import random
import urllib.error
from collections import Counter
from decimal import Decimal
from email.message import Message
from types import SimpleNamespace

import pytest

from lab_env.lessons.l15 import figures
from lab_env.lessons.l15.checks import (
    TOLERANCE_BYTES,
    made_up_changes,
    made_up_pairs,
    made_up_records,
    made_up_slots,
    versions_of,
)
from lab_env.lessons.l15.figures import Connect, checkpoint_until_lost, draw_wal
from lab_env.platform.errors import LabError

SEEDS = pytest.mark.parametrize("seed", range(20))


@SEEDS
def test_made_up_records_have_deletes_tombstones_and_a_read_without_lsn(seed):
    records, changes = made_up_records(random.Random(seed))
    assert sum(change[-1] for change in changes) == sum(r[1] is None for r in records) == 3
    assert sum(b'"lsn": null' in value for _, value, *_ in records if value) == 1
    assert len({change[8] for change in changes}) == len(changes) - 3  # a snapshot has one
    assert max(Counter(change[0] for change in changes).values()) > 1


@SEEDS
def test_kept_and_confirmed_bytes_differ_by_more_than_the_tolerance(seed):
    slots = made_up_slots(random.Random(seed), end=17_000_000)
    ahead = [done - start for *_, start, done, _ in slots if start is not None and done is not None]
    assert min(ahead) > 5 * TOLERANCE_BYTES


@SEEDS
def test_one_made_up_order_changes_its_amount_alone_and_one_commits_out_of_order(seed):
    changes = made_up_changes(random.Random(seed))
    versions, by_lsn = versions_of(changes, (5, 6)), versions_of(changes, (6,))
    assert len({change[-1] for change in changes}) == len({*changes}) < len(changes)
    assert sum(versions[order] != by_lsn[order] for order in versions) == 1
    without_amount = [(order, status, 0, *rest) for order, status, _, *rest in changes]
    counts = [sum(map(len, v.values())) for v in (versions, versions_of(without_amount, (5, 6)))]
    assert counts[1] == counts[0] - 1


@SEEDS
@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        (lambda moment, commit, lsn, offset: (commit or lsn, lsn), set()),
        (lambda moment, commit, lsn, offset: (moment, lsn), {0}),
        (lambda moment, commit, lsn, offset: lsn, {1}),
        (lambda moment, commit, lsn, offset: (commit or lsn, -lsn), {2}),
        (lambda moment, commit, lsn, offset: (commit or 0, lsn), {3}),
        (lambda moment, commit, lsn, offset: offset, {4}),
        (lambda moment, commit, lsn, offset: str(lsn), {0, 3, 4}),
    ],
)
def test_each_made_up_pair_finds_another_wrong_rule(seed, place, wrong):
    changes, last = made_up_pairs(random.Random(seed))
    for number, (order, status) in enumerate(last):
        rows = [change for change in changes if change[0] == order]
        greatest = max(rows, key=lambda row: place(row[4], row[5], row[6], row[3]))
        assert (greatest[1] == status) == (number not in wrong)


class FakeDatabase:
    """A database that counts checkpoints, and loses its slot after `lost_after` of them."""

    def __init__(self, lost_after):
        self.checkpoints, self.lost_after = 0, lost_after

    def execute(self, statement, values=None):
        self.checkpoints += statement == "CHECKPOINT"
        return self

    def fetchone(self):
        return ("lost" if self.checkpoints >= self.lost_after else "reserved",)


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
        return Connect(SimpleNamespace(address=lambda service: f"http://{service}")), left

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
