"""Every message becomes either a typed row or a dead letter with the right reason."""

import json
from datetime import UTC, datetime
from random import Random

import pytest

from lab_env.pipeline import parsing, sinks
from lab_env.pipeline.writer import ProgressLog
from lab_env.shop.events import MALFORMED_KINDS, encode, malform

RECORDS = "value BINARY, key BINARY, topic STRING, partition INT, offset LONG, timestamp TIMESTAMP"
NOW = datetime(2026, 11, 21, 2, 14, 15, tzinfo=UTC)


def good_event(number: int = 1, **changes) -> bytes:
    fields = {
        "event_id": f"E-{number}",
        "op": "update",
        "order_id": f"O-{number}",
        "customer_id": "C-1",
        "product_id": "P-1",
        "cents": 12990,
        "status": "paid",
        "order_ts": "2026-11-21T02:14:15.123456Z",
        "partition_date": "2026-11-21",
        "sent_at": "2026-11-21T02:14:15.223456Z",
    }
    return encode(**fields | changes)


def edited(**changes) -> bytes:
    """Return a good event with some fields changed, to any type."""
    return json.dumps(json.loads(good_event()) | changes).encode()


def parsed(spark, values: list[bytes | None]):
    rows = [
        (None if value is None else bytearray(value), b"k", "orders", 0, offset, NOW)
        for offset, value in enumerate(values)
    ]
    return parsing.parse(spark.createDataFrame(rows, RECORDS)).cache()


def test_each_malformed_kind_gets_its_own_reason(spark):
    rng = Random(7)
    sent = [
        (kind, malform(kind, good_event(number), rng))
        for number, kind in enumerate(MALFORMED_KINDS * 50)
    ]
    letters = parsing.dead_letters(parsed(spark, [value for _, value in sent])).collect()
    told = {letter["offset"]: letter["reason"] for letter in letters}
    wrong = {
        (kind, told.get(offset), value[:200])
        for offset, (kind, value) in enumerate(sent)
        if told.get(offset) != kind
    }
    assert not wrong


def test_a_dead_letter_keeps_the_raw_bytes_and_its_place(spark):
    raw = b"\x00\xff not json \x80"
    (letter,) = parsing.dead_letters(parsed(spark, [good_event(), raw])).collect()
    assert bytes(letter["value"]) == raw
    assert (letter["topic"], letter["partition"], letter["offset"]) == ("orders", 0, 1)


def test_a_tombstone_is_an_empty_message(spark):
    (letter,) = parsing.dead_letters(parsed(spark, [None])).collect()
    assert letter["reason"] == "empty"


LOOKALIKES = [
    (b"{}", "missing_key"),
    (b'{"order_id":"O-1"}', "missing_field"),
    (b"[1,2]", "not_json"),
    (b"{nonsense}", "not_json"),
    (good_event() + good_event(2), "not_json"),
    (good_event() + b" xyz", "not_json"),
    (good_event().replace(b'"', b"'"), "not_json"),
    (b"\n\t ", "empty"),
    (edited(order_id=""), "null_key"),
    (edited(order_id="  "), "null_key"),
    (edited(order_id=5), "wrong_type"),
    (edited(order_id={"a": 1}), "wrong_type"),
    (edited(event_id=""), "missing_field"),
    (edited(event_id=None), "missing_field"),
    (edited(amount="12.50"), "wrong_type"),
    (edited(amount=12.999), "wrong_type"),
    (edited(amount=1e30), "wrong_type"),
    (edited(amount=-0.001), "negative_amount"),
    (edited(status="exploded"), "unknown_status"),
    (edited(order_ts="12:00"), "impossible_timestamp"),
    (edited(order_ts="2026-11-23T00:00:00.000000Z"), "impossible_timestamp"),
    (edited(partition_date="2026"), "impossible_timestamp"),
    (edited(partition_date="2026-11-21T05:00:00Z"), "impossible_timestamp"),
    (edited(partition_date=" 2026-11-21 "), "impossible_timestamp"),
    (edited(partition_date="9999-01-01"), "impossible_timestamp"),
]


def test_what_only_looks_like_an_order_is_no_order(spark):
    letters = parsing.dead_letters(parsed(spark, [value for value, _ in LOOKALIKES])).collect()
    told = {letter["offset"]: letter["reason"] for letter in letters}
    wrong = [
        (value, reason, told.get(offset))
        for offset, (value, reason) in enumerate(LOOKALIKES)
        if told.get(offset) != reason
    ]
    assert not wrong


def test_space_around_an_event_and_further_fields_do_no_harm(spark):
    values = [b"\n " + good_event() + b"\n", edited(note='he said "amount": ok', extra=[1])]
    assert parsing.valid_events(parsed(spark, values)).count() == 2


def test_a_valid_event_becomes_a_typed_row(spark):
    (row,) = parsing.valid_events(parsed(spark, [good_event(5)])).collect()
    assert str(row["amount"]) == "129.90"
    # collect() gives local time: compare the moment, not the clock face
    assert row["order_ts"].timestamp() == pytest.approx(
        datetime(2026, 11, 21, 2, 14, 15, 123456, tzinfo=UTC).timestamp(), abs=1e-6
    )


def test_every_message_goes_exactly_one_way(spark):
    rng = Random(3)
    values = [good_event(n) for n in range(40)]
    values += [malform(kind, good_event(99), rng) for kind in MALFORMED_KINDS * 4]
    both = parsed(spark, values)
    assert parsing.valid_events(both).count() == 40
    assert parsing.valid_events(both).count() + parsing.dead_letters(both).count() == len(values)


def test_only_an_erase_is_a_delete(spark):
    values = [good_event(n, op=op) for n, op in enumerate(("create", "cancel", "erase"))]
    rows = parsing.with_deletes(parsing.valid_events(parsed(spark, values))).collect()
    assert {row["op"] for row in rows if row["_hoodie_is_deleted"]} == {"erase"}


@pytest.mark.parametrize(
    ("values", "events", "fields"),
    [
        ([good_event(1), good_event(2)], 0, None),
        ([good_event(1), edited(coupon="SAVE10"), edited(coupon=None)], 2, ["coupon"]),
        ([edited(coupon="X", channel="app"), edited(note=[1])], 2, ["coupon", "channel", "note"]),
        # A malformed event is a dead letter and tells nothing of a new version of the app.
        ([edited(coupon="X", status="exploded"), b"no event", None], 0, None),
        ([edited(customer={"id": 1})], 1, ["customer"]),
        ([b"\n " + edited(coupon="X")], 1, ["coupon"]),
    ],
)
def test_fields_that_nobody_reads_are_counted_and_named(spark, values, events, fields):
    (counted,) = parsed(spark, values).agg(*parsing.unknown_fields()).collect()
    assert (counted["events"], counted["fields"]) == (events, fields)


def test_a_batch_reports_its_unknown_fields_and_the_writer_warns_once(spark, tmp_path, capfd):
    topic = tmp_path / "topic"
    stream = spark.readStream.schema(RECORDS).option("maxFilesPerTrigger", "1")
    for name, value in (("coupon", "X"), ("coupon", "Y"), ("note", "Z")):
        rows = [
            (bytearray(e), b"k", "orders", 0, 0, NOW)
            for e in (good_event(), edited(**{name: value}))
        ]
        spark.createDataFrame(rows, RECORDS).coalesce(1).write.mode("append").parquet(str(topic))
    letters = sinks.dead_letter_rows(parsing.parse(stream.parquet(str(topic))))
    query = letters.writeStream.format("noop").queryName("dead")
    query = query.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    query.processAllAvailable()
    query.stop()
    diary = ProgressLog(tmp_path)
    for progress in query.recentProgress:
        diary.note(progress | {"sources": [{"startOffset": None, "endOffset": {"t": {"0": 1}}}]})
    batches = map(json.loads, (tmp_path / "progress.jsonl").read_text().splitlines())
    counted = [(batch["unknown_events"], batch["unknown_fields"]) for batch in batches]
    assert sorted(counted) == [(1, ["coupon"]), (1, ["coupon"]), (1, ["note"])]
    warnings = [line for line in capfd.readouterr().out.splitlines() if "warning" in line]
    assert len(warnings) == 2 and warnings[0].endswith("does not know and drops: coupon")
