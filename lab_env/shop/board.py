"""The shop's dashboard, revenue by status, computed without Kafka, Spark or a table."""

import json
from collections.abc import Iterable
from decimal import Decimal

import pandas as pd

from lab_env.shop.model import Send


def board_as_sent(sends: Iterable[Send]) -> pd.DataFrame:
    """Compute the shop's board in plain Python from the messages; malformed ones are left out.

    The board has the number of orders and the revenue by status, from the newest event of each
    order that was not erased.
    """
    newest: dict[str, Send] = {}
    for send in sends:
        if send.kind.startswith("malformed"):
            continue
        known = newest.get(send.order_id)
        if known is None or send.order_ts > known.order_ts:
            newest[send.order_id] = send
    living = [json.loads(send.value, parse_float=Decimal) for send in newest.values()]
    rows = pd.DataFrame([order for order in living if order["op"] != "erase"])
    amounts = rows.groupby("status")["amount"]
    return pd.DataFrame({"orders": amounts.count(), "revenue": amounts.sum()})
