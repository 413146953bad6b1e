"""Lesson 19: hidden days, scenarios for alerts, accepted forms of answers, and charts with gaps."""

import random
import socket
import subprocess
from decimal import Decimal

import pandas as pd
import pytest
import yaml
from pyspark.sql import Row

from lab_env.course.answers import Unreadable
from lab_env.lab.monitor.metrics import METRICS
from lab_env.lessons.l19 import figures, scenarios
from lab_env.lessons.l19.checks import FAULTS, as_rules, by_partition, days_of, made_up_days
from lab_env.lessons.l19.figures import (
    books_of,
    draw_over_time,
    scrape_config,
    wait_until,
)
from lab_env.lessons.l19.tickets import (
    CAUSES,
    NO_COMPACTION,
    NOT_LOOKED_UP,
    SAVEPOINT,
    Evidence,
)
from lab_env.platform.errors import LabError
from lab_env.shop.events import encode
from lab_env.shop.model import Send

SPACE = "anna-lesson-19"
RULE = {"alert": "A", "expr": "x > 5", "for": "3s"}
TEXT = "- alert: A\n  expr: x > 5\n  for: 3s\n"


def test_a_count_is_read_in_each_form():
    rows = [(0, 3), (1, 4)]
    frame = pd.DataFrame(rows, columns=["partition", "unread"])
    for form in (dict(rows), pd.Series(dict(rows)), frame, rows, {"0": "3", "1": 4.0}):
        assert by_partition(form) == dict(rows)
    for none in (None, 5, [1, 2], "text", [*rows, (1, 4)]):
        with pytest.raises(Unreadable):
            by_partition(none)


@pytest.mark.parametrize(
    "answer", [RULE, ["x > 5", "3s"], TEXT, {"groups": [{"name": "g", "rules": [RULE]}]}]
)
def test_a_rule_is_read_in_each_form(answer):
    [[rule]] = [group["rules"] for group in as_rules(answer)["groups"]]
    assert (rule["expr"], rule["for"]) == ("x > 5", "3s") and rule["alert"]


@pytest.mark.parametrize("answer", [5, "text", {"alert": "A"}, ["x > 5"], "a: [", None])
def test_what_is_no_rule_is_refused(answer):
    with pytest.raises(Unreadable):
        as_rules(answer)


def test_days_are_read_from_rows_and_columns():
    rows = [Row(orders=3, partition_date="2026-03-01"), Row(orders=4, partition_date="2026-03-02")]
    days = ["2026-03-01", "2026-03-02"]
    for form in (rows, days, pd.Series(days), pd.to_datetime(pd.Series(days))):
        assert days_of(form) == days


def test_every_day_of_the_hidden_table_has_its_own_fault():
    rows, books, faults = made_up_days(random.Random(19))
    assert sorted(faults.values()) == sorted([*FAULTS, "", ""])
    signs = {}
    for day, orders, revenue, newest in books:
        of_day = [row for row in rows if row[1] == day]
        total = sum((row[2] for row in of_day), Decimal(0))
        last = max((row[3] for row in of_day), default=newest)
        keys = len({row[0] for row in of_day})
        pairs = (len(of_day), orders), (keys, orders), (total, revenue), (last, newest)
        signs[faults[day]] = tuple((a > b) - (a < b) for a, b in pairs)
    assert signs == {
        "": (0, 0, 0, 0),
        "hidden": (0, -1, 0, 0),
        "doubled": (1, 0, 0, 0),
        "lost": (-1, -1, 0, 0),
        "amount": (0, 0, 1, 0),
        "cheaper": (0, 0, -1, 0),
        "stale": (0, 0, 0, -1),
        "ahead": (0, 0, 0, 1),
        "missing": (-1, -1, -1, 0),
    }


def test_scenarios_have_the_lessons_own_namespace():
    for scenario in scenarios.SCENARIOS:
        for row in scenario.series(SPACE):
            assert len(row["values"].split()) == scenarios.SECONDS + 1
            assert (
                f'namespace="{SPACE}"' in row["series"]
                or "returns" in row["series"]
                or (row["series"].startswith(('up{job="pipeline', "pipeline_watched")))
            )


def test_every_metric_of_the_exporter_can_be_used():
    names = {row["series"].partition("{")[0] for row in scenarios.CALM.series(SPACE)}
    assert set(METRICS) <= names


def test_the_oldest_message_is_older_than_the_limit_only_where_the_alert_must_ring():
    for scenario in scenarios.SCENARIOS:
        late = [s for s in range(scenarios.SECONDS + 1) if scenario.unread(s) > 5]
        assert (len(late) > 3) == (scenario in (scenarios.HANG, scenarios.SLOW))


def test_every_cause_has_something_said_against_it():
    for evidence in (
        Evidence("A", NO_COMPACTION, 5, {0: 0, 1: 0}, logs=5, table_batch=6, checkpoint_batch=6),
        Evidence("C", SAVEPOINT, 20261120120000000, logs=0, savepoints=1, merge_on_read=False),
        Evidence(
            "E", NOT_LOOKED_UP, 20261120120000000, logs=0, doubled=lambda: 40, merge_on_read=False
        ),
    ):
        assert all(evidence.against(cause) for cause in CAUSES)


def send(order: str, cents: int, second: int, op: str = "create", day: str = "2026-03-01") -> Send:
    at = f"2026-03-01T12:00:{second:02}.000000Z"
    value = encode(f"e-{second}", op, order, "c-1", "p-1", cents, "new", at, day, at)
    return Send(f"s-{second}", f"e-{second}", order, order, value, "event", op, second, second)


def test_the_books_take_the_newest_version_of_each_order_and_no_erased_one():
    sends = [
        send("o-1", 1000, 1),
        send("o-2", 500, 2),
        send("o-1", 1250, 5, "update"),
        send("o-1", 1000, 3, "update"),  # late
        send("o-3", 999, 4),
        send("o-3", 999, 6, "erase"),
        send("o-4", 100, 7, day="2026-03-02"),
    ]
    (first, second) = books_of(sends)
    assert first[:3] == ("2026-03-01", 2, Decimal("17.50")) and first[3].second == 5
    assert second[:3] == ("2026-03-02", 1, Decimal("1.00"))


def test_pages_become_scrape_jobs():
    pages = {"spark": "http://127.0.0.1:4040/metrics/prometheus/"}
    (job,) = yaml.safe_load(scrape_config(pages, "lesson-19"))["scrape_configs"]
    labels = {"namespace": "lesson-19"}
    assert job["static_configs"] == [{"targets": ["127.0.0.1:4040"], "labels": labels}]
    assert (job["job_name"], job["metrics_path"]) == ("spark", "/metrics/prometheus/")


def test_a_page_that_is_silent_gives_no_answer(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and sends nothing
        page = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        assert figures.answer_of(page, seconds=0.1) == "no answer within 0.1 s"
    page = tmp_path / "page"
    page.write_text("some text")
    assert figures.answer_of(page.as_uri()).startswith("status")


def test_a_gap_in_a_series_stays_a_gap_in_its_line(monkeypatch):
    drawn = {}
    monkeypatch.setattr(figures, "svg", lambda figure: drawn.setdefault("figure", figure))
    found = pd.DataFrame({"time": [100.2, 101.2, 104.2], "value": [1.0, 2.0, 3.0]})
    draw_over_time({"title": {"unread": found}}, [(101.0, 103.0)])
    (line,) = drawn["figure"].axes[0].get_lines()
    assert pd.Series(line.get_ydata()).isna().tolist() == [False, False, True, True, False]


def test_waiting_ends_with_the_condition_or_with_an_error():
    wait_until(lambda: True, "nothing", seconds=0)
    with pytest.raises(LabError, match="the alert fires"):
        wait_until(lambda: False, "the alert fires", seconds=0)


def test_a_notebook_without_a_jvm_says_so(monkeypatch):
    # Another test of this process may have left its session running.
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as childless:
        monkeypatch.setattr(figures.os, "getpid", lambda: childless.pid)
        with pytest.raises(LabError, match="0 JVMs of Spark"):
            figures.jvm_of_session()
