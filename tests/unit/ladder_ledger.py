"""The ledger's frame of some deliveries, as the ladder gives it to a target."""

import pandas as pd

from lab_env.shop.model import Send


def sent(*deliveries: list[Send]) -> pd.DataFrame:
    """Return the ledger's frame of these deliveries."""
    rows = [
        {"send_id": send.send_id, "event_id": send.event_id, "order_id": send.order_id}
        | {"op": send.op, "order_ts": send.order_ts, "kind": send.kind}
        | {"partition": 0, "offset": 0, "delivery": number, "value": send.value.decode()}
        for number, sends in enumerate(deliveries, 1)
        for send in sends
    ]
    return pd.DataFrame(rows)
