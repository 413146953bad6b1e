"""The benchmark's small size, on the running services: right answers, exact counts, nothing left behind."""

import pytest
from botocore.exceptions import ClientError

from lab_env import objectstore
from lab_env.measure.bench.rounds import SINKS, compare, size
from lab_env.measure.bench.store import Bucket
from lab_env.measure.bench.summary import summary
from lab_env.runtime.environment import marked_processes


@pytest.fixture(scope="module")
def before(services):
    return {process.pid for process in marked_processes()}


@pytest.fixture(scope="module")
def figures(services, before):
    return compare(size(full=False))


@pytest.fixture
def of(figures):
    (scenario,) = figures.size.scenarios
    return lambda metric: {sink: figures.of(scenario.name, sink, metric) for sink in SINKS}


def test_every_sink_gives_the_answers_of_the_stream(figures, of):
    assert figures.problems == []
    assert set(map(tuple, of("rows").values())) == {(2000, 2000)}
    assert set(map(tuple, of("commits").values())) == {(2, 2)}  # the same batches in every sink


def test_updates_cost_each_sink_what_its_design_says(of):
    written = of("ingest bytes_written")
    # Files and logs take the changes alone; Copy-on-Write writes its base files anew.
    assert max(written["json"] + written["mor"]) < min(written["cow"]) / 3
    paid = of("services bytes_written")
    assert min(paid["mor"]) > 3 * max(paid["cow"])  # compaction writes them later, once
    stored = of("bytes stored, fresh")
    assert min(stored["cow"]) > max(stored["mor"]) > max(stored["json"])
    assert max(of("data files, tidy")["cow"]) < min(of("data files, fresh")["cow"])  # cleaned


def test_requests_belong_to_one_sink_and_hardly_vary(of):
    puts = of("ingest puts")
    assert all(max(counts) - min(counts) <= 2 for counts in puts.values())
    assert max(puts["json"]) < min(puts["cow"] + puts["mor"])
    assert all(count > 0 for counts in of("point, fresh: requests").values() for count in counts)


def test_files_read_by_the_batch_are_cheaper_than_all_files(of):
    assert max(of("incremental, fresh: bytes read")["json"]) < min(
        of("aggregate, fresh: bytes read")["json"]
    )


def test_requested_times_make_tables_look_fresher(figures):
    rows = {row["sink"]: row for row in summary(figures)["freshness"]}
    assert rows["json"]["p50"] and rows["json"]["requested p50"] is None
    for sink in ("cow", "mor"):
        assert 0 < rows[sink]["requested p50"]["median"] < rows[sink]["p50"]["median"]


def test_nothing_is_left_behind(figures, services, before):
    assert {process.pid for process in marked_processes()} <= before
    for sink in SINKS:
        bucket = Bucket(services, sink)
        with pytest.raises(ClientError, match="NoSuchBucket"):
            list(objectstore.list_objects(bucket.endpoints, "bench/"))
