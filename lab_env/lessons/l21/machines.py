"""Stops and restarts workers of the lab's cluster, to simulate a power failure."""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import psutil

from lab_env.lab.faults.freeze import kill
from lab_env.lessons.l21.tasks import RunningTask, SparkPages
from lab_env.platform import services
from lab_env.platform.errors import LabError

AT_WORK_S = 0.1  # a task that has run for so long is in the middle of its work
POLL_S = 0.03
WITHIN_S = 120.0  # for a machine to be back, or a task to begin


@dataclass(frozen=True)
class Killed:
    """A query that survived the killing of an executor."""

    query: Any  # has ended
    attempt: int  # number of the query's start, from 1
    task: RunningTask  # on which the executor was working
    first_stage: int  # the newest before the query was started


def kill_while_it_works(
    spark, start: Callable[[int], Any], batch: int = 1, tries: int = 3
) -> Killed:
    """Start a query, kill an executor in the middle of a task, and wait until the query has ended.

    If no task ran long enough to be caught, start the query again.

    Args:
        start: starts the query; called with the attempt's number, from 1.
        batch: the first batch, counted from 0, in which an executor may be killed.

    Raises:
        LabError: no task was caught in any attempt.
    """
    pages = SparkPages(spark)
    for attempt in range(1, tries + 1):
        wait_for_executors(spark, len(alive_workers()))
        first_stage, query = pages.newest_stage(), start(attempt)
        task = _meet_task(pages, query, batch)
        if task is not None:
            kill(executor_pid(pages.application, task.executor))
        query.awaitTermination()
        if task is not None and _was_lost(pages, first_stage):
            return Killed(query, attempt, task, first_stage)
    raise LabError(
        f"In {tries} tries no task of the query was met at work.", "run this cell again."
    )


def _meet_task(pages: SparkPages, query, batch: int) -> RunningTask | None:
    """Wait for a running task of this or a later batch; None if the query ends first."""
    while query.isActive:
        report = query.lastProgress
        if report is not None and report["batchId"] >= batch - 1:
            task = pages.running()
            if task is not None and task.seconds >= AT_WORK_S:
                return task
        time.sleep(POLL_S)
    return None


def _was_lost(pages: SparkPages, after: int) -> bool:
    """True if Spark had to repeat a task or a stage since the given stage."""
    tasks = pages.tasks(after)
    return bool(((tasks["status"] != "SUCCESS") | (tasks["stage_try"] > 0)).any())


def executor_pid(application: str, executor: str) -> int:
    """Return the process id of an executor on one of the cluster's workers."""
    for worker in services.Cluster().workers():
        if (application, executor) in worker.executors:
            return worker.executors[application, executor]
    raise LabError(f"No worker runs executor {executor}.", "look at `lab status`.")


def alive_workers() -> list[int]:
    """Return the numbers of the workers that the master regards as alive."""
    return [worker.number for worker in services.Cluster().workers() if worker.alive]


def stop_worker(spark, number: int) -> None:
    """Stop worker 1 or 2 and its executor, and wait until Spark notices."""
    services.Cluster().stop_worker(number)
    wait_for_executors(spark, 1)


def start_worker(number: int) -> None:
    """Restart worker 1 or 2; some seconds later it has an executor for the session."""
    services.Cluster().start_worker(number)


def wait_for_executors(spark, count: int) -> None:
    """Wait up to two minutes until exactly `count` executors are alive."""
    pages, deadline = SparkPages(spark), time.monotonic() + WITHIN_S
    while len(found := pages.working()) != count:
        if time.monotonic() > deadline:
            raise LabError(
                f"{len(found)} executors are alive after {WITHIN_S:.0f} s; {count} are expected.",
                "look at `lab status` and `lab logs cluster`.",
            )
        time.sleep(0.1)


@contextmanager
def on_one_core(spark) -> Generator[bool]:
    """Pin all executors of a session to one core of this machine while the body runs.

    Yields:
        True if the executors were pinned, which only Linux and Windows allow.
    """
    pages = SparkPages(spark)
    wait_for_executors(spark, len(services.Cluster().workers()))
    if not hasattr(psutil.Process, "cpu_affinity"):
        yield False
        return
    found = [psutil.Process(executor_pid(pages.application, name)) for name in pages.working()]
    allowed = {process: process.cpu_affinity() for process in found}
    try:
        for process, cores in allowed.items():
            _tie(process, cores[:1])
        yield True
    finally:
        for process, cores in allowed.items():
            with suppress(psutil.NoSuchProcess):
                _tie(process, cores)


def _tie(process: psutil.Process, cores: list[int]) -> None:
    """Pin a process and its threads, which a JVM has already started, to these cores."""
    for thread in process.threads():
        with suppress(psutil.NoSuchProcess):
            psutil.Process(thread.id).cpu_affinity(cores)
    process.cpu_affinity(cores)
