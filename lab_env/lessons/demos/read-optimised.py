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
before

# %% [markdown]
# ## The question
#
# **One** commit moves 15 from A to a new order C: A goes from 40 to 25, C is new with 15. C lies in another
# partition. The total was 135, and it stays 135.
#
# **Which total does the cheap query give?**

# %% [markdown] tags=["instructor"]
# *0:00 to 1:00.* **Ask:** "135 before, 135 after. What does the cheap query say?" Hands for 135 and for
# something else. Ask those who say "something else" for a number. Hardly anybody has one.
#
# **Common error:** "the table as of the last compaction, so 135". There was no compaction here at all, and yet
# the query will see something new.

# %% [markdown]
# ## The decisive moment
#
# Watch the files of both partitions. Then we ask both queries.

# %%
batch = orders("""
    ('A', 25, 'new', '11:00', '2026-11-20'),
    ('C', 15, 'new', '11:00', '2026-11-21')
""")
batch.write.format("hudi").options(**TABLE).mode("append").save(path)
after = lab.xray(path, since=before)
after


# %% name="decisive"
def compare():
    """The amount of each order and the total, by both queries."""
    rows = {
        "snapshot": spark.read.format("hudi").load(path),
        "read-optimised": spark.read.format("hudi")
        .option("hoodie.datasource.query.type", "read_optimized")
        .load(path),
    }
    amounts = {
        query: found.select("order_id", "amount").toPandas().set_index("order_id")["amount"]
        for query, found in rows.items()
    }
    table = pd.DataFrame(amounts).sort_index()
    table.loc["total"] = table.sum()
    return table


answers = compare()
answers

# %% proof="The snapshot's total is 135; the read-optimised query counts 15 twice."
assert list(answers["snapshot"]) == [25, 25, 15, 70, 135]
assert list(answers["read-optimised"]) == [40, 25, 15, 70, 150]

# %% [markdown] tags=["instructor"]
# *1:00 to 3:00.* Run the write, then the comparison. 150: the shop never had that. Row A shows the old amount,
# row C is there: **half a commit**. Go back to the X-ray and ask why. On the 20th the update is a log, which
# the cheap query does not open. On the 21st the new order C went into the small base file, so that file was
# written anew. With a bucket index of one bucket per partition C would be in a log, too, and the cheap total
# would be the old 135.

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
