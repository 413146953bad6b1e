"""Lesson 02's table of delivered messages, and its generated events with one busy customer."""

from lab_env.lessons.l02.figures import placed
from lab_env.shop.skew import CELEBRITY, marketplace_events


class Receipt:
    """Stand-in for the message that the Kafka client passes to a delivery callback."""

    def __init__(self, key, partition):
        self.key, self.partition = lambda: key, lambda: partition

    def value(self):
        return b'{"order_id": "O-1"}'


def test_receipts_become_a_table_of_places():
    table = placed([Receipt(b"c-1", 4), Receipt(None, 2)])
    assert table.to_dict("list") == {
        "order_id": ["O-1", "O-1"],
        "key": ["c-1", None],
        "partition": [4, 2],
        "bytes": [19, 19],
    }


def test_the_marketplace_is_the_same_each_time_and_has_a_celebrity():
    events = marketplace_events(2_000)
    assert events == marketplace_events(2_000)
    share = sum(event["customer_id"] == CELEBRITY for event in events) / len(events)
    assert 0.3 < share < 0.45
    owners = {}
    for one in events:
        assert owners.setdefault(one["order_id"], one["customer_id"]) == one["customer_id"]
