# ---
# title: Two jobs write one table. Who wins, and does the loser know?
# minutes: {teach: 40, do: 25}
# needs: ["05", "06", "17"]
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
# - A backfill runs beside the stream, and both report success. Is everything in the table?
# - Which options make two writers notice each other, and what does the loser pay?
# - How do I divide the work so that nobody loses?
# - A writer died in the middle. Who cleans up, and when?
#
# ## Objectives
#
# At the end of this lesson you can
#
# - configure two jobs so that they notice a conflict, with one lock for both (18.1),
# - divide a backfill so that it never writes a file that the stream writes (18.2),
# - remove what a dead writer left, without a danger to the living (18.3).
#
# You will also know which tables take several writers without conflicts, and what a lock does not do.
#
# ## What you need
#
# Lesson 05: file groups, base files, the timeline. Lesson 06: compaction. Lesson 17: an unfinished
# write and its rollback. A good hour, with a resting place in the middle.

# %% [markdown]
# ## Start
#
# The shop's stream keeps the table of orders current. A colleague corrects old orders with a job of her
# own. She works in a notebook of her own: a second IPython kernel, with a second Spark, a second JVM. The
# two share nothing but the object store.
#
# What both notebooks use stands in a file. Three hundred orders, a hundred per day, each day a partition.

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
    """Orders O-first to O-last with a status of 9 o'clock and some minutes, as a DataFrame."""
    return spark.sql(f"""
        SELECT concat('O-', id) AS order_id, '{status}' AS status,
               CAST(10 + id AS DECIMAL(12,2)) AS amount,
               TIMESTAMP '2026-11-21 09:00:00' + make_interval(0, 0, 0, 0, 0, {minute}) AS order_ts,
               concat('2026-11-', 19 + (id - 1) DIV 100) AS partition_date
        FROM range({first}, {last} + 1, 1, 1)
    """)


# %% [markdown]
# Start her notebook, and this one's own session. Read on while both start.

# %%
from lab_env.lessons.l18.colleague import Colleague, attempt

colleague = Colleague(lab)
spark = lab.spark
# Tables of a few hundred rows: to compile each query costs more than the compiled query saves.
spark.conf.set("spark.sql.codegen.wholeStage", False)
spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")

# %% [markdown]
# The table is Copy-on-Write. We load it in two writes and let Hudi fill no small files, so that each day
# lies in two file groups: O-201 to O-250 in one, O-251 to O-300 in the other.
# `DEMO_OPTIONS` leave out the metadata table and cleaning; where that changes an answer, the text says so.

# %%
from pyspark.sql import functions as F
from shop_orders import make_orders, upsert

orders = lab.path("orders")
number = F.substring("order_id", 3, 9).cast("int")
everything = make_orders(spark, 1, 300, "new")
for half in (0, 50):
    part = everything.where((number - 1) % 100 - half < 50).where((number - 1) % 100 >= half)
    upsert(part, orders, **{"hoodie.parquet.small.file.limit": "0"})

colleague.run("from shop_orders import make_orders, upsert")

# %% [markdown]
# ## Two writers, no agreement
#
# Two writes at the same time are a matter of milliseconds. To see them, we stop one: the next function starts
# a write of O-201 in her notebook, watches the store, and freezes her JVM (SIGSTOP) as soon as her data
# file is there and her commit is not. Then you write. Then she goes on. Each race gets a copy of the table.

# %%
from lab_env.lessons.table_copies import scratch_copy


def race(name, my_orders, hers, mine, source=orders, her_orders=(201, 201)):
    """The colleague is frozen while she writes some orders; you write yours; she goes on."""
    table = scratch_copy(lab, source, name)
    colleague.share(table=table, options=hers, numbers=her_orders)
    her_code = "upsert(make_orders(spark, *numbers, 'paid', 10), table, **options)"
    with colleague.frozen_while_writing(table, her_code) as her_run:
        my_run = attempt(upsert, my_orders, table, **mine)
    print(my_run, her_run, sep="\n")
    return table, my_run, her_run


def status_of(table, *order_ids):
    """The rows of some orders: order and status."""
    rows = spark.read.format("hudi").load(table).where(F.col("order_id").isin(*order_ids))
    return sorted(tuple(row) for row in rows.select("order_id", "status").collect())


# %% [markdown]
# She sets O-201 to *paid*. You set O-202 to *cancelled*, an order of the same file. Neither of you has
# heard of locks: your options are those of lesson 05.
#
# **Predict:** whose change is in the table afterwards, and what does her notebook say?

# %%
lab.predict("18.p1", ..., choices=("both", "yours only", "hers only", "neither"))

# %%
lab.predict("18.p2", ..., choices=("success", "an error"))

# %%
cancelled = make_orders(spark, 202, 202, "cancelled", 11)
unsafe, mine, hers = race("no_lock", cancelled, hers={}, mine={})
unsafe_after = status_of(unsafe, "O-201", "O-202")
unsafe_after

# %%
changed = {"O-201": "hers only", "O-202": "yours only"}
kept = [changed[order] for order, status in unsafe_after if status != "new"]
lab.record_actual("18.p1", kept[0] if len(kept) == 1 else "both" if kept else "neither")

# %%
lab.record_actual("18.p2", "success" if hers.outcome == "committed" else "an error")

# %%
lab.xray(unsafe)

# %% name="no-lock" proof="Without a lock the second writer rolls back the first one's living write, which then fails."
assert mine.outcome == "committed" and hers.outcome not in ("", "committed")
assert unsafe_after == [("O-201", "new"), ("O-202", "cancelled")]
assert "rollback" in {instant.action for instant in lab.xray(unsafe).instants}

# %% [markdown]
# Look at the timeline: a **rollback** before your commit. Hudi's default is one writer per table, and such a writer
# knows that nobody else is at work. So an unfinished write can only be the remains of a dead one (lesson 17), and
# your write removed it before it began, with the file. She was alive. Her error speaks of a missing file, not of a
# second writer; somebody who reads it looks for a fault of the store.
#
# Which rows does not matter: whoever *starts* second rolls back everything that is unfinished, of any day.

# %% [markdown] tags=["instructor"]
# *For instructors.* Ten minutes. Start the two notebooks before you explain them: they take half a minute. Let the group
# vote on 18.p1 with hands; "both" and "hers only" (the last one wins) are the usual answers. Short of time: leave out the
# X-ray.

# %% [markdown]
# ## Optimistic: compare at the end
#
# Hudi's answer is [**optimistic concurrency control**](../docs/glossary.md#optimistic-concurrency-control).
# Nobody waits while data is written. Before a writer completes its instant it asks: has a commit
# been completed since I began that changed one of *my* file groups? To ask and to complete must be one
# step, so for this moment a writer takes a lock. That takes three things in the options of **every** writer:
#
# | what | option |
# |---|---|
# | the mode: compare | `hoodie.write.concurrency.mode` = `OPTIMISTIC_CONCURRENCY_CONTROL` |
# | where the lock is kept | `hoodie.write.lock.provider` and, for ZooKeeper, `hoodie.write.lock.zookeeper.url` |
# | the name of the lock | `hoodie.write.lock.zookeeper.base_path`, a folder, and `...lock_key`, a name in it |
#
# With this mode nobody rolls back another's unfinished write before a write of its own either: it might be alive.
#
# ZooKeeper is a small server that keeps a tree of nodes. A lock is a numbered node below a path; who has
# the lowest number holds it, and when the holder's session ends, its node goes. The lab runs one:

# %%
ZOOKEEPER = lab.endpoints.zookeeper  # host:port; Hudi 1.1 has an option for the port and ignores it
ZOOKEEPER

# %% [markdown]
# ### Exercise 18.1 · One lock for both
#
# Write the function that gives a job its options. It gets the name of the job, `"stream"` or
# `"backfill"`, and the path of the table, and returns a dictionary. Both jobs call it for the same table.
# The lock's folder is `/lesson-18`, which a reset of this lesson removes. The provider's class is
# `org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider`.


# %% exercise="18.1"
def lock_options(job, table):
    # BEGIN SOLUTION
    return {
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        "hoodie.write.lock.provider": (
            "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider"
        ),
        "hoodie.write.lock.zookeeper.url": ZOOKEEPER,
        "hoodie.write.lock.zookeeper.base_path": "/lesson-18",
        "hoodie.write.lock.zookeeper.lock_key": table.split("/")[-1],
    }
    # END SOLUTION


lab.check("18.1", lock_options)

# %% [markdown] hint="18.1"
# Five options: the mode, the provider, and three that begin with `hoodie.write.lock.zookeeper.`. Which of
# them may depend on the job?

# %% [markdown] hint="18.1"
# None of them: a lock works only if both take the same one. The name may depend on the table.


# %% right="18.1"
def lock_options(job, table):
    provider = "ZookeeperBasedImplicitBasePathLockProvider"  # its path follows from the table's
    return {
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.write.lock.provider": f"org.apache.hudi.client.transaction.lock.{provider}",
        "hoodie.write.lock.zookeeper.url": ZOOKEEPER,
    }


# %% wrong="18.1"
# expect: Nobody compared your files
def lock_options(job, table):
    return {
        "hoodie.write.lock.provider": (
            "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider"
        ),
        "hoodie.write.lock.zookeeper.url": ZOOKEEPER,
        "hoodie.write.lock.zookeeper.base_path": "/lesson-18",
        "hoodie.write.lock.zookeeper.lock_key": "orders",
    }


# %% wrong="18.1"
# expect: Two writers, two locks
def lock_options(job, table):
    return {
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        "hoodie.write.lock.provider": (
            "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider"
        ),
        "hoodie.write.lock.zookeeper.url": ZOOKEEPER,
        "hoodie.write.lock.zookeeper.base_path": "/lesson-18",
        "hoodie.write.lock.zookeeper.lock_key": job,
    }


# %% [markdown]
# With your options, the same race. She began first. You finish first.
#
# **Predict:** who gets an error?

# %%
lab.predict("18.p3", ..., choices=("nobody", "you", "the colleague"))

# %%
from IPython.display import HTML

from lab_env.lessons.l18.figures import draw_race, race_of

lab.use_reference("18.1")
STREAM, BACKFILL = (lock_options(job, orders) for job in ("stream", "backfill"))
one_file, mine, hers = race("one_file", cancelled, hers=BACKFILL, mine=STREAM)
one_file_after = status_of(one_file, "O-201", "O-202")
print(one_file_after)
HTML(draw_race(race_of(lab, one_file, mine, hers)))

# %%
lab.record_actual("18.p3", "the colleague" if hers.outcome != "committed" else "nobody")

# %% name="loser-knows" proof="Of two writers of one file the first to finish wins, and the other gets a conflict."
assert mine.outcome == "committed" and "HoodieWriteConflictException" in hers.outcome
assert one_file_after == [("O-201", "new"), ("O-202", "cancelled")]

# %% [markdown]
# Time runs from left to right. Her bar is hatched while she was frozen; the green tick is your commit, the cross
# her error. What is left of her work is wasted: a data file that no commit will ever count.
#
# Look at the lowest lane. Each of you holds the lock **briefly**, a few times: to take an instant time, and to compare
# and complete. (You, the winner, once more: to see whether old instants can be archived.) Nobody holds it while data is
# written. So OCC is no queue: who comes second has worked in vain.
# "Second" means second to *finish*. When she wanted to complete, a newer commit with the same file group was there.
#
# ### Only one of you follows the rules
#
# She forgot the options, or copied her job from an old one. You have them.
#
# **Predict:** what does her notebook say now, and is her change in the table?

# %%
lab.predict("18.p4", ..., choices=("error", "success, in the table", "success, not in the table"))

# %%
one_rule, mine, hers = race("one_rule", cancelled, hers={}, mine=STREAM)
one_rule_after = status_of(one_rule, "O-201", "O-202")
print(one_rule_after)
HTML(draw_race(race_of(lab, one_rule, mine, hers)))

# %%
success = "success, in the table" if one_rule_after[0][1] == "paid" else "success, not in the table"
lab.record_actual("18.p4", success if hers.outcome == "committed" else "error")

# %% name="lost-update" proof="If one of two writers lacks the options, both report success and one change is lost."
assert mine.outcome == hers.outcome == "committed"
assert one_rule_after == [("O-201", "new"), ("O-202", "cancelled")]

# %% [markdown]
# Two commits, two green ticks, and O-201 is as it was: a **lost update**. Your mode forbids you to roll her back. Hers
# does not compare, and she wrote her file from what she had read before your commit. Both files claim to be the newest of
# their group; readers take yours, because your instant was requested later.
#
# This is one of several ways in which it can go wrong. It went like this because she finished last and because
# `DEMO_OPTIONS` switch cleaning off. If she begins second, she rolls *you* back, as in the first race. And with cleaning on,
# Hudi's default, your clean would look for her heartbeat (the last section). A single writer has none, so it would take
# her for dead, and her commit would fail. (Read in Hudi 1.1.1's code, not tried here.)
#
# So **every** writer needs the options, also the job that runs once. In the shop's own pipeline they stand in one place
# (`shared` in `lab_env/pipeline/options.py`), and `LAB_LOCK=zookeeper` switches them on. A stream needs an identifier of
# its own as well (lesson 17), or Hudi refuses to start it.
#
# > **Measured once by hand, not here.** A lock has limits, too. We froze a writer *while it held the lock*, after it had
# > compared. After two seconds its session in ZooKeeper expired and the next writer got the lock, compared and committed. Then
# > the first one woke up and committed, too: a lost update. (Hudi 1.1.1, `session_timeout_ms` 2000. Hudi asks for a minute
# > by default; ZooKeeper grants at most 20 of its ticks, which is 10 seconds here.)
#
# *A good place to rest. Stop here if you like; keep the kernel running.*

# %% [markdown] tags=["instructor"]
# *For instructors.* Twenty minutes. In 18.1 the common answer is a provider without the mode: a lock around each
# commit, and nobody compares. Draw the two questions apart: who may change the timeline now (lock), and has somebody
# changed my files (mode)? Short of time: solve 18.1 together, never leave out *Only one of you follows the rules*.

# %% [markdown]
# ## Divide the work
#
# A conflict costs a whole write. So the best conflict is none: two jobs that never touch the same file group
# never meet. A backfill of old days beside the stream of today is the usual case.
#
# ### Exercise 18.2 · What may the backfill write now?
#
# Write the function `write_now`. It gets the corrections of the backfill and the next batch of the stream,
# two DataFrames like those of `make_orders`, of known orders only. It returns the corrections that can be written beside this batch
# without a conflict; the others wait. Corrections of days that the batch leaves alone must not wait.


# %% exercise="18.2"
def write_now(corrections, batch):
    # BEGIN SOLUTION
    busy = batch.select("partition_date").distinct()
    return corrections.join(busy, "partition_date", "left_anti")
    # END SOLUTION


lab.check("18.2", write_now)

# %% [markdown] hint="18.2"
# A conflict is about file groups. Which column of the rows says something about where a row lies?

# %% [markdown] hint="18.2"
# Rows of different partitions never share a file group. `left_anti` is the join that keeps rows without a
# partner. (Finer: the table's own column `_hoodie_file_name` begins with the file group.)


# %% right="18.2"
def write_now(corrections, batch):
    group = F.split("_hoodie_file_name", "_")[0].alias("group")
    places = spark.read.format("hudi").load(orders).select("order_id", group)
    busy = batch.join(places, "order_id").select("group").distinct()
    free = places.join(busy, "group", "left_anti").select("order_id")
    return corrections.join(free, "order_id", "left_semi")


# %% wrong="18.2"
# expect: Different rows, same file
def write_now(corrections, batch):
    return corrections.join(batch, "order_id", "left_anti")


# %% wrong="18.2"
# expect: Different rows, same file
def write_now(corrections, batch):
    return corrections.where(F.substring("order_id", -1, 1).cast("int") % 2 == 0)


# %% [markdown]
# Your function at work: she is the stream now and writes O-201, you are the backfill.

# %%
lab.use_reference("18.2")
corrections = make_orders(spark, 1, 300, "corrected", 20)
now = write_now(corrections, make_orders(spark, 201, 201, "paid"))
divided, mine, hers = race("divided", now, hers=STREAM, mine=BACKFILL)
divided_after = status_of(divided, "O-1", "O-200", "O-201")
print(now.count(), "corrections now:", divided_after)
HTML(draw_race(race_of(lab, divided, mine, hers)))

# %% name="divided" proof="Two writers of different partitions both commit, and nothing is written twice."
assert mine.outcome == hers.outcome == "committed"
assert divided_after == [("O-1", "corrected"), ("O-200", "corrected"), ("O-201", "paid")]
assert not race_of(lab, divided, mine, hers).wasted

# %% [markdown]
# ### What the comparison does not see
#
# Hudi compares file groups, not keys. Suppose that both of you *create* order O-301: a customer has sent it
# twice. It is in no file yet, so each writer puts it into a new file.
#
# **Predict:** how many rows has O-301 afterwards?

# %%
lab.predict("18.p5", ..., choices=("1", "2"))

# %%
NEW_FILES = {"hoodie.parquet.small.file.limit": "0"}  # no new key goes into an existing file
created = make_orders(spark, 301, 301, "new", 11)
twice, mine, hers = race(
    "twice", created, hers=STREAM | NEW_FILES, mine=BACKFILL | NEW_FILES, her_orders=(301, 301)
)
twice_after = status_of(twice, "O-301")
twice_after

# %%
lab.record_actual("18.p5", str(len(twice_after)))

# %% name="inserts-double" proof="Two writers that create the same key in two new files both commit, and the key is there twice."
assert mine.outcome == hers.outcome == "committed"
assert len(twice_after) == 2

# %% [markdown]
# A record key is no constraint as in a database: the index looks for a key among the files that are there when
# the write begins. Nobody shared a *file*, so nobody saw a conflict. A later update changes both rows. Where new keys may come
# from two writers, let the key decide the file: with a **bucket index** each new key has its file group in advance, and
# the two would conflict.
#
# ### Merge-on-Read, and no conflict at all
#
# If a writer only adds a log file, must anybody lose? Two tries on a Merge-on-Read table with a bucket index. First
# with the same options as before. She tries again when she loses:
# `hoodie.write.num.retries.on.conflict.failures` repeats the whole write.

# %%
MOR = {
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "1",
    "hoodie.compact.inline": "false",
}
RETRY = {"hoodie.write.num.retries.on.conflict.failures": "3"}
logs = lab.path("orders_mor")
upsert(everything.where("partition_date = '2026-11-21'"), logs, **MOR)

again, mine, hers = race(
    "again", cancelled, hers=BACKFILL | MOR | RETRY, mine=STREAM | MOR, source=logs
)
again_after = status_of(again, "O-201", "O-202")
print(again_after)
HTML(draw_race(race_of(lab, again, mine, hers)))

# %% name="logs-conflict" proof="On Merge-on-Read, too, the second writer of a file group conflicts, and writes twice."
assert mine.outcome == hers.outcome == "committed"
assert again_after == [("O-201", "paid"), ("O-202", "cancelled")]
drawn = race_of(lab, again, mine, hers)
assert drawn.wasted["colleague"] > 0.5 * drawn.written["colleague"] > 0

# %% [markdown]
# Both changes are in the table. But look at her bytes: the first log is wasted. Optimistic control compares file
# groups, and does not ask whether a log beside a log would have done.
#
# [**Non-blocking concurrency control**](../docs/glossary.md#non-blocking-concurrency-control) is the mode that
# does. It needs Merge-on-Read, because of the logs, and a simple bucket index, so that each key has one place for
# all writers. Both write the **same orders** now: she sets O-201 and O-202 to *paid* at 9:10. You cancel both: O-201 with an
# older event, from 9:05, and O-202 with a newer one, from 9:15. She began first, you finish first.
#
# **Predict:** what does the table say about O-201 and O-202?

# %%
outcomes = ("paid, paid", "paid, cancelled", "cancelled, paid", "cancelled, cancelled")
lab.predict("18.p6", ..., choices=outcomes)

# %%
BLOCK_NOBODY = {"hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL"}
older = make_orders(spark, 201, 201, "cancelled", 5)
newer = make_orders(spark, 202, 202, "cancelled", 15)
options = STREAM | MOR | BLOCK_NOBODY
both, mine, hers = race(
    "both", older.union(newer), hers=options, mine=options, source=logs, her_orders=(201, 202)
)
both_after = status_of(both, "O-201", "O-202")
lab.xray(both)

# %%
lab.record_actual("18.p6", ", ".join(status for _, status in both_after))

# %% name="non-blocking" proof="Two non-blocking writers of the same orders both commit; the higher ordering value wins."
assert mine.outcome == hers.outcome == "committed"
assert both_after == [("O-201", "paid"), ("O-202", "cancelled")]
assert not race_of(lab, both, mine, hers).wasted

# %% [markdown]
# Two logs in one file group, from two writers at the same time. Who finishes first does not matter: readers merge by
# the ordering field (lesson 04). Without a useful one, this mode would decide by which log counts as the later one, not by
# what happened last.
#
# > **Documented, not measured here.** Locks need no server where the store can say "only if nobody was first":
# > S3 refuses a `PutObject` with `If-None-Match: *` if the object exists. Hudi has a lock provider that uses it
# > (`StorageBasedLockProvider`), but for S3 its client is in `hudi-aws`, which is not among this course's packages.
# > (Hudi's documentation, read November 2026.)

# %% [markdown] tags=["instructor"]
# *For instructors.* Twenty minutes. In 18.2 "different rows" is the answer to wait for: ask what a writer replaces, a
# row or a file. Short of time: leave out the first of the two tries on Merge-on-Read.

# %% [markdown]
# ## Dead or only slow?
#
# With several writers nobody may roll back another's unfinished write just because it is unfinished. But some
# writers really die. How can the others tell? Each writer renews a small file while it works, its
# [**heartbeat**](../docs/glossary.md#heartbeat). By default every 60 seconds; here every second.
#
# Your colleague's process hangs for five seconds: a long garbage collection, a laptop that sleeps. Meanwhile
# you write, with cleaning on. Only cleaning looks for expired heartbeats.
#
# **Predict:** she wakes up and wants to commit what she has written. What happens?

# %%
lab.predict("18.p7", ..., choices=("she commits", "her commit fails", "your write is lost"))

# %%
import time

QUICK = {"hoodie.client.heartbeat.interval_in_ms": "1000"}
STREAM, BACKFILL = STREAM | QUICK, BACKFILL | QUICK
CLEANING = {"hoodie.clean.automatic": "true"}
HER_CODE = "upsert(make_orders(spark, 201, 201, 'paid', 10), table, **options)"

slow = scratch_copy(lab, orders, "slow")
colleague.share(table=slow, options=BACKFILL)
with colleague.frozen_while_writing(slow, HER_CODE) as hers:
    time.sleep(5)
    yours = make_orders(spark, 1, 1, "paid", 11)  # a file that she does not touch
    mine = attempt(upsert, yours, slow, **STREAM, **CLEANING)
print(mine, hers, sep="\n")
lab.xray(slow)

# %%
lab.record_actual("18.p7", "she commits" if hers.outcome == "committed" else "her commit fails")

# %% name="fenced" proof="A writer whose heartbeat has expired is rolled back, and cannot commit when it wakes up."
assert mine.outcome == "committed" and hers.outcome not in ("", "committed")
assert "rollback" in {instant.action for instant in lab.xray(slow).instants}
assert status_of(slow, "O-1", "O-201") == [("O-1", "paid"), ("O-201", "new")]

# %% [markdown]
# Two nets wait for her. Before it commits, a writer looks at its *own* heartbeat: if it was late, others may have
# taken it for dead, and it gives up (`Heartbeat for instant ... has expired`). That is a
# [**fence**](../docs/glossary.md#fence): whoever was declared dead must not act any more. And if her heart happens
# to beat first, right after she wakes up, her file or her instant is missing: `inflight does not exist`. Which it is
# depends on a few milliseconds; the cell shows it. The price of quick clean-ups is that a slow writer loses. By
# default a writer may be silent for two minutes. The one that *cleans* measures this by its own setting, so every writer
# of a table needs the same.
#
# ### Exercise 18.3 · What the dead leave
#
# Now her machine breaks down, in the middle of a write to the table itself.

# %%
colleague.share(table=orders, options=BACKFILL)
with colleague.frozen_while_writing(orders, HER_CODE) as hers:
    colleague.kill(hers)

from lab_env.lessons.table_copies import overlay_table

overlay_table(lab, orders, lab.path("orders_of_the_dead"))  # the check of 18.3 works on copies
abandoned = lab.xray(orders)
abandoned

# %% proof="The killed writer leaves an instant that is not complete, and a data file of it."
assert hers.outcome == "killed" and len(abandoned.uncommitted) == 1
assert abandoned.instants[-1].state == "inflight"

# %% [markdown]
# An instant that stays inflight is not only untidy: it holds up archiving, and the timeline grows.
#
# Hours later, her heartbeat is long silent. Write the function that cleans up a table, whose path it gets. Afterwards nothing of
# her write may be left, neither on the timeline nor in the folders; all 300 orders must still be there; the timeline
# must tell what happened. A write of yours may change one order, and must endanger nobody who is alive. There is more than
# one good way.


# %% exercise="18.3"
def clean_up(table):
    # BEGIN SOLUTION
    from shop_orders import ORDERS

    writer = make_orders(spark, 1, 1, "paid", 30).write.format("hudi").options(**ORDERS)
    writer = writer.options(**STREAM).option("hoodie.clean.automatic", "true")
    writer.mode("append").save(table)
    # END SOLUTION


lab.check("18.3", clean_up)

# %% [markdown] hint="18.3"
# Which of your two writes rolled her back, in the last section and in this one? What did its options have that the
# others had not?

# %% [markdown] hint="18.3"
# A write with the options `STREAM` and `hoodie.clean.automatic`: cleaning after the write finds the expired heartbeat. Or by hand:
# `CALL rollback_to_instant(...)` with the instant that `lab.xray(table)` shows as inflight.


# %% right="18.3"
def clean_up(table):
    (dead,) = [i.requested for i in lab.xray(table).instants if not i.completed]
    name = table.split("/")[-1].replace("-", "_")
    spark.sql(f"CREATE TABLE IF NOT EXISTS {name} USING hudi LOCATION '{table}'")
    spark.sql(f"CALL rollback_to_instant(table => '{name}', instant_time => '{dead}')").collect()


# %% wrong="18.3"
# expect: belongs to no commit now
def clean_up(table):
    from lab_env.store import client

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


# %% [markdown]
# Then the same for the real table, as soon as her heartbeat has been silent for long enough.

# %%
lab.use_reference("18.3")
time.sleep(3)
clean_up(orders)
cleaned = lab.xray(orders, since=abandoned)
cleaned

# %% name="cleaned-up" proof="After your clean-up nothing of the dead write is left, and the timeline has its rollback."
assert not cleaned.uncommitted and all(instant.completed for instant in cleaned.instants)
assert "rollback" in {instant.action for instant in cleaned.new_instants}
assert {file.key for file in abandoned.uncommitted} <= {file.key for file in cleaned.gone_files}

# %% [markdown]
# Never remove a file of the timeline by hand: the data file that it speaks of would stay for ever. And a plain write
# is not enough here, unlike in lesson 17: with several writers only cleaning rolls back. In production that means that at
# least one of the writers must clean.
#
# The backfill is still to be done. Her machine is gone; you write what she would have written, with your
# options, and look at the board on the shop's wall.

# %%
upsert(make_orders(spark, 1, 100, "paid", 40), orders, **BACKFILL)
rows = spark.read.format("hudi").load(orders)
board = rows.groupBy("status").agg(F.count("*").alias("orders"), F.sum("amount").alias("revenue"))
board.orderBy("status").toPandas()

# %% name="board" proof="After all races the table has every order once, and the board is right to the cent."
counted = {row["status"]: (row["orders"], float(row["revenue"])) for row in board.collect()}
assert counted == {"new": (200, 42100.0), "paid": (100, 6050.0)}

# %% [markdown] tags=["instructor"]
# *For instructors.* Fifteen minutes. Ask before 18.3: how does a program know that another one is dead? (It cannot;
# it can only make sure that the other one does no harm.) Common wrong answer of 18.3: to delete the file that shows
# `inflight`. Short of time: leave out the kill, show the X-ray of `slow`, solve 18.3 together.

# %% [markdown]
# ## Key points
#
# - By default Hudi takes another's unfinished write for a dead one, and rolls it back.
# - Optimistic control compares file groups when a writer completes. The first to finish wins; the other one fails and has
#   worked in vain. It needs the mode, a lock provider and one lock for all, **in every writer**.
# - If one writer lacks the options, anything may happen: a living write is rolled back, or both report success and a
#   change is lost.
# - The lock is held for moments, and it does not keep keys unique: two new rows in two new files do not conflict.
# - Divide the work by partition or file group, and there is no conflict. Non-blocking control has none either: Merge-on-Read,
#   simple bucket index, a useful ordering field. It needs the lock, too, for the times of its instants.
# - Cleaning rolls back a writer whose heartbeat has expired. The fence keeps it from committing later.
#
# ## What's next
#
# Two writers, a stream, a backfill, cleaning: who notices when one of them has stopped? Lesson 19 watches the whole.
