"""Revenue per minute: a windowed aggregation whose changed rows are upserted into a Hudi table.

Hudi's own streaming sink treats output mode `update` as an overwrite of the table, so each batch is
written by `foreachBatch`. A repeated batch changes nothing, because each row is the total of a
minute, and the minute is its key.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter

from lab_env.pipeline import options

WINDOW = "1 minute"


def new_orders(events: DataFrame) -> DataFrame:
    """Select the create events, including resends: only they add revenue."""
    return events.where("op = 'create'").select("event_id", "order_ts", "amount")


def per_minute(orders: DataFrame) -> DataFrame:
    """Number of orders and revenue per minute of event time (`order_ts`); one input row per order.

    Returns:
        `minute` (its beginning), `orders`, `revenue` and `partition_date` (of the minute).
    """
    return (
        orders.groupBy(F.window("order_ts", WINDOW))
        .agg(F.count("*").alias("orders"), F.sum("amount").alias("revenue"))
        .select(
            F.col("window.start").alias("minute"),
            "orders",
            "revenue",
            F.date_format("window.start", "yyyy-MM-dd").alias("partition_date"),
        )
    )


def minutes_in_a_batch(events: DataFrame) -> DataFrame:
    """Expected result of the stream, computed from all events in one batch, each counted once.

    The events are rows of the JSON files, with `order_ts` as text.
    """
    orders = new_orders(events.withColumn("order_ts", F.to_timestamp("order_ts")))
    return per_minute(orders.dropDuplicates(["event_id"]))


def minutes_stream(events: DataFrame, watermark_seconds: float) -> DataFrame:
    """Stream of revenue per minute from valid events; use it in output mode `update`.

    `watermark_seconds` is how far behind the newest event time an event may arrive. Resends are
    recognised within the same span. An older event is dropped even if its minute is still open,
    because resends are removed first. An event from the future moves the watermark: `parsing`
    accepts events up to a day ahead of Kafka's clock.
    """
    return per_minute(
        new_orders(events)
        .withWatermark("order_ts", f"{watermark_seconds} seconds")
        .dropDuplicatesWithinWatermark(["event_id"])
    )


def upsert_minutes(path: str):
    """Make a function for `foreachBatch` that upserts the changed minutes into a table."""

    def upsert(changed: DataFrame, batch_id: int) -> None:
        # Hudi's writer reads its input more than once; each time would aggregate the batch again.
        changed = changed.persist()
        try:
            if changed.isEmpty():  # only the watermark has moved
                return
            (
                changed.write.format("hudi")
                .options(**options.MINUTES)
                .option("hoodie.table.name", path.rsplit("/", 1)[-1])
                .mode("append")
                .save(path)
            )
        finally:
            changed.unpersist()

    return upsert


def minutes_writer(events: DataFrame, path: str, watermark_seconds: float) -> DataStreamWriter:
    """Make the query that keeps the table of revenue per minute current; see `minutes_stream`."""
    return (
        minutes_stream(events, watermark_seconds)
        .writeStream.outputMode("update")
        .foreachBatch(upsert_minutes(path))
    )
