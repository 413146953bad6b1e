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
# - My table has thousands of files. How does Hudi know which one holds order O-0017?
# - An order's partition was wrong and gets corrected. Where is its row then?
# - Which files does a query for a few orders open?
#
# ## Objectives
#
# At the end of this lesson you can
#
# - repair an upsert that does not find its rows by the index that you name (08.1),
# - write a table that keeps an index of all its keys (08.2),
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
# The shop's board gets a second line in this lesson: **revenue by day**. The table has one partition
# per day, so an order in the wrong partition is money on the wrong line.

# %%
import pandas as pd
from IPython.display import HTML
from pyspark.sql import functions as F

from lab_env import Lab

lab = Lab.start("08")
spark = lab.spark

# %% [markdown]
# Six thousand orders of two days, 3,000 per day. Hudi compares keys as text, so the numbers have leading
# zeros: our order O-17 is `O-0017` here.

# %%
orders = spark.sql("""
    SELECT concat('O-', lpad(n, 4, '0')) AS order_id,
           CAST(CASE n WHEN 1234 THEN 989.49 WHEN 4321 THEN 989.50
                ELSE 5 + pmod(hash(n, 'amount'), 99500) / 100 END AS DECIMAL(12, 2)) AS amount,
           'new' AS status,
           TIMESTAMP '2026-11-20' + make_interval(0, 0, 0, 0, 0, 0, n * 28.8) AS order_ts,
           IF(n < 3000, '2026-11-20', '2026-11-21') AS partition_date
    FROM range(0, 6000, 1, 6) AS numbers(n)
""")
orders.createOrReplaceTempView("shop")

ORDERS = {
    "hoodie.table.name": "orders",
    "hoodie.datasource.write.recordkey.field": "order_id",
    "hoodie.table.ordering.fields": "order_ts",
    "hoodie.datasource.write.partitionpath.field": "partition_date",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.index.bloom.num_entries": "2000",  # the default is 60,000
}

# %% [markdown]
# `LOAD` bulk-inserts. Each Spark partition writes one file for each day of its orders. Ours hold one day each, so
# six Spark partitions make six files. Run the cell and read on.

# %%
LOAD = {"hoodie.datasource.write.operation": "bulk_insert"}  # new rows only: no look-up, lesson 04
orders_path = lab.scratch("orders")
orders.write.format("hudi").options(**ORDERS, **LOAD).mode("append").save(orders_path)

# %% [markdown]
# While it runs: an upsert brings the *key* of a row. Hudi looks up the *file group* that holds the key, and
# writes the row's new version there. The tool for this is the [**index**](../docs/glossary.md#index). A query
# brings a *filter* and should skip the files that cannot match. Its tools are [**column
# statistics**](../docs/glossary.md#column-statistics) and some of the indexes. So ask two
# questions about each tool:
#
# > **Does a writer find its rows with it? Does a reader skip files with it?**
#
# Which tools does a table have if nobody names any? Here is what Hudi put into the metadata table, the
# small Hudi table in `.hoodie/metadata`.

# %%
from lab_env.lessons.l08.figures import metadata_parts

table = lab.xray(orders_path)
metadata_parts(table)

# %% name="defaults" proof="By default the metadata table lists files and has column statistics, and no keys."
assert set(metadata_parts(table).index) == {"files", "column_stats", "partition_stats"}
assert len(table.current) == 6

# %% [markdown]
# A list of the files, and statistics of the columns per file and per partition. No part lists the
# keys. How many of the six files does a query for one order read, with these defaults?

# %%
from lab_env.tables.probes.scans import files_read

one_order = spark.read.format("hudi").load(orders_path).where("order_id = 'O-0042'")
read_by_default = files_read(one_order)
read_by_default

# %% proof="With Hudi's defaults, a query for one order reads one file."
assert read_by_default == 1

# %% [markdown]
# ## How an upsert finds its row
#
# One file. The last section finds out why; we begin with the writers.
#
# Twenty orders from just after midnight were paid: O-0010 to O-0029.

# %%
paid = spark.sql("""
    SELECT order_id, amount, 'paid' AS status, order_ts + INTERVAL 1 HOUR AS order_ts,
        partition_date
    FROM shop WHERE order_id BETWEEN 'O-0010' AND 'O-0029'
""")

# %% [markdown]
# We measure in files. `watch_lookup` records what Spark's S3 client reads of each object. Its chart shows
# whether a write read only a file's [**footer**](../docs/glossary.md#footer), its last part, or also its rows.
#
# We try two indexes. `SIMPLE` is Hudi's default on Spark: it reads the keys of the files and compares them with the
# batch. Three of the six files are enough, because each order names its day. The other index is `BLOOM`.
#
# A colleague has written the upsert. (`DEMO_OPTIONS` switch the metadata table off, so that only data files are
# counted. Do that in a lab only: one such writer deletes the [metadata
# table](https://hudi.apache.org/docs/metadata), and every index in it, for all readers and writers.)

# %%
from lab_env.lessons.l08.figures import lookup_chart, watch_lookup
from lab_env.pipeline.options import DEMO_OPTIONS


def draft(rows, path, index, options):
    """Upsert rows into the table at `path`, which finds them by an index such as `"BLOOM"`."""
    options = {**ORDERS, **options, "index.type": index}
    rows.write.format("hudi").options(**options).mode("append").save(path)


lookups = {}
for index in ("SIMPLE", "BLOOM"):
    with watch_lookup(lab, orders_path) as lookup:
        draft(paid, orders_path, index, DEMO_OPTIONS)
    lookups[index] = lookup
HTML(lookup_chart(lookups))

# %% proof="Whichever index it is asked for, the draft reads rows in all three files of the day."
as_drafted = {index: lookup.figures["rows read in"] for index, lookup in lookups.items()}
assert as_drafted == {"SIMPLE": 3, "BLOOM": 3}

# %% [markdown]
# ### Exercise 08.1 · Which index was that?
#
# Both writes did the same, although the second one was asked for `BLOOM`. No error was raised. Find out why
# ([Hudi's page on indexes](https://hudi.apache.org/docs/indexes) helps), and write the repaired function, `upsert`. Most
# upserts of this lesson go through it.


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


# %% [markdown]
# `index.type` is the option of Flink's writer; the colleague took it from the shop's Flink job. Spark's writer
# silently ignores options that it does not know. So the draft used `SIMPLE` twice.
#
# Now `BLOOM` itself. By default Hudi stores three things in the footer of each base file: the smallest key,
# the largest key, and a [**bloom filter**](../docs/glossary.md#bloom-filter), a bit pattern made of all keys.
# The filter answers "is this key in the file?" with *certainly not* or *probably*.
#
# **Predict:** with `SIMPLE`, the write read rows in three files. With `BLOOM`, in how many?

# %%
lab.predict("08.p1", ..., tolerance=0)

# %%
lab.use_reference("08.1")

with watch_lookup(lab, orders_path) as lookup:
    upsert(paid, orders_path, "BLOOM", DEMO_OPTIONS)
lookups["BLOOM"] = lookup
lab.record_actual("08.p1", lookup.figures["rows read in"])
HTML(lookup_chart(lookups))

# %% name="bloom-and-simple" proof="SIMPLE and BLOOM opened three files; BLOOM read rows in one, SIMPLE in all three."
simple, bloom = lookups["SIMPLE"].figures, lookups["BLOOM"].figures
assert simple["files opened"] == bloom["files opened"] == 3
assert simple["rows read in"] == 3 and bloom["rows read in"] == 1
assert simple["rewritten"] == bloom["rewritten"] == 1

# %% [markdown]
# Both opened the three files of the day. `SIMPLE` read the keys in each of them. `BLOOM` stopped at the footer in
# two, and read rows only in the file that it then rewrote. Here is what the six footers say. A bar is the range
# of keys in one file; the line is our batch.

# %%
from lab_env.lessons.l08.figures import key_ranges
from lab_env.lessons.l08.ranges import range_chart

keys = key_ranges(lab, orders_path)
HTML(range_chart({"keys in each file": keys}, {"keys in each file": (10, 29)}, "order number"))

# %% name="index-in-the-footer" proof="The footer of each base file has key range and bloom filter; the write made no index file."
meets = (keys["low"] <= 29) & (keys["high"] >= 10)
assert meets.sum() == 1 and (keys["filter_bytes"] > 5_000).all()
written = lookups["BLOOM"].after - lookups["BLOOM"].before
added = written["part"].value_counts()
assert added.to_dict() == {"base": 1, "timeline": 3}  # and no index file

# %% [markdown]
# Five of these six files were loaded without naming an index; the filters are there all the same. Our orders are
# neighbours, so the line meets one bar: keys that rise with time make narrow ranges, and the ranges alone rule out
# five files. With random keys, such as UUIDs, every bar would span the whole width, and only the filters could
# rule out a file.
#
# `BLOOM` has no index file: the index is in the footers of the data files.

# %% [markdown] tags=["instructor"]
# *For instructors.* 15 minutes. Expect "0" for 08.p1: people think that a bloom filter finds a
# row. It only rules out files; the row must still be read to be merged. In 08.1 ask what tells the
# draft's two writes apart: nothing but their labels. Short of time: give 08.1 away.

# %% [markdown]
# ## Computed, or looked up in a list
#
# `BUCKET` does not search. It computes: it divides the hash of the key by the number of buckets, and the
# remainder names the file group. A table gets its buckets when it is created, so we make a second table. Its
# three buckets per day are six files again.

# %%
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "3"}
bucket_path = lab.scratch("orders_bucket")
orders.write.format("hudi").options(**ORDERS, **DEMO_OPTIONS, **LOAD, **BUCKETS).mode(
    "append"
).save(bucket_path)

# %% [markdown]
# **Predict:** we upsert the same twenty orders. How many files will be rewritten?

# %%
lab.predict("08.p2", ..., tolerance=0)

# %% name="bucket"
with watch_lookup(lab, bucket_path) as lookup:
    upsert(paid, bucket_path, "BUCKET", DEMO_OPTIONS | BUCKETS)
lookups["BUCKET"] = lookup
lab.record_actual("08.p2", lookup.figures["rewritten"])
lookup.after

# %% proof="BUCKET opened no file in vain, and rewrote all three."
assert lookups["BUCKET"].figures["rewritten"] == lookups["BUCKET"].figures["files opened"] == 3

# %% [markdown]
# No file was opened in vain, but all three files of the day were rewritten: a hash scatters
# neighbours over the buckets. `BLOOM` wrote one new file for this batch, `BUCKET` wrote three.
#
# ### A list of all keys: the record index
#
# The **record index** is one more part of the metadata table. It lists every key with its file group. A write
# finds its rows in it, and has to keep it up to date. `LISTS` switches the metadata table on again and keeps its
# parts small.

# %%
LISTS = {
    **DEMO_OPTIONS,  # no cleaning, one task
    "hoodie.metadata.enable": "true",  # the default
    "hoodie.metadata.global.record.level.index.min.filegroup.count": "1",  # the default is 10
    "hoodie.metadata.index.column.stats.file.group.count": "1",  # the default is 2
    "hoodie.metadata.index.column.stats.column.list": "order_id,amount,order_ts",
}

# %% [markdown]
# ### Exercise 08.2 · Keep a record index
#
# Complete the function. It writes rows to the table at `path` with the given operation, such as
# `"bulk_insert"` or `"upsert"`. The table keeps a record index, and the write finds its rows in it.
# Add what is missing to `ORDERS` and `LISTS`. Hudi's page on
# [indexes](https://hudi.apache.org/docs/indexes) describes the global record index.


# %% exercise="08.2"
def write_listed(rows, path, operation):
    """Write rows with this operation to a table that keeps a list of its keys."""
    # BEGIN SOLUTION
    (
        rows.write.format("hudi")
        .options(**ORDERS, **LISTS)
        .option("hoodie.datasource.write.operation", operation)
        .option("hoodie.index.type", "GLOBAL_RECORD_LEVEL_INDEX")
        .option("hoodie.metadata.global.record.level.index.enable", "true")
        .mode("append")
        .save(path)
    )
    # END SOLUTION


lab.check("08.2", write_listed)

# %% [markdown] hint="08.2"
# The write of 08.1, with `LISTS` and three more options: `hoodie.datasource.write.operation`, the index type
# `GLOBAL_RECORD_LEVEL_INDEX` (`RECORD_INDEX` is its older name), and one that makes the table keep the index.

# %% [markdown] hint="08.2"
# `hoodie.metadata.global.record.level.index.enable` makes the table keep the record index.


# %% right="08.2"
# With the older name of the index, as in Hudi before 1.1.
def write_listed(rows, path, operation):
    listed = {"hoodie.metadata.global.record.level.index.enable": True}
    listed["hoodie.datasource.write.operation"] = operation
    upsert(rows, path, "RECORD_INDEX", LISTS | listed)  # the older name


# %% wrong="08.2"
# expect: none lists the keys
def write_listed(rows, path, operation):
    options = {**ORDERS, **LISTS, "hoodie.datasource.write.operation": operation}
    rows.write.format("hudi").options(**options).mode("append").save(path)


# %% wrong="08.2"
# expect: Which index type looks into the list
def write_listed(rows, path, operation):
    options = {**ORDERS, **LISTS, "hoodie.datasource.write.operation": operation}
    options["hoodie.metadata.global.record.level.index.enable"] = "true"
    rows.write.format("hudi").options(**options).mode("append").save(path)


# %%
lab.use_reference("08.2")
indexed_path = lab.path("orders_indexed")
if not lab.files(indexed_path):  # a second bulk insert would add all rows again
    write_listed(orders, indexed_path, "bulk_insert")

# %%
from lab_env.lessons.l08.figures import lookup_table

with watch_lookup(lab, indexed_path) as lookup:
    write_listed(paid, indexed_path, "upsert")
lookups["RECORD INDEX"] = lookup
HTML(lookup_chart(lookups))

# %%
figures = lookup_table(lookups)
figures

# %% name="four-lookups" proof="The record index opened the one right file, and read and wrote the metadata table for it."
record = lookups["RECORD INDEX"].figures
assert record["files opened"] == record["rewritten"] == 1
assert record["metadata files read"] > 0 and record["metadata files written"] > 0
assert (figures.drop(index="RECORD INDEX")["metadata files read"] == 0).all()
assert "record_index" in metadata_parts(lookups["RECORD INDEX"].after)

# %% [markdown]
# The record index goes straight to the one file. The price is in the last two columns: it reads
# the metadata table and writes to it. (With Hudi's defaults the other three write there, too: the
# list of files and the statistics. Only the record index is extra.) Do not rank by the times: they come from one
# run. The counts are the same in every run.
#
# So no index wins everywhere. `BUCKET` opens nothing in vain, at any size of the table, but scatters neighbours.
# `BLOOM` needs no upkeep and reads few rows when keys rise with time, but opens more footers as the table grows. The
# record index knows each place, and pays at each write. Lesson 20 shows `BUCKET` and `BLOOM` on a growing table.
#
# `SIMPLE`, `BLOOM` and `BUCKET` look only into the partition that the row names. Our record index
# knows the whole table: it is a [**global index**](../docs/glossary.md#global-index). (`RECORD_LEVEL_INDEX`, without
# `GLOBAL_`, looks only into the row's partition.)
#
# **A good place to pause.** To go on another day, type `lab goto 08c` in a terminal: it runs everything to
# here again in a minute or two.

# %% [markdown] tags=["instructor"]
# *For instructors.* 10 minutes. Expect "1" for 08.p2. Draw twenty dots in a row, then throw
# them into three boxes. Ask what would change with 200 new keys: `BUCKET` has a place for each,
# `BLOOM` asks every file of the day in vain. Many take the record index for everything, because it
# opens least: point at the last column, and at a commit every few seconds. Short of time: give 08.2 away.

# %% [markdown]
# ## An order that changes its partition
#
# Two orders are on the wrong day: the shop's clock was wrong, and O-0017 and O-0018 belong to
# 21 November. A correction is an update with the new `partition_date`. We correct O-0018, with `SIMPLE`.


# %%
def corrected(order_id):
    """The correction of an order's day."""
    return spark.sql(f"""
        SELECT order_id, amount, 'corrected' AS status, order_ts + INTERVAL 2 HOURS AS order_ts,
            '2026-11-21' AS partition_date
        FROM shop WHERE order_id = '{order_id}'
    """)


upsert(corrected("O-0018"), orders_path, "SIMPLE", DEMO_OPTIONS)


# %%
def rows_of(path):
    """The rows of both orders in a table, and the partition of each."""
    table = spark.read.format("hudi").load(path).where("order_id IN ('O-0017', 'O-0018')")
    rows = table.select("order_id", "status", "amount", "_hoodie_partition_path")
    return rows.orderBy("order_id", "status").toPandas()


after = rows_of(orders_path)
after

# %% name="the-copy" proof="SIMPLE made a second row of O-0018, in its new day."
assert list(after["order_id"]) == ["O-0017", "O-0018", "O-0018"]
assert set(after["_hoodie_partition_path"][1:].str[-2:]) == {"20", "21"}

# %% [markdown]
# O-0018 has two rows: `SIMPLE` looked for it among the files of 21 November, found nothing, and
# inserted. (`BLOOM` and `BUCKET` look only there, too; not measured here.) On the board its money counts
# twice.
#
# The record index finds a key anywhere in the table. **Predict:** we send the same correction of O-0018 to
# `orders_indexed`, through the record index. On which day is its row then?

# %%
lab.predict("08.p3", ..., choices=("20", "21", "both"))

# %% name="record-index-stays"
write_listed(corrected("O-0018"), indexed_path, "upsert")
listed = rows_of(indexed_path)

found = listed[listed["order_id"] == "O-0018"]
days = [path[-2:] for path in found["_hoodie_partition_path"]]
lab.record_actual("08.p3", days[0] if len(days) == 1 else "both")
listed

# %% proof="With the record index, the corrected row stayed in its old day."
assert days == ["20"] and list(found["status"]) == ["corrected"]

# %% [markdown]
# One row, corrected, but still on the *old* day. There is no copy and no error, and only half of the correction. Each
# global index has its own option for moving rows, and the defaults differ: `GLOBAL_BLOOM` and `GLOBAL_SIMPLE`, which
# search the files of every partition, move rows by default.
#
# ### Exercise 08.3 · Move the orders
#
# In `orders_indexed` O-0018 is still on the wrong day, and so is O-0017. Complete the function: it
# moves orders of the table at `path` to the partition of another day, and nothing else of their
# rows changes. Read the rows from the table, change their day, and write them at once with your `upsert`
# and the options `LISTED`, so that the record index finds them. One option is missing: Hudi's list of
# [configurations](https://hudi.apache.org/docs/configurations) has one for each global index. The check runs your
# function on a copy, with other orders and another day.

# %%
LISTED = LISTS | {"hoodie.metadata.global.record.level.index.enable": "true"}


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
moved = rows_of(indexed_path)
moved

# %% proof="The function moved both orders to their new day, one row each."
assert list(moved["order_id"]) == ["O-0017", "O-0018"]
assert set(moved["_hoodie_partition_path"]) == {"partition_date=2026-11-21"}

# %% [markdown] tags=["instructor"]
# *For instructors.* 9 minutes. For 08.p3 most say 21. The point is not the option's name but the
# habit: after a move, count the rows *and* look where they are. Short of time: do 08.3 together.

# %% [markdown]
# ## Which files does a query read?
#
# Now the readers. With Hudi's defaults a query for one order read one file of six. Since then
# `DEMO_OPTIONS` have taken the metadata table of `orders` away. Each file still has a bloom filter
# in its footer, made from `order_id`.
#
# **Predict:** the same query, `WHERE order_id = 'O-0042'`. How many of the six files does it read now?

# %%
lab.predict("08.p4", ..., tolerance=0)

# %% [markdown]
# `files_read` takes its number from the SQL tab of Spark's web page. Next to it we print what many take for that
# number, `inputFiles()`. `HASHED` tells a reader about the buckets: the index type, the number of buckets, and the field
# that is hashed.

# %%
HASHED = BUCKETS | {"hoodie.bucket.index.hash.field": "order_id"}
tables = {
    "orders, bloom filters only": (orders_path, {}),
    "orders_bucket": (bucket_path, {}),
    "orders_bucket, reader told of the buckets": (bucket_path, HASHED),
}
read = {}
for name, (path, options) in tables.items():
    query = spark.read.format("hudi").options(**options).load(path).where("order_id = 'O-0042'")
    read[name] = {"files read": files_read(query), "inputFiles()": len(query.inputFiles())}
lab.record_actual("08.p4", read["orders, bloom filters only"]["files read"])
pd.DataFrame(read).T

# %% name="bloom-select" proof="A query by key reads all files with a bloom filter; told of the buckets, it reads two."
assert read["orders, bloom filters only"] == {"files read": 6, "inputFiles()": 6}
assert read["orders_bucket"] == {"files read": 6, "inputFiles()": 6}
with_buckets = read["orders_bucket, reader told of the buckets"]
assert with_buckets == {"files read": 2, "inputFiles()": 6}  # one bucket per day
assert len(lab.xray(orders_path).current) == 6

# %% [markdown]
# Every file of the table was opened. The bloom filter in each footer could have said "certainly not
# here", but nobody asked it: the filters in the footers are for writers. The first time the column
# statistics helped: keys rise with time, so only one file's range holds O-0042.
#
# The buckets did not help either until the reader knew about them. Then it computed the bucket and opened one file
# per day. `inputFiles()` lists the table's files before any filter is applied.
#
# ### Statistics for readers
#
# For each file and column, column statistics hold the smallest value, the largest, and the number of NULLs. By
# default only the first 32 columns of a table get them. We ask `orders_indexed` two questions: who ordered in the
# last two hours of the second day, and who ordered for 990 euros or more?

# %%
LATE = "order_ts >= '2026-11-21 22:00'"
LARGE = "amount >= 990"


def ask(where):
    """A query of the table as it is now."""
    table = spark.read.format("hudi").load(indexed_path).where(where)
    return table.select("order_id", "partition_date", "amount")


def ranges():
    """The smallest and largest time and amount in each file."""
    rows = spark.read.format("hudi").load(indexed_path).groupBy(F.input_file_name())
    columns = [f(name) for name in ("order_ts", "amount") for f in (F.min, F.max)]
    return rows.agg(*columns).toPandas()


as_loaded = ranges()
read_as_loaded = {"late": files_read(ask(LATE)), "large": files_read(ask(LARGE))}
print("files read:", read_as_loaded)

# %%
from lab_env.lessons.l08.ranges import draw_orders

HTML(draw_orders(as_loaded, hours=(46, 48), large_amount=990))

# %% name="skipping-as-loaded" proof="Column statistics skip files for order_ts and none for the amount; without them all are read."
assert read_as_loaded == {"late": 1, "large": 6}
without = spark.read.format("hudi").option("hoodie.enable.data.skipping", "false")
assert files_read(without.load(indexed_path).where(LATE)) == 6

# %% [markdown]
# A filter reads the files whose bar meets its line. Orders were written in the order of time, so the bars of
# `order_ts` are narrow, and one file is enough. (One is wide: its file received the two orders that you moved.) For
# `amount` every bar is wide, because each file holds small and large amounts: the statistics are just as correct,
# and skip nothing.
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
spark.sql(f"CREATE TABLE IF NOT EXISTS orders_indexed USING hudi LOCATION '{indexed_path}'")
SIZE = {"hoodie.clustering.plan.strategy.target.file.max.bytes": "200000"}
# The procedure separates its options by commas, so leave out the one whose value has commas.
settings = ",".join(
    f"{name}={value}" for name, value in (LISTED | SIZE).items() if "," not in value
)
spark.sql(f"""
    CALL run_clustering(table => 'orders_indexed', order => 'amount', options => '{settings}')
""").toPandas()

# %%
sorted_by_amount = ranges()
read_sorted = {"late": files_read(ask(LATE)), "large": files_read(ask(LARGE))}
print("files read:", read_sorted, "of", len(sorted_by_amount))
lab.record_actual("08.p5", read_sorted["large"])
HTML(draw_orders(sorted_by_amount, hours=(46, 48), large_amount=990))

# %% name="skipping-sorted" proof="Sorted by amount, the large amounts are in two files, and the late orders in more."
all_sorted = len(lab.xray(indexed_path).current)
assert len(sorted_by_amount) == all_sorted > 4
assert read_sorted["large"] == 2 < read_sorted["late"] < all_sorted

# %% [markdown]
# Two: the last file of each day, since clustering works within partitions. The late orders are now spread over
# every file of their day. A file has *one* order. Sort by the column that most filters name.
#
# **Do not cluster a table with a `BUCKET` index like this**: Hudi 1.1.1 plans it, refuses to run it, and then
# upserts fail (lesson 07). The file sizing of lesson 07 does not help there either: the hash chooses the file.
#
# The ranges of the keys are wide now, too. Here are a range of keys and a single key:

# %% name="record-index-for-readers"
read_keys = {
    "range": files_read(ask("order_id BETWEEN 'O-0041' AND 'O-0043'")),
    "single": files_read(ask("order_id = 'O-0042'")),
}
read_keys

# %% proof="The record index finds a single key in one file, but not a range."
assert read_keys["single"] == 1 < read_keys["range"]

# %% [markdown]
# The statistics hardly help the range. The single key needs one file, thanks to the record index: readers use it, too,
# when the filter names keys (`=` or `IN`).
#
# ### Exercise 08.4 · Prove that a filter skips files
#
# The board shows amounts in whole euros, and a colleague asks it for orders from 990 up: `SLOW` below. It
# reads every file. Find out why, and write a query `fast`, a DataFrame of `orders_indexed`, that returns the same rows,
# with the columns of `ask`, and skips files. Say in `number` how many files it read.

# %% name="slow-filter"
SLOW = "round(amount) >= 990"
read_slow = files_read(ask(SLOW))
print("files read:", read_slow)

# %% proof="The colleague's filter reads every file of the table."
assert read_slow == all_sorted

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

# %%
lab.use_reference("08.4")

# %% [markdown]
# ### The board
#
# Revenue by day, from both tables that got the corrections, and the large orders of each day by your
# query. In which table is the money on the right line?

# %%
lines = [
    spark.read.format("hudi").load(path).groupBy("partition_date").agg(F.sum("amount").alias(name))
    for name, path in {"orders": orders_path, "orders_indexed": indexed_path}.items()
]
large_orders = fast.groupBy("partition_date").agg(F.sum("amount").alias("large orders"))
board = lines[0].join(lines[1], "partition_date").join(large_orders, "partition_date").toPandas()
board.sort_values("partition_date", ignore_index=True)

# %% name="board" proof="The moved orders are on the right line, to the cent; the copy of O-0018 is counted twice."
true = spark.sql("""
    SELECT sum(amount) FILTER (WHERE order_id IN ('O-0017', 'O-0018')) AS moved,
           sum(amount) FILTER (WHERE order_id = 'O-0018') AS doubled,
           sum(amount) FILTER (WHERE partition_date = '2026-11-20') AS first_day,
           sum(amount) AS total
    FROM shop
""").first()
by_day = board.set_index("partition_date")
assert by_day.loc["2026-11-20", "orders_indexed"] == true.first_day - true.moved
assert by_day["orders_indexed"].sum() == true.total
assert by_day["orders"].sum() == true.total + true.doubled

# %% [markdown]
# `orders_indexed` has both orders on the line of the 21st, to the cent. `orders` counts O-0018 on both
# lines. There was no error; only the sum shows it.
#
# Back to the two questions. Cover the right side, and answer them for each tool:
#
# | tool | Does a writer find its rows with it? | Does a reader skip files with it? |
# |---|---|---|
# | `SIMPLE` | by reading the keys of the files | no |
# | `BLOOM` | by the footers | no |
# | `BUCKET` | by computing the place | when told about the buckets |
# | record index | by looking up the place | for `=` and `IN` |
# | column statistics | no | where close values lie together |

# %% [markdown] tags=["instructor"]
# *For instructors.* 14 minutes. Ask 08.p4 aloud and wait: nearly everyone says "one". Draw the last
# table on the board, empty, and fill it in together. After 08.p5 ask how many files the late hours
# need now. Time is not shown in this section on
# purpose: with six files there is none to save. Short of time: leave out the buckets of the reader.

# %% [markdown]
# > **In production**
# >
# > - Simple buckets, as here, have a fixed number. [Partition-level
# >   buckets](https://hudi.apache.org/docs/indexes) can be rescaled while no writer runs, consistent hashing
# >   (Merge-on-Read only) while writers run.
# > - [Clustering](https://hudi.apache.org/docs/clustering) rewrites whole files and competes with your writers for
# >   them. Run it in a job of its own, on partitions that nobody writes to.
# > - A record index is built by reading all keys once. The
# >   [asynchronous indexer](https://hudi.apache.org/docs/metadata_indexing) does it while a stream goes on writing; every
# >   writer must keep the metadata table on.
#
# ## Key points
#
# - Ask about each tool: does a writer find its rows with it, and does a reader skip files with it?
# - No index wins everywhere: `BLOOM` opens footers, `BUCKET` scatters neighbours, the record index pays at each write.
# - A row whose partition changes needs a global index *and* its option to move rows: look where the row is, not only how
#   many there are.
# - Statistics skip files only when the values lie together: clustering sorts, and a table has one order.
# - Prove skipping by the number of files read, which `inputFiles()` does not tell.
#
# ## What's next
#
# You know how the table stores and finds its rows. Lesson 09 asks which of them a query sees.

# %%
spark.stop()
