"""Lesson 04 on the ladder: a stream that keeps the newest event of each order."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from lab_env.lab.ladder.stage import Task
from lab_env.lab.ladder.target import NewestOfEachOrder, check_query
from lab_env.pipeline.layout import FOLDERS, checkpoint_path, table_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class StartTable(NewestOfEachOrder):
    """`start_table(events, path, checkpoint)` returns the query, which ends by itself."""

    table = FOLDERS["cow"]

    def call(self, function: Callable, spark: "SparkSession", task: Task) -> None:
        from lab_env.pipeline import parsing

        records = parsing.read_topic(spark, task.bootstrap, task.topic)
        events = parsing.valid_events(parsing.parse(records))
        paths = table_path(task.base, "cow"), checkpoint_path(task.base, "cow")
        check_query(function(events, *paths)).awaitTermination()


TARGETS = {"04.2": StartTable()}
