"""The running example: an online shop whose order events flow through the course.

The package generates realistic load, keeps a ledger of the broker's acknowledgements, and replays a
recorded stream.
"""

from lab_env.platform.settings import settings

# Defaults of the commands and of `Load`.
TOPIC = "lab.orders"  # in its own namespace: `lab reset lab` clears it
RATE = 500  # events per second
USERS = 20


def default_topic() -> str:
    """Topic of `lab load` and `lab replay`, with LAB_NAMESPACE as its prefix if that is set."""
    return f"{settings().prefix}{TOPIC}"
