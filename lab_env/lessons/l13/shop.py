"""The shop's tables of lesson 13, and functions that query them in Spark SQL and in Trino."""

from collections.abc import Callable

import pandas as pd
from pyspark.sql import DataFrame

from lab_env.pipeline.options import DEMO_OPTIONS, KEYS

# As in lesson 09: no metadata table, a small bloom filter, and no compaction until we ask for one.
QUICK = {**DEMO_OPTIONS, "hoodie.index.bloom.num_entries": "1000", "hoodie.compact.inline": "false"}
# The options of every write, with the change feed of lesson 12.
ORDERS = {**KEYS, **QUICK, "hoodie.table.cdc.enabled": "true"}
TYPES = {
    "cow": {"hoodie.datasource.write.table.type": "COPY_ON_WRITE"},
    "mor": {"hoodie.datasource.write.table.type": "MERGE_ON_READ"},
}
MOR = "orders_mor"
SPARK, TRINO = "Spark SQL", "Trino"
Ask = Callable[[str], pd.DataFrame]


def make_orders(lab, which: str, status: str, at: str) -> DataFrame:
    """Return the orders for which a condition on `id` holds; `at` is a time on 20 November.

    Orders up to O-1000 belong to the 20th, up to O-1210 to the 21st, up to O-1220 to the 22nd,
    later ones to the 23rd.
    """
    return lab.spark.sql(f"""
        SELECT 'O-' || id AS order_id, 'C-' || pmod(hash(id), 300) AS customer_id,
               '{status}' AS status,
               CAST(10 + pmod(hash(id), 9000) / 100 AS DECIMAL(12,2)) AS amount,
               to_timestamp('2026-11-20 {at}') AS order_ts,
               CASE WHEN id <= 1000 THEN '2026-11-20' WHEN id <= 1210 THEN '2026-11-21'
                    WHEN id <= 1220 THEN '2026-11-22' ELSE '2026-11-23' END AS partition_date
        FROM range(1, 1301, 1, 1) WHERE {which}
    """)


def first_orders(lab) -> DataFrame:
    """Return 1,200 orders of two days, ten of them already returned."""
    returned = make_orders(lab, "id <= 10", "returned", "12:00")
    return returned.union(make_orders(lab, "id BETWEEN 11 AND 1200", "new", "12:00")).coalesce(1)


def payments_and_new_orders(lab) -> DataFrame:
    """Return ten payments of orders of the 20th and ten new orders of the 21st."""
    paid = make_orders(lab, "id BETWEEN 11 AND 20", "paid", "13:00")
    return paid.union(make_orders(lab, "id BETWEEN 1201 AND 1210", "new", "13:00")).coalesce(1)


def open_shop(lab) -> None:
    """Create the lesson's database and `orders_mor`: two writes of the pipeline, one by night."""
    lab.spark.sql(f"CREATE DATABASE IF NOT EXISTS {lab.database} LOCATION '{lab.path('names')}'")
    lab.spark.sql(f"USE {lab.database}")
    sync = {
        "enable": "true",
        "mode": "hms",
        "metastore.uris": lab.address("metastore"),
        "database": lab.database,
        "table": MOR,
        "support_timestamp": "true",
    }
    pipeline = {f"hoodie.datasource.hive_sync.{name}": value for name, value in sync.items()}
    _write(lab, first_orders(lab), pipeline)
    _write(lab, payments_and_new_orders(lab), pipeline)
    write_by_night(lab, "id BETWEEN 1211 AND 1220")


def write_by_night(lab, which: str) -> None:
    """Write returns into `orders_mor` as the night script does: without Hive sync."""
    _write(lab, make_orders(lab, which, "returned", "23:00"), {})


def _write(lab, rows: DataFrame, sync: dict[str, str]) -> None:
    options = ORDERS | TYPES["mor"] | {"hoodie.table.name": MOR} | sync
    rows.write.format("hudi").options(**options).mode("append").save(lab.path(MOR))


def sql_engines(lab) -> dict[str, Ask]:
    """Return a function for each SQL engine that takes SQL and returns a DataFrame of pandas.

    Trino is missing if it was left out on this machine.
    """
    engines: dict[str, Ask] = {SPARK: lambda sql: lab.spark.sql(sql).toPandas()}
    if lab.wait_for("trino"):
        engines[TRINO] = lambda sql: ask_trino(lab, sql)
    return engines


def ask_trino(lab, sql: str) -> pd.DataFrame:
    """Query Trino with its Python client."""
    from trino.dbapi import connect

    host, port = lab.address("trino").removeprefix("http://").split(":")
    place = {"catalog": "hudi", "schema": lab.database, "timezone": "UTC"}
    with connect(host, int(port), user="lab", **place) as connection:
        answer = connection.cursor().execute(sql)
        columns = [column.name for column in answer.description]
        return pd.DataFrame(answer.fetchall(), columns=columns)
