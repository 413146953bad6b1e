# ---
# title: "How does a stream become files without loss?"
# minutes: {teach: 30, do: 15}
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
# - Kafka holds the orders. What has to happen so that each one lies in a file, once?
# - Some messages are no orders at all. Where do they go?
# - The machine dies in the middle. Who knows where to go on?
#
# ## Objectives
#
# At the end of this lesson you can
#
# - tell malformed messages from orders, so that none is lost and none slips through (03.1)
# - bound how much a stream reads at a time (03.2)
# - read in a checkpoint which messages each batch took (03.3)
#
# ## What you need
#
# | concept | from | why |
# |---|---|---|
# | topic, partition, offset | lesson 02 | the stream's position is one offset for each partition |
# | late, resent and malformed events | lesson 01 | they arrive here |
# | SQL's `SELECT`, `WHERE`, `COUNT(DISTINCT ...)` | before | the same operations, on a stream |

# %% [markdown]
# ## Start
#
# The lab's services, an empty lesson, and 4,000 messages of the recorded order stream in a topic of
# three partitions. We do not use the lab's ready-made Spark session this time. We make our own.

# %%
from lab_env import Lab

lab = Lab.start("03")
topic = lab.topic("orders")
lab.replay(topic, n=4000)

# %% [markdown] tags=["instructor"]
# **Timing.** Session 8 min, typed rows 12, checkpoint 15, state 5, dictionary 5. The notebook itself
# runs for less than a minute.
#
# **Draw.** Three lanes for the three partitions, with a vertical cut after each batch. Above the cut
# write `offsets/N`, below it `commits/N`. Wipe one commit away and ask what the next start does.
#
# **Frequent wrong answers.** "The stream reads what waits in the topic" (not with the default).
# "`from_json` gives NULL for bad JSON" (a row of NULLs). "Exactly once means that nothing is done
# twice" (it means that nothing is *seen* twice).

# %% [markdown]
# ## A session by hand
#
# PySpark is a thin layer of Python over a Java program. Whatever Spark can do beyond files on a local
# disk comes from [**jars**](../docs/glossary.md#jar), archives of compiled Java code. They must be on the [**class path**](../docs/glossary.md#class-path), the list
# of archives that a Java virtual machine (JVM) is given when it starts. Afterwards it is too late.
#
# These are ours. The question at work is always the same: *which version fits the others?*

# %%
import pandas as pd

from lab_env.display.card import styled
from lab_env.install.jars import jar_folder

jars = sorted(jar_folder("spark").glob("*.jar"))

WHAT_FOR = {
    "spark-sql-kafka": ("reads topics as tables and streams", "Spark and its Scala"),
    "spark-token-provider": ("logins for spark-sql-kafka", "Spark and its Scala"),
    "kafka-clients": ("speaks Kafka's protocol", "what spark-sql-kafka was built with"),
    "commons-pool2": ("keeps connections to Kafka open", "what spark-sql-kafka was built with"),
    "hadoop-aws": ("the file system behind s3a:// paths", "the Hadoop inside PySpark"),
    "aws-java-sdk": ("speaks the S3 protocol", "what hadoop-aws was built with"),
    "wildfly-openssl": ("faster encryption for hadoop-aws", "what hadoop-aws was built with"),
    "hudi-spark": ("Hudi tables, from lesson 04 on", "Spark's minor version and its Scala"),
}
rows = [
    (jar.name, f"{jar.stat().st_size / 1e6:.1f}", *words)
    for start, words in WHAT_FOR.items()
    for jar in jars
    if jar.name.startswith(start)
]
table = pd.DataFrame(rows, columns=["jar", "MB", "what for", "must fit"])
styled(table).hide(axis="index").set_properties(**{"text-align": "left"})

# %% proof="Every jar on the class path has its purpose."
assert len(table) == len(jars)  # every jar has its purpose
assert "kafka-clients-3.4.1.jar" in set(table["jar"])

# %% [markdown]
# `_2.12` in a name is the version of Scala, the language that Spark is written in. Jars for another
# Scala do not fit, even when all other numbers agree.
#
# What happens when a jar is too new? We put the `kafka-clients` of our broker on the class path instead
# of Spark's. It is a later version, and the broker's very own, so it sounds safe. The attempt runs in a
# Python process of its own, because a JVM keeps the class path that it was started with.
#
# **Predict.** When does the attempt fail: when the session starts, when it reads, or never?

# %%
lab.predict("03.p1", ..., choices=("start", "read", "never"))

# %%
import subprocess
import sys

from lab_env.pipeline.session import LESSON_JAVA_OPTIONS, prepare_environment
from lab_env.install import java

# Tells Spark which Java to use. The store's keys go into the environment too, not into the session:
# what is in the session shows in Spark's web page.
prepare_environment(lab.endpoints, java.java_home())

ATTEMPT = """
import sys
from pyspark.sql import SparkSession

class_path, bootstrap, topic = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.driver.extraClassPath", class_path)
    .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    # Compiles quickly, so it starts faster; the second option keeps the usual room for code,
    # which the first would cut from 240 MB to 48 MB.
    .config(
        "spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
    )
    .config("spark.ui.enabled", "false")
    .getOrCreate()
)
print("the session started", flush=True)
records = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap)
print("it read", records.option("subscribe", topic).load().count(), "messages")
"""


brokers_client = next(jar_folder("kafka").glob("kafka-clients-*.jar"))
others = [jar for jar in jars if not jar.name.startswith("kafka-clients")]
class_path = ":".join(map(str, [brokers_client, *others]))
attempt = subprocess.Popen(
    [sys.executable, "-c", ATTEMPT, class_path, lab.endpoints.kafka_bootstrap, topic],
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
)

# %% [markdown]
# While it tries, our own session. `builder` collects settings, `getOrCreate` starts the JVM.

# %%
from pyspark.sql import SparkSession

from lab_env.settings import settings

spark = (
    SparkSession.builder.appName("lesson 03")
    .master(settings().spark_master)  # local[2]: in this process, two tasks at a time
    # The JVM: its jars, its memory, its clock and log
    .config("spark.driver.extraClassPath", ":".join(map(str, jars)))
    .config("spark.driver.memory", settings().spark_memory)
    .config("spark.driver.extraJavaOptions", LESSON_JAVA_OPTIONS)
    # Nobody else in the network may reach this session
    .config("spark.driver.host", settings().bind)
    .config("spark.driver.bindAddress", settings().bind)
    .config("spark.ui.port", settings().spark_ui_port)
    .config("spark.ui.showConsoleProgress", "false")
    # The object store: its address, and bucket names in the path instead of in the host name
    .config("spark.hadoop.fs.s3a.endpoint", lab.endpoints.s3_endpoint)
    .config("spark.hadoop.fs.s3a.endpoint.region", lab.endpoints.s3_region)
    .config("spark.hadoop.fs.s3a.path.style.access", "true")
    # Times are shown in UTC; two cores need two shuffle partitions, not the 200 of a cluster
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.sql.shuffle.partitions", "2")
    .getOrCreate()
)
print("Spark", spark.version, "·", spark.sparkContext.uiWebUrl)

# %% [markdown]
# How did the attempt end? Of a Java error, the line that says what is wrong is rarely the last one.
# We look for the first one that names a Java error.

# %%
import re

done, log = attempt.communicate(timeout=120)
java_errors = re.findall(r"java\.lang\.\w+: .*", log)
print("with", brokers_client.name)
print("done:  ", done.strip())
print("error: ", java_errors[0])

# %% name="a-jar-too-new" proof="With a Kafka client that is too new, the session starts and the first read fails."
assert done.strip() == "the session started"
assert brokers_client.name == "kafka-clients-4.1.2.jar"
assert "NoSuchMethodError" in java_errors[0] and "org.apache.kafka" in java_errors[0]

# %%
lab.record_actual("03.p1", "read" if "started" in done else "start")

# %% [markdown]
# The session started. A wrong class path shows at the first use, not at the start.
#
# `NoSuchMethodError` means: a jar is there, but code that was compiled against **another version** calls
# something in it that is gone. Spark 3.5 asks for a method that Kafka's client 4.0 removed. Newer is not safer.
# Take what the connector was built with. (Its relative `NoClassDefFoundError` usually means that a jar which this
# jar needs is missing altogether.)
#
# The broker is another matter. Client and broker speak a protocol that both sides negotiate, so the
# client 3.4.1 in our session talks to a broker of version 4.1.2.
#
# A jar that is **missing** speaks another way. We have none for Kinesis:

# %%
from py4j.protocol import Py4JJavaError

try:
    spark.read.format("kinesis").load()
    missing = ""
except Py4JJavaError as error:
    missing = error.java_exception.getMessage()
print(missing)

# %% proof="Spark has no data source named kinesis."
assert "Failed to find the data source: kinesis" in missing

# %% [markdown]
# A Kafka connector that is left out gets a message of its own: `Failed to find data source: kafka`, and a pointer to
# Spark's integration guide.
#
# > **Documented, not measured.** A connector for Scala 2.13 on Spark for Scala 2.12 fails in the same
# > way, often with `NoSuchMethodError: scala...`. On a cluster, jars are usually fetched by
# > `spark.jars.packages`, which needs a network at each first start. (Spark 3.5 documentation,
# > "Submitting Applications" and "Structured Streaming + Kafka Integration Guide", November 2026)
#
# One more trap. `getOrCreate` in a process that has a session returns *that* session. A new class path
# in a second builder is ignored. Spark warns of it, but this session logs errors only, so you would see nothing.
# From here on `lab.spark` is our session too:

# %% proof="The lab's session is ours: there is no second JVM."
assert lab.spark.sparkContext is spark.sparkContext  # no second JVM

# %% [markdown]
# ## From bytes to typed rows
#
# `readStream` describes a stream: a table that grows at its end. Nothing is read yet.

# %%
from pyspark.sql import functions as F

source = {
    "kafka.bootstrap.servers": lab.endpoints.kafka_bootstrap,
    "subscribe": topic,
}
records = spark.readStream.format("kafka").options(**source).load()
records.printSchema()

# %% [markdown]
# Kafka knows nothing of orders. A record is two byte strings, `key` and `value`, and the place where it
# lies: `topic`, `partition`, `offset`.
#
# To run a stream we add a [**sink**](../docs/glossary.md#sink) (where rows go) and a [**trigger**](../docs/glossary.md#trigger) (when to look for new records).
# `availableNow` reads what is there now and ends. The sink here is a table in memory.
#
# **Predict.** 4,000 messages wait in the topic. How many rows does this stream deliver? A guess within
# 100 counts.

# %%
lab.predict("03.p2", ..., tolerance=100)

# %%
default_start = (
    records.writeStream.format("memory")
    .queryName("default_start")
    .trigger(availableNow=True)
    .start()
)
default_start.awaitTermination()
rows = spark.table("default_start").count()
print(f"{rows:,} rows")

# %%
lab.record_actual("03.p2", rows)

# %% proof="A stream that starts at the default, latest, reads none of the messages sent before."
assert rows == 0

# %% [markdown]
# None, and no error. At its very first start a stream begins, by default, at the *end* of the topic
# (`latest`) and waits for what comes. All that was sent before is skipped. So we say where to begin:

# %%
source["startingOffsets"] = "earliest"
records = spark.readStream.format("kafka").options(**source).load()

# %% [markdown]
# To look around, a stream is awkward. The same source can be read **at rest**, as a table that ends
# where the topic ends now: `spark.read` in place of `spark.readStream`. Everything below works on both. One
# default differs: a read at rest begins at `earliest`. (Both begin at what the broker still has: it deletes old
# records after its retention time, by default seven days.)
#
# `from_json` turns text into typed columns. It needs a [**schema**](../docs/glossary.md#schema): names and types of the fields. Ours
# lies in `lab_env/shop/events.py`. We add one column, `_corrupt`, into which Spark puts the text when it
# does not fit the schema.

# %%
from lab_env.shop.events import EVENT_DDL, FIELDS

print(EVENT_DDL)
print("each order must have:", ", ".join(FIELDS))


def parse_json(records):
    """Kafka records with one more column: `event`, a struct of the typed fields."""
    return records.withColumn(
        "event",
        F.from_json(
            F.col("value").cast("string"),
            EVENT_DDL + ", _corrupt STRING",
            {"columnNameOfCorruptRecord": "_corrupt"},
        ),
    )


at_rest = parse_json(spark.read.format("kafka").options(**source).load())
at_rest.select("partition", "offset", "event.order_id", "event.op", "event.amount").show(3)

# %% [markdown]
# The load generator damaged about one message in a hundred, and its ledger knows which. So we can look
# at one of each kind, as Spark sees it:

# %%
from lab_env.shop.events import MALFORMED_KINDS

ledger = lab.ledger(topic).frame()
malformed = ledger[ledger["kind"].str.startswith("malformed")]
one_of_each = malformed.drop_duplicates("kind")[["kind", "partition", "offset"]]

seen = at_rest.join(spark.createDataFrame(one_of_each), ["partition", "offset"]).select(
    F.regexp_replace("kind", "malformed:", "").alias("kind"),
    F.substring(F.col("value").cast("string"), 1, 34).alias("begins with"),
    F.col("event").isNull().alias("event is null"),
    F.col("event.order_id").isNull().alias("order_id is null"),
    F.col("event.amount").isNull().alias("amount is null"),
    F.col("event._corrupt").isNotNull().alias("_corrupt is set"),
)
seen = seen.toPandas().set_index("kind").loc[list(MALFORMED_KINDS)]
seen

# %% proof="A malformed event becomes a row of nulls, not a null row."
assert len(seen) == 10
assert not seen.drop("empty")["event is null"].any()  # a row of nulls is not null
assert not seen.loc[["missing_key", "null_key"], "_corrupt is set"].any()

# %% [markdown]
# Read the table by column.
#
# - `event is null` finds next to nothing. Since Spark 3.0 bad JSON becomes a *row of nulls*.
# - `_corrupt is set` finds what is not JSON, or has a wrong type. It does not find an object without an
#   `order_id`: as JSON that is perfect.
# - The last four kinds (an unknown operation, a negative amount, an impossible time, a huge message)
#   are well-formed. Only rules of the business find them.
#
# What would happen if we just let them pass? A row of nulls has no key. A Hudi table refuses such a row,
# and one message stops the whole stream (lesson 17 shows it). Dropping bad rows silently is worse: nobody
# would ever ask. The usual way out is a [**dead-letter table**](../docs/glossary.md#dead-letter). It keeps each malformed message as it came,
# with its place in the topic, so that somebody can mend the sender.

# %% [markdown]
# ### Exercise 03.1 · Find the malformed messages
#
# Write a function that takes parsed records (columns `value`, `partition`, `offset`, `event`) and
# returns those that are no orders by their form: not JSON, cut off, of a wrong type, or without one of
# the fields. `FIELDS` is the list of the ten fields that each order must have. Leave the rules of
# the business out, and let no valid event get caught.
#
# The check runs your function on a stream, with some messages of its own, and asks the ledger.


# %% exercise="03.1"
def find_malformed(parsed):
    """The records that are no orders by their form."""
    # BEGIN SOLUTION
    absent = F.lit(False)
    for field in FIELDS:
        absent = absent | F.col("event")[field].isNull()
    return parsed.where(absent | F.col("event._corrupt").isNotNull())
    # END SOLUTION


lab.check("03.1", find_malformed)

# %% [markdown] hint="03.1"
# Your function returns `parsed.where(...)`. Look at the table above: no single one of its columns is
# enough.

# %% [markdown] hint="03.1"
# A message without an `order_id` is correct JSON. What do you see when you look at the field itself?
# And is `order_id` the only field that may be absent?

# %% [markdown] hint="03.1"
# Conditions can be collected in a loop: begin with `F.lit(False)`, and for each field of `FIELDS` add
# `| F.col("event")[field].isNull()`. Then add the column `event._corrupt`.


# %% right="03.1"
def find_malformed(parsed):
    complete = " AND ".join(f"event.{field} IS NOT NULL" for field in FIELDS)
    return parsed.where(f"NOT ({complete}) OR event._corrupt IS NOT NULL")


# %% right="03.1"
def find_malformed(parsed):
    required = F.array(*(F.col(f"event.{field}").cast("string") for field in FIELDS))
    bad = F.exists(required, lambda value: value.isNull()) | F.isnotnull("event._corrupt")
    return parsed.withColumn("bad", bad).filter("bad").select("partition", "offset")


# %% wrong="03.1"
# expect: a row of nulls, which is not null
def find_malformed(parsed):
    return parsed.where(F.col("event").isNull())


# %% wrong="03.1"
# expect: As JSON they are correct
def find_malformed(parsed):
    return parsed.where(F.col("event").isNull() | F.col("event._corrupt").isNotNull())


# %% wrong="03.1"
# expect: messages without 9 of the fields got through
def find_malformed(parsed):
    return parsed.where("event.order_id IS NULL OR event._corrupt IS NOT NULL")


# %% [markdown]
# The course's own version stands in `lab_env/pipeline/parsing.py`. It is longer, because it gives a
# *reason* for each of the ten kinds, but its idea is the one above: two filters, each the opposite of
# the other, so that every message goes one way or the other.

# %%
from lab_env.pipeline.parsing import dead_letters, parse, valid_events

parsed = parse(records)  # adds `event` and `reason`; the reason of a valid event is null

dead_path = lab.path("dead_letters")
dead_query = (
    dead_letters(parsed)  # where reason IS NOT NULL
    .writeStream.format("parquet")
    .option("path", dead_path)
    .option("checkpointLocation", lab.path("checkpoints/dead"))
    .trigger(availableNow=True)
    .start()
)
dead_query.awaitTermination()

dead = spark.read.parquet(dead_path).select("reason", "partition", "offset").toPandas()
print(dead["reason"].value_counts().to_string())
lab.ledger(topic).reconcile_dead(dead)

# %% proof="The dead letters are exactly the malformed messages of the ledger."
assert lab.ledger(topic).reconcile_dead(dead).ok

# %% [markdown]
# ## From rows to files, once
#
# Now the valid events. We write them as JSON, one line an event, in one folder a day. This is the
# **baseline** of the course: a sink that only appends. Lesson 04 puts a Hudi table beside it.
#
# The option that matters is `checkpointLocation`. The [**checkpoint**](../docs/glossary.md#checkpoint) is a folder in which the stream
# keeps its memory. It lies on the object store, like the data, because the machine that runs the stream
# may be gone tomorrow.

# %%
json_path = lab.path("orders_json")
checkpoint = lab.path("checkpoints/json")


def json_stream():
    """The stream from Kafka to JSON files, not started yet."""
    return (
        valid_events(parse(records))
        .writeStream.format("json")
        .partitionBy("partition_date")
        .option("path", json_path)
        .option("checkpointLocation", checkpoint)
    )


def read_json():
    """What a reader sees."""
    return spark.read.schema("event_id STRING, order_id STRING").json(json_path)


first_run = json_stream().trigger(availableNow=True).start()
first_run.awaitTermination()
after_first_run = read_json().count()
print(f"{after_first_run:,} rows + {len(dead):,} dead letters")

# %% proof="Rows and dead letters add up to the 4,000 messages."
assert after_first_run + len(dead) == 4000  # no message is lost between the two

# %% [markdown]
# The stream has ended. We start the same code a second time; nothing was sent in between.
#
# **Predict.** How many rows will the files hold? A guess within 100 counts.

# %%
lab.predict("03.p3", ..., tolerance=100)

# %%
second_run = json_stream().trigger(availableNow=True).start()
second_run.awaitTermination()
rows = read_json().count()
print(f"{rows:,} rows; messages read by the second run:", end=" ")
print(sum(batch["numInputRows"] for batch in second_run.recentProgress))

# %%
lab.record_actual("03.p3", rows)

# %% proof="The second run read nothing: the checkpoint knew that the work was done."
assert rows == after_first_run
assert sum(batch["numInputRows"] for batch in second_run.recentProgress) == 0

# %% [markdown]
# The second run read nothing. It found in the checkpoint that the work was done, although the code says
# `startingOffsets = earliest`: that option counts only when there is no checkpoint yet. Here is what the
# stream remembers:

# %%
import json

from lab_env.store import key_of, read

for file in lab.files(checkpoint):
    print(f"{file.size:6,} bytes  {file.key.removeprefix(key_of(checkpoint) + '/')}")

content = read(lab.endpoints, key_of(checkpoint) + "/offsets/0").decode()
version, kept, ends = content.splitlines()
print("\noffsets/0 holds three lines:")
print("1.", version)
print("2.", ", ".join(json.loads(kept)), "with", len(json.loads(kept)["conf"]), "settings")
print("3.", ends)

# %% [markdown]
# The third line counts: it says for each partition of the topic how far batch 0 went. The second keeps
# settings that must not change from one start to the next, such as the number of shuffle partitions.
#
# A stream runs in [**batches**](../docs/glossary.md#batch), numbered from 0. For each batch N it does four things, in this order:
#
# 1. It decides how far to read, and writes that to `offsets/N`: for each partition the offset where the
#    batch **ends**. (It begins where batch N-1 ended; `sources/0/0` says where the first one began.)
# 2. It reads exactly those records and writes the data files.
# 3. The file sink writes down which files belong to batch N (in `_spark_metadata`, beside the data).
# 4. The stream writes `commits/N`: batch N is done.
#
# The plan is on the store *before* the work, the receipt after it. Remember this order.
#
# Now a stream that keeps running. The trigger `processingTime="1 second"` starts a batch each second
# (or as soon as the last one is done). Meanwhile the shop sends 300 events a second.

# %%
query = json_stream().trigger(processingTime="1 second").start()
lab.replay(topic, skip=4000, n=1200, rate=300)
query.processAllAvailable()  # wait until everything sent so far is written
query.stop()

batches = pd.DataFrame(query.recentProgress).query("numInputRows > 0")
batches = batches.set_index("batchId")[
    ["numInputRows", "inputRowsPerSecond", "processedRowsPerSecond"]
]
batches.round(0)

# %%
from IPython.display import HTML

from lab_env.display.chart import new_chart, svg

figure, axes = new_chart("How fast rows arrive, how fast they are written", "batch", "rows/s")
positions = range(len(batches))
arriving, writing = batches["inputRowsPerSecond"], batches["processedRowsPerSecond"]
axes.bar([p - 0.2 for p in positions], arriving, 0.4, color="#E69F00", label="arrive")
axes.bar([p + 0.2 for p in positions], writing, 0.4, color="#0072B2", label="are written")
axes.set_xticks(positions, batches.index)
axes.legend()
HTML(svg(figure))

# %% proof="The stream read all 1,200 new messages."
assert batches["numInputRows"].sum() == 1200
assert read_json().count() > after_first_run

# %% [markdown]
# The left bar of each pair is the rate at which rows came in since the last batch. The right bar is the
# rate at which this batch got through them. As long as the right bars are higher, the stream keeps up.
# When they stay below the left ones, each batch is larger than the one before, and readers see data
# later and later.
#
# Look at several batches, not at one. A batch costs some tenths of a second before its first row. So a
# small one, at the beginning or the end, has a short right bar although nothing is wrong. Both figures also
# stand in the Spark UI, under *Structured Streaming*.
#
# After an outage of a night, the first batch would hold all of the night. That can be more than the
# machine's memory. So a stream in production has a bound.

# %% [markdown]
# ### Exercise 03.2 · Bound the batch
#
# Start a stream over the whole topic, from its beginning, that never takes more than **800** records
# into one batch, and that ends when all are read. The sink is `noop`, which throws rows away and needs
# no path. Call the running query `bounded`.
#
# The check waits for its end and looks at its batches.

# %% exercise="03.2"
# BEGIN SOLUTION
# PROMPT: bounded = ...
bounded = (
    spark.readStream.format("kafka")
    .options(**source)
    .option("maxOffsetsPerTrigger", 800)
    .load()
    .writeStream.format("noop")
    .trigger(availableNow=True)
    .start()
)
# END SOLUTION
lab.check("03.2", bounded)

# %% [markdown] hint="03.2"
# The dictionary `source` already says where Kafka is and where to begin. One more option of the Kafka
# source is missing.

# %% [markdown] hint="03.2"
# The option is `maxOffsetsPerTrigger`, a number of records over all partitions. The trigger is one of
# those that you have seen in this lesson.

# %% right="03.2"
reader = spark.readStream.format("kafka").options(**source, maxOffsetsPerTrigger="750")
bounded = reader.load().writeStream.trigger(availableNow=True).start(format="noop")
bounded.awaitTermination()

# %% wrong="03.2"
# expect: `awaitTermination()` returns nothing
bounded = None

# %% wrong="03.2"
# expect: does all of it in one batch
bounded = (
    spark.readStream.format("kafka")
    .options(**source)
    .option("maxOffsetsPerTrigger", 800)
    .load()
    .writeStream.format("noop")
    .trigger(once=True)
    .start()
)

# %% wrong="03.2"
# expect: begins at the end of the topic
bounded = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", lab.endpoints.kafka_bootstrap)
    .option("subscribe", topic)
    .option("maxOffsetsPerTrigger", 800)
    .load()
    .writeStream.format("noop")
    .trigger(availableNow=True)
    .start()
)

# %% [markdown]
# ### Exercise 03.3 · Read the checkpoint
#
# Which offsets did **batch 1** of the JSON stream read? Give a dictionary from each partition to the
# first offset and the offset behind the last one: `{0: (100, 150), 1: ...}`.
#
# `spark.read.text(f"{checkpoint}/offsets/0", wholetext=True)` reads a file of the checkpoint into one
# row; its last line is JSON.


# %% exercise="03.3"
# BEGIN SOLUTION
# PROMPT: batch_1 = ...
def ends_of(batch):
    """Where a batch ended, by partition."""
    text = spark.read.text(f"{checkpoint}/offsets/{batch}", wholetext=True).first()["value"]
    return json.loads(text.splitlines()[-1])[topic]


begin, end = ends_of(0), ends_of(1)
batch_1 = {int(partition): (begin[partition], end[partition]) for partition in end}
# END SOLUTION
lab.check("03.3", batch_1)

# %% [markdown] hint="03.3"
# Look at the four steps again: does the file `offsets/N` say where batch N begins, or where it ends?

# %% [markdown] hint="03.3"
# A batch begins where the one before it ended. You need two files.

# %% right="03.3"
reports = [report for report in query.recentProgress if report["batchId"] == 1]
kafka = next(report for report in reports if report["numInputRows"])["sources"][0]
begin, end = kafka["startOffset"][topic], kafka["endOffset"][topic]
batch_1 = {partition: [begin[partition], end[partition]] for partition in end}

# %% right="03.3"
from lab_env.pipeline.checkpoint import read_checkpoint

batch = read_checkpoint(lab.endpoints, checkpoint)[1]
batch_1 = pd.DataFrame({"begin": batch.start, "end": batch.end}).T.to_dict("list")


# %% wrong="03.3"
# expect: That is what batch 2 read
def ends_of(batch):
    text = spark.read.text(f"{checkpoint}/offsets/{batch}", wholetext=True).first()["value"]
    return json.loads(text.splitlines()[-1])[topic]


begin, end = ends_of(1), ends_of(2)
batch_1 = {int(partition): (begin[partition], end[partition]) for partition in end}


# %% wrong="03.3"
# expect: the offset behind the last record
def ends_of(batch):
    text = spark.read.text(f"{checkpoint}/offsets/{batch}", wholetext=True).first()["value"]
    return json.loads(text.splitlines()[-1])[topic]


begin, end = ends_of(0), ends_of(1)
batch_1 = {int(partition): (begin[partition], end[partition] - 1) for partition in end}

# %% [markdown]
# The whole checkpoint as a picture. Each lane is a partition of the topic, from its first offset on the
# left to its last on the right. Each block is what one batch read.

# %%
from lab_env.lessons.l03.figures import draw_batches
from lab_env.pipeline.checkpoint import read_checkpoint

before_crash = read_checkpoint(lab.endpoints, checkpoint)
HTML(draw_batches(before_crash, "Every batch is planned and committed"))

# %% [markdown]
# The stream of dead letters reads the same topic. It has a checkpoint of its own, and it did not run
# while the shop sent the last 1,200 messages. How far is each of the two?

# %%
dead_letter_batches = read_checkpoint(lab.endpoints, lab.path("checkpoints/dead"))
reached = {
    "JSON files": sum(before_crash[-1].end.values()),
    "dead letters": sum(dead_letter_batches[-1].end.values()),
}
reached

# %% name="apart-on-one-topic" proof="The JSON stream went on to 5,200 messages while the dead letters stayed at 4,000."
assert reached == {"JSON files": 5200, "dead letters": 4000}

# %% [markdown]
# ### The machine dies
#
# A crash cannot be ordered to the millisecond, so we make the state that it leaves. Suppose the power
# failed in the last batch between step 2 and step 3: the plan is on the store and the data files are
# written, but neither the sink's list nor the commit. We delete just these two objects. (In lesson 17
# processes are killed for real.)

# %%
from lab_env.store import client

last = before_crash[-1].number
store = client(lab.endpoints)
for receipt in (f"{checkpoint}/commits/{last}", f"{json_path}/_spark_metadata/{last}"):
    store.delete_object(Bucket=lab.endpoints.bucket, Key=key_of(receipt))

HTML(draw_batches(read_checkpoint(lab.endpoints, checkpoint), "After the crash"))

# %% [markdown]
# The last batch has a plan, and nobody says that it was carried out. What does a restart do?
#
# **Predict.** After the restart, how many rows too many does a reader see? Below zero means too few; a
# guess within 10 counts.

# %%
lab.predict("03.p4", ..., tolerance=10)

# %%
restarted = json_stream().trigger(availableNow=True).start()
restarted.awaitTermination()

replayed = restarted.recentProgress[0]
print("first batch of the restart:", replayed["batchId"])
print("it read from", replayed["sources"][0]["startOffset"][topic])
print("          to", replayed["sources"][0]["endOffset"][topic])

# %% [markdown]
# It did the *same* batch again, with the same offsets: the plan was still there. Now count the rows in
# two ways. Spark's reader asks the sink's list first. Any other reader just opens all the files. (We make
# Spark behave like that by naming the folders inside the table.)

# %%
seen_by_list = read_json().count()
all_files = spark.read.json(f"{json_path}/partition_date=*").count()
expected = lab.ledger(topic).reconcile_log(read_json())

print(f"reader that asks the list: {seen_by_list:,} rows")
print(f"reader that opens all files: {all_files:,} rows")
expected

# %%
after_restart = read_checkpoint(lab.endpoints, checkpoint)
lab.record_actual("03.p4", seen_by_list - expected.expected)

# %% name="seen-once" proof="The batch was written again, and only the sink's list shows its events once."
assert after_restart == before_crash  # the same ranges, all committed again
assert expected.ok
assert all_files > seen_by_list  # the files of the batch lie there twice

# %%
HTML(draw_batches(after_restart, f"After the restart: batch {last} once more, now committed"))

# %% [markdown]
# The reader that asks the list sees each event as often as it was sent. The other one counts the last
# batch twice, because the files of the first attempt are still there.
#
# This is what [**exactly once**](../docs/glossary.md#exactly-once) means. Work *is* done twice after a crash. What must not happen is that
# somebody *sees* it twice. Three things together achieve that:
#
# 1. a **source** that can be read again from a given position (Kafka's offsets),
# 2. a **checkpoint** that fixes what belongs to a batch before the work begins,
# 3. a **sink** that recognises a batch which it already has, or which nobody committed.
#
# A checkpoint alone gives only the second. And the file sink keeps its promise only for readers who know
# of `_spark_metadata`. That is a Spark habit; most other engines just list the folder. A Hudi table has
# such a list too, the timeline, and every engine that reads Hudi asks it. This is the first reason for
# lesson 04.

# %% [markdown]
# ## What a stream remembers, and what Flink calls it
#
# The ledger calls some sends *resends*: the same event, with the same `event_id`, sent twice because the
# sender was not sure. The JSON files hold both. Can the stream leave the second one out?
#
# It can, if it remembers which ids it has seen. That memory is called [**state**](../docs/glossary.md#state). Up to now our stream
# had none: each row was handled by itself. Such a query is **stateless**.
#
# Memory must end somewhere, or it grows for ever. So we say how late an event may come, with a
# [**watermark**](../docs/glossary.md#watermark): "when you have seen an event of 12:00, expect nothing older than 11:58".
# `dropDuplicatesWithinWatermark` keeps an id until the watermark is two minutes past its event: when it has seen 12:00, it
# has forgotten the ids from before 11:56. The price of the promise: an event that comes later is *dropped*. So we also
# count those. (Lesson 14 is about watermarks; here we only need this much.)

# %%
bounded_records = (
    spark.readStream.format("kafka").options(**source).option("maxOffsetsPerTrigger", 1300).load()
)
once_path = lab.path("orders_once")
events_once = (
    valid_events(parse(bounded_records))
    .withWatermark("order_ts", "2 minutes")
    .dropDuplicatesWithinWatermark(["event_id"])
)
deduplicated = (
    events_once.writeStream.format("json")
    .option("path", once_path)
    .option("checkpointLocation", lab.path("checkpoints/once"))
    .trigger(availableNow=True)
    .start()
)
deduplicated.awaitTermination()

once = spark.read.json(once_path)
rows_once = once.count()
print(f"JSON files: {seen_by_list:,} rows · deduplicated: {rows_once:,} rows")

# %%
steps = pd.DataFrame(
    [
        {
            "batch": step["batchId"],
            "events so far": step["numInputRows"],
            "ids in memory": step["stateOperators"][0]["numRowsTotal"],
            "lost as too late": step["stateOperators"][0]["numRowsDroppedByWatermark"],
        }
        for step in deduplicated.recentProgress
    ]
).set_index("batch")
steps["events so far"] = steps["events so far"].cumsum()

figure, axes = new_chart("The watermark bounds the memory", "batch", "ids")
axes.plot(
    steps.index,
    steps["events so far"],
    "o--",
    color="#E69F00",
    label="without a watermark: all ids",
)
axes.plot(steps.index, steps["ids in memory"], "o-", color="#0072B2", label="with one: recent ids")
axes.legend()
HTML(svg(figure))

# %% name="bounded-memory" proof="Each event is there once, and the state holds less than 70 percent of all ids."
distinct = read_json().select("event_id").distinct().count()
assert rows_once == distinct < seen_by_list  # every event once, none lost
assert steps["lost as too late"].sum() == 0
assert steps["ids in memory"].max() < 0.7 * steps["events so far"].max()

# %% [markdown]
# (The dashed line is computed: without a watermark, no id could ever be forgotten.)
#
# The price: state has to survive a crash, so it is part of the checkpoint. And rows with equal ids must
# meet in one place, so Spark sends every row to the partition that its `event_id` hashes to, a
# [**shuffle**](../docs/glossary.md#shuffle). Both show, in the files and in the plan:


# %%
def checkpoint_files(name):
    """Number of files in each folder of a checkpoint."""
    path = lab.path(f"checkpoints/{name}")
    inside = [file.key.removeprefix(key_of(path) + "/") for file in lab.files(path)]
    return pd.Series([name.split("/")[0] for name in inside]).value_counts()


counts = {"stateless": checkpoint_files("json"), "with state": checkpoint_files("once")}
pd.DataFrame(counts).fillna(0).astype(int)

# %%
import contextlib
import io


def steps_of(stream):
    """The steps of a stream's plan, the last one first, as `explain()` prints them."""
    with contextlib.redirect_stdout(io.StringIO()) as plan:
        stream.explain()
    return re.findall(r"^[\s:+\-*()\d]*([A-Z]\w+)", plan.getvalue(), re.MULTILINE)


for name, stream in {"stateless": valid_events(parse(records)), "with state": events_once}.items():
    print(f"{name:11}", " <- ".join(steps_of(stream)))

# %% proof="Only the stream with state shuffles and keeps state files."
assert "Exchange" not in steps_of(valid_events(parse(records)))
assert "Exchange" in steps_of(events_once)  # the shuffle
assert "state" not in checkpoint_files("json") and checkpoint_files("once")["state"] > 5

# %% [markdown]
# (`Generate` is where the JSON is parsed.) The Spark UI draws the plan of each batch that ran, with the
# rows that went through each step. Open the first address and choose a query of the last stream;
# `Exchange` is where its graph is cut into two stages. The second address has the rates. (They answer
# until the last cell stops the session.)

# %%
for page in ("SQL", "StreamingQuery"):
    print(f"{spark.sparkContext.uiWebUrl}/{page}/")

# %% [markdown]
# **When not to use it.** If the sink is a table with keys, a resend updates its own row, and readers see no
# difference. Such a write is called an [**upsert**](../docs/glossary.md#upsert). It needs no memory in the stream, and it has no limit of
# two minutes. The course's pipeline does that, from lesson 04 on. Keep state for sinks that can only
# append.

# %% [markdown]
# ### From Flink to Spark
#
# The articles behind this course use Apache Flink. If you come from there, these are the words. The last
# column says where the two are *not* the same.
#
# | Flink | Spark Structured Streaming | not equivalent, because |
# |---|---|---|
# | one record at a time | a batch of records at each trigger | Spark's delay is at least one batch; but Flink's exactly-once sinks wait for a checkpoint too |
# | checkpoint (each 60 s, say) | `offsets/N` and `commits/N`, one checkpoint a batch | in Flink its interval is set apart from the flow; in Spark the trigger sets both |
# | savepoint | none | in Spark, stop the query and keep its checkpoint; after a change of the state's shape, it must start anew |
# | parallelism (of each operator) | tasks: one for each Kafka partition (more with `minPartitions`), and `spark.sql.shuffle.partitions` after a shuffle | with state, Spark fixes the number of shuffle partitions in the checkpoint; Flink can rescale from a savepoint |
# | task slot, KPU | core | a Flink slot holds its operators for the life of the job; Spark lends a core to one task after the other. A KPU is Amazon's unit of billing: 1 vCPU and 4 GB |
# | watermark | `withWatermark` | Flink: one for each source partition, moving all the time; Spark: one for the query, moving between batches |
# | exactly-once sink (two-phase commit) | a sink that recognises a batch by its number | Flink's becomes visible at the checkpoint, Spark's at the end of the batch |
# | backpressure | none inside a batch; `maxOffsetsPerTrigger` | Flink slows the source down by itself; in Spark you choose the bound, and the backlog waits in Kafka |
#
# > **Documented, not measured.** The course runs no Flink, so Flink's side of the table is not measured
# > here. Read on in the documentation of Flink ("Checkpoints vs. Savepoints", "Generating Watermarks", "Fault Tolerance Guarantees"), of Spark
# > 3.5 ("Structured Streaming Programming Guide") and of Amazon's Managed Service for Apache Flink
# > ("Review application resources"), November 2026. What it says about Spark's checkpoint, batches, bound
# > and state you have just measured.

# %% [markdown]
# ## Key points
#
# - Jars are chosen when the JVM starts. A missing one says `Failed to find data source`, one of another
#   version says `NoSuchMethodError`, both only at the first use.
# - A stream without `startingOffsets` begins at the end of the topic, a batch read at its beginning. With a checkpoint,
#   the checkpoint decides.
# - Bad JSON becomes a row of nulls. Test each required field, keep what fails as dead letters, and let
#   the two filters be opposites.
# - `offsets/N` is written before a batch, `commits/N` after it. A batch without a commit is done again,
#   with the same records.
# - Exactly once takes a source that can be read again, a checkpoint, and a sink that recognises a batch.
# - State makes a stream remember, at the price of a shuffle and of files in the checkpoint. A watermark
#   bounds it.
#
# ## What's next
#
# Your stream now reads everything, loses nothing, and sets aside what is broken. But its files hold one
# line for each *event*: an order that was created, paid and shipped is there three times, and nothing
# can be changed. Lesson 04 makes a table of it.

# %%
spark.stop()
