# ---
# title: "The writer died. Which events does the table hold, and who knows?"
# minutes: {teach: 40, do: 25}
# needs: ["03", "04", "05"]
# services: [minio, kafka]
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 17 · The writer died. Which events does the table hold, and who knows?
#
# ## Questions
#
# - The power fails in the middle of a write. What do readers see, and what does a restart do?
# - Somebody deletes a checkpoint to save space. What is lost, and who reports it?
# - My sink is a function of my own. How does each batch reach the table once?
# - Which damage does nobody report at all?
#
# ## Objectives
#
# At the end of this lesson you can
#
# - tell from three receipts what a restarted stream will do (17.1),
# - bring back the events that a lost checkpoint made the table skip (17.2),
# - write a sink that delivers each batch once, wherever it dies (17.3),
# - count from outside what is missing, where no error says so (17.4).
#
# You will also know which damaged files a query reports, and which it reads as an older table.
#
# ## What you need
#
# Lesson 03: a checkpoint has `offsets/N` and `commits/N`, and a batch without a commit is done again.
# Lessons 04 and 05: upserts, the timeline, base files and log files. A good hour; there is a resting
# place in the middle.

# %% [markdown]
# ## Start
#
# The shop sends 1,000 events of orders. This time the lab leaves out the malformed ones: here the
# *writer* fails, not the data.

# %%
from lab_env import Lab
from lab_env.shop.record import recording

lab = Lab.start("17")
topic = lab.topic("orders")
sends = [send for send in recording() if not send.kind.startswith("malformed")]
lab.replay(topic, n=1000, sends=sends)

# %% [markdown]
# The writer is going to be killed, so it is a process of its own, with a JVM of its own. This is its
# program, a file in two cells: first what is read,

# %%
# %%writefile "{lab.folder}/shop_writer.py"
"""The shop's writer: a stream of order events from Kafka into a Hudi table."""

from pyspark.sql import functions as F

from lab_env.lessons.l17.child import WritersLab
from lab_env.pipeline.options import DEMO_OPTIONS
from lab_env.shop.events import EVENT_DDL


def read_kafka(spark, kafka, topic, **options):
    """The messages of a topic as a stream, from its beginning."""
    records = spark.readStream.format("kafka").option("kafka.bootstrap.servers", kafka)
    records = records.option("subscribe", topic).option("startingOffsets", "earliest")
    return records.options(**options).load()


def read_events(spark, kafka, topic, **options):
    """The events of a topic as typed rows; an erase event deletes."""
    event = F.from_json(F.col("value").cast("string"), EVENT_DDL).alias("event")
    events = read_kafka(spark, kafka, topic, **options).select(event).select("event.*")
    return events.withColumn("order_ts", F.to_timestamp("order_ts")).withColumn(
        "_hoodie_is_deleted", F.expr("op = 'erase'")
    )


# %% [markdown]
# and then what is written, by Hudi's own streaming sink, `writeStream.format("hudi")`. It takes at most 250
# messages per batch, and ends when it has read all there is. `DEMO_OPTIONS` leave out the metadata table
# and cleaning; where that changes an answer, the text says so.

# %%
# %%writefile -a "{lab.folder}/shop_writer.py"

ORDERS = DEMO_OPTIONS | {
    "hoodie.table.name": "orders",
    "hoodie.datasource.write.recordkey.field": "order_id",
    "hoodie.table.ordering.fields": "order_ts",
    "hoodie.datasource.write.partitionpath.field": "partition_date",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.index.bloom.num_entries": "1000",  # a small key filter for small files
}


def start_stream(rows, table, checkpoint, **options):
    """Upsert a stream of rows into a Hudi table, until all there is has been read."""
    writer = rows.writeStream.format("hudi").options(**ORDERS).options(**options)
    writer = writer.option("path", table).option("checkpointLocation", checkpoint)
    return writer.trigger(availableNow=True).start()


# %%
# %%writefile -a "{lab.folder}/shop_writer.py"

if __name__ == "__main__":
    lab = WritersLab()  # a Spark session, and the names of this lesson
    events = read_events(lab.spark, lab.kafka, lab.topic("orders"), maxOffsetsPerTrigger=250)
    start_stream(events, lab.path("orders"), lab.path("_checkpoints/orders")).awaitTermination()

# %% [markdown]
# Start the writer, and meanwhile this notebook's own session. Its JVM and the writer's share nothing but
# the object store and Kafka. Read on while both start.

# %%
from lab_env.lessons.l17.crash import start_writer

orders, checkpoint = lab.path("orders"), lab.path("_checkpoints/orders")
writer = start_writer(lab, lab.folder / "shop_writer.py")
spark = lab.spark
# Tables of a few hundred rows: to compile each query costs more than the compiled query saves.
spark.conf.set("spark.sql.codegen.wholeStage", False)
spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")

# %% [markdown]
# ## Freeze, look, kill
#
# A batch leaves five receipts in the object store, in this order:
#
# | receipt | who writes it | what it says |
# |---|---|---|
# | `offsets/N` in the checkpoint | Spark | batch N will read these messages |
# | a marker file in `.hoodie/.temp` | Hudi | a data file of this name is about to be written |
# | the data file | Hudi | the rows |
# | the completed [**instant**](../docs/glossary.md#instant) on the timeline | Hudi | the write is done; **it contains the number N** |
# | `commits/N` in the checkpoint | Spark | batch N is done |
#
# The most interesting moment lies between the third and the fourth. The next cell watches the store for
# it and then stops the writer's JVM with the signal SIGSTOP: it neither ends nor goes on. A request may
# still be on its way then, so the store is listed until two listings agree. If the moment has passed, the
# JVM goes on, and the next batch is tried.

# %%
from lab_env.lessons.l17.receipts import read_receipts


def look():
    return read_receipts(lab, orders, checkpoint)


def half_done(receipts):
    """A batch after the first has a plan and a data file, and nothing says that it is done."""
    open_batch = receipts.offsets >= 1 and receipts.commits < receipts.offsets
    return open_batch and receipts.data > 0 and not receipts.completed


frozen = writer.freeze_when(look, half_done)
frozen

# %%
picture = lab.xray(orders)
picture

# %% proof="The writer is frozen with a data file of a later batch and an instant that is not complete."
assert frozen.offsets >= 1 and frozen.commits == frozen.table == frozen.offsets - 1
assert frozen.markers >= 1 and picture.uncommitted
assert [i.state for i in picture.instants] == ["completed"] * frozen.offsets + ["inflight"]

# %% [markdown]
# The new data file is there, complete and readable Parquet; its instant is not complete. Two readers look
# at this table now. One asks Hudi. The other one lists the folders and opens every Parquet file, as many
# tools do.
#
# **Predict:** what does each of them see?

# %%
lab.predict(
    "17.p1", ..., choices=("complete batches only", "the unfinished batch as well", "an error")
)

# %%
lab.predict(
    "17.p2", ..., choices=("complete batches only", "the unfinished batch as well", "an error")
)

# %%
import io

import pandas as pd
from pyspark.sql import functions as F

from lab_env import store

by_hudi = spark.read.format("hudi").load(orders).select("order_id").toPandas()
by_listing = pd.concat(
    pd.read_parquet(io.BytesIO(store.read(lab.endpoints, file.key)), columns=["order_id"])
    for file in lab.files(orders)
    if file.key.endswith(".parquet")
)
seen = {
    name: {"rows": len(rows), "orders": rows["order_id"].nunique()}
    for name, rows in {"asks Hudi": by_hudi, "lists the folders": by_listing}.items()
}
seen["recorded by the complete commits"] = {"rows": picture.rows, "orders": picture.rows}
pd.DataFrame(seen).T

# %%
complete = seen["asks Hudi"]["orders"] == picture.rows
lab.record_actual("17.p1", "complete batches only" if complete else "the unfinished batch as well")

# %%
more = seen["lists the folders"]["orders"] > picture.rows
lab.record_actual("17.p2", "the unfinished batch as well" if more else "complete batches only")

# %% name="readers-of-the-timeline" proof="Hudi shows the complete batches only; a listing shows old files and the unfinished one, too."
asked, listed = seen["asks Hudi"], seen["lists the folders"]
assert asked == {"rows": picture.rows, "orders": picture.rows}
assert listed["rows"] > listed["orders"] > asked["orders"]

# %% [markdown]
# A write is **atomic** for whoever asks the timeline: before the instant is complete, none of it is there.
# Whoever lists the folders gets the rows of the unfinished batch, and each order again from every older
# version of its file. The promise belongs to the table format, not to the files.
#
# Now the power fails: SIGKILL, which no program can catch.

# %%
writer.kill()
after_kill = look()
print("the store is as it was:", after_kill == frozen)

# %% proof="Killing the writer changed nothing in the store."
assert after_kill == frozen and writer.process.poll() is not None

# %% [markdown]
# ### Exercise 17.1 · What will a restart do?
#
# You are called at night. Three numbers are all you need: the newest batch in `offsets`, the newest in
# `commits`, and the newest that a complete commit of the table contains. (-1 stands for none.) Write the
# function that tells what a restart does first: the number of the batch that Spark runs, and whether the
# sink will `"write"` it or `"skip"` it.
#
# Spark looks only at its checkpoint (lesson 03). Hudi's sink then compares the number of the batch with the one
# in the table.


# %% exercise="17.1"
def restart(offsets, commits, table):
    # BEGIN SOLUTION
    batch = offsets if offsets > commits else commits + 1
    return batch, "write" if batch > table else "skip"
    # END SOLUTION


lab.check("17.1", restart)

# %% [markdown] hint="17.1"
# Begin with the batch. Spark runs a planned batch again if its commit is missing. Otherwise it plans the next one.

# %% [markdown] hint="17.1"
# Numbers only grow: the sink writes a batch if its number is above the one in the table, and skips it
# otherwise.


# %% right="17.1"
def restart(offsets, commits, table):
    batch = offsets + 1 if offsets == commits else offsets
    if batch <= table:
        return [batch, "skip"]
    return [batch, "write"]


# %% wrong="17.1"
# expect: has offsets and no commit: Spark runs it again
def restart(offsets, commits, table):
    return offsets + 1, "write"


# %% wrong="17.1"
# expect: its sink returns without reading
def restart(offsets, commits, table):
    return max(offsets, commits + 1), "write"


# %% [markdown]
# Ask your function, then find out. The restart is the same query on the same checkpoint, in this
# notebook's session. It has no limit per batch: what the dead writer had not planned yet comes in one batch.

# %%
import sys

sys.path.insert(0, str(lab.folder))
from shop_writer import ORDERS, read_events, read_kafka, start_stream

lab.use_reference("17.1")
KAFKA = lab.endpoints.kafka_bootstrap
expected = restart(frozen.offsets, frozen.commits, frozen.table)

query = start_stream(read_events(spark, KAFKA, topic), orders, checkpoint)
query.awaitTermination()
batches = [(report["batchId"], report["numInputRows"]) for report in query.recentProgress]
print(f"expected: {expected}; batches and rows read: {batches}")
restarted, repaired = look(), lab.xray(orders, since=picture)
repaired

# %% [markdown]
# Does the table hold what the shop sent? The shop's ledger knows each event that Kafka acknowledged. The
# table is read with [**hudi-rs**](../docs/glossary.md#hudi-rs), Hudi's reader in Rust: an auditor should not share a process with
# the writer.

# %%
import pyarrow as pa
from hudi import HudiTableBuilder

STORE = {  # the keys are in the environment, as for Spark
    "aws_endpoint": lab.endpoints.s3_endpoint,
    "aws_region": lab.endpoints.s3_region,
    "aws_allow_http": "true",
}


def read_with_hudi_rs(address):
    """The rows of a table on the object store or in a local folder, without Spark."""
    where = STORE if address.startswith("s3a://") else {}
    builder = HudiTableBuilder.from_base_uri(address.replace("s3a://", "s3://"))
    return pa.Table.from_batches(builder.with_storage_options(where).build().read()).to_pandas()


def ask_ledger():
    return lab.ledger(topic).reconcile_table(read_with_hudi_rs(orders))


ledger = ask_ledger()
ledger

# %% name="rolled-back" proof="The restart rolls the dead write back and writes its batch again; the ledger agrees."
assert expected == (batches[0][0], "write") and batches[0][0] == frozen.offsets
assert 240 <= batches[0][1] <= 260  # the limit of the dead writer, not of the restart
assert {file.key for file in picture.uncommitted} == {file.key for file in repaired.gone_files}
assert "rollback" in {instant.action for instant in repaired.new_instants}
assert ledger.ok

# %% [markdown]
# The batch was done again with the messages of its old plan, about 250, although this query has no such
# limit. Before that, Hudi found an instant that nobody would complete, deleted its data file (the
# marker says which), and recorded a **rollback** on the timeline. And the ledger finds nothing missing, stale or
# twice.
#
# The other half of the danger: the writer dies *after* the instant is complete, before Spark writes
# `commits/N`. That gap is short, so we make the state that it leaves: we delete that one object.
#
# **Predict:** after a restart, how many messages does Spark read for this batch?

# %%
lab.predict("17.p3", ..., choices=("all of the batch", "none"))

# %%
from lab_env.store import client, key_of

last_commit = f"{checkpoint}/commits/{restarted.commits}"
client(lab.endpoints).delete_object(Bucket=lab.endpoints.bucket, Key=key_of(last_commit))
in_the_gap = look()
expected = restart(in_the_gap.offsets, in_the_gap.commits, in_the_gap.table)

query = start_stream(read_events(spark, KAFKA, topic), orders, checkpoint)
query.awaitTermination()
batches = [(report["batchId"], report["numInputRows"]) for report in query.recentProgress]
after_the_gap = look()
print(f"expected: {expected}; batches and rows read: {batches}")

# %%
lab.record_actual("17.p3", "none" if batches[0][1] == 0 else "all of the batch")

# %% name="replay-skipped" proof="The table knows the batch: its replay reads nothing, and Spark adds the missing receipt."
assert expected == (in_the_gap.offsets, "skip") and batches == [(in_the_gap.offsets, 0)]
assert after_the_gap == restarted

# %%
from IPython.display import HTML

from lab_env.lessons.l17.figures import draw_ladder

HTML(
    draw_ladder(
        {
            "frozen and killed": frozen,
            "after the restart": restarted,
            "commits/N deleted": in_the_gap,
            "after the restart ": after_the_gap,
        }
    )
)

# %% [markdown]
# Read each column from top to bottom. A green square is there; an empty one is missing. A grey dot is a
# marker that was removed, because its write is complete. In the first column the fourth receipt is
# missing, so the batch is written again. In the third only the last one is missing: the batch is in the
# table, and the sink returns without reading a message.
#
# So [**exactly once**](../docs/glossary.md#exactly-once) does not mean that the work is done once. It means
# that one receipt decides, and that **it is written in the same step as the data**.

# %% [markdown] tags=["instructor"]
# *For instructors.* Twenty minutes to here. Starting the writer and the session takes half a minute: let
# the group fill in the table of five receipts from memory meanwhile, in the right order. In 17.1 most people forget that a
# planned batch keeps its number. Short of time: leave out `commits/N deleted` and show its column only.

# %% [markdown]
# ## Which receipt decides?
#
# The fourth. Here it is, in SQL: the newest commit has an entry of the streaming sink.

# %%
spark.sql(f"CREATE TABLE IF NOT EXISTS orders USING hudi LOCATION '{orders}'")
spark.sql("""
    CALL show_commit_extra_metadata(
        table => 'orders', metadata_key => '_hudi_streaming_sink_checkpoint')
""").toPandas()

# %% [markdown]
# `default_single_writer` is the **identifier** of the stream, a name that Hudi gives it unless you do. The
# number belongs to this name.
#
# Now a colleague tidies up. Checkpoints are only small technical files, are they not? He deletes the
# one of our stream. The table stays. The shop sends 500 more events, and the stream is started again: a new
# checkpoint, from the beginning of the topic.
#
# **Predict:** how does that end?

# %%
lab.predict("17.p4", ..., choices=("all is well", "events twice", "events missing", "an error"))

# %%
from lab_env.lessons.table_copies import overlay_table
from lab_env.store import delete_prefix

delete_prefix(lab.endpoints, key_of(checkpoint) + "/")
lab.replay(topic, n=500, skip=1000, sends=sends)
without_checkpoint = look()
expected = restart(without_checkpoint.offsets, without_checkpoint.commits, without_checkpoint.table)
query = start_stream(read_events(spark, KAFKA, topic), orders, checkpoint)
query.awaitTermination()
batches = [(report["batchId"], report["numInputRows"]) for report in query.recentProgress]
print(f"expected: {expected}; batches and rows read: {batches}; error: {query.exception()}")
overlay_table(lab, orders, lab.path("orders_with_a_gap"))  # the check of 17.2 works on a copy

# %%
gap = ask_ledger()
gap

# %%
lab.record_actual("17.p4", "events missing" if gap.missing else "all is well")

# %%
query.recentProgress[0]["sources"][0]["endOffset"]

# %% name="checkpoint-deleted" proof="Without its checkpoint the stream reads nothing, silently; its offsets are at the end."
end = query.recentProgress[0]["sources"][0]["endOffset"][topic]
assert expected == (0, "skip") and batches == [(0, 0)] and query.exception() is None
assert gap.missing > 100 and gap.stale > 0 and not gap.duplicate
assert sum(end.values()) == 1500

# %% [markdown]
# No error, and the new checkpoint says that everything is read. (Hudi's source has a line for it, at level INFO:
# `Skipping already completed batch`. Most logs begin at WARN.) The new checkpoint counts from 0 again, and the table
# knows a higher number under the same name. **The number says which batch it is, not which messages are in it.** A
# checkpoint is not a backup of the table: the two belong together, and a stream needs both.
#
# ### Exercise 17.2 · Bring them back
#
# Everything is still in the topic. Write a function that brings it into the table whose path it gets. You
# need a new checkpoint (`lab.scratch("checkpoint")` is a new place at each call) and one thing more. The
# option for the name of a stream is `hoodie.datasource.write.streaming.checkpoint.identifier`. Orders that
# are in the table already do no harm: the upsert finds them by their key, and an older version loses.

# %% exercise="17.2"
IDENTIFIER = "hoodie.datasource.write.streaming.checkpoint.identifier"


def replay(table):
    """Read all events of the topic, and upsert them into the table."""
    # BEGIN SOLUTION
    query = (
        read_events(spark, KAFKA, topic)
        .writeStream.format("hudi")
        .options(**ORDERS)
        .option(IDENTIFIER, "replay")
        .option("checkpointLocation", lab.scratch("checkpoint"))
        .trigger(availableNow=True)
        .start(table)
    )
    query.awaitTermination()
    # END SOLUTION


lab.check("17.2", replay)

# %% [markdown] hint="17.2"
# `start_stream` in the writer's file shows the chain of calls. What has to differ from the stream whose
# batch was skipped?

# %% [markdown] hint="17.2"
# `.option(IDENTIFIER, "replay")` on the writer: under this name the table knows no batch yet.


# %% right="17.2"
def replay(table):
    def upsert(rows, batch):
        rows.write.format("hudi").options(**ORDERS).mode("append").save(table)

    stream = read_events(spark, KAFKA, topic).writeStream.foreachBatch(upsert)
    stream = stream.option("checkpointLocation", lab.scratch("checkpoint"))
    stream.trigger(availableNow=True).start().awaitTermination()


# %% wrong="17.2"
# expect: is not above
def replay(table):
    events = read_events(spark, KAFKA, topic)
    start_stream(events, table, lab.scratch("checkpoint")).awaitTermination()


# %% [markdown]
# Your function repairs the lesson's table. To make it harder, the object store and the broker both stop
# answering for three seconds while it runs.

# %%
import time
from concurrent.futures import ThreadPoolExecutor

lab.use_reference("17.2")
began = time.monotonic()
with ThreadPoolExecutor() as pool:
    repair = pool.submit(replay, orders)
    time.sleep(0.5)
    with lab.paused("minio"), lab.paused("kafka"):
        time.sleep(3)
repair.result()
print(f"{time.monotonic() - began:.1f} s")

# %%
after_replay = ask_ledger()
after_replay

# %% name="replayed" proof="The replay under a new identifier brings every event back, in spite of the outage."
assert after_replay.ok and after_replay.rows > gap.rows

# %% [markdown]
# An outage of store or broker that ends in time costs time, nothing else: the clients of both ask again.
#
# One more way to lose events: to start a stream on the checkpoint of *another* query, after copying a line of
# code. We try it twice on a copy of our checkpoint, with a sink that only counts: a stream of another topic, and a second
# job on the same topic, which has never read anything.

# %%
from lab_env.lessons.l17.crash import why_failed
from lab_env.shop.topics import ensure_topic


def run(topic_name, sink, checkpoint, **options):
    """Hand a topic to a function, 40 messages per batch, until all are read or it fails."""
    messages = read_kafka(spark, KAFKA, topic_name, maxOffsetsPerTrigger=40, **options).selectExpr(
        "concat_ws('-', topic, partition, offset) AS id",
        "partition",
        "offset",
        "CAST(value AS STRING) AS message",
    )
    stream = messages.writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint)
    query = stream.trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    except Exception as error:
        return why_failed(error)
    return "all delivered"


# %%
payments = lab.topic("payments")
ensure_topic(KAFKA, payments, partitions=1)
lab.replay(payments, n=40, sends=sends)
counted, ended = [], {}


def count(rows, batch):
    counted.append(rows.count())


for topic_name in (payments, topic):
    borrowed = lab.scratch("checkpoint")
    overlay_table(lab, checkpoint, borrowed)  # copies any folder
    ended[topic_name] = run(topic_name, count, borrowed)
    print(f"{topic_name}: {ended[topic_name]} Rows: {sum(counted)}")

# %% name="borrowed-checkpoint" proof="With a checkpoint of another topic a stream fails; with one of the same it reads nothing."
assert "are gone. Some data may have been missed" in ended[payments]
assert ended[topic] == "all delivered" and not counted

# %% [markdown]
# Another topic is reported: its partitions are not those of the checkpoint. The same topic is not. The
# second job takes the first one's place in the topic for its own. **One query, one checkpoint.**
#
# *A good place to rest. Stop here if you like; keep the kernel running.*

# %% [markdown] tags=["instructor"]
# *For instructors.* Fifteen minutes. Let people vote on 17.p4 before anything runs; most say "events twice". In
# 17.2 the first attempt is nearly always a new checkpoint alone. Ask: what if Kafka kept only three days?
# Then the checkpoint was the only thing that could have told where to go on. Short of time: leave out
# the borrowed checkpoints.

# %% [markdown]
# ## A sink of your own
#
# Finance wants every *message* about payments in an audit table, one row each. It has to call a
# function for each batch, so it uses `foreachBatch`. No key of the business fits: a resend is a
# message, too. So the operation is `insert`, which looks for no known keys.
#
# The function below dies once: after the write of batch 0, before it returns. (As a Python
# exception, so that only the query ends, not the notebook.) It also leaves a note, to which we come
# back.

# %%
from lab_env.pipeline.options import DEMO_OPTIONS

AUDIT = DEMO_OPTIONS | {
    "hoodie.table.name": "audit",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.datasource.write.operation": "insert",
}
audit, crashes = lab.path("audit"), {0}


def append(rows, batch):
    """Insert a batch, and write down its number; the power fails once, right after batch 0."""
    note = {"_stream_batch": str(batch)}
    rows.write.format("hudi").options(**AUDIT).options(**note).mode("append").save(audit)
    if batch in crashes:
        crashes.remove(batch)
        raise RuntimeError("power failure")


# %% [markdown]
# There are 40 messages, one batch. The stream dies after the write and is started again.
#
# **Predict:** how many rows does the audit table have then?

# %%
lab.predict("17.p5", ..., tolerance=5)

# %%
audit_checkpoint = lab.path("_checkpoints/audit")
print("first run: ", run(payments, append, audit_checkpoint))
print("second run:", run(payments, append, audit_checkpoint))


def count_rows(table):
    """Rows, and distinct messages among them."""
    rows = read_with_hudi_rs(table)
    return {"rows": len(rows), "messages": rows["id"].nunique()}


doubled = count_rows(audit)
doubled

# %%
lab.record_actual("17.p5", doubled["rows"])

# %%
from lab_env.lessons.l17.receipts import receipts_in

noted = receipts_in(lab, audit, "_stream_batch")
noted

# %% name="doubled" proof="After a crash between write and return, batch 0 is there twice, and both commits say so."
assert doubled == {"rows": 80, "messages": 40}
assert noted == ["0", "0"]

# %% [markdown]
# Batch 0 is there twice. Spark did what it promises: **at least once**. Only the sink can do better, and
# this one does not look.
#
# The note is the second list. Hudi stores every option of a write whose name begins with `_` in the metadata of
# the commit (the prefix is the option `hoodie.datasource.write.commitmeta.key.prefix`). So the number of
# the batch becomes visible in the same step as the rows: **a receipt in the commit**. In SQL:

# %%
spark.sql(f"CREATE TABLE IF NOT EXISTS audit USING hudi LOCATION '{audit}'")
spark.sql("""
    CALL show_commit_extra_metadata(table => 'audit', metadata_key => '_stream_batch')
""").toPandas()

# %% [markdown]
# The procedure shows the newest commit only. A table that somebody clusters has newer commits without
# such a note, so `receipts_in(lab, table, name)` goes back along the timeline. For a table that does not exist it
# gives an empty list.
#
# ### Exercise 17.3 · Deliver once
#
# Write the function that `append` should have been. It gets the rows of a batch, the number, and the path
# of the table. The process may die **anywhere**: before the write, right after it, and the next process
# knows only what is in the store. Each batch may come again; each message must be there once. There is
# more than one good way.


# %% exercise="17.3"
def deliver(rows, batch, table):
    # BEGIN SOLUTION
    if str(batch) in receipts_in(lab, table, "_stream_batch"):
        return
    note = {"_stream_batch": str(batch)}
    rows.write.format("hudi").options(**AUDIT).options(**note).mode("append").save(table)
    # END SOLUTION


lab.check("17.3", deliver)

# %% [markdown] hint="17.3"
# The receipt has to become visible in the same step as the rows. Where does `append` put it, and who reads
# it?

# %% [markdown] hint="17.3"
# Or do without a receipt: each message has an id that never changes, made of topic, partition and
# offset. Which operation of Hudi writes a known key again instead of a second time?


# %% right="17.3"
def deliver(rows, batch, table):
    upsert = AUDIT | {"hoodie.datasource.write.operation": "upsert"}
    rows.write.format("hudi").options(**upsert).mode("append").save(table)


# %% wrong="17.3"
# expect: Crashed after the receipt
def deliver(rows, batch, table):
    written = f"{table}_receipts/{batch}"
    if key_of(written) not in [found.key for found in lab.files(f"{table}_receipts")]:
        client(lab.endpoints).put_object(Bucket=lab.endpoints.bucket, Key=key_of(written), Body=b"")
        rows.write.format("hudi").options(**AUDIT).mode("append").save(table)


# %% wrong="17.3"
# expect: The restart emptied it
delivered = set()


def deliver(rows, batch, table):
    if batch not in delivered:
        rows.write.format("hudi").options(**AUDIT).mode("append").save(table)
        delivered.add(batch)


# %%
lab.use_reference("17.3")
audit_once, crashes = lab.path("audit_once"), {0}


def deliver_and_crash(rows, batch):
    """Deliver a batch with your function; the power fails once, right after batch 0."""
    deliver(rows, batch, audit_once)
    if batch in crashes:
        crashes.remove(batch)
        raise RuntimeError("power failure")


once_checkpoint = lab.path("_checkpoints/audit_once")
print("first run: ", run(payments, deliver_and_crash, once_checkpoint))
print("second run:", run(payments, deliver_and_crash, once_checkpoint))
once = count_rows(audit_once)
once

# %% name="delivered-once" proof="With the receipt in the commit, the same crash leaves each message in the table once."
assert once == {"rows": 40, "messages": 40} and not crashes

# %% [markdown]
# Two good ways, then. A **receipt in the same commit** works for rows without a key. A key that comes from
# the source (topic, partition, offset), with an **upsert**, makes the write *idempotent*: doing it twice
# gives the same table. Hudi's own streaming sink does the first; the orders of this shop have both.

# %% [markdown] tags=["instructor"]
# *For instructors.* Fifteen minutes. Common wrong answers of 17.3, in their order: a set in Python; a receipt
# in a file, written after the rows (twice) or before them (never). Let the group find the moment at which
# each of them dies badly. Short of time: show `doubled`, solve 17.3 together.

# %% [markdown]
# ## What no receipt saves
#
# ### Messages that are gone
#
# Receipts say where to read again. That helps as long as Kafka still has the messages. Finance sends 40 more and
# forgets to start the stream for a week; meanwhile the topic's retention removes old messages. (We need not wait:
# `delete_records` lets offsets expire at once.)

# %%
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

lab.replay(payments, n=40, skip=40, sends=sends)
admin = AdminClient({"bootstrap.servers": KAFKA})
for expired in admin.delete_records([TopicPartition(payments, 0, 70)]).values():
    print("the topic begins at offset", expired.result().low_watermark)

for fail in (True, False):
    ended[fail] = run(payments, deliver_and_crash, once_checkpoint, failOnDataLoss=fail)
    print(f"failOnDataLoss {fail}: {ended[fail]}")

rows_of_80 = count_rows(audit_once)
rows_of_80

# %% name="expired" proof="Expired messages stop the stream by default; with failOnDataLoss=false they are left out."
assert ended[True] != "all delivered" and ended[False] == "all delivered"
assert rows_of_80 == {"rows": 50, "messages": 50}

# %% [markdown]
# `failOnDataLoss` is true by default, and it is right: 30 messages are gone, and somebody has to know. With
# `false`, which Spark's messages on lost data recommend, the stream goes on and nobody ever hears of them. Keep
# messages in Kafka longer than your longest outage, backups and holidays included.
#
# ### Exercise 17.4 · Who would have noticed?
#
# The stream says `all delivered`. But each row of the audit table has the `partition` and the `offset` of its
# message, and the offsets of this topic have no gaps. (Transactions and compaction would make some.) Write the function that gets such rows, as a DataFrame, and returns **how many
# messages are missing** between the first and the last of each partition. A topic may have several
# partitions, and a table may hold a message twice.


# %% exercise="17.4"
def missing_messages(rows):
    # BEGIN SOLUTION
    partitions = rows.groupBy("partition").agg(
        (F.max("offset") - F.min("offset") + 1 - F.countDistinct("offset")).alias("missing")
    )
    return partitions.agg(F.sum("missing")).first()[0]
    # END SOLUTION


lab.check("17.4", missing_messages)

# %% [markdown] hint="17.4"
# For one partition: how many offsets are there from the lowest to the highest, and how many different ones
# does the table have?

# %% [markdown] hint="17.4"
# `rows.groupBy("partition").agg(...)` with `F.max`, `F.min` and `F.countDistinct` of `offset`; then the sum over the
# partitions.


# %% right="17.4"
def missing_messages(rows):
    rows.createOrReplaceTempView("messages")
    return spark.sql("""
        WITH next AS (
            SELECT offset - lag(offset) OVER (PARTITION BY partition ORDER BY offset) AS step
            FROM (SELECT DISTINCT partition, offset FROM messages)
        )
        SELECT coalesce(sum(step - 1), 0) FROM next
    """)


# %% wrong="17.4"
# expect: hides one that is missing
def missing_messages(rows):
    partitions = rows.groupBy("partition").agg(
        (F.max("offset") - F.min("offset") + 1 - F.count("offset")).alias("missing")
    )
    return partitions.agg(F.sum("missing")).first()[0]


# %% wrong="17.4"
# expect: Each partition counts from 0
def missing_messages(rows):
    found = rows.agg(F.min("offset"), F.max("offset"), F.countDistinct("offset")).first()
    return found[1] - found[0] + 1 - found[2]


# %%
lab.use_reference("17.4")
lost_messages = missing_messages(spark.read.format("hudi").load(audit_once))
print(lost_messages, "messages are missing")

# %% name="counted-from-outside" proof="The offsets in the table show the 30 messages that no error reported."
assert int(lost_messages) == 30

# %% [markdown]
# ### Files that are damaged
#
# A Merge-on-Read table of a hundred orders, thirty of which are paid by a second write. This table has Hudi's
# metadata table, as tables at work do: the list of its own files.

# %%
from lab_env.pipeline.options import METADATA

MOR = (
    ORDERS
    | METADATA
    | {
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.compact.inline": "false",
        "hoodie.metadata.enable": "true",
    }
)
fragile = lab.path("fragile")
for status, minute, ids in (("new", 0, "id <= 100"), ("paid", 10, "id <= 30")):
    change = spark.sql(f"""
        SELECT concat('O-', id) AS order_id, '{status}' AS status, 10 + id AS amount,
               TIMESTAMP '2026-11-20 09:{minute:02}:00' AS order_ts, '2026-11-20' AS partition_date
        FROM range(1, 101) WHERE {ids}
    """)
    change.coalesce(1).write.format("hudi").options(**MOR).mode("append").save(fragile)

(current,) = lab.xray(fragile).current
base_file, (log_file,) = current.base, current.logs
print(f"base file {base_file.size:,} bytes, log file {log_file.size:,} bytes")

# %% [markdown]
# Three readers ask it how many orders there are and how many are paid: Spark with the metadata table, Spark
# without it, and hudi-rs.


# %%
def with_spark(address, metadata="true"):
    """Orders, and paid orders among them."""
    table = spark.read.format("hudi").option("hoodie.metadata.enable", metadata).load(address)
    paid = F.count_if(F.col("status") == "paid")
    return tuple(table.agg(F.count("*"), paid).first())


def with_hudi_rs(address):
    rows = read_with_hudi_rs(address)
    return len(rows), int((rows["status"] == "paid").sum())


# %% [markdown]
# Now three kinds of damage, one at a time, each put right again afterwards. And the log file a second time: all
# files of the table copied to a folder on this machine's disk, where the same 40 bytes are cut off. The cell takes some
# twenty seconds.
#
# **Predict:** Spark reads the table on the object store whose log lacks its last 40 bytes. What does it say?

# %%
lab.predict("17.p6", ..., choices=("the new values", "the old values", "an error"))

# %%
from contextlib import nullcontext

from lab_env.lessons.l17.damage import cut, local_copy, removed, show_verdicts, verdict

damages = {
    "none": nullcontext(fragile),
    "log file: last 40 bytes cut off": cut(lab, fragile, log_file),
    "log file: lost": removed(lab, fragile, log_file),
    "base file: lost": removed(lab, fragile, base_file),
    "log file: cut off, table in a local folder": local_copy(lab, fragile, cut_off=log_file),
}
found = {}
for name, damage in damages.items():
    with damage as address:
        found[name] = {
            "Spark, metadata table": verdict(with_spark, address),
            "Spark without": verdict(with_spark, address, "false"),
            "hudi-rs": verdict(with_hudi_rs, address),
        }

HTML(show_verdicts(found))

# %%
by_spark = found["log file: last 40 bytes cut off"]["Spark, metadata table"]
lab.record_actual("17.p6", "an error" if by_spark == "error" else "the old values")

# %% name="damaged-files" proof="A cut log is an error on S3 only, a lost file with the metadata table only, each in Spark."
right, old, lost = "100 orders, 30 paid", "100 orders, 0 paid", "30 orders, 30 paid"
verdicts = {name: tuple(said.values()) for name, said in found.items()}
assert verdicts["none"] == (right, right, right)
assert verdicts["log file: last 40 bytes cut off"] == ("error", "error", old)
assert verdicts["log file: lost"] == ("error", old, old)
assert verdicts["base file: lost"] == ("error", lost, lost)
assert verdicts["log file: cut off, table in a local folder"] == (old, old, old)

# %% [markdown]
# Amber cells are wrong answers without an error.
#
# - **A log that ends too early.** On S3 Spark fails. Hudi trusts a store whose writes are atomic: it does not look
#   for half-written blocks, and runs into the end of the file. In a folder, as on HDFS, a writer that died may have
#   left half a block. Hudi takes the damage for that and skips the *corrupt block*, so the orders have their old
#   values. hudi-rs skips it on S3, too. (The reason is from Hudi's source, `isBlockCorrupted`.)
# - **A lost file** is noticed only by a reader that has a list to miss it from: the
#   [**metadata table**](../docs/glossary.md#metadata-table). Without it a listing *is* the truth.
#
# What stood only in the damaged file is gone, for time travel, too. On Copy-on-Write that is a whole base file, but the
# file of the version before is whole as well, until it is cleaned (lesson 10).
#
# A base file that ends too early has lost its footer, and no reader opens it. A procedure looks for such files:

# %%
with cut(lab, fragile, base_file):
    broken = spark.sql(f"CALL show_invalid_parquet(path => '{fragile}')").toPandas()
broken

# %% proof="The procedure names the one base file that was cut."
assert len(broken) == 1 and base_file.name in broken["path"][0]

# %% [markdown]
# There is none like it for logs: `show_logfile_metadata` lists the blocks of a log, `CORRUPT_BLOCK` among them, where Hudi
# looks for such blocks. Checksums of stored bytes are the store's affair: MinIO and S3 keep them for each
# object and refuse to return what rotted. They do not know what you deleted or overwrote.
#
# ### A poisoned message
#
# Last act. Somebody sends an order whose `order_id` is null. Our writer lets it through: it parses, but it judges nothing (lesson 03
# did). A record key must not be null, so the write fails. This time the writer is the session of this notebook.
#
# **Predict:** what ends?

# %%
lab.predict("17.p7", ..., choices=("the batch", "the query", "the whole session"))

# %%
from confluent_kafka import Producer

from lab_env.lessons.l17.crash import without_tracebacks

poisoned = lab.topic("poisoned")
ensure_topic(KAFKA, poisoned, partitions=1)
producer = Producer({"bootstrap.servers": KAFKA})
producer.produce(poisoned, b'{"order_id": null, "op": "create", "partition_date": "2026-01-05"}')
producer.flush()

QUICKLY = {"hoodie.datasource.write.streaming.retry.count": "1", IDENTIFIER: "poisoned"}
events = read_events(spark, KAFKA, poisoned)
query = start_stream(events, orders, lab.scratch("checkpoint"), **QUICKLY)
with without_tracebacks():  # Py4J and PySpark write one for each talk that the JVM's end cuts off
    try:
        query.awaitTermination()
    except Exception as error:
        print(type(error).__name__, "·", str(error).splitlines()[0])
    try:
        answer = spark.range(3).count()
    except Exception as error:
        answer = f"{type(error).__name__}: {error}"
answer

# %%
lab.record_actual("17.p7", "the query" if answer == 3 else "the whole session")

# %% name="session-ended" proof="A record that cannot be written ends the JVM of the sink, and with it the session."
assert "refused" in str(answer)

# %% [markdown]
# The whole session: after its attempts (three by default, one here) Hudi's streaming sink ends its **JVM** by
# `System.exit(1)`. It would rather stop than lose a batch. So:
#
# - A writer is a process of its own, and something restarts it. Never run one beside other queries that you need.
# - What cannot be written must not reach the sink: dead letters (lesson 03).
# - `hoodie.datasource.write.streaming.ignore.failed.batch=true` is the opposite promise: the batch is dropped and the stream
#   goes on. Until Hudi 0.12 this was the default.
#
# > **Measured once by hand, not here.** On a Merge-on-Read table with asynchronous compaction the process does
# > not even end: it hangs, because the compacting thread waits for a lock that the exiting one holds. So watch a writer's
# > *progress*, not its process. The lab's own writer has a watchdog for this. (Hudi 1.1.1)
#
# And the table? It is not in that JVM, and hudi-rs needs none. The failed write left an instant that is not complete;
# the next writer will roll it back, as you have seen. Never delete such a file of the timeline by hand. The shop's board,
# revenue by status:

# %%
rows = read_with_hudi_rs(orders)
board = rows.groupby("status")["amount"].sum().to_frame("revenue")
board

# %%
final, last = lab.ledger(topic).reconcile_table(rows), lab.xray(orders).instants[-1]
final

# %% name="it-survives" proof="After all that the table has every order once, in its newest version."
assert final.ok and board["revenue"].sum() == rows["amount"].sum() > 0
assert last.state in ("requested", "inflight")

# %% [markdown]
# A killed writer, a lost receipt, a lost checkpoint, an outage, a dead session: the board is right to the
# cent, and the ledger, which knows nothing of Spark and Hudi, agrees. That is what "it survives" means.
#
# One thing to clean up: PySpark still holds the address of the dead JVM. The next cell forgets it, so that
# `lab.spark` could start a new session in this kernel.

# %%
from lab_env.lessons.l17.crash import forget_dead_session

forget_dead_session(lab)

# %% [markdown] tags=["instructor"]
# *For instructors.* Twenty minutes. Before the grid, let the group fill it in on a whiteboard: error, right, or wrong
# and silent. The last act works once per kernel; restart the kernel to show it again. *Short of time:*
# leave out the expired offsets, show the grid, keep the last act.

# %% [markdown]
# ## Key points
#
# - Five receipts per batch. The completed instant decides: it holds the batch's number, and it becomes visible together
#   with the rows.
# - Readers of the timeline never see half a write. Readers of folders do.
# - Exactly once means at least once, and a sink that recognises what it has: by a receipt in the same commit, or
#   by a key from the source and an upsert.
# - Checkpoint and table belong together. A new checkpoint under the old identifier skips batches without
#   an error; a new identifier brings them back while Kafka still has them.
# - `failOnDataLoss=false`, a lost file without a metadata table, and a corrupt log block where Hudi skips it give wrong answers
#   without an error. Only a count from outside, such as the ledger, finds them.
# - Hudi's streaming sink ends its JVM when a batch fails. Give it a process of its own, and watch its progress.
#
# From the topic to the table is half of the way. The sender may send an event twice, and the topic then holds it
# twice (lesson 01); a job that reads the table has to keep a bookmark of its own (lesson 11).
#
# ## What's next
#
# One writer died and came back. Lesson 18 lets two writers live at the same time.
