# ---
# title: What does the cheap query see?
# lesson: "09"
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Demo · What does the cheap query see?
#
# The **read-optimised** query: base files only, no merging.
#
# ## Prepare
#
# Three orders in two partitions, on a Merge-on-Read table.

# %%
import pandas as pd

from lab_env import Lab
from lab_env.pipeline.options import KEYS, DEMO_OPTIONS

lab = Lab.start("demo-read-optimised")
spark = lab.spark
path = lab.path("orders")

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
before

# %% [markdown]
# ## The question
#
# **One** commit, two partitions: A and B are paid, and C is new. C lies in B's partition.
#
# **Which of the three changes does the cheap query see?**

# %% [markdown] tags=["instructor"]
# *0:00 to 1:00.* **Ask:** "One commit, two partitions: what does the cheap query see?" Hands for: all of
# it; nothing of it; a part. Ask those who say "a part" which part. Hardly anybody will know.
#
# **Common error:** "the table as of the last compaction". There was no compaction here at all, and yet
# the query will see something new.

# %% [markdown]
# ## The decisive moment
#
# Watch the files of both partitions. Then we ask both queries.

# %%
batch = orders("""
    ('A', 40, 'paid', '11:00', '2026-11-20'),
    ('B', 25, 'paid', '11:00', '2026-11-21'),
    ('C', 15, 'new',  '11:00', '2026-11-21')
""")
batch.write.format("hudi").options(**TABLE).mode("append").save(path)
after = lab.xray(path, since=before)
after


# %% name="decisive"
def compare():
    """The status of each order, by both queries."""
    rows = {
        "snapshot": spark.read.format("hudi").load(path),
        "read-optimised": spark.read.format("hudi")
        .option("hoodie.datasource.query.type", "read_optimized")
        .load(path),
    }
    status = {
        query: found.select("order_id", "status").toPandas().set_index("order_id")["status"]
        for query, found in rows.items()
    }
    return pd.DataFrame(status).sort_index()


answers = compare()
answers

# %% proof="The snapshot shows both payments, the read-optimised query one."
assert list(answers["snapshot"]) == ["paid", "paid", "new", "new"]
assert list(answers["read-optimised"]) == ["new", "paid", "new", "new"]

# %% [markdown] tags=["instructor"]
# *1:00 to 3:00.* Run the write, then the comparison. Row A: the two answers differ. Row B: they agree,
# and C is there. So the cheap query shows **half a commit**. Go back to the X-ray and ask why. On the
# 20th the update is a log, which the cheap query does not open. On the 21st the new order C went into
# the small base file, so that base file was written anew, and B's update with it.

# %% [markdown]
# ## The twist
#
# Compact the table: the log becomes a base file.

# %%
options = ",".join(f"{name}={value}" for name, value in DEMO_OPTIONS.items())
spark.sql(f"""
    CALL run_compaction(op => 'scheduleandexecute', path => '{path}',
                        options => '{options},hoodie.compact.inline.max.delta.commits=1')
""")
answers = compare()
answers

# %% proof="After the compaction both queries agree."
assert list(answers["read-optimised"]) == list(answers["snapshot"])

# %% [markdown]
# ## In one sentence
#
# Read-optimised means the newest **base file of each file group**: fast, and possibly a state of the
# table that never existed.

# %% [markdown] tags=["instructor"]
# *3:00 to 5:00.* The compaction changes no answer of the snapshot, only the cheap one. **Say:** "The
# newest base file of each group: fast, and possibly a state that never existed." A sum over it mixes
# two commits, so it suits trends, not invoices.
