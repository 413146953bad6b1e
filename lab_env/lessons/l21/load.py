"""Lesson 21's events: the recorded hour without late, duplicate or malformed events."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pandas as pd

from lab_env.platform.brokers.topics import ensure_topic
from lab_env.shop.model import Send
from lab_env.shop.record import recording

IN_FOUR_TASKS = {"minPartitions": 4}  # options of Kafka's source; exercise 21.1 asks for them
RECORDED = "-rec-"  # in every id of the recorded hour
TOPICS = {"orders": (1, 1), "orders-4": (4, 1), "backlog": (1, 8)}  # partitions and hours


def fill_topics(lab) -> list[str]:
    """Send the events to the topics `orders`, `orders-4` and `backlog`; return their full names."""
    for name, (partitions, hours) in TOPICS.items():
        ensure_topic(lab.endpoints.kafka_bootstrap, lab.topic(name), partitions)
        lab.replay(lab.topic(name), sends=events_in_order(hours))
    return [lab.topic(name) for name in TOPICS]


def events_in_order(shops: int = 1) -> Iterator[Send]:
    """Yield the recorded hour as sent by several shops, one shop after the other.

    Late, duplicate and malformed events are omitted, so in a topic with one partition the last
    event of an order is its newest. Each shop sends the same events with different ids.
    """
    in_order = [send for send in recording() if send.kind == "event"]
    for shop in range(1, shops + 1):
        yield from (_of_shop(send, shop) for send in in_order)


def _of_shop(send: Send, shop: int) -> Send:
    """Return a recorded event rewritten for another shop."""
    own = f"-{shop}-"
    order = send.order_id.replace(RECORDED, own)
    return replace(
        send,
        send_id=f"{send.send_id}-{shop}",
        event_id=send.event_id.replace(RECORDED, own),
        order_id=order,
        key=order,
        value=send.value.replace(RECORDED.encode(), own.encode()),
    )


def orders_as_sent(shops: int = 1) -> pd.DataFrame:
    """Return the newest event of each order that was not erased."""
    sent = pd.DataFrame(json.loads(send.value) for send in events_in_order(shops))
    newest = sent.sort_values("order_ts").drop_duplicates("order_id", keep="last")
    return newest[newest["op"] != "erase"]


def board(orders: pd.DataFrame) -> pd.Series:
    """Return the shop's board: revenue by status."""
    return orders.groupby("status")["amount"].sum().astype(float).round(2)
