"""Model of the shop: generates order events, some of them late, sent twice or malformed.

A model owns its orders: their ids contain its worker id, and only it sends events for them. So its
guarantees about one order (rising event times, nothing after an erase) hold for the whole topic.
"""

import csv
import heapq
import time
from bisect import bisect
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from functools import lru_cache
from itertools import accumulate
from random import Random
from typing import Protocol

from lab_env.platform.errors import LabError
from lab_env.platform.settings import REPOSITORY, settings
from lab_env.shop.events import MALFORMED_KINDS, encode, malform

DATA = REPOSITORY / "data"
SECOND = 1_000_000  # microseconds

# Tries to draw a random order that fits, before the shop does something else.
TRIES = 8
# Maximum number of orders that may still change, which bounds memory.
MAX_OPEN_ORDERS = 50_000
STEPS = ("new", "paid", "packed", "shipped", "delivered")


@dataclass(slots=True)
class Send:
    """One message for the broker; its times are in microseconds since 1970 UTC.

    Args:
        send_id: unique for each send; travels as the Kafka header `send-id`.
        event_id: a resend has the id of the first send.
        key: Kafka key, the order's id.
        value: the bytes to send.
        kind: `event`, `late`, `resend` or `malformed:<reason>`.
        op: one of `events.OPS`.
        order_ts: event time.
        at: time at which the model made this send.
    """

    send_id: str
    event_id: str
    order_id: str
    key: str
    value: bytes
    kind: str
    op: str
    order_ts: int
    at: int


@dataclass(frozen=True)
class Shares:
    """Frequencies of events: shares from 0 to 1, except `lateness_seconds`.

    Args:
        update: share of good events that are updates; the remainder are creates.
        cancel: share of good events that are cancellations.
        erase: share of good events that erase an order.
        late: share of updates that arrive late; in effect at most half, because the update after a
        late one is on time and overtakes it.
        duplicate: share of good events that are sent a second time.
        malformed: share of new events that are malformed.
        lateness_seconds: maximum time from event time to arrival.
    """

    update: float
    cancel: float
    erase: float
    late: float
    duplicate: float
    malformed: float
    lateness_seconds: float

    @classmethod
    def of(cls, **overrides: float) -> "Shares":
        """Shares from the settings, with some of them replaced, for example `malformed=0`.

        Raises:
            LabError: a name is unknown, a value is out of range, or `update`, `cancel` and `erase`
            add up to more than 1.
        """
        lab = settings()
        shares = cls(
            lab.update_share,
            lab.cancel_share,
            lab.erase_share,
            lab.late_share,
            lab.duplicate_share,
            lab.malformed_share,
            lab.lateness_seconds,
        )
        names = [field.name for field in fields(cls)]
        for name, value in overrides.items():
            if name not in names:
                raise LabError(f"{name} is not a share of the load.", f"use one of {names}.")
            top = 3600 if name == "lateness_seconds" else 1
            if not 0 <= value <= top:
                raise LabError(f"{name}={value} is not between 0 and {top}.", f"change {name}.")
        shares = replace(shares, **overrides)
        if shares.update + shares.cancel + shares.erase > 1:
            raise LabError(
                "The shares of updates, cancellations and erasures add up to more than 1.",
                "lower one of them: the remainder are the new orders.",
            )
        return shares


class Clock(Protocol):
    def now(self) -> int:
        """Microseconds since 1970 UTC."""


class WallClock:
    """Clock that returns the machine's time."""

    def now(self) -> int:
        return time.time_ns() // 1000


class SimulatedClock:
    """A clock that is advanced by hand, so that a seed gives the same stream each time."""

    def __init__(self, start: int):
        self._now = start

    def now(self) -> int:
        return self._now

    def advance(self, micros: int) -> None:
        self._now += micros


class Timestamps:
    """Formats microseconds as `2026-11-21T02:14:15.123456Z`; caches the current second."""

    def __init__(self):
        self._second, self._text = -1, ""

    def text(self, micros: int) -> str:
        second, rest = divmod(micros, SECOND)
        if second != self._second:
            self._second = second
            self._text = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        return f"{self._text}.{rest:06d}Z"


@dataclass(slots=True, eq=False)
class Order:
    """State of an order that may still change."""

    order_id: str
    customer_id: str
    product_id: str
    cents: int
    partition_date: str
    step: int = 0
    closed: bool = False
    last_ts: int = 0
    quiet_after: int = 0


class OrderModel:
    """Generates the shop's events, one `Send` at a time.

    Args:
        seed: the same seed and clock give the same sends, byte for byte.
        worker_id: part of every id; must be unique among all senders to the topic.
    """

    def __init__(self, seed: int, shares: Shares, worker_id: str, clock: Clock):
        self.worker_id = worker_id
        self._shares = shares
        self._clock = clock
        self._rng = Random(seed)
        self._chance = self._rng.random
        self._horizon = int(shares.lateness_seconds * SECOND)
        self._event_text, self._send_text = Timestamps(), Timestamps()
        self._customers, self._customer_weights = _customers()
        self._products, self._product_weights = _products()
        self._orders = self._events = self._sends = 0
        self._open: list[Order] = []
        self._cancelled: list[Order] = []
        # A heap: due time, two unique counters, kind, event or send, order.
        self._held: list[tuple[int, int, int, str, tuple | Send, Order]] = []
        self._overtaking: deque[Order] = deque()  # orders whose newest event is held back

    def next(self) -> Send:
        """Return the next send: a held-back one that is due, or a new one."""
        now = self._clock.now()
        if self._held and self._held[0][0] <= now:
            return self._release(now)
        if self._chance() < self._shares.malformed:
            return self._malformed(now)
        while True:
            send = self._new_event(now)
            if send is not None:
                return send

    def drain(self) -> Iterator[Send]:
        """Yield all held-back sends, at the end of a run."""
        while self._held:
            yield self._release(self._clock.now())

    def _new_event(self, now: int) -> Send | None:
        """Send of a new event; None if the event was held back."""
        shares, chance = self._shares, self._chance()
        if chance < shares.erase:
            return self._erase(now) or self._create(now)
        chance -= shares.erase
        if chance < shares.cancel:
            return self._cancel(now) or self._create(now)
        if chance - shares.cancel < shares.update and self._open:
            return self._update(now)
        return self._create(now)

    def _create(self, now: int) -> Send:
        self._orders += 1
        customer_id = self._customers[bisect(self._customer_weights, self._chance())]
        product_id, price = self._products[bisect(self._product_weights, self._chance())]
        cents = price * (1 + int(self._chance() * self._chance() * 4))
        order_id, today = f"o-{self.worker_id}-{self._orders:06d}", self._event_text.text(now)[:10]
        order = Order(order_id, customer_id, product_id, cents, today)
        if len(self._open) >= MAX_OPEN_ORDERS:
            _take(self._open, int(self._chance() * MAX_OPEN_ORDERS / 2))
        self._open.append(order)
        return self._emit(self._stamp(order, "create", STEPS[0], now), order, "event", now)

    def _update(self, now: int) -> Send | None:
        while self._overtaking:
            order = self._overtaking.popleft()
            if not order.closed:
                return self._emit(self._stamped_update(order, now), order, "event", now)
        order = self._open[self._recent()]
        event = self._stamped_update(order, now)
        if self._chance() >= self._shares.late:
            return self._emit(event, order, "event", now)
        # At least a fifth of the horizon, so that the next update overtakes it.
        self._hold(event, order, "late", now + int(self._horizon * (0.2 + 0.7 * self._chance())))
        self._overtaking.append(order)
        return None

    def _cancel(self, now: int) -> Send | None:
        if not self._open:
            return None
        order = _take(self._open, self._recent())
        order.closed = True
        self._cancelled.append(order)
        return self._emit(self._stamp(order, "cancel", "cancelled", now), order, "event", now)

    def _erase(self, now: int) -> Send | None:
        """Erase an order that has been quiet for longer than the maximum lateness."""
        quiet_since = now - self._horizon
        for _ in range(TRIES):
            place = int(self._chance() * (len(self._open) + len(self._cancelled)))
            orders = self._open
            if place >= len(orders):
                place, orders = place - len(orders), self._cancelled
            if place < len(orders) and orders[place].quiet_after < quiet_since:
                order = _take(orders, place)
                order.closed = True
                event = self._stamp(order, "erase", "erased", now)
                return self._send(event, order, "event", now)
        return None

    def _malformed(self, now: int) -> Send:
        """Make a malformed event for an open order; if accepted, it would show in the tables."""
        if not self._open:
            return self._create(now)
        order = self._open[self._recent()]
        last_ts = order.last_ts
        event = self._stamp(order, "update", STEPS[order.step], now)
        order.last_ts = last_ts  # it never becomes a version of the order
        kind = MALFORMED_KINDS[int(self._chance() * len(MALFORMED_KINDS))]
        send = self._send(event, order, f"malformed:{kind}", now)
        send.value = malform(kind, send.value, self._rng)
        return send

    def _recent(self) -> int:
        """Index of an open order, more often a recent one."""
        return len(self._open) - 1 - int(self._chance() * self._chance() * len(self._open))

    def _stamped_update(self, order: Order, now: int) -> tuple:
        if order.step < len(STEPS) - 1:
            order.step += 1
        else:
            order.cents = max(1, order.cents * 9 // 10)  # a delivered order gets a rebate
        return self._stamp(order, "update", STEPS[order.step], now)

    def _stamp(self, order: Order, op: str, status: str, now: int) -> tuple:
        """Arguments of `encode` for a new version up to `partition_date`, and its event time."""
        self._events += 1
        order.last_ts = now if now > order.last_ts else order.last_ts + 1
        return (
            f"e-{self.worker_id}-{self._events:07d}",
            op,
            order.order_id,
            order.customer_id,
            order.product_id,
            order.cents,
            status,
            self._event_text.text(order.last_ts),
            order.partition_date,
            order.last_ts,
        )

    def _emit(self, event: tuple, order: Order, kind: str, now: int) -> Send:
        """Send an event now, and hold back a copy if it is to be resent."""
        order.quiet_after = max(order.quiet_after, now)
        send = self._send(event, order, kind, now)
        if self._chance() < self._shares.duplicate:
            time_left = max(0, send.order_ts + self._horizon - now)
            self._hold(send, order, "resend", now + int(time_left * self._chance()))
        return send

    def _hold(self, content: tuple | Send, order: Order, kind: str, due: int) -> None:
        order.quiet_after = max(order.quiet_after, due)
        heapq.heappush(self._held, (due, self._sends, self._events, kind, content, order))

    def _release(self, now: int) -> Send:
        *_, kind, content, order = heapq.heappop(self._held)
        if not isinstance(content, Send):  # an event that is sent late
            return self._emit(content, order, kind, now)
        order.quiet_after = max(order.quiet_after, now)
        self._sends += 1
        return replace(content, send_id=f"{self.worker_id}-{self._sends}", kind=kind, at=now)

    def _send(self, event: tuple, order: Order, kind: str, now: int) -> Send:
        self._sends += 1
        *stamped, order_ts = event
        return Send(
            f"{self.worker_id}-{self._sends}",
            event[0],
            order.order_id,
            order.order_id,
            encode(*stamped, self._send_text.text(now)),
            kind,
            event[1],
            order_ts,
            now,
        )


def generate(
    n: int,
    seed: int,
    rate: float = 500.0,
    start: str = "2026-01-05T23:30:00Z",
    worker_id: str = "sim",
    **shares: float,
) -> Iterator[Send]:
    """Yield the first n sends of a simulated day in the shop, independent of the machine's clock.

    Args:
        seed: the same arguments and seed give the same bytes.
        rate: sends per simulated second.
        **shares: override the settings' shares, as in `Shares.of`.
    """
    began = int(datetime.fromisoformat(start).timestamp()) * SECOND
    clock = SimulatedClock(began)
    model = OrderModel(seed, Shares.of(**shares), worker_id, clock)
    jitter = Random(seed).random
    step = 2 * SECOND / rate
    for _ in range(n):
        clock.advance(1 + int(step * jitter()))
        yield model.next()


def _take(orders: list[Order], place: int) -> Order:
    """Remove an order in constant time: the last one moves into its place."""
    order = orders[place]
    orders[place] = orders[-1]
    orders.pop()
    return order


@lru_cache(maxsize=1)
def _customers() -> tuple[list[str], list[float]]:
    ids = [row["customer_id"] for row in _rows("customers.csv")]
    return ids, _skewed(len(ids))


@lru_cache(maxsize=1)
def _products() -> tuple[list[tuple[str, int]], list[float]]:
    items = [(row["product_id"], int(row["price_cents"])) for row in _rows("products.csv")]
    return items, _skewed(len(items))


def _rows(name: str) -> list[dict[str, str]]:
    with open(DATA / name, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _skewed(n: int) -> list[float]:
    """Cumulative Zipf probabilities: the k-th most popular item has a weight of 1/k."""
    weights = [1 / rank for rank in range(1, n + 1)]
    total = sum(weights)
    return [part / total for part in accumulate(weights[:-1])]
