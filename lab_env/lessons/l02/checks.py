"""Checks of lesson 02: receipts, reading a topic partition, choosing a key, counting shards."""

import json
import secrets
import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager, suppress
from itertools import product
from math import ceil
from queue import Empty, Queue
from random import Random
from threading import Thread
from typing import Any
from zlib import crc32

from confluent_kafka import KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from lab_env.course.answers import Unreadable, as_int, as_list, kind_of
from lab_env.course.checking import NotYet, check, expect
from lab_env.lab.faults.freeze import frozen
from lab_env.lessons.streams import scratch_topic
from lab_env.platform.brokers.topics import read_topic
from lab_env.platform.processes import supervisor
from lab_env.shop.skew import CELEBRITY, marketplace_events

PARTITIONS = 6
EVENTS = 6_000
HOT = 1.5  # times the mean
READ_TIMEOUT_S = 30
HANGS_S = 4  # more than learners wait for "what comes"
TOO_LARGE = 20_000  # bytes; the topic for it takes half as much


@check("02.1")
def keeps_receipts(lab, send):
    """Let the function send events to a topic, then three to a topic that refuses one of them."""
    bootstrap, topic = lab.endpoints.kafka_bootstrap, _new_topic(lab)
    events = marketplace_events(400 + secrets.randbelow(300), seed=secrets.randbelow(10_000))
    receipts = _receipts(send(topic, [dict(event) for event in events], key_of_the_check))
    held = list(read_topic(bootstrap, topic))
    given = [_spelt(json.dumps(event)) for event in events]
    strange = Counter(_spelt(message.value()) for message in held) - Counter(given)
    expect(
        not strange,
        f"{strange.total()} messages of the topic are none of the {len(events)} events that your "
        "function was given, or are there twice.",
    )
    expect(
        len(receipts) >= len(events),
        f"You returned {len(receipts)} receipts for {len(events)} events; handed over is not "
        "delivered. `poll` hands out the answers that have come, `flush` waits for the rest.",
    )
    expect(
        len(held) == len(events) and sorted(map(_place, receipts)) == sorted(map(_place, held)),
        f"Of {len(events)} events the topic holds {len(held)}, and you returned {len(receipts)} "
        "receipts: one for each message.",
    )
    keys = [as_sent(key_of_the_check(json.loads(message.value()))) for message in held]
    others = sum(message.key() != key for message, key in zip(held, keys, strict=True))
    expect(
        not others,
        f"All {len(events)} events arrived, but {others} have another key than `key_of(event)` "
        "gives.",
    )
    _expect_order_and_places(held, given)

    small = _new_topic(lab, {"max.message.bytes": str(TOO_LARGE // 2)})
    three = [events[0] | {"note": "x" * size} for size in (1, TOO_LARGE, 3)]
    key_in = {place_of(key, 3): key for key in map(str, range(99))}
    receipts = _receipts(send(small, three, lambda event: key_in[len(event["note"]) % 3]))
    earlier = sum(message.topic() != small for message in receipts)
    expect(not earlier, f"The second call returned {earlier} receipts of the first as well.")
    expect(
        sorted(map(_place, receipts)) == sorted(map(_place, read_topic(bootstrap, small))),
        "The check sent three events, one of them too large for its topic. The broker refused it, "
        f"and you returned {len(receipts)} receipts. `on_delivery` is called for a failure, too: "
        "look at `error`.",
    )
    return (
        f"{len(events)} receipts for {len(events)} events, each with its key, and none for an "
        "event that the broker refused."
    )


def _expect_order_and_places(held: list[Message], given: list[str]) -> None:
    """Check that each topic partition is in sequence and was chosen by `PRODUCER`'s partitioner."""
    rest = {place: iter(given) for place in range(3)}
    late = sum(_spelt(message.value()) not in rest[message.partition()] for message in held)
    expect(
        not late,
        "A partition has its events in another order than the list that your function was given.",
    )
    elsewhere = sum(m.key() is not None and place_of(m.key(), 3) != m.partition() for m in held)
    expect(
        not elsewhere,
        f"{elsewhere} events lie in another partition than the `partitioner` of `PRODUCER` "
        "chooses. Make your producer with these options.",
    )


def key_of_the_check(event: dict) -> str | bytes | None:
    """Return an event's key as text, bytes or None; learners may return any of these types."""
    key = f"{event['product_id']}/{event['order_id']}"
    return (key, key.encode(), None)[crc32(key.encode()) % 3]


def as_sent(key: Any) -> bytes | None:
    """Return a key as Kafka's client sends it.

    Raises:
        Unreadable: the client does not accept a key of this type.
    """
    if not isinstance(key, str | bytes | None):
        raise Unreadable(f"A key is text, bytes or None; your function returned {kind_of(key)}.")
    return key.encode() if isinstance(key, str) else key


def place_of(key: str | bytes | None, partitions: int) -> int:
    """Return the topic partition that Kafka's Java clients choose for a key, by murmur2.

    For None it is random.
    """
    data, prime, mask = as_sent(key), 0x5BD1E995, 0xFFFFFFFF
    if data is None:
        return secrets.randbelow(partitions)
    value, whole = 0x9747B28C ^ len(data), len(data) // 4 * 4
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        word = word * prime & mask
        value = value * prime & mask ^ (word ^ word >> 24) * prime & mask
    if rest := data[whole:]:
        value = (value ^ int.from_bytes(rest, "little")) * prime & mask
    value = (value ^ value >> 13) * prime & mask
    return ((value ^ value >> 15) & 0x7FFFFFFF) % partitions


def _receipts(returned: Any) -> list[Message]:
    """Return the messages that the learner's function returned.

    Raises:
        Unreadable: the function returned something else.
    """
    receipts = as_list(returned)
    if other := [item for item in receipts if not isinstance(item, Message)]:
        raise Unreadable(
            f"Your function returned a list with a {type(other[0]).__name__}; the messages "
            "that `on_delivery` gets are expected."
        )
    return receipts


def _spelt(value: str | bytes) -> str:
    """Normalize JSON; return text that is not JSON unchanged."""
    try:
        return json.dumps(json.loads(value), sort_keys=True)
    except ValueError:
        return str(value)


def _place(message: Message) -> tuple:
    return message.topic(), message.partition(), message.offset()


def _new_topic(lab, config: dict[str, str] | None = None) -> str:
    """Create a topic with three partitions; return its name."""
    topic, admin = scratch_topic(lab), _admin(lab)
    admin.create_topics([NewTopic(topic, 3, config=config or {})])[topic].result()
    return topic


def _admin(lab) -> AdminClient:
    return AdminClient({"bootstrap.servers": lab.endpoints.kafka_bootstrap, "log_level": 2})


@check("02.2")
def reads_one_partition(lab, read_partition):
    """Let the function read three topic partitions, then the first of them again.

    The first has few events; from the second all events were deleted, from the third the oldest.
    """
    topic = _new_topic(lab)
    many, few = 620 + secrets.randbelow(500), 3 + secrets.randbelow(20)
    events = [{"number": number} for number in range(many + few)]
    sent = {0: events[:many], 1: events[:few], 2: events[many:]}
    expired = {0: 40 + secrets.randbelow(40), 1: few}
    # A retry of a producer without idempotence may change the sequence.
    address = lab.endpoints.kafka_bootstrap
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True})
    for partition, rows in sent.items():
        for event in rows:
            producer.produce(topic, json.dumps(event), partition=partition)
    producer.flush()
    gone = [TopicPartition(topic, partition, end) for partition, end in expired.items()]
    admin = _admin(lab)  # its futures fail once it is gone
    for deleted in admin.delete_records(gone).values():
        deleted.result()
    seen: set[int] = set()
    for partition in (2, 1, 0, 2):
        begin, end = expired.get(partition, 0), len(sent[partition])
        wanted = sent[partition][begin:]
        try:
            found = _within(READ_TIMEOUT_S, read_partition, topic, partition)
        except Empty:
            raise NotYet(
                f"Your function had not returned after {READ_TIMEOUT_S} seconds, for a partition "
                f"of {len(wanted)} events whose offsets begin at {begin} and end before {end}. "
                "`get_watermark_offsets` returns both."
            ) from None
        foreign = sum(event not in sent[partition] for event in found)
        expect(
            not foreign,
            f"Asked for partition {partition}, your function returned {foreign} events of other "
            "partitions, or changed ones. `assign` takes a list of what to read.",
        )
        expect(
            found or not wanted or partition not in seen,
            f"Asked for partition {partition} again, your function read none of its {len(wanted)} "
            "events: a group remembers what it has read. `OFFSET_BEGINNING` begins at the first "
            "event anyway.",
        )
        expect(
            found or not wanted,
            f"It read none of the {len(wanted)} events. A consumer without a position begins at "
            "the end, and waits for what comes; say `OFFSET_BEGINNING`.",
        )
        expect(
            found == wanted,
            f"It read {len(found)} of {len(wanted)} events, or in another order. `consume` returns "
            "what is there, up to the number that you give; go on until the partition ends.",
        )
        seen.add(partition)
    with _broker_hangs(), suppress(Empty, KafkaException):  # who raises an error has not lied
        found, wanted = _within(READ_TIMEOUT_S, read_partition, topic, 2), sent[2]
        expect(
            found == wanted,
            f"Kafka did not answer for {HANGS_S} seconds, and your function returned {len(found)} "
            f"of {len(wanted)} events. Silence is not the end of a partition: "
            "`get_watermark_offsets` says where it is.",
        )
    return "Each partition complete and in its order, also without its first events."


@contextmanager
def _broker_hangs() -> Generator[None]:
    """Freeze the lab's own broker while the body runs, for `HANGS_S` at most."""
    with ExitStack() as hang:
        for broker in supervisor.processes_of("kafka")[:1]:
            hang.enter_context(frozen(broker.pid, at_most=HANGS_S))
        yield


def _within(seconds: float, call: Callable, *arguments: Any) -> list:
    """Call the learner's function in a thread; return its list.

    Raises:
        Empty: the function did not return in time.
        Unreadable: the function returned something else.
    """
    result: Queue = Queue()

    def run() -> None:
        try:
            result.put((call(*arguments), None))
        except Exception as error:  # shown to the learner, from the check's own thread
            result.put((None, error))

    Thread(target=run, daemon=True).start()
    events, error = result.get(timeout=seconds)
    if error:
        raise error
    if not isinstance(events, list | tuple):
        kind = kind_of(events)
        raise Unreadable(f"Your function returned {kind}; a list of dictionaries is expected.")
    if not all(isinstance(event, dict) for event in events):
        raise Unreadable(
            "A list of dictionaries is expected, one per event: `json.loads(message.value())`."
        )
    return list(events)


@check("02.3")
def spreads_and_keeps_together(lab, key_of):
    """Assign events to partitions by the function's keys; check balance, orders and customers."""
    sent = [(event, key_of(dict(event))) for event in two_days(secrets.randbelow(10_000))]
    placed = [(event, key, place_of(key, PARTITIONS)) for event, key in sent]
    [(hottest, load)] = Counter(place for _, _, place in placed).most_common(1)
    times = load * PARTITIONS / EVENTS
    begin = f"Partition {hottest} is hot, and" if times > HOT else "Even, but"
    orders = _split("order_id", placed)
    expect(
        not orders,
        f"{begin} {orders} orders lie in several partitions and may be read out of order.",
    )
    [(top, events)] = Counter(key for _, key, place in placed if place == hottest).most_common(1)
    expect(
        times <= HOT,
        "Orders stay together, but partition {} carries {:.1f} times the mean; the key {} alone "
        "has {:.0%} of all events.",
        hottest,
        times,
        (as_sent(top) or b"None").decode(errors="replace"),
        events / EVENTS,
    )
    ordinary = [sending for sending in placed if sending[0]["customer_id"] != CELEBRITY]
    customers = _split("customer_id", ordinary)
    expect(
        not customers,
        f"Even, and orders stay together, but {customers} customers other than {CELEBRITY} lie in "
        "several partitions. The fraud team reads a customer in order.",
    )
    return (
        f"The hottest partition carries {times:.2f} times the mean, every order lies in one "
        f"partition, and so does every customer but {CELEBRITY}."
    )


def _split(field: str, placed: Iterable[tuple[dict, Any, int]]) -> int:
    """Count the orders or customers whose events are spread over several topic partitions."""
    places = defaultdict(set)
    for event, _, place in placed:
        places[event[field]].add(place)
    return sum(len(several) > 1 for several in places.values())


def two_days(seed: int) -> list[dict]:
    """Return marketplace events of orders that were created on two different days."""
    days = ("2026-01-05", "2026-01-06")
    return [
        event | {"partition_date": days[crc32(event["order_id"].encode()) % 2]}
        for event in marketplace_events(EVENTS, seed)
    ]


@check("02.4")
def shards_for_a_load(lab, shards_for):
    """Call the function for many loads; report the first limit that its number of shards breaks."""
    for events, size, applications in loads(Random()):
        shards = as_int(shards_for(events, size, applications))
        about = f"{events:,} events a second of {size:,} bytes"
        written = events * size / 1e6
        read = applications * written
        expect(
            shards * 1000 >= events,
            f"{about} do not fit: {shards} shards take {shards * 1000:,} events a second.",
        )
        expect(
            shards >= written,
            f"{about} are {written:.9g} MB/s; your {shards} shards take {shards} MB/s.",
        )
        expect(
            shards * 2 >= read,
            f"{applications} applications read {about}: {read:.9g} MB/s together; your {shards} "
            f"shards give {shards * 2} MB/s.",
        )
        expect(
            shards <= ceil(max(events / 1000, written, read / 2)),
            f"{about}, read by {applications}, fit into fewer shards; you pay for {shards}.",
        )
    return "Events, bytes and readers: the limit that is reached first decides."


def loads(rng: Random) -> list[tuple[int, int, int]]:
    """Return loads: events per second, bytes per event, number of reading applications.

    Each limit determines the number of shards for some loads. Some loads fill their shards
    exactly, others exceed them slightly.
    """
    filled = rng.randint(2, 40)
    return [
        (4_500, 200, 2),
        (2_000, 3_000, 1),
        (800, 2_400, 3),
        (1_000, 1_000, 2),
        (1_000, 1_020, 1),  # 1 MB is 1,000,000 bytes, not 2**20
        (1_000 * filled, 100, rng.randint(1, 4)),
        (1_000 * filled + 1, 100, rng.randint(1, 4)),
        (1_000 * filled, 1_000 * rng.randint(2, 4), rng.randint(1, 2)),
        (1_000 * filled, 2_000, rng.randint(3, 5)),
        (2_000, 3_000, 3),  # as a product of fractions it is a little above 9 shards
        *((1_000 * a, 1_000 * b, 2 * c) for a, b, c in product(range(1, 10), (3, 7), (1, 2, 3))),
        _just_above(rng),
        *((rng.randint(1, 20_000), rng.randint(50, 5_000), rng.randint(1, 6)) for _ in range(60)),
    ]


def _just_above(rng: Random) -> tuple[int, int, int]:
    """Return a load of more than 1,200 shards, 2 to 9 bytes per second above whole ones.

    With fewer shards than bytes, 1,000,001 for 1,000,000 would come to the same number.
    """
    size = 10 * rng.randint(120, 400) + rng.choice((1, 3, 7, 9))
    events = pow(size, -1, 1_000_000) * rng.randint(2, 9) % 1_000_000
    return events + 1_000_000, size, rng.randint(1, 2)
