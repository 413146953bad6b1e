"""Checks of lesson 13: registered tables and partitions, DuckDB without Spark, rows by reader."""

import random
import secrets
from collections import Counter
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache

import duckdb
import pandas as pd
from pyspark.sql import DataFrame, Row
from pyspark.sql.functions import expr

from lab_env.course.answers import Unreadable, as_int, as_rows, as_text, kind_of
from lab_env.course.checking import check, expect
from lab_env.lessons.hudi_rs import rows_of
from lab_env.lessons.l13.shop import ask_trino
from lab_env.lessons.l13.tasting import known_days, read_optimised, rows_in_files, whole_folder
from lab_env.lessons.rows import expect_rows, keys_of, named, rows_at, settings_of
from lab_env.lessons.table_copies import copy_table
from lab_env.lessons.timelines import completed_instants, expect_added
from lab_env.pipeline.options import DEMO_OPTIONS, KEYS
from lab_env.platform.services import service

WRITER = DEMO_OPTIONS | KEYS | {"hoodie.index.bloom.num_entries": "1000"}
MERGE_ON_READ = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
LARGE_BLOOM, LARGE = {"hoodie.index.bloom.num_entries": "60000"}, 200_000  # bytes of a base file
READ_OPTIMISED = {"hoodie.datasource.query.type": "read_optimized"}
NOTE = "_check"  # Hudi keeps options that begin with _ in each commit
READERS = ("snapshot", "read-optimised", "Trino", "folder")  # of 13.4
DAYS = ("2026-11-20", "2026-11-21", "2026-11-22")  # of `_orders`
# 13.2 writes some of these days; the lesson writes none of them.
KNOWN = "2026-11-21"  # a day that the lesson itself made known
NEW_DAYS = [str(date(2027, 1, 1) + timedelta(days=n)) for n in range(365)]


@check("13.1")
def registers_its_table(lab, save):
    """Let the function write to a Merge-on-Read table twice; then query the metastore."""
    name, size = f"exercise_{secrets.token_hex(3)}", random.randint(20, 60)
    path, more = lab.path(name), MERGE_ON_READ | LARGE_BLOOM | {NOTE: secrets.token_hex(3)}
    first, second = f"id < {size} AND id % 3 > 0", f"id BETWEEN {size - 4} AND {size + 4}"
    save(_orders(lab, first, "'new'", 0), name, more)
    before = completed_instants(lab, path)
    paid, late = _orders(lab, second, "'paid'", 1), _orders(lab, f"id = {size}", "'late'", 0)
    save(late.union(paid).coalesce(1), name, more)
    names, strays = _names(lab, lab.database, name), _names(lab, "default", name)
    for stray in sorted(strays):  # no reset of a lesson reaches them
        lab.spark.sql(f"DROP TABLE IF EXISTS default.{stray}")
    expect(
        lab.files(path),
        'There is no table at `lab.path("{}")`. Write it there.',
        name,
    )
    found = rows_at(lab, path)
    due = _orders(lab, f"id < {size - 4} AND id % 3 > 0", "'new'", 0).union(paid)
    orders, wanted = len(keys_of(found)), due.count()
    expect(
        orders == wanted,
        "Two calls brought {} orders, and the table has {}. The second call must add to the table: "
        'an upsert with `mode("append")`.',
        wanted,
        orders,
    )
    expect_rows(found, due)
    expect_added(lab, path, before)
    expect(
        names or not strays,
        "The table has its {} orders, and its name is in the database `default`, where no reader "
        "of this lesson looks. Name the database.",
        orders,
    )
    expect(
        name in names,
        "The table has its {} orders, but the metastore knows no table of that name, {}. By "
        "default a write tells nobody: which option switches the sync on, and which one says the "
        "name?",
        orders,
        name,
    )
    expect(
        len(names) > 1,
        "The metastore lists {} alone, as for a Copy-on-Write table. `more` said MERGE_ON_READ: "
        "hand its options on.",
        name,
    )
    table = lab.xray(path)
    expect(
        table.commit().extra.get(NOTE) == more[NOTE],
        "The table is registered, but of the options in `more` the write got only the type.",
    )
    expect(
        max(file.size for file in table.files if file.kind == "base") > LARGE,
        "The table is registered, but an option of `more` lost against that of `ORDERS`: the "
        "caller's come last.",
    )
    expect(
        settings_of(lab, path).get("hoodie.table.cdc.enabled") == "true",
        "The table is registered, but has no change feed: the options `ORDERS` switch it on.",
    )
    _expect_registration(lab, name, names)
    known = lab.known_partitions(name)
    missing = {f"partition_date={day}" for day in DAYS} - {*known}
    expect(not missing, "The metastore knows {} without {}.", name, named(missing))
    return (
        f"{orders} orders in {len(known)} partitions, and the metastore has {len(names)} names for "
        "them."
    )


def _expect_registration(lab, name: str, names: frozenset[str]) -> None:
    """Check that a synced Merge-on-Read table has the names, type and columns of the lesson's."""
    state = lab.spark._jsparkSession.sharedState()
    # Not DESCRIBE: for a Hudi table, Spark shows the table's own schema.
    entry = state.externalCatalog().unwrapped().client().getTable(lab.database, name)
    columns = entry.schema().catalogString()
    expect(
        "order_ts:bigint" not in columns,
        "The table is registered, but in the metastore a time is `bigint`. Keep `support_timestamp`"
        " of the first version.",
    )
    expect(
        names == {name, f"{name}_ro", f"{name}_rt"}
        and entry.tableType().name() == "EXTERNAL"
        and columns.startswith("struct<_hoodie_commit_time:string,"),
        "The table is registered, but not as the lesson needs it: names {}, type {}, columns {}. "
        "You set one sync option too many: one is missing in the first version, and no other.",
        named(names),
        entry.tableType().name(),
        columns,
    )


def _names(lab, database: str, begin: str) -> frozenset[str]:
    """Return the tables of a database whose names have this prefix."""
    rows = lab.spark.sql(f"SHOW TABLES IN {database} LIKE '{begin}*'").collect()
    return frozenset(row["tableName"] for row in rows)


@check("13.2")
def makes_new_days_known(lab, publish):
    """Write a table of three days without sync, run the answer; query the metastore."""
    name = f"returns_{secrets.token_hex(3)}"
    path, days = lab.path(name), random.sample(NEW_DAYS, 2)
    rows = lab.spark.sql(f"""
        SELECT 'O-1-' || day AS order_id, 'C-1' AS customer_id, 'returned' AS status,
               CAST(10 AS DECIMAL(12,2)) AS amount, TIMESTAMP '2026-11-20 12:00:00' AS order_ts,
               day AS partition_date
        FROM VALUES ('{KNOWN}'), ('{days[0]}'), ('{days[1]}') AS made(day)
    """)
    _append(rows, path)
    lab.spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    partition = f"ALTER TABLE {name} ADD IF NOT EXISTS PARTITION (partition_date = '{KNOWN}')"
    lab.spark.sql(partition)
    before = {*lab.known_partitions(name)}
    try:
        publish(name)
        after = {*lab.known_partitions(name)}
    finally:
        lab.spark.sql(f"DROP TABLE IF EXISTS {name}")
    new = {f"partition_date={day}" for day in days}
    expect(
        new <= after or after == before,
        "You name the day yourself: the metastore has learnt {}, but {} are the days that are new. "
        "Let the statement find out.",
        named(after - before),
        named(new),
    )
    expect(
        new <= after,
        "The metastore knows {} of 3 partitions, as before; {} are not among them. REFRESH TABLE "
        "lets this Spark session forget what it has read before, and SHOW PARTITIONS lists the "
        "folders of a Hudi table, whatever the metastore knows. Neither tells the metastore.",
        len(after),
        named(new),
    )
    expect(before <= after, "The metastore no longer knows {}.", named(before - after))
    return (
        f"The metastore knows {' and '.join(days)} now, and so does each engine that asks it. A "
        "later write with the sync options would have brought them, too."
    )


@dataclass(frozen=True)
class States:
    """Counts of orders by status in an uncompacted Merge-on-Read table, for each way to read it.

    Args:
        now: counts in a snapshot query of Spark.
        then: counts as of the first commit.
        base: counts in the newest base files alone.
        parquet: number of rows in all Parquet files of the table, including old ones.
    """

    now: Counter
    then: Counter
    base: Counter
    parquet: int


@check("13.3")
def asks_without_java(lab, in_duckdb):
    """Let the answer query an unknown table; count the Spark jobs that this starts."""
    from hudi import HudiQueryType, HudiReadOptions

    source, states = _unknown_table(lab)
    path = lab.scratch("orders")
    first, *_, last = lab.xray(source).instants
    before = _jobs(lab.spark)

    def ask(what: str, group: str, *options) -> Counter:
        sql = f"SELECT {what} AS status, count(*) AS orders FROM orders {group}"
        reply = in_duckdb(sql, path.replace("s3a://", "s3://"), *options)
        jobs = len(_jobs(lab.spark) - before)
        expect(
            not jobs,
            "Spark ran {} jobs for it. Where there is no Java there is no Spark: read the table "
            "with hudi-rs.",
            jobs,
        )
        expect(
            isinstance(reply, pd.DataFrame),
            "Your function returns {}. Return DuckDB's answer as a pandas DataFrame: `.df()`, or "
            "`.to_arrow_table().to_pandas()`.",
            kind_of(reply),
        )
        counts: Counter = Counter()
        for status, orders in as_rows(reply, ("status", "orders")):
            counts[as_text(status)] += as_int(orders)
        return counts

    copy_table(lab, source, path, hidden=[last])
    ask("status", "GROUP BY status")
    copy_table(lab, source, path)
    now = ask("status", "GROUP BY status")
    expect(
        now != states.then,
        "Another job has committed since your function was first called, and you count {}, as "
        "before. Open the table at each call.",
        _words(now),
    )
    expect(
        now.total() != states.parquet,
        "{} rows for {} orders: old slices counted, logs ignored. All Parquet files of a folder "
        "are not the table. A table is what its timeline says.",
        now.total(),
        states.now.total(),
    )
    expect(
        now != states.base,
        "You count {}: you read base files only. The table has {}; the rest stands in logs.",
        _words(now),
        _words(states.now),
    )
    expect(now == states.now, "You count {}; the table has {}.", _words(now), _words(states.now))
    options = HudiReadOptions().with_as_of_timestamp(first.requested)
    then = ask("status", "GROUP BY status", options)
    asked = "Asked for the state of the first commit, you count {}"
    expect(
        then != states.now,
        f"{asked}, as now. Then it was {{}}. Your function does not hand on the options.",
        _words(then),
        _words(states.then),
    )
    expect(then == states.then, f"{asked}; it was {{}}.", _words(then), _words(states.then))
    nothing = HudiReadOptions().with_query_type(HudiQueryType.Incremental)
    changed = ask("'all'", "", nothing.with_start_timestamp(last.completed))
    expect(
        not changed.total(),
        "Asked for what changed after the last commit, you count {} orders. Nothing has.",
        changed.total(),
    )
    expect(
        changed,
        "Asked to count what changed after the last commit, DuckDB answers 0, and you return no "
        "row. Ask DuckDB, too, when there is no row to give.",
    )
    return (
        f"Now {_words(states.now)}, at the first commit {_words(states.then)}, and Spark ran no "
        f"job. All Parquet files of the table together have {states.parquet:,} rows."
    )


def _jobs(spark) -> set[int]:
    """Return the ids of the jobs that Spark has run."""
    return set(spark.sparkContext.statusTracker().getJobIdsForGroup())


@check("13.4")
def reads_as_the_readers_do(lab, reads):
    """Run the answer's queries on the files of an unknown table; compare with its real readers."""
    queries = {as_text(reader): as_text(sql) for reader, sql in dict(reads).items()}
    lacking = {*READERS} - {*queries}
    expect(not lacking, "There is no query for {}.", named(lacking))
    more = {*queries} - {*READERS}
    expect(not more, "None of the four readers is called {}.", named(more))
    path, _ = _unknown_table(lab)
    files, name = rows_in_files(lab, path), f"tasted_{secrets.token_hex(3)}"
    rows = {
        "snapshot": rows_of(path).to_pandas(),
        "read-optimised": read_optimised(path),
        "folder": whole_folder(lab, path),
    }
    days = random.sample(DAYS, 2)
    lab.spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    try:
        for listed in (days[:1], days):
            day = f"partition_date = '{listed[-1]}'"
            lab.spark.sql(f"ALTER TABLE {name} ADD IF NOT EXISTS PARTITION ({day})")
            rows["Trino"] = _read_by_trino(lab, name, rows["read-optimised"], listed)
            known = known_days(lab, name)
            for reader in READERS:
                _expect_read(reader, queries[reader], files, known, rows[reader])
    finally:
        lab.spark.sql(f"DROP TABLE IF EXISTS {name}")
    orders = ", ".join(f"{reader} {len(rows[reader]):,}" for reader in READERS)
    return f"The rows of each reader, to the order: {orders}, of {len(files):,} in the files."


def _read_by_trino(lab, name: str, base: pd.DataFrame, listed: list[str]) -> pd.DataFrame:
    """Return Trino's rows of a table; where Trino was left out, those that it would return."""
    if service("trino").running():
        return ask_trino(lab, f"SELECT order_id, status FROM {name}")
    return base[base["partition_date"].isin(listed)]


def _expect_read(
    reader: str, sql: str, files: pd.DataFrame, known: pd.DataFrame, wanted: pd.DataFrame
) -> None:
    """Check that a query on `files` and `known` returns the rows that a reader returned."""
    with duckdb.connect() as connection:
        connection.register("files", files)
        connection.register("known", known)
        try:
            answer = connection.execute(sql).df()
        except duckdb.Error as refusal:
            raise Unreadable(f"{reader}: DuckDB does not run your query: {refusal}") from None
    found, right = (
        Counter((as_text(order), status) for order, status in as_rows(rows, ("order_id", "status")))
        for rows in (answer, wanted)
    )
    more, fewer = found - right, right - found

    def of(kind: str) -> set[tuple]:
        return set(as_rows(files[files["kind"] == kind], ("order_id", "status")))

    unlisted = files[~files["partition_date"].isin(known["partition_date"])]
    hidden = {*more} & set(as_rows(unlisted, ("order_id", "status")))
    times = Counter(order for order, _ in found.elements())
    twice = [order for order, count in times.items() if count > 1]
    expect(
        reader != "Trino" or not hidden - of("log"),
        "Trino: {} of your rows are of partitions that `known` does not list.",
        len(hidden),
    )
    expect(
        reader == "snapshot" or not {*more} & of("log"),
        "{}: {} of your rows are from logs, which this reader does not open.",
        reader,
        len({*more} & of("log")),
    )
    expect(
        reader == "folder" or not {*more} & of("old") - of("base"),
        "{}: {} of your rows are from old base files, which belong to no current slice.",
        reader,
        len({*more} & of("old") - of("base")),
    )
    expect(
        reader != "snapshot" or not twice,
        "snapshot: {} orders are in your rows twice. A snapshot merges the logs into the base "
        "files: which of both rows wins?",
        len(twice),
    )
    expect(
        not more and not fewer,
        "{}: your query lacks {} of the reader's rows, and has {} that the reader does not get.",
        reader,
        fewer.total(),
        more.total(),
    )


@cache  # answers read it, or a copy of it
def _unknown_table(lab) -> tuple[str, States]:
    """Return a table's path and contents; it has random numbers of orders in three partitions.

    Its second commit pays orders of two partitions, which creates logs. It adds orders to the third
    and deletes some there, which creates a new base file next to the old one.
    """
    path = lab.scratch("orders")
    first, more = random.randint(120, 240), random.randint(20, 60)
    paid_later, paid_early = random.randint(60, 100), random.randint(3, 9)
    writes = (
        (f"id < {first}", f"id % {paid_early} = 0"),
        (
            f"id < {paid_later} AND id % 3 > 0 OR id IN (21, 42) OR "
            f"id BETWEEN {first} AND {first + more} AND id % 3 = 0",
            f"id < {paid_later}",
        ),
    )
    for minute, (which, paid) in enumerate(writes):
        rows = _orders(lab, which, f"IF({paid}, 'paid', 'new')", minute)
        gone = "order_id IN ('O-21', 'O-42')" if minute else "false"
        _append(rows.withColumn("_hoodie_is_deleted", expr(gone)), path, MERGE_ON_READ)
    table = lab.xray(path)
    as_of_first = {"as.of.instant": table.instants[0].requested}
    now, then, base = (
        _counted(_rows(lab, path, options)) for options in ({}, as_of_first, READ_OPTIMISED)
    )
    parquet = sum(file.rows for file in table.files if file.kind == "base")
    return path, States(now, then, base, parquet)


def _orders(lab, which: str, status: str, minute: int) -> DataFrame:
    """Return orders of three days that match a condition on `id`; `status` is a SQL expression."""
    return lab.spark.sql(f"""
        SELECT 'O-' || id AS order_id, 'C-1' AS customer_id, {status} AS status,
               CAST(id AS DECIMAL(12,2)) AS amount,
               TIMESTAMP '2026-11-20 12:0{minute}:00' AS order_ts,
               '2026-11-2' || (id % 3) AS partition_date
        FROM range(0, 300, 1, 1) WHERE {which}
    """)


def _rows(lab, path: str, options: dict[str, str] | None = None) -> list[Row]:
    """Return the rows of a table of `_orders`, sorted by key."""
    table = lab.spark.read.format("hudi").options(**(options or {})).load(path)
    own = [name for name in table.columns if name.startswith("_hoodie_")]
    return sorted(table.drop(*own).collect())


def _counted(rows: list[Row]) -> Counter:
    return Counter(row.status for row in rows)


def _words(counts: Counter) -> str:
    """Format counts as text, for example `180 new, 40 paid`."""
    return ", ".join(f"{orders:,} {status}" for status, orders in sorted(counts.items())) or "none"


def _append(rows: DataFrame, path: str, options: dict[str, str] | None = None) -> None:
    options = WRITER | {"hoodie.table.name": _name(path)} | (options or {})
    rows.write.format("hudi").options(**options).mode("append").save(path)


def _name(path: str) -> str:
    return path.rpartition("/")[2]
