"""Sends orders with fixed event times, in a fixed sequence, to a topic with one partition.

With one partition, messages arrive in that sequence, and each batch is a section of it.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

from confluent_kafka import Producer

from lab_env.platform.brokers.topics import ensure_topic

NOON = datetime(2026, 11, 20, 12)

# The stream of the shop's phone app, in minutes of event time.
PHONE_BATCHES = 8
BATCH_MINUTES = 2
PER_BATCH = 15
# Of each batch from the fifth on these come so many whole minutes late, at the end of their minute.
# So the same delays lose them on every stream: Spark judges a batch by the orders of two batches
# before it, which makes up to six minutes too short, and from seven on all of them count.
DELAYS = (5, 10, 10)
FIRST_DELAYED = 4
END_OF_MINUTE = (0.7, 0.95)
FLAT_BATTERY = 19.0  # one order of the last batch, of a few cents, comes this much late


@dataclass(frozen=True)
class Order:
    """An order as it is sent."""

    order_id: str  # the key
    customer_id: str
    cents: int
    order_ts: datetime  # event time, UTC
    sent_at: datetime  # by the device's clock, UTC

    def message(self) -> bytes:
        """Return the order as JSON, with the fields of the lesson's schema."""
        fields = {
            "order_id": self.order_id,
            "customer_id": self.customer_id,
            "amount": f"{self.cents // 100}.{self.cents % 100:02d}",
            "order_ts": f"{self.order_ts.isoformat()}Z",
            "sent_at": f"{self.sent_at.isoformat()}Z",
        }
        return json.dumps(fields).encode()


def make_order(number: int, at: datetime, cents: int = 1000, customer: int = 1) -> Order:
    """Return an order that is sent at its event time."""
    return Order(f"O-{number}", f"C-{customer}", cents, at, at)


def phone_orders(seed: int) -> list[Order]:
    """Return orders of the phone app in the sequence of their arrival, `PER_BATCH` per batch.

    Most arrive in time. One in ten is minutes late, as from a phone without network. A single order
    of a few cents is much later. A batch covers `BATCH_MINUTES` of event time.
    """
    rng = Random(seed)
    orders: list[Order] = []

    def add(minute: float, cents: int) -> None:
        at = NOON + timedelta(seconds=round(60 * minute))
        orders.append(make_order(len(orders) + 1, at, cents, rng.randint(1, 40)))

    for batch in range(PHONE_BATCHES):
        newest = batch * BATCH_MINUTES
        delays = DELAYS if batch >= FIRST_DELAYED else ()
        for delay in delays:
            add(newest - delay + rng.uniform(*END_OF_MINUTE), rng.randint(1000, 6000))
        last = batch == PHONE_BATCHES - 1
        if last:
            add(newest - FLAT_BATTERY, rng.randint(10, 60))
        end = BATCH_MINUTES - 0.1
        in_time = [rng.uniform(0, end) for _ in range(PER_BATCH - len(delays) - last - 1)]
        for minute in [*sorted(in_time), end]:
            add(newest + minute, rng.randint(1000, 6000))
    return orders


def send_orders(bootstrap: str, topic: str, orders: Iterable[Order]) -> None:
    """Send orders in sequence to partition 0 of a topic, which is created if missing."""
    ensure_topic(bootstrap, topic, partitions=1)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for order in orders:
        producer.produce(topic, order.message(), partition=0)
    producer.flush()
