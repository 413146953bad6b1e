# ---
# title: When do log files become base files, and who pays?
# minutes: {teach: 25, do: 23}
# needs: ["05"]
# services: [minio, kafka]
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 06 · When do log files become base files, and who pays?
#
# ## Questions
#
# - My Merge-on-Read table has taken quick writes for a week. Why does each query take longer than the last?
# - Who merges the logs: the writer, a thread in the same process, or a job at night?
# - Nobody compacts my table. How do I notice, and how do I repair it?
#
# ## Objectives
#
# At the end of this lesson you can
#
# - monitor the metric that shows that compaction has stopped (06.1),
# - run a read-optimised query, and choose a compaction interval for a reader that may be only so many
#   batches behind (06.2),
# - compact alongside a running stream (06.3),
# - plan and run a compaction as a job of its own (06.4).
#
# ## What you need
#
# Lesson 05 (base files, log files, file slices), SQL and Python. 48 minutes, with a good place to pause
# after the second section.

# %% [markdown]
# ## Start
#
# The shop's board, revenue by status, is read from a Merge-on-Read table now: the writes are small. A Spark
# session's first Hudi write takes longer than all later ones.

# %%
import time

import pandas as pd
from pyspark.sql import functions as F

from lab_env import Lab
from lab_env.pipeline.session import INTERPRETED

lab = Lab.start("06")
# On tables of a thousand rows, compiling a query takes longer than it saves.
spark = lab.start_spark(INTERPRETED)


# %%
def make_changes(batch):
    """Batch 0 creates a thousand orders. Each later batch changes a quarter of them."""
    return spark.sql(f"""
        SELECT concat('O-', id) AS order_id,
               CASE WHEN {batch} = 0 THEN 'new' WHEN {batch} < 5 THEN 'paid' ELSE 'packed' END
                   AS status,
               CAST(10 + pmod(hash(id, {batch}), 9000) / 100 AS DECIMAL(12,2)) AS amount,
               sha2(concat(id, '-', {batch}), 256) AS tracking_code,
               {batch} AS batch,
               TIMESTAMP '2026-11-20 12:00:00' + make_interval(0, 0, 0, 0, 0, {batch}) AS order_ts,
               '2026-11-20' AS partition_date
        FROM range(0, 1000, 1, 1)
        WHERE {batch} = 0 OR id % 4 = {batch} % 4
    """)


make_changes(0).printSchema()

# %% [markdown]
# All tables of this lesson have these options. `WRITER` departs from Hudi's defaults: `DEMO_OPTIONS` leave
# out the metadata table and cleaning, and the bloom filter of a base file has room for 1,000 keys,
# not for 60,000. So files are smaller than with the defaults, and none vanishes by itself.

# %%
from lab_env.pipeline.options import DEMO_OPTIONS

WRITER = {**DEMO_OPTIONS, "hoodie.index.bloom.num_entries": "1000"}
ORDERS = {
    **WRITER,
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "order_id",
    "hoodie.table.ordering.fields": "order_ts",
    "hoodie.datasource.write.partitionpath.field": "partition_date",
    "hoodie.datasource.write.hive_style_partitioning": "true",
}

# %% [markdown]
# This lesson sends the same batches to several tables that differ in one thing only: who compacts them.
# `write_and_query` writes one batch to a table, and then queries the sum of all amounts. It measures both: the
# seconds, and the bytes that Spark's tasks read for the query (column *Input* of the Spark UI).

# %%
from lab_env.lessons.l06.figures import as_table, draw_costs
from lab_env.lessons.l06.steps import take_step

steps = {"never": [], "inline": []}


def write_and_query(name, batch, compaction):
    """Write one batch to a table, query its revenue, and keep what both cost."""
    options = {**ORDERS, **compaction, "hoodie.table.name": name}
    before = steps[name][-1].table if steps[name] else None
    step = take_step(lab, lab.path(name), batch, make_changes(batch), options, before)
    steps[name].append(step)


NEVER = {"hoodie.compact.inline": "false"}
write_and_query("never", 0, NEVER)

# %% [markdown]
# ## Nobody compacts
#
# A [**Merge-on-Read**](../docs/glossary.md#merge-on-read) table stores an update in a log file. The write is
# small, and the work is put off: every reader has to merge. A
# [**compaction**](../docs/glossary.md#compaction) merges base file and logs once, for all readers, into
# a new base file. The question is who does it, and when.
#
# Nobody compacts the table `never`. It has a thousand orders in one base file. Six batches follow, each with
# changes of 250 orders.
#
# **Predict:** the table keeps a thousand rows. After the six batches, how many times as many bytes does a query
# read as before them?

# %%
lab.predict("06.p1", ..., choices=("under 2", "2 to 4", "over 4"))

# %%
for batch in range(1, 7):
    write_and_query("never", batch, NEVER)

never = steps["never"]
growth = never[-1].bytes_read / never[0].bytes_read
lab.record_actual("06.p1", "over 4" if growth > 4 else "2 to 4" if growth > 2 else "under 2")

# %%
as_table(never)

# %% proof="Each write without compaction adds a log, and each query reads more than the one before"
assert [step.logs for step in never] == [0, 1, 2, 3, 4, 5, 6]
assert [step.bytes_read for step in never] == sorted(step.bytes_read for step in never)
assert growth > 4
assert never[1].written("log") > 0.7 * never[0].written("base")

# %% [markdown]
# Each write adds a log to the file group that it changes, and each query reads all of them. Look at the
# sizes: a log with 250 changed rows is nearly as large as the base file with all thousand. The base file is Parquet, compressed column by
# column. A log of such a write keeps whole rows, as they came.
#
# The X-ray shows why a query must read every log. All of them belong to the first base file, in one
# **file slice**, and a query reads the newest slice.

# %%
never_path = lab.path("never")
picture = lab.xray(never_path)
picture

# %% [markdown]
# ### Exercise 06.1 · The metric to monitor
#
# An option was forgotten, a compacting thread died, a stream was stopped: no error is raised. You need
# a number that grows, and an alarm on it. Write a function that takes an X-ray and returns how many logs
# a query of the newest state has to merge **in the worst file group**.
#
# `picture.current` has the current file slices, `picture.slices` all of them. Each has its `.logs`, and
# `.partition` and `.group` together name its file group. Usually a file group has one current slice. Between
# the plan of a compaction and its run it may have two, the old one and the one that the plan begins (you will
# see them in the last section), and a query merges the logs of both.


# %% exercise="06.1"
def logs_to_merge(picture):
    # BEGIN SOLUTION
    from collections import Counter

    logs = Counter()
    for found in picture.current:
        logs[found.partition, found.group] += len(found.logs)
    return max(logs.values())
    # END SOLUTION


lab.check("06.1", logs_to_merge)

# %% [markdown] hint="06.1"
# Start with `max(len(found.logs) for found in picture.current)`. Which tables does it judge wrongly?

# %% [markdown] hint="06.1"
# Add up the logs of the current slices per file group, in a dictionary or with pandas; then take the
# largest sum.


# %% right="06.1"
# With pandas, when you want to see the counts of all file groups.
def logs_to_merge(picture):
    rows = [(found.partition, found.group, len(found.logs)) for found in picture.current]
    logs = pd.DataFrame(rows, columns=["partition", "group", "logs"])
    return logs.groupby(["partition", "group"])["logs"].sum().max()


# %% right="06.1"
# From all slices, when you want to look at the older ones as well.
def logs_to_merge(picture):
    current = [found for found in picture.slices if found.current]
    groups = {(found.partition, found.group) for found in current}
    return max(
        sum(len(found.logs) for found in current if (found.partition, found.group) == group)
        for group in groups
    )


# %% wrong="06.1"
# expect: merges
from collections import Counter


def logs_to_merge(picture):
    logs = Counter()
    for found in picture.current:
        logs[found.group] += len(found.logs)
    return max(logs.values())


# %% wrong="06.1"
# expect: logs of older slices
def logs_to_merge(picture):
    return sum(file.kind == "log" for file in picture.files)


# %% wrong="06.1"
# expect: the writes of its whole timeline
def logs_to_merge(picture):
    return sum(instant.action == "deltacommit" for instant in picture.instants)


# %% wrong="06.1"
# expect: logs of one file group only
def logs_to_merge(picture):
    return len(picture.current[0].logs)


# %%
lab.use_reference("06.1")
print("logs to merge:", logs_to_merge(picture))

# %% [markdown] tags=["instructor"]
# *For instructors.* 13 minutes. In 06.1 most people take the first current slice; ask for a
# table of two partitions. Draw the slice that grows: one base file, and a log more after each write. Short
# of time: leave out the table of the steps.

# %% [markdown]
# ## The writer pays: inline
#
# The writer of another table compacts **inline**: after a number of writes it does not return immediately,
# but compacts the table first. On the timeline a plain write to a Merge-on-Read table is a
# [**deltacommit**](../docs/glossary.md#deltacommit), hence the name of the option that counts them,
# `hoodie.compact.inline.max.delta.commits`. Its default is 5, and a batch writer compacts inline unless
# told otherwise: the writer of `never` had to switch it off.
#
# There is a second way to query such a table. A [**read-optimised
# query**](../docs/glossary.md#read-optimised-query) reads the base files only and leaves out the logs.
#
# ### Exercise 06.2 · As fresh as the board needs
#
# The shop writes one batch per minute, and its board runs a read-optimised query. Complete both functions.
#
# - `board` returns revenue by status: a Spark DataFrame with the columns `status` and `revenue`, the sum
#   of `amount`, from a read-optimised query of the table at `path` ([query
#   types](https://hudi.apache.org/docs/table_types#query-types)).
# - `inline_options` returns the options of a writer that compacts inline: when `save` has returned, the
#   board may be `may_lag` batches behind but not more, with no more compactions than necessary.
#
# The check runs your `board` on a table with one log. Then it writes with your options, for a board that may
# be one batch behind and for one that may be further behind, and looks at the table after each write.


# %% exercise="06.2"
def board(path):
    """Revenue by status, as a read-optimised query of the table at `path` sees it."""
    # BEGIN SOLUTION
    reader = spark.read.format("hudi").option("hoodie.datasource.query.type", "read_optimized")
    return reader.load(path).groupBy("status").agg(F.sum("amount").alias("revenue"))
    # END SOLUTION


def inline_options(may_lag):
    """Options of a writer for a board that may be `may_lag` batches behind."""
    # BEGIN SOLUTION
    return {
        "hoodie.compact.inline": "true",
        "hoodie.compact.inline.max.delta.commits": may_lag + 1,
    }
    # END SOLUTION


lab.check("06.2", [board, inline_options])

# %% [markdown] hint="06.2"
# The board: `spark.read.format("hudi")`, the option `hoodie.datasource.query.type`, whose values are
# `"snapshot"` and `"read_optimized"`, `load(path)`, and then a sum for each status. For the options, let the
# trigger be 3. How many logs does the table have after each of the next five writes?

# %% [markdown] hint="06.2"
# The write that fulfils the trigger compacts before it returns, so its batch is on the board.


# %% right="06.2"
# In SQL, when the board's users read SQL. The query type stays an option of the reader.
def board(path):
    kind = {"hoodie.datasource.query.type": "read_optimized"}
    orders = spark.read.load(path, format="hudi", **kind)
    return spark.sql(
        "SELECT sum(amount) AS revenue, status FROM {orders} GROUP BY status", orders=orders
    )


def inline_options(may_lag):
    trigger = "hoodie.compact.inline.max.delta.commits"
    return {"hoodie.compact.inline": True, trigger: may_lag + 1}


# %% wrong="06.2"
# expect: That is the answer of a snapshot query
def board(path):
    table = spark.read.format("hudi").load(path)
    return table.groupBy("status").agg(F.sum("amount").alias("revenue"))


# %% wrong="06.2"
# expect: changes `hoodie.datasource.query.type` for the whole session
def board(path):
    spark.conf.set("hoodie.datasource.query.type", "read_optimized")
    orders = spark.read.format("hudi").load(path)
    return orders.groupBy("status").agg(F.sum("amount").alias("revenue"))


# %% wrong="06.2"
# expect: `revenue` is a double
def board(path):
    reader = spark.read.format("hudi").option("hoodie.datasource.query.type", "read_optimized")
    amount = F.col("amount").cast("double")
    return reader.load(path).groupBy("status").agg(F.sum(amount).alias("revenue"))


# %% equivalent="06.2"
# without 'hoodie.compact.inline': 'true': a batch writer compacts inline unless told otherwise

# %% harmless="06.2"
# inline_options: an entry less: a batch writer compacts inline unless told otherwise
# inline_options: an entry more: an option that Hudi does not know changes no write


# %% wrong="06.2"
# expect: compacted more often
def inline_options(may_lag):
    return {
        "hoodie.compact.inline": "true",
        "hoodie.compact.inline.max.delta.commits": str(may_lag + 2),
    }


# %% wrong="06.2"
# expect: took more compactions
def inline_options(may_lag):
    return {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "2"}


# %%
lab.use_reference("06.2")

for batch in range(7):
    write_and_query("inline", batch, inline_options(may_lag=1))

inline = steps["inline"]
inline[1].table

# %% name="inline" proof="Compacted after every second deltacommit, the answers are those of the other table"
assert [step.batch for step in inline if step.compacted] == [1, 3, 5]
assert [step.logs for step in inline] == [0, 0, 1, 0, 1, 0, 1]
assert [step.answer for step in inline] == [step.answer for step in never]

# %% [markdown]
# This is the table `inline` after its second write. Amber marks what that one call of `save` made: a log, as
# always, and then a new base file, merged from base file and log. And over all seven writes:

# %%
from IPython.display import HTML

written = {
    name: sum(step.written("log") + step.written("base") for step in steps[name]) for name in steps
}
print({name: f"{size / 1024:,.0f} KB written in all" for name, size in written.items()})
HTML(draw_costs({"never compacted": never, "compacted inline": inline}))

# %% name="inline-saves-and-costs" proof="Compaction writes more in all, and the last query reads a third at most"
assert never[-1].bytes_read > 3 * inline[-1].bytes_read
assert written["inline"] > 1.15 * written["never"]

# %% [markdown]
# Read the upper row: without compaction each write lifts the line by one log. The other line is a saw: a log
# lifts it, and a compaction lets it fall back to one base file. The middle row shows what that costs: a
# compacting write wrote a whole base file in addition to its log. A table that is written often and read
# seldom may want few compactions, a table that is read all the time many. After every write both tables gave
# the same revenue.
#
# The lower row shows the seconds, which vary on a busy laptop. But it is certain who waited: each compaction
# began after `save` was called and ended before it returned. When were the rows of the second write visible?

# %%
from lab_env.lessons.l06.figures import Work, compactions_of

writes = [Work(str(step.batch), step.began, step.ended) for step in inline]
compactions = compactions_of(lab.files(lab.path("inline")))
second_write, compaction = inline[1].table.instants[1:3]
print(second_write.action, "completed", second_write.completed)
print(compaction.action, "requested", compaction.requested)

# %% name="inline-writer-pays" proof="Each compaction runs inside a call of save, after that write is visible"
for found, batch in zip(compactions, (1, 3, 5), strict=True):
    assert writes[batch].began < found.began < found.ended < writes[batch].ended
assert second_write.action == "deltacommit"
assert second_write.completed < compaction.requested

# %% [markdown]
# Before the compaction: the deltacommit is complete first. But the third write has to wait.
#
# What does the board show for each table? Both got all seven batches:

# %%
boards = {name: board(lab.path(name)).toPandas().set_index("status") for name in steps}
pd.concat(boards, names=["table"])

# %% proof="Never compacted, the board shows the first batch; compacted, it is one batch behind"
assert set(boards["never"].index) == {"new"}
assert boards["never"]["revenue"].sum() == never[0].answer
assert set(boards["inline"].index) == {"paid", "packed"}
assert boards["inline"]["revenue"].sum() == never[5].answer

# %% [markdown]
# For `never` it still shows all revenue as `new`, although every order has been paid since: the base file is
# that of the first batch. For `inline` it shows all batches but the last. With several file groups or with new
# orders, a board may show half a batch (lesson 09).

# %% [markdown] tags=["instructor"]
# *For instructors.* 12 minutes. Before the chart, draw an empty saw on the board and let people place
# the teeth: "after which writes?" Most forget that the first write counts. In 06.2 many set the trigger to
# `may_lag`; let them say what the board shows when the compacting write has returned. Leaving the options
# out gives the default of five: a good moment to say that a batch writer compacts inline unless told
# otherwise.

# %% [markdown]
# **A good place to pause.** To go on another day, type `lab goto 06c` in a terminal: it runs everything to
# here again in a minute or two.
#
# ## A thread beside the stream pays: async
#
# A stream cannot wait long: meanwhile events queue up. So by default a streaming writer compacts
# **asynchronously**. It only makes the plan. A thread of the same process executes it, while the stream takes
# its next batch. The pipeline of this course does so.
#
# We put the first three batches into a folder, one file each.

# %%
source = lab.path("changes")
SCHEMA = make_changes(0).schema
for batch in range(3):
    make_changes(batch).write.mode("append").parquet(source)

# %% [markdown]
# ### Exercise 06.3 · A stream that compacts
#
# Complete the function. It starts a stream and returns the running query. The stream reads the Parquet files
# of the folder `source`, whose schema is `SCHEMA`, one file per batch ([file
# source](https://spark.apache.org/docs/3.5.7/structured-streaming-programming-guide.html#input-sources)). It
# writes them to the Hudi table at `path`, with `ORDERS` and any table name, and keeps its checkpoint at
# `checkpoint`. A compaction is due after every second commit, and no batch may wait for it
# ([compaction](https://hudi.apache.org/docs/compaction)).


# %% exercise="06.3"
def start_stream(source, path, checkpoint):
    """Start a stream into the table at `path` that compacts asynchronously; return the query."""
    # BEGIN SOLUTION
    changes = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", "1").parquet(source)
    return (
        changes.writeStream.format("hudi")
        .options(**ORDERS)
        .option("hoodie.table.name", "orders")
        .option("hoodie.datasource.compaction.async.enable", "true")  # the default of a stream
        .option("hoodie.compact.inline.max.delta.commits", "2")
        .option("path", path)
        .option("checkpointLocation", checkpoint)
        .start()
    )
    # END SOLUTION


lab.check("06.3", start_stream)

# %% [markdown] hint="06.3"
# `spark.readStream.schema(...)`, the option `maxFilesPerTrigger`, `.parquet(source)`. Then
# `.writeStream.format("hudi")`, the options, `"path"`, `"checkpointLocation"`, `start()`. A table
# needs a name: `hoodie.table.name`.

# %% [markdown] hint="06.3"
# `hoodie.compact.inline.max.delta.commits` counts for the thread, too. That a stream leaves the plan to the
# thread is the default; its option is `hoodie.datasource.compaction.async.enable`.


# %% right="06.3"
# Options in one dictionary, when several streams share them.
def start_stream(source, path, checkpoint):
    options = {**ORDERS, "hoodie.table.name": "async", "checkpointLocation": checkpoint}
    options["hoodie.compact.inline.max.delta.commits"] = "2"
    schema = spark.read.parquet(source).schema
    changes = spark.readStream.load(source, "parquet", schema, maxFilesPerTrigger=1)
    return changes.writeStream.start(path, format="hudi", outputMode="append", **options)


# %% wrong="06.3"
# expect: nobody had carried it out
# falls: rung 4
def start_stream(source, path, checkpoint):
    changes = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", "1")
    options = {**ORDERS, "hoodie.table.name": "orders", "checkpointLocation": checkpoint}
    options["hoodie.datasource.compaction.async.enable"] = "false"
    options["hoodie.compact.inline"] = "false"
    options["hoodie.compact.schedule.inline"] = "true"
    options["hoodie.compact.inline.max.delta.commits"] = "2"
    return changes.parquet(source).writeStream.format("hudi").options(**options).start(path)


# %% wrong="06.3"
# expect: took both files and ended
# falls: rung 1
def start_stream(source, path, checkpoint):
    changes = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", "1")
    options = {**ORDERS, "hoodie.table.name": "orders", "checkpointLocation": checkpoint}
    options["hoodie.compact.inline.max.delta.commits"] = "2"
    writer = changes.parquet(source).writeStream.format("hudi").options(**options)
    query = writer.trigger(availableNow=True).start(path)
    query.awaitTermination()
    return query


# %% equivalent="06.3"
# without .option('hoodie.datasource.compaction.async.enable', 'true'): a stream's default


# %% wrong="06.3"
# expect: planned no compaction
# falls: rung 4
def start_stream(source, path, checkpoint):
    changes = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", "1")
    return (
        changes.parquet(source)
        .writeStream.format("hudi")
        .options(**ORDERS)
        .option("hoodie.table.name", "orders")
        .option("checkpointLocation", checkpoint)
        .start(path)
    )


# %% wrong="06.3"
# expect: that is inline
# falls: holds
def start_stream(source, path, checkpoint):
    changes = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", "1")
    return (
        changes.parquet(source)
        .writeStream.format("hudi")
        .options(**ORDERS, **inline_options(1))
        .option("hoodie.table.name", "orders")
        .option("checkpointLocation", checkpoint)
        .start(path)
    )


# %% [markdown]
# `processAllAvailable` waits until all files are read; it is meant for tests. In production a stream simply
# goes on.

# %%
lab.use_reference("06.3")
async_path = lab.path("async")
stream = start_stream(source, async_path, lab.path("_checkpoints/async"))
stream.processAllAvailable()
timeout = time.time() + 120
while lab.xray(async_path).planned and time.time() < timeout:
    time.sleep(0.2)  # the compaction may still run
progress = stream.recentProgress
stream.stop()

# %%
from lab_env.lessons.l06.figures import batches_of, draw_lanes, during

batches = batches_of(progress)
executed = compactions_of(lab.files(async_path))

HTML(draw_lanes({"inline": (writes, compactions), "async in a stream": (batches, executed)}))

# %% name="async-thread-pays" proof="The second batch plans the compaction, and batches go on while it runs"
assert len(batches) == 3 and len(executed) == 1
assert batches[1].began < executed[0].planned < batches[1].ended
assert during(batches, executed[0])  # which of them is a matter of moments
assert not any(b.began < executed[0].planned and executed[0].ended < b.ended for b in batches)

# %% [markdown]
# Each bar of the upper lane is a write, with its number. The triangle is the moment of the plan, the bar of the
# lower lane is its execution. On the left, every second write is long, because a compaction runs *inside* it.
# In the gaps we ran our queries. On the right the compaction runs alongside the batches: one may end and the
# next begin while it runs.
#
# The work remains: on busy cores the compaction slows the stream, but the stream does not wait for its end.
# And no update was lost on the way:

# %%
beside_stream = lab.xray(async_path)
beside_stream

# %% proof="The batch after the plan is a log of the next slice, and no update is lost"
assert len(beside_stream.current) == 1
assert [len(found.logs) for found in beside_stream.slices] == [1, 1]
revenue = spark.read.format("hudi").load(async_path).agg(F.sum("amount")).first()[0]
assert revenue == never[2].answer

# %% [markdown]
# Batch 2 came after the plan was made. So its log is not in the old slice: new logs belong to the next one.

# %% [markdown] tags=["instructor"]
# *For instructors.* 10 minutes. Let people point at the bar that waits, on the left, and look for it on
# the right. Somebody will ask whether async is free: the cores are the same. Short of time: give 06.3
# away and show the lanes.

# %% [markdown]
# ## A job of its own pays: schedule and run
#
# By your metric, the table `never` needs help. A compaction has two steps, and different jobs can do them.
# **Scheduling** writes a plan on the timeline: these file groups, these logs. **Running** does what the plan
# says. The [**procedure**](../docs/glossary.md#procedure)
# [run_compaction](https://hudi.apache.org/docs/procedures#run_compaction) does either. A job does not know the
# options of our writer, so `JOB` repeats those that affect file layout or bookkeeping. Without them this job
# would build a metadata table, and a base file with a bloom filter for 60,000 keys.

# %%
print("logs to merge:", {name: logs_to_merge(lab.xray(lab.path(name))) for name in steps})
JOB = ",".join(f"{key}={value}" for key, value in WRITER.items())
print(JOB)

# %% [markdown]
# ### Exercise 06.4 · Plan and run
#
# Complete both functions: `plan` schedules, `run` carries the plan out. The procedure has the same trigger as
# the writers, but your `plan` must plan immediately, after one deltacommit. Both pass on `JOB`. The check runs
# them on copies of the stream's table, which has one log.


# %% exercise="06.4"
def plan(path):
    """Plan a compaction of all logs of the table at `path`, however few there are."""
    # BEGIN SOLUTION
    options = f"{JOB},hoodie.compact.inline.max.delta.commits=1"
    spark.sql(f"CALL run_compaction(op => 'schedule', path => '{path}', options => '{options}')")
    # END SOLUTION


def run(path):
    """Run the plan."""
    # BEGIN SOLUTION
    spark.sql(f"CALL run_compaction(op => 'execute', path => '{path}', options => '{JOB}')")
    # END SOLUTION


lab.check("06.4", [plan, run])

# %% [markdown] hint="06.4"
# `CALL run_compaction(op => 'schedule', path => '...', options => '...')`, as text for `spark.sql`; the other
# `op` is `'execute'`. (`'run'` is an old name of `'scheduleandexecute'`: it would plan as well.)

# %% [markdown] hint="06.4"
# `options` is a text of `key=value` pairs with commas between them. Add the trigger,
# `hoodie.compact.inline.max.delta.commits`, to `JOB`.


# %% right="06.4"
# Through the session, when other code builds `options`. Take the setting back afterwards.
def plan(path):
    spark.conf.set("hoodie.compact.inline.max.delta.commits", "1")
    spark.sql(f"CALL run_compaction(op => 'schedule', path => '{path}', options => '{JOB}')")
    spark.conf.unset("hoodie.compact.inline.max.delta.commits")


def run(path):
    (instant,) = (
        spark.sql(f"CALL show_compaction(path => '{path}')").where("state = 'REQUESTED'").collect()
    )
    spark.sql(
        f"CALL run_compaction(op => 'execute', path => '{path}', timestamp => {instant.timestamp},"
        f" options => '{JOB}')"
    )


# %% wrong="06.4"
# expect: did not get the writer's options
def plan(path):
    options = f"{JOB},hoodie.compact.inline.max.delta.commits=1"
    spark.sql(f"CALL run_compaction(op => 'schedule', path => '{path}', options => '{options}')")


def run(path):
    spark.sql(f"CALL run_compaction(op => 'execute', path => '{path}')")


# %% wrong="06.4"
# expect: carries out the plan that is there
def plan(path):
    options = f"{JOB},hoodie.compact.inline.max.delta.commits=1"
    spark.sql(f"CALL run_compaction(op => 'schedule', path => '{path}', options => '{options}')")


def run(path):
    spark.sql(f"CALL run_compaction(op => 'run', path => '{path}', options => '{JOB}')")


# %% wrong="06.4"
# expect: Scheduling decides; running pays.
def plan(path):
    options = f"{JOB},hoodie.compact.inline.max.delta.commits=1"
    spark.sql(f"CALL run_compaction(op => 'schedule', path => '{path}', options => '{options}')")


def run(path):
    spark.sql(f"CALL show_compaction(path => '{path}')")


# %% wrong="06.4"
# expect: fewer than the five
def plan(path):
    spark.sql(f"CALL run_compaction(op => 'schedule', path => '{path}', options => '{JOB}')")


def run(path):
    spark.sql(f"CALL run_compaction(op => 'execute', path => '{path}', options => '{JOB}')")


# %%
lab.use_reference("06.4")
before = lab.xray(never_path)
plan(never_path)

with_plan = lab.xray(never_path, since=before)
print("new:", [(i.action, i.state) for i in with_plan.new_instants], list(with_plan.new_files))

# %% proof="A plan is a requested compaction on the timeline, and no file"
assert [(i.action, i.state) for i in with_plan.new_instants] == [("compaction", "requested")]
assert not with_plan.new_files

# %% [markdown]
# A plan, and no file yet. It may wait for the night, and the writer need not wait for it: batch 7 comes before
# the plan is run.

# %%
write_and_query("never", 7, NEVER)

waiting = lab.xray(never_path)
print("logs to merge:", logs_to_merge(waiting))
waiting

# %% name="plan-waits" proof="Batch 7 is a log of the slice that the plan has begun"
logs_and_plan = [(len(found.logs), found.planned) for found in waiting.current]
assert logs_and_plan == [(6, False), (1, True)]

# %% [markdown]
# The new log is in a slice that the plan has begun, and that has no base file yet. Until the plan is run, a
# snapshot query reads both slices. We run both kinds of query now, to compare later.

# %%
from lab_env.tables.probes.inputs import InputBytes


def ask(query_type):
    """Revenue, the newest batch that is shown, and the bytes that were read."""
    with InputBytes(spark, never_path) as read:
        table = (
            spark.read.format("hudi")
            .option("hoodie.datasource.query.type", query_type)
            .load(never_path)
        )
        revenue, newest = table.agg(F.sum("amount"), F.max("batch")).first()
    return {"revenue": revenue, "newest batch": newest, "KB read": round(read.bytes / 1024)}


answers = {("snapshot", "before"): ask("snapshot")}
answers["read_optimized", "before"] = ask("read_optimized")

# %% [markdown]
# Now we run the plan.
#
# **Predict:** which query gives another answer after it? And how many logs will a query then have to merge,
# by your metric?

# %%
QUERIES = ("snapshot", "read_optimized")
lab.predict("06.p2", ..., choices=(*QUERIES, "both", "neither"))

# %%
lab.predict("06.p3", ..., tolerance=0)

# %%
before = lab.xray(never_path)
run(never_path)

compacted = lab.xray(never_path, since=before)
lab.record_actual("06.p3", logs_to_merge(compacted))

# %%
compacted

# %%
for query_type in QUERIES:
    answers[query_type, "after"] = ask(query_type)
revenue = {query: answer["revenue"] for query, answer in answers.items()}
changed = [q for q in QUERIES if revenue[q, "before"] != revenue[q, "after"]]
lab.record_actual("06.p2", {0: "neither", 2: "both"}.get(len(changed), "".join(changed)))

# %%
comparison = pd.DataFrame(answers).T.rename_axis(["query", "compaction"])
comparison

# %% name="apart" proof="The snapshot query says the same, reading under a third; read-optimised catches up to the plan"
assert changed == ["read_optimized"]
assert compacted.gone_files == () and [file.kind for file in compacted.new_files] == ["base"]
kilobytes = comparison["KB read"]
assert kilobytes["snapshot", "before"] > 3 * kilobytes["snapshot", "after"]
assert comparison.loc[("read_optimized", "after"), "newest batch"] == 6  # 7 is not in the plan

# %% [markdown]
# The snapshot query gives the same answer as before and reads a fraction: a compaction must not change what the
# table says. The read-optimised query caught up, to batch 6. Batch 7 came after the plan, and its log is in the
# new slice.
#
# And the logs are all still there: the older slice, in the dashed frame, is for readers of an older state.
# [**Cleaning**](../docs/glossary.md#cleaning) removes it (lesson 07).
#
# Our stream was stopped with one log in its table, and no writer will come to merge it. Your two functions are
# the job that does. Then we look at the boards. They differ because the tables did not get the same batches:
# `never` got those up to 7, `inline` up to 6, `async` up to 2. Each board shows what is in base files, the
# batches up to 6, 5 and 2. A snapshot query of each table is right for all that the table got.

# %%
plan(async_path)
run(async_path)
for name in (*steps, "async"):
    print(f"{name:7}", logs_to_merge(lab.xray(lab.path(name))), "logs to merge, revenue by status:")
    board(lab.path(name)).orderBy("status").show()

# %% proof="The job leaves no log in the table of the stopped stream, and its revenue is that of batch 2"
assert logs_to_merge(lab.xray(async_path)) == 0
revenue_after = spark.read.format("hudi").load(async_path).agg(F.sum("amount")).first()[0]
assert revenue_after == never[2].answer

# %% [markdown] tags=["instructor"]
# *For instructors.* 13 minutes. Draw the two steps as two people: one writes the shopping list, one goes
# shopping. The question that always comes, "may two jobs run the same plan?", is answered under *In production*.
# Many leave out `JOB` in 06.4: the card says by how much the base file grew. Short of time: leave out the job on
# the stream's table.

# %% [markdown]
# > **In production**
# > - Start one job per plan: in release 1.1.1 a second may roll back what the first is writing
# >   ([apache/hudi 18012](https://github.com/apache/hudi/pull/18012)).
# > - A job that schedules or runs is a second writer. Next to a stream both need a concurrency mode and a lock
# >   ([lesson 18](18_concurrent_writers.ipynb)). Without a metadata table, a job that only runs the writer's plans
# >   needs none; with it, Hudi's default, [all jobs need the lock](https://hudi.apache.org/docs/compaction).
# > - Stream and compaction share the executors; [scheduler
# >   pools](https://spark.apache.org/docs/3.5.7/job-scheduling.html#scheduling-within-an-application) divide
# >   them.
# > - Hudi can also trigger by time, or compact only recent partitions
# >   ([reference](https://hudi.apache.org/docs/configurations/#Compaction-Configs)).
# > - Alert on the logs to merge and on plans that wait; Hudi reports [metrics](https://hudi.apache.org/docs/metrics)
# >   of its table services.
#
# ## Key points
#
# - Without compaction each write adds a log to every file group that it changes, a snapshot query reads them all,
#   and nothing fails: monitor the logs that a query has to merge.
# - Compaction trades writing for reading: more bytes written, far fewer read.
# - Inline, the writer waits; async, a thread works while the next batch comes; a separate job pays at a time you
#   choose, and beside a running writer it needs a lock.
# - A snapshot query gives the same answer before and after; a read-optimised one catches up, to the plan.
# - Compaction deletes nothing; cleaning does.
#
# ## What's next
#
# Compaction works within file groups. Lesson 07 asks why there are so many of them, and who removes the files
# that nobody reads.

# %%
spark.stop()

# Optional, some minutes: uncomment a line. The lab runs your code on new events while things fail.
# lab.attack("06.3")
