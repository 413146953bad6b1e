"""Queries a running Spark for its executors, stages and tasks through its monitoring REST API.

The driver serves the API next to its web page (Spark's monitoring guide, "REST API"). Tables have
one row per attempt of a task: a task that failed and ran again has two.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, build_opener

import pandas as pd

from lab_env.platform.errors import LabError

DRIVER = "driver"
MANY = 20  # rows through a shuffle: more than the counts that a small step fetches
MARGIN_S = 0.02  # at both ends of a task, when it is asked whether two overlap
SETTLE_S = 0.2  # between two looks at a list of tasks that still changes
SETTLED_WITHIN_S = 5.0
COLUMNS = (
    *("stage", "stage_try", "doing", "task", "attempt", "status", "executor", "start", "end"),
    *("cpu", "rows_read", "rows_fetched", "bytes_cached", "error"),
)
ENDED = ("SUCCESS", "FAILED", "KILLED")


@dataclass(frozen=True)
class RunningTask:
    """A task that was running when Spark was queried."""

    stage: int
    task: int
    executor: str
    seconds: float  # since its launch


class SparkPages:
    """The REST API of one Spark session."""

    def __init__(self, spark):
        context = spark.sparkContext
        self.application = context.applicationId
        self._url = f"{context.uiWebUrl}/api/v1/applications/{self.application}"
        self._open = build_opener(ProxyHandler({})).open  # the page is on this machine

    def get(self, path: str):
        """Return the API's response, for example to `/allexecutors`."""
        try:
            with self._open(f"{self._url}{path}", timeout=60) as answer:
                return json.load(answer)
        except HTTPError:
            raise
        except (URLError, OSError) as error:
            raise LabError(
                f"Spark's pages at {self._url} do not answer: {error}.", "start the session again."
            ) from None

    def executors(self) -> pd.DataFrame:
        """Return driver and executors: id, cores, alive or not, tasks done, reason for removal."""
        rows = [
            {
                "executor": found["id"],
                "cores": found["totalCores"],
                "alive": found["isActive"],
                "tasks done": found["completedTasks"],
                "removed because": found.get("removeReason", ""),
            }
            for found in self.get("/allexecutors")
        ]
        return pd.DataFrame(rows).sort_values("executor", key=_by_number, ignore_index=True)

    def working(self) -> list[str]:
        """Return the ids of the executors that are alive, except the driver."""
        found = self.executors()
        return [name for name in found[found["alive"]]["executor"] if name != DRIVER]

    def newest_stage(self) -> int:
        """Return the number of the newest stage; -1 before the first one."""
        return max((stage["stageId"] for stage in self.get("/stages")), default=-1)

    def tasks(self, after: int = -1) -> pd.DataFrame:
        """Return every attempt of every task in the stages after a given one.

        Spark's list lags behind its work, so it is read until it no longer changes.

        Returns:
            One row per attempt: stage, stage_try, doing (the stage's name), task, attempt, status
            (SUCCESS, FAILED, KILLED, RUNNING), executor, start and end (seconds since the first of
            these tasks), cpu (seconds), rows_read (from a stream's source or Spark's cache),
            rows_fetched (through a shuffle), bytes_cached (read from Spark's cache) and error.
        """
        deadline, before = time.monotonic() + SETTLED_WITHIN_S, self._tries(after)
        while time.monotonic() < deadline:
            time.sleep(SETTLE_S)
            now = self._tries(after)
            if now == before and all(row["status"] in ENDED for row in now):
                break
            before = now
        return table_of(before)

    def tasks_of(self, start: Callable, *given, **named) -> pd.DataFrame:
        """Run a stream to its end and return its tasks; `start` returns the running query."""
        before = self.newest_stage()
        start(*given, **named).awaitTermination()
        return self.tasks(after=before)

    def running(self) -> RunningTask | None:
        """Return the task that has run the longest; None if none is running.

        Its age is computed from its launch time, because the API's duration of a running task is
        only what the driver last recorded, which is 0 for most of a short task.
        """
        now = datetime.now(UTC).timestamp()
        found = [
            RunningTask(
                stage=stage["stageId"],
                task=task["index"],
                executor=task["executorId"],
                seconds=now - _seconds(task["launchTime"]),
            )
            for stage in self.get("/stages?status=active")
            for task in self._task_list(stage)
            if task["status"] == "RUNNING"
        ]
        return max(found, key=lambda task: task.seconds, default=None)

    def _tries(self, after: int) -> list[dict]:
        stages = [s for s in self.get("/stages") if s["stageId"] > after]
        return [
            row_of(stage, task)
            for stage in stages
            if stage["status"] != "SKIPPED"
            for task in self._task_list(stage)
        ]

    def _task_list(self, stage: dict) -> list[dict]:
        path = f"/stages/{stage['stageId']}/{stage['attemptId']}/taskList?length=10000"
        try:
            return self.get(path)
        except HTTPError:  # a stage that has not started yet has no list
            return []


def row_of(stage: dict, task: dict) -> dict:
    """Convert an attempt of a task from the API's `taskList` to a row of `SparkPages.tasks`."""
    metrics = task.get("taskMetrics", {})
    read, shuffled = metrics.get("inputMetrics", {}), metrics.get("shuffleReadMetrics", {})
    start = _seconds(task["launchTime"])
    return {
        "stage": stage["stageId"],
        "stage_try": stage["attemptId"],
        "doing": stage.get("description") or stage["name"],
        "task": task["index"],
        "attempt": task["attempt"],
        "status": task["status"],
        "executor": task["executorId"],
        "start": start,
        "end": start + task.get("duration", 0) / 1000,
        "cpu": metrics.get("executorCpuTime", 0) / 1e9,
        "rows_read": read.get("recordsRead", 0),
        "rows_fetched": shuffled.get("recordsRead", 0),
        "bytes_cached": read.get("bytesRead", 0),
        "error": task.get("errorMessage", ""),
    }


def table_of(rows: Iterable[dict]) -> pd.DataFrame:
    """Return the attempts as a table sorted by start, with times relative to the first one."""
    found = pd.DataFrame(list(rows), columns=list(COLUMNS))
    found = found.sort_values(["start", "stage", "task"], ignore_index=True)
    if len(found):
        first = found["start"].min()
        found[["start", "end"]] = found[["start", "end"]] - first
    return found


def by_stage(tasks: pd.DataFrame) -> pd.DataFrame:
    """Sum up tasks by stage.

    Returns:
        One row per stage: tasks (their number), lasts (seconds from the first start to the last
        end), longest (seconds of the longest task), work (seconds of all tasks), cpu (seconds),
        rows_read and rows_fetched.
    """
    work = tasks.assign(work=tasks["end"] - tasks["start"])
    found = work.groupby("stage").agg(
        tasks=("task", "size"),
        first=("start", "min"),
        last=("end", "max"),
        longest=("work", "max"),
        work=("work", "sum"),
        cpu=("cpu", "sum"),
        rows_read=("rows_read", "sum"),
        rows_fetched=("rows_fetched", "sum"),
    )
    found.insert(1, "lasts", found["last"] - found["first"])
    return found.drop(columns=["first", "last"])


def writers(tasks: pd.DataFrame) -> pd.DataFrame:
    """Return the tasks that wrote the table: the last stage that got many rows by a shuffle."""
    fetched = tasks[tasks["rows_fetched"] >= MANY]
    return fetched[fetched["stage"] == fetched["stage"].max()]


def at_once(tasks: pd.DataFrame) -> int:
    """Return the largest number of executors that worked simultaneously.

    Overlaps of a few hundredths of a second are ignored, because Spark's times are rounded and
    come from different processes.
    """
    changes = sorted(
        change
        for task in tasks.itertuples()
        if task.end - task.start > 2 * MARGIN_S
        for change in (
            (task.start + MARGIN_S, 1, task.executor),
            (task.end - MARGIN_S, -1, task.executor),
        )
    )
    busy: Counter[str] = Counter()
    most = 0
    for _, change, executor in changes:
        busy[executor] += change
        most = max(most, sum(count > 0 for count in busy.values()))
    return most


def _seconds(text: str) -> float:
    """Convert Spark's times, such as `2026-11-23T05:17:44.123GMT`, to seconds since 1970."""
    moment = datetime.strptime(text.removesuffix("GMT"), "%Y-%m-%dT%H:%M:%S.%f")
    return moment.replace(tzinfo=UTC).timestamp()


def _by_number(names: pd.Series) -> pd.Series:
    """Return sort keys for executors: by number, with the driver first."""
    return names.map(lambda name: -1 if name == DRIVER else int(name))
