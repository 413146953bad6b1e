# ---
# title: The shop adds a field on Friday. Who notices, and what breaks?
# minutes: {teach: 30, do: 24}
# needs: ["04", "10"]
# services: [minio, kafka]
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 16 · The shop adds a field on Friday. Who notices, and what breaks?
#
# ## Questions
#
# - Since Friday the app's events have had a new field. Where is it now?
# - Which changes of its columns does a table accept, and how does it store them?
# - Which readers fail when a column is added or renamed?
#
# ## Objectives
#
# At the end of this lesson you can
#
# - notice a field that the pipeline does not know (16.1),
# - add a column and fill it for events that were already processed (16.2),
# - let two versions of an app write one table without losing a field (16.3),
# - offer a column under a new name without breaking a reader (16.4).
#
# ## What you need
#
# Lesson 03: parsing and dead letters. Lesson 04: record key, ordering field, a stream into a table. Lesson 10: time
# travel, a stream's identifier. Lesson 11: streams of commits. Lesson 13: hudi-rs.
# 54 minutes, with a good place to pause after the second section.

# %% [markdown]
# ## Start
#
# The shop's board shows **revenue by status**. From Friday on the shop gives out coupons, and the board
# has to show revenue with and without them. Run the cells and read on.

# %%
import json

import pandas as pd
from pyspark.sql import functions as F

from lab_env import Lab
from lab_env.lessons.l16.figures import board_of, send_events
from lab_env.pipeline.session import INTERPRETED

lab = Lab.start("16")
# Tables of a few hundred rows: to compile each query costs more than the compiled query saves.
spark = lab.start_spark(INTERPRETED)

# %% [markdown]
# The app sends each order as a JSON object. O-1 to O-300 were placed on Thursday, 19 November, later ones on
# Friday. `sent` keeps every event, so that we can check the board at the end.

# %%
topic = lab.topic("orders")
sent = []


def make_event(number, status, at):
    """An event of an order, as the app sends it."""
    day = "2026-11-19" if number <= 300 else "2026-11-20"
    return {
        "order_id": f"O-{number}",
        "status": status,
        "amount": round(10.9 + number % 50, 2),
        "items": 1 + number % 3,
        "weight": number % 120 / 10,
        "delivery": {"city": "Ulm"},
        "order_ts": f"{day}T{at}:00Z",
        "partition_date": day,
    }


# %%
def send(numbers, status, at, coupon=None):
    """Send an event of each order; with `coupon`, every third event has that coupon."""
    events = [make_event(number, status, at) for number in numbers]
    if coupon:
        for event in events[::3]:
            event["coupon"] = coupon
    send_events(lab, topic, events)
    sent.extend(events)


send(range(1, 301), "new", "12:00")
send(range(301, 451), "new", "09:00")
print(json.dumps(sent[-1]))

# %% [markdown]
# The pipeline is that of lessons 03 and 04. `from_json` turns a message into a row with the columns of `EVENT`. If a
# message does not fit them, its text goes into `_corrupt` and not into the table. (`DEMO_OPTIONS` switch off the
# metadata table and cleaning: small writes are faster.)

# %%
from lab_env.pipeline.options import DEMO_OPTIONS

EVENT = (
    "order_id STRING, status STRING, amount DECIMAL(12,2), items INT, weight DOUBLE, "
    "delivery STRUCT<city: STRING>, order_ts TIMESTAMP, partition_date STRING"
)
ORDERS = {
    **DEMO_OPTIONS,
    "hoodie.index.bloom.num_entries": "1000",  # room for as many keys in a base file
    "hoodie.table.name": "orders",
    "hoodie.datasource.write.recordkey.field": "order_id",
    "hoodie.table.ordering.fields": "order_ts",
    "hoodie.datasource.write.partitionpath.field": "partition_date",
    "hoodie.datasource.write.hive_style_partitioning": "true",
}


# %%
def parse(records, ddl):
    """The events of Kafka records as typed rows; `_corrupt` has the text of what does not fit."""
    event = F.from_json(
        F.col("value").cast("string"),
        f"{ddl}, _corrupt STRING",
        {"columnNameOfCorruptRecord": "_corrupt"},
    )
    return records.select(event.alias("event")).select("event.*")


def valid_events(records, ddl):
    """The events that fit, as typed rows."""
    return parse(records, ddl).where("_corrupt IS NULL").drop("_corrupt")


# %%
KAFKA = {
    "kafka.bootstrap.servers": lab.endpoints.kafka_bootstrap,
    "subscribe": topic,
    "startingOffsets": "earliest",
}
orders_path = lab.path("orders")
checkpoint = lab.path("_checkpoints/orders")


def run_stream(ddl):
    """Write the topic's new events to the table, parsed with `ddl`, and stop."""
    records = spark.readStream.format("kafka").options(**KAFKA).load()
    query = (
        valid_events(records, ddl)
        .writeStream.format("hudi")
        .options(**ORDERS)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start(orders_path)
    )
    query.awaitTermination()


run_stream(EVENT)


# %%
def read_table(path, **options):
    """The rows of a table; `options` may ask for another time, or for schema on read."""
    return spark.read.format("hudi").options(**options).load(path)


def ask(path, sql):
    """The answer to a query of the view `orders`, which shows the newest rows of a table."""
    read_table(path).createOrReplaceTempView("orders")
    return spark.sql(sql).toPandas()


ask(orders_path, "SELECT partition_date, count(*) AS orders FROM orders GROUP BY 1 ORDER BY 1")

# %% [markdown]
# ## A field arrives
#
# On Friday at ten version 2 of the app goes live. For every third order it sends one more field, `coupon`. Nobody
# told the pipeline team. The stream runs on.
#
# **Predict:** what does the new field cause?

# %%
lab.predict("16.p1", ..., choices=("an error", "dead letters", "a column of NULLs", "nothing"))

# %%
send(range(451, 601), "new", "10:00", coupon="SAVE10")
run_stream(EVENT)

records = spark.read.format("kafka").options(**KAFKA).load()
dead_letters = parse(records, EVENT).where("_corrupt IS NOT NULL").count()
orders = read_table(orders_path)
in_table = "a column of NULLs" if "coupon" in orders.columns else "nothing"
lab.record_actual("16.p1", "dead letters" if dead_letters else in_table)
rows = orders.count()
hudi_columns = 5  # Hudi's own, `_hoodie_...`, stand in front
print(rows, "orders,", dead_letters, "dead letters, columns:", orders.columns[hudi_columns:])

# %% name="unknown-field" proof="A field that the schema does not name causes no error, no dead letter and no column"
assert (rows, dead_letters) == (600, 0)
assert "coupon" not in orders.columns and sum("coupon" in event for event in sent) == 50

# %% [markdown]
# Nothing. `from_json` reads the fields that you ask for and drops the others: no exception, no dead letter, no
# warning. The coupons exist only in Kafka, until Kafka deletes the messages.
#
# A field that *changes* is less clear-cut. Here are five ways to write an amount:

# %%
AMOUNTS = ("59.90", '"59.90"', '"EUR 59.90"', '"59,90"', "59.999")
texts = [(amount, f'{{"order_id": "O-17", "amount": {amount}}}') for amount in AMOUNTS]
messages = spark.createDataFrame(texts, "written STRING, value STRING")
typed = parse(messages, EVENT)
typed = typed.select("amount", F.col("_corrupt").isNotNull().alias("dead letter"))
amounts = typed.toPandas().set_axis(AMOUNTS)
amounts

# %% name="silent-amounts" proof="Of five ways to write an amount one is a dead letter, and two are changed silently"
assert list(amounts["dead letter"]) == [False, False, True, False, False]
assert list(map(str, amounts["amount"])) == ["59.90", "59.90", "None", "5990.00", "60.00"]

# %% [markdown]
# `"59,90"` has a decimal comma. It becomes a valid amount, a hundred times too large: for a `DECIMAL` column
# `from_json`, in its default locale, takes the comma for a thousands separator. `59.999` is rounded. Only the amount with letters is a dead
# letter, so **"not a dead letter" does not mean "right"**. (The finished pipeline, `lab_env/pipeline/messages.py`,
# checks the JSON type and each digit, and counts each batch's unknown fields.)
#
# ### Exercise 16.1 · The alarm
#
# Write the function that would have noticed. It takes Kafka records, with the JSON text in `value`, and `known`, a
# list of names. Return one row per **unknown top-level field**: its name, and the number of events that have it
# (column names do not matter). Fields inside `delivery` are not top-level. Ignore text that
# is not JSON. Spark has [functions for
# JSON](https://spark.apache.org/docs/3.5.7/sql-ref-functions-builtin.html#json-functions).


# %% exercise="16.1"
def unknown_fields(records, known):
    """Each field that is not known, and how many events carry it."""
    # BEGIN SOLUTION
    names = F.json_object_keys(F.col("value").cast("string"))
    unknown = F.array_except(names, F.array(*map(F.lit, known)))
    return records.select(F.explode(unknown).alias("field")).groupBy("field").count()
    # END SOLUTION


lab.check("16.1", unknown_fields)

# %% [markdown] hint="16.1"
# The parsed columns cannot tell you: they are the fields that you asked for. `F.json_object_keys`
# returns the names in a JSON text.

# %% [markdown] hint="16.1"
# `F.array_except(names, F.array(...))` leaves the unknown ones. `F.explode` makes a row of each.


# %% right="16.1"
# With `from_json` as a map, in the DataFrame API.
def unknown_fields(records, known):
    text = F.col("value").cast("string")
    names = F.map_keys(F.from_json(text, "map<string,string>"))
    rows = records.select(F.explode(names).alias("name"))
    return rows.where(~F.col("name").isin(known)).groupBy("name").agg(F.count("*").alias("events"))


# %% right="16.1"
# With `json_object_keys`, which does not read the values.
def unknown_fields(records, known):
    records.selectExpr("CAST(value AS STRING) AS text").createOrReplaceTempView("texts")
    names = spark.sql("SELECT explode(json_object_keys(text)) AS field FROM texts").toPandas()
    return names.loc[~names["field"].isin(known), "field"].value_counts().to_dict()


# %% right="16.1"
# With Python, where a topic is small and odd texts should be looked at.
def unknown_fields(records, known):
    found = []
    for row in records.collect():
        try:
            found += [name for name in json.loads(row.value) if name not in known]
        except ValueError:
            continue
    return pd.Series(found).value_counts()


# %% harmless="16.1"
# a column renamed in case: for Spark it is the same column
# count as int: the same number


# %% wrong="16.1"
# expect: `from_json` dropped it before you looked
def unknown_fields(records, known):
    columns = parse(records, EVENT).drop("_corrupt", "items", "weight", "order_ts").columns
    return [(name, 0) for name in columns if name not in (*known, "partition_date")]


# %% wrong="16.1"
# expect: one of yours is there several times
def unknown_fields(records, known):
    names = F.explode(F.json_object_keys(F.col("value").cast("string"))).alias("field")
    unknown = records.select(names).where(~F.col("field").isin(known))
    return unknown.withColumn("events", F.lit(1))


# %% wrong="16.1"
# expect: the check called it known
def unknown_fields(records, known):
    known = spark.createDataFrame([], EVENT).columns  # those of the lesson, not those it gets
    names = F.explode(F.json_object_keys(F.col("value").cast("string"))).alias("field")
    rows = records.select(names).where(~F.col("field").isin(known))
    return rows.groupBy("field").agg(F.count("*") + F.lit(1))


# %% wrong="16.1"
# expect: An extra field is no error
def unknown_fields(records, known):
    return parse(records, EVENT).where("_corrupt IS NOT NULL").groupBy("_corrupt").count()


# %%
from lab_env.lessons.l16.figures import counts_of

lab.use_reference("16.1")
known = spark.createDataFrame([], EVENT).columns
alarm = counts_of(unknown_fields(records, known))
alarm

# %% proof="The alarm names the coupon of fifty events."
assert alarm == {"coupon": 50}

# %% [markdown] tags=["instructor"]
# *For instructors.* 14 minutes. Nearly everybody expects a column of NULLs or an error in 16.p1. Ask who would
# have noticed in their own company, and when. In 16.1 the reflex is to compare columns of DataFrames. Short of
# time: leave out the amounts.

# %% [markdown]
# ## What a table accepts
#
# Now we know the field. Before we change the real table: what does a table accept? A Hudi table has one
# schema, recorded in each commit. A writer compares its rows with that schema and converts, extends or refuses.
# This is [**schema on write**](../docs/glossary.md#schema-on-write).
#
# We mark ten of Friday's orders as paid and write them in eleven variants, each to its own copy of the table.
# (`collect` and `createDataFrame` keep the ten rows in memory, so that no write reads the table again.)

# %%
from lab_env.lessons.l16.figures import SchemaTrials, columns_of
from lab_env.lessons.table_copies import scratch_copy

baseline = scratch_copy(lab, orders_path, "baseline")
ten = read_table(baseline).where("order_id RLIKE '^O-44[0-9]$'")
ten = ten.withColumn("status", F.lit("paid")).withColumn(
    "order_ts", F.col("order_ts") + F.expr("INTERVAL 4 HOURS")
)
paid = spark.createDataFrame(ten.select(known).collect(), EVENT)


def with_columns(**expressions):
    """The ten paid orders with some columns replaced or added, as SQL expressions."""
    return paid.withColumns({name: F.expr(text) for name, text in expressions.items()})


# %%
some_coupon = with_columns(coupon="IF(items = 2, 'SAVE10', NULL)")
floor = "named_struct('city', delivery.city, 'floor', IF(items = 2, 4, NULL))"
SET_NULL = {"hoodie.write.set.null.for.missing.columns": "true"}
CHANGES = {
    "new column coupon, NULL for some": (some_coupon, {}),
    "new column coupon, never NULL": (with_columns(coupon="'SAVE10'"), {}),
    "new field in the struct delivery": (with_columns(delivery=floor), {}),
    "items as BIGINT": (with_columns(items="CAST(items AS BIGINT)"), {}),
    "amount as DECIMAL(14,2)": (with_columns(amount="CAST(amount AS DECIMAL(14,2))"), {}),
    "amount as DECIMAL(12,4)": (with_columns(amount="CAST(amount AS DECIMAL(12,4))"), {}),
    "amount as text": (with_columns(amount="CAST(amount AS STRING)"), {}),
    "weight as text": (with_columns(weight="CAST(weight AS STRING)"), {}),
    "weight as text, '5.0 kg'": (with_columns(weight="concat(weight, ' kg')"), {}),
    "column items missing": (paid.drop("items"), {}),
    "the same with ...set.null.for.missing.columns": (paid.drop("items"), SET_NULL),
}

# %% [markdown]
# **Predict:** `weight` is a `DOUBLE`, and arrives as text, such as `"5.0"`. What does the table do?

# %%
FATES = ("refused", "converted to the column's type", "the column becomes text")
lab.predict("16.p2", ..., choices=FATES)

# %%
results, paths = {}, {}
for name, (variant, options) in CHANGES.items():
    paths[name] = scratch_copy(lab, baseline, "trial")
    write = variant.write.format("hudi").options(**ORDERS).options(**options).mode("append")
    try:
        write.save(paths[name])
        results[name] = columns_of(read_table(paths[name]).schema)
    except Exception as refusal:
        results[name] = refusal

trials = SchemaTrials(columns_of(read_table(baseline).schema), results)
fate = dict(zip(("refused", "as before", "changed"), FATES, strict=True))
lab.record_actual("16.p2", fate[trials.verdict("weight as text")])
trials

# %% name="eleven-writes" proof="Adding and widening are accepted, a DOUBLE becomes text, three of eleven writes are refused"
verdicts = trials.frame()["schema"]
assert list(verdicts) == [
    "added", "refused", "added", "changed", "changed", "refused", "as before",
    "changed", "changed", "refused", "as before",
]  # fmt: skip
assert results["weight as text"]["weight"] == "string"
refusals = [str(error) for error in results.values() if isinstance(error, Exception)]
assert "SchemaBackwardsCompatibilityException" in refusals[0]
assert "MissingSchemaFieldException" in refusals[2]

# %% [markdown]
# - **added:** a `coupon` that may be NULL, and the field in `delivery`. Older rows have NULL there. So a `coupon` that
#   is never NULL, such as `F.lit("SAVE10")`, is **refused**: what should the older rows have?
# - **changed:** the whole column takes over a *wider* type, one that can hold every value of the old one: `BIGINT` for
#   `INT`, `DECIMAL(14,2)` for `DECIMAL(12,2)`, text for `DOUBLE`. `DECIMAL(12,4)` has two digits fewer before the point
#   and is **refused**.
# - **as before:** if the column's own type is wider, Hudi converts the values. *Amount as text* is one of these:
#   `DECIMAL` counts as wider than text.
#
# So `weight` is text from now on, in every row, and nothing warned us. The next client adds the unit, `'5.0 kg'`, and is
# accepted, too. Two questions that the shop asks daily:

# %%
WEIGHTS = "SELECT max(weight) AS heaviest, round(sum(weight), 1) AS weight_of_all FROM orders"
text_path = paths["weight as text, '5.0 kg'"]
weights = pd.concat({"before": ask(baseline, WEIGHTS), "after": ask(text_path, WEIGHTS)})
weights

# %% name="text-sorts-as-text" proof="Another parcel is the heaviest, and the sum leaves out the new rows, without an error"
assert list(weights["heaviest"]) == [11.9, "9.9"]
lost = weights["weight_of_all"].iloc[0] - weights["weight_of_all"].iloc[1]
assert abs(lost - sum(number % 120 / 10 for number in range(440, 450))) < 0.1

# %% [markdown]
# Text sorts as text: "9.9" is greater than "11.9". And the sum silently skips what is not a number. Both
# queries run without an error, and both answers are wrong. **A successful write does not prove that the type is the
# same.** Look at the schema after each deployment, or refuse rows whose `dtypes` are not what you expect.
#
# A missing column is refused, too, unless you set the option of the last row. Then the schema is as before. But look at
# the `items` of the ten orders:

# %%
missing_path = paths["the same with ...set.null.for.missing.columns"]
ITEMS = """
    SELECT status, count(*) AS orders, count(items) AS with_items
    FROM orders GROUP BY 1 ORDER BY 1
"""
items = ask(missing_path, ITEMS)
items

# %% proof="With that option the ten updated orders lose their number of items."
assert [tuple(row) for row in items.values] == [("new", 590, 590), ("paid", 10, 0)]

# %% [markdown]
# The option does not mean "leave the column alone". It means NULL: the update replaces the row, and its number of
# items is gone.
#
# To add `coupon`, take the simplest way: add it to the event's schema, where each field may be NULL, and restart the
# stream.

# %%
EVENT_V2 = f"{EVENT}, coupon STRING"

send(range(601, 661), "new", "11:00", coupon="SAVE10")
run_stream(EVENT_V2)

hours = ask(
    orders_path,
    """SELECT order_ts, count(*) AS orders, count(coupon) AS with_coupon FROM orders
       WHERE partition_date = '2026-11-20' GROUP BY 1 ORDER BY 1""",
)
hours

# %% name="restart-is-no-backfill" proof="After the restart the coupons of new events arrive; those of the fifty earlier ones do not"
assert list(hours["orders"]) == [150, 150, 60] and list(hours["with_coupon"]) == [0, 0, 20]
assert sum("coupon" in event for event in sent) == 70

# %% [markdown]
# ### Exercise 16.2 · Backfill the coupons
#
# The orders of eleven o'clock have their coupons. Those of ten o'clock do not: the stream had read them before
# it knew the field, and its checkpoint does not go back. The events are still in Kafka. Write the
# [**backfill**](../docs/glossary.md#backfill), a function that brings every coupon into the table at `path`.
# The checkpoint of the table's stream is at `checkpoint`; a new one may have any path next to it.
# The check runs your function on copies of both.
#
# If an order comes again with an equal `order_ts`, the later write replaces it.


# %% exercise="16.2"
def backfill(path, checkpoint):
    """Bring the coupon of every event of the topic into the table at `path`."""
    # BEGIN SOLUTION
    records = spark.readStream.format("kafka").options(**KAFKA).load()
    query = (
        valid_events(records, EVENT_V2)
        .writeStream.format("hudi")
        .options(**ORDERS)
        .option("hoodie.datasource.write.streaming.checkpoint.identifier", "with-coupons")
        .option("checkpointLocation", f"{checkpoint}-with-coupons")
        .trigger(availableNow=True)
        .start(path)
    )
    query.awaitTermination()
    # END SOLUTION


lab.check("16.2", backfill)

# %% [markdown] hint="16.2"
# Either start a new stream, or use none: `spark.read.format("kafka")` reads the whole
# topic as a batch.

# %% [markdown] hint="16.2"
# A stream with a new checkpoint begins with batch 0. If the table already knows a batch 0 of a writer with the same
# [identifier](../docs/glossary.md#identifier-of-a-stream), Hudi does not write it (10.4). The identifier is the option
# `hoodie.datasource.write.streaming.checkpoint.identifier`.


# %% right="16.2"
# As a batch: there is no checkpoint to continue.
def backfill(path, checkpoint):
    valid = valid_events(spark.read.format("kafka").options(**KAFKA).load(), EVENT_V2)
    valid.write.format("hudi").options(**ORDERS).mode("append").save(path)


# %% wrong="16.2"
# expect: earlier orders stay empty
def backfill(path, checkpoint):
    records = spark.readStream.format("kafka").options(**KAFKA).load()
    valid = valid_events(records, EVENT_V2)
    stream = valid.writeStream.format("hudi").options(**ORDERS).trigger(availableNow=True)
    stream.option("checkpointLocation", checkpoint).start(path).awaitTermination()


# %% wrong="16.2"
# expect: Hudi skips batch numbers it knows
def backfill(path, checkpoint):
    records = spark.readStream.format("kafka").options(**KAFKA).load()
    valid = valid_events(records, EVENT_V2)
    stream = valid.writeStream.format("hudi").options(**ORDERS).trigger(availableNow=True)
    stream.option("checkpointLocation", f"{checkpoint}-new").start(path).awaitTermination()


# %% wrong="16.2"
# expect: earlier orders stay empty
def backfill(path, checkpoint):
    records = spark.readStream.format("kafka").options(**KAFKA).load()
    stream = valid_events(records, EVENT_V2).writeStream.format("hudi").options(**ORDERS)
    stream = stream.option("hoodie.datasource.write.streaming.checkpoint.identifier", "again")
    stream = stream.option("checkpointLocation", lab.path("_checkpoints/again"))  # always the same
    stream.trigger(availableNow=True).start(path).awaitTermination()


# %% wrong="16.2"
# expect: A replay has to upsert
def backfill(path, checkpoint):
    events = valid_events(spark.read.format("kafka").options(**KAFKA).load(), EVENT_V2)
    inserts = events.where("coupon IS NOT NULL").write.format("hudi").options(**ORDERS)
    inserts.option("hoodie.datasource.write.operation", "insert").mode("append").save(path)


# %% wrong="16.2"
# expect: would begin anew
def backfill(path, checkpoint):
    place = spark._jvm.org.apache.hadoop.fs.Path(checkpoint)
    place.getFileSystem(spark._jsc.hadoopConfiguration()).delete(place, True)
    records = spark.readStream.format("kafka").options(**KAFKA).load()
    query = (
        valid_events(records, EVENT_V2)
        .writeStream.format("hudi")
        .options(**ORDERS)
        .option("hoodie.datasource.write.streaming.checkpoint.identifier", "backfill")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start(path)
    )
    query.awaitTermination()


# %% harmless="16.2"
# its checkpoint elsewhere: the new one may have any path

# %% equivalent="16.2"
# without .options(ORDERS): the table keeps its keys; small writes are only slower
# without **ORDERS in valid_events(records, EVENT_V2).writeStr … t('hudi').options: the table keeps its keys; small writes are only slower

# %%
lab.use_reference("16.2")
backfill(orders_path, checkpoint)

filled = ask(orders_path, "SELECT count(*) AS orders, count(coupon) AS with_coupon FROM orders")
filled

# %% name="backfilled" proof="A replay brings all 70 coupons, and not a row more"
assert tuple(filled.loc[0]) == (660, 70)

# %% [markdown]
# Our stream was not running. In production, stop it before a backfill: two writers of one table need a lock
# (lesson 18). A replay has limits: it brings back orders that have been erased since; an order that was changed another
# way since keeps its newer row, without a coupon; and a replay finds only what the topic still holds.

# %% [markdown] tags=["instructor"]
# *For instructors.* 14 minutes. The moment of the section is the heaviest parcel: wait for somebody to see why
# it is 9.9. In 16.2 people delete the checkpoint first; their stream runs, writes nothing, and ends without an
# error. Lesson 17 comes back to that. Short of time: give 16.2 away as the batch replay.

# %% [markdown]
# **A good place to pause.** You have a table with every coupon; the second half asks who reads it. To go on
# another day, type `lab goto 16c` in a terminal: it runs everything to here again.

# %% [markdown]
# ## Readers during the change
#
# A table has readers when a column arrives. We take a copy of the table from before, with four readers: a DataFrame
# loaded now; a stream of the table's commits (lesson 11); a query that travels to the time before; and
# [hudi-rs](../docs/glossary.md#hudi-rs), a reader outside Spark (lesson 13). Then
# we write the ten paid orders with their coupons.
#
# (`processAllAvailable` waits until a stream has read everything. It is for tests; in production you watch the
# stream's progress.)

# %%
change_path = scratch_copy(lab, baseline, "change")
loaded_before = read_table(change_path)
before = lab.xray(change_path).instants[-1]
seen_path, seen_checkpoint = lab.scratch("seen"), lab.scratch("seen-checkpoint")


def watch():
    """Start a stream that copies the table's commits into Parquet files."""
    commits = spark.readStream.format("hudi")
    rows = commits.option("hoodie.datasource.streaming.startOffset", "earliest").load(change_path)
    files = rows.writeStream.format("parquet").option("path", seen_path)
    return files.option("checkpointLocation", seen_checkpoint).start()


def seen():
    """What has reached the stream's files."""
    return spark.read.option("mergeSchema", "true").parquet(seen_path)


watching = watch()
watching.processAllAvailable()
print(seen().count(), "rows have reached the stream")

# %% [markdown]
# **Predict:** which of the four fails when we ask it again after the write?

# %%
READERS = ("loaded before", "stream", "time travel", "hudi-rs", "none")
lab.predict("16.p3", ..., choices=READERS)

# %%
from lab_env.lessons.hudi_rs import rows_of  # the rows of a table, read without Spark

some_coupon.write.format("hudi").options(**ORDERS).mode("append").save(change_path)


def ask_stream():
    """What has reached the stream, after it has read what is new."""
    watching.processAllAvailable()
    return seen()


travel = {"as.of.instant": before.requested}
questions = {
    "loaded before": lambda: loaded_before.toPandas(),
    "stream": lambda: ask_stream().toPandas(),
    "time travel": lambda: read_table(change_path, **travel).toPandas(),
    "hudi-rs": lambda: rows_of(change_path).to_pandas(),
    "loaded now": lambda: read_table(change_path).toPandas(),
}

# %%
from lab_env.lessons.l16.figures import ask_readers

replies = ask_readers(questions, columns=("status", "coupon"))
failed = list(replies.index[replies["error"] != ""])
lab.record_actual("16.p3", failed[0] if failed else "none")
replies

# %% name="who-fails-at-a-new-column" proof="Only the stream fails; two readers keep the old columns, hudi-rs has the new one"
assert failed == ["stream"] and "Invalid batch" in str(watching.exception())
assert list(replies["coupon"]) == ["no column", "", "no column", "3 of 600", "3 of 600"]
assert replies.loc["loaded before", "status"] == replies.loc["time travel", "status"]

# %% [markdown]
# The DataFrame loaded before is not wrong but old: loading fixed its commits and its columns (lesson
# 09). Time travel shows the columns of that time. hudi-rs reads the schema every time.
#
# The stream dies. It fixed its columns when it started, and the new commit has one more. Does it lose that
# commit? We restart it with the same checkpoint.

# %%
watching = watch()
watching.processAllAvailable()
watching.stop()
seen().groupBy("status").agg(F.count("*").alias("rows"), F.count("coupon")).show()

# %% name="restarted-stream" proof="After a restart with the same checkpoint the ten rows arrive once, with their coupons"
arrived = seen().where("status = 'paid'").select("order_id", "coupon").collect()
assert len(arrived) == len(set(arrived)) == 10 and seen().count() == 610
assert sum(row.coupon is not None for row in arrived) == 3

# %% [markdown]
# Nothing is lost and nothing comes twice. But somebody has to restart it: a new column in this Copy-on-Write table
# stops the Spark streams that read its commits. (We did not measure streams of a Merge-on-Read table or of Flink.)
#
# Where do the NULLs come from? Look at the current files:

# %%
from lab_env.lessons.l16.figures import schema_history

history = schema_history(lab, change_path)
history

# %% proof="After the change one of two current files has the column; a reader fills in NULL for the other"
assert history.lacking("coupon") == 1 and len(history.files) == 2
assert [history.changed("coupon", place) for place in range(3)] == [False, False, True]

# %% [markdown]
# The write touched only Friday's file. Copy-on-Write rewrites the files that it touches in the new schema, and
# no others. For those, each reader fills in NULL.
#
# ### Exercise 16.3 · Two versions of the app
#
# Not every server of the shop has the new version. An old one updates orders that have a coupon, and does not know
# the field. Parsed with `EVENT_V2`, such an update has NULL there. An upsert replaces the row, and the coupon is
# gone.
#
# Complete the function. It starts a stream that upserts `changes`, a stream with the columns of `EVENT_V2`, into
# the table at `path`, with the given `checkpoint` and the trigger `availableNow`. It returns the running query.
# If a change brings no coupon, the order keeps the one in the table. New orders are inserted. A batch has at most
# one row per order, and each is newer than the table's. The check sends two batches.
#
# [`foreachBatch`](https://spark.apache.org/docs/3.5.7/structured-streaming-programming-guide.html#foreachbatch)
# calls your function with each batch, as an ordinary DataFrame, and its number.


# %% exercise="16.3"
def keep_coupons(changes, path, checkpoint):
    """Stream changes into the table; where they have no coupon, the table's one stays."""

    # BEGIN SOLUTION
    def upsert(batch, batch_id):
        table = spark.read.format("hudi").load(path)
        stored = table.select("order_id", F.col("coupon").alias("stored"))
        merged = batch.join(stored, "order_id", "left")
        rows = merged.withColumn("coupon", F.coalesce("coupon", "stored")).drop("stored")
        rows.write.format("hudi").options(**ORDERS).mode("append").save(path)

    stream = changes.writeStream.foreachBatch(upsert).option("checkpointLocation", checkpoint)
    return stream.trigger(availableNow=True).start()
    # END SOLUTION


lab.check("16.3", keep_coupons)

# %% [markdown] hint="16.3"
# `F.coalesce(a, b)` is `a`, or `b` where `a` is NULL. How do you get each order's coupon from the
# table? A left join keeps the new orders.

# %% [markdown] hint="16.3"
# `changes.writeStream.foreachBatch(upsert)`, the option `checkpointLocation`, a trigger, `start()`.
# `upsert(batch, batch_id)` reads the table, joins, and writes as in lesson 04.

# %% [markdown] hint="16.3"
# In SQL: `MERGE INTO ... WHEN MATCHED THEN UPDATE SET ...`. It needs a name for the table, from
# `CREATE TABLE ... USING hudi LOCATION '...'`, and must set every column, also the ordering field.
# Only the batch's own session knows a view of the batch: `batch.sparkSession.sql(...)`.


# %% right="16.3"
# With `MERGE INTO` in each batch, where columns have different rules.
def keep_coupons(changes, path, checkpoint):
    def merge(batch, batch_id):
        batch.createOrReplaceTempView("batch")
        for statement in (
            "DROP TABLE IF EXISTS merged_orders",
            f"CREATE TABLE merged_orders USING hudi LOCATION '{path}'",
            """MERGE INTO merged_orders AS o USING batch AS b ON o.order_id = b.order_id
            WHEN MATCHED THEN UPDATE SET
                status = b.status, amount = b.amount, items = b.items, weight = b.weight,
                delivery = b.delivery, order_ts = b.order_ts, partition_date = b.partition_date,
                coupon = coalesce(b.coupon, o.coupon)
            WHEN NOT MATCHED THEN INSERT *""",
        ):
            batch.sparkSession.sql(statement)

    stream = changes.writeStream.foreachBatch(merge).option("checkpointLocation", checkpoint)
    return stream.trigger(availableNow=True).start()


# %% harmless="16.3"
# given every row twice: by the task a batch has an order once


# %% wrong="16.3"
# expect: took its silence for an answer
def keep_coupons(changes, path, checkpoint):
    def upsert(batch, batch_id):
        batch.write.format("hudi").options(**ORDERS).mode("append").save(path)

    stream = changes.writeStream.foreachBatch(upsert).option("checkpointLocation", checkpoint)
    return stream.trigger(availableNow=True).start()


# %% wrong="16.3"
# expect: that the first batch wrote
def keep_coupons(changes, path, checkpoint):
    table = spark.read.format("hudi").load(path)
    stored = table.select("order_id", F.col("coupon").alias("stored"))

    def upsert(batch, batch_id):
        merged = batch.join(stored, "order_id", "left")
        rows = merged.withColumn("coupon", F.coalesce("coupon", "stored")).drop("stored")
        rows.write.format("hudi").options(**ORDERS).mode("append").save(path)

    stream = changes.writeStream.foreachBatch(upsert).option("checkpointLocation", checkpoint)
    return stream.trigger(availableNow=True).start()


# %% wrong="16.3"
# expect: It is another path
def keep_coupons(changes, path, checkpoint):
    def merge(batch, batch_id):
        batch.createOrReplaceTempView("batch")
        for statement in (
            f"CREATE TABLE IF NOT EXISTS first_orders USING hudi LOCATION '{path}'",
            """MERGE INTO first_orders AS o USING batch AS b ON o.order_id = b.order_id
            WHEN MATCHED THEN UPDATE SET
                status = b.status, amount = b.amount, items = b.items, weight = b.weight,
                delivery = b.delivery, order_ts = b.order_ts, partition_date = b.partition_date,
                coupon = coalesce(b.coupon, o.coupon)
            WHEN NOT MATCHED THEN INSERT *""",
        ):
            batch.sparkSession.sql(statement)

    stream = changes.writeStream.foreachBatch(merge).option("checkpointLocation", checkpoint)
    return stream.trigger(availableNow=True).start()


# %% equivalent="16.3"
# without .options(ORDERS): the table keeps its keys; small writes are only slower
# without **ORDERS in rows.write.format('hudi').options: the table keeps its keys; small writes are only slower

# %% [markdown]
# Your stream replaces the one with the Hudi sink. The old server pays thirty orders, ten of which have a coupon.
# The checkpoint is a new one, and with "earliest" it would read the whole topic again, so we begin at the offset
# of the old server's first event.

# %%
lab.use_reference("16.3")
first_offset = len(sent)
send(range(481, 511), "paid", "15:00")

KAFKA_FROM = {**KAFKA, "startingOffsets": json.dumps({topic: {"0": first_offset}})}
records = spark.readStream.format("kafka").options(**KAFKA_FROM).load()
changes = valid_events(records, EVENT_V2)
query = keep_coupons(changes, orders_path, lab.path("_checkpoints/two_versions"))
query.awaitTermination()

# %%
BY_STATUS = """
    SELECT status, count(*) AS orders, count(coupon) AS with_coupon
    FROM orders GROUP BY 1 ORDER BY 1
"""
by_status = ask(orders_path, BY_STATUS).set_index("status")
by_status

# %% name="two-versions" proof="The old app pays thirty orders, and their ten coupons stay"
assert tuple(by_status.loc["paid"]) == (30, 10) and tuple(by_status.loc["new"]) == (630, 60)

# %% [markdown]
# This has a price. With `coalesce` NULL means "unknown", so nobody can remove a coupon; an app would need another
# value for that, such as an empty text. And a join in each batch reads the whole table; so does
# [`MERGE INTO`](https://hudi.apache.org/docs/sql_dml#merge-into) (hint 3), when its `ON` names only the key. In a large
# table, join only with the partitions of the batch. Hudi can also keep the old value when it merges, by a [partial
# update](https://hudi.apache.org/docs/record_merger) (not tried here).

# %% [markdown] tags=["instructor"]
# *For instructors.* 15 minutes. Most people bet on hudi-rs in 16.p3. Ask what the person on call
# sees at night: "Invalid batch", and not a word about a schema. In 16.3 let two people play the two servers.
# A batch with several changes of one order is the next question: reduce it to one row per order, with the last
# coupon that is not NULL. Short of time: leave out the restart of the stream.

# %% [markdown]
# ## A new name
#
# Marketing says *state* where the table says `status`. Hudi renames a column only with [**schema on
# read**](../docs/glossary.md#schema-on-read): columns get numbers, a history of their names lies next to the
# timeline, and a reader that uses it translates. Hudi's documentation calls this
# [experimental](https://hudi.apache.org/docs/schema_evolution), and renaming back does not undo it: the files written
# in between carry the new name. So we rename on the copy. Then a writer goes on under the new name, with ten rows of
# Friday.

# %%
ON_READ = {"hoodie.schema.on.read.enable": "true"}
ALLOW_DROP = "hoodie.datasource.write.schema.allow.auto.evolution.column.drop"

renamed_path = scratch_copy(lab, change_path, "renamed")
before = lab.xray(renamed_path).instants[-1]  # the commit before the rename
for statement in (
    "DROP TABLE IF EXISTS changed_orders",  # of an earlier run in this session
    f"CREATE TABLE changed_orders USING hudi LOCATION '{renamed_path}'",
    "SET hoodie.schema.on.read.enable = true",
    f"SET {ALLOW_DROP} = true",
    "ALTER TABLE changed_orders RENAME COLUMN status TO state",
    f"RESET {ALLOW_DROP}",
    "RESET hoodie.schema.on.read.enable",
):
    spark.sql(statement)

renamed = some_coupon.withColumnRenamed("status", "state")
renamed.write.format("hudi").options(**ORDERS, **ON_READ).mode("append").save(renamed_path)

# %% [markdown]
# (`RESET` ends both settings for this session. Hudi 1.1 needs the second one only because of a
# [bug](https://github.com/apache/hudi/issues/19766): without it, Hudi refuses the rename and leaves an unfinished
# instant on the timeline.)
#
# **Predict:** a job reads `state` without schema on read. In how many of the 600 orders does it find a value?

# %%
lab.predict("16.p4", ..., choices=("0", "300", "600", "an error"))

# %%
travel = {"as.of.instant": before.requested}
replies = ask_readers(
    {
        "Spark": lambda: read_table(renamed_path).toPandas(),
        "Spark, schema on read": lambda: read_table(renamed_path, **ON_READ).toPandas(),
        "hudi-rs": lambda: rows_of(renamed_path).to_pandas(),
        "time travel": lambda: read_table(renamed_path, **travel).toPandas(),
    },
    columns=("status", "state"),
)
lab.record_actual("16.p4", replies.loc["Spark", "state"].split(" of ")[0] or "an error")
replies

# %% name="rename" proof="Only with schema on read do all rows have the new name; others see NULL on Thursday"
assert list(replies["state"]) == ["300 of 600", "600 of 600", "300 of 600", "no column"]

# %% name="time-travel-across-a-rename" proof="Time travel to before the renaming shows the old name, with all its values"
assert list(replies.loc["time travel", ["status", "state"]]) == ["600 of 600", "no column"]

# %%
schema_history(lab, renamed_path)

# %% [markdown]
# Thursday's file has a column `status` and no `state`. A reader that matches columns by name
# finds nothing there and shows NULL for half of the orders, without an error: Spark without the option, hudi-rs,
# and, by [a reported issue](https://github.com/apache/hudi/issues/19381), Trino. Time travel shows the old name.
# And a writer that still sends `status` lacks the column `state`, so Hudi refuses it.
#
# So a rename is not only metadata. Writers, and readers that can use schema on read, need a cut-over date on which
# all switch together. For readers that match by name, somebody must first rewrite every old file. There is a gentler
# way.
#
# ### Exercise 16.4 · A new name without a break
#
# The new dashboard wants to read `coupon` as `voucher`. Older queries go on asking for `coupon`. Return a
# DataFrame with all columns of the table at `path` and one more: `voucher`, with the value of `coupon`. After
# your function, the table must still answer queries for `coupon`, in Spark and in hudi-rs. There are two ways: decide
# first who pays for each of them, a writer, another reader or a new session.


# %% exercise="16.4"
def offer_voucher(path):
    """Offer the column `coupon` as `voucher`, too; return what the new dashboard reads."""
    # BEGIN SOLUTION
    table = spark.read.format("hudi").load(path)
    table.withColumn("voucher", F.col("coupon")).createOrReplaceTempView("orders_v2")
    return spark.table("orders_v2")
    # END SOLUTION


lab.check("16.4", offer_voucher)

# %% [markdown] hint="16.4"
# The table may stay as it is. A view is a name for a query.

# %% [markdown] hint="16.4"
# The other way is to add a second column and fill it for all rows: two names, two copies of the
# value, and a writer that has to write both.


# %% right="16.4"
# Writes the column into the table, for readers who do not go through a view.
def offer_voucher(path):
    table = spark.read.format("hudi").load(path)
    rows = table.drop(*[name for name in table.columns if name.startswith("_hoodie_")])
    filled = rows.withColumn("voucher", F.col("coupon"))
    filled.write.format("hudi").options(**ORDERS).mode("append").save(path)
    return spark.read.format("hudi").load(path)


# %% wrong="16.4"
# expect: Yesterday's query fails
def offer_voucher(path):
    spark.sql("DROP TABLE IF EXISTS vouchers")
    spark.sql(f"CREATE TABLE vouchers USING hudi LOCATION '{path}'")
    spark.sql("SET hoodie.schema.on.read.enable = true")
    spark.sql(f"SET {ALLOW_DROP} = true")
    spark.sql("ALTER TABLE vouchers RENAME COLUMN coupon TO voucher")
    spark.sql(f"RESET {ALLOW_DROP}")
    spark.sql("RESET hoodie.schema.on.read.enable")
    return spark.table("vouchers")


# %% wrong="16.4"
# expect: `gift_note` is missing
def offer_voucher(path):
    return read_table(orders_path).withColumn("voucher", F.col("coupon"))  # not the one at `path`


# %% wrong="16.4"
# expect: changes `hoodie.schema.on.read.enable` for the whole session
def offer_voucher(path):
    spark.sql("SET hoodie.schema.on.read.enable = true")
    return spark.read.format("hudi").load(path).withColumn("voucher", F.col("coupon"))


# %% [markdown]
# A view, such as the reference's `orders_v2`, leaves the table alone, but a temporary one ends with the session; in
# production you need `CREATE VIEW` in the metastore (lesson 13), and hudi-rs does not see it. A second column must be
# filled for all rows, and every writer that does not send it lacks a column. Drop the old name only when nobody has
# asked for it for longer than your readers travel back.
#
# ### The board
#
# Revenue by status, with and without a coupon, from your function:

# %%
lab.use_reference("16.4")
offer_voucher(orders_path).createOrReplaceTempView("with_vouchers")
board = spark.sql("""
    SELECT status, IF(voucher IS NULL, 'no', 'yes') AS coupon, sum(amount) AS revenue
    FROM with_vouchers GROUP BY 1, 2 ORDER BY 1, 2
""").toPandas()
board

# %% name="the-board" proof="The board equals what the app has sent, to the cent"
assert board.to_dict("records") == board_of(sent).to_dict("records")

# %% [markdown] tags=["instructor"]
# *For instructors.* 11 minutes. Before 16.p4 ask for hands: each number gets some. The sentence to take home: a
# rename needs a date. In 16.4 accept both ways and ask for the price of each.

# %% [markdown]
# > **In production**
# > - Let a [**schema registry**](../docs/glossary.md#schema-registry) refuse a breaking schema before the first event
# >   ([compatibility
# >   rules](https://docs.confluent.io/platform/current/schema-registry/fundamentals/schema-evolution.html)). It checks
# >   schemas, not values.
# > - Engines that read through a metastore see a new column after the next [sync](https://hudi.apache.org/docs/syncing_metastore).
# > - A backfill needs the topic's past: keep it longer than a forgotten field stays unnoticed
# >   ([`retention.ms`](https://kafka.apache.org/41/configuration/topic-configs/#topicconfigs_retention.ms)).
#
# ## Key points
#
# - `from_json` silently drops a field that the schema does not name: compare the names in the text with those that
#   you know.
# - A table accepts a new column that may be NULL, and a wider type; a successful write says nothing about the type.
# - Hudi refuses a missing column, or stores NULL and so erases the old value.
# - A new column is empty in older rows; a backfill replays their events, as a batch or under a new identifier.
# - A new column stops Spark's streams of the table until you restart them; a rename breaks readers that match by
#   name, a view breaks nobody.
#
# ## What's next
#
# Lesson 17 stops the writer in the middle of a batch and asks what the table holds.

# %%
spark.stop()
