"""The table of the ladder: the rungs of each exercise, and what its reference promises on each.

A rung delivers events in parts. After each part the learner's function is called, as after a
restart, and then its table must be right. A rung asks only for what the reference survives: a
deleted checkpoint, for example, is not a rung.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

from lab_env.shop.model import Send, generate

SENDS = 150  # of a rung
BEGIN = "2026-01-05T23:59:42Z"  # just before midnight, so that orders have events on two days
SEEDS = 1_000_000  # step between redraws of a seed
SINK = "cow"  # names the table and the checkpoint below the attack's folder
KILLED = 2  # the delivery in which a rung kills the process
# Much of what is rare in the shop. Nothing of an order follows its erasure: the shop waits until
# nothing can be late.
BUSY = {
    "update": 0.5,
    "cancel": 0.04,
    "erase": 0.08,
    "late": 0.5,
    "duplicate": 0.25,
    "lateness_seconds": 8.0,
}

Deliveries = list[list[Send]]


@dataclass(frozen=True)
class Rung:
    """One rung of an exercise.

    Args:
        deliveries: makes the sends of each delivery from a seed.
        kill: class of request and action of the gate at which the process is killed, once.
    """

    title: str
    promise: str
    deliveries: Callable[[int], Deliveries]
    kill: tuple[str, str] | None = None


def late_and_twice(seed: int) -> Deliveries:
    """Three deliveries with many late events, resends and erasures, also across their borders.

    For every seed, at least one event arrives in a later delivery than a newer event of its order,
    and one erasure in a later delivery than an event of the order that it erases.
    """
    drawn = (_parts(_sends(seed + SEEDS * again), 3) for again in itertools.count())
    return next(parts for parts in drawn if _crosses(parts, "late") and _crosses(parts, "erase"))


def malformed_between(seed: int) -> Deliveries:
    """Good and malformed messages; between them, a delivery of nothing but malformed ones."""
    sends = _sends(seed, malformed=0.2)
    alone = [send for send in sends if send.kind.startswith("malformed")][::2]
    chosen = {send.send_id for send in alone}
    first, last = _parts([send for send in sends if send.send_id not in chosen], 2)
    return [first, alone, last]


def _crosses(parts: Deliveries, what: str) -> bool:
    """True if a late event, or an erasure, finds its order changed by an earlier delivery."""
    newest: dict[str, int] = {}
    for part in parts:
        for send in part:
            before = newest.get(send.order_id, 0)
            late = send.kind == what == "late" and before > send.order_ts
            if late or (send.op == what == "erase" and before):
                return True
        for send in part:
            newest[send.order_id] = max(newest.get(send.order_id, 0), send.order_ts)
    return False


def _sends(seed: int, malformed: float = 0.0) -> list[Send]:
    shares = BUSY | {"malformed": malformed}
    return list(generate(SENDS, seed, rate=4, start=BEGIN, worker_id=f"s{seed}", **shares))


def _parts(sends: list[Send], number: int) -> Deliveries:
    size = -(-len(sends) // number)
    return [sends[start : start + size] for start in range(0, len(sends), size)]


RESENDS = Rung(
    "late, twice and erased",
    "Each order has one row, its newest event, and an erased order has none.",
    late_and_twice,
)
MALFORMED = Rung(
    "nothing but malformed messages",
    "A batch without one valid event changes nothing and stops nothing.",
    malformed_between,
)
MID_WRITE = Rung(
    "killed in mid-write",
    "After a restart, the batch that was being written is in the table exactly once.",
    late_and_twice,
    ("data", "hold_after"),
)
BEFORE_CHECKPOINT = Rung(
    "killed between commit and checkpoint",
    "A restart does not change the table, even if it has a batch that the checkpoint lacks.",
    late_and_twice,
    ("commits", "hold_before"),
)

RUNGS: dict[str, tuple[Rung, ...]] = {
    "04.2": (RESENDS, MALFORMED, MID_WRITE, BEFORE_CHECKPOINT),
}
