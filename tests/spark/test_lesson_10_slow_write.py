"""Lesson 10 and its demo read a table during a slow write, so that write must be slow enough."""

import time

from lab_env.lessons.l10.shop import slowly


def test_each_slow_row_waits_and_none_is_lost(spark):
    rows = spark.range(2)
    began = time.monotonic()
    assert [row["id"] for row in slowly(rows).collect()] == [0, 1]
    assert time.monotonic() - began >= 2
