"""The shop of lesson 10: sends orders, compares tables with the topic, and slows down writes."""

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from pyspark.sql import DataFrame, DataFrameWriter

from lab_env.platform.brokers.topics import ensure_topic, read_topic

TIMEOUT_S = 120


def make_changes(lab, which: str, status: str, at: str, amount: str) -> DataFrame:
    """Return changed orders; O-1 to O-20 were created on 20 November, later ones on the 21st.

    `which` is a SQL condition on `id`, from 1 to 99; `amount` is a SQL expression for the new
    amount.
    """
    return lab.spark.sql(f"""
        SELECT 'O-' || id AS order_id, '{status}' AS status,
               CAST({amount} AS DECIMAL(12,2)) AS amount,
               to_timestamp('2026-11-21 {at}') AS order_ts,
               IF(id <= 20, '2026-11-20', '2026-11-21') AS partition_date
        FROM range(1, 100) WHERE {which}
    """)


def send(lab, which: str, status: str, at: str, amount: str) -> None:
    """Send changed orders to the lesson's topic as JSON; create the topic if it is missing."""
    server, topic = lab.endpoints.kafka_bootstrap, lab.topic("orders")
    ensure_topic(server, topic, partitions=1)
    rows = make_changes(lab, which, status, at, amount).selectExpr(
        "order_id AS key", "to_json(struct(*)) AS value"
    )
    writer = rows.write.format("kafka").option("kafka.bootstrap.servers", server)
    writer.option("topic", topic).save()


def topic_options(lab, offset: int = 0) -> dict[str, str]:
    """Return Spark's options for reading the lesson's topic, which has one partition."""
    topic = lab.topic("orders")
    return {
        "kafka.bootstrap.servers": lab.endpoints.kafka_bootstrap,
        "subscribe": topic,
        "startingOffsets": json.dumps({topic: {"0": offset}}),
    }


def compare_rows(lab, path: str) -> tuple[list[str], int, int]:
    """Compare a table with each order's newest good event; events with an amount of 0 are bad.

    Returns the missing orders, the number of stale orders, and the number with amount 0.
    """
    newest: dict[str, str] = {}
    for message in read_topic(lab.endpoints.kafka_bootstrap, lab.topic("orders")):
        event = json.loads(message.value())
        if event["amount"] > 0:
            order = event["order_id"]
            newest[order] = max(event["order_ts"], newest.get(order, ""))
    table = lab.spark.read.format("hudi").load(path)
    # As `send` writes it, so that times are compared as the same text.
    found = table.selectExpr("to_json(struct(order_id, amount, order_ts)) AS value").collect()
    rows = [json.loads(row["value"]) for row in found]
    present = [row for row in rows if row["order_id"] in newest]
    return (
        sorted(newest.keys() - {row["order_id"] for row in rows}),
        sum(row.get("order_ts", "") < newest[row["order_id"]] for row in present),
        sum(not row.get("amount") for row in present),
    )


def compare(lab, path: str) -> dict[str, int]:
    """Return a table's numbers of missing, stale and zero orders, as in `compare_rows`."""
    missing, stale, zero = compare_rows(lab, path)
    return {"missing": len(missing), "stale": stale, "zero": zero}


def slowly(rows: DataFrame) -> DataFrame:
    """Return the same rows; each takes an extra second when it is read.

    A filter that every row passes sleeps. It is a comparison, because Spark would remove
    `coalesce(..., '') IS NOT NULL` from the plan: that expression can never be NULL.
    """
    return rows.where("coalesce(reflect('java.lang.Thread', 'sleep', 1000L), '') != 'awake'")


def read_during(lab, path: str, writer: DataFrameWriter, read: Callable):
    """Save a batch; while its write is requested but not complete, call `read`; return its result.

    Raises `RuntimeError` if the write completed before `read` could start.
    """
    with ThreadPoolExecutor() as other_job:
        job = other_job.submit(writer.save, path)
        while not job.done() and lab.xray(path).instants[-1].completed:
            time.sleep(0.05)
        if job.done():
            job.result()
            raise RuntimeError("The write was too quick to be read in between: run the cell again.")
        found = read()
        job.result()
    return found


def moment_of_a_write(lab, table: str, query) -> str:
    """Wait until a stream's write is requested but not complete; return the current instant time.

    Raises `TimeoutError` if no write began.
    """
    end = time.monotonic() + TIMEOUT_S
    while all(instant.completed for instant in lab.xray(table).instants):
        if not query.isActive or time.monotonic() > end:
            raise TimeoutError("No write began: run the cell that sends the orders again, first.")
        time.sleep(0.05)
    return datetime.now(UTC).strftime("%Y%m%d%H%M%S%f")[:17]
