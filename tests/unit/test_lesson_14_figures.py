"""Lesson 14 derives which orders were late, and compares windows."""

from datetime import datetime, timedelta
from types import SimpleNamespace

import pandas as pd
import pytest

from lab_env.course.answers import Unreadable
from lab_env.lessons.l14.crash import forget_last_commit
from lab_env.lessons.l14.figures import (
    arrivals,
    beside_each_other,
    rows_in_state,
)
from lab_env.lessons.l14.quick import finish, is_idle, spark_settings
from lab_env.platform.errors import LabError

NOON = datetime(2026, 11, 20, 12)
BEGIN = "1970-01-01T00:00:00.000Z"


def at(minutes: int, seconds: int = 0) -> datetime:
    return NOON + timedelta(minutes=minutes, seconds=seconds)


def batch(orders: int, watermark: str, rows: int = 0) -> dict:
    """Return a query's progress report, with a watermark such as `12:04:30`."""
    moment = BEGIN if watermark == BEGIN else f"2026-11-20T{watermark}.000Z"
    return {
        "numInputRows": orders,
        "eventTime": {"watermark": moment},
        "stateOperators": [{"numRowsTotal": rows}],
    }


# What Spark 3.5.7 reported for these orders: a batch without rows moves the watermark.
TIMES = [at(0, 5), at(1, 10), at(6, 30), at(4, 10), at(3, 50)]
PROGRESS = [
    batch(2, BEGIN, 2),
    batch(0, "11:59:10", 2),
    batch(1, "11:59:10", 3),
    batch(0, "12:04:30", 1),
    batch(1, "12:04:30", 2),
    batch(1, "12:04:30", 2),
]


def test_an_order_is_late_if_its_minute_had_ended_by_the_watermark_before_its_batch():
    found = arrivals(TIMES, PROGRESS)
    assert [arrival.late for arrival in found] == [False, False, False, False, True]
    assert found[3].watermark == at(4, 30) > found[3].at


def test_without_a_batch_between_a_late_order_survives_one_batch_longer():
    progress = [batch(1, BEGIN), batch(1, "11:58:05"), batch(1, "12:08:00"), batch(1, "12:08:00")]
    times = [at(0, 5), at(10), at(0, 10), at(0, 15)]
    assert [a.late for a in arrivals(times, progress)] == [False, False, False, True]


def test_only_batches_that_read_something_count():
    assert rows_in_state(PROGRESS) == [2, 3, 2, 2]


class Conf(dict):
    """Spark's runtime settings."""

    set = dict.__setitem__
    unset = dict.__delitem__


def test_settings_are_put_back_also_after_a_failure():
    spark = SimpleNamespace(conf=Conf(partitions="2"))
    with pytest.raises(ZeroDivisionError), spark_settings(spark, {"partitions": "1", "new": "x"}):
        assert spark.conf == {"partitions": "1", "new": "x"}
        raise ZeroDivisionError
    assert spark.conf == {"partitions": "2"}


def test_without_a_commit_there_is_nothing_to_forget_and_the_error_says_what_to_do():
    with pytest.raises(LabError, match="run the stream with this checkpoint first"):
        forget_last_commit(SimpleNamespace(files=lambda path: []), "s3a://lakehouse/checkpoint")


def test_only_customers_windows_that_the_stream_emitted_are_compared():
    start = pd.Timestamp(at(0))
    emitted = pd.DataFrame({"customer_id": ["C-1"], "start": [start], "revenue": [10]})
    by_batch = pd.DataFrame(
        {
            "customer_id": ["C-1", "C-2", "C-1"],
            "start": pd.to_datetime([at(0), at(0), at(5)]),
            "revenue": [30, 40, 80],
        }
    )
    table = beside_each_other(emitted, by_batch)
    assert list(table.index) == [start]
    assert table.loc[start].to_dict() == {"stream": 10, "batch query": 30}


class Query:
    """A query that waits for its next trigger, after a batch that read up to `end` of 12 orders."""

    recentProgress = ()

    def __init__(self, end: int, ends: bool = False):
        self.status = {"message": "Waiting for next trigger", "isTriggerActive": False}
        offsets = {"endOffset": {"t": {"0": end}}, "latestOffset": {"t": {"0": 12}}}
        self.lastProgress = {"sources": [offsets]}
        self.ends, self.stopped = ends, False

    def awaitTermination(self, seconds: float) -> bool:
        return self.ends

    def stop(self) -> None:
        self.stopped = True

    def exception(self) -> None:
        return None


def test_a_query_between_two_batches_is_not_idle():
    assert is_idle(Query(12))
    assert not is_idle(Query(6))


@pytest.mark.parametrize("query", [Query(12), Query(6, ends=True)])
def test_a_query_is_stopped_when_it_has_read_all_or_has_ended(query):
    assert finish(query).stopped


def test_a_query_that_never_gets_through_is_stopped_with_the_next_step():
    query = Query(6)
    with pytest.raises(LabError, match="still reading") as raised:
        finish(query, timeout_s=0)
    assert query.stopped
    assert "availableNow" in raised.value.next_step


def test_what_is_no_query_is_named():
    with pytest.raises(Unreadable, match="returned nothing"):
        finish(None)
