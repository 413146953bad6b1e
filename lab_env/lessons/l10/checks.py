"""Checks of lesson 10: time travel, the board at a past moment, restore, replay and cleaning."""

import json
import secrets
from collections.abc import Sequence
from contextlib import suppress
from functools import cache

from pyspark.sql import DataFrame

from lab_env.course.answers import Unreadable, as_pair
from lab_env.course.checking import check, expect
from lab_env.lessons.boards import Board, as_board, board_of, board_text, expect_decimal
from lab_env.lessons.l10.shop import compare_rows, make_changes
from lab_env.lessons.rows import as_dataframe, expect_rows, named, rows_at
from lab_env.lessons.table_copies import copy_table, named_table, scratch_copy
from lab_env.lessons.timelines import completed_instants, expect_added, expect_no_metadata
from lab_env.pipeline.options import DEMO_OPTIONS, KEYS
from lab_env.platform import store
from lab_env.platform.brokers.topics import read_topic
from lab_env.tables.hudi.timeline import Instant, from_seconds, to_datetime, to_seconds
from lab_env.tables.xray.captions import clock

WITH_THE_BAD = ("O-21", "O-22")  # good orders that came in the bad batch
TABLE = (
    KEYS | DEMO_OPTIONS | {"hoodie.table.name": "kept", "hoodie.index.bloom.num_entries": "1000"}
)
SCHEMA = (
    "order_id STRING, status STRING, amount DECIMAL(12,2), order_ts TIMESTAMP, "
    "partition_date STRING"
)


@check("10.1")
def travels_in_time(lab, as_of):
    """Let the function query a table as of each write, newest first, then an older copy of it."""
    path = lab.path("orders")
    writes = _writes(lab, path)
    now = _amounts(_rows(lab, writes[-1]))
    for write in reversed(writes):
        true = _rows(lab, write)
        was = _amounts(true)
        rows = as_dataframe(as_of(path, write.requested), "the rows")
        found = {row.order_id: row.amount for row in rows.select("order_id", "amount").collect()}
        when = f"As of {clock(write.requested)}"
        other = min((order for order in was if was[order] != now[order]), default="")
        expect(
            found != now or not other,
            "{} {} cost {}; your function says {}, which is what the table says now. Which option "
            "of the reader takes the moment?",
            when,
            other,
            was.get(other),
            now.get(other),
        )
        expect(
            was.keys() <= found.keys(),
            "{} {} had a row, too, and has been changed since: a filter of today's rows finds no "
            "older version. Open the table as of the moment.",
            when,
            named(was.keys() - found.keys()),
        )
        expect_rows(rows, lab.spark.createDataFrame(true, SCHEMA))
    moment = f"{to_datetime(writes[-1].requested):%Y-%m-%d %H:%M:%S.%f}"[:-3]
    rows = as_dataframe(as_of(path, moment), "the rows")
    expect(
        _amounts(rows.collect()) == now,
        "At {!r} the newest write was there, and your rows lack it. Hudi reads a moment as text, "
        "too: pass it on as it is.",
        moment,
    )
    older = lab.scratch("older")
    copy_table(lab, path, older, hidden=writes[-1:])
    rows = as_dataframe(as_of(older, writes[-1].requested), "the rows")
    found = {row.order_id: row.amount for row in rows.select("order_id", "amount").collect()}
    expect(
        found == _amounts(_rows(lab, writes[-2])),
        "Asked for a copy that lacks the newest write, your function returns other rows than the "
        "copy has. It is given the path of the table: read that one.",
    )
    return (
        f"As of each of {len(writes)} writes, the rows as they were then. No copy was made for it: "
        "the files of that time are still there."
    )


@check("10.2")
def board_at_a_moment(lab, board_at):
    """Call the function for three moments of a table, and for a copy with a pending last write."""
    path = lab.path("orders")
    writes = _writes(lab, path)
    boards = [_board(_rows(lab, write)) for write in writes]
    newest = rows_at(lab, path).select("_hoodie_commit_time", *_columns()).collect()
    for moment in _moments(writes):
        true = boards[max(n for n, write in enumerate(writes) if write.completed <= moment)]
        as_of = boards[max(n for n, write in enumerate(writes) if write.requested <= moment)]
        by_row = _board([row for row in newest if row["_hoodie_commit_time"] <= moment])
        answer = board_at(path, moment)
        found = as_board(answer)
        says = (
            f"At {clock(moment)} your board says {board_text(found)}. The one on the wall said "
            f"{board_text(true)}."
        )
        for misread, why in (
            (
                as_of,
                "A write was going on: requested, and not yet complete. Time travel to the moment "
                "itself takes it; nobody could read it. Which write was the last to be complete?",
            ),
            (
                by_row,
                "You added up the rows whose _hoodie_commit_time is not after the moment. Of an "
                "order that was changed later today's table has only the later row.",
            ),
            (boards[-1], "Yours is the board of now, whatever the moment."),
        ):
            expect(found == true or found != misread, "{} {}", says, why)
        expect(found == true, "{} Which write was the last to be complete then?", says)
        expect_decimal(answer)
    found = as_board(board_at(_pending(lab, path, writes[-1]), writes[-1].completed))
    expect(
        found == boards[-2],
        "For a copy in which the newest write is not complete your board says {}, which is not "
        "what its readers see. It is given the path of the table: read that one.",
        board_text(found),
    )
    free = _writes(lab, _four_writes(lab))[0]
    found = as_board(board_at(_four_writes(lab), free.completed))
    expect(
        found == {"new": 0},
        "For a table whose new orders cost 0.00 each your board says {}: a status that has orders "
        "is on the board, whatever they cost.",
        board_text(found),
    )
    later, *_ = _moments(writes)
    saved = scratch_copy(lab, path, "saved")
    with named_table(lab, saved) as name:
        _save(lab, name, writes[0])
    found = as_board(board_at(saved, later))
    expect(
        found == boards[-1],
        "For a copy with a savepoint on its first write your board says {}: a savepoint writes no "
        "rows. Which instants do?",
        board_text(found),
    )
    return (
        "Right after a write, in the millisecond of its completion, and while it went on: there a "
        f"query as of the moment says {board_text(as_of)}, and the board said {board_text(true)}."
    )


def _save(lab, name: str, write: Instant) -> None:
    """Set a savepoint on a write of the table of this name."""
    lab.spark.sql(f"CALL create_savepoint(table => '{name}', commit_time => '{write.requested}')")


def _saved(lab, path: str) -> set[str]:
    """Return the requested times of the writes that have a savepoint."""
    return {i.requested for i in lab.xray(path).instants if i.action == "savepoint"}


def _pending(lab, path: str, write: Instant) -> str:
    """Return the path of a copy in which a write was requested but is not complete."""
    copy = scratch_copy(lab, path, "pending")
    for file in lab.files(copy):
        if f"/{write.requested}_{write.completed}." in file.key:
            store.delete(lab.endpoints, file.key)
    return copy


def _moments(writes: tuple[Instant, ...]) -> list[str]:
    """Return moments: after all writes, at an earlier completion, during a write, at the last one.

    At an earlier completion, because at the last one a filter on commit times, which is wrong,
    returns the right rows.
    """
    write = secrets.choice(writes[1:])
    begin, end = to_seconds(write.requested), to_seconds(write.completed)
    within = from_seconds(begin + (end - begin) * (0.2 + 0.6 * secrets.randbelow(100) / 100))
    later = from_seconds(to_seconds(writes[-1].completed) + 60)
    return [later, secrets.choice(writes[:-1]).completed, within, writes[-1].completed]


def _writes(lab, path: str) -> tuple[Instant, ...]:
    """Return a table's completed writes, oldest first."""
    return tuple(i for i in lab.xray(path).instants if i.writes and i.completed)


def _amounts(rows: list) -> dict:
    return {row.order_id: row.amount for row in rows}


def _board(rows: list) -> Board:
    return board_of({row.order_id: (row.status, row.amount) for row in rows})


def _columns() -> list[str]:
    return [part.split()[0] for part in SCHEMA.split(", ")]


@cache  # no later write changes what the table was
def _rows(lab, write: Instant) -> list:
    """Return the rows of the lesson's table as of one of its writes."""
    reader = lab.spark.read.format("hudi").option("as.of.instant", write.requested)
    return reader.load(lab.path("orders")).select(_columns()).collect()


@check("10.3")
def goes_back(lab, answer):
    """Let the answer set a savepoint in a copy of a table, and restore the copy to it."""
    mark, go_back = as_pair(answer, "The two functions are expected: `[mark, go_back]`")
    path = scratch_copy(lab, _four_writes(lab), "went_back")
    done = _writes(lab, path)
    writes = [write.requested for write in done]
    wanted = secrets.choice([2, 3])
    with named_table(lab, path) as name:
        _save(lab, name, done[0])
        before = completed_instants(lab, path)
        mark(name, writes[wanted - 1])
        expect_added(lab, path, before, writes=0, services={"savepoint"})
        saved = _saved(lab, path) - {writes[0]}
        marked = [number for number, requested in enumerate(writes, 1) if requested in saved]
        asked = f"Asked to mark write {wanted} of {len(writes)},"
        expect(marked, "{} your `mark` left no savepoint on the timeline.", asked)
        expect(
            marked == [wanted],
            "{} and the savepoint is on write {}. `mark` gets the requested time of the write.",
            asked,
            " and ".join(map(str, marked)),
        )
        with suppress(Exception):  # Hudi refuses: this write has no savepoint
            go_back(name, writes[4 - wanted])
        expect(
            not _restored(lab, path),
            "Given the time of a write without a savepoint, your `go_back` restored the table. "
            "Without a time Hudi takes the newest savepoint: pass `requested` on.",
        )
        go_back(name, writes[wanted - 1])
    left = len(_writes(lab, path))
    why = "The procedure that undoes all of them at once leaves a restore."
    if left == len(writes):
        why = "The table is as it was. (Time travel only looks back.)"
    if left > len(writes):
        why = "Rows that are written again make one more write, and take none away."
    expect(
        _restored(lab, path),
        "The savepoint is right. But after `go_back` the timeline has {} writes, of {} before, and "
        "no restore. {}",
        left,
        len(writes),
        why,
    )
    expect(
        left == wanted,
        "There was a restore, but {} writes are left, where write {} should be the last one.",
        left,
        wanted,
    )
    expect(
        _saved(lab, path) == {writes[0], writes[wanted - 1]},
        "The table went back, but a savepoint is gone with it, and nobody can go there again.",
    )
    expect(
        not any(instant.action == "clean" for instant in lab.xray(path).instants),
        "The table went back, and was cleaned: its states before the savepoint are lost.",
    )
    # The amount of O-n is n times the number of writes before this one.
    rows = rows_at(lab, path).select("order_id", "amount").collect()
    expect(
        sorted(row.amount / int(row.order_id[2:]) for row in rows) == [wanted - 1] * 25,
        "There was a restore, but the table has other rows than it had after write {}.",
        wanted,
    )
    return (
        f"A savepoint on write {wanted} of {len(writes)}. After the restore it is the last one, "
        "and the table has its rows."
    )


def _restored(lab, path: str) -> bool:
    return any(instant.action == "restore" for instant in lab.xray(path).instants)


@check("10.4")
def undone_without_loss(lab, replay):
    """Run the function on a copy of the lesson's table as it was after the restore; compare rows.

    Run it twice, because it may resume from a checkpoint of its own.
    """
    streamed, _ = _replay(lab, replay), _replay(lab, replay)
    goes_on = (
        "The shop's stream continues with the new checkpoint."
        if streamed
        else "You wrote a batch, without a checkpoint: the shop's stream still has its old one, "
        "and its next batch goes on where that ends."
    )
    return (
        "0 missing, 0 stale, 0 zero. The table says what it would say if the bad events had never "
        f"been sent. {goes_on}"
    )


def _replay(lab, replay) -> bool:
    """Check that a replay restores all good orders; return True if it created a checkpoint."""
    source, path = lab.path("orders"), lab.scratch("restored")
    copy_table(lab, source, path, hidden=_after_the_restore(lab.xray(source).instants))
    writes, checkpoints = len(_writes(lab, path)), _checkpoints(lab)
    own_writes, before = len(_writes(lab, source)), completed_instants(lab, path)
    replay(path)
    missing, stale, zero = compare_rows(lab, path)
    wrong = missing or stale or zero
    lost = f"{len(missing)} good orders are missing and {stale} stale"
    expect(
        not wrong or len(_writes(lab, source)) == own_writes,
        "Your function wrote into the lesson's own table. Write to the path that it gets.",
    )
    written, begun = len(_writes(lab, path)) > writes, _checkpoints(lab) > checkpoints
    expect(
        not wrong or written or begun,
        "Nothing was written: {}. Your stream continued from a checkpoint that has read "
        "everything. The restore moves the table, not the stream's checkpoint.",
        lost,
    )
    expect(
        not wrong or written,
        "A new checkpoint, but no commit, and no error: {}. A new checkpoint counts its batches "
        "from 0, and the table has seen higher numbers under the same identifier. So it took your "
        "batch 0 for one that it has already.",
        lost,
    )
    expect(
        not zero,
        "{} orders have an amount of 0 again: the bad events are still in the topic, and your "
        "stream let them through.",
        zero,
    )
    expect(
        tuple(missing) != WITH_THE_BAD,
        "{} are missing. They are good orders that stood in the bad batch. Leave out bad events, "
        "not the batch in which they came.",
        " and ".join(WITH_THE_BAD),
    )
    expect(
        not wrong,
        "After the replay {}. Where did the savepoint's batch end in the topic?",
        lost,
    )
    expect_rows(rows_at(lab, path), _good_orders(lab))
    added = len(_writes(lab, path)) - writes  # a stream may write several batches
    expect_added(lab, path, before, writes=added)
    expect_no_metadata(lab, path, "ORDERS")
    return begun


def _good_orders(lab) -> DataFrame:
    """Return the newest good event of each order in the lesson's topic."""
    newest: dict[str, dict] = {}
    for message in read_topic(lab.endpoints.kafka_bootstrap, lab.topic("orders")):
        event = json.loads(message.value())
        known = newest.get(event["order_id"], event)
        if event["amount"] > 0 and event["order_ts"] >= known["order_ts"]:
            newest[event["order_id"]] = event
    texts = lab.spark.createDataFrame([(json.dumps(e),) for e in newest.values()], "text STRING")
    return texts.selectExpr(f"from_json(text, '{SCHEMA}') AS event").select("event.*")


def _after_the_restore(instants: Sequence[Instant]) -> tuple[Instant, ...]:
    """Return the instants after the newest restore, such as the learner's replay."""
    restores = [place for place, found in enumerate(instants) if found.action == "restore"]
    if not restores:
        raise Unreadable("Run the cells of this section first: they restore the table.")
    return tuple(instants[restores[-1] + 1 :])


def _checkpoints(lab) -> int:
    """Count the checkpoints of this lesson's streams."""
    return sum(found.key.endswith("/sources/0/0") for found in lab.files(lab.base))


@check("10.5")
def keeps_the_past(lab, clean):
    """Let the function keep two writes of a table with four, then two of one more, then one.

    Keeping three would leave nothing to clean, because the cleaner keeps the files of one more
    commit than it retains.
    """
    for asked, more in (2, False), (2, True), (1, False):
        if not more:
            path = scratch_copy(lab, _four_writes(lab), "cleaned")
        else:
            _write(lab, path, 4)
        writes = _writes(lab, path)
        with named_table(lab, path) as name:
            if not more:
                _save(lab, name, writes[-1])
            before = completed_instants(lab, path)
            clean(name, asked)
            found = [_orders_as_of(lab, path, write.requested) for write in writes]
        wish = f"Asked to keep {asked} of {len(writes)} writes readable,"
        expect(
            any(instant.action == "clean" for instant in lab.xray(path).instants),
            "{} your function cleaned nothing: the timeline has no clean.",
            wish,
        )
        expect(_saved(lab, path), "{} your function deleted a savepoint: nobody asked.", wish)
        expect_added(lab, path, before, writes=0, services={"clean"})
        expect(
            0 not in found,
            "{} your function left a table that answers as of an older write with fewer rows, and "
            "without an error. A policy that counts file versions leaves no note of what it took. "
            "Count commits.",
            wish,
        )
        left = sum(map(bool, found))
        expect(left >= asked, "{} it answers as of {}: you retain too few commits.", wish, left)
        expect(
            left == asked,
            "{} it answers as of {}: you retain more commits than the promise needs, and pay for "
            "their files.",
            wish,
            left,
        )
    return (
        "Asked for one write, the table answers as of its last one, and refuses the older ones, "
        "with an error that says why. So it did with two."
    )


@cache  # of a call that was interrupted, nothing is used
def _four_writes(lab) -> str:
    """Return the path of a table with four writes, to be copied; the first call writes it."""
    path = lab.scratch("four_writes")
    for number in range(4):
        _write(lab, path, number)
    return path


def _write(lab, path: str, number: int) -> None:
    """Write 25 orders, whose amounts grow with each write; by the first one they cost nothing."""
    rows = make_changes(lab, "id BETWEEN 1 AND 25", "new", f"09:{number}0", f"{number} * id")
    rows.write.format("hudi").options(**TABLE).mode("append").save(path)


def _orders_as_of(lab, path: str, moment: str) -> int | None:
    """Return 1 if all 25 orders are there as of a moment, 0 if not, None if Hudi refuses."""
    reader = lab.spark.read.format("hudi").option("as.of.instant", moment)
    try:
        return int(reader.load(path).count() >= 25)
    except Exception as refusal:  # Hudi's own exception comes through Py4J
        if "Cleaner" in str(refusal):
            return None
        raise
