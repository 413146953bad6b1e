"""The orders of lesson 08, two kinds of changes to them, and the shop's board."""

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

OTHER_DAY = "2026-11-21"


def shop_orders(spark: SparkSession) -> DataFrame:
    """Return the orders O-0000 to O-5999 of two days, in six Spark partitions of one day each."""
    return spark.sql("""
        SELECT concat('O-', lpad(n, 4, '0')) AS order_id,
               CAST(CASE n WHEN 1234 THEN 989.49 WHEN 4321 THEN 989.50
                    ELSE 5 + pmod(hash(n, 'amount'), 99500) / 100 END AS DECIMAL(12, 2)) AS amount,
               'new' AS status,
               TIMESTAMP '2026-11-20' + make_interval(0, 0, 0, 0, 0, 0, n * 28.8) AS order_ts,
               IF(n < 3000, '2026-11-20', '2026-11-21') AS partition_date
        FROM range(0, 6000, 1, 6) AS numbers(n)
    """)


def paid(orders: DataFrame, first: str, last: str) -> DataFrame:
    """Return the payments of the orders `first` to `last`, one hour after each order."""
    return _changed(orders.where(F.col("order_id").between(first, last)), "paid", hours=1)


def corrected(orders: DataFrame, order_id: str) -> DataFrame:
    """Return the correction of one order: it belongs to 21 November."""
    order = orders.where(F.col("order_id") == order_id)
    return _changed(order, "corrected", hours=2).withColumn("partition_date", F.lit(OTHER_DAY))


def board(spark: SparkSession, paths: dict[str, str]) -> pd.DataFrame:
    """Return the revenue of each day and of both days, with one column per table.

    Args:
        paths: each table's path, by the column's title.
    """
    columns = {}
    for title, path in paths.items():
        rows = spark.read.format("hudi").load(path).groupBy("partition_date")
        revenue = rows.agg(F.sum("amount").alias(title)).toPandas()
        columns[title] = revenue.set_index("partition_date")[title].sort_index()
    found = pd.DataFrame(columns).rename_axis("revenue of")
    found.loc["both days"] = found.sum()
    return found


def _changed(rows: DataFrame, status: str, hours: int) -> DataFrame:
    later = F.expr(f"order_ts + INTERVAL {hours} HOUR")
    return rows.withColumn("status", F.lit(status)).withColumn("order_ts", later)
