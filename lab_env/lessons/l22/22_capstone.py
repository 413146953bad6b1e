# ---
# title: Somebody wants a system. Can you build it, and prove that it is right?
# minutes: {teach: 25, do: 125}
# needs: ["04", "08", "12", "14", "16", "17"]
# services: [minio, kafka]
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 22 · Somebody wants a system. Can you build it, and prove that it is right?
#
# ## Questions
#
# - You get requirements, but no instructions. Which tables, which keys, which options?
# - The job is killed in the middle of a write, then gets late events and a new message format. Are its answers still
#   right?
# - Somebody else has to trust the result. What do you show them?
#
# ## Objectives
#
# At the end of this lesson you can
#
# - sort messages of two versions into events and dead letters without losing any (22.1),
# - write a job that finishes, and that may be called again at any time (22.2),
# - answer questions exactly from its tables, whatever arrived late, twice or malformed (22.3).
#
# ## What you need
#
# Everything so far, most of all lessons 04 and 08 (keys, ordering, partitions, indexes), 12 (changes and erasures),
# 14 (event time), 16 (schemas) and 17 (what a restart does). 150 minutes, with a good place to pause after each
# exercise.

# %% [markdown]
# ## Start
#
# Three teams each want a system: `"iot"`, `"fraud"` and `"clickstream"`. Begin with `"iot"`: only that one has hints and
# reference answers. The other two are for a second time.

# %%
from pyspark.sql import functions as F

from lab_env import Lab
from lab_env.lessons.l22.figures import practice_topic, requirements, samples, sit_exam

lab = Lab.start("22")
VARIANT = "iot"
requirements(VARIANT)

# %% [markdown]
# ## What is wanted
#
# Read the card twice: together with the phases of the exam, it names every trap. Here are five messages: one of each version of the app, and three
# malformed ones:

# %%
for kind, text in samples(VARIANT):
    print(f"{kind:22} {text[:200]!r}")

# %% [markdown]
# Here is a topic to practise on. It holds the first delivery; version 2 comes only in the checks and in the exam.

# %%
source = practice_topic(lab, VARIANT)
list(source)

# %% [markdown]
# `source` has the options of Spark's Kafka source, broker and topic. To look around, type
# `lab.spark.read.format("kafka").options(**source).load()`.
#
# ### Exercise 22.1 · Valid or dead
#
# Write `split(messages)`. It gets a DataFrame with the columns of Spark's Kafka source (`value` is binary) and returns
# two DataFrames:
#
# - the valid events, one row per message, with `event_id` and all columns that you will need,
# - the malformed messages, called [dead letters](../docs/glossary.md#dead-letter), with at least `partition` and `offset`.
#
# Each message is in exactly one of the two. A resend is a valid message.
#
# The check calls it in a process of its own, on unseen messages of both versions. So it may use the functions, constants
# and imports of this notebook, but not `lab` or a session. What it prints is in that process's log: type
# `lab logs capstone` in a terminal.


# %% exercise="22.1"
def split(messages):
    """The valid events, and the malformed messages."""
    # BEGIN SOLUTION
    fields = (
        "event_id STRING, op STRING, device_id STRING, ts STRING, revision INT, value STRING, "
        "unit STRING, received_at STRING"
    )
    rule = """
        e.event_id <> '' AND e.device_id <> '' AND e.received_at <> '' AND (e.op = 'forget' OR
            e.op IN ('reading', 'correction') AND e.revision IS NOT NULL
            AND double(e.value) IS NOT NULL
            AND e.ts <= to_timestamp(e.received_at) + INTERVAL 1 DAY)
    """
    parsed = messages.withColumn("e", F.from_json(F.col("value").cast("string"), fields))
    is_valid = F.coalesce(F.expr(rule), F.lit(False))
    return parsed.where(is_valid).select("e.*"), parsed.where(~is_valid)
    # END SOLUTION


lab.check("22.1", (VARIANT, split))

# %% [markdown] hint="22.1"
# Use `from_json` with a schema of all fields of both versions. A field whose type changes can be read as
# STRING and cast later; what cannot be cast becomes NULL.

# %% [markdown] hint="22.1"
# Write one condition for *valid*, from the card. A comparison with NULL is NULL, and so is its negation: such
# a message would be in neither table. `F.coalesce(condition, F.lit(False))` makes it false.


# %% right="22.1"
# In SQL.
def split(messages):
    messages.createOrReplaceTempView("messages")
    fields = (
        "event_id STRING, op STRING, device_id STRING, ts STRING, revision INT, value STRING, "
        "unit STRING, received_at STRING"
    )
    parsed = messages.sparkSession.sql(f"""
        SELECT partition, offset, e.*, nvl(trim(e.event_id) <> '' AND trim(e.device_id) <> ''
            AND date(e.received_at) IS NOT NULL AND CASE WHEN e.op = 'forget' THEN true
                WHEN e.op IN ('reading', 'correction') THEN e.revision >= 0
                    AND double(e.value) IS NOT NULL
                    AND timestamp(e.ts) - timestamp(e.received_at) <= INTERVAL '24' HOUR
                END, false) AS good
        FROM (SELECT *, from_json(string(value), '{fields}') AS e FROM messages)
    """)
    return [parsed.where("good").drop("good", "partition", "offset"), parsed.where("NOT good")]


# %% wrong="22.1"
# expect: are in neither table
def split(messages):
    fields = (
        "event_id STRING, op STRING, device_id STRING, ts STRING, revision INT, value STRING, "
        "received_at STRING"
    )
    event = F.from_json(F.col("value").cast("string"), fields).alias("event")
    parsed = messages.select("partition", "offset", event).select("partition", "offset", "event.*")
    valid = F.expr("""
        event_id <> '' AND device_id <> '' AND received_at <> '' AND (op = 'forget' OR
            op IN ('reading', 'correction') AND revision >= 0 AND CAST(value AS DOUBLE) > -273
            AND to_timestamp(ts) <= to_timestamp(received_at) + INTERVAL 1 DAY)
    """)
    return parsed.where(valid), parsed.where(~valid)


# %% wrong="22.1"
# expect: malformed messages count as valid, for example
def split(messages):
    fields = (
        "event_id STRING, op STRING, device_id STRING, ts STRING, revision INT, value STRING, "
        "received_at STRING"
    )
    event = F.from_json(F.col("value").cast("string"), fields).alias("event")
    parsed = messages.select("partition", "offset", event).select("partition", "offset", "event.*")
    valid = F.expr("""
        event_id <> '' AND device_id <> '' AND received_at <> '' AND (op = 'forget' OR
            op IN ('reading', 'correction') AND revision IS NOT NULL
            AND CAST(value AS DOUBLE) IS NOT NULL)
    """)
    valid = F.coalesce(valid, F.lit(False))
    return parsed.where(valid), parsed.where(~valid)


# %% wrong="22.1"
# expect: (no revision)
def split(messages):
    fields = (
        "event_id STRING, op STRING, device_id STRING, ts STRING, revision INT, value STRING, "
        "received_at STRING"
    )
    event = F.from_json(F.col("value").cast("string"), fields).alias("event")
    parsed = messages.select("partition", "offset", event).select("partition", "offset", "event.*")
    valid = F.expr("""
        event_id <> '' AND device_id <> '' AND received_at <> '' AND (op = 'forget' OR
            op IN ('reading', 'correction') AND CAST(value AS DOUBLE) IS NOT NULL
            AND to_timestamp(ts) <= to_timestamp(received_at) + INTERVAL 1 DAY)
    """)
    valid = F.coalesce(valid, F.lit(False))
    return parsed.where(valid), parsed.where(~valid)


# %% wrong="22.1"
# expect: valid messages are among the dead letters
def split(messages):
    fields = (
        "event_id STRING, op STRING, device_id STRING, ts STRING, revision INT, value DOUBLE, "
        "received_at STRING"
    )
    event = F.from_json(F.col("value").cast("string"), fields).alias("event")
    parsed = messages.select("partition", "offset", event).select("partition", "offset", "event.*")
    valid = F.expr("""
        event_id <> '' AND device_id <> '' AND received_at <> '' AND (op = 'forget' OR
            op IN ('reading', 'correction') AND revision IS NOT NULL
            AND value IS NOT NULL
            AND to_timestamp(ts) <= to_timestamp(received_at) + INTERVAL 1 DAY)
    """)
    valid = F.coalesce(valid, F.lit(False))
    return parsed.where(valid), parsed.where(~valid)


# %% [markdown] tags=["instructor"]
# *For instructors.* 40 minutes. Most first versions filter the malformed messages out, or
# lose those whose condition is NULL. Before anybody types, ask which field the two versions spell differently.
# *Short of time:* start from the reference answer, `lab.use_reference("22.1")`.

# %% [markdown]
# **A good place to pause.** To go on another day, type `lab goto 22b` in a terminal, then run your cell of 22.1. (With
# another variant than `"iot"`, run the notebook's cells from the top instead.)
#
# ## Build it
#
# Now the job. The contract is two functions.
#
# | function | what it does |
# |---|---|
# | `build(spark, source, base)` | writes what is new in the topic to tables below `base`, and returns when it is done |
# | `answers(spark, base)` | returns a dictionary: the DataFrames by the names on the card |
#
# `base` is a folder of yours on the object store, for tables, checkpoints and whatever else you need. `build` is called
# several times, and the process may have been killed in the middle of the previous call, so variables do not survive.
#
# You need at least one Hudi table. The exam judges what the answers say, what is in the bucket, and how the process ends.
#
# **Decide first, on paper:** What is a row, and what is its key? Which version of it wins? Where does a new version look
# for the old one? How does a row go away, and how does it stay away when a late message would bring it back? What happens
# if the process dies between two of your writes? In which unit is a value stored?

# %%
SMALL_TABLE = {  # for fast writes, if you like: no metadata table, no timeline server, one task
    "hoodie.metadata.enable": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.upsert.shuffle.parallelism": "1",
}

# %% [markdown]
# ### Exercise 22.2 · A job that may be called again
#
# Write `build`, with as many functions and dictionaries around it as you like. To try it here, call
# `build(lab.spark, source, lab.scratch("try"))`. The check calls it three times, in its own process:
#
# 1. with the first delivery;
# 2. with nothing new, but as after a crash: the check removes the commit of each stream's last batch from the checkpoint.
#    Your job repeats that batch, and no table may change its number of rows;
# 3. with late events and those of version 2. Your tables must then hold the newest event of each key, and no event of an
#    owner who is forgotten. (Values are judged in 22.3.)


# %% exercise="22.2" uses="22.1"
# BEGIN SOLUTION
# PROMPT: build = ...
READINGS = SMALL_TABLE | {
    "hoodie.table.name": "readings",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "device_id,ts",
    "hoodie.table.ordering.fields": "revision",
    "hoodie.datasource.write.partitionpath.field": "day",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "1",
}
FORGOTTEN = SMALL_TABLE | {
    "hoodie.table.name": "forgotten",
    "hoodie.datasource.write.recordkey.field": "device_id",
}
DEAD_LETTERS = SMALL_TABLE | {
    "hoodie.table.name": "dead_letters",
    "hoodie.datasource.write.recordkey.field": "partition,offset",
}
DELETE = {"hoodie.datasource.write.operation": "delete"}


def write(rows, path, options):
    rows.write.format("hudi").options(**options).mode("append").save(path)


def write_batch(messages, base):
    valid, dead = split(messages)
    write(dead, f"{base}/dead_letters", DEAD_LETTERS)
    write(valid.where("op = 'forget'"), f"{base}/forgotten", FORGOTTEN)
    readings = valid.where("op <> 'forget'")
    readings = readings.withColumn("day", F.date_format("ts", "yyyy-MM-dd"))
    write(readings, f"{base}/readings", READINGS)
    # The list of the forgotten stays; all readings of these devices go, late ones too.
    tables = messages.sparkSession.read.format("hudi")
    gone = tables.load(f"{base}/forgotten")
    doomed = tables.load(f"{base}/readings").join(gone, "device_id", "left_semi")
    write(doomed, f"{base}/readings", READINGS | DELETE)


def build(spark, source, base):
    messages = spark.readStream.format("kafka").options(**source)
    messages = messages.option("startingOffsets", "earliest").load()
    stream = messages.writeStream.foreachBatch(lambda rows, batch: write_batch(rows, base))
    stream = stream.trigger(availableNow=True).start(checkpointLocation=f"{base}/_checkpoint")
    stream.awaitTermination()


# END SOLUTION
lab.check("22.2", (VARIANT, build))

# %% [markdown] hint="22.2"
# `foreachBatch` gives you the messages of a batch as an ordinary DataFrame, and you may write several tables.
# After a kill the same batch comes again, so each of your writes may be done twice. An upsert on a key that
# comes from the data makes that harmless.

# %% [markdown] hint="22.2"
# By default a stream begins at the *end* of the topic: see `startingOffsets`. And it never stops unless you
# ask for it: see `trigger(availableNow=True)`.

# %% [markdown] hint="22.2"
# To forget: after each write, read the table, find the rows of everybody who was ever forgotten, and delete
# them. Keep the list of who is forgotten: a late message must not bring a row back.
# (`lab.use_reference("22.2")` also loads the reference of 22.1, in place of your own `split`.)


# %% right="22.2"
# As a batch that makes the tables anew from the whole topic, while that is small.
def build(spark, source, base):
    valid, dead = split(spark.read.format("kafka").options(**source).load())
    gone = valid.where("op = 'forget'").select("device_id")
    readings = valid.where("op <> 'forget'").join(gone, "device_id", "left_anti")
    columns = F.struct("value", "unit", "event_id")
    newest = readings.groupBy("device_id", "ts").agg(F.max_by(columns, "revision").alias("e"))
    tables = {
        "readings": (newest.select("device_id", "ts", "e.*"), "device_id,ts"),
        "dead_letters": (dead.select("partition", "offset"), "partition,offset"),
    }
    for name, (rows, key) in tables.items():
        options = SMALL_TABLE | {
            "hoodie.table.name": name,
            "hoodie.datasource.write.recordkey.field": key,
            "hoodie.datasource.write.operation": "insert_overwrite_table",
        }
        rows.write.format("hudi").options(**options).mode("append").save(f"{base}/{name}")


# %% equivalent="22.2"
# SMALL_TABLE | {'hoodie.table.name': 'rea … um.buckets': '1'} → {'hoodie.table.name': 'readings', 'hoodi … um.buckets': '1'}: these options save time only
# SMALL_TABLE | {'hoodie.table.name': 'for … ld': 'device_id'} → {'hoodie.table.name': 'forgotten', 'hood … ld': 'device_id'}: these options save time only
# SMALL_TABLE | {'hoodie.table.name': 'dea … artition,offset'} → {'hoodie.table.name': 'dead_letters', 'h … artition,offset'}: these options save time only
# without 'hoodie.datasource.write.table.type': 'MERGE_ON_READ': Copy-on-Write has the same rows
# 'MERGE_ON_READ' → 'COPY_ON_WRITE': it has the same rows
# without 'hoodie.datasource.write.partitionpath.field': 'day': the key is the same without a partition
# without 'hoodie.index.type': 'BUCKET': every index finds the key
# '1' → '2': the key decides in which bucket a row is
# without .where("op <> 'forget'"): a forget event's device is forgotten, so its row is deleted again
# READINGS | DELETE → DELETE: Hudi reads the name and the key of an existing table from its properties
# without checkpointLocation=f'{base}/_checkpoint' in stream.trigger(availableNow=True).start: each call reads the whole topic again, and the keys make that harmless


# %% wrong="22.2"
# expect: no Hudi table below
def build(spark, source, base):
    messages = spark.readStream.format("kafka").options(**source).load()
    stream = messages.writeStream.foreachBatch(lambda rows, batch: write_batch(rows, base))
    stream = stream.option("checkpointLocation", f"{base}/_checkpoint")
    stream.trigger(availableNow=True).start().awaitTermination()


# %% wrong="22.2"
# expect: changed `dead_letters` from
def build(spark, source, base):
    def save(messages, _):
        rows = split(messages)[1].select("partition", "offset")
        options = SMALL_TABLE | {"hoodie.table.name": "dead_letters"}
        rows.write.format("hudi").options(**options).mode("append").save(f"{base}/dead_letters")

    stream = spark.readStream.format("kafka").options(**source, startingOffsets="earliest").load()
    stream = stream.writeStream.foreachBatch(save)
    stream = stream.option("checkpointLocation", f"{base}/_checkpoint")
    stream.trigger(availableNow=True).start().awaitTermination()


# %% wrong="22.2"
# expect: who must be forgotten for good
def build(spark, source, base):
    valid, _ = split(spark.read.format("kafka").options(**source).load())
    rows = valid.where("op <> 'forget'").withColumn("day", F.substring("ts", 1, 10))
    write(rows, f"{base}/readings", READINGS)


# %% wrong="22.2"
# expect: newest events are in none of your tables
def build(spark, source, base):
    valid, _ = split(spark.read.format("kafka").options(**source).load())
    gone = valid.where("op = 'forget'")
    rows = valid.where("op = 'reading'").join(gone, "device_id", "left_anti")
    options = SMALL_TABLE | {
        "hoodie.table.name": "readings",
        "hoodie.datasource.write.recordkey.field": "device_id,ts",
        "hoodie.datasource.write.operation": "insert_overwrite_table",
    }
    write(rows, f"{base}/readings", options)


# %% [markdown] tags=["instructor"]
# *For instructors.* 45 minutes, the longest part. Let pairs draw their tables before they type,
# and ask each pair: what if the process dies between two of your writes?
# Common mistakes: dead letters are appended, so a killed batch has them twice; the day of *arrival* is the
# partition; a late reading undoes a delete.

# %% [markdown]
# **Another good place to pause.** To go on another day, type `lab goto 22.3` in a terminal, then run your cells of 22.1
# and 22.2.
#
# ### Exercise 22.3 · Answers
#
# Write `answers`. Names and columns are on the card; more columns do no harm. A time may be a string or a timestamp. The
# check rehearses the exam: the first delivery, the late one, version 2, the questions. It compares the values of each
# answer with those of an [**oracle**](../docs/glossary.md#oracle): plain Python that knows the events and uses no Spark.
# If `build` has not changed, the check uses its last tables again.


# %% exercise="22.3" uses="22.2"
def answers(spark, base):
    """The answers by name, as DataFrames."""
    # BEGIN SOLUTION
    celsius = "CASE unit WHEN 'F' THEN (value - 32) * 5 / 9 ELSE double(value) END"
    readings = spark.read.format("hudi").load(f"{base}/readings")
    readings = readings.withColumn("celsius", F.expr(celsius))
    newest = F.max(F.struct("ts", "celsius")).alias("newest")
    window = F.window("ts", "5 minutes")
    means = readings.groupBy("device_id", window.start.alias("window_start"))
    return {
        "readings": readings,
        "latest": readings.groupBy("device_id").agg(newest).select("device_id", "newest.*"),
        "means": means.agg(F.avg("celsius").alias("mean")),
        "dead_letters": spark.read.format("hudi").load(f"{base}/dead_letters"),
    }
    # END SOLUTION


lab.check("22.3", (VARIANT, build, answers))

# %% [markdown] hint="22.3"
# The message names the first difference, with one key and one event. Run `build` in this notebook, as in 22.2,
# and look for that key in your table.

# %% [markdown] hint="22.3"
# If the rows are right and one question is not, the query is wrong: which rows belong to a window, which row
# is the latest?

# %% right="22.3"
# In SQL, with the readings as a common table.
ANSWERS = """
    WITH readings AS (SELECT device_id, to_timestamp(ts) AS ts, event_id,
        if(unit = 'F', (value - 32) / 1.8D, value + 0D) AS celsius FROM hudi_table)
"""


def answers(spark, base):
    spark.read.format("hudi").load(f"{base}/readings").createOrReplaceTempView("hudi_table")
    dead = spark.read.format("hudi").load(f"{base}/dead_letters")
    return {
        "readings": spark.sql(f"{ANSWERS} SELECT * FROM readings").toPandas(),
        "latest": spark.sql(f"""{ANSWERS} SELECT device_id, max(ts) AS ts,
            max_by(celsius, ts) AS celsius FROM readings GROUP BY device_id"""),
        "means": spark.sql(f"""{ANSWERS} SELECT device_id, avg(celsius) AS mean,
            timestamp_seconds(300 * floor(unix_timestamp(ts) / 300)) AS window_start
            FROM readings GROUP BY device_id, window_start"""),
        "dead_letters": dead.select("partition", "offset").collect(),
    }


# %% equivalent="22.3"
# SQL CAST(value AS DOUBLE) → value: the text of a number counts as this number


# %% wrong="22.3"
# expect: in neither the table nor the dead
def answers(spark, base):
    celsius = "if(unit = 'F', (value - 32) / 1.8D, value + 0D) AS celsius"
    readings = spark.read.format("hudi").load(f"{base}/readings").selectExpr("*", celsius)
    dead = spark.read.format("hudi").load(f"{base}/dead_letters").where("length(value) > 0")
    return {"readings": readings, "dead_letters": dead}


# %% wrong="22.3"
# expect: celsius is
def answers(spark, base):
    readings = spark.read.format("hudi").load(f"{base}/readings")
    dead = spark.read.format("hudi").load(f"{base}/dead_letters")
    return {"readings": readings.withColumnRenamed("value", "celsius"), "dead_letters": dead}


# %% [markdown] tags=["instructor"]
# *For instructors.* 35 minutes. *Short of time:* run the reference answer, and read the questions aloud.

# %% [markdown]
# **A third good place to pause.** To go on another day, type `lab goto 22c` in a terminal, then run your cells of all
# three exercises.
#
# ## The exam
#
# The exam has six phases. Its events come from a fresh seed, so nobody has seen them.
#
# | phase | what happens |
# |---|---|
# | deliver | the first messages; `build` |
# | kill | more messages; `build` is killed in the middle of a write, if possible with some of its data files on the store; a new process calls it again |
# | late | late events, repeated ones, one more erasure; `build` |
# | version 2 | messages of the new version; `build` |
# | questions | all answers are compared with the oracle |
# | footprint | how many data files a query opens (at most 40, files outside Hudi tables included); whether a query that is three commits old still finds its files |
#
# The examiner kills a write to your largest table, if it can. Before the restart it calls your `answers` once, and looks
# for rows of the killed delivery in the first answer on the card.
#
# **Predict** for your own job: how many of these rows does it find? Count the commits that one call of `build` makes in
# that table.

# %%
lab.predict("22.p1", ..., choices=("none", "some", "all"))

# %% [markdown]
# **Predict:** how many data files does a query of all your tables open at the end, after about ten commits? Count your
# tables, their partitions, and what a commit adds.

# %%
lab.predict("22.p2", ..., tolerance=3)

# %% [markdown]
# A decision note belongs to the exam: what you decided, what you left out, and what breaks first at a thousand times the
# load. Write ten lines for a reader who has not seen your code. The certificate shows them.

# %%
# Your ten lines, between the quotes:
NOTE = """
"""

# %% [markdown]
# The exam takes some minutes, and ends at the first refused phase. Fix it, and run the cell again for a new exam. If
# there is no `build` of yours in this kernel, you watch the reference answers take it; that gives no certificate.

# %%
if build is ...:
    print(lab.use_reference("22.3"))

exam = sit_exam(lab, VARIANT, build, answers, note=NOTE)
exam

# %%
lab.record_actual("22.p1", exam.record.visible)
lab.record_actual("22.p2", exam.record.files)

# %% name="capstone-passed" proof="The job passes all six phases on events that nobody had seen."
assert exam.record.refusal == "" and exam.passed
assert [phase.name for phase in exam.record.phases][:2] == ["deliver", "kill"]

# %% name="right-after-the-kill" proof="Whatever a query showed after the kill, the restart made the tables right."
assert exam.record.phase("kill").verdict == "passed" and exam.record.killed_rows > 0

# %% [markdown]
# The killed write never completed its instant, so no query sees its rows (lesson 17). If some of the delivery's rows were
# there, an earlier commit of the same call had written them: a job that upserts and then deletes, as the reference does,
# may be killed in its second commit. After the restart the same messages came again, and their keys made that harmless:
# the write is [idempotent](../docs/glossary.md#idempotent).
#
# Here is the life of one key: each of its messages, and the event that the table showed at the end of that phase. (The
# examiner had three deliveries ready for the kill, `crash 1` to `crash 3`. Those that it did not need came with `late`.)

# %%
print(exam.record.key)
exam.life

# %% name="one-key" proof="The table shows an event of this key after each of its deliveries."
assert len(exam.life) >= 2
assert (exam.life["the table then showed"] != "").all()

# %% [markdown]
# Now type `lab certificate` in a terminal. It writes one page: variant, seed, phases, the life of this key, your
# predictions and your note. It proves a run, not a person. Compare your note with that of the reference:
#
# > Three tables: readings (Merge-on-Read), forgotten devices, dead letters. A reading's key is device and time, ordered by
# > revision. Its partition is the day of measurement, which never changes, with one bucket.
# >
# > The list of the forgotten stays, so no late event brings their rows back for good. Between two commits of a batch a
# > query may show such a reading, and old file versions keep it until they are cleaned; in production I would clean sooner.
# >
# > At a thousand times the load the last step breaks first: it scans all readings for forgotten devices. I would scan only
# > when the list has grown, and otherwise the batch alone. Next comes the fixed number of buckets.
#
# And the board on the wall? In lesson 00 it showed *revenue by status*. Here is yours: the answer to the first question
# of the phase *questions*, as your function gave it in the exam.

# %%
question, board = next(iter(exam.answers.items()))
print(question, len(board))
board.head(8)

# %% name="the-board" proof="The board shows as many rows as the examiner expected."
assert len(board) == exam.record.phase("questions").figures[question]

# %% [markdown] tags=["instructor"]
# *For instructors.* 30 minutes. Let each pair take the exam with the seed of another pair: `sit_exam(..., seed=...)`. The
# rubric is in [the guide](../docs/instructors.md#the-capstones-rubric). *Short of time:* end after 22.3, and
# run the exam as a demonstration with the reference answers.

# %% [markdown]
# > **In production**
# > - Do not use `SMALL_TABLE`: one writer with `hoodie.metadata.enable=false` deletes the [metadata
# >   table](https://hudi.apache.org/docs/metadata) for all.
# > - Data of the forgotten must also leave old file versions ([cleaning](https://hudi.apache.org/docs/cleaning)) and the
# >   topic ([`retention.ms`](https://kafka.apache.org/41/configuration/topic-configs/#topicconfigs_retention.ms)).
# > - A scheduler may start `build` while the last call still runs. Forbid it: two writers need [a
# >   lock](https://hudi.apache.org/docs/concurrency_control).
#
# ## Key points
#
# - Start with the requirements: what is a row, what is its key, which version wins, how does it go away?
# - All messages of a key must name the same partition: the day of measurement, not the day of arrival.
# - Each step of a batch may stop anywhere and happen twice; keys that come from the data make that harmless.
# - Forgetting takes a list, not one delete. Every message ends in exactly one place.
# - An oracle outside the system decides what is right, not the system's own counters.
#
# ## What's next
#
# The other two variants: change `VARIANT` and begin at the top. Then build something of your own, with a ledger.
# `lab eject ../my-pipeline` gives you a start: the course's pipeline as a plain PySpark project that needs nothing of
# this lab, with a reason next to each option that departs from a default.
