"""The benchmark on the running services: right answers, exact counts, nothing left behind.

Lesson 20 proves what the benchmark says about the three sinks: it runs a small size and asserts.
"""

import pytest
from botocore.exceptions import ClientError
from own_lab import allowed, wait_until

from lab_env import store
from lab_env.bench import worker_client
from lab_env.bench.growth import VARIANTS, grow, growth_config, of
from lab_env.bench.machine import SESSION_GOAL, session_start
from lab_env.errors import LabError
from lab_env.probes.bucket_usage import MeteredBucket
from lab_env.processes.environment import marked_processes


@pytest.fixture(scope="module")
def before(services):
    return {process.pid for process in marked_processes()}


@pytest.fixture(scope="module")
def grown(services, before):
    return grow(growth_config(full=False))


def test_a_process_that_is_gone_is_told_and_ends_without_another_error(services, monkeypatch):
    monkeypatch.setattr(worker_client.sys, "executable", "/bin/true")
    gone = worker_client.WorkerClient("json", MeteredBucket(services, "json"), "")
    gone._process.wait(10)
    with pytest.raises(LabError, match="The process of the json sink ended"):
        gone.call("settle")
    gone.stop()


def test_a_lesson_has_its_session_sooner_than_one_that_copies_its_jars():
    session, answer, goal = session_start(repeat=1)
    assert session.met and answer.met
    assert session.figure < answer.figure  # the first answer comes after it
    assert goal.figure == session.figure and goal.baseline == SESSION_GOAL
    assert goal.figure < allowed(SESSION_GOAL)


def test_a_growing_table_answers_rightly_and_its_copies_grow_with_it(grown):
    assert grown["problems"] == []
    for kind, index in VARIANTS:
        written = [row["median"] for row in of(grown, kind, index, "bytes written")]
        assert len(written) == 3
        # The same change: Copy-on-Write copies a larger table, Merge-on-Read logs the change alone.
        assert written[2] > 1.1 * written[0] if kind == "cow" else written[2] < 1.3 * written[0]
        compacted = [row["median"] for row in of(grown, kind, index, "compaction bytes")]
        assert compacted[0] == 0 if kind == "cow" else compacted[2] > compacted[0] > 0


def test_nothing_is_left_behind(grown, services, before):
    # What watches the exit of a session's JVM outlives it by up to a second.
    wait_until(lambda: {process.pid for process in marked_processes()} <= before, allowed(2))
    bucket = MeteredBucket(services, "growth")
    with pytest.raises(ClientError, match="NoSuchBucket"):
        list(store.list_objects(bucket.endpoints, "bench/"))
