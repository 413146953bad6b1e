"""Lesson 19 computes daily revenue from the events alone, and its charts keep gaps."""

import subprocess
from decimal import Decimal

import pandas as pd
import pytest
import yaml

from lab_env.lessons.l19 import figures
from lab_env.lessons.l19.figures import (
    books_of,
    draw_over_time,
    metric_lines,
    scrape_config,
    wait_until,
)
from lab_env.platform.errors import LabError
from lab_env.shop.events import encode
from lab_env.shop.model import Send


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


def test_a_page_gives_the_lines_that_are_asked_for(tmp_path):
    page = tmp_path / "page"
    page.write_text("# HELP a text\na_total 1\nb_total 2\n")
    assert metric_lines(page.as_uri(), "a_") == ["a_total 1"]


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
