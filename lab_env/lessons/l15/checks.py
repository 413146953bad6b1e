"""Checks of lesson 15, on made-up change records, replication slots and order changes.

The data is random, so that no result can be guessed.
"""

import json
import random
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lab_env.course.answers import as_int, as_number, as_text
from lab_env.course.checking import check, expect
from lab_env.lessons.rows import as_dataframe, expect_rows, named, rows_at, without_hudis
from lab_env.lessons.table_copies import left_alone, scratch_copy
from lab_env.lessons.timelines import completed_instants, expect_added

TOLERANCE_BYTES = 100_000  # by which the log may grow while 15.3 is checked
RECORDS = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT"
ROW = (
    "order_id STRING, customer_id STRING, amount DECIMAL(12,2), status STRING, channel STRING, "
    "updated_at TIMESTAMP, partition_date STRING, commit_lsn BIGINT, lsn BIGINT, "
    "log_position STRING, op STRING, _hoodie_is_deleted BOOLEAN"
)
PAIRS = (
    "order_id STRING, status STRING, op STRING, offset BIGINT, updated_at TIMESTAMP, "
    "commit_before BIGINT, lsn BIGINT"
)
CHANGES = (
    "order_id STRING, status STRING, amount DECIMAL(12,2), op STRING, deleted BOOLEAN, "
    "commit_lsn BIGINT, lsn BIGINT"
)
VERSIONS = (
    "order_id STRING, status STRING, amount DECIMAL(12,2), valid_from BIGINT, valid_to BIGINT"
)
FIRST_DAY = date(1970, 1, 1)


@check("15.1")
def envelopes_to_rows(lab, to_rows):
    """Call the function in the lesson's session, then in a clone, as in a stream's batches."""
    clone = SparkSession(lab.spark.sparkContext, lab.spark._jsparkSession.cloneSession())
    earlier: set[int] = set()
    for session in (lab.spark, clone):
        records, changes = made_up_records(random.Random())
        frame = session.createDataFrame(records, RECORDS).coalesce(1)
        wanted = lab.spark.createDataFrame(changes, ROW)  # and the session is the active one again
        found = as_dataframe(to_rows(frame), "the rows")
        collected = found.collect()
        missing, more = {*wanted.columns} - {*found.columns}, {*found.columns} - {*wanted.columns}
        expect(not missing, "The column {} is missing: COLUMNS names them.", named(missing))
        expect(not more, "Your rows also have {}, which is no column of the table.", named(more))
        tombstones = sum(value is None for _, value, *_ in records)
        expect(
            all(row.order_id for row in collected),
            "{} rows without a key: the {} tombstones of this topic have no value, and are no "
            "change.",
            sum(row.order_id is None for row in collected),
            tombstones,
        )
        by_place = {row.lsn: row for row in collected}
        expect(
            not by_place.keys() & earlier,
            "The second call returned rows of the first. In a stream each batch belongs to a "
            "session of its own, and so do its views: ask `records.sparkSession.sql`.",
        )
        earlier |= by_place.keys()
        deletes = {change[8]: change[0] for change in changes if change[-1]}
        for lsn, order in deletes.items():
            expect(
                lsn in by_place,
                "{} lives: no row says that it was deleted. `after` of a delete is NULL; the image "
                "of a delete is `before`.",
                order,
            )
            expect(
                by_place[lsn]["_hoodie_is_deleted"],
                "{} lives: the row of its delete is not marked as deleted. Set "
                "`_hoodie_is_deleted` where `op` is `d`.",
                order,
            )
        counts = len(changes), len(collected)
        expect(
            len(collected) == len(changes), "{} changes, {} rows: each change is one row.", *counts
        )
        place = F.concat_ws(" at ", "order_id", "lsn")
        expect_rows(found.withColumn("change", place), wanted.withColumn("change", place), "change")
    return (
        f"{len(changes)} changes, {len(deletes)} of them deletes; {tombstones} tombstones left out."
    )


def made_up_records(chosen: random.Random) -> tuple[list[tuple], list[tuple]]:
    """Return a topic's records, as Spark reads them, and the table rows expected from them.

    The records are a snapshot's reads, which share a position, inserts, updates, deletes with
    their tombstones, and one read of an incremental snapshot.
    """
    records: list[tuple] = []
    changes: list[tuple] = []
    commit = lsn = chosen.randint(10_000, 99_999)
    live = {}
    numbers = chosen.sample(range(2000, 9000), 9)

    def send(op: str, row: dict, before: dict | None, kind: str = "log") -> None:
        nonlocal commit, lsn
        if kind != "snapshot":
            commit, lsn = lsn + chosen.randint(1, 50), lsn + chosen.randint(60, 200)
        places = {"log": [commit, lsn], "snapshot": [None, lsn], "incremental": [lsn, lsn]}[kind]
        sequence = json.dumps([None if place is None else str(place) for place in places])
        source = {"sequence": sequence, "lsn": None if kind == "incremental" else lsn}
        after = None if op == "d" else row
        value = {"op": op, "before": before, "after": after, "source": source}
        key = json.dumps({"order_id": row["order_id"]}).encode()
        offset = len(records)
        records.append((key, json.dumps(value).encode(), "orders", 0, offset))
        changes.append(
            (
                row["order_id"],
                row["customer_id"],
                Decimal(row["amount"]),
                row["status"],
                row["channel"],
                datetime(2026, 11, 20, 10, tzinfo=UTC),
                str(FIRST_DAY + timedelta(days=row["order_date"])),
                places[0] or lsn,
                lsn,
                f"{places[0] or lsn:020}-{lsn:020}",
                op,
                op == "d",
            )
        )
        if op == "d":
            records.append((key, None, "orders", 0, offset + 1))

    for number in numbers:
        row = {
            "order_id": f"O-{number}",
            "customer_id": f"C-{number % 97}",
            "amount": f"{chosen.randint(500, 90_000) / 100:.2f}",
            "status": "new",
            "channel": chosen.choice([None, "app"]),
            "order_date": 20_700 + chosen.randint(0, 90),
            "updated_at": "2026-11-20T10:00:00.000000Z",
        }
        live[number] = row
        snapshot = number in numbers[:4]
        send("r" if snapshot else "c", row, None, "snapshot" if snapshot else "log")
    for number in numbers[2:7]:
        before, live[number] = live[number], live[number] | {"status": "paid"}
        send("u", live[number], before)
    for number in numbers[5:8]:
        send("d", live[number], live[number])
    send("r", live[numbers[0]], None, "incremental")
    return records, changes


@check("15.2")
def the_last_change_wins(lab, last_changes):
    """Call the function on changes of five orders in the order of the topic, then reversed."""
    for step in (1, -1):  # so that no rule is right by the order of the rows
        changes, last = made_up_pairs(random.Random())
        frame = lab.spark.createDataFrame(changes[::step], PAIRS).coalesce(1)
        found = as_dataframe(last_changes(frame), "the last changes")
        for name in ("order_id", "status"):
            expect(name in found.columns, "The column `{}` is missing.", name)
        status: dict[str, str] = {}
        for row in found.select("order_id", "status").collect():
            expect(row.order_id not in status, "{} has more than one row.", row.order_id)
            status[row.order_id] = row.status
        for (order, right), why in zip(last, REASONS, strict=True):
            expect(order in status, "{} is missing: each order has a last change.", order)
            expect(
                status[order] == right,
                "{} is {} for you, in the database it is {}: {}",
                *(order, status[order], right, why),
            )
        wanted = lab.spark.createDataFrame(last, "order_id STRING, status STRING")
        expect_rows(found, wanted, "order_id")
    return (
        "Five pairs, and five times the change that the database has kept: by commit, then by LSN."
    )


# Why the right change of each made-up pair is the last one, in the order of `made_up_pairs`.
REASONS = (
    "`updated_at` is when a transaction began, and the one that began first wrote last.",
    "its last change was written before the read, and committed after it. Compare `commit_before`.",
    "both changes are of one transaction. Which was written later?",
    "a read of a new snapshot has no `commit_before`. Its own position takes that place.",
    "the older record was sent again, so it is later in the topic. The log has it earlier.",
)


def made_up_pairs(chosen: random.Random) -> tuple[list[tuple], list[tuple[str, str]]]:
    """Return changes by offset, and each order's last status as the database has it.

    The five orders are two transactions that overlap, a read while a transaction was open, two
    changes of one transaction, a read of a new snapshot, and a change that was sent again. For each
    of them another rule finds the wrong change. Positions pass from five digits to six, so they
    sort differently as text.

    Returns:
        Tuples of order_id, status, op, offset, updated_at, commit_before and lsn; and tuples of
        order_id and status.
    """
    noon = datetime(2026, 11, 20, 12, tzinfo=UTC) + timedelta(seconds=chosen.randint(0, 9_000))
    # For each order: old or new status, operation, seconds after noon, commit before, LSN.
    lives = (
        (("old", "u", 2, 0, 40), ("new", "u", 1, 90, 150)),
        (("old", "r", 0, 100, 100), ("new", "u", 4, 150, 40)),
        (("old", "u", 5, 2, 40), ("new", "u", 5, 2, 50)),
        (("old", "u", 3, 2, 40), ("new", "r", 3, None, 200)),
        (("old", "u", 6, 0, 40), ("new", "u", 7, 90, 150), ("old", "u", 6, 0, 40)),
    )
    changes: list[tuple] = []
    last = []
    for number, life in zip(chosen.sample(range(100, 999), len(lives)), lives, strict=True):
        order, base = f"O-{number}", 99_915 + chosen.randint(0, 30)
        old, new = chosen.sample(("new", "paid", "packed", "shipped", "cancelled"), 2)
        for status, op, seconds, before, lsn in life:
            moment = noon + timedelta(seconds=seconds)
            positions = None if before is None else base + before, base + lsn
            status = {"old": old, "new": new}[status]
            changes.append((order, status, op, len(changes), moment, *positions))
        last.append((order, new))
    return changes, last


# It has all columns of the real one: those that say nothing here are NULL.
MADE_UP_VIEW = """
    CREATE TEMP TABLE made_up_slots (
        slot_name name, slot_type text, active boolean, restart_lsn pg_lsn,
        confirmed_flush_lsn pg_lsn, wal_status text);
    CREATE TEMP VIEW pg_replication_slots AS
    SELECT made.slot_name, 'pgoutput'::name AS plugin, made.slot_type, actual.datoid,
           'shop'::name AS database, false AS temporary, made.active, actual.active_pid,
           actual.xmin, actual.catalog_xmin, made.restart_lsn, made.confirmed_flush_lsn,
           made.wal_status, actual.safe_wal_size, false AS two_phase, actual.two_phase_at,
           actual.inactive_since, actual.conflicting, actual.invalidation_reason,
           false AS failover, false AS synced
    FROM made_up_slots AS made LEFT JOIN pg_catalog.pg_replication_slots AS actual ON false"""


@check("15.3")
def bytes_kept_for_slots(lab, query):
    """Run the query with a made-up view `pg_replication_slots` in place of the real one."""
    import psycopg

    text = as_text(query).replace("pg_catalog.pg_replication_slots", "pg_replication_slots")
    with psycopg.connect(lab.postgres(), autocommit=True) as connection:
        connection.execute(MADE_UP_VIEW)
        (found,) = connection.execute("SELECT pg_current_wal_lsn() - '0/0'").fetchall()
        end = as_int(found[0])
        slots = made_up_slots(random.Random(), end)
        connection.cursor().executemany(
            """INSERT INTO made_up_slots VALUES (%s, %s, %s,
               '0/0'::pg_lsn + %s::numeric, '0/0'::pg_lsn + %s::numeric, %s)""",
            slots,
        )
        rows = [row for row in connection.execute(text.encode()) if len(row) > 1]
    answer = {str(row[0]): row[1] for row in rows}
    kept = {name: end - restart for name, _, _, restart, _, _ in slots if restart is not None}
    for name, size in kept.items():
        expect(
            name in answer,
            "The server of the check has a slot {}, which keeps {:,} bytes; your query does not "
            "name it. Return the slot's name and the bytes, for each slot.",
            name,
            size,
        )
    for name, _, _, restart, confirmed, _ in slots:
        if restart is None:
            continue
        said, size = answer[name], kept[name]
        expect(
            said is not None and not isinstance(said, bool | str),
            "For {} your query says {!r}. The alarm compares the number of bytes with a limit.",
            name,
            said,
        )
        number = as_number(said)
        expect(
            confirmed is None or abs(number - (end - confirmed)) > TOLERANCE_BYTES,
            "What the reader has confirmed, not what is kept: {} keeps {:,} bytes, and your query "
            "says {:,}.",
            name,
            size,
            number,
        )
        near = abs(number - size) <= TOLERANCE_BYTES
        expect(near, "{} keeps {:,} bytes; your query says {:,}.", name, size, number)
    expect(
        len(rows) == len(answer) and answer.keys() <= {slot[0] for slot in slots},
        "The view has {} slots; your query returns {} rows.",
        len(slots),
        len(rows),
    )
    worst = max(kept, key=kept.__getitem__)
    return (
        f"{worst} keeps {kept[worst] / 2**20:,.0f} MB. Let the alarm ring at a share of the disk, "
        "and when `wal_status` is no longer `reserved`."
    )


def made_up_slots(chosen: random.Random, end: int) -> list[tuple]:
    """Return slots as rows: name, type, active, restart position, confirmed position, status.

    Args:
        chosen: random generator.
        end: the log's end position, in bytes.
    """
    far, near = chosen.randint(end // 4, end // 2), chosen.randint(end // 8, end // 4)
    one, two, three = chosen.sample(range(10, 99), 3)
    return [
        (f"orders_{one}", "logical", True, end - far, end - far // 3, "reserved"),
        (f"stock_{two}", "logical", False, end - near, end - near // 4, "extended"),
        (f"standby_{three}", "physical", True, end - near // 2, None, "reserved"),
        ("old", "logical", False, None, end - far, "lost"),
    ]


@check("15.4")
def deletes_by_hand(lab, delete_orders):
    """Let the function delete orders of several days, in two copies of the table."""
    source = _orders(lab, lab.path("orders"))
    days = {row.order_id: row.partition_date for row in source.collect()}
    ((most_common, _),) = Counter(days.values()).most_common(1)
    other_day = [order for order, day in days.items() if day != most_common]
    for _ in range(2):
        path = scratch_copy(lab, lab.path("orders"), "delete")
        before = completed_instants(lab, path)
        one = random.choice(sorted(other_day or days))  # so no partition can be guessed
        wanted = [one, *random.sample(sorted(days.keys() - {one}), 2)]
        with left_alone(lab, lab.path("orders")):
            delete_orders(list(wanted), path)
        found = _orders(lab, path)
        left = {row.order_id for row in found.select("order_id").collect()}
        missing = sorted(days.keys() - {*wanted} - left)
        expect(
            not missing,
            "{} were to go. Of {} rows that were to stay, {} others are missing, such as {}.",
            named(wanted),
            len(days) - len(wanted),
            len(missing),
            *missing[:1] or [""],
        )
        expect(
            not left & {*wanted},
            "{} are still there. What tells Hudi that a row which you write deletes? And does it "
            "look in the right partition?",
            named(left & {*wanted}),
        )
        expect_rows(found, source.where(~source.order_id.isin(wanted)))
        expect_added(lab, path, before)
    return f"{named(wanted)} are gone, and the {len(left):,} others are as they were."


def _orders(lab, path: str) -> DataFrame:
    """Return a table's rows without Hudi's columns."""
    return without_hudis(rows_at(lab, path))


@check("15.5")
def survives_a_replay(lab, history):
    """Call the function for two sets of shuffled changes, some of them duplicated."""
    for _ in range(2):
        changes = made_up_changes(random.Random())
        lsns = {change[-1] for change in changes}
        frame = lab.spark.createDataFrame(changes, CHANGES).coalesce(1)
        found = as_dataframe(history(frame), "the versions")
        types = dict(found.dtypes)
        for name, kind in lab.spark.createDataFrame([], VERSIONS).dtypes:
            expect(name in types, "The column `{}` is missing.", name)
            expect(types[name] == kind, "The column `{}` has become `{}`.", name, types[name])
        expected, by_lsn = versions_of(changes, (5, 6)), versions_of(changes, (6,))
        made: dict[str, list[tuple]] = {order: [] for order in expected}
        for row in found.select("order_id", "status", "amount", "valid_from", "valid_to").collect():
            made.setdefault(row.order_id, []).append(tuple(row[1:]))
        for order, versions in made.items():
            due = expected.get(order, [])
            strange = [begin for _, _, begin, _ in versions if begin not in lsns]
            expect(
                not strange,
                "`valid_from` of {} is {}, which is no LSN of a change. With the time of the run "
                "in it, each run of the job makes other versions.",
                order,
                *strange[:1] or [""],
            )
            versions.sort(key=lambda version: version[2])
            current = sum(version[3] is None for version in versions)
            expect(
                current <= 1,
                "{} has {} current versions. The older ones must be closed: `valid_to` is where "
                "the next version begins.",
                order,
                current,
            )
            expect(
                versions == due or versions != by_lsn.get(order),
                "{} ends as {}: you order by `lsn` alone. A change with a lower LSN was committed "
                "later. Order by `commit_lsn` first, as `LOG` does.",
                order,
                *[_words(version) for version in versions[-1:]] or [""],
            )
            expect(
                len(versions) == len(due),
                "{} has {} versions, the database made {}. A change that comes twice or changes "
                "nothing is no version; another status is one, and so is another amount.",
                order,
                len(versions),
                len(due),
            )
            for mine, right in zip(versions, due, strict=True):
                told = (order, _words(right), _words(mine))
                expect(mine == right, "A version of {} is {}; you have {}.", *told)
    total = sum(map(len, expected.values()))
    return (
        f"{total} versions of {len(expected)} orders, whatever came twice. Write them with the "
        "key `order_id,valid_from`: a repeated run changes nothing."
    )


def _words(version: tuple) -> str:
    status, amount, begin, end = version
    return f"{status} {amount} from {begin} to {end if end is not None else 'now'}"


# What happens to each made-up order: operation and status, and whether the amount changes as well.
LIVES = (
    ("c new", "u paid", "u paid", "u packed"),
    ("r new", "u paid", "d paid"),
    ("c new", "d new", "c new", "u paid"),
    ("r new", "u paid", "r paid", "u packed", "r packed"),
    ("c new", "u new cheaper", "u paid"),
    ("c new",),
    ("c new", "r new", "u paid"),  # the last change was made before the read, committed after it
)


def made_up_changes(chosen: random.Random) -> list[tuple]:
    """Return shuffled changes of several orders, some of them duplicated.

    One order is deleted, one deleted and created again, one gets another amount. Some reads and
    updates change nothing. In one order the LSNs are not in commit order.

    Returns:
        Tuples of order_id, status, amount, op, deleted, commit_lsn and lsn.
    """
    changes: list[tuple] = []
    position = chosen.randint(1_000, 9_000)
    for number, life in zip(chosen.sample(range(100, 999), len(LIVES)), LIVES, strict=True):
        amount = Decimal(chosen.randint(200, 9_999)) / 100
        for step in life:
            op, status, *cheaper = step.split()
            position += chosen.randint(20, 99)
            amount -= len(cheaper)
            changes.append((f"O-{number}", status, amount, op, op == "d", position - 10, position))
    *changes, read, update = changes
    changes += [(*read[:-1], update[-1]), (*update[:-1], read[-1])]
    changes += chosen.sample(changes, len(changes) // 2)
    chosen.shuffle(changes)
    return changes


def versions_of(changes: Sequence[tuple], columns: Sequence[int]) -> dict[str, list[tuple]]:
    """Return each order's versions: status, amount, first LSN, and the LSN that ended the version.

    The end of the current version is None.

    Args:
        changes: tuples as returned by `made_up_changes`.
        columns: indexes of the columns by which to sort the changes.
    """
    versions: dict[str, list[list]] = {}
    previous: dict[str, tuple] = {}
    in_order = sorted(set(changes), key=lambda change: [change[column] for column in columns])
    for order_id, status, amount, _, deleted, _, lsn in in_order:
        state = (status, amount, deleted)
        if previous.get(order_id) == state:
            continue
        previous[order_id] = state
        found = versions.setdefault(order_id, [])
        if found and found[-1][3] is None:
            found[-1][3] = lsn
        if not deleted:
            found.append([status, amount, lsn, None])
    return {order_id: [tuple(one) for one in found] for order_id, found in versions.items()}
