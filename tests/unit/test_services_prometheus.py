"""Prometheus's configuration, resets, queries, and the errors that a lesson gets for bad input."""

from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import yaml

from lab_env.lab.monitor.handle import PrometheusHandle
from lab_env.platform import metrics_client
from lab_env.platform.errors import LabError
from lab_env.platform.install.versions import versions
from lab_env.platform.services import check_for_lesson, prometheus
from lab_env.platform.services.prometheus import PACKAGE, Prometheus, _series_of
from lab_env.platform.settings import settings

RULES = """
groups:
  - name: shop
    rules:
      - {record: "shop:lag", expr: sum(pipeline_lag_messages)}
      - {alert: Late, expr: pipeline_oldest_unread_seconds > 20, for: 3s}
"""
JOBS = "scrape_configs:\n  - job_name: spark\n    static_configs: [{targets: ['127.0.0.1:1']}]\n"


@pytest.fixture
def external(home, configure):
    configure(prometheus_url="http://prometheus-1:9090/")
    return Prometheus()


@pytest.fixture
def built(home, monkeypatch, tmp_path):
    program = tmp_path / "prometheus"
    program.write_text("")
    monkeypatch.setattr(prometheus, "_server", lambda: program)
    return Prometheus()


def test_it_loads_the_rules_of_the_lab_and_of_lessons(built):
    program = built.program({"http": 9090})
    written = yaml.safe_load((built.folder / "prometheus.yml").read_text())
    assert (built.folder / "rules" / "lab.yml").read_text() == (PACKAGE / "alerts.yml").read_text()
    # In these patterns a path of LAB_HOME with brackets would match nothing.
    assert written["rule_files"] == ["rules/*.yml"] and program.cwd == built.folder


def test_the_programs_have_checksums_for_their_own_version():
    folder = prometheus.Path(prometheus.__file__).parents[1] / "install" / "go" / "prometheus"
    pin = versions()["go"]["prometheus"]
    assert f"{pin['module']} {pin['version']} h1:" in (folder / "go.sum").read_text()
    for part in pin["programs"]:
        assert f"tool {pin['module']}/{part}\n" in (folder / "go.mod").read_text()
    assert "replace" not in (folder / "go.mod").read_text().split()


def test_the_lab_starts_none_beside_one_that_is_there(external):
    assert external.external and external.address() == "http://prometheus-1:9090"
    assert external.links() == {} and external.clear("lesson-19") == {}
    check_for_lesson(["exporter", "kinesis"])
    for use, arguments in (
        (external.use_rules, ("lesson-19", "")),
        (external.use_scrape, ("lesson-19", "")),
        (check_for_lesson, (["exporter", "prometheus"],)),
    ):
        with pytest.raises(LabError, match="LAB_PROMETHEUS_URL") as caught:
            use(*arguments)
        assert "unset LAB_PROMETHEUS_URL" in caught.value.next_step


def test_a_url_that_is_none_is_refused(home, configure):
    configure(prometheus_url="prometheus-1:9090")
    with pytest.raises(LabError, match="LAB_PROMETHEUS_URL"):
        settings()


def test_a_reset_deletes_the_series_that_a_lessons_files_have_made(tmp_path):
    (tmp_path / "rules.yml").write_text(RULES)
    (tmp_path / "jobs.yml").write_text(JOBS)
    assert _series_of(tmp_path / "rules.yml") == ['{alertname="Late"}', "shop:lag"]
    assert _series_of(tmp_path / "jobs.yml") == ['{job="spark"}']


def test_a_reset_spares_other_lessons_and_the_lab(built, monkeypatch):
    posted, kept = [], iter([True, False])
    monkeypatch.setattr(built, "_post", posted.append)
    monkeypatch.setattr(built, "_kept", lambda series: next(kept))
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    built.program({"http": 9090})
    for name in ("lesson-19", "lesson-18"):
        (built.folder / "rules" / f"{name}.yml").write_text(RULES)
    assert built.clear("lesson-19") == {"files of rules and targets": 1}
    assert sorted(path.name for path in (built.folder / "rules").iterdir()) == [
        "lab.yml",
        "lesson-18.yml",
    ]
    reload, delete, again = posted
    assert reload == "/-/reload" and "lesson-19" in delete and "lesson-18" not in delete
    assert again == delete  # what a scrape under way has stored meanwhile


def test_a_start_leaves_out_the_files_of_lessons_that_were_reset_meanwhile(built, home):
    built.program({"http": 9090})
    for name in ("lesson-18", "lesson-19"):
        (built.folder / "rules" / f"{name}.yml").write_text(RULES)
    (home / "lessons" / "lesson-18").mkdir(parents=True)
    built.program({"http": 9090})
    found = sorted(path.name for path in (built.folder / "rules").iterdir())
    assert found == ["lab.yml", "lesson-18.yml"]


@pytest.mark.parametrize("before", [None, "groups: []\n"])
def test_rules_that_it_refuses_do_not_replace_those_before(built, monkeypatch, before):
    built.program({"http": 9090})
    file = built.folder / "rules" / "lesson-19.yml"
    if before:
        file.write_text(before)

    refused = LabError("Prometheus refuses /-/reload: why")
    monkeypatch.setattr(built, "_post", Mock(side_effect=refused))
    monkeypatch.setattr(prometheus, "run_promtool", lambda *_, **__: SimpleNamespace(returncode=0))
    with pytest.raises(LabError, match="refuses"):
        built.use_rules("lesson-19", RULES)
    assert (file.read_text() if file.exists() else None) == before


def test_without_promtool_the_next_step_is_to_start_prometheus(home, monkeypatch):
    monkeypatch.setattr(prometheus.shutil, "which", lambda name: None)
    monkeypatch.setattr(prometheus, "built_program", lambda *_: home / "nothing")
    with pytest.raises(LabError) as caught:
        prometheus.run_promtool("check", folder=".")
    assert caught.value.next_step == "run: lab up prometheus"


def test_no_disk_to_build_it_is_said_before_it_begins(home, monkeypatch):
    monkeypatch.setattr(prometheus, "_server", lambda: home / "nothing")
    monkeypatch.setattr(prometheus.shutil, "disk_usage", lambda path: SimpleNamespace(free=1e8))
    assert "must be free to build it; only 100 MB is" in Prometheus().missing_resources()
    monkeypatch.setattr(prometheus, "build_program", lambda *_: pytest.fail("it was built"))
    with pytest.raises(LabError, match="must be free to build it") as caught:
        Prometheus().fetch(lambda line: None)
    assert "lab up prometheus" in caught.value.next_step


@pytest.fixture
def handle(monkeypatch):
    """A handle whose Prometheus returns the value in `handle.answers` for each API call."""
    server = SimpleNamespace(address=lambda: "http://p")
    handle = PrometheusHandle(server, "lesson-19", None)
    handle.answers = {}
    monkeypatch.setattr(metrics_client, "_api", lambda url, call, **_: handle.answers[call])
    return handle


def test_a_query_gives_one_row_per_series_with_its_value_last(handle):
    metric = {"__name__": "pipeline_up", "part": "topic"}
    result = [{"metric": metric, "value": [0, "1"]}, {"metric": {"x": "y"}, "value": [0, "2.5"]}]
    handle.answers["query"] = {"resultType": "vector", "result": result}
    rows = handle.query("...").to_dict("records")
    assert rows == [
        {"metric": "pipeline_up", "part": "topic", "x": "", "value": 1.0},
        {"metric": "", "part": "", "x": "y", "value": 2.5},
    ]


def test_a_query_without_a_series_is_an_empty_table_with_a_value(handle):
    handle.answers["query"] = {"resultType": "vector", "result": []}
    assert handle.query("...")["value"].sum() == 0
    handle.answers["query"] = {"resultType": "scalar", "result": [0, "3"]}
    assert handle.query("3")["value"].tolist() == [3.0]


def alert(state: str) -> dict:
    labels = {"alertname": "Late", "pipeline": "orders"}
    return {"labels": labels, "state": state, "value": "2e+01", "activeAt": "2026-11-22T22:00:00Z"}


def test_an_alert_that_does_not_come_is_an_error_that_says_its_state(handle):
    handle.answers["alerts"] = {"alerts": [alert("pending")]}
    with pytest.raises(LabError, match="the alert Late is pending, not firing"):
        handle.wait_for_alert("Late", seconds=0)


def test_tests_that_are_no_yaml_are_an_error(handle):
    with pytest.raises(LabError, match="not valid YAML"):
        handle.test_rules(RULES, "tests: [")
