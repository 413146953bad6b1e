"""Checks of lesson 02: a key, judged by where Kafka puts the events, and the size of a stream."""

import json
import secrets
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from math import ceil

from confluent_kafka import KafkaException, Producer

from lab_env.course.answers import as_int
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.shop.skew import CELEBRITY, marketplace_events
from lab_env.shop.topics import ensure_topic

PARTITIONS = 6
EVENTS = 6_000
HOT = 1.5  # times the mean


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


@check_of("02.1")
class AKeyThatSpreads:
    """Even partitions, each order in one, and each customer in one but the celebrity."""

    @staticmethod
    def observe(lab, answer: Callable[[dict], str | None]) -> Spread:
        """Send the marketplace's events with that key; the broker reports their partitions."""
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
        for event in marketplace_events(EVENTS):
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


def _record_partition(placements: list, event: dict, key: str | None, error, message) -> None:
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
)


@check_of("02.2")
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
                    f"{about} are {load.written:.1f} MB/s; your {shards} shards take {shards} MB/s."
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
