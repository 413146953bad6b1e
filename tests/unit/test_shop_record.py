"""The files in `data/` can be regenerated; a replay refuses events that the topic already has."""

import csv
from collections import Counter
from itertools import islice

import pytest

from lab_env.platform.brokers import topics
from lab_env.platform.errors import LabError
from lab_env.shop.ledger.book import LedgerWriter
from lab_env.shop.model import DATA, generate
from lab_env.shop.record import (
    CUSTOMERS,
    customers_csv,
    from_line,
    recorded_sends,
    recording,
    to_line,
)
from lab_env.shop.replay import replay


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


NO_BROKER = "127.0.0.1:1"  # a replay that wants to send would fail there with another sentence


def sent_before(directory, *streams) -> None:
    writer = LedgerWriter(directory, "earlier")
    for stream in streams:
        writer.handed(stream)
    writer.close()


@pytest.mark.parametrize("part", [{}, {"n": 1}, {"n": 200, "skip": 299}, {"n": 900}])
def test_a_second_time_is_refused_wherever_it_overlaps_and_the_next_free_send_is_named(
    tmp_path, part
):
    sent_before(tmp_path, generate(700, seed=1, worker_id="live"), islice(recording(), 300))
    with pytest.raises(LabError, match="already holds this part") as refused:
        replay(NO_BROKER, "lesson-05.orders", tmp_path, **part)
    assert "skip=300, in the shell --skip 300." in refused.value.next_step
    assert "lab reset" not in refused.value.next_step


def test_the_part_after_it_is_not_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(topics, "ADMIN_TIMEOUT_S", 0.5)
    sent_before(tmp_path, islice(recording(), 300))
    with pytest.raises(LabError, match="does not answer"):
        replay(NO_BROKER, "lesson-05.orders", tmp_path, skip=300)


def test_a_gap_before_the_last_send_is_no_place_to_go_on(tmp_path):
    sent_before(tmp_path, islice(recording(), 500, 600))
    with pytest.raises(LabError) as refused:
        replay(NO_BROKER, "lab.orders", tmp_path)
    assert "skip=600," in refused.value.next_step


def test_of_a_stream_sent_whole_nothing_is_left_to_go_on_with(tmp_path):
    sent_before(tmp_path, recording())
    with pytest.raises(LabError) as refused:
        replay(NO_BROKER, "lab.orders", tmp_path)
    assert refused.value.next_step == "`lab reset lab` clears it."


def test_a_start_behind_the_end_is_told_how_long_the_stream_is(tmp_path):
    with pytest.raises(LabError, match="Nothing is left to replay: the stream has 10,000 sends"):
        replay(NO_BROKER, "lab.orders", tmp_path, skip=10_000)
