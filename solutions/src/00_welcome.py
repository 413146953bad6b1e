# ---
# title: What is a streaming lakehouse, and what will I build?
# minutes: {teach: 12, do: 8}
# needs: []
# services: [minio, kafka]
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 00 · What is a streaming lakehouse, and what will I build?
#
# ## Questions
#
# - What happens between an order in a shop and a row in a table that anyone can query?
# - What does a table on an object store consist of?
# - How will I know that nothing was lost on the way?
#
# ## Objectives
#
# At the end of this lesson you can
#
# - say which files of a Hudi table a query of its newest state reads (00.1),
# - find the write that made a file (00.2),
# - tell when a change became visible to readers (00.3).
#
# You will also have opened the pages of the lab, and asked the ledger what arrived of a live load.
#
# ## What you need
#
# Python and a little SQL. Twenty minutes.

# %% [markdown]
# ## Start
#
# Each lesson begins with this cell. It starts the services if they are not running, and clears what
# an earlier run of *this* lesson left behind. Other lessons' tables are not touched.

# %%
from lab_env import Lab

lab = Lab.start("00")
lab

# %% [markdown]
# These are real servers on your machine: the object store is MinIO, which speaks Amazon's S3
# protocol, and the broker is Apache Kafka. They run outside this notebook. When you restart the
# kernel, they stay. The MinIO console shows every object that this course writes; user and password
# stand in the file `secrets.json` of the lab's folder (`.lab`, if you have not set another).
#
# Here is what the course builds with them, drawn with the addresses of your own lab:

# %%
lab.architecture()

# %% [markdown]
# Read it from left to right. [**Locust**](../docs/glossary.md#locust) plays the shop's customers and sends *order events*: an order
# is created, updated, cancelled, or erased because the customer asks for it. **Kafka** keeps the
# events of one order in order. **Spark** reads them as a stream and writes them three times: as plain JSON files,
# and as two **Hudi** tables, one of each type that Hudi has. A [**lakehouse**](../docs/glossary.md#lakehouse) is this last part: tables
# with keys, updates and history, made of ordinary files on an object store.

# %% [markdown]
# ## A first table
#
# The course works with PySpark. This cell starts Spark, which takes a few seconds.

# %%
spark = lab.spark
print("Spark", spark.version, "· its own page:", spark.sparkContext.uiWebUrl)

# %% [markdown]
# Three orders, as a DataFrame. `order_ts` says when the order changed last, `partition_date` on which
# day it was created.

# %%
orders = spark.sql("""
    SELECT * FROM VALUES
        ('O-1', 'C-17', 'new', CAST(129.90 AS DECIMAL(12,2)),
         TIMESTAMP '2026-11-20 09:15:00', '2026-11-20'),
        ('O-2', 'C-03', 'new', CAST( 49.50 AS DECIMAL(12,2)),
         TIMESTAMP '2026-11-20 09:16:00', '2026-11-20'),
        ('O-3', 'C-17', 'new', CAST( 15.00 AS DECIMAL(12,2)),
         TIMESTAMP '2026-11-21 08:02:00', '2026-11-21')
    AS orders(order_id, customer_id, status, amount, order_ts, partition_date)
""")
orders.show()

# %% [markdown]
# To write them as a Hudi table, we say three things about the rows:
#
# - the [**record key**](../docs/glossary.md#record-key) tells which row an order is: `order_id`;
# - the [**ordering field**](../docs/glossary.md#ordering-field) tells which version of it wins: the one with the highest `order_ts`;
# - the [**partition path**](../docs/glossary.md#partition-path) tells in which folder it lies: one for each `partition_date`.
#
# **Predict:** three rows, in two partitions. How many objects will be on the store after this write?
# Put your guess in place of the dots; it counts when it is at most 5 off.

# %%
my_guess = ...
lab.predict("00.p1", my_guess, tolerance=5)

# %%
table_options = {
    "hoodie.table.name": "orders",
    "hoodie.datasource.write.recordkey.field": "order_id",
    "hoodie.table.ordering.fields": "order_ts",
    "hoodie.datasource.write.partitionpath.field": "partition_date",
    "hoodie.datasource.write.hive_style_partitioning": "true",
}
path = lab.path("orders")

orders.write.format("hudi").options(**table_options).mode("append").save(path)

# %% [markdown]
# `lab.xray` draws a table from the names of its objects alone, without Spark:

# %%
after_insert = lab.xray(path)
after_insert

# %%
lab.record_actual("00.p1", after_insert.objects)

# %%
after_insert.parts()

# %% proof="The first write made one data file per partition, and over ten objects in all."
assert len(after_insert.files) == 2  # one data file in each partition
assert after_insert.objects > 10  # most people say 1, 2 or 3

# %% [markdown]
# Most people expect two or three objects. The rows do lie in just two Parquet files (`base`), one in
# each partition. The other objects are the table's own bookkeeping under `.hoodie`: the [**timeline**](../docs/glossary.md#timeline),
# which names every write, the [**metadata table**](../docs/glossary.md#metadata-table), which saves readers from listing folders, and the
# table's settings. The bookkeeping is what makes a folder of files a table.
#
# In the drawing, time goes from left to right. Each dot is an [**instant**](../docs/glossary.md#instant): one write that the timeline
# names. Below it stand the files that this write made.
#
# Now we read it back. Hudi has added columns of its own, whose names begin with `_hoodie`.

# %%
table = spark.read.format("hudi").load(path)
columns = ["_hoodie_commit_time", "order_id", "status", "amount", "partition_date"]
table.select(columns).orderBy("order_id").show()

# %% [markdown]
# ## An update
#
# Order O-1 is paid. On plain files we would have to find the row and rewrite the file ourselves. Here
# we write the one changed row, with the same options: Hudi finds the row by its key. Such a write is
# called an [**upsert**](../docs/glossary.md#upsert), because it updates or inserts.
#
# **Predict:** how many rows will the table have, and how many data files? Choose one of the four.

# %%
my_guess = ...
COUNTS = ("3 rows, 2 files", "3 rows, 3 files", "4 rows, 2 files", "4 rows, 3 files")
lab.predict("00.p2", my_guess, choices=COUNTS)

# %%
from pyspark.sql import functions as F

paid = (
    orders.where("order_id = 'O-1'")
    .withColumn("status", F.lit("paid"))
    .withColumn("order_ts", F.expr("order_ts + INTERVAL 5 MINUTES"))
)
paid.write.format("hudi").options(**table_options).mode("append").save(path)

table = spark.read.format("hudi").load(path)
table.select("_hoodie_commit_time", "order_id", "status", "amount").orderBy("order_id").show()

# %%
after_update = lab.xray(path, since=after_insert)
after_update

# %%
rows = table.count()
lab.record_actual("00.p2", f"{rows} rows, {len(after_update.files)} files")

# %% proof="The update changed O-1 to paid: still three rows, now three data files."
assert rows == 3  # an update, not a fourth row
assert table.where("order_id = 'O-1'").first()["status"] == "paid"
assert len(after_update.files) == 3

# %% [markdown]
# Still three rows, but three data files. Hudi never changes a data file that it has written. The update wrote
# a *new* file for the partition of O-1 and left the old one where it was. The versions of one such file
# are called a [**file group**](../docs/glossary.md#file-group), and each version a [**file slice**](../docs/glossary.md#file-slice). What is new since the first picture
# has an amber edge.
#
# ### Exercise 00.1 · What a reader opens
#
# Somebody counts the rows of the table now. Which data files does the query open? Give a list of their
# names. The picture shows which frames count, and the column `_hoodie_file_name` of `table` says for
# each row in which file it lies. (The X-ray knows the names, too: `after_update.current`.)

# %% exercise="00.1"
files_opened = {row["_hoodie_file_name"] for row in table.collect()}  # SOLUTION
lab.check("00.1", files_opened)

# %% [markdown] hint="00.1"
# A query of the newest state reads the newest version in each file group. Which frames of the picture
# are those?

# %% [markdown] hint="00.1"
# Dashed frames hold older versions. `table.select("_hoodie_file_name").distinct()` gives the names of
# the files that hold the rows which you see.

# %% right="00.1"
files_opened = table.select("_hoodie_file_name").distinct()

# %% right="00.1"
files_opened = {file.name for part in after_update.current for file in part.files}

# %% right="00.1"
files_opened = table.select(F.input_file_name().alias("path")).distinct().toPandas()["path"]

# %% wrong="00.1"
# expect: one of them is an older version
files_opened = [file.name for file in after_update.files]

# %% wrong="00.1"
# expect: You name 1 of the 2 files
files_opened = [file.name for file in after_update.new_files]

# %% wrong="00.1"
# expect: A list is expected
files_opened = 2

# %% [markdown] tags=["instructor"]
# *For instructors.* Three minutes. Most people name all three files. Draw two boxes for the two file groups and put
# the old and the new version into the first one. Ask what would go wrong for a reader that opened all
# three: it would see O-1 and O-2 twice.

# %% [markdown]
# When you are stuck, `lab.hint("00.1")` helps, one hint at a time. After your first attempt,
# `lab.solution("00.1")` shows an answer. `lab.progress()` shows how far you are in the course.
#
# ### Exercise 00.2 · Which write made this file?
#
# Look at the partition of 2026-11-21. When was the write requested that made its current file? Give the
# time of day as the picture shows it, for example `"09:15:00.705"`.

# %% exercise="00.2"
requested_at = after_update.instants[0].requested  # SOLUTION
lab.check("00.2", requested_at)

# %% [markdown] hint="00.2"
# A file stands under the instant that wrote it.

# %% right="00.2"
requested_at = after_insert.commit().requested

# %% right="00.2"
requested_at = int(table.where("order_id = 'O-3'").first()["_hoodie_commit_time"])

# %% wrong="00.2"
# expect: did not touch this partition
requested_at = after_update.instants[1].requested

# %% wrong="00.2"
# expect: when that write was complete
requested_at = after_update.instants[0].completed

# %% [markdown]
# ### Exercise 00.3 · Since when is O-1 paid, for a reader?
#
# A colleague queries the table all day long. From which moment on could a query show O-1 as paid? Give
# the time as before.

# %% exercise="00.3"
visible_from = after_update.instants[1].completed  # SOLUTION
lab.check("00.3", visible_from)

# %% [markdown] hint="00.3"
# A write takes time. While it goes on, its files lie on the store already, but no reader may use them.

# %% [markdown] hint="00.3"
# Each instant has two times. One says when the write was asked for, the other when it was done.

# %% right="00.3"
from lab_env.xray.captions import clock

visible_from = clock(after_update.instants[1].completed)

# %% right="00.3"
from lab_env.hudi.timeline import to_datetime

visible_from = to_datetime(after_update.instants[1].completed)

# %% wrong="00.3"
# expect: That is when the write was requested
visible_from = after_update.instants[1].requested

# %% wrong="00.3"
# expect: That write brought the order as new
visible_from = after_update.instants[0].completed

# %% [markdown]
# Until the table is cleaned (lesson 07), the old file is still there, so the past can be queried too:

# %%
first_commit = table.agg(F.min("_hoodie_commit_time")).first()[0]
before_payment = spark.read.format("hudi").option("as.of.instant", first_commit).load(path)
before_payment.select("order_id", "status").orderBy("order_id").show()

# %% proof="As of the first commit, no order is paid."
assert before_payment.where("status = 'paid'").count() == 0

# %% [markdown]
# ## Live load, and the ledger
#
# Three rows are easy to count by hand. A stream is not. So the load generator keeps a [**ledger**](../docs/glossary.md#ledger): it
# writes down each event that it hands to Kafka, and what the broker answered. The ledger lies outside
# Kafka and Spark. In later lessons it decides which rows a table lacks, has twice, or shows in an old
# version.
#
# Six seconds of customers, 300 events a second:

# %%
topic = lab.topic("orders")
with lab.load(topic, rate=300, seconds=6) as load:
    pass

# %%
lab.ledger(topic)

# %% [markdown]
# The shop makes trouble on purpose, as real ones do: some events arrive *late*, some twice (a *resend*),
# and some are *malformed*. How many messages does Kafka hold? Spark can read the topic as a table:

# %%
in_kafka = (
    spark.read.format("kafka")
    .option("kafka.bootstrap.servers", lab.endpoints.kafka_bootstrap)
    .option("subscribe", topic)
    .load()
)
in_kafka.selectExpr("partition", "offset", "CAST(key AS STRING)", "CAST(value AS STRING)").show(
    5, truncate=70
)

# %%
acknowledged = (lab.ledger(topic).frame()["state"] == "acked").sum()
messages = in_kafka.count()
print(f"ledger: {acknowledged:,} acknowledged · Kafka: {messages:,} messages")

# %% proof="Kafka holds exactly the messages that the ledger counts as acknowledged."
assert acknowledged == messages > 1000

# %% [markdown]
# The two numbers agree. That is the promise the whole course keeps: after each lesson, what went in
# and what can be read add up, to the event.

# %% [markdown]
# ## Key points
#
# - A Hudi table is a folder of ordinary files and a timeline that says which of them count.
# - A record key, an ordering field and a partition path turn rows into a table that can be updated.
# - An upsert writes new files and leaves the old ones. So the past can be queried, until cleaning.
# - Readers see a write from the moment when it is complete, not before.
# - The ledger of the load generator tells, from outside, what must be in the tables.
#
# ## What's next
#
# Lesson 01 builds the load generator. `make tour`, in a terminal, runs the finished pipeline on live
# load and checks it against the ledger: about three minutes, and the best picture of where this course
# leads.

# %%
spark.stop()
