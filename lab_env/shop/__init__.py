"""The running example: an online shop whose order events flow through the course.

It makes believable load, keeps a ledger of what the broker acknowledged, and replays a recorded
stream.
"""

# What the commands and `Load` do when nothing else is asked for.
TOPIC = "lab.orders"  # in a space of its own: `lab reset lab` clears it
RATE = 500  # events a second
USERS = 20
