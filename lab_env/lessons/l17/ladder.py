"""Lesson 17 on the ladder: a stream that takes over a table, and a sink that delivers once."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pandas as pd

from lab_env.course.source import LESSONS, read_lesson
from lab_env.lab.ladder.stage import Stage, Task
from lab_env.lab.ladder.target import EachMessageOnce, NewestOfEachOrder, check_ended
from lab_env.platform import store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# What the notebook imports from the module that its cells write.
SHOP = ("ORDERS", "read_events", "read_kafka", "start_stream")
AUDIT = "audit"  # the table of 17.3
MESSAGE = (  # its columns, as in the lesson
    "concat_ws('-', topic, partition, offset) AS id",
    "partition",
    "offset",
    "CAST(value AS STRING) AS message",
)


class ContinueStream(NewestOfEachOrder):
    """`continue_stream(table, checkpoint)` takes over from a stream that lost its checkpoint.

    The lesson's stream writes the first delivery; the function gets all later ones.
    """

    table = "orders"
    feeds = True
    begins = 2
    given = ("KAFKA", "topic", *SHOP)

    def variables(self, spark: "SparkSession", task: Task) -> Mapping[str, Any]:
        shop = vars(shop_writer())
        return {"KAFKA": task.bootstrap, "topic": task.topic} | {name: shop[name] for name in SHOP}

    def feed(self, spark: "SparkSession", task: Task) -> None:
        from lab_env.pipeline.session import endpoints_of_environment

        if task.delivery >= self.begins:
            return
        checkpoint, shop = _checkpoint(task, "orders"), shop_writer()
        events = shop.read_events(spark, task.bootstrap, task.topic)
        shop.start_stream(events, f"{task.base}/{self.table}", checkpoint).awaitTermination()
        store.delete_prefix(endpoints_of_environment(), store.key_of(checkpoint) + "/")

    def call(self, function: Callable, spark: "SparkSession", task: Task) -> None:
        function(f"{task.base}/{self.table}", _checkpoint(task, "orders-2"))
        check_ended(spark)


class Deliver(EachMessageOnce):
    """`deliver(rows, batch, table)` writes each batch of a stream of the topic's messages."""

    def call(self, function: Callable, spark: "SparkSession", task: Task) -> None:
        table = f"{task.base}/{AUDIT}"
        messages = shop_writer().read_kafka(spark, task.bootstrap, task.topic)
        stream = messages.selectExpr(*MESSAGE).writeStream.option(
            "checkpointLocation", _checkpoint(task, AUDIT)
        )
        stream = stream.foreachBatch(lambda rows, batch: function(rows, batch, table))
        stream.trigger(availableNow=True).start().awaitTermination()

    def rows(self, stage: Stage) -> pd.DataFrame:
        return self.keyed(stage.hudi_rows(AUDIT, ("partition", "offset")))


@lru_cache(maxsize=1)
def shop_writer() -> ModuleType:
    """Make the module `shop_writer` from the lesson's cells, which write it to a file."""
    [path] = LESSONS.glob("l17/17_*.py")
    module = ModuleType("shop_writer")
    exec(read_lesson(path).written_file("shop_writer.py"), vars(module))
    return module


def _checkpoint(task: Task, name: str) -> str:
    return f"{task.base}/_checkpoints/{name}"


TARGETS = {"17.2": ContinueStream(), "17.3": Deliver()}
