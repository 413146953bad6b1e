"""The running example: an online shop whose order events flow through the course.

It makes realistic load, keeps a ledger of the broker's acknowledgements, and replays a recorded
stream.
"""

import re
from typing import NamedTuple

from lab_env.errors import LabError
from lab_env.settings import settings

# Defaults of the commands and of `Load`.
TOPIC = "lab.orders"  # in its own namespace: `lab reset lab` clears it
RATE = 500  # events per second
USERS = 20


def default_topic() -> str:
    """Topic of `lab load` and `lab replay`, within LAB_NAMESPACE."""
    return f"{settings().prefix}{TOPIC}"


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
