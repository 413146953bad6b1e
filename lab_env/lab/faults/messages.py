"""Invalid messages that many parsers accept, change, or hang on."""

import json
from collections.abc import Iterator

from lab_env.shop.events import FIELDS, encode

POISON = "amount: 1e400000000"
MOMENT = "2026-11-20T10:00:00.000000Z"
WITHOUT = {"order_id": ("missing_key", "null_key")}  # reasons for an absent and for a null field
BROKEN = (
    ("unknown_op", {"op": "refund"}),
    ("negative_amount", {"amount": -3.5}),
    ("wrong_type", {"amount": "five"}),
    ("wrong_type", {"amount": [5.0]}),
    ("impossible_timestamp", {"order_ts": "1970-01-01T00:00:00.000000Z"}),
    # Not a time: in SQL, a comparison with it is NULL.
    ("impossible_timestamp", {"order_ts": "2026-02-31T25:61:00.000000Z"}),
    ("impossible_timestamp", {"order_ts": "yesterday"}),
)


def odd_messages(order_id: str = "O-1") -> dict[str, bytes]:
    """Return the invalid messages by defect; apart from that, each is a new order of 5.00.

    The order's id must never appear in a table.
    """
    day = MOMENT[:10]
    good = encode("E-1", "create", order_id, "C-1", "P-1", 500, "new", MOMENT, day, MOMENT)
    key = b'"order_id":"%s' % order_id.encode()
    return {
        "two amounts: 5.00, then 0.01": good.replace(b"5.00", b'5.00,"amount":0.01'),
        "order_id: 1": good.replace(key + b'"', b'"order_id":1'),
        "a byte that is not UTF-8": good.replace(key, key + b"\xff"),
        "amount: 4.999": good.replace(b"5.00", b"4.999"),
        "a date with a line feed": good.replace(b'","sent_at"', b'\\n","sent_at"'),
        POISON: good.replace(b"5.00", b"1e400000000"),
    }


def defects(event: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield copies of a valid event with one defect each, and the reason that the contract gives.

    Spark's `from_json`, with a column for corrupt records, and the rules of lesson 03 reject all of
    them, too.
    """
    fields = json.loads(event)
    for field in FIELDS:
        absent, null = WITHOUT.get(field, ("missing_field", "missing_field"))
        yield absent, _as_json({name: fields[name] for name in FIELDS if name != field})
        yield null, _as_json(fields | {field: None})
    for reason, values in BROKEN:
        yield reason, _as_json(fields | values)
    yield "not_json", b"[" + event + b"]"
    # No field is null: the second amount replaces the first, which does not fit.
    yield "duplicate_key", b'{"amount":"five",' + event[1:]


def _as_json(fields: dict) -> bytes:
    return json.dumps(fields).encode()
