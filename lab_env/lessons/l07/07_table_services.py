# ---
# title: Why are there a thousand small files?
# minutes: {teach: 28, do: 25}
# needs: ["05"]
# services: [minio, kafka]
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 07 · Why are there a thousand small files?
#
# ## Questions
#
# - My stream has run for an hour, and a query for one order takes longer every minute. Why?
# - How do I get few large files out of many small ones, and what does it cost?
# - I deleted nothing, but the bill for storage grows. A colleague's report died with "file not
#   found". How are the two connected?
#
# ## Objectives
#
# At the end of this lesson you can
#
# - stream into a table, and say how many files that makes (07.1),
# - turn many small files into few by a clustering (07.2),
# - let the writer do that by itself (07.3),
# - ask a table again and again, although it is cleaned (07.4),
# - clean a table so that the longest query keeps its files (07.5).
#
# You will also have counted the requests that a query sends to the store, and seen two ways in which
# a reader loses its files: one with an error, one without.
#
# ## What you need
#
# Lesson 03: topics, micro-batches and their checkpoint. Lesson 05: file groups, their versions, and
# the X-ray that shows them. 53 minutes, with a good place to pause after the second section.

# %% [markdown]
# ## Start
#
# The shop's board, revenue by status, gets its orders from a stream. Run the cells and read on.

# %%
import pandas as pd
from IPython.display import HTML
from pyspark.sql import functions as F

from lab_env import Lab

lab = Lab.start("07")
spark = lab.spark

# %% [markdown]
# Six thousand orders of five days. They go in turn to the sixteen partitions of a topic and are read
# back as a stream, two thousand per micro-batch.

# %%
shop = spark.range(1, 6001, 1, numPartitions=1).selectExpr(
    "concat('O-', id) AS order_id",
    "'new' AS status",
    "cast(id % 90 + 10 AS decimal(12, 2)) AS amount",
    "sha2(cast(id AS string), 256) AS basket",  # stands for all that a real order has besides
    "to_timestamp('2026-11-18 12:00:00') + make_interval(0, 0, 0, cast(id % 5 AS int)) AS order_ts",
    "cast(date_add('2026-11-18', cast(id % 5 AS int)) AS string) AS partition_date",
)

# %%
from lab_env.lessons.l07.figures import orders_as_stream, send_orders

PARTITIONS = 16
send_orders(lab, shop, PARTITIONS)
rows = orders_as_stream(lab, shop.schema, per_batch=2000)
rows.isStreaming

# %% [markdown]
# `True`: `rows` is a streaming DataFrame, which is written with `writeStream` (lesson 03). Here are
# the options of every table of this lesson. `DEMO_OPTIONS` leave out the metadata table and cleaning,
# which Hudi has on by default; where this changes a number, the text says so.

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
# This lesson leaves out how rows are found; lesson 08 covers it. Here we only look at how many files
# there are, how large they are, and when they go.

# %% [markdown]
# ## What a small file costs
#
# The orders are all new, so the stream writes with [**bulk insert**](../docs/glossary.md#bulk-insert),
# the fast operation that looks up nothing.
#
# ### Exercise 07.1 · Write the stream
#
# Complete the function. It writes the streaming DataFrame `rows` into the Hudi table at `path`,
# with the options `ORDERS`, the given operation, and the `extra_options`, if it is called with any.
# It keeps its progress in the folder `checkpoint`. It ends when all that is there has been written:
# that is the trigger `availableNow`, as in lesson 03. Every stream of this lesson goes through your
# function.


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
# `rows.writeStream.format("hudi")`, the options, a trigger, and `start(path)`, which returns a
# query at once. What waits for its end?

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
# The table has a folder for each day, and orders of five days arrive in each micro-batch. Spark
# reads a batch in sixteen tasks, one for each partition of the topic. Each task parses its orders
# and writes them; no step in between brings orders of the same day together.
#
# **Predict:** the stream has written three batches. How many data files does the table have? A guess
# that is off by 40 or less counts.

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
# Two hundred and forty. Each of the sixteen tasks had orders of all five days, and a task writes a
# file of its own into each folder: 16 tasks × 5 days × 3 batches. Nobody asked for small files. The
# number comes from three good decisions that *multiply*: work in parallel, partition the table,
# commit often. (One option, not tried here, takes the first factor away: with
# `hoodie.bulkinsert.sort.mode=PARTITION_PATH_REPARTITION` Hudi brings the orders of a day together
# before it writes, at the price of a shuffle, so that a batch makes five files.) With one such batch
# per minute there are a thousand files in less than a quarter of an hour:

# %%
minutes_to_a_thousand = 1000 / per_batch.iloc[0]
print(f"a thousand files after {minutes_to_a_thousand} minutes")

# %% proof="The stream passes a thousand files within 15 minutes."
assert minutes_to_a_thousand < 15

# %% [markdown]
# What is wrong with many files? Let us look up one order, O-17. Before we do, we open the table
# twice and keep the DataFrames for later: a `report` that runs now and will run again, and a
# `dashboard` that is opened now and first used later.
#
# An object store answers requests: GET for (a part of) an object, HEAD for its size, LIST for a
# listing. `count_requests` reads the counters of Spark's own S3 client before and after.
#
# **Predict:** the query asks for one row. How many requests will Spark send? A guess that is off by
# 400 or less counts.

# %%
lab.predict("07.p2", ..., tolerance=400)

# %%
from lab_env.tables.probes.s3_requests import count_requests

report = spark.read.format("hudi").load(orders_path)
dashboard = spark.read.format("hudi").load(orders_path)


def look_up(table):
    """Find O-17 in a table, and count what that asked of the store."""
    with count_requests(spark) as sent:
        table.where("order_id = 'O-17'").select("order_id", "status").collect()
    return sent


requests_small = look_up(report)
requests_small

# %% name="requests"
lab.record_actual("07.p2", requests_small.total)

# %% proof="The look-up sent over five requests per file."
assert requests_small.total >= 5 * len(small.current) > 1000
assert min(requests_small.get, requests_small.head) >= len(small.current)

# %% [markdown]
# More than a thousand, for one row. Spark does not know which file holds O-17, so it opens each of
# them: it asks for the size (HEAD), and for the footer at the end, which says what lies where in
# the file (GET). Five requests a file and more, for files of twenty-five rows. Each request takes
# its time, and on a cloud store each has a price. (`DEMO_OPTIONS` shape this number. With the
# metadata table, as by default, column statistics would let Spark skip the files of batches 2 and 3:
# they hold keys from O-2001 on; as text these are larger than O-17. The 80 files of the first batch
# would still be opened. This is not measured here.)
#
# > **Documented, not measured.** Amazon's list price for S3 Standard in US East is 0.0004 US dollars
# > for a thousand GET or HEAD requests (as quoted in November 2026; other regions and classes differ).
#
# A dashboard that asks this question every ten seconds for thirty days would pay, for requests alone:

# %%
questions = 30 * 24 * 3600 / 10
dollars_small = questions * (requests_small.get + requests_small.head) * 0.0004 / 1000
print(f"{questions:,.0f} questions: {dollars_small:,.0f} US dollars")

# %% proof="At one question per ten seconds, the requests cost over 100 US dollars a month."
assert dollars_small > 100

# %% [markdown] tags=["instructor"]
# *For instructors.* 16 minutes. Have the group predict before the store is asked: most say 3, 15 or 48
# files, and a handful of requests. Short of time: leave out what the requests cost.

# %% [markdown]
# ## Sized while writing
#
# Hudi has a remedy that works at the write: [**file sizing**](../docs/glossary.md#file-sizing). New
# rows go into a file that is still small, and only when none is left into a new one. The option is
# `hoodie.parquet.small.file.limit`. Here is its default, asked from Hudi itself, in bytes:

# %%
from lab_env.lessons.l07.figures import hudi_defaults

small_file_limit = hudi_defaults(spark)["hoodie.parquet.small.file.limit"]
small_file_limit

# %% proof="The default limit of a small file is 100 MB."
assert int(small_file_limit) == 104857600

# %% [markdown]
# A hundred megabytes, and our files have twelve kilobytes. The limit applied while the stream wrote,
# but had no effect: bulk insert does not look at the files that are there. `insert` does, and so does
# the `upsert` of lesson 05. A second stream, with a checkpoint of its own, reads the same topic in
# the same three batches; only the operation differs. (The orders are all new, so it need not look up
# their keys, as `upsert` would.)

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
# The same six thousand orders, now in one file a day. They take less than a fifth of the bytes,
# too: each file brings a footer and a bloom filter of its own, and of small files that is the
# larger part. So what is the price? It shows in the X-ray:

# %%
sized

# %% [markdown]
# Five files are read (the solid frames), and two older versions of each lie beside them. To put
# new rows into a file, Copy-on-Write has to write the file again, with all rows that it already
# had. Here are the bytes that each write made:

# %%
from lab_env.platform.display.card import styled

written = {"bulk insert": small, "insert": sized}
kilobytes = pd.DataFrame(
    {
        name: table.frame().query("part == 'base'").groupby("instant")["bytes"].sum().to_list()
        for name, table in written.items()
    },
    index=["first batch", "second", "third"],
).T.div(1000)
styled(kilobytes.round(), "{:.0f} KB")

# %% name="price-of-sizing" proof="Insert rewrites earlier rows: each batch writes more bytes than the one before."
assert kilobytes.loc["bulk insert"].max() < 1.2 * kilobytes.loc["bulk insert"].min()
assert kilobytes.loc["insert"].is_monotonic_increasing
assert kilobytes.loc["insert", "third"] > 1.5 * kilobytes.loc["insert", "first batch"]
assert kilobytes.loc["insert", "third"] < kilobytes.loc["bulk insert", "third"]

# %% [markdown]
# Bulk insert writes the same number of bytes each time. The insert writes more with every batch,
# because it carries the earlier rows along: until a file has reached the limit, each write that
# adds to it copies it. After three batches it is still the smaller number, because eighty footers
# and filters weigh more than the few rows that are copied. But the bytes per write keep growing: good
# for the reader, a growing burden for a writer that should be quick.

# %% [markdown] tags=["instructor"]
# *For instructors.* 5 minutes. Ask who pays for the smaller number of files, the reader or the writer.
# Short of time: leave out the table of bytes per write, and say that it grows.

# %% [markdown]
# **A good place to pause.** To go on another day, type `lab goto 07c` in a terminal: it runs everything to
# here again in a minute or two.

# %% [markdown]
# ## Clustering: sized afterwards
#
# The other way: write fast, tidy up later. A [**table service**](../docs/glossary.md#table-service)
# is maintenance that changes a table's files or timeline, and no row. Compaction (lesson 06) is one.
# [**Clustering**](../docs/glossary.md#clustering) is another: it reads many small files and writes
# their rows into few large ones, which *replace* the small ones. It can sort the rows on the way;
# lesson 08 uses that. In this lesson it only makes files larger.
#
# Like a compaction, a clustering is first a *plan* and then its *execution*. The plan is an instant on
# the timeline and names, in each partition, the groups of small files that become larger ones; the
# execution writes those.
#
# ### Exercise 07.2 · Cluster
#
# Complete the function. It clusters the table at `path` by Hudi's procedure
# [run_clustering](https://hudi.apache.org/docs/procedures#run_clustering). Procedures do not know our
# write options; pass those that matter, `OPTIONS`, as one text. Without the first the procedure would
# make a metadata table; without the second each new file would have room for 60,000 keys in its filter.

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
# Lesson 05 called `run_compaction(op => ..., path => ..., options => ...)`. This one plans and runs
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
# expect: did not get all of `OPTIONS`
def cluster(path):
    spark.sql(f"CALL run_clustering(path => '{path}')")


# %% wrong="07.2"
# expect: it merges no files
def cluster(path):
    name = "clustered_" + path.rpartition("-")[2]
    spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    spark.sql(f"CALL run_clean(table => '{name}', retain_commits => 1, options => '{OPTIONS}')")
    spark.sql(f"DROP TABLE {name}")


# %%
lab.use_reference("07.2")

# %% [markdown]
# **Predict:** we cluster the 240 files into few. Will the bytes on the store *fall* or *grow*?

# %%
lab.predict("07.p3", ..., choices=("fall", "grow"))

# %%
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
# All rows that were sent and the same sum, in five files as if they had been sized while writing.
# No write had to copy earlier rows, and the reader sends a small part of the requests. And the
# storage?

# %% name="storage-grows"
bytes_small = sum(file.size for file in small.files)
bytes_clustered = sum(file.size for file in clustered.files)
lab.record_actual("07.p3", "grow" if bytes_clustered > bytes_small else "fall")

# %% proof="Clustering made the storage grow: not one of the 240 files went."
assert len(clustered.files) == len(small.files) + days and bytes_clustered > bytes_small

# %% [markdown]
# It grew. Five files were added; none of the 240 was deleted. They are *replaced*: a reader that
# opens the table now does not look at them. But a reader that opened it before does. Our `report`
# is such a reader, and it still works: the proof below the picture asks it. The picture shows the
# bytes on the store:

# %%
from lab_env.lessons.l07.figures import draw_storage

HTML(draw_storage({"three batches": small, "clustered": clustered}))

# %% proof="The reader that opened the table before still works."
assert report.where("order_id = 'O-17'").count() == 1

# %% [markdown]
# ### Exercise 07.3 · Bring it to two files
#
# In production, nobody runs clustering by hand. The writer can do it between two writes: *inline*
# clustering. (A streaming writer can also do it beside its batches,
# `hoodie.clustering.async.enabled`. Take care: while a clustering is planned or runs, Hudi by
# default *rejects* writes that update its file groups. A stream of new rows does not notice; a
# stream of updates [fails](../docs/troubleshooting.md#not-allowed-to-update-the-clustering-file-group).)
#
# The check makes three bulk inserts of orders of two days, with three tasks each, into a new table.
# That gives 18 files. Write `extra_options`, a dictionary of the options that the writer must get in
# addition, so that after the third write a query reads two files at most. The operation stays a bulk
# insert, and one clustering must be enough, because each one writes the rows anew. The write options
# of clustering begin with `hoodie.clustering.inline`. Your stream gets your options next.

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
# A dict of two options. One switches inline clustering on. The other says after how many commits it
# runs; its name ends in `max.commits`.

# %% [markdown] hint="07.3"
# The default of `hoodie.clustering.inline.max.commits` is 4, and the check makes three commits.

# %% right="07.3"
# Values as numbers and booleans: the writer turns them into text.
extra_options = {"hoodie.clustering.inline": True, "hoodie.clustering.inline.max.commits": 3}

# %% wrong="07.3"
# expect: files hold all 120 orders, but after 3 clusterings
extra_options = {"hoodie.clustering.inline": True, "hoodie.clustering.inline.max.commits": 1}

# %% wrong="07.3"
# expect: A bulk insert does not look at files that are there
extra_options = {"hoodie.parquet.small.file.limit": "1073741824"}

# %% [markdown]
# Now the stream: the same topic once more, bulk insert, three micro-batches, and your options. Two tasks
# write it instead of sixteen, so a batch makes ten files.

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
# Three commits, and after the third a clustering that nobody called. A query reads five files, not thirty.

# %% [markdown] tags=["instructor"]
# *For instructors.* 14 minutes. For 07.p3 most say that storage falls with the number of files. Two
# mistakes are common. Raising the small-file limit, because the files are small: ask which operation reads
# that option. And switching the cleaner on, because there are too many files: ask which of the 18 files a
# query could do without. Whoever switches clustering on and leaves `max.commits` alone gets 18 files too,
# and the message about the default. Draw three stacks of three tasks over two folders, then one arrow into
# each folder. Short of time: do 07.3 together.

# %% [markdown]
# ## Cleaning, and the reader that was too slow
#
# Removing files that nobody should need any more is the work of another service,
# [**cleaning**](../docs/glossary.md#cleaning). We do it by hand first, to see each step.
# `run_clustering` took a path or a name; `run_clean` takes only a name, so the table gets one.
# `retain_commits => 1` says: keep what a reader of the last commit or of the one before it needs.

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
# Nothing. The clustering *is* the last commit: whoever opened the table just before it needs the 240
# files, and the cleaner spares them. That is what [**retention**](../docs/glossary.md#retention) is
# for. So the table takes one more write. O-17 is paid:


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

# %% name="cleaning" proof="After one more commit, the cleaner removed all 240 replaced files."
assert cleaned["total_files_deleted"].iloc[0] == len(small.files)
assert len(after_cleaning.files) == days + 1 and len(after_cleaning.current) == days
assert sum(file.size for file in after_cleaning.files) < bytes_small / 5

# %% [markdown]
# Now the storage falls, to less than a fifth of where it began. In the X-ray, the file with the dashed
# frame is O-17's day before the payment: one version older than the newest, kept by the retention.

# %%
after_cleaning

# %% [markdown]
# Two DataFrames were opened before all this: `report`, which has run, and `dashboard`, which has
# not. Both ask for O-17 now.
#
# **Predict:** how many rows does `report` find: `1`, `0`, or is it an `error`?

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
# Its plan holds the names of the 240 files, and they are gone: an error that nobody can miss. Now the
# other one:

# %% name="silent-reader"
all_rows = dashboard.count()
all_rows

# %% proof="The dashboard that was opened before the cleaning finds no row, and no error says so."
assert all_rows == 0

# %% [markdown]
# Zero rows, and no error. The DataFrame recorded the timeline when it was loaded, and lists files at
# first use. It ignores files of later commits; those of its own three are deleted. A table of six
# thousand orders looks empty. This is the more dangerous of the two: a report of zero is easily
# believed.
#
# There are two remedies. The first is for programs that ask the same question again and again.
#
# ### Exercise 07.4 · A board that runs all day
#
# Complete the function. The program of the shop's board runs all day, and calls it each time somebody looks.
# The function returns what the table at `path` says at that moment: a Spark DataFrame with the columns
# `status` and `revenue`, which is the sum of `amount` of the orders in that status. The check calls it, lets
# a write and a cleaning happen to the table, and calls it again.


# %% exercise="07.4"
def board_now(path):
    """Revenue by status of the table at `path`, as it is now."""
    # BEGIN SOLUTION
    orders = spark.read.format("hudi").load(path)
    return orders.groupBy("status").agg(F.sum("amount").alias("revenue"))
    # END SOLUTION


lab.check("07.4", board_now)

# %% [markdown] hint="07.4"
# `dashboard` was opened once, long before it was used. When should a board open its table?

# %% [markdown] hint="07.4"
# `spark.read.format("hudi").load(path)` opens a table. Then `groupBy`, and `agg` with a sum that gets
# a name by `alias`.


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
shown = board_now(orders_path).toPandas().set_index("status")
shown

# %% proof="A reader that opens the table now sees every order, O-17 as paid."
assert shown["revenue"]["paid"] == 27 and shown["revenue"].sum() == sent["sum(amount)"]

# %% [markdown]
# The board has every order, and O-17 is paid. **A program that asks again and again opens the table for each
# question.**
#
# The second remedy is for long queries: the cleaner must keep old files longer. How long is a setting: a
# number of commits, by default, or of hours (`hoodie.clean.policy=KEEP_LATEST_BY_HOURS` with
# `hoodie.clean.hours.retained`).

# %% [markdown]
# ### Exercise 07.5 · Clean for the longest query
#
# Complete the function. A stream commits every `commit_minutes`, and the longest query on its table
# takes `query_minutes`. It may start at any moment, and it must not lose a file. Clean the table `name`
# by `run_clean` with as few commits retained as that allows. (A query that ends in the moment of a
# commit is over in time: with a commit every five minutes, a query of ten sees two of them come.) The
# procedure's `options` are `CLEAN_OPTIONS`.
#
# The check tries it on copies of the table `orders_sized`. There, O-17 first changes three times. The
# three batches and these changes make six versions of the file of its day:

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
# expect: versions are kept where
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

# %% [markdown] tags=["instructor"]
# *For instructors.* 11 minutes. The empty dashboard is the moment to stop and let it sink in. Whoever gets
# 07.4 right at once has seen why: ask what a board would show that keeps its DataFrame. Draw the six
# commits as ticks, three minutes apart, and a bar of ten minutes that begins just *before* a
# tick. Count the ticks under the bar, one by one. Common answers: 2 ("one and a reserve"), 3 (rounded
# down), 10 (minutes taken for commits). The option counts commits, not minutes: a stream that catches
# up after a pause commits faster and so keeps less time. `hoodie.clean.policy=KEEP_LATEST_BY_HOURS`
# counts hours instead. Short of time: do 07.5 together, at the drawing.

# %% [markdown]
# ### The timeline grows, too
#
# Each action leaves three objects on the timeline: requested, inflight, completed. Nobody needs a
# four-week-old commit to read today's rows, yet it stays on the active timeline.
# [**Archiving**](../docs/glossary.md#archiving) moves the oldest instants away, into Parquet files
# in `timeline/history`. A manifest lists these files, and Hudi merges small ones into larger ones,
# as an LSM tree does.
#
# When more than `max_commits` commits are active, archiving takes the oldest away and leaves
# `min_commits`, or more where the cleaner still needs them (`retain_commits` says how many it
# retains). The call asks for one; Hudi raises that to two, so the clustering and the payment stay.

# %%
archive = f"CALL archive_commits(path => '{orders_path}', min_commits => 1, max_commits => 2"
spark.sql(f"{archive}, retain_commits => 1, enable_metadata => false)")
archived = lab.xray(orders_path)


def active(table):
    """The objects of a table's active timeline."""
    return [
        name
        for part, name, _ in table.bookkeeping
        if part == "timeline" and "/history/" not in name
    ]


print(len(active(after_cleaning)), "objects on the active timeline before,", end=" ")
print(len(active(archived)), "after")

# %% name="archiving"
archived

# %% proof="Archiving took the three batches off the active timeline and left every file and row."
assert len(active(archived)) < len(active(after_cleaning))
batch_times = {write.requested for write in small.instants}
assert len(batch_times) == 3 and batch_times.isdisjoint(i.requested for i in archived.instants)
assert archived.files == after_cleaning.files
assert spark.read.format("hudi").load(orders_path).count() == 6000

# %% [markdown]
# The commits of the three batches are off the active timeline. No data file changed and no row.
#
# In daily life all these services run by themselves, inside the writer. Their defaults, asked from
# Hudi:

# %% name="defaults"
defaults = pd.Series(hudi_defaults(spark), name="default")
defaults.to_frame()

# %% proof="By default Hudi cleans after each commit, keeps ten, and does not cluster."
assert defaults["hoodie.clean.automatic"] == "true"
assert defaults["hoodie.clean.commits.retained"] == "10"
assert defaults["hoodie.clean.trigger.max.commits"] == "1"
assert defaults["hoodie.clustering.inline"] == "false"

# %% [markdown]
# Compare them with your own figures. Cleaning is on and keeps ten commits: at one commit every thirty
# seconds, a reader has five minutes. The cleaner looks for work after each commit. A clean that
# finds something is an action of its own, with requests of its own, so the course's pipeline cleans
# after every fifth commit (`lab_env/pipeline/options.py`). Archiving begins above `keep.max.commits`
# and leaves `keep.min.commits`, more than the cleaner retains. Clustering is off: a stream of bulk
# inserts makes small files until somebody switches it on.
#
# ### The board
#
# Sized, clustered, cleaned, archived: what does the board say, revenue by status, from each of the two
# tables? O-17 was paid in one and shipped in the other.

# %%
boards = {
    name: board_now(path).toPandas().set_index("status")
    for name, path in {"orders": orders_path, "orders_sized": sized_path}.items()
}
pd.concat(boards, axis=1)

# %% proof="Both boards show all that was sent, to the cent."
for board in boards.values():
    assert board["revenue"].sum() == sent["sum(amount)"]

# %% [markdown]
# Each adds up to what was sent. A table service changes files or the timeline, and no row.

# %% [markdown] tags=["instructor"]
# *For instructors.* 7 minutes. Short of time, skip archiving and show the defaults only.

# %% [markdown]
# ## Key points
#
# - Tasks × partitions × commits: small files come from a product of three good decisions.
# - A reader pays by the file, not by the row: several requests for each, even to find one row.
# - File sizing keeps files few while writing and makes each write copy what is there; bulk insert
#   does not do it. Clustering does the same afterwards.
# - Clustering makes storage grow. It falls when the cleaner may remove what was replaced, which
#   is after a later commit.
# - A reader whose files were cleaned fails, or silently sees nothing. Open the table for each question,
#   and retain at least as many commits as fall into your longest query.
#
# ## What's next
#
# The files are few now, and still each look-up opens all of them. Lesson 08 asks how a query skips
# the files that cannot hold its rows, and how a writer finds the one that does.

# %%
spark.stop()
