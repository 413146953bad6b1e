"""Clients of Kafka and Kinesis: create, read and delete topics and streams."""

import re
from typing import NamedTuple

from lab_env.platform.errors import LabError

SEND_ID_HEADER = "send-id"


class Arrival(NamedTuple):
    """A message in a topic, or a record in a stream."""

    send_id: str  # its header `send-id`, or the id in a record's partition key; empty without one
    partition: int  # for Kinesis the shard's number
    offset: int  # for Kinesis the sequence number
    at: int  # the broker's timestamp, microseconds since 1970 UTC


def check_topic_name(topic: str) -> str:
    """Reject a name that Kafka does not accept; a topic's ledger folder has the same name."""
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", topic) or topic in (".", ".."):
        raise LabError(
            f"{topic!r} is not a valid name of a Kafka topic.",
            "use 1 to 249 letters, digits, dots, hyphens and underscores, for example my.orders.",
        )
    return topic
