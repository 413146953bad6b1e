"""Lesson 06 on the ladder: a stream into a Merge-on-Read table, compacted while the stream runs."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from lab_env.course.answers import Unreadable
from lab_env.lab.ladder.stage import Task
from lab_env.lab.ladder.target import (
    NewestOfEachOrder,
    check_query,
    delivered,
    ends_by_itself,
)
from lab_env.pipeline.layout import FOLDERS, checkpoint_path, table_path
from lab_env.platform import store
from lab_env.tables.hudi.timeline import parse_timeline_key

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE = "changes"  # the folder of Parquet files, below the attack's folder
# The lesson's columns, and two more: the ledger knows an event by its id, and erases orders.
SCHEMA = (
    "order_id STRING, status STRING, amount DECIMAL(12,2), tracking_code STRING, batch INT, "
    "order_ts TIMESTAMP, partition_date STRING, event_id STRING, _hoodie_is_deleted BOOLEAN"
)
# A delivery is two files, and so two batches. A batch with new orders rewrites small base files,
# and only one without them writes logs, which are what a compaction needs.
FILES = "op = 'create'", "op <> 'create'"
# Shorter than the time after which a stream that only waits counts as endless.
COMPACTS_WITHIN_S, POLL_S = 15.0, 0.5


class StartStream(NewestOfEachOrder):
    """`start_stream(source, path, checkpoint)` returns the query, which runs on."""

    promise = (
        f"{NewestOfEachOrder.promise} The stream runs until somebody stops it, and compacts "
        "meanwhile."
    )
    table = FOLDERS["mor"]
    compaction = f"{table}/"
    feeds = True
    given = ("SCHEMA",)

    def variables(self, spark: "SparkSession", task: Task) -> Mapping[str, Any]:
        return {"SCHEMA": spark.createDataFrame([], SCHEMA).schema}

    def feed(self, spark: "SparkSession", task: Task) -> None:
        added = {"tracking_code": "sha2(event_id, 256)", "batch": str(task.delivery)}
        names = spark.createDataFrame([], SCHEMA).columns
        columns = [f"{added.get(name, name)} AS {name}" for name in names]
        events = delivered(spark, task).coalesce(1).cache()
        for which in FILES:
            rows = events.where(which).selectExpr(*columns)
            rows.write.mode("append").parquet(f"{task.base}/{SOURCE}")
        events.unpersist()

    def call(self, function: Callable, spark: "SparkSession", task: Task) -> None:
        table, checkpoint = table_path(task.base, "mor"), checkpoint_path(task.base, "mor")
        query = check_query(function(f"{task.base}/{SOURCE}", table, checkpoint))
        if ends_by_itself(query):
            raise Unreadable(
                "Your stream ended by itself. Without a trigger it runs until somebody stops it."
            )
        _wait_for_compaction(table)
        query.stop()


def _wait_for_compaction(table: str) -> None:
    """Wait until no compaction is pending, or the time is up."""
    from lab_env.pipeline.session import endpoints_of_environment

    timeline = f"{store.key_of(table)}/.hoodie/timeline/"
    endpoints, deadline = endpoints_of_environment(), time.monotonic() + COMPACTS_WITHIN_S
    while time.monotonic() < deadline:
        if not pending(found.key for found in store.list_objects(endpoints, timeline)):
            return
        time.sleep(POLL_S)


def pending(keys: Iterable[str]) -> set[str]:
    """Return the requested times of the compactions that are planned and not complete."""
    instants = [instant for key in keys if (instant := parse_timeline_key(key))]
    planned = {i.requested for i in instants if i.action == "compaction"}
    return planned - {i.requested for i in instants if i.completed}


TARGETS = {"06.3": StartStream()}
