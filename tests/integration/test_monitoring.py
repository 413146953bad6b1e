"""Prometheus and the exporter detect a stalled pipeline, even if other parts have failed.

The pipeline's checkpoint and table are made-up files in the real store, and its messages are in the
real broker. So the tests know every number and need no Spark. All tests use the same lab, and
depend on their order.
"""

import json
import signal
import subprocess
import sys
import time
import urllib.request

import pytest
from confluent_kafka import Producer
from instance import programs_showing
from own_lab import allowed, listening, wait_until

from lab_env.lab.faults.outages import kill_service, paused
from lab_env.lab.handle import Lab, reset_lesson
from lab_env.platform import services as lab_services
from lab_env.platform import store
from lab_env.platform.brokers.topics import ensure_topic
from lab_env.platform.errors import LabError
from lab_env.platform.processes import supervisor
from lab_env.platform.processes.state import secrets
from lab_env.platform.processes.tree import process_tree
from lab_env.platform.services import SERVICES, run_promtool
from lab_env.platform.services.prometheus import PACKAGE
from lab_env.tables.hudi.timeline import from_seconds

pytestmark = pytest.mark.services

LESSON = "95"
SENT = {0: 3, 1: 5, 2: 0}  # messages by partition
RULES = """
groups:
  - name: shop
    rules:
      - record: shop:lag
        expr: sum(pipeline_lag_messages{namespace="lesson-95"})
      - alert: OrdersLate
        expr: pipeline_oldest_unread_seconds{namespace="lesson-95"} > 1
        for: 1s
"""
TABLE = """hoodie.table.name=orders
hoodie.table.type=MERGE_ON_READ
hoodie.table.version=9
"""


class Pipeline:
    """The data of a made-up query: its topic, its checkpoint, its table."""

    def __init__(self, lab: Lab):
        self.lab = lab
        self.topic, self.table = lab.topic("orders"), lab.path("orders")
        self.checkpoint = lab.path("_checkpoints/orders")
        self.batch = -1

    def put(self, path: str, content: str) -> None:
        """Write an object."""
        store.client(self.lab.endpoints).put_object(
            Bucket=self.lab.endpoints.bucket, Key=store.key_of(path), Body=content.encode()
        )

    def commit(self, offsets: dict[int, int]) -> None:
        """Commit a batch that ends at these offsets, in the format of Spark's checkpoint."""
        self.batch += 1
        named = json.dumps({self.topic: {str(number): n for number, n in offsets.items()}})
        if self.batch == 0:
            zero = json.dumps({self.topic: {str(number): 0 for number in offsets}})
            self.put(f"{self.checkpoint}/sources/0/0", f"v1\n{zero}")
        self.put(f"{self.checkpoint}/offsets/{self.batch}", f"v1\n{{}}\n{named}")
        self.put(f"{self.checkpoint}/commits/{self.batch}", "v1\n{}")

    def write(self, requested: float, completed: float | None) -> None:
        """Write a log file and its instant, which is pending if `completed` is None."""
        timeline, begin = f"{self.table}/.hoodie/timeline", from_seconds(requested)
        self.put(f"{self.table}/.hoodie/hoodie.properties", TABLE)
        self.put(f"{timeline}/{begin}.deltacommit.requested", "")
        self.put(f"{timeline}/{begin}.deltacommit.inflight", "")
        self.put(f"{self.table}/day=1/.a-0_{begin}.log.1_0-1-2", "x" * 100)
        if completed:
            self.put(f"{timeline}/{begin}_{from_seconds(completed)}.deltacommit", "")

    def measured(self) -> dict[str, float]:
        """Return the exporter's current metrics.

        Returns:
            Values by name: the metric without `pipeline_`, then the values of its labels, for
            example `lag_messages0`.
        """
        table = self.lab.pipeline_metrics()
        own = table[table.get("namespace", "") == self.lab.namespace]
        varying = own[[c for c in ("part", "partition", "recorded_in") if c in own]]
        names = own["metric"].str.removeprefix("pipeline_") + varying.agg("".join, axis=1)
        return dict(zip(names, own["value"], strict=True))


@pytest.fixture(scope="module")
def pipeline(services):
    """A watched pipeline that has read four of eight messages, with Prometheus running."""
    lab_services.up(["prometheus"], progress=lambda line: None)
    reset_lesson(LESSON)
    lab = Lab(LESSON, services, ("prometheus",))
    pipeline = Pipeline(lab)
    ensure_topic(lab.endpoints.kafka_bootstrap, pipeline.topic, partitions=3)
    pipeline.sent_at = time.time()
    send(pipeline, SENT)
    pipeline.all_sent_at = time.time()
    pipeline.commit({0: 3, 1: 1, 2: 0})
    lab.watch("orders", pipeline.topic, pipeline.checkpoint, pipeline.table)
    yield pipeline
    reset_lesson(LESSON)


def send(pipeline: Pipeline, counts: dict[int, int]) -> None:
    """Send this number of messages to each topic partition."""
    producer = Producer({"bootstrap.servers": pipeline.lab.endpoints.kafka_bootstrap})
    for number, count in counts.items():
        for _ in range(count):
            producer.produce(pipeline.topic, b"order", partition=number)
    assert producer.flush(30) == 0


def test_the_numbers_are_those_of_topic_and_checkpoint_and_a_missing_table_has_none(pipeline):
    asked = time.time()
    found = pipeline.measured()
    assert [found[f"up{part}"] for part in ("topic", "checkpoint", "table")] == [1, 1, 0]
    assert [found[f"lag_messages{number}"] for number in range(3)] == [0, 4, 0]
    waited, at_least = time.time() - pipeline.sent_at, asked - pipeline.all_sent_at
    assert at_least - 0.1 < found["oldest_unread_seconds"] <= waited
    assert found["newest_message_seconds"] <= waited
    assert found["batchcheckpoint"] == 0
    assert not {"last_commit_seconds", "file_slices"} & found.keys()


def test_the_numbers_of_a_table_are_those_of_its_timeline_and_files(pipeline):
    now = time.time()
    pipeline.write(now - 40, now - 30)
    pipeline.write(now - 9, None)
    found = pipeline.measured()
    passed = time.time() - now
    assert found["uptable"] == 1
    assert 30 <= found["last_commit_seconds"] <= 30.1 + passed
    assert 9 <= found["oldest_pending_seconds"] <= 9.1 + passed
    assert (found["pending_instants"], found["file_slices"], found["log_files"]) == (1, 1, 1)
    assert (found["bytescurrent"], found["bytesuncommitted"]) == (100, 100)


def test_an_alert_fires_while_messages_wait_and_is_gone_when_they_are_read(pipeline):
    prometheus = pipeline.lab.prometheus
    prometheus.rules(RULES)
    prometheus.wait_for_alert("OrdersLate", seconds=allowed(15))
    (alert,) = [a for a in prometheus.alerts().to_dict("records") if a["name"] == "OrdersLate"]
    assert alert["value"] > 1 and alert["labels"]["pipeline"] == "orders"
    wait_until(lambda: prometheus.query("shop:lag")["value"].tolist() == [4.0])
    page = urllib.request.urlopen(prometheus.console).read().decode()
    assert "OrdersLate" in page and "lesson-95 / orders" in page
    pipeline.commit({0: 3, 1: 5, 2: 0})
    prometheus.wait_for_alert("OrdersLate", "gone", seconds=allowed(15))
    assert pipeline.measured()["oldest_unread_seconds"] == 0


def test_what_prometheus_cannot_read_is_refused_and_the_rules_before_stay(pipeline):
    prometheus = pipeline.lab.prometheus
    with pytest.raises(LabError, match="parse error"):
        prometheus.rules(RULES.replace("> 1", "> > 1"))
    with pytest.raises(LabError, match="refuses these jobs"):
        prometheus.scrape("scrape_configs: [{static_configs: []}]")
    with pytest.raises(LabError, match="parse error"):
        prometheus.query("sum(")
    wait_until(lambda: prometheus.query("shop:lag")["value"].tolist() == [0.0])


def test_a_broker_that_hangs_makes_its_numbers_absent_and_not_old(pipeline):
    send(pipeline, {2: 1})
    wait_until(lambda: pipeline.measured().get("lag_messages2") == 1)
    with paused("kafka"):
        wait_until(lambda: pipeline.measured()["uptopic"] == 0, seconds=20)
        found = pipeline.measured()
        assert found["uptable"] == found["upcheckpoint"] == 1
        assert not any(name.startswith(("lag", "oldest_unread", "newest")) for name in found)
        assert "last_commit_seconds" in found
        # Scrapes are answered in time; beside other tests one may be late.
        recent = 'max_over_time(up{job="pipeline"}[10s])'
        assert pipeline.lab.prometheus.query(recent)["value"].tolist() == [1]
    wait_until(lambda: pipeline.measured().get("lag_messages2") == 1, seconds=20)


def test_they_listen_on_this_machine_only_and_show_no_key(pipeline):
    for name in ("prometheus", "exporter"):
        pid = supervisor.status_of(name).pid
        assert listening(process_tree(pid)) == {"127.0.0.1"}
        for key in ("s3_access_key", "s3_secret_key"):
            assert secrets()[key] not in supervisor.log_tail(name, 1000)
            assert programs_showing(secrets()[key]) == []


def test_both_come_back_after_a_kill_with_what_prometheus_had_stored(pipeline):
    prometheus = pipeline.lab.prometheus
    began = prometheus.query("min_over_time(timestamp(shop:lag)[10m:1s])")["value"].iloc[0]
    for name in ("exporter", "prometheus"):
        kill_service(name)
        lab_services.up([name], progress=lambda line: None)
    again = prometheus.query("min_over_time(timestamp(shop:lag)[10m:1s])")["value"].iloc[0]
    assert abs(again - began) < 5
    wait_until(lambda: prometheus.query("shop:lag")["value"].tolist() == [1.0])


def test_the_labs_own_rules_fire_when_they_should_and_stay_silent_when_they_should(tmp_path):
    done = run_promtool("test", "rules", "alerts_test.yml", folder=PACKAGE)
    assert done.returncode == 0, done.stdout + done.stderr
    checked = run_promtool("check", "rules", "alerts.yml", folder=PACKAGE)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("absent(pipeline_watched)", "pipeline_watched == 0"),  # silent when the exporter dies
        ("min_over_time(pipeline_oldest_unread_seconds[10s])", "pipeline_last_commit_seconds"),
        ("min_over_time(pipeline_oldest_unread_seconds[10s])", "pipeline_oldest_unread_seconds"),
        ("pipeline_lag_messages < 0", "pipeline_lag_messages <= 0"),
        ("for: 1m", "for: 0s"),
        ("for: 10s", "for: 0s"),
        ('"checkpoint"} > 1', '"checkpoint"} > 0'),
    ],
)
def test_the_tests_of_the_rules_notice_a_rule_that_is_wrong(pipeline, right, wrong):
    rules, tests = ((PACKAGE / name).read_text() for name in ("alerts.yml", "alerts_test.yml"))
    assert right in rules
    assert not pipeline.lab.prometheus.test_rules(rules.replace(right, wrong), tests).ok


def test_status_with_watch_prints_plain_lines_until_it_is_interrupted(pipeline, tmp_path):
    said, line = tmp_path / "said", "pipeline lesson-95/orders: unread 1, oldest unread"
    with said.open("w") as out:
        watching = subprocess.Popen(
            [sys.executable, "-I", "-m", "lab_env.cli", "status", "--watch", "0.5"],
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_until(lambda: said.read_text().count(line) > 1)
        watching.send_signal(signal.SIGINT)
        assert watching.wait(allowed(20)) == 0
    finally:
        watching.kill()
        watching.wait()
    assert "Traceback" not in said.read_text() and "\x1b" not in said.read_text()
    assert "service prometheus: ready" in said.read_text()


def test_a_reset_removes_rules_targets_and_series_of_its_lesson_and_no_other(pipeline):
    prometheus = pipeline.lab.prometheus
    exporter = SERVICES["exporter"].address().removeprefix("http://")
    own = f"scrape_configs:\n  - job_name: own\n    static_configs: [{{targets: ['{exporter}']}}]\n"
    prometheus.scrape(own)
    wait_until(lambda: prometheus.query('up{job="own"}')["value"].tolist() == [1.0])
    folder = SERVICES["prometheus"].folder
    (folder / "rules" / "lesson-96.yml").write_text(RULES.replace("95", "96"))
    reset_lesson(LESSON)
    kept = {f.name for f in folder.glob("*/lesson-*.yml")}  # lesson 19 may run in the same lab
    assert "lesson-96.yml" in kept and "lesson-95.yml" not in kept
    for series in ('{namespace="lesson-95"}', '{job="own"}', '{alertname="OrdersLate"}'):
        assert prometheus.query(f"count_over_time({series}[10m])").empty, series
    assert not prometheus.query("count_over_time(pipeline_watched[10m])").empty
    (folder / "rules" / "lesson-96.yml").unlink()
    SERVICES["prometheus"].reload()
