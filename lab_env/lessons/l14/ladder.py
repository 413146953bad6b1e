"""Lesson 14 on the ladder: a stream of revenue per minute into a table."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import pandas as pd

from lab_env.lab.ladder.stage import Stage, Task
from lab_env.lab.ladder.target import Target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


MINUTES, CHECKPOINT = "minutes", "_checkpoints/board"  # below the attack's folder
ORDER = (  # as in the lesson
    "order_id STRING, customer_id STRING, amount DECIMAL(12,2), "
    "order_ts TIMESTAMP, sent_at TIMESTAMP"
)


class StartBoard(Target):
    """`start_board(orders, path, checkpoint)` returns the query."""

    noun = "minute"
    promise = (
        "Each minute in which customers ordered has one row, with the number and the sum of its "
        "orders. As in 14.1, an order that was sent twice counts twice."
    )

    def call(self, function: Callable, spark: "SparkSession", task: Task) -> None:
        from lab_env.lessons.l14.quick import QUICK, finish
        from lab_env.lessons.streams import spark_settings

        with spark_settings(spark, QUICK):
            paths = f"{task.base}/{MINUTES}", f"{task.base}/{CHECKPOINT}"
            finish(function(_orders(spark, task), *paths))

    def rows(self, stage: Stage) -> pd.DataFrame:
        rows = stage.hudi_rows(MINUTES, ("minute", "orders", "revenue"))
        events = list(map(_event, rows["orders"], rows["revenue"].astype(float)))
        return rows.assign(key=_clock(pd.to_datetime(rows["minute"], utc=True)), event=events)

    def keyed(self, sends: pd.DataFrame) -> pd.DataFrame:
        sends = sends[~sends["kind"].str.startswith("malformed")]
        amount = sends["value"].map(lambda value: json.loads(value)["amount"])
        return sends.assign(
            key=_clock(pd.to_datetime(sends["order_ts"], unit="us", utc=True)),
            event=sends["event_id"],
            amount=amount,
            about=amount.map("{:.2f}".format),
        )

    def right(self, own: pd.DataFrame) -> list[str]:
        return [_event(len(own), own["amount"].sum())] if len(own) else []


def _event(orders: int, revenue: float) -> str:
    return f"{orders} orders, {revenue:.2f}"


def _clock(times: pd.Series) -> pd.Series:
    """Name the minutes, for example `2026-01-05 23:59`."""
    return times.dt.strftime("%Y-%m-%d %H:%M")


def _orders(spark: "SparkSession", task: Task) -> "DataFrame":
    """Stream the topic's orders, with the lesson's columns."""
    from pyspark.sql import functions as F

    from lab_env.pipeline import parsing

    records = parsing.read_topic(spark, task.bootstrap, task.topic)
    order = F.from_json(F.col("value").cast("string"), ORDER).alias("order")
    return records.select(order, "timestamp", "offset").select("order.*", "timestamp", "offset")


TARGETS = {"14.4": StartBoard()}
