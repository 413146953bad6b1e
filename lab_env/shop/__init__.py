"""The running example: an online shop whose order events flow through the course.

It makes believable load, keeps a ledger of what the broker acknowledged, and replays a recorded
stream.
"""

import re
from typing import NamedTuple

from lab_env.errors import LabError
from lab_env.settings import settings

# What the commands and `Load` do when nothing else is asked for.
TOPIC = "lab.orders"  # in a space of its own: `lab reset lab` clears it
RATE = 500  # events a second
USERS = 20


def default_topic() -> str:
    """The topic of `lab load` and `lab replay`, within LAB_NAMESPACE."""
    return f"{settings().prefix}{TOPIC}"


class Arrival(NamedTuple):
    """A message in the topic, or a record in the stream.

    Args:
        send_id: its header `send-id`, empty when it has none.
        partition: where it lies; of Kinesis the shard's number.
        offset: its place there; of Kinesis the sequence number.
        at: the broker's time for it, microseconds since 1970 UTC.
    """

    send_id: str
    partition: int
    offset: int
    at: int


def check_topic_name(topic: str) -> str:
    """Refuse a name that Kafka does not accept; a topic's ledger folder has the same name.

    Args:
        topic: topic name.

    Returns:
        The name.

    Raises:
        LabError: no topic can be called so.
    """
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", topic) or topic in (".", ".."):
        raise LabError(
            f"No Kafka topic can be called {topic!r}.",
            "use 1 to 249 letters, digits, dots, hyphens and underscores, for example my.orders.",
        )
    return topic
