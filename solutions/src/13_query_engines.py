# ---
# title: "Same table, other engines: same answers?"
# minutes: {teach: 25, do: 15}
# needs: ["09"]
# services: [minio, kafka, metastore, trino]
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 13 · Same table, other engines: same answers?
#
# ## Questions
#
# - Spark writes the table. The analysts ask Trino, a colleague reads it from plain Python. Do all of them
#   get the same answer?
# - The table has a new day. Who knows of it?
# - Which engine can look back, and which can read only what has changed?
#
# ## Objectives
#
# At the end of this lesson you can
#
# - give a table a name that other engines find, and make a forgotten partition known (13.1),
# - read an uncompacted Merge-on-Read table without Java (13.2).
#
# You will also have a matrix of what three engines can do, filled in by the engines themselves.
#
# ## What you need
#
# Lesson 05: base files and logs. Lessons 09 to 12 explain the query types that we ask for here. SQL and
# Python. Forty minutes.

# %% [markdown]
# ## Start
#
# This lesson needs two more servers. The *Hive Metastore* is here already. *Trino* is large: **the first
# start fetches 0.8 GB, once**, and the disk must have 2.1 GB free meanwhile. On a machine that is short of
# disk or memory the cell says that Trino is left out, and the lesson goes on without it.
#
# Run both cells and read on. Trino starts while Spark writes.

# %%
import pandas as pd
from lab_env import Lab
from lab_env.pipeline.options import DEMO_OPTIONS

lab = Lab.start("13", "metastore", optional="trino")
spark = lab.spark

ORDERS = DEMO_OPTIONS | {
    "hoodie.datasource.write.recordkey.field": "order_id",
    "hoodie.table.ordering.fields": "order_ts",
    "hoodie.datasource.write.partitionpath.field": "partition_date",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    # A base file carries a filter of its keys, by default for 60,000 of them. We have 1,200.
    "hoodie.index.bloom.num_entries": "1000",
    "hoodie.table.cdc.enabled": "true",  # for the change feed, as in lesson 12
}
TYPES = {
    "cow": {"hoodie.datasource.write.table.type": "COPY_ON_WRITE"},
    "mor": {
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.datasource.compaction.async.enable": "false",  # the logs shall stay logs
    },
}


def events(which, status, minute):
    """An event for each of some orders: `which` is a condition on the order's number, `id`."""
    return spark.range(1, 1301, 1, numPartitions=1).where(which).selectExpr(
        "concat('O-', id) AS order_id",
        "concat('C-', pmod(hash(id), 300)) AS customer_id",
        f"'{status}' AS status",
        "CAST(10 + pmod(hash(id), 9000) / 100 AS DECIMAL(12,2)) AS amount",
        f"TIMESTAMP '2026-11-20 12:00:00' + make_interval(0, 0, 0, 0, 0, {minute}) AS order_ts",
        "IF(id <= 1000, '2026-11-20', '2026-11-21') AS partition_date",
    )  # fmt: skip


# %%
SYNC = {
    "hoodie.datasource.hive_sync.enable": "true",
    "hoodie.datasource.hive_sync.mode": "hms",  # speak to the metastore itself, in its own protocol
    "hoodie.datasource.hive_sync.metastore.uris": lab.address("metastore"),
    "hoodie.datasource.hive_sync.database": lab.database,
}
NAMED = {kind: {"hoodie.table.name": f"orders_{kind}"} for kind in TYPES}
for kind, named in NAMED.items():
    named["hoodie.datasource.hive_sync.table"] = f"orders_{kind}"
NAMED["mor"]["hoodie.datasource.hive_sync.support_timestamp"] = "true"  # we shall see what for

incoming, schema = lab.path("incoming"), events("true", "new", 0).schema


def run_streams():
    """Read the events that have come since the last run, and write them to both tables."""
    for kind, type_ in TYPES.items():
        (
            spark.readStream.schema(schema)
            .json(incoming)
            .writeStream.format("hudi")
            .options(**(ORDERS | type_ | NAMED[kind] | SYNC))
            .option("checkpointLocation", lab.path(f"checkpoints/{kind}"))
            .trigger(availableNow=True)
            .start(lab.path(f"orders_{kind}"))
            .awaitTermination()
        )


spark.sql(f"CREATE DATABASE {lab.database} LOCATION '{lab.path('names')}'")
spark.sql(f"USE {lab.database}")

events("id <= 1200", "new", 0).write.mode("append").json(incoming)
run_streams()
before = lab.xray(lab.path("orders_mor"))

# %% [markdown]
# Two streaming queries read the same events, as in lesson 03, from files here. One writes a Copy-on-Write table, the other
# a Merge-on-Read table. The first batch has 1,200 new orders of two days.
#
# Until now we have called a table by its path. Other engines want a name. The
# [**Hive Metastore**](../docs/glossary.md#hive-metastore) is a directory of names: for each table it keeps
# the columns, the place, and the partitions. It is no part of Hive only; Trino, Presto and Spark all ask one. (Amazon's
# Athena asks the AWS Glue Data Catalog, which has the same duty.)
# The options in `SYNC` let Hudi register the table there after each commit. That is called
# [**Hive sync**](../docs/glossary.md#hive-sync).

# %% [markdown]
# ## Who knows the table's name?
#
# The second batch: ten orders of the 20th are paid, O-17 among them, and ten orders of the 21st are new.
#
# **Predict:** after it, how many tables does the metastore list for the two that we have written? A number.

# %%
lab.predict("13.p1", ..., tolerance=0)

# %%
paid = events("id BETWEEN 11 AND 20", "paid", 60)
new = events("id BETWEEN 1201 AND 1210", "new", 60)
paid.union(new).coalesce(1).write.mode("append").json(incoming)
run_streams()

names = [row.tableName for row in spark.sql("SHOW TABLES").collect()]
print(*names, sep="\n")
lab.record_actual("13.p1", len(names))

# %% name="names" proof="Hive sync registered four names, and each points to its table."
assert names == ["orders_cow", "orders_mor", "orders_mor_ro", "orders_mor_rt"]
tables = {name: spark.sql(f"DESCRIBE EXTENDED {name}") for name in names}
location = "col_name = 'Location'"
places = {name: rows.where(location).first()["data_type"] for name, rows in tables.items()}
assert places == {name: lab.path(name[:10]) for name in names}

# %% [markdown]
# Four names for two tables. A Merge-on-Read table has three, all for one place on the store. `_ro` asks for
# the read-optimised answer: base files only. `_rt` (real time) and the plain name ask for the snapshot,
# with the logs. So in SQL the name says the query type. Whether an engine does what the name says is another matter.
#
# Here is the Merge-on-Read table as it lies there now:

# %%
lab.xray(lab.path("orders_mor"), since=before)

# %% [markdown]
# One commit, two kinds of change, as in lesson 05. The ten payments of the 20th stand in a log. The ten new
# orders of the 21st stand in a base file, which was written anew for them. Nobody has compacted. (The
# file that ends in `.cdc` belongs to the change feed.)
#
# ### Three engines
#
# **Spark SQL** finds the table by its name in the metastore, and reads it with Hudi's own code.
#
# [**Trino**](../docs/glossary.md#trino) is a server of its own, a query engine for many kinds of tables. It
# asks the same metastore and the same store, and shares no line with our Spark session. Its Hudi connector
# can only read.

# %%
from trino.dbapi import connect

with_trino = lab.wait_for("trino")


def in_spark(sql):
    return spark.sql(sql).toPandas()


def in_trino(sql):
    if not with_trino:
        raise RuntimeError("Trino was left out on this machine.")
    host, port = lab.address("trino").removeprefix("http://").split(":")
    with connect(host, int(port), user="lab", catalog="hudi", schema=lab.database) as connection:
        answer = connection.cursor().execute(sql)
        return pd.DataFrame(
            answer.fetchall(), columns=[column.name for column in answer.description]
        )


# %% [markdown]
# [**hudi-rs**](../docs/glossary.md#hudi-rs) is Hudi's reader in Rust, a Python package. It needs no
# Java, no Spark and no metastore: it reads the timeline from the store, as Hudi does. It gives Arrow tables. DuckDB, an SQL
# engine inside this Python process, asks questions about them. (DuckDB ships no reader for Hudi tables itself.)
#
# Its storage options say where the store is. For the table's [metadata table](../docs/glossary.md#metadata-table) hudi-rs
# 0.5 does not pass them on: it reads the environment (`AWS_ENDPOINT`, `AWS_REGION`, `AWS_ALLOW_HTTP`), which the
# lab has set. Without these variables it asks Amazon for your bucket, fails, and lists the folders instead.

# %%
import duckdb
import pyarrow as pa
from hudi import HudiQueryType, HudiReadOptions, HudiTableBuilder

STORE = {  # the keys are in the environment, as for Spark
    "aws_endpoint": lab.endpoints.s3_endpoint,
    "aws_region": lab.endpoints.s3_region,
    "aws_allow_http": "true",
}


def with_hudi_rs(name, options=None):
    """The rows of one of the lesson's tables as an Arrow table."""
    address = lab.path(name).replace("s3a://", "s3://")
    table = HudiTableBuilder.from_base_uri(address).with_storage_options(STORE).build()
    return pa.Table.from_batches(table.read(options), table.get_schema_with_meta_fields())


def in_duckdb(sql, rows):
    """Ask about `rows`, an Arrow table, by that name."""
    return duckdb.sql(sql).to_arrow_table().to_pandas()


# %% [markdown]
# ### A partition that nobody announced
#
# A second table, `returns`, has a writer that syncs. One night somebody repairs something with a script, and leaves
# the sync options out. It writes ten returns of a new day.
#
# **Predict:** which engine does not count all twenty returns: `Spark SQL`, `Trino` or `hudi-rs`? Or do all count them:
# `none`?

# %%
lab.predict("13.p2", ..., choices=("Spark SQL", "Trino", "hudi-rs", "none"))

# %%
from lab_env.lessons.l13.figures import query_engine

RETURNS = ORDERS | {
    "hoodie.table.name": "returns",
    "hoodie.datasource.hive_sync.table": "returns",
    "hoodie.datasource.hive_sync.support_timestamp": "true",
}


def write_returns(day, options):
    rows = events("id <= 10", "returned", 0).selectExpr(
        f"concat('R-', order_id, '-{day}') AS order_id",
    "amount",
    "order_ts",
    f"'{day}' AS partition_date"
    )  # fmt: skip
    rows.write.format("hudi").options(**options).mode("append").save(lab.path("returns"))


write_returns("2026-11-20", RETURNS | SYNC)
write_returns("2026-11-21", RETURNS)  # the script

COUNT = "SELECT count(*) AS n FROM {}"
counted = {
    "Spark SQL": query_engine(lambda: in_spark(COUNT.format("returns"))),
    "Trino": query_engine(lambda: in_trino(COUNT.format("returns"))),
    "hudi-rs": query_engine(lambda: in_duckdb(COUNT.format("rows"), with_hudi_rs("returns"))),
}
counts = {engine: reply.rows["n"][0] for engine, reply in counted.items() if reply.rows is not None}
lab.record_actual("13.p2", ", ".join(name for name, n in counts.items() if n < 20) or "none")

# %% name="unannounced"
known = lab.known_partitions("returns")  # asks the metastore itself
pd.Series(counts, name="returns counted").to_frame()

# %% proof="Spark and hudi-rs count 20 returns; Trino counts 10, for the metastore knows one day."
assert known == ["partition_date=2026-11-20"]
assert counts == {"Spark SQL": 20, "hudi-rs": 20} | ({"Trino": 10} if with_trino else {})

# %% [markdown]
# Ten returns are missing in Trino, without an error. Trino asks the metastore which partitions there are, and
# it knows of one day only. Spark and hudi-rs ask the table itself.
#
# Beware of checking it in Spark. `SHOW PARTITIONS` lists the folders of a Hudi table:

# %%
shown = [row.partition for row in spark.sql("SHOW PARTITIONS returns").collect()]
{"SHOW PARTITIONS in Spark": shown, "the metastore": known}

# %% proof="Spark lists both folders as partitions; the metastore knows one."
assert len(shown) == 2 and len(known) == 1

# %% [markdown]
# ### Exercise 13.1 · Make the day known
#
# Write a function that makes the metastore know all partitions of a table. It gets the table's name. The
# check writes one more day without sync, a random one, calls your function, and asks the metastore. The function does
# not know which day it is.


# %% exercise="13.1"
def publish(table):
    spark.sql(f"MSCK REPAIR TABLE {table}")  # SOLUTION


lab.check("13.1", publish)

# %% [markdown] hint="13.1"
# No row has to be written. Spark has a statement that compares the folders of a table with the partitions
# that its catalogue knows; it comes from Hive.

# %% [markdown] hint="13.1"
# Its name is `MSCK REPAIR TABLE`. Hudi has a procedure, too: `CALL hive_sync(table => ..., mode => 'hms')`.


# %% right="13.1"
def publish(table):
    spark.catalog.recoverPartitions(table)


# %% right="13.1"
def publish(table):
    uris = SYNC["hoodie.datasource.hive_sync.metastore.uris"]
    spark.sql(f"CALL hive_sync(table => '{table}', mode => 'hms', metastore_uri => '{uris}')")


# %% wrong="13.1"
# expect: forget what it has read before
def publish(table):
    spark.sql(f"REFRESH TABLE {table}")


# %% wrong="13.1"
# expect: You name the day yourself
def publish(table):
    spark.sql(f"ALTER TABLE {table} ADD IF NOT EXISTS PARTITION (partition_date = '2026-12-01')")


# %% [markdown]
# ### The same columns?
#
# The metastore keeps the columns, too. Here is one on which the engines do not agree:

# %% name="types"
types = {}
for name in ("orders_cow", "orders_mor"):
    types[name] = {
        "Spark SQL": dict(spark.table(name).dtypes)["order_ts"],
        "hudi-rs": str(with_hudi_rs(name).schema.field("order_ts").type),
    }
    if with_trino:
        columns = in_trino(f"DESCRIBE {name}").set_index("Column")
        types[name]["Trino"] = columns.loc["order_ts", "Type"]
pd.DataFrame(types).rename_axis("type of order_ts")

# %% proof="Synced without support_timestamp, a time is a whole number to Trino."
if with_trino:
    assert types["orders_cow"]["Trino"] == "bigint"
    assert types["orders_mor"]["Trino"] == "timestamp(9)"
assert {types[name]["Spark SQL"] for name in types} == {"timestamp"}

# %% [markdown]
# Hive sync registers a time as a whole number (`bigint`) unless `hoodie.datasource.hive_sync.support_timestamp` is
# true. We have set it for `orders_mor` and not for `orders_cow`. Trino believes the metastore, and shows a number
# with sixteen digits. Spark reads the columns that Hudi has kept for it beside them. Set the option before
# the first sync: a registered column does not change its type by itself. Users
# [meet this often](https://github.com/apache/hudi/issues/7730).

# %% [markdown] tags=["instructor"]
# *For instructors.* Fifteen minutes to here. For 13.p1 most say two, or three. For 13.p2 many say that
# nobody sees the new day, because "it is not registered"; let them say who asks whom. Draw three arrows: Spark to the
# store, hudi-rs to the store, Trino to the metastore and then to the store. `CALL hive_sync` registers the table
# under the name in `hoodie.table.name`: where that differs from the synced name it says "success" and makes
# another table. It registers a time as a timestamp, so it fails where the table was synced with `bigint`.

# %% [markdown]
# ## Which engine gives which answer?
#
# Five ways to ask, from the lessons before: snapshot, read-optimised, time travel (as of the first commit), incremental
# (since the first commit), and the change feed of the same window. Two table types. Three engines. What
# comes back is one of three things:
#
# - `"same"`: the same rows as in Spark SQL, all columns of all rows compared (times as milliseconds, because their
#   types differ, and without the columns that Hudi adds),
# - `"other"`: rows, but not the same, and no error,
# - `"none"`: an error.
#
# **Predict** for the uncompacted Merge-on-Read table: what comes back when Trino is asked for the *snapshot*? And to
# how many of the five questions does hudi-rs give the same rows? (A number; one more or less counts, too.)

# %%
lab.predict("13.p3", ..., choices=("same", "other", "none"))

# %%
lab.predict("13.p4", ..., tolerance=1)

# %% [markdown]
# The five questions in the language of each engine. `then` is the table's first commit. Trino has SQL for
# the past of a table. For changes it has no words of its own, so we ask it whether it knows Spark's function,
# `hudi_table_changes`. The change feed begins at a requested time, the incremental query at a completion time (lesson 12).

# %%
COLUMNS = "order_id, customer_id, status, amount, partition_date, {} AS changed_at"
ROW = {
    "Spark SQL": COLUMNS.format("unix_millis(order_ts)"),
    "DuckDB": COLUMNS.format("epoch_ms(order_ts)"),
    # In Trino the time has the type that the sync registered.
    "orders_cow": COLUMNS.format("order_ts / 1000"),
    "orders_mor": COLUMNS.format("to_milliseconds(order_ts - TIMESTAMP '1970-01-01 00:00:00')"),
}


def for_spark(table, then):
    row, changes = ROW["Spark SQL"], f"hudi_table_changes('{table}', '{{}}', '{{}}')"
    return {
        "snapshot": f"SELECT {row} FROM {table}",
        "read-optimised": f"SELECT {row} FROM {table}_ro",
        "time travel": f"SELECT {row} FROM {table} TIMESTAMP AS OF '{then.requested}'",
        "incremental": f"SELECT {row} FROM {changes.format('latest_state', then.completed)}",
        "change feed": f"SELECT op, before, after FROM {changes.format('cdc', then.requested)}",
    }


def for_trino(table, then):
    moment = pd.to_datetime(then.requested, format="%Y%m%d%H%M%S%f")
    row, changes = ROW[table], f"TABLE(hudi_table_changes('{table}', '{{}}', '{{}}'))"
    return {
        "snapshot": f"SELECT {row} FROM {table}",
        "read-optimised": f"SELECT {row} FROM {table}_ro",
        "time travel": f"SELECT {row} FROM {table} FOR TIMESTAMP AS OF TIMESTAMP '{moment} UTC'",
        "incremental": f"SELECT {row} FROM {changes.format('latest_state', then.completed)}",
        "change feed": f"SELECT op, before, after FROM {changes.format('cdc', then.requested)}",
    }


def for_hudi_rs(then):
    options = HudiReadOptions()
    return {
        "snapshot": options,
        "read-optimised": options.with_hudi_option("hoodie.read.use.read_optimized.mode", "true"),
        "time travel": options.with_as_of_timestamp(then.requested),
        "incremental": options.with_query_type(HudiQueryType.Incremental)
        .with_start_timestamp(then.completed),
        "change feed": options.with_hudi_option("hoodie.read.query.type", "cdc"),
    }  # fmt: skip


# %% name="matrix"
from lab_env.lessons.l13.figures import EngineMatrix

QUESTIONS = ("snapshot", "read-optimised", "time travel", "incremental", "change feed")
first = {kind: lab.xray(lab.path(f"orders_{kind}")).instants[0] for kind in TYPES}
replies = {}


def compare(query, kind):
    """Ask the three engines the same question."""
    table, then = f"orders_{kind}", first[kind]
    duckdb_sql = f"SELECT {ROW['DuckDB']} FROM rows"
    replies[query, kind, "Spark SQL"] = query_engine(
        lambda: in_spark(for_spark(table, then)[query])
    )
    replies[query, kind, "Trino"] = query_engine(lambda: in_trino(for_trino(table, then)[query]))
    replies[query, kind, "hudi-rs + DuckDB"] = query_engine(
        lambda: in_duckdb(duckdb_sql, with_hudi_rs(table, for_hudi_rs(then)[query]))
    )


for query in QUESTIONS:
    for kind in TYPES:
        if (query, kind) != ("read-optimised", "cow"):  # has no name: on COW it is the snapshot
            compare(query, kind)

matrix = EngineMatrix(replies)
told = {engine: matrix.verdicts(engine, "mor") for engine in matrix.engines}
if with_trino:
    lab.record_actual("13.p3", told["Trino"]["snapshot"])
lab.record_actual("13.p4", list(told["hudi-rs + DuckDB"].values()).count("same"))
matrix

# %% name="trino-answers" proof="Trino answers the Merge-on-Read snapshot read-optimised; hudi-rs agrees with Spark."
cow = {engine: matrix.verdicts(engine, "cow") for engine in matrix.engines}
reader = dict.fromkeys(("snapshot", "time travel", "incremental"), "same")


def paid_by(query, kind, engine):
    return (replies[query, kind, engine].rows["status"] == "paid").sum()


assert set(cow["Spark SQL"].values()) | set(told["Spark SQL"].values()) == {"same"}
assert told["hudi-rs + DuckDB"] == reader | {"read-optimised": "same", "change feed": "none"}
assert cow["hudi-rs + DuckDB"] == reader | {"change feed": "none"}
assert [paid_by("snapshot", kind, "Spark SQL") for kind in TYPES] == [10, 10]
assert paid_by("read-optimised", "mor", "Spark SQL") == 0
if with_trino:
    cannot = {"time travel": "none", "incremental": "none", "change feed": "none"}
    assert cow["Trino"] == {"snapshot": "same"} | cannot
    assert told["Trino"] == {"snapshot": "other", "read-optimised": "same"} | cannot
    half = replies["snapshot", "mor", "Trino"].rows
    assert len(half) == 1210 and paid_by("snapshot", "mor", "Trino") == 0
    in_real_time = in_trino("SELECT count_if(status = 'paid') AS paid FROM orders_mor_rt")
    assert in_real_time["paid"][0] == 0

# %% [markdown]
# Read the amber cell twice. Asked for the snapshot of the Merge-on-Read table, **Trino gives the read-optimised answer, and no
# error**. It has the ten new orders, which stand in a base file. It lacks the ten payments of the same
# commit, which stand in the log. Such a state never existed: half a commit, as in lesson 09. The name `orders_mor_rt`
# does not help; the proof above asked it, too. Trino's documentation says so: on Merge-on-Read its connector
# (version 476, with Hudi 1.0.2 inside) supports read-optimised queries only. But nothing says so where the query stands.
# The [wish for more](https://github.com/trinodb/trino/issues/14432) of 2022 was still open in November 2026.
#
# On Copy-on-Write the three give the same rows. There is nothing to merge.
#
# hudi-rs merges logs, looks back and reads increments, with the same rows as Spark. It has no change feed. Trino can
# do neither: it knows only the newest state.
#
# So choose the table type with the *readers* in mind. If Trino must be right to the minute, take
# Copy-on-Write, or compact as often as Trino's readers may lag (lesson 06).
#
# ### How long does it take?
#
# One question, asked in turns, in five rounds: how many orders of the Merge-on-Read table are paid? Beside it stands
# the first count of each engine in this lesson, that of `returns`. It was *cold*: it opened connections and loaded
# code. In the rounds all that is *warm*.

# %% name="race"
from lab_env.lessons.l13.figures import race

PAID = "SELECT count(*) AS n FROM {} WHERE status = 'paid'"
questions = {
    "Spark SQL": lambda: in_spark(PAID.format("orders_mor")),
    "Trino": lambda: in_trino(PAID.format("orders_mor")),
    "hudi-rs + DuckDB": lambda: in_duckdb(PAID.format("rows"), with_hudi_rs("orders_mor")),
}
if not with_trino:
    questions.pop("Trino")
cold = dict(zip(("Spark SQL", "Trino", "hudi-rs + DuckDB"), counted.values(), strict=True))
times = race(questions, {engine: cold[engine].seconds for engine in questions})
times.frame().rename_axis("milliseconds")

# %% proof="On this small table hudi-rs with DuckDB has a lower median than Spark."
medians = times.frame()["median"]
assert medians["hudi-rs + DuckDB"] < medians["Spark SQL"]

# %%
times.verdicts().to_frame()

# %% [markdown]
# For 1,210 rows the small reader inside the Python process has a lower median than Spark, which the proof above checks. That
# says nothing about a large table: Spark and Trino spread the work over many machines, hudi-rs reads into the memory of
# one process. An engine is named as the faster one only if the difference exceeds the noise: all its rounds lie
# below those of the other, and the medians are farther apart than either engine varies. Otherwise the verdict is
# `inconclusive` (lesson 20 teaches this rule). And remember that Trino had less to do: it skipped the log.
#
# ### Exercise 13.2 · Without Java
#
# Write a function that gets the address of a Hudi table (`s3://...`) and returns how many orders it has, and how
# many of them are paid, as `{"orders": ..., "paid": ...}`. It must not ask Spark or Trino. The check calls it with an
# uncompacted Merge-on-Read table that you do not know, and watches whether Spark ran a job.


# %% exercise="13.2"
def count_orders(address):
    # BEGIN SOLUTION
    table = HudiTableBuilder.from_base_uri(address).with_storage_options(STORE).build()
    rows = pa.Table.from_batches(table.read())
    sql = "SELECT count(*) AS orders, count(*) FILTER (WHERE status = 'paid') AS paid FROM rows"
    return in_duckdb(sql, rows).iloc[0].to_dict()
    # END SOLUTION


lab.check("13.2", count_orders)

# %% [markdown] hint="13.2"
# `with_hudi_rs` above does nearly all of it, for a name.

# %% [markdown] hint="13.2"
# `HudiTableBuilder.from_base_uri(address).with_storage_options(STORE).build().read()` gives Arrow batches.


# %% right="13.2"
def count_orders(address):
    table = HudiTableBuilder.from_base_uri(address).with_storage_options(STORE).build()
    rows = pa.Table.from_batches(table.read()).to_pandas()
    return {"orders": str(len(rows)), "paid": (rows["status"] == "paid").sum()}


# %% right="13.2"
def count_orders(address):
    import pyarrow.compute as pc

    table = HudiTableBuilder.from_base_uri(address).with_storage_options(STORE).build()
    rows = pa.Table.from_batches(table.read())
    return {"orders": pa.scalar(rows.num_rows), "paid": pc.sum(pc.equal(rows["status"], "paid"))}


# %% wrong="13.2"
# expect: old slices counted, logs ignored
def count_orders(address):
    import pyarrow.dataset as ds
    from pyarrow.fs import S3FileSystem

    where, _, endpoint = lab.endpoints.s3_endpoint.partition("://")
    store = S3FileSystem(endpoint_override=endpoint, scheme=where, region=STORE["aws_region"])
    files = ds.dataset(
        address.removeprefix("s3://"), filesystem=store, format="parquet"
    )  # **/*.parquet
    sql = "SELECT count(*) AS orders, count(*) FILTER (WHERE status = 'paid') AS paid FROM rows"
    return in_duckdb(sql, files).iloc[0].to_dict()


# %% wrong="13.2"
# expect: base files only
def count_orders(address):
    table = HudiTableBuilder.from_base_uri(address).with_storage_options(STORE).build()
    rows = pa.Table.from_batches(
        table.read(HudiReadOptions(hudi_options={"hoodie.read.use.read_optimized.mode": "true"}))
    )
    return {"orders": len(rows), "paid": rows["status"].to_pylist().count("paid")}


# %% wrong="13.2"
# expect: Spark ran
def count_orders(address):
    rows = spark.read.format("hudi").load(address.replace("s3://", "s3a://"))
    return {"orders": rows.count(), "paid": rows.where("status = 'paid'").count()}


# %% wrong="13.2"
# expect: are estimates
def count_orders(address):
    table = HudiTableBuilder.from_base_uri(address).with_storage_options(STORE).build()
    return {"orders": sum(piece.num_records for piece in table.get_file_slices()), "paid": 10}


# %% wrong="13.2"
# expect: You count 10 paid orders
def count_orders(address):
    table = HudiTableBuilder.from_base_uri(address).with_storage_options(STORE).build()
    return {
        "orders": pa.Table.from_batches(table.read()).num_rows,
        "paid": 10,
    }  # the lesson's table


# %% wrong="13.2"
# expect: Return a dictionary with two numbers
def count_orders(address):
    table = HudiTableBuilder.from_base_uri(address).with_storage_options(STORE).build()
    print(pa.Table.from_batches(table.read()).num_rows)  # shown, and nothing returned


# %% [markdown] tags=["instructor"]
# *For instructors.* Fifteen minutes. The amber cell is the lesson. Ask before the run: "Trino does not merge logs. Does it refuse, or
# does it answer?" Most expect an error. Then ask what a dashboard on it would show. Common error with 13.2: all Parquet files,
# which is what DuckDB's own `read_parquet('**/*.parquet')` reads. Times vary; talk about the verdicts only.

# %% [markdown]
# ## Does a bookmark fit every engine?
#
# Lesson 11 reads increments with a bookmark. Say that a Spark job has kept one, and the next run is a Python
# program with hudi-rs, or a query in Trino. Trino has no incremental query, but each row carries
# `_hoodie_commit_time`, and people filter by it.
#
# There are two times that one could keep: when the last commit that was read was *completed*, as lesson 11
# recommends, or the largest `_hoodie_commit_time` among the rows. We take both for a job that has read the first
# commit of `orders_cow`, and for a job that has read everything.
#
# **Predict:** a job has read everything and keeps the largest `_hoodie_commit_time`. Nothing is new. How many
# rows does Spark SQL deliver in the next run? A number; two more or less count, too.

# %%
lab.predict("13.p5", ..., tolerance=2)


# %%
def since(table, bookmark):
    """How many rows each engine delivers after a bookmark."""
    spark_way = f"hudi_table_changes('{table}', 'latest_state', '{bookmark}')"
    trino_way = f"{table} WHERE _hoodie_commit_time > '{bookmark}'"
    hudi_rs_way = (
        HudiReadOptions()
        .with_query_type(HudiQueryType.Incremental)
        .with_start_timestamp(bookmark)
    )  # fmt: skip
    return {
        "Spark SQL": int(in_spark(COUNT.format(spark_way))["n"][0]),
        "Trino": int(in_trino(COUNT.format(trino_way))["n"][0]) if with_trino else None,
        "hudi-rs": len(with_hudi_rs(table, hudi_rs_way)),
    }


one, two = lab.xray(lab.path("orders_cow")).instants
delivered = {
    ("read commit 1", "completion time"): since("orders_cow", one.completed),
    ("read commit 1", "_hoodie_commit_time"): since("orders_cow", one.requested),
    ("read everything", "completion time"): since("orders_cow", two.completed),
    ("read everything", "_hoodie_commit_time"): since("orders_cow", two.requested),
}
rows = pd.DataFrame(delivered).T
rows

# %% name="bookmarks"
lab.record_actual("13.p5", delivered["read everything", "_hoodie_commit_time"]["Spark SQL"])

# %% proof="Spark and hudi-rs deliver the same increments; Trino lacks changes."
assert list(rows["Spark SQL"]) == list(rows["hudi-rs"]) == [20, 1210, 0, 20]
if with_trino:
    assert list(rows["Trino"]) == [20, 20, 0, 0]

# %% [markdown]
# Spark and hudi-rs agree in every row: both compare **completion** times. A bookmark of one fits the other. With
# the other time both deliver a commit again.
#
# Trino's filter compares what stands in the column, the **requested** time, and so `_hoodie_commit_time` works as
# its bookmark here. But a filter is no incremental query. It goes through all files of the table (of some it may skip
# the rows, by the statistics in the file), and on a Merge-on-Read table it does not see the logs:

# %% name="filter-on-mor"
on_mor = since("orders_mor", first["mor"].completed)
on_mor

# %% proof="On Merge-on-Read, Trino's filter by commit time misses the rows in logs."
assert on_mor["Spark SQL"] == on_mor["hudi-rs"] == 20 and on_mor["Trino"] in (10, None)

# %% [markdown]
# Ten of twenty: the payments are not there. And one more gap follows, which our table does not show: where two
# writers work at once, a commit may be requested before the bookmark and completed after it. It never passes the
# filter.
#
# > **Documented, not measured here.** An earlier hudi-rs compared requested times: so says the source of its 0.5.0
# > development version of May 2026 (`timeline/selector.rs` of
# > [hudi-rs](https://github.com/apache/hudi-rs)). The release 0.5.0, which we use, does not. Ask again with each upgrade: the
# > cell above is the question.

# %% [markdown]
# ## Key points
#
# - A metastore keeps names, columns, places and partitions. Hive sync tells it about them after each commit. A writer
#   without the sync options leaves it behind, and Trino with it; no error says so.
# - A Merge-on-Read table gets three names. Trino gives the read-optimised answer for all of them.
# - On Copy-on-Write, Spark, Trino and hudi-rs give the same rows.
# - hudi-rs reads snapshots with logs, the past and increments without Java. All Parquet files of a folder are
#   not the table: it is what its timeline says.
# - Completion times are bookmarks for Spark and hudi-rs. `_hoodie_commit_time` is one for a filter.
# - Whether an engine can do something is measured in a minute. Measure it with your versions.
#
# ## What's next
#
# This was how a table is queried. The next part runs the pipeline for real: windows, sources that change,
# failures, and what all of it costs.

# %%
spark.stop()
