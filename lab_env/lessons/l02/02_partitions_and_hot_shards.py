# ---
# title: Why is one consumer busy while the others idle?
# minutes: {teach: 28, do: 22}
# needs: ["00", "01"]
# services: [minio, kafka, kinesis]
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 02 · Why is one consumer busy while the others idle?
#
# ## Questions
#
# - Six consumers share the work. Why does one of them get most of it?
# - Which key spreads the load and still keeps each order's events in sequence?
# - A stream is full. Do more shards help? (Optional.)
#
# ## Objectives
#
# At the end of this lesson you can
#
# - send events with a key and know which of them have arrived (02.1),
# - read a partition from its beginning to its end (02.2),
# - choose a key by what must stay together and by what must spread (02.3),
# - compute how many shards a load with a well-spread key needs; optional (02.4).
#
# ## What you need
#
# Lessons 00 and 01. 50 minutes: 30 for Kafka, the first two sections. The other two cover Amazon Kinesis; they are
# **optional**, and nothing later needs them. This lesson does not use Spark.

# %% [markdown]
# ## Start
#
# The shop's board, **revenue by status**, reads the orders from Kafka, and it is late. In the background the lab also
# starts an *emulated* Amazon Kinesis for the optional half.

# %%
from lab_env import Lab

lab = Lab.start("02", optional="kinesis")
lab

# %% [markdown]
# ## One busy consumer
#
# A topic is cut into [**partitions**](../docs/glossary.md#partition). Kafka keeps events in order only within a
# partition. A program that reads a topic is a [**consumer**](../docs/glossary.md#consumer). Several of them form a
# [**consumer group**](../docs/glossary.md#consumer-group) and divide the partitions among themselves. Each partition has
# one consumer, so more consumers than partitions are of no use. By default Spark, too, reads each partition with one task.
#
# Which partition gets an event? Its [**key**](../docs/glossary.md#key) decides. The client computes a
# [**hash**](../docs/glossary.md#hash) of the key, a number that looks random but is always the same for the same
# key, and takes it modulo the number of partitions.
#
# Our events come from a marketplace with 500 customers. One of them, `c-0001`, is a
# [**celebrity**](../docs/glossary.md#celebrity):

# %%
import pandas as pd

from lab_env.platform.display.card import styled
from lab_env.shop.skew import marketplace_events

events = marketplace_events(9_000)
customers = pd.Series([event["customer_id"] for event in events]).value_counts(normalize=True)
styled(customers.head().to_frame("share of the events"), "{:.1%}")

# %% proof="The customer c-0001 sends between 33 and 45 percent of the events."
assert customers.index[0] == "c-0001" and 0.33 < customers.iloc[0] < 0.45

# %% [markdown]
# The admin client creates topics:

# %%
from confluent_kafka.admin import AdminClient, NewTopic

from lab_env.platform.brokers.topics import delete_topic

BROKER = lab.endpoints.kafka_bootstrap
PARTITIONS = 6
admin = AdminClient({"bootstrap.servers": BROKER})


def make_topic(name):
    """Create a topic with six partitions, and delete the one of an earlier run."""
    topic = lab.topic(name)
    delete_topic(BROKER, topic)
    admin.create_topics([NewTopic(topic, PARTITIONS)])[topic].result()
    return topic


# %% [markdown]
# ### Exercise 02.1 · Send, and keep the receipts
#
# Complete the function. It makes a producer with the options `PRODUCER` and sends the events in sequence, each as JSON
# with the key `key_of(event)`. It returns the receipts: one Kafka message per event that the broker has acknowledged,
# and none for an event that it refused. The broker's answer, the [**delivery
# report**](../docs/glossary.md#delivery-report), reaches you as in lesson 01. A key may be text, bytes, or None.
#
# Every send of this lesson goes through your function.

# %%
import json

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

PRODUCER = {
    "bootstrap.servers": BROKER,
    # The client's own retries neither reorder nor duplicate; a second `produce` does duplicate.
    "enable.idempotence": True,
    "partitioner": "murmur2_random",  # hashes a key as Kafka's Java clients do
    "sticky.partitioning.linger.ms": 0,  # without a key: choose a partition for each event
}


# %% exercise="02.1"
def send(topic, events, key_of):
    """Send events; returns the messages that the broker has acknowledged."""
    # BEGIN SOLUTION
    producer, receipts = Producer(PRODUCER), []

    def on_delivery(error, message):
        if error is None:
            receipts.append(message)

    for event in events:
        producer.produce(topic, json.dumps(event), key_of(event), on_delivery=on_delivery)
        producer.poll(0)
    producer.flush()
    return receipts
    # END SOLUTION


lab.check("02.1", send)

# %% [markdown] hint="02.1"
# Begin with `producer = Producer(PRODUCER)` and an empty list. For each event,
# `producer.produce(topic, value, key, on_delivery=...)`. The client calls `on_delivery(error, message)` while it polls or
# flushes: append the message to the list, unless there is an `error`.

# %% [markdown] hint="02.1"
# Call `producer.poll(0)` after each event, so that answers are handled as they come, and `producer.flush()` at the
# end, to wait for the rest.


# %% right="02.1"
# With a large local queue, where events come in bursts.
def send(topic, events, key_of):
    producer, receipts = Producer(PRODUCER | {"queue.buffering.max.messages": 100_000}), []
    for event in events:
        producer.produce(
            topic=topic,
            key=key_of(event),
            value=json.dumps(event).encode(),
            callback=lambda error, message: error or receipts.append(message),
        )
    while len(producer):
        producer.poll(0.1)
    return tuple(receipts)


# %% wrong="02.1"
# expect: than the `partitioner` of `PRODUCER` chooses
def send(topic, events, key_of):
    producer, receipts = Producer({"bootstrap.servers": BROKER}), []
    for event in events:
        producer.produce(
            topic,
            json.dumps(event),
            key_of(event),
            on_delivery=lambda error, message: error or receipts.append(message),
        )
    producer.flush()
    return receipts


# %% wrong="02.1"
# expect: in another order
def send(topic, events, key_of):
    producer, receipts = Producer(PRODUCER), []
    for event in sorted(events, key=lambda event: event["status"]):
        producer.produce(
            topic,
            json.dumps(event),
            key_of(event),
            on_delivery=lambda error, message: error or receipts.append(message),
        )
    producer.flush()
    return receipts


# %% wrong="02.1"
# expect: receipts of the first as well
receipts = []


def send(topic, events, key_of):
    producer = Producer(PRODUCER)
    for event in events:
        producer.produce(
            topic,
            json.dumps(event),
            key_of(event),
            on_delivery=lambda error, message: error or receipts.append(message),
        )
    producer.flush()
    return receipts


# %% equivalent="02.1"
# without .poll(0): `flush` hands out every answer that has not come before
# without producer.poll(0): `flush` hands out every answer that has not come before
# 0 → 1: it waits for an answer after each event, which only takes longer
# 0 → -1: it waits for an answer after each event, which only takes longer


# %% wrong="02.1"
# expect: handed over is not delivered
def send(topic, events, key_of):
    producer, receipts = Producer(PRODUCER), []
    for event in events:
        producer.produce(
            topic, json.dumps(event), key_of(event), on_delivery=lambda e, m: receipts.append(m)
        )
    return receipts


# %% wrong="02.1"
# expect: have another key
def send(topic, events, key_of):
    producer, receipts = Producer(PRODUCER), []
    for event in events:
        producer.produce(topic, json.dumps(event), on_delivery=lambda e, m: receipts.append(m))
    producer.flush()
    return receipts


# %% wrong="02.1"
# expect: The broker refused it
def send(topic, events, key_of):
    producer, receipts = Producer(PRODUCER), []
    for event in events:
        producer.produce(
            topic, json.dumps(event), key_of(event), on_delivery=lambda e, m: receipts.append(m)
        )
    producer.flush()
    return receipts


# %% harmless="02.1"
# in another order: the receipts of several partitions have no order

# %%
lab.use_reference("02.1")

# %% [markdown]
# One team has chosen the customer as the key, another the order. A receipt names the partition:

# %%
from lab_env.lessons.l02.figures import placed

by_customer = placed(send(make_topic("by-customer"), events, lambda event: event["customer_id"]))
by_order = placed(send(make_topic("by-order"), events, lambda event: event["order_id"]))
by_customer.head(3)

# %% [markdown]
# ### Exercise 02.2 · Read a partition
#
# Complete the function: it reads one partition from its first event to its last and returns the events as a list of
# dictionaries, in sequence. An event's number in its partition is its [**offset**](../docs/glossary.md#offset). Kafka
# deletes old events, so a partition may be empty, and its first offset need not be 0. The methods of `Consumer` are in
# [the client's documentation](https://docs.confluent.io/platform/current/clients/confluent-kafka-python/html/index.html).


# %% exercise="02.2"
def read_partition(topic, partition):
    """All events of one partition, in their order."""
    # BEGIN SOLUTION
    place, found = TopicPartition(topic, partition, OFFSET_BEGINNING), []
    with Consumer({"bootstrap.servers": BROKER, "group.id": "workers"}) as consumer:
        consumer.assign([place])
        begin, end = consumer.get_watermark_offsets(place)
        for _ in range(begin, end):
            message = consumer.poll()
            if message.error():
                raise KafkaException(message.error())
            found.append(json.loads(message.value()))
    return found
    # END SOLUTION


lab.check("02.2", read_partition)

# %% [markdown] hint="02.2"
# `Consumer(...)` needs `bootstrap.servers` and a `group.id`. `assign([TopicPartition(topic, partition, offset)])` sets
# where to read; the offset `OFFSET_BEGINNING` is the first event, whatever the group has read before.
# `get_watermark_offsets(...)` returns the offset of the first event and the one after the last.

# %% [markdown] hint="02.2"
# Nothing has left this partition, so it has `end - begin` events: call `consumer.poll()` that many times. (Transactions and
# compaction leave gaps; then read until `consumer.position(...)` has reached `end`.) If a message has an `error()`, raise it:
# a shorter list would look complete. `with Consumer(...) as consumer:` closes the consumer at the end.


# %% right="02.2"
# The client reports the end itself, so no offsets have to be compared.
def read_partition(topic, partition):
    options = {"bootstrap.servers": BROKER, "group.id": "me", "enable.partition.eof": True}
    consumer = Consumer(options | {"auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, partition, 0)])
    found = []
    while True:
        message = consumer.poll(5)
        if message is None or message.error():  # the end of the partition comes as an error
            break
        found.append(json.loads(message.value()))
    consumer.close()
    return found


# %% right="02.2"
# By the two ends of the partition, for a topic without transactions.
def read_partition(topic, partition):
    consumer = Consumer({"bootstrap.servers": BROKER, "group.id": "workers"})
    place = TopicPartition(topic, partition, OFFSET_BEGINNING)
    consumer.assign([place])
    begin, end = consumer.get_watermark_offsets(place)
    found = []
    while left := end - begin - len(found):
        found += [json.loads(message.value()) for message in consumer.consume(min(left, 500), 1)]
    consumer.close()
    return found


# %% equivalent="02.2"
# without if message.error(): raise KafkaException(message.error()): the check's broker reports no error
# if message.error() → if False: the check's broker reports no error
# without raise KafkaException(message.error()): the check's broker reports no error
# KafkaException(message.error()) → message.error(): the check's broker reports no error
# without .error() (again): the check's broker reports no error


# %% wrong="02.2"
# expect: whose offsets begin at
def read_partition(topic, partition):
    consumer = Consumer({"bootstrap.servers": BROKER, "group.id": "workers"})
    place = TopicPartition(topic, partition, OFFSET_BEGINNING)
    consumer.assign([place])
    _, end = consumer.get_watermark_offsets(place)
    found = []
    while len(found) < end:
        found += [json.loads(message.value()) for message in consumer.consume(100, 0.5)]
    return found


# %% wrong="02.2"
# expect: a group remembers what it has read
def read_partition(topic, partition):
    options = {"bootstrap.servers": BROKER, "group.id": topic, "auto.offset.reset": "earliest"}
    consumer = Consumer(options)
    consumer.assign([TopicPartition(topic, partition)])
    found = []
    while message := consumer.poll(4):
        found.append(json.loads(message.value()))
    consumer.close()
    return found


# %% wrong="02.2"
# expect: returns what is there, up to the number
def read_partition(topic, partition):
    consumer = Consumer({"bootstrap.servers": BROKER, "group.id": "workers"})
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    return [json.loads(message.value()) for message in consumer.consume(100, 5)]


# %% wrong="02.2"
# expect: begins at the end
def read_partition(topic, partition):
    consumer = Consumer({"bootstrap.servers": BROKER, "group.id": f"new-{topic}"})
    consumer.assign([TopicPartition(topic, partition)])
    return [json.loads(message.value()) for message in consumer.consume(1000, 3)]


# %% wrong="02.2"
# expect: of other partitions
def read_partition(topic, partition):
    consumer = Consumer({"bootstrap.servers": BROKER, "group.id": "workers"})
    consumer.assign([TopicPartition(topic, other, OFFSET_BEGINNING) for other in range(3)])
    return [json.loads(message.value()) for message in consumer.consume(5000, 4)]


# %% wrong="02.2"
# expect: returned a generator
def read_partition(topic, partition):
    consumer = Consumer({"bootstrap.servers": BROKER, "group.id": "workers"})
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    while found := consumer.consume(500, 1):
        yield from (json.loads(message.value()) for message in found)


# %% wrong="02.2"
# expect: Silence is not the end of a partition
def read_partition(topic, partition):
    consumer = Consumer(
        {"bootstrap.servers": BROKER, "group.id": "reader", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    messages = consumer.consume(1_000_000, timeout=3)
    consumer.close()
    return [json.loads(message.value()) for message in messages if not message.error()]


# %% [markdown]
# Suppose that six consumers share the topic, one per partition. We count what each would have to read. Evenly spread,
# each would have 1,500 events.
#
# **Predict:** how many times as many does the busiest one have if the key is the customer? A guess within 0.5 counts.

# %%
lab.predict("02.p1", ..., tolerance=0.5)

# %%
from IPython.display import HTML

from lab_env.lessons.l02.figures import draw_busy

lab.use_reference("02.2")
read = pd.DataFrame(
    {
        key: [len(read_partition(lab.topic(name), number)) for number in range(PARTITIONS)]
        for key, name in (("customer_id", "by-customer"), ("order_id", "by-order"))
    }
)
slowdown = read["customer_id"].max() / (len(events) / PARTITIONS)
shares = by_customer["partition"].value_counts(normalize=True)
lab.record_actual("02.p1", f"{slowdown:.1f}")
HTML(draw_busy(read))

# %% proof="The hot partition has over twice its even share, and all events are read."
assert read["customer_id"].idxmax() == shares.idxmax()  # the consumer of the hot partition
assert slowdown > 2
assert read["customer_id"].sum() == read["order_id"].sum() == len(events)
assert read["order_id"].max() < 1.25 * len(events) / PARTITIONS

# %% [markdown]
# All events with the key `c-0001` hash to the same value, so they go to the same partition, and one consumer reads them
# all, in addition to its share of the rest. The other five would finish early, and the board waits for the *slowest*. A
# seventh consumer would not help: there is no seventh partition. Since Kafka 4.2 a
# [share group](https://cwiki.apache.org/confluence/display/KAFKA/KIP-932%3A+Queues+for+Kafka) lets several consumers read one partition, without order.
#
# A partition that carries much more than the mean is called [**hot**](../docs/glossary.md#hot-partition).

# %% [markdown] tags=["instructor"]
# *For instructors.* 17 minutes; short of time, give 02.2 away. Draw six supermarket tills
# and one customer with forty trolleys. The usual objection: "then let two consumers read the hot partition". A share
# group does. Ask what would become of the order of the events. In 02.1 most forget `flush`: the card says how many
# receipts came.

# %% [markdown]
# ## Four keys
#
# A key has two duties that pull in opposite directions: it must **spread** the load, and it must **keep together** what
# has to be read in order. For each of four keys we measure
#
# - the events of the hottest partition over the mean (1.0 is perfectly even);
# - the orders whose events are in more than one partition. A cancellation may then be read before its order.
#
# The keys are `partition_date` (the day on which the order was created, as tables are laid out), `customer_id`, none at
# all, and `order_id`.
#
# **Predict:** which of them has the hottest partition?

# %%
lab.predict("02.p2", ..., choices=("partition_date", "customer_id", "no key", "order_id"))

# %%
by_day = placed(send(make_topic("by-day"), events, lambda event: event["partition_date"]))
no_key = placed(send(make_topic("no-key"), events, lambda event: None))
sent_by = {"partition_date": by_day, "customer_id": by_customer, "no key": no_key}
sent_by["order_id"] = by_order


def hottest_over_mean(sent):
    return sent["partition"].value_counts().max() / (len(sent) / PARTITIONS)


def split_orders(sent):
    return int((sent.groupby("order_id")["partition"].nunique() > 1).sum())


measures = pd.DataFrame(
    {
        "hottest over mean": {key: hottest_over_mean(sent) for key, sent in sent_by.items()},
        "orders in several partitions": {k: split_orders(sent) for k, sent in sent_by.items()},
    }
)

# %%
from lab_env.lessons.l02.figures import draw_measures

lab.record_actual("02.p2", measures["hottest over mean"].idxmax())
HTML(draw_measures(measures))

# %% proof="Only the key order_id spreads evenly and keeps each order in one partition."
hottest, split = measures["hottest over mean"], measures["orders in several partitions"]
assert hottest["partition_date"] == PARTITIONS  # one day, one key, one partition
assert hottest["customer_id"] > 2 and hottest["no key"] < 1.5 and hottest["order_id"] < 1.25
assert split.drop("no key").eq(0).all() and split["no key"] > 500

# %% [markdown]
# - **The day** is the worst key: all our orders are of one day, so there is one key and one partition. Tables are laid
#   out by day. A stream must not be.
# - **The customer** keeps each customer together, the celebrity included.
# - **No key**: our client chooses a partition at random for each event. By default it *sticks* to one for some
#   milliseconds, to fill a batch; `PRODUCER` switches that off.
# - **The order** has many values, none of them frequent.
#
# Does the sequence matter? Ask the board. It takes the *last* event that it reads of each order, and here it reads one
# partition after the other. Real consumers mix the partitions; this order is the worst. The first column is computed from
# the events as they were sent.


# %%
def board_of(events):
    """Revenue by status, from the last event of each order."""
    last = pd.DataFrame({event["order_id"]: event for event in events}.values())
    return last.groupby("status")["amount"].sum().round(2)


def read_topic(name):
    """All events of a topic, one partition after the other."""
    topic = lab.topic(name)
    return [event for number in range(PARTITIONS) for event in read_partition(topic, number)]


boards = {"as sent": events, "key order_id": read_topic("by-order"), "no key": read_topic("no-key")}
boards = pd.DataFrame({name: board_of(found) for name, found in boards.items()})
boards

# %% name="the-board" proof="Keyed by order the board equals that of the events as sent; without a key it does not."
assert boards["key order_id"].equals(boards["as sent"])
assert not boards["no key"].equals(boards["as sent"])

# %% [markdown]
# Keyed by the order, the board equals what was sent, to the cent. (Late events and erased orders are still in it:
# lesson 04 repairs both.) Without a key nothing is lost, and yet orders that were paid long ago show as new: their
# payment was in a partition that was read before.
#
# The rule: *the key is the smallest thing whose events must stay in order*. For this course it is the order.
#
# ### Exercise 02.3 · A key for two teams
#
# The board needs each order's events in order. The fraud team reads the same topic and needs **all events of an ordinary
# customer in order**; the celebrity it watches in another system. And no partition may carry more than 1.5 times the
# mean. Write the function that returns an event's key.
#
# The check places 6,000 events of two days by your key, as Kafka's client would.


# %% exercise="02.3"
def key_of(event):
    """The key of an event; `event` is a dictionary with `order_id`, `customer_id` and others."""
    # BEGIN SOLUTION
    if event["customer_id"] == "c-0001":
        return event["order_id"]
    return event["customer_id"]
    # END SOLUTION


lab.check("02.3", key_of)

# %% [markdown] hint="02.3"
# What is the smallest thing whose events must stay in order for an ordinary customer, and what is it for the celebrity?

# %% [markdown] hint="02.3"
# A key need not be the same field for all events.


# %% right="02.3"
# With `crc32`: the same in every process and language, unlike `hash`.
from zlib import crc32


def key_of(event):
    buckets = 100 if event["customer_id"] == "c-0001" else 1
    bucket = crc32(event["order_id"].encode()) % buckets
    return f"{event['customer_id']}/{bucket}".encode()


# %% wrong="02.3"
# expect: the key c-0001 alone has
def key_of(event):
    return event["customer_id"]


# %% wrong="02.3"
# expect: customers other than c-0001 lie in several partitions
def key_of(event):
    return event["order_id"]


# %% wrong="02.3"
# expect: customers other than c-0001 lie in several partitions
def key_of(event):
    if event["customer_id"] == "c-0001":
        return event["order_id"]
    return event["customer_id"] + event["partition_date"]


# %% wrong="02.3"
# expect: orders lie in several partitions and may be read out of order
import random


def key_of(event):
    return f"{event['customer_id']}-{random.randrange(10)}"


# %% harmless="02.3"
# off by one unit: every key of an order or a customer changes alike

# %%
lab.use_reference("02.3")
for_two_teams = placed(send(make_topic("two-teams"), events, key_of))
print(f"hottest over mean: {hottest_over_mean(for_two_teams):.2f}")
print("orders in several partitions:", split_orders(for_two_teams))
boards["your key"] = board_of(read_topic("two-teams"))
boards

# %% proof="With a key for two teams the load spreads, and the board still matches what was sent."
assert hottest_over_mean(for_two_teams) <= 1.5 and split_orders(for_two_teams) == 0
assert boards["your key"].equals(boards["as sent"])

# %% [markdown]
# One topic for both teams, no consumer with most of the work, and the board matches what was sent.

# %% [markdown] tags=["instructor"]
# *For instructors.* 13 minutes. A key with a random part is called *salting*; it is right for sums that
# are added up again later, and wrong where order matters. Let the group say which of its own topics
# has a key that is a date. Short of time: give 02.3 away.

# %% [markdown]
# ## Optional: the same keys on Kinesis
#
# **A good place to pause, or to end.** You have what the course needs: go to *Key points*. This section and the next
# are for those who meet Amazon Kinesis at work. They use `moto`, a program on your machine that speaks Kinesis's
# protocol and places records as Kinesis does. (To go on another day, type `lab goto 02c` in a terminal.)
#
# Kinesis has the same idea under other names. A *stream* is cut into [**shards**](../docs/glossary.md#shard); an
# event is called a *record* and must carry a [**partition key**](../docs/glossary.md#partition-key). Its hash is the MD5
# sum, read as a number below 2^128. There is no modulo: each shard owns a **range** of hash values and gets the keys
# that fall into it.

# %%
import boto3

lab.wait_for("kinesis")
kinesis = boto3.client(
    "kinesis",
    endpoint_url=lab.address("kinesis"),
    region_name="us-east-1",
    aws_access_key_id="lab",  # the emulation takes any
    aws_secret_access_key="lab",
)


# %%
def make_stream(name, **options):
    """Create a stream, and delete the one of an earlier run."""
    stream = lab.stream(name)
    if stream in kinesis.list_streams()["StreamNames"]:
        kinesis.delete_stream(StreamName=stream)
        kinesis.get_waiter("stream_not_exists").wait(StreamName=stream)
    kinesis.create_stream(StreamName=stream, **options)
    return stream


stream = make_stream("orders", ShardCount=6)


def open_shards():
    """First and last hash of each shard that takes records, by its name."""
    shards = kinesis.list_shards(StreamName=stream)["Shards"]
    return {
        shard["ShardId"]: tuple(
            int(shard["HashKeyRange"][f"{end}HashKey"]) for end in ("Starting", "Ending")
        )
        for shard in shards
        if "EndingSequenceNumber" not in shard["SequenceNumberRange"]
    }


# %% [markdown]
# `PutRecords` takes up to 500 records per call. Its answer names the shard of each.


# %%
def put(key):
    """Put all events on the stream; returns each one's partition key and shard."""
    rows = []
    for first in range(0, len(events), 500):
        batch = events[first : first + 500]
        records = [{"Data": json.dumps(event), "PartitionKey": event[key]} for event in batch]
        answer = kinesis.put_records(StreamName=stream, Records=records)
        rows += [
            (record["PartitionKey"], result.get("ShardId"))  # a refused record has no shard
            for record, result in zip(records, answer["Records"], strict=True)
        ]
    return pd.DataFrame(rows, columns=["key", "shard"])


shard_by_customer = put("customer_id")
shard_by_order = put("order_id")

# %% proof="Kinesis refused no record."
assert shard_by_customer["shard"].notna().all() and shard_by_order["shard"].notna().all()

# %%
from lab_env.lessons.l02.figures import draw_both

six = open_shards()
hot_share = shard_by_customer["shard"].value_counts(normalize=True)
on_kafka = {"customer_id": by_customer, "order_id": by_order}
on_kinesis = {"customer_id": shard_by_customer, "order_id": shard_by_order}
HTML(draw_both(on_kafka, on_kinesis, list(six)))

# %% proof="Keyed by customer, Kinesis and Kafka both have a hot partition; keyed by order, neither."
assert hot_share.iloc[0] > 2 / 6 and shares.iloc[0] > 2 / 6  # hot on both
assert shard_by_order["shard"].value_counts(normalize=True).iloc[0] < 1.25 / 6

# %% [markdown]
# The hash differs, so another partition is hot; but one is hot on each. The next cell computes each key's shard by hand.

# %%
from hashlib import md5


def hash_of(key):
    return int.from_bytes(md5(key.encode()).digest(), "big")


def shard_of(key, shards):
    return next(name for name, (first, last) in shards.items() if first <= hash_of(key) <= last)


keys_and_shards = pd.concat([shard_by_customer, shard_by_order]).drop_duplicates()
agree = sum(shard_of(row.key, six) == row.shard for row in keys_and_shards.itertuples())
print(f"{agree:,} of {len(keys_and_shards):,} keys are where their hash says")

# %% name="shard-by-hand" proof="Each key is in the shard that its MD5 hash names."
assert agree == len(keys_and_shards) > 4000

# %% [markdown]
# A full shard can be *split*: it is closed, and two new shards take over the two parts of its range. We split the hot
# one in the middle.
#
# **Predict:** what percentage of the old shard's load does the hotter half have afterwards? A guess within
# 10 percentage points counts.

# %%
lab.predict("02.p3", ..., tolerance=10)

# %%
hot = hot_share.index[0]
first, last = six[hot]
middle = str((first + last + 1) // 2)
if hot in open_shards():  # else an earlier run of this cell has split it
    kinesis.split_shard(StreamName=stream, ShardToSplit=hot, NewStartingHashKey=middle)
seven = open_shards()
after_split = put("customer_id")["shard"].value_counts(normalize=True)

# %%
from lab_env.lessons.l02.figures import draw_split

still_there = after_split.iloc[0] / hot_share.iloc[0]
lab.record_actual("02.p3", round(100 * still_there))
HTML(draw_split((six, hot_share), (seven, after_split), {"c-0001": hash_of("c-0001")}))

# %% proof="The split left more than 70 percent of the hot shard's load in one shard."
assert len(seven) == 7 and hot not in seven
assert still_there > 0.7  # not a half
assert shard_of("c-0001", seven) == after_split.index[0]

# %% [markdown]
# The hash of `c-0001` is one point in the range. Wherever the cut falls, the point is on one side of it, with all of the
# celebrity's load. The split only took its neighbours away.
#
# Kafka cannot split a partition. It can add partitions, but then `hash modulo number` changes, and an order's new
# events go to another partition than its old ones. How many orders would move, from six partitions to seven? We count
# with MD5; any good hash gives the same share.

# %%
orders = by_order["key"].unique()
moved = sum(hash_of(key) % 6 != hash_of(key) % 7 for key in orders) / len(orders)
print(f"{moved:.0%} of {len(orders):,} orders would move")

# %% proof="Over 80 percent of the orders would move from six to seven partitions."
assert moved > 0.8

# %% [markdown]
# So in Kafka choose a number of partitions with room to grow.

# %% [markdown] tags=["instructor"]
# *For instructors.* 10 minutes. Most people predict 50. The drawing of the ranges is the whole
# explanation: let somebody point at where the cut should have been. (Exactly beside the hash of
# c-0001: two cuts can give one key a shard of its own, and that is the most one can do.) Short of time: this
# section and the next are optional.

# %% [markdown]
# ## Optional: how many shards?
#
# > **Documented, not measured.** The emulation has no limits. Amazon's are, by [*Quotas and
# > limits*](https://docs.aws.amazon.com/streams/latest/dev/service-sizes-and-limits.html), read in November 2026:
# >
# > - **Writing:** one shard takes 1 MB or 1,000 records per second, whichever is reached first. More is
# >   refused with `ProvisionedThroughputExceededException`.
# > - **Reading:** one shard gives 2 MB and answers five read calls per second, and all its applications **share** both.
# >   ([**Enhanced fan-out**](../docs/glossary.md#enhanced-fan-out), at extra cost, gives each its own 2 MB.)
# > - **On-demand** streams add shards by themselves. Their shards have the same limits.

# %%
on_demand = make_stream("on-demand", StreamModeDetails={"StreamMode": "ON_DEMAND"})
summary = kinesis.describe_stream_summary(StreamName=on_demand)["StreamDescriptionSummary"]
shards_at_first = summary["OpenShardCount"]
print("a new on-demand stream has", shards_at_first, "shards")

# %% name="on-demand" proof="A new on-demand stream has several shards."
assert shards_at_first > 1

# %% [markdown]
# These shards have the same limits, so a hot key is refused there, too.
#
# Readers do not take records away from each other. Two applications, one that writes JSON and one that writes Hudi
# tables, read the hot shard from its beginning:


# %%
def read_shard(name):
    """The first thousand records of a shard, as one application reads them."""
    place = kinesis.get_shard_iterator(
        StreamName=stream, ShardId=name, ShardIteratorType="TRIM_HORIZON"
    )
    return kinesis.get_records(ShardIterator=place["ShardIterator"], Limit=1000)["Records"]


readers = {"JSON": read_shard(hot), "Hudi": read_shard(hot)}
numbers = {name: [r["SequenceNumber"] for r in records] for name, records in readers.items()}
same = numbers["JSON"] == numbers["Hudi"]
print(f"each read {len(numbers['JSON']):,} records; they are the same: {same}")

# %% name="two-readers" proof="Both readers got the same 1,000 records."
assert numbers["JSON"] == numbers["Hudi"] and len(numbers["JSON"]) == 1000

# %% [markdown]
# Each byte was written once and read twice. A shard that takes in its full 1 MB per second gives all of its 2 MB to these
# two: a third application would fall behind.
#
# How much can a stream take before its first shard refuses records? The function cuts the range into n equal shards.


# %%
def hottest_share(keys, shards):
    """The share of the events that the fullest of n equal shards gets."""
    places = pd.Series([hash_of(key) * shards >> 128 for key in keys])
    return places.value_counts(normalize=True).iloc[0]


sizes = [1, 2, 4, 6, 8, 12, 16, 24, 32, 48]
capacity = pd.DataFrame(
    {
        key: [1000 / hottest_share([event[key] for event in events], n) for n in sizes]
        for key in ("customer_id", "order_id")
    },
    index=sizes,
)

# %%
from lab_env.lessons.l02.figures import draw_capacity

hot_key = customers["c-0001"]  # its share of the events
print(f"c-0001 has {hot_key:.0%} of the events: at most {1000 / hot_key:,.0f} per second fit")
HTML(draw_capacity(capacity))

# %% name="end-of-a-hot-key" proof="8 times the shards take under 1.5 times the load by customer, over 5 times by order."
assert capacity["customer_id"].max() <= 1000 / hot_key + 1
assert capacity["customer_id"][48] < 1.5 * capacity["customer_id"][6]
assert capacity["order_id"][48] > 5 * capacity["order_id"][6]
assert (capacity["order_id"] > 700 * capacity.index).all()  # somewhat below 1,000 a shard

# %% [markdown]
# The grey line is what you pay for. With the order as the key the stream stays a little below it, because hashing never
# spreads quite evenly. With the customer the line goes flat: one key cannot have more than one shard.
#
# So a capacity plan begins with the key: *the most frequent key's share times the rate must stay below one shard's
# limit*. Only then comes the number of shards.
#
# ### Exercise 02.4 · Shards for a load
#
# Write the function that returns the number of shards for a load with a well-spread key: `events` per second of `size`
# bytes each, read by `applications` programs. Each reads everything, without enhanced fan-out. Take 1 MB as 1,000,000
# bytes, leave no reserve, and leave out the limit on read calls.


# %% exercise="02.4"
def shards_for(events, size, applications):
    """The smallest number of shards that takes this load."""
    # BEGIN SOLUTION
    import math

    written = events * size / 1_000_000
    read = applications * written
    return math.ceil(max(events / 1000, written, read / 2))
    # END SOLUTION


lab.check("02.4", shards_for)

# %% [markdown] hint="02.4"
# Three limits of one shard, per second: 1,000 records in, 1 MB in, 2 MB out. Compute the shards that each asks
# for. The largest of the three decides.

# %% [markdown] hint="02.4"
# Each application reads all that is written. Three of them read three times as much. There is no half
# shard: round up (`math.ceil`).


# %% right="02.4"
# With NumPy, for many loads at once.
import numpy as np


def shards_for(events, size, applications):
    megabytes = events * size / 1e6
    return np.ceil(np.array([events / 1e3, megabytes, applications * megabytes / 2])).max()


# %% right="02.4"
# Without `math`: `-(-a // 1)` rounds up.
def shards_for(events, size, applications):
    need = max(events / 1000, events * size * max(1, applications / 2) / 1_000_000)
    return -(-need // 1)


# %% wrong="02.4"
# expect: you pay for
def shards_for(events, size, applications):
    written = events * size / 1_000_000
    return int(max(events / 1000, written, applications * written / 2)) + 1


# %% wrong="02.4"
# expect: A whole number is expected
def shards_for(events, size, applications):
    return max(events / 1000, events * size * max(1, applications / 2) / 1_000_000)


# %% wrong="02.4"
# expect: your 2 shards take 2 MB/s
import math


def shards_for(events, size, applications):
    return math.ceil(events / 1000)


# %% wrong="02.4"
# expect: 3 applications read 800 events
import math


def shards_for(events, size, applications):
    return math.ceil(max(events / 1000, events * size / 1_000_000))


# %% wrong="02.4"
# expect: 4 shards take 4,000 events a second
def shards_for(events, size, applications):
    written = events * size / 1_000_000
    return max(1, round(max(events / 1000, written, applications * written / 2)))


# %% wrong="02.4"
# expect: are 1.02 MB/s; your 1 shards take 1 MB/s
import math


def shards_for(events, size, applications):
    megabytes = events * size / 2**20
    return math.ceil(max(events / 1000, megabytes, applications * megabytes / 2))


# %% [markdown]
# Plan the shop's stream: the marketplace's events as they are, and events of 2,000 bytes, read by one application or by
# four.

# %%
lab.use_reference("02.4")
mean_size = round(by_order["bytes"].mean())
rates = [1_000, 5_000, 20_000]
plan = pd.DataFrame(
    {
        f"{size:,} bytes, {readers} reading": [int(shards_for(n, size, readers)) for n in rates]
        for size in (mean_size, 2_000)
        for readers in (1, 4)
    },
    index=pd.Index(rates, name="events per second"),
)
plan

# %% proof="Records decide for small events; for large ones bytes do, and four readers double the shards."
ours, ours_for_four, large, large_for_four = (plan[name] for name in plan)
assert (ours == plan.index / 1000).all() and (ours_for_four == ours).all()
assert (large == 2 * ours).all() and (large_for_four == 2 * large).all()

# %% [markdown]
# The shop's events are so small that the limit on records decides. With 2,000 bytes the limit on bytes written decides,
# and with four applications the limit on bytes read.

# %% [markdown] tags=["instructor"]
# *For instructors.* 10 minutes. Many forget the readers in 02.4: the two applications
# of the source articles (JSON and Hudi) already use up all that a shard gives without enhanced fan-out. Real
# plans add reserve, because rates have peaks: lesson 21 comes back to this. Short of time: leave this section out.

# %% [markdown]
# > **In production**
# > - Create topics by reviewed configuration, not by the first event with a misspelt name
# >   ([`auto.create.topics.enable`](https://kafka.apache.org/41/configuration/broker-configs/#brokerconfigs_auto.create.topics.enable)).
# > - Let all producers of a topic use the same hash. This client's default is CRC32, that of Java's clients murmur2
# >   ([`partitioner`](https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md)).
# > - Adding partitions [moves keys](https://kafka.apache.org/41/operations/basic-kafka-operations/#modifying-topics): stop the producers,
# >   let the consumers catch up, then add.
# > - Transactions and compaction leave gaps in the offsets: do not count events, read until the position reaches the end.
#
# ## Key points
#
# - The key decides the partition, and Kafka keeps order only within a partition.
# - As the key choose the smallest thing whose events must stay in order, never a date.
# - One key is in one partition or shard, so more of them do not help a hot key.
# - The board can be wrong although nothing is lost: reading an order's events out of sequence is enough.
# - (Optional part.) A shard limits records, bytes written and bytes read, and its readers share the last limit.
#
# ## What's next
#
# The events are spread evenly, and each order's are in sequence. Lesson 03 reads them with Spark and writes them to files,
# without losing one.
