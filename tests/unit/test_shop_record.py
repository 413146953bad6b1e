"""The files in `data/` can be regenerated, and match their README."""

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
