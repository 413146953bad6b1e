"""The request bill: each request has a kind, a purpose and a price."""

import pytest

from lab_env.lab.faults.gate import Request
from lab_env.lessons import recorded
from lab_env.lessons.recorded.cost import read_prices
from lab_env.workbench.bench import bill

TABLE = "tables/db/orders"
PURPOSES = {
    "data": "/partition_date=2026-01-05/a.parquet",
    "markers": "/.hoodie/.temp/1/MARKERS.type",
    "commit log": "/.hoodie/timeline/1.commit.requested",
    "file lists": "/.hoodie/metadata/files/a.hfile",
    "settings": "/.hoodie/hoodie.properties",
    "other": "",
}


@pytest.mark.parametrize(
    ("method", "key", "extra", "kind"),
    [
        ("GET", "", {"listed": "t/"}, "LIST"),
        ("GET", "", {}, "LIST"),  # of the whole bucket
        ("GET", "t/a", {}, "GET"),
        ("HEAD", "t/a", {}, "HEAD"),
        ("PUT", "t/a", {}, "PUT"),
        ("PUT", "t/a", {"copies": True}, "COPY"),
        ("POST", "t/a", {}, "PUT"),  # begins or ends an upload in parts
        ("POST", "", {}, "DELETE"),  # of several objects
    ],
)
def test_each_request_is_of_the_kind_that_is_billed(method, key, extra, kind):
    request = Request(1, 0.0, method, key, "other", 0, **extra)
    assert request.operation == kind
    assert kind in bill.COUNTERS


@pytest.mark.parametrize(("purpose", "key"), PURPOSES.items())
def test_the_key_decides_the_purpose(purpose, key):
    request = Request(1, 0.0, "PUT", TABLE + key, "other", 0)
    assert bill.requests_by_purpose([request], TABLE) == {purpose: {"PUT": 1}}


@pytest.mark.parametrize(
    ("key", "purpose"),
    [
        ("/_delta_log/00000000000000000010.json", "commit log"),
        ("/_delta_log/00000000000000000010.checkpoint.parquet", "file lists"),
        ("/_delta_log/_last_checkpoint", "file lists"),
        ("/metadata/version-hint.text", "commit log"),
        ("/metadata/v3.metadata.json", "commit log"),
        ("/metadata/snap-1-1-a.avro", "file lists"),
        ("/data/partition_date=2026-01-05/a.parquet", "data"),
    ],
)
def test_the_keys_of_delta_and_iceberg_have_the_same_purposes(key, purpose):
    request = Request(1, 0.0, "PUT", TABLE + key, "other", 0)
    assert bill.requests_by_purpose([request], TABLE) == {purpose: {"PUT": 1}}


def test_a_span_of_commits_is_priced_by_its_mean():
    commits = [{"data": {"PUT": number, "DELETE": 9}} for number in range(1, 101)]
    table = bill.bill_table({"commits": {"delta": commits}}).loc["Delta"]
    assert table["PUT"].to_dict() == {"1": 1, "1 to 10": 5.5, "91 to 100": 95.5}
    assert (table["all"] == table["PUT"] + 9).all() and (table["data"] == table["all"]).all()
    dollars = table["$ per 1,000 commits"]
    assert dollars.tolist() == pytest.approx((table["PUT"] * read_prices()["put"]).tolist())


def test_the_delivered_bill_is_a_full_one_whose_counts_agree_with_the_stores():
    run = recorded.delivered("bill")
    assert run["complete"] and run["problems"] == []
    assert run["size"]["commits"] == bill.bill_config(full=True).commits
    assert set(run["commits"]) == set(bill.TABLES)
