"""Lesson 21 kills an executor only during a task, and pins it to a core only where possible."""

import pandas as pd
import psutil
import pytest

from lab_env.lessons.l21 import machines
from lab_env.lessons.l21.tasks import RunningTask
from lab_env.platform.errors import LabError

LOST = pd.DataFrame({"status": ["SUCCESS", "FAILED"], "stage_try": [0, 0]})
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


class Pages:
    """Stand-in for `SparkPages`: at each poll, the running task's age in seconds, or the tasks."""

    application = "app-1"

    def __init__(self, seconds: list[float], tries: list[pd.DataFrame]):
        self.seconds, self.tries = iter(seconds), iter(tries)

    def newest_stage(self) -> int:
        return 7

    def running(self) -> RunningTask | None:
        seconds = next(self.seconds)
        return RunningTask(8, 0, "1", seconds) if seconds else None

    def tasks(self, after: int) -> pd.DataFrame:
        return next(self.tries)


@pytest.fixture
def cluster(monkeypatch):
    """A cluster whose executors run as process 4711.

    Returns:
        A function that sets Spark's answers, and returns the list of killed process ids.
    """
    killed: list[int] = []
    monkeypatch.setattr(machines, "POLL_S", 0)
    monkeypatch.setattr(machines, "alive_workers", lambda: [1, 2])
    monkeypatch.setattr(machines, "wait_for_executors", lambda spark, count: None)
    monkeypatch.setattr(machines, "executor_pid", lambda application, executor: 4711)
    monkeypatch.setattr(machines, "kill", killed.append)

    def answers(seconds: list[float], tries: list[pd.DataFrame]) -> list[int]:
        pages = Pages(seconds, tries)
        monkeypatch.setattr(machines, "SparkPages", lambda spark: pages)
        return killed

    return answers


@pytest.mark.parametrize("left", [LOST, RESULT_LOST])
def test_the_executor_of_a_task_in_the_middle_of_its_work_is_killed(cluster, left):
    killed = cluster([0, 0.05, 0.3], [left])
    died = machines.kill_while_it_works(None, lambda attempt: Query(10))
    assert killed == [4711] and died.attempt == 1 and died.first_stage == 7
    assert died.task.seconds == 0.3


def test_a_kill_that_cost_nothing_is_tried_again_with_a_new_query(cluster):
    killed = cluster([0.3, 0.3], [NOTHING, LOST])
    started: list[int] = []

    def start(attempt):
        started.append(attempt)
        return Query(10)

    died = machines.kill_while_it_works(None, start)
    assert started == [1, 2] and died.attempt == 2 and len(killed) == 2


def test_after_three_queries_without_a_task_at_work_it_says_so(cluster):
    killed = cluster([0] * 30, [])
    with pytest.raises(LabError, match="In 3 tries no task"):
        machines.kill_while_it_works(None, lambda attempt: Query(5))
    assert killed == []


def test_before_the_batch_that_was_asked_for_nothing_is_killed(cluster):
    killed = cluster([0.5], [])
    with pytest.raises(LabError):
        machines.kill_while_it_works(None, lambda attempt: Query(2), batch=4, tries=1)
    assert killed == []


def test_where_no_program_can_choose_its_core_none_is_tied(monkeypatch):
    monkeypatch.setattr(machines.services.Cluster, "workers", lambda cluster: [])
    monkeypatch.setattr(machines, "SparkPages", lambda spark: None)
    monkeypatch.setattr(machines, "wait_for_executors", lambda spark, count: None)
    monkeypatch.delattr(psutil.Process, "cpu_affinity")
    with machines.on_one_core(None) as tied:
        assert not tied
