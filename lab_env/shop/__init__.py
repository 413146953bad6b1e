"""The running example: an online shop whose order events flow through the course.

It makes believable load, keeps a ledger of what the broker acknowledged, and replays a recorded
stream.
"""

from lab_env.settings import settings

# What the commands and `Load` do when nothing else is asked for.
TOPIC = "lab.orders"  # in a space of its own: `lab reset lab` clears it
RATE = 500  # events a second
USERS = 20


def default_topic() -> str:
    """The topic of `lab load` and `lab replay`, within LAB_NAMESPACE."""
    return f"{settings().prefix}{TOPIC}"
