# ---
# title: What did the table say at 09:00?
# minutes: {teach: 20, do: 15}
# needs: ["05"]
# services: [minio, kafka]
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 10 · What did the table say at 09:00?
#
# ## Questions
#
# - A customer says that the price was another one this morning. What did the table say then?
# - A job wrote nonsense into the table, and good orders came in after it. How do I undo the one and
#   keep the other?
# - How far back can I look?
#
# ## Objectives
#
# At the end of this lesson you can
#
# - find since when readers could see a value (10.1),
# - undo a bad batch of a stream and end with nothing missing (10.2).
#
# You will also know which past the cleaner takes away, and what a savepoint does not protect.
#
# ## What you need
#
# Lessons 03 and 04 for streams and their checkpoints, lesson 05 for file slices and cleaning.
# Thirty-five minutes.

# %% [markdown]
# ## Start
#
# The first cells start the lab and Spark, make a topic, and let a stream write its first twenty orders
# into a table. Run them and read on: the first write of a session takes longest.

# %%
import json
import time
from datetime import UTC, datetime

import pandas as pd
from lab_env import Lab
from lab_env.display.card import styled
from lab_env.pipeline.options import DEMO_OPTIONS
from lab_env.shop.topics import ensure_topic
from pyspark.sql import functions as F

lab = Lab.start("10")
spark = lab.spark
spark.sql("SET hoodie.metadata.enable = false")  # as in DEMO_OPTIONS, for the procedures, too

# The style of a table that holds words.
LEFT = [{"selector": "th, td", "props": "text-align: left; white-space: normal"}]

topic = lab.topic("orders")
ensure_topic(lab.endpoints.kafka_bootstrap, topic, partitions=1)
KAFKA = {"kafka.bootstrap.servers": lab.endpoints.kafka_bootstrap}


def changes(which, status, at, amount):
    """Changed orders: O-1 to O-20 were created on 20 November, later ones on the 21st."""
    return spark.sql(f"""
        SELECT 'O-' || id AS order_id, '{status}' AS status,
            CAST({amount} AS DECIMAL(12,2)) AS amount,
               to_timestamp('2026-11-21 {at}') AS order_ts,
               IF(id <= 20, '2026-11-20', '2026-11-21') AS partition_date
        FROM range(1, 100) WHERE {which}
    """)


def send(which, status, at, amount):
    """Send changed orders to the topic, as JSON."""
    rows = changes(which, status, at, amount).selectExpr(
        "order_id AS key", "to_json(struct(*)) AS value"
    )
    rows.write.format("kafka").options(**KAFKA).option("topic", topic).save()


# %%
ORDERS = DEMO_OPTIONS | {
    "hoodie.table.name": "orders",
    "hoodie.datasource.write.recordkey.field": "order_id",
    "hoodie.table.ordering.fields": "order_ts",
    "hoodie.datasource.write.partitionpath.field": "partition_date",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.index.bloom.num_entries": "1000",  # a small key filter for small files, see lesson 05
}
EVENT = (
    "order_id STRING, status STRING, amount DECIMAL(12,2), order_ts TIMESTAMP,"
    " partition_date STRING"
)


def events(reader, offset=0):
    """The topic's events from an offset on: `spark.readStream` streams, `spark.read` reads."""
    first = json.dumps({topic: {"0": offset}})  # of partition 0, the only one
    records = reader.format("kafka").options(**KAFKA).option("subscribe", topic)
    records = records.option("startingOffsets", first).load()
    event = F.from_json(F.col("value").cast("string"), EVENT).alias("event")
    return records.select(event).select("event.*")


def start_stream(rows, table, checkpoint, **more):
    """Start a stream that upserts all there is into a table, and then ends."""
    writer = rows.writeStream.format("hudi").options(**ORDERS, **more).option("path", table)
    return writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()


orders, checkpoint = lab.path("orders"), lab.path("_checkpoints/orders")
send("id <= 20", "new", "09:00", "10 + id")
start_stream(events(spark.readStream), orders, checkpoint).awaitTermination()

# %% [markdown]
# Everything here you know from lessons 03 and 04: a topic, a stream with its checkpoint, an upsert into
# a Hudi table. The stream has the trigger `availableNow`: it takes what is there and ends. So each call
# of `start_stream` is one batch, and one commit.
#
# Seven orders are paid. Their amount changes as well: gift wrap for 4.50.

# %%
send("id BETWEEN 11 AND 17", "paid", "09:10", "14.5 + id")
start_stream(events(spark.readStream), orders, checkpoint).awaitTermination()

# %% [markdown]
# ## One moment, two answers
#
# [**Time travel**](../docs/glossary.md#time-travel) is a query of the table as it was at an earlier
# moment. As a DataFrame it takes one more option:


# %%
def as_of(moment):
    """The table as of a moment."""
    return spark.read.format("hudi").option("as.of.instant", moment).load(orders)


def amount_of(order, table):
    """The amount of one order in a table; when the query is refused, the reason."""
    try:
        row = table.where(F.col("order_id") == order).select("amount").first()
    except Exception as refusal:
        java = getattr(refusal, "java_exception", None)  # Hudi's own words, if it was Hudi
        return (java.getMessage() if java else str(refusal)).partition(". ")[0]
    return str(row["amount"]) if row else None


first, second = lab.xray(orders).instants
history = {
    moment.requested: amount_of("O-17", as_of(moment.requested)) for moment in (first, second)
}
history

# %% proof="O-17 cost 27.00 after the first write and 31.50 after the second."
assert list(history.values()) == ["27.00", "31.50"]

# %% [markdown]
# What is a moment to a table? Each [**instant**](../docs/glossary.md#instant) on the timeline carries
# two times. The [**requested time**](../docs/glossary.md#requested-time) is when the write was
# asked for. The [**completion time**](../docs/glossary.md#completion-time) is when it was done; from then
# on readers see it. A large batch may lie minutes between the two. Which of them does time travel take?
#
# Ours is a small batch, so we let it take its time: each row waits a second. The customer of O-17 redeems
# a voucher of 2.00, and the order is packed with three others. The amount is 31.50 now, and will be 29.50.
# While this write goes on, we note the moment, and read the amount of O-17 as any reader does. And when
# the write is complete, we ask the table what it said at that moment.
#
# **Predict:** which amount will the table give, as of the moment at which the write was going on?

# %%
lab.predict("10.p1", ..., tolerance=0.01)

# %%
send("id IN (11, 12, 13, 17)", "packed", "09:20", "14.5 + id - IF(id = 17, 2, 0)")
a_second_a_row = "coalesce(reflect('java.lang.Thread', 'sleep', 1000L), '') IS NOT NULL"
slow = events(spark.readStream).where(a_second_a_row)
query = start_stream(slow, orders, checkpoint)

while query.isActive and all(instant.completed for instant in lab.xray(orders).instants):
    time.sleep(0.05)  # until the write is requested

moment = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]  # to the millisecond
table_now, table_as_of = spark.read.format("hudi").load(orders), as_of(moment)
meanwhile = lab.xray(orders)
seen_then, as_of_then = amount_of("O-17", table_now), amount_of("O-17", table_as_of)
query.awaitTermination()
meanwhile  # the timeline while we read

# %%
as_of_later = amount_of("O-17", as_of(moment))
lab.record_actual("10.p1", as_of_later)

# %%
picture = lab.xray(orders, since=meanwhile)
third = picture.instants[-1]
moment_digits = "".join(filter(str.isdigit, moment))
amounts_read = pd.DataFrame(
    {"amount of O-17": [seen_then, as_of_then, as_of_later]},
    index=[
        f"read at {moment[11:]}",
        f"as of {moment[11:]}, asked at that moment",
        f"as of {moment[11:]}, asked afterwards",
    ],
)
styled(amounts_read).set_table_styles(LEFT)

# %% name="between-the-ticks" proof="Readers saw 31.50 at that moment; afterwards the table says it was 29.50."
assert third.requested < moment_digits < third.completed
assert (seen_then, as_of_later) == ("31.50", "29.50")
assert "must be earlier than the first incomplete commit" in as_of_then

# %% [markdown]
# Nobody could read 29.50 at that moment: whoever looked saw 31.50. But asked afterwards, the table says
# that it was 29.50. **Time travel compares requested times**: as of a moment means all writes that were
# requested until then and are complete *now*. That is also why the same question was refused while
# the write was going on. Its answer was about to change, and Hudi gives none until it is settled.
#
# The picture sets the two beside each other. Each commit is two ticks, requested (dotted) and completed.
# What AS OF says changes at the first, what readers saw at the second.

# %%
from lab_env.lessons.l10.figures import AsOf, Version

history[third.requested] = amount_of("O-17", as_of(third.requested))
versions = [
    Version(write.requested, write.completed, history[write.requested])
    for write in picture.instants
]
two_lanes = AsOf("The amount of O-17 (time not to scale)", versions, cursor=moment_digits)
two_lanes

# %% proof="The drawing agrees: readers follow completion times, time travel requested times."
assert two_lanes.readers(moment_digits) == seen_then
assert two_lanes.as_of(moment_digits) == as_of_later

# %% [markdown]
# So what did readers see at a moment? Ask the timeline for the last write that was *complete* then, and
# travel to its requested time. (This holds for one writer, whose commits come one after the other.)


# %% name="what-readers-saw"
def complete_at(moment, table):
    """The requested time of the last write that was complete at a moment."""
    return max(
        i.requested for i in table.instants if i.writes and i.completed and i.completed <= moment
    )


what_readers_saw = amount_of("O-17", as_of(complete_at(moment_digits, picture)))
what_readers_saw

# %% proof="The requested time of the last complete write gives what readers saw."
assert what_readers_saw == seen_then

# %% [markdown]
# In a report at 09:00, the difference is a few seconds and hardly matters. For an audit, "what did
# the clerk see on the screen", it is the whole question.
#
# ### The same in SQL
#
# SQL needs a name for the table. The moment may be the digits of an instant, a time to the second or
# millisecond, or a date.

# %%
spark.sql(f"CREATE TABLE orders USING hudi LOCATION '{orders}'")


def ask(as_of_clause):
    """The number of orders and the amount of O-17, or why there is no answer."""
    try:
        found = spark.sql(f"""
            SELECT count(*), max(IF(order_id = 'O-17', amount, NULL)) FROM orders {as_of_clause}
        """).first()
        return f"{found[0]} orders, O-17: {found[1]}"
    except Exception as refusal:
        return str(refusal).splitlines()[0]


today = f"{first.requested[:4]}-{first.requested[4:6]}-{first.requested[6:8]}"
clauses = [
    f"TIMESTAMP AS OF '{second.requested}'",
    f"TIMESTAMP AS OF '{moment}'",
    f"TIMESTAMP AS OF '{today}'",
    "TIMESTAMP AS OF '2099-01-01'",
    f"TIMESTAMP AS OF '{moment[:16]}'",
    f"VERSION AS OF '{second.requested}'",
]
answers = {clause: ask(clause) for clause in clauses}
styled(pd.DataFrame({"answer": answers})).set_table_styles(LEFT)

# %% name="moments-in-sql" proof="A date means midnight, a moment in the future means now, and two spellings are refused."
told = list(answers.values())
assert told[:2] == ["20 orders, O-17: 31.50", "20 orders, O-17: 29.50"]
assert told[2] == "0 orders, O-17: None" and told[3] == told[1]
assert "Unsupported query instant time format" in told[4] and "not supported" in told[5]

# %% [markdown]
# Two of them mislead quietly. A date means its *first* moment, midnight: as of today the table was empty.
# Before its first commit a table has no rows, and that is no error. A moment in the future gives the
# newest state. A time without seconds is refused, and so are versions: Hudi knows times, not numbers.
# All times are UTC here; elsewhere, ask in which zone the writer made its instants.
#
# ### Exercise 10.1 · Since when?
#
# The customer of O-12 saw 22.00 on her screen and was charged 26.50. Since when could the shop's page,
# which reads this table, show her the new amount? Other customers will ask, too, so write a function. It gets
# an order and an amount, such as `"O-12"` and `"26.50"`, and returns the time as digits, as the timeline has
# it, such as `"20261121123456789"`.


# %% exercise="10.1"
def readable_since(order, amount):
    # BEGIN SOLUTION
    for write in picture.instants:
        if amount_of(order, as_of(write.requested)) == amount:
            return write.completed
    # END SOLUTION


lab.check("10.1", readable_since)

# %% [markdown] hint="10.1"
# Ask for the amount of the order as of each write of `picture.instants`, in their order. Which write is the
# first with this amount?

# %% [markdown] hint="10.1"
# An instant has two times. With which of them does a write begin to be seen?


# %% right="10.1"
def readable_since(order, amount):
    writes = {write.requested: write.completed for write in lab.xray(orders).instants}
    every_state = " UNION ALL ".join(
        f"SELECT '{moment}' AS moment, order_id, amount FROM orders TIMESTAMP AS OF '{moment}'"
        for moment in writes
    )
    states = spark.sql(every_state).toPandas().astype(str)
    found = states[(states["order_id"] == order) & (states["amount"] == amount)]
    return int(writes[found["moment"].min()])


# %% wrong="10.1"
# expect: belongs to another write. Read O-
def readable_since(order, amount):
    return second.completed


# %% wrong="10.1"
# expect: says when the row was last written
def readable_since(order, amount):
    row = spark.read.format("hudi").load(orders).where(F.col("order_id") == order).first()
    return row["_hoodie_commit_time"]


# %% wrong="10.1"
# expect: Requested is not yet readable
def readable_since(order, amount):
    for write in picture.instants:
        if amount_of(order, as_of(write.requested)) == amount:
            return write.requested


# %% wrong="10.1"
# expect: changed in the shop, the event's own order_ts
def readable_since(order, amount):
    return as_of(second.requested).where(F.col("order_id") == order).first()["order_ts"]


# %% [markdown] tags=["instructor"]
# *For instructors.* Fifteen minutes to here. Have the group predict 10.p1 by show of hands: most say
# 31.50, "because the past does not change". Draw two ticks on the board and a person between them. The
# most common answer to 10.1 is `_hoodie_commit_time`: it stands in the row and looks like the answer. It
# is wrong twice: it belongs to the row's last write, whatever changed, and it is a requested time. The
# waiting rows are the one staged thing here; a batch of millions needs no help.

# %% [markdown]
# ## Undo a bad batch
#
# Tonight a price job runs. Before it, we set a [**savepoint**](../docs/glossary.md#savepoint) on the last
# commit: a mark on the timeline to which the table can go back. (It may be set on an older
# commit as well, as long as its files have not been cleaned.)

# %%
spark.sql(f"CALL create_savepoint(table => 'orders', commit_time => '{third.requested}')")
saved = lab.xray(orders, since=picture)
saved

# %% proof="The savepoint is an instant on the timeline and writes no data file."
assert saved.instants[-1].action == "savepoint" and saved.files == picture.files

# %% [markdown]
# No file was written but on the timeline. Now the bad batch. The job sends an amount of 0 for eight
# orders. In the same batch, two customers place new orders, O-21 and O-22. And before anybody
# notices, a good batch comes: four more orders, and O-17 is shipped.

# %%
send("id <= 8", "repriced", "09:30", "0")
send("id IN (21, 22)", "new", "09:31", "10 + id")
start_stream(events(spark.readStream), orders, checkpoint).awaitTermination()

send("id BETWEEN 23 AND 26", "new", "09:40", "10 + id")
send("id = 17", "shipped", "09:41", "29.5")
start_stream(events(spark.readStream), orders, checkpoint).awaitTermination()

# %% [markdown]
# How bad is it? The topic holds all events, good and bad. An event with an amount of 0 is bad. So we
# know what the table should say, and can hold any table against it.


# %%
def compare(path):
    """Hold a table against the good events of the topic."""
    good = events(spark.read).where("amount > 0")
    newest = good.groupBy("order_id").agg(F.max("order_ts").alias("newest"))
    table = spark.read.format("hudi").load(path).select("order_id", "amount", "order_ts")
    both = newest.join(table, "order_id", "left").selectExpr(
        "count_if(order_ts IS NULL) AS missing",
        "count_if(order_ts < newest) AS stale",
        "count_if(amount = 0) AS zero",
    )
    return both.first().asDict()


damaged = lab.xray(orders, since=saved)
verdicts = {"after the bad and the good batch": compare(orders)}
pd.DataFrame(verdicts).T

# %% proof="The bad batch set eight amounts to 0; nothing is missing and nothing is stale."
assert verdicts["after the bad and the good batch"] == {"missing": 0, "stale": 0, "zero": 8}

# %%
damaged

# %% [markdown]
# Eight amounts are zero, nothing is missing. The two batches made four files. Back to the savepoint, by a
# [**restore**](../docs/glossary.md#restore). The stream is not running, and that matters: nobody may
# write during a restore.

# %%
spark.sql(f"CALL rollback_to_savepoint(table => 'orders', instant_time => '{third.requested}')")
restored = lab.xray(orders, since=damaged)
restored

# %% name="restore"
bad, good = (i.requested for i in damaged.instants[-2:])
print(f"{len(damaged.files)} data files before, {len(restored.files)} after")

# %% proof="The restore deleted the files and commits of both batches; the rest is as it was."
gone = [(file.partition[-2:], file.instant) for file in restored.gone_files]
assert sorted(gone) == sorted([("20", bad), ("21", bad), ("20", good), ("21", good)])
assert restored.files == saved.files
assert restored.instants[:-1] == saved.instants and restored.instants[-1].action == "restore"

# %% [markdown]
# A restore is no time travel. It *deletes*: the four files of the two batches are gone, and so are their
# commits on the timeline (the X-ray knows them from its last look). What is left is the table as it was at the savepoint, to the file, and
# one instant that says so. No question as of any moment will show the two batches again.
#
# The zeros are undone. We start the stream again, and it will fetch the good batch, will it not?
#
# **Predict:** how many good orders will be missing, after the stream has run?

# %%
lab.predict("10.p2", ..., tolerance=0)

# %%
query = start_stream(events(spark.readStream), orders, checkpoint)
query.awaitTermination()
verdicts["restored, stream started again"] = compare(orders)
print("rows that the stream read:", sum(batch["numInputRows"] for batch in query.recentProgress))
lab.record_actual("10.p2", verdicts["restored, stream started again"]["missing"])

# %%
pd.DataFrame(verdicts).T

# %% name="checkpoint-stays" proof="The stream read nothing again: six orders and one change are missing."
assert sum(batch["numInputRows"] for batch in query.recentProgress) == 0
assert verdicts["restored, stream started again"] == {"missing": 6, "stale": 1, "zero": 0}

# %% [markdown]
# Six orders are missing, and the shipping of O-17. There is no error, and none will come. **A restore
# moves the table, not the stream's checkpoint.** The table is back at the savepoint. The checkpoint still
# says that all batches were read. Here it is, batch by batch, with the offsets of the topic:

# %%
from lab_env.pipeline.checkpoint import read_checkpoint

batches = read_checkpoint(lab.endpoints, checkpoint)
read = pd.DataFrame(
    [(batch.number, batch.start[0], batch.end[0]) for batch in batches],
    columns=["batch", "from offset", "before offset"],
).set_index("batch")
read

# %% [markdown]
# And which of the batches is the savepoint? The streaming sink writes the number of the batch into the
# commit, under a name, the *identifier* of the stream. It does so to recognise a batch that comes
# again after a crash: a batch whose number is not above the last one is skipped.

# %% name="batch-of-the-savepoint"
last_batch = restored.commit().checkpoint
last_batch

# %% proof="The restored table's last commit is batch 2, and the checkpoint has each batch's offsets."
assert last_batch == {"default_single_writer": "2"}
assert list(read["before offset"]) == [20, 27, 31, 41, 46]

# %% [markdown]
# ### Exercise 10.2 · Undo it, and lose nothing
#
# The events are still in the topic. Write the function that brings the good ones into a restored table,
# by a stream of its own. Three things to decide: from which offset it reads, which events it lets
# through, and with which checkpoint and identifier it writes.
#
# `events(spark.readStream, offset=...)` and `start_stream` are all you need. The identifier is the option
# in `IDENTIFIER`. A new place for a checkpoint is `lab.scratch("checkpoint")`. The check gives your
# function a copy of the restored table, and holds the result against the topic: 0 missing, 0 stale, 0
# zero.

# %% exercise="10.2"
IDENTIFIER = "hoodie.datasource.write.streaming.checkpoint.identifier"


def replay(table):
    """Bring the good events after the savepoint into the restored table."""
    # BEGIN SOLUTION
    good = events(spark.readStream, offset=31).where("amount > 0")
    fresh = lab.scratch("checkpoint")
    start_stream(good, table, fresh, **{IDENTIFIER: "replay"}).awaitTermination()
    # END SOLUTION


lab.check("10.2", replay)

# %% [markdown] hint="10.2"
# The savepoint is batch 2. At which offset did it end? Everything from there on is to be read again, in
# one stream.

# %% [markdown] hint="10.2"
# A new checkpoint counts its batches from 0. The table knows the number of the last batch of
# `default_single_writer`. What does the sink do with a batch 0 of that name?


# %% right="10.2"
def replay(table):
    events(spark.readStream).createOrReplaceTempView("all_events")  # from the beginning
    good = spark.sql("SELECT * FROM all_events WHERE NOT (amount = 0 AND status = 'repriced')")
    writer = good.writeStream.format("hudi").options(**ORDERS).option(IDENTIFIER, "second_try")
    writer = writer.option("checkpointLocation", lab.scratch("checkpoint"))
    writer.trigger(availableNow=True).start(table).awaitTermination()


# %% wrong="10.2"
# expect: moves the table, not the stream's checkpoint
def replay(table):
    start_stream(events(spark.readStream), table, checkpoint).awaitTermination()


# %% wrong="10.2"
# expect: took your batch 0 for one that it has already
def replay(table):
    good = events(spark.readStream, offset=31).where("amount > 0")
    start_stream(good, table, lab.scratch("checkpoint")).awaitTermination()


# %% wrong="10.2"
# expect: stood in the bad batch
def replay(table):
    good = events(spark.readStream, offset=41)
    fresh = lab.scratch("checkpoint")
    start_stream(good, table, fresh, **{IDENTIFIER: "replay"}).awaitTermination()


# %% [markdown] tags=["instructor"]
# *For instructors.* Fifteen minutes. Draw the topic as a line with offsets, the table's savepoint and the
# checkpoint as two pins in it, and move only one of them. Wrong ways, in the order in which people try
# them: start the stream again (nothing is read); delete the checkpoint (batch 0 comes again, and is
# skipped as known); begin behind the bad batch (O-21 and O-22 are lost: a batch is a
# window of time, not a kind of event). Replaying from offset 0 passes, too: the ordering field lets old
# versions lose. Ask what it costs with a year in the topic, and what if Kafka kept only a week. Where the
# bad rows are few and known, one need not restore at all: read them as of the savepoint, and upsert them
# with a newer `order_ts` (not run here).

# %% [markdown]
# ## How far back?
#
# Time travel needs the files of the past, and [**cleaning**](../docs/glossary.md#cleaning) removes them.
# Where exactly does the past end? Two new tables, one of each type, get the same four writes: 25 orders in
# two partitions, then three changes of O-11 to O-17. The COW table gets a savepoint on its second
# write. Nobody compacts the MOR table.

# %%
TYPES = {
    "cow": {"hoodie.datasource.write.table.type": "COPY_ON_WRITE"},
    "mor": {
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.compact.inline": "false",
    },
}
KEPT = {kind: lab.path(f"kept_{kind}") for kind in TYPES}
WRITES = [
    ("id <= 25", "new", "09:00", "10 + id"),
    ("id BETWEEN 11 AND 17", "paid", "09:10", "20 + id"),
    ("id BETWEEN 11 AND 17", "packed", "09:20", "30 + id"),
    ("id BETWEEN 11 AND 17", "shipped", "09:30", "40 + id"),
]


def upsert(kind, *change):
    """Upsert changed orders into one of the two tables."""
    options = ORDERS | TYPES[kind] | {"hoodie.table.name": f"kept_{kind}"}
    changes(*change).write.format("hudi").options(**options).mode("append").save(KEPT[kind])


for kind in TYPES:
    for change in WRITES:
        upsert(kind, *change)
    spark.sql(f"CREATE TABLE kept_{kind} USING hudi LOCATION '{KEPT[kind]}'")

before = {kind: lab.xray(path) for kind, path in KEPT.items()}
saved_write = before["cow"].instants[1].requested
done = spark.sql(f"CALL create_savepoint(table => 'kept_cow', commit_time => '{saved_write}')")

# %% proof="The savepoint was made."
assert done.first()[0]

# %% [markdown]
# We clean both with the shortest [**retention**](../docs/glossary.md#retention), one commit, and then
# ask each table as of each of its four writes. (The default is ten commits.)
#
# **Predict:** how many of the four moments can each table still answer? First COW, then MOR.

# %%
lab.predict("10.p3", ..., tolerance=0)

# %%
lab.predict("10.p4", ..., tolerance=0)


# %%
notes = {}


def clean(kind):
    """Clean a table, keep what a reader of the last commit needs and what the cleaner says."""
    notes[kind] = spark.sql(f"""
        CALL run_clean(table => 'kept_{kind}', retain_commits => 1,
                       options => 'hoodie.metadata.enable=false')
    """).toPandas()
    return lab.xray(KEPT[kind], since=before[kind])


def moments(kind):
    """The amount of O-17 as of each write of a table, or the refusal."""
    said = {}
    for write in (i for i in lab.xray(KEPT[kind]).instants if i.writes):
        reader = spark.read.format("hudi").option("as.of.instant", write.requested)
        said[write.requested] = amount_of("O-17", reader.load(KEPT[kind]))
    return said


cleaned = {kind: clean(kind) for kind in TYPES}
told = {kind: moments(kind) for kind in TYPES}
pasts = pd.DataFrame(
    {kind: list(said.values()) for kind, said in told.items()},
    index=[f"as of write {number}" for number in range(1, 5)],
)
styled(pasts).set_table_styles(LEFT)

# %%
refused = {kind: [said for said in told[kind].values() if "Cleaner" in said] for kind in TYPES}
lab.record_actual("10.p3", 4 - len(refused["cow"]))

# %%
lab.record_actual("10.p4", 4 - len(refused["mor"]))

# %% name="past-retention" proof="Copy-on-Write refuses three of the four moments; Merge-on-Read answers all four."
assert len(refused["cow"]) == 3 and not refused["mor"]
assert list(told["mor"].values()) == ["27.00", "37.00", "47.00", "57.00"]
assert set(told["cow"].values()) >= {"57.00"}

# %%
cleaned["cow"]

# %%
cleaned["mor"]

# %% name="files-and-answers"
notes["cow"][["total_files_deleted", "earliest_commit_to_retain"]]

# %% proof="The cleaner removed one file; past the retained commit Hudi refuses files that exist."
(day_20,) = {f.partition for f in cleaned["cow"].files if f.partition.endswith("20")}
left_of_20 = sorted(f.instant for f in cleaned["cow"].files if f.partition == day_20)
assert left_of_20 == [i.requested for i in before["cow"].instants[1:4]]  # one file was deleted
assert len(cleaned["cow"].gone_files) == 1 and not cleaned["mor"].gone_files
assert [i.action for i in cleaned["mor"].instants] == ["deltacommit"] * 4  # not even a clean
assert notes["cow"]["earliest_commit_to_retain"][0] == before["cow"].instants[3].requested
assert notes["mor"].empty
first_instant = before["cow"].instants[0].requested
first_write = spark.read.format("hudi").option("as.of.instant", first_instant)
assert "Cleaner" in amount_of("O-25", first_write.load(KEPT["cow"]))

# %% [markdown]
# **Copy-on-Write** refuses three of four, with a clear error. But look at the files. Of the four
# versions of the 20th the cleaner took one. The third is there: a reader that was open when the last
# commit came may still need it. The second is there: the savepoint holds it. The order O-25 lies in a file
# that never changed. And all of these are refused. **The cleaner leaves a note: the earliest commit that
# it retains. Time travel asks the note, not the files.** So retaining one commit means one answer. (This holds for
# policies that count commits, as the default does, or hours. `KEEP_LATEST_FILE_VERSIONS` leaves no such note: after
# it a query of a cleaned past gives 0 rows, without an error.)
#
# **Merge-on-Read** lost nothing. All logs lie in one file slice, with one base file, and that slice is
# the newest. There was nothing to clean, and the cleaner left no instant. Such a table remembers
# all of it, until somebody compacts. (An inline compaction every five deltacommits is the default for
# batch writes.) Lesson 06 showed what then happens: the compaction begins a new slice, the cleaner takes
# the old one with its logs, and the past goes with them. So on Merge-on-Read, how far you can look back
# depends on compaction *and* cleaning.
#
# One question is open. The COW table has a savepoint on its second write, and time travel to it is
# refused. What is it good for?

# %% name="savepoint-after-cleaning"
spark.sql(f"CALL rollback_to_savepoint(table => 'kept_cow', instant_time => '{saved_write}')")
now = amount_of("O-17", spark.read.format("hudi").load(KEPT["cow"]))
print("O-17 after the restore:", now)

# %% proof="The savepoint can be restored, but not read by time travel."
reader = spark.read.format("hudi").option("as.of.instant", saved_write)
still_refused = amount_of("O-17", reader.load(KEPT["cow"]))
assert now == "37.00" and "Cleaner" in still_refused

# %% [markdown]
# The restore works: the table says 37.00 again, what it said after the second write. **A savepoint is for
# going back, not for looking back.** It holds its files against the cleaner for as long as it exists,
# and with them storage. `CALL delete_savepoint` lets them go.

# %% [markdown] tags=["instructor"]
# *For instructors.* Eight minutes. Most predict "1, 1" or "2, 2". Let the group find the third
# version of the 20th in the X-ray, then ask why the query refuses: the check is one comparison
# with the cleaner's note, and knows nothing of files. The loud refusal is good news: an incremental query
# of a cleaned window may return nothing without an error (lesson 11). Short of time: stop
# after the X-ray of the MOR table.

# %% [markdown]
# ## Key points
#
# - An instant has a requested and a completion time. As of a moment means: requested until then, and
#   complete now. Readers saw what was complete then.
# - A date is its midnight. Before the first commit there are no rows, and no error.
# - A restore deletes commits and files after the savepoint. The stream's checkpoint stays where it is:
#   replay from the savepoint's offsets, with a new checkpoint and a new identifier, without the bad
#   events.
# - Under the default policy the past ends at the earliest commit that the cleaner retained, for the whole table,
#   whatever files are left. Merge-on-Read keeps what nobody compacts.
# - A savepoint holds files for a restore. It does not keep time travel open.
#
# ## What's next
#
# Time travel gives a whole table at one moment. Lesson 11 asks for the difference between two: only
# the rows that changed.

# %%
spark.stop()
