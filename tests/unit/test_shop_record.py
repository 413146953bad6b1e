"""The files in `data/` can be regenerated, and match their README."""

import csv
from collections import Counter

from lab_env.shop.model import DATA
from lab_env.shop.record import (
    CUSTOMERS,
    customers_csv,
    from_line,
    recorded_sends,
    recording,
    to_line,
)


def test_making_the_recording_again_gives_the_same_sends():
    assert list(recording()) == list(recorded_sends())


def test_making_the_customers_again_gives_the_same_file():
    assert CUSTOMERS.read_text(encoding="utf-8") == customers_csv()


def test_the_recording_keeps_raw_bytes():
    raw = [send for send in recorded_sends() if send.kind == "malformed:not_json"]
    assert any(b"\xff" in send.value for send in raw)
    assert [from_line(to_line(send)) for send in raw] == raw


def test_the_recording_holds_every_kind_of_send_and_two_days():
    sends = list(recording())
    kinds = Counter(send.kind.partition(":")[0] for send in sends)
    assert len(sends) == 10_000
    assert all(kinds[kind] > 50 for kind in ("event", "late", "resend", "malformed"))
    assert Counter(send.op for send in sends)["erase"] > 50
    dates = {
        send.value.split(b'"partition_date":"')[1][:10] for send in sends if send.op == "create"
    }
    assert dates == {b"2026-01-05", b"2026-01-06"}


def test_the_catalogue_has_no_product_twice():
    with open(DATA / "products.csv", encoding="utf-8", newline="") as file:
        products = list(csv.DictReader(file))
    assert len({row["product_id"] for row in products}) == len(products) == 40
    assert all(int(row["price_cents"]) > 0 for row in products)
