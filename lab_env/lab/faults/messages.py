"""Invalid messages that many parsers accept, change, or hang on."""

from lab_env.shop.events import encode

POISON = "amount: 1e400000000"
MOMENT = "2026-11-20T10:00:00.000000Z"


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
