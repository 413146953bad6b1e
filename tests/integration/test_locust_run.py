"""A reader's locustfile runs as long as it should, tells its numbers, and leaves no process."""

import time

import psutil
import pytest
from own_lab import allowed

from lab_env.errors import LabError
from lab_env.lessons.l01.checks import shape_of
from lab_env.shop.locust_run import LocustRun

USER = """
import locust

class Clock(locust.User):
    wait_time = locust.constant_throughput(20)

    @locust.task
    def tell(self):
        locust.events.request.fire(
            request_type="CLOCK", name="tick", response_time=7, response_length=0,
            exception=Exception("every tenth fails") if CLOCKS.pop() % 10 == 0 else None,
        )

CLOCKS = list(range(10_000))
"""

SHAPE = """
import gevent
import locust

class Idle(locust.User):
    wait_time = locust.constant(1)

    @locust.task
    def nothing(self):
        pass

class Steps(locust.LoadTestShape):
    def tick(self):
        second = self.get_run_time()
        return (2, 2) if second < 1 else (6, 2) if second < 5 else None

@locust.events.test_start.add_listener
def watch(environment, **_):
    def tell():
        while True:
            print("USERS", environment.runner.user_count, flush=True)
            gevent.sleep(0.25)
    gevent.spawn(tell)
"""


def file_with(tmp_path, text):
    path = tmp_path / "a user.py"
    path.write_text(text)
    return path


def test_a_run_lasts_its_seconds_and_its_report_becomes_a_table(tmp_path):
    began = time.monotonic()
    with LocustRun(file_with(tmp_path, USER), users=5, seconds=2) as run:
        started = time.monotonic() - began
        pid = run._process.pid
    assert 2 <= time.monotonic() - began - started < 30  # its net ends it after 60
    assert not psutil.pid_exists(pid)
    (row,) = run.requests.to_dict("records")
    assert (row["type"], row["name"]) == ("CLOCK", "tick")
    # Beside other work it may get less done, never more.
    assert 0.8 * 5 * 20 * 2 / allowed(1) < row["requests"] < 1.2 * 5 * 20 * 2
    assert row["failures"] == pytest.approx(row["requests"] / 10, abs=1)
    assert row["p50_ms"] == row["p95_ms"] == 7
    assert "every tenth fails" in run.report


def test_a_file_that_does_not_load_is_told_with_locusts_words(tmp_path):
    with pytest.raises(LabError, match="did not start") as error:
        LocustRun(file_with(tmp_path, "import locust\nraise ValueError('no shop')")).start()
    assert "no shop" in error.value.log


def test_the_lessons_rule_about_shapes_is_locusts_own(tmp_path):
    with LocustRun(file_with(tmp_path, SHAPE), seconds=None, at_most=20) as run:
        pass
    seen = [int(line.split()[1]) for line in run.log.splitlines() if line.startswith("USERS")]
    steps = [users for users, before in zip(seen, [0, *seen], strict=False) if users != before]

    class Steps:
        def tick(self):
            second = self.get_run_time()
            return (2, 2) if second < 1 else (6, 2) if second < 5 else None

    expected = shape_of(Steps.tick).users
    assert expected == (2, 4, 6, 6, 6)
    assert steps[-1] == 0 or steps[-1] == 6
    assert [users for users in steps if users] == [2, 4, 6]
    assert seen.count(6) == pytest.approx(4 * expected.count(6), abs=4)
