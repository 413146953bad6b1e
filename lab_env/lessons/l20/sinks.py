"""The three sinks of lesson 20: JSON lines and two Hudi tables that get the same orders."""

import time

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lab_env.pipeline.options import DEMO_OPTIONS, KEYS

TYPES = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}
OURS = DEMO_OPTIONS | {
    "hoodie.parquet.bloom.filter.enabled": "false",
    "hoodie.compact.inline": "false",  # compaction only where the lesson asks for it
}


def make_orders(spark: SparkSession, batch: int) -> DataFrame:
    """Return a batch: batch 0 creates 10,000 orders of two days, 1 and 2 change one in forty."""
    return spark.sql(f"""
        SELECT concat('O-', id) AS order_id, concat('C-', pmod(hash(id), 500)) AS customer_id,
               CAST(5 + pmod(hash(id, {batch}), 20000) / 100 AS DECIMAL(12,2)) AS amount,
               element_at(array('new', 'paid', 'packed'), {batch} + 1) AS status,
               TIMESTAMP '2026-01-05 08:00:00' + make_interval(0, 0, 0, 0, {batch}) AS order_ts,
               IF(id % 2 = 0, '2026-01-05', '2026-01-06') AS partition_date
        FROM range(1, 10001, 1, 1)
        WHERE {batch} = 0 OR pmod(hash(id, {batch}, 'changed'), 40) = 0
    """)


def write(rows: DataFrame, path: str, kind: str, options: dict[str, str]) -> None:
    """Append rows as lines of JSON, or upsert them into a table; `kind` is json, cow or mor."""
    if kind == "json":
        rows.write.json(path, mode="append", compression="gzip")
        return
    table = {"hoodie.table.name": "orders", "hoodie.datasource.write.table.type": TYPES[kind]}
    rows.write.format("hudi").options(**KEYS, **options, **table).mode("append").save(path)


def write_all(lab, paths: dict[str, str], batches: int = 3) -> pd.DataFrame:
    """Write batches 0, 1 and so on to each sink; return the bytes that each write has added.

    Args:
        paths: the sinks, by kind.

    Returns:
        One row per batch, one column per kind.
    """
    added = pd.DataFrame(columns=list(paths), index=pd.RangeIndex(batches, name="batch"))
    for batch in range(batches):
        for kind, path in paths.items():
            before = stored(lab, path)
            write(make_orders(lab.spark, batch), path, kind, OURS)
            added.loc[batch, kind] = stored(lab, path) - before
    return added.astype(int)


def stored(lab, path: str) -> int:
    """Return the bytes of all objects below a path."""
    return sum(file.size for file in lab.files(path))


def compact(spark: SparkSession, path: str) -> None:
    """Merge all logs of the table at `path` into base files, however few commits wait."""
    options = OURS | {"hoodie.compact.inline.max.delta.commits": "1"}
    job = ",".join(f"{name}={value}" for name, value in options.items())
    spark.sql(f"""
        CALL run_compaction(op => 'scheduleandexecute', path => '{path}', options => '{job}')
    """)


def board(sources: dict[str, DataFrame]) -> pd.DataFrame:
    """Return the revenue by status of each source, one column per source."""
    return pd.DataFrame(
        {
            name: dict(rows.groupBy("status").agg(F.sum("amount")).collect())
            for name, rows in sources.items()
        }
    )


def seconds_of(rows: DataFrame) -> float:
    """Return how long the sum over all orders takes, in seconds."""
    began = time.perf_counter()
    rows.agg(F.sum("amount")).collect()
    return time.perf_counter() - began
