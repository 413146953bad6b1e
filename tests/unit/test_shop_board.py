"""The shop's board is computed from the messages alone."""

import json
from decimal import Decimal

from lab_env.shop.board import board_as_sent
from lab_env.shop.model import Send


def send(number: int, order: str, op: str, status: str, kind: str = "event") -> Send:
    """Return a message whose event time is its number, with an amount of 10.10."""
    value = json.dumps({"op": op, "status": status, "amount": 10.1}).encode()
    return Send(f"s-{number}", f"e-{number}", order, order, value, kind, op, number, number)


def test_the_board_counts_the_newest_event_of_each_living_order_to_the_cent():
    sends = [
        send(1, "o-1", "create", "new"),
        send(3, "o-1", "update", "shipped"),
        send(2, "o-1", "update", "paid", "late"),
        send(4, "o-2", "create", "new"),
        send(5, "o-3", "create", "new"),
        send(6, "o-3", "erase", "erased"),
        send(7, "o-4", "create", "new", "malformed:truncated"),
    ]
    board = board_as_sent(sends)
    assert board["orders"].to_dict() == {"new": 1, "shipped": 1}
    assert board["revenue"].to_dict() == {"new": Decimal("10.1"), "shipped": Decimal("10.1")}
