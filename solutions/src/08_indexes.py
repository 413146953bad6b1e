# ---
# title: How does an upsert find its row, and how does a query skip files?
# minutes: {teach: 32, do: 18}
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
# - My table has thousands of files. How does Hudi know which one holds order O-17?
# - An order's partition was wrong and gets corrected. Why are there two rows now?
# - I have an index. Why does my query still read every file?
#
# ## Objectives
#
# At the end of this lesson you can
#
# - let a row move to another partition without leaving a copy behind (08.1),
# - choose an index for a workload from what it reads and writes (08.2),
# - write a filter that skips files, and prove that it does (08.3).
#
# ## What you need
#
# Lesson 05: file groups, base files, and what an update rewrites. Lesson 07: clustering. Fifty minutes.

# %% [markdown]
# ## Start
#
# The first cell starts the lab and makes the orders of two days: 6,000 of them, O-0000 to O-5999. Our
# order O-17 is called O-0017 here, because Hudi compares keys as text. The second cell writes them as
# six files, three a day, a thousand orders each. Run both and read on.

# %%
import io
import time

import pandas as pd
import pyarrow.parquet as pq
from IPython.display import HTML
from lab_env import Lab, store
from lab_env.lessons.l08.figures import Lookup, lookup_chart, lookup_table
from lab_env.lessons.l08.ranges import range_chart
from lab_env.probes.reads import watch
from lab_env.pipeline.options import DEMO_OPTIONS
from lab_env.probes.scans import files_read

lab = Lab.start("08")
spark = lab.spark

spark.sql("""
    CREATE OR REPLACE TEMPORARY VIEW shop AS
    SELECT concat('O-', lpad(n, 4, '0')) AS order_id,
           CAST(5 + pmod(hash(n, 'amount'), 99500) / 100 AS DECIMAL(12, 2)) AS amount,
           'new' AS status,
           TIMESTAMP '2026-11-20' + make_interval(0, 0, 0, 0, 0, 0, n * 28.8) AS order_ts,
           IF(n < 3000, '2026-11-20', '2026-11-21') AS partition_date
    FROM range(0, 6000, 1, 6) AS numbers(n)
""")
orders = spark.table("shop")

# %%
ORDERS = {
    "hoodie.table.name": "orders",
    "hoodie.datasource.write.recordkey.field": "order_id",
    "hoodie.table.ordering.fields": "order_ts",
    "hoodie.datasource.write.partitionpath.field": "partition_date",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.index.bloom.num_entries": "2000",  # more than a file's keys; the default is 60,000
}
LOAD = {
    "hoodie.datasource.write.operation": "bulk_insert",  # new rows only: no look-up, lesson 04
    "hoodie.bulkinsert.sort.mode": "NONE",  # one file for each of the six Spark partitions
}
plain = lab.path("orders")
orders.write.format("hudi").options(**ORDERS, **DEMO_OPTIONS, **LOAD).mode("append").save(plain)

# %% [markdown]
# While it runs: an upsert brings the *key* of a row and must find the *file group* that holds it. The
# tool for this is the [**index**](../docs/glossary.md#index). A query brings
# a *filter* and wants to leave out files that cannot match. The tool for that are
# [**column statistics**](../docs/glossary.md#column-statistics), and some of the indexes, too. So ask two questions of
# each index:
#
# > **Does a writer find its row by it? Does a reader skip files by it?**
#
# We measure both in files. `watch(lab)` listens to what Spark's client of the object store says about
# each request that it sends.

# %% [markdown]
# ## How an upsert finds its row
#
# Here is one batch for all indexes. Twenty orders of one morning were paid: O-0010 to O-0029. They
# are neighbours, so all of them lie in one file. The function writes the batch with the index that we
# name, and keeps what was read and how long it took.

# %%
paid = spark.sql("""
    SELECT order_id, amount, 'paid' AS status, order_ts + INTERVAL 1 HOUR AS order_ts,
        partition_date
    FROM shop WHERE order_id BETWEEN 'O-0010' AND 'O-0029'
""")


def upsert(changes, path, options):
    """Write changes of orders and keep how their rows were found."""
    before = lab.xray(path)
    began = time.perf_counter()
    with watch(lab) as reads:
        changes.write.format("hudi").options(**ORDERS, **options).mode("append").save(path)
    seconds = time.perf_counter() - began
    return Lookup(lab.xray(path, since=before), reads, seconds)


# %% [markdown]
# We begin with the plainest index, `SIMPLE`: read the keys of the files and compare them with the
# batch. Not of all six files: each order names its day, so the three files of that day are enough.
#
# The second index is `BLOOM`. Whenever Hudi writes a Parquet file, it notes the smallest and the
# largest key, and a [**bloom filter**](../docs/glossary.md#bloom-filter): a small bit pattern made of
# all keys. It answers "is this key in the file?" with *certainly not* or *probably*. The notes stand in
# the [**footer**](../docs/glossary.md#footer), the last part of the file. `BLOOM` makes use of them.
#
# **Predict:** with `SIMPLE`, rows of three files are looked at. With `BLOOM`, rows of how many?

# %%
lab.predict("08.p1", ..., tolerance=0)

# %%
looked = {
    "SIMPLE": upsert(paid, plain, DEMO_OPTIONS | {"hoodie.index.type": "SIMPLE"}),
    "BLOOM": upsert(paid, plain, DEMO_OPTIONS | {"hoodie.index.type": "BLOOM"}),
}
HTML(lookup_chart(looked))

# %% name="bloom-and-simple"
simple, bloom = looked["SIMPLE"].figures, looked["BLOOM"].figures
lab.record_actual("08.p1", bloom["rows read in"])

# %% proof="SIMPLE and BLOOM opened three files; BLOOM read rows in one, SIMPLE in all three."
assert simple["files opened"] == bloom["files opened"] == 3
assert simple["rows read in"] == 3 and bloom["rows read in"] == 1
assert simple["rewritten"] == bloom["rewritten"] == 1

# %% [markdown]
# Both opened the three files of the day. `SIMPLE` went on to the keys in each of them. `BLOOM` stopped
# at the footer in two, and read rows only in the file that it then rewrote. Here is what the six
# footers say. A bar is the range of keys in one file; the line is our batch.


# %%
def content(table, file):
    """A data file of a table, fetched from the store."""
    key = f"{store.key_of(table)}/{file.partition}/{file.name}"
    return io.BytesIO(store.read(lab.endpoints, key))


current = [found.base for found in lab.xray(plain).current]
notes = [pq.read_metadata(content(plain, file)).metadata for file in current]
keys = pd.DataFrame(
    {
        "low": [int(note[b"hoodie_min_record_key"][2:]) for note in notes],
        "high": [int(note[b"hoodie_max_record_key"][2:]) for note in notes],
        "filter_bytes": [len(note[b"org.apache.hudi.bloomfilter"]) for note in notes],
    }
).sort_values("low", ignore_index=True)
HTML(range_chart({"keys in each file": keys}, {"keys in each file": (10, 29)}, "order number"))

# %% name="index-in-the-footer"
keys

# %% proof="The footer of each base file has key range and bloom filter; the write made no index file."
meets = (keys["low"] <= 29) & (keys["high"] >= 10)
assert meets.sum() == 1 and (keys["filter_bytes"] > 5_000).all()
picture = looked["BLOOM"].picture
added = (picture - picture.since)["part"].value_counts()
assert added.to_dict() == {"base": 1, "timeline": 3}  # and no index file

# %% [markdown]
# Five of these six files were loaded without naming any index; the notes are there all the same.
#
# The line meets one bar: keys that rise with time make narrow ranges, and the ranges alone rule out
# five files. With random keys, such as UUIDs, every bar would span the whole width, and only the
# filters could rule out a file.
#
# One article that this course follows speaks of an *index file* that each write updates. There is
# none. The write added a data file and three files on the timeline. The index lies in the footer of
# the data file.
#
# ### A look-up that reads nothing: buckets
#
# `BUCKET` does not search. It computes: divide the hash of the key by the number of buckets, and the remainder
# names the file group. That number is fixed when the table is created, so this needs a table of its own.
# Ours has three buckets a day, so again six files.
#
# **Predict:** the same twenty neighbours. How many files will be rewritten?

# %%
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "3"}
bucketed = lab.path("orders_bucket")
orders.write.format("hudi").options(**ORDERS, **DEMO_OPTIONS, **LOAD, **BUCKETS).mode(
    "append"
).save(bucketed)

# %%
lab.predict("08.p2", ..., tolerance=0)

# %%
looked["BUCKET"] = upsert(paid, bucketed, DEMO_OPTIONS | BUCKETS)
lab.record_actual("08.p2", looked["BUCKET"].figures["rewritten"])

# %% name="bucket"
looked["BUCKET"].picture

# %% proof="BUCKET opened no file in vain, and rewrote all three."
assert looked["BUCKET"].figures["rewritten"] == looked["BUCKET"].figures["files opened"] == 3

# %% [markdown]
# No file was opened in vain, but all three files of the day were rewritten: a hash scatters
# neighbours over the buckets. `BLOOM` wrote one new file for this batch, `BUCKET` wrote three.
#
# ### An index that is a table: the record index
#
# `RECORD_INDEX` keeps a list of all keys with the file group of each. The list lies in the metadata
# table, the small Hudi table inside `.hoodie/metadata`, and each write keeps it up to date. (Hudi 1.1 calls it
# `GLOBAL_RECORD_LEVEL_INDEX`, too; `RECORD_INDEX` is its older name and deprecated.) The next cell loads our orders into
# a table with that index, and with column statistics, which we need later.

# %%
INDEXED = {
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.global.record.level.index.min.filegroup.count": "1",  # a small list
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.column.stats.column.list": "order_id,amount,order_ts",
    "hoodie.metadata.index.column.stats.file.group.count": "1",
    "hoodie.clean.automatic": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.upsert.shuffle.parallelism": "1",
}
indexed = lab.path("orders_indexed")
orders.write.format("hudi").options(**ORDERS, **INDEXED, **LOAD).mode("append").save(indexed)

# %%
looked["RECORD_INDEX"] = upsert(paid, indexed, INDEXED)
HTML(lookup_chart(looked))

# %%
lookup_table(looked)

# %% name="four-lookups" proof="The record index opened the one right file, and read and wrote the metadata table for it."
record = looked["RECORD_INDEX"].figures
assert record["files opened"] == record["rewritten"] == 1
assert record["metadata files read"] > 0 and record["metadata files written"] > 0
assert all(
    looked[name].figures["metadata files read"] == 0 for name in ("SIMPLE", "BLOOM", "BUCKET")
)

# %% [markdown]
# The record index goes straight to the one file. The price stands in the last two columns: it reads
# the metadata table and writes to it. The times are of one run, and the first write of this kind pays
# for loading its code: do not rank by them. The counts are the same in each run.
#
# These are Hudi's indexes for Spark. Three of them are global: they search the whole table.
#
# | index | searches | looks into | here |
# |---|---|---|---|
# | `SIMPLE` | the partition that the row names | the keys of every file | run |
# | `BLOOM` | that partition | every footer, keys only where range and filter say *probably* | run |
# | `BUCKET` | nothing, it computes | no file | run |
# | `RECORD_INDEX` (new name: `GLOBAL_RECORD_LEVEL_INDEX`) | the whole table | a list in the metadata table | run |
# | `GLOBAL_BLOOM` | the whole table | as `BLOOM`, in every partition | run below |
# | `GLOBAL_SIMPLE` | the whole table | as `SIMPLE`, in every partition | documented |
# | `BUCKET` with `CONSISTENT_HASHING` | nothing, it computes | no file; Merge-on-Read only, and the number of buckets can change | documented |
# | `RECORD_LEVEL_INDEX` | the partition that the row names | a list of that partition | documented |
#
# > **Documented, not measured:** the lines marked so, and that `SIMPLE` is what Hudi takes on Spark when
# > no index is named. Source: Hudi's page "Indexes" and list of configurations, November 2026.

# %% [markdown]
# ### When the table grows
#
# Twenty orders in six files show how a look-up works, not what it costs. `lab bench growth --full` writes one
# change again and again, 1,000 orders spread all over the table, while the table becomes 4 and 16 times as large.
# That takes minutes, so here is a run that was recorded, or yours, once you have made one.

# %% name="look-ups-grow"
from lab_env.bench import growth, recorded

run = recorded.shown("growth")
for kind in ("cow", "mor"):
    bucket, bloom = (
        growth.of(run, kind, index, "requests")[-1]["median"] for index in ("bucket", "bloom")
    )
    print(f"{kind}, largest table, requests of a commit: {bucket:.0f} BUCKET, {bloom:.0f} BLOOM")
print(growth.caption_of(run))
HTML(growth.growth_chart(run))

# %% proof="On the largest table, BLOOM sends over 1.3 times the requests of BUCKET."
for kind in ("cow", "mor"):
    asked = {name: growth.of(run, kind, name, "requests")[-1] for name in ("bucket", "bloom")}
    assert asked["bloom"]["median"] > 1.3 * asked["bucket"]["median"]

# %% [markdown]
# A table under `BLOOM` gets more files as it grows, and each commit asks all of them that may hold a changed
# order. `BUCKET` computes the place at any size. It has its price, too: the number of buckets is fixed, so its
# files grow with the table, and Copy-on-Write (solid blue, in the middle) copies them.

# %% [markdown] tags=["instructor"]
# *For instructors.* Eighteen minutes. Expect "0" for 08.p1: people think that a bloom filter finds a
# row. It only rules out files; the row must still be read to be merged. Expect "1" for 08.p2. Draw
# twenty dots in a row, then throw them into three boxes. Ask what would change with 200 new keys:
# `BUCKET` has a place for each, `BLOOM` asks every file of the day in vain.

# %% [markdown]
# ## An order that changes its partition
#
# Two orders lie in the wrong day: the shop's clock was wrong, and O-17 and O-18 belong to
# 21 November. The correction arrives as an update with the new `partition_date`. Lesson 04 warned of
# this. Some indexes look only into the partition that the row names; others are
# [**global**](../docs/glossary.md#global-index). O-18 goes first, with `SIMPLE`. Then O-17, with
# `GLOBAL_BLOOM`.


# %%
def corrected(order_id):
    """The correction of an order's day."""
    return spark.sql(f"""
        SELECT order_id, amount, 'corrected' AS status,
               order_ts + INTERVAL 2 HOURS AS order_ts, '2026-11-21' AS partition_date
        FROM shop WHERE order_id = '{order_id}'
    """)


upsert(corrected("O-0018"), plain, DEMO_OPTIONS | {"hoodie.index.type": "SIMPLE"})
looked["GLOBAL_BLOOM"] = upsert(
    corrected("O-0017"), plain, DEMO_OPTIONS | {"hoodie.index.type": "GLOBAL_BLOOM"}
)

both = "order_id IN ('O-0017', 'O-0018')"
shown = ["order_id", "status", "_hoodie_partition_path"]
after = spark.read.format("hudi").load(plain).where(both).select(*shown).toPandas()
after.sort_values(["order_id", "status"], ignore_index=True)

# %% name="the-move"
HTML(lookup_chart({name: looked[name] for name in ("BLOOM", "GLOBAL_BLOOM")}))

# %% proof="GLOBAL_BLOOM moved O-17 to its new day; SIMPLE made a second row of O-18."
assert list(after.query("order_id == 'O-0017'")["_hoodie_partition_path"]) == [
    "partition_date=2026-11-21"
]
assert len(after.query("order_id == 'O-0018'")) == 2
assert (
    looked["GLOBAL_BLOOM"].figures["files opened"] == 6
    and looked["GLOBAL_BLOOM"].figures["rewritten"] == 2
)

# %% [markdown]
# O-18 has two rows: `SIMPLE` looked for it among the files of 21 November, found nothing, and
# inserted. O-17 has one. `GLOBAL_BLOOM` opened the files of *both* days, found the old row, removed it
# there and inserted it here: two files rewritten. On this table "global" means six footers. On a
# table of ten thousand files it means ten thousand.
#
# The record index knows the place of every key without opening a file. It is global too.
#
# **Predict:** the same correction of O-17, with `RECORD_INDEX`. In which day will its row lie: `20`,
# `21`, or `both`?

# %%
lab.predict("08.p3", ..., choices=("20", "21", "both"))

# %%
upsert(corrected("O-0017"), indexed, INDEXED)
o17 = spark.read.format("hudi").load(indexed).where("order_id = 'O-0017'").select(*shown).toPandas()
o17

# %% name="record-index-stays"
lab.record_actual("08.p3", o17["_hoodie_partition_path"].iloc[0][-2:])

# %% proof="With the record index, the corrected row stayed in its old day."
assert list(o17["_hoodie_partition_path"]) == ["partition_date=2026-11-20"]
assert list(o17["status"]) == ["corrected"]

# %% [markdown]
# One row, corrected, but in the *old* day. The index found the row where it was, and Hudi updated it
# there. No copy, no error, and the correction did only half of its work. Whether a global index moves
# a row is an option of its own for each of them, and their defaults differ.
#
# ### Exercise 08.1 · Move the order
#
# Complete the options of a table with a record index so that a corrected order has one row, in the
# new day. O-18 waits for its correction in `orders_indexed`, too. The check copies that table, corrects O-18
# in the copy with your options, and looks for it. The index that the table has must find the row.

# %% exercise="08.1"
# BEGIN SOLUTION
# PROMPT: moving = {"hoodie.index.type": ...}
moving = {
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.record.index.update.partition.path": "true",
}
# END SOLUTION
lab.check("08.1", moving)

# %% [markdown] hint="08.1"
# `INDEXED` above has the two lines that a record index needs. One more is missing.

# %% [markdown] hint="08.1"
# Hudi's page "All configurations" lists options that end in `update.partition.path`, one for each
# global index.

# %% right="08.1"
moving = INDEXED | {
    "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX",  # the new name of RECORD_INDEX
    "hoodie.record.index.update.partition.path": True,
}

# %% wrong="08.1"
# expect: GLOBAL_BLOOM opened the files of every partition
moving = {
    "hoodie.index.type": "GLOBAL_BLOOM",
    "hoodie.bloom.index.update.partition.path": "true",
}

# %% wrong="08.1"
# expect: Two rows
moving = {"hoodie.index.type": "SIMPLE"}

# %% wrong="08.1"
# expect: One row, still in the old partition
moving = {
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.bloom.index.update.partition.path": "true",
}

# %% [markdown]
# ### Exercise 08.2 · Choose an index
#
# Here are the figures of all five writes again. Choose for each of three tables the index that serves
# it best: `"SIMPLE"`, `"BLOOM"`, `"BUCKET"`, `"RECORD_INDEX"` or `"GLOBAL_BLOOM"`.
#
# - `clicks`: a stream in commits of a few seconds. Keys are random, and a small batch touches only some
#   of the many files of its day. The partition never changes. A look-up must open no file that is not
#   rewritten, and must not write to the metadata table.
# - `ledger`: keys rise with time, and a batch holds neighbours. Rewriting is what costs. The partition
#   never changes. Other tools write to it too, so the metadata table is off. Open as few files as you
#   can, and read rows in as few of them as you can.
# - `customers`: partitioned by country, and people move. Nobody knows where the old row lies. One row per
#   customer is a must. The table has ten thousand files, and nobody wants to open them all.

# %%
figures = lookup_table(looked)
spark.createDataFrame(figures.reset_index(names="index")).createOrReplaceTempView("figures")
figures

# %% exercise="08.2"
choice = {
    "clicks": "BUCKET",  # SOLUTION
    "ledger": "BLOOM",  # SOLUTION
    "customers": "RECORD_INDEX",  # SOLUTION
}
lab.check("08.2", choice)

# %% [markdown] hint="08.2"
# Take one table at a time and strike out each index that breaks a sentence. "Opened but not rewritten"
# is the first column less the third.

# %% [markdown] hint="08.2"
# Which two of them look beyond the partition that a row names? Which of the others needs no look-up?

# %% right="08.2"
choice = pd.Series(
    ["bucket", "bloom", "global_record_level_index"], ["clicks", "ledger", "customers"]
)

# %% wrong="08.2"
# expect: SIMPLE opened 3 files and rewrote 1
choice = {"clicks": "SIMPLE", "ledger": "BLOOM", "customers": "RECORD_INDEX"}

# %% wrong="08.2"
# expect: would open every file
choice = {"clicks": "BUCKET", "ledger": "BLOOM", "customers": "GLOBAL_BLOOM"}

# %% wrong="08.2"
# expect: a hash scatters neighbours
choice = {"clicks": "BUCKET", "ledger": "BUCKET", "customers": "RECORD_INDEX"}

# %% [markdown] tags=["instructor"]
# *For instructors.* Fourteen minutes. For 08.p3 most say 21. The point is not the option's name but
# the habit: after a move, count the rows *and* look where they are. In 08.2 many take `RECORD_INDEX`
# for everything, because it opens least. Point at the last column, and at a commit every few seconds.

# %% [markdown]
# ## How a query skips files
#
# Now the readers. The table `orders` has a bloom filter in each footer, made from `order_id`. A
# colleague asks for one order: `WHERE order_id = 'O-0042'`.
#
# **Predict:** the table has six files. Does the bloom index speed up this SELECT? How many
# files will the query read?

# %%
lab.predict("08.p4", ..., tolerance=0)

# %% [markdown]
# Spark counts the files that a query reads, and shows it in the SQL tab of its web page. `files_read`
# runs the query and takes the number from there. Do not use `inputFiles()` for this, popular as it
# is: we print it beside.

# %%
WHERE = "order_id = 'O-0042'"
bloom_query = spark.read.format("hudi").load(plain).where(WHERE)
bucket_query = spark.read.format("hudi").load(bucketed).where(WHERE)
HASHED = BUCKETS | {"hoodie.bucket.index.hash.field": "order_id"}
told_query = spark.read.format("hudi").options(**HASHED).load(bucketed).where(WHERE)
from_bloom, from_buckets = files_read(bloom_query), files_read(bucket_query)
from_told = files_read(told_query)
print(f"bloom table: read {from_bloom}, inputFiles {len(bloom_query.inputFiles())}")
print(f"bucket table: read {from_buckets}, inputFiles {len(bucket_query.inputFiles())}")
print(f"bucket table, the reader is told of the buckets: read {from_told}")
lab.record_actual("08.p4", from_bloom)

# %% name="bloom-select" proof="A query by key reads every file, unless the reader is told of the buckets."
assert from_bloom == len(lab.xray(plain).current) == len(bloom_query.inputFiles())
assert from_buckets == len(lab.xray(bucketed).current)
assert from_told == 2 and told_query.count() == 1  # one bucket in each of the two days

# %% [markdown]
# Every file of the first table was opened. The bloom filter in each footer could have said "certainly not here",
# but nobody asked it: those in the footers are there for writers. The buckets did not help either, until the
# reader was told of them, as in `HASHED`: the index type, the number of buckets, and the field that is hashed. (A
# writer takes the record key for it; a reader must be given it.) Then it computes the bucket as the writer
# does and opens one file per day. And `inputFiles()` lists the table's files before any filter is applied, so it says
# the same for every query.
#
# > **Documented, not measured here:** Hudi can keep copies of its bloom filters in the metadata table
# > (`hoodie.metadata.index.bloom.filter.enable`, off by default). Those serve readers, too, and so do secondary
# > and expression indexes, which SQL makes with `CREATE INDEX`.
#
# ### Statistics for readers
#
# The other table, `orders_indexed`, has column statistics: for each file and column the smallest
# value, the largest, and how many are missing. They lie in the metadata table, beside the record index,
# and Hudi shows them to whoever asks:

# %%
spark.sql(f"CREATE TABLE orders_indexed USING hudi LOCATION '{indexed}'")
statistics = spark.sql("""
    CALL show_metadata_table_column_stats(table => 'orders_indexed', targetColumns => 'order_id')
""")
statistics = statistics.toPandas().drop(columns="file_name")
statistics.sort_values("min_value", ignore_index=True)

# %% [markdown]
# Two questions to this table. Who ordered before two o'clock on the first day? And who ordered for
# 990 or more? A reader sets no option for it: skipping is on unless it is switched off.

# %%
EARLY = "order_ts < '2026-11-20 02:00'"
LARGE = "amount >= 990"


def ask(where):
    """A query of the indexed table as it is now."""
    return spark.read.format("hudi").load(indexed).where(where).select("order_id", "amount")


def ranges():
    """The smallest and largest hour and amount in each file that a query may read.

    Taken from the rows: the procedure above shows a decimal as the bytes of a number.
    """
    found = []
    for file in (slice_.base for slice_ in lab.xray(indexed).current):
        rows = pq.read_table(content(indexed, file), columns=["order_ts", "amount"]).to_pandas()
        hours = (rows["order_ts"].dt.tz_localize(None) - pd.Timestamp("2026-11-20")) / pd.Timedelta(
            "1h"
        )
        amount = rows["amount"].astype(float)
        found.append((hours.min(), hours.max(), amount.min(), amount.max()))
    columns = ["hours_low", "hours_high", "amount_low", "amount_high"]
    return pd.DataFrame(found, columns=columns).sort_values(["hours_low", "amount_low"])


def draw(found):
    """Both columns' ranges, with our two filters."""
    hours, amounts = "order_ts, in hours from the start", "amount"
    panels = {
        hours: found[["hours_low", "hours_high"]].set_axis(["low", "high"], axis=1),
        amounts: found[["amount_low", "amount_high"]].set_axis(["low", "high"], axis=1),
    }
    return HTML(range_chart(panels, {hours: (0, 2), amounts: (990, 1000)}))


as_loaded = ranges()
read_as_loaded = {"early": files_read(ask(EARLY)), "large": files_read(ask(LARGE))}
print("files read:", read_as_loaded)
draw(as_loaded)

# %% name="skipping-as-loaded" proof="Column statistics skip files for order_ts and none for the amount; without them all are read."
all_files = len(lab.xray(indexed).current)
assert read_as_loaded == {"early": 1, "large": all_files}
without = spark.read.format("hudi").option("hoodie.enable.data.skipping", "false").load(indexed)
assert files_read(without.where(EARLY)) == all_files

# %% [markdown]
# A filter reads the files whose bar meets its line. Orders were written in the order of time, so the
# bars of `order_ts` are narrow, and one file is enough. (With `hoodie.enable.data.skipping=false` the
# same query reads all.) But each file holds small amounts and large ones. The statistics are just as
# correct there, and skip nothing.
#
# ### Sorting makes the bars narrow
#
# Clustering, which lesson 07 used against small files, can sort what it rewrites. `order` names the
# columns. The other settings keep the files as small as ours are, and the indexes up to date. They hold for the
# whole session, so we take them back afterwards.
#
# **Predict:** the query for the early hours reads one file now. After sorting by `amount`, which files
# will it read: still `one`, every file of its `day`, or `all` files of the table?

# %%
lab.predict("08.p5", ..., choices=("one", "day", "all"))

# %%
CLUSTERING = INDEXED | {
    "hoodie.index.bloom.num_entries": "2000",
    "hoodie.clustering.plan.strategy.target.file.max.bytes": "200000",
}
for name, value in CLUSTERING.items():
    spark.sql(f"SET {name} = {value}")
done = spark.sql("CALL run_clustering(table => 'orders_indexed', order => 'amount')").toPandas()
for name in CLUSTERING:
    spark.sql(f"RESET {name}")
done

# %%
sorted_by_amount = ranges()
read_sorted = {"early": files_read(ask(EARLY)), "large": files_read(ask(LARGE))}
print("files read:", read_sorted, "of", len(lab.xray(indexed).current))
draw(sorted_by_amount)

# %% name="skipping-sorted"
all_sorted = len(lab.xray(indexed).current)
files_of_a_day = all_sorted // 2
lab.record_actual("08.p5", {1: "one", files_of_a_day: "day"}.get(read_sorted["early"], "all"))

# %% proof="Sorted by amount, the large amounts are in two files, and the early orders in every file."
assert len(sorted_by_amount) == all_sorted
assert read_sorted == {"early": all_sorted // 2, "large": 2}

# %% [markdown]
# Two files for the large amounts: the last one of each day, since clustering works within
# partitions. And the early orders are now spread over every file of their day. Only the
# other day is still ruled out. A table has *one* order. Sort by the column that most filters name.
# (Hudi can also sort along a Z-order or Hilbert curve, which serves several columns a little. Documented,
# not measured here.)
#
# One more look at O-17. Its key's ranges are wide now, too. A range of keys and a single key:

# %% name="record-index-for-readers"
read_keys = {
    "range": files_read(ask("order_id BETWEEN 'O-0016' AND 'O-0018'")),
    "single": files_read(ask("order_id = 'O-0017'")),
}
read_keys

# %% proof="The record index finds a single key in one file, but not a range."
assert read_keys["single"] == 1 < read_keys["range"]

# %% [markdown]
# The range gets little help from the statistics. The single key reads one file. That was the record
# index: readers look into its list as well, when the filter names a key (`=` or `IN`).
#
# ### Exercise 08.3 · Prove that a filter skips files
#
# The dashboard shows amounts in whole euros and asks for orders from 990 up: `SLOW` below. It reads
# every file, because the statistics know the range of `amount`, not that of `round(amount)`. Write a
# query `fast` with the same rows that skips files, and say in `number` how many files it read.

# %% name="slow-filter"
SLOW = "round(amount) >= 990"
read_slow = files_read(ask(SLOW))
print("files read:", read_slow)

# %% proof="A function around the column reads every file."
assert read_slow == all_sorted

# %% exercise="08.3"
# BEGIN SOLUTION
# PROMPT: fast, number = ..., ...
fast = ask("amount >= 989.50")
number = files_read(fast)
# END SOLUTION
lab.check("08.3", (fast, number))

# %% [markdown] hint="08.3"
# Leave the column alone on its side of the comparison, and change the other side.

# %% [markdown] hint="08.3"
# Which is the smallest amount, in cents, that is rounded to 990? And `files_read` counts.

# %% right="08.3"
fast = spark.sql(
    "SELECT * FROM orders_indexed WHERE amount BETWEEN 989.50 AND 1000 ORDER BY order_id"
)
number = str(files_read(fast))

# %% wrong="08.3"
# expect: rows that the dashboard shows are missing
fast = ask("amount >= 990")
number = files_read(fast)

# %% wrong="08.3"
# expect: inputFiles lists the table's files
fast = ask("amount >= 989.50")
number = len(fast.inputFiles())

# %% wrong="08.3"
# expect: reads every file
fast = ask("floor(amount + 0.5) >= 990")
number = files_read(fast)

# %% [markdown] tags=["instructor"]
# *For instructors.* Eighteen minutes. Ask 08.p4 aloud and wait: nearly everyone says "one". Draw a table on
# the board, an index or statistics in each line, and two columns: writers, readers. Before 08.p5 let them
# draw the bars of the left panel themselves. Time is not shown in this section on purpose: with six
# files of 33 KB there is none to save.

# %% [markdown]
# ## Key points
#
# - Indexes find rows for writers. Column statistics skip files for readers. When the filter names a key, the
#   record index helps readers as well, and so do buckets, if the reader is told of them.
# - `BLOOM` reads footers and leaves out rows; it likes keys that rise with time. `BUCKET` reads
#   nothing and scatters. `RECORD_INDEX` knows each place, and pays at each write.
# - A row whose partition changes needs a global index *and* its option to move rows. Look where the row
#   is, not only how many there are.
# - Statistics skip files only when the values lie together. Clustering with `order` sorts; a table has
#   one order.
# - Prove skipping by the number of files read. `inputFiles()` does not know.
#
# ## What's next
#
# You know how the table stores and finds its rows. Lesson 09 asks which of them a query sees.

# %%
spark.stop()
