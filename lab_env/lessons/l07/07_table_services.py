# ---
# title: How many files does a stream leave behind?
# minutes: {teach: 26, do: 24}
# needs: ["05"]
# services: [minio, kafka]
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 07 · How many files does a stream leave behind?
#
# ## Questions
#
# - My stream has run for an hour, and a query for one order gets slower by the minute. Why?
# - Can I write fewer files, or merge them later? What does each cost?
# - When is it safe to delete an old file?
#
# ## Objectives
#
# At the end of this lesson you can
#
# - stream into a table, and predict how many files that makes (07.1),
# - merge small files by clustering (07.2),
# - let the writer do that by itself (07.3),
# - repair a board that keeps running while its table is cleaned (07.4),
# - clean a table so that the longest query keeps its files (07.5).
#
# ## What you need
#
# Lesson 03: topics, micro-batches and their checkpoint. Lesson 05: file groups, their versions, and
# the X-ray that shows them. 50 minutes, with a good place to pause after the second section.

# %% [markdown]
# ## Start
#
# The shop's board, revenue by status, gets its orders from a stream: six thousand orders of five days.
# They are spread evenly over the sixteen partitions of a topic and read back as a stream, two thousand
# per micro-batch. Run the cells and read on.

# %%
import pandas as pd
from IPython.display import HTML
from pyspark.sql import functions as F

from lab_env import Lab

lab = Lab.start("07")
spark = lab.spark

# %%
from lab_env.lessons.l07.figures import orders_as_stream, send_orders

shop = spark.range(1, 6001, 1, numPartitions=1).selectExpr(
    "concat('O-', id) AS order_id",
    "'new' AS status",
    "cast(id % 90 + 10 AS decimal(12, 2)) AS amount",
    "sha2(cast(id AS string), 256) AS basket",  # stands for a real order's other columns
    "to_timestamp('2026-11-18 12:00:00') + make_interval(0, 0, 0, cast(id % 5 AS int)) AS order_ts",
    "cast(date_add('2026-11-18', cast(id % 5 AS int)) AS string) AS partition_date",
)
PARTITIONS = 16
send_orders(lab, shop, PARTITIONS)
rows = orders_as_stream(lab, shop.schema, per_batch=2000)

# %% [markdown]
# `rows` is a streaming DataFrame. All tables of this lesson share these options. `DEMO_OPTIONS` switch off
# the metadata table and cleaning, which Hudi has on by default; where this changes a number, the text says
# so.

# %%
from lab_env.pipeline.options import DEMO_OPTIONS

ORDERS = DEMO_OPTIONS | {
    "hoodie.table.name": "orders",
    "hoodie.datasource.write.recordkey.field": "order_id",
    "hoodie.table.ordering.fields": "order_ts",
    "hoodie.datasource.write.partitionpath.field": "partition_date",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    # Room for the keys of a small file; the default's 60,000 keys take 430 KB in each file.
    "hoodie.index.bloom.num_entries": "1000",
}

# %% [markdown]
# ## What a small file costs
#
# The orders are all new, so the stream writes with [**bulk insert**](../docs/glossary.md#bulk-insert),
# the fast operation without look-ups.
#
# ### Exercise 07.1 · Write the stream
#
# Complete the function. It writes the streaming DataFrame `rows` into the Hudi table at `path`, with
# `ORDERS`, the given operation, and any `extra_options`. It keeps its progress in the folder `checkpoint`
# and returns when everything in the topic has been written. All streams of this lesson use your function. ([Hudi: streaming writes](https://hudi.apache.org/docs/writing_tables_streaming_writes))


# %% exercise="07.1"
def stream_into(path, checkpoint, rows, operation, **extra_options):
    """Write the stream into the table at `path` until all rows are there."""
    # BEGIN SOLUTION
    query = (
        rows.writeStream.format("hudi")
        .options(**ORDERS, **extra_options)
        .option("hoodie.datasource.write.operation", operation)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start(path)
    )
    query.awaitTermination()
    # END SOLUTION


lab.check("07.1", stream_into)

# %% [markdown] hint="07.1"
# `rows.writeStream.format("hudi")`, the options, the trigger `availableNow` of lesson 03, and
# `start(path)`, which returns a query immediately. What waits for its end?

# %% [markdown] hint="07.1"
# The option for the folder is `checkpointLocation`, that for the operation
# `hoodie.datasource.write.operation`.


# %% right="07.1"
# All options in one dictionary, to print what a stream was given.
def stream_into(path, checkpoint, rows, operation, **extra_options):
    options = ORDERS | extra_options
    options |= {
        "hoodie.datasource.write.operation": operation,
        "path": path,
        "checkpointLocation": checkpoint,
    }
    writer = rows.writeStream.trigger(availableNow=True).outputMode("append")
    writer.start(format="hudi", **options).awaitTermination()


# %% right="07.1"
# With `foreachBatch`, where each batch goes to more than one table.
def stream_into(path, checkpoint, rows, operation, **extra_options):
    def save(batch, number):
        writer = batch.write.format("hudi").options(**ORDERS, **extra_options)
        writer.option("hoodie.datasource.write.operation", operation).mode("append").save(path)

    query = rows.writeStream.foreachBatch(save).option("checkpointLocation", checkpoint)
    query.trigger(availableNow=True).start().awaitTermination()


# %% wrong="07.1"
# expect: left both rows of one order
def stream_into(path, checkpoint, rows, operation, **extra_options):
    writer = rows.writeStream.format("hudi").options(**ORDERS, **extra_options)
    writer = writer.option("hoodie.datasource.write.operation", "bulk_insert")
    writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    writer.start(path).awaitTermination()


# %%
lab.use_reference("07.1")
orders_path = lab.path("orders")
stream_into(orders_path, lab.path("_checkpoints/orders"), rows, "bulk_insert")

# %% [markdown]
# The table has a folder for each day, and each micro-batch brings orders of all five days. Spark reads a
# batch in sixteen tasks, one per partition of the topic.
#
# **Predict:** the stream has written three batches. How many data files does the table have? Within 40
# counts as right.

# %%
lab.predict("07.p1", ..., tolerance=40)

# %%
small = lab.xray(orders_path)
lab.record_actual("07.p1", len(small.files))

# %% name="small-files"
files = small.frame().query("part == 'base'")
batches, days = files["instant"].nunique(), files["partition"].nunique()
per_batch = files.groupby("instant").size()
files.groupby("partition")["bytes"].agg(["count", "min", "max"])

# %% proof="Three batches of sixteen tasks made 240 files in five partitions."
assert (batches, days) == (3, 5) and set(per_batch) == {PARTITIONS * days}
assert len(small.current) == len(files) == PARTITIONS * days * batches == 240

# %% [markdown]
# Each task parses its orders and writes them; nothing in between brings the orders of a day together. So
# each task wrote one file per folder: 16 tasks × 5 days × 3 batches. Three good decisions *multiply*: work
# in parallel, partition the table, commit often. At one such batch per minute you have a thousand files in
# 13 minutes. (With `hoodie.bulkinsert.sort.mode=PARTITION_PATH_REPARTITION` Hudi first groups the orders by
# day, at the price of a shuffle. Not tried here.)
#
# What is wrong with many files? Let us look up one order, O-17. We open the table twice and keep the
# DataFrames for later: a `report` that runs now and will run again, and a `dashboard` that is opened now and
# queried later.
#
# `count_requests` reads the counters of Spark's own S3 client.
#
# **Predict:** how many requests does the query for O-17 send?

# %%
lab.predict("07.p2", ..., choices=("about 5", "about 25", "over 1,000"))

# %%
from lab_env.tables.probes.s3_requests import count_requests

report = spark.read.format("hudi").load(orders_path)
dashboard = spark.read.format("hudi").load(orders_path)


def look_up(table):
    """Find O-17 in a table, and count the requests that this sends to the store."""
    with count_requests(spark) as sent:
        table.where("order_id = 'O-17'").select("order_id", "status").collect()
    return sent


requests_small = look_up(report)
requests_small

# %% name="requests"
total = requests_small.total
lab.record_actual(
    "07.p2", "over 1,000" if total > 1000 else "about 25" if total > 15 else "about 5"
)

# %% proof="The look-up sent over five requests per file."
assert requests_small.total >= 5 * len(small.current) > 1000
assert min(requests_small.get, requests_small.head) >= len(small.current)

# %% [markdown]
# The query does not name a day, and no index says which file holds O-17. So Spark opens all 240, for
# twenty-five rows each. For each file it asks the object store for the size (HEAD), the footer and the
# columns (GET): some five requests. (By default the metadata table keeps column statistics. With them Spark
# would skip the files of batches 2 and 3, whose keys are all larger than O-17, and still open the 80 files
# of the first. Not measured here.)
#
# Each request takes time, and on a cloud store it costs money.
# [Amazon's list price](https://aws.amazon.com/s3/pricing/) for S3 Standard in US East is 0.0004 US dollars
# per thousand GET or HEAD requests (November 2026). For a dashboard that runs this query every ten seconds
# for thirty days, the requests alone would cost:

# %%
questions = 30 * 24 * 3600 / 10
dollars_small = questions * (requests_small.get + requests_small.head) * 0.0004 / 1000
print(f"{questions:,.0f} questions: {dollars_small:,.0f} US dollars")

# %% proof="At one question per ten seconds, the requests cost over 100 US dollars a month."
assert dollars_small > 100

# %% [markdown] tags=["instructor"]
# *For instructors.* 15 minutes. Have the group predict before the store is asked: most say 3, 15 or 48
# files, and a handful of requests. Short of time: leave out what the requests cost.

# %% [markdown]
# ## Sized while writing
#
# Hudi's first remedy works during the write: [**file sizing**](../docs/glossary.md#file-sizing). New rows
# go into a file that is still small, and into a new file only when no small one is left. The limit is
# `hoodie.parquet.small.file.limit`, 100 MB by default; our files are 12 KB. It had no effect, because bulk
# insert does not look at existing files. `insert` and `upsert` do, except with a `BUCKET` index (lesson 08).
#
# A second stream reads the same topic in the same three batches; only the operation differs:

# %%
sized_path = lab.path("orders_sized")
stream_into(sized_path, lab.path("_checkpoints/orders_sized"), rows, "insert")

sized = lab.xray(sized_path)
requests_sized = look_up(spark.read.format("hudi").load(sized_path))

# %%
from lab_env.lessons.l07.figures import current_sizes, draw_files_and_requests

HTML(
    draw_files_and_requests(
        {"bulk insert": small, "insert": sized},
        {"bulk insert": requests_small, "insert": requests_sized},
    )
)

# %% name="file-sizing" proof="With insert there is one file per day, and the look-up needs under a fifth of the requests."
assert len(sized.current) == days and len(small.current) == 240
assert max(current_sizes(small)) < 14_000
assert min(current_sizes(sized)) > 4 * max(current_sizes(small))
assert requests_sized.total * 5 < requests_small.total
assert sum(current_sizes(sized)) < sum(current_sizes(small)) / 5

# %% [markdown]
# The same six thousand orders, now in one file per day and in less than a fifth of the bytes: each file
# has its own footer and bloom filter, which make up most of a small file. So what is the price? The X-ray
# shows it:

# %%
sized

# %% [markdown]
# A query reads five files (the solid frames); each has two older versions. To put new rows into a file,
# Copy-on-Write rewrites it with all the rows that it already had. Bytes written per batch:

# %%
from lab_env.platform.display.card import styled

written = {"bulk insert": small, "insert": sized}
per_write = {
    name: table.frame().query("part == 'base'").groupby("instant")["bytes"].sum().to_list()
    for name, table in written.items()
}
kilobytes = pd.DataFrame.from_dict(per_write, orient="index").div(1000)
kilobytes = kilobytes.rename(columns={0: "first batch", 1: "second", 2: "third"})
styled(kilobytes.round(), "{:.0f} KB")

# %% name="price-of-sizing" proof="Insert rewrites earlier rows: each batch writes more bytes than the one before."
assert kilobytes.loc["bulk insert"].max() < 1.2 * kilobytes.loc["bulk insert"].min()
assert kilobytes.loc["insert"].is_monotonic_increasing
assert kilobytes.loc["insert", "third"] > 1.5 * kilobytes.loc["insert", "first batch"]
assert kilobytes.loc["insert", "third"] < kilobytes.loc["bulk insert", "third"]

# %% [markdown]
# Bulk insert writes the same number of bytes each time. Insert writes more with every batch: until a file
# has reached the limit, each write that adds to it copies its earlier rows. After three batches insert is
# still ahead, since eighty footers and filters weigh more than a few copied rows. But its bytes per write
# keep growing: good for readers, a burden for the writer.

# %% [markdown] tags=["instructor"]
# *For instructors.* 5 minutes. Ask who pays for the smaller number of files, the reader or the writer.
# Short of time: leave out the table of bytes per write, and say that it grows.

# %% [markdown]
# **A good place to pause.** To go on another day, type `lab goto 07c` in a terminal: it runs everything to
# here again in a minute or two.
#
# ## Clustering: sized afterwards
#
# The other way: write fast, tidy up later. A [**table service**](../docs/glossary.md#table-service)
# is maintenance that changes a table's files or timeline, but no row. Compaction (lesson 06) is one.
# [**Clustering**](../docs/glossary.md#clustering) is another: it reads many small files and writes their
# rows into few large ones, which *replace* the small ones. Like a compaction, it is first *planned* on the
# timeline, then *executed*.
#
# ### Exercise 07.2 · Cluster
#
# Complete the function. It clusters the table at `path` with Hudi's procedure
# [run_clustering](https://hudi.apache.org/docs/procedures#run_clustering). Procedures do not know our
# write options, so pass it `OPTIONS`. (Without the first option it would make a metadata table; without
# the second, each new file's filter would have room for 60,000 keys.)

# %%
OPTIONS = "hoodie.metadata.enable=false,hoodie.index.bloom.num_entries=1000"


# %% exercise="07.2"
def cluster(path):
    """Write the rows of many small files into few, by one clustering."""
    # BEGIN SOLUTION
    spark.sql(f"CALL run_clustering(path => '{path}', options => '{OPTIONS}')")
    # END SOLUTION


lab.check("07.2", cluster)

# %% [markdown] hint="07.2"
# `CALL` a procedure by `spark.sql`; its arguments are named with `=>`.

# %% [markdown] hint="07.2"
# Lesson 06 called `run_compaction(op => ..., path => ..., options => ...)`. This one plans and runs
# if no `op` is given.


# %% right="07.2"
# By the table's name, if it is in the catalog.
def cluster(path):
    name = "clustered_" + path.rpartition("/")[2].replace("-", "_")
    spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    spark.sql(f"CALL run_clustering(table => '{name}', options => '{OPTIONS}')")
    spark.sql(f"DROP TABLE {name}")


# %% wrong="07.2"
# expect: planned, and nobody carried it out
def cluster(path):
    spark.sql(f"CALL run_clustering(path => '{path}', op => 'schedule', options => '{OPTIONS}')")


# %% wrong="07.2"
# expect: metadata table, which `OPTIONS` switches off
def cluster(path):
    spark.sql(f"CALL run_clustering(path => '{path}')")


# %% wrong="07.2"
# expect: it merges no files
def cluster(path):
    name = "clustered_" + path.rpartition("-")[2]
    spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    spark.sql(f"CALL run_clean(table => '{name}', retain_commits => 1, options => '{OPTIONS}')")
    spark.sql(f"DROP TABLE {name}")


# %% [markdown]
# **Predict:** we cluster the 240 files into five. Will the bytes on the store *fall* or *grow*?

# %%
lab.predict("07.p3", ..., choices=("fall", "grow"))

# %%
lab.use_reference("07.2")
cluster(orders_path)

clustered = lab.xray(orders_path)
requests_clustered = look_up(spark.read.format("hudi").load(orders_path))
HTML(
    draw_files_and_requests(
        {"bulk insert": small, "insert": sized, "clustered": clustered},
        {"bulk insert": requests_small, "insert": requests_sized, "clustered": requests_clustered},
    )
)

# %%
sent, found = (
    table.agg(F.sum("amount"), F.count("*")).first()
    for table in (shop, spark.read.format("hudi").load(orders_path))
)
dollars = questions * (requests_clustered.get + requests_clustered.head) * 0.0004 / 1000
print(f"{requests_small.total} requests before, {requests_clustered.total} after;")
print(f"the dashboard's month: {dollars_small:,.0f} US dollars before, {dollars:,.0f} after")

# %% name="clustering" proof="Clustering left one file per day and every row, and cut the requests to under a fifth."
assert found == sent and found["count(1)"] == 6000
assert clustered.instants[-1].action == "clustering"
assert len(clustered.current) == days
assert sum(current_sizes(clustered)) < sum(current_sizes(small)) / 5
assert requests_clustered.total * 5 < requests_small.total
assert dollars < dollars_small / 5

# %% [markdown]
# Every row and the same sum, in five files as if they had been sized while writing, and a reader sends a
# fraction of the requests. The price: clustering read every row and wrote it once more, in one go; sizing
# copied rows in each batch. And the storage?

# %% name="storage-grows"
from lab_env.lessons.l07.figures import draw_storage

bytes_small = sum(file.size for file in small.files)
bytes_clustered = sum(file.size for file in clustered.files)
lab.record_actual("07.p3", "grow" if bytes_clustered > bytes_small else "fall")
print(f"clustering wrote {(bytes_clustered - bytes_small) / 1000:,.0f} KB")

# %%
HTML(draw_storage({"three batches": small, "clustered": clustered}))

# %% proof="Storage grew: all 240 files are still there, and a reader from before still works."
assert len(clustered.files) == len(small.files) + days and bytes_clustered > bytes_small
assert report.where("order_id = 'O-17'").count() == 1

# %% [markdown]
# Five files were added; none of the 240 was deleted. They are *replaced*: a reader that opens the table
# now ignores them. Our `report` opened it earlier and still reads them, as the proof shows.
#
# ### Exercise 07.3 · Get it down to two files
#
# A writer can also cluster between two writes: *inline* clustering. The next batch waits for it; a stream
# with a deadline clusters async or in a job of its own. ([Hudi's page on
# clustering](https://hudi.apache.org/docs/clustering) has the options.)
#
# The check makes three bulk inserts of orders of two days, with three tasks each, into a new table. That
# gives 18 files. Write `extra_options`, a dictionary of further options for the writer. After the third
# write a query must read two files at most, and the timeline must have exactly one clustering. The
# operation stays `bulk_insert`.

# %% exercise="07.3"
# BEGIN SOLUTION
# PROMPT: extra_options = ...
extra_options = {
    "hoodie.clustering.inline": "true",
    "hoodie.clustering.inline.max.commits": "3",
}
# END SOLUTION
lab.check("07.3", extra_options)

# %% [markdown] hint="07.3"
# Two options. `hoodie.clustering.inline` switches inline clustering on. The other says after how many
# commits it runs; its name ends in `max.commits`.

# %% [markdown] hint="07.3"
# The default of `hoodie.clustering.inline.max.commits` is 4, and the check makes three commits.

# %% right="07.3"
# Values as numbers and booleans: the writer turns them into text.
extra_options = {"hoodie.clustering.inline": True, "hoodie.clustering.inline.max.commits": 3}

# %% harmless="07.3"
# an entry more: an option that Hudi does not know changes no write

# %% wrong="07.3"
# expect: files hold all 120 orders, but after 3 clusterings
extra_options = {"hoodie.clustering.inline": True, "hoodie.clustering.inline.max.commits": 1}

# %% wrong="07.3"
# expect: A bulk insert does not look at files that are there
extra_options = {"hoodie.parquet.small.file.limit": "1073741824"}

# %% [markdown]
# Now the stream: the same topic once more, bulk insert, three micro-batches, and your options. Two tasks
# write instead of sixteen, so a batch makes ten files.

# %%
lab.use_reference("07.3")
inline_path, inline_checkpoint = lab.path("orders_inline"), lab.path("_checkpoints/orders_inline")
stream_into(inline_path, inline_checkpoint, rows.coalesce(2), "bulk_insert", **extra_options)

inline = lab.xray(inline_path)
print([write.action for write in inline.instants], len(inline.current), "files to read")

# %% proof="With the options of the answer the stream clusters once, after its third commit."
assert [write.action for write in inline.instants] == ["commit"] * 3 + ["clustering"]
assert len(inline.current) == days and len(inline.files) == 3 * 2 * days + days

# %% [markdown]
# After the third commit the stream clustered by itself. A query reads five files, not thirty. (Clustering
# after each commit would write all rows again each time: by default it takes every file below 300 MB.)
#
# Two warnings. While a clustering is pending, Hudi by default *rejects* writes that update its file groups:
# a stream of updates [fails](../docs/troubleshooting.md#not-allowed-to-update-the-clustering-file-group).
# And **never cluster a table with a simple bucket index**, which the course's own pipeline uses: Hudi 1.1.1
# refuses the run (*not compatible with table layout*), but the plan stays on the timeline, and from then on
# upserts fail (tried for this course on 2026-11-26).

# %% [markdown] tags=["instructor"]
# *For instructors.* 13 minutes. For 07.p3 most say that storage falls with the number of files. Two
# mistakes are common in 07.3. Raising the small-file limit, because the files are small: ask which
# operation reads that option. And switching the cleaner on, because there are too many files: ask which of
# the 18 files a query could do without. Draw three stacks of three tasks over two folders, then one arrow
# into each folder. Short of time: do 07.3 together.

# %% [markdown]
# ## Cleaning: when may a file go?
#
# Another service, [**cleaning**](../docs/glossary.md#cleaning), deletes replaced files. We run it by hand
# first, to see each step. `run_clean` takes only a name, so the table gets one. `retain_commits => 1` means:
# keep what a reader of the last commit or of the one before it needs.

# %%
spark.sql(f"CREATE TABLE IF NOT EXISTS orders USING hudi LOCATION '{orders_path}'")
CLEAN_OPTIONS = f"{OPTIONS},hoodie.clean.parallelism=2"  # of 200, which is for clusters
clean = f"CALL run_clean(table => 'orders', retain_commits => 1, options => '{CLEAN_OPTIONS}')"
cleaned = spark.sql(clean).toPandas()
too_early = lab.xray(orders_path)
cleaned

# %% proof="The cleaner removed nothing: the state before the clustering is still retained."
assert cleaned.empty and too_early.files == clustered.files

# %% [markdown]
# It deleted nothing. The clustering *is* the last commit, and a reader that opened the table just before it
# needs the 240 files. This [**retention**](../docs/glossary.md#retention) protects open readers. So the
# table takes one more write. O-17 is paid:


# %%
def change(path, status, minutes):
    """Upsert O-17 with another status, some minutes later."""
    new = shop.where("order_id = 'O-17'").selectExpr(
        "order_id", f"'{status}' AS status", "amount", "basket",
        f"order_ts + INTERVAL {minutes} MINUTES AS order_ts", "partition_date",
    )  # fmt: skip
    new.write.format("hudi").options(**ORDERS).mode("append").save(path)


change(orders_path, "paid", 5)
one_more = lab.xray(orders_path)
cleaned = spark.sql(clean).toPandas()
cleaned[["total_files_deleted", "earliest_commit_to_retain"]]

# %%
after_cleaning = lab.xray(orders_path)
HTML(
    draw_storage(
        {
            "three batches": small,
            "clustered": clustered,
            "cleaned,\ntoo early": too_early,
            "one more\nwrite": one_more,
            "cleaned": after_cleaning,
        }
    )
)

# %% name="storage-falls" proof="After one more commit, the cleaner removed all 240 replaced files."
assert cleaned["total_files_deleted"].iloc[0] == len(small.files)
assert len(after_cleaning.files) == days + 1 and len(after_cleaning.current) == days
assert sum(file.size for file in after_cleaning.files) < bytes_small / 5

# %% [markdown]
# Now the storage falls, to less than a fifth of where it began. The sixth file is the version of O-17's day
# before the payment, which the cleaner retains.
#
# Two DataFrames were opened before all this: `report`, which has run, and `dashboard`, which has not.
#
# **Predict:** how many rows of O-17 does `report` find: `1`, `0`, or does it raise an `error`?

# %%
lab.predict("07.p4", ..., choices=("1", "0", "error"))

# %%
try:
    report_says = report.where("order_id = 'O-17'").count()
except Exception as error:
    report_says = "error"
    message = str(error)
    print(message[message.index("SparkFileNotFoundException") :].splitlines()[0])
lab.record_actual("07.p4", report_says)

# %% proof="The report that was open before the cleaning fails."
assert report_says == "error"

# %% [markdown]
# Its plan holds the names of the 240 files, and they are gone: an error that nobody can miss. And the
# shop's board? Its program opened `dashboard` this morning:


# %%
def board_of_this_morning():
    """Revenue by status."""
    return dashboard.groupBy("status").agg(F.sum("amount").alias("revenue"))


board_of_this_morning().show()

# %% name="silent-reader" proof="The dashboard that was opened before the cleaning finds no row, and no error says so."
assert dashboard.count() == 0

# %% [markdown]
# **No rows, and no error.** A table of six thousand orders looks empty. This is the more dangerous of the
# two readers: a report of zero is easily believed.
#
# Why is it empty, when `report` raised an error?
#
# **Predict:** when did `dashboard` fix which *commits* it shows, and when its list of *files*: when it was
# loaded, or at its first query?

# %%
moments = ("both when loaded", "commits when loaded, files at first query", "both at first query")
lab.predict("07.p5", ..., choices=moments)

# %% [markdown]
# ### Exercise 07.4 · Repair the board
#
# Write the repaired function, `board_now`. The program runs all day and calls it whenever somebody looks.
# The check calls it, writes to the table and cleans it, and calls the function again.


# %% exercise="07.4"
def board_now(path):
    """Revenue by status of the table at `path`, as it is now."""
    # BEGIN SOLUTION
    orders = spark.read.format("hudi").load(path)
    return orders.groupBy("status").agg(F.sum("amount").alias("revenue"))
    # END SOLUTION


lab.check("07.4", board_now)

# %% [markdown] hint="07.4"
# When does the program load the table, and what does a DataFrame fix then?

# %% [markdown] hint="07.4"
# Load the table inside the function, with `spark.read.format("hudi").load(path)`; the rest of the query may
# stay as it is.


# %% right="07.4"
# With a view, for colleagues who write SQL.
def board_now(path):
    spark.read.format("hudi").load(path).createOrReplaceTempView("as_of_now")
    return spark.sql("SELECT status, sum(amount) AS revenue FROM as_of_now GROUP BY status")


# %% right="07.4"
# Reads the listing from the store, when you do not trust the metadata table.
def board_now(path):
    reader = spark.read.format("org.apache.hudi").option("hoodie.metadata.enable", "false")
    sums = reader.load(path).select("status", "amount").groupBy("status").sum("amount")
    return sums.withColumnRenamed("sum(amount)", "revenue")


# %% wrong="07.4"
# expect: opened before the cleaning
opened = {}


def board_now(path):
    if path not in opened:
        opened[path] = spark.read.format("hudi").load(path)
    return opened[path].groupBy("status").agg(F.sum("amount").alias("revenue"))


# %% wrong="07.4"
# expect: At the first call your board says none
def board_now(path):
    return dashboard.groupBy("status").agg(F.sum("amount").alias("revenue"))


# %%
lab.use_reference("07.4")
# Files listed when loaded: an error, as in `report`. Commits fixed at the first query: 6,000 rows.
lab.record_actual("07.p5", moments[1] if dashboard.count() == 0 else moments[2])
shown = board_now(orders_path).toPandas().set_index("status")
shown

# %% proof="A reader that opens the table now sees every order, O-17 as paid."
assert shown["revenue"]["paid"] == 27 and shown["revenue"].sum() == sent["sum(amount)"]

# %% [markdown]
# `dashboard` recorded the timeline when it was loaded, and listed files at its first query. It ignores the
# files of later commits, and those of its own three commits are deleted. **A long-running program must load
# the table for each query.**
#
# That does not help a single long query: for it the cleaner must keep old files longer.
#
# ### Exercise 07.5 · Clean for the longest query
#
# Complete the function. A stream commits every `commit_minutes`, and the longest query on its table takes
# `query_minutes`. It may start at any moment, and it must not lose a file. Clean the table `name` with
# [run_clean](https://hudi.apache.org/docs/procedures#run_clean), retaining as few commits as that allows.
# (A query that ends exactly at a commit counts as safe.) The procedure's `options` are `CLEAN_OPTIONS`.
#
# The check uses copies of `orders_sized`, where O-17 first changes three times. With the three batches,
# the file of its day then has six versions:

# %%
for minutes, status in enumerate(["paid", "packed", "shipped"], start=1):
    change(sized_path, status, minutes)

versions = lab.xray(sized_path).frame().query("part == 'base'").groupby("file_group").size()
versions

# %% proof="Three updates added three versions to one file group."
assert sorted(versions) == [3, 3, 3, 3, 6]


# %% exercise="07.5"
def clean_for(name, commit_minutes, query_minutes):
    """Clean a table, but keep the files of every query that runs for `query_minutes`."""
    # BEGIN SOLUTION
    retained = -(-query_minutes // commit_minutes)  # rounded up
    spark.sql(f"""
        CALL run_clean(table => '{name}', retain_commits => {retained},
                       options => '{CLEAN_OPTIONS}')
    """)
    # END SOLUTION


lab.check("07.5", clean_for)

# %% [markdown] hint="07.5"
# How many commits can come while a query of ten minutes runs, if there is one every three minutes?
# Take the worst moment for its start.

# %% [markdown] hint="07.5"
# Ten minutes divided by three is three and a bit. Which way do you round, if no reader may lose a
# file?

# %% right="07.5"
# Names the policy, although it is the default, so that a reader sees it.
import math


def clean_for(name, commit_minutes, query_minutes):
    retained = math.ceil(query_minutes / commit_minutes)
    policy = f"clean_policy => 'KEEP_LATEST_COMMITS', retain_commits => {retained}"
    spark.sql(f"CALL run_clean(table => '{name}', {policy}, options => '{CLEAN_OPTIONS}')")


# %% wrong="07.5"
# expect: so you guarantee
def clean_for(name, commit_minutes, query_minutes):
    retained = query_minutes // commit_minutes
    spark.sql(f"""
        CALL run_clean(table => '{name}', retain_commits => {retained},
                       options => '{CLEAN_OPTIONS}')
    """)


# %% wrong="07.5"
# expect: versions are kept where
def clean_for(name, commit_minutes, query_minutes):
    retained = query_minutes // commit_minutes + 1
    spark.sql(f"""
        CALL run_clean(table => '{name}', retain_commits => {retained},
                       options => '{CLEAN_OPTIONS}')
    """)


# %% wrong="07.5"
# expect: safe
def clean_for(name, commit_minutes, query_minutes):
    retained = query_minutes // commit_minutes + query_minutes % commit_minutes
    spark.sql(f"""
        CALL run_clean(table => '{name}', retain_commits => {retained},
                       options => '{CLEAN_OPTIONS}')
    """)


# %% wrong="07.5"
# expect: The cleaner deleted nothing
def clean_for(name, commit_minutes, query_minutes):
    spark.sql(f"""
        CALL run_clean(table => '{name}', retain_commits => {query_minutes},
                       options => '{CLEAN_OPTIONS}')
    """)


# %% wrong="07.5"
# expect: that no query reads any more
def clean_for(name, commit_minutes, query_minutes):
    versions = -(-query_minutes // commit_minutes) + 1
    spark.sql(f"""CALL run_clean(table => '{name}', clean_policy => 'KEEP_LATEST_FILE_VERSIONS',
        file_versions_retained => {versions}, options => '{CLEAN_OPTIONS}')""")


# %% [markdown]
# Now the table itself: a commit every three minutes, queries of ten.

# %%
lab.use_reference("07.5")
spark.sql(f"CREATE TABLE IF NOT EXISTS orders_sized USING hudi LOCATION '{sized_path}'")
clean_for("orders_sized", 3, 10)
kept = lab.xray(sized_path).frame().query("part == 'base'").groupby("file_group").size()
kept

# %% proof="The newest version and four older ones are kept."
assert max(kept) == 5

# %% [markdown]
# The rule holds while only the stream commits, at its usual pace. The cleaner counts **each completed
# commit**, clusterings and compactions too, so with them, or while a stream catches up, the same number covers
# less time; `hoodie.clean.policy=KEEP_LATEST_BY_HOURS` counts hours instead. And a *pending* instant holds
# the cleaner back: files replaced after it stay until somebody runs the plan. (From Hudi's source,
# `CleanerUtils`; not measured here.)
#
# What does a writer do if you set nothing?

# %% name="defaults"
from lab_env.lessons.l07.figures import hudi_defaults

defaults = pd.Series(hudi_defaults(spark), name="default")
defaults.to_frame()

# %% proof="By default files are small below 100 MB, each commit is cleaned, and nothing is clustered."
assert int(defaults["hoodie.parquet.small.file.limit"]) == 104857600
assert defaults["hoodie.clean.automatic"] == "true"
assert defaults["hoodie.clean.commits.retained"] == "10"
assert defaults["hoodie.clean.trigger.max.commits"] == "1"
assert defaults["hoodie.clustering.inline"] == "false"

# %% [markdown]
# Cleaning keeps ten commits: at one commit every thirty seconds, a reader has five minutes. Clustering is
# off. The two `keep` options belong to [**archiving**](../docs/glossary.md#archiving), which moves the oldest
# instants off the active timeline and changes no data file.

# %% [markdown] tags=["instructor"]
# *For instructors.* 17 minutes. The empty dashboard is the moment to stop and let it sink in. In 07.4 ask
# why one reader fails and the other finds nothing: one had its list of files, the other had not. For 07.5
# draw the six commits as ticks, three minutes apart, and a bar of ten minutes that begins just *before* a
# tick. Count the ticks under the bar, one by one. Common answers: 2 ("one and a reserve"), 3 (rounded
# down), 10 (minutes taken for commits). Short of time: do 07.5 together, at the drawing.

# %% [markdown]
# > **In production**
# > - Only one job cleans. Retention covers the longest query *and* every consumer that reads
# >   the table's changes ([cleaning](https://hudi.apache.org/docs/cleaning)).
# > - Clustering runs async or as its own job, with a lock if others write, and only on partitions without
# >   updates: by default a plan considers all of them ([clustering](https://hudi.apache.org/docs/clustering)).
# > - With a bucket index, choose the number of buckets instead of clustering
# >   ([indexes](https://hudi.apache.org/docs/indexes)).
#
# ## Key points
#
# - Tasks × days × batches: three good decisions multiply into many small files.
# - Every file cost our reader some five requests, however few rows it held.
# - File sizing keeps files few, but each write copies earlier rows; bulk insert skips it, and clustering
#   writes all rows once more afterwards.
# - Clustering makes storage grow; it falls after a later commit, when the cleaner may delete what was
#   replaced.
# - A reader whose files were cleaned fails, or silently sees nothing: open the table for each question, and
#   retain as many commits as complete during your longest query.
#
# ## What's next
#
# There are few files now, but each look-up still opens all of them. Lesson 08 shows how a query skips the
# files that cannot hold its rows, and how a writer finds the one that does.

# %%
spark.stop()
