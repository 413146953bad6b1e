"""Checks of lesson 15: made-up change records, a made-up view of slots, a made-up log of orders.

The answers run on data that the learner does not know, so no number can be guessed.
"""

import json
import random
import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal

from lab_env.course.answers import as_bool, as_frame, as_int, as_number, as_rows, as_text, plain
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.lessons.streams import own_streams_stopped
from lab_env.lessons.table_copies import copy_table, left_alone
from lab_env.platform.brokers.topics import topic_end_offsets

STREAM_TIMEOUT_S = 120  # for a stream of 15.2, which takes a few seconds
RECORDS = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT"
ROW = ("order_id", "customer_id", "amount", "status", "partition_date", "commit_lsn", "lsn")
FIRST_DAY = date(1970, 1, 1)


@dataclass(frozen=True)
class Change:
    """What the table should learn from one change record; an answer may leave parts out."""

    order_id: str | None
    customer_id: str | None
    amount: Decimal | None
    status: str | None
    partition_date: str | None
    commit_lsn: int | None
    lsn: int | None
    deleted: bool


@dataclass(frozen=True)
class Envelopes:
    """Change records, and the rows that the function made of them.

    Args:
        expected: a row for each change.
        rows: what the function returned, in the same form; what it could not read is None.
        tombstones: how many records have no value.
        amount_type: Spark's type of the column `amount`.
    """

    expected: tuple[Change, ...]
    rows: tuple[Change, ...]
    tombstones: int
    amount_type: str = "decimal(12,2)"


@check_of("15.1")
class EnvelopeToRow:
    """A row for each change, of the right image, and marked if it deletes."""

    @staticmethod
    def observe(lab, answer: Callable) -> Envelopes:
        """Call the function with records of orders that do not exist."""
        records, expected = made_up_records(random.Random())
        frame = answer(lab.spark.createDataFrame(records, RECORDS).coalesce(1))
        found = as_rows(frame, (*ROW, "_hoodie_is_deleted"))
        kind = dict(getattr(frame, "dtypes", {})).get("amount", "")
        tombstones = sum(value is None for _, value, *_ in records)
        return Envelopes(tuple(expected), tuple(map(_change, found)), tombstones, str(kind))

    @staticmethod
    def judge(facts: Envelopes) -> Passed | NotYet:
        """Each change once, and nothing else."""
        without_key = [row for row in facts.rows if row.order_id is None]
        if without_key:
            return NotYet(
                f"{len(without_key)} rows without a key: the {facts.tombstones} tombstones of this "
                "topic have no value, and are no change."
            )
        by_place = {row.lsn: row for row in facts.rows}
        deletes = [change for change in facts.expected if change.deleted]
        lost = [change.order_id for change in deletes if change.lsn not in by_place]
        if None in by_place:
            return NotYet(
                f"{sum(row.lsn is None for row in facts.rows)} rows have no `lsn`. The reads of an "
                "incremental snapshot are in no log; take both numbers from `source.sequence`, as "
                "COLUMNS does."
            )
        if lost:
            return NotYet(
                f"{lost[0]} lives: no row says that it was deleted. `after` of a delete is NULL; "
                "the image of a delete is `before`."
            )
        alive = [c.order_id for c in deletes if not by_place[c.lsn].deleted]
        if alive:
            return NotYet(
                f"{alive[0]} lives: the row of its delete is not marked as deleted. Set "
                "`_hoodie_is_deleted` where `op` is `d`."
            )
        wrongly = [
            row.order_id
            for row in facts.rows
            if row.deleted and row.lsn not in {change.lsn for change in deletes}
        ]
        if wrongly:
            return NotYet(f"{wrongly[0]} is marked as deleted, but its change is no delete.")
        return _compare(facts)


def _compare(facts: Envelopes) -> Passed | NotYet:
    """The rows one by one, once keys and deletes are right."""
    if Counter(row.lsn for row in facts.rows) != Counter(row.lsn for row in facts.expected):
        return NotYet(
            f"{len(facts.expected)} changes, {len(facts.rows)} rows: one row per change is "
            "expected, also where one order changes several times."
        )
    by_place = {row.lsn: row for row in facts.rows}
    for change in facts.expected:
        row = by_place[change.lsn]
        for name in ROW:
            wanted, got = getattr(change, name), getattr(row, name)
            if wanted != got:
                return NotYet(
                    f"{name} of {change.order_id} at LSN {change.lsn} is {wanted}; your row says "
                    f"{got}. COLUMNS makes it of `image`: is it the image of this change?"
                )
    if "decimal" not in facts.amount_type:
        return NotYet(f"`amount` is {facts.amount_type}; money needs a decimal, as in COLUMNS.")
    deletes = sum(change.deleted for change in facts.expected)
    return Passed(
        f"{len(facts.expected)} changes, {deletes} of them deletes; {facts.tombstones} tombstones "
        "left out."
    )


def _change(values: Sequence) -> Change:
    order_id, customer_id, amount, status, day, commit_lsn, lsn, deleted = map(plain, values)
    return Change(
        order_id,
        customer_id,
        None if amount is None else as_number(amount),
        status,
        None if day is None else as_text(day),
        None if commit_lsn is None else as_int(commit_lsn),
        None if lsn is None else as_int(lsn),
        bool(deleted) if deleted is None else as_bool(deleted),
    )


def made_up_records(chosen: random.Random) -> tuple[list[tuple], list[Change]]:
    """Records of a topic, as Spark reads them, and the changes that they stand for.

    A snapshot's reads, inserts, updates and deletes with their tombstones, and one read of an
    incremental snapshot.

    Args:
        chosen: draws orders, amounts, days and positions.
    """
    records: list[tuple] = []
    changes: list[Change] = []
    commit = lsn = chosen.randint(10_000, 99_999)
    live = {}
    numbers = chosen.sample(range(2000, 9000), 9)

    def send(op: str, row: dict, before: dict | None, kind: str = "log") -> None:
        nonlocal commit, lsn
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
            Change(
                row["order_id"],
                row["customer_id"],
                Decimal(row["amount"]),
                row["status"],
                str(FIRST_DAY + timedelta(days=row["order_date"])),
                places[0] if places[0] is not None else lsn,
                lsn,
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


@dataclass(frozen=True)
class Followed:
    """What a stream brought in two calls.

    Args:
        batches: records of each batch of the first call.
        again: records of the second call, before which nothing was sent.
        records: in the topic.
        limit: records that a batch may have.
        active: whether a stream was still running when the first call returned.
    """

    batches: tuple[int, ...]
    again: int
    records: int
    limit: int
    active: bool = False


@check_of("15.2")
class FollowTheTopic:
    """All records, in bounded batches, once."""

    @staticmethod
    def observe(lab, answer: Callable) -> Followed:
        """Call the function twice with a checkpoint of its own; it only counts."""
        records = sum(topic_end_offsets(*_orders_topic(lab)).values())
        limit = records // 2 + 1
        checkpoint = (lab.folder / f"checkpoint-{secrets.token_hex(3)}").as_uri()
        calls: list[list[int]] = [[], []]
        for counted, limits in zip(calls, ({"maxOffsetsPerTrigger": limit}, {}), strict=True):
            with own_streams_stopped(lab.spark, STREAM_TIMEOUT_S) as stopped:
                answer(
                    lambda batch, number, to=counted: to.append(batch.count()), checkpoint, **limits
                )
            if stopped.at_all:
                break
        return Followed(tuple(calls[0]), sum(calls[1]), records, limit, stopped.at_all)

    @staticmethod
    def judge(facts: Followed) -> Passed | NotYet:
        """Everything once, no batch too large, and at an end when the call returns."""
        total = sum(facts.batches)
        if facts.active:
            return NotYet(
                f"{total:,} of {facts.records:,} records came, and your stream was still running "
                f"when your function returned, or after {STREAM_TIMEOUT_S} seconds. Take the "
                "trigger that ends, and wait for the end."
            )
        if total == 0:
            return NotYet(
                f"0 of {facts.records:,} records: a new stream begins at the end of the topic, "
                "unless `startingOffsets` says otherwise."
            )
        if facts.again:
            return NotYet(
                f"The second call brought {facts.again:,} records once more, though none was "
                "sent. What remembers where the first one stopped?"
            )
        if total != facts.records:
            return NotYet(f"The topic has {facts.records:,} records; `apply` got {total:,}.")
        if max(facts.batches) > facts.limit:
            return NotYet(
                f"With maxOffsetsPerTrigger={facts.limit} a batch had {max(facts.batches):,} "
                "records: pass `limits` on to the source."
            )
        return Passed(
            f"{total:,} records in {len(facts.batches)} batches; the second call found none."
        )


def _orders_topic(lab) -> tuple[str, str]:
    return lab.endpoints.kafka_bootstrap, lab.topic("public.orders")


@dataclass(frozen=True)
class Slots:
    """Bytes by slot: as the query says, as kept, and as confirmed.

    Args:
        answer: what the query returned: slot and second column, as they came.
        kept: bytes of WAL that each slot keeps; slots that are lost have none.
        confirmed: bytes behind what its reader has confirmed.
        tolerance: bytes that the log may grow while the check runs.
    """

    answer: dict[str, object]
    kept: dict[str, int]
    confirmed: dict[str, int]
    tolerance: int = 100_000


# It has all columns of the real one: those that say nothing here are NULL.
MADE_UP_VIEW = """
    CREATE TEMP TABLE made_up_slots (
        slot_name name, active boolean, restart_lsn pg_lsn, confirmed_flush_lsn pg_lsn,
        wal_status text);
    CREATE TEMP VIEW pg_replication_slots AS
    SELECT made.slot_name, 'pgoutput'::name AS plugin, 'logical' AS slot_type, actual.datoid,
           'shop'::name AS database, false AS temporary, made.active, actual.active_pid,
           actual.xmin, actual.catalog_xmin, made.restart_lsn, made.confirmed_flush_lsn,
           made.wal_status, actual.safe_wal_size, false AS two_phase, actual.two_phase_at,
           actual.inactive_since, actual.conflicting, actual.invalidation_reason,
           false AS failover, false AS synced
    FROM made_up_slots AS made LEFT JOIN pg_catalog.pg_replication_slots AS actual ON false"""


@check_of("15.3")
class TheAlarm:
    """The WAL that is kept for each slot."""

    @staticmethod
    def observe(lab, answer: object) -> Slots:
        """Run the query where `pg_replication_slots` is a made-up view, which SQL finds first."""
        import psycopg

        chosen = random.Random()
        with psycopg.connect(lab.postgres(), autocommit=True) as connection:
            connection.execute(MADE_UP_VIEW)
            (found,) = connection.execute("SELECT pg_current_wal_lsn() - '0/0'").fetchall()
            end = as_int(found[0])
            slots = made_up_slots(chosen, end)
            connection.cursor().executemany(
                """INSERT INTO made_up_slots VALUES (%s, %s,
                   '0/0'::pg_lsn + %s::numeric, '0/0'::pg_lsn + %s::numeric, %s)""",
                slots,
            )
            rows = connection.execute(as_text(answer).encode()).fetchall()
        return Slots(
            {str(row[0]): row[1] for row in rows if len(row) > 1},
            {name: end - restart for name, _, restart, _, _ in slots if restart is not None},
            {name: end - flushed for name, _, restart, flushed, _ in slots if restart is not None},
        )

    @staticmethod
    def judge(facts: Slots) -> Passed | NotYet:
        """Right for each slot."""
        missing = facts.kept.keys() - facts.answer.keys()
        if missing:
            return NotYet(
                f"The server of the check has a slot {min(missing)}, which keeps "
                f"{facts.kept[min(missing)]:,} bytes; your query does not name it. Return the "
                "slot's name and the bytes, for each slot."
            )
        answer = {name: facts.answer[name] for name in facts.kept}
        if any(value is None or isinstance(value, bool | str) for value in answer.values()):
            name = next(
                n for n, value in answer.items() if value is None or isinstance(value, bool | str)
            )
            return NotYet(
                f"For {name} your query says {answer[name]}: true after a second and after a week. "
                "The alarm needs to know how many bytes are kept."
            )
        numbers = {name: as_number(value) for name, value in answer.items()}
        if all(abs(numbers[name] - kept) <= facts.tolerance for name, kept in facts.kept.items()):
            worst = max(facts.kept, key=lambda name: facts.kept[name])
            return Passed(
                f"{worst} keeps {facts.kept[worst] / 2**20:,.0f} MB. Let the alarm ring at a share "
                "of the disk, and when `wal_status` is no longer `reserved`."
            )
        name = max(facts.kept, key=lambda name: facts.kept[name] - facts.confirmed[name])
        if abs(numbers[name] - facts.confirmed[name]) <= facts.tolerance:
            return NotYet(
                f"What the reader has confirmed, not what is kept: {name} keeps "
                f"{facts.kept[name]:,} bytes, and your query says {numbers[name]:,}."
            )
        return NotYet(
            f"{name} keeps {facts.kept[name]:,} bytes; your query says {numbers[name]:,}."
        )


def made_up_slots(chosen: random.Random, end: int) -> list[tuple]:
    """Slots as rows: name, active, restart position, confirmed position, status.

    Args:
        end: of the log, in bytes.
    """
    behind = [chosen.randint(end // 4, end // 2), chosen.randint(end // 8, end // 4)]
    return [
        (
            f"orders_{chosen.randint(10, 99)}",
            True,
            end - behind[0],
            end - behind[0] // 3,
            "reserved",
        ),
        (
            f"stock_{chosen.randint(10, 99)}",
            False,
            end - behind[1],
            end - behind[1] // 4,
            "extended",
        ),
        ("old", False, None, end - behind[0], "lost"),
    ]


@dataclass(frozen=True)
class Deleted:
    """A copy of the lake's orders after the learner's function.

    Args:
        wanted: the orders to be deleted.
        left: those of them that the table still shows.
        others: how many other rows it had.
        missing: other orders that it no longer shows.
        changed: other orders that it shows otherwise.
        same_table: whether the commits that it had are still on its timeline.
    """

    wanted: tuple[str, ...]
    left: tuple[str, ...] = ()
    others: int = 0
    missing: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    same_table: bool = True


@check_of("15.4")
class DeleteByHand:
    """These orders are gone, no other row is touched, and it is still the same table."""

    @staticmethod
    def observe(lab, answer: Callable) -> Deleted:
        """Delete some orders, drawn by chance, from a copy."""
        path = lab.scratch("delete")
        copy_table(lab, lab.path("orders"), path)
        before, commits = _rows_by_order(lab, path), _commits(lab, path)
        ((most_common, _),) = Counter(row[-1] for row in before.values()).most_common(1)
        other_day = [order for order, row in before.items() if row[-1] != most_common]
        one = random.choice(sorted(other_day or before))  # so no partition can be guessed
        wanted = [one, *random.sample(sorted(before.keys() - {one}), 2)]
        with left_alone(lab, lab.path("orders")):
            answer(list(wanted), path)
        after = _rows_by_order(lab, path)
        others = before.keys() - set(wanted)
        return Deleted(
            tuple(wanted),
            tuple(order for order in wanted if order in after),
            len(others),
            tuple(sorted(others - after.keys())),
            tuple(sorted(o for o in others & after.keys() if after[o] != before[o])),
            commits <= _commits(lab, path),
        )

    @staticmethod
    def judge(facts: Deleted) -> Passed | NotYet:
        """What is missing counts most, then what is still there."""
        wanted = ", ".join(facts.wanted)
        if facts.missing:
            return NotYet(
                f"{wanted} were to go. Of {facts.others:,} rows that were to stay, "
                f"{len(facts.missing):,} others are missing, such as {facts.missing[0]}."
            )
        if facts.left:
            return NotYet(
                f"{', '.join(facts.left)} are still there. What tells Hudi that a row which you "
                "write deletes? And does it look in the right partition?"
            )
        if facts.changed:
            return NotYet(f"{facts.changed[0]} was not to be touched, and has changed.")
        if not facts.same_table:
            return NotYet(
                f"{wanted} are gone, but you wrote a new table: the commits before are no longer "
                "on its timeline, and time travel ends there. Write only the rows that must go."
            )
        return Passed(f"{wanted} are gone, and the {facts.others:,} others are as they were.")


def _rows_by_order(lab, path: str) -> dict[str, tuple]:
    columns = ("customer_id", "amount", "status", "partition_date")
    rows = lab.spark.read.format("hudi").load(path).select("order_id", *columns)
    return {row[0]: tuple(row[1:]) for row in rows.collect()}


def _commits(lab, path: str) -> set[str]:
    return set(lab.xray(path).completed_writes)


@dataclass(frozen=True)
class Histories:
    """Versions by order: as the function made them, and as the database did.

    Args:
        made: per order its versions (status, amount, valid_from, valid_to), as the function says.
        expected: the same, as they were.
        by_lsn: the same, if the order of commits is not looked at.
        lsns: LSNs of all changes.
    """

    made: dict[str, list[tuple]]
    expected: dict[str, list[tuple]]
    by_lsn: dict[str, list[tuple]]
    lsns: frozenset[int]


@check_of("15.5")
class SurvivesAReplay:
    """Versions that a replay and the reads of a snapshot do not multiply."""

    @staticmethod
    def observe(lab, answer: Callable) -> Histories:
        """Call the function with changes of which some come twice, in no order."""
        changes = made_up_changes(random.Random())
        expected, by_lsn = versions_of(changes, (5, 6)), versions_of(changes, (6,))
        names = "order_id STRING, status STRING, amount DECIMAL(12,2), op STRING, deleted BOOLEAN"
        rows = lab.spark.createDataFrame(
            changes, f"{names}, commit_lsn BIGINT, lsn BIGINT"
        ).coalesce(1)
        frame = as_frame(answer(rows))
        made: dict[str, list[tuple]] = {order_id: [] for order_id in expected}
        for row in as_rows(frame, ("order_id", "status", "amount", "valid_from", "valid_to")):
            order_id, status, amount, begin, end = map(plain, row)
            end = None if end is None else as_int(end)
            version = (status, as_number(amount), as_int(begin), end)
            made.setdefault(order_id, []).append(version)
        for versions in made.values():
            versions.sort(key=lambda version: version[2])
        return Histories(made, expected, by_lsn, frozenset(change[-1] for change in changes))

    @staticmethod
    def judge(facts: Histories) -> Passed | NotYet:
        """Each order has its versions, with their bounds."""
        for order_id, versions in facts.made.items():
            expected = facts.expected.get(order_id, [])
            strange = [begin for _, _, begin, _ in versions if begin not in facts.lsns]
            if strange:
                return NotYet(
                    f"`valid_from` of {order_id} is {strange[0]}, which is no LSN of a change. "
                    "With the time of the run in it, each run of the job makes other versions."
                )
            current = [version for version in versions if version[3] is None]
            if len(current) > 1:
                return NotYet(
                    f"{order_id} has {len(current)} current versions. The older ones must be "
                    "closed: `valid_to` is where the next version begins."
                )
            if versions == facts.by_lsn.get(order_id) != expected:
                return NotYet(
                    f"By `lsn` alone {order_id} is {_words(versions[-1])}; the database says "
                    f"{_words(expected[-1])}: a change with a lower LSN was committed later. Order "
                    "by `commit_lsn` first, as `LOG` does."
                )
            if len(versions) > len(expected):
                return NotYet(
                    f"{order_id} has {len(versions)} versions, the database made {len(expected)}. "
                    "A change that comes twice, or changes nothing, is no version."
                )
            if len(versions) < len(expected):
                return NotYet(
                    f"{order_id} has {len(versions)} versions, the database made {len(expected)}. "
                    "Another status is a new version, and so is another amount."
                )
            if versions != expected:
                mine, right = next(
                    pair for pair in zip(versions, expected, strict=True) if pair[0] != pair[1]
                )
                return NotYet(
                    f"A version of {order_id} is {_words(right)}; you have {_words(mine)}."
                )
        total = sum(map(len, facts.expected.values()))
        return Passed(
            f"{total} versions of {len(facts.expected)} orders, whatever came twice. Write them "
            "with the key `order_id,valid_from`: a repeated run changes nothing."
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
    """Changes of some orders, some of them twice and none in order.

    There are orders with a deletion, with a deletion and a new life, with another amount, with
    reads and updates that change nothing, and one whose LSNs do not follow its commits.

    Args:
        chosen: draws numbers, amounts and positions.

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
    """The versions of each order: status, amount, and the LSNs from and to which it was valid.

    Args:
        changes: as `made_up_changes` has them.
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
