"""The order event: its fields, its JSON form, and the ways it can be malformed.

Notebooks and pipelines import field names and the Spark schema from here, so that all use the same.
"""

from random import Random

import orjson

OPS = ("create", "update", "cancel", "erase")
STATUSES = ("new", "paid", "packed", "shipped", "delivered", "cancelled", "erased")
FIELDS = (
    "event_id",
    "op",
    "order_id",
    "customer_id",
    "product_id",
    "amount",
    "status",
    "order_ts",
    "partition_date",
    "sent_at",
)
MAX_EVENT_BYTES = 4096
MAX_DEPTH = 200

# The times stay text until the pipeline has validated them: a cast would turn an invalid one into
# NULL.
EVENT_DDL = (
    "event_id STRING, op STRING, order_id STRING, customer_id STRING, product_id STRING, "
    "amount DECIMAL(12,2), status STRING, order_ts STRING, partition_date STRING, sent_at STRING"
)

# The contract: a message is an event unless one of these applies; the first that does is the reason
# in the dead letters. Fields that are not in `FIELDS` are allowed, whatever they contain. *Blank*
# text is empty or white space only, by Python's `str.isspace`. A *time* has the form
# `2026-11-21T02:14:15Z`, with up to six decimals of a second; a *date* has `2026-11-21`. Both are
# UTC: a partition_date in the shop's local time may be a day ahead of order_ts, and is refused.
REASONS = {
    "empty": "no value, or only JSON's white space (space, tab, LF, CR)",
    "oversized": f"more than {MAX_EVENT_BYTES} bytes",
    "byte_order_mark": "begins with the byte-order mark of UTF-8, which RFC 8259 forbids",
    # The first byte that is not JSON decides among these three:
    "not_json": (
        "not exactly one JSON object (RFC 8259), or not UTF-8 (checked first; a truncated last "
        "character counts as UTF-8); half an escaped surrogate pair is not text, and NaN is not a "
        "number"
    ),
    "truncated": "begins like a JSON object, but ends too early",
    "too_deep": f"a value inside more than {MAX_DEPTH} objects and arrays, the event included",
    "duplicate_key": "an object at any depth has two members with one name, escapes resolved",
    "missing_key": "has no order_id",
    "null_key": "order_id is null or blank",
    "wrong_type": (
        "a field that is not null is not a number (amount) or not text (all others); checked after "
        "negative_amount: an amount that is not a whole number of cents, or is ten billion or "
        "more; its value counts: 1.25e1 and 12.500 are 12.50"
    ),
    "missing_field": "another field of the event is missing, null or blank",
    "control_character": "an event_id, order_id, customer_id or product_id has one (Unicode's Cc)",
    "unknown_op": "op is not one of `OPS`",
    "unknown_status": "status is not one of `STATUSES`",
    "negative_amount": "the amount is less than zero (-0.0 is zero)",
    "time_format": (
        "order_ts or sent_at, in capitals, is a time that `datetime.fromisoformat` accepts, or "
        "partition_date a date (`date.fromisoformat`), but in another form: nanoseconds, an offset"
    ),
    "impossible_timestamp": (
        "one of them is not a time or date (neither is a leap second); or, checked after "
        "impossible_record_time: order_ts or sent_at is before 2020 or more than a day after "
        "Kafka's timestamp of the record; partition_date, the day of the order's creation, is "
        "before 2020 or after the day of order_ts"
    ),
    "impossible_record_time": (
        "Kafka's own timestamp of the record is not between 2020 and 2099, so the event's "
        "times cannot be checked: a producer may have set it in seconds (Spark itself fails on "
        "nanoseconds, which Kafka 4 refuses)"
    ),
}


def encode(
    event_id: str,
    op: str,
    order_id: str,
    customer_id: str,
    product_id: str,
    cents: int,
    status: str,
    order_ts: str,
    partition_date: str,
    sent_at: str,
) -> bytes:
    """Encode the event as one JSON object in UTF-8.

    The JSON is built as text, which keeps an amount's two decimals and is fast in the load
    generator's innermost loop. No value may contain quotes or backslashes; the shop's own
    identifiers do not. Times have the form `2026-11-21T02:14:15.123456Z`; partition_date is the day
    of the order's creation.
    """
    return (
        f'{{"event_id":"{event_id}","op":"{op}","order_id":"{order_id}",'
        f'"customer_id":"{customer_id}","product_id":"{product_id}",'
        f'"amount":{cents // 100}.{cents % 100:02d},"status":"{status}","order_ts":"{order_ts}",'
        f'"partition_date":"{partition_date}","sent_at":"{sent_at}"}}'
    ).encode()


def malform(kind: str, event: bytes, rng: Random) -> bytes:
    """Make a realistic malformed event from a valid one.

    The kind, one of `MALFORMED_KINDS`, is also the reason that the pipeline must report. An unknown
    kind raises ValueError.
    """
    if kind not in _MALFORM:
        raise ValueError(f"unknown kind of malformed event: {kind}")
    return _MALFORM[kind](event, rng)


def _choice(options: tuple, rng: Random):
    return options[int(rng.random() * len(options))]


def _edited(event: bytes, **changes) -> bytes:
    return orjson.dumps(orjson.loads(event) | changes)


def _not_json(event: bytes, rng: Random) -> bytes:
    order_id = orjson.loads(event)["order_id"].encode()
    return _choice(
        (
            b"ERROR checkout: could not serialise order " + order_id,
            b"<order id='" + order_id + b"'><status>paid</status></order>",
            b"order_id=" + order_id + b"&op=update&status=paid",
            b"\x00\x00\x00\x00\x2a\x02\xff\xfe" + order_id,  # a schema registry's framing
        ),
        rng,
    )


def _empty(event: bytes, rng: Random) -> bytes:
    return _choice((b"", b"  "), rng)


def _truncated(event: bytes, rng: Random) -> bytes:
    return event[: 20 + int(rng.random() * (len(event) - 22))]


def _wrong_type(event: bytes, rng: Random) -> bytes:
    amount = orjson.loads(event)["amount"]
    wrong = ("twelve euros", {"value": amount, "currency": "EUR"}, [amount], True)
    return _edited(event, amount=_choice(wrong, rng))


def _missing_key(event: bytes, rng: Random) -> bytes:
    fields = orjson.loads(event)
    del fields["order_id"]
    return orjson.dumps(fields)


def _null_key(event: bytes, rng: Random) -> bytes:
    return _edited(event, order_id=None)


def _unknown_op(event: bytes, rng: Random) -> bytes:
    return _edited(event, op=_choice(("refund", "upsert", "archive", "CREATE"), rng))


def _negative_amount(event: bytes, rng: Random) -> bytes:
    return _edited(event, amount=-(orjson.loads(event)["amount"] + 0.01))


def _impossible_timestamp(event: bytes, rng: Random) -> bytes:
    impossible = (
        "2026-02-31T25:61:00.000000Z",
        "1970-01-01T00:00:00.000000Z",
        "2999-12-31T23:59:59.999999Z",
        "0000-00-00T00:00:00Z",
        "yesterday",
    )
    return _edited(event, order_ts=_choice(impossible, rng))


def _oversized(event: bytes, rng: Random) -> bytes:
    note = "please leave it with the neighbour; "
    return _edited(event, note=note * (120 + int(rng.random() * 80)))


_MALFORM = {
    "not_json": _not_json,
    "empty": _empty,
    "truncated": _truncated,
    "wrong_type": _wrong_type,
    "missing_key": _missing_key,
    "null_key": _null_key,
    "unknown_op": _unknown_op,
    "negative_amount": _negative_amount,
    "impossible_timestamp": _impossible_timestamp,
    "oversized": _oversized,
}
MALFORMED_KINDS = tuple(_MALFORM)
