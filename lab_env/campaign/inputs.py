"""Faults of what is sent, and of the topic it is sent to: the pipeline's servers all run well."""

import time
from collections.abc import Iterable

from confluent_kafka import Producer

from lab_env.campaign.group import Group
from lab_env.campaign.plan import Case
from lab_env.faults.messages import MOMENT, odd_messages
from lab_env.shop.events import encode
from lab_env.shop.kafka_client import confluent_options
from lab_env.shop.topics import ensure_topic

COPIES = 5  # of each message, spread over the partitions


def send_odd_messages(group: Group, case: Case) -> str:
    """Send messages under load that other parsers take, change or never finish; say how many."""
    odd = odd_messages(f"odd-{case.id}")
    _send(Producer(confluent_options(group.endpoints.kafka_bootstrap)), group, [*odd.values()])
    return f"{len(odd) * COPIES} messages of {len(odd)} kinds"


def abort_transaction(group: Group, case: Case) -> str:
    """Send valid orders under load in a transaction that is then aborted; say how many."""
    address = confluent_options(group.endpoints.kafka_bootstrap)
    producer = Producer(address | {"transactional.id": f"{group.label}-{case.id}"})
    producer.init_transactions()
    producer.begin_transaction()
    day = MOMENT[:10]
    orders = [
        encode(f"E-{n}", "create", f"aborted-{n}", "C-1", "P-1", 500, "new", MOMENT, day, MOMENT)
        for n in range(4)
    ]
    _send(producer, group, orders)
    producer.abort_transaction()
    return f"{len(orders) * COPIES} orders"


def _send(producer: Producer, group: Group, values: Iterable[bytes]) -> None:
    for value in values:
        for number in range(COPIES):
            producer.produce(group.topic, value, str(number))
    producer.flush(30)


def make_topic_anew(group: Group) -> None:
    """Delete the topic of a group whose writer does not run, and make it again."""
    ensure_topic(group.endpoints.kafka_bootstrap, group.topic, reset=True)
    time.sleep(1)
