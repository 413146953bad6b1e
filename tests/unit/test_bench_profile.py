"""`lab bench profile`: samples become shares of the time between two triggers."""

import pytest

from lab_env.lessons import recorded
from lab_env.lessons.recorded.profile import profile_chart, share_table
from lab_env.platform.display.chart import NAMES
from lab_env.workbench.bench import shares
from lab_env.workbench.bench.shares import Task, Timeline

FUNCTION = "Python: its function"
PRINTED = """
profiler.WallClockSample {
  startTime = 01:00:01.500
  sampledThread = "Executor task launch worker for task 0.0 (TID 1)" (javaThreadId = 9)
  state = "STATE_SLEEPING"
  samples = 3
  stackTrace = [
    java.lang.Thread.sleep(long) line: 0
    org.apache.spark.executor.Executor$TaskRunner.run() line: 12
  ]
}
"""


@pytest.mark.parametrize(
    ("stack", "table", "share"),
    [
        ("Thread.sleep;SystemClock.waitTillTime", shares.STREAM, "waiting for the trigger"),
        ("scala.Await;DAGScheduler.runJob;org.apache.hudi.X.commit", shares.STREAM, "a job"),
        ("DAGScheduler.runJob;org.apache.hudi.DirectWriteMarkers.all", shares.STREAM, "markers"),
        ("spark.util.ClosureCleaner.clean;DAGScheduler.runJob", shares.STREAM, "a job"),
        ("BasePythonRunner$ReaderIterator.hasNext;spark.Aggregator.combine", shares.TASK, "Python"),
        ("SizeEstimator.estimate;spark.shuffle.Write", shares.TASK, "combining"),
        ("nobody.knows", shares.TASK, "other"),
        ("worker (d.py:74);main (w.py:1094);read_int (s.py:594)", shares.WORKER, ""),
        ("x;main (w.py:9);dump_stream (s.py:1);func (w.py:2)", shares.WORKER, FUNCTION),
    ],
)
def test_the_first_known_frame_names_the_share(stack, table, share):
    assert shares.classify(stack, table) == share


def test_samples_of_a_thread_are_read_from_the_printed_recording():
    (thread,) = shares.timelines(PRINTED.splitlines())
    assert thread.name.endswith("(TID 1)")
    assert (thread.times, thread.ticks) == ([3601.5], [3])
    assert thread.at(3601.51) == (
        "java.lang.Thread.sleep;org.apache.spark.executor.Executor$TaskRunner.run"
    )
    assert thread.at(3601.4) == thread.at(3601.6) == ""


def test_the_shares_of_a_sink_add_up_to_the_window():
    job = "DAGScheduler.runJob"
    stream = Timeline(
        "stream execution thread for cow [id = 1]",
        [0.0, 2.0, 4.0],
        [200, 200, 100],
        ["SystemClock.waitTillTime", job, "org.apache.hudi.commit"],
    )
    worker = Timeline(
        "Executor task launch worker",
        [0.0, 2.5, 3.0],
        [250, 50, 200],
        ["getTask", "BasePythonRunner;.hudi.;Executor$TaskRunner.run", "getTask"],
    )
    python = {"Python: start": 0.25, "Python: its function": 0.75}
    found = shares.seconds((0, 5), [stream, worker], [Task("cow", 2.5, 3.0)], python)["cow"]
    assert sum(found.values()) == pytest.approx(5)
    assert found == pytest.approx(
        {
            "waiting for the trigger": 2,
            "waiting for a core": 1.5,
            "fetch": 0,
            "Python: start": 0.125,
            "Python: its function": 0.375,
            "commit": 1,
        }
    )


def test_a_task_is_found_on_the_thread_with_frames_of_its_sink():
    run = "Executor$TaskRunner.run"
    hudi = Timeline("Executor task 1", [0.0], [100], [f"org.apache.hudi.X;{run}"])
    files = Timeline("Executor task 2", [0.0], [100], [f"FileFormatWriter.execute;{run}"])
    tasks = [Task("json", 0, 1), Task("mor", 0, 1)]
    assert [thread for _, thread in shares.assign(tasks, [hudi, files])] == [files, hudi]


def test_the_workers_busy_time_divides_without_the_wait_for_a_task():
    lines = [
        "a (m.py:1);manager (d.py:204) 50",
        "a;manager (d.py:9);worker (d.py:74);main (w.py:1);read_command (w.py:2) 1",
        "a;manager (d.py:9);worker (d.py:74);main (w.py:1);dump_stream (s.py:1) 3",
    ]
    assert shares.python_parts(lines) == {"Python: start": 0.25, "Python: writing back": 0.75}
    assert shares.python_parts([]) == {}


def test_each_share_has_its_place_in_the_table():
    tables = (shares.STREAM, shares.TASK, shares.WORKER)
    names = {name for table in tables for name, _ in table} - {"", shares.JOB}
    assert names < set(shares.SHARES) and len(shares.SHARES) == len(set(shares.SHARES))


def test_the_recorded_profile_adds_up_to_the_time_between_two_triggers():
    run = recorded.delivered("profile")
    table = share_table(run)
    assert run["problems"] == [] and list(table) == [NAMES[sink] for sink in recorded.SINKS]
    assert set(table.index) < set(shares.SHARES) and table.sum().between(3.0, 3.3).all()
    assert "waiting for the trigger" in profile_chart(run)
