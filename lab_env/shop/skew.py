"""Events of a day at a marketplace, where one customer places a quarter of all orders.

The lesson about hot topic partitions uses them; the same arguments always give the same events.
"""

from binascii import crc32

import orjson

from lab_env.shop.model import generate

CELEBRITY = "c-0001"
CELEBRITY_SHARE = 0.25  # of the orders, including those of the shop's best customer


def marketplace_events(n: int, seed: int = 2) -> list[dict]:
    """First `n` events of the day, all well-formed, as dicts in the order of sending."""
    events = [orjson.loads(send.value) for send in generate(n, seed, malformed=0)]
    for event in events:
        if crc32(event["order_id"].encode()) % 100 < 100 * CELEBRITY_SHARE:
            event["customer_id"] = CELEBRITY
    return events
