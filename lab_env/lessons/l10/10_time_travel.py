# ---
# title: What did the table say at 09:00?
# minutes: {teach: 22, do: 25}
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
# - A customer says that the price was different this morning. What did the table say then?
# - A job wrote nonsense into the table, and good orders came in after it. How do I undo the job and keep the orders?
# - How far back can I look?
#
# ## Objectives
#
# At the end of this lesson you can
#
# - read a table as of a moment (10.1),
# - say what readers saw at a moment (10.2),
# - mark a state of a table and go back to it (10.3),
# - undo a bad batch of a stream and end with nothing missing (10.4),
# - clean a table and keep as much of its past as you have promised (10.5).
#
# ## What you need
#
# Lessons 03 and 04 for streams and their checkpoints, lesson 05 for file slices and cleaning. 47 minutes, with a good place
# to pause after the third section.

# %% [markdown]
# ## Start
#
# The first cells start the lab and Spark, make a topic, and let a stream write its first twenty orders into a table. The first
# write of a session takes longest.

# %%
import pandas as pd
from pyspark.sql import functions as F

from lab_env import Lab
from lab_env.lessons.l10.shop import make_changes, send, topic_options

lab = Lab.start("10")
spark = lab.spark

# %% [markdown]
# `send` is the shop: it sends changed orders to the topic. Its arguments say which orders, their status, the time of the change
# (`order_ts`), and their amount. `events` reads them. Each call of `start_stream` is one batch and one commit, because the trigger
# `availableNow` takes what is there and ends. By default Hudi keeps a metadata table and cleans after each write. `DEMO_OPTIONS`
# switch both off, so the past stays until we clean.


# %%
FIELDS = "order_id STRING, status STRING, amount DECIMAL(12,2), order_ts TIMESTAMP"


def events(reader, offset=0):
    """The topic's events from an offset on: `spark.readStream` streams, `spark.read` reads."""
    records = reader.format("kafka").options(**topic_options(lab, offset)).load()
    order = F.from_json(F.col("value").cast("string"), f"{FIELDS}, partition_date STRING")
    return records.select(order.alias("order")).select("order.*")


# %%
from lab_env.pipeline.options import DEMO_OPTIONS, KEYS

ORDERS = {
    **KEYS,
    **DEMO_OPTIONS,
    "hoodie.table.name": "orders",
    "hoodie.index.bloom.num_entries": "1000",  # a small key filter for small files, see lesson 05
}
spark.sql("SET hoodie.metadata.enable = false")  # as in DEMO_OPTIONS, for the procedures, too
orders_path, checkpoint = lab.path("orders"), lab.path("_checkpoints/orders")


def start_stream(rows):
    """Start the shop's stream: it upserts all there is into its table, and then ends."""
    writer = rows.writeStream.format("hudi").options(**ORDERS).option("path", orders_path)
    return writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()


# %% [markdown]
# The first batch creates twenty orders. In the second, seven of them are paid, and gift wrap adds 4.50 to their amount.

# %%
send(lab, "id <= 20", "new", "09:00", "10 + id")
start_stream(events(spark.readStream)).awaitTermination()

send(lab, "id BETWEEN 11 AND 17", "paid", "09:10", "14.5 + id")
start_stream(events(spark.readStream)).awaitTermination()

# %% [markdown]
# ## What is a moment?
#
# [**Time travel**](../docs/glossary.md#time-travel) is a query of the table as it was at an earlier moment. A moment is written as
# digits, as on the timeline (`"20261121123456789"`), or as text (`"2026-11-21 12:34:56.789"`). Time travel knows only when the
# *table* was written: today, a minute ago. The shop's 09:00 is in `order_ts`, which is data.
#
# ### Exercise 10.1 · As it was
#
# Complete the function. It returns the table at `path` as it was at a moment
# ([read options](https://hudi.apache.org/docs/configurations/#Read-Options)). All time travel of this lesson goes through it.


# %% exercise="10.1"
def as_of(path, moment):
    """The table at `path` as it was at a moment."""
    # BEGIN SOLUTION
    return spark.read.format("hudi").option("as.of.instant", moment).load(path)
    # END SOLUTION


lab.check("10.1", as_of)

# %% [markdown] hint="10.1"
# It is the reader of lesson 05 with one more option, `as.of.instant`.

# %% [markdown] hint="10.1"
# `spark.read.format("hudi")`, then `.option(name, value)`, then `.load(path)`.


# %% right="10.1"
# In SQL, by the table's name.
def as_of(path, moment):
    name = "orders_" + path.rpartition("-")[2].replace("/", "_")
    spark.sql(f"CREATE TABLE IF NOT EXISTS {name} USING hudi LOCATION '{path}'")
    return spark.sql(f"SELECT * FROM {name} TIMESTAMP AS OF '{moment}'")


# %% wrong="10.1"
# expect: a filter of today's rows finds no older version
def as_of(path, moment):
    return spark.read.format("hudi").load(path).where(F.col("_hoodie_commit_time") <= moment)


# %% wrong="10.1"
# expect: It is given the path of the table
def as_of(path, moment):
    return spark.read.format("hudi").option("as.of.instant", moment).load(orders_path)


# %% wrong="10.1"
# expect: which is what the table says now
def as_of(path, moment):
    return spark.read.format("hudi").load(path)


# %%
from lab_env.lessons.l10.figures import AsOf, Version, amount_of

lab.use_reference("10.1")

first, second = lab.xray(orders_path).instants[:2]
history = {
    write.requested: amount_of("O-17", as_of(orders_path, write.requested))
    for write in (first, second)
}
history

# %% proof="O-17 cost 27.00 after the first write and 31.50 after the second."
assert list(history.values()) == ["27.00", "31.50"]

# %% [markdown]
# What is a moment to a table? Each [**instant**](../docs/glossary.md#instant) on the timeline has two times. The
# [**requested time**](../docs/glossary.md#requested-time) is when the write was asked for. The
# [**completion time**](../docs/glossary.md#completion-time) is when it was done, and readers began to see it. For a large batch
# the two can be minutes apart. Which of them does time travel take?
#
# Our batch is small, so `slowly` makes each row wait a second. The customer of O-17 redeems a voucher of 2.00: the amount falls from
# 31.50 to 29.50. While this write goes on, we note the moment, and read the amount of O-17 as any reader does. When the write is
# complete, we ask the table what it said at that moment.
#
# **Predict:** asked afterwards, which amount does the table give as of that moment?

# %%
lab.predict("10.p1", ..., choices=("27.00", "29.50", "31.50"))

# %%
from lab_env.lessons.l10.shop import moment_of_a_write, slowly

send(lab, "id IN (11, 12, 13, 17)", "packed", "09:20", "14.5 + id - IF(id = 17, 2, 0)")
query = start_stream(slowly(events(spark.readStream)))
moment = moment_of_a_write(lab, orders_path, query)

seen_then = amount_of("O-17", spark.read.format("hudi").load(orders_path))
as_of_then = amount_of("O-17", as_of(orders_path, moment))
meanwhile = lab.xray(orders_path)
query.awaitTermination()
meanwhile  # the timeline while we read

# %%
as_of_later = amount_of("O-17", as_of(orders_path, moment))
print("read while the write went on:", seen_then)
print("as of that moment, asked at that moment:", as_of_then)
print("as of that moment, asked afterwards:", as_of_later)
lab.record_actual("10.p1", as_of_later)

# %% name="between-the-ticks" proof="Readers saw 31.50 at that moment; afterwards the table says it was 29.50."
third = lab.xray(orders_path).instants[-1]
assert not meanwhile.instants[-1].completed  # the write went on while we read
assert third.requested < moment < third.completed
assert (seen_then, as_of_later) == ("31.50", "29.50")
assert "must be earlier than the first incomplete commit" in as_of_then

# %% [markdown]
# Nobody could read 29.50 at that moment: whoever looked saw 31.50. But asked afterwards, the table says that it was 29.50. **Time
# travel compares requested times**: as of a moment it returns all writes that were requested by then and are complete *now*. So Hudi
# refused the same question during the write: the answer could still change.
#
# The picture has two lanes: what AS OF says, and what readers saw. Each commit is two ticks, requested (dotted) and completed.

# %%
picture = lab.xray(orders_path, since=meanwhile)
third = picture.instants[-1]
amounts = [amount_of("O-17", as_of(orders_path, write.requested)) for write in picture.instants]
versions = [
    Version(write.requested, write.completed, amount)
    for write, amount in zip(picture.instants, amounts, strict=True)
]
two_lanes = AsOf("The amount of O-17 (time not to scale)", versions, cursor=moment)
two_lanes

# %% proof="The drawing agrees: readers follow completion times, time travel requested times."
assert two_lanes.readers(moment) == seen_then
assert two_lanes.as_of(moment) == as_of_later

# %% [markdown] tags=["instructor"]
# *For instructors.* 13 minutes. Have the group predict 10.p1 by show of hands: most say 31.50, "because the past does not change". Draw
# two ticks on the board and a person between them. The waiting rows are the one staged thing here; a batch of millions needs no help.
# Short of time: give 10.1 away.

# %% [markdown]
# ## The same in SQL, and the board at that moment
#
# SQL needs a name for the table. There are several ways to write the moment:

# %%
from lab_env.lessons.l10.figures import show_answers

spark.sql(f"CREATE TABLE IF NOT EXISTS orders USING hudi LOCATION '{orders_path}'")
today = f"{moment[:4]}-{moment[4:6]}-{moment[6:8]}"
answers = {}

for clause in (
    f"TIMESTAMP AS OF '{moment}'",
    f"TIMESTAMP AS OF '{today}'",
    "TIMESTAMP AS OF '2099-01-01'",
    f"TIMESTAMP AS OF '{today} 09:00'",
    f"VERSION AS OF '{moment}'",
):
    try:
        row = spark.sql(f"SELECT count(*), max_by(amount, order_id = 'O-17') FROM orders {clause}")
        answers[clause] = "{} orders, O-17: {}".format(*row.first())
    except Exception as refusal:
        answers[clause] = str(refusal).splitlines()[0]

show_answers(answers)

# %% name="moments-in-sql" proof="A date means midnight, a moment in the future means now, and two spellings are refused."
texts = list(answers.values())
assert texts[0] == texts[2] == "20 orders, O-17: 29.50" and texts[1] == "0 orders, O-17: None"
assert "Unsupported query instant time format" in texts[3] and "not supported" in texts[4]

# %% [markdown]
# Two of them mislead quietly. A date means its *first* moment, midnight: as of today the table was empty, and that is no error. A moment
# in the future gives the newest state. A time without seconds is refused, and so are versions. All times are UTC here; elsewhere, ask in
# which zone the writer made its instants.
#
# ### Exercise 10.2 · What did the board say at that moment?
#
# The shop's board shows revenue by status. An auditor asks what the clerk saw on the wall, so the seconds between the two lanes matter.
# Complete the function. It gets a moment as digits, never before the first completion, and returns a table with the columns `status` and
# `revenue`, the sum of `amount`, as the board showed it then.
#
# `lab.xray(path).instants` lists the timeline. Each instant has `requested` and `completed`, as digits that you can compare as text;
# `completed` is empty while it is pending. `writes` is true for instants that write rows. There is one writer, so commits do not overlap.


# %% exercise="10.2"
def board_at(path, moment):
    """Revenue by status of the table at `path`, as readers saw it at a moment."""
    # BEGIN SOLUTION
    complete = [
        instant.requested
        for instant in lab.xray(path).instants
        if instant.writes and instant.completed and instant.completed <= moment
    ]
    orders = as_of(path, max(complete))
    return orders.groupBy("status").agg(F.sum("amount").alias("revenue"))
    # END SOLUTION


lab.check("10.2", board_at)

# %% [markdown] hint="10.2"
# Which write was the last to be *complete* at the moment? Its rows are what readers saw.

# %% [markdown] hint="10.2"
# Time travel compares requested times. So travel to the requested time of the write that you found.


# %% right="10.2"
# From the completion time, with the sum in SQL.
def board_at(path, moment):
    completions = [i.completed for i in lab.xray(path).instants if i.writes and i.completed]
    last = max(time for time in completions if time <= moment)
    as_of(path, last).createOrReplaceTempView("seen")
    return spark.sql("SELECT status, sum(amount) AS revenue FROM seen GROUP BY status")


# %% harmless="10.2"
# a column more: the wall shows status and revenue


# %% equivalent="10.2"
# instant.requested → instant.completed: one writer, so nothing else was requested meanwhile
# instant.writes and instant.completed and … pleted <= moment) → instant.completed and instant.completed <= moment: as of a clean the table is what the write before it left


# %% wrong="10.2"
# expect: It is given the path of the table
def board_at(path, moment):
    writes = [i for i in lab.xray(orders_path).instants if i.writes and i.completed]
    complete = max(i.requested for i in writes if i.completed <= moment)
    return as_of(orders_path, complete).groupBy("status").agg(F.sum("amount").alias("revenue"))


# %% wrong="10.2"
# expect: requested, and not yet complete
def board_at(path, moment):
    return as_of(path, moment).groupBy("status").agg(F.sum("amount").alias("revenue"))


# %% wrong="10.2"
# expect: today's table has only the later row
def board_at(path, moment):
    rows = spark.read.format("hudi").load(path).where(F.col("_hoodie_commit_time") <= moment)
    return rows.groupBy("status").agg(F.sum("amount").alias("revenue"))


# %% wrong="10.2"
# expect: which rounds when sums grow
def board_at(path, moment):
    seen = [
        i for i in lab.xray(path).instants if i.writes and i.completed and i.completed <= moment
    ]
    rows = as_of(path, max(seen, key=lambda i: i.completed).requested)
    return rows.groupBy("status").agg(F.sum(F.col("amount").cast("double")).alias("revenue"))


# %%
lab.use_reference("10.2")
on_the_wall = board_at(orders_path, moment).toPandas().set_index("status")
asked_later = as_of(orders_path, moment).groupBy("status").agg({"amount": "sum"}).toPandas()
asked_later = asked_later.set_index("status")
on_the_wall.join(asked_later.set_axis(["AS OF the moment"], axis=1), how="outer")

# %% name="what-readers-saw" proof="Your board is that of the second write: no order was packed yet."
assert "packed" not in on_the_wall.index and "packed" in asked_later.index
assert on_the_wall["revenue"].sum() - asked_later["sum(amount)"].sum() == 2

# %% [markdown] tags=["instructor"]
# *For instructors.* 7 minutes. The most common answer to 10.2 travels to the moment itself; the next filters `_hoodie_commit_time`, which
# belongs to the row's last write, whatever changed, and is a requested time. Short of time: leave out the five spellings of a moment.

# %% [markdown]
# ## Undo a bad batch
#
# Tonight a price job runs. Before it, we set a [**savepoint**](../docs/glossary.md#savepoint) on the newest write, so that the table can go
# back to it. The way back is a [**restore**](../docs/glossary.md#restore), which removes every later write from the timeline.
#
# ### Exercise 10.3 · A way back
#
# Complete two functions. Both get the name of a table in SQL and the requested time of one of its writes, as digits. `mark` sets a savepoint
# on that write, `go_back` restores the table to that savepoint. Hudi has a [procedure](https://hudi.apache.org/docs/procedures) for each.
# The check calls both on a table of four writes.


# %% exercise="10.3"
def mark(name, requested):
    """Set a savepoint on the write of a table that was requested then."""
    # BEGIN SOLUTION
    spark.sql(f"CALL create_savepoint(table => '{name}', commit_time => '{requested}')")
    # END SOLUTION


def go_back(name, requested):
    """Restore the table to the savepoint on that write."""
    # BEGIN SOLUTION
    spark.sql(f"CALL rollback_to_savepoint(table => '{name}', instant_time => '{requested}')")
    # END SOLUTION


lab.check("10.3", [mark, go_back])

# %% [markdown] hint="10.3"
# The procedures are [create_savepoint](https://hudi.apache.org/docs/procedures#create_savepoint) and
# [rollback_to_savepoint](https://hudi.apache.org/docs/procedures#rollback_to_savepoint): `CALL create_savepoint(...)`, as text for
# `spark.sql`. An argument is written `name => value`, text in quotes.

# %% [markdown] hint="10.3"
# Both take the name as `table`. The first calls the time `commit_time`, the second `instant_time`.


# %% right="10.3"
# The procedures' arguments by position.
def mark(name, requested):
    spark.sql(f"CALL create_savepoint('{name}', '{requested}')").show()


def go_back(name, requested):
    spark.sql(f"CALL rollback_to_savepoint('{name}', '{requested}')").show()


# %% right="10.3"
# With the helper `call` of the lesson.
def mark(name, requested):
    call("create_savepoint", commit_time=requested, table=name)


def go_back(name, requested):
    call("rollback_to_savepoint", instant_time=requested, table=name)


def call(procedure, **arguments):
    listed = ", ".join(f"{key} => '{value}'" for key, value in arguments.items())
    return spark.sql(f"CALL {procedure}({listed})").collect()


# %% wrong="10.3"
# expect: the savepoint is on write 4
def mark(name, requested):
    spark.sql(f"CALL create_savepoint(table => '{name}')")


def go_back(name, requested):
    spark.sql(f"CALL rollback_to_savepoint(table => '{name}', instant_time => '{requested}')")


# %% wrong="10.3"
# expect: takes the newest savepoint
def mark(name, requested):
    spark.sql(f"CALL create_savepoint(table => '{name}', commit_time => '{requested}')")


def go_back(name, requested):
    spark.sql(f"CALL rollback_to_savepoint(table => '{name}')")


# %% wrong="10.3"
# expect: Time travel only looks back
def mark(name, requested):
    spark.sql(f"CALL create_savepoint(table => '{name}', commit_time => '{requested}')")


def go_back(name, requested):
    return spark.sql(f"SELECT * FROM {name} TIMESTAMP AS OF '{requested}'")


# %%
lab.use_reference("10.3")
mark("orders", third.requested)
saved = lab.xray(orders_path, since=picture)
saved

# %% proof="The savepoint is an instant on the timeline and writes no data file."
assert saved.instants[-1].action == "savepoint" and saved.files == picture.files

# %% [markdown]
# Only the timeline got new files. Now the bad batch: the job sends an amount of 0 for eight orders. In the same batch, two customers place
# new orders, O-21 and O-22. Before anybody notices, a good batch comes: four more orders, and O-17 gets a price that is right.

# %%
send(lab, "id <= 8", "repriced", "09:30", "0")
send(lab, "id IN (21, 22)", "new", "09:31", "10 + id")
start_stream(events(spark.readStream)).awaitTermination()

send(lab, "id BETWEEN 23 AND 26", "new", "09:40", "10 + id")
send(lab, "id = 17", "repriced", "09:41", "29.5")
start_stream(events(spark.readStream)).awaitTermination()

# %% [markdown]
# How bad is it? The topic holds all events, good and bad, so we know what the table should say. `compare` compares it with the newest good
# event of each order: it counts orders that are missing, orders that show an older version (stale), and amounts of 0.

# %%
from lab_env.lessons.l10.shop import compare

damaged = lab.xray(orders_path, since=saved)
verdicts = {"after the bad and the good batch": compare(lab, orders_path)}
pd.DataFrame(verdicts).T

# %% proof="The bad batch set eight amounts to 0; nothing is missing and nothing is stale."
assert verdicts["after the bad and the good batch"] == {"missing": 0, "stale": 0, "zero": 8}

# %% [markdown]
# Eight amounts are zero, nothing is missing. We go back to the savepoint. Nobody may write during a restore; our stream has ended.

# %%
go_back("orders", third.requested)
restored = lab.xray(orders_path, since=damaged)
restored

# %% name="restore" proof="The restore deleted the files and commits of both batches; the rest is as it was."
bad, good = (i.requested for i in damaged.instants[-2:])
gone = [(file.partition[-2:], file.instant) for file in restored.gone_files]
assert sorted(gone) == sorted([("20", bad), ("21", bad), ("20", good), ("21", good)])
assert restored.files == saved.files
assert restored.instants[:-1] == saved.instants and restored.instants[-1].action == "restore"

# %% [markdown]
# A restore is not time travel. It *deletes*: the four files of the two batches are gone, and so are their commits on the timeline. (The X-ray
# still shows them, because it remembers its last look.) The table is as it was at the savepoint, plus one instant for the restore.
#
# The zeros are undone. We start the stream again.
#
# **Predict:** how many good orders are missing after the stream has run?

# %%
lab.predict("10.p2", ..., tolerance=0)

# %%
query = start_stream(events(spark.readStream))
query.awaitTermination()
verdicts["restored, stream started again"] = compare(lab, orders_path)
print("rows that the stream read:", sum(batch["numInputRows"] for batch in query.recentProgress))
lab.record_actual("10.p2", verdicts["restored, stream started again"]["missing"])

# %% name="checkpoint-stays" proof="The stream read nothing again: six orders and one change are missing."
assert sum(batch["numInputRows"] for batch in query.recentProgress) == 0
assert verdicts["restored, stream started again"] == {"missing": 6, "stale": 1, "zero": 0}

# %% [markdown]
# Six orders are missing, and the shipping of O-17. There is no error, and none will come. **A restore moves the table, not the stream's
# checkpoint.** The checkpoint still says that all batches were read. Here it is, batch by batch, with the offsets of the topic. Hudi's
# streaming sink also writes each batch's number into its commit, under a name, the *identifier* of the stream:

# %%
from lab_env.pipeline.checkpoint import read_checkpoint

batches = read_checkpoint(lab.endpoints, checkpoint)
offsets = pd.DataFrame(
    [(batch.number, batch.start[0], batch.end[0]) for batch in batches],
    columns=["batch", "from offset", "before offset"],
).set_index("batch")
last_batch = restored.commit().checkpoint
print("identifier and batch of the restored table's last commit:", last_batch)
offsets

# %% name="batch-of-the-savepoint" proof="The restored table's last commit is batch 2, and the checkpoint has each batch's offsets."
assert last_batch == {"default_single_writer": "2"}
assert list(offsets["before offset"]) == [20, 27, 31, 41, 46]

# %% [markdown]
# By this number the sink recognises a repeated batch, for example after a crash.
#
# ### Exercise 10.4 · Undo it, and lose nothing
#
# The events are still in the topic, and `events(spark.readStream, offset=...)` streams them from an offset on. Write the stream that brings
# the good ones into the restored table at `path`, and wait for its end. Decide three things:
#
# - from which *offset* it reads, no earlier than it must: a real topic may hold a year;
# - which *events* it lets through: an amount of 0 is bad;
# - under which *identifier* it writes, in the option `IDENTIFIER`. Its checkpoint is a new place, `lab.scratch("checkpoint")`.
#
# The rest is as in `start_stream`. The check gives your function a copy of the restored table, and compares the result with the topic: 0
# missing, 0 stale, 0 zero.

# %% exercise="10.4"
IDENTIFIER = "hoodie.datasource.write.streaming.checkpoint.identifier"


def replay(path):
    """Bring the good events after the savepoint into the restored table."""
    # BEGIN SOLUTION
    good = events(spark.readStream, offset=31).where("amount > 0")
    writer = good.writeStream.format("hudi").options(**ORDERS).option(IDENTIFIER, "replay")
    writer = writer.option("checkpointLocation", lab.scratch("checkpoint"))
    writer.trigger(availableNow=True).start(path).awaitTermination()
    # END SOLUTION


lab.check("10.4", replay)

# %% [markdown] hint="10.4"
# The savepoint is batch 2. At which offset did it end? Everything from there on is to be read again, in
# one stream.

# %% [markdown] hint="10.4"
# A new checkpoint counts its batches from 0. The table knows the number of the last batch of
# `default_single_writer`. What does the sink do with a batch 0 of that name?


# %% right="10.4"
# Filters in SQL, for a rule that others must read.
def replay(path):
    events(spark.readStream).createOrReplaceTempView("all_events")  # from the beginning
    good = spark.sql("SELECT * FROM all_events WHERE NOT (amount = 0 AND status = 'repriced')")
    options = {**ORDERS, IDENTIFIER: "second_try", "path": path}
    writer = good.writeStream.format("hudi").options(**options)
    writer = writer.option("checkpointLocation", lab.scratch("checkpoint"))
    writer.trigger(availableNow=True).start().processAllAvailable()


# %% harmless="10.4"
# table an empty commit more: a stream commits a batch of which nothing is left, too


# %% equivalent="10.4"
# without offset=31 in events: the ordering field lets what the table has already lose
# 31 → 30: the ordering field lets what the table has already lose
# 31 → 32: the event of offset 31 is bad
# SQL 0 → 1: no order of the lesson costs one or less


# %% wrong="10.4"
# expect: moves the table, not the stream's checkpoint
def replay(path):
    writer = events(spark.readStream).writeStream.format("hudi").options(**ORDERS)
    writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    writer.start(path).awaitTermination()


# %% wrong="10.4"
# expect: took your batch 0 for one that it has already
def replay(path):
    good = events(spark.readStream, offset=31).where("amount > 0")
    writer = good.writeStream.format("hudi").options(**ORDERS).trigger(availableNow=True)
    writer = writer.option("checkpointLocation", lab.scratch("checkpoint"))
    writer.start(path).awaitTermination()


# %% wrong="10.4"
# expect: stood in the bad batch
def replay(path):
    good = events(spark.readStream, offset=41)
    writer = good.writeStream.format("hudi").options(**ORDERS).option(IDENTIFIER, "replay")
    writer = writer.option("checkpointLocation", lab.scratch("checkpoint"))
    writer.trigger(availableNow=True).start(path).awaitTermination()


# %% wrong="10.4"
# expect: continued from a checkpoint
IDENTIFIER = "hoodie.datasource.write.streaming.checkpoint.identifier"


def replay(path):
    good = events(spark.readStream, offset=31).where("amount > 0")
    writer = good.writeStream.format("hudi").options(**ORDERS).option(IDENTIFIER, "replay")
    writer = writer.option("path", path)
    writer = writer.option("checkpointLocation", lab.path("_checkpoints/replay"))
    writer.trigger(availableNow=True).start().awaitTermination()


# %% wrong="10.4"
# expect: orders are missing and 1 stale
IDENTIFIER = "hoodie.datasource.write.streaming.checkpoint.identifier"


def replay(path):
    good = events(spark.readStream, offset=31).where("status <> 'repriced'")
    writer = good.writeStream.format("hudi").options(**ORDERS).option(IDENTIFIER, "replay")
    writer = writer.option("path", path).option("checkpointLocation", lab.scratch("checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()


# %%
lab.use_reference("10.4")
replay(orders_path)
verdicts["after your replay"] = compare(lab, orders_path)
pd.DataFrame(verdicts).T

# %% proof="After the replay nothing is missing, stale or zero."
assert verdicts["after your replay"] == {"missing": 0, "stale": 0, "zero": 0}

# %% [markdown]
# A new checkpoint counts its batches from 0. And **the sink skips a batch whose number is not above the last one of its identifier**. Under
# the old identifier it would have skipped yours, without an error. A replay from offset 0 is right, too, because the old versions lose, but
# it reads the whole topic.
#
# Which checkpoint does the shop's stream run with tomorrow? The new one: it has read the topic to its end. So in production choose a lasting
# path for it from the start. Keep the new identifier, and keep the filter until the price job is repaired. Delete the old checkpoint, so that
# nobody starts a second stream with it.

# %% [markdown] tags=["instructor"]
# *For instructors.* 15 minutes. In 10.3 most mistakes are in the names of the arguments: Hudi calls the same time `commit_time` in one
# procedure and `instant_time` in the other. Draw the topic as a line with offsets, the table's savepoint and the checkpoint as two pins in it,
# and move only one of them. Wrong ways, in the order in which people try them: start the stream again (nothing is read); delete the checkpoint
# (batch 0 comes again, and is skipped as known); begin behind the bad batch (O-21 and O-22 are lost). Replaying from offset 0 passes, too.
# Ask what it costs with a year in the topic, and what if Kafka kept only a week. Short of time: give 10.3 away, and do 10.4 together,
# decision by decision.

# %% [markdown]
# **A good place to pause.** To go on another day, type `lab goto 10d` in a terminal: it runs everything up to here again.
#
# ## How far back?
#
# Time travel needs the files of the past, and [**cleaning**](../docs/glossary.md#cleaning) removes them. Two new tables, one of each type,
# get the same four writes: 25 orders in two partitions, then three times a change of O-11 to O-17. The COW table gets a savepoint on its
# second write. Nobody compacts the MOR table.

# %%
TYPES = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}
KEPT = {kind: lab.path(f"kept_{kind}") for kind in TYPES}
WRITES = [
    ("id <= 25", "new", "09:00", "10 + id"),
    ("id BETWEEN 11 AND 17", "paid", "09:10", "20 + id"),
    ("id BETWEEN 11 AND 17", "packed", "09:20", "30 + id"),
    ("id BETWEEN 11 AND 17", "shipped", "09:30", "40 + id"),
]

for kind, path in KEPT.items():
    options = {**ORDERS, "hoodie.datasource.write.table.type": TYPES[kind]}
    for change in WRITES:
        rows = make_changes(lab, *change)
        rows.write.format("hudi").options(**options).mode("append").save(path)
    spark.sql(f"CREATE TABLE IF NOT EXISTS kept_{kind} USING hudi LOCATION '{path}'")

before = {kind: lab.xray(path) for kind, path in KEPT.items()}
saved_write = before["cow"].instants[1].requested
mark("kept_cow", saved_write)

# %% proof="The savepoint was made."
saved_writes = [i.requested for i in lab.xray(KEPT["cow"]).instants if i.action == "savepoint"]
assert saved_writes == [saved_write]

# %% [markdown]
# ### Exercise 10.5 · Keep what you have promised
#
# The shop promises that the last few states of a table can be queried. Complete the function. It cleans the Copy-on-Write table of this name
# in SQL ([run_clean](https://hudi.apache.org/docs/procedures#run_clean)), so that the last `writes` states can still be read, and a query of an
# older one is refused. The procedure takes Hudi's options from the session; a cell of *Start* has switched the metadata table off there.


# %% exercise="10.5"
def clean(name, writes):
    """Clean the table so that its last `writes` writes can still be read."""
    # BEGIN SOLUTION
    spark.sql(f"CALL run_clean(table => '{name}', retain_commits => {writes})")
    # END SOLUTION


lab.check("10.5", clean)

# %% [markdown] hint="10.5"
# In `CALL run_clean(...)` an argument is written `name => value`, text in quotes. The first one is `table => '{name}'`, the other
# `retain_commits`, ten by default.

# %% [markdown] hint="10.5"
# Which number of commits must be retained for two of them to be readable? Try it, and let the check count.


# %% right="10.5"
# Builds the call's arguments from a dictionary, where they vary.
def clean(name, writes):
    policy = {"table": f"'{name}'", "clean_policy": "'KEEP_LATEST_COMMITS'"}
    policy |= {"retain_commits": int(writes), "options": "'hoodie.metadata.enable=false'"}
    arguments = ", ".join(f"{key} => {value}" for key, value in policy.items())
    return spark.sql(f"CALL run_clean({arguments})").collect()


# %% wrong="10.5"
# expect: Count commits
def clean(name, writes):
    spark.sql(f"""
        CALL run_clean(table => '{name}', clean_policy => 'KEEP_LATEST_FILE_VERSIONS',
                       file_versions_retained => {writes})
    """)


# %% [markdown]
# Your function cleans both tables with the shortest [**retention**](../docs/glossary.md#retention), one commit. Then we query each table as
# of each of its four writes.
#
# **Predict:** each of the four writes made a version of the COW table's file of the 20th. How many of these files are left after the cleaning?

# %%
lab.predict("10.p3", ..., tolerance=0)

# %%
lab.use_reference("10.5")
pasts = pd.DataFrame(index=[f"as of write {number}" for number in range(1, 5)])
cleaned = {}

for kind, path in KEPT.items():
    clean(f"kept_{kind}", 1)
    cleaned[kind] = lab.xray(path, since=before[kind])
    moments = [write.requested for write in before[kind].instants[:4]]
    pasts[kind] = [amount_of("O-17", as_of(path, moment)) for moment in moments]

left = [file for file in cleaned["cow"].files if file.partition.endswith("20")]
lab.record_actual("10.p3", len(left))

# %%
show_answers(pasts)

# %% name="past-retention" proof="Copy-on-Write refuses three of the four moments; Merge-on-Read answers all four."
assert list(pasts["mor"]) == ["27.00", "37.00", "47.00", "57.00"]
assert all("Cleaner" in refusal for refusal in pasts["cow"][:3])
assert pasts["cow"].iloc[3] == "57.00"

# %%
cleaned["cow"]

# %% name="files-and-answers" proof="The cleaner removed one file; past the retained commit Hudi refuses files that exist."
(day_20,) = {f.partition for f in cleaned["cow"].files if f.partition.endswith("20")}
left_of_20 = sorted(f.instant for f in cleaned["cow"].files if f.partition == day_20)
assert left_of_20 == [i.requested for i in before["cow"].instants[1:4]]  # one file was deleted
assert len(cleaned["cow"].gone_files) == 1 and not cleaned["mor"].gone_files
assert [i.action for i in cleaned["mor"].instants] == ["deltacommit"] * 4  # not even a clean
(note,) = (found for (action, _), found in cleaned["cow"].records.items() if action == "clean")
assert note["earliestCommitToRetain"] == before["cow"].instants[3].requested
assert "Cleaner" in amount_of("O-25", as_of(KEPT["cow"], before["cow"].instants[0].requested))

# %% [markdown]
# **Copy-on-Write** refuses three of four, with a clear error. But look at the files. The cleaner took one of the four versions of the 20th. It
# left the third, because a reader that was open when the last commit came may still need it. The savepoint holds the second. Order O-25 is in
# a file that never changed. Yet all these queries are refused. **The cleaner leaves a note: the earliest commit that it retains. Time travel
# asks the note, not the files.** The policy `KEEP_LATEST_FILE_VERSIONS` leaves no such note: after it a query of a cleaned past returns too few
# rows, without an error (lesson 05).
#
# **Merge-on-Read** lost nothing. All logs are in one file slice, with one base file, and that slice is the newest: there was nothing to clean.
# Such a table remembers all that its active timeline lists, until somebody compacts. (Here were four delta commits; by
# default Hudi compacts after five.) The compaction begins a new slice, the cleaner takes the
# old one, and the past goes with it (lesson 06).
#
# The COW table has a savepoint on its second write, and time travel to it is refused. What is it good for?

# %% name="savepoint-after-cleaning"
go_back("kept_cow", saved_write)
now = amount_of("O-17", spark.read.format("hudi").load(KEPT["cow"]))
print("O-17 after the restore:", now)

# %% proof="The savepoint can be restored, but not read by time travel."
assert now == "37.00" and "Cleaner" in amount_of("O-17", as_of(KEPT["cow"], saved_write))

# %% [markdown]
# The restore works: the table says what it said after the second write. **A savepoint is for going back, not for looking back.** It holds its
# files against the cleaner until `CALL delete_savepoint` lets them go.
#
# ### The board
#
# Back to the shop, whose table nobody has cleaned. Which boards has the wall shown, one after each completed write?

# %%
from lab_env.tables.xray.captions import clock

boards = {}
for write in lab.xray(orders_path).instants:
    if write.writes:
        shown = board_at(orders_path, write.completed).toPandas()
        boards[f"from {clock(write.completed)}"] = shown.set_index("status")["revenue"]

pd.DataFrame(boards).T

# %% name="board" proof="The timeline tells four boards; that with the zeros and the one after it are gone."
assert len(boards) == 4 and all((shown > 0).all() for shown in boards.values())
assert list(boards.values())[-1].sum() == sum(10 + n for n in range(1, 27)) + 7 * 4.5 - 2

# %% [markdown]
# The last line is right to the cent. The wall showed six different boards; the table can reproduce four. The restore removed the other two. **A
# table's past is what its timeline says today.**

# %% [markdown] tags=["instructor"]
# *For instructors.* 12 minutes. Expect 1 or 2 for 10.p3. Let the group find the third version of the 20th in the X-ray, then ask why the query
# is refused: Hudi compares with the cleaner's note, and does not look at files. Short of time: give 10.5 away, and stop after the X-ray.

# %% [markdown]
# > **In production**
# > - Stop all writers before a [restore](https://hudi.apache.org/docs/disaster_recovery), and remove newer savepoints before you restore an
# >   older one. A restore may delete the [metadata table](https://hudi.apache.org/docs/metadata), which is on by default.
# > - Delete a savepoint when the night is over: it holds files, and archiving of the timeline stops at the oldest one unless
# >   [`hoodie.archive.beyond.savepoint`](https://hudi.apache.org/docs/configurations/) is set.
# > - A replay needs the events: let Kafka keep them for longer than you may take to notice the damage
# >   ([`retention.ms`](https://kafka.apache.org/41/configuration/topic-configs/#topicconfigs_retention.ms)).
#
# ## Key points
#
# - `AS OF` a moment returns the writes requested by then that are complete now; readers saw what was complete then.
# - A date is its midnight. Before the first commit there are no rows, and no error.
# - A restore deletes commits and files after the savepoint, and the stream's checkpoint stays: replay from the savepoint's offset, with a new
#   checkpoint and a new identifier.
# - By default the past ends at the earliest commit that the cleaner retained, whatever files are left.
# - A savepoint holds files for a restore. It does not keep time travel open.
#
# ## What's next
#
# Time travel gives a whole table at one moment. Lesson 11 asks for the difference between two: only the rows that changed.

# %%
spark.stop()
