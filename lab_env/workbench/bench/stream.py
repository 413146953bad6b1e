"""Generates the benchmark's streams from a seed: the same bytes for every sink and every round.

A stream consists of a load, which creates orders, and of changes: new orders and updates of loaded
ones, in the scenario's proportion. It has no erasures, resends or late events, so the newest state
of every order is known and each sink's answers can be checked.
"""

from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import accumulate
from random import Random

from lab_env.shop.events import encode
from lab_env.shop.model import SECOND, STEPS, Send, Timestamps

UNIFORM, ZIPF = "uniform", "zipf"
LAST_DAY = "2026-01-06"  # of creation
RANGE = (20_000, 40_000)  # cents: the amounts of the range query


@dataclass(frozen=True)
class Scenario:
    """Properties of a stream.

    Args:
        keys: distribution of the updates over the orders: `uniform`, or `zipf`, where the n-th
            order gets 1/n as many updates as the first.
    """

    update_percent: int  # percentage of the changes that are updates; the others are new orders
    keys: str
    load: int  # number of orders in the table before the changes
    batch: int  # number of events per batch of changes, of which there are `batches`
    # At most 8: from ten batches on, Spark's file sink compacts its log, and `sink_writes` reads
    # single entries.
    batches: int
    days: int = 2  # number of days on which orders are created; each day is a table partition

    @property
    def name(self) -> str:
        """Name, for example `80-zipf`, or `80-zipf-32d` if the number of days is not two."""
        days = "" if self.days == 2 else f"-{self.days}d"
        return f"{self.update_percent}-{self.keys}{days}"

    @property
    def title(self) -> str:
        """Title, for example `80 % updates, zipf keys`."""
        if not self.update_percent:
            return "no updates"
        return f"{self.update_percent} % updates, {self.keys} keys"


@dataclass(frozen=True)
class Stream:
    """The events of a scenario, and the rows that a table must have afterwards.

    Args:
        newest: event_id, cents and day of creation of each order's last version, by order id.
    """

    load: list[Send]  # events that create the orders
    changes: list[Send]  # new orders and updates, in the order of sending
    newest: dict[str, tuple[str, int, str]]

    @property
    def bytes_of_changes(self) -> int:
        """Size of all changes as messages, in bytes."""
        return sum(len(send.value) for send in self.changes)

    @property
    def hot_order(self) -> str:
        """Id of a loaded order; with Zipf keys, the order with the most updates."""
        return self.load[0].order_id

    def answers(self) -> dict[str, tuple[int, int]]:
        """Return the correct results of point, range and aggregate queries: rows, sum of cents."""
        rows = self.newest.values()
        low, high = RANGE
        found = [cents for _, cents, day in rows if day == LAST_DAY and low <= cents <= high]
        return {
            "point": (1, self.newest[self.hot_order][1]),
            "range": (len(found), sum(found)),
            "aggregate": (len(rows), sum(cents for _, cents, _ in rows)),
        }


def record(scenario: Scenario, seed: int = 20) -> Stream:
    """Generate a scenario's stream; the same seed gives the same bytes."""
    rng = Random(f"{seed} {scenario.name}")
    writer = Writer(rng, last_days(scenario.days))
    load = [writer.create() for _ in range(scenario.load)]
    orders = [send.order_id for send in load]
    weights = list(_shares(scenario.keys, len(orders)))
    changes = []
    for _ in range(scenario.batch * scenario.batches):
        if rng.random() * 100 < scenario.update_percent:
            changes.append(writer.update(orders[bisect(weights, rng.random())]))
        else:
            changes.append(writer.create())
    return Stream(load, changes, writer.newest)


def last_days(number: int) -> tuple[str, ...]:
    """Return the given number of days, up to and including `LAST_DAY`."""
    last = date.fromisoformat(LAST_DAY)
    return tuple((last - timedelta(days=ago)).isoformat() for ago in reversed(range(number)))


def _shares(keys: str, n: int) -> Iterator[float]:
    """Yield each order's cumulative share of the updates; the last share, always 1, is left out."""
    weights = [1 / rank if keys == ZIPF else 1.0 for rank in range(1, n + 1)]
    total = sum(weights)
    return accumulate(weight / total for weight in weights[:-1])


class Writer:
    """Generates events one millisecond apart, and remembers the newest event of each order.

    Args:
        days: days of creation, one per table partition; the first event is at noon of the last day.
    """

    def __init__(self, rng: Random, days: tuple[str, ...]):
        self._rng, self._days = rng, days
        self._now = int(datetime.fromisoformat(f"{days[-1]}T12:00:00Z").timestamp()) * SECOND
        self._text = Timestamps()
        self._events = self._orders = 0
        self.newest: dict[str, tuple[str, int, str]] = {}

    def create(self, day: str = "") -> Send:
        """Return the event of a new order, created on a given day or on each day in turn."""
        number, self._orders = self._orders, self._orders + 1
        day = day or self._days[number % len(self._days)]
        return self._send("create", f"o-{number:07d}", day, STEPS[0])

    def update(self, order_id: str) -> Send:
        """Return the next event of an order."""
        status = STEPS[1 + int(self._rng.random() * (len(STEPS) - 1))]
        return self._send("update", order_id, self.newest[order_id][2], status)

    def erase(self, order_id: str) -> Send:
        """Return the event that erases an order."""
        send = self._send("erase", order_id, self.newest[order_id][2], "erased")
        del self.newest[order_id]
        return send

    def _send(self, op: str, order_id: str, day: str, status: str) -> Send:
        self._events += 1
        self._now += 1000
        event_id, cents = f"e-{self._events:08d}", 100 + int(self._rng.random() * 100_000)
        self.newest[order_id] = (event_id, cents, day)
        at = self._text.text(self._now)
        customer = f"c-{int(self._rng.random() * 500):04d}"
        product = f"p-{int(self._rng.random() * 40):02d}"
        value = encode(event_id, op, order_id, customer, product, cents, status, at, day, at)
        return Send(
            event_id, event_id, order_id, order_id, value, "event", op, self._now, self._now
        )
