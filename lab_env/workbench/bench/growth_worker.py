"""Tasks of the worker `growth`: make the same change to tables of growing size."""

import time

from pyspark.sql import DataFrame, SparkSession

from lab_env.pipeline import options
from lab_env.workbench.bench.sink_writes import as_text, compact

# Small files, so that a growing table gets more file groups if its index allows more.
FILES = {"hoodie.parquet.max.file.size": "2000000", "hoodie.parquet.small.file.limit": "1500000"}
INDEXES = {"bucket": options.INDEX, "bloom": {"hoodie.index.type": "BLOOM"}}
TYPES = {"cow": options.COW, "mor": options.MOR}


class GrowingTables:
    """Tables of both types with two kinds of index; each method is a task of the worker."""

    def __init__(self, spark: SparkSession):
        self.spark = spark

    def begin(self, path: str, kind: str, index: str) -> dict:
        """Choose the table for the next tasks; `kind` is a key of `TYPES`, `index` of `INDEXES`."""
        self.path, self.kind = path, kind
        kept = {k: v for k, v in TYPES[kind].items() if k not in options.INDEX}
        self.options = kept | options.COMPACTION_OFF | INDEXES[index] | FILES
        self.options["hoodie.table.name"] = path.rpartition("/")[2]
        return {}

    def grow(self, first: int, end: int) -> dict:
        """Insert the orders from number `first` up to, but excluding, `end`."""
        return self._write(self._orders(self.spark.range(first, end), 0), "insert")

    def change(self, rows: int, size: int, version: int) -> dict:
        """Update `rows` orders, spread over the whole table; return `seconds`."""
        spread = self.spark.range(rows).selectExpr(f"id * {size} div {rows} + id % 2 AS id")
        return self._write(self._orders(spread, version), "upsert")

    def compact(self) -> dict:
        """Compact a Merge-on-Read table; do nothing for Copy-on-Write."""
        if self.kind == "mor":
            compact(self.spark, self.path, as_text(options.METADATA))
        return {}

    def run_query(self, order: int | None = None) -> dict:
        """Open the table and sum all orders or only one; return `seconds` and `answer`."""
        began = time.monotonic()
        table = self.spark.read.format("hudi").load(self.path)
        if order is not None:
            table = table.where(f"order_id = 'o-{order:07d}'")
        answer = table.selectExpr("count(*)", "cast(sum(amount) AS long)").collect()[0]
        return {"seconds": time.monotonic() - began, "answer": list(answer)}

    def _write(self, orders: DataFrame, operation: str) -> dict:
        began = time.monotonic()
        (
            orders.write.format("hudi")
            .options(**self.options | {"hoodie.datasource.write.operation": operation})
            .mode("append")
            .save(self.path)
        )
        return {"seconds": time.monotonic() - began}

    @staticmethod
    def _orders(numbers: DataFrame, version: int) -> DataFrame:
        return numbers.selectExpr(
            f"md5(concat(id, '-{version}')) AS event_id",
            "concat('o-', lpad(id, 7, '0')) AS order_id",
            "concat('c-', id % 500) AS customer_id",
            "concat('p-', id % 40) AS product_id",
            f"cast(id % 100 + {version} AS decimal(12,2)) AS amount",
            "'paid' AS status",
            f"timestamp_micros(1767600000000000 + {version} * 1000000) AS order_ts",
            "if(id % 2 = 0, '2026-01-05', '2026-01-06') AS partition_date",
        )
