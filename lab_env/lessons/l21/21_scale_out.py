# ---
# title: "Two more machines: which resource limits the stream, and what does one more core buy?"
# minutes: {teach: 23, do: 25}
# needs: ["02", "03", "05", "17"]
# services: [minio, kafka, kinesis, cluster]
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 21 · Two more machines: which resource limits the stream, and what does one more core buy?
#
# ## Questions
#
# - My stream runs with `local[2]`. What changes when it runs on a cluster?
# - We added machines, and the stream is as slow as before. Why?
# - A process of the cluster dies in the middle of a batch. What is done again?
# - What does one more core buy, and how many does a load need?
#
# ## Objectives
#
# At the end of this lesson you can
#
# - give every core work, and keep every order right (21.1),
# - tell from Spark's list of tasks what was done twice after an executor died (21.2),
# - compute the cores for a load from a measured line, and say when no number is enough (21.3),
# - compute what a managed service charges for its cores (21.4).
#
# ## What you need
#
# Lessons 02 and 03: a partition is read in its order; a stream and its batches. Lessons 04 and 05: the ordering
# field, file groups. Lesson 17: a batch that was not committed is done again. 48 minutes, with a good place to
# pause after the second section. The last section and the appendix are optional.

# %% [markdown]
# ## Start
#
# The lab starts a small Spark cluster: one [**master**](../docs/glossary.md#master) and two
# [**workers**](../docs/glossary.md#worker) of one core each. They are processes on this machine, but Spark treats
# them as machines: they share no memory with your notebook, and they can die without it.
#
# The shop's events go into three topics. `orders` holds one hour in one partition; `orders-4` holds the same events
# in four partitions, with the order's id as key. `backlog` holds eight hours in one partition: what waits after a
# long outage. No event is late, doubled or malformed.

# %%
import math

import pandas as pd

from lab_env import Lab
from lab_env.lessons.l21.load import events_in_order
from lab_env.pipeline.session import INTERPRETED
from lab_env.platform.brokers.topics import ensure_topic

lab = Lab.start("21", "cluster", optional="kinesis")  # Kinesis: for the appendix
KAFKA = lab.endpoints.kafka_bootstrap

# %%
orders, orders_4, backlog = lab.topic("orders"), lab.topic("orders-4"), lab.topic("backlog")
for topic, partitions, hours in ((orders, 1, 1), (orders_4, 4, 1), (backlog, 1, 8)):
    ensure_topic(KAFKA, topic, partitions)
    lab.replay(topic, sends=events_in_order(hours))

# %% [markdown]
# ## The same code, another master
#
# One property decides where the work is done: `spark.master`. So far it was `local[2]`; now it is the cluster's
# address. Then we ask each task in which process it runs: `reflect` calls a static Java method in the process that
# computes the row.

# %%
# For a few thousand rows, compiling a query takes longer than the compiled query saves.
spark = lab.start_spark(INTERPRETED | {"spark.master": lab.address("cluster")})

process = "reflect('java.lang.ProcessHandle', 'current') AS process"
where = spark.range(0, 6, 1, numPartitions=6).selectExpr("id AS row", process).toPandas()
where

# %%
from IPython.display import HTML

from lab_env.lessons.l21.figures import draw_processes, processes
from lab_env.lessons.l21.machines import wait_for_executors
from lab_env.lessons.l21.tasks import SparkPages

wait_for_executors(spark, 2)  # each one is a JVM: this takes some seconds
pages = SparkPages(spark)
boxes = processes(spark)
jvms = [box for box in boxes if box.jvm]
print(len(jvms), "JVMs")
HTML(draw_processes(boxes))

# %% name="where-tasks-run" proof="Tasks run in the executors' JVMs, in no other process of the session."
executors = {str(box.pid) for box in boxes if box.name.startswith("executor")}
assert set(where["process"]) <= executors
assert len(executors) == 2 and len(jvms) == 6

# %% [markdown]
# Six JVMs: a master, two workers, two executors and the driver. Master and workers never touch a row. Your notebook
# talks to the [**driver**](../docs/glossary.md#driver), which plans each batch, hands out tasks and commits. The
# [**executors**](../docs/glossary.md#executor), which the workers have started for this session, process the rows.
# They do not see your notebook's variables; on real machines they do not see its files, either. So one property is
# not enough:
#
# - The **jars** (Kafka, S3, Hudi) must be on every machine. `spark.jars` lets the driver hand them out.
# - Executors call the driver back: `spark.driver.host` must be an address that *they* reach.
# - The **credentials** of the object store are in the workers' environment, so no Spark page shows them.
# - Anybody who reaches a master can run code on its workers, unless it requires a secret (`spark.authenticate`).
#
# The guide [On your own cluster](../docs/cluster.md) has the settings. Spark also has a [**REST
# interface**](../docs/glossary.md#rest-interface-of-spark); `SparkPages` reads it.

# %% [markdown] tags=["instructor"]
# *For instructors.* 6 minutes. Ask first how many JVMs are at work; most answer four or two: "there are two cores".

# %% [markdown]
# ## Which resource limits this job?
#
# Before you buy a core, find out whether those you have are at work. This is the lesson's pipeline. `parse` records
# which task parsed a row: `spark_partition_id()` is the number of the task in its stage. `DEMO_OPTIONS` switch off the
# metadata table and cleaning.

# %%
from pyspark.sql import functions as F

from lab_env.shop.events import EVENT_DDL


def read_topic(topic, **options):
    """The messages of a topic as a stream, from its beginning."""
    records = spark.readStream.format("kafka").option("kafka.bootstrap.servers", KAFKA)
    records = records.option("subscribe", topic).option("startingOffsets", "earliest")
    return records.options(**options).load()


def parse(records):
    """The events as typed rows, each with the task that parsed it; an erase event deletes."""
    event = F.from_json(F.col("value").cast("string"), EVENT_DDL).alias("event")
    rows = records.select(event, F.spark_partition_id().alias("parsed_by"))
    rows = rows.select("event.*", "parsed_by")
    return rows.withColumn("order_ts", F.to_timestamp("order_ts")).withColumn(
        "_hoodie_is_deleted", F.expr("op = 'erase'")
    )


# %%
from lab_env.pipeline.options import DEMO_OPTIONS

ORDERS = DEMO_OPTIONS | {
    "hoodie.table.name": "orders",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.compaction.async.enable": "false",
    "hoodie.datasource.write.recordkey.field": "order_id",
    "hoodie.datasource.write.partitionpath.field": "",  # not partitioned
    "hoodie.table.ordering.fields": "order_ts",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.upsert.shuffle.parallelism": "4",
}


def start_upsert(rows, table, checkpoint, options=ORDERS):
    """Upsert what a stream of rows has now into a Hudi table; returns the running query."""
    writer = rows.writeStream.format("hudi").options(**options)
    writer = writer.option("path", table).option("checkpointLocation", checkpoint)
    return writer.trigger(availableNow=True).start()


# %% [markdown]
# We begin without a table: `noop` is a sink that discards every row.
#
# **Predict:** the topic has one partition, and two cores are free. How many tasks parse at the same time?

# %%
lab.predict("21.p1", ..., tolerance=0)

# %%
from lab_env.lessons.l21.figures import draw_tasks
from lab_env.lessons.l21.tasks import at_once


def tasks_of(start):
    """Run a stream to completion, and return the tasks that Spark ran for it."""
    before = pages.newest_stage()
    start().awaitTermination()
    return pages.tasks(after=before)


def parse_only(topic, **options):
    rows = parse(read_topic(topic, **options))
    return rows.writeStream.format("noop").trigger(availableNow=True).start()


# %%
tasks_of(lambda: parse_only(orders_4))  # the first time both executors load their classes
parsing = {
    "1 partition": tasks_of(lambda: parse_only(orders)),
    "4 partitions": tasks_of(lambda: parse_only(orders_4)),
}
lab.record_actual("21.p1", at_once(parsing["1 partition"]))
HTML(draw_tasks(parsing))

# %% name="partitions-are-tasks" proof="Each partition of the topic is one task: one partition keeps one core busy."
read = {name: tasks.query("rows_read > 0")["rows_read"] for name, tasks in parsing.items()}
assert len(read["1 partition"]) == 1 and len(read["4 partitions"]) == 4
assert read["1 partition"].sum() == read["4 partitions"].sum()
assert at_once(parsing["1 partition"]) == 1

# %% [markdown]
# One: a task reads the partition in its order, on one core. The second machine idles: the topic's **partitions**
# limit this job.
#
# The table is next. Within one write, one task writes a file group, here a **bucket**. This is the same hour in a
# table of one bucket and in one of four.


# %%
bucketed = {buckets: lab.scratch(f"buckets_{buckets}") for buckets in (1, 4)}


def upsert_into(buckets):
    options = ORDERS | {"hoodie.bucket.index.num.buckets": str(buckets)}
    rows = parse(read_topic(orders_4))
    return start_upsert(rows, bucketed[buckets], lab.scratch("checkpoint"), options)


def writers(tasks):
    """The tasks of the last stage that got rows through a shuffle: those that wrote the table."""
    fetched = tasks[tasks["rows_fetched"] > 20]
    return fetched[fetched["stage"] == fetched["stage"].max()]


writing = {f"{n} bucket{'s' * (n > 1)}": tasks_of(lambda n=n: upsert_into(n)) for n in bucketed}
written_by = {name: len(writers(tasks)) for name, tasks in writing.items()}
print(written_by)
HTML(draw_tasks(writing))

# %% name="buckets-are-tasks" proof="As many tasks write as the table has buckets."
assert written_by == {"1 bucket": 1, "4 buckets": 4}
assert all(at_once(tasks) <= 2 for tasks in writing.values())

# %% [markdown]
# Partitions limit how many tasks read, buckets how many write, and cores how many work *at once*. In each stage the
# smaller number counts. The gaps in the picture are steps of a single process, such as the plan and the commit: no
# second machine shortens them.
#
# And the course's own stream? Its profile was recorded on two cores: 500 events per second, a batch every 3 s.
#
# **Predict:** what takes most of those 3 s in the query that writes Copy-on-Write?

# %%
PARTS = ("Python", "writing", "commit", "waiting")
lab.predict("21.p2", ..., choices=PARTS)

# %%
from lab_env.lessons import recorded
from lab_env.lessons.recorded.profile import profile_chart, share_table

profile = recorded.delivered("profile")
seconds = share_table(profile)["Hudi COW"]
spent = {part: seconds[seconds.index.str.startswith(part)].sum() for part in PARTS}
lab.record_actual("21.p2", max(spent, key=spent.get))
HTML(profile_chart(profile))

# %% name="the-stream-waits" proof="The recorded stream waits for half of the time, mostly for its trigger."
assert spent["waiting"] > 0.5 * seconds.sum() and spent["Python"] < 0.1
assert seconds["waiting for the trigger"] > 0.5 * spent["waiting"]

# %% [markdown]
# It waits, mostly for the next trigger. (`lab bench profile` draws your machine.) And more tasks cost: with Spark 3.5
# and Python 3.11 a worker reads the directories of Spark's archives again at the start of each, 26 ms when idle
# ([SPARK-54744](https://issues.apache.org/jira/browse/SPARK-54744)), and while a task combines rows for Hudi, Spark
# estimates the size of its map 52 times for 800 rows, 102 times for 100,000. So on one machine the pipeline takes
# the archives off the workers' path, and gives each query its share of the cores, at least one task: [what that
# gained](../docs/figures.md#the-tour).
#
# ### More tasks than partitions
#
# Kafka's source can cut a partition into several ranges of offsets, so that several tasks read it.
#
# A colleague's table has no ordering field and merges by `COMMIT_TIME_ORDERING`. One task filled it, and it was
# right. Now four tasks read the same hour.
#
# **Predict:** what does her table hold afterwards?

# %%
RIGHT, FEWER, OLD = "the newest version of each order", "too few orders", "some old versions"
lab.predict("21.p3", ..., choices=(RIGHT, FEWER, OLD))

# %%
from lab_env.lessons.l21.checks import read_table
from lab_env.lessons.l21.load import IN_FOUR_TASKS
from lab_env.lessons.table_copies import empty_copy

HERS = ORDERS | {"hoodie.write.record.merge.mode": "COMMIT_TIME_ORDERING"}
del HERS["hoodie.table.ordering.fields"]
compared, table = {}, lab.scratch("hers")
for name, options in {"1 task": {}, "4 tasks": IN_FOUR_TASKS}.items():
    rows = parse(read_topic(orders, **options))
    start_upsert(rows, table, lab.scratch("checkpoint"), HERS).awaitTermination()
    compared[name] = lab.ledger(orders).reconcile_table(read_table(table))
    table = empty_copy(lab, table, "hers")  # a stream that creates its table waits 5 s
four = compared["4 tasks"]
lab.record_actual("21.p3", FEWER if four.missing else OLD if four.stale else RIGHT)
pd.DataFrame({name: vars(found) for name, found in compared.items()}).loc[
    ["rows", "expected", "missing", "stale", "ghost"]
]

# %% name="split-order" proof="One partition in several tasks breaks its order: without an ordering field orders are stale."
assert compared["1 task"].ok
assert not four.missing and four.stale > 0

# %% [markdown]
# Nothing failed, and no order is missing. But some are *stale*, and an erased order can be back (*ghost*): her table
# keeps the row that is written last, and which one that is now depends on which task was faster. So let a field of
# the *event* decide before you scale out: with `order_ts` the newest event wins, in whichever task (lesson 04).
#
# ### Exercise 21.1 · Give every core work
#
# The topic `orders` has one partition, and you cannot change it: other teams rely on it. Write the function that
# brings a topic's events into a table and returns the running query. Every core must parse, and the table must have
# the newest version of every order. `**options` go to the source. Let Hudi's own sink write: its commits name their
# batch. You may use `read_topic`, `parse` and `start_upsert`.


# %% exercise="21.1"
def ingest(topic, table, checkpoint, **options):
    """Upsert a topic's events into a table; every core parses. Returns the running query."""
    # BEGIN SOLUTION
    records = spark.readStream.format("kafka").option("kafka.bootstrap.servers", KAFKA)
    records = records.option("subscribe", topic).option("startingOffsets", "earliest")
    records = records.option("minPartitions", 4).options(**options).load()
    rows = parse(records)
    writer = rows.writeStream.format("hudi").options(**ORDERS)
    writer = writer.option("path", table).option("checkpointLocation", checkpoint)
    return writer.trigger(availableNow=True).start()
    # END SOLUTION


lab.check("21.1", ingest)

# %% [markdown] hint="21.1"
# Two places can divide the rows before they are parsed: the source ([its
# options](https://spark.apache.org/docs/3.5.7/structured-streaming-kafka-integration.html)), or a shuffle.

# %% [markdown] hint="21.1"
# The shortest answer is `start_upsert(parse(read_topic(topic, minPartitions=4, **options)), table, checkpoint)`. A
# shuffle after `parse` comes too late: one task has done the work by then.


# %% right="21.1"
# With a shuffle before the parse, where partitions cannot be read in parts.
def ingest(topic, table, checkpoint, **options):
    records = read_topic(topic, **options).repartition(4, "key")
    return start_upsert(parse(records), table, checkpoint)


# %% wrong="21.1"
# expect: do not say which batch they hold
def ingest(topic, table, checkpoint, **options):
    def write(batch, number):
        batch.write.format("hudi").options(**ORDERS).mode("append").save(table)

    rows = parse(read_topic(topic, minPartitions=4, **options))
    writer = rows.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
    return writer.trigger(availableNow=True).start()


# %% wrong="21.1"
# expect: the source still had one task at a time, because the topic has 1 partition
def ingest(topic, table, checkpoint, **options):
    spark.conf.set("spark.sql.shuffle.partitions", 8)
    return start_upsert(parse(read_topic(topic, **options)), table, checkpoint)


# %% wrong="21.1"
# expect: a shuffle *before* the parsing
def ingest(topic, table, checkpoint, **options):
    rows = parse(read_topic(topic, **options)).repartition(4, "order_id")
    return start_upsert(rows, table, checkpoint)


# %% wrong="21.1"
# expect: Both cores work, and
def ingest(topic, table, checkpoint, **options):
    rows = parse(read_topic(topic, **options).repartition(4))
    return start_upsert(rows, table, checkpoint, HERS)


# %% wrong="21.1"
# expect: but you drop other options
def ingest(topic, table, checkpoint, maxOffsetsPerTrigger=None, **options):
    given = {"maxOffsetsPerTrigger": maxOffsetsPerTrigger} if maxOffsetsPerTrigger else {}
    return start_upsert(parse(read_topic(topic, minPartitions=4, **given)), table, checkpoint)


# %% equivalent="21.1"
# 4 → 5: tasks that divide the one partition; any number above one lets both cores parse
# 4 → 3: as with five

# %% [markdown] tags=["instructor"]
# *For instructors.* 14 minutes. Draw partitions as lanes of a motorway before the learners see the picture. The usual
# wrong answer to 21.1 is `spark.sql.shuffle.partitions`. *Short of time:* show the table of one bucket only.

# %% [markdown]
# **A good place to pause.** To go on another day, type `lab goto 21c` in a terminal: it runs everything to here
# again.
#
# ## An executor dies
#
# The more machines, the more often one of them fails. The backlog comes in batches of at most 26,000 messages. In the
# second batch or later, while a task is at work, we kill its executor with SIGKILL. To Spark the executor has crashed.
#
# **Predict:** what is done again?

# %%
lab.predict("21.p4", ..., choices=("the whole batch", "what was lost of it", "nothing"))

# %%
from lab_env.lessons.l21.machines import kill_while_it_works

lab.use_reference("21.1")
BOUNDED = {"maxOffsetsPerTrigger": 26_000}
places = {}


def start(attempt):
    """Start the stream of the backlog; each attempt to meet a task gets its own table."""
    places[attempt] = lab.scratch("orders")
    return ingest(backlog, places[attempt], lab.scratch("checkpoint"), **BOUNDED)


died = kill_while_it_works(spark, start)
tasks = pages.tasks(after=died.first_stage)
HTML(draw_tasks({"the backlog, and an executor that died": tasks}))

# %%
orders_path = places[died.attempt]
batches = pd.DataFrame(
    {"batch": report["batchId"], "rows read": report["numInputRows"]}
    for report in died.query.recentProgress
)
picture = lab.xray(orders_path)
commits = [picture.commit(name) for name in picture.completed_writes]
batches["commits that say so"] = [
    sum(str(n) in (commit.checkpoint or {}).values() for commit in commits)
    for n in batches["batch"]
]
ledger = lab.ledger(backlog).reconcile_table(read_table(orders_path))
print("the ledger agrees:", ledger.ok)
batches

# %% [markdown]
# The worker reported the death and started another executor. Every batch is there once, with one commit.
# (*rows read* also counts second tries that succeeded.)
#
# ### Exercise 21.2 · What was done twice?

# %%
columns = ["stage", "stage_try", "task", "attempt", "status", "executor"]
tasks[columns].head(3)

# %% [markdown]
# `tasks` has one row per *try* of a task. `task` is its number in the stage, `attempt` counts its tries within one
# run of the stage, and `stage_try` counts the runs of the stage. Write the function that counts the tasks that ran
# more than once. Not every lost task had failed.


# %% exercise="21.2"
def done_twice(tasks):
    """How many tasks of a list of tries ran more than once."""
    # BEGIN SOLUTION
    tries = spark.createDataFrame(tasks[["stage", "task"]]).groupBy("stage", "task").count()
    return tries.where("count > 1").count()
    # END SOLUTION


lab.check("21.2", done_twice)

# %% [markdown] hint="21.2"
# A task is a stage and a number in that stage. Count the rows of each.

# %% [markdown] hint="21.2"
# In pandas: `tasks.groupby(["stage", "task"]).size()`. How many of these counts are above 1?


# %% right="21.2"
# With the sizes of the groups.
def done_twice(tasks):
    return (tasks.groupby(["stage", "task"]).size() > 1).sum()


# %% right="21.2"
# With `duplicated`, if you want to see the tasks.
def done_twice(tasks):
    again = tasks[tasks.duplicated(["stage", "task"])]
    return str(len(set(zip(again["stage"], again["task"], strict=True))))


# %% wrong="21.2"
# expect: `attempt` counts within one try of a stage
def done_twice(tasks):
    return (tasks["attempt"] > 0).sum()


# %% wrong="21.2"
# expect: A task may have succeeded before its executor died
def done_twice(tasks):
    return (tasks["status"] == "FAILED").sum()


# %% wrong="21.2"
# expect: that is every try
def done_twice(tasks):
    return len(tasks)


# %%
lab.use_reference("21.2")
twice, in_all = int(done_twice(tasks)), len(tasks.groupby(["stage", "task"]))
print(f"{twice} of {in_all} tasks ran more than once")
again = "what was lost of it" if 0 < twice < in_all else "the whole batch" if twice else "nothing"
lab.record_actual("21.p4", again)

# %% name="only-what-was-lost" proof="A dead executor costs the tasks that were lost; the batch has one number and one commit."
assert ledger.ok and 0 < twice < in_all
assert list(batches["batch"]) == list(range(len(batches)))
assert set(batches["commits that say so"]) == {1}

# %% [markdown]
# Only what was lost: the tasks at work on the dead executor, and finished ones whose results were still needed. In
# lesson 17 the *driver* died, and the whole batch was done again. The driver knows which results it needs and where
# they were, so it can replace an executor. Nobody replaces the driver: on a cluster, too, something must restart it.
#
# > **Documented, not measured** ([Spark 3.5](https://spark.apache.org/docs/3.5.7/configuration.html)). Four failures
# > of *one* task end the query (`spark.task.maxFailures`), and its restart does the batch again; with `local[2]` the
# > first one does. A machine without power is worse than a crash: it reports nothing, and only looks slow until a
# > standalone master drops it after 60 s
# > ([`spark.worker.timeout`](https://spark.apache.org/docs/3.5.7/spark-standalone.html); 20 s in this lab).

# %% [markdown] tags=["instructor"]
# *For instructors.* 9 minutes. Before the picture appears, let the group say what "the batch" is: the number in
# the checkpoint, the commit, or the work. Common answer: the whole batch, from lesson 17. *Short of time:* skip the
# table of batches.

# %% [markdown]
# ## What does one more core buy?
#
# Now every core has work, so one more can help. How much? We measure batches of two sizes, on two cores and on one.
# Each query runs four batches: the first creates the table's files, the other three are our rounds. Then the lab
# stops the second worker.

# %%
SIZES = {orders: 2_416, backlog: 19_326}  # messages per batch: a quarter of each topic


def measure(cores):
    """Measure rounds of both sizes on this number of cores: rows, seconds, work per row."""
    found = []
    wait_for_executors(spark, cores)
    for topic, size in SIZES.items():
        before, table = pages.newest_stage(), empty_copy(lab, orders_path, "measured")
        query = ingest(topic, table, lab.scratch("checkpoint"), maxOffsetsPerTrigger=size)
        query.awaitTermination()
        tasks, reports = pages.tasks(after=before), query.recentProgress
        done = sum(report["numInputRows"] for report in reports)
        work = {"cores": cores, "rows": size, "at once": at_once(tasks)}
        work["cpu-ms per row"] = 1000 * tasks["cpu"].sum() / done
        for report in reports[1:4]:
            found.append(work | {"seconds": report["durationMs"]["triggerExecution"] / 1000})
    return found


on_two = measure(cores=2)

# %%
from lab_env.lessons.l21.machines import start_worker, stop_worker

stop_worker(spark, 2)
on_one = measure(cores=1)
start_worker(2)
runs = pd.DataFrame(on_one + on_two)
runs.groupby(["rows", "cores"]).agg(
    {"seconds": ["min", "median", "max"], "cpu-ms per row": "first", "at once": "max"}
)

# %% name="work-does-not-shrink" proof="Two cores work at once and one does not; the work per row stays about the same."
per_row = runs[runs["rows"] == max(SIZES.values())].groupby("cores")["cpu-ms per row"].first()
assert runs.groupby("cores")["at once"].max().to_dict() == {1: 1, 2: 2}
assert 0.5 < per_row[2] / per_row[1] < 2

# %% [markdown]
# *cpu-ms per row* is the tasks' processor time: more cores share the work, they do not reduce it. *seconds* is the
# clock's time. Here both workers, the driver, Kafka and MinIO compete for the same cores, so on machines of its own
# the second core would probably gain more.
#
# Cores cannot share every part of a batch: its plan, writes that wait for each other, the commit. So
#
# > `T(n, c) = a + b * n / c`
#
# for n rows on c cores: *a* seconds per batch, *b* core-seconds per row by the clock. **It holds only as long as
# every core has work: at least c tasks that read and c buckets.** Least squares finds *a* and *b* from the fastest
# round of each setting, because whatever disturbs a batch only adds time. To see how sure they are, we fit every
# combination of rounds: that is what the rounds *allow*.

# %%
from lab_env.lessons.l21.capacity import fit
from lab_env.lessons.l21.figures import draw_line

fitted = fit(runs)
fastest = runs[runs["rows"] == 19_326].groupby("cores")["seconds"].min()
at_two = fastest[1] / fastest[2]
print(f"two cores, 19,326 rows: {at_two:.2f} times as fast as one")
if at_two < 1.05:
    print("Too little to measure: other work held the cores. Measure again when it is done.")
print("a:", fitted.a.shown(2), "seconds per batch")
print("b:", fitted.b.shown(3, factor=1000), "fitted ms per row")
HTML(draw_line(runs, fitted))

# %% [markdown]
# The job that you measured parses in four tasks and writes two buckets, so a third core could write nothing. Suppose
# that tasks and buckets grow with the cores.
#
# **Predict:** by your *a* and *b*, how many times as fast as on one core is a batch of 19,326 rows on 64 cores?

# %%
lab.predict("21.p5", ..., choices=("less than 10 times", "10 to 40 times", "more than 40 times"))

# %%
from lab_env.lessons.l21.figures import draw_reach

reach = fitted.speedup(rows=19_326, cores=64)
print("64 cores, 19,326 rows:", reach.shown(1), "times as fast")
lab.record_actual(
    "21.p5",
    "less than 10 times" if reach.middle < 10
    else "10 to 40 times" if reach.middle <= 40
    else "more than 40 times",
)  # fmt: skip
HTML(draw_reach(fitted, sizes=(2_416, 19_326, 200_000, 2_000_000)))

# %% name="the-commit-is-serial" proof="The part that cores cannot share bounds small batches; larger batches use more cores."
small, large = (fitted.speedup(rows, 64).middle for rows in (2_416, 2_000_000))
assert fitted.line.a > 0 and fitted.line.b > 0
assert small < reach.middle < large < 64

# %% [markdown]
# More cores divide only `b · n`: the second core saves half of it, the third a sixth, the fourth a twelfth. *a* stays.
# For one more core to buy more, make the batches longer: twice the interval, twice the rows, the same *a*. **Longer
# batches buy throughput at the price of freshness.**
#
# How far can you trust that picture? Only the grey strip was measured. And the line assumes that cores never hinder
# each other; Gunther's universal scalability law adds a cost for each *pair* of cores. Here are three laws that all
# go through your measured points:

# %%
from lab_env.lessons.l21.capacity import serial_share, speedup_by_usl
from lab_env.lessons.l21.figures import draw_two_laws

talks = (0, 0.001, 0.01)
for talk in talks:
    serial = serial_share(at_two, talk)
    here, there = speedup_by_usl(2, serial, talk), speedup_by_usl(64, serial, talk)
    print(f"each pair costs {talk:5}: {here:.2f} on 2 cores, {there:4.1f} on 64")
HTML(draw_two_laws(at_two, talks))

# %% name="two-points-carry-no-law" proof="Laws that agree on one and two cores promise different things for 64."
serials = {talk: serial_share(at_two, talk) for talk in talks}
on_2, on_64 = ([speedup_by_usl(c, serials[talk], talk) for talk in talks] for c in (2, 64))
assert max(on_2) - min(on_2) < 1e-9 and max(on_64) > 1.1 * min(on_64)

# %% [markdown]
# Two points cannot tell such laws apart. Use your line for "two cores or four?". For 64, measure on 8 and 16 first.
#
# ### Exercise 21.3 · How many cores?
#
# A stream gets `rate` events per second. Readers must see each event at most `freshness` seconds after it was sent:
# the event waits for its batch to begin, and then for that batch to end. Batches begin at a fixed interval, which you
# choose, and a batch may last the whole interval. No partition is divided as in 21.1, so each core reads at least a
# whole one: more cores than `partitions` get no work.
#
# Write the function that returns the smallest number of cores, or `None` if no number is enough.


# %% exercise="21.3"
def cores_for(rate, a, b, freshness, partitions):
    """The smallest number of cores that keeps up; None if there is none."""
    # BEGIN SOLUTION
    interval = freshness / 2
    if interval <= a:
        return None
    cores = math.ceil(b * rate * interval / (interval - a))
    return cores if cores <= partitions else None
    # END SOLUTION


lab.check("21.3", cores_for)

# %% [markdown] hint="21.3"
# At worst an event waits one interval for its batch to begin, and another one for it to end. So the interval is half
# of `freshness`, and `a + b · rate · interval / cores` must not be larger. What if `a` alone is?

# %% [markdown] hint="21.3"
# Or search: try 1, 2, 3, ... up to `partitions`, and return the first that keeps up. After the loop comes `None`.


# %% right="21.3"
# By trying: the formula stays readable.
def cores_for(rate, a, b, freshness, partitions):
    interval = freshness / 2
    for cores in range(1, partitions + 1):
        if a + b * rate * interval / cores <= interval:
            return cores
    return None


# %% right="21.3"
# With infinity for what no number of cores can do.
def cores_for(rate, a, b, freshness, partitions):
    left = freshness / 2 - a
    cores = float("inf") if left <= 0 else max(1, math.ceil(b * rate * freshness / 2 / left))
    return float("inf") if cores > partitions else float(cores)


# %% wrong="21.3"
# expect: nobody parses; the lag grows by
def cores_for(rate, a, b, freshness, partitions):
    return max(1, math.ceil(rate * b))


# %% wrong="21.3"
# expect: 24 cores for 6 partitions
def cores_for(rate, a, b, freshness, partitions):
    interval = freshness / 2
    return max(1, math.ceil(b * rate * interval / (interval - a))) if interval > a else None


# %% wrong="21.3"
# expect: nothing is left for the rows
def cores_for(rate, a, b, freshness, partitions):
    cores = max(1, math.ceil(b * rate * freshness / 2 / abs(freshness / 2 - a)))
    return cores if cores <= partitions else None


# %% wrong="21.3"
# expect: cores keep up, too
def cores_for(rate, a, b, freshness, partitions):
    interval = freshness / 2
    if interval <= a:
        return None
    cores = int(b * rate * interval / (interval - a)) + 1
    return cores if cores <= partitions else None


# %% [markdown]
# Your function and your line make a **capacity sheet** for a topic of 24 partitions and a table of 24 buckets. Each
# cell goes from the most favourable line that the rounds allow to the least favourable one. A dash means that no
# number of cores is enough.

# %%
lab.use_reference("21.3")


def cores_between(rate, freshness):
    found = {cores_for(rate, line.a, line.b, freshness, 24) for line in fitted.allowed}
    known = sorted(found - {None, math.inf})
    if not known:
        return "–"
    most = "–" if found - set(known) else known[-1]
    return f"{known[0]} to {most}" if most != known[0] else str(most)


sheet = pd.DataFrame(
    {f"{freshness} s": [cores_between(rate, freshness) for rate in (500, 5_000, 20_000, 100_000)]
     for freshness in (2, 5, 10, 60)},
    index=["500 events/s", "5,000", "20,000", "100,000"],
)  # fmt: skip
sheet

# %% [markdown]
# Read it row by row: the fresher the data, the shorter the interval, and the larger the part of it that *a* takes. At
# some point no number of cores is enough.
#
# Is the board still right? Here is the table whose stream lost an executor, next to the newest event of each order
# that was sent:

# %%
import json

found = read_table(orders_path)
sent = pd.DataFrame(json.loads(send.value) for send in events_in_order(8))
newest = sent.sort_values("order_ts").drop_duplicates("order_id", keep="last")
as_sent = newest[newest["op"] != "erase"]
board = pd.DataFrame(
    {
        "in the table": found.groupby("status")["amount"].sum().astype(float).round(2),
        "as sent": as_sent.groupby("status")["amount"].sum().astype(float).round(2),
    }
)
board

# %% name="the-board-agrees" proof="The table whose stream lost an executor is right to the cent."
assert len(found) == len(as_sent) == ledger.rows
assert (board["in the table"] == board["as sent"]).all() and board["as sent"].min() > 0

# %% [markdown] tags=["instructor"]
# *For instructors.* 15 minutes. Ask for a number before each picture: everybody overestimates 64 cores. Let a group
# defend the right column of the capacity sheet to a boss who wants one number. *Short of time:* leave out the three
# laws.

# %% [markdown]
# ## Optional: what does a managed service charge for its cores?
#
# Amazon's managed Flink sells [**KPUs**](../docs/glossary.md#kpu): one core and 4 GB each. Its *parallelism* is the
# number of tasks at once, and *parallelism per KPU* says how many of them share a KPU. `data/prices.csv` has the
# price, with date and source.
#
# ### Exercise 21.4 · The bill
#
# What do an application's KPUs cost, in dollars? [Amazon's page on
# billing](https://docs.aws.amazon.com/managed-flink/latest/java/how-pricing.html) (read November 2026) says which
# ones are charged. Storage is billed separately; leave it out.


# %% exercise="21.4"
def bill(parallelism, per_kpu, hours, price):
    """US dollars for an application that runs for some hours."""
    return (math.ceil(parallelism / per_kpu) + 1) * hours * price  # SOLUTION


lab.check("21.4", bill)

# %% [markdown] hint="21.4"
# KPUs are sold whole: five tasks at two per KPU need three. Amazon charges one more per application, for its
# orchestration.


# %% right="21.4"
# By counting up.
def bill(parallelism, per_kpu, hours, price):
    kpus = 1
    while parallelism > 0:
        parallelism, kpus = parallelism - per_kpu, kpus + 1
    return round(kpus * hours * price, 2)


# %% wrong="21.4"
# expect: one for the application itself
def bill(parallelism, per_kpu, hours, price):
    return math.ceil(parallelism / per_kpu) * hours * price


# %% wrong="21.4"
# expect: They are whole ones
def bill(parallelism, per_kpu, hours, price):
    return (parallelism / per_kpu + 1) * hours * price


# %% [markdown]
# An example: the load is four times what two cores did with batches of 19,326 rows, and events may be two minutes
# old. We take your stream's cores as the parallelism; for a real bill, measure the Flink job. A month has 730 hours.

# %%
from lab_env.platform.prices import read_prices

lab.use_reference("21.4")
prices = read_prices({"kpu": "KPU-hour"})
able = 19_326 / fitted.line.seconds(19_326, cores=2)  # rows per second on two cores
rate = 4 * able
tasks_needed = cores_for(rate, fitted.line.a, fitted.line.b, freshness=120, partitions=24)
price = prices["kpu"]
month = {per_kpu: bill(tasks_needed, per_kpu, hours=730, price=price) for per_kpu in (1, 2)}
print(f"{rate:,.0f} events/s need {tasks_needed} tasks at once; USD by tasks per KPU: {month}")

# %% name="kpus-on-the-bill" proof="The bill has one KPU more than the tasks need."
assert round(month[1] / (730 * price)) == tasks_needed + 1

# %% [markdown] tags=["instructor"]
# *For instructors.* 4 minutes. Most forget the KPU that runs no task. *Short of time:* leave the section out.

# %% [markdown]
# > **In production**
# > - A secret does not encrypt: between machines, switch on
# >   [`spark.network.crypto.enabled`](https://spark.apache.org/docs/3.5.7/security.html).
# > - New partitions of a topic move keys, so the events of a key lose their order there
# >   ([Kafka](https://kafka.apache.org/41/operations/basic-kafka-operations/#modifying-topics)).
# > - No write changes the number of buckets of a simple bucket index. Choose it for the data to come, not for today's
# >   cores ([Hudi](https://hudi.apache.org/docs/indexes)).
#
# ## Key points
#
# - A partition is a task that reads, a bucket is a task that writes; cores decide only how many of them work at
#   once.
# - Once several tasks read a partition, the order of arrival means nothing: let a field of the event decide.
# - A dead executor costs only the tasks that were lost; a dead driver must be restarted, and repeats the batch.
# - `a + b · n / c`, while each core has work: each further core buys less; longer batches use more, and cost freshness.
# - Two points carry a line, not a law: measure before you buy 64 cores.
#
# ## What's next
#
# You have all parts. Lesson 22 gives you a stream and a requirement, and looks only at what your tables hold.

# %% [markdown]
# ### Appendix · Slots, autoscaling, and Kinesis
#
# *Fifteen minutes; nothing later needs it.*
#
# #### More tasks per KPU
#
# Does more *parallelism per KPU* give more throughput? We read the backlog with two tasks at once, then tie both
# executors to one core of this machine and read it again. (macOS cannot tie them: both runs are free.)

# %%
from lab_env.lessons.l21.machines import on_one_core

wait_for_executors(spark, 2)  # the second worker is back
free = tasks_of(lambda: parse_only(backlog, minPartitions=4))
with on_one_core(spark) as tied:
    shared = tasks_of(lambda: parse_only(backlog, minPartitions=4))
used = {}
for name, tasks in {"free": free, "on one core" if tied else "free again": shared}.items():
    used[name] = tasks["cpu"].sum() / tasks["end"].max()
    print(f"{name}: {at_once(tasks)} tasks at once, {used[name]:.2f} core-seconds per second")

# %% name="slots-are-not-cores" proof="Two slots on one core are busy at once, and do the work of one core."
assert at_once(shared) == 2 and (not tied or used["on one core"] < 1.1)

# %% [markdown]
# Two slots on one core do the work of one core. More slots pay where tasks *wait*, for a slow store or another
# service. Parsing does not wait.
#
# #### How late does autoscaling come?
#
# > **Documented, not measured.** The service doubles the parallelism when its processors have been at 75 % or more
# > for 15 minutes in a row ([Amazon](https://docs.aws.amazon.com/managed-flink/latest/java/how-scaling-auto.html), read
# > November 2026).
#
# The usual load is the rate from above, and the application can do twice as much. A campaign brings six times the
# usual load for ten minutes.
#
# **Predict:** how many seconds after the end of the burst has the application caught up?

# %%
lab.predict("21.p6", ..., tolerance=60)

# %%
from lab_env.lessons.l21.figures import draw_burst

BURST, MINUTE = (600, 1_200), 60  # from second 600 to 1,200
capacity, hot, lag, scaled_at = 2 * rate, 0, [0.0], None
for second in range(1, 3_600):
    arriving = 6 * rate if BURST[0] <= second < BURST[1] else rate
    done = min(lag[-1] + arriving, capacity)
    hot = hot + 1 if done >= 0.75 * capacity else 0
    if hot == 15 * MINUTE and scaled_at is None:
        scaled_at, capacity = second, 2 * capacity
    lag.append(lag[-1] + arriving - done)

marks = {"burst begins": BURST[0], "ends": BURST[1], "new cores": scaled_at}
print(f"{max(lag):,.0f} events wait at most: {max(lag) / rate:,.0f} s of the usual load")
caught_up = lag.index(0, BURST[1])  # the first second without a waiting event
lab.record_actual("21.p6", caught_up - BURST[1])
HTML(draw_burst(range(len(lag)), lag, marks))

# %% name="autoscaling-is-late" proof="By the documented rule new cores come after a burst of ten minutes."
assert scaled_at > BURST[1] and lag[BURST[1]] > 1_000 * rate

# %% [markdown]
# In the burst 2,400 s of the usual load pile up. The old cores catch up on 300 s of it before the new ones come, and
# those need 700 s for the rest. Autoscaling follows a load that lasts. For a burst you need spare cores, or a topic
# that retains it and readers who can wait.
#
# #### The same hour from Kinesis
#
# A **shard** of Kinesis is what a partition is in Kafka: an ordered sequence with its own limit (lesson 02). The same
# hour goes into a stream of two shards, which the lab emulates.

# %%
from lab_env.platform.brokers import streams

lab.wait_for("kinesis")
stream = lab.topic("orders-kinesis")  # a topic or a stream: the same name for the ledger
lab.replay(stream, source="kinesis", sends=events_in_order())

kinesis = streams.client(lab.address("kinesis"))  # a client of boto3
shards = kinesis.list_shards(StreamName=stream)["Shards"]
first = {"StreamName": stream, "ShardId": shards[0]["ShardId"]}
begin = kinesis.get_shard_iterator(ShardIteratorType="TRIM_HORIZON", **first)
page = kinesis.get_records(ShardIterator=begin["ShardIterator"], Limit=2)
pd.DataFrame(page["Records"])[["SequenceNumber", "PartitionKey"]]

# %% [markdown]
# Before a batch runs, Spark writes down where it will end, so that it can read the same batch again after a crash.
# Kafka tells it the newest offset of each partition. Kinesis names no end: sequence numbers are not counts, and an
# open shard's description has no last one. So the pipeline **lands** the records of all shards in files, each with the
# sequence number that each shard had reached. Spark then streams files, which have an end.
#
# The guide [Kinesis, end to end](../docs/kinesis.md) has limits, prices, and AWS's connector for Spark.

# %%
from lab_env.pipeline.landing import Landing, landed_files, read_landing

described = set(shards[0]["SequenceNumberRange"])  # only a closed shard's range has an end
print("a shard's description:", sorted(described))
print("a page:", sorted(page), "·", page["MillisBehindLatest"], "ms behind the newest record")
landing = Landing(lab.endpoints, stream, lab.path("landing"))
print(
    landing.land_all(), "records in", len(landed_files(lab.endpoints, lab.path("landing"))), "files"
)
pd.DataFrame(vars(reached) for reached in landing.position.shards.values())

# %% [markdown]
# From here on everything is as with Kafka, but a source of files has no `minPartitions`: a shuffle before the parsing
# gives every core work.

# %%
landed = read_landing(spark, lab.path("landing"))
rows = parse(landed.repartition(4, "key"))
table = empty_copy(lab, bucketed[4], "from_kinesis")
from_kinesis = tasks_of(lambda: start_upsert(rows, table, lab.scratch("checkpoint")))
by_source = {"from Kinesis": read_table(table), "from Kafka": read_table(bucketed[4])}
judged = lab.ledger(stream).reconcile_table(by_source["from Kinesis"])
print("the ledger agrees:", judged.ok)
pd.DataFrame({n: found.groupby("status")["amount"].sum() for n, found in by_source.items()})

# %% name="kinesis-beside-kafka" proof="The same hour through Kinesis and through Kafka gives the same table."
assert judged.ok and at_once(from_kinesis) == 2
read = from_kinesis.query("rows_read > 0")
assert len(read[read["stage"] == read["stage"].min()]) == 1
same = [found.set_index("order_id")["amount"].sort_index() for found in by_source.values()]
assert len(same[0]) > 1_000 and same[0].equals(same[1])
assert "EndingSequenceNumber" not in described and page["MillisBehindLatest"] > 0

# %% [markdown]
# `LAB_SOURCE=kinesis lab tour` runs the whole pipeline this way, on live load.
