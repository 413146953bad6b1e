# ---
# title: What does one write do to the files?
# minutes: {teach: 30, do: 30}
# needs: ["04"]
# services: [minio, kafka]
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 05 · What does one write do to the files?
#
# ## Questions
#
# - I change ten rows of a thousand. What does the table write, and how much of it?
# - Copy-on-Write or Merge-on-Read: which one for my workload?
# - I deleted a row. Is it gone?
#
# ## Objectives
#
# At the end of this lesson you can
#
# - write the same upsert to tables of both types (05.1),
# - delete rows of a table by key (05.2),
# - make sure that a deleted row leaves the store as well (05.3),
# - choose a table type by the bytes that each would write (05.4).
#
# ## What you need
#
# Lesson 04: record key, ordering field, partition, upsert. 60 minutes, with a good place to pause
# after each of the first three sections.

# %% [markdown]
# ## Start
#
# The shop has one board on its wall: **revenue by status**. Two tables feed it in this lesson, one of
# each of Hudi's table types. Both get the same six operations, and you write the code for them.
# `make_orders` makes the orders of a write: O-1 to O-1000 were created on 20 November, later ones on the
# 21st.

# %%
import pandas as pd

from lab_env import Lab
from lab_env.pipeline.session import INTERPRETED

lab = Lab.start("05")
# On tables of a thousand rows, compiling a query takes longer than it saves.
spark = lab.start_spark(INTERPRETED)


# %%
def make_orders(which, status, at):
    """Orders as a DataFrame: those for which the condition on `id` holds."""
    return spark.sql(f"""
        WITH numbered AS (
            SELECT id, IF(id <= 1000, '2026-11-20', '2026-11-21') AS day FROM range(1, 1300))
        SELECT 'O-' || id AS order_id, 'C-' || pmod(hash(id), 300) AS customer_id,
               CAST(5 + pmod(hash(id, 7), 20000) / 100 AS DECIMAL(12,2)) AS amount,
               '{status}' AS status, to_timestamp(day || ' {at}') AS order_ts,
               day AS partition_date, false AS _hoodie_is_deleted
        FROM numbered WHERE {which}
    """)


make_orders("id IN (17, 1001)", "new", "10:00").show()

# %% [markdown]
# ## One write, two types
#
# This lesson needs four terms.
#
# - A [**base file**](../docs/glossary.md#base-file) is a Parquet file with rows. It is never changed,
#   only replaced by a newer one.
# - A [**log file**](../docs/glossary.md#log-file) holds changes of rows. It mostly belongs to a base
#   file, and a reader merges the two.
# - A [**file group**](../docs/glossary.md#file-group) is a base file with all its older and newer
#   versions, and their logs. A row stays in its file group until clustering rewrites it or, with a
#   global index, its partition value changes.
# - A [**file slice**](../docs/glossary.md#file-slice) is one version of a file group: a base file and
#   the log files written on top of it.
#
# [**Copy-on-Write**](../docs/glossary.md#copy-on-write) (COW) and
# [**Merge-on-Read**](../docs/glossary.md#merge-on-read) (MOR) are the two ways to use them. Which files
# does each of them write? We ask the files.
#
# ### Hudi's defaults, and ours
#
# First a table with Hudi's defaults, made in SQL from the thousand orders of the 20th. A session's first
# write takes longer than all later ones.

# %%
first_orders = make_orders("id <= 1000", "new", "10:00").coalesce(1)  # into one file
first_orders.createOrReplaceTempView("first_orders")
spark.sql(f"""
    CREATE TABLE IF NOT EXISTS by_default USING hudi PARTITIONED BY (partition_date)
    LOCATION '{lab.path("by_default")}'
    TBLPROPERTIES (primaryKey = 'order_id', orderingFields = 'order_ts')
    AS SELECT * FROM first_orders
""")
by_default = lab.xray(lab.path("by_default"))
print([f"{file.kind} file: {file.rows} rows, {file.size:,} bytes" for file in by_default.files])
by_default.metadata_partitions

# %% proof="By default a base file of 1,000 rows has over 400 KB, and statistics of columns are kept"
assert [(file.rows, file.size > 400_000) for file in by_default.files] == [(1000, True)]
assert {"files", "column_stats"} <= set(by_default.metadata_partitions.index)

# %% [markdown]
# Over 400 KB for a thousand orders: nearly all of it is a *bloom filter* of their keys, with room for
# 60,000. Hudi keeps a list of the files and statistics of the columns in the
# [*metadata table*](../docs/glossary.md#metadata-table). It also cleans and compacts by itself.
#
# The options `QUICK` depart from these defaults: a filter has room for 1,000 keys, there are no statistics,
# and you decide when to clean and to compact. So your files will be smaller. `ORDERS` are the options of
# lesson 04.

# %%
from lab_env.pipeline.options import DEMO_OPTIONS, METADATA

ORDERS = {
    "hoodie.table.name": "orders",
    "hoodie.datasource.write.recordkey.field": "order_id",
    "hoodie.table.ordering.fields": "order_ts",
    "hoodie.datasource.write.partitionpath.field": "partition_date",
    "hoodie.datasource.write.hive_style_partitioning": "true",
}
QUICK = {
    **DEMO_OPTIONS,  # no cleaning, one task
    **METADATA,  # no column statistics
    "hoodie.metadata.enable": "true",  # the list of files, which DEMO_OPTIONS leaves out
    "hoodie.index.bloom.num_entries": "1000",  # keys that a base file's filter has room for
    "hoodie.compact.inline": "false",
}
TABLES = {"COPY_ON_WRITE": lab.path("orders_cow"), "MERGE_ON_READ": lab.path("orders_mor")}

# %% [markdown]
# ### Exercise 05.1 · Write the upsert
#
# Complete the function. It upserts orders into the Hudi table at `path`. If there is no table yet, it
# creates one of the given [type](https://hudi.apache.org/docs/table_types), `"COPY_ON_WRITE"` or
# `"MERGE_ON_READ"`. Both tables take the options `ORDERS` and `QUICK`. Every upsert of this lesson goes
# through your function.


# %% exercise="05.1"
def upsert(rows, path, table_type):
    """Upsert rows into the table at `path`; create it with that type if it is not there."""
    # BEGIN SOLUTION
    (
        rows.write.format("hudi")
        .options(**ORDERS, **QUICK)
        .option("hoodie.datasource.write.table.type", table_type)
        .mode("append")
        .save(path)
    )
    # END SOLUTION


lab.check("05.1", upsert)

# %% [markdown] hint="05.1"
# It is the write of lesson 04: `rows.write.format("hudi")`, the options, a mode, `save(path)`. The option
# for the type is `hoodie.datasource.write.table.type`.

# %% [markdown] hint="05.1"
# The mode `"append"` adds a commit to the table; with the default operation, that commit is an upsert.
# What does `"overwrite"` do to the rows that are there?


# %% right="05.1"
# Says the operation, although `upsert` is the default.
def upsert(rows, path, table_type):
    options = {**ORDERS, **QUICK, "hoodie.datasource.write.table.type": table_type}
    options["hoodie.datasource.write.operation"] = "upsert"
    rows.write.save(path, format="hudi", mode="append", **options)


# %% wrong="05.1"
# expect: replaced what the first one had written
def upsert(rows, path, table_type):
    options = {**ORDERS, **QUICK, "hoodie.datasource.write.table.type": table_type}
    rows.write.format("hudi").options(**options).mode("overwrite").save(path)


# %% wrong="05.1"
# expect: made a COPY_ON_WRITE table
def upsert(rows, path, table_type):
    rows.write.format("hudi").options(**ORDERS, **QUICK).mode("append").save(path)


# %% wrong="05.1"
# expect: Which mode adds to a table
written = set()


def upsert(rows, path, table_type):
    mode = "append" if path in written else "overwrite"
    written.add(path)
    (
        rows.write.format("hudi")
        .options(**ORDERS, **QUICK)
        .option("hoodie.datasource.write.table.type", table_type)
        .mode(mode)
        .save(path)
    )


# %% [markdown]
# Now we create both tables, with 1,200 orders each. `look` takes an X-ray of each table and compares it
# with the one before.

# %%
lab.use_reference("05.1")
pictures, latest = {}, {}


def look(operation):
    """X-ray both tables and keep the pictures under the operation's name."""
    for kind, path in TABLES.items():
        latest[kind] = pictures[operation, kind] = lab.xray(path, since=latest.get(kind))


for kind, path in TABLES.items():
    upsert(make_orders("id <= 1200", "new", "10:00"), path, kind)
look("insert")

# %% [markdown]
# ### Ten orders are paid
#
# Ten of the thousand orders of the 20th are paid; the other 200 orders are in the file of the 21st.
# **Predict:** how many rows does the update write into files of the Copy-on-Write table?

# %%
lab.predict("05.p1", ..., choices=("10", "1000", "1200"))

# %%
for kind, path in TABLES.items():
    upsert(make_orders("id BETWEEN 11 AND 20", "paid", "11:00"), path, kind)

look("update")
update = {kind: pictures["update", kind].commit() for kind in TABLES}
lab.record_actual("05.p1", str(update["COPY_ON_WRITE"].records_written))

# %%
pictures["update", "COPY_ON_WRITE"]

# %%
pictures["update", "MERGE_ON_READ"]

# %%
for kind, write in update.items():
    print(f"{kind:13}: {write.records_written:5,} rows, {write.bytes_written:6,} bytes")

# %% proof="The update rewrites 1,000 rows on Copy-on-Write and logs ten on Merge-on-Read"
cow_write, mor_write = update.values()
assert cow_write.updated == mor_write.updated == 10
assert cow_write.records_written == 1000 and mor_write.records_written == 10
assert cow_write.bytes_written > 4 * mor_write.bytes_written
files_to_open = [
    len(found.files)
    for kind in TABLES
    for found in latest[kind].current
    if found.partition.endswith("11-20")
]
assert files_to_open == [1, 2]

# %% [markdown]
# Each commit records what it wrote; an X-ray's `.commit()` returns the record of the newest one.
# Copy-on-Write copied the whole base file, with 990 rows that did not change. Merge-on-Read left the base
# file alone and wrote the ten rows into a log. The reader pays for that: for the 20th it opens one file of
# the COW table, and two of the MOR table, which it has to merge.
#
# Look at the timeline, too. A write to a COW table is a `commit`, a write to a MOR table a `deltacommit`,
# even the first one, which made base files only. Each instant has two times (lesson 00): *requested*, which
# is part of its files' names, and *completed*, when readers begin to see it.
#
# **A good place to pause.** To go on another day, type `lab goto 05b` in a terminal: it runs everything to
# here again in a minute or two.

# %% [markdown] tags=["instructor"]
# *For instructors.* 16 minutes. Half of the room writes `overwrite` in 05.1; let the card
# say what happened. Draw the two slices of the 20th side by side, and ask who pays: the writer or the
# reader? Short of time: give 05.1 away, and do the prediction aloud.

# %% [markdown]
# ## Delete, late event, new rows, compaction
#
# Five orders of the 20th, O-21 to O-25, must be erased.
#
# ### Exercise 05.2 · Delete by key
#
# Complete the function. It deletes the given orders from the existing table at `path`; `rows` has all
# columns of the table. Hudi has [several ways](https://hudi.apache.org/docs/write_operations#delete).
# The deletes are newer than the rows, so choose any; one commit deletes them all.


# %% exercise="05.2"
def erase(rows, path, table_type):
    """Delete these rows, found by their keys, from the table at `path`."""
    # BEGIN SOLUTION
    (
        rows.write.format("hudi")
        .options(**ORDERS, **QUICK)
        .option("hoodie.datasource.write.table.type", table_type)
        .option("hoodie.datasource.write.operation", "delete")
        .mode("append")
        .save(path)
    )
    # END SOLUTION


lab.check("05.2", erase)

# %% [markdown] hint="05.2"
# `hoodie.datasource.write.operation` chooses the operation. It is `upsert` unless you set it.

# %% [markdown] hint="05.2"
# Or let your function of 05.1 do the work: `rows.withColumn("_hoodie_is_deleted", ...)`.

# %% right="05.2"
# By a flag in the rows, where deletes and updates arrive together.
from pyspark.sql import functions as F


def erase(rows, path, table_type):
    upsert(rows.withColumn("_hoodie_is_deleted", F.lit(True)), path, table_type)


# %% right="05.2"
# In SQL, where somebody erases by hand.
def erase(rows, path, table_type):
    rows.createOrReplaceTempView("to_erase")
    spark.sql(f"CREATE TABLE erasing USING hudi LOCATION '{path}'")
    spark.sql("DELETE FROM erasing WHERE order_id IN (SELECT order_id FROM to_erase)")
    spark.sql("DROP TABLE erasing")


# %% wrong="05.2"
# expect: Still there
def erase(rows, path, table_type):
    upsert(rows, path, table_type)


# %% wrong="05.2"
# expect: Still there: O-1, O-3
def erase(rows, path, table_type):
    spark.sql(f"CREATE TABLE IF NOT EXISTS erasing USING hudi LOCATION '{path}'")
    rows.createOrReplaceTempView("to_erase")
    spark.sql("DELETE FROM erasing WHERE order_id IN (SELECT order_id FROM to_erase)")


# %% equivalent="05.2"
# without .option('hoodie.datasource.write.table.type', table_type): the table keeps its type
# without .options(ORDERS, QUICK): the table keeps its keys
# without **ORDERS in rows.write.format('hudi').options: the table keeps its keys
# without **QUICK in rows.write.format('hudi').options: the same rows go; SQL does without it, too


# %% harmless="05.2"
# given a column more: a delete needs the keys of its rows alone

# %% [markdown]
# The ways differ for late events: the operation `delete` ignores the ordering value, while an upsert with
# the flag `_hoodie_is_deleted` loses against a newer row.
#
# Your function erases the five orders in both tables. **Predict:** which table's newest base file then
# still holds the row of O-21?

# %%
lab.predict("05.p2", ..., choices=("Copy-on-Write", "Merge-on-Read", "both", "neither"))

# %%
lab.use_reference("05.2")
for kind, path in TABLES.items():
    erase(make_orders("id BETWEEN 21 AND 25", "erased", "12:00"), path, kind)
look("delete")


# %%
def count_o21(rows):
    """Count the rows of O-21."""
    return rows.where("order_id = 'O-21'").count()


in_newest_base = {}
for kind, path in TABLES.items():
    day_20 = next(s for s in pictures["delete", kind].current if s.partition.endswith("11-20"))
    base_file = f"{path}/{day_20.partition}/{day_20.base.name}"
    in_newest_base[kind] = count_o21(spark.read.parquet(base_file))
print("rows of O-21 in the newest base file:", in_newest_base)

still = [kind for kind in TABLES if in_newest_base[kind]]
lab.record_actual("05.p2", {"MERGE_ON_READ": "Merge-on-Read"}.get("".join(still), still))

# %% [markdown]
# On Copy-on-Write the delete wrote a base file without the row. On Merge-on-Read the base file still holds
# it: the log says "deleted", and the reader leaves the row out.
#
# Then an **older** event arrives for the ten paid orders: at 10:30 they were reserved. It must lose
# against the payment of 11:00. **Predict:** which new data files does this late update make in the
# Merge-on-Read table?

# %%
FILES = ("base", "log", "base and log", "none")
lab.predict("05.p3", ..., choices=FILES)

# %%
from lab_env.lessons.l05.figures import data_files

for kind, path in TABLES.items():
    upsert(make_orders("id BETWEEN 11 AND 20", "reserved", "10:30"), path, kind)
look("late update")
lab.record_actual("05.p3", data_files(pictures["late update", "MERGE_ON_READ"]))

# %% [markdown]
# The fifth write brings ten **new** orders for the 21st, whose base file holds 200. **Predict:** which
# new data files does the write make in the Merge-on-Read table?

# %%
lab.predict("05.p4", ..., choices=FILES)

# %%
for kind, path in TABLES.items():
    upsert(make_orders("id BETWEEN 1201 AND 1210", "new", "13:00"), path, kind)
look("small insert")
lab.record_actual("05.p4", data_files(pictures["small insert", "MERGE_ON_READ"]))

# %%
pictures["small insert", "MERGE_ON_READ"]

# %% name="small-insert" proof="The new orders are in a new base file of the file group of the 21st"
for kind in TABLES:
    (file,) = pictures["small insert", kind].new_files
    (before,) = (s for s in pictures["late update", kind].current if s.group == file.group)
    assert file.kind == "base" and not before.logs

# %% [markdown]
# Look at the 21st. Merge-on-Read has **rewritten a base file**, as Copy-on-Write did: it does not only
# append. By default Hudi on Spark looks for keys in base files only, so an order in a log alone would not be found
# by its next upsert. And Hudi avoids small files: it puts new rows into a
# file group that is still small, below 100 MB by default, and has no log yet. If there is none, it begins a
# new file group. With an index that finds keys in logs, such as the `BUCKET` of the course's pipeline, new
# rows go to a log (lesson 08).
#
# Some texts speak of an *index file* that each write updates. Is there one? Here are the footer of the new
# base file and the parts of our metadata table:

# %%
from lab_env.lessons.l05.figures import footer_of

new_base = pictures["small insert", "MERGE_ON_READ"].current[-1].base  # of the 21st
footer = footer_of(lab, f"{TABLES['MERGE_ON_READ']}/{new_base.partition}/{new_base.name}")
print(footer)
latest["MERGE_ON_READ"].metadata_partitions

# %% name="no-index-file" proof="No file indexes keys: the metadata table lists files, the footer holds the bloom filter"
assert list(latest["MERGE_ON_READ"].metadata_partitions.index) == ["files"]
assert "record_index" not in by_default.metadata_partitions.index
assert "org.apache.hudi.bloomfilter" in footer

# %% [markdown]
# No file indexes keys. Each write updates the metadata table, which lists files. (Lesson 08 adds a *record
# index* to it.) The footer of each *base file* has its lowest and highest key and the bloom filter. Only the
# index types `BLOOM` and `GLOBAL_BLOOM` read that filter. The default, `SIMPLE`, reads the keys themselves.
#
# ### Compaction
#
# A [**compaction**](../docs/glossary.md#compaction) merges the logs of a file group with its base file.
# Hudi's procedure `run_compaction` plans one after five deltacommits, as many as we have, and carries it
# out. Procedures do not know the options of our writes. So we pass those that affect file layout or
# bookkeeping again, as one text: `name=value,name=value`.

# %%
quick_as_text = ",".join(f"{name}={value}" for name, value in QUICK.items())
refusals = {}

for kind, path in TABLES.items():
    try:
        spark.sql(f"""
            CALL run_compaction(op => 'scheduleandexecute', path => '{path}',
                                options => '{quick_as_text}')
        """)
    except Exception as refusal:
        refusals[kind] = refusal.java_exception.getMessage()
        print(kind, "refused:", refusals[kind])

look("compaction")
pictures["compaction", "MERGE_ON_READ"]

# %% proof="Copy-on-Write refuses a compaction; Merge-on-Read has one after five deltacommits"
assert "not supported on a CopyOnWrite table" in refusals["COPY_ON_WRITE"]
assert "MERGE_ON_READ" not in refusals
actions = [instant.action for instant in pictures["compaction", "MERGE_ON_READ"].instants]
assert actions == ["deltacommit"] * 5 + ["compaction"]

# %% [markdown]
# Copy-on-Write refuses: there is nothing to merge. Merge-on-Read made one new base file, for the group
# that had logs. The old base file and its three logs are still there, in the dashed frame.
#
# ### All six, measured
#
# Here are all six operations side by side, with the size and number of the new objects after each.

# %%
from lab_env.lessons.l05.figures import WriteHeat

heat = WriteHeat(pictures)
heat

# %% name="six-operations" proof="Copy-on-Write makes base files only, and a late update writes as much as an update"
assert list(heat.files("COPY_ON_WRITE").values()) == ["base"] * 5 + ["none"]
made_by_mor = list(heat.files("MERGE_ON_READ").values())
assert made_by_mor == ["base", "log", "log", "log", "base", "base"]
written, counts = heat.frame(), heat.rows()
assert written["COPY_ON_WRITE", "log"].sum() == 0
for kind, operation in counts.index:
    on_the_store = written.loc[operation, [(kind, "base"), (kind, "log")]].sum()
    # The record and the listing agree.
    assert pictures[operation, kind].commit().bytes_written == on_the_store
late = [list(counts.loc[kind, "late update"]) for kind in TABLES]
assert late == [[0, 995], [10, 10]]
late_to_update = written.loc["late update"] / written.loc["update"]
assert 0.8 < late_to_update["COPY_ON_WRITE", "base"] < 1.2
assert 0.8 < late_to_update["MERGE_ON_READ", "log"] < 1.2
parts = ("MERGE_ON_READ", ["metadata", "timeline"])
bookkeeping = written.loc["update":"small insert", parts].sum(axis=1)
assert bookkeeping.max() < 1.1 * bookkeeping.min()
assert bookkeeping["update"] > 5 * written.loc["update", ("MERGE_ON_READ", "log")]

# %% [markdown]
# What most people get wrong:
#
# - **The late update wrote as much as the update**, although it changed nothing. Copy-on-Write copied
#   995 rows and changed none of them. Merge-on-Read did not even look: the reader, or the compaction, finds
#   out that its ten rows are too old.
# - **Copy-on-Write has no log**, in any row; only the change feed of lesson 12 adds some.
# - **A small write costs mostly bookkeeping**: the timeline and the metadata table take many times the bytes
#   of the log. You pay for them per write, not per row.
#
# **Another good place to pause.** To go on another day, type `lab goto 05c` in a terminal: it runs everything
# to here again.

# %% [markdown] tags=["instructor"]
# *For instructors.* 18 minutes. Most expect `log` for the small insert and `none` for the late update.
# Draw the file group of the 21st as one box, and put ten new rows into it: "into which file, so that
# the next upsert finds them?" Inline compaction is on by default for batch writes to a MOR table:
# without `hoodie.compact.inline=false` the fifth deltacommit would compact within the write, and the
# X-ray of the small insert would show a new base file for each day. Short of time: leave out the footer.

# %% [markdown]
# ## Deleted: gone?
#
# A customer asked to be forgotten, and you erased O-21. Since the compaction the newest base file of the
# Merge-on-Read table lacks it, too. So is it gone from the store? We look in the table, and by
# [time travel](../docs/glossary.md#time-travel), a query of an earlier state:


# %%
def as_of(moment, path):
    """The table as of a moment, which Hudi compares with the requested times of its instants."""
    return spark.read.format("hudi").option("as.of.instant", moment).load(path)


# %%
rows_of_o21 = pd.DataFrame()
for kind, path in TABLES.items():
    moment = pictures["update", kind].instants[-1].requested
    rows_of_o21[kind] = {
        "base file after the delete": in_newest_base[kind],
        "table now": count_o21(spark.read.format("hudi").load(path)),
        "table before the delete": count_o21(as_of(moment, path)),
    }
rows_of_o21.rename_axis("rows of O-21 in the")

# %% name="rows-of-o21" proof="After a delete only the Merge-on-Read base file holds the row; time travel finds it in both"
assert list(rows_of_o21["COPY_ON_WRITE"]) == [0, 0, 1]
assert list(rows_of_o21["MERGE_ON_READ"]) == [1, 0, 1]

# %% [markdown]
# Neither table shows the order. But in both of them **the older file is still there**, and time travel
# returns the row. Erased from the table is not erased from the store. That takes
# [**cleaning**](../docs/glossary.md#cleaning): it removes file slices that are older than the history that
# you want to keep.
#
# ### Exercise 05.3 · Forget a customer
#
# A colleague deleted a customer's orders from a Merge-on-Read table, and called it a day. An auditor opened
# the Parquet files and found them. Complete the function, so that afterwards no data file of the table holds
# a row that the table does not show.
#
# The table has had two deltacommits and nothing else. Hudi's procedures
# [run_compaction](https://hudi.apache.org/docs/procedures#run_compaction), as above, and
# [run_clean](https://hudi.apache.org/docs/procedures#run_clean) will help. Find out when the first plans
# anything, and how little the second can keep. Both take `quick_as_text`, too.


# %% exercise="05.3"
def forget(path, name):
    """Leave no file in the table at `path` (`name` in SQL) with rows that it does not show."""
    # BEGIN SOLUTION
    soon = quick_as_text + ",hoodie.compact.inline.max.delta.commits=1"
    spark.sql(f"""
        CALL run_compaction(op => 'scheduleandexecute', path => '{path}', options => '{soon}')
    """)
    spark.sql(f"""
        CALL run_clean(table => '{name}', clean_policy => 'KEEP_LATEST_FILE_VERSIONS',
                       file_versions_retained => 1, options => '{quick_as_text}')
    """)
    # END SOLUTION


lab.check("05.3", forget)

# %% [markdown] hint="05.3"
# Which file holds the row now, and which one would be written without it? Do that first. A plan waits for
# five deltacommits unless `hoodie.compact.inline.max.delta.commits` says otherwise.

# %% [markdown] hint="05.3"
# `run_clean` takes the table's name, not a path. `retain_commits => 1` still keeps every file that a reader
# of the commit *before* the last needs. `clean_policy => 'KEEP_LATEST_FILE_VERSIONS'` counts versions of each
# file group instead: `file_versions_retained => 1`.


# %% right="05.3"
# Through the writer's options, in a job that writes anyway.
def forget(path, name):
    options = {**ORDERS, **QUICK, "hoodie.datasource.write.table.type": "MERGE_ON_READ"}
    options |= {
        "hoodie.compact.inline": "true",
        "hoodie.compact.inline.max.delta.commits": "1",
    }
    table = spark.read.format("hudi").load(path)
    again = table.drop(*[name for name in table.columns if name.startswith("_hoodie_c")]).limit(1)
    meta = [name for name in again.columns if name.startswith("_hoodie_") and "deleted" not in name]
    again.drop(*meta).write.format("hudi").options(**options).mode("append").save(path)
    spark.sql(f"""
        CALL run_clean(table => '{name}', clean_policy => 'KEEP_LATEST_FILE_VERSIONS',
                       file_versions_retained => 1, options => '{quick_as_text}')
    """)


# %% wrong="05.3"
# expect: kept the version before
def forget(path, name):
    soon = quick_as_text + ",hoodie.compact.inline.max.delta.commits=1"
    spark.sql(f"""
        CALL run_compaction(op => 'scheduleandexecute', path => '{path}', options => '{soon}')
    """)
    spark.sql(f"CALL run_clean(table => '{name}', retain_commits => 1)")


# %% wrong="05.3"
# expect: nothing was compacted
def forget(path, name):
    spark.sql(f"""
        CALL run_compaction(op => 'scheduleandexecute', path => '{path}',
                            options => '{quick_as_text}')
    """)
    spark.sql(f"""
        CALL run_clean(table => '{name}', clean_policy => 'KEEP_LATEST_FILE_VERSIONS',
                       file_versions_retained => 1, options => '{quick_as_text}')
    """)


# %% equivalent="05.3"
# quick_as_text + ',hoodie.compact.inline.max.delta.commits=1' → ',hoodie.compact.inline.max.delta.commits=1': only faster with them
# SQL without options => '{quick_as_text}': only faster with them
# SQL without clean_policy => 'KEEP_LATEST_FILE_VERSIONS': Hudi infers it from file_versions_retained

# %% [markdown]
# Now do it to the orders of this lesson. The Merge-on-Read table gets a name in SQL.

# %%
lab.use_reference("05.3")
spark.sql(f"CREATE TABLE IF NOT EXISTS orders_mor USING hudi LOCATION '{TABLES['MERGE_ON_READ']}'")
forget(TABLES["MERGE_ON_READ"], "orders_mor")

cleaned = lab.xray(TABLES["MERGE_ON_READ"], since=latest["MERGE_ON_READ"])
cleaned

# %%
past = as_of(pictures["update", "MERGE_ON_READ"].instants[-1].requested, TABLES["MERGE_ON_READ"])
rows_before = past.groupBy("partition_date").count().toPandas()
rows_before

# %% proof="After compaction and cleaning no data file holds O-21, and time travel returns no row"
bases = [file for file in cleaned.files if file.kind == "base"]
assert len(bases) == len(cleaned.files)  # no log is left that could name O-21
files_left = [f"{TABLES['MERGE_ON_READ']}/{file.partition}/{file.name}" for file in bases]
assert spark.read.parquet(*files_left).where("order_id = 'O-21'").count() == 0
assert rows_before.empty

# %% [markdown]
# Now no data file of the Merge-on-Read table holds O-21. `orders_cow` still has its old base file: there,
# cleaning alone would do.
#
# With the row the past is gone, and **the answer does not say so**: just before the delete the table had
# 1,200 orders, and the query as of that moment returns none, without an error. After a cleaning that counts
# commits, the same query is refused (lesson 10). A query that was running would have lost its files
# (lesson 07).
#
# The data files are not the only place. By default the metadata table keeps the lowest and highest values of
# each file, which can be a customer's, until it is itself compacted and cleaned. Kafka, other sinks and a
# versioned bucket hold the order, too.
#
# **A third good place to pause.** To go on another day, type `lab goto 05d` in a terminal: it runs everything
# to here again.

# %% [markdown] tags=["instructor"]
# *For instructors.* 13 minutes. "Gone?" is the question that lawyers ask. Most people are sure that a
# delete deletes. In 05.3 most clean first, and wonder that nothing goes: draw a MOR slice as a base file with
# a row struck out in a *second* file. Short of time: do 05.3 together.

# %% [markdown]
# ## Which type writes less?
#
# So far Merge-on-Read wrote less at each update. Now we change ten, a hundred, and all of the 1,000 orders
# in one file. [**Write amplification**](../docs/glossary.md#write-amplification) is bytes written per byte of
# changed data; here we take the changed rows as JSON text.
#
# **Predict:** all 1,000 orders change in one write. How much does Merge-on-Read write, compared with
# Copy-on-Write?

# %%
FACTORS = ("a quarter or less", "about the same", "four times or more")
lab.predict("05.p5", ..., choices=FACTORS)

# %%
SWEEP = {"COPY_ON_WRITE": lab.scratch("sweep_cow"), "MERGE_ON_READ": lab.scratch("sweep_mor")}
STEPS = [
    ("new", 1000, "10:00"),
    ("paid", 10, "11:00"),
    ("packed", 100, "12:00"),
    ("shipped", 1000, "13:00"),
]

for status, count, at in STEPS:
    for kind, path in SWEEP.items():
        upsert(make_orders(f"id <= {count}", status, at), path, kind)

# %%
sweep = pd.DataFrame(index=pd.Index([10, 100, 1000], name="orders changed"))
sweep["as JSON"] = [
    make_orders(f"id <= {count}", status, at)
    .drop("_hoodie_is_deleted")
    .selectExpr("sum(octet_length(to_json(struct(*))))")  # the bytes of each row as JSON text
    .first()[0]
    for status, count, at in STEPS[1:]
]
for kind, path in SWEEP.items():
    picture = lab.xray(path)
    writes = [picture.commit(instant.requested) for instant in picture.instants]
    sweep[kind] = [write.bytes_written for write in writes[1:]]  # the first is the insert
    sweep[f"{kind}, times JSON"] = (sweep[kind] / sweep["as JSON"]).round(2)
sweep

# %%
from IPython.display import HTML

from lab_env.lessons.l05.figures import draw_sweep

HTML(draw_sweep(sweep))

# %%
factor = sweep.loc[1000, "MERGE_ON_READ"] / sweep.loc[1000, "COPY_ON_WRITE"]
lab.record_actual("05.p5", FACTORS[int(factor > 0.25) + int(factor >= 4)])

# %% proof="Copy-on-Write writes the file whatever changed; Merge-on-Read writes what changed"
assert sweep["COPY_ON_WRITE"].max() < 1.3 * sweep["COPY_ON_WRITE"].min()
assert sweep.loc[10, "COPY_ON_WRITE"] > 4 * sweep.loc[10, "MERGE_ON_READ"]
assert sweep.loc[1000, "MERGE_ON_READ"] > 4 * sweep.loc[1000, "COPY_ON_WRITE"]
assert sweep["MERGE_ON_READ, times JSON"].between(1, 3).all()

# %% [markdown]
# Copy-on-Write writes the file, however much of it changed: the line is flat. Merge-on-Read writes what
# changed: the line climbs. They cross, and **when all rows change, Merge-on-Read writes several times
# as much**. A log keeps each row by itself, in Avro, much as JSON does. A base file is Parquet, which stores
# columns and compresses them.
#
# Your own table's lines cross elsewhere. Our orders resemble each other more than real ones, and with
# `PARQUET_LOGS` of `lab_env/pipeline/options.py` logs are smaller. Base files are larger: Hudi fills them up
# to 120 MB, and on Copy-on-Write one changed row rewrites such a file.
#
# And the logs are not the end of it: sooner or later a compaction writes the base file, too.
#
# ### Exercise 05.4 · The type that writes less
#
# Complete the function. It gets the bytes of a base file, the bytes of one write's log, and the number of
# writes until a compaction. It returns the type that writes fewer bytes, compaction included:
# `"COPY_ON_WRITE"` or `"MERGE_ON_READ"`. Merge-on-Read is only worth it if it writes at least 5 percent less,
# because somebody must run its compaction and watch it. The check tries made-up loads.


# %% exercise="05.4"
def cheaper_type(base, log, writes):
    """The table type that writes fewer bytes until the compaction is done."""
    # BEGIN SOLUTION
    copy_on_write = writes * base
    merge_on_read = writes * log + base
    return "MERGE_ON_READ" if merge_on_read <= 0.95 * copy_on_write else "COPY_ON_WRITE"
    # END SOLUTION


lab.check("05.4", cheaper_type)

# %% [markdown] hint="05.4"
# Copy-on-Write: writes × base file. Merge-on-Read: writes × log + one base file, at the compaction.

# %% [markdown] hint="05.4"
# Compare with 0.95 times what Copy-on-Write writes. Exactly 5 percent less is enough.


# %% right="05.4"
# With pandas, where more than two costs are compared.
def cheaper_type(base, log, writes):
    cost = pd.Series({"merge_on_read": log * writes + base, "copy_on_write": base * writes * 0.95})
    return cost.idxmin()


# %% wrong="05.4"
# expect: but the compaction writes the base file as well
def cheaper_type(base, log, writes):
    return "MERGE_ON_READ" if log <= 0.95 * base else "COPY_ON_WRITE"


# %% wrong="05.4"
# expect: saves less than 5 percent
def cheaper_type(base, log, writes):
    return "MERGE_ON_READ" if writes * log + base < writes * base else "COPY_ON_WRITE"


# %% [markdown]
# Until a compaction, a file group costs `writes × base` bytes on Copy-on-Write and `writes × log + base` on
# Merge-on-Read. Here are three workloads on files of 1,000 orders, with the sizes of the sweep:
#
# - `archive`: each night 1,000 new orders are written to a new partition. An insert makes a base file on
#   both types, so there is no log.
# - `status feed`: each minute 10 of the 1,000 orders change. A compaction follows every 20th write.
# - `repricing`: each night all 1,000 orders get a new price. A compaction follows each write, so that
#   readers need not merge in the morning.

# %%
lab.use_reference("05.4")
base, log_of = sweep["COPY_ON_WRITE"].max(), sweep["MERGE_ON_READ"]
chosen = {
    "archive": cheaper_type(base, log=0, writes=1),
    "status feed": cheaper_type(base, log=log_of[10], writes=20),
    "repricing": cheaper_type(base, log=log_of[1000], writes=1),
}
chosen

# %% proof="Merge-on-Read writes less for the feed of small updates, and for neither of the others"
assert [kind.upper() for kind in chosen.values()] == [
    "COPY_ON_WRITE",
    "MERGE_ON_READ",
    "COPY_ON_WRITE",
]

# %% [markdown]
# For the status feed, Copy-on-Write would copy 990 unchanged orders each minute. For the repricing, one log
# is larger than the base file, and the compaction writes that file as well. The share of a file that one
# write changes decides, not whether data arrives as a stream.
#
# ### The board
#
# The tables `orders_cow` and `orders_mor` got the same six operations, and their files have little in common.
# What does the board on the wall say?

# %%
boards = {}
for kind, path in TABLES.items():
    by_status = spark.read.format("hudi").load(path).groupBy("status")
    board = by_status.agg({"amount": "sum", "order_id": "count"}).toPandas()
    boards[kind] = board.set_index("status").sort_index()
pd.concat(boards, axis=1)

# %% proof="Both tables have the same 1,205 orders and revenue by status, and none is reserved or erased"
cow_board, mor_board = boards.values()
pd.testing.assert_frame_equal(cow_board, mor_board)
assert cow_board["count(order_id)"].to_dict() == {"new": 1195, "paid": 10}

# %% [markdown]
# The same to the cent. The table type decides when the work is done, not what the table says.

# %% [markdown] tags=["instructor"]
# *For instructors.* 13 minutes. "Streaming, so Merge-on-Read" is the reflex. Ask for the share of a
# file that one write changes; that decides. Draw the two lines and let people say what moves the
# crossing: larger files move COW's line up, better compression of the log moves MOR's line down. We
# judge bytes here, not time: lesson 09 measures what the reader pays.

# %% [markdown]
# > **In production**
# > - If the law sets a date for erasure, cleaning (and on Merge-on-Read compaction before it) must be done by
# >   that date. Still keep enough history for your longest query
# >   ([cleaning](https://hudi.apache.org/docs/cleaning)).
# > - A versioned bucket keeps what Hudi deletes: give it a rule that expires old versions
# >   ([S3](https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-lifecycle-mgmt.html)).
# > - Base files of up to 120 MB move the crossing point: measure your own
# >   ([file sizing](https://hudi.apache.org/docs/file_sizing)).
#
# ## Key points
#
# - Copy-on-Write: every change rewrites the base file; there are no logs and no compaction.
# - Merge-on-Read: changes of known keys go to logs; under the default index new keys go to base files.
# - A late event that loses is written all the same.
# - Deleted is not gone: a file holds the row until it is cleaned, and on Merge-on-Read compacted before that.
# - Copy-on-Write pays by the file, Merge-on-Read by the row and once more at compaction; the share of a file
#   that one write changes decides which is less.
#
# ## What's next
#
# Lesson 06 stays with Merge-on-Read: when do the logs become base files, and who pays for it?

# %%
spark.stop()
