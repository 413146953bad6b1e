# ---
# title: When do log files become base files, and who pays?
# minutes: {teach: 25, do: 15}
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
# - Nobody switched compaction on. How do I notice, and how do I mend it?
#
# ## Objectives
#
# At the end of this lesson you can
#
# - choose how often a table is compacted for a reader that may lag only so far (06.1),
# - watch the number that tells that nobody compacts a table (06.2),
# - compact a table by a job of its own (06.3).
#
# ## What you need
#
# Lesson 05: it shows base files, log files and file slices. SQL and Python. Forty minutes.

# %% [markdown]
# ## Start
#
# Run both cells and read on: a Spark session's first Hudi write takes longer than all later ones.

# %%
import time

from lab_env import Lab
from lab_env.pipeline.options import DEMO_OPTIONS
from pyspark.sql import functions as F

lab = Lab.start("06")
spark = lab.spark

WRITER = DEMO_OPTIONS | {
    # A base file carries a filter of its keys, by default for 60,000 of them. We have 1,000.
    "hoodie.index.bloom.num_entries": "1000",
}
ORDERS = WRITER | {
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "order_id",
    "hoodie.table.ordering.fields": "order_ts",
    "hoodie.datasource.write.partitionpath.field": "partition_date",
    "hoodie.datasource.write.hive_style_partitioning": "true",
}


def changes(batch):
    """Batch 0 creates a thousand orders. Each later batch changes a quarter of them."""
    return spark.sql(f"""
        SELECT concat('O-', id) AS order_id,
               CASE WHEN {batch} = 0 THEN 'new' WHEN {batch} < 5 THEN 'paid' ELSE 'packed' END AS status,
               CAST(10 + pmod(hash(id, {batch}), 9000) / 100 AS DECIMAL(12,2)) AS amount,
               sha2(concat(id, '-', {batch}), 256) AS tracking_code,
               {batch} AS batch,
               TIMESTAMP '2026-11-20 12:00:00' + make_interval(0, 0, 0, 0, 0, {batch}) AS order_ts,
               '2026-11-20' AS partition_date
        FROM range(0, 1000, 1, 1)
        WHERE {batch} = 0 OR id % 4 = {batch} % 4
    """)


# %%
from lab_env.lessons.l06.figures import Step, as_table, draw_costs
from lab_env.probes.inputs import InputBytes

steps = {"never": [], "inline": []}


def write_and_ask(name, batch, compaction):
    """Write one batch to a table, then ask it for the revenue, and keep what both cost."""
    path = lab.path(name)
    began = time.time()
    (
        changes(batch)
        .write.format("hudi")
        .options(**(ORDERS | compaction))
        .option("hoodie.table.name", name)
        .mode("append")
        .save(path)
    )
    ended = time.time()
    with InputBytes(spark, path) as read:
        table = spark.read.format("hudi").load(path)
        revenue = table.agg(F.sum("amount")).first()[0]
        answered = time.time()
    before = steps[name][-1].table if steps[name] else None
    picture = lab.xray(path, since=before)
    steps[name].append(Step(batch, began, ended, answered, read.bytes, revenue, picture))


NEVER = {"hoodie.compact.inline": "false"}
INLINE = {
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "3",  # the default is 5
}
write_and_ask("never", 0, NEVER)
write_and_ask("inline", 0, INLINE)

# %% [markdown]
# A [**Merge-on-Read**](../docs/glossary.md#merge-on-read) table takes an update as a log file beside
# the base file. The write is small, and the work is put off: whoever reads has to merge. A
# [**compaction**](../docs/glossary.md#compaction) merges base file and logs once, for all readers, into
# a new base file. This lesson sends the same batches to several tables that differ in one thing only:
# who compacts them.
#
# The function `write_and_ask` writes a batch, and then asks the table for the sum of all amounts. It
# keeps how many bytes Spark's tasks read for that. It is the number that the Spark UI shows in the column
# *Input*.

# %% [markdown]
# ## Nobody compacts
#
# Two tables get the same batches, in turn. The writer of the table `inline` compacts, as the next section
# shows. The writer of the table `never` has `hoodie.compact.inline` set to false, and nobody else looks
# after it. Both have a thousand orders now. Six more batches follow.
#
# **Predict:** the rows stay a thousand. How many times as many bytes as now will a query of `never` read
# after the six batches? Put your guess in place of the dots.

# %%
lab.predict("06.p1", ...)

# %% name="never-compacts"
for batch in range(1, 7):
    write_and_ask("never", batch, NEVER)
    write_and_ask("inline", batch, INLINE)

never, inline = steps["never"], steps["inline"]
growth = never[-1].bytes_read / never[0].bytes_read
lab.record_actual("06.p1", f"{growth:.1f} times as many")

# %% proof="Without compaction each write adds a log, and the query reads over four times the bytes."
assert [step.logs for step in never] == [0, 1, 2, 3, 4, 5, 6]
assert [step.bytes_read for step in never] == sorted(step.bytes_read for step in never)
assert growth > 4

# %%
as_table(never)

# %% proof="A log of 250 changed rows is nearly as large as the base file of all thousand."
assert never[1].written("log") > 0.7 * never[0].written("base")

# %% [markdown]
# Each write adds one log, and each query reads all of them, one more than the query before. Look at
# the sizes: a log with 250 changed rows is nearly as large as the base file with all thousand. The
# base file is Parquet, compressed column by column. A log keeps whole rows, as they came.
#
# The X-ray shows why nothing is ever left out. All logs stand on the first base file, in one
# **file slice**, and the newest slice is what a query reads.

# %%
picture = lab.xray(lab.path("never"))
picture

# %% proof="All six logs are in one file slice."
assert len(picture.slices) == 1 and len(picture.current[0].logs) == 6

# %% [markdown]
# Which number tells what a query costs? Here are three, for one more query of this table: the bytes of
# the current slice in the X-ray, the input of Spark's tasks, and what the store sent over the wire, as
# S3A counts it, the client of the store in Spark's process.

# %% name="three-numbers"
with InputBytes(spark, lab.path("never")) as read:
    spark.read.format("hudi").load(lab.path("never")).agg(F.sum("amount")).first()

in_slice = sum(file.size for file in picture.current[0].files)
print(f"in the slice {in_slice:,}, read by the tasks {read.bytes:,}, sent {read.sent:,}")

# %% proof="The tasks read what the slice holds; the store sent over 1.5 times as much."
assert abs(read.bytes / in_slice - 1) < 0.2
local = spark.sparkContext.master.startswith("local")  # on a cluster executors have own clients
assert read.sent > 1.5 * read.bytes or not local

# %% [markdown]
# The slice and the input agree but for a few percent, so the picture tells you what a query has to
# read. The store sends about twice that: Hudi's reader opens each log twice, first for its header, and
# S3A asks for the whole rest of the file both times. Below we keep to Spark's number.

# %% [markdown]
# ## The writer pays: inline
#
# The other writer compacts **inline**: after every third write it does not return at once, but compacts
# the table first. On the timeline a plain write to a Merge-on-Read table is a
# [**deltacommit**](../docs/glossary.md#deltacommit), hence the name of the option that counts them,
# `hoodie.compact.inline.max.delta.commits`.

# %%
inline[2].table

# %% name="inline" proof="Inline compaction ran after the third and sixth write, and no answer differs."
assert [step.batch for step in inline if step.compacted] == [2, 5]
assert [step.logs for step in inline] == [0, 1, 0, 1, 2, 0, 1]
assert [step.answer for step in inline] == [step.answer for step in never]

# %% [markdown]
# This is the table `inline` after its third write; amber is what that one call of `save` made. It
# wrote a log, as always. Then it merged the base file and both logs into a new base file, and a query
# from now on reads only that. And over all seven writes:

# %%
from IPython.display import HTML

HTML(draw_costs({"never compacted": never, "compacted inline": inline}))

# %%
written = {
    name: sum(step.written("log") + step.written("base") for step in steps[name]) for name in steps
}
print({name: f"{size / 1024:,.0f} KB written in all" for name, size in written.items()})

# %% name="inline-saves-and-costs" proof="Inline compaction cut the last query's bytes to less than a third, and wrote more in all."
last_never, last_inline = never[-1], inline[-1]
assert last_never.bytes_read > 3 * last_inline.bytes_read
assert written["inline"] > 1.15 * written["never"]

# %% [markdown]
# Read the upper row as a saw: each write lifts the line by one log, each compaction lets it fall back
# to one base file. The middle row says what that costs: the writes in the other colour wrote a whole
# base file beside their log. In all, the compacted table wrote more, and its last query read much less.
# A table that is written often and read seldom may want few compactions, a table that is read all the
# time many. And on every line both tables gave the same revenue.
#
# The lower row shows the seconds. They are drawn, not judged, because a busy laptop scatters them. What
# is certain is *whose* seconds they are. The timeline tells it: both compactions began after a call of
# `save` and ended before it returned.

# %% name="inline-writer-pays"
from lab_env.lessons.l06.figures import Work, compactions_of

writes = [Work(str(step.batch), step.began, step.ended) for step in inline]
compactions = compactions_of(lab.files(lab.path("inline")))

# %% proof="Each compaction ran inside its write, after that write's own deltacommit."
for found, batch in zip(compactions, (2, 5), strict=True):
    assert writes[batch].began < found.began < found.ended < writes[batch].ended
third, compaction = inline[2].table.instants[2:4]
assert third.action == "deltacommit" and third.completed < compaction.requested

# %% [markdown]
# The rows of the third write were visible before the compaction: its deltacommit is complete first. But
# the fourth write has to wait.
#
# ### Exercise 06.1 · As fresh as the dashboard needs
#
# There is a second way to ask a Merge-on-Read table. A [**read-optimised
# query**](../docs/glossary.md#read-optimised-query) reads the base files only and leaves out the logs.
# It shows old values until the next compaction. Order O-17 was paid in batch 1 and packed in batch 5:

# %%
shown = {}
for name in steps:
    table = (
        spark.read.format("hudi")
        .option("hoodie.datasource.query.type", "read_optimized")
        .load(lab.path(name))
    )
    shown[name] = table.selectExpr(
        "max(batch) AS newest_batch",
        "first(status) FILTER (WHERE order_id = 'O-17') AS status_of_o_17",
    ).first()

for name, row in shown.items():
    print(
        f"{name:7} shows changes up to batch {row.newest_batch} of 6, O-17 is {row.status_of_o_17}"
    )

# %% proof="Read-optimised, the uncompacted table shows batch 0 and the compacted one batch 5."
assert tuple(shown["never"]) == (0, "new") and tuple(shown["inline"]) == (5, "packed")

# %% [markdown]
# The shop writes one batch a minute, and its dashboard asks read-optimised. Whenever `save` has returned, it may be
# one batch behind, not two, with no more compactions than necessary. Which options must the writer have?
# The check writes up to five batches with them to a scratch table, and looks at it after each.

# %% exercise="06.1"
fresh_options = {
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "2",  # SOLUTION
}
lab.check("06.1", fresh_options)

# %% [markdown] hint="06.1"
# With three, as above, the table had 0, 1, 0, 1, 2, 0, 1 logs after its writes. How far behind was the
# read-optimised query at worst?

# %% [markdown] hint="06.1"
# The first write counts as a deltacommit, too. And compacting after each one is fresher than asked for.

# %% wrong="06.1"
# expect: more than the one that is allowed
fresh_options = {
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "3",
}

# %% wrong="06.1"
# expect: Each write rewrote the base file
fresh_options = {
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "1",
}

# %% [markdown] tags=["instructor"]
# *For instructors.* Six minutes. Before the chart, draw an empty saw on the board and let people place
# the teeth: "after which writes?" Most forget that the first write counts. In 06.1 the reflex is 1,
# because "fresh is good"; ask what Merge-on-Read is for, then. Leaving the options out gives the default of
# five: a good moment to say that a batch writer compacts inline unless told otherwise.

# %% [markdown]
# > **Documented, not measured here** ([Hudi's configuration reference](https://hudi.apache.org/docs/configurations/#Compaction-Configs), read November 2026).
# > *When* a compaction is planned is the trigger strategy,
# > `hoodie.compact.inline.trigger.strategy`: `NUM_COMMITS` (the default, used here) counts from the last completed
# > compaction, `NUM_COMMITS_AFTER_LAST_REQUEST` from the last planned one, `TIME_ELAPSED` takes
# > `hoodie.compact.inline.max.delta.seconds`, and `NUM_AND_TIME` and `NUM_OR_TIME` combine both.
# > *Which* file groups go into a plan is the compaction strategy, `hoodie.compaction.strategy`. The
# > default takes those with the most log bytes first, up to a limit of bytes to read and write
# > (`hoodie.compaction.target.io`); others prefer recent day partitions, or take everything.

# %% [markdown]
# ## A thread beside the stream pays: async
#
# A stream cannot wait long: while it does, events queue up. So a streaming writer compacts
# **asynchronously**, by default. It only makes the plan. A thread of the same process executes it, while the
# stream takes its next batch. The pipeline of this course does so.
#
# We put the same batches into a folder, one file each, and let a streaming query read one file at a
# trigger.

# %%
source = lab.path("changes")
for batch in range(3):
    changes(batch).write.mode("append").parquet(source)

# %% name="async"
stream = (
    spark.readStream.schema(changes(0).schema)
    .option("maxFilesPerTrigger", "1")
    .parquet(source)
    .writeStream.format("hudi")
    .options(**ORDERS)
    .option("hoodie.table.name", "async")
    .option("hoodie.datasource.compaction.async.enable", "true")  # the default
    .option("hoodie.compact.inline.max.delta.commits", "2")  # counts for async, too
    .option("path", lab.path("async"))
    .option("checkpointLocation", lab.path("_checkpoints/async"))
    .start()
)
stream.processAllAvailable()
patience = time.time() + 30
while lab.xray(lab.path("async")).planned and time.time() < patience:
    time.sleep(0.2)  # the compaction may still run
progress = stream.recentProgress
stream.stop()

# %%
from lab_env.lessons.l06.figures import batches_of, draw_lanes, during

batches = batches_of(progress)
executed = compactions_of(lab.files(lab.path("async")))

HTML(draw_lanes({"inline": (writes, compactions), "async in a stream": (batches, executed)}))

# %% name="async-thread-pays" proof="A batch planned the compaction, and the stream's batches went on while it ran."
assert len(batches) == 3 and len(executed) == 1
planner = batches[1]
assert planner.began < executed[0].planned < planner.ended
assert during(batches, executed[0])  # batches went on; which of them is a matter of moments

# %% [markdown]
# Each bar of the upper lane is a write, with its number. The triangle is the moment of the plan, the bar
# of the lower lane is its execution. On the left, write 2 and write 5 are long, because the compaction lies
# *inside* them. (In the gaps we wrote the other table, and asked our queries.) On the right the stream's batches
# went on while the compaction ran.
#
# The work is not gone. It is done by the same cores, beside the stream. If they are busy, it slows the
# stream; but the stream does not wait for its end. And nobody lost an update on the way:

# %%
picture = lab.xray(lab.path("async"))
revenue = spark.read.format("hudi").load(lab.path("async")).agg(F.sum("amount")).first()[0]
picture

# %% proof="The log written during the compaction is in the next slice, and no update was lost."
assert len(picture.current) == 1 and [len(found.logs) for found in picture.slices] == [1, 1]
assert revenue == never[2].answer

# %% [markdown]
# Batch 2 came while the old base file and its log were being merged. Its log does not stand on the old
# slice: from the moment of the plan, new logs belong to the next one.
#
# ### Exercise 06.2 · The number to watch
#
# An option was forgotten, a compacting thread died, a stream was stopped: no error tells you. You need
# a number that grows, and an alarm on it. Write a function that takes an X-ray and returns how many logs
# a query of the newest state has to merge at worst, over all file groups. The check calls it for the
# tables of this lesson.
#
# `picture.current` has the current file slices, `picture.slices` all of them, each with its `.logs`.


# %% exercise="06.2"
def logs_to_merge(picture):
    return max(len(found.logs) for found in picture.current)  # SOLUTION


lab.check("06.2", logs_to_merge)


# %% [markdown] hint="06.2"
# A compaction deletes nothing. Which logs of the table `inline` does no query read any more?


# %% wrong="06.2"
# expect: logs of older slices
def logs_to_merge(picture):
    return sum(file.kind == "log" for file in picture.files)


# %% wrong="06.2"
# expect: the writes of its whole timeline
def logs_to_merge(picture):
    return sum(instant.action == "deltacommit" for instant in picture.instants)


# %% [markdown]
# ## A job of its own pays: schedule and run
#
# By your number, the table `never` needs help. Spark SQL shows the same facts without an X-ray. Hudi calls
# such commands [**procedures**](../docs/glossary.md#procedure). This table never had a plan:

# %% name="see-it"
never_path = lab.path("never")
plans = spark.sql(f"CALL show_compaction(path => '{never_path}')").count()
print(plans, "compactions planned so far")

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

# %% proof="No compaction was planned, and the logs are over four times as large as the base file."
assert plans == 0
assert list(facts["logs"]) == [6] and facts["logs_to_base"][0] > 4

# %% [markdown]
# One base file, six logs, several times its size. (The long column name with *radio* is Hudi's own
# spelling of *ratio*.)
#
# A compaction has two steps, and they can be taken apart. **Scheduling** writes a plan on the timeline:
# these file groups, these logs. **Running** does what the plan says. We schedule first. The job does not
# know our writer's options; those that shape files or bookkeeping must be told again.

# %%
JOB = ",".join(f"{key}={value}" for key, value in WRITER.items())
before = lab.xray(never_path)
spark.sql(f"CALL run_compaction(op => 'schedule', path => '{never_path}', options => '{JOB}')")

# %% proof="Scheduling wrote a plan and no data file."
planned = lab.xray(never_path, since=before)
assert [(i.action, i.state) for i in planned.new_instants] == [("compaction", "requested")]
assert not planned.new_files

# %% [markdown]
# A plan, and no file yet. It may wait for the night. The writer need not wait for it: batch 7 comes
# while the plan lies there. (Our writer rests while we schedule. **Scheduling beside a live writer needs a lock**,
# lesson 18; without one let the writer schedule, by `hoodie.compact.schedule.inline`, and the job only run the
# plan. And start only one job per plan: two that run the same plan may damage the table,
# [apache/hudi 18012](https://github.com/apache/hudi/pull/18012).)

# %% name="plan-waits"
write_and_ask("never", 7, NEVER)

waiting = lab.xray(never_path)
waiting

# %% proof="The new log is in the slice that the plan began."
assert [(len(found.logs), found.planned) for found in waiting.current] == [(6, False), (1, True)]

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


asked = {("snapshot", "before"): ask("snapshot")}
asked["read_optimized", "before"] = ask("read_optimized")

# %% [markdown]
# Now the plan is run.
#
# **Predict:** which query gives another answer after it: the snapshot query, the read-optimised one,
# both, or none? And how many of the seven logs will be deleted?

# %%
lab.predict("06.p2", ...)

# %%
lab.predict("06.p3", ...)

# %%
before = lab.xray(never_path)
spark.sql(f"CALL run_compaction(op => 'run', path => '{never_path}', options => '{JOB}')")

mended = lab.xray(never_path, since=before)
mended

# %% name="apart"
asked["snapshot", "after"] = ask("snapshot")
asked["read_optimized", "after"] = ask("read_optimized")
changed = [
    kind
    for kind in ("snapshot", "read_optimized")
    if asked[kind, "before"]["revenue"] != asked[kind, "after"]["revenue"]
]
lab.record_actual("06.p2", " and ".join(changed) or "none")

# %% proof="Only the read-optimised query changed its answer."
assert changed == ["read_optimized"]

# %%
lab.record_actual("06.p3", len(mended.gone_files))

# %% proof="Running the plan removed no file and wrote one base file."
assert mended.gone_files == () and [file.kind for file in mended.new_files] == ["base"]

# %%
import pandas as pd

answers = pd.DataFrame(asked).T.rename_axis(["query", "compaction"])
answers

# %% proof="The snapshot query reads less than a third; the read-optimised query reached batch 6."
assert (
    answers.loc[("snapshot", "before"), "KB read"]
    > 3 * answers.loc[("snapshot", "after"), "KB read"]
)
assert answers.loc[("read_optimized", "after"), "newest batch"] == 6  # batch 7 was not in the plan

# %% [markdown]
# The snapshot query says the same as before and reads a fraction. That is what compaction is for: it
# must not change what the table says. The read-optimised query caught up, to batch 6. Batch 7 came
# after the plan, and its log stands on the new slice.
#
# And the logs are all there. The older slice, in the dashed frame, is for readers of an older state, and
# for those who began before the compaction was complete. Removing it is another service's work,
# [**cleaning**](../docs/glossary.md#cleaning), with its own rule for how long to keep. `DEMO_OPTIONS` switches it
# off. Here is one write that has it on and keeps no more than one commit:

# %% name="logs-vanish-by-cleaning"
before = lab.xray(never_path)
CLEAN = {"hoodie.clean.automatic": "true", "hoodie.clean.commits.retained": "1"}
write_and_ask("never", 8, NEVER | CLEAN)

cleaned = lab.xray(never_path, since=before)
cleaned

# %% proof="The cleaner removed the old base file and its six logs."
removed = [file.kind for file in cleaned.gone_files]
assert sorted(removed) == ["base"] + ["log"] * 6

# %% [markdown]
# The first base file and its six logs are gone. Lesson 07 is about this.
#
# Now we can say who paid, in each of the three settings: which writes went on while a compaction ran?

# %% name="job-pays"
job = compactions_of(lab.files(never_path))
apart = [Work(str(step.batch), step.began, step.ended) for step in steps["never"]]
paid = {
    "inline": [during(writes, found) for found in compactions],
    "async in a stream": [during(batches, found) for found in executed],
    "scheduled and run apart": [during(apart, found) for found in job],
}
pd.Series(paid, name="writes during each compaction").to_frame()

# %% proof="Inline compactions ran inside writes 2 and 5; the separate job overlapped no write."
assert paid["inline"] == [["2"], ["5"]]
assert paid["async in a stream"][0] and paid["scheduled and run apart"] == [[]]

# %% [markdown]
# ### Exercise 06.3 · Compact the table that the stream left
#
# The stream of this lesson was stopped. Its table has a base file and a log, and no writer will come
# to merge them. Write the SQL that does. The check runs your function on a copy of the table, and looks
# for a new base file.
#
# The procedure asks the same trigger as the writers: it plans nothing while there were fewer
# deltacommits than `hoodie.compact.inline.max.delta.commits` since the last compaction.


# %% exercise="06.3"
def compact(path):
    # BEGIN SOLUTION
    now = f"{JOB},hoodie.compact.inline.max.delta.commits=1"
    spark.sql(f"CALL run_compaction(op => 'schedule', path => '{path}', options => '{now}')")
    spark.sql(f"CALL run_compaction(op => 'run', path => '{path}', options => '{now}')")
    # END SOLUTION


lab.check("06.3", compact)

# %% [markdown] hint="06.3"
# The two calls of this section do it, with one more option: one deltacommit must be enough.

# %% [markdown] hint="06.3"
# `options` is a text of `key=value` pairs with commas between them, as `JOB` is.


# %% wrong="06.3"
# expect: Scheduling decides; running pays.
def compact(path):
    now = f"{JOB},hoodie.compact.inline.max.delta.commits=1"
    spark.sql(f"CALL run_compaction(op => 'schedule', path => '{path}', options => '{now}')")


# %% wrong="06.3"
# expect: fewer than the five
def compact(path):
    spark.sql(f"CALL run_compaction(op => 'run', path => '{path}', options => '{JOB}')")


# %% [markdown] tags=["instructor"]
# *For instructors.* Eight minutes for the section. Draw the two steps as two people: one writes the
# shopping list, one goes shopping. The question that always comes: "may two jobs run the same plan?"
# No: with this release the second may roll back what the first is writing. Who leaves out `JOB` in 06.3
# passes, but waits longer: the job then
# builds a metadata table, and writes its base file with a filter for 60,000 keys.

# %% [markdown]
# ## Key points
#
# - Without compaction each write adds a log, and each query reads all of them.
# - Compaction trades writing for reading: more bytes written, far fewer read. `max.delta.commits` sets
#   the rate; inline, the worst lag of a read-optimised query between two writes is one less.
# - Inline, the writer waits. Async, a thread beside the stream works while the next batch comes. Apart, a
#   job of its own pays, at a time of its choosing; the writer schedules, or both need a lock.
# - A snapshot query says the same before and after. A read-optimised one catches up, to the plan.
# - Compaction deletes nothing. Cleaning does.
# - Nothing fails when nobody compacts. Watch the logs of the current slices.
#
# ## What's next
#
# Compaction tidies one file group. Lesson 07 asks why there are so many of them, and who removes what
# nobody reads any more.

# %%
spark.stop()
