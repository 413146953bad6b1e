# ---
# title: "How do I learn, before the customer does, that something is wrong, and what?"
# minutes: {teach: 30, do: 38}
# needs: ["03", "06", "09", "10"]
# services: [minio, kafka, exporter, prometheus]
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 19 · How do I learn, before the customer does, that something is wrong, and what?
#
# ## Questions
#
# - The stream hangs. What do the dashboards show, and which of them are right?
# - When should somebody be woken, and when not?
# - All lamps are green and the table is wrong. Which query finds it?
# - A ticket says "the board is old". What is the cause, and which number proves it?
#
# ## Objectives
#
# At the end of this lesson you can
#
# - count from outside what a stream has not read (19.1),
# - write an alert that fires when a customer waits, and only then (19.2),
# - validate a table per partition against what the shop expects (19.3),
# - name the cause of a complaint, with the number that proves it (19.4).
#
# ## What you need
#
# Lesson 03: the checkpoint. Lesson 06: log files and compaction. Lessons 09 and 10: read-optimised
# queries and savepoints. Lessons 04, 07 and 17 help with one ticket each. 68 minutes, with a good
# place to pause after the second section, and an appendix.
#
# One service of this lesson, Prometheus, is built from its sources at its first start. That fetches
# 0.2 GB and takes three minutes on two free cores, once. Run `lab up prometheus` in a terminal now.

# %% [markdown]
# ## Start
#
# [**Prometheus**](../docs/glossary.md#prometheus) reads numbers from web pages (it *scrapes* them), here once a
# second, stores them, and applies rules to them. The *exporter* is a small program of this lab that serves such a
# page.

# %%
from lab_env import Lab
from lab_env.pipeline.session import INTERPRETED
from lab_env.shop.record import recording

lab = Lab.start("19", "exporter", "prometheus")
topic = lab.topic("orders")
sends = [send for send in recording() if not send.kind.startswith("malformed")]
sends = sends[4800:]  # around midnight, so that the orders are of two days
lab.replay(topic, n=400, sends=sends)

# %% [markdown]
# Spark can publish its own numbers on a page of the Spark UI, in Prometheus's format. This is done by a *metrics
# sink* (not a stream's sink), which must be configured before the session starts. Each name begins with the
# namespace; by default that is the application's id, which changes at every restart.

# %%
spark = lab.start_spark(
    {
        "spark.metrics.namespace": "shop",
        "spark.metrics.conf.*.sink.prometheusServlet.class": (
            "org.apache.spark.metrics.sink.PrometheusServlet"
        ),
        "spark.metrics.conf.*.sink.prometheusServlet.path": "/metrics/prometheus",
        "spark.sql.streaming.metricsEnabled": "true",  # streaming queries, too
        # Tables of a few hundred rows: to compile a query costs more than the compiled one saves.
        **INTERPRETED,
    }
)

# %% [markdown]
# The shop's stream is that of lesson 04: order events from Kafka into a Merge-on-Read table, with the options of
# a small demonstration table. Nobody compacts it.

# %%
from pyspark.sql import functions as F

from lab_env.pipeline.options import COMPACTION_OFF, DEMO_OPTIONS
from lab_env.pipeline.parsing import parse, read_topic
from lab_env.pipeline.sinks import event_rows

ORDERS = {
    **DEMO_OPTIONS,
    **COMPACTION_OFF,
    "hoodie.table.name": "orders",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "order_id",
    "hoodie.table.ordering.fields": "order_ts",
    "hoodie.datasource.write.partitionpath.field": "partition_date",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.index.bloom.num_entries": "1000",  # a small key filter for small files
    # New orders begin files of their own. Otherwise Hudi adds them to small files, and rewrites
    # those with their updates: in so small a table that compacts nearly everything.
    "hoodie.parquet.small.file.limit": "0",
}

# %% [markdown]
# ## Three witnesses
#
# Soon the stream will hang. First we set up three witnesses that could tell us.
#
# Hudi can publish numbers, too. Its reporter `PROMETHEUS` opens a port, by default 9090; so does Prometheus, so give
# the reporter another one. It listens on all addresses of this machine, without a password (measured below). On a
# network that you do not trust, leave out `**METRICS` and the lines that read Hudi's page.

# %%
from lab_env.platform.processes.ports import free_port

hudi_port = free_port(9096)
METRICS = {
    "hoodie.metrics.on": "true",
    "hoodie.metrics.reporter.type": "PROMETHEUS",
    "hoodie.metrics.prometheus.port": str(hudi_port),
}
KAFKA = lab.endpoints.kafka_bootstrap
orders, checkpoint = lab.path("orders"), lab.path("_checkpoints/orders")
query = (
    event_rows(parse(read_topic(spark, KAFKA, topic)))
    .writeStream.format("hudi")
    .queryName("orders")
    .options(**ORDERS, **METRICS)
    .option("checkpointLocation", checkpoint)
    .trigger(processingTime="1 second")
    .start(orders)
)
query.processAllAvailable()  # for tests: wait until everything is read

# %% [markdown]
# The **first witness** is the process itself, on two pages: Spark's numbers of the query, and some of Hudi's
# numbers of its last write.

# %%
from lab_env.lessons.l19.figures import metric_lines

spark_page = f"{spark.sparkContext.uiWebUrl}/metrics/prometheus/"
hudi_page = f"http://127.0.0.1:{hudi_port}/metrics"
print(*metric_lines(spark_page, "streaming_orders.*Value"), sep="\n")
print(*metric_lines(hudi_page, "deltacommit_duration", "totalRecordsWritten"), sep="\n")

# %% [markdown]
# The **second witness** is the application's own report. Spark calls a
# [`StreamingQueryListener`](https://spark.apache.org/docs/3.5.7/structured-streaming-programming-guide.html#reporting-metrics-programmatically-using-asynchronous-apis)
# after each batch. Its report says among other things how many messages the query is behind the end of the topic, in
# the worst partition. Like many teams, we publish this number on a page of the notebook's own Python.

# %%
import math

from prometheus_client import CollectorRegistry, Gauge, start_http_server
from pyspark.sql.streaming import StreamingQueryListener

registry = CollectorRegistry()
behind = Gauge("shop_messages_behind", "by the listener's last report", registry=registry)
behind.set(math.nan)  # until there is a report: a new gauge would say 0


class Reporter(StreamingQueryListener):
    def onQueryProgress(self, event):
        behind.set(float(event.progress.sources[0].metrics["maxOffsetsBehindLatest"]))

    def onQueryStarted(self, event): ...
    def onQueryIdle(self, event): ...
    def onQueryTerminated(self, event): ...


spark.streams.addListener(Reporter())
notebook_port = free_port(9097)
server, _ = start_http_server(notebook_port, addr="127.0.0.1", registry=registry)

# %% [markdown]
# The **third witness** stands outside: a count of what the stream has not read, made without its process. It needs the
# end of each topic partition, from Kafka, and the stream's batches, from the checkpoint (lesson 03).

# %%
from lab_env.pipeline.checkpoint import read_checkpoint
from lab_env.platform.brokers.topics import topic_end_offsets

print(topic_end_offsets(KAFKA, topic))
read_checkpoint(lab.endpoints, checkpoint)

# %% [markdown]
# ### Exercise 19.1 · Count from outside
#
# Write the function. `ends` has the offset after the newest message of each partition. `batches` are the
# checkpoint's batches in order, each with `number`, `start` and `end` (partition to offset), and `committed`. Return
# a dictionary: for each partition of the topic, how many messages the table may still lack.


# %% exercise="19.1"
def unread(ends, batches):
    # BEGIN SOLUTION
    done = [batch for batch in batches if batch.committed]
    read = done[-1].end if done else {}
    return {number: end - read.get(number, 0) for number, end in ends.items()}
    # END SOLUTION


lab.check("19.1", unread)

# %% [markdown] hint="19.1"
# A batch is planned first (`offsets/N`) and committed last (`commits/N`). Which of them has its
# messages in the table?

# %% [markdown] hint="19.1"
# The last batch with `committed` tells how far the stream has read. Go over the partitions of
# `ends`: a partition that the batch does not name has been read up to 0.


# %% right="19.1"
# As a table, where each partition gets a line.
import pandas as pd


def unread(ends, batches):
    read = {}
    for batch in batches:
        if batch.committed:
            read.update(batch.end)
    rows = [(number, ends[number] - read.get(number, 0)) for number in sorted(ends)]
    return pd.DataFrame(rows, columns=["partition", "unread"])


# %% right="19.1"
# With pandas, from the newest committed batch.
import pandas as pd


def unread(ends, batches):
    left = pd.Series(ends)
    for batch in reversed(batches):
        if batch.committed:
            return left.sub(pd.Series(batch.end), fill_value=0).astype(int)
    return left


# %% wrong="19.1"
# expect: changes the list
def unread(ends, batches):
    while batches and not batches[-1].committed:
        batches.pop()
    done = batches[-1].end if batches else {}
    return {partition: end - done.get(partition, 0) for partition, end in ends.items()}


# %% wrong="19.1"
# expect: Planned is not done
def unread(ends, batches):
    return {number: end - batches[-1].end.get(number, 0) for number, end in ends.items()}


# %% wrong="19.1"
# expect: is missing from your answer
def unread(ends, batches):
    done = [batch for batch in batches if batch.committed]
    read = done[-1].end if done else dict.fromkeys(ends, 0)
    return {number: ends[number] - read[number] for number in read}


# %% wrong="19.1"
# expect: messages are unread, and you count
def unread(ends, batches):
    return {
        number: sum(batch.end.get(number, 0) - batch.start.get(number, 0) for batch in batches)
        for number in ends
    }


# %% [markdown]
# The lab's exporter makes the same count each second, for several pipelines. It also reads the timestamp of the
# first unread message, and the table's timeline. `lab.watch` tells it what to look at. Prometheus already scrapes
# the exporter. Add the other pages:

# %%
from lab_env.lessons.l19.figures import jvm_of_session, scrape_config

lab.watch("orders", topic=topic, checkpoint=checkpoint, table=orders)
jvm = jvm_of_session()
pages = scrape_config(
    {
        "spark": spark_page,
        "hudi": hudi_page,
        "notebook": f"http://127.0.0.1:{notebook_port}/metrics",
    },
    namespace=lab.namespace,
)
lab.prometheus.scrape(pages)
print(pages)

# %% [markdown]
# Each number carries *labels*; `OUTSIDE` selects our stream by two of them. `LAG` is a query in Prometheus's
# language, PromQL: the newest value of each partition within 5 seconds, summed.

# %%
from lab_env.lessons.l19.figures import show_numbers

for sent in (400, 500):
    lab.replay(topic, n=100, skip=sent, sends=sends)
    query.processAllAvailable()

OUTSIDE = f'{{namespace="{lab.namespace}", pipeline="orders"}}'
LAG = f"sum(last_over_time(pipeline_lag_messages{OUTSIDE}[5s]))"
numbers = lab.pipeline_metrics()
show_numbers(numbers[numbers["pipeline"] == "orders"])

# %% proof="All pages are read, and Hudi's page is open to the network."
import psutil

pages_up = lab.prometheus.query('max_over_time(up{job=~"spark|hudi|notebook|pipeline"}[30s])')
assert len(pages_up) == 4 and set(pages_up["value"]) == {1}
ports = [c.laddr for c in psutil.Process(jvm).net_connections() if c.status == "LISTEN"]
assert [at.port for at in ports if at.ip in ("::", "0.0.0.0")] == [hudi_port]

# %% [markdown]
# Remember one of these numbers, the age of the **oldest unread message**: for how long has a customer been waiting?
#
# Now the stream hangs, as in an endless garbage collection. We freeze the JVM with the signal SIGSTOP: its ports stay
# open, but it does nothing. Meanwhile 100 more events arrive. Your function counts 100; what do the other two
# witnesses say?
#
# **Predict:** five seconds later, what does Prometheus return for the stream's numbers on Spark's page? And what does
# it return for the listener's number, the messages that the stream is behind?

# %%
CHOICES = ("the true number", "its last number", "nothing")
lab.predict("19.p1", ..., choices=CHOICES)  # Spark's page

# %%
lab.predict("19.p2", ..., choices=CHOICES)  # the listener's number

# %%
import time

from lab_env.lab.faults.freeze import frozen
from lab_env.lessons.l19.figures import wait_until

lab.use_reference("19.1")
freezes, began = [], time.time()
with frozen(jvm):
    lab.replay(topic, n=100, skip=600, sends=sends)
    wait_until(lambda: lab.prometheus.query(LAG)["value"].max() == 100, "100 are counted", 60)
    time.sleep(5)
    during_freeze = {
        "spark": lab.prometheus.query('up{job="spark"}')["value"].tolist(),
        "hudi": lab.prometheus.query('up{job="hudi"}')["value"].tolist(),
        "streaming": len(lab.prometheus.query('{job="spark", __name__=~".*treaming.*"}')),
        "listener": lab.prometheus.query("shop_messages_behind")["value"].tolist(),
        "exporter": lab.prometheus.query(LAG)["value"].tolist(),
        "you": unread(topic_end_offsets(KAFKA, topic), read_checkpoint(lab.endpoints, checkpoint)),
    }
freezes.append((began, time.time()))
query.processAllAvailable()
lab.record_actual("19.p1", "its last number" if during_freeze["streaming"] else "nothing")
by_listener = "its last number" if during_freeze["listener"] == [0] else "the true number"
lab.record_actual("19.p2", by_listener)
during_freeze

# %% name="a-hung-process" proof="A hung process is silent, its last report says 0, and the count from outside says 100."
assert (
    during_freeze["spark"] == [0]
    and during_freeze["hudi"] == [0]
    and during_freeze["streaming"] == 0
)
assert during_freeze["listener"] == [0] and during_freeze["exporter"] == [100]

# %% proof="Your function counts the 100 messages, without Spark."
from lab_env.lessons.l19.checks import by_partition

assert sum(by_partition(during_freeze["you"]).values()) == 100

# %%
from IPython.display import HTML

from lab_env.lessons.l19.figures import draw_over_time

since = time.time() - began + 8


def history(promql):
    return lab.prometheus.query_range(promql, since)


panels = {
    "Does Spark's page answer? (1: yes)": {"Spark's page": history('up{job="spark"}')},
    "Unread messages": {
        "counted outside": history(LAG),
        "the listener's report": history("shop_messages_behind"),
    },
}
HTML(draw_over_time(panels, freezes))

# %% [markdown]
# - **The process itself** falls silent when it hangs. In Prometheus its numbers are *gone*, not zero, and a rule
#   such as "lag above 100" compares nothing with 100, which is never true.
# - **The last report** stays as it was: 0 messages behind. The listener works, but nobody calls it. And even while the
#   stream runs, the report compares with the topic's end *when the batch was planned*. A stream without
#   `maxOffsetsPerTrigger` reads up to exactly there, so every report says 0.
# - **The count from outside** grows, and the exporter says how long customers have been waiting.
#
# Prometheus keeps the metric `up` for each page. An alert on `up == 0` finds a process that hangs or is dead. It
# misses a stream that has ended in a living process, and does not say how long customers wait. Tools that show the
# lag of Kafka's consumer groups see nothing: Spark keeps its offsets in the checkpoint, not in Kafka.
#
# Numbers from outside tell you *that* something is wrong; numbers from inside help you find out *why*.

# %% [markdown] tags=["instructor"]
# *For instructors.* 18 minutes. Draw three boxes: process, application, outside, and let people say where their own
# company measures the lag. Common in 19.1: the newest planned batch, and only the partitions that the
# checkpoint names (ticket D is that). The choice `last number` for Spark's page is the common one: Prometheus
# marks a series as stale when a scrape fails.

# %% [markdown]
# ## From a number to an alarm
#
# The shop promises: *95 percent of the time the oldest unread order is younger than 5 seconds.* Such a promise is
# a [**service level objective**](../docs/glossary.md#service-level-objective) (SLO). This one allows 72 minutes a
# day. In PromQL the name of a metric returns its value now. A comparison returns only the series for which it is
# true: none, when the stream has caught up.

# %%
UNREAD = f"pipeline_oldest_unread_seconds{OUTSIDE}"
lab.prometheus.query(UNREAD)

# %%
lab.prometheus.query(f"{UNREAD} > 5")

# %% [markdown]
# ### Exercise 19.2 · Alert on the right thing
#
# Write the alert. `expr` is PromQL: the alert is *pending* while it returns anything, and *firing* when that has
# gone on for the time in `for`. The alert
#
# - fires when the oldest unread message stays older than 5 s for 3 s, and when nobody can tell its age;
# - fires at most 12 s after the trouble began, and ends when the stream has caught up;
# - does not fire at night, when nobody orders, nor for a hiccup of two seconds, nor because many young messages wait.
#
# You may use every number above, and [PromQL's
# functions](https://prometheus.io/docs/prometheus/latest/querying/functions/). The check does not run your stream.
# `promtool`, Prometheus's own tool, tries your rule on ten made-up scenarios of 90 seconds.

# %% exercise="19.2"
alert = {
    "alert": "OrdersLate",
    "expr": f"{UNREAD} > 5 or absent({UNREAD})",  # SOLUTION
    "for": "3s",  # SOLUTION
}
lab.check("19.2", alert)

# %% [markdown] hint="19.2"
# Which number is 0 at night and small in a sale, and grows when the stream hangs?

# %% [markdown] hint="19.2"
# What does `x > 5` return when there is no `x`? PromQL has `or`, and a function `absent`.

# %% right="19.2"
# With `min_over_time`, so that one good sample ends the alert.
alert = {
    "alert": "OrdersLate",
    "expr": f"min_over_time({UNREAD}[4s]) > 5 or absent_over_time({UNREAD}[4s])",
    "for": "1s",
}

# %% right="19.2"
# On the age of the oldest unread message, which is what customers feel.
alert = """
- alert: CustomersWait
  expr: pipeline_oldest_unread_seconds{pipeline="orders"} > 5
  for: 3s
- alert: NobodyKnows
  expr: up{job="pipeline"} == 0 or absent(pipeline_oldest_unread_seconds{pipeline="orders"})
  for: 3s
"""

# %% wrong="19.2"
# expect: another team's
alert = {
    "alert": "OrdersLate",
    "expr": "pipeline_oldest_unread_seconds > 5 or absent(pipeline_oldest_unread_seconds)",
    "for": "3s",
}

# %% wrong="19.2"
# expect: Fired at 03:00, when nobody ordered
alert = {
    "alert": "OrdersLate",
    "expr": f"pipeline_last_commit_seconds{OUTSIDE} > 5 or absent({UNREAD})",
    "for": "3s",
}

# %% wrong="19.2"
# expect: at the first order after a quiet hour
SINCE = f"pipeline_last_commit_seconds{OUTSIDE} > 5"
alert = {
    "alert": "OrdersLate",
    "expr": f"({SINCE} and on(pipeline) {LAG.removeprefix('sum')} > 0) or absent({UNREAD})",
    "for": "3s",
}

# %% wrong="19.2"
# expect: The exporter died and your rule fell silent
alert = {"alert": "OrdersLate", "expr": f"{UNREAD} > 5", "for": "3s"}

# %% wrong="19.2"
# expect: Fired for a hiccup
alert = {"alert": "OrdersLate", "expr": f"{UNREAD} > 5 or absent({UNREAD})", "for": "0s"}

# %% wrong="19.2"
# expect: Fired during a sale
alert = {"alert": "OrdersLate", "expr": f"sum({LAG}) > 100 or absent({UNREAD})", "for": "3s"}

# %% wrong="19.2"
# expect: your rule did not fire
alert = {"alert": "OrdersLate", "expr": "shop_messages_behind > 100", "for": "3s"}

# %% equivalent="19.2"
# without 'alert': 'OrdersLate': a rule without a name gets one


# %% harmless="19.2"
# an entry less: a rule without a name gets one
# alert: off by one unit: the rule may have any name

# %% [markdown]
# Now the real thing: your rule goes to the running Prometheus, and the stream hangs again.
#
# **Predict:** how many seconds pass between the freeze and the alert?

# %%
lab.predict("19.p3", ..., tolerance=3)

# %%
import yaml

from lab_env.lessons.l19.checks import as_rules

lab.use_reference("19.2")
rules = as_rules(alert)  # whatever form your answer has
names = {rule.get("alert") for group in rules["groups"] for rule in group["rules"]}
lab.prometheus.rules(yaml.safe_dump(rules))


def firing():
    """Those of your alerts that fire now."""
    alerts = lab.prometheus.alerts()
    return alerts[alerts["name"].isin(names) & (alerts["state"] == "firing")]


# %%
began = time.time()
with frozen(jvm):
    lab.replay(topic, n=100, skip=700, sends=sends)
    wait_until(lambda: len(firing()), "your alert fires", seconds=40)
    seconds_to_fire, alerts = time.time() - began, firing()
    waits = lab.prometheus.query(UNREAD)["value"].max()
freezes.append((began, time.time()))
wait_until(lambda: firing().empty, "the alert ends", seconds=60)
gone = time.time() - freezes[-1][1]
print(f"fired {seconds_to_fire:.1f} s after the freeze, gone {gone:.1f} s after the thaw")
lab.record_actual("19.p3", round(seconds_to_fire, 1))
alerts

# %% name="it-rings" proof="The alert fires when a message has waited for five seconds, and ends after the thaw."
assert waits > 5  # not because the number is gone
assert 6 < seconds_to_fire < 30 and lab.prometheus.query(f"{UNREAD} > 5").empty

# %%
since = time.time() - began + 8
waited = {"oldest unread message": history(UNREAD)}
console = f"<a href='{lab.prometheus.console}' target='_blank'>The console of this pipeline</a>"
HTML(draw_over_time({"Seconds that a customer has waited": waited}, freezes[1:]) + console)

# %% [markdown]
# The delay is five seconds to the limit, the time in your `for`, and a second or two for the scrapes. With `for` you
# pay for fewer false alarms by a later alert; choose it on purpose.
#
# **A good place to pause.** To go on another day, type `lab goto 19c` in a terminal: it runs everything up to here
# again in a minute or two.

# %% [markdown] tags=["instructor"]
# *For instructors.* 13 minutes. Ask before 19.2: "which alert has woken you for nothing?" Nearly all answers are
# the wrong answers of the exercise. Common: the age of the last commit; no `absent`. Short of time: show the
# seconds and skip the picture.

# %% [markdown]
# ## The runbook
#
# The alert says nothing when the table is fresh and wrong. To find that, the shop compares the table with what it
# expects. Its accountants keep books of their own, from what the tills sent: for each day of creation the number of
# orders, their revenue, and the time of the newest change.

# %%
from lab_env.lessons.l19.checks import BOOKS_DDL
from lab_env.lessons.l19.figures import books_of

sent = 800
books = spark.createDataFrame(books_of(sends[:sent]), BOOKS_DDL)
books.show()

# %% [markdown]
# ### Exercise 19.3 · Does the table agree with the books?
#
# Write the function. `rows` are orders: `order_id`, `partition_date`, `amount`, `order_ts`. `books` has one row per
# day: `partition_date`, `orders`, `revenue`, `newest`. Return the days (`partition_date`) whose rows do not fit the
# books: orders are missing or doubled, the revenue or the newest change differs, or only one of the two has the day.


# %% exercise="19.3"
def find_wrong(rows, books):
    # BEGIN SOLUTION
    found = rows.groupBy("partition_date").agg(
        F.count("*").alias("rows"),
        F.countDistinct("order_id").alias("keys"),
        F.sum("amount").alias("total"),
        F.max("order_ts").alias("last"),
    )
    agrees = F.expr("rows = orders AND keys = orders AND total = revenue AND last = newest")
    both = books.join(found, "partition_date", "full")
    return both.where(~F.coalesce(agrees, F.lit(False))).select("partition_date")
    # END SOLUTION


lab.check("19.3", find_wrong)

# %% [markdown] hint="19.3"
# Four numbers per day: rows, different orders, the sum of the amounts, the newest change. What does
# each of them find that the other three do not?

# %% [markdown] hint="19.3"
# `rows.groupBy("partition_date").agg(...)`, then a full outer join. A comparison with NULL is NULL,
# and `where` drops it: `F.coalesce(..., F.lit(False))`.


# %% right="19.3"
# In SQL, with one comparison of whole rows.
def find_wrong(rows, books):
    rows.createOrReplaceTempView("table_rows")
    books.createOrReplaceTempView("books")
    found = """
        SELECT partition_date, count(*), count(DISTINCT order_id), sum(amount), max(order_ts)
        FROM table_rows GROUP BY partition_date"""
    expected = "SELECT partition_date, orders, orders, revenue, newest FROM books"
    return spark.sql(f"""
        SELECT DISTINCT partition_date FROM (
            ({found} EXCEPT {expected}) UNION ALL ({expected} EXCEPT {found}))""")


# %% right="19.3"
# Compares in Python, where each difference has to be explained.
def find_wrong(rows, books):
    found = rows.groupBy("partition_date").agg(
        F.expr("struct(count(*), count(DISTINCT order_id), sum(amount), max(order_ts)) AS found")
    )
    both = books.join(found, "partition_date", "full").collect()
    return [
        row.partition_date
        for row in both
        if row.found is None
        or tuple(row.found) != (row.orders, row.orders, row.revenue, row.newest)
    ]


# %% wrong="19.3"
# expect: revenue is more than that of the books
def find_wrong(rows, books):
    found = rows.groupBy("partition_date").agg(
        F.count("*").alias("n"),
        F.countDistinct("order_id").alias("k"),
        F.sum("amount").alias("r"),
        F.max("order_ts").alias("t"),
    )
    both = books.join(found, "partition_date", "full")
    fits = F.expr("n = orders AND k = orders AND abs(r - revenue) <= 0.01 AND t = newest")
    return both.where(~F.coalesce(fits, F.lit(False))).select("partition_date")


# %% wrong="19.3"
# expect: is not enough
def find_wrong(rows, books):
    found = rows.groupBy("partition_date").agg(
        F.count("*").alias("rows"), F.sum("amount").alias("total"), F.max("order_ts").alias("last")
    )
    agrees = F.expr("rows = orders AND total = revenue AND last = newest")
    both = books.join(found, "partition_date", "full")
    return both.where(~F.coalesce(agrees, F.lit(False))).select("partition_date")


# %% wrong="19.3"
# expect: neither an inner join
def find_wrong(rows, books):
    found = rows.groupBy("partition_date").agg(
        F.count("*").alias("rows"),
        F.countDistinct("order_id").alias("keys"),
        F.sum("amount").alias("total"),
        F.max("order_ts").alias("last"),
    )
    both = books.join(found, "partition_date")
    wrong = both.where("rows != orders OR keys != orders OR total != revenue OR last != newest")
    return [row.partition_date for row in wrong.collect()]


# %% wrong="19.3"
# expect: the newest change is older
def find_wrong(rows, books):
    found = rows.groupBy("partition_date").agg(
        F.count("*").alias("rows"),
        F.countDistinct("order_id").alias("keys"),
        F.sum("amount").alias("total"),
    )
    agrees = F.expr("rows = orders AND keys = orders AND total = revenue")
    both = books.join(found, "partition_date", "full")
    return both.where(~F.coalesce(agrees, F.lit(False))).select("partition_date")


# %% wrong="19.3"
# expect: fewer orders than the books
def find_wrong(rows, books):
    found = rows.groupBy("partition_date").agg(
        F.count("*").alias("rows"),
        F.countDistinct("order_id").alias("keys"),
        F.sum("amount").alias("total"),
        F.max("order_ts").alias("last"),
    )
    agrees = F.expr("rows <= orders AND keys = rows AND total <= revenue AND last >= newest")
    both = books.join(found, "partition_date", "full")
    return both.where(~F.coalesce(agrees, F.lit(False))).select("partition_date")


# %% equivalent="19.3"
# without .select('partition_date'): no other column of the answer is read
# SQL rows = orders → rows <= orders: never fewer rows than keys, and these are as many as the orders
# SQL keys = orders → keys >= orders: never more keys than rows, and these are as many as the orders


# %% harmless="19.3"
# a column more: the days are taken from `partition_date`
# a column renamed in case: days are days, in whichever column
# a row twice: a day that is reported twice is wrong once
# partition_date off by one unit: of a day with more text the first ten letters count, as in a timestamp
# two rows' partition_date exchanged: the days come in no order

# %%
from lab_env.lessons.l19.checks import days_of

lab.use_reference("19.3")


def validate(table):
    """The days on which a table disagrees with the books."""
    return sorted(set(days_of(find_wrong(spark.read.format("hudi").load(table), books))))


validate(orders)

# %% proof="The lesson's own table agrees with the books on every day."
assert validate(orders) == []

# %% [markdown]
# What would such totals miss? Two amounts that are wrong by the same sum, one up and one down, or an old status of an
# order that is not the newest.

# %% [markdown] tags=["instructor"]
# *For instructors.* 11 minutes. After 19.3 ask which mistakes the totals miss, before anybody reads on.

# %% [markdown]
# ## Six tickets
#
# ### Exercise 19.4 · Something is wrong
#
# Six tickets came in overnight. The streams of A, B and D have read all that they could, and stopped; your own goes
# on. The cell that hands the tickets over takes about 20 seconds.

# %%
import pandas as pd

from lab_env.platform.display.card import styled
from lab_env.lessons.l19.tickets import hand_over

tickets = hand_over(lab, query, ORDERS, sends, sent=sent, more=200)
books = spark.createDataFrame(books_of(sends[: sent + 200]), BOOKS_DDL)
print("E,", tickets["job"]["E"])
print("F,", tickets["job"]["F"])
styled(tickets[["complaint"]])

# %% [markdown]
# E and F come from batch jobs. You have E's settings, F's log, and both tables. One source alone gives a hypothesis;
# when **two agree**, it is a diagnosis.
#
# For the table, your tools are Hudi's procedures, each one line of SQL, such as `CALL show_commits(table =>
# 'ticket_a')`, and queries: each row has the commit that last wrote it, in `_hoodie_commit_time`. All tickets but D
# have a table of their name.
#
# | question | tool |
# |---|---|
# | what was written, and when? | `show_commits` |
# | which batch of the stream does the newest commit know? | `show_commit_extra_metadata`, with `metadata_key => '_hudi_streaming_sink_checkpoint'` |
# | which base files and logs does a query read now? | `show_fsview_latest`, once per day, with `partition_path => 'partition_date=2026-01-05'` |
# | was a compaction planned, and done? (Merge-on-Read only) | `show_compaction` |
# | which states are kept for ever? | `show_savepoints` |
# | was a clustering planned, and done? | `show_clustering` |
# | with which operation did a commit write? | `lab.xray(tickets["table"][name]).commit(instant).operation` |
# | what is not complete? | `lab.xray(tickets["table"][name]).instants` |
#
# The numbers from outside are in `lab.pipeline_metrics()`, for the pipelines `ticket-a`, `ticket-b` and `ticket-d`.
# This is what the person on call has seen of them:

# %%
from lab_env.lessons.l19.figures import PAGER

numbers = lab.pipeline_metrics()
of_tickets = numbers["pipeline"].astype(str).str.startswith("ticket")
show_numbers(numbers[of_tickets & numbers["metric"].isin(PAGER)])

# %% [markdown]
# Name for each ticket the cause and **the number that proves it**. Take one ticket at a time, then add the next: the
# check says which are still open. If the cause is right, it also says which number it wants. The causes are
# `"writer too slow"`, `"partition not read"`, `"checkpoint replaced"`, `"no compaction"`, `"savepoint kept"`,
# `"write left unfinished"`, `"keys not looked up"`, `"partition value changed"` and `"plan not executed"`.

# %% exercise="19.4"
# BEGIN SOLUTION
# PROMPT: findings = {"A": (..., ...)}
import json

logs = 0
for day in ("2026-01-05", "2026-01-06"):
    slices = spark.sql(f"""
        CALL show_fsview_latest(
            table => 'ticket_a', partition_path => 'partition_date={day}')""")
    logs += slices.toPandas()["num_delta_files"].sum()

known = spark.sql("""
    CALL show_commit_extra_metadata(
        table => 'ticket_b', metadata_key => '_hudi_streaming_sink_checkpoint')""").first()
batch = json.loads(known["metadata_value"])["default_single_writer"]

savepoint = spark.sql("CALL show_savepoints(table => 'ticket_c')").first()["savepoint_time"]

unread = numbers.query("pipeline == 'ticket-d' and metric == 'pipeline_lag_messages'")

doubled = spark.sql("""
    SELECT DISTINCT _hoodie_commit_time AS at FROM ticket_e WHERE order_id IN
        (SELECT order_id FROM ticket_e GROUP BY order_id HAVING count(*) > 1)""").collect()
seen = lab.xray(tickets["table"]["E"])
(load,) = [row.at for row in doubled if seen.commit(row.at).operation == "BULK_INSERT"]

plan = spark.sql("CALL show_clustering(table => 'ticket_f')").first()["timestamp"]
findings = {
    "A": ("no compaction", logs),
    "B": ("checkpoint replaced", batch),
    "C": ("savepoint kept", savepoint),
    "D": ("partition not read", unread["value"].max()),
    "E": ("keys not looked up", load),
    "F": ("plan not executed", plan),
}
# END SOLUTION
lab.check("19.4", findings)

# %% [markdown] hint="19.4"
# Begin with what is *not* wrong: whose lag is 0? Whose table agrees with the books
# (`validate(tickets["table"]["B"])`)? Whose commits go on?

# %% [markdown] hint="19.4"
# A: `num_delta_files` of `show_fsview_latest`. B: `show_commit_extra_metadata`, and what the
# checkpoint says. C: `show_savepoints`. D: the lag in `numbers`, one partition at a time. E: which
# commits wrote the rows of orders that have two, and which of these commits has the load's
# operation? F: two instants are pending; which of them does the log speak of?

# %% right="19.4"
# Reads the evidence with the lab's tools.
from lab_env.lessons.hudi_rs import rows_of

pictures = {name: lab.xray(tickets["table"][name]) for name in ("A", "B", "E", "F")}
(batch,) = pictures["B"].commit().checkpoint.values()
kept = spark.sql("CALL show_savepoints(table => 'ticket_c')").select("savepoint_time")
lag = lab.prometheus.query('last_over_time(pipeline_lag_messages{pipeline="ticket-d"}[10s])')
of_e = rows_of(tickets["table"]["E"]).to_pandas()
written = of_e[of_e.duplicated("order_id", keep=False)]["_hoodie_commit_time"].unique()
load = min(at for at in written if pictures["E"].commit(at).operation == "BULK_INSERT")
(plan,) = {instant for _, instant, _ in pictures["F"].planned}
findings = {
    "A": ["no compaction", sum(len(found.logs) for found in pictures["A"].current)],
    "B": ["checkpoint replaced", batch],
    "C": ["savepoint kept", kept.first()],
    "D": ["partition not read", str(int(lag["value"].max()))],
    "E": ["keys not looked up", int(load)],
    "F": ["plan not executed", plan],
}

# %% wrong="19.4"
# expect: partitions have lag 0
findings = findings | {"D": ("writer too slow", unread["value"].sum())}

# %% wrong="19.4"
# expect: both know batch
findings = findings | {"A": ("checkpoint replaced", batch)}

# %% wrong="19.4"
# expect: but a snapshot query reads them
findings = findings | {"B": ("no compaction", logs)}

# %% wrong="19.4"
# expect: and you say 1
findings = findings | {"C": ("savepoint kept", 1)}

# %% wrong="19.4"
# expect: the rows of each of the 40 doubled orders are in one partition
findings = findings | {"E": ("partition value changed", 40)}

# %% wrong="19.4"
# expect: Its number is the instant of the commit that added the second rows
# Settings and operations without the rows: the newest load.
loads = [at for at in seen.completed_writes if seen.commit(at).operation == "BULK_INSERT"]
findings = findings | {"E": ("keys not looked up", max(loads))}

# %% wrong="19.4"
# expect: Its number is the instant of the commit that added the second rows
# The rows without the operations: an upsert rewrote some of them.
findings = findings | {"E": ("keys not looked up", max(row.at for row in doubled))}

# %% wrong="19.4"
# expect: the next write rolls it back
pending = lab.xray(tickets["table"]["F"]).instants[-1]
findings = findings | {"F": ("write left unfinished", pending.requested)}

# %% wrong="19.4"
# expect: Still open: B, C, E, F
findings = {ticket: findings[ticket] for ticket in ("A", "D")}

# %%
lab.use_reference("19.4")
agreement = {name: validate(tickets["table"][name]) for name in ("A", "B")}
print("days that disagree with the books:", agreement)
pd.DataFrame(findings, index=["cause", "number"]).T

# %% [markdown]
# Do the numbers explain the complaints, and do remedies work? For E we upsert all rows into a new table. For F we execute
# the plan and repeat the correction.

# %%
still_new = {}
for way in ("read_optimized", "snapshot"):
    reader = spark.read.format("hudi").option("hoodie.datasource.query.type", way)
    still_new[way] = reader.load(tickets["table"]["A"]).where("status = 'new'").count()
print("A, orders that are new:", still_new)
print("B and D say that they are behind by:", list(tickets["says_behind"].loc[["B", "D"]]))
of_c = lab.xray(tickets["table"]["C"])
in_use = sum(part.base.size for part in of_c.current)
print(f"C: {in_use:,} bytes in use, {sum(file.size for file in of_c.files):,} stored")

# %% proof="A's logs hide changes, B and D say that they keep up, C stores more than a query reads."
assert still_new["read_optimized"] > still_new["snapshot"]
assert {float(said) for said in tickets["says_behind"].loc[["B", "D"]]} == {0}
(savepoint_of_c,) = [i.requested for i in of_c.instants if i.action == "savepoint"]
in_use_files = {part.base.name for part in of_c.current}
kept_files = {file.name for file in of_c.files if file.instant == savepoint_of_c}
assert kept_files and not kept_files & in_use_files
with_files = {file.instant for file in of_c.files}
assert [w in with_files for w in sorted(of_c.completed_writes)] == [True, False, True, True]

# %%
from lab_env.lessons.hudi_rs import rows_of
from lab_env.lessons.l19.batch_tickets import correct

table_e, mended = tickets["table"]["E"], lab.scratch("ticket_e")
rows = spark.read.format("hudi").load(table_e)
rows.write.format("hudi").options(**ORDERS).mode("append").save(mended)  # an upsert
before, after = (rows_of(path).to_pandas() for path in (table_e, mended))
for found in (before, after):
    print(f"E: {len(found)} rows, {found['order_id'].nunique()} orders, {found['amount'].sum()}")
writes = [lab.xray(table_e).commit(at) for at in sorted(lab.xray(table_e).completed_writes)]
print("E:", *[(write.operation, write.inserted, write.updated) for write in writes])

table_f = lab.xray(tickets["table"]["F"])
pending = [instant.action for instant in table_f.instants if instant.state != "completed"]
spark.sql("""
    CALL run_clustering(
        table => 'ticket_f', op => 'execute', options => 'hoodie.metadata.enable=false')""")
says = correct(lab, ORDERS, tickets["table"]["F"])
print("F: pending", pending, "- after the plan:", says or "corrected")

# %% proof="An upsert into a new table keeps E's newest rows; F's correction waits for its plan."
newest = before.sort_values("order_ts").drop_duplicates("order_id", keep="last")
assert len(before) == len(newest) + 40 and len(after) == len(newest)
assert after["amount"].sum() == newest["amount"].sum() < before["amount"].sum()
by_operation = [(write.operation, write.inserted, write.updated) for write in writes]
assert by_operation[1:] == [("BULK_INSERT", 40, 0), ("BULK_INSERT", 40, 0), ("UPSERT", 0, 20)]
assert pending == ["clustering", "commit"] and not table_f.uncommitted and says == ""
assert all(i.state == "completed" for i in lab.xray(tickets["table"]["F"]).instants)

# %% name="found-by-procedures" proof="Six causes are found by procedures and by the count from outside."
from lab_env.lessons.l19.checks import number_in
from lab_env.lessons.l19.tickets import evidence_of

evidence = evidence_of(lab)
for name, (cause, number) in findings.items():
    assert (cause, number_in(number)) == (evidence[name].cause, evidence[name].number)
assert len(findings) == 6 and evidence["A"].number >= 4 and evidence["D"].number > 50

# %% name="validated" proof="The stream of ticket B has lag 0; the books name the days that lack orders."
assert agreement["B"]
of_b = numbers.query("pipeline == 'ticket-b' and metric == 'pipeline_lag_messages'")
assert len(of_b) == 3 and of_b["value"].sum() == 0

# %% [markdown]
# - **A** has no lag and agrees with the books in a snapshot query. Its updates are in logs, and a read-optimised
#   query leaves logs out. Remedy: compaction (lesson 06), or a snapshot query (09).
# - **B** had its checkpoint replaced. The stream says that it has read everything, but the table skipped its batches.
#   No alert on lag or age will ever fire, and there is no error. Two things find it: the books, and comparing the
#   batch in the table's commits with the checkpoint's. The lab's own rule `CheckpointReplaced` does the second;
#   `lab.prometheus.alerts()` shows it. Remedy: replay under a new identifier (17).
# - **C** has an old savepoint, and the cleaner never removes a savepoint's files. Remedy: `delete_savepoint`, then
#   clean (10).
# - **D** reads two of three partitions; `assign` in its options names them. By its own report it has no lag, because
#   it does not know the third. Remedy: `subscribe`, with the same checkpoint. In a trial it then read the new partition
#   from its earliest message, and nothing twice.
# - **E** has 40 orders twice. The load's operation, `bulk_insert`, looks up no key. That alone proves nothing: the
#   next load used it too, brought new orders and did no harm. The rows alone do not either: an upsert has since
#   rewritten both rows of ten orders. Settings and table agree on one commit. Remedy: upsert the rows into a new
#   table, and let the job upsert (04).
# - **F** has a clustering that was planned and never executed, and Hudi [rejects updates of its
#   files](../docs/troubleshooting.md#not-allowed-to-update-the-clustering-file-group). The other pending instant is the
#   rejected write, which the next write rolls back. Remedy: execute the plan (07), and schedule a job for later plans.
#
# What if an instant is *requested* or *inflight* for hours? Find out who began it, and whether it still runs. With
# one writer, the table's next write rolls a dead write back; with several, cleaning does, once its heartbeat has
# expired (lesson 18). Neither removes a plan for compaction or clustering: somebody must execute it. **Never delete a
# file of the timeline**: the data files of the write stay, no rollback will remove them, and once the timeline starts
# after their time, readers take them for committed.
#
# ### The board
#
# The board has a lamp now; your alert turns it red:

# %%
from lab_env.lessons.l19.figures import draw_board

board = (
    spark.read.format("hudi")
    .load(orders)
    .groupBy("status")
    .agg(F.sum("amount").alias("revenue"))
    .toPandas()
)
waited = lab.prometheus.query(f"last_over_time({UNREAD}[10s])")["value"].max()
HTML(draw_board(board, waited, firing=len(firing()) > 0))

# %% proof="The board agrees with the books, and its lamp is green."
final = validate(orders)
assert final == [] and firing().empty and waited < 5

# %% [markdown]
# When you stop a stream for good, remove its alert. An alert that fires for nothing teaches people to ignore the next
# one.

# %%
query.stop()
for name in ("orders", "ticket-a", "ticket-b", "ticket-d"):
    lab.unwatch(name)
lab.prometheus.rules("groups: []")
lab.prometheus.scrape("scrape_configs: []")
server.shutdown()
spark.stop()

# %% [markdown] tags=["instructor"]
# *For instructors.* 26 minutes. Let each pair take one ticket and present the proof. B is the one that most people call
# "slow". In E and F ask what each source alone would blame. Short of time: tickets A and D, which need no table by name.

# %% [markdown]
# > **In production**
# > - Prometheus hands firing alerts to the
# >   [Alertmanager](https://prometheus.io/docs/alerting/latest/alertmanager/), which groups them and calls somebody.
# >   An alert that always fires shows a second service that Prometheus is alive.
# >   `lab_env/platform/services/monitoring/grafana.json` is a dashboard for Grafana.
# > - Prometheus [scrapes](https://prometheus.io/docs/prometheus/latest/configuration/configuration/) once a minute by
# >   default, so limits and `for` are minutes.
# > - Hudi's [reporter](https://hudi.apache.org/docs/metrics) has no password: put a firewall in front, or push to a
# >   gateway.
#
# ## Key points
#
# - A process that hangs reports nothing, and its last report stays green. Count from outside: the end of the topic
#   minus the newest committed batch.
# - Alert on what a customer feels, the age of the oldest unread message, and on silence.
# - Fresh is not right: compare each partition with an expectation from elsewhere, by rows, keys, sum and newest
#   change.
# - A complaint needs a cause and a number that proves it. Settings, log and table: two of them must agree.
#
# ## What's next
#
# Lesson 20 compares three sinks: JSON files, Copy-on-Write and Merge-on-Read, and says what each costs.
#
# ### Appendix · Five knobs
#
# *Eight minutes; nothing later needs it.* The first article behind this course ends with five pieces of advice:
# set the number of write tasks (of a shuffle, or the buckets), let files grow to about 100 MB, compact
# asynchronously, compact after five commits, and commit once a minute (here every 8 seconds). `lab bench tuning
# --full` turns these knobs one at a time, on one stream, and counts what each costs. Here is a recorded run, or
# yours, once you have made one.

# %%
from lab_env.lessons import recorded
from lab_env.lessons.recorded.knobs import KNOBS, compared, knobs_chart

run = recorded.shown("tuning")
print(run["made"][:10], "on", run["cores"], "cores:", run["size"])
pd.Series({knob: turned for knob, (_, _, turned) in KNOBS.items()}, name="turned")

# %% [markdown]
# **Predict:** which of these changes saves the largest part of the requests to the store?

# %%
lab.predict("19.p4", ..., choices=tuple(KNOBS))

# %%
knobs = compared(run)
requests = knobs.xs("requests", level="metric")
lab.record_actual("19.p4", requests["ratio"].idxmin())
HTML(knobs_chart(run))

# %% name="knob-write-tasks" proof="More tasks or buckets than cores: more requests; more buckets: more files."
assert requests.loc["shuffle tasks", "verdict"] == "higher"
assert requests.loc["buckets", "verdict"] == "higher"
assert knobs.loc[("shuffle tasks", "files"), "ratio"] == 1
assert knobs.loc[("buckets", "files"), "ratio"] > 1
assert knobs.loc[("buckets", "query requests"), "verdict"] == "higher"

# %% name="knob-file-size" proof="A limit for small files: fewer files, and fewer requests of a query."
assert knobs.loc[("small file limit", "files"), "ratio"] < 1
assert knobs.loc[("small file limit", "query requests"), "verdict"] == "lower"

# %% name="knob-compaction" proof="Asynchronous compaction needs, within a tenth, as many requests and bytes."
assert abs(requests.loc["compaction", "ratio"] - 1) < 0.1
assert abs(knobs.loc[("compaction", "MB written"), "ratio"] - 1) < 0.1

# %% name="knob-delta-commits" proof="Compaction after five commits: fewer requests and bytes than after two."
assert requests.loc["delta commits", "verdict"] == "lower"
assert knobs.loc[("delta commits", "MB written"), "verdict"] == "lower"
asked = knobs.xs("query requests", level="metric")["from"]
assert asked["buckets"] > asked["delta commits"]  # without compaction, and with one after two

# %% name="knob-interval" proof="A longer commit interval: fewer requests, and rows are visible later."
assert requests.loc["commit interval", "verdict"] == "lower"
assert requests["ratio"].idxmin() == "commit interval"
assert knobs.loc[("commit interval", "visible after s"), "ratio"] > 1

# %% [markdown]
# Each dot is a ratio: after turning the knob, divided by before. Left of the line is less. **Full** dots differ by
# more than the noise; empty ones say nothing. (Lesson 20 explains this rule.)
#
# - **Write tasks.** More tasks than cores do the same work in more pieces, with more requests. More buckets are
#   also more files, and more requests of each query.
# - **File size.** Without a limit for small files each batch leaves files of its own, and a query opens them all.
#   (The files here are far smaller than 100 MB, so the run shows that a limit helps, but not which one.)
# - **Asynchronous compaction** does the same work next to the stream instead of in it.
# - **Compaction after five commits** instead of two rewrites the table less often. Meanwhile a query merges the
#   logs.
# - **The commit interval** is the strongest knob. Fewer commits need fewer requests, and rows become visible
#   later: a knob is a trade.
#
# The article also names the detection of fraud within milliseconds. How many seconds after it was sent can a
# reader first see an order?

# %%
live = pd.DataFrame(run["runs"]).dropna(subset="visible after s")
live[["setting", "round", "batches", "batch s", "visible after s", "p95"]]

# %% name="no-milliseconds" proof="With a batch every 2 seconds an order is visible after more than a second."
assert live["visible after s"].min() > 1

# %% proof="Counts of a setting that was measured twice or more differ by less than one percent."
backlog = pd.DataFrame(run["runs"]).query("not setting.str.startswith('every')")
counts = backlog.groupby("setting")[["requests", "query requests", "MB written"]]
assert (counts.max() / counts.min() < 1.01).all(axis=None)
