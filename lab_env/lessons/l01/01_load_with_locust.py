# ---
# title: How do I make believable load?
# minutes: {teach: 20, do: 25}
# needs: ["00"]
# services: [minio, kafka]
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 01 · How do I make believable load?
#
# ## Questions
#
# - How do I find out, before real customers come, what my pipeline does under their load?
# - I asked for 500 events per second. Did I get them?
# - The broker hangs for three seconds. Which events arrived, and which record do I believe?
#
# ## Objectives
#
# At the end of this lesson you can
#
# - send to Kafka from a Locust user, and count a send once the broker has answered (01.1),
# - give a user tasks that occur in the right proportion (01.2),
# - reach a target rate with a given number of users (01.3),
# - shape the load over time (01.4).
#
# ## What you need
#
# Lesson 00, and Python. 45 minutes. This lesson does not use Spark.

# %% [markdown]
# ## Start
#
# The shop plans a sale, and its board, **revenue by status**, has to keep up. Before the customers come, we simulate
# them.

# %%
import pandas as pd
from IPython.display import HTML

from lab_env import Lab
from lab_env.shop.locust_run import LocustRun

lab = Lab.start("01")
lab

# %% [markdown]
# ## A user that sends orders
#
# [**Locust**](../docs/glossary.md#locust) is a load generator that simulates *users*. A user is a Python class, and its
# *tasks* are methods. Each user picks a task, runs it, waits, and picks again. Locust counts requests and failures, and
# measures how long each answer took.
#
# Out of the box it speaks HTTP. Our shop sends events to Kafka, so we write the user ourselves. A program that sends
# events is a [**producer**](../docs/glossary.md#producer). It sends them to a [**topic**](../docs/glossary.md#topic), a
# named list of events on a server, the [**broker**](../docs/glossary.md#broker). All our users share one producer:

# %%
from confluent_kafka import Producer

from lab_env.platform.brokers.topics import ensure_topic

BROKER, TOPIC = lab.endpoints.kafka_bootstrap, lab.topic("shop")
ensure_topic(BROKER, TOPIC)
producer = Producer(
    {
        "bootstrap.servers": BROKER,
        "partitioner": "murmur2_random",  # hashes a key as Kafka's Java clients do
        "linger.ms": 5,  # waits this long for more events, then sends them together
        "message.timeout.ms": 2000,  # no answer by then: the send has failed
        "log_level": 2,  # its warnings would fill the page
    }
)

# %% [markdown]
# The first user has one task: it creates an order. `wait_time` sets how long it waits before its next task.

# %%
import itertools
import random
import time

from locust import User, poisson, task

order_numbers, event_numbers = itertools.count(1), itertools.count(1)


class Customer(User):
    """Creates orders and sends an event for each."""

    wait_time = poisson(10)  # at random moments, on average ten times per second

    def on_start(self):
        self.orders = []  # the orders of this user that are still open

    @task(6)
    def create(self):
        order_id = f"O-{next(order_numbers)}"
        self.orders.append(order_id)
        self.send(make_event("create", order_id))


# %% [markdown]
# Locust does not know what a request to Kafka is, so the user reports each one through Locust's event `request`:


# %%
def make_event(op, order_id):
    """An event of the shop: a dictionary."""
    event = {"event_id": f"E-{next(event_numbers)}", "op": op, "order_id": order_id}
    return event | {"amount": random.randint(500, 9900) / 100, "order_ts": time.time()}


def report(user, kind, event, handed_at, error=None):
    """Report a request to Locust; `error` comes from Kafka's client, None for a success."""
    failure = None if error is None else Exception(error.str())
    user.environment.events.request.fire(
        request_type=kind,
        name=event["op"],
        response_time=1000 * (time.perf_counter() - handed_at),  # milliseconds
        response_length=0,
        exception=failure,
        context=event,
    )


# %% [markdown]
# Only `send` is missing. Here is the shortest one:

# %%
import json


class Trusting(Customer):
    """Reports a success when `produce` has returned."""

    def send(self, event):
        handed_at = time.perf_counter()
        producer.produce(TOPIC, json.dumps(event), event["order_id"])
        report(self, "HANDED", event, handed_at)


# %% [markdown]
# The third argument of `produce` is the [**key**](../docs/glossary.md#key), here the order's id. Kafka keeps events with
# the same key in sequence: lesson 02.
#
# `LocustRun`, a helper of the lab, runs users inside this notebook. In a terminal the same run is
# `locust -f FILE --headless --users 10 --spawn-rate 10 --run-time 4s`.
#
# **Predict:** half of the requests take at most the time that Locust reports as `p50_ms`. How long is it? Look at the
# producer's options.

# %%
lab.predict("01.p1", ..., choices=("under 1 ms", "1 to 5 ms", "over 5 ms"))

# %%
with LocustRun(Trusting, users=10, seconds=4) as trusting:
    pass

p50 = trusting.requests["p50_ms"].max()
lab.record_actual("01.p1", "under 1 ms" if p50 < 1 else "1 to 5 ms" if p50 <= 5 else "over 5 ms")
trusting.requests
# %% proof="Ten users sent about 100 events per second at most, without failure, half in under 1 ms."
# On average 10 x 10 x 4; a busy machine sends fewer.
assert 100 < trusting.requests["requests"].sum() < 520
assert trusting.requests["failures"].sum() == 0 and trusting.requests["p50_ms"].max() < 1

# %% [markdown]
# `p50_ms` and `p95_ms` are [**percentiles**](../docs/glossary.md#percentile): 95 percent of the requests took at most
# `p95_ms`. Ten users, ten tasks per second, four seconds: about 400 requests, and none failed.
#
# That is too good: with `linger.ms` an event may wait 5 ms before it even leaves. `produce` only puts it into a queue in
# this process, and a thread of the client sends it later. We have measured our own memory.
#
# ### Exercise 01.1 · A send that waits for the answer
#
# For the broker's answer, the [**delivery report**](../docs/glossary.md#delivery-report), the client calls a function that
# you hand to `produce`. It never calls it on its own, only inside two of its methods, which your user has to call ([the
# client's documentation](https://docs.confluent.io/platform/current/clients/confluent-kafka-python/html/index.html)).
# Complete the user:
#
# - `send` reports `"HANDED"` when `produce` has returned, and `"KAFKA"` when the answer comes. It must not wait for the
#   answer, because all users share one thread.
# - `on_stop`, which Locust calls when the user ends, waits for the last answers.
#
# The check runs your user, and then once more with a broker that never answers.


# %% exercise="01.1"
class Sender(Customer):
    """A customer whose events count when the broker has answered."""

    def send(self, event):
        """Hand an event over; report `HANDED` at once, and `KAFKA` with the broker's answer."""
        # BEGIN SOLUTION
        handed_at = time.perf_counter()

        def on_delivery(error, message):
            report(self, "KAFKA", event, handed_at, error)

        producer.produce(TOPIC, json.dumps(event), event["order_id"], on_delivery=on_delivery)
        report(self, "HANDED", event, handed_at)
        producer.poll(0)
        # END SOLUTION

    def on_stop(self):
        """Wait for the answers that are still missing."""
        producer.flush()  # SOLUTION


lab.check("01.1", Sender)

# %% [markdown] hint="01.1"
# Begin with the three lines of `Trusting`. Inside `send`, define a function with the parameters `error` (None for a
# success) and `message`; it calls `report` with the kind `"KAFKA"`. `produce` takes it as `on_delivery`. The client calls
# it during `poll(0)`, which does not wait, and during `flush()`, which waits for every answer.

# %% [markdown] hint="01.1"
# `report(self, "KAFKA", event, handed_at, error)`: the last argument makes a failure of it. Hand the function over with
# `producer.produce(..., on_delivery=...)`, and end `send` with `producer.poll(0)`.


# %% right="01.1"
# With `partial` and a method of its own, when the answer's handling grows or gets tests.
from functools import partial


class Sender(Customer):
    def send(self, event):
        began = time.perf_counter()
        answered = partial(self.answered, event, began)
        value, key = json.dumps(event).encode(), event["order_id"].encode()
        producer.poll(0)
        producer.produce(topic=TOPIC, key=key, value=value, callback=answered)
        report(self, "HANDED", event, began)

    def answered(self, event, began, error, message):
        report(self, "KAFKA", event, began, error)

    def on_stop(self):
        while len(producer):
            producer.poll(0.05)


# %% wrong="01.1"
# expect: With a broker that never answers, you reported
class Sender(Customer):
    def send(self, event):
        handed_at = time.perf_counter()
        producer.produce(TOPIC, json.dumps(event), event["order_id"])
        report(self, "HANDED", event, handed_at)
        producer.poll(0)
        report(self, "KAFKA", event, handed_at)

    def on_stop(self):
        producer.flush()


# %% wrong="01.1"
# expect: The last answers come after the last send
class Sender(Customer):
    def send(self, event):
        handed_at = time.perf_counter()
        producer.produce(
            TOPIC,
            json.dumps(event),
            event["order_id"],
            on_delivery=lambda error, message: report(self, "KAFKA", event, handed_at, error),
        )
        report(self, "HANDED", event, handed_at)
        producer.poll(0)

    def on_stop(self):
        producer.poll(0)


# %% wrong="01.1"
# expect: take both from this clock
class Sender(Customer):
    def send(self, event):
        handed_at = time.time()
        producer.produce(
            TOPIC,
            json.dumps(event),
            event["order_id"],
            on_delivery=lambda error, message: report(self, "KAFKA", event, handed_at, error),
        )
        report(self, "HANDED", event, handed_at)
        producer.poll(0)

    def on_stop(self):
        producer.flush()


# %% wrong="01.1"
# expect: and all other users wait
class Sender(Customer):
    def send(self, event):
        handed_at = time.perf_counter()
        producer.produce(
            TOPIC,
            json.dumps(event),
            event["order_id"],
            on_delivery=lambda error, message: report(self, "KAFKA", event, handed_at, error),
        )
        report(self, "HANDED", event, handed_at)
        producer.flush()

    def on_stop(self):
        producer.flush()


# %% wrong="01.1"
# expect: Call `producer.poll(0)` at each send
class Sender(Customer):
    def send(self, event):
        handed_at = time.perf_counter()
        producer.produce(
            TOPIC,
            json.dumps(event),
            event["order_id"],
            on_delivery=lambda error, message: report(self, "KAFKA", event, handed_at, error),
        )
        report(self, "HANDED", event, handed_at)

    def on_stop(self):
        producer.flush()


# %% wrong="01.1"
# expect: before `produce` had returned
class Sender(Customer):
    def send(self, event):
        at = time.perf_counter()
        report(self, "HANDED", event, at)
        producer.produce(
            TOPIC,
            json.dumps(event),
            event["order_id"],
            on_delivery=lambda error, message: report(self, "KAFKA", event, at, error),
        )
        producer.poll(0)

    def on_stop(self):
        producer.flush()


# %%
lab.use_reference("01.1")

# %%
with LocustRun(Sender, users=10, seconds=3) as answered:
    pass

answered.requests

# %% name="first-report" proof="Each event was handed over and answered once; the answer took longer than the hand-over."
by_kind = answered.requests.set_index("type")
assert by_kind.loc["KAFKA", "requests"] == by_kind.loc["HANDED", "requests"] > 75
assert by_kind["failures"].sum() == 0
assert by_kind.loc["HANDED", "p50_ms"] < by_kind.loc["KAFKA", "p50_ms"]

# %% [markdown]
# Only the row `KAFKA` measures the broker. It includes up to 5 ms for `linger.ms`, and the time until some user polls.

# %% [markdown] tags=["instructor"]
# *For instructors.* 15 minutes. Draw the two moments on a time line: `produce`
# returns, the broker answers. Ask which of them a web shop's customer waits for. Many flush in `send`: the card says
# what a silent broker makes of that. Short of time: give 01.1 away.

# %% [markdown]
# ## Which events, and how many?
#
# A user draws its next task at random. The number in `@task(6)` is the task's **weight**.
#
# ### Exercise 01.2 · The mix
#
# **Of ten events, six create an order, three update one, and one cancels one.** Give the user the tasks `update` and
# `cancel`. Each takes one of the user's open orders, `self.orders`, and sends an event with the operation `"update"` or
# `"cancel"`; without an open order it does nothing. A cancelled order must not change again. Replace each line of dots
# with a method like `create`.


# %% exercise="01.2"
class Shopper(Sender):
    """A customer who creates orders, and updates and cancels them now and then."""

    # BEGIN SOLUTION
    # PROMPT: update = ...
    # PROMPT: cancel = ...
    @task(3)
    def update(self):
        if self.orders:
            self.send(make_event("update", random.choice(self.orders)))

    @task(1)
    def cancel(self):
        if self.orders:
            self.send(make_event("cancel", self.orders.pop()))

    # END SOLUTION


lab.check("01.2", Shopper)

# %% [markdown] hint="01.2"
# Replace the two lines by two methods like `create` in `Customer`, each below its `@task(...)`. A task of weight w is
# drawn with probability w / (sum of all weights).

# %% [markdown] hint="01.2"
# `make_event("update", order_id)` makes the event, `self.send(...)` sends it. An order that stays in `self.orders` will
# be updated or cancelled again: `list.pop` takes an element out of a list and returns it.


# %% right="01.2"
# Plain functions, when several users share a step.
def update_one(shopper):
    if shopper.orders:
        shopper.send(make_event("update", shopper.orders[-1]))


def cancel_one(shopper):
    random.shuffle(shopper.orders)
    for order_id in shopper.orders[:1]:
        shopper.orders.remove(order_id)
        shopper.send(make_event("cancel", order_id))


class Shopper(Sender):
    tasks = ((update_one, 3), (cancel_one, 1))


# %% wrong="01.2"
# expect: Weights are compared with each other: yours are create 6, update 30, cancel 10
class Shopper(Sender):
    @task(30)
    def update(self):
        if self.orders:
            self.send(make_event("update", random.choice(self.orders)))

    @task(10)
    def cancel(self):
        if self.orders:
            self.send(make_event("cancel", self.orders.pop()))


# %% wrong="01.2"
# expect: No order changed again after an update
class Shopper(Sender):
    @task(3)
    def update(self):
        if self.orders:
            self.send(make_event("update", self.orders.pop()))

    @task
    def cancel(self):
        if self.orders:
            self.send(make_event("cancel", self.orders.pop()))


# %% wrong="01.2"
# expect: after their cancellation
class Shopper(Sender):
    @task(3)
    def update(self):
        if self.orders:
            self.send(make_event("update", random.choice(self.orders)))

    @task
    def cancel(self):
        if self.orders:
            self.send(make_event("cancel", random.choice(self.orders)))


# %% wrong="01.2"
# expect: were created by one user and changed by another
EVERYONES = []


class Shopper(Sender):
    def on_start(self):
        self.orders = EVERYONES

    @task(3)
    def update(self):
        if self.orders:
            self.send(make_event("update", random.choice(self.orders)))

    @task(1)
    def cancel(self):
        if self.orders:
            self.send(make_event("cancel", self.orders.pop()))


# %%
lab.use_reference("01.2")

# %% [markdown]
# Now the pace. Locust has several functions for `wait_time`:
#
# | `wait_time` | its number is | the user runs |
# |---|---|---|
# | `constant(n)` | seconds of rest after each task | one task per n seconds, fewer when a task takes long |
# | `constant_pacing(n)` | seconds from one start to the next | one task per n seconds |
# | `constant_throughput(n)` | tasks per second | n tasks per second, evenly spaced |
# | `poisson(n)` | tasks per second, on average | a random rest after each task, 1/n seconds on average; fewer when a task takes long |
#
# All four apply per user: a user whose tasks take longer falls behind. So never trust the rate
# that you asked for. Measure the rate that you got.
#
# ### Exercise 01.3 · A target rate
#
# Twenty users should run **500 tasks per second in total**, nearly all of which send an event. The check computes the pace
# that they ask for, and measures the rate that they get.

# %% exercise="01.3"
import locust


class Rush(Shopper):
    """Twenty of these send 500 events per second."""

    wait_time = locust.constant_throughput(25)  # SOLUTION


lab.check("01.3", Rush)

# %% [markdown] hint="01.3"
# The number is for each user. How many events per second must one of twenty users send?

# %% [markdown] hint="01.3"
# Look at the middle column of the table: which of the functions takes tasks per second?


# %% right="01.3"
# At a constant pace, when the load must be the same in each run.
class Rush(Shopper):
    wait_time = locust.constant_pacing(1 / 25)


# %% right="01.3"
# At random moments, when the load should look like that of customers.
class Rush(Shopper):
    def wait_time(self):
        return random.expovariate(25)


# %% right="01.3"
# With due times of the user's own, when a slow task must not lower the rate.
class Rush(Shopper):
    def on_start(self):
        super().on_start()
        self.due = time.perf_counter()

    def wait_time(self):
        self.due += 1 / 25
        return max(0, self.due - time.perf_counter())


# %% wrong="01.3"
# expect: so 20 users send 0.8 events a second
class Rush(Shopper):
    wait_time = locust.constant_pacing(25)


# %% wrong="01.3"
# expect: The pace is that of one user
class Rush(Shopper):
    wait_time = locust.constant_throughput(500)


# %%
lab.use_reference("01.3")

# %%
from lab_env.lessons.l01.figures import draw_rate

with LocustRun(Rush, users=20, seconds=4) as rush:
    pass

sent = rush.requests.query("type == 'KAFKA'").set_index("name")["requests"]
print((sent / sent.sum()).loc[["create", "update", "cancel"]].round(2).to_string())
HTML(draw_rate(rush.reports, requested=500))

# %% proof="Twenty users sent about 500 events per second at most, roughly in the proportion 6 to 3 to 1."
steady = rush.reports.query("type == 'KAFKA' and 1 <= second < 3")
assert 100 < len(steady) / 2 < 560  # the pace is an upper limit
assert 0.5 < sent["create"] / sent.sum() < 0.7 and 0.05 < sent["cancel"] / sent.sum() < 0.15

# %% [markdown]
# The rate stays near what you asked for, or below it on a busy machine. The shares are near 60, 30 and 10 percent, not
# exact, because tasks are drawn at random.

# %% [markdown] tags=["instructor"]
# *For instructors.* 12 minutes. Nearly everybody takes weights for percent, and the confusion of pacing and
# throughput is the point of 01.3: `constant_pacing(25)` looks right, runs without an error, and makes a load test that
# tests nothing. Short of time: give 01.2 away.

# %% [markdown]
# ## A sale, and a broker that hangs
#
# Real load is not steady: a sale begins at noon sharp. In Locust, a [**load
# shape**](../docs/glossary.md#load-shape) decides how many users there are. It is a class with a method `tick`, which Locust
# calls about once per second. `tick` returns the number of users, and how many may start or stop per second. When it
# returns `None`, the test ends.
#
# ### Exercise 01.4 · The sale
#
# Write the `tick` of this sale: 5 users until second 2, then 25 users until second 6, then 5 users until second 8, then
# the end. The extra twenty must start within one second, and stop within one second. `self.get_run_time()` returns the
# seconds since the start.
#
# The check calls your `tick` twice per second and computes the number of users, as one Locust process would.

# %% exercise="01.4"
from locust import LoadTestShape


class Sale(LoadTestShape):
    """Quiet, a burst of four seconds, quiet again."""

    def tick(self):
        """The number of users now, and how many may start or stop per second."""
        # BEGIN SOLUTION
        seconds = self.get_run_time()
        if seconds < 8:
            return (25 if 2 <= seconds < 6 else 5), 20
        return None
        # END SOLUTION


lab.check("01.4", Sale)

# %% [markdown] hint="01.4"
# Begin with `seconds = self.get_run_time()`. Before second 8, return users and speed: 25 users between second 2 and
# second 6, otherwise 5.

# %% [markdown] hint="01.4"
# From 5 to 25 users, 20 must start. If they may take a second, 20 start in a second.


# %% right="01.4"
# The stages as data, when they change often.
class Sale(LoadTestShape):
    stages = ((2, 5), (6, 25), (8, 5))

    def tick(self):
        now = self.get_run_time()
        return next(((users, 25.0) for end, users in self.stages if now <= end), None)


# %% wrong="01.4"
# expect: Between second 5 and second 6 you reach 5 users
class Sale(LoadTestShape):
    def tick(self):
        stages = [(2, 5), (5, 25), (8, 5)]
        return next(((users, 20) for end, users in stages if self.get_run_time() < end), None)


# %% wrong="01.4"
# expect: Between second 6 and second 7 you reach 25 users
class Sale(LoadTestShape):
    def tick(self):
        stages = [(2, 5), (7, 25), (8, 5)]
        return next(((users, 20) for end, users in stages if self.get_run_time() < end), None)


# %% equivalent="01.4"
# seconds < 8 → seconds <= 8: nobody can ask at exactly this moment
# 2 <= seconds < 6 → 2 < seconds < 6: the same, at second 2
# 20 → 21: 20 users start within a second at any speed from 20


# %% wrong="01.4"
# expect: only 9 users
class Sale(LoadTestShape):
    def tick(self):
        seconds = self.get_run_time()
        if seconds < 8:
            return (25, 1) if 2 <= seconds < 6 else (5, 5)


# %% wrong="01.4"
# expect: returns None ends the test
class Sale(LoadTestShape):
    def tick(self):
        return (5 if self.get_run_time() < 2 else 25, 25) if self.get_run_time() < 6 else None


# %%
lab.use_reference("01.4")

# %% [markdown]
# Now your sale runs, with your users. Half a second into its burst we freeze the broker for three seconds: its process
# lives, its port is open, but it answers nothing. A broker that is overloaded, or whose disk hangs, looks like this.
#
# **Predict:** the broker is silent for three seconds, and the client gives an event up after two. What part of the events
# handed over during the freeze is reported as a failure?

# %%
PARTS = ("none", "about a third", "about two thirds", "all")
lab.predict("01.p2", ..., choices=PARTS)

# %%
import gevent

with LocustRun(Rush, shape=Sale) as sale:
    gevent.sleep(2.6)  # not `time.sleep`: the users run in this process, too
    with lab.paused("kafka"):
        frozen_from = sale.elapsed
        gevent.sleep(3)
        frozen_until = sale.elapsed

during = sale.reports.query("type == 'HANDED' and @frozen_from < second < @frozen_until")
timed_out = set(sale.reports.query("type == 'KAFKA' and failed")["event_id"])
share = during["event_id"].isin(timed_out).mean()
lab.record_actual("01.p2", PARTS[round(3 * share)])

by_type = sale.requests.groupby("type")[["requests", "failures"]].sum()
by_type

# %%
from lab_env.lessons.l01.figures import draw_sale

HTML(draw_sale(sale.reports, sale.user_counts, frozen_from, frozen_until))

# %% proof="While the broker was frozen, HANDED reported no failure and nothing was acknowledged."
frozen = sale.reports.query("@frozen_from + 0.3 < second < @frozen_until")
assert by_type.loc["HANDED", "failures"] == 0
assert by_type.loc["KAFKA", "failures"] > 50
assert (frozen["type"] == "HANDED").sum() > 200  # the users went on
assert (frozen["type"] == "KAFKA").sum() == frozen["failed"].sum()  # nothing was acknowledged
assert sale.user_counts.max() == 25

# %% [markdown]
# Above is your shape. Below, `HANDED` saw nothing: every event was handed over immediately, without a failure. Your
# delivery reports tell another story. Nothing was acknowledged while the broker was frozen. Events that had waited for two
# seconds, our `message.timeout.ms`, **timed out**: the client gave them up. The younger ones went out in one burst
# afterwards.
#
# So a load test must report a success **when the answer comes**. Our time-out of two seconds turned a pause into failures;
# with the default of five minutes every event would only have arrived late. A test has to wait for all answers, however
# long its time-out is.
#
# What became of the events that timed out? `read_topic`, of the lab, reads all messages of a topic.

# %%
from lab_env.platform.brokers.topics import read_topic

in_topic = {json.loads(message.value())["event_id"] for message in read_topic(BROKER, TOPIC)}
handed = set(sale.reports.query("type == 'HANDED'")["event_id"])
acknowledged = set(sale.reports.query("type == 'KAFKA' and not failed")["event_id"])

fates = {"handed over": handed, "acknowledged": acknowledged, "timed out": timed_out}
rows = {fate: (len(events), len(events & in_topic)) for fate, events in fates.items()}
print(f"{len(timed_out & in_topic)} of {len(timed_out)} that timed out are in the topic anyway")
pd.DataFrame(rows, index=["events", "in the topic"]).T

# %% name="what-failed-means" proof="Every acknowledged event is in the topic; some that HANDED counted as sent are not."
assert acknowledged <= in_topic  # what the broker promised is there
assert handed - in_topic  # not all arrived that HANDED called a success
assert acknowledged | timed_out == handed
assert not acknowledged & timed_out

# %% [markdown]
# Every acknowledged event is in the topic. By default (`acks=all`) the broker acknowledges an event when all in-sync
# replicas have it. That may be the leader alone, and a power failure may then lose it, unless
# [`min.insync.replicas`](https://kafka.apache.org/41/configuration/topic-configs/#topicconfigs_min.insync.replicas) demands more.
#
# An event that timed out may be in the topic, too: all we know is that no answer came in time. So the course's own record
# has three states:
#
# - [**acknowledged**](../docs/glossary.md#acknowledgement): it is in the topic;
# - **failed**: it is not, because it never left the client, or the broker refused it before writing;
# - [**unknown**](../docs/glossary.md#unknown-send): it timed out, or its error may come after the write, such as
#   [`NOT_ENOUGH_REPLICAS_AFTER_APPEND`](https://kafka.apache.org/42/javadoc/org/apache/kafka/common/errors/NotEnoughReplicasAfterAppendException.html).
#   Only a look into the topic can tell.
#
# If you resend an event that timed out, it may arrive twice. With `enable.idempotence`, as in the shop's own load, the
# client's *own* retries neither duplicate events nor swap them. A resend by your program still may, so whatever reads the
# topic must tolerate duplicates.

# %% [markdown] tags=["instructor"]
# *For instructors.* 12 minutes, the heart of the lesson. For 01.p2 draw the freeze, and ask which events are two seconds
# old before it ends. Common error afterwards: "so timed out means lost". Point at the last row of the table. How many of
# them arrive differs from run to run: what lay in the socket's buffers when the broker stopped arrives, the rest does
# not. Short of time: give 01.4 away.

# %% [markdown]
# ## The shop's own load
#
# Your classes in one file are a *locustfile*: `locust -f shop.py` runs it. The shop's own, `lab_env/shop/locustfile.py`,
# has four additions.
#
# - **Several processes**: Locust's *master* starts workers, splits the users among them and adds up their numbers.
# - **Locust's web page**, where you watch the run and change the number of users.
# - **Trouble on purpose**, as real sources make it. Some updates arrive [**late**](../docs/glossary.md#late-event),
#   after newer ones. Some events are [**resent**](../docs/glossary.md#resend), so they arrive twice. Some are
#   [**malformed**](../docs/glossary.md#malformed-event).
# - **A ledger**: each event with one of the three states, in files outside Kafka and Spark.
#
# This cell starts it, on two processes, and does not wait. Open the link while it runs.

# %%
from lab_env.platform.settings import settings

page_port = settings().locust_port
load = lab.load(rate=400, users=20, processes=2, web_port=page_port, show=False).start()
print("Locust's page:", load.page)

# %% [markdown]
# The page shows the numbers of `/stats/requests`. Here they are in the notebook:

# %%
import urllib.request

time.sleep(4)
# Without the proxy variables: the page is on this machine.
browser = urllib.request.build_opener(urllib.request.ProxyHandler({}))
with browser.open(f"{load.url}/stats/requests", timeout=10) as answer:
    page = json.load(answer)

columns = ["method", "name", "num_requests", "num_failures", "current_rps", "median_response_time"]
web_numbers = pd.DataFrame(page["stats"])[columns].set_index("name")
print("state:", page["state"], "· users:", page["user_count"], "· workers:", len(page["workers"]))
web_numbers

# %% name="web-page" proof="Locust's web page shows the rate and response times of 20 users on two workers."
assert page["state"] == "running" and page["user_count"] == 20 and len(page["workers"]) == 2
assert {"create", "update", "cancel"} <= set(web_numbers.index)
everything = web_numbers.loc["Aggregated"]
assert everything["num_failures"] == 0
assert everything["current_rps"] > 20 and everything["median_response_time"] > 0

# %% [markdown]
# When you have seen enough, stop the load. It waits for the last answers. Does the ledger agree with the topic? `settle`
# reads the topic, compares each message with the ledger, and decides every unknown send.

# %%
from lab_env.lessons.l01.figures import draw_load

lost = load.stop()
ledger = lab.ledger()  # its files, one per process, are outside Kafka
sent_by = [len(file.read_text().splitlines()) for file in ledger.directory.glob("*.sends.tsv")]
settled, frame = ledger.settle(BROKER, lab.topic("orders")), ledger.frame()
print(f"events sent by each process: {sent_by}\n{settled}")
HTML(draw_load(load.stats))

# %% name="ledger-against-topic" proof="Two workers shared the load, and the ledger agrees with the topic to the message."
kinds = frame["kind"].str.partition(":")[0].value_counts()
assert lost == 0
assert settled.ok and settled.messages == (frame["state"] == "acked").sum() > 400
assert len(sent_by) == 2 and min(sent_by) > 0.3 * sum(sent_by)  # two workers shared the load
assert {"event", "late", "resend", "malformed"} == set(kinds.index)

# %% [markdown]
# They agree to the message. Later lessons ask for this verdict: whatever the board shows, the ledger knows what it should
# show.
#
# The topic has a message for each change of an order, and one more for each resend. The board is the sum over the newest
# event of each order. To compute it here we would read the whole topic, and the next event would make the result old. The
# lessons to come keep such a board without reading everything again.

# %% [markdown] tags=["instructor"]
# *For instructors.* 6 minutes. Open Locust's page on the projector and change the number of users while it runs; the
# chart follows. Two processes on two cores make no more events than one at this rate: they are here to be seen.

# %% [markdown]
# > **In production**
# > - A topic has three replicas and `min.insync.replicas` 2; then an acknowledged event survives the loss of a broker
# >   ([`acks`](https://kafka.apache.org/41/configuration/producer-configs/#producerconfigs_acks)).
# > - The producer sets
# >   [`enable.idempotence`](https://kafka.apache.org/41/configuration/producer-configs/#producerconfigs_enable.idempotence), the default of
# >   Java's client but not of this one.
# > - In a longer freeze the client's queue fills up
# >   ([`queue.buffering.max.messages`](https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md)), and
# >   `produce` raises `BufferError`. Then the producer polls, waits and tries again, or it slows its own source down.
# > - The load generator has machines of its own, with [several
# >   workers](https://docs.locust.io/en/stable/running-distributed.html): a busy generator measures itself.
#
# ## Key points
#
# - A Locust user is a class with weighted tasks; weights are relative, not percent.
# - The rate is users × pace, and the pace is an upper limit: measure the rate that you got.
# - A send is a success when the broker has answered, not when the client has queued it.
# - An acknowledged event is in the topic. One that timed out may be there, too: its state is unknown.
# - The ledger stands outside the pipeline, so it can tell what the tables must hold.
#
# ## What's next
#
# Your events arrive at any rate you like. Lesson 02 asks which of the topic's partitions they go to, and why one reader
# may be busy while the others idle.
