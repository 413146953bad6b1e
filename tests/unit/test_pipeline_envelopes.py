"""A change event is parsed by each column's format, and refused if it is from another table."""

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

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
# The same moment as each form has it, and the reading of all of them.
MOMENT = {
    "TIMESTAMP": "2026-11-21T00:00:01Z",
    "TIMESTAMP_MILLIS": 1_795_219_201_000,
    "TIMESTAMP_MICROS": 1_795_219_201_000_000,
    "TIMESTAMP_NANOS": 1_795_219_201_000_000_000,
}
MICROS = MOMENT["TIMESTAMP_MICROS"]
COARSER = {("TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"), ("TIMESTAMP_NANOS", "TIMESTAMP_MILLIS")}
COARSER |= {("TIMESTAMP_NANOS", "TIMESTAMP_MICROS")}
BROKER_LIMIT = 1_000_000
MOST_SECONDS = 0.05


def change(op: str = "u", before=ORDER, after=ORDER, schema="public", **values) -> bytes:
    """Return a change event, by default an update; further values are added to its new row."""
    source = {"schema": schema, "table": "orders", "lsn": 500, "sequence": None, "ts_ms": 7}
    image = after and after | values
    return json.dumps({"before": before, "after": image, "source": source, "op": op}).encode()


def verdict(value: bytes, columns: Mapping[str, str] = ORDERS, topic=TOPIC, table="") -> str:
    """Return the reason why an event is malformed, or `valid`."""
    try:
        ChangeReader(columns, table).read(b"{}", value, topic)
    except Malformed as malformed:
        return malformed.args[0]
    return "valid"


@pytest.mark.parametrize("form", MOMENT)
def test_a_time_is_read_in_the_unit_of_its_column_and_never_in_another(form):
    columns = ORDERS | {"at": form}
    read = ChangeReader(columns).read(b"{}", change(at=MOMENT[form]), TOPIC)
    assert read.row[-1] == MICROS
    for other in MOMENT.keys() - {form}:
        told = verdict(change(at=MOMENT[other]), columns)
        if "TIMESTAMP" in (form, other):
            assert told == "wrong_type"
        else:
            is_coarser = (form, other) in COARSER
            assert told == ("wrong_unit" if is_coarser else "impossible_timestamp")


# As Debezium sends a timestamptz, a timestamp(3), a timestamp and a date that are infinite.
ENDLESS = [
    *(("TIMESTAMP", text) for text in ("infinity", "-infinity", "+294247-01-10T04:00:25.2Z")),
    ("TIMESTAMP_MILLIS", 9223372036825200),
    ("TIMESTAMP_MILLIS", -9223372036832400),
    ("TIMESTAMP_MICROS", 9223372036825200000),
    ("TIMESTAMP_MICROS", -9223372036832400000),
    *(("DATE", days) for days in (2147483647, -2147483648, 106751991167, -719163)),
]


@pytest.mark.parametrize(("form", "value"), ENDLESS)
def test_infinity_is_a_dead_letter(form, value):
    assert verdict(change(at=value), ORDERS | {"at": form}) == "impossible_timestamp"


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
    ("topic", "table", "right"),
    [
        (TOPIC, "", "valid"),
        ("lab.of.ada.lesson-15.public.orders", "", "valid"),
        ("all-changes", "", "valid"),
        ("lesson-15.public.lake", "", "other_table"),
        ("lesson-15.sales.orders", "", "other_table"),
        ("all-changes", "public.lake", "other_table"),
        ("lesson-15.public.lake", "public.orders", "valid"),
    ],
)
def test_the_table_is_the_named_one_or_that_of_the_topic(topic, table, right):
    assert verdict(change(), topic=topic, table=table) == right


def test_an_old_row_is_deleted_only_where_it_can_be():
    for old, moved_from in (
        ("2026-11-20", "2026-11-20"),
        ("2026-11-21", None),
        ("", None),
        ("2026-11-20\n", None),
        (None, None),
    ):
        before = ORDER | {"partition_date": old}
        assert (
            ChangeReader(ORDERS).read(b"{}", change(before=before), TOPIC).moved_from == moved_from
        )


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
