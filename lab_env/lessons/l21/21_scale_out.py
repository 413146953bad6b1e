# ---
# title: "Two more machines: which resource limits the stream, and what does one more core buy?"
# minutes: {teach: 29, do: 39}
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
# - We added a machine, and the stream is as slow as before. Why?
# - Several machines read now. Is every order still right?
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
# - name the resource that holds a stream, and what helps (21.4).
#
# ## What you need
#
# Lessons 02 and 03: a partition is read in its order; a stream and its batches. Lessons 04 and 05: the ordering
# field, file groups. Lesson 17: a batch that was not committed is done again. 68 minutes, with a good place to
# pause after the second section.

# %% [markdown]
# ## Start
#
# The shop's stream stood still for eight hours, and the board is as old as that. The events wait in Kafka. You have
# rented a second machine, so that the stream catches up in half of the time.
#
# The lab starts a small Spark cluster with two [**workers**](../docs/glossary.md#worker) of one core each. They are
# processes on this computer, but to Spark they are machines: they share no memory with your notebook, and they can
# die without it.
#
# Three topics hold the events: `orders` the first hour in one partition, `orders-4` the same hour in four, with the
# order's id as key, and `backlog` all eight hours in one partition. No event is late, doubled or malformed.

# %%
import math

import pandas as pd
from IPython.display import HTML

from lab_env import Lab
from lab_env.lessons.l21.load import fill_topics
from lab_env.pipeline.session import INTERPRETED

lab = Lab.start("21", "cluster", optional="kinesis")  # Kinesis: for the appendix
KAFKA = lab.endpoints.kafka_bootstrap
orders, orders_4, backlog = fill_topics(lab)
# For a few thousand rows, compiling a query takes longer than the compiled query saves.
spark = lab.start_spark(INTERPRETED | {"spark.master": lab.address("cluster")})

# %% [markdown]
# ## The second machine has nothing to do
#
# One property decides where the work is done: `spark.master` was `local[2]`, and is now the cluster's address. The
# [**driver**](../docs/glossary.md#driver), next to your notebook, plans each batch and commits it. Each worker has
# started an [**executor**](../docs/glossary.md#executor), which runs one task at a time.
#
# The stream is the one that you know. `parse` makes typed rows from the messages, and `ORDERS` are Hudi's options for
# a Merge-on-Read table of two buckets.

# %%
from lab_env.lessons.l21.stream import ORDERS, parse


def read_topic(topic, **options):
    """The messages of a topic as a stream, from its beginning."""
    records = spark.readStream.format("kafka").option("kafka.bootstrap.servers", KAFKA)
    records = records.option("subscribe", topic).option("startingOffsets", "earliest")
    return records.options(**options).load()


def start_upsert(rows, table, checkpoint, options=ORDERS):
    """Upsert what a stream of rows has now into a Hudi table; returns the running query."""
    writer = rows.writeStream.format("hudi").options(**options).trigger(availableNow=True)
    return writer.option("path", table).option("checkpointLocation", checkpoint).start()


# %% [markdown]
# First we only read: the sink `noop` discards every row.
#
# **Predict:** the topic has one partition, and two machines wait for work. How many of them work at the same time?

# %%
lab.predict("21.p1", ..., tolerance=0)

# %%
from lab_env.lessons.l21.figures import draw_tasks
from lab_env.lessons.l21.machines import wait_for_executors
from lab_env.lessons.l21.tasks import SparkPages, at_once, writers


def parse_only(topic, **options):
    rows = parse(read_topic(topic, **options))
    return rows.writeStream.format("noop").trigger(availableNow=True).start()


wait_for_executors(spark, 2)
pages = SparkPages(spark)  # reads Spark's lists of tasks
pages.tasks_of(parse_only, orders_4)  # the first time both executors load their classes
parsing = {
    "1 partition": pages.tasks_of(parse_only, orders),
    "4 partitions": pages.tasks_of(parse_only, orders_4),
}
lab.record_actual("21.p1", at_once(parsing["1 partition"]))
HTML(draw_tasks(parsing))

# %% name="partitions-are-tasks" proof="Each partition of the topic is one task: one partition keeps one core busy, you pay for two."
read = {name: tasks.query("rows_read > 0")["rows_read"] for name, tasks in parsing.items()}
assert len(read["1 partition"]) == 1 and len(read["4 partitions"]) == 4
assert read["1 partition"].sum() == read["4 partitions"].sum()
assert at_once(parsing["1 partition"]) == 1

# %% [markdown]
# A table has such a limit, too. Within one write, one task writes a file group, here a **bucket**. The same hour goes
# into a table of one bucket and into one of four:

# %%
buckets = {}
writing = {}
for count in (1, 4):
    buckets[count] = lab.scratch("buckets")
    options = ORDERS | {"hoodie.bucket.index.num.buckets": str(count)}
    rows, checkpoint = parse(read_topic(orders_4)), lab.scratch("checkpoint")
    writing[f"buckets: {count}"] = pages.tasks_of(
        start_upsert, rows, buckets[count], checkpoint, options
    )
written_by = {name: len(writers(tasks)) for name, tasks in writing.items()}
print("tasks that write:", written_by)
HTML(draw_tasks(writing))

# %% name="buckets-are-tasks" proof="As many tasks write as the table has buckets."
assert written_by == {"buckets: 1": 1, "buckets: 4": 4}
assert all(at_once(tasks) <= 2 for tasks in writing.values())

# %% [markdown]
# **Partitions of the topic limit how many tasks read, buckets how many write, and cores how many of them work at
# once.** In each stage the smallest number counts. This table is not partitioned. If yours is, as many tasks can
# write as there are buckets in all partitions that the batch touches.
#
# In the gaps of the picture no task runs: the driver plans or commits. No second machine shortens them.

# %% [markdown] tags=["instructor"]
# *For instructors.* 12 minutes. Draw partitions as lanes of a motorway before the learners see the first picture.
# *Short of time:* show the table of one bucket only.

# %% [markdown]
# ## A table that was right for a year
#
# You cannot change the topic: other teams rely on its one partition. But Kafka's source can cut a partition into
# several ranges of offsets, so that several tasks read it.
#
# A colleague has done that. Her table has no ordering field; it merges by `COMMIT_TIME_ORDERING`. One task filled it
# for a year, and her board was right. Now four tasks read.
#
# **Predict:** what does her table hold afterwards?

# %%
RIGHT, FEWER, OLD = "the newest version of each order", "too few orders", "some old versions"
lab.predict("21.p2", ..., choices=(RIGHT, FEWER, OLD))

# %%
from lab_env.lessons.l21.checks import read_table
from lab_env.lessons.l21.load import IN_FOUR_TASKS, board, orders_as_sent
from lab_env.lessons.table_copies import empty_copy

HERS = ORDERS | {"hoodie.write.record.merge.mode": "COMMIT_TIME_ORDERING"}
del HERS["hoodie.table.ordering.fields"]
boards, compared, table = {"as sent": board(orders_as_sent())}, {}, lab.scratch("hers")
for name, options in {"1 task": {}, "4 tasks": IN_FOUR_TASKS}.items():
    rows = parse(read_topic(orders, **options))
    start_upsert(rows, table, lab.scratch("checkpoint"), HERS).awaitTermination()
    found = read_table(table)
    boards[name], compared[name] = board(found), lab.ledger(orders).reconcile_table(found)
    table = empty_copy(lab, table, "hers")  # a stream that creates its table waits 5 s
four = compared["4 tasks"]
lab.record_actual("21.p2", FEWER if four.missing else OLD if four.stale else RIGHT)
print(f"{four.stale} stale orders, {four.missing} missing, {four.ghost} back after their erasure")
pd.DataFrame(boards)

# %% name="split-order" proof="One partition in several tasks breaks its order: without an ordering field orders are stale."
assert compared["1 task"].ok and (boards["1 task"] == boards["as sent"]).all()
assert not four.missing and four.stale > 0

# %% [markdown]
# Nothing failed, and no order is missing. Her table keeps the row that is written last, and now that depends on which
# task is faster. So let a field of the *event* decide before you scale out: with `order_ts` the newest event wins,
# whichever task has it (lesson 04).
#
# ### Exercise 21.1 · Give every core work
#
# Write the function that brings the events of such a topic into a table, and returns the running query. Every core
# must parse, and the table must hold the newest version of every order. `**options` go to the source, all of them.
# Write with `start_upsert`: its sink notes in each commit which batch it holds, and the lesson goes on with that.


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
# *For instructors.* 11 minutes. Let somebody say what her board promises to the boss. The usual wrong answer to 21.1
# is `spark.sql.shuffle.partitions`.

# %% [markdown]
# **A good place to pause.** To go on another day, type `lab goto 21c` in a terminal: it runs everything to here
# again.
#
# ## An executor dies
#
# The more machines, the more often one of them fails. These are the processes at work; those with a blue frame are
# JVMs:

# %%
from lab_env.lessons.l21.figures import draw_processes, processes

HTML(draw_processes(processes(spark)))

# %% [markdown]
# The [**master**](../docs/glossary.md#master) and the workers never touch a row. We kill an executor, with SIGKILL,
# while it works on a task. The backlog comes in batches of at most 26,000 messages, and the kill comes in the second
# batch or later.
#
# **Predict:** what is done again?

# %%
lab.predict("21.p3", ..., choices=("the whole batch", "what was lost of it", "nothing"))

# %%
from lab_env.lessons.l21.machines import kill_while_it_works

lab.use_reference("21.1")
places = {}


def start(attempt):
    """Start the stream of the backlog; each attempt to meet a task gets its own table."""
    places[attempt] = lab.scratch("orders")
    return ingest(backlog, places[attempt], lab.scratch("checkpoint"), maxOffsetsPerTrigger=26_000)


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
# The worker has reported the death and started another executor. Every batch is there once, with one commit. *rows
# read* also counts second tries that succeeded.
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
lab.record_actual("21.p3", again)

# %% name="only-what-was-lost" proof="A dead executor costs the tasks that were lost; the batch has one number and one commit."
assert ledger.ok and 0 < twice < in_all
assert list(batches["batch"]) == list(range(len(batches)))
assert set(batches["commits that say so"]) == {1}

# %% [markdown]
# Lost were the tasks at work on the dead executor, and finished ones whose results were still needed. In lesson 17
# the *driver* died, and the whole batch was done again. The driver knows which results it needs and where they were,
# so it can replace an executor. Nobody replaces the driver: on a cluster, too, something must restart it.
#
# > **Documented, not measured.** Four failures of *one* task end the query
# > ([`spark.task.maxFailures`](https://spark.apache.org/docs/3.5.7/configuration.html)), and its restart does the
# > batch again; with `local[2]` the first one does. A machine without power is worse than a crash: it reports nothing,
# > and only looks slow until a standalone master drops it after 60 s, in this lab after 20 s
# > ([`spark.worker.timeout`](https://spark.apache.org/docs/3.5.7/spark-standalone.html)).

# %% [markdown] tags=["instructor"]
# *For instructors.* 11 minutes. Before the picture appears, let the group say what "the batch" is: the number in
# the checkpoint, the commit, or the work. Common answer: the whole batch, from lesson 17. *Short of time:* skip the
# table of batches.

# %% [markdown]
# ## What does one more core buy?
#
# Now every core has work, so one more can help. How much? `measure` runs your `ingest` on batches of two sizes, three
# rounds of each. Then the lab stops the second worker, and it measures again.

# %%
from lab_env.lessons.l21.machines import start_worker, stop_worker
from lab_env.lessons.l21.measure import LEAST_GAIN, gain, measure

on_two = measure(lab, ingest, orders_path, cores=2)
stop_worker(spark, 2)
on_one = measure(lab, ingest, orders_path, cores=1)
start_worker(2)
runs = pd.concat([on_one, on_two])
if gain(runs) < LEAST_GAIN:
    print("Too little to measure: other work held the cores. Run this cell again when it is done.")
runs.groupby(["rows", "cores"]).agg(
    {"seconds": ["min", "median", "max"], "cpu-ms per row": "first", "at once": "max"}
)

# %% [markdown]
# *cpu-ms per row* is the tasks' processor time: more cores share the work, they do not reduce it. *seconds* is the
# clock's time. Both workers, the driver, Kafka and MinIO compete for this computer's cores, so on a machine of its
# own the second core would probably gain more.
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
print(f"two cores, 19,326 rows: {gain(runs):.2f} times as fast as one")
print("a:", fitted.a.shown(2), "seconds per batch")
print("b:", fitted.b.shown(3, factor=1000), "ms per row")
print(f"so a is the work of {math.floor(fitted.line.a / fitted.line.b):,} rows on one core")
HTML(draw_line(runs, fitted))

# %% [markdown]
# The job that you measured parses in four tasks and writes two buckets, so a third core could write nothing. Suppose
# that tasks and buckets grow with the cores.
#
# **Predict:** by your *a* and *b*, how many times as fast as on one core is a batch of 19,326 rows on 64 cores?

# %%
lab.predict("21.p4", ..., choices=("less than 10 times", "10 to 40 times", "more than 40 times"))

# %%
from lab_env.lessons.l21.figures import draw_reach

reach = fitted.speedup(rows=19_326, cores=64)
print("64 cores, 19,326 rows:", reach.shown(1), "times as fast")
lab.record_actual(
    "21.p4",
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
# Only the grey strip was measured. And the line assumes that cores never hinder each other; other laws add a cost for
# each *pair* of cores. Two points cannot tell such laws apart. Use your line for "two cores or four?". For 64, measure
# on 8 and 16 first.
#
# How fresh can readers see the data? It depends on the unluckiest event, the one that is sent right after its batch
# has begun:

# %%
from lab_env.lessons.l21.figures import draw_unlucky_event

HTML(draw_unlucky_event())

# %% [markdown]
# ### Exercise 21.3 · How many cores?
#
# A stream gets `rate` events per second. Readers must see each event at most `freshness` seconds after it was sent.
# Batches begin at a fixed interval, which you choose. A batch takes `a + b * n / c` and may last the whole interval.
# No partition is divided as in 21.1, so more cores than `partitions` get no work.
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
from lab_env.lessons.l21.capacity import capacity_sheet

lab.use_reference("21.3")
rates, seconds = (500, 5_000, 20_000, 100_000), (2, 5, 10, 60)
capacity_sheet(cores_for, fitted, rates, seconds, partitions=24)

# %% [markdown] tags=["instructor"]
# *For instructors.* 21 minutes. Ask for a number before each picture: everybody overestimates 64 cores. Let a group
# defend the right column of the capacity sheet to a boss who wants one number.

# %% [markdown]
# ## Which resource holds this stream?
#
# Six teams want a third machine. Each sends you the tasks of one batch. They are made up, so that one thing alone holds
# each stream, and that thing takes at least half of the batch. The full part of a bar is the time in which the
# processor worked for the task.

# %%
from lab_env.lessons.l21.batches import six_batches
from lab_env.lessons.l21.figures import draw_batches

six = six_batches()
HTML(draw_batches(six))

# %% [markdown]
# **Predict:** exactly one of the streams gets faster with a third machine. Which?

# %%
lab.predict("21.p5", ..., choices=("A", "B", "C", "D", "E", "F"))

# %% [markdown]
# ### Exercise 21.4 · Which one is it?
#
# Write the function that names what holds a stream:
#
# - `"partition"`: the topic has too few partitions; `"bucket"`: the table has too few buckets,
# - `"hot key"`: one partition of the topic gets most of the events,
# - `"commit"`: outside the stages, in what only the driver does,
# - `"store"`: the tasks wait for the object store; the processor works for less than half of their time,
# - `"cores"`: all cores work, so one more helps.
#
# `stages` has one row per stage, as Spark's page has it: how long the stage *lasts*, the seconds of its *longest* task,
# of all its tasks (*work*), and of the processor (*cpu*). `seconds` is the time of the whole batch. Here is B:

# %%
six["B"].stages


# %% exercise="21.4"
def held_by(stages, seconds):
    """What holds a batch: partition, bucket, hot key, commit, store or cores."""
    # BEGIN SOLUTION
    stage = stages.loc[stages["lasts"].idxmax()]
    if stage["lasts"] < seconds / 2:
        return "commit"
    if stage["cpu"] < stage["work"] / 2:
        return "store"
    if stage["tasks"] == 1:
        return "partition" if stage["rows_read"] else "bucket"
    return "hot key" if stage["longest"] >= seconds / 2 else "cores"
    # END SOLUTION


lab.check("21.4", held_by)

# %% [markdown] hint="21.4"
# First look for the stage that lasts longest. What does it mean if even that one takes less than half of the batch?

# %% [markdown] hint="21.4"
# Then ask that stage: does the processor work (*cpu* and *work*)? Has it one task, and does that read rows or fetch
# them? Or does one of several tasks take half of the batch?


# %% right="21.4"
# With numbers per task: the busiest stage is the one that matters.
def held_by(stages, seconds):
    stage = stages.sort_values("lasts").iloc[-1]
    if 2 * stage.lasts < seconds:
        return "commit"
    if stage.cpu / stage.work < 0.5:
        return "store"
    if stage.tasks > 1:
        return "cores" if 2 * stage.longest < seconds else "hot key"
    return "bucket" if stage.rows_fetched else "partition"


# %% right="21.4"
# In SQL, where the stages are a table of a monitoring database.
def held_by(stages, seconds):
    spark.createDataFrame(stages).createOrReplaceTempView("stages")
    return spark.sql(f"""
        SELECT CASE WHEN lasts < {seconds} / 2 THEN 'commit' WHEN cpu < work / 2 THEN 'store'
            WHEN tasks = 1 AND rows_read > 0 THEN 'partition' WHEN tasks = 1 THEN 'bucket'
            WHEN longest >= {seconds} / 2 THEN 'hot key' ELSE 'cores' END
        FROM stages ORDER BY lasts DESC LIMIT 1
    """).first()[0]


# %% wrong="21.4"
# expect: outside the stages only the driver works
def held_by(stages, seconds):
    stage = stages.loc[stages["lasts"].idxmax()]
    if stage["cpu"] < stage["work"] / 2:
        return "store"
    if stage["tasks"] == 1:
        return "partition" if stage["rows_read"] else "bucket"
    return "hot key" if stage["longest"] >= seconds / 2 else "cores"


# %% wrong="21.4"
# expect: the processors worked for
def held_by(stages, seconds):
    stage = stages.loc[stages["lasts"].idxmax()]
    if stage["lasts"] < seconds / 2:
        return "commit"
    if stage["tasks"] == 1:
        return "partition" if stage["rows_read"] else "bucket"
    return "hot key" if stage["longest"] >= seconds / 2 else "cores"


# %% wrong="21.4"
# expect: but one of them alone lasts
def held_by(stages, seconds):
    stage = stages.loc[stages["lasts"].idxmax()]
    if stage["lasts"] < seconds / 2:
        return "commit"
    if stage["cpu"] < stage["work"] / 2:
        return "store"
    if stage["tasks"] == 1:
        return "partition" if stage["rows_read"] else "bucket"
    return "cores"


# %% wrong="21.4"
# expect: Its only task got its rows through a shuffle
def held_by(stages, seconds):
    stage = stages.loc[stages["lasts"].idxmax()]
    if stage["lasts"] < seconds / 2:
        return "commit"
    if stage["cpu"] < stage["work"] / 2:
        return "store"
    if stage["tasks"] == 1:
        return "partition"
    return "hot key" if stage["longest"] >= seconds / 2 else "cores"


# %% wrong="21.4"
# expect: outside the stages only the driver works
def held_by(stages, seconds):
    if stages["work"].sum() < seconds / 2:
        return "commit"
    stage = stages.loc[stages["lasts"].idxmax()]
    if stage["cpu"] < stage["work"] / 2:
        return "store"
    if stage["tasks"] == 1:
        return "partition" if stage["rows_read"] else "bucket"
    return "hot key" if stage["longest"] >= seconds / 2 else "cores"


# %%
lab.use_reference("21.4")
named = {team: held_by(batch.stages, batch.seconds) for team, batch in six.items()}
lab.record_actual("21.p5", next(team for team, name in named.items() if name == "cores"))
named

# %% [markdown]
# | held by | what helps |
# |---|---|
# | partition | read it in several tasks, with an ordering field (21.1) |
# | hot key | another key (lesson 02), or several tasks for its partition |
# | bucket | a new table with more buckets |
# | commit | longer batches |
# | store | more tasks per core: they wait at the same time |
# | cores | one more machine |
#
# Only the last row is for sale.

# %% [markdown] tags=["instructor"]
# *For instructors.* 13 minutes. Show the picture first, and let each pair defend one letter. The usual wrong answer
# takes C's one writing task for the cause.

# %% [markdown]
# > **In production**
# > - `spark.master` is not enough: the jars must reach every machine, executors must reach the driver, and the store's
# >   credentials must be where tasks run. The guide [On your own cluster](../docs/cluster.md) has the settings.
# > - New partitions of a topic move keys, so the events of a key lose their order there
# >   ([Kafka](https://kafka.apache.org/41/operations/basic-kafka-operations/#modifying-topics)).
# > - No write changes the number of buckets of a simple bucket index. Choose it for the data to come, not for today's
# >   cores ([Hudi](https://hudi.apache.org/docs/indexes)).
#
# ## Key points
#
# - A partition of the topic is a task that reads. A bucket, in each partition of the table that the batch touches, is
#   a task that writes. Cores decide only how many of them work at once.
# - Once several tasks read a partition, the order of arrival means nothing: let a field of the event decide.
# - A dead executor costs only the tasks that were lost; a dead driver must be restarted, and repeats the batch.
# - `a + b · n / c`, while each core has work: each further core buys less; longer batches use more, and cost freshness.
# - Two points carry a line, not a law: measure before you buy 64 cores.
#
# ## What's next
#
# You have all parts. Lesson 22 gives you a stream and a requirement, and looks only at what your tables hold.

# %% [markdown]
# ### Appendix · If you come from AWS
#
# *Eight minutes; nothing later needs it. The guide [If you come from AWS and Flink](../docs/flink_and_spark.md) has
# the rest: Flink's words, the bill of managed Flink, how late its autoscaling comes, and Kinesis.*
#
# Amazon's managed Flink sells cores as [**KPUs**](../docs/glossary.md#kpu), and *parallelism per KPU* lets several
# tasks share one. Does that give more throughput? We read the backlog with two tasks at once, then tie both executors
# to one core of this computer and read it again. macOS cannot tie them: there both runs are free.

# %%
from lab_env.lessons.l21.machines import on_one_core

wait_for_executors(spark, 2)  # the second worker is back
free = pages.tasks_of(parse_only, backlog, minPartitions=4)
with on_one_core(spark) as tied:
    shared = pages.tasks_of(parse_only, backlog, minPartitions=4)
used = {}
for name, tasks in {"free": free, "on one core" if tied else "free again": shared}.items():
    used[name] = tasks["cpu"].sum() / tasks["end"].max()
    print(f"{name}: {at_once(tasks)} tasks at once, {used[name]:.2f} core-seconds per second")

# %% name="slots-are-not-cores" proof="Two slots on one core are busy at once, and do the work of one core."
assert at_once(shared) == 2 and (not tied or used["on one core"] < 1.1)

# %% [markdown]
# More tasks per core pay where tasks *wait*, for a slow store or another service. Parsing does not wait.
#
# **Kinesis** in place of Kafka: a *shard* is what a partition is (lesson 02). Spark writes down where a batch will end
# before it runs, so that it can read the same batch again; but Kinesis does not tell where an open shard ends. So the
# pipeline **lands** the records of all shards in files, and Spark streams the files. The same hour goes into a stream
# of two shards, which the lab emulates. A source of files has no `minPartitions`: a shuffle before `parse` gives every
# core work.

# %%
from lab_env.lessons.l21.load import events_in_order
from lab_env.pipeline.landing import Landing, read_landing

lab.wait_for("kinesis")
stream = lab.topic("orders-kinesis")  # a topic or a stream: the same name for the ledger
lab.replay(stream, source="kinesis", sends=events_in_order())
landing = Landing(lab.endpoints, stream, lab.path("landing"))
print(landing.land_all(), "records landed")
for number, shard in enumerate(landing.position.shards.values()):
    print("shard", number, vars(shard))

rows = parse(read_landing(spark, lab.path("landing")).repartition(4, "key"))
table = empty_copy(lab, buckets[4], "from_kinesis")
from_kinesis = pages.tasks_of(start_upsert, rows, table, lab.scratch("checkpoint"))
by_source = {"from Kinesis": read_table(table), "from Kafka": read_table(buckets[4])}
judged = lab.ledger(stream).reconcile_table(by_source["from Kinesis"])
pd.DataFrame({name: board(found) for name, found in by_source.items()})

# %% name="kinesis-beside-kafka" proof="The same hour through Kinesis and through Kafka gives the same table."
assert judged.ok and at_once(from_kinesis) == 2
same = [found.set_index("order_id")["amount"].sort_index() for found in by_source.values()]
assert len(same[0]) > 1_000 and same[0].equals(same[1])
