"""The table of the ladder: the rungs of each exercise.

A rung delivers events in parts. After each part the learner's function is called, as after a
restart, and then its table must be right. A rung asks only for what the reference survives: a
deleted checkpoint, for example, is not a rung.
"""

import itertools
import json
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from random import Random

from lab_env.lab.faults.messages import defects
from lab_env.lab.ladder import disturbances
from lab_env.lab.ladder.disturbances import Disturbance
from lab_env.shop.model import SECOND, Send, generate

SENDS = 150  # of a rung
BEGIN = "2026-01-05T23:59:42Z"  # just before midnight, so that orders have events on two days
SEEDS = 1_000_000  # step between redraws of a seed
DISTURBED = 2  # the delivery in which a rung disturbs the function
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
# New orders only, over five minutes; a watermark of two minutes drops none of the late ones.
NEW_ORDERS = dict.fromkeys(("update", "cancel", "erase", "late"), 0.0) | {"lateness_seconds": 60.0}
PER_SECOND, NEW_PER_SECOND = 4, 0.5
LATE_SHARE = 0.3  # of new orders
VERY_LATE = 7_200  # seconds
MOVED_TO, MOVED_SHARE = "c-0500", 3  # every third order that can move does

Deliveries = list[list[Send]]


@dataclass(frozen=True)
class Rung:
    """One rung of an exercise.

    Args:
        hardship: what happens, in one sentence.
        deliveries: makes the sends of each delivery from a seed.
        disturb: calls the function after delivery `DISTURBED`, and does something to it meanwhile.
        before: does something before that delivery is sent.
    """

    title: str
    hardship: str
    deliveries: Callable[[int], Deliveries]
    disturb: Disturbance | None = None
    before: Disturbance | None = None


def late_and_twice(seed: int) -> Deliveries:
    """Three deliveries with many late events, resends and erasures, also across their borders.

    For every seed, at least one event arrives in a later delivery than a newer event of its order,
    one erasure in a later delivery than an event of the order that it erases, and the only event of
    an order two hours late.
    """
    drawn = (_parts(_sends(seed + SEEDS * again), 3) for again in itertools.count())
    crossed = (parts for parts in drawn if _crosses(parts, "late") and _crosses(parts, "erase"))
    return next(parts for parts in map(_with_very_late, crossed) if parts)


def moved_and_cancelled(seed: int) -> Deliveries:
    """Like `late_and_twice`, but after the first delivery some orders move to another customer.

    For every seed, at least one order that counts moves, and one cancelled order is erased, each in
    a later delivery than the order's event before.
    """
    drawn = (_with_moves(late_and_twice(seed + SEEDS * again)) for again in itertools.count())
    return next(parts for parts in drawn if _moves(parts) and _erases_cancelled(parts))


def new_orders(seed: int) -> Deliveries:
    """Three deliveries of new orders, over five minutes; some come up to a minute late, or twice.

    The shop's own late events are all updates, so some orders are held back here.
    """
    rng, most = Random(seed), int(NEW_ORDERS["lateness_seconds"] * SECOND)
    sends = _sends(seed, NEW_PER_SECOND, **NEW_ORDERS)
    for place, send in enumerate(sends):
        if send.kind == "event" and rng.random() < LATE_SHARE:
            sends[place] = replace(send, kind="late", at=send.at + rng.randrange(most))
    return _parts(sorted(sends, key=lambda send: send.at), 3)


def malformed_between(seed: int) -> Deliveries:
    """Good and malformed messages; between them, a delivery of nothing but malformed ones."""
    sends = _sends(seed, malformed=0.2)
    alone = [send for send in sends if send.kind.startswith("malformed")][::2]
    chosen = {send.send_id for send in alone}
    first, last = _parts([send for send in sends if send.send_id not in chosen], 2)
    return [first, alone, last]


def every_defect_between(seed: int) -> Deliveries:
    """Like `malformed_between`; the malformed messages alone also have each kind of defect."""
    first, alone, last = malformed_between(seed)
    valid = next(send for send in first if send.kind == "event")
    damaged = [
        replace(valid, send_id=f"{valid.send_id}-{n}", kind=f"malformed:{reason}", value=value)
        for n, (reason, value) in enumerate(defects(valid.value))
    ]
    return [first, alone + damaged, last]


def with_new_field(seed: int) -> Deliveries:
    """Like `late_and_twice`; after the first delivery, each event has one more field."""
    first, *later = late_and_twice(seed)
    return [first, *([_with_coupon(send) for send in part] for part in later)]


def _with_coupon(send: Send) -> Send:
    return _changed(send, coupon="SPRING")


def _changed(send: Send, **fields: str) -> Send:
    """Return a send whose event has other fields."""
    return replace(send, value=json.dumps(json.loads(send.value) | fields).encode())


def with_only(rung: Rung, send_ids: Set[str]) -> Rung:
    """Return a rung with only some of its sends, each in the same delivery.

    A delivery that would be empty keeps one send, so that the function is called as often.
    """

    def deliveries(seed: int) -> Deliveries:
        return [
            [send for send in part if send.send_id in send_ids] or [_stand_in(part)]
            for part in rung.deliveries(seed)
        ]

    return replace(rung, deliveries=deliveries)


def _stand_in(sends: list[Send]) -> Send:
    """Return a valid send if there is one, because a malformed one may leave nothing to write."""
    valid = (send for send in sends if not send.kind.startswith("malformed"))
    return next(valid, sends[0])


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


def _with_very_late(parts: Deliveries) -> Deliveries:
    """Make the last new order without changes two hours late; return nothing if there is none."""
    events: dict[str, set[str]] = {}
    for send in itertools.chain(*parts):
        events.setdefault(send.order_id, set()).add(send.event_id)
    new = [send.order_id for send in parts[-1] if send.op == "create"]
    alone = [order for order in new if len(events[order]) == 1]
    if not alone:
        return []
    return [
        [_older(send) if send.order_id == alone[-1] else send for send in part] for part in parts
    ]


def _older(send: Send) -> Send:
    before = json.loads(send.value)["order_ts"]
    then = datetime.fromisoformat(before) - timedelta(seconds=VERY_LATE)
    at = then.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    older = _changed(send, order_ts=at, partition_date=at[:10])
    kind = "late" if send.kind == "event" else send.kind
    return replace(older, kind=kind, order_ts=send.order_ts - VERY_LATE * SECOND)


def _with_moves(parts: Deliveries) -> Deliveries:
    """Give every third order another customer in the events after the first delivery's."""
    border = max(send.order_ts for send in parts[0])
    return [[_moved(send) if send.order_ts > border else send for send in part] for part in parts]


def _moved(send: Send) -> Send:
    """Return the send with another customer, if its order is one that moves."""
    if int(send.order_id.rpartition("-")[2]) % MOVED_SHARE:
        return send
    return _changed(send, customer_id=MOVED_TO)


def _moves(parts: Deliveries) -> bool:
    """True if an order moves to another customer, and counts before and after the delivery."""
    return any(
        customer_of(before) != customer_of(after) and {before.op, after.op} <= {"create", "update"}
        for before, after in _changes(parts)
    )


def _erases_cancelled(parts: Deliveries) -> bool:
    """True if a cancelled order is erased by a later delivery."""
    return any((before.op, after.op) == ("cancel", "erase") for before, after in _changes(parts))


def _changes(parts: Deliveries) -> Iterator[tuple[Send, Send]]:
    """Yield the newest event of each order before and after each delivery that changes it."""
    newest: dict[str, Send] = {}
    for part in parts:
        before = dict(newest)
        for send in part:
            if send.order_ts > getattr(newest.get(send.order_id), "order_ts", 0):
                newest[send.order_id] = send
        yield from ((send, newest[order]) for order, send in before.items())


def customer_of(send: Send) -> str:
    """Return the customer of a valid event."""
    return json.loads(send.value)["customer_id"]


def _sends(seed: int, rate: float = PER_SECOND, **shares: float) -> list[Send]:
    shares = BUSY | {"malformed": 0.0} | shares
    return list(generate(SENDS, seed, rate=rate, start=BEGIN, worker_id=f"s{seed}", **shares))


def _parts(sends: list[Send], number: int) -> Deliveries:
    size = -(-len(sends) // number)
    return [sends[start : start + size] for start in range(0, len(sends), size)]


RESENDS = Rung(
    "late, twice and erased",
    "In three deliveries, events come late (one by two hours) and twice, and orders are erased.",
    late_and_twice,
)
MALFORMED = Rung(
    "nothing but malformed messages",
    "A delivery has no valid event.",
    malformed_between,
)
EVERY_DEFECT = replace(
    MALFORMED,
    hardship="A delivery has no valid event, only malformed messages of every kind.",
    deliveries=every_defect_between,
)
MID_WRITE = Rung(
    "killed in mid-write",
    "Your process is killed while it writes, and started again.",
    late_and_twice,
    disturbances.kill_in_mid_write,
)
BEFORE_RECEIPT = Rung(
    "killed before the checkpoint",
    "Your process is killed after its rows are in the output, before Spark notes the batch.",
    late_and_twice,
    disturbances.kill_before_receipt,
)
COMPACTION = Rung(
    "killed while compacting",
    "Your process is killed when a compaction has written its files, but is not complete.",
    late_and_twice,
    disturbances.kill_in_compaction,
)
STORE = Rung(
    "a store in trouble",
    "The store delays one answer, sends 503 three times, and loses one answer.",
    late_and_twice,
    disturbances.store_in_trouble,
)
BROKER = Rung(
    "Kafka away for five seconds",
    "The broker does not respond for five seconds while your function reads.",
    late_and_twice,
    disturbances.broker_away,
)
PARTITION = Rung(
    "a new topic partition",
    "The topic gets two more partitions, so an order's next event may go to another one.",
    late_and_twice,
    before=disturbances.more_partitions,
)

WRITES = Rung(
    "overlapping writes",
    "A job has written its data and not yet committed, when the other job writes.",
    late_and_twice,
    disturbances.overlap_writes,
)
COMMITS = Rung(
    "overlapping commits",
    "A job's commit is on its way to the store, when the other job writes.",
    late_and_twice,
    disturbances.overlap_commits,
)

CHANGES = replace(
    RESENDS,
    title="cancelled, erased and moved",
    hardship="Events come late and twice; orders are cancelled, erased or change customer.",
    deliveries=moved_and_cancelled,
)
AFTER_COMMIT = replace(
    BEFORE_RECEIPT,
    title="killed right after the commit",
    hardship="Your process is killed when its commit is in the store, and started again.",
    disturb=disturbances.kill_after_commit,
)
COMMIT_MEANWHILE = replace(
    RESENDS,
    title="late, twice, and a commit meanwhile",
    hardship="Events come late and twice, and a commit comes while your function reads.",
)
TOTALS = (CHANGES, replace(AFTER_COMMIT, deliveries=moved_and_cancelled))
LATE_ORDERS = replace(
    RESENDS,
    title="late and twice",
    hardship="Orders come up to a minute late, and twice, across three deliveries.",
    deliveries=new_orders,
)

NEW_FIELD = replace(
    RESENDS,
    title="a new field",
    hardship="The shop adds a field to its events, which your schema does not name.",
    deliveries=with_new_field,
)

KILLS = (MID_WRITE, BEFORE_RECEIPT)
ELSEWHERE = (STORE, BROKER, PARTITION)  # what goes wrong outside the function's process

RUNGS: dict[str, tuple[Rung, ...]] = {
    "03.1": (RESENDS, MALFORMED, BEFORE_RECEIPT, BROKER, PARTITION),
    "03.2": (RESENDS, EVERY_DEFECT, NEW_FIELD),
    "03.3": (RESENDS, MALFORMED, *KILLS, *ELSEWHERE),
    "04.2": (RESENDS, MALFORMED, *KILLS, *ELSEWHERE),
    "06.3": (RESENDS, *KILLS, COMPACTION, STORE),
    "11.2": (COMMIT_MEANWHILE, AFTER_COMMIT),
    "11.3": (RESENDS, MID_WRITE, AFTER_COMMIT),
    "11.4": (RESENDS, *KILLS),
    "12.3": (CHANGES,),
    "12.4": TOTALS,
    "12.5": TOTALS,
    "14.4": (LATE_ORDERS, *(replace(rung, deliveries=new_orders) for rung in (*KILLS, STORE))),
    "17.2": (RESENDS, BEFORE_RECEIPT),
    "17.3": (RESENDS, *KILLS),
    "18.1": (WRITES, COMMITS),
}
