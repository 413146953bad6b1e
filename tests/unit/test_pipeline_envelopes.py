"""The limits of a change event's times, the table that it must be from, and what it may cost.

`tests/spark/test_change_contract.py` compares all else with the contract.
"""

import json
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress

import pytest

from lab_env.pipeline.envelopes import ORDERS, ChangeReader, Malformed

ORDER = {
    "order_id": "O-17",
    "customer_id": "C-1",
    "amount": "129.90",
    "status": "paid",
    "partition_date": "2026-11-21",
    "updated_at": "2026-11-21T02:14:15.5Z",
}
TOPIC = "lesson-15.public.orders"
BROKER_LIMIT = 1_000_000
MOST_SECONDS = 0.05


def change(**values) -> bytes:
    """Return an update; the values are added to its new row."""
    source = {"schema": "public", "table": "orders", "lsn": 500, "sequence": None, "ts_ms": 7}
    rows = {"before": ORDER, "after": ORDER | values}
    return json.dumps({**rows, "source": source, "op": "u"}).encode()


def test_the_first_and_the_last_time_of_four_digits_are_valid():
    columns = ORDERS | {"us": "TIMESTAMP_MICROS", "day": "DATE"}
    for year, micros, days in (
        ("0001-01-01T00:00:00Z", -62_135_596_800_000_000, -719_162),
        ("9999-12-31T23:59:59.999999Z", 253_402_300_799_999_999, 2_932_896),
    ):
        value = change(updated_at=year, us=micros, day=days)
        assert ChangeReader(columns).read(b"{}", value, TOPIC).row[-3:] == (micros, micros, days)


def test_a_form_that_nobody_knows_is_refused_before_a_record_is_read():
    with pytest.raises(ValueError, match="DATETIME"):
        ChangeReader(ORDERS | {"at": "DATETIME"})


@pytest.mark.parametrize(
    ("topic", "table", "refused"),
    [
        (TOPIC, "", False),
        ("lab.of.ada.lesson-15.public.orders", "", False),
        ("all-changes", "", False),
        ("lesson-15.public.lake", "", True),
        ("lesson-15.sales.orders", "", True),
        ("all-changes", "public.lake", True),
        ("lesson-15.public.lake", "public.orders", False),
    ],
)
def test_the_table_is_the_named_one_or_that_of_the_topic(topic, table, refused):
    with pytest.raises(Malformed, match="other_table") if refused else nullcontext():
        ChangeReader(ORDERS, table).read(b"{}", change(), topic)


def _values(**values: Callable[[int], object]) -> list[bytes]:
    return [change(**{name: make(BROKER_LIMIT)}) for name, make in values.items()]


COSTLY = [
    *_values(amount=lambda size: "9" * size, status=lambda size: "x" * size),
    *_values(amount=lambda size: "0." + "0" * size + "1", updated_at=lambda size: "+" + "1" * size),
    *_values(amount=lambda size: "1e" + "9" * size, partition_date=lambda size: "1" * size),
    *_values(amount=lambda size: "1e400000000", status=lambda size: ["x"] * (size // 5)),
    *_values(partition_date=lambda size: "\u3000" * (size // 6)),
    change().replace(b'"sequence": null', b'"sequence": "[' + b"1" * BROKER_LIMIT + b'"'),
]


@pytest.mark.parametrize("value", COSTLY, ids=lambda value: f"{value[230:290]!r}")
def test_no_change_costs_more_than_50_ms(value):
    reader = ChangeReader(ORDERS)

    def seconds() -> float:
        start = time.process_time()
        with suppress(Malformed):
            reader.read(b"{}", value, TOPIC)
        return time.process_time() - start

    assert min(seconds() for _ in range(3)) < MOST_SECONDS
