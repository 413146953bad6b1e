"""Lesson 13 judges what the metastore knows and what was counted: each mistake has its reason."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from lab_env.course.answers import Unreadable
from lab_env.course.checking import NotYet, Passed
from lab_env.lessons.l13.checks import Counted, NewDayIsKnown, Published, WithoutJava

OLD, NEW = "partition_date=2026-11-20", "partition_date=2026-11-22"


def reason_of(verdict) -> str:
    assert isinstance(verdict, NotYet)
    return verdict.reason


def test_a_day_that_is_known_afterwards_passes():
    verdict = NewDayIsKnown.judge(Published(NEW, frozenset({OLD}), frozenset({OLD, NEW})))
    assert isinstance(verdict, Passed)
    assert "knows 2026-11-22 now" in verdict.note


def test_another_day_than_the_new_one_was_named_by_hand():
    other = "partition_date=2026-11-21"
    verdict = NewDayIsKnown.judge(Published(NEW, frozenset({OLD}), frozenset({OLD, other})))
    assert f"learnt {other}, but {NEW} is" in reason_of(verdict)


def test_what_leaves_the_metastore_as_it_was_is_told_so():
    verdict = NewDayIsKnown.judge(Published(NEW, frozenset({OLD}), frozenset({OLD})))
    assert f"knows 1 partitions, as before; {NEW} is not" in reason_of(verdict)


COUNTED = Counted(
    answer={"orders": 1210, "paid": 10},
    orders=1210,
    paid=10,
    parquet=1410,
    base_paid=0,
    jobs=0,
)


@pytest.mark.parametrize(
    "answer",
    [
        {"orders": 1210, "paid": 10},
        {"paid": "10", "orders": "1,210"},
        {"orders": pa.scalar(1210), "paid": np.int64(10), "table": "orders"},
        pd.DataFrame({"orders": [1210], "paid": [10]}),
    ],
)
def test_both_numbers_without_spark_pass(answer):
    assert isinstance(WithoutJava.judge(replace(COUNTED, answer=answer)), Passed)


@pytest.mark.parametrize(
    ("answer", "jobs", "reason"),
    [
        ({"orders": 1210, "paid": 10}, 2, "Spark ran 2 jobs"),
        ({"orders": 1410, "paid": 0}, 0, "1,410 rows for 1,210 orders: old slices counted"),
        ({"orders": 3160, "paid": 10}, 0, "are estimates"),
        ({"orders": 1210, "paid": 0}, 0, "base files only. 10 are paid"),
        ({"orders": 1210, "paid": 7}, 0, "You count 7 paid orders; 10 are paid"),
        ({"orders": 1210}, 0, "a dictionary with two numbers"),
        ({}, 0, "a dictionary with two numbers"),
        (None, 0, "a dictionary with two numbers"),
        (1210, 0, "a dictionary with two numbers"),
        ([1210, 10], 0, "a dictionary with two numbers"),
    ],
)
def test_each_wrong_count_gets_its_reason(answer, jobs, reason):
    facts = replace(COUNTED, answer=answer, jobs=jobs)
    assert reason in reason_of(WithoutJava.judge(facts))


def test_a_count_that_is_no_number_is_named():
    with pytest.raises(Unreadable, match="A number is expected"):
        WithoutJava.judge(replace(COUNTED, answer={"orders": 1210, "paid": None}))
