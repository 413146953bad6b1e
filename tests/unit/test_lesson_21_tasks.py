"""Lesson 21 reads Spark's list of tasks, and draws the tasks of each executor."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from lab_env.lessons.l21.figures import (
    LOST,
    OTHER,
    READS,
    WRITES,
    draw_tasks,
    kind_of,
)
from lab_env.lessons.l21.load import events_in_order
from lab_env.lessons.l21.tasks import SparkPages, at_once, row_of, table_of

STAGE = {"stageId": 7, "attemptId": 1, "name": "start at line 1", "description": "batch = 1"}


def answer(index, second, seconds=1.0, executor="0", **more) -> dict:
    """Return a task as Spark's REST API reports it; `second` is its start within a minute."""
    whole, part = divmod(second, 1)
    return {
        "index": index,
        "attempt": 0,
        "status": "SUCCESS",
        "executorId": executor,
        "launchTime": f"2026-11-23T05:17:{int(whole):02}.{int(part * 1000):03}GMT",
        "duration": int(seconds * 1000),
        "taskMetrics": {
            "executorCpuTime": 800_000_000,
            "inputMetrics": {"recordsRead": 4_916, "bytesRead": 0},
            "shuffleReadMetrics": {"recordsRead": 0},
        },
    } | more


def tasks_of(*answers):
    return table_of(row_of(STAGE, task) for task in answers)


def test_a_task_of_the_rest_interface_becomes_a_row():
    (row,) = tasks_of(answer(3, 44.123, 1.5)).to_dict("records")
    expected = {"stage": 7, "stage_try": 1, "task": 3, "start": 0.0, "rows_read": 4_916, "cpu": 0.8}
    assert {name: row[name] for name in expected} == expected
    assert row["end"] == pytest.approx(1.5) and row["doing"] == "batch = 1" and row["error"] == ""


def test_a_task_without_metrics_yet_is_a_row_of_zeros():
    (row,) = tasks_of(answer(3, 44.1, taskMetrics={}, status="RUNNING")).to_dict("records")
    assert row["cpu"] == row["rows_read"] == row["rows_fetched"] == 0


def test_the_age_of_a_running_task_counts_from_its_launch(monkeypatch):
    # While a task runs, Spark keeps the duration that it noted down last, at first 0.
    def launched(seconds_ago: float) -> str:
        then = datetime.now(UTC) - timedelta(seconds=seconds_ago)
        return f"{then:%Y-%m-%dT%H:%M:%S}.{then.microsecond // 1000:03}GMT"

    tasks = [
        answer(0, 0, 0.0, status="RUNNING", launchTime=launched(2)),
        answer(1, 0, 0.0, status="RUNNING", launchTime=launched(5)),
        answer(2, 0, 9.0, launchTime=launched(9)),
    ]
    pages = SparkPages(
        SimpleNamespace(sparkContext=SimpleNamespace(applicationId="a", uiWebUrl=""))
    )
    monkeypatch.setattr(pages, "get", lambda path: tasks if "taskList" in path else [STAGE])
    longest = pages.running()
    assert longest.task == 1 and 5 <= longest.seconds < 6


def test_tasks_of_one_executor_are_never_at_once():
    # By Spark's rounded times the second one begins before the first one ends.
    assert at_once(tasks_of(answer(0, 1.0, 1.01), answer(1, 2.0))) == 1


def test_tasks_of_two_executors_that_overlap_are_at_once():
    assert at_once(tasks_of(answer(0, 1.0), answer(1, 1.5, executor="1"))) == 2


def test_tasks_that_only_meet_are_not_at_once():
    assert at_once(tasks_of(answer(0, 1.0), answer(1, 1.98, executor="1"))) == 1
    assert at_once(tasks_of()) == 0


def test_what_a_task_does_is_known_by_where_its_rows_come_from():
    cached = {"inputMetrics": {"recordsRead": 3_000, "bytesRead": 9_000}}
    fetched = {"shuffleReadMetrics": {"recordsRead": 3_000}}
    tasks = tasks_of(
        answer(0, 1.0), answer(1, 2.0, taskMetrics=fetched), answer(2, 3.0, taskMetrics=cached)
    )
    assert [kind_of(task) for task in tasks.itertuples()] == [READS, WRITES, OTHER]


def test_the_picture_of_tasks_has_a_row_per_executor_and_names_what_was_lost():
    tasks = tasks_of(answer(0, 1.0), answer(1, 1.0, executor="12"), answer(2, 2.0, status="FAILED"))
    drawing = draw_tasks({"a batch": tasks, "another": tasks})
    text = "".join(ElementTree.fromstring(drawing).itertext())
    assert text.count("executor 12") == 2 and LOST in text and "another" in text


def test_the_last_event_of_each_order_is_its_newest_and_shops_share_no_ids():
    sends = list(events_in_order(2))
    newest: dict[str, int] = {}
    for send in sends:
        assert send.order_ts >= newest.get(send.order_id, 0)
        newest[send.order_id] = send.order_ts
    assert (
        len({send.event_id for send in sends})
        == len({send.send_id for send in sends})
        == len(sends)
    )
    assert all(send.order_id.encode() in send.value for send in sends)
    assert all(send.event_id.encode() in send.value for send in sends)
