"""Lesson 14 on the ladder: revenue per minute, upserted by a stream with state."""

import json
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING

import pandas as pd

from lab_env.lab.ladder.target import Target, Task, check_query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lab_env.lab.ladder.attack import Stage

TABLE, CHECKPOINT = "revenue_per_minute", "_checkpoints/minutes"
MINUTE = "%Y-%m-%d %H:%M"


class StartBoard(Target):
    """`start_board(orders, path, checkpoint)` returns the query, which ends by itself."""

    noun = "minute"
    promise = (
        "Each minute has one row: how many orders were created in it, and their revenue. An order "
        "that is sent twice counts twice, as in the lesson."
    )

    def call(self, function: Callable, spark: "SparkSession", task: Task) -> None:
        from lab_env.pipeline import parsing

        records = parsing.read_topic(spark, task.bootstrap, task.topic)
        orders = parsing.valid_events(parsing.parse(records)).where("op = 'create'")
        query = function(orders, f"{task.base}/{TABLE}", f"{task.base}/{CHECKPOINT}")
        check_query(query).awaitTermination()

    def rows(self, stage: "Stage") -> pd.DataFrame:
        rows = stage.hudi_rows(TABLE, ("minute", "orders", "revenue"))
        return pd.DataFrame(
            {
                "key": pd.to_datetime(rows["minute"], utc=True).dt.strftime(MINUTE),
                "event": [told(row.orders, row.revenue) for row in rows.itertuples()],
            }
        )

    def keyed(self, sends: pd.DataFrame) -> pd.DataFrame:
        created = sends[(sends["op"] == "create") & ~sends["kind"].str.startswith("malformed")]
        minutes = pd.to_datetime(created["order_ts"], unit="us").dt.strftime(MINUTE)
        return created.assign(key=minutes, event=created["send_id"])

    def right(self, own: pd.DataFrame) -> list[str]:
        amounts = [Decimal(str(json.loads(value)["amount"])) for value in own["value"]]
        return [told(len(amounts), sum(amounts))] if amounts else []


def told(orders: int, revenue: Decimal | int) -> str:
    """Say how many orders and how much revenue a minute has."""
    return f"{orders} orders, {revenue:.2f}"


TARGETS = {"14.4": StartBoard()}
