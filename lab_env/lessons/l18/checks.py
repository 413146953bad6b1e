"""Checks of lesson 18: locks of two writers, a split that avoids conflicts, and the clean-up.

They inspect outcomes, locks, files and instants, never the text of the learner's code.
"""

import contextlib
import os
import random
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from typing import Any
from unittest.mock import patch

from lab_env.course.answers import Unreadable
from lab_env.course.checking import check, expect
from lab_env.course.traces import unwatched
from lab_env.lessons.hudi_rs import rows_of
from lab_env.lessons.l18.colleague import (
    COLLEAGUE,
    COMMITTED,
    YOU,
    Colleague,
    WriteFailed,
    attempt,
    forget_heartbeats,
)
from lab_env.lessons.l18.locks import LockWatch, lock_roots
from lab_env.lessons.rows import expect_rows, named, rows_at
from lab_env.lessons.table_copies import scratch_copy
from lab_env.lessons.timelines import completed_instants, expect_added
from lab_env.pipeline.options import DEMO_OPTIONS, KEYS
from lab_env.platform import store
from lab_env.tables.hudi.timeline import (
    from_seconds,
    parse_data_name,
    parse_timeline_key,
    to_seconds,
)

TABLE = (
    KEYS | DEMO_OPTIONS | {"hoodie.table.name": "orders", "hoodie.index.bloom.num_entries": "1000"}
)
CONFLICT = "Conflict"  # part of the name of each of Hudi's exceptions for it
NO_RACE = "With these options your colleague's write failed before there was a race"
DEAD = "orders_of_the_dead"  # the table as the killed writer left it


def write(rows: Any, table: str, options: Mapping[str, str]) -> None:
    """Upsert rows into a copy of the lesson's table, with a writer's options."""
    rows.write.format("hudi").options(**TABLE).options(**options).mode("append").save(table)


HER_WRITE = """
from lab_env.lessons.l18.checks import one_order, write
write(one_order(spark, key, "paid"), table, options)
"""


def one_order(spark: Any, key: int, status: str) -> Any:
    """Return one order of the lesson's table with a new status, as a DataFrame."""
    return spark.sql(f"""
        SELECT 'O-{key}' AS order_id, '{status}' AS status,
               CAST(10 + {key} AS DECIMAL(12,2)) AS amount,
               TIMESTAMP '2026-11-21 18:00:00' AS order_ts,
               concat('2026-11-', 19 + ({key} - 1) DIV 100) AS partition_date
    """).coalesce(1)


@check("18.1")
def one_lock_for_both(lab, lock_options):
    """Write with one job's lock options while the colleague, using the other's, is frozen."""
    if not callable(lock_options):
        raise Unreadable("A function of a job's name and a table's path is expected.")
    table = scratch_copy(lab, lab.path("orders"), "two_jobs")
    stream = _options(lock_options, "stream", table)
    with _as_in_another_process(lock_options):
        backfill = _options(lock_options, "backfill", table)
    colleague = Colleague.of(lab)
    hers, mine = random.sample(range(201, 251), 2)
    colleague.share(table=table, key=hers, options=backfill)
    try:
        with colleague.frozen_while_writing(table, HER_WRITE) as her_run:
            my_run = attempt(write, one_order(lab.spark, mine, "cancelled"), table, stream)
    except WriteFailed as failure:
        why = failure.outcome[:300]
        expect(False, "{}: {}. Compare each name and value with Hudi's page.", NO_RACE, why)
    outcomes = {YOU: my_run.outcome, COLLEAGUE: her_run.outcome}
    # By Spark, because readers may differ where writers do not agree on a lock.
    rows = rows_at(lab, table).select("order_id", "status").collect()
    found = {tuple(row) for row in rows}
    kept = {YOU: (f"O-{mine}", "cancelled") in found, COLLEAGUE: (f"O-{hers}", "paid") in found}
    locks = {who: {held.path for held in her_run.locks if held.writer == who} for who in outcomes}

    happened = "; ".join(_told(who, outcomes[who], kept[who]) for who in outcomes)
    noticed = any(CONFLICT in outcome for outcome in outcomes.values()) or all(kept.values())
    whole = all(
        kept[who] if outcome == COMMITTED else CONFLICT in outcome
        for who, outcome in outcomes.items()
    )
    modes = {"stream": stream, "backfill": backfill}
    single = [job for job, own in modes.items() if _mode(own) in ("", "SINGLE_WRITER")]
    fine = noticed and whole
    expect(
        fine or len(single) < 2,
        "Nobody compared your files: the mode is SINGLE_WRITER, which takes another's unfinished "
        "write for a failed one. {}.",
        happened,
    )
    expect(
        not single,
        "Only one of you compares: the options of the {} have no concurrency mode. {}.",
        *(single or [""])[:1],
        happened,
    )
    expect(fine, "Both of you have a mode, but this was no conflict: {}.", happened)
    expect(
        all(locks.values()),
        "The conflict was noticed, but without a lock in ZooKeeper: {}. Without a lock that both "
        "see, the other may complete a commit in the middle of your comparison.",
        " and ".join(who for who, held in locks.items() if not held),
    )
    mine_held, hers_held = (", ".join(sorted(locks[who])) for who in (YOU, COLLEAGUE))
    expect(
        mine_held == hers_held,
        "Two writers, two locks: you held {}, your colleague {}. Both may check at the same "
        "moment, see no commit of the other, and commit.",
        mine_held,
        hers_held,
    )
    retries = [name for own in (stream, backfill) for name in own if "num.retries" in name]
    expect(not retries, "You set {}: add no retries yet, to see who loses.", *retries[:1] or [""])
    return f"One lock, {mine_held}, and the files were compared: {happened}."


@contextlib.contextmanager
def _as_in_another_process(answer) -> Generator[None]:
    """Give a function other values of what differs between processes."""
    names = getattr(unwatched(answer), "__globals__", {})
    with (
        patch.dict(names, hash=lambda value: hash((YOU, value))),
        patch("os.getpid", os.getppid),
    ):
        yield


def _options(answer, job: str, table: str) -> dict[str, str]:
    given = answer(job, table)
    if not isinstance(given, Mapping):
        raise Unreadable("The function has to return a dictionary of options.")
    return {str(name): str(value) for name, value in given.items()}


def _mode(options: Mapping[str, str]) -> str:
    return options.get("hoodie.write.concurrency.mode", "").upper()


def _told(who: str, outcome: str, kept: bool) -> str:
    if outcome == COMMITTED and not kept:
        return f"{who}: committed, and the change is not in the table"
    return f"{who}: {outcome.split(' between ')[0][:160]}"


DAYS = range(3)  # each with 100 orders in two file groups


def batches_of(chosen: random.Random) -> list[list[int]]:
    """Return the orders of two batches; each writes both files of one day and one of another.

    Each batch leaves one day free: the middle one in one batch, the first or last in the other. So
    the free day is neither always the same nor always before or after the stream's days.
    """
    batches = []
    for free in chosen.sample([1, chosen.choice((0, 2))], 2):
        full, half = chosen.sample([day for day in DAYS if day != free], 2)
        file = 100 * half + chosen.choice((0, 50))
        orders = chosen.sample(range(100 * full + 1, 100 * full + 101), 30)
        batches.append([*chosen.sample(range(file + 1, file + 51), 8), *orders])
    return batches


@check("18.2")
def no_file_twice(lab, write_now):
    """Run the function with random corrections and two random batches; check for shared files."""
    if not callable(write_now):
        raise Unreadable("A function of two DataFrames is expected.")
    chosen, files, written = random.Random(), files_of(lab.path("orders")), []
    for batch in batches_of(chosen):
        corrections = sorted(chosen.sample(range(1, 301), 90))
        rows = _orders(lab.spark, corrections)
        given = write_now(rows, _orders(lab.spark, batch))
        if not hasattr(given, "select") or "order_id" not in given.columns:
            raise Unreadable("The function has to return a DataFrame with the column order_id.")
        allowed = [row["order_id"] for row in given.select("order_id").collect()]
        strangers = set(allowed) - {f"O-{key}" for key in corrections}
        expect(not strangers, "{} of your rows are no corrections.", len(strangers))
        twice = [order for order, times in Counter(allowed).items() if times > 1]
        expect(not twice, "You return {} more than once.", *twice)
        lost = [name for name in rows.columns if name not in given.columns]
        expect(not lost, "Your rows have lost columns: {}.", ", ".join(lost))
        expect_rows(given, rows.where(rows["order_id"].isin(allowed)))
        expect_no_conflict(allowed, corrections, batch, files)
        written.append(str(len(allowed)))
    rows = " and ".join(written)
    return f"{rows} corrections go in beside two batches, and no file is written twice."


def expect_no_conflict(
    allowed: Sequence[str],
    corrections: Sequence[int],
    batch: Sequence[int],
    files: Mapping[int, tuple[str, str]],
) -> None:
    """Check that allowed corrections avoid the stream's files, and that none waits needlessly.

    A correction waits needlessly if the stream writes nothing to its table partition.

    Args:
        allowed: orders whose corrections the function returns, for example `O-17`.
        corrections: numbers of all corrected orders.
        batch: numbers of the orders that the stream writes.
        files: table partition and file group of each order, by order number.
    """
    ours = {f"O-{key}": files[key] for key in corrections}
    theirs = {files[key] for key in batch}
    days = {partition for partition, _ in theirs}
    both = sorted(ours[order] for order in allowed if ours[order] in theirs)
    partition, group = (both or [("", "")])[0]
    expect(
        not both,
        "Different rows, same file: you and the stream would both rewrite file group {} of {}. One "
        "of you would fail.",
        group[:8],
        partition,
    )
    waiting = [place[0] for order, place in ours.items() if order not in allowed]
    free = Counter(partition for partition in waiting if partition not in days)
    for partition, number in free.items():
        expect(
            False,
            "No conflict, but {} corrections of {} wait although the stream writes nothing there.",
            number,
            partition,
        )


def _orders(spark: Any, keys: list[int]) -> Any:
    return spark.sql(f"""
        SELECT concat('O-', id) AS order_id, 'corrected' AS status,
               CAST(10 + id AS DECIMAL(12,2)) AS amount,
               TIMESTAMP '2026-11-21 09:00:00' + make_interval(0, 0, 0, 0, 0, id) AS order_ts,
               concat('2026-11-', 19 + (id - 1) DIV 100) AS partition_date
        FROM VALUES {", ".join(f"({key})" for key in keys)} AS keys(id)
    """).coalesce(1)


def files_of(table: str) -> dict[int, tuple[str, str]]:
    """Return the table partition and file group of each order, by order number."""
    return {
        int(row["order_id"].split("-")[1]): (
            row["_hoodie_partition_path"],
            row["_hoodie_file_name"].split("_")[0],
        )
        for row in rows_of(table).to_pylist()
    }


@check("18.3")
def nothing_of_the_dead(lab, clean_up):
    """Let the function clean up a copy of the table that the killed writer left behind.

    A second writer is active on the copy: its write is unfinished, and it has a heartbeat.
    Then call the function again, when only the active writer is left.
    """
    if not callable(clean_up):
        raise Unreadable("A function that gets the path of a table is expected.")
    source = lab.path(DEAD)
    if not lab.files(source):
        raise Unreadable("Run the cell that kills your colleague's notebook first.")
    table = scratch_copy(lab, source, "cleaned")
    forget_heartbeats(lab, table)  # copying would renew hers
    living = add_a_living_write(lab, table)
    others = [source, lab.path("orders")]
    before, expected = lab.xray(table), _statuses(table)
    history = completed_instants(lab, table)
    own = [lab.files(path) for path in others]
    _beat(lab, table, living)
    with lab.zookeeper() as client:
        watch = LockWatch(client, lock_roots(lab), lambda: YOU)
        try:
            clean_up(table)
        finally:
            locked = bool(watch.stop())
    after, statuses = lab.xray(table), _statuses(table)
    unharmed = _is_pending(after, living)
    unchanged = [lab.files(path) for path in others] == own
    expect(unchanged, "Your function changed the lesson's table. Clean up the path it gets.")
    rows = expected.total(), statuses.total()
    expect(rows[0] == rows[1], "The table had {} orders and now has {}.", *rows)

    pending = {instant.requested for instant in after.instants if not instant.completed}
    wrote = len(after.completed_writes) > len(before.completed_writes)
    expect(
        unharmed or not wrote or locked,
        "Another writer was at work on the table, and its write is gone. Yours took no lock: a "
        "single writer rolls back all that is unfinished before it begins, also what belongs to "
        "the living. Write with your options.",
    )
    expect(
        unharmed,
        "Another writer was at work on the table, with a heartbeat younger than a minute, and its "
        "write is gone. An unfinished instant is not a dead one.",
    )
    expect(
        locked or not wrote,
        "Your write took no lock. Every writer of this table needs the options.",
    )
    new = statuses - expected
    changed = {order for order, status, _ in new if (order, status) != ("O-1", "paid")}
    expect(
        not changed,
        "Your write wrote {}. It may set O-1 to paid, and nothing else.",
        named(changed),
    )
    dead = pending - {living}
    expect(
        not dead or not wrote,
        "Your write is complete, and {} instant of the dead writer is still pending. With several "
        "writers nobody rolls back before a write: only cleaning does, and only when the heartbeat "
        "has expired.",
        len(dead),
    )
    expect(
        not dead,
        "{} instant of the dead writer is still pending. What cleans needs the options of several "
        "writers: with them cleaning rolls back expired writes.",
        len(dead),
    )
    orphans = [file.partition for file in after.uncommitted if file.instant != living]
    expect(
        not orphans,
        "Gone from the timeline, but {} data file in {} belongs to no commit now, and nothing will "
        "ever remove it.",
        len(orphans),
        named(set(orphans)),
    )
    known = {instant.requested for instant in before.instants}
    new = [instant for instant in after.instants if instant.requested not in known]
    undone = any(instant.action == "rollback" for instant in new)
    expect(undone, "Nothing is pending, and no rollback says why. Who removed it?")
    expect_added(lab, table, history, services={"clean", "rollback"})
    _beat(lab, table, living)
    clean_up(table)
    expect(
        _is_pending(lab.xray(table), living),
        "Called again, when nobody was dead, your function undid the write of a living writer. An "
        "unfinished instant is not a dead one.",
    )
    return (
        "Rolled back: the instant and its file are gone, the timeline says so, and another "
        "writer who was at work is unharmed."
    )


def _is_pending(table, instant: str) -> bool:
    """True if an X-ray shows this unfinished write and one of its data files."""
    pending = {found.requested for found in table.instants if not found.completed}
    return instant in pending and instant in {file.instant for file in table.uncommitted}


def add_a_living_write(lab, table: str) -> str:
    """Copy a table's only unfinished write to an instant 1 ms earlier; return that instant."""
    keys = [found.key for found in lab.files(table)]
    instants = [found for key in keys if (found := parse_timeline_key(key))]
    completed = {instant.requested for instant in instants if instant.completed}
    (dead,) = {instant.requested for instant in instants} - completed
    living = from_seconds(to_seconds(dead) - 0.001)
    s3, bucket = store.client(lab.endpoints), lab.endpoints.bucket
    for key in keys:
        folder, _, name = key.rpartition("/")
        instant, data = parse_timeline_key(key), parse_data_name(name)
        if dead in (instant and instant.requested, data and data.instant):
            copy = f"{folder}/{name.replace(dead, living)}"
            s3.copy_object(Bucket=bucket, Key=copy, CopySource={"Bucket": bucket, "Key": key})
    return living


def _beat(lab, table: str, instant: str) -> None:
    """Write a heartbeat for an instant; by default Hudi renews it once a minute."""
    key = store.key_of(f"{table}/.hoodie/.heartbeat/{instant}")
    store.client(lab.endpoints).put_object(Bucket=lab.endpoints.bucket, Key=key, Body=b"")


def _statuses(table: str) -> Counter:
    """Count a table's triples of order, status and the commit that wrote them."""
    rows, names = rows_of(table), ("order_id", "status", "_hoodie_commit_time")
    return Counter(zip(*(rows[name].to_pylist() for name in names), strict=True))
