"""Every message becomes either a typed row or a dead letter with the right reason."""

import json
from random import Random

import pytest
from kafka_rows import frame_of, streamed

from lab_env.pipeline import parsing, sinks
from lab_env.pipeline.writer import ProgressLog
from lab_env.shop.events import MALFORMED_KINDS, encode, malform


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
    return parsing.parse(frame_of(spark, values)).cache()


def test_a_dead_letter_keeps_the_raw_bytes_and_its_place(spark):
    raw = b"\x00\xff not json \x80"
    (letter,) = parsing.dead_letters(parsed(spark, [good_event(), raw])).collect()
    assert bytes(letter["value"]) == raw
    assert (letter["topic"], letter["partition"], letter["offset"]) == ("orders", 0, 1)


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
    names = (("coupon", "X"), ("coupon", "Y"), ("note", "Z"))
    batches = [[good_event(), edited(**{name: value})] for name, value in names]
    diary = ProgressLog(tmp_path)
    for report in streamed(
        spark, tmp_path, batches, lambda rows: sinks.dead_letter_rows(parsing.parse(rows)), "dead"
    ):
        diary.note(report)
    noted = map(json.loads, (tmp_path / "progress.jsonl").read_text().splitlines())
    counted = [(batch["unknown_events"], batch["unknown_fields"]) for batch in noted]
    assert sorted(counted) == [(1, ["coupon"]), (1, ["coupon"]), (1, ["note"])]
    warnings = [line for line in capfd.readouterr().out.splitlines() if "warning" in line]
    assert len(warnings) == 2 and warnings[0].endswith("does not know and drops: coupon")
