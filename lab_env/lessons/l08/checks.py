"""Checks of lesson 08: index look-ups, moved orders, data skipping."""

import random
import re
from collections import Counter
from functools import cache

from pyspark.sql import functions as F

from lab_env.course.answers import as_frame, as_int, as_pair, as_rows, kind_of
from lab_env.course.checking import check, expect
from lab_env.lessons.l08.cards import File, cards, deal
from lab_env.lessons.l08.figures import metadata_parts, watch_lookup
from lab_env.lessons.rows import (
    expect_rows,
    keys_of,
    named,
    rows_at,
    settings_of,
    without_hudis,
)
from lab_env.lessons.table_copies import scratch_copy
from lab_env.lessons.timelines import completed_instants, expect_added, expect_no_metadata
from lab_env.pipeline.options import DEMO_OPTIONS, KEYS
from lab_env.tables.probes.scans import rows_and_files_read

OLD, NEW, MOVED_TO = "2026-11-20", "2026-11-21", "2026-11-22"  # the last is no day of the lesson
FAST_COLUMNS = ("order_id", "partition_date", "amount")
COLUMNS = ("order_id", "amount", "status", "order_ts", "partition_date")
LISTED = {
    **KEYS,
    **DEMO_OPTIONS,
    "hoodie.table.name": "orders",
    "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.global.record.level.index.min.filegroup.count": "1",
    "hoodie.metadata.index.column.stats.file.group.count": "1",
    "hoodie.metadata.index.column.stats.column.list": "order_id,amount,order_ts",
}


@check("08.1")
def upserts_by_index(lab, upsert):
    """Let the function move O-4 with BLOOM (searches one day), O-3 and O-2 with global indexes."""
    path = lab.scratch("upsert")
    first = _orders(lab, "id < 5", "new", f"IF(id IN (1, 3), '{OLD}', '{NEW}')", 10)
    paid = _orders(lab, "id = 4", "paid", f"'{OLD}'", 11)
    moved = _orders(lab, "id IN (3, 5)", "paid", f"'{NEW}'", 11)
    back = _orders(lab, "id = 2", "paid", f"'{OLD}'", 11)
    options = {**DEMO_OPTIONS, "hoodie.database.name": "check"}
    upsert(first, path, "BLOOM", options)
    upsert(paid, path, "BLOOM", options)
    upsert(moved, path, "GLOBAL_BLOOM", options)
    upsert(back, path, "GLOBAL_SIMPLE", options)
    expect(lab.files(path), "Your function wrote nothing to the path that it was given.")
    times = keys_of(rows_at(lab, path))
    expect(
        times["O-1"],
        "Only {} is left: your write replaced the table. Which mode adds to it?",
        named(times),
    )
    for order, index in ("O-3", "GLOBAL_BLOOM"), ("O-2", "GLOBAL_SIMPLE"):
        expect(
            times[order] < 2,
            "Asked to find rows by {}, your function found them by another index: {}, which "
            "changed its day, is there twice. {} looks into every partition.",
            index,
            order,
            index,
        )
    expect(
        times["O-4"] == 2,
        "Asked to find rows by BLOOM, your function found them by another index: O-4, which "
        "changed its day, has {} row. BLOOM looks only into the partition that the row names.",
        times["O-4"],
    )
    wanted = first.where("order_id NOT IN ('O-2', 'O-3')").union(paid).union(moved).union(back)
    expect_rows(_placed(rows_at(lab, path)), _placed(wanted), "place")
    expect_added(lab, path, (), writes=4)
    named_in = settings_of(lab, path).get("hoodie.database.name")
    expect(
        named_in == "check", "Your write did not get the `options` that your function was given."
    )
    expect_no_metadata(lab, path, "options")
    return "O-3 moved to its new day: your write found it by the index that was named."


@check("08.2")
def plays_the_index(lab, files_to_search):
    """Let the function choose cards, for each index with other files and keys."""
    for index in ("SIMPLE", "BLOOM", "GLOBAL_BLOOM"):
        files, batch = deal(lab.spark)
        frame = as_frame(files_to_search(cards(lab.spark, files, batch), index))
        expect(
            sorted(map(str, frame.columns)) == ["file", "order_id"],
            "Asked for {}, your function returned the columns {}. Return order_id and file.",
            index,
            named(frame.columns),
        )
        chosen = as_rows(frame, ("order_id", "file"))
        expect(len(chosen) == len(set(chosen)), "A file is searched once for each key, not twice.")
        _expect_right_files(index, files, batch, set(chosen))
    return (
        "Your rule searched every file that can have the key, and no file that it could rule out."
    )


def _expect_right_files(index: str, files: list[File], batch: dict[str, str], chosen: set) -> None:
    known = {(key, file.name) for key in batch for file in files}
    expect(chosen <= known, "{}: your function returned a key or a file that has no card.", index)
    for key, day in batch.items():
        right = {file.name for file in files if _must_search(index, file, key, day)}
        mine = {name for other, name in chosen if other == key}
        for file in files:
            if file.name in mine - right:
                reason = _why_in_vain(index, file, key, day)
            elif file.name in right - mine:
                reason = _why_needed(index, file, day, bool(right & mine))
            else:
                continue
            done = "searched in vain" if file.name in mine else "not searched"
            expect(False, "{}: file {} was {} for {}. {}", index, file.name, done, key, reason)


def _must_search(index: str, file: File, key: str, day: str) -> bool:
    maybe = file.low <= key <= file.high and file.bloom.mightContain(key)
    return (index == "GLOBAL_BLOOM" or file.day == day) and (index == "SIMPLE" or maybe)


def _why_in_vain(index: str, file: File, key: str, day: str) -> str:
    if index != "GLOBAL_BLOOM" and file.day != day:
        return "It is in another partition than the row names, and this index does not look there."
    if not file.low <= key <= file.high:
        return f"The key lies outside its range {file.low} to {file.high}, compared as text."
    return 'Its filter says "certainly not".'


def _why_needed(index: str, file: File, day: str, others_searched: bool) -> str:
    if index == "SIMPLE":
        return "This index asks no footer: it reads the keys of every file of the day."
    if file.day != day:
        return "The row names another day, but a global index looks into every partition."
    more = " The one that you searched need not be the right one." if others_searched else ""
    return (
        f"Nothing rules it out: its range is {file.low} to {file.high}, compared as text, and its "
        f'filter says "probably".{more}'
    )


@check("08.3")
def moves_orders(lab, move):
    """Let the function move two orders in a table's copy, and check which files it opens."""
    path = scratch_copy(lab, _dearer(lab), "moved")
    before, was = completed_instants(lab, path), rows_at(lab, path)  # loaded: it stays as it is
    # none of those that the lesson moves
    ids = [f"O-{n:04}" for n in random.SystemRandom().sample(range(20, 3000), 2)]
    with watch_lookup(lab, path) as lookup:
        move(path, ids, MOVED_TO)
    found, moved = rows_at(lab, path), F.col("order_id").isin(ids)
    folders = found.where(moved).select("order_id", "_hoodie_partition_path").collect()
    expect(
        len(folders) <= len({row.order_id for row in folders}),
        "Two rows of {}: the index looked for it in the new partition only, did not find it, and "
        "inserted it. The old row stayed.",
        " or ".join(ids),
    )
    stayed = [name for name, folder in folders if not folder.endswith(MOVED_TO)]
    expect(
        not stayed,
        "Asked to move {} to {}: One row, still in the old partition. A global index finds the row "
        "there; whether it moves is an option of that index, and "
        "`hoodie.record.index.update.partition.path` defaults to false.",
        named(stayed),
        MOVED_TO,
    )
    day = F.when(moved, MOVED_TO).otherwise(F.col("partition_date")).alias("partition_date")
    expect_rows(found, was.select(*COLUMNS[:-1], day))
    expect_added(lab, path, before)
    expect(
        "record_index" in metadata_parts(lookup.after).index,
        "The orders moved. But your write took away the table's list of keys, or had none to keep.",
    )
    opened, files = lookup.figures["files opened"], len(lookup.files)
    expect(
        _list_was_asked(lookup),
        "One row each, in the new partition. But your function opened the files of every "
        "partition to find them, {} of {}. This table has a list of its keys, which knows where "
        "the rows are: use it.",
        opened,
        files,
    )
    return (
        f"One row each, in the new partition; {opened} of {files} files opened: the record index "
        "found them, and your option moved them."
    )


@cache  # of a call that was interrupted, nothing is used
def _dearer(lab) -> str:
    """Return the path of a copy of the lesson's table in which orders cost more."""
    path = scratch_copy(lab, lab.path("orders_indexed"), "dearer")
    rows = without_hudis(rows_at(lab, path)).where("order_id BETWEEN 'O-0020' AND 'O-2999'")
    dearer = rows.withColumn("amount", (F.col("amount") + 1).cast(rows.schema["amount"].dataType))
    dearer = dearer.withColumn("order_ts", F.expr("order_ts + INTERVAL 1 MINUTE"))
    dearer.write.format("hudi").options(**LISTED).mode("append").save(path)
    return path


def _list_was_asked(lookup) -> bool:
    """True if no file was searched after the record index was read.

    A query in the learner's code may have read all files earlier.
    """
    opened = re.findall(r"reopen\(s3a://(\S+)\)", lookup.reads.log)
    listed = [place for place, key in enumerate(opened) if "/metadata/record_index/" in key]
    kept = lookup.files.query("found != 'rewritten'")["group"]
    return bool(listed) and not any(
        group in key for key in opened[listed[-1] + 1 :] for group in kept
    )


@check("08.4")
def proves_that_a_filter_skips(lab, answer):
    """Run the board's query and the learner's; compare rows, column types and files read."""
    fast, number = as_pair(answer, "A query and a number are expected")
    expect(
        hasattr(fast, "inputFiles"),
        "`fast` must be a Spark DataFrame that has not been collected, not {}: the check runs it "
        "and counts the files.",
        kind_of(fast),
    )
    slow = rows_at(lab, lab.path("orders_indexed")).where("round(amount) >= 990")
    slow, types = slow.select(*FAST_COLUMNS), dict(fast.dtypes)
    for name, kind in slow.dtypes:
        expect(name in types, "`fast` has no column {}: return the columns of `ask`.", name)
        expect(types[name] == kind, "The column {} of `fast` has become {}.", name, types[name])
    lab.spark.catalog.clearCache()  # a cached query reads no files, or hides how many
    (shown, all_files), (rows, read) = map(rows_and_files_read, (slow, fast))
    right = Counter(tuple(row) for row in shown)
    found = Counter(tuple(row[name] for name in FAST_COLUMNS) for row in rows)
    missing, extra = (right - found).total(), (found - right).total()
    expect(
        not missing,
        "{} rows that the board shows are missing. Which amounts below 990 are rounded up to it?",
        missing,
    )
    expect(not extra, "Your query returns {} rows that the board does not show.", extra)
    expect(
        0 < read < all_files,
        "The rows are right, but your query read {} files of {}. The statistics hold the range "
        "of the column, not of an expression on it. (Rows that were collected before read none.)",
        read,
        all_files,
    )
    said = as_int(number)
    expect(
        said == read or said != len(fast.inputFiles()),
        "The query is right, and read {} files. inputFiles lists the table's files before anything "
        "is skipped, so it says {}.",
        read,
        said,
    )
    expect(said == read, "The query is right. It read {} files, not {}.", read, said)
    return f"The same rows from {read} files instead of {all_files}."


def _orders(lab, which: str, status: str, day: str, hour: int):
    """Return those of the orders O-1 to O-5 that match a condition on `id`.

    Args:
        hour: the hour of `order_ts`.
    """
    return lab.spark.sql(f"""
        SELECT 'O-' || id AS order_id, CAST(5 AS DECIMAL(12, 2)) AS amount, '{status}' AS status,
               to_timestamp('{OLD} {hour}:00') AS order_ts, {day} AS partition_date
        FROM range(1, 6, 1, 1) WHERE {which}
    """)


def _placed(rows):
    """Add a key column `place`, because an order may be in two table partitions."""
    place = F.expr("order_id || ' in ' || partition_date").alias("place")
    return without_hudis(rows).select("*", place)
