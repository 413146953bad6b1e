# ---
# title: When do log files become base files, and who pays?
# minutes: {teach: 28, do: 24}
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
# - My Merge-on-Read table took quick writes for a week. Why does each query take longer than the last?
# - Somebody has to merge the logs. The writer, a thread beside it, or a job at night?
# - Nobody compacts my table. How do I notice, and how do I repair it?
#
# ## Objectives
#
# At the end of this lesson you can
#
# - monitor the metric that shows that compaction has stopped (06.1),
# - ask a table read-optimised, and choose how often it is compacted for a reader that may lag only so
#   far (06.2),
# - compact beside a stream that goes on (06.3),
# - plan and run a compaction as a job of its own (06.4).
#
# ## What you need
#
# Lesson 05: it shows base files, log files and file slices. SQL and Python. 52 minutes, with a good
# place to pause after the second section.

# %% [markdown]
# ## Start
#
# The shop's board, revenue by status, is read from a Merge-on-Read table now: the writes are small. Run
# the cells and read on; a Spark session's first Hudi write takes longer than all later ones.

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
# The options of every table of this lesson. `WRITER` departs from Hudi's defaults: `DEMO_OPTIONS` leave
# out the metadata table and cleaning, and the bloom filter of a base file has room for 1,000 keys,
# not for 60,000. So sizes are smaller here than with the defaults, and no file vanishes by itself.

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
# `write_and_ask` writes one batch to a table, and then asks the table for the sum of all amounts. It keeps
# how many bytes Spark's tasks read for that, the number that the Spark UI shows in the column *Input*. The
# first table's writer never compacts.

# %%
from lab_env.lessons.l06.figures import Step, as_table, draw_costs
from lab_env.tables.probes.inputs import InputBytes

steps = {"never": [], "inline": []}


def write_and_ask(name, batch, compaction):
    """Write one batch to a table, ask it for the revenue, and keep what both cost."""
    path = lab.path(name)
    writer = make_changes(batch).write.format("hudi").options(**ORDERS).options(**compaction)
    began = time.time()
    writer.option("hoodie.table.name", name).mode("append").save(path)
    ended = time.time()
    with InputBytes(spark, path) as read:
        table = spark.read.format("hudi").load(path)
        revenue = table.agg(F.sum("amount")).first()[0]
        answered = time.time()
    before = steps[name][-1].table if steps[name] else None
    picture = lab.xray(path, since=before)
    steps[name].append(Step(batch, began, ended, answered, read.bytes, revenue, picture))


NEVER = {"hoodie.compact.inline": "false"}
write_and_ask("never", 0, NEVER)

# %% [markdown]
# A [**Merge-on-Read**](../docs/glossary.md#merge-on-read) table takes an update as a log file beside
# the base file. The write is small, and the work is put off: whoever reads has to merge. A
# [**compaction**](../docs/glossary.md#compaction) merges base file and logs once, for all readers, into
# a new base file. The question is who does it, and when.

# %% [markdown]
# ## Nobody compacts
#
# The writer of the table `never` has `hoodie.compact.inline` set to false, and nobody else looks after
# it. It has a thousand orders now. Six more batches follow.
#
# **Predict:** the rows stay a thousand. By what factor will the bytes that a query of `never` reads have
# grown after the six batches? A guess that is off by 1 or less counts.

# %%
lab.predict("06.p1", ..., tolerance=1)

# %%
for batch in range(1, 7):
    write_and_ask("never", batch, NEVER)

never = steps["never"]
growth = never[-1].bytes_read / never[0].bytes_read
lab.record_actual("06.p1", round(growth, 1))

# %%
as_table(never)

# %% proof="Each write without compaction adds a log, and each query reads more than the one before"
assert [step.logs for step in never] == [0, 1, 2, 3, 4, 5, 6]
assert [step.bytes_read for step in never] == sorted(step.bytes_read for step in never)
assert growth > 4
assert never[1].written("log") > 0.7 * never[0].written("base")

# %% [markdown]
# Each write adds one log, and each query reads all of them, one more than the query before. Look at
# the sizes: a log with 250 changed rows is nearly as large as the base file with all thousand. The
# base file is Parquet, compressed column by column. A log keeps whole rows, as they came.
#
# The X-ray shows why a query must read every log. All of them stand on the first base file, in one
# **file slice**, and the newest slice is what a query reads.

# %%
never_path = lab.path("never")
picture = lab.xray(never_path)
picture

# %% [markdown]
# ### Exercise 06.1 · The metric to monitor
#
# An option was forgotten, a compacting thread died, a stream was stopped: no error is raised. You need
# a number that grows, and an alarm on it. Write a function that takes an X-ray and returns how many logs
# a query of the newest state has to merge **in the worst file group**. While a compaction is planned, a
# file group may have two current slices, and a query merges the logs of both.
#
# `picture.current` has the current file slices, `picture.slices` all of them, each with its `.logs`, and
# with `.partition` and `.group`, which together name the file group.


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

# %% [markdown]
# ### Three numbers for one query
#
# How does the metric relate to what a query costs? One more query of this table, in three numbers: the
# bytes of the current slice in the X-ray, the input of Spark's tasks, and what the store sent, as counted
# by S3A, Spark's S3 client.

# %%
with InputBytes(spark, never_path) as read:
    spark.read.format("hudi").load(never_path).agg(F.sum("amount")).first()

in_slice = sum(file.size for file in picture.current[0].files)
print(f"in the slice {in_slice:,}, read by the tasks {read.bytes:,}, sent {read.sent:,}")

# %% name="three-numbers" proof="The X-ray's slice is what the tasks read; the store sends more"
assert len(picture.slices) == 1 and len(picture.current[0].logs) == 6
assert abs(read.bytes / in_slice - 1) < 0.2
local = spark.sparkContext.master.startswith("local")  # on a cluster executors have own clients
assert read.sent > 1.5 * read.bytes or not local

# %% [markdown]
# The tasks read the whole slice, and a few percent more: a log is always read whole, and here the small
# base file is, too. (Of a large base file a query reads only the columns that it needs.) So the picture
# tells you what a query has to read. The store sends about twice that. (From the source of Hudi and
# S3A, not measured here: the reader opens each log twice, first for its header, and S3A asks for the
# whole rest of the file both times.) Below we keep to Spark's number.

# %% [markdown] tags=["instructor"]
# *For instructors.* 15 minutes. In 06.1 most people take the first current slice; ask for a
# table of two partitions. Draw the slice that grows: one base file, and a log more after each write. Short
# of time: leave out the cell of the three numbers.

# %% [markdown]
# ## The writer pays: inline
#
# The writer of another table compacts **inline**: after a number of writes it does not return at once,
# but compacts the table first. On the timeline a plain write to a Merge-on-Read table is a
# [**deltacommit**](../docs/glossary.md#deltacommit), hence the name of the option that counts them,
# `hoodie.compact.inline.max.delta.commits`. Its default is 5, and a batch writer compacts inline unless
# told otherwise: the writer of `never` had to switch it off.
#
# There is a second way to ask such a table. A [**read-optimised
# query**](../docs/glossary.md#read-optimised-query) reads the base files only and leaves out the logs.
#
# ### Exercise 06.2 · As fresh as the board needs
#
# The shop writes one batch per minute, and its board asks read-optimised. Complete both functions.
#
# - `board` returns revenue by status: a DataFrame of Spark with the columns `status` and `revenue`, the sum
#   of `amount`. It asks the table at `path` read-optimised: in the read, the option
#   `hoodie.datasource.query.type` is `"read_optimized"` (its default is `"snapshot"`).
# - `inline_options` returns the options of a writer that compacts inline: when `save` has returned, the
#   board may be `may_lag` batches behind but not more, with no more compactions than necessary.
#
# The check has a table of its own that has just been compacted. It asks for your board after one more write
# that did not compact. Then it writes with your options for a board that may be one batch behind, then for
# a board that may be more behind, and looks at the table after each write. The lesson goes on with both.


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
# The board: `spark.read.format("hudi")`, the option, `load(path)`, and then a sum for each status. For the
# options, let the trigger be 3. How many logs does the table have after each of the next five writes?

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
# expect: holds for every later query
def board(path):
    spark.conf.set("hoodie.datasource.query.type", "read_optimized")
    orders = spark.read.format("hudi").load(path)
    return orders.groupBy("status").agg(F.sum("amount").alias("revenue"))


# %% wrong="06.2"
# expect: `revenue` has become `double`
def board(path):
    reader = spark.read.format("hudi").option("hoodie.datasource.query.type", "read_optimized")
    amount = F.col("amount").cast("double")
    return reader.load(path).groupBy("status").agg(F.sum(amount).alias("revenue"))


# %% equivalent="06.2"
# without 'hoodie.compact.inline': 'true': a batch writer compacts inline unless told otherwise


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
    write_and_ask("inline", batch, inline_options(may_lag=1))

inline = steps["inline"]
inline[1].table

# %% name="inline" proof="Compacted after every second deltacommit, the answers are those of the other table"
assert [step.batch for step in inline if step.compacted] == [1, 3, 5]
assert [step.logs for step in inline] == [0, 0, 1, 0, 1, 0, 1]
assert [step.answer for step in inline] == [step.answer for step in never]

# %% [markdown]
# This is the table `inline` after its second write; amber is what that one call of `save` made. It
# wrote a log, as always. Then it merged the base file and the log into a new base file, and a query
# from now on reads only that. And over all seven writes:

# %%
from IPython.display import HTML

HTML(draw_costs({"never compacted": never, "compacted inline": inline}))

# %%
written = {
    name: sum(step.written("log") + step.written("base") for step in steps[name]) for name in steps
}
print({name: f"{size / 1024:,.0f} KB written in all" for name, size in written.items()})

# %% name="inline-saves-and-costs" proof="Compaction writes more in all, and the last query reads a third at most"
assert never[-1].bytes_read > 3 * inline[-1].bytes_read
assert written["inline"] > 1.15 * written["never"]

# %% [markdown]
# Read the upper row: without compaction each write lifts the line by one log. The other line is a saw:
# a write that only adds a log lifts it, and a write that compacts as well lets it fall back to one base
# file. The middle row says what that costs: the writes in the other colour wrote a whole base file
# beside their log. In all, the compacted table wrote more, and its last query read much less. A table
# that is written often and read seldom may want few compactions, a table that is read all the time
# many. And after every write both tables gave the same revenue.
#
# The lower row shows the seconds. They vary on a busy laptop, so we only draw them. But it is certain
# who waited: each compaction began after `save` was called and ended before it returned, as the proof
# below checks. When were the rows of the second write visible?

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
# The rows of the second write were visible before the compaction: its deltacommit is complete first.
# But the third write has to wait.
#
# What does your board say of each table? Both got all seven batches:

# %%
boards = {name: board(lab.path(name)).toPandas().set_index("status") for name in steps}
pd.concat(boards, names=["table"])

# %% proof="Never compacted, the board shows the first batch; compacted, it is one batch behind"
assert set(boards["never"].index) == {"new"}
assert boards["never"]["revenue"].sum() == never[0].answer
assert set(boards["inline"].index) == {"paid", "packed"}
assert boards["inline"]["revenue"].sum() == never[5].answer

# %% [markdown]
# Of the table `never` it still shows all revenue as `new`, although every order has been paid since: its base
# file is that of the first batch. Of the table `inline` it shows all batches but the last.

# %% [markdown] tags=["instructor"]
# *For instructors.* 12 minutes. Before the chart, draw an empty saw on the board and let people place
# the teeth: "after which writes?" Most forget that the first write counts. In 06.2 many set the trigger to
# `may_lag`; let them say what the board shows when the compacting write has returned. Leaving the options
# out gives the default of five: a good moment to say that a batch writer compacts inline unless told
# otherwise.

# %% [markdown]
# > **Documented, not measured here** ([Hudi's configuration
# > reference](https://hudi.apache.org/docs/configurations/#Compaction-Configs), read November 2026).
# > *When* a compaction is planned is the trigger strategy, `hoodie.compact.inline.trigger.strategy`:
# > `NUM_COMMITS` (the default, used here) counts from the last completed compaction,
# > `NUM_COMMITS_AFTER_LAST_REQUEST` from the last planned one, `TIME_ELAPSED` takes
# > `hoodie.compact.inline.max.delta.seconds`, and `NUM_AND_TIME` and `NUM_OR_TIME` combine both.
# > *Which* file groups go into a plan is the compaction strategy, `hoodie.compaction.strategy`. The
# > default takes those with the most log bytes first, up to a limit of bytes to read and write
# > (`hoodie.compaction.target.io`); others prefer recent day partitions, or take everything.
# > *Log compaction* (`hoodie.log.compaction.inline`) is another service: it merges many small log blocks
# > into larger ones, and leaves the base file as it is.

# %% [markdown]
# **A good place to pause.** To go on another day, type `lab goto 06c` in a terminal: it runs everything to
# here again in a minute or two.

# %% [markdown]
# ## A thread beside the stream pays: async
#
# A stream cannot wait long: while it does, events queue up. So a streaming writer compacts
# **asynchronously**, by default. It only makes the plan. A thread of the same process executes it, while
# the stream takes its next batch. The pipeline of this course does so.
#
# We put the same batches into a folder, one file each. A streaming query reads one file per trigger.

# %%
source = lab.path("changes")
SCHEMA = make_changes(0).schema
for batch in range(3):
    make_changes(batch).write.mode("append").parquet(source)

# %% [markdown]
# ### Exercise 06.3 · A stream that compacts beside itself
#
# Complete the function. It starts a stream and returns the running query. The stream
#
# - reads the Parquet files of the folder `source`, one file per trigger. It needs their schema, `SCHEMA`,
# - writes them to the Hudi table at `path` with the options `ORDERS` and a name, `hoodie.table.name`,
# - keeps its checkpoint at `checkpoint`,
# - plans a compaction after every second commit; the trigger counts as it does inline,
# - and leaves the plan to a thread beside it: `hoodie.datasource.compaction.async.enable`.


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
# `hoodie.compact.inline.max.delta.commits` counts for the thread, too.


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


# %%
lab.use_reference("06.3")

# %%
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
# Each bar of the upper lane is a write, with its number. The triangle is the moment of the plan, the
# bar of the lower lane is its execution. On the left, every second write is long, because a compaction
# lies *inside* it. (In the gaps we asked our queries.) On the right the compaction runs beside the
# batches: one may end and the next begin while it runs. (A bar is the whole batch. Its deltacommit on
# the timeline is shorter, so it need not overlap the compaction, even where the bar does.)
#
# The work remains: the same cores do it beside the stream. On busy cores the compaction slows the stream,
# but the stream does not wait for its end. And no update was lost on the way:

# %%
beside_stream = lab.xray(async_path)
beside_stream

# %% proof="The batch after the plan is a log of the next slice, and no update is lost"
assert len(beside_stream.current) == 1
assert [len(found.logs) for found in beside_stream.slices] == [1, 1]
revenue = spark.read.format("hudi").load(async_path).agg(F.sum("amount")).first()[0]
assert revenue == never[2].answer

# %% [markdown]
# Batch 2 came after the plan was made. So its log does not stand on the old slice: new logs belong to
# the next one.

# %% [markdown] tags=["instructor"]
# *For instructors.* 10 minutes. Let people point at the bar that waits, on the left, and look for it on
# the right. Somebody will ask whether async is free: the cores are the same. Short of time: give 06.3
# away and show the lanes.

# %% [markdown]
# ## A job of its own pays: schedule and run
#
# By your metric, the table `never` needs help. Spark SQL shows the same facts without an X-ray, by
# commands that Hudi calls [**procedures**](../docs/glossary.md#procedure). This table never had a plan:

# %%
print("logs to merge:", {name: logs_to_merge(lab.xray(lab.path(name))) for name in steps})
spark.sql(f"CALL show_compaction(path => '{never_path}')").show()

# %%
partition = "partition_date=2026-11-20"
slices = spark.sql(
    f"CALL show_fsview_latest(path => '{never_path}', partition_path => '{partition}')"
)
facts = slices.selectExpr(
    "base_instant",
    "data_file_size",
    "num_delta_files AS logs",
    "total_delta_file_size AS log_bytes",
    "round(delta_to_base_radio_compaction_scheduled, 1) AS logs_to_base",
).toPandas()
facts

# %% name="see-it" proof="The procedures tell what the X-ray tells: no plan, six logs, several times the base file"
assert spark.sql(f"CALL show_compaction(path => '{never_path}')").count() == 0
assert list(facts["logs"]) == [6] and facts["logs_to_base"][0] > 4

# %% [markdown]
# One base file, six logs, several times its size. (The long column name with *radio* is Hudi's own
# spelling of *ratio*.)
#
# A compaction has two steps, and they can be taken apart. **Scheduling** writes a plan on the timeline:
# these file groups, these logs. **Running** does what the plan says. Both are the procedure
# `run_compaction`, with `op => 'schedule'` or `op => 'execute'`. (`'run'` is an old name of
# `'scheduleandexecute'`: it would plan as well.) It takes the `path` of the table, and
# `options` as one text, `name=value,name=value`. A job does not know the options of our writer: pass again
# those that affect file layout or bookkeeping. They are in `JOB`. Without them this job would build a
# metadata table, and a base file with a bloom filter for 60,000 keys.

# %%
JOB = ",".join(f"{key}={value}" for key, value in WRITER.items())
print(JOB)

# %% [markdown]
# ### Exercise 06.4 · Plan and run
#
# Complete both functions. The procedure has the same trigger as the writers: it plans nothing while
# there were fewer deltacommits than `hoodie.compact.inline.max.delta.commits` since the last compaction.
# Your `plan` must plan at once, after one deltacommit. Both pass on `JOB`. The check runs them on copies of
# the table that the stream left, which has one log.


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
# `CALL run_compaction(op => 'schedule', path => '...', options => '...')`, as text for `spark.sql`.

# %% [markdown] hint="06.4"
# `options` is a text of `key=value` pairs with commas between them. Add one pair to `JOB`.


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

# %%
before = lab.xray(never_path)
plan(never_path)

with_plan = lab.xray(never_path, since=before)
print("new:", [(i.action, i.state) for i in with_plan.new_instants], list(with_plan.new_files))

# %% proof="A plan is a requested compaction on the timeline, and no file"
assert [(i.action, i.state) for i in with_plan.new_instants] == [("compaction", "requested")]
assert not with_plan.new_files

# %% [markdown]
# A plan, and no file yet. It may wait for the night. The writer need not wait for it: batch 7 comes
# while the plan lies there. (Our writer rests while we schedule. **A job that schedules is a second writer**:
# beside a live one both need a concurrency mode and a lock, which lesson 18 shows for writes. Without them
# let the writer schedule, with `hoodie.compact.schedule.inline`, and let the job only run the plan. And start
# only one job per plan: two that run the same plan may damage the table,
# [apache/hudi 18012](https://github.com/apache/hudi/pull/18012).)

# %%
write_and_ask("never", 7, NEVER)

waiting = lab.xray(never_path)
print("logs to merge:", logs_to_merge(waiting))
waiting

# %% name="plan-waits" proof="Batch 7 is a log of the slice that the plan has begun"
logs_and_plan = [(len(found.logs), found.planned) for found in waiting.current]
assert logs_and_plan == [(6, False), (1, True)]

# %% [markdown]
# The new log stands in a slice that the plan has begun, and that has no base file yet. Until the plan
# is run, a query reads both slices. We ask both kinds of query now, to compare later.


# %%
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
# Now the plan is run.
#
# **Predict:** which query gives another answer after it? And how many logs will a query have to merge
# then, by your metric?

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
# The snapshot query says the same as before and reads a fraction. That is what compaction is for: it
# must not change what the table says. The read-optimised query caught up, to batch 6. Batch 7 came
# after the plan, and its log stands on the new slice.
#
# And the logs are all there. The older slice, in the dashed frame, is for readers of an older state, and
# for those who began before the compaction was complete. Removing it is another service's work,
# [**cleaning**](../docs/glossary.md#cleaning), with its own rule for how long to keep. `DEMO_OPTIONS`
# switches it off. Here is one write that has it on and keeps what readers of the last commit and of the
# one before it need:

# %%
before = lab.xray(never_path)
CLEAN = {"hoodie.clean.automatic": "true", "hoodie.clean.commits.retained": "1"}
write_and_ask("never", 8, {**NEVER, **CLEAN})

cleaned = lab.xray(never_path, since=before)
cleaned

# %% name="logs-vanish-by-cleaning" proof="Cleaning removes the first base file and its six logs"
assert sorted(file.kind for file in cleaned.gone_files) == ["base"] + ["log"] * 6

# %% [markdown]
# The first base file and its six logs are gone. Lesson 07 is about this.
#
# Now we can say who paid, inline and in the stream: which writes were under way while a compaction ran?

# %%
waited = {
    "inline": [during(writes, found) for found in compactions],
    "async in a stream": [during(batches, found) for found in executed],
}
pd.Series(waited, name="writes during each compaction").to_frame()

# %% name="job-pays" proof="Inline one write waits for each compaction; in the stream, batches go on"
assert waited["inline"] == [["1"], ["3"], ["5"]]
assert waited["async in a stream"][0]

# %% [markdown]
# Inline, the write waited for the compaction; in the stream, batches went on. We started your job when
# nobody was writing: its advantage is that you choose the time.
#
# The stream of this lesson was stopped with one log in its table, and no writer will come to merge it.
# Your two functions are the job that does. Then the board: the base files hold the batches up to 6, 5 and 2,
# so the boards differ.

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
# *For instructors.* 15 minutes. Draw the two steps as two people: one writes the
# shopping list, one goes shopping. The question that always comes: "may two jobs run the same plan?"
# No: with this release the second may roll back what the first is writing. Many leave out `JOB` in
# 06.4: the card says by how much the base file grew. Short of time: leave out the cell that cleans.

# %% [markdown]
# ## Key points
#
# - Without compaction each write adds a log, and each query reads all of them.
# - Compaction trades writing for reading: more bytes written, far fewer read. `max.delta.commits` sets
#   the rate; inline, a read-optimised query between two writes lags by at most one batch less than that.
# - Inline, the writer waits. Async, a thread beside the stream works while the next batch comes. A separate
#   job pays at a time you choose. Let the writer schedule, or give both a lock.
# - A snapshot query says the same before and after. A read-optimised one catches up, to the plan.
# - Compaction deletes nothing. Cleaning does.
# - Nothing fails when nobody compacts. Monitor the logs that a query has to merge.
#
# ## What's next
#
# Compaction works within file groups. Lesson 07 asks why there are so many of them, and who removes what
# nobody reads any more.

# %%
spark.stop()
