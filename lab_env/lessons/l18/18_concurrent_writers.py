# ---
# title: Two jobs write one table. Who wins, and does the loser know?
# minutes: {teach: 33, do: 24}
# needs: ["05", "06", "08", "17"]
# services: [minio, kafka, zookeeper]
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 18 · Two jobs write one table. Who wins, and does the loser know?
#
# ## Questions
#
# - A backfill runs next to the stream. Is everything in the table afterwards?
# - Which options make two writers notice each other, and what does the loser pay?
# - How do I divide the work so that nobody loses?
# - A writer died in the middle. Who cleans up, and when?
#
# ## Objectives
#
# At the end of this lesson you can
#
# - configure two jobs so that they notice a conflict (18.1),
# - divide a backfill so that it never writes a file that the stream writes (18.2),
# - remove what a dead writer left, without harming live writers (18.3).
#
# ## What you need
#
# Lesson 05: file groups, base files, the timeline. Lesson 06: compaction. Lesson 08: the bucket index.
# Lesson 17: an unfinished write and its rollback. 57 minutes, with a good place to pause after the
# second section.

# %% [markdown]
# ## Start
#
# You look after the shop's stream, which keeps the table of orders current. A colleague runs a backfill that
# corrects orders. She works in a notebook of her own: a second IPython kernel, with a Spark and a JVM of its own.
# (No stream runs here: each of its batches is one upsert.)
#
# So far the two of you share only the object store and this file of functions. The table has three hundred orders,
# a hundred per day, and each day is a partition. All events are of 21 November, some minutes after nine.

# %%
import sys

from lab_env import Lab

lab = Lab.start("18", "zookeeper")
sys.path.insert(0, str(lab.folder))

# %%
# %%writefile "{lab.folder}/shop_orders.py"
"""How both notebooks write orders."""

from lab_env.pipeline.options import DEMO_OPTIONS

ORDERS = DEMO_OPTIONS | {
    "hoodie.table.name": "orders",
    "hoodie.datasource.write.recordkey.field": "order_id",
    "hoodie.table.ordering.fields": "order_ts",
    "hoodie.datasource.write.partitionpath.field": "partition_date",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.index.bloom.num_entries": "1000",  # a small key filter for small files
}


def upsert(rows, table, **options):
    """Upsert rows into a Hudi table."""
    rows.write.format("hudi").options(**ORDERS).options(**options).mode("append").save(table)


# %%
# %%writefile -a "{lab.folder}/shop_orders.py"


def make_orders(spark, first, last, status, minute=0):
    """Orders O-first to O-last with a status, and the minute of its event, as a DataFrame."""
    return spark.sql(f"""
        SELECT concat('O-', id) AS order_id, '{status}' AS status,
               CAST(10 + id AS DECIMAL(12,2)) AS amount,
               TIMESTAMP '2026-11-21 09:00:00' + make_interval(0, 0, 0, 0, 0, {minute}) AS order_ts,
               concat('2026-11-', 19 + (id - 1) DIV 100) AS partition_date
        FROM range({first}, {last} + 1, 1, 1)
    """)


# %% [markdown]
# Start her notebook and your own Spark session. Read on meanwhile.

# %%
from lab_env.lessons.l18.colleague import Colleague, attempt
from lab_env.pipeline.session import INTERPRETED

colleague = Colleague(lab)
# For a few hundred rows, compiling a query costs more than it saves.
spark = lab.start_spark(INTERPRETED)

# %% [markdown]
# The table is Copy-on-Write. We load it in two writes and switch file sizing off, so that each day lies in two
# file groups: O-201 to O-250 in one, O-251 to O-300 in the other. `DEMO_OPTIONS` switch off the metadata table
# and cleaning; where that changes an answer, the text says so.

# %%
from pyspark.sql import functions as F
from shop_orders import make_orders, upsert

orders_path = lab.path("orders")
everything = make_orders(spark, 1, 300, "new")
early = (F.substring("order_id", 3, 9).cast("int") - 1) % 100 < 50
for half in (everything.where(early), everything.where(~early)):
    upsert(half, orders_path, **{"hoodie.parquet.small.file.limit": "0"})

colleague.run("from shop_orders import make_orders, upsert")
lab.xray(orders_path)

# %% [markdown]
# ## Two writers, no agreement
#
# Whether two writes collide is a matter of milliseconds. To see it happen, we pause one. The function `race` starts
# a write of O-201 in her notebook and freezes her JVM (SIGSTOP) between data file and commit. Then you write, and
# then she goes on. Each race has its own copy of the table.
#
# Hudi keeps a write option that begins with `_` in the commit: `_writer` tells the X-ray who wrote.

# %%
from lab_env.lessons.table_copies import scratch_copy


def race(table, my_rows, my_options, her_options, her_orders=(201, 201)):
    """The colleague is frozen while she writes some orders; you write yours; she goes on."""
    colleague.share(table=table, options=her_options, numbers=her_orders)
    her_rows = "make_orders(spark, *numbers, 'paid', 10)"
    her_code = f"upsert({her_rows}, table, _writer='colleague', **options)"
    with colleague.frozen_while_writing(table, her_code) as her_run:
        my_run = attempt(upsert, my_rows, table, _writer="you", **my_options)
    print(my_run, her_run, sep="\n")
    return my_run, her_run


def status_of(table, *order_ids):
    """The rows of some orders: order and status."""
    rows = spark.read.format("hudi").load(table).where(F.col("order_id").isin(*order_ids))
    return sorted(tuple(row) for row in rows.select("order_id", "status").collect())


# %% [markdown]
# She sets O-201 to *paid*. You set O-1 to *cancelled*, an order of another day. Neither of you has heard of locks:
# your options are those of lesson 05.
#
# **Predict:** whose change is in the table afterwards?

# %%
lab.predict("18.p1", ..., choices=("both", "yours only", "hers only", "neither"))

# %%
no_lock = scratch_copy(lab, orders_path, "no_lock")
another_day = make_orders(spark, 1, 1, "cancelled", 11)
my_run, her_run = race(no_lock, another_day, my_options={}, her_options={})
no_lock_after = status_of(no_lock, "O-1", "O-201")
changed = {"O-201": "hers only", "O-1": "yours only"}
kept = [changed[order] for order, status in no_lock_after if status != "new"]
lab.record_actual("18.p1", kept[0] if len(kept) == 1 else "both" if kept else "neither")
no_lock_after

# %%
lab.xray(no_lock)

# %% name="no-lock" proof="Without a lock the second writer rolls back the first one's living write, which then fails."
assert my_run.outcome == "committed" and her_run.outcome not in ("", "committed")
assert no_lock_after == [("O-1", "cancelled"), ("O-201", "new")]
assert "rollback" in {instant.action for instant in lab.xray(no_lock).instants}

# %% [markdown]
# Look at the timeline: a **rollback** before your commit. By default a Hudi writer assumes that it is the only one.
# An unfinished write must then be the remains of a crash, as in lesson 17, and your writer removed it, with its file,
# before it began. She was alive. Her error names a missing file, not a second writer: whoever reads it will suspect
# the object store.
#
# You had no file in common, not even a day. Whoever *starts* second rolls back everything that is unfinished.

# %% [markdown] tags=["instructor"]
# *For instructors.* 9 minutes. Start the two notebooks before you explain them: they take half a minute. Let the group
# vote on 18.p1 with hands; "both" and "hers only" (the last one wins) are the usual answers. Short of time: leave out the
# X-ray.

# %% [markdown]
# ## Optimistic: compare at the end
#
# Hudi's answer is [**optimistic concurrency control**](../docs/glossary.md#optimistic-concurrency-control) (OCC).
# Nobody waits while data is written. Before a writer completes its instant it asks: has another write changed one of
# *my* file groups? If so, that is a [**conflict**](../docs/glossary.md#conflict). No other commit may come between
# this check and the writer's own, so the writer takes a lock for it, from a
# [lock provider](../docs/glossary.md#lock-provider). And with this mode no writer rolls back another's unfinished
# write before its own: the other might be alive.
#
# [ZooKeeper](../docs/glossary.md#zookeeper) is a small server that keeps a tree of nodes. A lock is a numbered node
# below a path; the lowest number holds it, and the node goes when its owner's session ends. The lab runs a server:

# %%
ZOOKEEPER = lab.endpoints.zookeeper  # host:port; Hudi 1.1 has an option for the port and ignores it
LOCKS = f"/{lab.namespace}"  # this lesson's node in ZooKeeper
ZOOKEEPER, LOCKS

# %% [markdown]
# ### Exercise 18.1 · Options for two jobs
#
# Write the function that returns a job's options as a dictionary: the mode, and a lock in ZooKeeper. Its arguments
# are the name of the job, `"stream"` or `"backfill"`, and the path of the table. Both jobs call it for the same
# table. Hudi's page on [concurrency control](https://hudi.apache.org/docs/concurrency_control) has the options.
# `ZOOKEEPER` is host and port in one, and the lock belongs in the folder `LOCKS`, which a reset of this lesson
# removes. Add no retries yet: first we want to see who loses.


# %% exercise="18.1"
def lock_options(job, table):
    # BEGIN SOLUTION
    return {
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        "hoodie.write.lock.provider": (
            "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider"
        ),
        "hoodie.write.lock.zookeeper.url": ZOOKEEPER,
        "hoodie.write.lock.zookeeper.base_path": LOCKS,
        "hoodie.write.lock.zookeeper.lock_key": "orders",
    }
    # END SOLUTION


lab.check("18.1", lock_options)

# %% [markdown] hint="18.1"
# Five options: `hoodie.write.concurrency.mode`, which is `OPTIMISTIC_CONCURRENCY_CONTROL`;
# `hoodie.write.lock.provider`, the class `org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider`; and
# `url`, `base_path` and `lock_key`, each after `hoodie.write.lock.zookeeper.`. Which of them may depend on the job?

# %% [markdown] hint="18.1"
# None: a lock works only if both jobs take the same one. Its name may depend on the table.


# %% equivalent="18.1"
# without 'hoodie.write.lock.zookeeper.lock_key': 'orders': Hudi takes the name of the table, which is this


# %% right="18.1"
# With the provider that makes the lock's path from the table's.
def lock_options(job, table):
    provider = "ZookeeperBasedImplicitBasePathLockProvider"  # its path follows from the table's
    return {
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.write.lock.provider": f"org.apache.hudi.client.transaction.lock.{provider}",
        "hoodie.write.lock.zookeeper.url": ZOOKEEPER,
    }


# %% wrong="18.1"
# expect: Nobody compared your files
# falls: rung 1
def lock_options(job, table):
    return {
        "hoodie.write.lock.provider": (
            "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider"
        ),
        "hoodie.write.lock.zookeeper.url": ZOOKEEPER,
        "hoodie.write.lock.zookeeper.base_path": LOCKS,
        "hoodie.write.lock.zookeeper.lock_key": "orders",
    }


# %% wrong="18.1"
# expect: Two writers, two locks
# falls: rung 2
def lock_options(job, table):
    return {
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        "hoodie.write.lock.provider": (
            "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider"
        ),
        "hoodie.write.lock.zookeeper.url": ZOOKEEPER,
        "hoodie.write.lock.zookeeper.base_path": LOCKS,
        "hoodie.write.lock.zookeeper.lock_key": job,
    }


# %% wrong="18.1"
# expect: Only one of you compares
# falls: rung 1
def lock_options(job, table):
    provider = "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider"
    options = {
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        "hoodie.write.lock.provider": provider,
        "hoodie.write.lock.zookeeper.url": ZOOKEEPER,
        "hoodie.write.lock.zookeeper.base_path": LOCKS,
        "hoodie.write.lock.zookeeper.lock_key": "orders",
    }
    return options if job == "stream" else {}


# %% wrong="18.1"
# expect: failed before there was a race
# falls: rung 1
def lock_options(job, table):
    return {
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        "hoodie.write.lock.provider": "org.apache.hudi.client.lock.ZookeeperLockProvider",
        "hoodie.write.lock.zookeeper.url": ZOOKEEPER,
        "hoodie.write.lock.zookeeper.base_path": LOCKS,
        "hoodie.write.lock.zookeeper.lock_key": "orders",
    }


# %% harmless="18.1"
# an entry more: a job may have further options

# %%
from IPython.display import HTML

from lab_env.lessons.l18.figures import draw_race, race_of

lab.use_reference("18.1")
# All copies use the lock of the original: both jobs need the same name, whichever it is.
STREAM, BACKFILL = (lock_options(job, orders_path) for job in ("stream", "backfill"))
same_file = make_orders(spark, 202, 202, "cancelled", 11)  # yours; hers is O-201

# %% [markdown]
# A race with your options, in one file: she sets O-201 to *paid*, you set O-202 to *cancelled*. She begins first, and
# you finish first.
#
# **Predict:** who gets an error?

# %%
lab.predict("18.p2", ..., choices=("nobody", "you", "the colleague"))

# %%
one_file = scratch_copy(lab, orders_path, "one_file")
my_run, her_run = race(one_file, same_file, my_options=STREAM, her_options=BACKFILL)
one_file_after = status_of(one_file, "O-201", "O-202")
outcomes = {"you": my_run.outcome, "the colleague": her_run.outcome}
losers = [who for who, outcome in outcomes.items() if outcome != "committed"]
lab.record_actual("18.p2", losers[0] if losers else "nobody")
print(one_file_after)
HTML(draw_race(race_of(lab, one_file, my_run, her_run)))

# %% name="loser-knows" proof="Of two writers of one file the first to finish wins, and the other gets a conflict."
assert my_run.outcome == "committed" and "HoodieWriteConflictException" in her_run.outcome
assert one_file_after == [("O-201", "new"), ("O-202", "cancelled")]

# %% [markdown]
# Time runs from left to right. Her bar is hatched while she was frozen; the green tick is your commit, the cross her
# error. Only writes *completed* since a writer began count as conflicts, and compactions planned since: when you compared, hers was not complete;
# when she did, yours was. Her data file is wasted.
#
# Look at the lowest lane. Each of you holds the lock **briefly**, a few times: to take an instant time, and to compare
# and complete. So OCC is no queue: the second to finish loses its work, and learns it at the end.
#
# ### Only one of you has the options
#
# She forgot the options, or copied her job from an old one. You have them.
#
# **Predict:** what does her notebook report now, and is her change in the table?

# %%
lab.predict("18.p3", ..., choices=("error", "success, in the table", "success, not in the table"))

# %%
one_rule = scratch_copy(lab, orders_path, "one_rule")
my_run, her_run = race(one_rule, same_file, my_options=STREAM, her_options={})
one_rule_after = status_of(one_rule, "O-201", "O-202")
success = "success, in the table" if one_rule_after[0][1] == "paid" else "success, not in the table"
lab.record_actual("18.p3", success if her_run.outcome == "committed" else "error")
print(one_rule_after)
HTML(draw_race(race_of(lab, one_rule, my_run, her_run)))

# %%
lab.xray(one_rule)

# %% name="lost-update" proof="If one of two writers lacks the options, both report success and one change is lost."
assert my_run.outcome == her_run.outcome == "committed"
assert one_rule_after == [("O-201", "new"), ("O-202", "cancelled")]

# %% [markdown]
# Two commits, two green ticks, and O-201 is as it was: a [**lost update**](../docs/glossary.md#lost-update). Your mode
# forbids you to roll her back. Hers does not compare, and she wrote her file from what she had read before your commit.
# The X-ray shows two new files in one group. Hers was completed last, but readers take the file whose instant was
# *requested* last: yours.
#
# So **every** writer needs the options: also the job that runs once, and one that plans a compaction or a clustering of
# its own (lesson 06).
#
# > **Measured once by hand, not here** (Hudi 1.1.1). We froze a writer *while it held the lock*, after it had compared.
# > Its session in ZooKeeper expired; the next writer got the lock and committed. Then the first one woke up and
# > committed, too: a lost update. (The session timeout was two seconds; by default Hudi asks for a minute.)
#
# **A good place to pause.** To go on another day, type `lab goto 18c` in a terminal: it runs everything to here again.

# %% [markdown] tags=["instructor"]
# *For instructors.* 19 minutes. In 18.1 the common answer is a provider without the mode: a lock around each commit, and
# nobody compares. Another is a lock per job, which its two arguments suggest. Draw the two questions apart: who may
# change the timeline now (lock), and has somebody changed my files (mode)? Short of time: solve 18.1 together, never
# leave out *Only one of you has the options*.

# %% [markdown]
# ## Divide the work
#
# A conflict costs a whole write. Better to avoid it: updates of different file groups cannot conflict. Now you swap
# roles: she writes the stream's batches, and you do the backfill.
#
# ### Exercise 18.2 · What may the backfill write now?
#
# Write the function `write_now`. It gets the corrections of the backfill and the next batch of the stream, two
# DataFrames like those of `make_orders`; all of their orders are in the table already. It returns the corrections that
# can be written at the same time as this batch without a conflict. The others wait. Let none wait whose
# day the batch does not touch.


# %% exercise="18.2"
def write_now(corrections, batch):
    # BEGIN SOLUTION
    return corrections.join(batch, "partition_date", "left_anti")
    # END SOLUTION


lab.check("18.2", write_now)

# %% [markdown] hint="18.2"
# A conflict is about file groups. Which column of the rows says something about where a row lies?

# %% [markdown] hint="18.2"
# Rows of different partitions never share a file group. `left_anti` is the join that keeps rows without a
# partner. (Finer: the table's own column `_hoodie_file_name` begins with the file group.)


# %% right="18.2"
# With an anti join: what is not busy is free.
def write_now(corrections, batch):
    group = F.split("_hoodie_file_name", "_")[0].alias("group")
    places = spark.read.format("hudi").load(orders_path).select("order_id", group)
    busy = batch.join(places, "order_id").select("group").distinct()
    free = places.join(busy, "group", "left_anti").select("order_id")
    return corrections.join(free, "order_id", "left_semi")


# %% wrong="18.2"
# expect: `amount` has become `double`
def write_now(corrections, batch):
    busy = batch.select("partition_date").distinct()
    free = corrections.join(busy, "partition_date", "left_anti")
    return free.withColumn("amount", F.col("amount").cast("double"))


# %% wrong="18.2"
# expect: Different rows, same file
def write_now(corrections, batch):
    return corrections.join(batch, "order_id", "left_anti")


# %% wrong="18.2"
# expect: Different rows, same file
def write_now(corrections, batch):
    return corrections.where(F.substring("order_id", -1, 1).cast("int") % 2 == 0)


# %% wrong="18.2"
# expect: Different rows, same file
def write_now(corrections, batch):
    return corrections.where("partition_date = '2026-11-19'")


# %% wrong="18.2"
# expect: wait although
def write_now(corrections, batch):
    first = batch.agg(F.min("partition_date").alias("first_day"))
    old = corrections.crossJoin(first).where("partition_date < first_day")
    return old.drop("first_day")


# %% wrong="18.2"
# expect: nobody asked for
def write_now(corrections, batch):
    busy = batch.select("partition_date").distinct().withColumn("busy", F.lit(True))
    return corrections.join(busy, "partition_date", "left").where("busy IS NULL")


# %% [markdown]
# Your function at work, on the shop's own table: the stream's batch is O-201, and she writes it.

# %%
lab.use_reference("18.2")
corrections = make_orders(spark, 1, 300, "corrected", 20)
now = write_now(corrections, make_orders(spark, 201, 201, "paid"))
my_run, her_run = race(orders_path, now, my_options=BACKFILL, her_options=STREAM)
divided_after = status_of(orders_path, "O-1", "O-200", "O-201")
print(now.count(), "corrections now:", divided_after)
HTML(draw_race(race_of(lab, orders_path, my_run, her_run)))

# %% name="divided" proof="Two writers of different partitions both commit, and nothing is written twice."
assert my_run.outcome == her_run.outcome == "committed"
assert divided_after == [("O-1", "corrected"), ("O-200", "corrected"), ("O-201", "paid")]
assert not race_of(lab, orders_path, my_run, her_run).wasted

# %% [markdown]
# In production you do not know the stream's next batch. Divide by day: the backfill skips the days that the stream still
# writes. And keep retries (below), for the late event of an old day.
#
# ### The same new order, twice
#
# Suppose that both of you *create* order O-301, the first order of a new day. Both have the options.
#
# **Predict:** how many rows does O-301 have afterwards, or does one of you get an error?

# %%
lab.predict("18.p4", ..., choices=("1", "2", "an error"))

# %%
twice = scratch_copy(lab, orders_path, "twice")
created = make_orders(spark, 301, 301, "new", 11)
my_run, her_run = race(twice, created, BACKFILL, STREAM, her_orders=(301, 301))
twice_after = status_of(twice, "O-301")
both_committed = my_run.outcome == her_run.outcome == "committed"
lab.record_actual("18.p4", str(len(twice_after)) if both_committed else "an error")
twice_after

# %% name="inserts-double" proof="Two writers that create the same key in two new files both commit, and the key is there twice."
assert my_run.outcome == her_run.outcome == "committed"
assert len(twice_after) == 2

# %% [markdown]
# A record key is not a database's unique constraint: the index looks for a key in the files that are there when the write
# begins. Each of you found none and made a new *file*, so Hudi saw no conflict. (In a day with a small file, file sizing
# would have sent both orders to that file: a conflict. Do not rely on it.) If two writers may create the same key, use a
# **bucket index**: the key decides the bucket, Hudi compares buckets, and the two would conflict. (Both read in Hudi
# 1.1.1's code, not tried here.)
#
# ### Two logs for one file group
#
# If a writer only adds a log file, must anybody lose? First the same options, on a Merge-on-Read table with a simple
# bucket index (simple: the number of buckets is fixed). This time her write is repeated when it loses, by
# `hoodie.write.num.retries.on.conflict.failures`.

# %%
MOR = {
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "1",
    "hoodie.compact.inline": "false",
}
RETRY = {"hoodie.write.num.retries.on.conflict.failures": "3"}
mor_path = lab.path("orders_mor")
upsert(everything.where("partition_date = '2026-11-21'"), mor_path, **MOR)

retried = scratch_copy(lab, mor_path, "retried")
my_run, her_run = race(retried, same_file, STREAM | MOR, BACKFILL | MOR | RETRY)
retried_after = status_of(retried, "O-201", "O-202")
print(retried_after)
HTML(draw_race(race_of(lab, retried, my_run, her_run)))

# %% name="logs-conflict" proof="On Merge-on-Read, too, the second writer of a file group conflicts, and writes twice."
assert my_run.outcome == her_run.outcome == "committed"
assert retried_after == [("O-201", "paid"), ("O-202", "cancelled")]
drawn = race_of(lab, retried, my_run, her_run)
assert drawn.wasted["colleague"] > 0.5 * drawn.written["colleague"] > 0

# %% [markdown]
# Both changes are in the table. But look at her bytes: the first log is wasted. Optimistic control compares file groups;
# it does not ask whether two logs side by side would do.
#
# [**Non-blocking concurrency control**](../docs/glossary.md#non-blocking-concurrency-control) accepts two logs. It needs
# Merge-on-Read and a simple bucket index, so that each key has the same place for all writers, and it still takes the
# lock for the times of its instants. Both of you write the **same orders** now: she sets O-201 and O-202 to *paid* at
# 9:10. You cancel both: O-201 with an older event, from 9:05, and O-202 with a newer one, from 9:15. She begins first,
# and you finish first.
#
# **Predict:** which status do O-201 and O-202 have?

# %%
both_orders = ("paid, paid", "paid, cancelled", "cancelled, paid", "cancelled, cancelled")
lab.predict("18.p5", ..., choices=both_orders)

# %%
BLOCK_NOBODY = {"hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL"}
older = make_orders(spark, 201, 201, "cancelled", 5)
newer = make_orders(spark, 202, 202, "cancelled", 15)
options = STREAM | MOR | BLOCK_NOBODY
two_logs = scratch_copy(lab, mor_path, "two_logs")
my_run, her_run = race(two_logs, older.union(newer), options, options, her_orders=(201, 202))
two_logs_after = status_of(two_logs, "O-201", "O-202")
lab.record_actual("18.p5", ", ".join(status for _, status in two_logs_after))
lab.xray(two_logs)

# %% name="non-blocking" proof="Two non-blocking writers of the same orders both commit; the higher ordering value wins."
assert my_run.outcome == her_run.outcome == "committed"
assert two_logs_after == [("O-201", "paid"), ("O-202", "cancelled")]
assert not race_of(lab, two_logs, my_run, her_run).wasted

# %% [markdown]
# Two logs in one file group, from two writers at the same time. Who finishes first does not matter: readers merge by the
# ordering field (lesson 04). Choose it with care: where two values are equal, Hudi has to decide by the order of the
# writes (not tried here).

# %% [markdown] tags=["instructor"]
# *For instructors.* 16 minutes. In 18.2 "different rows" is the answer to wait for: ask what a writer replaces, a
# row or a file. Short of time: leave out the first of the two tries on Merge-on-Read.

# %% [markdown]
# ## Dead or only slow?
#
# With several writers, an unfinished write is no longer proof of a dead writer. But some writers really die. How can
# the others tell? In both modes a writer keeps renewing a small file while it works, its
# [**heartbeat**](../docs/glossary.md#heartbeat). By default it does so every 60 seconds, and counts as dead after two
# missed renewals; here every second, and after four.
#
# Your colleague's process hangs for five seconds: a long garbage collection, a laptop that sleeps. Meanwhile you write,
# with cleaning on. (By default Hudi cleans after each write; `DEMO_OPTIONS` have switched that off until now.)
#
# **Predict:** she wakes up and wants to commit what she has written. What happens?

# %%
lab.predict("18.p6", ..., choices=("she commits", "her commit fails", "your write is lost"))

# %%
import time

QUICK = {
    "hoodie.client.heartbeat.interval_in_ms": "1000",
    "hoodie.client.heartbeat.tolerable.misses": "4",
}
CLEANING = {"hoodie.clean.automatic": "true"}
HER_ROWS = "make_orders(spark, 202, 202, 'paid', 10)"
HER_CODE = f"upsert({HER_ROWS}, table, _writer='colleague', **options)"

hanging = scratch_copy(lab, orders_path, "hanging")
colleague.share(table=hanging, options=BACKFILL | QUICK)
with colleague.frozen_while_writing(hanging, HER_CODE) as her_run:
    time.sleep(5)
    another_file = make_orders(spark, 1, 1, "paid", 30)
    options = STREAM | QUICK | CLEANING
    my_run = attempt(upsert, another_file, hanging, _writer="you", **options)
print(my_run, her_run, sep="\n")
hanging_after = status_of(hanging, "O-1", "O-202")
her_end = "she commits" if her_run.outcome == "committed" else "her commit fails"
lab.record_actual("18.p6", her_end if ("O-1", "paid") in hanging_after else "your write is lost")
lab.xray(hanging)

# %% name="fenced" proof="A writer whose heartbeat has expired is rolled back, and cannot commit when it wakes up."
assert my_run.outcome == "committed" and her_run.outcome not in ("", "committed")
assert "rollback" in {instant.action for instant in lab.xray(hanging).instants}
assert hanging_after == [("O-1", "paid"), ("O-202", "new")]

# %% [markdown]
# Two checks can stop her. Before it takes the lock to commit, a writer looks at its *own* heartbeat: if it was late,
# others may have taken it for dead, and it gives up (`Heartbeat for instant ... has expired`). Or, if her heartbeat is
# renewed first after she wakes up, her file or her instant is missing: `inflight does not exist`. This is a self-check,
# not a [**fence**](../docs/glossary.md#fence): the store would still accept her commit, and a pause after the check gets
# through (the box before *Divide the work*).
#
# The writer that *cleans* applies its own heartbeat settings to all others, so every writer of a table needs the same.
#
# Now her machine breaks down, in the middle of a write to the table itself. Hours pass, and her heartbeat is long silent.
# (We do not wait: a missing heartbeat counts as expired, so we remove it.)

# %%
from lab_env.lessons.l18.colleague import forget_heartbeats
from lab_env.lessons.table_copies import overlay_table

colleague.share(table=orders_path, options=BACKFILL)
with colleague.frozen_while_writing(orders_path, HER_CODE) as her_run:
    colleague.kill(her_run)

forget_heartbeats(lab, orders_path)
overlay_table(lab, orders_path, lab.path("orders_of_the_dead"))  # 18.3 is checked on copies
abandoned = lab.xray(orders_path)
abandoned

# %% proof="The killed writer leaves an instant that is not complete, and a data file of it."
assert her_run.outcome == "killed" and len(abandoned.uncommitted) == 1
assert abandoned.instants[-1].state == "inflight"

# %% [markdown]
# Her notebook is gone with her machine. To race again, start a new one: `colleague = Colleague(lab)`.
#
# ### Exercise 18.3 · What the dead leave
#
# An instant that stays inflight holds up archiving and cleaning of all that is newer. (Read in Hudi 1.1.1's code, not
# measured here.) Write the function that cleans up the table at a path. Afterwards
#
# - nothing of her write is left, on the timeline or in the folders,
# - the timeline shows the rollback,
# - all 300 orders are there; a write of yours may set O-1 to *paid* again, and nothing else,
# - a writer that is alive keeps its unfinished write. The check has one, and calls your function a second time, when
#   nobody is dead.

# %%
paid_again = make_orders(spark, 1, 1, "paid", 30)  # for a write of yours


# %% exercise="18.3"
def clean_up(table):
    # BEGIN SOLUTION
    upsert(paid_again, table, **STREAM, **{"hoodie.clean.automatic": "true"})
    # END SOLUTION


lab.check("18.3", clean_up)

# %% [markdown] hint="18.3"
# Two of your writes rolled her back: in the first section before your write began, although she was alive; while she
# hung, after your write was complete. Which options made the difference?

# %% [markdown] hint="18.3"
# A write with the options `STREAM` and `hoodie.clean.automatic`: cleaning after the write finds the expired heartbeat. Or
# by hand: `CALL rollback_to_instant(...)` with the unfinished instant that has no file in `.hoodie/.heartbeat`.


# %% right="18.3"
# By the heartbeats: a dead writer has none.
def clean_up(table):
    beating = {file.key.split("/")[-1] for file in lab.files(f"{table}/.hoodie/.heartbeat")}
    pending = [i.requested for i in lab.xray(table).instants if not i.completed]
    name = table.split("/")[-1].replace("-", "_")
    spark.sql(f"CREATE TABLE IF NOT EXISTS {name} USING hudi LOCATION '{table}'")
    for dead in sorted(set(pending) - beating, reverse=True):
        call = f"CALL rollback_to_instant(table => '{name}', instant_time => '{dead}')"
        spark.sql(call).collect()


# %% wrong="18.3"
# expect: It may set O-1 to paid, and nothing else
def clean_up(table):
    clean = {"hoodie.clean.automatic": "true"}
    upsert(make_orders(spark, 2, 2, "paid", 30), table, **STREAM, **clean)


# %% wrong="18.3"
# expect: An unfinished instant is not a dead one
def clean_up(table):
    unfinished = [i.requested for i in lab.xray(table).instants if not i.completed]
    name = table.split("/")[-1].replace("-", "_")
    spark.sql(f"CREATE TABLE IF NOT EXISTS {name} USING hudi LOCATION '{table}'")
    call = f"CALL rollback_to_instant(table => '{name}', instant_time => '{max(unfinished)}')"
    spark.sql(call).collect()


# %% wrong="18.3"
# expect: belongs to no commit now
def clean_up(table):
    from lab_env.platform.store import client

    for file in lab.files(f"{table}/.hoodie/timeline"):
        if file.key.endswith((".inflight", ".commit.requested")):
            newest = file.key.split("/")[-1].split(".")[0]
    for file in lab.files(f"{table}/.hoodie/timeline"):
        if file.key.split("/")[-1].startswith(f"{newest}."):
            client(lab.endpoints).delete_object(Bucket=lab.endpoints.bucket, Key=file.key)


# %% wrong="18.3"
# expect: took no lock
def clean_up(table):
    upsert(make_orders(spark, 1, 1, "paid", 30), table)


# %% wrong="18.3"
# expect: only cleaning
def clean_up(table):
    upsert(make_orders(spark, 1, 1, "paid", 30), table, **STREAM)


# %% wrong="18.3"
# expect: nothing else
def clean_up(table):
    every_order = make_orders(spark, 1, 300, "new").union(paid_again)
    upsert(every_order, table, **(BACKFILL | CLEANING))


# %% harmless="18.3"
# table cleaned: cleaning is what rolls a dead writer back

# %% [markdown]
# Now the real table.

# %%
lab.use_reference("18.3")
clean_up(orders_path)
cleaned = lab.xray(orders_path, since=abandoned)
cleaned

# %% name="cleaned-up" proof="After your clean-up nothing of the dead write is left, and the timeline has its rollback."
assert not cleaned.uncommitted and all(instant.completed for instant in cleaned.instants)
assert "rollback" in {instant.action for instant in cleaned.new_instants}
assert {file.key for file in abandoned.uncommitted} <= {file.key for file in cleaned.gone_files}

# %% [markdown]
# Never remove a file of the timeline by hand: the data file that it names would stay for ever. A single writer rolls a
# dead write back before its own; with several writers only cleaning does that, and `DEMO_OPTIONS` switch it off. With
# Hudi's defaults anybody's next write would have cleaned up. In production **one job cleans**: twenty writers that all
# clean roll back the same failed writes at the same time, and most commits then log an error (measured separately).
#
# Meanwhile the customers of the first day have paid. Write that, with your options, and look at the shop's board.

# %%
upsert(make_orders(spark, 1, 100, "paid", 40), orders_path, **BACKFILL)
orders = spark.read.format("hudi").load(orders_path)
board = orders.groupBy("status").agg(F.count("*").alias("orders"), F.sum("amount").alias("revenue"))
board.orderBy("status").toPandas()

# %% name="board" proof="After two jobs at a time and a dead one the table has every order once, right to the cent."
counted = {row["status"]: (row["orders"], float(row["revenue"])) for row in board.collect()}
assert sum(count for count, _ in counted.values()) == 300
assert sum(revenue for _, revenue in counted.values()) == 48150.0
assert counted["paid"] == (101, 6261.0) and counted["corrected"][0] >= 100

# %% [markdown]
# The board shows the work of both of you: O-201 is hers, from the race without a conflict, and the corrections are
# yours. Nothing of her last write is there.

# %% [markdown] tags=["instructor"]
# *For instructors.* 13 minutes. Ask before 18.3: how does a program know that another one is dead? (It cannot;
# it can only make sure that the other one does no harm.) Common wrong answer of 18.3: to delete the file that shows
# `inflight`. Short of time: leave out the kill, show the X-ray of `hanging`, solve 18.3 together.

# %% [markdown]
# > **In production**
# > - Every writer has the same mode, the same lock and the metadata table on: one write with it off [deletes
# >   it](https://github.com/apache/hudi/pull/5186) for everybody, so do not copy `DEMO_OPTIONS`. Each stream has its own
# >   identifier (lesson 17). `second_writer` in `lab_env/pipeline/options.py` has all that another job needs. One job
# >   cleans: [deployment models](https://hudi.apache.org/docs/concurrency_control).
# > - Run [three ZooKeeper servers](https://zookeeper.apache.org/doc/current/zookeeperStarted.html) or more, or none:
# >   Hudi's storage-based provider keeps the lock in the object store itself (for S3 in `hudi-aws`; not tried here).
# > - Keep the default heartbeat of a minute: with a quick one, writers that are only slow are rolled back
# >   ([settings](https://hudi.apache.org/docs/configurations)).
#
# ## Key points
#
# - By default Hudi takes another writer's unfinished write for a crash, and rolls it back.
# - Optimistic control compares file groups when a writer completes: the first to finish wins, the other loses its work.
#   **Every** writer needs the mode and the same lock, or a change is lost and both report success.
# - The lock is held for moments, and it does not keep keys unique.
# - Jobs that write different partitions do not conflict. With non-blocking control not even writers of one file group
#   do, and the ordering field decides.
# - Cleaning rolls back a writer whose heartbeat has expired; a writer checks its own heartbeat before it commits.
#
# ## What's next
#
# Two writers, a stream, a backfill, cleaning: who notices when one of them has stopped? Lesson 19 monitors them all.

# %%
# Optional, some minutes: uncomment a line. The lab runs your code on new events while things fail.
# lab.attack("18.1")
