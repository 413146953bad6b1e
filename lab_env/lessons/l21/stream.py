"""Lesson 21's pipeline: how messages become rows, and Hudi's options for the table of orders."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lab_env.pipeline.options import DEMO_OPTIONS
from lab_env.shop.events import EVENT_DDL

ORDERS = DEMO_OPTIONS | {  # without the metadata table and cleaning
    "hoodie.table.name": "orders",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.compaction.async.enable": "false",
    "hoodie.datasource.write.recordkey.field": "order_id",
    "hoodie.datasource.write.partitionpath.field": "",  # not partitioned
    "hoodie.table.ordering.fields": "order_ts",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.upsert.shuffle.parallelism": "4",
}


def parse(records: DataFrame) -> DataFrame:
    """Return the events as typed rows, each with the number of the task that parsed it.

    An erase event deletes its order.
    """
    event = F.from_json(F.col("value").cast("string"), EVENT_DDL).alias("event")
    rows = records.select(event, F.spark_partition_id().alias("parsed_by"))
    rows = rows.select("event.*", "parsed_by")
    return rows.withColumn("order_ts", F.to_timestamp("order_ts")).withColumn(
        "_hoodie_is_deleted", F.expr("op = 'erase'")
    )
