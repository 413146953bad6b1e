"""Lesson 21 fits a line to batch times, kills an executor in a task, and reads Spark's tasks."""

import random
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from unittest.mock import Mock
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import psutil
import pytest

from lab_env.lessons.l21 import machines
from lab_env.lessons.l21.batches import RESOURCES, hidden_batches, made_up, six_batches
from lab_env.lessons.l21.capacity import Line, capacity_sheet, fit
from lab_env.lessons.l21.checks import Load, counts, made_up_lists
from lab_env.lessons.l21.figures import (
    LOST,
    OTHER,
    READS,
    WRITES,
    draw_batches,
    draw_tasks,
    kind_of,
)
from lab_env.lessons.l21.load import board, events_in_order, orders_as_sent
from lab_env.lessons.l21.measure import LEAST_GAIN, SIZES, gain
from lab_env.lessons.l21.tasks import (
    RunningTask,
    SparkPages,
    at_once,
    by_stage,
    row_of,
    table_of,
    writers,
)
from lab_env.platform.errors import LabError

TRUE = Line(a=1.3, b=0.0001)


def batches(noise: float = 0.0, rounds: int = 3, seed: int = 21) -> pd.DataFrame:
    """Return batch times of a machine that follows `TRUE`, with up to `noise` seconds of noise."""
    random = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "cores": cores,
            "rows": rows,
            "seconds": TRUE.seconds(rows, cores) + random.uniform(-noise, noise),
        }
        for cores in (1, 2)
        for rows in (2_416, 19_326)
        for _ in range(rounds)
    )


def test_the_line_of_exact_batches_is_found():
    fitted = fit(batches())
    assert fitted.line.a == pytest.approx(TRUE.a) and fitted.line.b == pytest.approx(TRUE.b)
    assert len(fitted.allowed) == 3**4
    assert fitted.a.high - fitted.a.low < 1e-9


def test_noise_widens_what_the_rounds_allow_and_the_truth_is_inside():
    quiet, loud = fit(batches(0.02)), fit(batches(0.4))
    assert loud.b.high - loud.b.low > quiet.b.high - quiet.b.low
    for fitted in (quiet, loud):
        assert fitted.a.low <= TRUE.a <= fitted.a.high
        assert fitted.b.low <= TRUE.b <= fitted.b.high


def test_one_amount_of_work_leaves_the_line_open():
    with pytest.raises(LabError, match="two different amounts"):
        fit(batches().query("cores == 1 and rows == 2416"))


def test_a_larger_batch_uses_more_cores():
    speedups = [TRUE.speedup(rows, 64) for rows in (2_416, 19_326, 2_000_000)]
    assert speedups == sorted(speedups) and 1 < speedups[0] < speedups[-1] < 64


def test_each_wrong_way_to_count_gives_another_number_in_each_list():
    for _ in range(50):
        for tasks in made_up_lists()[:-1]:
            assert len(set(counts(tasks).values())) == len(counts(tasks))


def test_the_lag_grows_by_what_the_cores_do_not_do():
    load = Load(rate=2_000, a=1.0, b=0.001, freshness=10, partitions=12)
    assert load.interval == 5 and load.exact == pytest.approx(2.5)
    assert load.behind(2) == pytest.approx(400)  # 2 cores do 8,000 rows in 4 of 5 s
    assert load.behind(3) == 0


TASK_LOST = pd.DataFrame({"status": ["SUCCESS", "FAILED"], "stage_try": [0, 0]})
RESULT_LOST = pd.DataFrame({"status": ["SUCCESS", "SUCCESS"], "stage_try": [0, 1]})
NOTHING = pd.DataFrame({"status": ["SUCCESS"], "stage_try": [0]})


class Query:
    """A query that completes one batch each time it is polled, and ends after `batches` of them."""

    def __init__(self, batches: int):
        self.looks = 0
        self.batches = batches

    @property
    def isActive(self) -> bool:
        self.looks += 1
        return self.looks <= self.batches

    @property
    def lastProgress(self) -> dict:
        return {"batchId": self.looks - 1}

    def awaitTermination(self) -> None:
        self.looks = self.batches + 1


@pytest.fixture
def cluster(monkeypatch):
    """Function that sets Spark's answers: at each poll the running task's age, then the tasks.

    It returns the list of killed process ids.
    """
    killed: list[int] = []
    monkeypatch.setattr(machines, "POLL_S", 0)
    monkeypatch.setattr(machines, "alive_workers", lambda: [1, 2])
    monkeypatch.setattr(machines, "wait_for_executors", lambda spark, count: None)
    monkeypatch.setattr(machines, "executor_pid", lambda application, executor: 4711)
    monkeypatch.setattr(machines, "kill", killed.append)

    def answers(seconds: list[float], tries: list[pd.DataFrame]) -> list[int]:
        running = [RunningTask(8, 0, "1", age) if age else None for age in seconds]
        pages = Mock(application="app-1", running=Mock(side_effect=running))
        pages.newest_stage.return_value, pages.tasks.side_effect = 7, tries
        monkeypatch.setattr(machines, "SparkPages", lambda spark: pages)
        return killed

    return answers


@pytest.mark.parametrize("left", [TASK_LOST, RESULT_LOST])
def test_the_executor_of_a_task_in_the_middle_of_its_work_is_killed(cluster, left):
    killed = cluster([0, 0.05, 0.3], [left])
    died = machines.kill_while_it_works(None, lambda attempt: Query(10))
    assert killed == [4711] and died.attempt == 1 and died.first_stage == 7
    assert died.task.seconds == 0.3


def test_a_kill_that_cost_nothing_is_tried_again_with_a_new_query(cluster):
    killed = cluster([0.3, 0.3], [NOTHING, TASK_LOST])
    started: list[int] = []

    def start(attempt):
        started.append(attempt)
        return Query(10)

    died = machines.kill_while_it_works(None, start)
    assert started == [1, 2] and died.attempt == 2 and len(killed) == 2


@pytest.mark.parametrize(
    ("ages", "batches", "options", "message"),
    [
        ([0] * 30, 5, {}, "In 3 tries no task"),
        # The batch that was asked for never comes.
        ([0.5], 2, {"batch": 4, "tries": 1}, "In 1 tries no task"),
    ],
)
def test_without_a_task_at_work_nothing_is_killed(cluster, ages, batches, options, message):
    killed = cluster(ages, [])
    with pytest.raises(LabError, match=message):
        machines.kill_while_it_works(None, lambda attempt: Query(batches), **options)
    assert killed == []


def test_where_no_program_can_choose_its_core_none_is_tied(monkeypatch):
    monkeypatch.setattr(machines.services.Cluster, "workers", lambda cluster: [])
    monkeypatch.setattr(machines, "SparkPages", lambda spark: None)
    monkeypatch.setattr(machines, "wait_for_executors", lambda spark, count: None)
    monkeypatch.delattr(psutil.Process, "cpu_affinity")
    with machines.on_one_core(None) as tied:
        assert not tied


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


@pytest.mark.parametrize(
    ("tasks", "most"),
    [
        # By Spark's rounded times the second one begins before the first one ends.
        ([answer(0, 1.0, 1.01), answer(1, 2.0)], 1),
        ([answer(0, 1.0), answer(1, 1.5, executor="1")], 2),
        ([answer(0, 1.0), answer(1, 1.98, executor="1")], 1),  # they only meet
        ([], 0),
    ],
)
def test_only_tasks_of_two_executors_that_overlap_are_at_once(tasks, most):
    assert at_once(tasks_of(*tasks)) == most


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


def test_the_board_as_sent_counts_each_order_once_in_its_newest_version():
    orders = orders_as_sent(2)
    assert orders["order_id"].is_unique and "erase" not in set(orders["op"])
    assert board(orders).sum() == pytest.approx(2 * board(orders_as_sent()).sum())


def test_the_gain_compares_the_fastest_large_batches():
    runs = batches(0.4)
    fastest = runs[runs["rows"] == max(SIZES.values())].groupby("cores")["seconds"].min()
    assert gain(runs) == pytest.approx(fastest[1] / fastest[2]) and gain(batches()) > LEAST_GAIN


def test_the_sheet_shows_a_range_of_cores_and_a_dash_for_none():
    def cores_for(rate, a, b, freshness, partitions):
        return None if freshness < 3 else round(rate * a)

    sheet = capacity_sheet(cores_for, fit(batches(0.2)), (1_000, 2_000), (2, 5), partitions=24)
    assert sheet["2 s"].tolist() == ["–", "–"]
    low, high = sheet.loc["1,000 events/s", "5 s"].split(" to ")
    assert int(low) < 1_300 < int(high)


def test_tasks_are_summed_up_by_stage():
    cached = {"shuffleReadMetrics": {"recordsRead": 30}}
    tasks = tasks_of(answer(0, 1.0), answer(1, 1.5, 2.0, taskMetrics=cached))
    (stage,) = by_stage(tasks).to_dict("records")
    assert stage == pytest.approx(
        {"tasks": 2, "lasts": 2.5, "longest": 2.0, "work": 3.0, "cpu": 0.8}
        | {"rows_read": 4_916, "rows_fetched": 30}
    )
    assert list(writers(tasks)["task"]) == [1]


def test_each_resource_holds_one_of_the_six_batches_and_the_picture_names_them():
    six = six_batches()
    assert {batch.held_by for batch in six.values()} == set(RESOURCES)
    text = "".join(ElementTree.fromstring(draw_batches(six)).itertext())
    assert all(letter in text for letter in six) and "executor 2" in text


@pytest.mark.parametrize("held", RESOURCES)
def test_what_holds_a_made_up_batch_takes_at_least_half_of_it(held):
    for seed in range(50):
        batch = made_up(held, random.Random(seed))
        busy = batch.stages["lasts"]
        assert batch.tasks["end"].max() <= batch.seconds + 1e-9
        if held == "commit":
            assert busy.sum() <= batch.seconds / 2 + 1e-9
        else:
            assert busy.max() >= batch.seconds / 2
        assert (held == "store") == (batch.tasks["cpu"].sum() < batch.stages["work"].sum() / 2)


def test_the_hidden_batches_have_every_resource_and_another_order_each_time():
    first, second = (list(hidden_batches(random.Random(seed))) for seed in (1, 2))
    assert {batch.held_by for batch in first} == set(RESOURCES)
    assert [batch.held_by for batch in first] != [batch.held_by for batch in second]
