"""Each request of a commit belongs to one phase, and no request is lost or counted twice."""

import pytest

from lab_env.lab.faults.gate import Request
from lab_env.lessons import recorded
from lab_env.lessons.recorded.commit import (
    NO_SERVER,
    OPERATIONS,
    PHASES,
    PIPELINE,
    SHORT_LIVED,
    commit_chart,
    option_table,
    options_chart,
    phase_of,
    phase_table,
    requests_of,
)
from lab_env.pipeline import options
from lab_env.workbench.bench import commit

TABLE = "orders_mor"
KEYS = {
    ("PUT", "_checkpoint/offsets/.7.3b2c.tmp"): "checkpoint",
    ("LIST", f"{TABLE}/.hoodie/timeline/"): "timeline",
    ("PUT", f"{TABLE}/.hoodie/timeline/20261122101500123.deltacommit.requested"): "timeline",
    ("PUT", f"{TABLE}/.hoodie/timeline/20261122101500123.clean.requested"): "cleaning",
    ("GET", f"{TABLE}/.hoodie/hoodie.properties"): "rest of .hoodie",
    ("HEAD", f"{TABLE}/p=1/.hoodie_partition_metadata"): "data files",
    ("GET", f"{TABLE}/.hoodie/metadata/files/f-0_0-1-2_20261122101500123.hfile"): "metadata table",
    ("PUT", f"{TABLE}/.hoodie/metadata/.hoodie/.temp/20261122101500123/m"): "metadata table",
    ("PUT", f"{TABLE}/.hoodie/.temp/20261122101500123/p=1/f.marker.CREATE"): "markers",
    ("DELETE", ""): "markers",
    ("PUT", f"{TABLE}/p=1/f_0-1-2_20261122101500123.parquet"): "data files",
    ("DELETE", f"{TABLE}/p=1/f_0-1-2_20261122101500123.parquet"): "cleaning",
}


@pytest.mark.parametrize(("request_", "phase"), KEYS.items())
def test_the_key_decides_the_phase(request_, phase):
    assert phase_of(*request_) == phase
    assert phase in PHASES


def stream_of(batches: int, each: int) -> list[Request]:
    """Return a stream's requests: for each batch its offsets, written and renamed, and others."""
    keys = []
    for number in range(batches):
        keys += [f"t/_checkpoint/offsets/.{number}.ab.tmp", f"t/_checkpoint/offsets/{number}"]
        keys += [f"t/{TABLE}/p=1/{number}-{part}" for part in range(each - 2)]
    return [Request(n, n / 10, "PUT", key, "", 0) for n, key in enumerate(keys)]


def test_a_commit_ends_where_the_next_batch_writes_its_offsets():
    commits = commit._commits(stream_of(batches=6, each=5))
    assert [len(requests) for requests in commits] == 5 * [5]  # not the last
    assert [requests[0].key for requests in commits] == [
        f"t/_checkpoint/offsets/.{number}.ab.tmp" for number in range(5)
    ]


def test_a_listing_is_a_request_for_its_prefix_and_times_count_from_the_batch():
    listing = Request(1, 12.5, "GET", "", "read", 0, listed=f"t/{TABLE}/p=1/", seconds=0.0021)
    assert commit._row(listing, 12.0, "s3a://bucket/t") == (500.0, 2.1, "LIST", f"{TABLE}/p=1/")
    several = Request(2, 12.0, "POST", "", "delete", 0)
    assert commit._row(several, 12.0, "s3a://bucket/t")[2:] == ("DELETE", "")


def test_the_table_of_phases_counts_repeated_requests():
    rows = [(0, 1, "PUT", "_checkpoint/offsets/1")] + 3 * [(5, 2, "HEAD", f"{TABLE}/p=1/f")]
    run = {"commits": [{"kind": "cow", "setting": PIPELINE, "requests": rows}]}
    found = phase_table(run, "cow")
    columns = ["HEAD", "all", "repeated", "waited ms"]
    assert found.loc["data files", columns].tolist() == [3, 3, 2, 6]
    assert found.loc["all", "all"] == 4


def test_settings_are_compared_with_the_pipeline_within_each_round():
    rows = [
        {"kind": "cow", "setting": name, "round": number, "seconds": s, "CPU s": 1, "requests": 9}
        for number, (ours, other) in enumerate([(1.0, 2.0), (4.0, 2.0), (1.0, 1.0)], 1)
        for name, s in ((PIPELINE, ours), ("other", other))
    ]
    found = option_table({"options": rows})
    assert found.loc[("cow", "other"), "× seconds"] == 1.0
    assert found.loc[("cow", PIPELINE), "seconds"] == 1.0


def test_each_setting_changes_the_pipelines_options():
    for name, setting in commit.SETTINGS.items():
        for kind in setting.kinds:
            changed = commit.KINDS[kind] | setting.options != commit.KINDS[kind]
            assert changed == (name != PIPELINE), name
    assert commit.SETTINGS[SHORT_LIVED].options == options.SHORT_LIVED


def test_the_delivered_run_draws_every_request():
    run = recorded.delivered("commit")
    assert run["problems"] == []
    for kind, settings in commit.DRAWN.items():
        for setting in settings:
            rows = requests_of(run, kind, setting)
            assert not rows["key"].str.contains(r"\.compaction\.").any()  # no service was due
            assert set(rows["operation"]) <= set(OPERATIONS)
            assert len(rows) == phase_table(run, kind, setting).loc["all", "all"]
    drawn = commit_chart(run, "mor", (NO_SERVER, PIPELINE))
    assert f"{len(requests_of(run, 'mor', NO_SERVER)):,} requests" in drawn


def test_the_delivered_run_compares_each_setting_in_each_round():
    run = recorded.delivered("commit")
    rounds = run["size"]["rounds"]
    asked = {(kind, name) for name, setting in commit.SETTINGS.items() for kind in setting.kinds}
    runs = [(row["kind"], row["setting"]) for row in run["options"]]
    assert set(runs) == asked and all(runs.count(one) == rounds for one in asked)
    assert "no streaming to the metadata table" in options_chart(run)
