# ---
# title: How does an upsert find its row, and how does a query skip files?
# minutes: {teach: 24, do: 24}
# needs: ["05", "07"]
# services: [minio, kafka]
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 08 · How does an upsert find its row, and how does a query skip files?
#
# ## Questions
#
# - An upsert replaced nothing and added a second row. Where did it look?
# - My table has thousands of files. How does Hudi know which one holds order O-0018?
# - Which files does a query for a few orders open?
#
# ## Objectives
#
# At the end of this lesson you can
#
# - repair an upsert that does not find its rows by the index that you name (08.1),
# - say which files an index searches for a key, and which of them in vain (08.2),
# - move a row to another partition (08.3),
# - write a filter that skips files, and prove that it does (08.4).
#
# ## What you need
#
# Lesson 05: file groups, base files, and what an update rewrites. Lesson 07: clustering. 48
# minutes, with a good place to pause after the second section.

# %% [markdown]
# ## Start
#
# Our shop has six thousand orders of two days, 3,000 per day. The table has one partition per day, and the
# shop's board shows the **revenue by day**. An order in the wrong partition is money on the wrong line.

# %%
import pandas as pd
from IPython.display import HTML, display
from pyspark.sql import functions as F

from lab_env import Lab
from lab_env.lessons.l08.figures import lookup_chart, watch_lookup
from lab_env.lessons.l08.shop import board, corrected, paid, shop_orders
from lab_env.pipeline.options import DEMO_OPTIONS, KEYS
from lab_env.tables.probes.scans import files_read

lab = Lab.start("08")
spark = lab.spark
orders = shop_orders(spark)

# %% [markdown]
# `load` bulk-inserts all orders into a new table. Each day becomes three files of 1,000 orders, in the order of
# their numbers. `KEYS` are options that you know: record key `order_id`, ordering field `order_ts`, partition
# `partition_date`. `DEMO_OPTIONS` switch off what a table of six files does not need, such as the metadata table. Run
# the cell and read on.

# %%
ORDERS = KEYS | {
    "hoodie.table.name": "orders",
    "hoodie.index.bloom.num_entries": "1000",  # keys per file; the default is 60,000
    "hoodie.index.bloom.fpp": "0.02",  # the default is 0.000000001
}


def load(path, options):
    """Bulk-insert all orders into a new table; return its path."""
    rows = orders.write.format("hudi").options(**ORDERS, **options)
    rows.option("hoodie.datasource.write.operation", "bulk_insert").mode("append").save(path)
    return path


doubled_path = load(lab.scratch("doubled"), DEMO_OPTIONS)
loaded = board(spark, {"as loaded": doubled_path})

# %% [markdown]
# ## One order, counted twice
#
# The shop's clock was wrong: O-0018 belongs to 21 November. Its correction is an upsert of the same key with the
# new `partition_date`. A colleague has written the function. It asks for `GLOBAL_BLOOM`, which looks for a key in
# every partition.


# %%
def draft(rows, path, index, options):
    """Upsert rows into the table at `path`, which finds them by an index such as `"BLOOM"`."""
    options = {**ORDERS, **options, "index.type": index}
    rows.write.format("hudi").options(**options).mode("append").save(path)


with watch_lookup(lab, doubled_path) as lookup:
    draft(corrected(orders, "O-0018"), doubled_path, "GLOBAL_BLOOM", DEMO_OPTIONS)
after = loaded.join(board(spark, {"after the correction": doubled_path}))
after

# %% name="the-copy" proof="The correction added the money of O-0018 to the 21st, and left it on the 20th."
more = after["after the correction"] - after["as loaded"]
money = corrected(orders, "O-0018").first().amount
assert more["2026-11-20"] == 0 and more["2026-11-21"] == more["both days"] == money

# %% [markdown]
# No error, and both days together have earned more than before: O-0018 has two rows now. An upsert replaces the
# row that it *finds*. The tool that finds the file of a key is the [**index**](../docs/glossary.md#index).
#
# We recorded what the write did with each file of the table. A box is a file:

# %%
HTML(lookup_chart({"O-0018": lookup}))

# %% [markdown]
# The write read rows in the files of the 21st only. The old row of O-0018 is in a file of the 20th, so the write
# found nothing, and inserted.
#
# ### Exercise 08.1 · Which index was that?
#
# `GLOBAL_BLOOM` would have looked into both days. Find out why this write did not
# ([Hudi's page on indexes](https://hudi.apache.org/docs/indexes) helps), and write the repaired function, `upsert`. The
# lesson's other upserts go through it.


# %% exercise="08.1"
def upsert(rows, path, index, options):
    """Upsert rows into the table at `path`, which finds them by an index such as `"BLOOM"`."""
    # BEGIN SOLUTION
    (
        rows.write.format("hudi")
        .options(**ORDERS, **options)
        .option("hoodie.index.type", index)
        .mode("append")
        .save(path)
    )
    # END SOLUTION


lab.check("08.1", upsert)

# %% [markdown] hint="08.1"
# `index.type` is the option of Hudi's *Flink* writer. Spark's writer ignores an option that it does not know. What is
# it called there?

# %% [markdown] hint="08.1"
# The option is `hoodie.index.type`. `.options(**ORDERS, **options)` takes both dicts; `.option(name, value)` sets one
# more.


# %% right="08.1"
# Options as keywords of `save`.
def upsert(rows, path, index, options):
    settings = ORDERS | options | {"hoodie.index.type": index}
    rows.write.save(path, format="hudi", mode="append", **settings)


# %% wrong="08.1"
# expect: is there twice
def upsert(rows, path, index, options):
    rows.write.format("hudi").options(**ORDERS, **options).mode("append").save(path)


# %% wrong="08.1"
# expect: looks only into the partition that the row names
def upsert(rows, path, index, options):
    settings = ORDERS | options | {"hoodie.index.type": "GLOBAL_BLOOM"}
    rows.write.save(path, format="hudi", mode="append", **settings)


# %%
lab.use_reference("08.1")

# %% [markdown]
# `index.type` is the option of Flink's writer; the colleague took it from the shop's Flink job. Spark's writer
# silently ignores options that it does not know, and used its default, `SIMPLE`. It looks only into the partition that
# the row names, as `BLOOM` and `BUCKET` do. An index that looks into all of them is a
# [**global index**](../docs/glossary.md#global-index).

# %% [markdown] tags=["instructor"]
# *For instructors.* 10 minutes. Before the chart, ask in which files the write must have looked. In 08.1 ask
# what would have shown the mistake: not an error, only the place where the write looked. Short of time: give
# 08.1 away.

# %% [markdown]
# ## Searching for a key
#
# Twenty orders from just after midnight were paid: O-0010 to O-0029. Each row names the right day, so the three files
# of that day are enough. We load the table again and upsert them twice, first by `SIMPLE`, then by `BLOOM`.
#
# By default Hudi stores three things in the [**footer**](../docs/glossary.md#footer) of each base file: the smallest
# key, the largest key, and a [**bloom filter**](../docs/glossary.md#bloom-filter), a bit pattern made of all keys.
# The filter answers "is this key in the file?" with *certainly not* or *probably*. `BLOOM` asks the footers first.
#
# **Predict:** `SIMPLE` reads the keys in all three files of the day. In how many files does `BLOOM` read them?

# %%
lab.predict("08.p1", ..., tolerance=0)

# %%
orders_path = load(lab.scratch("orders"), DEMO_OPTIONS)
paid_orders = paid(orders, "O-0010", "O-0029")

lookups = {}
for index in ("SIMPLE", "BLOOM"):
    with watch_lookup(lab, orders_path) as lookups[index]:
        upsert(paid_orders, orders_path, index, DEMO_OPTIONS)
lab.record_actual("08.p1", lookups["BLOOM"].figures["rows read in"])
HTML(lookup_chart(lookups))

# %% name="bloom-and-simple" proof="SIMPLE read rows in all three files of the day; BLOOM only in the one that it rewrote."
simple, bloom = lookups["SIMPLE"].figures, lookups["BLOOM"].figures
assert simple["files opened"] == bloom["files opened"] == 3
assert simple["rows read in"] == 3 and bloom["rows read in"] == 1
assert simple["rewritten"] == bloom["rewritten"] == 1

# %% [markdown]
# One file must still be read: *probably* has to be checked, and the file's other rows go into its new version.
#
# ### Exercise 08.2 · Be the index
#
# Five rows arrive. Two of them are new orders, and one is the correction of O-0018. Here is what the six footers
# say about each key. *Day* is the day that the row names.

# %%
from lab_env.lessons.l08.cards import card_chart, cards, files_of, score

BATCH = {
    "O-0012": "2026-11-20",
    "O-1500-B": "2026-11-20",  # new
    "O-2120-B": "2026-11-20",  # new
    "O-0018": "2026-11-21",  # its row is in a file of the 20th
    "O-4321": "2026-11-21",
}
files = files_of(lab, orders_path)
batch_cards = cards(spark, files, BATCH)
display(HTML(card_chart(batch_cards)), batch_cards.limit(2).toPandas())

# %% [markdown]
# You are the index: which files do you search for which key? Point at the boxes in the chart, first as `SIMPLE`, then
# as `BLOOM`, then as `GLOBAL_BLOOM`. Then write down your rule. The function gets such cards as a DataFrame, and returns
# `order_id` and `file` of those whose rows the index reads. Hudi compares keys as text.
#
# A file too many is read in vain. A file too few, and an order is there twice. The check deals other files and other
# keys.


# %% exercise="08.2"
def files_to_search(cards, index):
    """Return `order_id` and `file`: where SIMPLE, BLOOM or GLOBAL_BLOOM reads rows."""
    # BEGIN SOLUTION
    if index != "GLOBAL_BLOOM":
        cards = cards.where("day = file_day")
    if index != "SIMPLE":
        cards = cards.where("order_id BETWEEN low AND high").where("filter = 'probably'")
    return cards.select("order_id", "file")
    # END SOLUTION


lab.check("08.2", files_to_search)

# %% [markdown] hint="08.2"
# Three things can rule out a file: its day, its key range, its filter. Which of the three does each index use?

# %% [markdown] hint="08.2"
# A `where` for each: `day = file_day`, `order_id BETWEEN low AND high`, `filter = 'probably'`. `SIMPLE` uses the first,
# `GLOBAL_BLOOM` the other two, `BLOOM` all three.


# %% right="08.2"
# In SQL, with the rule as data.
def files_to_search(cards, index):
    cards.createOrReplaceTempView("cards_shown")
    day, footer = "day = file_day", "order_id >= low AND order_id <= high AND filter LIKE 'prob%'"
    rule = {"SIMPLE": day, "BLOOM": f"{day} AND {footer}", "GLOBAL_BLOOM": footer}[index]
    return spark.sql(f"SELECT order_id, file FROM cards_shown WHERE {rule}")


# %% right="08.2"
# In pandas, for cards that fit into memory.
def files_to_search(cards, index):
    shown = cards.toPandas()
    same_day = (shown["day"] == shown["file_day"]) | (index == "GLOBAL_BLOOM")
    in_range = (shown["low"] <= shown["order_id"]) & (shown["order_id"] <= shown["high"])
    likely = in_range & (shown["filter"] != "certainly not") | (index == "SIMPLE")
    return shown.loc[same_day & likely, ["order_id", "file"]]


# %% wrong="08.2"
# expect: compared as text
def files_to_search(cards, index):
    if index != "GLOBAL_BLOOM":
        cards = cards.where("day = file_day")
    if index != "SIMPLE":
        number = [
            F.regexp_extract(name, "[0-9]+", 0).cast("int") for name in ("order_id", "low", "high")
        ]
        cards = cards.where(number[0].between(number[1], number[2])).where("filter = 'probably'")
    return cards.select("order_id", "file")


# %% wrong="08.2"
# expect: The key lies outside its range
def files_to_search(cards, index):
    if index != "GLOBAL_BLOOM":
        cards = cards.where("day = file_day")
    if index != "SIMPLE":
        cards = cards.where("filter = 'probably'")
    return cards.select("order_id", "file")


# %% wrong="08.2"
# expect: asks no footer
def files_to_search(cards, index):
    if index != "GLOBAL_BLOOM":
        cards = cards.where("day = file_day")
    cards = cards.where("order_id BETWEEN low AND high AND filter = 'probably'")
    return cards.select("order_id", "file")


# %% wrong="08.2"
# expect: need not be the right one
def files_to_search(cards, index):
    if index != "GLOBAL_BLOOM":
        cards = cards.where("day = file_day")
    if index == "SIMPLE":
        return cards.select("order_id", "file")
    cards = cards.where("order_id BETWEEN low AND high AND filter = 'probably'")
    return cards.groupBy("order_id").agg(F.min("file").alias("file"))


# %% wrong="08.2"
# expect: looks into every partition
def files_to_search(cards, index):
    cards = cards.where("day = file_day")
    if index != "SIMPLE":
        cards = cards.where("order_id BETWEEN low AND high AND filter = 'probably'")
    return cards.select("order_id", "file")


# %% equivalent="08.2"
# SQL filter = 'probably' → filter >= 'probably': there are two answers, and "certainly not" sorts before it

# %%
lab.use_reference("08.2")
indexes = ("SIMPLE", "BLOOM", "GLOBAL_BLOOM")
scores = score(files, BATCH, {index: files_to_search(batch_cards, index) for index in indexes})
scores

# %% name="score" proof="BLOOM searches three files instead of fifteen; only GLOBAL_BLOOM finds the row of O-0018."
assert dict(scores["files searched"]) == {"SIMPLE": 15, "BLOOM": 3, "GLOBAL_BLOOM": 4}
assert dict(scores["in vain"]) == {"SIMPLE": 13, "BLOOM": 1, "GLOBAL_BLOOM": 1}
assert dict(scores["old row not found"]) == {"SIMPLE": 1, "BLOOM": 1, "GLOBAL_BLOOM": 0}

# %% [markdown]
# The file in vain belongs to the new order O-2120-B: its filter says *probably*, and is wrong. Ours err for about
# two keys in a hundred, so that you see it; by default it is one in a billion.
#
# Our keys rise with time, so a key lies in the range of one file at most. With random keys, such as UUIDs, every range
# would span nearly all keys, and only the filters could rule out a file. `BLOOM` also opens more footers as the table
# grows. Could a writer know the file without a search?
#
# **A good place to pause.** To go on another day, type `lab goto 08c` in a terminal: it runs everything to
# here again in a minute or two.

# %% [markdown] tags=["instructor"]
# *For instructors.* 14 minutes. Expect "0" for 08.p1: people think that a bloom filter finds a row. It only rules
# out files. In 08.2 let two people point at the files before anybody types, and ask what each mistake costs: a file
# in vain costs time, a file left out costs a row that is there twice. Short of time: point, and give the rule away.

# %% [markdown]
# ## Computed, or looked up in a list
#
# `BUCKET` computes: it divides the hash of the key by the number of buckets, and the remainder names the file
# group. A table gets its buckets when it is created. Three per day are six files again.
#
# **Predict:** we upsert the same twenty orders. How many files will be rewritten?

# %%
lab.predict("08.p2", ..., tolerance=0)

# %%
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "3"}
bucket_path = load(lab.scratch("orders_bucket"), DEMO_OPTIONS | BUCKETS)
with watch_lookup(lab, bucket_path) as lookups["BUCKET"]:
    upsert(paid_orders, bucket_path, "BUCKET", DEMO_OPTIONS | BUCKETS)
lab.record_actual("08.p2", lookups["BUCKET"].figures["rewritten"])

# %% [markdown]
# The **record index** is a list of all keys with their file groups. It is kept in the [metadata
# table](https://hudi.apache.org/docs/metadata), which `DEMO_OPTIONS` switched off until now. `LISTED` switches it on
# again, and keeps the list small.

# %%
LISTED = DEMO_OPTIONS | {
    "hoodie.metadata.enable": "true",  # the default
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.global.record.level.index.min.filegroup.count": "1",  # the default is 10
}
indexed_path = lab.path("orders_indexed")
if not lab.files(indexed_path):  # a second bulk insert would add all rows again
    load(indexed_path, LISTED)
with watch_lookup(lab, indexed_path) as lookups["RECORD INDEX"]:
    upsert(paid_orders, indexed_path, "GLOBAL_RECORD_LEVEL_INDEX", LISTED)
HTML(lookup_chart(lookups))

# %%
from lab_env.lessons.l08.figures import lookup_table

figures = lookup_table(lookups)
figures

# %% name="four-lookups" proof="BUCKET rewrote three files; the record index only one, but it used the metadata table."
bucket, record = lookups["BUCKET"].figures, lookups["RECORD INDEX"].figures
assert bucket["files opened"] == bucket["rewritten"] == 3
assert record["files opened"] == record["rewritten"] == 1
assert record["metadata files read"] > 0 and record["metadata files written"] > 0
assert (figures.drop(index="RECORD INDEX")["metadata files read"] == 0).all()

# %% [markdown]
# No index wins everywhere. `BUCKET` searches nothing, at any size of the table, but a hash scatters neighbours: twenty
# orders in a row cost three new files, where `BLOOM` wrote one. `BLOOM` needs no upkeep and opens footers. The record
# index goes straight to the file, and each write has to read and update the list.
#
# The counts are the same in every run; the times are not. With Hudi's defaults the other three write to the metadata
# table, too, because the list of files and the statistics are in it. Lesson 20 shows `BUCKET` and `BLOOM` on a growing table.

# %% [markdown] tags=["instructor"]
# *For instructors.* 5 minutes. Expect "1" for 08.p2. Draw twenty dots in a row, then throw them into three boxes.
# Ask what would change with 200 new keys: `BUCKET` has a place for each, `BLOOM` asks every file of the day in vain.
# Many take the record index for everything, because it opens least: point at the last column, and at a commit every
# few seconds.

# %% [markdown]
# ## An order that changes its partition
#
# O-0018 is still on the wrong day in `orders_indexed`, and so is O-0017. The record index finds a key anywhere in the
# table.
#
# **Predict:** we send the correction of O-0018 through the record index. On which day is its row then?

# %%
lab.predict("08.p3", ..., choices=("20", "21", "both"))


# %% name="record-index-stays"
def rows_of(path):
    """The rows of both orders in a table, and the partition of each."""
    both = F.col("order_id").isin("O-0017", "O-0018")
    table = spark.read.format("hudi").load(path).where(both)
    return table.select("order_id", "status", "amount", "_hoodie_partition_path").toPandas()


upsert(corrected(orders, "O-0018"), indexed_path, "GLOBAL_RECORD_LEVEL_INDEX", LISTED)
listed = rows_of(indexed_path)
found = listed[listed["order_id"] == "O-0018"]
days = [path[-2:] for path in found["_hoodie_partition_path"]]
lab.record_actual("08.p3", days[0] if len(days) == 1 else "both")
listed

# %% proof="With the record index O-0018 has one row, corrected, and still on its old day."
assert days == ["20"] and list(found["status"]) == ["corrected"]

# %% [markdown]
# There is no copy and no error, and half of the correction is missing: finding a row does not move it. Each global
# index has its own option for moving rows, and the defaults differ.
#
# ### Exercise 08.3 · Move the orders
#
# Complete the function: it moves orders of the table at `path` to the partition of another day. Read their rows from
# the table, change the day, and write them at once with your `upsert` and the options `LISTED`, so that the record
# index finds them. One option is missing. In Hudi's list of
# [configurations](https://hudi.apache.org/docs/configurations) it ends in `update.partition.path`, and there is one for
# each global index. The check moves other orders of a copy to another day, and looks for three things: they moved,
# there is no copy, and nothing else of any row has changed.


# %% exercise="08.3"
def move(path, order_ids, day):
    """Move orders (a list of ids) of the table at `path` to the partition of this day."""
    # BEGIN SOLUTION
    rows = spark.read.format("hudi").load(path).where(F.col("order_id").isin(order_ids))
    rows = rows.withColumn("partition_date", F.lit(day))
    moving = {"hoodie.record.index.update.partition.path": "true"}
    upsert(rows, path, "GLOBAL_RECORD_LEVEL_INDEX", LISTED | moving)
    # END SOLUTION


lab.check("08.3", move)

# %% [markdown] hint="08.3"
# `spark.read.format("hudi").load(path)`, a `where` for the orders, and `withColumn` for their new day. The options in
# question end in `update.partition.path`.

# %% [markdown] hint="08.3"
# For the record index the option is `hoodie.record.index.update.partition.path`, false unless set.


# %% right="08.3"
# In SQL, for a short list of ids.
def move(path, order_ids, day):
    spark.read.format("hudi").load(path).createOrReplaceTempView("to_move")
    wanted = ", ".join(f"'{order_id}'" for order_id in order_ids)
    rows = spark.sql(f"""
        SELECT order_id, amount, status, order_ts, '{day}' AS partition_date
        FROM to_move WHERE order_id IN ({wanted})
    """)
    options = LISTED | {"hoodie.record.index.update.partition.path": True}
    upsert(rows, path, "RECORD_INDEX", options)  # the older name


# %% right="08.3"
# With a semi join, for a long list of ids.
def move(path, order_ids, day):
    wanted = spark.createDataFrame([(order_id,) for order_id in order_ids], "order_id string")
    rows = spark.read.format("hudi").load(path).join(wanted, "order_id", "left_semi")
    moving = {"hoodie.record.index.update.partition.path": "true"}
    upsert(
        rows.withColumn("partition_date", F.lit(day)),
        path,
        "GLOBAL_RECORD_LEVEL_INDEX",
        LISTED | moving,
    )


# %% wrong="08.3"
# expect: opened the files of every partition
def move(path, order_ids, day):
    rows = spark.read.format("hudi").load(path).where(F.col("order_id").isin(order_ids))
    upsert(rows.withColumn("partition_date", F.lit(day)), path, "GLOBAL_BLOOM", LISTED)


# %% wrong="08.3"
# expect: still in the old partition
def move(path, order_ids, day):
    rows = spark.read.format("hudi").load(indexed_path).where(F.col("order_id").isin(order_ids))
    rows = rows.withColumn("partition_date", F.lit(day))
    options = LISTED | {"hoodie.record.index.update.partition.path": "true"}
    upsert(rows, path, "GLOBAL_RECORD_LEVEL_INDEX", options)


# %% equivalent="08.3"
# without .format('hudi'): plain Parquet has the older versions, too, and the upsert keeps the newest
# without .format('hudi'): of the versions in all files, the write keeps the newest

# %%
lab.use_reference("08.3")
move(indexed_path, ["O-0017", "O-0018"], "2026-11-21")
corrections = after.join(board(spark, {"after the move": indexed_path}))
corrections

# %% name="board" proof="The money of both orders moved to the 21st, to the cent, and the sum is that of the load."
moved = corrections["after the move"] - corrections["as loaded"]
assert moved["both days"] == 0 and moved["2026-11-21"] == -moved["2026-11-20"]
assert moved["2026-11-21"] == rows_of(indexed_path)["amount"].sum()

# %% [markdown] tags=["instructor"]
# *For instructors.* 6 minutes. For 08.p3 most say 21. The point is not the option's name but the
# habit: after a move, count the rows *and* look where they are. Short of time: do 08.3 together.

# %% [markdown]
# ## Which files does a query read?
#
# So far a *writer* had keys and looked for rows. A *reader* has a filter, and should skip the files that
# cannot match.
# Some indexes help it, and so do [**column statistics**](../docs/glossary.md#column-statistics): for each file and
# column the smallest value, the largest, and the number of NULLs. By default Hudi keeps them in the metadata table, for
# the first 32 columns. We ask three tables for one order, `WHERE order_id = 'O-0042'`:
#
# | table | in its metadata table | in its six files |
# |---|---|---|
# | `orders` | it has none: `DEMO_OPTIONS` | key range and bloom filter in each footer |
# | `orders_bucket` | it has none | the same, and the hash of the key decides which file |
# | `orders_indexed` | list of files, column statistics, record index | key range and bloom filter |
#
# **Predict:** how many of the six files of `orders` does the query read?

# %%
lab.predict("08.p4", ..., tolerance=0)

# %% [markdown]
# `files_read` takes its number from the SQL tab of Spark's web page. Next to it we print what many take for that
# number, `inputFiles()`. `HASHED` tells a reader about the buckets.

# %%
HASHED = BUCKETS | {"hoodie.bucket.index.hash.field": "order_id"}
tables = {
    "orders": (orders_path, {}),
    "orders_bucket": (bucket_path, {}),
    "orders_bucket, reader told of the buckets": (bucket_path, HASHED),
    "orders_indexed": (indexed_path, {}),
}
read = {}
for name, (path, options) in tables.items():
    query = spark.read.format("hudi").options(**options).load(path).where("order_id = 'O-0042'")
    read[name] = {"files read": files_read(query), "inputFiles()": len(query.inputFiles())}
lab.record_actual("08.p4", read["orders"]["files read"])
pd.DataFrame(read).T

# %% name="bloom-select" proof="The query reads all six files, two if told of the buckets, and one of orders_indexed."
by_table = list(read.values())
assert [counts["files read"] for counts in by_table] == [6, 6, 2, 1]
assert {counts["inputFiles()"] for counts in by_table} == {6}

# %% [markdown]
# The bloom filter in each footer could have said "certainly not here", but no reader asked it: the filters in the
# footers are for writers. The buckets did not help either until the reader knew about them; then it opened one file
# per day. `inputFiles()` lists the table's files before any filter is applied.
#
# ### Statistics for readers
#
# We ask `orders_indexed` two questions that name no key: which orders came in the last two hours of the second day, and
# which are of 990 euros or more?

# %%
from lab_env.lessons.l08.ranges import column_ranges, draw_orders

LATE = "order_ts >= '2026-11-21 22:00'"
LARGE = "amount >= 990"


def ask(where):
    """A query of the table as it is now."""
    table = spark.read.format("hudi").load(indexed_path).where(where)
    return table.select("order_id", "partition_date", "amount")


as_loaded = {"late": files_read(ask(LATE)), "large": files_read(ask(LARGE))}
print("files read:", as_loaded)
HTML(draw_orders(column_ranges(spark, indexed_path), hours=(46, 48), large_amount=990))

# %% [markdown]
# A filter reads the files whose bar meets its line. Orders were written in the order of time, so the bars of `order_ts`
# are narrow, all but one: its file received the two orders that you moved. For `amount` every bar is wide, because each
# file holds small and large amounts. The statistics are just as correct, and skip nothing.
#
# ### Another order
#
# Clustering, which lesson 07 used against small files, can also sort what it rewrites: `order` names the
# columns. By default it would make one file per day; `SIZE` keeps the files about as small as ours are.
#
# **Predict:** the query for the large amounts reads six files now. After sorting by `amount`, how many?

# %%
lab.predict("08.p5", ..., tolerance=0)

# %%
SIZE = {"hoodie.clustering.plan.strategy.target.file.max.bytes": "200000"}
settings = ",".join(f"{name}={value}" for name, value in (LISTED | SIZE).items())
spark.sql(f"CREATE TABLE IF NOT EXISTS orders_indexed USING hudi LOCATION '{indexed_path}'")
spark.sql(f"""
    CALL run_clustering(table => 'orders_indexed', order => 'amount', options => '{settings}')
""").toPandas()

# %%
by_amount = {"late": files_read(ask(LATE)), "large": files_read(ask(LARGE))}
keys = {
    "order_id BETWEEN 'O-0041' AND 'O-0043'": files_read(
        ask("order_id BETWEEN 'O-0041' AND 'O-0043'")
    ),
    "order_id = 'O-0042'": files_read(ask("order_id = 'O-0042'")),
}
all_files = len(lab.xray(indexed_path).current)
print("files read:", by_amount | keys, "of", all_files)
lab.record_actual("08.p5", by_amount["large"])
HTML(draw_orders(column_ranges(spark, indexed_path), hours=(46, 48), large_amount=990))

# %% name="skipping-sorted" proof="Large amounts are in two files instead of six, late orders in more; a single key is in one."
assert as_loaded == {"late": 1, "large": 6}
assert by_amount["large"] == 2 < by_amount["late"] < all_files
assert keys["order_id = 'O-0042'"] == 1 < keys["order_id BETWEEN 'O-0041' AND 'O-0043'"]

# %% [markdown]
# The large amounts are in the last file of each day, since clustering works within partitions. The late orders are
# spread over every file of their day. A file has *one* order: sort by the column that most filters name. The record
# index does not depend on the order, but helps only if a filter names keys, with `=` or `IN`.
#
# **Do not cluster a table with a `BUCKET` index like this**: Hudi 1.1.1 plans it, refuses to run it, and then
# upserts fail (lesson 07).
#
# ### Exercise 08.4 · Prove that a filter skips files
#
# The board shows amounts in whole euros, and a colleague asks it for orders from 990 up: `SLOW` below. It
# reads every file. Find out why, and write a query `fast`, a DataFrame of `orders_indexed`, that returns the same rows,
# with the columns of `ask`, and skips files. Say in `number` how many files it read.

# %% name="slow-filter"
SLOW = "round(amount) >= 990"
print("files read:", files_read(ask(SLOW)), "of", all_files)

# %% exercise="08.4"
# BEGIN SOLUTION
# PROMPT: fast, number = ..., ...
fast = spark.read.format("hudi").load(indexed_path).where("amount >= 989.50")
number = files_read(fast)
# END SOLUTION
lab.check("08.4", (fast, number))

# %% [markdown] hint="08.4"
# The statistics know the range of `amount`, not that of `round(amount)`. Leave the column alone on its side of the
# comparison, and change the other side.

# %% [markdown] hint="08.4"
# Which is the smallest amount, in cents, that is rounded to 990? And `files_read` counts.

# %% right="08.4"
# With a range, if the amounts have an upper bound.
spark.sql("REFRESH TABLE orders_indexed")
fast = spark.sql(
    "SELECT * FROM orders_indexed WHERE amount BETWEEN 989.50 AND 1000 ORDER BY order_id"
)
number = str(files_read(fast))

# %% right="08.4"
# On the DataFrame of the lesson.
fast = ask("amount >= 989.50")
number = files_read(fast)

# %% wrong="08.4"
# expect: return the columns of `ask`
fast = ask("amount >= 989.50").select("order_id")
number = files_read(fast)

# %% wrong="08.4"
# expect: rows that the board shows are missing
fast = ask("amount >= 990")
number = files_read(fast)

# %% wrong="08.4"
# expect: inputFiles lists the table's files
fast = ask("amount >= 989.50")
number = len(fast.inputFiles())

# %% wrong="08.4"
# expect: of the column, not of an expression
fast = ask("floor(amount + 0.5) >= 990")
number = files_read(fast)

# %% wrong="08.4"
# expect: of the column, not of an expression
fast = ask(SLOW).cache()  # a cached query reads no file
number = files_read(fast)

# %% wrong="08.4"
# expect: that the board does not show
fast = ask("amount >= 989.50").union(ask("amount >= 999"))
number = files_read(fast)

# %% wrong="08.4"
# expect: has become
fast = ask("amount >= 989.50").withColumn("amount", F.col("amount").cast("double"))
number = files_read(fast)

# %% harmless="08.4"
# element 1: a column more: the board shows three other columns
# element 1: order_ts as string: the board shows three other columns
# element 1: status off by one unit: the board shows three other columns
# element 1: order_ts off by one unit: the board shows three other columns

# %% [markdown]
# Now cover the right side, and answer two questions for each tool:
#
# | tool | Does a writer find its rows with it? | Does a reader skip files with it? |
# |---|---|---|
# | `SIMPLE` | by reading the keys of the files | no |
# | `BLOOM` | by the footers | not by the footers; if the metadata table [keeps the filters](https://hudi.apache.org/docs/metadata), yes |
# | `BUCKET` | by computing the place | when told about the buckets |
# | record index | by looking up the place | for `=` and `IN` on the key |
# | column statistics | no | where close values lie together |
# | [secondary index](https://hudi.apache.org/docs/indexes) | no | for `=` and `IN` on another column; it needs a record index |
# | [expression index](https://hudi.apache.org/docs/indexes) | no | for `=` on an expression such as `hour(order_ts)` |
#
# `CREATE INDEX` makes the last two, since Hudi 1.0. It wants a lock provider, and `round` is not among the functions
# of an expression index.

# %% [markdown] tags=["instructor"]
# *For instructors.* 13 minutes. Ask 08.p4 aloud and wait: nearly everyone says "one". Draw the last
# table on the board, empty, and fill it in together. After 08.p5 ask how many files the late hours
# need now. Time is not shown in this section on
# purpose: with six files there is none to save. Short of time: leave out the buckets of the reader.

# %% [markdown]
# > **In production**
# >
# > - Simple buckets, as here, have a fixed number. [Partition-level
# >   buckets](https://hudi.apache.org/docs/indexes) can be rescaled while no writer runs, consistent hashing
# >   (Merge-on-Read only) while writers run.
# > - One writer that switches the metadata table off, as `DEMO_OPTIONS` do, deletes it and every index in it, for all
# >   readers and writers.
# > - [Clustering](https://hudi.apache.org/docs/clustering) rewrites whole files and competes with your writers for
# >   them. Run it in a job of its own, on partitions that nobody writes to.
# > - A record index is built by reading all keys once. The
# >   [asynchronous indexer](https://hudi.apache.org/docs/metadata_indexing) does it while a stream goes on writing. Stream
# >   and indexer need the same lock provider, and every writer must keep the metadata table on.
#
# ## Key points
#
# - An upsert replaces the row that its index finds, and inserts if it finds none: a wrong index is a doubled row, and
#   an option that Spark does not know is no error.
# - Ranges and filters only rule out files: what is left is read, sometimes in vain.
# - No index wins everywhere: `BLOOM` opens footers, `BUCKET` scatters neighbours, the record index pays at each write.
# - A row whose partition changes needs a global index *and* its option to move rows: look where the row is, not only how
#   many rows there are.
# - Statistics skip files only when the values lie together: clustering sorts, and a table has one order.
# - Prove skipping by the number of files read, which `inputFiles()` does not tell.
#
# ## What's next
#
# You know how the table stores and finds its rows. Lesson 09 asks which of them a query sees.

# %%
spark.stop()
