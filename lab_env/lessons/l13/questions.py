"""The five questions of lesson 13, in the language of each engine.

`then` is the table's first commit: incremental queries begin at its completion time, the change
feed begins at its requested time.
"""

from typing import Any

import pandas as pd

from lab_env.tables.hudi.timeline import Instant

COLUMNS = "order_id, customer_id, status, amount, partition_date"


def spark_sql(query: str, table: str, then: Instant) -> str:
    """Return one of the five questions in Spark's SQL."""
    select = f"SELECT {COLUMNS}, unix_millis(order_ts) AS changed_at FROM"
    latest = f"hudi_table_changes('{table}', 'latest_state', '{then.completed}')"
    feed = f"hudi_table_changes('{table}', 'cdc', '{then.requested}')"
    return {
        "snapshot": f"{select} {table}",
        "read-optimised": f"{select} {table}_ro",
        "time travel": f"{select} {table} TIMESTAMP AS OF '{then.requested}'",
        "incremental": f"{select} {latest}",
        "change feed": f"SELECT op, before, after FROM {feed}",
    }[query]


def trino_sql(query: str, table: str, then: Instant) -> str:
    """Return one of the five questions in Trino's SQL."""
    changed_at = "CAST(round(to_unixtime(order_ts) * 1000) AS bigint) AS changed_at"
    select = f"SELECT {COLUMNS}, {changed_at} FROM"
    moment = pd.to_datetime(then.requested, format="%Y%m%d%H%M%S%f")
    latest = f"TABLE(hudi_table_changes('{table}', 'latest_state', '{then.completed}'))"
    feed = f"TABLE(hudi_table_changes('{table}', 'cdc', '{then.requested}'))"
    return {
        "snapshot": f"{select} {table}",
        "read-optimised": f"{select} {table}_ro",
        "time travel": f"{select} {table} FOR TIMESTAMP AS OF TIMESTAMP '{moment} UTC'",
        "incremental": f"{select} {latest}",
        "change feed": f"SELECT op, before, after FROM {feed}",
    }[query]


def duckdb_sql() -> str:
    """Return the query that DuckDB runs on what hudi-rs has read."""
    return f"SELECT {COLUMNS}, epoch_ms(order_ts) AS changed_at FROM orders"


def changed_since(bookmark: str) -> Any:
    """Return hudi-rs's options for an incremental read that begins after a bookmark."""
    from hudi import HudiQueryType, HudiReadOptions

    options = HudiReadOptions().with_query_type(HudiQueryType.Incremental)
    return options.with_start_timestamp(bookmark)


def read_options(query: str, then: Instant) -> Any:
    """Return hudi-rs's options for one of the five questions."""
    from hudi import HudiReadOptions

    now = HudiReadOptions()
    match query:
        case "read-optimised":
            return now.with_hudi_option("hoodie.read.use.read_optimized.mode", "true")
        case "time travel":
            return now.with_as_of_timestamp(then.requested)
        case "incremental":
            return changed_since(then.completed)
        case "change feed":
            return now.with_hudi_option("hoodie.read.query.type", "cdc")
    return now
