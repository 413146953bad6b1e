"""The benchmark on the running services: right query results, exact counts, no leftovers."""

from dataclasses import replace

import pytest
from botocore.exceptions import ClientError

from lab_env.lessons.recorded import SINKS
from lab_env.lessons.recorded.commit import phase_table
from lab_env.lessons.recorded.contenders import CONTENDERS, FORMATS, MOR
from lab_env.lessons.recorded.formats import spreads
from lab_env.lessons.recorded.growth import VARIANTS, of
from lab_env.lessons.recorded.readers import conditions, counts_of
from lab_env.platform import store
from lab_env.platform.errors import LabError
from lab_env.platform.processes.environment import marked_processes
from lab_env.tables.probes.bucket_usage import MeteredBucket
from lab_env.workbench.bench import worker_client
from lab_env.workbench.bench.bill import TABLES, bill_config, count_requests
from lab_env.workbench.bench.commit import commit_config, measure_commits
from lab_env.workbench.bench.config import Pace, sinks_config
from lab_env.workbench.bench.formats import SMALL_CONTENDERS, compare_formats, formats_config
from lab_env.workbench.bench.growth import grow, growth_config
from lab_env.workbench.bench.machine import SESSION_GOAL, session_start
from lab_env.workbench.bench.readers import readers_config, watch_readers
from lab_env.workbench.bench.rounds import Bench
from lab_env.workbench.bench.summary import summary

pytestmark = pytest.mark.proof("benchmark")


@pytest.fixture(scope="module")
def before(services):
    return {process.pid for process in marked_processes()}


@pytest.fixture(scope="module")
def grown(services, before):
    return grow(growth_config(full=False))


@pytest.fixture(scope="module")
def compared(services, before, tmp_path_factory):
    return compare_formats(formats_config(full=False), tmp_path_factory.mktemp("formats"))


@pytest.fixture(scope="module")
def asked(services, before):
    return measure_commits(commit_config(full=False))


@pytest.fixture(scope="module")
def billed(services, before, tmp_path_factory):
    return count_requests(bill_config(full=False), tmp_path_factory.mktemp("bill"))


@pytest.fixture(scope="module")
def measured(services, before):
    """Results of a small round of the three sinks, and of one more batch with a changed option."""
    queries = {"fresh": ("point", "aggregate", "incremental"), "tidy": ("point",)}
    config = replace(sinks_config(full=False), rounds=1, queries=queries)
    bare = {"hoodie.parquet.bloom.filter.enabled": "false"}
    with Bench(config) as bench:
        found = bench.measure(config)
        option = replace(config, pace=Pace(), queries={"fresh": ("point",)}, extra_options=bare)
        return config, found, bench.measure(option, sinks=("cow",))


def test_the_three_sinks_answer_as_the_stream_says(measured):
    config, found, _ = measured
    assert found.problems == []
    asked = {metric.partition(":")[0] for metric in found.metrics() if ": requests" in metric}
    assert asked == {
        f"{query}, {state}" for state in config.queries for query in config.queries[state]
    }


def test_what_a_sink_writes_and_asks_for_is_counted_for_it_alone(measured):
    config, found, _ = measured
    name = config.scenarios[0].name
    written, puts, services_too, fresh, tidy = (
        {sink: found.of(name, sink, metric)[0] for sink in SINKS}
        for metric in (
            "ingest bytes_written",
            "ingest puts",
            "services bytes_written",
            "point, fresh: requests",
            "point, tidy: requests",
        )
    )
    assert written["json"] < written["mor"] < written["cow"]
    assert puts["json"] < min(puts["cow"], puts["mor"])
    assert services_too["cow"] < services_too["mor"]  # a clean against a compaction
    assert fresh["json"] < fresh["cow"] < fresh["mor"]
    assert abs(tidy["mor"] / tidy["cow"] - 1) < 0.1


def test_an_option_reaches_the_table_and_its_answers_stay_right(measured):
    config, found, bare = measured
    name = config.scenarios[0].name
    assert bare.problems == []
    before, after = (f.of(name, "cow", "ingest bytes_written")[0] for f in (found, bare))
    assert after < before / 2


def test_freshness_by_the_requested_time_is_the_better_looking_one(measured):
    _, found, _ = measured
    of = {row["sink"]: row for row in summary(found)["freshness"]}
    assert of["json"]["requested p50"] is None
    for sink in ("cow", "mor"):
        assert 0 < of[sink]["requested p50"]["median"] < of[sink]["p50"]["median"]


def test_a_process_that_is_gone_is_told_and_ends_without_another_error(services, monkeypatch):
    monkeypatch.setattr(worker_client.sys, "executable", "/bin/true")
    gone = worker_client.WorkerClient("json", MeteredBucket(services, "json"), "")
    gone._process.wait(10)
    with pytest.raises(LabError, match="The process of the json sink ended"):
        gone.call("settle")
    gone.stop()


def test_the_start_of_a_lesson_s_session_is_measured_up_to_its_first_answer():
    session, answer, goal = session_start(repeat=1)
    assert session.figure < answer.figure and session.baseline < answer.baseline
    assert goal.figure == session.figure and goal.baseline == SESSION_GOAL


def test_a_growing_table_answers_rightly_and_its_copies_grow_with_it(grown):
    assert grown["problems"] == []
    for kind, index in VARIANTS:
        written = [row["median"] for row in of(grown, kind, index, "bytes written")]
        assert len(written) == 2  # the first size and the largest
        # The same change: Copy-on-Write copies a larger table, Merge-on-Read logs the change alone.
        assert written[1] > 1.1 * written[0] if kind == "cow" else written[1] < 1.3 * written[0]
        compacted = [row["median"] for row in of(grown, kind, index, "compaction bytes")]
        assert compacted[0] == 0 if kind == "cow" else compacted[1] > compacted[0] > 0


def test_the_tables_of_all_formats_have_the_rows_and_answers_of_the_oracle(compared):
    assert compared["problems"] == [] and compared["complete"]
    asked = {(row["contender"], row["metric"].partition(":")[0]) for row in compared["rows"]}
    for key in SMALL_CONTENDERS:
        assert (key, "point, before compaction") in asked
        assert ((key, "aggregate, after compaction") in asked) == (CONTENDERS[key].kind == MOR)
        assert (key, "changes") in asked
    # What a small commit copies or logs is a matter of the format, not of the machine's speed.
    written = {k: s.median for k, s in spreads(compared, "commit: bytes written", 1).items()}
    assert written["hudi-mor-tuned"] < written["hudi-cow"]
    requests = spreads(compared, "commit: requests", 1)
    assert all(spread.median > 10 for spread in requests.values())
    compacted = spreads(compared, "compaction: bytes written", 1)
    assert all(spread.median > 0 for spread in compacted.values())


def test_every_phase_of_a_small_commit_shows_at_the_proxy(asked):
    assert asked["problems"] == []
    phases = phase_table(asked, "mor")
    needed = {"checkpoint", "timeline", "metadata table", "markers", "data files"}
    assert needed <= set(phases.index)
    # Offsets and commits; requested, inflight and completed; a marker and a log per file group.
    assert phases.loc["checkpoint", "PUT"] >= 2 and phases.loc["timeline", "PUT"] >= 3
    assert phases.loc["markers", "PUT"] >= phases.loc["data files", "PUT"] >= 4


def test_the_proxy_counts_each_formats_requests_as_the_store_does(billed):
    assert billed["problems"] == [] and billed["complete"]
    assert {key: len(commits) for key, commits in billed["commits"].items()} == dict.fromkeys(
        TABLES, bill_config(full=False).commits
    )


def test_whoever_opens_a_table_anew_sees_whole_commits_although_its_writer_is_killed(services):
    found = watch_readers(readers_config(full=False))
    [run] = found["runs"]
    assert found["problems"] == [] and run["kills"] >= 1
    counts = counts_of(found)
    wrong = counts.drop(columns="reads").groupby(level="reader").sum()
    for reader in ("snapshot", "time travel", "hudi-rs", "incremental chain"):
        assert wrong.loc[reader].sum() == 0, run
        assert (counts.xs(reader, level="reader")["reads"] > 3).all(), counts
    assert wrong.loc["read-optimised", "stale"] > 0
    assert f"the writer was killed {run['kills']} times" in conditions(found)


def test_nothing_is_left_behind(grown, measured, compared, asked, billed, services, before):
    assert {process.pid for process in marked_processes()} <= before
    for name in ("growth", "commit", *(f"formats-{name}" for name in FORMATS), *SINKS):
        bucket = MeteredBucket(services, name)
        with pytest.raises(ClientError, match="NoSuchBucket"):
            list(store.list_objects(bucket.endpoints, "bench/"))
