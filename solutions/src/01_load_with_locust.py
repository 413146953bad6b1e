# ---
# title: How do I make believable load?
# minutes: {teach: 20, do: 15}
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
# - Before real customers come: how do I find out what my pipeline does under their load?
# - I asked for 500 events a second. Did I get them?
# - The load test reports zero failures. Did everything arrive?
#
# ## Objectives
#
# At the end of this lesson you can
#
# - write a user for Locust whose tasks occur in the right proportion (01.1),
# - reach a target rate with a given number of users (01.2),
# - shape the load over time (01.3).
#
# You will also know what a success means in a load test, and which record to believe.
#
# ## What you need
#
# Lesson 00, and Python. Thirty-five minutes. Spark has no part in this lesson.

# %% [markdown]
# ## Start
#
# This cell starts what the lesson needs and clears what an earlier run of it left behind.

# %%
from lab_env import Lab

lab = Lab.start("01")
lab

# %% [markdown]
# ## A user that sends orders
#
# [**Locust**](../docs/glossary.md#locust) is a load generator. It simulates *users*. A user is a Python class; its *tasks* are
# methods. Locust makes as many users as you ask for, and each of them picks a task, runs it, waits,
# and picks again. Locust counts requests and failures and the time that answers took.
#
# Out of the box it speaks HTTP. Our shop does not get HTTP requests, it puts events on Kafka. So we
# write the user ourselves. A program that puts events on Kafka is called a [**producer**](../docs/glossary.md#producer); the list of
# events that it puts them on is a [**topic**](../docs/glossary.md#topic); the server that keeps the topic is the [**broker**](../docs/glossary.md#broker).
#
# The next cell does not run anything. It writes a file, because Locust must run as a program of its
# own: as soon as it is imported it changes parts of Python's standard library, and a notebook does
# not survive that.
#
# Three things to look for in the file:
#
# 1. The **weights**: `@task(6)` and `@task(3)` mean six creates for three updates, on average.
# 2. The [**key**](../docs/glossary.md#key): each event carries its order's id as key. Events with the same key go to one place,
#    and Kafka keeps them in the order in which it got them. Lesson 02 is about this. (A client that sends again after
#    an error may swap two of them. The setting `enable.idempotence` prevents that; the shop's own load has it.)
# 3. The **two reports**. `produce` only puts the event into a queue of the client, here, in this
#    process. The broker's answer comes later: then the client calls `answered`. The user tells Locust
#    about both moments, once as `HANDED` and once as `KAFKA`.

# %%
# %%writefile "{lab.folder}/shop_user.py"
"""Users of a shop: each creates orders, and changes them now and then."""

import itertools
import json
import os
import random
import time

import gevent
from confluent_kafka import Producer
from locust import User, constant_throughput, events, task

producer = Producer(
    {
        "bootstrap.servers": os.environ["BOOTSTRAP"],
        "partitioner": "murmur2_random",  # hashes a key as Kafka's Java clients do
        "linger.ms": 5,  # waits this long for more events, then sends them together
        "message.timeout.ms": 2000,  # no answer by then: the send has failed
    }
)
journal = open(os.environ["JOURNAL"], "w", buffering=1)
orders, sends = itertools.count(1), itertools.count(1)


class Shopper(User):
    wait_time = constant_throughput(10)  # tasks a second, for each user

    def on_start(self):
        self.orders = []  # the orders of this user that are still open
        self.create()

    @task(6)
    def create(self):
        order_id = f"O-{next(orders)}"
        self.orders.append(order_id)
        self.send("create", order_id)

    @task(3)
    def update(self):
        if self.orders:
            self.send("update", random.choice(self.orders))

    def send(self, op, order_id):
        event = {"event_id": f"E-{next(sends)}", "op": op, "order_id": order_id}
        event |= {"amount": random.randint(500, 9900) / 100, "order_ts": time.time()}
        handed_at = time.time()

        def answered(error, message):
            note(event, "failed" if error else "acknowledged", message)
            report("KAFKA", op, handed_at, error and Exception(error.str()))

        producer.produce(os.environ["TOPIC"], json.dumps(event), order_id, on_delivery=answered)
        note(event, "handed over")
        report("HANDED", op, handed_at)


def report(kind, op, handed_at, exception=None):
    """Tell Locust about a request."""
    milliseconds = (time.time() - handed_at) * 1000
    events.request.fire(
        request_type=kind,
        name=op,
        response_time=milliseconds,
        response_length=0,
        exception=exception,
    )


def note(event, what, message=None):
    """Write a line into our own journal."""
    place = (message.partition(), message.offset()) if what == "acknowledged" else (-1, -1)
    line = (time.time(), event["event_id"], event["op"], event["order_id"], what, *place)
    print(*line, sep="\t", file=journal)


@events.test_start.add_listener
def take_answers(**_):
    """The client calls `answered` only from inside `poll`: keep calling it."""

    def poll():
        while True:
            producer.poll(0)
            gevent.sleep(0.01)

    gevent.spawn(poll)


@events.test_stop.add_listener
def wait_for_answers(**_):
    """A run ends when every event has its answer."""
    while len(producer):
        gevent.sleep(0.01)


# %% [markdown]
# Now we let ten of these users run for four seconds. `LocustRun` starts the command that the first
# line of the output shows, and ends it after that time, as Ctrl+C in a terminal would. At its end
# Locust prints a report.
#
# **Predict:** ten users, ten tasks a second each, four seconds. How many events will be
# acknowledged? A guess that is at most 60 off counts.

# %%
my_guess = ...
lab.predict("01.p1", my_guess, tolerance=60)

# %%
from lab_env.shop.locust_run import LocustRun
from lab_env.shop.topics import ensure_topic

BROKER = lab.endpoints.kafka_bootstrap
shop_user = lab.folder / "shop_user.py"
journal_file = lab.folder / "first.tsv"

ensure_topic(BROKER, lab.topic("first"))
first = LocustRun(
    shop_user,
    users=10,
    seconds=4,
    BOOTSTRAP=BROKER,
    TOPIC=lab.topic("first"),
    JOURNAL=str(journal_file),
)
print(first.command)

with first:
    pass

print(first.report)

# %%
requests = first.requests.set_index(["type", "name"])
acknowledged = requests.loc["KAFKA", "requests"].sum() - requests.loc["KAFKA", "failures"].sum()
lab.record_actual("01.p1", acknowledged)

# %%
requests

# %% name="first-report" proof="Locust sent about 100 events per second, two creates per update, without a failure."
creates, updates = requests.loc["KAFKA", "requests"]
assert requests["failures"].sum() == 0
# At most 10 x 10 x 4, and one as each user starts; a busy machine sends fewer.
assert 100 < acknowledged < 440
assert 1.2 < creates / updates < 3.5  # the weights say 2, give or take chance
assert requests.loc["HANDED", "p50_ms"].max() < requests.loc["KAFKA", "p50_ms"].min()

# %% [markdown]
# The rate is *users × tasks a second*, so about 400 in four seconds. The weights give two creates
# for one update, on average: each user draws its next task by chance.
#
# Now compare the response times of `HANDED` and `KAFKA`, in the columns `p50_ms` and `p95_ms`. A
# [**percentile**](../docs/glossary.md#percentile) is the time that a given share of the answers did not exceed: for `p95_ms`, 95 of 100
# answers. `HANDED` takes no time at all, because it measures a queue in our own memory. Only `KAFKA`
# measures the broker. A load test that reports a success when `produce` returns looks like the `HANDED`
# rows: fast, and without a failure, whatever the broker does.
#
# ### Exercise 01.1 · A task with the right weight
#
# In the real shop, **every tenth event** is a cancellation. Give the user a third task, `cancel`, with
# the weight that makes it so beside the weights 6 and 3. The task takes one of the user's open orders,
# `self.orders`, and sends it with the operation `"cancel"`. Nothing may happen to an order after its
# cancellation.
#
# The check adds your task to `Shopper`, runs ten hurried users for a moment on a topic of its own, and
# reads what the topic holds.


# %% exercise="01.1"
def cancel(self):
    """Cancel one of this user's open orders."""
    # BEGIN SOLUTION
    if self.orders:
        self.send("cancel", self.orders.pop(0))
    # END SOLUTION


cancel_weight = 1  # SOLUTION
lab.check("01.1", (cancel, cancel_weight))

# %% [markdown] hint="01.1"
# Weights are not percent. A task of weight w is drawn with probability w / (sum of all weights).
# Which w makes w / (6 + 3 + w) a tenth?

# %% [markdown] hint="01.1"
# `update` above shows how to send. An order that stays in `self.orders` will be updated or cancelled
# again. `list.pop` takes an element out of a list and returns it.


# %% right="01.1"
import random


def cancel_a_random_order(shopper):
    random.shuffle(shopper.orders)
    for order_id in shopper.orders[:1]:
        shopper.orders.remove(order_id)
        shopper.send("cancel", order_id)


cancel, cancel_weight = cancel_a_random_order, "1"


# %% wrong="01.1"
# expect: Weights are compared with each other
def cancel(self):
    if self.orders:
        self.send("cancel", self.orders.pop())


cancel_weight = 10

# %% wrong="01.1"
# expect: after their cancellation
import random


def cancel(self):
    if self.orders:
        self.send("cancel", random.choice(self.orders))


cancel_weight = 1

# %% [markdown] tags=["instructor"]
# *For instructors.* Ten minutes up to here, with the exercise. Nearly everybody answers 10 first and
# takes weights for percent: let them, the message explains it. Draw the two moments on a time line:
# `produce` returns, the broker answers. Ask which of them a web shop's customer waits for.

# %% [markdown]
# ## How fast?
#
# Our own journal has a line for each event that was handed over, and one for each answer. So we can
# draw what Locust's closing report hides: the rate over time.

# %%
import pandas as pd
from IPython.display import HTML

from lab_env.display import chart

COLUMNS = ["time", "event_id", "op", "order_id", "what", "partition", "offset"]


def read_journal(file):
    """The journal of a run, its times in seconds since the first line."""
    journal = pd.read_csv(file, sep="\t", names=COLUMNS)
    journal["second"] = journal["time"] - journal["time"].min()
    return journal


def rate(journal, what, width=0.5):
    """Events a second, for each half second of the run."""
    bins = (journal["second"] // width).astype(int)
    counts = journal[journal["what"] == what].groupby(bins)["event_id"].count()
    counts = counts.reindex(range(bins.max() + 1), fill_value=0)
    return counts.set_axis((counts.index + 0.5) * width) / width


first_journal = read_journal(journal_file)
acknowledged_rate = rate(first_journal, "acknowledged")

figure, axes = chart.new_chart("Ten users, ten tasks a second each", "seconds", "events a second")
axes.plot(acknowledged_rate, color=chart.COLOURS["cow"], linewidth=2, label="acknowledged")
axes.axhline(100, color="#999999", linestyle="--", linewidth=1, label="10 × 10")
axes.set_ylim(0)
axes.legend()
HTML(chart.svg(figure))

# %% proof="Each user's pace limits the rate, and Locust's report counts what the journal counts."
steady = acknowledged_rate[(acknowledged_rate.index > 1) & (acknowledged_rate.index < 3.5)]
assert steady.mean() < 120  # the pace is an upper limit
assert (first_journal["what"] == "acknowledged").sum() == acknowledged  # Locust counts as we do

# %% [markdown]
# `wait_time` sets the pace. Locust offers several functions for it; they differ in what their number
# means:
#
# | `wait_time` | its number is | the user sends |
# |---|---|---|
# | `constant(n)` | seconds of rest after each task | one event each n seconds, less when a task takes long |
# | `constant_pacing(n)` | seconds from the start of one task to the start of the next | one event each n seconds |
# | `constant_throughput(n)` | tasks a second | n events a second |
#
# All three hold for *one* user. And all three are upper limits: when a task takes longer than the
# pace allows, the user falls behind and Locust does not make it up. So never believe the rate that you
# asked for. Measure the rate that you got.
#
# ### Exercise 01.2 · A target rate
#
# Twenty users shall send **500 events a second in total**. Write the `wait_time` as you would write it
# in the file, as a text in quotes. The check runs twenty users for a moment. It reads the pace that
# they ask for, and measures the rate that they get.

# %% exercise="01.2"
wait_time = "constant_throughput(25)"  # SOLUTION
lab.check("01.2", wait_time)

# %% [markdown] hint="01.2"
# The number is for each user. How many events a second must one of twenty users send?

# %% [markdown] hint="01.2"
# Look at the middle column of the table: which of the functions takes tasks a second?

# %% right="01.2"
wait_time = "wait_time = constant_pacing(1 / 25)"

# %% right="01.2"
wait_time = "locust.poisson(25)"

# %% wrong="01.2"
# expect: so 20 users send 0.8 events a second
wait_time = "constant_pacing(25)"

# %% wrong="01.2"
# expect: The pace is that of one user
wait_time = "constant_throughput(500)"

# %% [markdown]
# Real load is not steady. A shop has quiet hours, and a sale that begins at noon sharp. In Locust, a
# [**load shape**](../docs/glossary.md#load-shape) decides how many users there are at each moment: a class with a method `tick`, which
# Locust calls about once a second. It returns two numbers: how many users there shall be, and how many
# may start or stop in one second. When it returns `None`, the test ends.
#
# ### Exercise 01.3 · A burst
#
# Write the `tick` of this sale: 5 users until second 2, then 25 users until second 5, then 5 users
# until second 7, then the end. The 25 must be there within a second, and gone within a second.
# `self.get_run_time()` gives the seconds since the start.
#
# The check calls your `tick` once in each second and works out how many users there are, by the rule of one
# Locust process: users start *and stop* at the speed that you allow, and when `tick` returns other numbers
# than before, Locust goes on from there. (A master with workers calls `tick` again only when all users run.)


# %% exercise="01.3"
def tick(self):
    """How many users there shall be now, and how many may start or stop in a second."""
    # BEGIN SOLUTION
    seconds = self.get_run_time()
    if seconds < 2:
        return 5, 20
    if seconds < 5:
        return 25, 20
    if seconds < 7:
        return 5, 20
    return None
    # END SOLUTION


lab.check("01.3", tick)

# %% [markdown] hint="01.3"
# Begin with `seconds = self.get_run_time()`, then one `if seconds < ...: return users, start_rate`
# after the other, in the order of time.

# %% [markdown] hint="01.3"
# From 5 to 25 users, 20 must start. If they may take a second, 20 start in a second.


# %% right="01.3"
def tick(self):
    stages = [(2, 5), (5, 25), (7, 5)]
    return next(((users, 25.0) for end, users in stages if self.get_run_time() <= end), None)


# %% wrong="01.3"
# expect: Between second 4 and second 5 you reach 5 users
def tick(self):
    stages = [(2, 5), (4, 25), (7, 5)]
    return next(((users, 20) for end, users in stages if self.get_run_time() < end), None)


# %% wrong="01.3"
# expect: Between second 5 and second 6 you reach 25 users
def tick(self):
    stages = [(2, 5), (6, 25), (7, 5)]
    return next(((users, 20) for end, users in stages if self.get_run_time() < end), None)


# %% wrong="01.3"
# expect: only 8 users
def tick(self):
    seconds = self.get_run_time()
    if seconds < 2:
        return 5, 5
    if seconds < 5:
        return 25, 1
    if seconds < 7:
        return 5, 5
    return None


# %% wrong="01.3"
# expect: returns None ends the test
def tick(self):
    seconds = self.get_run_time()
    if seconds < 2:
        return 5, 25
    if seconds < 5:
        return 25, 25
    return None


# %% [markdown] tags=["instructor"]
# *For instructors.* Ten minutes. The confusion of pacing and throughput is the point: `constant_pacing(25)`
# looks right, runs without an error, and makes a load test that tests nothing. If there is time, let
# somebody run a shape for real: put a subclass of `LoadTestShape` with that `tick` into a copy of the
# file and start it with `LocustRun(..., seconds=None)`.

# %% [markdown]
# ## Did everything arrive?
#
# Twenty users, 200 events a second in all. After two seconds we hold the broker still for three and a
# half seconds: its process lives, its port is open, but it answers nothing. A broker that is
# overloaded, or whose disk hangs, looks like this. The users know nothing of it and go on.
#
# **Predict:** how many failures will Locust count for `HANDED`? A guess that is at most 10 off counts.

# %%
my_guess = ...
lab.predict("01.p2", my_guess, tolerance=10)

# %%
import time

journal_file = lab.folder / "paused.tsv"
ensure_topic(BROKER, lab.topic("paused"))

with LocustRun(
    shop_user,
    users=20,
    seconds=7.5,
    BOOTSTRAP=BROKER,
    TOPIC=lab.topic("paused"),
    JOURNAL=str(journal_file),
) as run:
    time.sleep(2)
    with lab.paused("kafka"):
        still_from = time.time()
        time.sleep(3.5)
        still_until = time.time()

by_type = run.requests.groupby("type")[["requests", "failures"]].sum()
by_type

# %%
lab.record_actual("01.p2", by_type.loc["HANDED", "failures"])

# %%
paused = read_journal(journal_file)
start = paused["time"].min()

figure, axes = chart.new_chart(
    "Zero failures, says the one who does not wait for the answer",
    "seconds",
    "events a second",
    height=3.4,
)
axes.axvspan(
    still_from - start, still_until - start, color="#999999", alpha=0.3, lw=0, label="broker still"
)
for what, colour in [("handed over", "json"), ("acknowledged", "cow"), ("failed", "dead")]:
    axes.plot(rate(paused, what), color=chart.COLOURS[colour], linewidth=2, label=what)
axes.legend(loc="upper left")
HTML(chart.svg(figure))

# %% proof="While the broker was frozen, HANDED reported no failure and nothing was acknowledged."
still = paused[paused["time"].between(still_from + 0.3, still_until)]
assert by_type.loc["HANDED", "failures"] == 0
assert by_type.loc["KAFKA", "failures"] > 50
assert (still["what"] == "handed over").sum() > 200  # the users went on
assert (still["what"] == "acknowledged").sum() == 0

# %% [markdown]
# `HANDED` saw nothing: every event was handed over, in no time, without a failure. The journal of the
# answers tells another story. During the pause no event was acknowledged. Events that had waited for
# two seconds, our `message.timeout.ms`, were given up and reported as failed. When the broker came
# back, the events that were younger than that went out in one burst.
#
# So two settings decide whether a load test can see a loss at all: success must be reported **when the
# answer comes**, and `message.timeout.ms` must be set. Its default is five minutes. Our file waits for
# all answers at its end, so without the setting it would wait five minutes for a dead broker. A file that
# does not wait ends before the first event is given up, and reports zero failures.
#
# What became of the failed ones? The topic knows. `read_topic` reads all its messages.

# %%
import json

from lab_env.shop.topics import read_topic

in_topic = {json.loads(m.value())["event_id"] for m in read_topic(BROKER, lab.topic("paused"))}
events_by_fate = {
    what: set(paused.loc[paused["what"] == what, "event_id"])
    for what in ("handed over", "acknowledged", "failed")
}
fates = pd.DataFrame(
    {
        "events": {what: len(events) for what, events in events_by_fate.items()},
        "in the topic": {what: len(events & in_topic) for what, events in events_by_fate.items()},
    }
)
fates

# %%
acknowledged, failed = events_by_fate["acknowledged"], events_by_fate["failed"]
print(f"{len(failed & in_topic)} of {len(failed)} failed sends are in the topic all the same")

# %% name="what-failed-means" proof="Every acknowledged event is in the topic; some that HANDED counted as sent are not."
assert acknowledged <= in_topic  # what the broker promised is there
assert events_by_fate["handed over"] - in_topic  # not all arrived that HANDED called a success
assert acknowledged | failed == events_by_fate["handed over"]
assert not acknowledged & failed

# %% [markdown]
# Look at the last row. Every acknowledged event is in the topic: that is what an acknowledgement
# means with `acks=all`, the client's default. (With `acks=0` the client does not wait for the broker, and calls each
# send a success.) A *failed* one may be there too. "Failed" by time-out means only that no answer came in time:
# the event may have been on its way already. Nobody can tell from the answers alone. Therefore the
# course's own record knows three states:
#
# - [**acknowledged**](../docs/glossary.md#acknowledgement): it is in the topic;
# - **failed**: it certainly is not, because it never left, or the broker refused it;
# - [**unknown**](../docs/glossary.md#unknown-send): nobody answered. Only a look into the topic can tell.
#
# And a user who sends a failed event once more may have sent it twice. Duplicates are not a sign of
# bad programs. They are the price of not losing anything.

# %% [markdown] tags=["instructor"]
# *For instructors.* Ten minutes, the heart of the lesson. Collect the predictions aloud: some say 700
# (the events of the pause), few say 0. Common error afterwards: "so failed means lost". Point at the
# last row of the table. How many failed sends arrive differs from run to run: what lay in the
# socket's buffers when the broker stopped arrives, the rest does not.

# %% [markdown]
# ## The shop's own load
#
# From here on the course uses a user that is built like ours, only grown up: `lab.load`. Its file is
# `lab_env/shop/locustfile.py`. It adds four things:
#
# - **It runs in several processes** when one is not enough: Locust's *master* starts workers, splits
#   the users among them and adds up their numbers.
# - **It has Locust's web page**, where you watch the run and change the number of users.
# - **It misbehaves on purpose**, as real sources do. Some updates arrive [**late**](../docs/glossary.md#late-event), after newer ones. Some
#   events are [**resent**](../docs/glossary.md#resend), so they arrive twice. Some are [**malformed**](../docs/glossary.md#malformed-event).
# - **It keeps a ledger**: a journal like ours, with the three states, in files outside Kafka and Spark.
#
# This cell starts it, on two processes, and does not wait. Open the link while it runs.

# %%
from lab_env.settings import settings

load = lab.load(
    rate=400, users=20, processes=2, web_port=settings().locust_port, show=False
).start()
print("Locust's page:", load.url)

# %% [markdown]
# The page asks Locust for its numbers at an address of its own, `/stats/requests`. So can we. The
# request type is `KAFKA`, and the names are the operations of the shop.

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
# When you have seen enough, stop it. It takes in the last answers, and leaves no process behind.

# %%
lost = load.stop()
stats = load.stats

figure, axes = chart.new_chart("The shop's load on two processes", "seconds", "events a second")
axes.plot(stats["seconds"], stats["rate"], color=chart.COLOURS["cow"], linewidth=2, label="rate")
axes.set_ylim(0)
times = axes.twinx()
times.plot(
    stats["seconds"], stats["p95_ms"], color=chart.COLOURS["json"], linestyle=":", linewidth=2
)
ink = axes.xaxis.label.get_color()
times.set_ylim(0, 1.2 * stats["p95_ms"].max())
times.set_ylabel("p95 of the answers, ms (dotted)", color=ink)
times.tick_params(colors=ink)
times.spines[:].set_visible(False)
HTML(chart.svg(figure))

# %% [markdown]
# The hump at the end is no mistake: the shop holds some events back to send them late, and when the
# load ends it lets go of all of them. Now the ledger:

# %%
lab.ledger()

# %% [markdown]
# The ledger counts by kind. `event` is the ordinary case; the other three are the trouble. Does it
# agree with the topic? `settle` reads the topic and holds each message against the ledger.

# %%
settled = lab.ledger().settle(BROKER, lab.topic("orders"))
sent_by = [
    len(file.read_text().splitlines()) for file in lab.ledger().directory.glob("*.sends.tsv")
]
frame = lab.ledger().frame()
print("events sent by each process:", sent_by)
settled

# %% name="ledger-against-topic" proof="Two workers shared the load, and the ledger agrees with the topic to the message."
kinds = frame["kind"].str.partition(":")[0].value_counts()
assert lost == 0
assert settled.ok and settled.messages == (frame["state"] == "acked").sum() > 400
assert len(sent_by) == 2 and min(sent_by) > 0.3 * sum(sent_by)  # two workers shared the load
assert {"event", "late", "resend", "malformed"} == set(kinds.index)

# %% [markdown]
# They agree to the message. Here is one order that had bad luck, in the order in which the topic
# holds its events. Its [**offset**](../docs/glossary.md#offset) is an event's place in its part of the topic.

# %%
late_orders = frame.loc[frame["kind"] == "late", "order_id"]
life = frame[frame["order_id"] == late_orders.iloc[0]].sort_values("offset")
life = life.assign(event_time=pd.to_datetime(life["order_ts"], unit="us").dt.time)
life[["partition", "offset", "kind", "op", "event_id", "event_time"]]

# %% proof="Only late events go back in time, and each order stays in one partition."
versions = frame[frame["kind"].isin(["event", "late"])].sort_values(["order_id", "offset"])
goes_back = versions.groupby("order_id")["order_ts"].diff() < 0
assert versions.loc[goes_back, "kind"].eq("late").all() and goes_back.sum() > 0
assert frame[frame["state"] == "acked"].groupby("order_id")["partition"].nunique().max() == 1

# %% [markdown]
# In the row marked `late` the event time goes back: that version of the order is older than the one
# above it. A table that simply takes the last event for the truth would now show old data. Lesson 04
# shows this damage, and what prevents it.

# %% [markdown] tags=["instructor"]
# *For instructors.* Five minutes. Open Locust's page on the projector and change the number of users
# while it runs; the chart follows. Two processes on two cores make no more events than one at this
# rate: they are here to be seen. Ask why all events of the order have the same partition (the key).

# %% [markdown]
# ## Key points
#
# - A Locust user is a class with weighted tasks. Weights are compared with each other; they are not
#   percent.
# - The rate is users × pace, and the pace is that of one user. It is a limit, not a promise: measure.
# - A send is a success when the broker has answered, not when the client took it. With the default
#   `message.timeout.ms`, a short test that does not wait for all answers does not notice a dead broker.
# - Everything acknowledged is in the topic. What timed out may be there too: its state is unknown.
# - The ledger stands outside the pipeline. In every lesson it decides what must be in the tables.
#
# ## What's next
#
# Your events now arrive at any rate you like. Lesson 02 asks where: which of the topic's partitions
# they go to, and why one reader may be busy while the others idle.
