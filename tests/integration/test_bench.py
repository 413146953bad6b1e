"""The benchmark's small size, on the running services: right answers, exact counts, nothing left behind."""

import pytest
from botocore.exceptions import ClientError

from lab_env import objectstore
from lab_env.errors import LabError
from lab_env.measure.bench import rounds
from lab_env.measure.bench.backlog import backlog_size, catch_up
from lab_env.measure.bench.growth import VARIANTS, grow, growth_size, of
from lab_env.measure.bench.machine import SESSION_GOAL, session_start
from lab_env.measure.bench.rounds import SINKS, Bench, size
from lab_env.measure.bench.store import Bucket
from lab_env.measure.bench.summary import summary
from lab_env.runtime.environment import marked_processes


@pytest.fixture(scope="module")
def before(services):
    return {process.pid for process in marked_processes()}


@pytest.fixture(scope="module")
def measured(services, before):
    with Bench(size(full=False)) as bench:
        figures = bench.measure(size(full=False))
        return figures, catch_up(bench, backlog_size(full=False))


@pytest.fixture(scope="module")
def figures(measured):
    return measured[0]


@pytest.fixture(scope="module")
def grown(services, before):
    return grow(growth_size(full=False))


@pytest.fixture
def found(figures):
    (scenario,) = figures.size.scenarios
    return lambda metric: {sink: figures.of(scenario.name, sink, metric) for sink in SINKS}


def test_every_sink_gives_the_answers_of_the_stream(figures, found):
    assert figures.problems == []
    assert set(map(tuple, found("rows").values())) == {(1000, 1000)}
    assert set(map(tuple, found("commits").values())) == {(1, 1)}  # the same batches in every sink


def test_updates_cost_each_sink_what_its_design_says(found):
    written = found("ingest bytes_written")
    # Files and logs take the changes alone; Copy-on-Write writes its base files anew.
    assert max(written["json"] + written["mor"]) < min(written["cow"]) / 3
    paid = found("services bytes_written")
    assert min(paid["mor"]) > 3 * max(paid["cow"])  # compaction writes them later, once
    stored = found("bytes stored, fresh")
    assert min(stored["cow"]) > max(stored["mor"]) > max(stored["json"])
    fresh, tidy = found("data files, fresh"), found("data files, tidy")
    assert max(tidy["json"]) < min(fresh["json"])
    # After one change there is nothing to clean: the version before the newest stays.
    assert tidy["cow"] == fresh["cow"]


def test_requests_belong_to_one_sink_and_hardly_vary(found):
    puts = found("ingest puts")
    assert all(max(counts) - min(counts) <= 2 for counts in puts.values())
    assert max(puts["json"]) < min(puts["cow"] + puts["mor"])
    assert all(count > 0 for counts in found("point, fresh: requests").values() for count in counts)


def test_files_read_by_the_batch_are_cheaper_than_all_files(found):
    assert max(found("incremental, fresh: bytes read")["json"]) < min(
        found("aggregate, fresh: bytes read")["json"]
    )


def test_requested_times_make_tables_look_fresher(figures):
    rows = {row["sink"]: row for row in summary(figures)["freshness"]}
    assert rows["json"]["p50"] and rows["json"]["requested p50"] is None
    for sink in ("cow", "mor"):
        assert 0 < rows[sink]["requested p50"]["median"] < rows[sink]["p50"]["median"]


def test_a_backlog_is_held_against_files_and_against_other_options(measured):
    compared, problems = measured[1]
    assert problems == []
    baselines = [row.against.partition(",")[0] for row in compared]
    assert baselines == ["JSON files"] * 2 + ["cow", "mor", "mor"]
    assert all(0 < row.ratio < 20 and row.figure > 10 for row in compared)


def test_a_process_that_is_gone_is_told_and_ends_without_another_error(services, monkeypatch):
    monkeypatch.setattr(rounds.sys, "executable", "/bin/true")
    gone = rounds.Remote("json", Bucket(services, "json"), "")
    gone._process.wait(10)
    with pytest.raises(LabError, match="The process of the json sink ended"):
        gone.do("settle")
    gone.end()


def test_a_lesson_has_its_session_sooner_than_one_that_copies_its_jars():
    session, answer, goal = session_start(repeat=1)
    assert session.met and answer.met
    assert session.figure < answer.figure  # the first answer comes after it
    assert goal.figure == session.figure and goal.baseline == SESSION_GOAL


def test_a_growing_table_answers_rightly_and_its_copies_grow_with_it(grown):
    assert grown["problems"] == []
    for kind, index in VARIANTS:
        written = [row["median"] for row in of(grown, kind, index, "bytes written")]
        assert len(written) == 3
        # The same change: Copy-on-Write copies a larger table, Merge-on-Read logs the change alone.
        assert written[2] > 1.1 * written[0] if kind == "cow" else written[2] < 1.3 * written[0]
        compacted = [row["median"] for row in of(grown, kind, index, "compaction bytes")]
        assert compacted[0] == 0 if kind == "cow" else compacted[2] > compacted[0] > 0


def test_nothing_is_left_behind(figures, grown, services, before):
    assert {process.pid for process in marked_processes()} <= before
    for sink in (*SINKS, "growth"):
        bucket = Bucket(services, sink)
        with pytest.raises(ClientError, match="NoSuchBucket"):
            list(objectstore.list_objects(bucket.endpoints, "bench/"))
