"""Locust users run in this process for the requested time, and their reports are stored.

As in a notebook cell, an asyncio loop is already running.
"""

import asyncio
import os
import subprocess
import sys
import time

import pytest
from gevent import monkey
from own_lab import allowed

from lab_env.lessons.l01.checks import users_of
from lab_env.platform.errors import LabError
from lab_env.shop.locust_run import LocustRun, gevent, locust


class Clock(locust.User):
    """A user that reports twenty requests per second, every tenth of which fails."""

    wait_time = locust.constant_throughput(20)
    count = 0

    @locust.task
    def tell(self):
        Clock.count += 1
        self.environment.events.request.fire(
            request_type="CLOCK",
            name="tick",
            response_time=7,
            response_length=0,
            exception=Exception("every tenth") if Clock.count % 10 == 0 else None,
            context={"number": Clock.count},
        )


class Steps(locust.LoadTestShape):
    """A load shape: two users, then six, then the end."""

    def tick(self):
        second = self.get_run_time()
        return (2, 2) if second < 1 else (6, 2) if second < 5 else None


def run(*arguments, body=lambda done: None, **options) -> LocustRun:
    """Run users as a notebook's cell does: in a thread whose asyncio loop waits for the cell."""

    async def cell() -> LocustRun:
        with LocustRun(*arguments, **options) as done:
            body(done)
        return done

    return asyncio.run(cell())


def test_a_run_lasts_its_seconds_and_its_reports_become_tables():
    began = time.monotonic()
    done = run(Clock, users=5, seconds=2)
    elapsed = time.monotonic() - began
    assert elapsed >= 2
    (row,) = done.requests.to_dict("records")
    assert (row["type"], row["name"], row["p50_ms"], row["p95_ms"]) == ("CLOCK", "tick", 7, 7)
    # Beside other work it may get less done, never more.
    assert 0 < row["requests"] < 1.2 * 5 * 20 * 2
    assert row["failures"] == pytest.approx(row["requests"] / 10, abs=1)
    reports = done.reports
    assert len(reports) == row["requests"] and reports["number"].is_unique
    assert reports["failed"].sum() == row["failures"]
    assert reports["second"].is_monotonic_increasing and reports["second"].max() < elapsed


def test_the_body_of_a_run_runs_beside_its_users():
    seen = []

    def look(done: LocustRun) -> None:
        with gevent.Timeout(allowed(10)):
            while done.reports.empty:
                gevent.sleep(0.05)
        seen.append(len(done.reports))

    done = run(Clock, users=1, seconds=2, body=look)
    assert 0 < seen[0] < len(done.reports)


def test_what_a_task_raises_is_kept_and_told(capsys):
    class Broken(locust.User):
        wait_time = locust.constant(0.05)

        @locust.task
        def fail(self):
            raise KeyError("amount")

    done = run(Broken, users=1, seconds=1)
    assert "'amount'" in str(done.errors[0])
    assert "tasks failed, the first with KeyError" in capsys.readouterr().err
    with pytest.raises(LabError, match="no requests"):
        _ = done.requests


def test_an_error_of_a_shape_ends_the_run():
    class Wrong(locust.LoadTestShape):
        def tick(self):
            return 1 / 0

    with pytest.raises(ZeroDivisionError):
        run(Clock, shape=Wrong)


def test_a_run_without_an_end_is_refused():
    with pytest.raises(LabError, match="no end"):
        LocustRun(Clock)


def test_the_lessons_rule_about_shapes_is_locusts_own():
    done = run(Clock, shape=Steps, at_most=20)
    halves, _ = users_of(Steps)
    assert halves[1::2] == [2, 4, 6, 6, 6]
    counts = list(done.user_counts)
    steps = [users for users, before in zip(counts, [0, *counts], strict=False) if users != before]
    assert [users for users in steps if users] == [2, 4, 6]
    # The last step has three calls of `tick`, one a second; a busy machine begins it late.
    at_six = done.user_counts.index[done.user_counts == 6]
    assert at_six[-1] - at_six[0] >= 1


def test_locust_leaves_this_process_as_it_was_and_its_programs_patched():
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import lab_env.shop.locust_run, os, gevent.monkey, locust;"
            "print(gevent.monkey.saved, os.environ.get('LOCUST_SKIP_MONKEY_PATCH'))",
        ],
        env={name: value for name, value in os.environ.items() if not name.startswith("LOCUST_")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "{} None"
    assert monkey.saved == {}
