# ---
# title: What did A cost before?
# lesson: "10"
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Demo · What did A cost before?
#
# **Time travel**: the table as of an earlier moment.
#
# ## Prepare
#
# Three orders on a Copy-on-Write table, which also has a name in SQL.

# %%
import pandas as pd

from lab_env import Lab
from lab_env.lessons.l10.shop import read_during, slowly
from lab_env.pipeline.options import KEYS, DEMO_OPTIONS

lab = Lab.start("demo-time-travel")
spark = lab.spark
path = lab.path("orders")

# %%
TABLE = (
    KEYS
    | DEMO_OPTIONS
    | {
        "hoodie.table.name": "orders",
        "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
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
lab.xray(path)

# %% [markdown]
# ## The question
#
# A is paid. Then a bad batch sets every amount to **zero**. It takes its time, and a reader asks in the middle of it.
#
# **What did A cost before?**

# %% [markdown] tags=["instructor"]
# *0:00 to 1:00.* **Ask:** "What did A cost before the bad batch, and where would you look?" People name
# the backup, the stream, the source. Then: "What if the table still knows?" **Run the next
# cell now**: the two writes took 7 s on two busy cores.
#
# **Common error:** `VERSION AS OF`. Spark has it for other formats; Hudi refuses it.

# %%
paid = orders("('A', 40, 'paid', '11:00', '2026-11-20')")
zeros = orders("""
    ('A', 0, 'paid', '12:00', '2026-11-20'),
    ('B', 0, 'new',  '12:00', '2026-11-21'),
    ('D', 0, 'new',  '12:00', '2026-11-20')
""")
paid.write.format("hudi").options(**TABLE).mode("append").save(path)
bad_batch = slowly(zeros).write.format("hudi").options(**TABLE).mode("append")


def a_for_a_reader():
    found = spark.read.format("hudi").load(path).where("order_id = 'A'")
    return found.select("order_id", "amount", "status").toPandas()


a_reader_got = read_during(lab, path, bad_batch, a_for_a_reader)

history = lab.xray(path)
created, paid, bad = history.instants
history

# %% [markdown]
# ## The decisive moment
#
# One clause asks the table as of the instant of the payment.


# %% name="decisive"
def a_costs(as_of=""):
    query = f"SELECT order_id, amount, status FROM orders {as_of} WHERE order_id = 'A'"
    return spark.sql(query).toPandas()


now = a_costs()
before = a_costs(f"TIMESTAMP AS OF '{paid.requested}'")
pd.concat({"now": now, "as of the payment": before}).droplevel(1)

# %% proof="As of the payment A costs 40; now it costs 0."
assert (now["amount"][0], before["amount"][0]) == (0, 40)

# %% [markdown] tags=["instructor"]
# *1:00 to 3:00.* One clause, and the old amount is back. In the X-ray find the slice that this query
# read: the dashed frame of the 20th that begins at the instant of the payment. Copy-on-Write kept it
# when it wrote the zeros into a new file.

# %% [markdown]
# ## The twist
#
# Each instant has two times: **requested** and **completed**. Between those of the bad batch nobody could read it: a
# reader got 40. **Time travel to that moment: 40 or 0?**

# %%
between = str(int(bad.requested) + 1)  # one millisecond after the request
unseen = a_costs(f"TIMESTAMP AS OF '{between}'")
moments = {"a reader got, in between": a_reader_got, "as of that moment, asked now": unseen}
pd.concat(moments).droplevel(1)

# %% proof="A reader between the two times got 40; as of that moment the table now says 0."
assert bad.requested < between < bad.completed
assert (a_reader_got["amount"][0], unseen["amount"][0]) == (40, 0)

# %% [markdown]
# ## In one sentence
#
# History is **requested** time: what time travel shows for a moment is not always what a reader saw at that moment.

# %% [markdown] tags=["instructor"]
# *3:00 to 5:00.* Zero, although the reader in the middle of the batch got 40: it had not been completed. Time
# travel compares requested times. **Say:** "History is requested
# time." If somebody asks how far back it goes: to the earliest commit that the cleaner retained, and that is a setting,
# so ask the group what theirs is. Lessons 07 and 10.
