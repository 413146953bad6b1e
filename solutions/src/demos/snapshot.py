# ---
# title: Who sees my update?
# lesson: "09"
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Demo · Who sees my update?
#
# The **snapshot** query: all that is complete, logs merged in.
#
# ## Prepare
#
# Three orders in two partitions, on a Merge-on-Read table.

# %%
import pandas as pd

from lab_env import Lab
from lab_env.pipeline.options import KEYS, DEMO_OPTIONS

lab = Lab.start("demo-snapshot")
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
# A reader holds a DataFrame of this table. Then order **A is paid**.
#
# **Where is the new value, and who sees it?**

# %% [markdown] tags=["instructor"]
# *0:00 to 1:00.* **Ask:** "I update A. Which file holds the new value?" Hands for: a new Parquet file;
# the old Parquet file, changed; something else. Most hands go up for a new Parquet file.
#
# **Common error:** expecting a new Parquet file. That is Copy-on-Write. Here the update is a row in a log.

# %% [markdown]
# ## The decisive moment
#
# Watch the files of the table while A is paid.

# %% name="decisive"
held = spark.read.format("hudi").load(path)  # a reader opens the table, and then A is paid

paid = orders("('A', 40, 'paid', '11:00', '2026-11-20')")
paid.write.format("hudi").options(**TABLE).mode("append").save(path)

after = lab.xray(path, since=before)
after

# %% proof="The write made one log and no base file."
assert [file.kind for file in after.new_files] == ["log"]


# %%
def status(rows):
    return rows.select("order_id", "status").toPandas().set_index("order_id")["status"]


snapshot = spark.read.format("hudi").load(path)
seen = pd.DataFrame({"snapshot, loaded now": status(snapshot)}).sort_index()
seen

# %% proof="The snapshot has the payment of A."
assert list(seen["snapshot, loaded now"]) == ["paid", "new", "new"]

# %% [markdown] tags=["instructor"]
# *1:00 to 3:00.* Run both cells. Point at the one new file in the X-ray: a log, beside a base file that
# nobody touched. The reader merged the two. Then stop, and ask about the reader that was there first.

# %% [markdown]
# ## The twist
#
# And the reader that opened the table **before** the write?

# %%
seen["held since before"] = status(held)
seen

# %% proof="The reader that was open before still sees A as new."
assert seen.loc["A", "held since before"] == "new"

# %% [markdown]
# ## In one sentence
#
# A snapshot is what was complete **when the table was loaded**. Load again to see more.

# %% [markdown] tags=["instructor"]
# *3:00 to 5:00.* Let people guess before the last cell runs. **Say:** "A snapshot is what was complete
# when the table was loaded." A dashboard that keeps its DataFrame for a day shows yesterday.
#
# If somebody asks: the old base file will be removed by cleaning some day, and then the held DataFrame
# fails. Lesson 07 shows it.
