"""Lesson 15 on the ladder: a stream that hands each batch of a topic to a function."""

import io
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from lab_env.course.answers import Unreadable
from lab_env.lab.ladder.stage import Stage, Task
from lab_env.lab.ladder.target import EachMessageOnce, check_ended
from lab_env.lessons.l03.ladder import BOUND, ROUNDED
from lab_env.platform import store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


APPLIED, CHECKPOINT = "applied", "_checkpoints/follow"  # below the attack's folder
PLACE = ["partition", "offset"]
LIMIT = "maxOffsetsPerTrigger"


class Follow(EachMessageOnce):
    """`follow(apply, checkpoint, **limits)` calls our `apply`, which writes a folder per batch."""

    promise = f"{EachMessageOnce.promise} No batch has more messages than `limits` allow."
    given = ("KAFKA", "topic")

    def variables(self, spark: "SparkSession", task: Task) -> Mapping[str, Any]:
        kafka = {"kafka.bootstrap.servers": task.bootstrap, "subscribe": task.topic}
        return {"KAFKA": kafka, "topic": task.topic}

    def call(self, function: Callable, spark: "SparkSession", task: Task) -> None:
        sizes: list[int] = []

        def apply(batch: "DataFrame", number: int) -> None:
            sizes.append(batch.count())
            _apply(batch, f"{task.base}/{APPLIED}/{number}")

        function(apply, f"{task.base}/{CHECKPOINT}", **{LIMIT: BOUND})
        check_ended(spark)
        check_limit(sizes)

    def rows(self, stage: Stage) -> pd.DataFrame:
        found = store.list_objects(stage.endpoints, f"{stage.folder}/{APPLIED}/")
        keys = [one.key for one in found if one.key.endswith(".parquet")]
        written = [
            pd.read_parquet(io.BytesIO(store.read(stage.endpoints, key)))
            for key in keys
            if "/_temporary/" not in key
        ]
        return self.keyed(pd.concat(written) if written else pd.DataFrame(columns=PLACE))


def check_limit(sizes: list[int]) -> None:
    """Raise Unreadable if one of these batches has more messages than the limit allows."""
    if (largest := max(sizes, default=0)) > BOUND + ROUNDED:
        raise Unreadable(f"With {LIMIT}={BOUND}, your function called `apply` with {largest}.")


def _apply(batch: "DataFrame", folder: str) -> None:
    """Write a batch's offsets; skip a batch whose number is known, as Hudi's sink does."""
    from lab_env.pipeline.session import endpoints_of_environment

    success = f"{store.key_of(folder)}/_SUCCESS"
    if not any(store.list_objects(endpoints_of_environment(), success)):
        batch.select(*PLACE).write.mode("overwrite").parquet(folder)


TARGETS = {"15.2": Follow()}
