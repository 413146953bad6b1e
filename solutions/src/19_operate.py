# ---
# title: "How do I learn, before the customer does, that something is wrong, and what?"
# minutes: {teach: 40, do: 30}
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
# - write an alert that rings when a customer waits, and only then (19.1),
# - validate a table per partition against what the shop expects (19.2),
# - name the cause of a complaint, with the number that proves it (19.3).
#
# ## What you need
#
# Lesson 03: the checkpoint. Lesson 06: log files and compaction. Lessons 09 and 10: read-optimised
# queries and savepoints. Lesson 17 helps with one of the tickets. A good hour; there is a resting
# place in the middle.

# %% [markdown]
# ## Start
#
# This lesson brings two more services. [**Prometheus**](../docs/glossary.md#prometheus) reads
# numbers from web pages, once a second here, keeps them and judges them by rules. The *exporter* is
# a small program of this lab that makes such a page. Prometheus is built from its sources at its
# first start, which takes some minutes.

# %%
from lab_env import Lab
from lab_env.shop.record import recording

lab = Lab.start("19", "exporter", "prometheus")
topic = lab.topic("orders")
sends = [send for send in recording() if not send.kind.startswith("malformed")]
sends = sends[4800:]  # around midnight, so that the orders are of two days
lab.replay(topic, n=400, sends=sends)

# %% [markdown]
# Spark can publish its own numbers. Where, has to be said before the session starts: a *sink*, as
# Spark calls it, that writes the format of Prometheus on a page of the Spark UI. The namespace
# begins each name; without it that would be the id of the application, which is another one after
# each restart.

# %%
spark = lab.start_spark(
    {
        "spark.metrics.namespace": "shop",
        "spark.metrics.conf.*.sink.prometheusServlet.class": (
            "org.apache.spark.metrics.sink.PrometheusServlet"
        ),
        "spark.metrics.conf.*.sink.prometheusServlet.path": "/metrics/prometheus",
        "spark.sql.streaming.metricsEnabled": "true",  # streaming queries, too
    }
)
# Tables of a few hundred rows: to compile each query costs more than the compiled query saves.
spark.conf.set("spark.sql.codegen.wholeStage", False)
spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")

# %% [markdown]
# The shop's stream, as in lesson 04: order events from Kafka into a Merge-on-Read table. Its
# options are those of small demonstration tables, and nobody compacts.

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
    # New orders begin files of their own. Else, in so small a table, they would be added to
    # the small files there are, which rewrites these with all their updates.
    "hoodie.parquet.small.file.limit": "0",
}

# %% [markdown]
# ## Three witnesses
#
# Hudi can publish numbers, too: `hoodie.metrics.on`, and a *reporter*. The reporter `PROMETHEUS`
# opens a port of its own, by default 9090, which is Prometheus's own default as well. Give it
# another one.

# %%
from lab_env.processes.ports import free_port

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
query.processAllAvailable()

# %% [markdown]
# The reporter listens on all addresses of this machine, and has no password; at work a firewall
# belongs in front of it.
#
# The **first witness** is the process itself, on two pages: what Spark says of the query, and some
# of what Hudi says of its last write.

# %%
from lab_env.lessons.l19.figures import metric_lines

spark_page = f"{spark.sparkContext.uiWebUrl}/metrics/prometheus/"
hudi_page = f"http://127.0.0.1:{hudi_port}/metrics"
print(*metric_lines(spark_page, "streaming_orders.*Value"), sep="\n")
print(*metric_lines(hudi_page, "deltacommit_duration", "totalRecordsWritten"), sep="\n")

# %% [markdown]
# The **second witness** is the application's own report. Spark calls a `StreamingQueryListener`
# after each batch, and says among other things how many messages the query is behind the end of the
# topic. The listener puts the number on a page of this notebook's Python, as many teams do.

# %%
from prometheus_client import CollectorRegistry, Gauge, start_http_server
from pyspark.sql.streaming import StreamingQueryListener

registry = CollectorRegistry()
behind = Gauge("shop_messages_behind", "by the listener's last report", registry=registry)


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
# The **third witness** stands outside. The lab's exporter asks Kafka for the end of each partition,
# reads from the checkpoint in the object store how far the last committed batch got, and lists the
# table's timeline. It needs neither Spark nor its process. `lab.watch` tells it what to look at.
#
# Prometheus reads the exporter already. Add the other pages:

# %%
from lab_env.lessons.l19.figures import jvm_of_session, scrape_config

lab.watch("orders", topic=topic, checkpoint=checkpoint, table=orders)
jvm = jvm_of_session()
pages = scrape_config(
    {
        "spark": spark_page,
        "hudi": hudi_page,
        "notebook": f"http://127.0.0.1:{notebook_port}/metrics",
    }
)
lab.prometheus.scrape(pages)
print(pages)

# %%
from lab_env.lessons.l19.figures import show_numbers

for sent in (400, 500):
    lab.replay(topic, n=100, skip=sent, sends=sends)
    query.processAllAvailable()

OUTSIDE = '{namespace="lesson-19", pipeline="orders"}'
numbers = lab.pipeline_metrics()
show_numbers(numbers[numbers["pipeline"] == "orders"])

# %% proof="All pages are read, and Hudi's page is open to the network."
import psutil

assert set(lab.prometheus.query('up{job=~"spark|hudi|notebook|pipeline"}')["value"]) == {1}
ports = [c.laddr for c in psutil.Process(jvm).net_connections() if c.status == "LISTEN"]
assert [at.port for at in ports if at.ip in ("::", "0.0.0.0")] == [hudi_port]

# %% [markdown]
# The age of the **oldest unread message** is the one to remember: for how long has a customer been
# waiting? It needs no idea of how many messages are many.
#
# Now the stream hangs: a disk that does not answer, a garbage collection without end, a lock. We
# stop the JVM by SIGSTOP. It is not dead, its ports are open, and it does nothing. Meanwhile 100
# more events arrive.
#
# **Predict:** what does each witness say about the messages that wait?

# %%
SAID = ("the true number", "its last number", "nothing")
lab.predict("19.p1", ..., choices=SAID)  # Spark's and Hudi's pages

# %%
lab.predict("19.p2", ..., choices=SAID)  # the listener's number

# %%
lab.predict("19.p3", ..., choices=SAID)  # the exporter, outside

# %%
import time

from lab_env.faults.freeze import frozen

LAG = f"sum(pipeline_lag_messages{OUTSIDE})"
freezes = []
began = time.time()
with frozen(jvm):
    lab.replay(topic, n=100, skip=600, sends=sends)
    time.sleep(5)
    hung = {
        "spark": lab.prometheus.query('up{job="spark"}')["value"].tolist(),
        "hudi": lab.prometheus.query('up{job="hudi"}')["value"].tolist(),
        "streaming": len(lab.prometheus.query('{job="spark", __name__=~".*treaming.*"}')),
        "listener": lab.prometheus.query("shop_messages_behind")["value"].tolist(),
        "exporter": lab.prometheus.query(LAG)["value"].tolist(),
    }
freezes.append((began, time.time()))
query.processAllAvailable()
hung

# %%
lab.record_actual("19.p1", "nothing" if not hung["streaming"] else "its last number")

# %%
lab.record_actual("19.p2", "its last number" if hung["listener"] == [0] else "the true number")

# %%
lab.record_actual("19.p3", "the true number" if hung["exporter"] == [100] else "nothing")

# %% name="a-hung-process" proof="A hung process says nothing, its last report 0; a count from outside, 100."
assert hung["spark"] == [0] and hung["hudi"] == [0] and hung["streaming"] == 0
assert hung["listener"] == [0] and hung["exporter"] == [100]

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
# - **The process itself** falls silent when it hangs. In Prometheus its numbers are *gone*, not
#   zero, and a rule such as "lag above 100" compares nothing with 100, which is never true.
# - **The last report** stays as it was: 0 messages behind. The listener works; nobody calls it. And
#   a stream without `maxOffsetsPerTrigger` reads all that it has seen when it plans a batch, so
#   this number is 0 in good times, too.
# - **The count from outside** grows, and says how long customers have been waiting. (An alert on
#   `up == 0` would find a process that hangs, but not a stream that has ended in a process that
#   lives.)
#
# Numbers from outside tell you *that* something is wrong; numbers from inside help you find out
# *why*. And the tools that show the lag of Kafka's consumer groups? Spark keeps its offsets in the
# checkpoint, not in Kafka:

# %%
from confluent_kafka.admin import AdminClient

groups = AdminClient({"bootstrap.servers": KAFKA}).list_consumer_groups().result().valid
[group.group_id for group in groups if "spark" in group.group_id]

# %% proof="Kafka knows no consumer group of the stream."
assert not [group.group_id for group in groups if "spark" in group.group_id]

# %% [markdown] tags=["instructor"]
# *For instructors.* Fifteen minutes. Draw three boxes: process, application, outside, and let
# people say where the lag stands in their own company. The choice `last number` for Spark's page is
# the common one: Prometheus marks a series as stale when a scrape fails. Short of time: leave out
# the consumer groups.

# %% [markdown]
# ## From a number to an alarm
#
# The shop promises: *95 percent of the time the oldest unread order is younger than 5 seconds.*
# Such a promise is a [**service level objective**](../docs/glossary.md#service-level-objective)
# (SLO). (At work it would be a minute, and everything below would take longer.) Prometheus can tell
# how it was kept in the last two minutes. `bool` makes 0 or 1 of the comparison, and `[2m:1s]` asks
# it for each second. Seconds without a sample are left out, so a dead exporter keeps every promise:
# unknown is not good.

# %%
KEPT = f"avg_over_time((pipeline_oldest_unread_seconds{OUTSIDE} < bool 5)[2m:1s])"
kept = lab.prometheus.query(KEPT)["value"][0]
print(f"{kept:.0%} of the seconds")

# %% [markdown]
# ### Exercise 19.1 · Ring for the right thing
#
# Write the alert. `expr` is PromQL, the language of Prometheus: the alert is *pending* while it
# returns anything, and *firing* when that has gone on for the time in `for`. It must fire when the
# oldest unread message has been older than 5 s for 3 s, and also when nobody can tell. It must not
# fire at night, when nobody orders, nor for a hiccup of two seconds, nor because many young
# messages wait.
#
# The check does not run your stream. `promtool`, Prometheus's own tool, runs your rule on nine
# made-up scenarios of 90 seconds. You may use every number that you have seen above; `UNREAD` is
# the name of one.

# %% exercise="19.1"
UNREAD = f"pipeline_oldest_unread_seconds{OUTSIDE}"
alert = {
    "alert": "OrdersLate",
    "expr": f"{UNREAD} > 5 or absent({UNREAD})",  # SOLUTION
    "for": "3s",  # SOLUTION
}
lab.check("19.1", alert)

# %% [markdown] hint="19.1"
# Which number is 0 at night and small in a sale, and grows when the stream hangs?

# %% [markdown] hint="19.1"
# What does `x > 5` return when there is no `x`? PromQL has `or`, and a function `absent`.

# %% right="19.1"
UNREAD = f"pipeline_oldest_unread_seconds{OUTSIDE}"
alert = {
    "alert": "OrdersLate",
    "expr": f"min_over_time({UNREAD}[4s]) > 5 or absent_over_time({UNREAD}[4s])",
    "for": "1s",
}

# %% right="19.1"
alert = """
- alert: CustomersWait
  expr: pipeline_oldest_unread_seconds{pipeline="orders"} > 5
  for: 3s
- alert: NobodyKnows
  expr: up{job="pipeline"} == 0 or absent(pipeline_oldest_unread_seconds{pipeline="orders"})
  for: 3s
"""

# %% wrong="19.1"
# expect: Fired at 03:00, when nobody ordered
alert = {
    "alert": "OrdersLate",
    "expr": f"pipeline_last_commit_seconds{OUTSIDE} > 5 or absent({UNREAD})",
    "for": "3s",
}

# %% wrong="19.1"
# expect: The exporter died and your rule fell silent
alert = {"alert": "OrdersLate", "expr": f"{UNREAD} > 5", "for": "3s"}

# %% wrong="19.1"
# expect: Fired for a hiccup
alert = {"alert": "OrdersLate", "expr": f"{UNREAD} > 5 or absent({UNREAD})", "for": "0s"}

# %% wrong="19.1"
# expect: Fired during a sale
alert = {"alert": "OrdersLate", "expr": f"sum({LAG}) > 100 or absent({UNREAD})", "for": "3s"}

# %% wrong="19.1"
# expect: your rule did not fire
alert = {"alert": "OrdersLate", "expr": "shop_messages_behind > 100", "for": "3s"}

# %% [markdown]
# Now the real thing: your rule goes to the running Prometheus, and the stream hangs again.
#
# **Predict:** how many seconds from the freeze until the alert fires?

# %%
lab.predict("19.p4", ..., tolerance=3)

# %%
import yaml

from lab_env.lessons.l19.checks import as_rules

lab.use_reference("19.1")
rules = as_rules(alert)  # whatever form your answer has
names = {rule["alert"] for group in rules["groups"] for rule in group["rules"]}
lab.prometheus.rules(yaml.safe_dump(rules))


def firing():
    """Those of your alerts that fire now."""
    alerts = lab.prometheus.alerts()
    return alerts[alerts["name"].isin(names) & (alerts["state"] == "firing")]


# %%
from lab_env.lessons.l19.figures import wait_until

began = time.time()
with frozen(jvm):
    lab.replay(topic, n=100, skip=700, sends=sends)
    wait_until(lambda: len(firing()), "your alert fires", seconds=40)
    rang, alerts = time.time() - began, firing()
freezes.append((began, time.time()))
wait_until(lambda: firing().empty, "the alert ends", seconds=60)
gone = time.time() - freezes[-1][1]
print(f"rang {rang:.1f} s after the freeze, gone {gone:.1f} s after the thaw")
alerts

# %%
lab.record_actual("19.p4", round(rang, 1))

# %% name="it-rings" proof="The alert rings more than five seconds after the freeze, and ends after the thaw."
assert set(alerts["name"]) <= names and rang > 5 and gone > 0

# %%
since = time.time() - began + 8
waited = {"oldest unread message": history(UNREAD)}
HTML(draw_over_time({"Seconds that a customer has waited": waited}, freezes[1:]))

# %% [markdown]
# Five seconds until the limit, three more for `for`, and the seconds between two scrapes. `for` is
# what a false alarm costs in time; choose it on purpose. The live page shows the same while you
# read, if you open it:

# %%
HTML(f"<a href='{lab.prometheus.console}' target='_blank'>The console of this pipeline</a>")

# %% [markdown]
# > **Documented, not measured.** At work Prometheus hands firing alerts to the *Alertmanager*,
# > which groups them and calls somebody, and most teams look at Grafana.
# > `lab_env/monitor/grafana.json` is a dashboard of the exporter's numbers, to import there. And
# > who watches Prometheus? An alert that always fires, to a service that rings when it *stops*: a
# > dead man's switch.
#
# *A good place to rest. Stop here if you like; keep the kernel running.*

# %% [markdown] tags=["instructor"]
# *For instructors.* Fifteen minutes. Ask before 19.1: "which alert has woken you for nothing?"
# Nearly all answers are the wrong answers of the exercise. Common: the age of the last commit; no
# `absent`. Short of time: show `rang` and skip the picture.

# %% [markdown]
# ## The runbook
#
# The alarm says *that* something is wrong. It says nothing when all is fresh and wrong. For that
# the shop compares the table with what it expects. Its accountants keep books of their own, from
# what the tills sent: per day of creation the number of orders, their revenue, and when the newest
# of them was changed.

# %%
from lab_env.lessons.l19.checks import BOOKS_DDL
from lab_env.lessons.l19.figures import books_of

sent = 800
books = spark.createDataFrame(books_of(sends[:sent]), BOOKS_DDL)
books.show()

# %% [markdown]
# ### Exercise 19.2 · Does the table agree with the books?
#
# Write the function. `rows` are orders: `order_id`, `partition_date`, `amount`, `order_ts`. `books`
# has one row per day: `partition_date`, `orders`, `revenue`, `newest`. Return the days
# (`partition_date`) on which the two do not agree, in whatever way: orders that are missing,
# doubled, wrong or old, days that only one of them has.


# %% exercise="19.2"
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


lab.check("19.2", find_wrong)

# %% [markdown] hint="19.2"
# Four numbers per day: rows, different orders, the sum of the amounts, the newest change. What does
# each of them find that the other three do not?

# %% [markdown] hint="19.2"
# `rows.groupBy("partition_date").agg(...)`, then a full outer join. A comparison with NULL is NULL,
# and `where` drops it: `F.coalesce(..., F.lit(False))`.


# %% right="19.2"
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


# %% right="19.2"
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


# %% wrong="19.2"
# expect: is not enough
def find_wrong(rows, books):
    found = rows.groupBy("partition_date").agg(
        F.count("*").alias("rows"), F.sum("amount").alias("total"), F.max("order_ts").alias("last")
    )
    agrees = F.expr("rows = orders AND total = revenue AND last = newest")
    both = books.join(found, "partition_date", "full")
    return both.where(~F.coalesce(agrees, F.lit(False))).select("partition_date")


# %% wrong="19.2"
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


# %% wrong="19.2"
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


# %%
from lab_env.lessons.l19.checks import days_of

lab.use_reference("19.2")


def validate(table):
    """The days on which a table disagrees with the books."""
    return sorted(set(days_of(find_wrong(spark.read.format("hudi").load(table), books))))


validate(orders)

# %% proof="The lesson's own table agrees with the books on every day."
assert validate(orders) == []

# %% [markdown]
# ### Exercise 19.3 · Something is wrong
#
# Four tickets came in overnight. Their streams have been stopped for you, after they had read all
# that they could; your own goes on. The cell that hands them over takes some ten seconds.

# %%
import pandas as pd

from lab_env.display.card import styled
from lab_env.lessons.l19.tickets import hand_over

tickets = hand_over(lab, query, ORDERS, sends, sent=sent, more=200)
books = spark.createDataFrame(books_of(sends[: sent + 200]), BOOKS_DDL)
styled(tickets[["complaint"]])

# %% [markdown]
# Your tools, each one line of SQL, such as `CALL show_commits(table => 'ticket_a')`. The tables
# have the names `ticket_a`, `ticket_b` and `ticket_c`.
#
# | question | procedure |
# |---|---|
# | what was written, and when? | `show_commits` |
# | which batch of the stream does the newest commit know? | `show_commit_extra_metadata`, with `metadata_key => '_hudi_streaming_sink_checkpoint'` |
# | which base files and logs does a query read now? | `show_fsview_latest`, once per day, with `partition_path => 'partition_date=2026-01-05'` |
# | was a compaction planned, and done? (Merge-on-Read only) | `show_compaction` |
# | which states are kept for ever? | `show_savepoints` |
# | what was undone? | `show_rollbacks` |
# | does the metadata table know the same files? | `validate_metadata_table_files` |
#
# And the numbers from outside: `lab.pipeline_metrics()`; the pipelines are called `ticket-a`,
# `ticket-b` and `ticket-d`.
#
# Name for each ticket the cause and **the number that proves it**. One number is in the lab for
# each cause:
#
# | cause | its number |
# |---|---|
# | `"writer too slow"` | unread messages, of all partitions |
# | `"partition not read"` | unread messages of that partition |
# | `"checkpoint replaced"` | the newest batch that the table's commits know |
# | `"no compaction"` | the most logs that stand on one base file, of all days |
# | `"savepoint kept"` | the instant that it keeps |
# | `"write left unfinished"` | the instants that are not complete |

# %%
numbers = lab.pipeline_metrics()
show_numbers(numbers[numbers["pipeline"].astype(str).str.startswith("ticket")])

# %% exercise="19.3"
# BEGIN SOLUTION
# PROMPT: findings = {"A": (..., ...), "B": (..., ...), "C": (..., ...), "D": (..., ...)}
import json

logs = 0
for day in ("2026-01-05", "2026-01-06"):
    slices = spark.sql(f"""
        CALL show_fsview_latest(
            table => 'ticket_a', partition_path => 'partition_date={day}')""")
    logs = max(logs, slices.agg(F.max("num_delta_files")).first()[0])

known = spark.sql("""
    CALL show_commit_extra_metadata(
        table => 'ticket_b', metadata_key => '_hudi_streaming_sink_checkpoint')""").first()
batch = int(json.loads(known["metadata_value"])["default_single_writer"])

savepoint = spark.sql("CALL show_savepoints(table => 'ticket_c')").first()["savepoint_time"]

unread = numbers.query("pipeline == 'ticket-d' and metric == 'pipeline_lag_messages'")
findings = {
    "A": ("no compaction", logs),
    "B": ("checkpoint replaced", batch),
    "C": ("savepoint kept", savepoint),
    "D": ("partition not read", unread["value"].max()),
}
# END SOLUTION
lab.check("19.3", findings)

# %% [markdown] hint="19.3"
# Begin with what is *not* wrong: whose lag is 0? Whose table agrees with the books
# (`validate(tickets["table"]["B"])`)? Whose commits go on?

# %% [markdown] hint="19.3"
# A: `num_delta_files` of `show_fsview_latest`. B: compare `pipeline_batch` of checkpoint and table.
# C: `show_savepoints`. D: `pipeline_lag_messages`, one partition at a time.

# %% right="19.3"
pictures = {name: lab.xray(tickets["table"][name]) for name in ("A", "B", "C")}
(batch,) = pictures["B"].commit().checkpoint.values()
kept = [i.requested for i in pictures["C"].instants if i.action == "savepoint"]
lag = lab.prometheus.query('pipeline_lag_messages{pipeline="ticket-d"}')
findings = {
    "A": ["no compaction", max(len(found.logs) for found in pictures["A"].current)],
    "B": ["checkpoint replaced", batch],
    "C": ["savepoint kept", kept[0]],
    "D": ["partition not read", str(int(lag["value"].max()))],
}

# %% wrong="19.3"
# expect: partitions have lag 0
findings = findings | {"D": ("writer too slow", unread["value"].sum())}

# %% wrong="19.3"
# expect: both know batch
findings = findings | {"A": ("checkpoint replaced", batch)}

# %% wrong="19.3"
# expect: but a snapshot query reads them
findings = findings | {"B": ("no compaction", logs)}

# %% wrong="19.3"
# expect: and you say 1
findings = findings | {"C": ("savepoint kept", 1)}

# %%
lab.use_reference("19.3")
agreement = {name: validate(tickets["table"][name]) for name in ("A", "B")}
print("days that disagree with the books:", agreement)
pd.DataFrame(findings, index=["cause", "number"]).T

# %% name="found-by-procedures" proof="Four causes are found by procedures and by the count from outside."
from lab_env.lessons.l19.tickets import evidence_of

for name, evidence in evidence_of(lab).items():
    cause, number = findings[name]
    assert (cause, int(number)) == (evidence.cause, evidence.number)
assert evidence_of(lab)["A"].number >= 4 and evidence_of(lab)["D"].number > 50

# %% name="validated" proof="The stream of ticket B has lag 0; the books name the days that lack orders."
assert agreement["B"]
of_b = numbers.query("pipeline == 'ticket-b' and metric == 'pipeline_lag_messages'")
assert len(of_b) == 3 and of_b["value"].sum() == 0

# %% [markdown]
# - **A** has no lag and agrees with the books in a snapshot query. Its updates stand in logs, and a
#   read-optimised query leaves logs out. Remedy: compaction (lesson 06), or a snapshot query (09).
# - **B** had its checkpoint replaced. The stream says that it has read everything, and the table
#   skipped it. No alert on lag or age will ever ring, and there is no error. Two things find it:
#   the books, and a comparison of the batch in the table's commits with the checkpoint's, which the
#   lab's own rules make (`lab_env/monitor/alerts.yml`). Remedy: replay under a new identifier (17).
# - **C** keeps the files of an old savepoint, whatever the cleaner may do. Remedy:
#   `delete_savepoint`, then clean (10).
# - **D** reads two of three partitions; `assign` in its options names them. Inside, it has no lag
#   at all, because it does not know the third. Remedy: `subscribe`, and a new checkpoint.
#
# And an instant that is *requested* or *inflight* for hours? Find out who began it, and whether it
# still runs. The next writer rolls a dead write back; `run_rollback_inflight_tableservice` does it
# for a compaction. **Never delete a file of the timeline**: what it began stays, and nobody knows
# any more.

# %% [markdown] tags=["instructor"]
# *For instructors.* Twenty-five minutes. Let pairs take one ticket each and present the proof. B is
# the one that most people call "slow". Short of time: tickets A and D, which need no table by name.

# %% [markdown]
# Last, the board. It has a lamp now:

# %%
from lab_env.lessons.l19.figures import draw_board

board = (
    spark.read.format("hudi")
    .load(orders)
    .groupBy("status")
    .agg(F.sum("amount").alias("revenue"))
    .toPandas()
)
waited = lab.prometheus.query(UNREAD)["value"][0]
HTML(draw_board(board, waited, firing=len(firing()) > 0))

# %% proof="The board agrees with the books, and its lamp is green."
final = validate(orders)
assert final == [] and firing().empty and waited < 5

# %% [markdown]
# A stream that ends on purpose takes its alert with it. An alarm that rings for nothing teaches
# people to ignore the next one.

# %%
query.stop()
for name in ("orders", "ticket-a", "ticket-b", "ticket-d"):
    lab.unwatch(name)
lab.prometheus.rules("groups: []")
lab.prometheus.scrape("scrape_configs: []")
server.shutdown()
spark.stop()

# %% [markdown]
# ## Key points
#
# - A process that hangs reports nothing, and the last report stays green. Count from outside: the
#   end of the topic minus the checkpoint.
# - Alarm on what a customer feels, the age of the oldest unread message, and on silence. Not on
#   numbers of messages, nor on the last commit.
# - Fresh is not right. Compare each partition with an expectation from elsewhere: rows, keys, sum,
#   newest change.
# - A complaint needs a cause and a number that proves it. Timeline and procedures have the number.
#
# ## What's next
#
# Lesson 20 takes the three sinks of the articles through one stream, and says what each costs.
