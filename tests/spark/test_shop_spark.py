"""The ledger reads Spark DataFrames like pandas ones, in every session time zone."""

import pandas as pd
import pytest
from pyspark.sql import functions as F

from lab_env.shop.ledger.book import Ledger, LedgerWriter
from lab_env.shop.model import generate


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    directory = tmp_path_factory.mktemp("ledger")
    writer = LedgerWriter(directory, "w")
    sends = list(generate(400, seed=3, malformed=0.1))
    writer.handed(sends)
    for offset, send in enumerate(sends):
        writer.acked(send.send_id, 0, offset)
    writer.close()
    return Ledger(directory)


@pytest.fixture(scope="module")
def table(spark, ledger):
    """A correct pipeline's table, with additional columns."""
    frame = ledger.frame()
    valid = frame[~frame["kind"].str.startswith("malformed")].sort_values("order_ts")
    winners = valid.drop_duplicates("order_id", keep="last")
    live = winners.loc[winners["op"] != "erase", ["order_id", "event_id", "order_ts"]]
    return (
        spark.createDataFrame(live)
        .withColumn("order_ts", F.timestamp_micros("order_ts"))
        .withColumn("amount", F.lit(1))
    )


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/Lima"])
def test_a_spark_table_reconciles_whatever_the_session_time_zone(spark, ledger, table, zone):
    spark.conf.set("spark.sql.session.timeZone", zone)
    found = ledger.reconcile_table(table)
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert found.ok and found.rows > 200, str(found)


def test_an_event_time_that_lost_its_microseconds_is_found_out(ledger, table):
    rounded = table.withColumn("order_ts", F.date_trunc("second", "order_ts"))
    found = ledger.reconcile_table(rounded)
    assert found.altered > 200 and found.stale == 0


def test_log_and_dead_letters_may_be_spark_frames_too(spark, ledger):
    frame = ledger.frame()
    malformed = frame["kind"].str.startswith("malformed")
    dead = frame[malformed].assign(reason=frame["kind"].str.partition(":")[2])
    dead = spark.createDataFrame(dead[["partition", "offset", "reason"]].astype({"reason": str}))
    log = spark.createDataFrame(pd.DataFrame(frame.loc[~malformed, ["event_id"]]))
    assert ledger.reconcile_dead(dead).ok and ledger.reconcile_dead(dead).rows > 20
    assert ledger.reconcile_log(log).ok
