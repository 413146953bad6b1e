# ---
# title: What exactly changed, and what is the total now?
# minutes: {teach: 30, do: 20}
# needs: ["05", "11"]
# services: [minio, kafka]
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 12 · What exactly changed, and what is the total now?
#
# ## Questions
#
# - An order was cancelled, another erased. How does a total further down hear of it?
# - Which changes does an incremental query not tell?
# - What does a change feed cost, who pays, and how long does it last?
#
# ## Objectives
#
# At the end of this lesson you can
#
# - put together one row's life from its changes (12.1),
# - keep a total right by changes only, through cancellations and erasures (12.2),
# - begin each run where the last one ended, so that every change counts once (12.3).
#
# ## What you need
#
# Lesson 05: base files, log files and what a write does to them. Lesson 11: the incremental query. Fifty
# minutes.

# %% [markdown]
# ## Start
#
# The cells start the lab, and write 1,000 orders into two tables. Run them, and read on while they work.

# %%
from lab_env import Lab
from lab_env.pipeline.options import DEMO_OPTIONS
from pyspark.sql import functions as F
import pandas as pd

lab = Lab.start("12")
spark = lab.spark


def orders(which, status, at, cents="500 + pmod(hash(id, 7), 20000)", customer="pmod(id, 20)"):
    """Orders as a DataFrame. The amount stands there twice: as a decimal, and in whole cents."""
    return spark.sql(f"""
        SELECT 'O-' || id AS order_id, 'C-' || ({customer}) AS customer_id, '{status}' AS status,
               CAST({cents} AS BIGINT) AS cents, CAST(({cents}) / 100 AS DECIMAL(12,2)) AS amount,
               to_timestamp('2026-11-20 {at}') AS order_ts, '2026-11-20' AS partition_date,
               '{status}' = 'erased' AS _hoodie_is_deleted
        FROM range(1, 1101, 1, 1) WHERE {which}
    """)


ORDERS = DEMO_OPTIONS | {
    "hoodie.table.name": "orders",
    "hoodie.table.cdc.enabled": "true",  # the change feed: choose it when you create the table
    "hoodie.datasource.write.recordkey.field": "order_id",
    "hoodie.table.ordering.fields": "order_ts",
    "hoodie.datasource.write.partitionpath.field": "partition_date",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.index.bloom.num_entries": "1000",  # the default makes room for 60,000 keys a file
}
OPTIONS = {
    "cow": ORDERS | {"hoodie.datasource.write.table.type": "COPY_ON_WRITE"},
    "mor": ORDERS
    | {
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.compact.inline": "false",  # else the fifth write would compact as well
    },
}
TABLES = {"cow": lab.path("orders_cow"), "mor": lab.path("orders_mor")}
pictures = {"cow": [], "mor": []}


def write(rows, *kinds):
    """Upsert rows into these tables, and keep an X-ray of each."""
    for kind in kinds:
        rows.write.format("hudi").options(**OPTIONS[kind]).mode("append").save(TABLES[kind])
        before = pictures[kind][-1] if pictures[kind] else None
        pictures[kind].append(lab.xray(TABLES[kind], since=before))


write(orders("id <= 1000", "new", "10:00"), "cow", "mor")

# %% [markdown]
# [**Change data capture**](../docs/glossary.md#change-data-capture) (CDC) means: a table tells not only
# what it says now, but each change that led there. Hudi calls it a
# [**CDC query**](../docs/glossary.md#cdc-query). We call what it returns the [**change feed**](../docs/glossary.md#change-feed)
# of the table.
# It has one row for each change of a row, with the row *before* and the row *after*.
#
# The feed has to be switched on when the table is created, by `hoodie.table.cdc.enabled`.

# %% [markdown]
# ## One change, two images
#
# Ten orders are paid, O-17 among them. Each customer took gift wrap, so each amount rises by 2.50.
#
# **Predict:** in lesson 05 such an update made one new data file in a Copy-on-Write table: a base file.
# How many will it make in a table with a change feed? A number.

# %%
lab.predict("12.p1", ..., tolerance=0)

# %%
WRAPPED = "750 + pmod(hash(id, 7), 20000)"
write(orders("id BETWEEN 11 AND 20", "paid", "11:00", WRAPPED), "cow", "mor")
pictures["cow"][-1]

# %% name="cdc-file"
made = {kind: {file.kind: file.size for file in pictures[kind][-1].new_files} for kind in TABLES}
print(made)
lab.record_actual("12.p1", len(made["cow"]))

# %% proof="The update wrote a base file and a small cdc file on Copy-on-Write, a log on Merge-on-Read."
assert set(made["cow"]) == {"base", "cdc"} and set(made["mor"]) == {"log"}
assert made["cow"]["base"] > 4 * made["cow"]["cdc"]

# %% [markdown]
# Two: the base file, and beside it a small file whose name ends in `.cdc`. In the picture it is the light
# blue strip. It holds the ten changes, each with the row before and after. A snapshot query does not read
# it.
#
# The Merge-on-Read table made a log and nothing else. Its feed is put together from base file and logs by
# the one who reads it.
#
# Now the query. It is an incremental query with one more option, and it takes a beginning: the feed
# returns the changes of all commits *after* it. We ask for all after the first commit.


# %%
CDC = {
    "hoodie.datasource.query.type": "incremental",
    "hoodie.datasource.query.incremental.format": "cdc",
}


def feed(kind, begin):
    """The changes of all commits after `begin`, as the CDC query returns them."""
    reader = spark.read.format("hudi").options(**CDC)
    return reader.option("hoodie.datasource.read.begin.instanttime", begin).load(TABLES[kind])


first = {kind: pictures[kind][0].instants[0].requested for kind in TABLES}

of_o17 = F.get_json_object("after", "$.order_id") == "O-17"
raw = {kind: feed(kind, first[kind]).where(of_o17).cache() for kind in TABLES}
for kind in TABLES:
    change = raw[kind].first()
    print(f"{kind}  op: {change.op}  ts_ms: {change.ts_ms}")
    print("  before:", change.before)
    print("  after: ", change.after, "\n")

# %% [markdown]
# The row has four columns:
#
# | column | what it says |
# |---|---|
# | `op` | `i` for an insert, `u` for an update, `d` for a delete |
# | `ts_ms` | the requested time of the commit, digits from year to millisecond |
# | `before` | the whole row before the change, as JSON text |
# | `after` | the whole row after it |
#
# `before` and `after` are called the [**images**](../docs/glossary.md#image) of the row. They are text,
# and the text needs care. Look at `amount`. The table says:

# %% name="money-in-the-feed"
o17 = spark.read.format("hudi").load(TABLES["cow"]).where("order_id = 'O-17'").first()
look = (
    "get_json_object(after, '$.amount') AS text",
    "from_json(after, 'amount DECIMAL(12,2), cents BIGINT') AS parsed",
)
in_feed = {kind: raw[kind].selectExpr(*look).first() for kind in TABLES}
print("in the table:", o17.amount, "and", o17.cents, "cents")
for kind, image in in_feed.items():
    print(f"in the feed of {kind}: amount is {image.text}, parsed: {image.parsed}")

# %% proof="In the images the amount cannot be parsed; the cents can."
assert all(image.parsed.amount is None for image in in_feed.values())  # and no error
assert all(image.parsed.cents == o17.cents for image in in_feed.values())
assert in_feed["mor"].text == '{"zero":false}'

# %% [markdown]
# **The feed loses decimals.** On Copy-on-Write the image has the bytes of the number, one by one. On
# Merge-on-Read it has no number at all. Parsed as a decimal, both give NULL, and nothing fails. A total
# of such amounts would be empty, and no error would say why. Hudi's authors know the bug as
# [number 8616](https://github.com/apache/hudi/issues/8616), open in November 2026.
#
# Whole cents in a `BIGINT` arrive as they are. So our orders have them, too. **Before you build on a feed,
# look at one image of each column that you need.**
#
# A second care: an insert has no image before, and a delete none after. Parsing makes of that sometimes
# NULL and sometimes a row of NULLs, as we shall see. So `parsed` asks for the key.


# %%
IMAGE = "order_id STRING, customer_id STRING, status STRING, cents BIGINT"


def parsed(changes):
    """The same changes with images as columns; an image that is not there is NULL."""
    for image in ("before", "after"):
        row = F.from_json(image, IMAGE)
        changes = changes.withColumn(image, F.when(row["order_id"].isNotNull(), row))
    return changes


parsed(raw["cow"]).show(truncate=False)

# %% [markdown]
# ## What the incremental query does not tell
#
# Three more writes, into both tables:
#
# | write | what happens |
# |---|---|
# | a cancel and a new order | O-12 is cancelled; O-1001 comes in |
# | a late event | *reserved* at 10:30 for O-17 and O-18, which were paid at 11:00: it loses |
# | two erasures | O-13, and O-1001 that came in a moment ago |
#
# **Predict:** with the ten payments these are four commits. How many change rows will the feed have? A number; one
# more or less counts, too.

# %%
lab.predict("12.p2", ..., tolerance=1)

# %%
cancelled = orders("id = 12", "cancelled", "11:30", WRAPPED)
write(cancelled.union(orders("id = 1001", "new", "11:30")), "cow", "mor")
write(orders("id IN (17, 18)", "reserved", "10:30"), "cow", "mor")
write(orders("id IN (13, 1001)", "erased", "12:00"), "cow", "mor")

# %% name="same-feed"
feeds = {kind: feed(kind, first[kind]).cache() for kind in TABLES}  # asked again below
changes = parsed(feeds["cow"]).cache()
commits = [instant.requested for instant in pictures["cow"][-1].instants]
by_commit = changes.groupBy("ts_ms").pivot("op", ["i", "u", "d"]).count().toPandas()
by_commit = by_commit.set_index("ts_ms").reindex(commits[1:]).fillna(0).astype(int)
by_commit.index = ["payments", "cancel and new order", "late event", "erasures"]

same = ("op", "before", "after")
of_cow = sorted(str(row) for row in changes.select(*same).collect())
lab.record_actual("12.p2", len(of_cow))

# %% proof="Both tables' feeds agree: ten updates, a cancellation, a new order and two erasures."
of_mor = sorted(str(row) for row in parsed(feeds["mor"]).select(*same).collect())
assert of_cow == of_mor
assert by_commit.to_numpy().tolist() == [[0, 10, 0], [1, 1, 0], [0, 0, 0], [0, 0, 2]]

# %%
by_commit

# %% [markdown]
# Fourteen, and the same on both table types. The late event has no row, because it changed nothing. The
# same, that is, after `parsed`. The text of an image that is not there differs:

# %% name="no-image"
images = {}
for kind in TABLES:
    erasures = feeds[kind].where("op = 'd'")
    images[kind] = erasures.select("after", F.from_json("after", IMAGE).alias("row")).collect()
    seen = images[kind][0]
    print(f"{kind}: after is {seen.after!r}, parsed without care: {seen.row}")

# %% proof="A missing image is the text null on Copy-on-Write and a null on Merge-on-Read."
assert {image.after for image in images["cow"]} == {"null"} and images["cow"][0].row is not None
assert {image.after for image in images["mor"]} == {None} and images["mor"][0].row is None

# %% [markdown]
# And the incremental query of lesson 11? It takes its beginning as a *completion* time. We ask it for the
# same four commits, and set its answer beside the feed.

# %% name="missed"
since = pictures["cow"][0].instants[0].completed
latest = (
    spark.read.format("hudi")
    .option("hoodie.datasource.query.type", "incremental")
    .option("hoodie.datasource.read.begin.instanttime", since)
    .load(TABLES["cow"])
)
increment = {row.order_id: row.status for row in latest.collect()}
steps = {}
for row in changes.orderBy("ts_ms").collect():
    order = (row.after or row.before).order_id
    steps.setdefault(order, []).append(f"{row.op}: {row.after.status if row.after else 'gone'}")

stories = {
    "O-17": "paid, then a late event",
    "O-12": "paid, then cancelled",
    "O-13": "paid, then erased",
    "O-1001": "came in, then erased",
}
told = pd.DataFrame(
    {
        "what happened": stories,
        "incremental query": {order: increment.get(order, "nothing") for order in stories},
        "change feed": {order: ", ".join(steps[order]) for order in stories},
    }
)
told

# %% proof="The increment has nine rows; the feed has all fourteen changes, erasures among them."
assert len(increment) == 9 and sum(len(found) for found in steps.values()) == 14
assert list(told["incremental query"]) == ["paid", "cancelled", "nothing", "nothing"]
assert list(told["change feed"]) == [
    "u: paid",
    "u: paid, u: cancelled",
    "u: paid, d: gone",
    "i: new, d: gone",
]

# %% [markdown]
# The incremental query delivered nine rows: the newest version of each row that changed and is still there.
# It does not tell
#
# - **erasures**: O-13 and O-1001 are not there, so it has no row for them,
# - **steps between**: that O-12 was paid before it was cancelled,
# - **what was before**: how much O-17 was worth, so that a total could take it off.
#
# For a copy of the table that nobody erases from, the newest version is enough. For a total it is not.
#
# ### Exercise 12.1 · One order's life
#
# Write a function that puts together one order's life. It gets parsed changes, as `changes` has them, and
# an `order_id`. It returns a list of the order's states: first the status *before* the first change, then
# the status after each change. Where the order is not there, the state is `None`. The rows of a feed come
# in any order.
#
# For O-12 that is `["new", "paid", "cancelled"]`.


# %% exercise="12.1"
def life(changes, order_id):
    # BEGIN SOLUTION
    either = F.coalesce("after.order_id", "before.order_id")
    rows = changes.where(either == order_id).orderBy("ts_ms").collect()
    start = rows[0].before.status if rows[0].before else None
    return [start] + [row.after.status if row.after else None for row in rows]
    # END SOLUTION


lab.check("12.1", life)

# %% [markdown] hint="12.1"
# In which image do you find the id of an erased order? And of a new one?

# %% [markdown] hint="12.1"
# `F.coalesce("after.order_id", "before.order_id")` finds the id in both cases. Sort by `ts_ms`. The first
# row's `before` is where the life in this window begins.


# %% right="12.1"
def life(changes, order_id):
    frame = changes.selectExpr(
        "coalesce(after.order_id, before.order_id) AS id", "ts_ms",
        "before.status AS was", "after.status AS became",
    ).toPandas()  # fmt: skip
    rows = frame[frame["id"] == order_id].sort_values("ts_ms")
    return pd.concat([rows["was"].head(1), rows["became"]])


# %% wrong="12.1"
# expect: an erasure has no image after
def life(changes, order_id):
    rows = changes.where(F.col("after.order_id") == order_id).orderBy("ts_ms").collect()
    start = rows[0].before.status if rows[0].before else None
    return [start] + [row.after.status for row in rows]


# %% wrong="12.1"
# expect: The rows of a feed come in no order
def life(changes, order_id):
    either = F.coalesce("after.order_id", "before.order_id")
    rows = changes.where(either == order_id).collect()
    start = rows[0].before.status if rows[0].before else None
    return [start] + [row.after.status if row.after else None for row in rows]


# %% wrong="12.1"
# expect: its state before the first change
def life(changes, order_id):
    either = F.coalesce("after.order_id", "before.order_id")
    rows = changes.where(either == order_id).orderBy("ts_ms").collect()
    return [row.after.status if row.after else None for row in rows]


# %% [markdown] tags=["instructor"]
# *For instructors.* Twenty-five minutes to here. Let people guess the number of change rows and name them on
# the board, commit by commit; most give the late event two rows. In 12.1 the filter on `after` alone is the
# usual slip: draw a change row as two boxes, and let people cross out the box that an insert lacks, and the one that
# a delete lacks. Expect the question whether `before` of one change always equals `after` of the one before
# it: in one table yes, and it is a good test of a feed.

# %% [markdown]
# ## A total kept by changes
#
# The finance team wants the revenue of each customer. It counts all orders that are not cancelled.
# The plain way is to read the whole table each time, a
# [**full recompute**](../docs/glossary.md#full-recompute). Here it is, as of the first commit:


# %%
def full_recompute(table):
    """Revenue of each customer, from all orders."""
    counted = table.where("status <> 'cancelled'")
    return counted.groupBy("customer_id").agg(F.sum("cents").alias("cents"))


at_first = spark.read.format("hudi").option("as.of.instant", first["cow"]).load(TABLES["cow"])
old = full_recompute(at_first).withColumn("upto", F.lit(first["cow"])).cache()

REVENUE = DEMO_OPTIONS | {
    "hoodie.table.name": "revenue",
    "hoodie.datasource.write.recordkey.field": "customer_id",
    "hoodie.index.bloom.num_entries": "1000",
}
revenue = lab.path("revenue")
old.write.format("hudi").options(**REVENUE).mode("append").save(revenue)
old.orderBy("customer_id").show(3)

# %% [markdown]
# The result is a table of its own, `revenue`, with a row for each of the twenty customers. The column
# `upto` says up to which commit of the orders the row counts. We need it soon.
#
# From now on `revenue` shall follow **by changes only**: no more reading of all orders.
#
# ### Exercise 12.2 · By how much does each customer's revenue change?
#
# Write a function that gets parsed changes and returns a DataFrame of Spark with `customer_id` and `cents`, one row
# per customer: what is to be added to the customer's revenue (less than 0 where it falls). An order that is cancelled
# or erased is worth nothing. The check adds your answer to the old revenue, and compares with a full recompute of
# today's table. The job below goes on with your function.


# %% exercise="12.2"
def deltas(changes):
    # BEGIN SOLUTION
    def worth(image):
        counts = F.col(f"{image}.status") != "cancelled"
        return F.when(counts, F.col(f"{image}.cents")).otherwise(0)

    taken_off = changes.select("before.customer_id", (-worth("before")).alias("cents"))
    put_on = changes.select("after.customer_id", worth("after").alias("cents"))
    both = taken_off.union(put_on).where("customer_id IS NOT NULL")
    return both.groupBy("customer_id").agg(F.sum("cents").alias("cents"))
    # END SOLUTION


lab.check("12.2", deltas)

# %% [markdown] hint="12.2"
# An update takes the old worth off and puts the new worth on. What does an insert do, and what a delete, if you
# say it in the same way?

# %% [markdown] hint="12.2"
# Make two DataFrames with `customer_id` and `cents`: one from `before` with a minus, one from `after`. Their
# union, summed for each customer, is the answer. What is a cancelled image worth in each?


# %% right="12.2"
def deltas(changes):
    changes.createOrReplaceTempView("feed_rows")
    return spark.sql("""
        SELECT image.customer_id, CAST(sum(sign * image.cents) AS BIGINT) AS cents
        FROM (SELECT -1 AS sign, before AS image FROM feed_rows
              UNION ALL SELECT 1, after FROM feed_rows)
        WHERE image.status <> 'cancelled' GROUP BY image.customer_id
    """)


# %% wrong="12.2"
# expect: subtract `before` for u and d
def deltas(changes):
    counted = changes.where("after.status <> 'cancelled'")
    return counted.groupBy("after.customer_id").agg(F.sum("after.cents").alias("cents"))


# %% wrong="12.2"
# expect: A cancel is an update
def deltas(changes):
    before = F.coalesce("before.cents", F.lit(0))
    after = F.coalesce("after.cents", F.lit(0))
    customer = F.coalesce("after.customer_id", "before.customer_id").alias("customer_id")
    return changes.groupBy(customer).agg(F.sum(after - before).alias("cents"))


# %% wrong="12.2"
# expect: one row is without a customer
def deltas(changes):
    def worth(image):
        counts = F.col(f"{image}.status") != "cancelled"
        return F.when(counts, F.col(f"{image}.cents")).otherwise(0)

    taken_off = changes.select("before.customer_id", (-worth("before")).alias("cents"))
    put_on = changes.select("after.customer_id", worth("after").alias("cents"))
    return taken_off.union(put_on).groupBy("customer_id").agg(F.sum("cents").alias("cents"))


# %% wrong="12.2"
# expect: one row per customer
def deltas(changes):
    before = changes.where("before.status <> 'cancelled'")
    after = changes.where("after.status <> 'cancelled'")
    return before.selectExpr("before.customer_id", "-before.cents AS cents").union(
        after.select("after.customer_id", "after.cents")
    )


# %% wrong="12.2"
# expect: returns a pandas.DataFrame
def deltas(changes):
    return changes.selectExpr("after.customer_id", "after.cents").toPandas()


# %% wrong="12.2"
# expect: An erasure has no image after
def deltas(changes):
    def worth(image):
        counts = F.col(f"{image}.status") != "cancelled"
        return F.when(counts, F.col(f"{image}.cents")).otherwise(0)

    there = changes.where("after IS NOT NULL")
    change = (worth("after") - worth("before")).alias("cents")
    return (
        there.select("after.customer_id", change)
        .groupBy("customer_id")
        .agg(F.sum("cents").alias("cents"))
    )


# %% [markdown]
# Now we can say where the new total comes from. The picture leads from the old revenue of all customers to
# the new one. Each step is what your function says of one kind of change; the new total is a full
# recompute.

# %%
lab.use_reference("12.2")

# %% name="waterfall"
from decimal import Decimal
from IPython.display import HTML

from lab_env.lessons.l12.figures import draw_waterfall


def total(rows):
    """All cents of some rows, in euro."""
    return Decimal(rows.agg(F.sum("cents")).first()[0] or 0) / 100


KINDS = {
    "new orders": "op = 'i'",
    "gift wrap": "op = 'u' AND after.status <> 'cancelled'",
    "cancellations": "op = 'u' AND after.status = 'cancelled'",
    "erasures": "op = 'd'",
}
now = total(full_recompute(spark.read.format("hudi").load(TABLES["cow"])))
moves = {kind: total(deltas(changes.where(which))) for kind, which in KINDS.items()}

HTML(draw_waterfall("Revenue of all customers", total(old), moves, now, "euro"))

# %% proof="The changes explain the revenue to the cent."
assert total(old) + sum(moves.values()) == now
assert moves["gift wrap"] == Decimal("25.00")

# %% [markdown]
# Everything is explained, to the cent. O-1001 stands there twice: it came in with the new orders, and left with
# the erasures.
#
# ### The job, and what it reads
#
# Here is the job that keeps `revenue`. It reads the changes after the last commit that is counted, and adds what
# they are worth to the customers they touch. The new `upto` is the newest `ts_ms` that it has read. It
# is written **in the same commit** as the totals. So a job that dies leaves either both old or both new.


# %%
def write_totals(changes):
    """Add changes to the revenue of the customers that they touch, and say up to where."""
    upto = changes.agg(F.max("ts_ms")).first()[0]
    had = spark.read.format("hudi").load(revenue).select("customer_id", F.col("cents").alias("had"))
    rows = (
        deltas(changes)
        .join(had, "customer_id", "left")
        .select(
            "customer_id",
            (F.coalesce("had", F.lit(0)) + F.col("cents")).alias("cents"),
            F.lit(upto).alias("upto"),
        )
    )
    rows.write.format("hudi").options(**REVENUE).mode("append").save(revenue)


def differences():
    """Customers whose kept revenue is not what a full recompute says."""
    kept = spark.read.format("hudi").load(revenue)
    truth = full_recompute(spark.read.format("hudi").load(TABLES["cow"]))
    kept, truth = ({row.customer_id: row.cents for row in rows.collect()} for rows in (kept, truth))
    return sorted(name for name in kept | truth if kept.get(name) != truth.get(name))


outdated = differences()
write_totals(changes)
print(len(outdated), "totals differ before the job,", len(differences()), "after it")

# %% proof="Ten customers' totals were out of date; after the job none is."
assert len(outdated) == 10  # each of the ten payments was of another customer
assert differences() == []

# %% [markdown]
# The revenue of all twenty customers is what a full recompute says. And the job has not read the orders.
# What did it read? We ask both tables in both ways and count the rows, the bytes that Spark's tasks
# read, and the requests to the store.
#
# **Predict:** fourteen changes against a thousand orders. Of which table does the *feed* read fewer bytes than
# the full recompute? `"cow"`, `"mor"`, `"cow and mor"` or `"neither"`.

# %%
lab.predict("12.p3", ..., choices=("cow", "mor", "cow and mor", "neither"))

# %%
from lab_env.probes.inputs import InputBytes
from lab_env.probes.s3_requests import count_requests

cost = {}
for kind, path in TABLES.items():
    with InputBytes(spark, path) as read, count_requests(spark) as sent:
        rows = feed(kind, first[kind]).collect()
    cost[kind, "change feed"] = {"rows": len(rows), "bytes": read.bytes, "requests": sent.total}
    with InputBytes(spark, path) as read, count_requests(spark) as sent:
        table = spark.read.format("hudi").load(path)
        full_recompute(table).collect()
    cost[kind, "full recompute"] = {"bytes": read.bytes, "requests": sent.total}
    cost[kind, "full recompute"]["rows"] = table.count()

cost = pd.DataFrame(cost).T[["rows", "bytes", "requests"]]
cost

# %%
ratio = cost["bytes"].xs("full recompute", level=1) / cost["bytes"].xs("change feed", level=1)
cheaper = [kind for kind in TABLES if ratio[kind] > 1]
lab.record_actual("12.p3", " and ".join(cheaper) or "neither")

# %% name="read-by-both" proof="The feed reads less than a full recompute on Copy-on-Write, and more on Merge-on-Read."
assert list(cost["rows"]) == [14, 999, 14, 999]
assert ratio["cow"] > 2 and ratio["mor"] < 1
requests = cost.loc["cow"]["requests"]
assert requests["change feed"] > requests["full recompute"]

# %% [markdown]
# Of the Copy-on-Write table the feed read a fraction of the bytes: the `.cdc` files, written for it.
# **Of the Merge-on-Read table it read more than the whole table.** There is no `.cdc` file, so the reader
# looks up each image before in the base file and its logs, commit after commit.
#
# And on both tables the feed sent *more requests*. It opens files of every commit in its window, and our table
# is tiny. So a feed pays when the table is large, the changes are few, and the commits in the window
# are not many. For a small table, a full recompute is simpler, and not dearer.
#
# ### Changes that surprise
#
# Two more things happen to the orders. O-40 was booked on the wrong customer and moves from C-0 to C-7. And for O-13,
# which was erased, an update arrives late.

# %%
moved = orders("id = 40", "paid", "12:30", customer="7")
late = orders("id = 13", "reserved", "11:45", WRAPPED)
write(moved.union(late), "cow")

upto = spark.read.format("hudi").load(revenue).agg(F.max("upto")).first()[0]
news = parsed(feed("cow", upto)).cache()
news.selectExpr(
    "op",
    "after.order_id",
    "before.customer_id AS was_of",
    "after.customer_id AS is_of",
    "after.cents",
).show()

# %% [markdown]
# While the job computes, a new order comes in. Then the job writes its totals.

# %% name="surprises"
write(orders("id = 1002", "new", "12:31"), "cow")
write_totals(news)

off = differences()
off

# %% proof="The feed tells a row that left its customer; only the total of C-2 waits for the next run."
told = {(row.after.order_id, row.op) for row in news.collect()}
assert told == {("O-40", "u"), ("O-13", "i")}
assert off == ["C-2"]  # O-1002 is the order of C-2

# %% [markdown]
# The move is one change with two customers: it takes off from one and puts on the other. That is why we never
# sum by the customer of one image only.
#
# O-13 is back, as a **ghost**: lesson 04 told why. The feed has it as an insert, and the total follows. A
# change feed tells what the table says, right or wrong.
#
# Only C-2 is not right yet. Its new order came in after the job had read the feed. The next run must find
# it.
#
# ### Exercise 12.3 · Where does the next run begin?
#
# Write the function that gives the beginning of the next run, a value for `begin` of `feed`. It gets the path of the
# job's table, which is all the memory that the job has. The check reads the feed from there: the new order must be in
# it, and nothing that was counted already. It also calls the function with a copy of the table as it was one run
# earlier.


# %% exercise="12.3"
def begin_of_next_run(totals=revenue):
    # BEGIN SOLUTION
    kept = spark.read.format("hudi").load(totals)
    return kept.agg(F.max("upto")).first()[0]
    # END SOLUTION


lab.check("12.3", begin_of_next_run)

# %% [markdown] hint="12.3"
# Which column of `revenue` says what was counted? Customers who had no change since keep their old value there.

# %% [markdown] hint="12.3"
# When was `revenue` written, and when did O-1002 come in? The time of the job's own commit is too late.


# %% right="12.3"
def begin_of_next_run(totals=revenue):
    kept = spark.read.format("hudi").load(totals).toPandas()
    return int(kept["upto"].max())


# %% wrong="12.3"
# expect: The job's own commit came after it
def begin_of_next_run(totals=revenue):
    kept = spark.read.format("hudi").load(totals)
    return kept.agg(F.max("_hoodie_commit_time")).first()[0]


# %% wrong="12.3"
# expect: would count twice
def begin_of_next_run(totals=revenue):
    kept = spark.read.format("hudi").load(totals)
    return kept.agg(F.min("upto")).first()[0]


# %% wrong="12.3"
# expect: gives nothing at all
def begin_of_next_run(totals=revenue):
    return "earliest"


# %% wrong="12.3"
# expect: no variable of this notebook
def begin_of_next_run(totals=revenue):
    return news.agg(F.max("ts_ms")).first()[0]  # `news` is what this notebook has read


# %% [markdown] tags=["instructor"]
# *For instructors.* Twenty minutes. Before 12.2 let people say in words what a cancel does to a total. "After
# minus before" comes quickly; that a cancelled image is worth nothing *in both places* does not. In 12.3
# draw three lines on one axis: the job reads, the order comes, the job writes. Then ask which moment the
# bookmark must be. Who asks why not keep the bookmark in a file: let them say what happens when the job dies
# between the two writes.

# %% [markdown]
# The next run, and then again:

# %% name="once-each"
lab.use_reference("12.3")
for run in ("next run", "and again"):
    todo = parsed(feed("cow", begin_of_next_run())).cache()
    found = todo.count()
    print(f"{run}: {found} changes")
    if found:
        write_totals(todo)

# %% proof="The third run finds nothing, and every total is right."
assert found == 0 and differences() == []

# %% [markdown]
# One change, then none, and all customers are right. **A time that works here is no bookmark for
# lesson 11.** The feed's window compares *requested* times, and that is what `ts_ms` has. The incremental query
# compares *completion* times. We give both the requested time of the commit that cancelled O-12:

# %% name="two-clocks"
cancelling = commits[2]
by_feed = {row.ts_ms for row in feed("cow", cancelling).collect()}
reader = spark.read.format("hudi").option("hoodie.datasource.query.type", "incremental")
by_increment = {
    row["_hoodie_commit_time"]
    for row in reader.option("hoodie.datasource.read.begin.instanttime", cancelling)
    .load(TABLES["cow"])
    .collect()
}
print("in the feed:", cancelling in by_feed, " in the increment:", cancelling in by_increment)

# %% proof="The cancellation is not in the feed again, but the increment delivers it again."
assert cancelling not in by_feed and cancelling in by_increment

# %% [markdown]
# The feed begins after that commit. The incremental query delivers it again, because it was *completed*
# later than it was requested. So each query has a bookmark of its own kind. (With two writers at work, a
# commit may be requested before your bookmark and completed after it. By these rules the feed
# would pass over it. Not measured here; one writer at a time is safe.)

# %% [markdown]
# ## Who pays, and for how long?
#
# The feed of the Copy-on-Write table is paid by its writer. What did it cost? All writes so far:

# %% name="who-pays"
sizes = {kind: pictures[kind][-1].parts()["bytes"] for kind in TABLES}
share = sizes["cow"]["cdc"] / sizes["cow"]["base"]
print(f"cow: {sizes['cow']['cdc']:,} bytes of cdc files, {share:.1%} of its base files")
print("mor:", {part: f"{sizes['mor'][part]:,} bytes" for part in ("base", "log")})

# %% proof="The cdc files take less than 15 percent of the base files' bytes."
assert 0 < share < 0.15
assert "cdc" not in sizes["mor"]

# %% [markdown]
# A few percent. *Documented, not measured here:*
# [`hoodie.table.cdc.supplemental.logging.mode`](https://hudi.apache.org/docs/configurations/) sets what is
# written: both images (the default, as here), the image before, or operation and key only. What is left
# out, the reader has to look up.
#
# Can we switch the feed on later? The table `revenue` was created without one. A cell asks it for its
# changes, and then writes to it with the option.

# %% name="not-later"
changes_of_revenue = spark.read.format("hudi").options(**CDC)
switched_on = REVENUE | {"hoodie.table.cdc.enabled": "true"}


def refusal_of(attempt):
    """The first lines of what an attempt raises."""
    try:
        attempt()
    except Exception as refusal:
        return " ".join(str(refusal).split("\tat ")[0].split())


refused = {
    "reading": refusal_of(
        lambda: (
            changes_of_revenue.option("hoodie.datasource.read.begin.instanttime", "000")
            .load(revenue)
            .count()
        )
    ),
    "writing": refusal_of(
        lambda: old.write.format("hudi").options(**switched_on).mode("append").save(revenue)
    ),
}
print(refused["reading"], refused["writing"], sep="\n")

# %% proof="A table made without a change feed has none, and cannot be given one."
assert "isn't a CDC hudi table" in refused["reading"]
assert "Config conflict" in refused["writing"]
assert "cdc.enabled: true false" in refused["writing"]

# %% [markdown]
# Both refused: decide before the first write.
#
# And the feed does not last for ever. Its files belong to file slices, and
# [**cleaning**](../docs/glossary.md#cleaning) removes them with their slice. We keep two commits:

# %%
spark.sql(f"CREATE TABLE orders_cow USING hudi LOCATION '{TABLES['cow']}'")
options = ",".join(f"{name}={value}" for name, value in DEMO_OPTIONS.items())
spark.sql(f"""
    CALL run_clean(table => 'orders_cow', retain_commits => 2, options => '{options}')
""")
cleaned = lab.xray(TABLES["cow"], since=pictures["cow"][-1])
cleaned

# %% name="cleaned-window"
gone = [file.kind for file in cleaned.gone_files]
print({kind: gone.count(kind) for kind in ("base", "cdc")})

try:
    feed("cow", first["cow"]).count()
    refused = ""
except Exception as refusal:
    refused = str(refusal)
print(next(line for line in refused.splitlines() if "No such file" in line))

# %% proof="The cleaner removed cdc files: a feed from the beginning fails, the job's next run does not."
assert gone.count("cdc") > 0
assert "FileNotFoundException" in refused and ".cdc" in refused
assert feed("cow", begin_of_next_run()).count() == 0  # the job that keeps up is safe

# %% [markdown]
# The feed from the first commit on fails. It does not pass over the gap quietly, and that is good. (It refuses a
# beginning before the last *archived* commit, too: `Fail to get the commit metadata for CDC`.) The job that
# keeps up notices nothing. One that was away for too long has to begin again with a full recompute, and
# go on from there with the changes. So keep as many commits as your slowest reader may be behind.

# %% [markdown] tags=["instructor"]
# *For instructors.* Five minutes. Short of time: show the cells. The question that comes: "so is Merge-on-Read
# wrong for a feed?" It writes less and lets each reader pay. With one reader that may be fine; with
# ten it is paid ten times.

# %% [markdown]
# ## Key points
#
# - A change feed has a row for each change, with the row before and after. Switch it on at creation.
# - It tells what an incremental query does not: erasures, steps between, and what was before.
# - Images are JSON text. Decimals do not survive it: keep money in whole cents, and look before you build.
# - A total by changes: take off what `before` was worth, put on what `after` is worth. Do both for each
#   customer.
# - Write the bookmark in the same commit as the totals. The feed's bookmark is `ts_ms`, a requested
#   time.
# - On Copy-on-Write the writer pays a little, on Merge-on-Read each reader pays much. Cleaning ends a
#   feed.
#
# ## What's next
#
# All queries so far went through Spark. Lesson 13 asks who else can read these tables.

# %%
spark.stop()
