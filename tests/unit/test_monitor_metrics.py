"""A pipeline's metrics are computed from the parts that were read; others have no value."""

import json
import re

import pytest
from xray_tables import T1, T2, T3, T4, base, committed, done, end, log, snapshot

from lab_env.lab.monitor import metrics
from lab_env.lab.monitor.metrics import Position, Sample, Topic
from lab_env.platform.services.prometheus import PACKAGE
from lab_env.tables.hudi.timeline import to_seconds

NOW = to_seconds("20261120091000000")
LABELS = {"namespace": "lesson-19", "pipeline": "orders"}


def values(samples) -> dict[str, float]:
    """Return values by metric and its `partition`, `part` or `recorded_in` label."""
    extra = ("partition", "part", "recorded_in")
    names = [
        ":".join(
            [s.metric.removeprefix("pipeline_"), *(s.labels[x] for x in extra if x in s.labels)]
        )
        for s in samples
    ]
    return dict(zip(names, [sample.value for sample in samples], strict=True))


def topic_values(ends, position, unread=None, read=None) -> dict[str, float]:
    topic = Topic(ends, position, unread or {}, read or {})
    return values(list(metrics.topic_samples(LABELS, topic, NOW)))


def test_lag_is_counted_by_partition_and_age_by_the_oldest_message_of_all():
    found = topic_values(
        {0: 10, 1: 30, 2: 5}, Position({0: 8, 1: 10, 2: 5}), {0: NOW - 4, 1: NOW - 9}, {0: NOW - 6}
    )
    assert found == {
        "lag_messages:0": 2,
        "lag_messages:1": 20,
        "lag_messages:2": 0,
        "expired_messages:0": 0,
        "expired_messages:1": 0,
        "expired_messages:2": 0,
        "clock_ahead_seconds:topic": 0,
        "oldest_unread_seconds": 9,
        "newest_message_seconds": 6,
    }


LAG, OLDEST, NEWEST = "lag_messages:0", "oldest_unread_seconds", "newest_message_seconds"
AHEAD = "clock_ahead_seconds:topic"
UNKNOWN = {OLDEST: None, NEWEST: None}


@pytest.mark.parametrize(
    ("ends", "offsets", "unread", "read", "expected"),
    [
        # Where nothing is unread nothing waits, however old the last message is.
        ({0: 10}, {0: 10}, {}, {0: NOW - 36_000}, {OLDEST: 0, NEWEST: 36_000}),
        # A new partition that no batch has read counts from its beginning.
        ({0: 10, 1: 7}, {0: 10}, {1: NOW - 3}, {}, {"lag_messages:1": 7, OLDEST: 3}),
        # A lag whose message has no time leaves the age unknown rather than 0.
        ({0: 9, 1: 9}, {0: 8, 1: 8}, {0: NOW - 3}, {}, {"lag_messages:1": 1, OLDEST: None}),
        # A topic that was made anew lies behind its checkpoint.
        ({0: 3}, {0: 10}, {}, {}, {LAG: -7, OLDEST: 0}),
        # A clock that is a little behind gives no negative age.
        ({0: 2}, {0: 1}, {0: NOW + 0.5}, {}, {OLDEST: 0, AHEAD: 0}),
        # A message from the future is not taken for a fresh one.
        ({0: 2}, {0: 1}, {0: NOW + 3600}, {0: NOW + 3599}, {LAG: 1, AHEAD: 3600} | UNKNOWN),
    ],
)
def test_what_the_offsets_and_times_of_a_topic_tell(ends, offsets, unread, read, expected):
    found = topic_values(ends, Position(offsets), unread, read)
    assert {name: found.get(name) for name in expected} == expected


def test_messages_that_the_topic_dropped_unread_are_counted_and_those_of_a_new_partition_not():
    topic = Topic({0: 50, 1: 9}, Position({0: 10}), {0: NOW, 1: NOW}, {}, begins={0: 30, 1: 4})
    found = values(list(metrics.topic_samples(LABELS, topic, NOW)))
    assert (found["expired_messages:0"], found["expired_messages:1"]) == (20, 0)
    assert found["lag_messages:0"] == 40


def test_a_commit_from_another_time_zone_has_no_age():
    keys = (*done(T1), *done(T2), base(T1), log(T2))
    before = to_seconds(end(T2)) - 7200
    later = values(list(metrics.table_samples(LABELS, snapshot(*keys), before)))
    assert later["clock_ahead_seconds:table"] == 7200 and "last_commit_seconds" not in later


@pytest.mark.parametrize(("batch", "expected"), [(7, {"batch:checkpoint": 7}), (None, {})])
def test_a_checkpoint_without_a_committed_batch_has_no_number(batch, expected):
    position = Position({0: 0}, batch)
    assert values(list(metrics.checkpoint_samples(LABELS, position))) == expected


def table_values(*keys, **options) -> dict[str, float]:
    return values(list(metrics.table_samples(LABELS, snapshot(*keys, **options), NOW)))


def test_freshness_counts_from_the_completion_of_the_last_write_of_rows():
    # The compaction of T3 completes later and brings no row.
    plan = f".hoodie/timeline/{T3}.compaction.requested"
    found = table_values(
        *done(T1), *done(T2), *done(T3, "commit"), plan, base(T1), log(T2), base(T3)
    )
    assert found["last_commit_seconds"] == NOW - to_seconds(end(T2))


def test_logs_are_counted_in_the_slices_that_a_query_reads():
    found = table_values(
        *done(T1), *done(T2), *done(T3), base(T1), log(T2), log(T3), base(T1, "b-0"), log(T3, "b-0")
    )
    assert (found["file_slices"], found["log_files"], found["log_files_per_slice_max"]) == (2, 3, 2)


def test_an_older_slice_is_only_bytes():
    found = table_values(*done(T1, "commit"), *done(T2, "commit"), base(T1), base(T2))
    assert (found["file_slices"], found["log_files"]) == (1, 0)
    assert found["bytes:current"] > 0 and found["bytes:older"] > 0
    assert found["bytes:uncommitted"] == 0


def test_the_oldest_pending_instant_is_as_old_as_its_request():
    pending = [
        f".hoodie/timeline/{t}.deltacommit.{s}" for t in (T2, T4) for s in ("requested", "inflight")
    ]
    found = table_values(*done(T1), *pending, base(T1), log(T2))
    assert found["pending_instants"] == 2
    assert found["oldest_pending_seconds"] == NOW - to_seconds(T2)
    assert found["bytes:uncommitted"] > 0


def test_a_table_without_a_write_has_no_freshness_and_nothing_pending():
    found = table_values()
    assert "last_commit_seconds" not in found
    assert (found["pending_instants"], found["oldest_pending_seconds"]) == (0, 0)
    assert found["log_files_per_slice_max"] == 0


def test_savepoints_are_counted():
    savepoint = [
        f".hoodie/timeline/{T1}_{T2}.savepoint",
        f".hoodie/timeline/{T1}.savepoint.inflight",
    ]
    assert table_values(*done(T1), *savepoint, base(T1))["savepoints"] == 1


def test_the_batch_is_the_one_of_the_newest_write_that_records_one():
    contents = {
        done(T1)[0]: committed(
            "UPSERT", _hudi_streaming_sink_checkpoint='{"default_single_writer":"6"}'
        ),
        done(T2)[0]: committed("UPSERT"),
    }
    found = table_values(*done(T1), *done(T2), base(T1), contents=contents)
    assert found["batch:table"] == 6


def test_every_metric_has_a_description():
    topic = Topic({0: 1}, Position({0: 0}, 3), {0: NOW}, {0: NOW})
    all_samples: list[Sample] = [
        metrics.up_sample(LABELS, "topic", True),
        *metrics.topic_samples(LABELS, topic, NOW),
        *metrics.checkpoint_samples(LABELS, Position({}, 3)),
        *metrics.table_samples(LABELS, snapshot(*done(T1), base(T1)), NOW),
        Sample("pipeline_watched", {}, 1),
    ]
    assert {sample.metric for sample in all_samples} == set(metrics.METRICS)


@pytest.mark.parametrize("name", ["alerts.yml", "consoles/pipeline.html", "grafana.json"])
def test_rules_console_and_dashboard_ask_for_metrics_that_exist(name):
    text = (PACKAGE / name).read_text()
    named = set(re.findall(r"\bpipeline_[a-z_]+", text))
    assert len(named) > 5 and named <= set(metrics.METRICS)


def test_the_dashboard_for_grafana_asks_for_its_data_source():
    dashboard = json.loads((PACKAGE / "grafana.json").read_text())
    assert {panel["datasource"]["uid"] for panel in dashboard["panels"]} == {"${source}"}
