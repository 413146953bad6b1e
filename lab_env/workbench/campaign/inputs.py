"""Input faults while all servers work: invalid messages, aborted transactions, many dates."""

from collections.abc import Iterable

from confluent_kafka import Producer

from lab_env.lab.faults.messages import MOMENT, odd_messages
from lab_env.platform.brokers.kafka_client import confluent_options
from lab_env.shop.events import encode
from lab_env.workbench.campaign.feeder import Feeder
from lab_env.workbench.campaign.group import Group

COPIES = 5  # per message, spread over the topic's partitions
HOURS = 2  # of the shop's time between two events of many dates


def send_odd_messages(group: Group) -> str:
    """Send invalid messages that many parsers accept, alter or hang on; return a summary."""
    odd = odd_messages(f"{group.label}-odd")
    _send(Producer(confluent_options(group.endpoints.kafka_bootstrap)), group.topic, odd.values())
    return f"{len(odd) * COPIES} messages of {len(odd)} kinds"


def abort_transaction(group: Group) -> str:
    """Send new orders in a transaction and abort it; return a summary."""
    address = confluent_options(group.endpoints.kafka_bootstrap)
    producer = Producer(address | {"transactional.id": group.label})
    producer.init_transactions()
    producer.begin_transaction()
    new = ("C-1", "P-1", 500, "new", MOMENT, MOMENT[:10], MOMENT)
    orders = [encode(f"E-{n}", "create", f"{group.label}-aborted-{n}", *new) for n in range(4)]
    _send(producer, group.topic, orders)
    producer.abort_transaction()
    return f"{len(orders) * COPIES} messages"


def _send(producer: Producer, topic: str, values: Iterable[bytes]) -> None:
    for value in values:
        for number in range(COPIES):
            producer.produce(topic, value, str(number))
    producer.flush(30)


def many_dates(group: Group) -> Feeder:
    """Return a feeder whose events span many dates, so that the table gets many files."""
    kafka, rate = group.endpoints.kafka_bootstrap, 1 / 3600 / HOURS
    return Feeder(kafka, group.topic, group.feeder.ledger.directory, 1, group.label, rate)
