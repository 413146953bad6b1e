# ---
# title: JSON files, Copy-on-Write or Merge-on-Read, what does each cost?
# minutes: {teach: 19, do: 28}
# needs: ["05", "06"]
# services: [minio, kafka]
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 20 · JSON files, Copy-on-Write or Merge-on-Read, what does each cost?
#
# ## Questions
#
# - Plain files are cheap to write. What do we pay for a table, and what do we get?
# - Copy-on-Write or Merge-on-Read: which writes less, and after how many commits?
# - Somebody shows me a benchmark. What must it say before I believe it?
#
# ## Objectives
#
# At the end of this lesson you can
#
# - write the same changes to files and to tables of both types, and count their bytes (20.1),
# - compact a table, and say what that costs and what it buys (20.2),
# - compute from measured bytes when Merge-on-Read writes less (20.3),
# - decide from a few rounds whether two systems differ (20.4).
#
# ## What you need
#
# Lessons 05 and 06: base files, log files, compaction. SQL and Python. 47 minutes, with good places to
# pause in the first section and after the second. An optional appendix has look-ups, freshness and the bill.

# %% [markdown]
# ## Start
#
# The shop's board, revenue by status, can come from plain files or from a table of either type. You write a
# few batches into all three and count bytes. Then you put two questions to benchmarks recorded on larger
# tables.

# %%
import time

import pandas as pd
from pyspark.sql import functions as F

from lab_env import Lab

lab = Lab.start("20")
spark = lab.spark


# %%
def make_orders(batch):
    """Batch 0 creates 10,000 orders of two days. Batches 1 and 2 change one in forty."""
    return spark.sql(f"""
        SELECT concat('O-', id) AS order_id, concat('C-', pmod(hash(id), 500)) AS customer_id,
               CAST(5 + pmod(hash(id, {batch}), 20000) / 100 AS DECIMAL(12,2)) AS amount,
               element_at(array('new', 'paid', 'packed'), {batch} + 1) AS status,
               TIMESTAMP '2026-01-05 08:00:00' + make_interval(0, 0, 0, 0, {batch}) AS order_ts,
               IF(id % 2 = 0, '2026-01-05', '2026-01-06') AS partition_date
        FROM range(1, 10001, 1, 1)
        WHERE {batch} = 0 OR pmod(hash(id, {batch}, 'changed'), 40) = 0
    """)


make_orders(1).show(3)

# %% [markdown]
# ## The same changes, three times
#
# A comparison is only as good as its rules. This one has four: every sink gets the same rows, JSON and Parquet
# files have the same compression (gzip), no figure counts before the answers are right, and a table's compaction
# is counted. (The logs of Merge-on-Read keep their default: Avro, not compressed. The job that leaves only the
# newest lines in the files is on the appendix's bill.)
#
# ### Exercise 20.1 · One batch, three sinks
#
# Complete the function. It adds `rows` to the sink at `path`:
#
# - for the kind `"json"` as lines of JSON, compressed with gzip;
# - for `"cow"` and `"mor"` as an upsert into a Hudi table of that type (see `TYPES`), created if it
#   is not there, with `ORDERS` and the `options`.
#
# Spark's page on [JSON files](https://spark.apache.org/docs/3.5.7/sql-data-sources-json.html) and Hudi's
# [configurations](https://hudi.apache.org/docs/configurations/) have the options. All writes of this lesson go
# through your function.

# %%
ORDERS = {
    "hoodie.table.name": "orders",
    "hoodie.datasource.write.recordkey.field": "order_id",
    "hoodie.table.ordering.fields": "order_ts",
    "hoodie.datasource.write.partitionpath.field": "partition_date",
    "hoodie.datasource.write.hive_style_partitioning": "true",
}
TYPES = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}


# %% exercise="20.1"
def write(rows, path, kind, options):
    """Add rows to JSON files or to a Hudi table."""
    # BEGIN SOLUTION
    if kind == "json":
        rows.write.option("compression", "gzip").mode("append").json(path)
        return
    (
        rows.write.format("hudi")
        .options(**ORDERS, **options)
        .option("hoodie.datasource.write.table.type", TYPES[kind])
        .mode("append")
        .save(path)
    )
    # END SOLUTION


lab.check("20.1", write)

# %% [markdown] hint="20.1"
# `rows.write` has a `mode`, and `"append"` adds to what is there, for files as for tables. For
# files: `.option("compression", "gzip")` and `.json(path)`.

# %% [markdown] hint="20.1"
# The table's type is the option `hoodie.datasource.write.table.type`. Two dictionaries become
# options by `.options(**ORDERS, **options)`.


# %% right="20.1"
# With compressed JSON.
def write(rows, path, kind, options):
    if kind == "json":
        rows.write.json(path, mode="append", compression="gzip")
    else:
        chosen = {**ORDERS, **options, "hoodie.datasource.write.table.type": TYPES[kind]}
        rows.write.save(path, format="hudi", mode="append", **chosen)


# %% wrong="20.1"
# expect: Lines in the files: 1, not 5
def write(rows, path, kind, options):
    if kind == "json":
        rows.write.mode("overwrite").option("compression", "gzip").json(path)


# %% wrong="20.1"
# expect: the files are not compressed
def write(rows, path, kind, options):
    if kind == "json":
        rows.write.mode("append").json(path)


# %% wrong="20.1"
# expect: the table has a metadata table
def write(rows, path, kind, options):
    if kind == "json":
        rows.write.json(path, mode="append", compression="gzip")
    else:
        chosen = {**ORDERS, "hoodie.datasource.write.table.type": TYPES[kind]}
        rows.write.save(path, format="hudi", mode="append", **chosen)


# %% wrong="20.1"
# expect: O-3 is there twice
def write(rows, path, kind, options):
    if kind == "json":
        rows.write.mode("append").json(path, compression="gzip")
        return
    operation = "upsert" if lab.files(path) else "bulk_insert"
    (
        rows.write.format("hudi")
        .options(**ORDERS)
        .options(**options)
        .option("hoodie.datasource.write.table.type", TYPES[kind])
        .option("hoodie.datasource.write.operation", operation)
        .mode("append")
        .save(path)
    )


# %% [markdown]
# ### What a default weighs
#
# The first table, `defaults`, gets the 10,000 orders with nothing but `ORDERS`: everything else is Hudi's
# default. The other three sinks get `OURS`: no bloom filters, no metadata table, no cleaning, and no
# compaction unless you ask for it.

# %%
from lab_env.pipeline.options import DEMO_OPTIONS

lab.use_reference("20.1")
OURS = {
    **DEMO_OPTIONS,  # no metadata table, no cleaning, one task
    "hoodie.parquet.bloom.filter.enabled": "false",
    "hoodie.compact.inline": "false",
}
KINDS = ("json", "cow", "mor")
paths = {kind: lab.path(kind) for kind in KINDS}

write(make_orders(0), lab.path("defaults"), "cow", {})
for kind in KINDS:
    write(make_orders(0), paths[kind], kind, OURS)

# %%
tables = {"defaults": lab.xray(lab.path("defaults")), "cow": lab.xray(paths["cow"])}
weights = pd.DataFrame({name: table.parts()["bytes"] for name, table in tables.items()})
filters = int(weights.loc["base", "defaults"] - weights.loc["base", "cow"])
weights.fillna(0).astype(int)

# %% name="filters" proof="With Hudi's defaults most bytes of the base files are filters."
assert tables["cow"].rows == tables["defaults"].rows == 10_000
assert filters > weights.loc["base", "defaults"] / 2
assert len(tables["defaults"].current) == 2

# %% [markdown]
# The rows are the same. By default each base file carries a *bloom filter* with room for 60,000 keys, and at
# this size it outweighs the orders. The default index, `SIMPLE`, does not even use it. So before you compare
# two tables, compare their options.
#
# ### Two batches of changes
#
# Each of two batches changes one order in forty. `stored` adds up the bytes of every object below a path, so the
# difference is what a write has added.
#
# **Predict:** which sink writes the most bytes for the same changes?

# %%
lab.predict("20.p1", ..., choices=KINDS)


# %%
def stored(path):
    """Bytes of all objects below a path, those of `.hoodie` included."""
    return sum(file.size for file in lab.files(path))


changes, sent = [], {}
for batch in (1, 2):
    for kind in KINDS:
        before, sent[kind] = stored(paths[kind]), time.time()
        write(make_orders(batch), paths[kind], kind, OURS)
        added = stored(paths[kind]) - before
        changes.append({"batch": batch, "sink": kind, "bytes": added})

written = pd.DataFrame(changes).pivot(index="batch", columns="sink", values="bytes")[[*KINDS]]
written

# %%
lab.record_actual("20.p1", written.sum().idxmax())

# %% name="bytes-written" proof="In each batch Copy-on-Write adds the most bytes, the JSON files the fewest."
assert (written["cow"] > written["mor"]).all()
assert (written["mor"] > written["json"]).all()

# %% [markdown]
# The files take each change once, compressed. Copy-on-Write rewrites each base file that a change
# touches, and one order in forty touches all of them. Merge-on-Read appends the changed rows
# to logs, uncompressed.
#
# **A good place to pause.** To go on another day, type `lab goto 20.2` in a terminal: it runs everything to
# here again in a minute.

# %% [markdown] tags=["instructor"]
# *For instructors.* 12 minutes. Most expect Merge-on-Read to win from the first commit. Short of time:
# give 20.1 away.

# %% [markdown]
# ### Exercise 20.2 · Two ways to ask, and a compaction
#
# What do readers pay while logs wait? And what does it cost to merge the logs? Complete two functions. Lesson 06
# used what they need.
#
# - `read_table` returns the rows of a Hudi table as a DataFrame. `query_type` is `"snapshot"`,
#   which merges the logs, or `"read_optimized"`: such a
#   [query](../docs/glossary.md#read-optimised-query) reads base files only.
# - `compact` merges all logs of a table into new base files, however few commits wait, and returns
#   when that is done. The [procedure](https://hudi.apache.org/docs/procedures#run_compaction) does not know
#   the options of our writes, so pass `JOB` to it.

# %%
JOB = ",".join(f"{name}={value}" for name, value in OURS.items())
print(JOB)


# %% exercise="20.2"
def read_table(path, query_type):
    """The rows of the Hudi table at `path`, as this type of query sees them."""
    # BEGIN SOLUTION
    return spark.read.format("hudi").option("hoodie.datasource.query.type", query_type).load(path)
    # END SOLUTION


def compact(path):
    """Compact the table at `path`, whatever the number of commits since the last time."""
    # BEGIN SOLUTION
    options = f"{JOB},hoodie.compact.inline.max.delta.commits=1"
    spark.sql(f"""
        CALL run_compaction(op => 'scheduleandexecute', path => '{path}', options => '{options}')
    """)
    # END SOLUTION


lab.check("20.2", [read_table, compact])

# %% [markdown] hint="20.2"
# `spark.read.format("hudi")`, the option `hoodie.datasource.query.type`, `load(path)`. And
# `CALL run_compaction(op => 'scheduleandexecute', path => '...', options => '...')`, as text for
# `spark.sql`.

# %% [markdown] hint="20.2"
# When does the procedure plan at all? Lesson 06 has the option that counts deltacommits. Add it to
# `JOB`, after a comma.


# %% right="20.2"
# In two steps, as in production: one job plans, another one runs it.
def read_table(path, query_type):
    return spark.read.load(path, format="hudi", **{"hoodie.datasource.query.type": query_type})


def compact(path):
    options = f"{JOB},hoodie.compact.inline.max.delta.commits=1"
    for op in ("schedule", "execute"):
        spark.sql(f"CALL run_compaction(op => '{op}', path => '{path}', options => '{options}')")


# %% wrong="20.2"
# expect: says that O-2 is paid
def read_table(path, query_type):
    return spark.read.format("hudi").load(path)


# %% wrong="20.2"
# expect: Nothing was planned: 1 of 1 logs still wait
def compact(path):
    spark.sql(f"""
        CALL run_compaction(op => 'scheduleandexecute', path => '{path}', options => '{JOB}')
    """)


# %% wrong="20.2"
# expect: planned and not carried out
def compact(path):
    options = f"{JOB},hoodie.compact.inline.max.delta.commits=1"
    spark.sql(f"CALL run_compaction(op => 'schedule', path => '{path}', options => '{options}')")


# %% [markdown]
# Now ask both tables, while the logs of two batches wait. `InputBytes` counts the bytes that Spark's tasks read.

# %%
from lab_env.tables.probes.inputs import InputBytes

lab.use_reference("20.2")


def ask(kind, query_type):
    """Revenue, and how many bytes were read for it."""
    with InputBytes(spark, paths[kind]) as read:
        revenue = read_table(paths[kind], query_type).agg(F.sum("amount")).first()[0]
    return {"query": f"{kind}, {query_type}", "revenue": revenue, "bytes read": read.bytes}


QUERIES = [("cow", "snapshot"), ("mor", "snapshot"), ("mor", "read_optimized")]
waiting = pd.DataFrame([ask(*query) for query in QUERIES]).set_index("query")
waiting

# %% name="read-optimised" proof="While logs wait, a read-optimised query reads less than a snapshot, and misses changes."
snapshot, cheap = waiting.loc["mor, snapshot"], waiting.loc["mor, read_optimized"]
assert cheap["bytes read"] < snapshot["bytes read"]
assert snapshot["revenue"] == waiting.loc["cow, snapshot"]["revenue"] != cheap["revenue"]

# %% [markdown]
# The read-optimised query leaves out the logs: its revenue is that of batch 0.
#
# Until its next compaction, Merge-on-Read saves bytes with each commit. Then the compaction costs
# what was put off. The **break-even** is the number of commits after which both types have written the same,
# the compaction counted.
#
# **Predict:** how many commits is that here? Ask yourself which files a compaction writes, and look at the table
# `written`. A guess within 0.5 counts.

# %%
lab.predict("20.p2", ..., tolerance=0.5)

# %%
from lab_env.lessons.l20.figures import commits_until_even

before = stored(paths["mor"])
compact(paths["mor"])
compaction = stored(paths["mor"]) - before

break_even_here = commits_until_even(written, compaction)
print(f"The compaction wrote {compaction:,} bytes.")
lab.record_actual("20.p2", round(break_even_here, 1))

# %%
from IPython.display import HTML

from lab_env.lessons.l20.figures import draw_break_even

HTML(draw_break_even(written, compaction, break_even_here))

# %%
pd.DataFrame([ask(*query) for query in QUERIES if "mor" in query]).set_index("query")

# %%
heavier = written.assign(cow=written["cow"] + filters)
with_filters = commits_until_even(heavier, compaction + filters)
print(f"break-even {break_even_here:.1f}; with Hudi's default filters {with_filters:.1f}")

# %% name="break-even-here" proof="Merge-on-Read wrote more after one commit, less after two; filters lower the break-even."
assert written["mor"].iloc[0] + compaction > written["cow"].iloc[0]
assert written["mor"].sum() + compaction < written["cow"].sum()
assert 1 < with_filters < break_even_here

# %% [markdown]
# A compaction writes the base files that one Copy-on-Write commit would have rewritten, however many commits wait
# in the logs. So it costs about as much as one such commit. Compact after each commit, and the logs were written
# for nothing. Each further commit pays some of the compaction back.
#
# With Hudi's default filters every base file is heavier, whoever writes it, and the break-even moves towards one,
# without a single order more. And after the compaction both kinds of query read the same bytes and agree.

# %% [markdown] tags=["instructor"]
# *For instructors.* 11 minutes. Draw the two lines before the chart, and ask where the second one
# begins. In 20.2 most leave out the trigger, and wonder why nothing happens and no error says so.

# %% [markdown]
# ## When the table grows
#
# `lab bench growth --full` makes both types grow to 4 and 16 times their first size (the column `factor`), under
# two kinds of index (lesson 08): with `bucket` the files become larger, with `bloom` the table gets more of them.
# At each size each commit changes 1,000 orders, spread over the whole table, a query follows it, and a compaction
# ends the series. Here is a recorded run: the course's, or yours, once you have made one.
#
# The first question: **when does Merge-on-Read write less?**

# %%
from lab_env.lessons import recorded
from lab_env.lessons.recorded.growth import caption_of, growth_chart

grown = recorded.shown("growth")
runs = spark.createDataFrame(pd.DataFrame(grown["rows"]))
print(caption_of(grown))
runs.where("factor = 1 AND index = 'bucket'").select(
    "type", "index", "factor", "metric", "median"
).show()

# %% [markdown]
# ### Exercise 20.3 · The break-even
#
# Complete the function. `runs` has the columns that you see, for both indexes and all factors, and
# the metrics `bytes written` (of a commit) and `compaction bytes`. Use the column `median`. Return
# one row per `index` and `factor`, with the break-even as the column `commits`. Where the commits of
# Merge-on-Read save nothing, it is NULL. Use SQL or DataFrames.


# %% exercise="20.3"
def break_even(runs):
    """Commits per compaction from which Merge-on-Read writes less: index, factor, commits."""
    # BEGIN SOLUTION
    runs.createOrReplaceTempView("runs")
    return spark.sql("""
        SELECT index, factor, IF(cow > mor, compaction / (cow - mor), NULL) AS commits
        FROM (SELECT index, factor,
                     max(median) FILTER (WHERE type = 'cow' AND metric = 'bytes written') AS cow,
                     max(median) FILTER (WHERE type = 'mor' AND metric = 'bytes written') AS mor,
                     max(median) FILTER (WHERE type = 'mor' AND metric = 'compaction bytes')
                         AS compaction
              FROM runs GROUP BY index, factor)
    """)
    # END SOLUTION


lab.check("20.3", break_even)

# %% [markdown] hint="20.3"
# Bring the three numbers of a table into one row: `max(median) FILTER (WHERE ...)` in SQL, `pivot`
# with DataFrames, or a join. Only a Merge-on-Read table has a compaction.

# %% [markdown] hint="20.3"
# How many bytes does one commit save? How many commits save as much as one compaction writes? Where a
# commit saves nothing or less, `IF(..., ..., NULL)` gives NULL.


# %% right="20.3"
# In the DataFrame API.
def break_even(runs):
    bytes_of = runs.where("metric IN ('bytes written', 'compaction bytes')").withColumn(
        "what", F.concat_ws(" ", "type", "metric")
    )
    wide = bytes_of.groupBy("index", "factor").pivot("what").agg(F.first("median"))
    saved = F.col("cow bytes written") - F.col("mor bytes written")
    commits = F.when(saved > 0, F.col("mor compaction bytes") / saved)
    return wide.select("index", "factor", commits.alias("commits"))


# %% right="20.3"
# In pandas: the medians fit in memory.
def break_even(runs):
    wide = runs.toPandas().pivot_table("median", ["index", "factor"], ["type", "metric"])
    saved = wide["cow", "bytes written"] - wide["mor", "bytes written"]
    found = wide["mor", "compaction bytes"] / saved
    return found.where(saved > 0).rename("commits").reset_index()


# %% wrong="20.3"
# expect: After how many of them is the compaction paid for?
def break_even(runs):
    runs.createOrReplaceTempView("runs")
    return spark.sql("""
        SELECT c.index, c.factor, IF(c.median > m.median, c.median / m.median, NULL) AS commits
        FROM runs c JOIN runs m ON c.index = m.index AND c.factor = m.factor
        WHERE c.type = 'cow' AND m.type = 'mor'
          AND c.metric = 'bytes written' AND m.metric = 'bytes written'
    """)


# %% wrong="20.3"
# expect: Merge-on-Read saves nothing
def break_even(runs):
    wide = runs.toPandas().pivot_table("median", ["index", "factor"], ["type", "metric"])
    saved = wide["cow", "bytes written"] - wide["mor", "bytes written"]
    return (wide["mor", "compaction bytes"] / saved).rename("commits").reset_index()


# %% wrong="20.3"
# expect: you say NaN
def break_even(runs):
    wide = runs.toPandas().pivot_table("median", ["index", "factor"], ["metric", "type"])
    saved = wide["bytes written", "cow"] - wide["bytes written", "mor"]
    commits = (wide["compaction bytes", "mor"] / saved).where(saved > 0)
    return spark.createDataFrame(commits.rename("commits").reset_index())


# %% equivalent="20.3"
# SQL cow > mor → cow >= mor: Spark divides by zero to NULL
# SQL MAX(median) → MIN(median): one row is left
# SQL MAX(median) → MIN(median) (again): one row is left
# SQL MAX(median) → MIN(median) (again) (again): one row is left


# %% harmless="20.3"
# a column more: the picture takes three columns, by their names
# factor as bigint: the same numbers

# %% [markdown]
# So the break-even is a compaction's bytes, divided by what one commit saves.
#
# **Predict:** the table becomes 16 times as large, the changes stay the same. For which of the two
# types does a commit write more than twice as many bytes?

# %%
lab.predict("20.p3", ..., choices=("cow", "mor", "both", "none"))

# %% [markdown]
# **Predict:** and with a compaction after every fifth commit, Hudi's default: which type writes
# fewer bytes to the largest table, compaction counted?

# %%
lab.predict("20.p4", ..., choices=("cow", "mor"))

# %%
lab.use_reference("20.3")
FIVE = 5
even = break_even(runs).toPandas().set_index(["index", "factor"])["commits"].astype(float)
recorded_rows = pd.DataFrame(grown["rows"])
sizes = recorded_rows.pivot_table("median", ["index", "factor"], ["metric", "type"])
commit, compacted = sizes["bytes written"], sizes["compaction bytes"]["mor"]

times = (commit.xs(16, level="factor") / commit.xs(1, level="factor")).min()
doubled = [kind for kind in ("cow", "mor") if times[kind] > 2]
lab.record_actual("20.p3", "both" if len(doubled) == 2 else (*doubled, "none")[0])

# %%
lab.record_actual("20.p4", "mor" if even.xs(16, level="factor").max() < FIVE else "cow")

table = (commit.join(compacted.rename("compaction")) / 1000).round().astype(int).add_suffix(", KB")
table["break-even, commits"] = even.round(2)
table

# %% name="break-even" proof="In each table the break-even lies between one commit and two."
assert len(even) == 6
assert even.min() > 1.02 and even.max() < 2 / 1.1 < FIVE

# %% name="growing" proof="As the table grows, a Copy-on-Write commit writes over twice as much; Merge-on-Read's not."
growing = commit.xs(16, level="factor") / commit.xs(1, level="factor")
assert growing["cow"].min() > 2 > growing["mor"].max()

# %%
HTML(growth_chart(grown))

# %% [markdown]
# What a Copy-on-Write commit writes depends on the *table*: it rewrites all files, since the changes are in all of
# them. (Not 16 times the bytes: in the smallest table the filters are most of them.) What a Merge-on-Read commit
# writes depends on the *change*. But its compaction rewrites the files, too: it costs as much as one Copy-on-Write
# commit or somewhat more, never as much as two. So a commit's savings and a compaction's bytes grow together, and
# the break-even stays between one commit and two, at every size.
#
# Where each commit changes other files, such as its own day, the compaction grows with the number of commits, and
# the break-even may never come. **A benchmark that does not say how many commits came before the compaction has not
# said who wins.**
#
# Bytes are not all: the sooner a commit completes, the sooner readers see it. Look at the first panel. In the
# largest table Merge-on-Read is quicker with the bucket index. With the bloom index the two overlap: there both
# types first look up every key in the files.
#
# Who pays for what Merge-on-Read saves? In the third panel, its readers: while logs wait, its sum takes longer as
# the table grows. That of Copy-on-Write hardly does.

# %% name="commit-time" proof="With a bucket index a commit to the largest table is quicker on Merge-on-Read."
commits = recorded_rows[recorded_rows["metric"] == "commit s"]
durations = commits.set_index(["type", "index", "factor"])
assert durations.loc["mor", "bucket", 16]["high"] < durations.loc["cow", "bucket", 16]["low"]

# %% name="who-pays" proof="In the largest table the sum takes longer on Merge-on-Read; on Copy-on-Write it grows little."
sums = recorded_rows[recorded_rows["metric"] == "aggregate s"]
seconds = sums.set_index(["type", "index", "factor"])
for index in ("bucket", "bloom"):
    of_cow, of_mor = seconds.loc["cow", index, 16], seconds.loc["mor", index, 16]
    assert of_mor["low"] > of_cow["high"]
    assert of_cow["median"] < 2 * seconds.loc["cow", index, 1]["median"]

# %% [markdown]
# So the choice is a trade of three things: bytes written, how soon a commit is visible, and how long a query takes.
# Compact *rarely*, far beyond the break-even, and writing is cheap while readers wait. Compact *often*, and they
# wait less. At the break-even both types have written the same: then Merge-on-Read needs another reason, such as
# quick commits, since its readers pay for the merge.
#
# **A good place to pause.** To go on another day, type `lab goto 20c` in a terminal: it runs everything to
# here again in a minute or two.

# %% [markdown] tags=["instructor"]
# *For instructors.* 12 minutes. The common guess is that the break-even grows with the table.
# Let people say what happens to both sides of the fraction. Short of time: do 20.3 together, in
# SQL.

# %% [markdown]
# ## When is a difference real?
#
# `lab bench sinks --full` sends one recorded stream into all three sinks, in several rounds. It has five
# workloads: 0, 20 or 80 percent of the events are updates, of any order (`uniform`) or mostly of a few, the *hot
# keys* (`zipf`).
#
# For the files, a separate job leaves only the newest line of each order. Queries run before such table services
# (`fresh` in a metric's name) and after them (`tidy`), and once more with filled caches (`warm`). One wrong answer
# invalidates every figure.

# %%
sinks = recorded.shown("sinks")
workloads = list(sinks["size"]["scenarios"])
rounds = pd.DataFrame(sinks["figures"]).groupby(["scenario", "metric", "sink"])["value"].agg(list)
machine, size = sinks["machine"], sinks["size"]
print(f"Measured {sinks['made'][:10]} on {machine['cores']} cores, {size['rounds']} rounds.")
pairs = pd.DataFrame({name: rounds[name, "aggregate, tidy: warm s"] for name in workloads}).T
pairs[["cow", "mor"]].map(lambda found: [round(s, 3) for s in found])

# %% [markdown]
# Each list has the seconds that the sum over all orders took, round by round, after the services.
#
# **Predict:** in how many of the five workloads is one table really faster than the other?

# %%
HOW_MANY = ("at most one", "two or three", "four or five")
lab.predict("20.p5", ..., choices=HOW_MANY)

# %% [markdown]
# ### Exercise 20.4 · When is it a difference?
#
# A laptop is busy with other things. One slow round says nothing, and a median hides it. So a difference counts
# only if **all rounds show it**. With two rounds each, chance alone achieves that in one case of three. So the
# difference must also be **larger than the noise**: the medians are farther apart than either system varies
# by itself.
#
# Write this rule. Both arguments are lists of figures, one per round, with at least two rounds. Return `"lower"` or
# `"higher"`, said of the first system; `"equal"` when all rounds of both gave the same figure; and
# `"inconclusive"` for everything else.

# %%
from statistics import median


# %% exercise="20.4"
def judge(this, other):
    # BEGIN SOLUTION
    if len({*this, *other}) == 1:
        return "equal"
    apart = abs(median(this) - median(other))
    if apart <= max(max(this) - min(this), max(other) - min(other)):
        return "inconclusive"
    if max(this) < min(other):
        return "lower"
    if min(this) > max(other):
        return "higher"
    return "inconclusive"
    # END SOLUTION


lab.check("20.4", judge)

# %% [markdown] hint="20.4"
# When do all rounds of `this` lie below all rounds of `other`? Two of the rounds decide that. A tie shows
# no difference.

# %% [markdown] hint="20.4"
# `max(this) < min(other)` is the first half, for `"lower"`. For the second: a system varies by its range,
# `max(this) - min(this)`. Compare the distance of the medians with the larger of the two ranges.


# %% right="20.4"
# In pandas, for more than two runs.
def judge(this, other):
    rounds = pd.DataFrame({"this": this, "other": other}).agg(["min", "median", "max"])
    gap = rounds.loc["median", "this"] - rounds.loc["median", "other"]
    width = (rounds.loc["max"] - rounds.loc["min"]).max()
    if gap == width == 0:
        return "equal"
    if gap < -width and rounds.loc["max", "this"] < rounds.loc["min", "other"]:
        return "Lower"
    if gap > width and rounds.loc["min", "this"] > rounds.loc["max", "other"]:
        return "Higher"
    return "inconclusive"


# %% wrong="20.4"
# expect: The highest round of the first equals the lowest of the second
def judge(this, other):
    if this == other:
        return "equal"
    if abs(median(this) - median(other)) < max(max(this) - min(this), max(other) - min(other)):
        return "inconclusive"
    if max(this) <= min(other):
        return "lower"
    return "higher" if min(this) >= max(other) else "inconclusive"


# %% wrong="20.4"
# expect: You compare the medians alone
def judge(this, other):
    if median(this) == median(other):
        return "equal" if this == other else "inconclusive"
    return "lower" if median(this) < median(other) else "higher"


# %% wrong="20.4"
# expect: varies by itself
def judge(this, other):
    if this == other:
        return "equal"
    if max(this) < min(other):
        return "lower"
    if min(this) > max(other):
        return "higher"
    return "inconclusive"


# %% wrong="20.4"
# expect: farther apart than either varies, but
def judge(this, other):
    if this == other:
        return "equal"
    gap = median(this) - median(other)
    if abs(gap) <= max(max(this) - min(this), max(other) - min(other)):
        return "inconclusive"
    return "lower" if gap < 0 else "higher"


# %% wrong="20.4"
# expect: All rounds gave the same figure
def judge(this, other):
    apart = abs(median(this) - median(other))
    if apart <= max(max(this) - min(this), max(other) - min(other)):
        return "inconclusive"
    if max(this) < min(other):
        return "lower"
    return "higher" if min(this) > max(other) else "inconclusive"


# %%
lab.use_reference("20.4")


def compare(metric, this, other):
    """The rule's verdict on two sinks, in each workload."""
    found = (rounds[name, metric] for name in workloads)
    return [judge(sink[this], sink[other]).lower() for sink in found]


states = {"before services": "fresh", "after services": "tidy"}
sum_on_mor = pd.DataFrame(
    {when: compare(f"aggregate, {state}: warm s", "mor", "cow") for when, state in states.items()},
    index=workloads,
)
really = sum_on_mor["after services"].isin(["lower", "higher"]).sum()
lab.record_actual("20.p5", HOW_MANY[really // 2])

# %%
sum_on_mor

# %% name="reads-of-both" proof="While logs wait, Merge-on-Read mostly sums slower; after compaction most is inconclusive."
assert compare("aggregate, fresh: warm s", "mor", "cow").count("higher") >= 3
assert compare("aggregate, tidy: warm s", "mor", "cow").count("inconclusive") >= 3

# %% [markdown]
# While logs wait, the sum mostly takes longer on Merge-on-Read, because the query has to merge them. After the
# compaction most verdicts are *inconclusive*, which means neither "about the same" nor "a little faster".
#
# The second question: **is a table faster to read than plain files?** Ask it after the services, with three queries
# (one order, a range, the sum over all), two tables and five workloads.
#
# **Predict:** in how many of these 30 cases does a table answer faster than the files?

# %%
CASES = ("at most 5", "6 to 24", "25 or more")
lab.predict("20.p6", ..., choices=CASES)

# %%
tidy = [
    verdict
    for question in ("point", "range", "aggregate")
    for sink in ("cow", "mor")
    for verdict in compare(f"{question}, tidy: warm s", sink, "json")
]
faster = tidy.count("lower")
lab.record_actual("20.p6", CASES[(faster > 5) + (faster >= 25)])

# %%
pd.Series(tidy, name="a table against the files").value_counts()

# %% name="tidy-against-files" proof="After the table services a table is rarely faster than the files, and often slower."
assert sinks["problems"] == [] and len(tidy) == 30
assert tidy.count("lower") <= 3 < 10 <= tidy.count("higher")

# %% [markdown]
# In the run that comes with the course the tables win none of the 30 cases, and lose many: a query of a table also
# reads the timeline and lists the table's files. **At this size speed is no reason for a table.** Upserts, erasures
# and a history that nobody has to program are.
#
# ### The board
#
# Last, the shop's board from your own three sinks. In the JSON lines each reader has to find the newest line of
# each order:

# %%
lines = spark.read.schema(make_orders(0).schema).json(paths["json"])
lines.createOrReplaceTempView("lines")
newest = spark.sql("""
    SELECT * FROM (
        SELECT *, row_number() OVER (PARTITION BY order_id ORDER BY order_ts DESC) AS place
        FROM lines
    ) WHERE place = 1
""")
sources = {"JSON, all lines": lines, "JSON, newest lines": newest}
for kind in TYPES:
    sources[f"Hudi, {kind}"] = read_table(paths[kind], "snapshot")

board = {
    name: dict(rows.groupBy("status").agg(F.sum("amount")).collect())
    for name, rows in sources.items()
}
pd.DataFrame(board)

# %% name="board" proof="Both tables and the newest lines show the same board, to the cent; all lines show too much."
right = board["Hudi, cow"]
assert right == board["Hudi, mor"] == board["JSON, newest lines"]
assert sum(board["JSON, all lines"].values()) > sum(right.values())

# %% [markdown]
# Three ways to the same board. The files are the cheapest to write, but every reader needs that query. To choose
# between the two tables, count the commits per compaction, and ask how soon a commit must be visible.

# %% [markdown] tags=["instructor"]
# *For instructors.* 12 minutes. Draw the rounds as dots on two lines before anybody writes
# 20.4. Ask: "which of these verdicts would one more round change?" Most expect the files to lose
# every question; let them say why they do not at this size, and what would have to grow.

# %% [markdown]
# > **In production**
# >
# > - Where compaction runs in a job of its own, that job and the writer need a [lock
# >   provider](https://hudi.apache.org/docs/concurrency_control) as long as the metadata table is on, its default.
# > - The files here have some hundred KB. Hudi fills them up to
# >   [120 MB](https://hudi.apache.org/docs/file_sizing), and a Copy-on-Write change rewrites a file of that size.
# > - `OURS` never cleans. In production [cleaning](https://hudi.apache.org/docs/cleaning) deletes the versions that
# >   each rewrite leaves, and until then you pay for storing them.
#
# ## Key points
#
# - Files are the cheapest to write; until a job has rewritten them, each reader has to read all lines and find the
#   newest.
# - **Break-even = a compaction's bytes / what a commit saves**, while all commits change the same files. With fewer
#   commits per compaction, Merge-on-Read writes more than Copy-on-Write.
# - Bytes are not all: a commit to a large table with a bucket index is visible sooner on Merge-on-Read.
# - While logs wait, the readers of Merge-on-Read pay, or take the read-optimised query and miss what is in
#   the logs.
# - Right answers first, then the spread: a difference within the spread is inconclusive.
# - In a small table a default can outweigh all data: ask which options shaped a figure.
#
# ## What's next
#
# `lab bench sinks --full` and `lab bench growth --full` record both runs on your machine. [Hudi, Delta Lake and
# Iceberg on one stream](../docs/formats.md) judges three table formats by your rule. In lesson 22 you design a
# system yourself, and choose its tables.
#
# ### Appendix · Look-ups, freshness and the bill
#
# *Optional: seven minutes; nothing later needs it.* Counts hardly vary, so they are more certain than seconds. A
# query for one order makes this many requests to the store:

# %%
requests = pd.DataFrame(
    {
        state: rounds[:, f"point, {state}: requests"].map(median).groupby("sink").median()
        for state in ("fresh", "tidy")
    }
).loc[list(KINDS)]
look_ups = pd.Series(rounds[:, "point, tidy: warm s"].sum())
print(f"half of the look-ups took {look_ups.median() * 1000:,.0f} ms or more, after services")
requests.rename(columns={"fresh": "before services", "tidy": "after services"})

# %% name="asking" proof="A look-up needs more requests on Merge-on-Read before compaction, nearly as many after."
assert compare("point, fresh: requests", "mor", "cow") == ["higher"] * 5
assert abs(requests.loc["mor", "tidy"] / requests.loc["cow", "tidy"] - 1) < 0.1
assert requests.loc["json", "fresh"] < requests.loc["cow", "fresh"]

# %% name="look-ups" proof="No look-up by key through Spark took less than 50 milliseconds."
assert look_ups.min() > 0.05

# %% [markdown]
# Before the compaction a look-up on Merge-on-Read opens the logs, too. And none was quick: a table on an object
# store is no key-value store, so ask it for many rows.
#
# How long after an event was sent can a reader see it? That is its
# [**freshness**](../docs/glossary.md#freshness). Some benchmarks take `_hoodie_commit_time` minus the time of the
# event. That column is the *requested* time of the commit (lesson 10), when the writer began. The rows are visible
# when it *completes*. Here are both for your last batch:

# %%
from lab_env.tables.hudi.timeline import to_seconds

last = lab.xray(paths["cow"]).instants[-1]
rows = read_table(paths["cow"], "snapshot")
in_rows = rows.agg(F.max("_hoodie_commit_time")).first()[0]
told, visible = (to_seconds(at) - sent["cow"] for at in (in_rows, last.completed))
print(f"after {told:.1f} s by the requested time, visible after {visible:.1f} s")

# %% name="flattering" proof="The requested time makes each table look fresher than it is, live and recorded."
assert in_rows == last.requested and 0 <= told < visible
of_tables = [r for r in sinks["freshness"] if r["requested p50"]]
assert of_tables and all(r["requested p50"]["high"] < r["p50"]["low"] for r in of_tables)

# %% [markdown]
# What would that run cost in a cloud? `data/prices.csv` has prices with date and source. The bill is for what was
# measured, with 80 percent updates: the batches with their table services, a month of storage, and queries.

# %%
from lab_env.lessons.recorded.cost import costs
from lab_env.lessons.l20.figures import bill_table

bills = costs(sinks)["80-uniform"]["bills"]
print("US cents:")
bill_table(bills)

# %% name="the-bill" proof="The files cost the least to write, and a month of storage costs less than the writing."
assert bills["json"].write < min(bills["cow"].write, bills["mor"].write)
assert all(spent.storage < spent.write for spent in bills.values())

# %% [markdown]
# Work and requests are most of the bill; at this size storage costs hardly anything. We have not measured backups.
#
# ### Appendix · Every request of one commit
#
# *Optional: five minutes.* A stream commits 1,000 events to a Merge-on-Read table. What does it ask the store for?
# `lab bench commit --full` puts a proxy in front of the store and notes each request: when, and for which part of
# the commit. The recorded run has the same commit three times: without a timeline server, with the pipeline's
# options, and without a metadata table:

# %%
from lab_env.lessons.recorded.commit import (
    NO_SERVER,
    PIPELINE,
    SHORT_LIVED,
    commit_chart,
    option_table,
    options_chart,
    phase_table,
)
from lab_env.lessons.recorded.commit import caption_of as caption_of_commit

small = recorded.shown("commit")
print(caption_of_commit(small))
HTML(commit_chart(small, "mor", (NO_SERVER, PIPELINE, SHORT_LIVED)))

# %%
phase_table(small, "mor", NO_SERVER)

# %% name="requests-of-a-commit" proof="Without a timeline server most requests go to the metadata table, nearly all of them repeated."
by_phase = {name: phase_table(small, "mor", name)["all"] for name in (NO_SERVER, PIPELINE)}
assert by_phase[NO_SERVER]["metadata table"] > by_phase[NO_SERVER]["all"] / 2
assert by_phase[PIPELINE]["metadata table"] < by_phase[NO_SERVER]["metadata table"] / 2
again = phase_table(small, "mor", NO_SERVER).loc["metadata table"]
assert again["repeated"] > 0.85 * again["all"]
left = phase_table(small, "mor", SHORT_LIVED)["all"]
assert left["data files"] < left["all"] / 3 and left["all"] < by_phase[PIPELINE]["all"]

# %% [markdown]
# Most of the first picture is the [metadata table](../docs/glossary.md#metadata-table), the list of the table's
# files: each of the tasks that write opens it, with all its log files, for itself. Nearly every such request is
# *repeated*: the commit has asked for the same object before, perhaps for another part of it. Hudi's
# [timeline server](https://hudi.apache.org/docs/timeline_server_service) reads the list in the driver, and serves
# all tasks. Hudi's streaming sink starts no server unless you set `hoodie.embed.timeline.server`. Even then it closes
# the server after a batch, unless compaction or clustering runs asynchronously. Merge-on-Read compacts so, and keeps
# its server; the pipeline's Copy-on-Write stream runs neither, and does without.
#
# The third picture has no metadata table: Hudi lists the folders instead. (These options also drop the bloom filters
# and use zstd.) That is cheaper for a small table like the tour's. With more partitions it takes more listings. What
# is left is mostly not data either: markers, Spark's checkpoint, and the timeline, read several times.
#
# Which setting saves most? Each was tried alone, in five rounds, without the proxy. The pictures above show one commit
# without compaction or cleaning; here a value is the mean of a run's commits, with both. A dot is the median of the
# five, a line runs from the lowest to the highest; left of 1 is cheaper than the pipeline. What helps is to read the
# metadata table less: do without it, serve it, or, where nothing serves it, compact it often, which saves requests.
# Cleaning or archiving in another thread changes nothing here. Most lines cross 1: with one run you would have
# believed in any of these settings.

# %%
HTML(options_chart(small))

# %% proof="A commit without a metadata table is cheaper; another thread for cleaning saves nothing."
ratios = option_table(small)
for kind in ("cow", "mor"):
    assert ratios.loc[(kind, "no metadata table"), "× seconds"] < 0.9
    assert ratios.loc[(kind, "no metadata table"), "× requests"] < 0.7
    for noise in ("asynchronous cleaning", "asynchronous archiving"):
        assert 0.9 < ratios.loc[(kind, noise), "× seconds"] < 1.1
assert ratios.loc[("cow", "metadata table compacted after 30"), "× requests"] > 1.2
assert ratios.loc[("mor", NO_SERVER), "× seconds"] > 1.2

# %%
spark.stop()
