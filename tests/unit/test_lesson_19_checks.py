"""Lesson 19's checks: hidden days, scenarios for alerts, and accepted forms of answers."""

import random
from decimal import Decimal

import pandas as pd
import pytest
from pyspark.sql import Row

from lab_env.course.answers import Unreadable
from lab_env.lab.monitor.metrics import METRICS
from lab_env.lessons.l19 import scenarios
from lab_env.lessons.l19.checks import FAULTS, as_rules, by_partition, days_of, made_up_days
from lab_env.lessons.l19.tickets import (
    CAUSES,
    NO_COMPACTION,
    NOT_EXECUTED,
    NOT_LOOKED_UP,
    SAVEPOINT,
    Evidence,
)

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
        Evidence("F", NOT_EXECUTED, 20261120120000000, pending=2, planned=True, logs=0),
    ):
        assert all(evidence.against(cause) for cause in CAUSES)
