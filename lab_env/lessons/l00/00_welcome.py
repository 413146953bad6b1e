# ---
# title: What is a streaming lakehouse, and what will I build?
# minutes: {teach: 14, do: 16}
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
# A shop has one board on its wall: **revenue by status, right to the cent, as fresh as can be**. The cell
# below computes it from one hour of recorded orders, in plain Python.
#
# **Shift+Enter runs a cell and moves to the next one.** Press it here, then again at the cell.

# %%
from IPython.display import HTML

from lab_env.lessons.l00.figures import draw_board, draw_tour
from lab_env.shop.board import board_as_sent
from lab_env.shop.record import recording

HTML(draw_board(board_as_sent(recording())))

# %% [markdown]
# With an hour of messages in memory that is easy. But messages never end; some arrive late, twice or broken; customers
# ask to be forgotten; and many programs read the orders while they change. So we need a log that keeps the messages, and
# a table for all these programs.
#
# ## Questions
#
# - How does an order in a shop become a row in a table that anyone can query?
# - What does a table on an object store consist of?
# - How will I know that nothing was lost on the way?
#
# ## Objectives
#
# At the end of this lesson you can
#
# - change one row of a table on an object store, by its key (00.1),
# - read a table as it was at an earlier moment (00.2),
# - compute the shop's board from a table that a live load has filled (00.3).
#
# ## What you need
#
# Python and a little SQL. 30 minutes.

# %% [markdown]
# ## Start
#
# Every lesson begins with this cell. It starts the services if they are not running, and deletes what an earlier run of
# *this* lesson left behind.

# %%
from lab_env import Lab

lab = Lab.start("00")
lab

# %% [markdown]
# These are real servers on your machine: the object store is MinIO, which speaks Amazon's S3 protocol, and the broker is
# Apache Kafka. They outlive this notebook's kernel. The MinIO console shows every object that the course writes; its user
# and password are in `.lab/secrets.json`. Here is what the course builds:

# %%
lab.architecture()

# %% [markdown]
# From left to right: [**Locust**](../docs/glossary.md#locust) plays the shop's customers and sends *order events*: an order
# is created, updated, cancelled, or erased at the customer's wish. **Kafka** stores the events and keeps those of each
# order in sequence. **Spark** reads them as a stream and writes them to JSON files and to two Hudi tables, one of each type
# (lesson 05). **Apache Hudi** is a library with which Spark writes ordinary Parquet files as a table whose rows have keys.
#
# Tables with transactions, updates and a history, made of ordinary files on an object store, are a
# [**lakehouse**](../docs/glossary.md#lakehouse). It is a *streaming* lakehouse if streams write it all day.

# %% [markdown]
# ## A first table
#
# This cell starts Spark, which takes a few seconds, and makes three orders. `order_ts` is the time of an order's last
# change, `partition_date` the day of its creation.

# %%
spark = lab.spark
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
# To write them as a Hudi table, we name three columns:
#
# - the [**record key**](../docs/glossary.md#record-key) identifies the row of an order: `order_id`;
# - the [**ordering field**](../docs/glossary.md#ordering-field) decides which version of the row wins: the one with the
#   highest `order_ts`;
# - the [**partition path**](../docs/glossary.md#partition-path) decides in which folder a row is stored: one per
#   `partition_date`.
#
# **Predict:** into how many data files does this write put the three rows? Put your guess in place of the dots.

# %%
lab.predict("00.p1", ..., tolerance=0)

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
# `lab.xray` draws a table without Spark, from the names of its objects and the small files of its timeline. Time goes
# from left to right:

# %%
after_insert = lab.xray(path)
lab.record_actual("00.p1", len(after_insert.files))
after_insert

# %% [markdown]
# The write has made more than that. `parts` counts all objects below the table's path:

# %%
after_insert.parts()

# %% proof="The first write made one data file per partition, and over ten objects in all."
assert len(after_insert.files) == 2  # one data file in each partition
assert after_insert.objects > 10

# %% [markdown]
# The last cell was a *proof*: it states what the cells above have shown, and asserts it on your data.
#
# The rows are in two [**base files**](../docs/glossary.md#base-file), one in each partition. A base file is a Parquet
# file, which stores rows column by column. All other objects are bookkeeping, nearly all of it under `.hoodie`: the
# [**timeline**](../docs/glossary.md#timeline), which names every write, the [**metadata
# table**](../docs/glossary.md#metadata-table), which saves readers from listing folders, and the table's settings. This
# bookkeeping turns a folder of files into a table.
#
# Each dot of the drawing is an [**instant**](../docs/glossary.md#instant): one action on the timeline, such as a write.
# Below it are the files that this action made.
#
# Now we read the table back. The columns whose names begin with `_hoodie` are Hudi's own.

# %%
table = spark.read.format("hudi").load(path)
columns = ["_hoodie_commit_time", "order_id", "status", "amount", "partition_date"]
table.select(columns).orderBy("order_id").show()

# %% [markdown] tags=["instructor"]
# *For instructors.* 8 minutes. Most people say one file or three. Before `parts` runs, ask how many objects there are in
# all. Ask what each folder is for before anybody reads the text.

# %% [markdown]
# ## An update
#
# Order O-1 is paid. On plain files we would have to find the row and rewrite its file ourselves. To a Hudi table we write
# the changed row, and Hudi finds the old one by its key. Such a write is called an
# [**upsert**](../docs/glossary.md#upsert): it updates a row, or inserts one.
#
# ### Exercise 00.1 · An order is paid
#
# Complete the function. It writes once; afterwards the table at `path` shows one order as `paid`, with an `order_ts` five
# minutes later than before, and every other order as it was. The columns of an order are `orders.columns`.
#
# Two methods of a DataFrame help. `where` keeps rows. `withColumn` adds or replaces a column, by a constant (`F.lit`) or
# by an expression in SQL (`F.expr`):
#
# ```python
# table.where(F.col("amount") < 50).withColumn("amount", F.expr("amount * 0.9"))
# ```
#
# You can use SQL as well: `orders.createOrReplaceTempView("all_orders")` gives a DataFrame a name for `spark.sql`.

# %% exercise="00.1"
from pyspark.sql import functions as F


def pay(order_id, path):
    """Write one order of the table at `path` back as paid, five minutes later."""
    # BEGIN SOLUTION
    table = spark.read.format("hudi").load(path).select(orders.columns)
    paid = (
        table.where(F.col("order_id") == order_id)
        .withColumn("status", F.lit("paid"))
        .withColumn("order_ts", F.expr("order_ts + INTERVAL 5 MINUTES"))
    )
    paid.write.format("hudi").options(**table_options).mode("append").save(path)
    # END SOLUTION


lab.check("00.1", pay)

# %% [markdown] hint="00.1"
# Four steps: the read of the section before with `.select(orders.columns)`, `.where(...)` for the one
# order, `.withColumn(...)` for each of the two columns, and the write.

# %% [markdown] hint="00.1"
# The new values are `F.lit("paid")` and `F.expr("order_ts + INTERVAL 5 MINUTES")`. The mode is `"append"`:
# add a write to the table.


# %% right="00.1"
# In SQL, if that is how your team reads changes.
def pay(order_id, path):
    spark.read.format("hudi").load(path).createOrReplaceTempView("all_orders")
    paid = spark.sql(f"""
        SELECT order_id, customer_id, 'paid' AS status, amount,
               order_ts + INTERVAL 5 MINUTES AS order_ts, partition_date
        FROM all_orders WHERE order_id = '{order_id}'
    """)
    paid.write.save(path, format="hudi", mode="append", **table_options)


# %% wrong="00.1"
# expect: are gone
def pay(order_id, path):
    table = spark.read.format("hudi").load(path).select(orders.columns)
    paid = table.where(F.col("order_id") == order_id).withColumn("status", F.lit("paid"))
    paid = paid.localCheckpoint()
    paid.write.format("hudi").options(**table_options).mode("overwrite").save(path)


# %% wrong="00.1"
# expect: Make it five minutes later
def pay(order_id, path):
    table = spark.read.format("hudi").load(path).select(orders.columns)
    paid = table.where(F.col("order_id") == order_id).withColumn("status", F.lit("paid"))
    paid = paid.withColumn("order_ts", F.expr("order_ts + INTERVAL 5 HOURS"))
    paid.write.format("hudi").options(**table_options).mode("append").save(path)


# %% wrong="00.1"
# expect: ' in the table
def pay(order_id, path):
    paid = orders.where(F.col("order_id") == order_id).withColumn("status", F.lit("paid"))
    paid = paid.withColumn("order_ts", F.expr("order_ts + INTERVAL 5 MINUTES"))
    paid.write.format("hudi").options(**table_options).mode("append").save(path)


# %% wrong="00.1"
# expect: other orders, too
def pay(order_id, path):
    table = spark.read.format("hudi").load(path).select(orders.columns)
    paid = table.withColumn("status", F.lit("paid"))
    paid = paid.withColumn("order_ts", F.expr("order_ts + INTERVAL 5 MINUTES"))
    paid.write.format("hudi").options(**table_options).mode("append").save(path)


# %% wrong="00.1"
# expect: other orders, too
def pay(order_id, path):
    rows = spark.read.format("hudi").load(path).select(orders.columns)
    paid = rows.where(F.col("order_id").contains(order_id)).withColumn("status", F.lit("paid"))
    paid = paid.withColumn("order_ts", F.expr("order_ts + INTERVAL 5 MINUTES"))
    paid.write.format("hudi").options(**table_options).mode("append").save(path)


# %% equivalent="00.1"
# without .select(orders.columns): Hudi replaces its own columns at each write
# without .format('hudi'): it reads older versions, too, and the ordering field drops them
# without .options(table_options): the table keeps its keys
# without **table_options in paid.write.format('hudi').options: the table keeps its keys

# %% [markdown]
# If you are stuck, `lab.hint("00.1")` gives one hint at a time. After your first attempt, `lab.solution("00.1")` shows
# an answer. Later cells use your answer; without one, `lab.use_reference` supplies ours.

# %%
lab.use_reference("00.1")

# %% [markdown]
# **Predict:** after the payment, how many data files will the store have, and how many of them does a query of the newest
# state open?

# %%
COUNTS = ("2 files, 2 opened", "3 files, 1 opened", "3 files, 2 opened", "3 files, 3 opened")
lab.predict("00.p2", ..., choices=COUNTS)

# %%
pay("O-1", path)

table = spark.read.format("hudi").load(path)
table.select(columns).orderBy("order_id").show()

# %%
after_update = lab.xray(path, since=after_insert)
rows, opened = table.count(), len(after_update.current)
lab.record_actual("00.p2", f"{len(after_update.files)} files, {opened} opened")
after_update

# %% proof="The update changed O-1 to paid: still three rows, now three data files."
assert rows == 3  # an update, not a fourth row
assert table.where("order_id = 'O-1'").first()["status"] == "paid"
assert len(after_update.files) == 3

# %% [markdown]
# Still three rows, but three data files. Hudi never changes a data file that it has written. The update wrote a *new* file
# for the partition of O-1 and left the old one where it was. The versions of one such file are a [**file
# group**](../docs/glossary.md#file-group), and each version is a [**file slice**](../docs/glossary.md#file-slice). New
# files have an amber edge. A query of the newest state opens only those in solid frames.
#
# Look at the timeline above the files. Each instant has **two times**. *Requested* is when the write began. The names of
# its files carry this time, and so do the rows that it changed (`_hoodie_commit_time`). O-2 was only copied into the new
# file, so it keeps its old time. *Completed* is when the write was done. In between, its files appear on the store, but no
# reader may use them:
#
# | moment | what a query shows of O-1 |
# |---|---|
# | between requested and completed | new, even if the paid row is on the store already |
# | after it is completed | paid |
#
# Hudi names an instant by its requested time; whether it is completed decides whether a query may use it.
#
# ### Exercise 00.2 · What did the table say before?
#
# The old file stays until the table is cleaned (lesson 07), so we can query the past. Complete the function: it returns the
# rows of the table at `path` as of an instant, named by its **requested** time. Hudi's page on [batch
# reads](https://hudi.apache.org/docs/reading_tables_batch_reads) shows how.


# %% exercise="00.2"
def as_of(instant, path):
    """The rows of the table at `path` as of an instant, as a DataFrame."""
    # BEGIN SOLUTION
    return spark.read.format("hudi").option("as.of.instant", instant).load(path)
    # END SOLUTION


lab.check("00.2", as_of)

# %% [markdown] hint="00.2"
# It is the read of `pay` with one more option, `as.of.instant`: `.option(name, value)` before `.load(path)`.


# %% right="00.2"
# Options as keywords of `load`: one line where they are few.
def as_of(instant, path):
    return spark.read.load(path, format="hudi", **{"as.of.instant": instant})


# %% wrong="00.2"
# expect: as a DataFrame of Spark
def as_of(instant, path):
    return spark.read.option("as.of.instant", instant).format("hudi").load(path).toPandas()


# %% wrong="00.2"
# expect: your rows have no O-1
def as_of(instant, path):
    table = spark.read.format("hudi").load(path)
    return table.where(F.col("_hoodie_commit_time") <= instant)


# %% wrong="00.2"
# expect: Does your function read the table at `path`?
def as_of(instant, path):
    return spark.read.format("hudi").option("as.of.instant", instant).load(lab.path("orders"))


# %% wrong="00.2"
# expect: That is the newest state
def as_of(instant, path):
    return spark.read.format("hudi").load(path)


# %%
lab.use_reference("00.2")

# %%
insert, update = after_update.instants[0], after_update.instants[-1]
before = as_of(insert.requested, path)
before.select("order_id", "status").orderBy("order_id").show()

# %% proof="As of the first commit, no order is paid; as of the second, O-1 is."
assert before.where("status = 'paid'").count() == 0
assert as_of(update.requested, path).where("status = 'paid'").count() == 1

# %% [markdown] tags=["instructor"]
# *For instructors.* 12 minutes. In 00.1 half of the room forgets `where`, and pays for
# everybody: let the card tell them. For 00.p2 most people say two files. Draw two boxes for the two file
# groups and put the old and the new version into the first one. Ask what a reader that opened all three
# would see: O-1 and O-2 twice. Short of time: give 00.2 away, and keep the two times.

# %% [markdown]
# ## Live load, the ledger, and the board
#
# We can count three rows by hand, but not a stream. So the load generator keeps a
# [**ledger**](../docs/glossary.md#ledger), outside Kafka and Spark: each event that it hands to Kafka, and the broker's
# answer. The ledger tells which rows are missing, duplicated or out of date.
#
# Six seconds of customers, 300 events per second:

# %%
topic = lab.topic("orders")
with lab.load(topic, rate=300, seconds=6) as load:
    pass

lab.ledger(topic)

# %% [markdown]
# The shop misbehaves as real ones do: some events arrive *late*, some twice (a *resend*), and some are *malformed*. How
# many messages does Kafka hold? A [**topic**](../docs/glossary.md#topic) is a log of messages, cut into partitions, which
# Spark can read as a table:

# %%
in_kafka = (
    spark.read.format("kafka")
    .option("kafka.bootstrap.servers", lab.endpoints.kafka_bootstrap)
    .option("subscribe", topic)
    .load()
)
in_kafka.select("partition", "offset", F.col("value").cast("string")).show(5, truncate=90)

acknowledged = (lab.ledger(topic).frame()["state"] == "acked").sum()
messages = in_kafka.count()
print(f"ledger: {acknowledged:,} acknowledged · Kafka: {messages:,} messages")

# %% proof="Kafka holds exactly the messages that the ledger counts as acknowledged."
assert acknowledged == messages > 1000

# %% [markdown]
# The two numbers agree. The whole course keeps these accounts: what went in and what can be read agree, to the event.
#
# ### Exercise 00.3 · The board
#
# Complete the function: it computes the shop's board, with the columns `status` and `revenue`, from a DataFrame of orders.


# %% exercise="00.3"
def revenue_by_status(rows):
    """One row per status: `status` and `revenue`."""
    # BEGIN SOLUTION
    return rows.groupBy("status").agg(F.sum("amount").alias("revenue"))
    # END SOLUTION


lab.check("00.3", revenue_by_status)

# %% [markdown] hint="00.3"
# In SQL it would be `SELECT status, sum(amount) AS revenue FROM ... GROUP BY status`. A DataFrame has
# `groupBy` and `agg`.

# %% harmless="00.3"
# a column more: the board shows two columns, by their names


# %% right="00.3"
# In SQL; `{rows}` needs no view.
def revenue_by_status(rows):
    query = "SELECT status, sum(amount) AS revenue FROM {rows} GROUP BY status ORDER BY status"
    return spark.sql(query, rows=rows)


# %% wrong="00.3"
# expect: it has the number of orders
def revenue_by_status(rows):
    return rows.groupBy("status").agg(F.count("amount").alias("revenue"))


# %% wrong="00.3"
# expect: not the sum of all
def revenue_by_status(rows):
    return rows.groupBy("status").agg(F.sum_distinct("amount").alias("revenue"))


# %% wrong="00.3"
# expect: `revenue` is a double
def revenue_by_status(rows):
    money = F.sum(rows.amount.cast("double"))
    return rows.groupBy("status").agg(money.alias("revenue"))


# %% wrong="00.3"
# expect: as a DataFrame of Spark
def revenue_by_status(rows):
    return rows.toPandas().groupby("status")["amount"].sum().to_frame("revenue")


# %%
lab.use_reference("00.3")

# %% [markdown]
# `parsing`, from the finished pipeline, turns the valid messages into typed rows (lesson 03). How many are there for how
# many orders?

# %%
from lab_env.pipeline import parsing

events = parsing.valid_events(parsing.parse(in_kafka))
ids = [event.order_id for event in events.collect()]
print(f"{len(ids):,} valid messages of {len(set(ids)):,} orders")

# %% [markdown]
# We compute one board from these messages as they are. For the other we first write them into a Hudi table, with the
# options from above.
#
# **Predict:** how many times the table's revenue does the messages' board show?

# %%
TIMES = ("the same", "up to 1.2 times", "1.2 to 2 times", "over 2 times")
lab.predict("00.p3", ..., choices=TIMES)

# %%
live_path = lab.path("live_orders")
erasures_marked = parsing.with_deletes(events)  # an erasure deletes its row: lesson 04
erasures_marked.write.format("hudi").options(**table_options).mode("append").save(live_path)

live_orders = spark.read.format("hudi").load(live_path)
board = revenue_by_status(live_orders).toPandas().set_index("status")
from_messages = revenue_by_status(events).toPandas().set_index("status")
board.join(from_messages, rsuffix=" of all messages")

# %%
in_table, in_messages = board["revenue"].sum(), from_messages["revenue"].sum()
times = in_messages / in_table
lab.record_actual("00.p3", TIMES[(times > 1) + (times > 1.2) + (times > 2)])
verdict = lab.ledger(topic).reconcile_table(live_orders, "live orders")
verdict

# %% name="first-board" proof="The table has each living order once, in its newest version; the messages count some twice."
assert verdict.ok and in_table < in_messages

# %% [markdown]
# The messages hold each change of an order, and resends, so the `GROUP BY` counts orders several times. The table has one
# row per order, in its newest version, and the ledger finds no difference. So the board can go on the wall:

# %%
HTML(draw_board(board))

# %% [markdown]
# Written once, it is right for a moment. The rest of the course keeps it right: while the load goes on, when events come
# late, and when a machine dies. Here is one minute of live load, in a recorded run of the whole pipeline:

# %%
HTML(draw_tour())

# %% [markdown]
# Each line is one sink, a place that Spark writes to: the share of orders that a reader can see so many seconds after
# their event. The leftmost line is the freshest sink. The title says whether each sink has what the shop has sent.

# %% [markdown] tags=["instructor"]
# *For instructors.* 10 minutes. Let the load run while you talk, and ask what could be missing from
# a table that shows a sum.

# %% [markdown]
# > **In production**
# > - The store is your cloud's or a maintained one ([S3 and Hudi](https://hudi.apache.org/docs/s3_hoodie)), reached with
# >   an IAM role, not with a password in a file. (MinIO was archived in April 2026.)
# > - You decide how far back people can query: as far as [cleaning](https://hudi.apache.org/docs/cleaning) keeps old
# >   files.
# > - Spark runs on a [cluster](https://spark.apache.org/docs/3.5.7/cluster-overview.html), and its jobs outlive the
# >   notebook that started them.
#
# ## Key points
#
# - A Hudi table is a folder of ordinary files and a timeline that says which of them count.
# - A record key, an ordering field and a partition path turn rows into a table that can be updated.
# - An upsert writes new files and leaves the old ones, so the past can be queried until they are cleaned.
# - An instant has two times. It is named by the requested one, and readers see its write once it is completed.
# - The load generator's ledger stands outside the pipeline and says what the tables must hold.
#
# ## What's next
#
# Lesson 01 builds the load generator. To see the whole pipeline run on your machine, type `make tour` in a terminal; it
# takes two minutes.

# %%
spark.stop()
