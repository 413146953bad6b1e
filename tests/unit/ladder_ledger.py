"""The ledger's frame of some deliveries, as the ladder gives it to a target."""

from itertools import count

import pandas as pd

from lab_env.lab.ladder.target import NewestOfEachOrder
from lab_env.shop.model import SECOND, Send

ORDERS = NewestOfEachOrder()
STATUS = {"create": "new", "update": "paid", "erase": "erased"}


def sent(*deliveries: list[Send]) -> pd.DataFrame:
    """Return the ledger's frame of these deliveries."""
    offsets = count()
    rows = [
        {"send_id": send.send_id, "event_id": send.event_id, "order_id": send.order_id}
        | {"op": send.op, "order_ts": send.order_ts, "kind": send.kind, "state": "acked"}
        | {"partition": 0, "offset": next(offsets)}
        | {"delivery": number, "value": send.value.decode("utf-8", "replace")}
        for number, sends in enumerate(deliveries, 1)
        for send in sends
    ]
    return pd.DataFrame(rows)


def sends_of(order: str, *rows: tuple[str, str, int, str, int]) -> pd.DataFrame:
    """Return an order's sends, each made from its event, op, second, kind and delivery."""
    sends = [
        Send(
            event,
            event,
            order,
            order,
            f'{{"status":"{STATUS[op]}"}}'.encode(),
            kind,
            op,
            at * SECOND,
            0,
        )
        for event, op, at, kind, _ in rows
    ]
    return ORDERS.keyed(sent(sends).assign(delivery=[row[-1] for row in rows]))
