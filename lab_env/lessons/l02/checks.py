"""Checks of lesson 02: receipts, a partition, where a key puts events, the size of a stream."""

import json
import queue
import secrets
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from math import ceil
from threading import Thread
from zlib import crc32

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from lab_env.course.answers import Unreadable, as_int, as_list, kind_of
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.lessons.streams import scratch_topic
from lab_env.shop.skew import CELEBRITY, marketplace_events
from lab_env.shop.topics import ensure_topic, topic_end_offsets

PARTITIONS = 6
EVENTS = 6_000
HOT = 1.5  # times the mean
READ_TIMEOUT_S = 60
REFUSED_BYTES = 20_000  # the topic for it takes half as much


@dataclass(frozen=True)
class Sent:
    """What a learner's function sent.

    Args:
        events: how many it was given.
        receipts: how many messages it returned.
        held: how many the topic holds.
        other_key: how many of the held ones have another key than `key_of` gives.
        other_event: how many of them are none of the given events.
        refused_receipts: how many it returned for an event that the broker refused.
    """

    events: int
    receipts: int
    held: int
    other_key: int = 0
    other_event: int = 0
    refused_receipts: int = 0


@check_of("02.1")
class SendAndKeepReceipts:
    """The answer is a function that sends events; it sends some of the check's own."""

    @staticmethod
    def observe(lab, answer: Callable) -> Sent:
        """Let it send to a new topic, and read the topic; then one event that is refused."""
        bootstrap, topic = lab.endpoints.kafka_bootstrap, scratch_topic(lab)
        ensure_topic(bootstrap, topic, 3)
        events = marketplace_events(400 + secrets.randbelow(300), seed=secrets.randbelow(10_000))
        returned = _receipts(answer(topic, [dict(event) for event in events], key_of_the_check))
        held = list(_messages(bootstrap, topic))
        refused = events[0] | {"note": "x" * REFUSED_BYTES}
        refused_receipts = _receipts(answer(_small_topic(lab), [refused], key_of_the_check))
        waiting = Counter(json.dumps(event, sort_keys=True) for event in events)
        arrived = Counter(json.dumps(json.loads(value), sort_keys=True) for _, value in held)
        return Sent(
            events=len(events),
            receipts=len(returned),
            held=len(held),
            other_key=sum(
                key != _as_sent(key_of_the_check(json.loads(value))) for key, value in held
            ),
            other_event=(arrived - waiting).total(),
            refused_receipts=len(refused_receipts),
        )

    @staticmethod
    def judge(facts: Sent) -> Passed | NotYet:
        """Each event arrived with its key, and each has its receipt."""
        if facts.other_event:
            return NotYet(
                f"{facts.other_event} messages of the topic are none of the {facts.events} events "
                "that your function was given, or are there twice."
            )
        if facts.receipts < facts.events:
            return NotYet(
                f"You returned {facts.receipts} receipts for {facts.events} events; handed over is "
                "not delivered. `poll` hands out the answers that have come, `flush` waits for the "
                "rest."
            )
        if facts.held < facts.events:
            return NotYet(f"Of {facts.events} events the topic holds {facts.held}.")
        if facts.receipts > facts.events:
            return NotYet(f"{facts.receipts} receipts for {facts.events} events: one for each.")
        if facts.other_key:
            return NotYet(
                f"All {facts.events} events arrived, but {facts.other_key} have another key than "
                "`key_of(event)` gives."
            )
        if facts.refused_receipts:
            return NotYet(
                "The check sent an event that was too large for its topic. The broker refused it, "
                "and you returned a receipt. `on_delivery` is called for a failure, too: look at "
                "`error`."
            )
        return Passed(
            f"{facts.receipts} receipts for {facts.events} events, each with its key, and none for "
            "an event that the broker refused."
        )


def key_of_the_check(event: dict) -> str | bytes | None:
    """Text, bytes or no key, as the functions of the lesson and its answers give them."""
    key = f"{event['product_id']}/{event['order_id']}"
    return (key, key.encode(), None)[crc32(key.encode()) % 3]


def _as_sent(key: str | bytes | None) -> bytes | None:
    return key.encode() if isinstance(key, str) else key


def _receipts(returned) -> list[Message]:
    """The messages that an answer returned.

    Raises:
        Unreadable: it is something else.
    """
    receipts = as_list(returned)
    if other := [item for item in receipts if not isinstance(item, Message)]:
        raise Unreadable(
            f"Your function returned a list with a {type(other[0]).__name__}; the messages "
            "that `on_delivery` gets are expected."
        )
    return receipts


def _small_topic(lab) -> str:
    """A topic that takes no message as large as the one to be refused."""
    topic = scratch_topic(lab)
    admin = AdminClient({"bootstrap.servers": lab.endpoints.kafka_bootstrap, "log_level": 2})
    limit = {"max.message.bytes": str(REFUSED_BYTES // 2)}
    admin.create_topics([NewTopic(topic, 1, config=limit)])[topic].result()
    return topic


@dataclass(frozen=True)
class ReadPartition:
    """What a learner's function read from one partition, as the numbers of the events.

    Args:
        partition: which one it was asked for.
        sent: numbers of its events, in their order.
        read: numbers that the function returned.
        elsewhere: numbers of the events of the other partitions.
        ended: whether it returned at all.
    """

    partition: int
    sent: tuple[int, ...]
    read: tuple[int, ...]
    elsewhere: frozenset[int]
    ended: bool = True


@check_of("02.2")
class OnePartition:
    """The answer is a function that reads a partition; it reads those of a topic made here."""

    @staticmethod
    def observe(lab, answer: Callable) -> tuple[ReadPartition, ...]:
        """Fill three partitions, one of them not at all, and have each read."""
        bootstrap, topic = lab.endpoints.kafka_bootstrap, scratch_topic(lab)
        ensure_topic(bootstrap, topic, 3)
        many, few = 620 + secrets.randbelow(500), 3 + secrets.randbelow(20)
        sent = {0: tuple(range(many)), 1: (), 2: tuple(range(many, many + few))}
        producer = Producer({"bootstrap.servers": bootstrap})
        for partition, numbers in sent.items():
            for number in numbers:
                producer.produce(topic, json.dumps({"number": number}), partition=partition)
        producer.flush()
        facts = []
        for partition in (2, 1, 0):
            elsewhere = frozenset(
                n for p, numbers in sent.items() if p != partition for n in numbers
            )
            read, ended = _within(READ_TIMEOUT_S, answer, topic, partition)
            facts.append(ReadPartition(partition, sent[partition], read, elsewhere, ended))
            if not ended:
                break
        return tuple(facts)

    @staticmethod
    def judge(facts: tuple[ReadPartition, ...]) -> Passed | NotYet:
        """All events of the partition, in their order, and no other."""
        for asked in facts:
            if problem := _problem_with(asked):
                return NotYet(problem)
        sizes = ", ".join(str(len(asked.sent)) for asked in facts)
        return Passed(f"Partitions of {sizes} events, each complete and in its order.")


def _problem_with(facts: ReadPartition) -> str:
    """What is wrong with one partition as it was read; empty if nothing is."""
    wanted = len(facts.sent)
    if not facts.ended:
        return (
            f"Your function had not returned after {READ_TIMEOUT_S} seconds, for a partition of "
            f"{wanted} events. `get_watermark_offsets` says where it ends."
        )
    if foreign := set(facts.read) & facts.elsewhere:
        return (
            f"Asked for partition {facts.partition}, your function returned {len(foreign)} events "
            "of other partitions. `assign` takes a list of what to read."
        )
    if wanted and not facts.read:
        return (
            f"It read none of the {wanted} events. A consumer without a position begins at the "
            "end, and waits for what comes; say `OFFSET_BEGINNING`."
        )
    if len(facts.read) < wanted:
        return (
            f"It read {len(facts.read)} of {wanted} events. `consume` returns what is there, up to "
            "the number that you give; call it until the partition ends."
        )
    if facts.read != facts.sent:
        return f"It returned {len(facts.read)} events for {wanted}, or in another order."
    return ""


def _within(seconds: float, answer: Callable, *arguments) -> tuple[tuple[int, ...], bool]:
    """Call the answer in a thread; returns the numbers that it read, and whether it returned."""
    result: queue.Queue = queue.Queue()

    def call():
        try:
            result.put((answer(*arguments), None))
        except Exception as error:  # shown to the learner, from the check's own thread
            result.put((None, error))

    Thread(target=call, daemon=True).start()
    try:
        events, error = result.get(timeout=seconds)
    except queue.Empty:
        return (), False
    if error:
        raise error
    if not isinstance(events, list | tuple):
        kind = kind_of(events)
        raise Unreadable(f"Your function returned {kind}; a list of dictionaries is expected.")
    try:
        return tuple(event["number"] for event in events), True
    except (TypeError, KeyError) as error:
        raise Unreadable(
            "A list of dictionaries is expected, one per event: `json.loads(message.value())`."
        ) from error


def _messages(bootstrap: str, topic: str) -> Iterator[tuple[bytes | None, bytes]]:
    """Key and value of each message of a topic."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic})
    try:
        for partition, end in topic_end_offsets(bootstrap, topic).items():
            consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
            left = end
            while left:
                for message in consumer.consume(min(left, 500), 10):
                    if error := message.error():
                        raise KafkaException(error)
                    left -= 1
                    yield message.key(), message.value()
    finally:
        consumer.close()


@dataclass(frozen=True)
class Spread:
    """Where a topic's events lie.

    Args:
        hottest: events of the hottest partition, as a multiple of the mean.
        partition: the number of that partition.
        top_key: the most frequent key in it.
        top_share: share of all events that have this key, 0 to 1.
        split_orders: orders whose events lie in several partitions.
        split_customers: customers other than the celebrity whose events lie in several partitions.
    """

    hottest: float
    partition: int
    top_key: str
    top_share: float
    split_orders: int
    split_customers: int


@check_of("02.3")
class AKeyThatSpreads:
    """Even partitions, each order in one, and each customer in one but the celebrity."""

    @staticmethod
    def observe(lab, answer: Callable[[dict], str | bytes | None]) -> Spread:
        """Send two days of the marketplace with that key; the broker reports their partitions."""
        bootstrap = lab.endpoints.kafka_bootstrap
        topic = lab.topic(f"scratch-key-{secrets.token_hex(2)}")
        ensure_topic(bootstrap, topic, PARTITIONS)
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "partitioner": "murmur2_random",
                "sticky.partitioning.linger.ms": 0,
            }
        )
        placements: list[tuple[dict, str | None, int]] = []
        for event in two_days(seed=secrets.randbelow(10_000)):
            key = answer(dict(event))
            on_delivery = partial(_record_partition, placements, event, key)
            producer.produce(topic, json.dumps(event), key, on_delivery=on_delivery)
            producer.poll(0)
        producer.flush()
        return spread(placements)

    @staticmethod
    def judge(facts: Spread) -> Passed | NotYet:
        """Order first, then evenness, then the customers."""
        hot = facts.hottest > HOT
        if facts.split_orders:
            begin = f"Partition {facts.partition} is hot, and" if hot else "Even, but"
            return NotYet(
                f"{begin} {facts.split_orders} orders lie in several partitions and may be read "
                "out of order."
            )
        if hot:
            return NotYet(
                f"Orders stay together, but partition {facts.partition} carries "
                f"{facts.hottest:.1f} times the mean; the key {facts.top_key} alone has "
                f"{facts.top_share:.0%} of all events."
            )
        if facts.split_customers:
            return NotYet(
                f"Even, and orders stay together, but {facts.split_customers} customers beside "
                f"{CELEBRITY} lie in several partitions. The fraud team reads a customer in order."
            )
        return Passed(
            f"The hottest partition carries {facts.hottest:.2f} times the mean, every order lies "
            f"in one partition, and so does every customer but {CELEBRITY}."
        )


def two_days(seed: int) -> list[dict]:
    """Events of the marketplace whose orders were created on two days.

    Args:
        seed: the same seed gives the same events.
    """
    days = ("2026-01-05", "2026-01-06")
    return [
        event | {"partition_date": days[crc32(event["order_id"].encode()) % 2]}
        for event in marketplace_events(EVENTS, seed)
    ]


def _record_partition(placements: list, event: dict, key, error, message) -> None:
    """Append an event with its key and its partition when the broker has acknowledged it."""
    if error:
        raise KafkaException(error)
    placements.append((event, key, message.partition()))


def spread(placements: Iterable[tuple[dict, str | None, int]]) -> Spread:
    """Measure how evenly events lie, and what is split between partitions.

    Args:
        placements: each event, its key, and its partition.
    """
    placements = list(placements)
    loads = Counter(partition for _, _, partition in placements)
    hottest, load = loads.most_common(1)[0]
    keys = Counter(str(key) for _, key, partition in placements if partition == hottest)
    top_key, _ = keys.most_common(1)[0]
    orders, customers = defaultdict(set), defaultdict(set)
    for event, _, partition in placements:
        orders[event["order_id"]].add(partition)
        if event["customer_id"] != CELEBRITY:
            customers[event["customer_id"]].add(partition)
    return Spread(
        hottest=load * PARTITIONS / len(placements),
        partition=hottest,
        top_key=top_key,
        top_share=sum(str(key) == top_key for _, key, _ in placements) / len(placements),
        split_orders=sum(len(partitions) > 1 for partitions in orders.values()),
        split_customers=sum(len(partitions) > 1 for partitions in customers.values()),
    )


@dataclass(frozen=True)
class Sizing:
    """A load, and how many shards the learner gives it.

    Args:
        events: per second.
        size: bytes per event.
        applications: how many programs read everything.
        shards: the answer.
    """

    events: int
    size: int
    applications: int
    shards: int

    @property
    def written(self) -> float:
        """Megabytes per second."""
        return self.events * self.size / 1e6

    @property
    def read(self) -> float:
        """Megabytes per second, by all applications together."""
        return self.written * self.applications

    @property
    def needed(self) -> int:
        """Shards that satisfy all three limits."""
        return ceil(max(self.events / 1000, self.written, self.read / 2))


# Events per second, bytes per event, applications. Each limit decides at least one of these loads.
LOADS = (
    (900, 300, 1),
    (4_500, 200, 2),
    (2_000, 3_000, 1),
    (800, 2_500, 3),
    (1_000, 1_000, 2),
    (12_000, 500, 5),
    (1_000, 1_020, 1),  # 1 MB is 1,000,000 bytes, not 2**20
)


@check_of("02.4")
class ShardsForALoad:
    """The number of shards that carries a load, by the documented limits of one shard."""

    @staticmethod
    def observe(lab, answer: Callable[[float, float, int], int]) -> tuple[Sizing, ...]:
        """Call the function with several loads."""
        return tuple(Sizing(*load, as_int(answer(*load))) for load in LOADS)

    @staticmethod
    def judge(facts: tuple[Sizing, ...]) -> Passed | NotYet:
        """Name the first limit that a stream of that size breaks."""
        for load in facts:
            shards = load.shards
            about = f"{load.events:,} events a second of {load.size:,} bytes"
            if shards * 1000 < load.events:
                return NotYet(
                    f"{about} do not fit: {shards} shards take {shards * 1000:,} events a second."
                )
            if shards < load.written:
                return NotYet(
                    f"{about} are {load.written:.4g} MB/s; your {shards} shards take {shards} MB/s."
                )
            if shards * 2 < load.read:
                return NotYet(
                    f"{load.applications} applications read {about}: {load.read:.1f} MB/s "
                    f"together; your {shards} shards give {shards * 2} MB/s."
                )
            if shards > load.needed:
                return NotYet(
                    f"{about}, read by {load.applications}, fit into {load.needed} shards; you pay "
                    f"for {shards}."
                )
        return Passed("Events, bytes and readers: the limit that is reached first decides.")
