"""The clients of Kafka and Kinesis: topics and streams are made, read and deleted here."""

import re
from typing import NamedTuple

from lab_env.platform.errors import LabError

SEND_ID_HEADER = "send-id"


class Arrival(NamedTuple):
    """A message in the topic, or a record in the stream.

    Args:
        send_id: its header `send-id`, empty when it has none.
        partition: of the topic; for Kinesis the shard's number.
        offset: for Kinesis the sequence number.
        at: the broker's time for it, microseconds since 1970 UTC.
    """

    send_id: str
    partition: int
    offset: int
    at: int


def check_topic_name(topic: str) -> str:
    """Refuse a name that Kafka does not accept; a topic's ledger folder has the same name.

    Returns:
        The name.

    Raises:
        LabError: the name is not allowed.
    """
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", topic) or topic in (".", ".."):
        raise LabError(
            f"{topic!r} is not a valid name of a Kafka topic.",
            "use 1 to 249 letters, digits, dots, hyphens and underscores, for example my.orders.",
        )
    return topic
