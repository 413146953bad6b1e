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
# The **snapshot** query: all completed commits, with logs merged in.
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
spark.sql(f"CREATE TABLE orders USING hudi LOCATION '{path}'")
before = lab.xray(path)
before

# %% [markdown]
# ## The question
#
# Order **A is paid**.
#
# **Which file holds the new value?** A new Parquet file, the old one, or something else?

# %% [markdown] tags=["instructor"]
# *0:00 to 1:00.* **Ask:** "I update A. Which file holds the new value?" Hands for: a new Parquet file;
# the old Parquet file, changed; something else. Most hands go up for a new Parquet file. Ask nothing about
# readers yet.
#
# **Common error:** expecting a new Parquet file. That is Copy-on-Write. Here the update is a row in a log.

# %% [markdown]
# ## The decisive moment
#
# Watch the files of the table while A is paid. Another reader has just opened it.

# %% name="decisive"
held = spark.read.format("hudi").load(path)  # another reader

paid = orders("('A', 40, 'paid', '11:00', '2026-11-20')")
paid.write.format("hudi").options(**TABLE).mode("append").save(path)

after = lab.xray(path, since=before)
after

# %% proof="The write made one log and no base file."
assert [file.kind for file in after.new_files] == ["log"]

# %%
(log,) = after.new_files
in_the_log = spark.sql(f"""
    CALL show_logfile_records(table => 'orders', limit => 10,
                              log_file_path_pattern => '{path}/*/{log.name}')
""")
fields = [f"get_json_object(records, '$.{name}') AS {name}" for name in ("order_id", "status")]
in_the_log.selectExpr(*fields).toPandas()

# %% proof="The log holds one row, the paid A."
assert in_the_log.selectExpr(*fields).collect() == [("A", "paid")]

# %% [markdown] tags=["instructor"]
# *1:00 to 3:00.* Run both cells. Point at the one new file in the X-ray: a log, beside a base file that
# nobody touched. Then its one row. **Ask** the second question, and take the second vote: "Two readers, one
# loads the table now, one has had it open since before. Who sees *paid*?"

# %% [markdown]
# ## The twist
#
# Two readers: one loads the table **now**, the other has held it since **before** the write. **Who sees the payment?**


# %%
def status(rows):
    return rows.select("order_id", "status").toPandas().set_index("order_id")["status"]


readers = {"loaded now": spark.read.format("hudi").load(path), "held since before": held}
seen = pd.DataFrame({name: status(rows) for name, rows in readers.items()}).sort_index()
seen

# %% proof="The snapshot has the payment of A; the reader that was open before does not see it."
assert list(seen["loaded now"]) == ["paid", "new", "new"]
assert seen.loc["A", "held since before"] == "new"

# %% [markdown]
# ## In one sentence
#
# A snapshot is what was complete **when the table was loaded**. Load again to see more.

# %% [markdown] tags=["instructor"]
# *3:00 to 5:00.* Let people guess before the last cell runs. **Say:** "A snapshot is what was complete
# when the table was loaded." A dashboard that keeps its DataFrame for a day shows yesterday.
#
# If somebody asks: after a compaction the cleaner will remove the old base file some day. Then the held DataFrame
# fails or, if it has not run yet, finds no row, without an error. Lesson 07 shows both.
