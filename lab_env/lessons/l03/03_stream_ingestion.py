# ---
# title: "How does a stream become files without loss?"
# minutes: {teach: 25, do: 27}
# needs: ["01", "02"]
# services: [minio, kafka]
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 03 · How does a stream become files without loss?
#
# ## Questions
#
# - Kafka holds the orders. How does each one get into a file, exactly once?
# - Some messages are not orders at all. Where do they go?
# - The machine dies in the middle. What knows where to resume?
#
# ## Objectives
#
# At the end of this lesson you can
#
# - read a whole topic as a stream, in batches of bounded size (03.1),
# - separate malformed messages from orders, so that no order is lost and no malformed message gets through (03.2),
# - write a stream to files (03.3),
# - find in a checkpoint which messages a batch took, or will take, and read them (03.4).
#
# ## What you need
#
# | concept | from | why |
# |---|---|---|
# | topic, partition, offset | lesson 02 | the stream's position is one offset per partition |
# | late, resent and malformed events | lesson 01 | they are in this topic, too |
# | SQL's `SELECT`, `WHERE`, `NULL` | before | the same operations, on a stream |
#
# 52 minutes, with a good place to pause after the third section. An optional appendix shows what
# happens when the versions of Spark's and Kafka's jars do not fit.

# %% [markdown]
# ## Start
#
# The shop has one board on its wall: **revenue by status**. The orders for it wait in Kafka: 4,000
# recorded messages in a topic of three partitions.

# %%
from lab_env import Lab

lab = Lab.start("03")
spark = lab.spark
broker = lab.endpoints.kafka_bootstrap
topic = lab.topic("orders")
lab.replay(topic, n=4000)

# %% [markdown] tags=["instructor"]
# The notebook itself runs for less than a minute. The note at the end of each section says what to cut; the
# appendix goes first.
#
# **Draw.** Three lanes for the three partitions, with a vertical cut after each batch. Above the cut
# write `offsets/N`, below it `commits/N`. Wipe one commit away and ask what the next start does.
#
# **Frequent wrong answers.** "The stream reads what waits in the topic" (not with the default).
# "`from_json` gives NULL for bad JSON" (a row of NULLs). "Two opposite filters lose nothing" (where the
# condition is NULL, both drop the row). "Exactly once means that nothing is done twice" (it means that
# nothing is *seen* twice).

# %% [markdown]
# ## A stream reads a topic
#
# `readStream` describes a stream: a table that grows at its end. Nothing is read yet.

# %%
records = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", broker)
    .option("subscribe", topic)
    .load()
)
records.printSchema()

# %% [markdown]
# Kafka knows nothing about orders. A record is two byte strings, `key` and `value`, its position (`topic`,
# `partition`, `offset`) and a timestamp.
#
# To run a stream we add a [**sink**](../docs/glossary.md#sink) (where rows go) and a
# [**trigger**](../docs/glossary.md#trigger) (when to look for new records). `availableNow` reads what is
# there and ends. The sink here is a table in memory, which Spark offers for debugging only.
#
# **Predict.** 4,000 messages wait in the topic. The description above names a broker and a topic, and
# nothing else. How many rows does this stream deliver? Within 100 counts as right.

# %%
lab.predict("03.p1", ..., tolerance=100)

# %%
first_try = (
    records.writeStream.format("memory").queryName("first_try").trigger(availableNow=True).start()
)
first_try.awaitTermination()
delivered = spark.table("first_try").count()
print(f"{delivered:,} rows")

# %%
lab.record_actual("03.p1", delivered)

# %% proof="A stream that starts at the default, latest, reads none of the messages sent before."
assert delivered == 0

# %% [markdown]
# None, and no error. By default a stream begins its very first run at the *end* of the topic (`latest`),
# and skips all that was sent before.
#
# The other default is no better. A stream takes everything that waits into one
# [**batch**](../docs/glossary.md#batch). After an outage of a night, that is the whole night: none of it
# is visible before all of it is done, and a failure repeats all of it.
#
# ### Exercise 03.1 · All of it, not all at once
#
# Complete the function. It describes the stream of all records in `topic`, from the first one on, with at
# most `at_most` records in one batch. Spark's
# [Kafka guide](https://spark.apache.org/docs/3.5.7/structured-streaming-kafka-integration.html) lists the
# options. Every stream of this lesson begins with your function.


# %% exercise="03.1"
def stream_of(topic, at_most):
    """The records of a topic as a stream, from the first one on, in bounded batches."""
    # BEGIN SOLUTION
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", broker)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", at_most)
        .load()
    )
    # END SOLUTION


lab.check("03.1", stream_of)

# %% [markdown] hint="03.1"
# Begin with the description of `records` above. The missing options are `startingOffsets` and
# `maxOffsetsPerTrigger`.

# %% [markdown] hint="03.1"
# `.option("startingOffsets", "earliest")` begins at the first record that the broker still has.
# `.option("maxOffsetsPerTrigger", at_most)` bounds a batch, over all partitions together.


# %% right="03.1"
# Options as keywords, where they come from a dictionary.
def stream_of(topic, at_most):
    options = {"kafka.bootstrap.servers": broker, "subscribe": topic}
    options |= {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(at_most)}
    return spark.readStream.load(format="kafka", **options)


# %% wrong="03.1"
# expect: read none of the
# falls: rung 1
def stream_of(topic, at_most):
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", broker)
        .option("subscribe", topic)
        .option("maxOffsetsPerTrigger", at_most)
        .load()
    )


# %% wrong="03.1"
# expect: take the bound that the function is given
# falls: rung 1
def stream_of(topic, at_most):
    options = {"kafka.bootstrap.servers": broker, "subscribe": topic}
    options |= {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 50}
    return spark.readStream.load(format="kafka", **options)


# %% wrong="03.1"
# expect: `minPartitions` only cuts a batch into tasks
# falls: rung 1
def stream_of(topic, at_most):
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", broker)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("minPartitions", 4)
        .load()
    )


# %% wrong="03.1"
# expect: does it subscribe to the topic that it is given
# falls: rung 1
def stream_of(topic, at_most):
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", broker)
        .option("subscribe", lab.topic("orders"))
        .option("startingOffsets", "earliest")
        .load()
    )


# %% wrong="03.1"
# expect: not each of them once
# falls: rung 1
def stream_of(topic, at_most):
    options = {"kafka.bootstrap.servers": broker, "subscribe": topic}
    options |= {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(at_most)}
    return spark.readStream.load(format="kafka", **options).where("partition = 0")


# %% harmless="03.1"
# a column more: the source itself has one more, with the option for headers

# %% [markdown] tags=["instructor"]
# *For instructors.* 11 minutes. Let the room vote on 03.p1 before anybody runs it. Short of time: give 03.1 away.

# %% [markdown]
# ## Bytes become orders
#
# `from_json` turns text into typed columns. It needs a [**schema**](../docs/glossary.md#schema): names and
# types of the fields. We add one column, `_corrupt`: Spark puts the text there when it does not fit the schema.
#
# To look around, we run a **batch query** on the same source: `spark.read` in place of `spark.readStream`. It
# has nothing to do with the batches of a stream. It returns a table at rest, from the topic's first record to
# where the topic ends now.

# %%
from pyspark.sql import functions as F

from lab_env.shop.events import EVENT_DDL, FIELDS

print("each order must have:", ", ".join(FIELDS))


def parse_json(records):
    """Kafka records with one more column: `event`, a struct of the typed fields."""
    text, schema = F.col("value").cast("string"), EVENT_DDL + ", _corrupt STRING"
    event = F.from_json(text, schema, {"columnNameOfCorruptRecord": "_corrupt"})
    return records.withColumn("event", event)


source = {"kafka.bootstrap.servers": broker, "subscribe": topic}
at_rest = parse_json(spark.read.format("kafka").options(**source).load())
at_rest.select("partition", "offset", "event.order_id", "event.op", "event.amount").show(3)

# %% [markdown]
# The load generator damaged about one message in a hundred, and its ledger knows which. Here is one of
# each kind, as Spark sees it:

# %%
from lab_env.lessons.l03.figures import one_of_each

seen = at_rest.selectExpr(
    "partition",
    "offset",
    "substring(string(value), 1, 34) AS `begins with`",
    "event IS NULL AS `event is null`",
    "event.order_id IS NULL AS `order_id is null`",
    "event.amount IS NULL AS `amount is null`",
    "event._corrupt IS NOT NULL AS `_corrupt is set`",
).toPandas()
seen = one_of_each(lab.ledger(topic)).merge(seen).set_index("kind")
seen.drop(columns=["partition", "offset"])

# %% proof="A malformed event becomes a row with nulls, not a null row."
assert len(seen) == 10
assert not seen.drop("empty")["event is null"].any()  # a row of nulls is not null
assert not seen.loc[["missing_key", "null_key"], "_corrupt is set"].any()

# %% [markdown]
# Read the table by column.
#
# - `event is null` finds almost nothing. What is not JSON becomes a *row of nulls*; a field of a wrong type becomes
#   NULL alone.
# - `_corrupt is set` finds what is not JSON, or has a wrong type. It does not find an object without an
#   `order_id`: that is valid JSON.
# - The last four kinds (an unknown operation, a negative amount, an impossible time, a huge message)
#   are well-formed. Only business rules find them.
#
# If we let malformed messages pass, a Hudi table refuses the row of nulls, which has no key, and one message
# stops the whole stream (lesson 17). If we drop them silently, nobody notices. The usual way out is a
# [**dead-letter table**](../docs/glossary.md#dead-letter). It keeps each malformed message unchanged, with
# its position in the topic, so that somebody can fix the sender. Here are the business rules, as SQL:

# %%
BREAKS_A_RULE = """
    event.op NOT IN ('create', 'update', 'cancel', 'erase')
    OR event.amount < 0
    OR try_to_timestamp(event.order_ts) NOT BETWEEN '2020-01-01' AND '2100-01-01'
    OR length(value) > 4096
"""

# %% [markdown]
# Why `try_`? In [ANSI mode](https://spark.apache.org/docs/4.0.0/sql-ref-ansi-compliance.html), Spark 4's default,
# plain `to_timestamp` raises an error for what is not a time, and one message stops the stream.
#
# ### Exercise 03.2 · Orders and dead letters
#
# Complete the function. It takes parsed records such as `at_rest` and returns two DataFrames: the orders, with
# all columns of the parsed records, and the dead letters. An order has all ten fields of `FIELDS`, nothing in
# `event._corrupt`, and breaks none of the rules above. If a rule cannot be decided, for example because
# `order_ts` is not a valid time, the record is a dead letter. Each record belongs to exactly one of the two.


# %% exercise="03.2"
def split(parsed):
    """The orders among parsed records, and the dead letters."""
    # BEGIN SOLUTION
    malformed = F.expr(BREAKS_A_RULE) | F.col("event._corrupt").isNotNull()
    for field in FIELDS:
        malformed = malformed | F.col("event")[field].isNull()
    malformed = F.coalesce(malformed, F.lit(True))  # NULL is neither true nor false
    return parsed.where(~malformed), parsed.where(malformed)
    # END SOLUTION


lab.check("03.2", split)

# %% [markdown] hint="03.2"
# Collect one condition, in SQL or with `|`: a rule is broken, or `event._corrupt` is set, or one of the
# fields is NULL. A loop over `FIELDS` saves writing ten tests. Then
# `return parsed.where(~malformed), parsed.where(malformed)`.

# %% [markdown] hint="03.2"
# `'soon'` is an `order_ts`, too. What is `try_to_timestamp('soon')`? What is
# `NULL NOT BETWEEN ...`, and what do `where(condition)` and `where(~condition)` do with it?

# %% [markdown] hint="03.2"
# `F.coalesce(malformed, F.lit(True))` is true where the condition is NULL: a record that cannot be judged is
# not an order.


# %% right="03.2"
# As a SQL expression, where the rule stands in a configuration.
def split(parsed):
    complete = " AND ".join(f"event.{field} IS NOT NULL" for field in FIELDS)
    fine = f"{complete} AND event._corrupt IS NULL AND NOT ({BREAKS_A_RULE})"
    flagged = parsed.withColumn("fine", F.expr(f"coalesce({fine}, false)"))
    dead_letters = flagged.filter("NOT fine").select("partition", "offset", "value")
    return flagged.filter("fine").drop("fine"), dead_letters


# %% right="03.2"
# With `eqNullSafe`, which has no third value: nothing falls between the two tables.
def split(parsed):
    lacks = F.exists(F.array(*(F.col(f"event.{f}").cast("string") for f in FIELDS)), F.isnull)
    bad = lacks | F.isnotnull("event._corrupt") | F.expr(BREAKS_A_RULE)
    return parsed.where(bad.eqNullSafe(False)), parsed.where(~bad.eqNullSafe(False))


# %% wrong="03.2"
# expect: a row of nulls, which is not null
# falls: rung 2
def split(parsed):
    return parsed.where("event IS NOT NULL"), parsed.where("event IS NULL")


# %% wrong="03.2"
# expect: columns that were not parsed
# falls: rung 1
def split(parsed):
    complete = " AND ".join(f"event.{field} IS NOT NULL" for field in FIELDS)
    fine = f"coalesce({complete} AND event._corrupt IS NULL AND NOT ({BREAKS_A_RULE}), false)"
    orders = parsed.where(fine).select("partition", "offset", "event.*")
    return orders, parsed.where(f"NOT {fine}")


# %% wrong="03.2"
# expect: As JSON they are correct
# falls: rung 2
def split(parsed):
    malformed = f"event IS NULL OR event._corrupt IS NOT NULL OR coalesce({BREAKS_A_RULE}, false)"
    return parsed.where(f"NOT ({malformed})"), parsed.where(malformed)


# %% wrong="03.2"
# expect: in neither
# falls: rung 2
def split(parsed):
    malformed = F.expr(BREAKS_A_RULE) | F.col("event._corrupt").isNotNull()
    for field in FIELDS:
        malformed = malformed | F.col("event")[field].isNull()
    return parsed.where(~malformed), parsed.where(malformed)


# %% wrong="03.2"
# expect: break a rule of the business
# falls: rung 2
def split(parsed):
    complete = " AND ".join(f"event.{field} IS NOT NULL" for field in FIELDS)
    fine = f"({complete} AND event._corrupt IS NULL)"
    return parsed.where(fine), parsed.where(f"NOT {fine}")


# %% wrong="03.2"
# expect: 1 two amounts, the first one no number
# falls: rung 2
def split(parsed):
    bad = F.expr(BREAKS_A_RULE)
    for field in FIELDS:
        bad = bad | F.col(f"event.{field}").isNull()
    bad = F.coalesce(bad, F.lit(True))
    return parsed.where(~bad), parsed.where(bad)


# %% wrong="03.2"
# expect: 1 valid events are among your dead letters
# falls: holds
def split(parsed):
    fine = F.expr(f"NOT ({BREAKS_A_RULE})") & (F.col("event.amount") > 0)
    for field in FIELDS:
        fine = fine & F.col(f"event.{field}").isNotNull()
    fine = F.coalesce(fine & F.col("event._corrupt").isNull(), F.lit(False))
    return parsed.where(fine), parsed.where(~fine)


# %% harmless="03.2"
# element 2: a column more: dead letters may carry a reason
# element 2: a column renamed in case: Spark finds it by either name

# %%
lab.use_reference("03.2")
lab.use_reference("03.1")
orders, dead_letters = split(parse_json(stream_of(topic, 2500)))
orders = orders.select("event.*").drop("_corrupt")
orders = orders.withColumn("order_ts", F.to_timestamp("order_ts"))
orders.printSchema()

# %% [markdown]
# The course's pipeline does the same: one condition that is never NULL, and its opposite. Its parser
# (`lab_env/pipeline/messages.py`) is stricter than `from_json`, and gives each dead letter a *reason*.

# %% [markdown] tags=["instructor"]
# *For instructors.* 11 minutes. Ask for a message that neither of two opposite filters lets through. Short
# of time: keep the table of kinds, and give 03.2 away.

# %% [markdown]
# ## From orders to files
#
# Now both go into files: one line of JSON per message. This is the **baseline** of the course, a sink that
# only appends. Lesson 04 compares a Hudi table with it.
#
# A stream to files must have a [**checkpoint**](../docs/glossary.md#checkpoint): a folder in which it records
# its progress. The folder is on the object store, like the data, because the machine that runs the stream may
# be gone tomorrow. Each stream has its own.
#
# ### Exercise 03.3 · A stream to files
#
# Complete the function. It starts a stream that appends `rows` to JSON files in the folder `path`, records its
# progress in the folder `checkpoint`, and returns the running query. `trigger` holds the arguments for
# `.trigger(...)`, such as `availableNow=True`. Spark's guide has a
# [table of sinks](https://spark.apache.org/docs/3.5.7/structured-streaming-programming-guide.html#output-sinks)
# with their options. The check starts your stream with two triggers: one ends it, the other lets it run until
# somebody stops it.


# %% exercise="03.3"
def to_files(rows, path, checkpoint, **trigger):
    """Start a stream that appends rows to JSON files in `path`; returns the query."""
    # BEGIN SOLUTION
    return (
        rows.writeStream.format("json")
        .option("path", path)
        .option("checkpointLocation", checkpoint)
        .trigger(**trigger)
        .start()
    )
    # END SOLUTION


lab.check("03.3", to_files)

# %% [markdown] hint="03.3"
# `rows.writeStream` has the same steps as `rows.write`: the format `json` and two options, `path` and
# `checkpointLocation`.

# %% [markdown] hint="03.3"
# After the options: `.trigger(**trigger)` hands the trigger on, and `.start()` returns the query. Return it, and
# do not wait for its end: some streams have none.


# %% right="03.3"
# All options in one dictionary, to pass them on.
def to_files(rows, path, checkpoint, **trigger):
    options = {"path": path, "checkpointLocation": checkpoint}
    return rows.writeStream.trigger(**trigger).start(format="json", **options)


# %% right="03.3"
# Compressed, where the files stay for long.
def to_files(rows, path, checkpoint, **trigger):
    writer = rows.writeStream.format("json").option("compression", "gzip")
    writer = writer.option("path", path).option("checkpointLocation", checkpoint)
    return writer.trigger(**trigger).start()


# %% wrong="03.3"
# expect: `_spark_metadata`
# falls: rung 3
def to_files(rows, path, checkpoint, **trigger):
    stream = rows.writeStream.foreachBatch(lambda batch, _: batch.write.mode("append").json(path))
    return stream.option("checkpointLocation", checkpoint).trigger(**trigger).start()


# %% wrong="03.3"
# expect: runs until somebody stops it
# falls: rung 1
def to_files(rows, path, checkpoint, **trigger):
    options = {"path": path, "checkpointLocation": checkpoint}
    return rows.writeStream.trigger(availableNow=True).start(format="json", **options)


# %% wrong="03.3"
# expect: has a batch 0 already
# falls: rung 1
def to_files(rows, path, checkpoint, **trigger):
    options = {"path": path, "checkpointLocation": lab.scratch("checkpoint")}
    return rows.writeStream.format("json").options(**options).trigger(**trigger).start()


# %% wrong="03.3"
# expect: checkpointLocation
# falls: rung 1
def to_files(rows, path, checkpoint, **trigger):
    return rows.writeStream.format("json").option("path", path).trigger(**trigger).start()


# %% wrong="03.3"
# expect: nobody has started it
# falls: rung 1
def to_files(rows, path, checkpoint, **trigger):
    options = {"path": path, "checkpointLocation": checkpoint}
    return rows.writeStream.format("json").options(**options).trigger(**trigger)


# %%
lab.use_reference("03.3")

# %%
json_path, checkpoint = lab.path("orders_json"), lab.path("checkpoints/json")
dead_path = lab.path("dead_letters")

for rows, path, progress in (
    (orders, json_path, checkpoint),
    (dead_letters, dead_path, lab.path("checkpoints/dead")),
):
    to_files(rows, path, progress, availableNow=True).awaitTermination()

orders_in_files = spark.read.json(json_path).count()
dead_in_files = spark.read.json(dead_path).count()
print(f"{orders_in_files:,} orders + {dead_in_files} dead letters")

# %% [markdown]
# Together 4,000: no message is lost between the two. Are the right ones among the dead letters? The ledger
# knows:

# %%
found = spark.read.json(dead_path).select("partition", "offset").toPandas()
sent = lab.ledger(topic).frame().query("kind.str.startswith('malformed')")
by_kind = sent.merge(found, "left", indicator="found").groupby("kind")["found"]
by_kind.agg(sent="size", found=lambda flags: (flags == "both").sum())

# %% proof="The dead letters are exactly the malformed messages of the ledger."
assert orders_in_files + dead_in_files == 4000
assert len(found) == len(sent) == len(sent.merge(found))
assert lab.ledger(topic).reconcile_log(spark.read.json(json_path)).ok

# %% [markdown]
# The streams have ended. We start the one for the orders a second time; nothing was sent in between. Its
# description still says that it begins at the first record of the topic.

# %%
second_run = to_files(orders, json_path, checkpoint, availableNow=True)
second_run.awaitTermination()
rows_after_second_run = spark.read.json(json_path).count()
print(f"{rows_after_second_run:,} rows; messages read by the second run:", end=" ")
print(sum(batch["numInputRows"] for batch in second_run.recentProgress))

# %% proof="The second run read nothing: the checkpoint knew that the work was done."
assert rows_after_second_run == orders_in_files
assert sum(batch["numInputRows"] for batch in second_run.recentProgress) == 0

# %% [markdown]
# The second run read nothing. `startingOffsets` counts only while there is no checkpoint; after that, the
# checkpoint decides. Here is what it has recorded:

# %%
import json

from lab_env.platform.store import key_of

for file in lab.files(checkpoint):
    print(f"{file.size:6,} bytes  {file.key.removeprefix(key_of(checkpoint) + '/')}")

plan = spark.read.text(f"{checkpoint}/offsets/1", wholetext=True).first()["value"]
version, kept, ends = plan.splitlines()
settings = json.loads(kept)["conf"]
print(f"\noffsets/1 holds three lines:\n1. {version}\n2. {len(settings)} settings\n3. {ends}")

# %% [markdown]
# The third line says for each partition of the topic how far batch 1 went. The second keeps settings that must
# not change from one start to the next, such as the number of partitions after a
# [shuffle](../docs/glossary.md#shuffle).
#
# Batches are numbered from 0. For each batch N the stream does four things, in this order:
#
# 1. It decides how far to read, and writes that to `offsets/N`: for each partition the offset where the
#    batch **ends**.
# 2. It reads exactly those records and writes the data files.
# 3. The file sink writes a list of the files of batch N to `_spark_metadata`, a folder next to the data.
# 4. The stream writes `commits/N`: batch N is done.
#
# The plan is on the store *before* the work, the receipt after it. Remember this order.
#
# ### A stream that keeps running
#
# The trigger `processingTime="1 second"` starts a batch each second, or as soon as the last one is done.
# Meanwhile the shop sends 300 events per second.

# %%
import pandas as pd
from IPython.display import HTML

from lab_env.lessons.l03.figures import draw_rates

live = to_files(orders, json_path, checkpoint, processingTime="1 second")
lab.replay(topic, skip=4000, n=1200, rate=300)
live.processAllAvailable()  # for tests; in production a stream just runs
live.stop()

batches = pd.DataFrame(live.recentProgress).query("numInputRows > 0").set_index("batchId")
HTML(draw_rates(batches[["inputRowsPerSecond", "processedRowsPerSecond"]]))

# %% proof="The stream read all 1,200 new messages."
assert batches["numInputRows"].sum() == 1200
assert spark.read.json(json_path).count() > orders_in_files

# %% [markdown]
# The left bar of each pair is the rate at which rows came in, the right bar the rate at which the batch
# processed them. As long as the right bars are higher, the stream keeps up. If they stay lower, each batch is
# larger than the one before, up to your bound, and the board falls further and further behind. Look at several
# batches: each costs some tenths of a second before its first row, so a small one has a short right bar
# although nothing is wrong.
#
# **A good place to pause.** To go on another day, type `lab goto 03d` in a terminal: it runs everything to
# here again in about a minute.

# %% [markdown] tags=["instructor"]
# *For instructors.* 13 minutes. Let somebody say aloud what is on the store before the work, and what after. Short
# of time: give 03.3 away, and show the live stream without a word on its rates.

# %% [markdown]
# ## After a crash
#
# Here is a picture of the orders' checkpoint. Each lane is a partition of the topic, each block is what one
# batch read.

# %%
from IPython.display import HTML

from lab_env.lessons.l03.figures import draw_batches
from lab_env.pipeline.checkpoint import read_checkpoint

before_crash = read_checkpoint(lab.endpoints, checkpoint)
HTML(draw_batches(before_crash, "Every batch is planned and committed"))

# %% [markdown]
# The stream of dead letters reads the same topic with a checkpoint of its own. It did not run while the shop
# sent the last 1,200 messages, so it is behind:

# %%
dead_letter_batches = read_checkpoint(lab.endpoints, lab.path("checkpoints/dead"))
reached = {
    "orders": sum(before_crash[-1].end.values()),
    "dead letters": sum(dead_letter_batches[-1].end.values()),
}
reached

# %% name="apart-on-one-topic" proof="The stream of orders went on to 5,200 messages while the dead letters stayed at 4,000."
assert reached == {"orders": 5200, "dead letters": 4000}

# %% [markdown]
# ### The machine dies
#
# We can't time a crash to the millisecond, so we fake what it leaves behind. Suppose the power failed in the
# last batch between step 2 and step 3: the plan and the data files are on the store, the sink's list and the
# commit are not. We delete just these two. (Lesson 17 kills processes for real.)

# %%
from lab_env.platform.store import client

last = before_crash[-1].number
store = client(lab.endpoints)
sink_list = f"{json_path}/_spark_metadata/{last}"
# The list of each tenth batch repeats all earlier ones and is called `9.compact`, `19.compact`, ...
for receipt in (f"{checkpoint}/commits/{last}", sink_list, f"{sink_list}.compact"):
    store.delete_object(Bucket=lab.endpoints.bucket, Key=key_of(receipt))

HTML(draw_batches(read_checkpoint(lab.endpoints, checkpoint), "After the crash"))

# %% [markdown]
# The last batch has a plan, but no commit. Whoever is on call first wants to know: which messages are in doubt?
#
# ### Exercise 03.4 · The messages of a batch
#
# Complete the function. With a batch query of this lesson's topic, it returns exactly the records that a batch
# of the stream has read, or will read, with all columns of the Kafka source. The files of the checkpoint say
# which records these are; the cell that printed `offsets/1` shows how to read one. The check never asks for
# batch 0. The
# [Kafka guide](https://spark.apache.org/docs/3.5.7/structured-streaming-kafka-integration.html#creating-a-kafka-source-for-batch-queries)
# says how to bound a batch query.


# %% exercise="03.4"
def messages_of(checkpoint, batch):
    """The Kafka records of a batch after the first, at rest."""
    # BEGIN SOLUTION
    ends = {}
    for number in (batch - 1, batch):
        plan = spark.read.text(f"{checkpoint}/offsets/{number}", wholetext=True).first()["value"]
        ends[number] = plan.splitlines()[-1]
    return (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", broker)
        .option("subscribe", topic)
        .option("startingOffsets", ends[batch - 1])
        .option("endingOffsets", ends[batch])
        .load()
    )
    # END SOLUTION


lab.check("03.4", messages_of)

# %% [markdown] hint="03.4"
# `startingOffsets` and `endingOffsets` bound a batch query. Each takes JSON as text, by topic and partition,
# such as `{"orders": {"0": 100, "1": 80, "2": 95}}`. The end is the offset *behind* the last record. Now look at
# the four steps again: does the file `offsets/N` say where batch N begins, or where it ends?

# %% [markdown] hint="03.4"
# A batch begins where the one before it ended. You need two files. The last line of each,
# `text.splitlines()[-1]`, is JSON by topic and partition, just as the two options take it.

# %% [markdown] hint="03.4"
# Read as for `at_rest`, with two more options before `load()`, and without `parse_json`.


# %% right="03.4"
# Reads the checkpoint with Spark, where you cannot list its files otherwise.
def messages_of(checkpoint, batch):
    plans = spark.read.text(f"{checkpoint}/offsets").select("value", "_metadata.file_name")
    lines = plans.where("value LIKE '{%' AND value NOT LIKE '%batchWatermarkMs%'").toPandas()
    lines = lines.set_index("file_name")["value"]
    edges = {"startingOffsets": lines[str(batch - 1)], "endingOffsets": lines[str(batch)]}
    return spark.read.load(format="kafka", **source, **edges)


# %% right="03.4"
# With the lab's own reader, if you are inside the lab.
from lab_env.pipeline.checkpoint import read_checkpoint


def messages_of(checkpoint, batch):
    [found] = [b for b in read_checkpoint(lab.endpoints, checkpoint) if b.number == batch]
    inside = " OR ".join(
        f"(partition = {p} AND offset >= {found.start[p]} AND offset < {end})"
        for p, end in found.end.items()
    )
    return spark.read.format("kafka").options(**source).load().where(inside)


# %% wrong="03.4"
# expect: That is what batch
def messages_of(checkpoint, batch):
    ends = {}
    for number in (batch, batch + 1):
        plan = spark.read.text(f"{checkpoint}/offsets/{number}", wholetext=True).first()["value"]
        ends[number] = plan.splitlines()[-1]
    edges = {"startingOffsets": ends[batch], "endingOffsets": ends[batch + 1]}
    return spark.read.format("kafka").options(**source, **edges).load()


# %% wrong="03.4"
# expect: It begins right and goes on too far
def messages_of(checkpoint, batch):
    path = f"{checkpoint}/offsets/{batch - 1}"
    begin = spark.read.text(path, wholetext=True).first()["value"].splitlines()[-1]
    return spark.read.format("kafka").options(**source, startingOffsets=begin).load()


# %% wrong="03.4"
# expect: the offset behind the last record
def messages_of(checkpoint, batch):
    [found] = [b for b in read_checkpoint(lab.endpoints, checkpoint) if b.number == batch]
    inside = " OR ".join(
        f"(partition = {p} AND offset BETWEEN {found.start[p]} AND {end})"
        for p, end in found.end.items()
    )
    return spark.read.format("kafka").options(**source).load().where(inside)


# %% wrong="03.4"
# expect: at rest
def messages_of(checkpoint, batch):
    return stream_of(topic, 2500)


# %% harmless="03.4"
# a column more: the source itself has one more, with the option for headers

# %%
lab.use_reference("03.4")
in_doubt = messages_of(checkpoint, last).select("partition", "offset").toPandas()
print(f"batch {last}:")
in_doubt.groupby("partition")["offset"].agg(["min", "max", "count"])

# %% [markdown]
# These are the messages in doubt. Now we restart the stream, on the same checkpoint and the same folder. After
# that, a reader opens every file in the folder.
#
# **Predict.** Which rows does it see once more than before the crash?

# %%
TWICE = ("none", "those of the last batch", "all")
lab.predict("03.p2", ..., choices=TWICE)

# %%
restarted = to_files(orders, json_path, checkpoint, availableNow=True)
restarted.awaitTermination()

replayed = restarted.recentProgress[0]
print("first batch of the restart:", replayed["batchId"])
print("it read from", replayed["sources"][0]["startOffset"][topic])
print("          to", replayed["sources"][0]["endOffset"][topic])

# %% [markdown]
# It did the *same* batch again: the messages that your function has read. Now we count as two readers do. One
# opens every file, as most engines do, and Spark when the path has a wildcard. The other is Spark's
# `spark.read.json(folder)`, which opens the files that the sink's list names.

# %%
seen_by_list = spark.read.json(json_path)
all_files = spark.read.json(f"{json_path}/*.json")
expected = lab.ledger(topic).reconcile_log(seen_by_list)

rows_by_list, rows_in_all_files = seen_by_list.count(), all_files.count()
print(f"reader that asks the list: {rows_by_list:,} rows")
print(f"reader that opens all files: {rows_in_all_files:,} rows")
expected

# %%
after_restart = read_checkpoint(lab.endpoints, checkpoint)
extra = rows_in_all_files - expected.expected
lab.record_actual("03.p2", TWICE[int(extra > 0) + int(extra >= expected.expected)])

# %% name="seen-once" proof="The batch was written again, and only the sink's list shows its events once."
assert after_restart == before_crash  # the same ranges, all committed again
ends = replayed["sources"][0]["endOffset"][topic]
read_again = {
    (int(p), offset)
    for p, begin in replayed["sources"][0]["startOffset"][topic].items()
    for offset in range(begin, ends[p])
}
assert read_again == set(zip(in_doubt["partition"], in_doubt["offset"], strict=True))
assert len(in_doubt) == replayed["numInputRows"] > 0
assert expected.ok
assert rows_in_all_files > rows_by_list  # the folder has the files of the batch twice

# %% [markdown]
# The reader that asks the list sees each event as often as it was sent. The other one counts the last
# batch twice, because the files of the first attempt are still there.
#
# [**Exactly once**](../docs/glossary.md#exactly-once) does not mean that no work is done twice. After a crash work
# *is* done twice, but nobody may *see* it twice. That takes three things together:
#
# 1. a **source** that can be read again from a given position (Kafka's offsets),
# 2. a **checkpoint** that fixes what belongs to a batch before the work begins,
# 3. a **sink** that recognises a batch which it already has, or which was never committed.
#
# A checkpoint alone gives only the second. And the file sink keeps its promise only for readers that know
# Spark's `_spark_metadata`. A Hudi table has such a list, too, the timeline, and every engine that reads Hudi
# asks it. This is the first reason for lesson 04.

# %% [markdown] tags=["instructor"]
# *For instructors.* 13 minutes. After 03.p2 ask which of the two readers each engine of the room is. Short of
# time: give 03.4 away; what follows the restart is the point.

# %% [markdown]
# ## A resend is not a replay
#
# Some messages are *resends*: the same event, with the same `event_id`, sent again because the sender was not
# sure. It is now two messages with two offsets, so no checkpoint helps: the files hold both.
#
# So what does the board show? We compare it with the shop's own books, which have no row for erased orders.

# %%
from lab_env.lessons.l03.figures import books

events = seen_by_list.select("event_id").distinct().count()
print(f"{rows_by_list:,} rows for {events:,} events")

seen_by_list.createOrReplaceTempView("orders_json")
board = spark.sql("""
    SELECT status, count(*) AS orders, CAST(sum(amount) AS DECIMAL(12,2)) AS revenue
    FROM orders_json GROUP BY status
""").toPandas()
board.merge(books(n=5200), "outer", "status", suffixes=(" on the board", " in the books"))

# %% name="the-board" proof="The files hold each resend, and the board made of them counts many orders several times."
assert events < rows_by_list
assert board["orders"].sum() == rows_by_list > 1.2 * books(n=5200)["orders"].sum()
assert board["revenue"].sum() > books(n=5200)["revenue"].sum()

# %% [markdown]
# Wrong, and far too much. A resend counts twice. And a line of the files is an *event*: an order that was created,
# paid and shipped is there three times, under three statuses.
#
# We need one row per order, which the next event changes. Then a resend changes nothing. (A stream that remembers
# ids can leave out resends, too; lesson 14 shows what that costs.)

# %% [markdown] tags=["instructor"]
# *For instructors.* 4 minutes, without the appendix. The board is the reason for lesson 04: do not skip it.

# %% [markdown]
# > **In production**
# >
# > - The broker deletes records after its retention time, seven days by default. If a stream stood still for
# >   longer, `failOnDataLoss` decides whether it
# >   [stops or goes on with a gap](https://spark.apache.org/docs/3.5.7/structured-streaming-kafka-integration.html).
# > - The lab's broker asks for no login. Real ones do: pass the
# >   [security options](https://spark.apache.org/docs/3.5.7/structured-streaming-kafka-integration.html#security)
# >   with the prefix `kafka.`, and keep the password out of the notebook.
# > - Not every change of a query is allowed on its old checkpoint. The
# >   [list of changes](https://spark.apache.org/docs/3.5.7/structured-streaming-programming-guide.html#recovery-semantics-after-changes-in-a-streaming-query)
# >   belongs to each release.
# > - Hudi's own program for this task, [Hudi Streamer](https://hudi.apache.org/docs/hoodie_streaming_ingestion),
# >   reads Kafka, files and other sources, and writes a Hudi table.
#
# ## Key points
#
# - Without a checkpoint a stream begins where `startingOffsets` says, by default at the end of the topic; with
#   one, the checkpoint decides.
# - What is not JSON becomes a row of nulls, a field of a wrong type one NULL: test each required field, and keep what
#   fails as dead letters.
# - Two filters are opposites only if their condition is never NULL.
# - `offsets/N` is written before a batch, `commits/N` after it; a batch without a commit is done again, with the
#   same records.
# - Exactly once takes a source that can be read again, a checkpoint, and a sink that recognises a batch.
#
# ## What's next
#
# Your stream reads everything, loses nothing, and sets aside what is broken. But its files hold one line per
# *event*, and no line can be changed. Lesson 04 turns them into a table.
#
# If you know Apache Flink, read [its words and Spark's](../docs/flink_and_spark.md).
#
# ### Appendix · The jars between Spark and Kafka
#
# *Optional: ten minutes; nothing later needs it.* Whatever Spark can do beyond files on a local disk comes from
# [**jars**](../docs/glossary.md#jar), archives of compiled Java code. They must be on the
# [**class path**](../docs/glossary.md#class-path), the list of archives that a Java virtual machine (JVM) gets when
# it starts. Which version fits the others? These are the jars of `lab.spark`:

# %%
from lab_env.platform.install.jars import jar_folder
from lab_env.lessons.l03.jars import jar_table

jars = sorted(jar_folder("spark").glob("*.jar"))
jar_table(jars)

# %% proof="Every jar on the class path has its purpose."
named = list(jar_table(jars).data["jar"])
assert sorted(named) == [jar.name for jar in jars] and "kafka-clients-3.4.1.jar" in named

# %% [markdown]
# `_2.12` in a name is the version of Scala, the language that Spark is written in. Jars for another
# Scala do not fit, even when all other numbers agree.
#
# What happens when a jar is too new? Here is a session made by hand, with the `kafka-clients` of our broker
# in place of Spark's. It runs in a Python process of its own, because a JVM keeps the class path that it was
# started with.

# %%
BY_HAND = """
import sys
from pyspark.sql import SparkSession

class_path, bootstrap, topic = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[1]")  # one task at a time, in this process
    .config("spark.driver.extraClassPath", class_path)
    .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    .config(  # compiles quickly, so it starts faster, and keeps the usual room for code
        "spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
    )
    .config("spark.ui.enabled", "false")
    .getOrCreate()
)
print("the session started", flush=True)
records = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap)
print("it read", records.option("subscribe", topic).load().count(), "messages")
"""

# %% [markdown]
# **Predict.** When does the attempt fail: when the session starts, when it reads, or never?

# %%
lab.predict("03.p3", ..., choices=("start", "read", "never"))

# %%
import subprocess
import sys

from lab_env.lessons.l03.jars import first_java_error

[brokers_client] = jar_folder("kafka").glob("kafka-clients-*.jar")
others = [jar for jar in jars if not jar.name.startswith("kafka-clients")]
class_path = ":".join(map(str, [brokers_client, *others]))
attempt = subprocess.run(
    [sys.executable, "-c", BY_HAND, class_path, broker, topic], capture_output=True, text=True
)
print("with: ", brokers_client.name)
print("done: ", attempt.stdout.strip())
print("error:", first_java_error(attempt.stderr))

# %%
lab.record_actual("03.p3", "read" if "started" in attempt.stdout else "start")

# %% name="a-jar-too-new" proof="With a Kafka client that is too new, the session starts and the first read fails."
assert attempt.stdout.strip() == "the session started"
assert brokers_client.name == "kafka-clients-4.1.2.jar"
java_error = first_java_error(attempt.stderr)
assert "NoSuchMethodError" in java_error and "org.apache.kafka" in java_error

# %% [markdown]
# The session started. A wrong class path shows at the first use, not at the start.
#
# `NoSuchMethodError` means: a jar is there, but code that was compiled against **another version** calls
# something in it that is gone. Spark 3.5 calls a method that Kafka's client 4.0 removed. So take the
# `kafka-clients` that the connector was built with. The broker may be newer: client and broker negotiate their
# protocol, and the client 3.4.1 of our session talks to a broker of version 4.1.2.
#
# A **missing** connector gives a different error: `Failed to find data source: kafka`. On a cluster,
# [`spark.jars.packages`](https://spark.apache.org/docs/3.5.7/submitting-applications.html) usually fetches the
# jars, which needs a network at each first start.

# %%
spark.stop()

# Optional, some minutes: uncomment a line. The lab runs your code on new events while things fail.
# lab.attack("03.1")
# lab.attack("03.2")
# lab.attack("03.3")
