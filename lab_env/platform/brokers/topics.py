"""Create, measure, read and delete Kafka topics; failures raise `LabError`.

`bootstrap` is the `host:port` of the broker, or several, comma-separated.
"""

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from lab_env.platform.brokers import SEND_ID_HEADER, Arrival, check_topic_name
from lab_env.platform.brokers.kafka_client import confluent_options
from lab_env.platform.errors import LabError

ADMIN_TIMEOUT_S = 10.0
BROKERS_CHOICE = -1  # the cluster's default number of replicas
NO_LEADER = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)


def ensure_topic(bootstrap: str, topic: str, partitions: int = 3, reset: bool = False) -> None:
    """Create the topic if it does not exist; with `reset`, delete an existing one first."""
    check_topic_name(topic)
    admin = AdminClient(confluent_options(bootstrap) | {"log_level": 2})
    if reset:
        delete_topic(bootstrap, topic)
    new = NewTopic(topic, partitions, BROKERS_CHOICE)
    last_call = time.monotonic() + ADMIN_TIMEOUT_S
    while topic not in _topics(admin, bootstrap):
        try:
            admin.create_topics([new])[topic].result(ADMIN_TIMEOUT_S)
        except KafkaException as error:
            # A deleted topic may linger; one made by another process may not be listed yet.
            gone_soon = error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
            if not gone_soon or time.monotonic() > last_call:
                raise LabError(
                    f"Kafka refused to create the topic {topic}: {error.args[0].str()}.",
                    "run: lab logs kafka",
                ) from None
        time.sleep(0.1)


def add_partitions(bootstrap: str, topic: str, total: int) -> None:
    """Let a topic have `total` partitions, and wait until it does."""
    admin = AdminClient(confluent_options(bootstrap) | {"log_level": 2})
    admin.create_partitions([NewPartitions(topic, total)])[topic].result(ADMIN_TIMEOUT_S)
    last_call = time.monotonic() + ADMIN_TIMEOUT_S
    while len(admin.list_topics(topic, ADMIN_TIMEOUT_S).topics[topic].partitions) < total:
        if time.monotonic() > last_call:
            raise LabError(
                f"The topic {topic} still has fewer than {total} partitions.", "try again."
            )
        time.sleep(0.05)


def delete_topic(bootstrap: str, topic: str) -> None:
    """Delete the topic with all its messages, if it exists."""
    _delete(bootstrap, lambda name: name == topic)


def delete_topics(bootstrap: str, prefix: str) -> list[str]:
    """Delete all topics with this name prefix; return their names once Kafka has removed them."""
    return _delete(bootstrap, lambda name: name.startswith(prefix))


def _delete(bootstrap: str, chosen: Callable[[str], bool]) -> list[str]:
    admin = AdminClient(confluent_options(bootstrap) | {"log_level": 2})
    names = sorted(filter(chosen, _topics(admin, bootstrap)))
    last_call = time.monotonic() + ADMIN_TIMEOUT_S
    for name, deleted in admin.delete_topics(names).items() if names else ():
        try:
            deleted.result(ADMIN_TIMEOUT_S)
        except KafkaException as error:
            raise LabError(
                f"Kafka refused to delete the topic {name}: {error.args[0].str()}.",
                "run: lab logs kafka",
            ) from None
    while _topics(admin, bootstrap).intersection(names):
        if time.monotonic() > last_call:
            raise LabError(f"Kafka still has the deleted topics {', '.join(names)}.", "try again.")
        time.sleep(0.05)
    return names


def topic_end_offsets(bootstrap: str, topic: str) -> dict[int, int]:
    """End offset of each topic partition: the one after the last message the pipeline may read.

    This is Kafka's *last stable offset*: it stops before the first open transaction.
    """
    with _consumer(bootstrap) as consumer:
        return {
            partition: _watermarks(consumer, topic, partition)[1]
            for partition in _partitions(consumer, bootstrap, topic)
        }


def _watermarks(consumer: Consumer, topic: str, partition: int) -> tuple[int, int]:
    """First offset of a topic partition and the one after its last.

    It retries while the partition has no leader, as in the first seconds after a broker restart.
    """
    deadline = time.monotonic() + ADMIN_TIMEOUT_S
    while True:
        try:
            return consumer.get_watermark_offsets(TopicPartition(topic, partition), ADMIN_TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() not in NO_LEADER or time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def read_topic(bootstrap: str, topic: str) -> Iterator[Message]:
    """All messages of the topic except aborted ones, in order within each topic partition."""
    ends = topic_end_offsets(bootstrap, topic)
    with _consumer(bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in ends])
        unfinished = {number for number, end in ends.items() if end}
        last_call = time.monotonic() + ADMIN_TIMEOUT_S
        while unfinished:
            for message in consumer.consume(10_000, 0.5):
                last_call = time.monotonic() + ADMIN_TIMEOUT_S
                end = ends[message.partition()]
                if error := message.error():
                    if error.code() != KafkaError._PARTITION_EOF:
                        raise KafkaException(error)
                elif message.offset() < end:
                    yield message
                # If the last offsets are markers of transactions, only the end is reported.
                if message.offset() >= end - (not error):
                    unfinished.discard(message.partition())
            if time.monotonic() > last_call:
                raise LabError(
                    f"Kafka at {bootstrap} stopped sending the messages of {topic}.",
                    "run: lab status   (then try again)",
                )


def arrivals(bootstrap: str, topic: str) -> Iterator[Arrival]:
    """All messages of the topic, but not their content; see `read_topic`."""
    for message in read_topic(bootstrap, topic):
        yield Arrival(
            dict(message.headers() or ()).get(SEND_ID_HEADER, b"").decode(),
            message.partition(),
            message.offset(),
            message.timestamp()[1] * 1000,
        )


@contextmanager
def _consumer(bootstrap: str) -> Generator[Consumer]:
    """Yield a consumer; Kafka errors in the body become a `LabError`."""
    consumer = Consumer(
        confluent_options(bootstrap)
        | {
            "group.id": "ledger",  # the client requires one; no offset is ever committed
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",  # like the pipeline
            "log_level": 2,
        }
    )
    try:
        yield consumer
    except KafkaException as error:
        raise _unreachable(bootstrap, error) from None
    finally:
        consumer.close()


def _partitions(consumer: Consumer, bootstrap: str, topic: str) -> list[int]:
    known = consumer.list_topics(topic, ADMIN_TIMEOUT_S).topics[topic]
    if known.error:
        raise LabError(
            f"Kafka at {bootstrap} has no topic {topic}.",
            f"send something first: lab load --topic {topic}",
        )
    return sorted(known.partitions)


def _topics(admin: AdminClient, bootstrap: str) -> set[str]:
    try:
        return set(admin.list_topics(timeout=ADMIN_TIMEOUT_S).topics)
    except KafkaException as error:
        raise _unreachable(bootstrap, error) from None


def _unreachable(bootstrap: str, error: KafkaException) -> LabError:
    return LabError(
        f"Kafka at {bootstrap} does not answer: {error.args[0].str()}.",
        "run: lab status   (to start the services: lab up)",
    )
