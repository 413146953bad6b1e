"""Tickets E and F of exercise 19.4: faults of batch jobs, caused by real writes."""

import pandas as pd
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame

from lab_env.tables.hudi_rs import read_rows

DAY = "2026-11-20"
LOAD = "bulk_insert"
# A procedure does not know the table's options, and these tables have no metadata table.
PROCEDURE_OPTIONS = "hoodie.metadata.enable=false"


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


def plan_without_executing(lab, options: dict[str, str], path: str) -> str:
    """Ticket F: plan a clustering and never execute it; return the error of a correction."""
    # Each of the two tasks writes a file, so that there is something to cluster.
    _write(lab, options, path, _orders(lab, range(200), minute=0, tasks=2), "bulk_insert")
    lab.spark.sql(
        f"CALL run_clustering(path => '{path}', op => 'schedule', options => '{PROCEDURE_OPTIONS}')"
    )
    _write(lab, options, path, _orders(lab, range(200, 220), minute=1), "insert")
    return correct(lab, options, path)


def correct(lab, options: dict[str, str], path: str) -> str:
    """Run ticket F's nightly correction; return Hudi's error, empty if the write succeeds."""
    try:
        _write(lab, options, path, _orders(lab, range(5), minute=2, status="returned"), "upsert")
    except Py4JJavaError as error:
        cause = error.java_exception.getCause() or error.java_exception
        return cause.getMessage()
    return ""


def doubled_rows(lab, path: str) -> pd.DataFrame:
    """Return all rows of the orders that have several rows in one partition."""
    rows = read_rows(lab.endpoints, path, ("order_id", "partition_date"))
    return rows[rows.duplicated(["order_id", "partition_date"], keep=False)]


def _orders(
    lab, numbers: range, minute: int, status: str = "new", amount: int = 10, tasks: int = 1
) -> DataFrame:
    return lab.spark.sql(f"""
        SELECT concat('O-', id) AS order_id, '{status}' AS status,
               CAST({amount} AS DECIMAL(12, 2)) AS amount,
               TIMESTAMP '{DAY} 12:0{minute}:00' AS order_ts, '{DAY}' AS partition_date
        FROM range({numbers.start}, {numbers.stop}, 1, {tasks})
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
