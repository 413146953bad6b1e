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
# - remove what a dead writer left, and nothing of a living one (18.3).
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
from shop_orders import ORDERS, make_orders, upsert

orders = lab.path("orders")
number = F.substring("order_id", 3, 9).cast("int")
everything = make_orders(spark, 1, 300, "new")
for half in (0, 50):
    part = everything.where((number - 1) % 100 - half < 50).where((number - 1) % 100 >= half)
    upsert(part, orders, **{"hoodie.parquet.small.file.limit": "0"})

colleague.run("from shop_orders import ORDERS, make_orders, upsert")
