"""Lesson 03 on the ladder: a bounded stream, dead letters, and files with each message once."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pandas as pd

from lab_env.course.answers import Unreadable, as_pair
from lab_env.lab.ladder.stage import Stage, Task
from lab_env.lab.ladder.target import (
    EachMessageOnce,
    Target,
    Verdict,
    check_query,
    ends_by_itself,
    look_below,
    part_files,
    topic_at_rest,
)
from lab_env.shop.events import EVENT_DDL
from lab_env.shop.ledger.reconcile import place_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


FILES, CHECKPOINT = "files", "_checkpoints/files"  # below the attack's folder
MESSAGE = ("CAST(value AS STRING) AS value", "partition", "offset")
PLACE = "partition INT, offset LONG"
SHOWN = ("partition", "offset", "event")
BOUND = 20  # messages of a batch; each rung has a delivery of more than twice as many
# Spark divides the bound among the topic's partitions. It rounds down, but gives each at least one
# message, so that a batch may exceed the bound if the messages are spread unevenly.
ROUNDED = 5
ENDLESS = {"processingTime": "0 seconds"}
LAST_DELIVERY = 3
ORDER, DEAD_LETTER = "an order", "a dead letter"


class MessagesInFiles(EachMessageOnce):
    """JSON files, read as Spark does: only those in the sink's list `_spark_metadata`."""

    write = part_files(FILES)

    def look(self, spark: "SparkSession", task: Task) -> pd.DataFrame:
        return spark.read.schema(PLACE).json(f"{task.base}/{FILES}").toPandas()

    def rows(self, stage: Stage) -> pd.DataFrame:
        return self.keyed(look_below(stage, FILES, SHOWN))


class StreamOf(MessagesInFiles):
    """`stream_of(topic, at_most)` describes the stream; a file sink of our own writes it."""

    promise = f"{MessagesInFiles.promise} No batch has more messages than `at_most`."

    def call(self, function: Callable, spark: "SparkSession", task: Task) -> None:
        records = _records(function(task.topic, BOUND))
        query = _to_files(records.selectExpr(*MESSAGE), task)
        query.awaitTermination()
        check_bound([report["numInputRows"] for report in query.recentProgress])


class Split(Target):
    """`split(parsed)` returns the orders and the dead letters, here of all messages so far."""

    noun = "message"
    promise = (
        "Each message is either an order or a dead letter: an order if it is valid, a dead letter "
        "if it is malformed."
    )

    def call(self, function: Callable, spark: "SparkSession", task: Task) -> None:
        from pyspark.sql import functions as F

        parsed = _parsed(spark, task)
        orders, dead = as_pair(
            function(parsed), "Two DataFrames are expected: `return orders, dead_letters`"
        )
        _check_columns(orders, parsed, "orders")
        _check_columns(dead, parsed.select("partition", "offset"), "dead letters")
        orders, dead = (
            rows.select("partition", "offset", F.lit(event).alias("event"))
            for rows, event in ((orders, ORDER), (dead, DEAD_LETTER))
        )
        orders.union(dead).write.mode("overwrite").json(f"{task.base}/{FILES}")

    def look(self, spark: "SparkSession", task: Task) -> pd.DataFrame:
        return spark.read.schema(f"{PLACE}, event STRING").json(f"{task.base}/{FILES}").toPandas()

    def rows(self, stage: Stage) -> pd.DataFrame:
        rows = look_below(stage, FILES, SHOWN)
        return rows.assign(key=place_of(rows))

    def keyed(self, sends: pd.DataFrame) -> pd.DataFrame:
        # Not the result it belongs to: a history shows an event of a send by its time.
        return sends.assign(key=place_of(sends), event=sends["send_id"])

    def right(self, own: pd.DataFrame) -> list[str]:
        return [DEAD_LETTER if kind.startswith("malformed") else ORDER for kind in own["kind"]]

    def judge(self, sends: pd.DataFrame, rows: pd.DataFrame) -> Verdict:
        """Count the messages with each mistake, and name one of them by its place and its kind."""
        kinds = dict(zip(sends["key"], sends["kind"], strict=True))
        shown = rows.groupby("key")["event"].agg(list)
        wrong: dict[str, list[str]] = {}
        for key in dict.fromkeys([*kinds, *shown.index]):
            if mistake := _mistake(kinds.get(key), shown.get(key, [])):
                wrong.setdefault(mistake, []).append(key)
        parts = [
            f"{len(keys)} {mistake} ({keys[0]}, {kinds.get(keys[0], 'never sent')})"
            for mistake, keys in wrong.items()
        ]
        text = "Messages: " + "; ".join(parts) + "." if parts else ""
        return Verdict(text, tuple(key for keys in wrong.values() for key in keys))


class ToFiles(MessagesInFiles):
    """`to_files(rows, path, checkpoint, **trigger)` returns the query.

    After the last delivery it gets a trigger that does not end the stream.
    """

    promise = f"{MessagesInFiles.promise} The stream ends only if its trigger ends it."

    def call(self, function: Callable, spark: "SparkSession", task: Task) -> None:
        from lab_env.pipeline import parsing

        rows = parsing.read_topic(spark, task.bootstrap, task.topic).selectExpr(*MESSAGE)
        paths = f"{task.base}/{FILES}", f"{task.base}/{CHECKPOINT}"
        if task.delivery < LAST_DELIVERY:
            check_query(function(rows, *paths, availableNow=True)).awaitTermination()
        else:
            _check_endless(check_query(function(rows, *paths, **ENDLESS)))


def check_bound(sizes: list[int]) -> None:
    """Raise Unreadable if one of these batches has more messages than a bounded stream takes."""
    if (largest := max(sizes, default=0)) > BOUND + ROUNDED:
        raise Unreadable(
            f"A batch of your stream has {largest} messages; with at_most={BOUND}, at most {BOUND} "
            "were wanted."
        )


def _records(answer: object) -> "DataFrame":
    from lab_env.lessons.rows import as_dataframe

    rows = as_dataframe(answer, "records")
    if not rows.isStreaming:
        raise Unreadable(
            "Your function returned a table at rest. A stream begins with `spark.readStream`."
        )
    if missing := [c for c in ("value", "partition", "offset") if c not in rows.columns]:
        raise Unreadable(f"Your records have no column {' and no '.join(missing)}.")
    return rows


def _to_files(rows: "DataFrame", task: Task):
    return (
        rows.writeStream.format("json")
        .option("path", f"{task.base}/{FILES}")
        .option("checkpointLocation", f"{task.base}/{CHECKPOINT}")
        .trigger(availableNow=True)
        .start()
    )


def _parsed(spark: "SparkSession", task: Task) -> "DataFrame":
    """Read the whole topic at rest, parsed as in the lesson."""
    from pyspark.sql import functions as F

    records = topic_at_rest(spark, task)
    schema, corrupt = f"{EVENT_DDL}, _corrupt STRING", {"columnNameOfCorruptRecord": "_corrupt"}
    event = F.from_json(F.col("value").cast("string"), schema, corrupt)
    return records.withColumn("event", event)


def _check_columns(answer: object, wanted: "DataFrame", name: str) -> None:
    """Raise Unreadable unless an answer has these columns with the same types."""
    from lab_env.lessons.rows import as_dataframe

    types = dict(as_dataframe(answer, f"the {name}").dtypes)
    if lost := [f"`{column}`" for column, kind in wanted.dtypes if types.get(column) != kind]:
        raise Unreadable(f"Your {name} have no column {', '.join(lost)} as it was parsed.")


def _mistake(kind: str | None, shown: list[str]) -> str:
    """Say what is wrong with a message of this kind, given the results in which it is."""
    if kind is None:
        return "in your results, but not in the topic"
    malformed = kind.startswith("malformed")
    if shown == [DEAD_LETTER if malformed else ORDER]:
        return ""
    if not shown:
        return "in neither of your results"
    if len(shown) > 1:
        return "in your results more than once"
    return "malformed, but among your orders" if malformed else "valid, but among your dead letters"


def _check_endless(query) -> None:
    """Read everything, and check that the query would go on; then stop it."""
    ended = ends_by_itself(query)
    query.stop()
    if ended:
        raise Unreadable(
            'With the trigger `processingTime="0 seconds"` a stream runs until somebody stops it, '
            "and yours ended by itself."
        )


TARGETS = {"03.1": StreamOf(), "03.2": Split(), "03.3": ToFiles()}
