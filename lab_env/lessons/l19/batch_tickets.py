"""Ticket E of exercise 19.4: a fault of a batch job, caused by real writes."""

import pandas as pd
from pyspark.sql import DataFrame

from lab_env.tables.hudi_rs import read_rows

DAY = "2026-11-20"
LOAD = "bulk_insert"


def load_without_lookup(lab, options: dict[str, str], path: str) -> str:
    """Ticket E: load changed orders as if they were new; return the setting of that job.

    Neither the rows nor the operations alone show the guilty commit: an upsert has since rewritten
    both rows of ten orders, and the job's next run did no harm, because its orders were new.
    """
    _write(lab, options, path, _orders(lab, range(300), minute=0), "upsert")
    _write(lab, options, path, _orders(lab, range(40, 80), minute=1, amount=15), LOAD)
    _write(lab, options, path, _orders(lab, range(300, 340), minute=2), LOAD)
    paid = _orders(lab, range(40, 50), minute=3, status="paid", amount=15)
    _write(lab, options, path, paid, "upsert")
    return f"hoodie.datasource.write.operation={LOAD}"


def doubled_rows(lab, path: str) -> pd.DataFrame:
    """Return all rows of the orders that have several rows in one partition."""
    rows = read_rows(lab.endpoints, path, ("order_id", "partition_date"))
    return rows[rows.duplicated(["order_id", "partition_date"], keep=False)]


def _orders(lab, numbers: range, minute: int, status: str = "new", amount: int = 10) -> DataFrame:
    return lab.spark.sql(f"""
        SELECT concat('O-', id) AS order_id, '{status}' AS status,
               CAST({amount} AS DECIMAL(12, 2)) AS amount,
               TIMESTAMP '{DAY} 12:0{minute}:00' AS order_ts, '{DAY}' AS partition_date
        FROM range({numbers.start}, {numbers.stop}, 1, 1)
    """)


def _write(lab, options: dict[str, str], path: str, rows: DataFrame, operation: str) -> None:
    (
        rows.write.format("hudi")
        .options(**options)
        .option("hoodie.table.name", path.rsplit("/", 1)[1])
        .option("hoodie.datasource.write.table.type", "COPY_ON_WRITE")
        .option("hoodie.datasource.write.operation", operation)
        .mode("append")
        .save(path)
    )
