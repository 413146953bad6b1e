# ---
# title: How many rows since then?
# lesson: "11"
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Demo · How many rows since then?
#
# The **incremental** query: what changed since a bookmark.
#
# ## Prepare
#
# Three orders in two partitions, on a Merge-on-Read table. The first write is our bookmark.

# %%
from lab_env import Lab
from lab_env.pipeline.options import KEYS, DEMO_OPTIONS

lab = Lab.start("demo-incremental")
spark = lab.spark
path = lab.path("orders")

# %%
TABLE = (
    KEYS
    | DEMO_OPTIONS
    | {
        "hoodie.table.name": "orders",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.compact.inline": "false",  # no compaction until we ask for one
        "hoodie.index.bloom.num_entries": "1000",  # a filter of the keys that fits small files
    }
)


def orders(rows):
    return spark.sql(f"""
        SELECT order_id, CAST(amount AS DECIMAL(12,2)) AS amount, status, partition_date,
               TIMESTAMP(concat('2026-11-21 ', at)) AS order_ts
        FROM VALUES {rows} AS t(order_id, amount, status, at, partition_date)
    """)


# %%
created = orders("""
    ('A', 40, 'new', '10:00', '2026-11-20'),
    ('B', 25, 'new', '10:00', '2026-11-21'),
    ('D', 70, 'new', '10:00', '2026-11-20')
""")
created.write.format("hudi").options(**TABLE).mode("append").save(path)
before = lab.xray(path)
(first,) = before.instants
before

# %% [markdown]
# ## The question
#
# Since the first write: A is paid, A is shipped, N is new, and B is deleted.
#
# **How many rows does the incremental query give?**

# %% [markdown] tags=["instructor"]
# *0:00 to 1:00.* **Ask:** "Four changes since the bookmark. How many rows?" Hands for 4, 3, 2. Write the
# votes down. **Run the next cell now**, meanwhile: the three writes took 5 s on two busy cores.
#
# **Common error:** four rows, one for each change. That is a change feed, another query.

# %%
paid = orders("('A', 40, 'paid', '11:00', '2026-11-20')")
shipped = orders(
    "('A', 45, 'shipped', '12:00', '2026-11-20'), ('N', 30, 'new', '12:00', '2026-11-21')"
)
erased = orders("('B', 25, 'new', '13:00', '2026-11-21')")

for rows, operation in ((paid, "upsert"), (shipped, "upsert"), (erased, "delete")):
    (
        rows.write.format("hudi")
        .options(**TABLE)
        .option("hoodie.datasource.write.operation", operation)
        .mode("append")
        .save(path)
    )

# %% [markdown]
# ## The decisive moment
#
# The bookmark is the completion time of the first write.


# %% name="decisive"
def since(moment):
    found = (
        spark.read.format("hudi")
        .option("hoodie.datasource.query.type", "incremental")
        .option("hoodie.datasource.read.begin.instanttime", moment)
        .load(path)
    )
    return found.select("order_id", "amount", "status").orderBy("order_id").toPandas()


changed = since(first.completed)
changed

# %% proof="The increment has the two orders that changed and are still there."
assert list(changed["order_id"]) == ["A", "N"] and changed["status"][0] == "shipped"

# %%
lab.xray(path, since=before)

# %% [markdown] tags=["instructor"]
# *1:00 to 3:00.* Two rows. A comes once, with its latest value: the step *paid* is not there. N is there.
# B's delete is **not** there. In the X-ray count the new instants on the timeline: three deltacommits, two
# rows.

# %% [markdown]
# ## The twist
#
# Each instant has two times: when it was **requested** and when it was **completed**. What if the
# bookmark is the other one?

# %%
from lab_env.platform.display.card import styled

twice = since(first.requested)
again = ~twice["order_id"].isin(changed["order_id"])
styled(twice).apply(lambda column: again.map({True: "background: gold; color: black", False: ""}))

# %% proof="By the requested time, D is delivered again."
assert list(twice["order_id"]) == ["A", "D", "N"]

# %% [markdown]
# ## In one sentence
#
# The newest version of each row that changed in a window of **completion** times: no deletes, no steps between.

# %% [markdown] tags=["instructor"]
# *3:00 to 5:00.* D did not change since the first write, and here it is again: the window begins before
# the first write was complete. The column `_hoodie_commit_time` holds the requested time, so
# `max(_hoodie_commit_time)` is this very mistake. **Say:** "The newest version of each row that changed in a window of
# completion times; no deletes, no steps between."
