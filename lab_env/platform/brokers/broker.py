"""Common interface of the two brokers; the address selects the broker.

`host:port` is Kafka, a URL is Kinesis. `producer.open_sender` does the same for senders. If a
broker or a topic cannot be read, a `LabError` is raised.
"""

from collections.abc import Iterable

from lab_env.platform.brokers import Arrival, streams, topics


def is_kinesis(address: str) -> bool:
    """True if an address is a Kinesis URL, not Kafka's `host:port`."""
    return "://" in address


def ensure_topic(address: str, topic: str) -> None:
    """Create the topic or stream if it does not exist; see `topics.ensure_topic`."""
    if is_kinesis(address):
        streams.ensure_stream(address, topic)
    else:
        topics.ensure_topic(address, topic)


def end_offsets(address: str, topic: str) -> dict[int, int]:
    """Number of messages so far in each topic partition or shard, by its number."""
    if is_kinesis(address):
        return streams.count_records(address, topic)
    return topics.topic_end_offsets(address, topic)


def arrivals(address: str, topic: str) -> Iterable[Arrival]:
    """All messages of the topic or stream."""
    if is_kinesis(address):
        return streams.arrivals(address, topic)
    return topics.arrivals(address, topic)
