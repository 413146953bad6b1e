"""Checks of lesson 17: restarts, a table repair, a custom sink, missing messages, a lost file."""

import secrets
from collections import Counter, deque
from collections.abc import Callable, Generator, Mapping
from contextlib import chdir, contextmanager, suppress
from copy import deepcopy
from pathlib import Path
from random import Random
from types import CellType, FunctionType
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lab_env.course.answers import Unreadable, as_int, as_list
from lab_env.course.checking import check, expect
from lab_env.course.traces import unwatched
from lab_env.lessons.hudi_rs import rows_of
from lab_env.lessons.l17.damage import RIGHT
from lab_env.lessons.l17.receipts import (
    IDENTIFIER,
    NONE,
    as_restart,
    read_receipts,
    receipts_in,
)
from lab_env.lessons.streams import own_streams_stopped, session_spared
from lab_env.lessons.table_copies import copy_table, scratch_copy
from lab_env.lessons.timelines import completed_instants, expect_added, expect_history
from lab_env.pipeline.checkpoint import FIRST_OFFSETS, read_checkpoint
from lab_env.platform import store
from lab_env.tables.hudi.timeline import Instant, parse_data_name

STREAM_TIMEOUT_S = 120  # for the stream of 17.2, which takes some seconds
WITH_A_GAP = "orders_with_a_gap"  # a copy of the table from before the lesson repairs it
LOST = (6, NONE, 5)  # all of `commits`
SHOWN_FIRST = ((7, 6, 6), (7, 6, 7), (7, 7, 7), (NONE, NONE, 9), (NONE, NONE, NONE), LOST)
LIST_FILES = "hoodie.metadata.enable"
BATCH = 4  # the first that 17.3 delivers: a stream may be older than its table
# Columns of a message in the audit table, with their types in Arrow.
MESSAGE = {"id": "string", "partition": "int32", "offset": "int64", "message": "string"}
Counts = tuple[int, int]  # orders, and paid ones among them


@check("17.1")
def what_a_restart_does(lab, restart):
    """Call the function for the lesson's receipts and for random ones."""
    for case in [
        *SHOWN_FIRST,
        (0, NONE, NONE),
        (0, NONE, 0),
        *(_random_receipts() for _ in range(12)),
    ]:
        offsets, commits, table = case
        batch, messages, does = as_restart(restart(*case))
        said = (
            f"For offsets {offsets}, commits {commits}, table {table} you say batch {batch}, "
            f'"{messages}", "{does}".'
        )
        planned, above = offsets > commits, batch > table
        expect(
            batch == (offsets if planned else offsets + 1),
            "{} {}",
            said,
            f"Batch {offsets} has offsets and no commit: Spark runs it again."
            if offsets == commits + 1
            else f"Spark goes on with the newest plan, batch {offsets}; `commits` says only if "
            "it is done."
            if planned
            else "The newest planned batch is committed, so Spark plans the next one.",
        )
        expect(
            messages == ("again" if planned else "new"),
            "{} {}",
            said,
            f"`offsets/{batch}` is there: the batch gets the messages of that plan."
            if planned
            else "No plan of this batch is there: Spark makes one now.",
        )
        expect(
            does == ("write" if above else "skip"),
            "{} {}",
            said,
            "The table does not know this batch, so the sink has to write it."
            if above
            else f"The table knows batch {table}; for a number that is not above it the sink "
            "returns without reading.",
        )
    return "Right for every set of receipts."


def _random_receipts() -> tuple[int, int, int]:
    offsets = secrets.randbelow(40)
    commits = secrets.choice((offsets, offsets - 1, max(NONE, offsets - 3), NONE))
    return offsets, commits, max(NONE, offsets + secrets.randbelow(5) - 2)


@check("17.2")
def goes_on(lab, continue_stream):
    """Let the function repair a copy of the table; then call it again with nothing new to read."""
    source, own = lab.path(WITH_A_GAP), lab.path("orders")
    if not lab.files(source):
        raise Unreadable("Run the cell that deletes the checkpoint first.")
    gap = sum(_differences(lab, source))
    if not gap:
        raise Unreadable("The copy of the table has no gap. Run the lesson from its start.")
    path, checkpoint = scratch_copy(lab, source, "continued"), lab.scratch("checkpoint")
    known = read_receipts(lab, path, checkpoint).table
    earlier, others, lessons_own = _commits(lab, path), _checkpoints(lab), _commits(lab, own)
    before = completed_instants(lab, path)
    with own_streams_stopped(lab.spark, STREAM_TIMEOUT_S) as stopped, session_spared():
        continue_stream(path, checkpoint)
    made, picture = _checkpoints(lab) - others, lab.xray(path)
    batches = [batch for found in made for batch in read_checkpoint(lab.endpoints, found)]
    planned = {b.number: sum(b.end.values()) - sum(b.start.values()) for b in batches}
    for found in made - {checkpoint}:  # the lesson calls the function again
        store.delete_prefix(lab.endpoints, store.key_of(found) + "/")
    expect(
        not stopped.at_all,
        "Your stream was still at work when your function returned, or after {} seconds. Take the "
        "trigger that ends, and wait for the end with `awaitTermination()`.",
        STREAM_TIMEOUT_S,
    )
    expect(
        _commits(lab, own) == lessons_own,
        "Your function wrote into the lesson's table. Write to the path that it gets.",
    )
    missing, wrong = _differences(lab, path)
    left = f"{missing} orders are missing and {wrong} wrong"
    added = [picture.commit(name) for name in picture.completed_writes if name not in earlier]
    if missing or wrong:
        expect(
            added or made,
            "Nothing was written, and no stream was started with a new checkpoint: {}. The old "
            "checkpoint says that everything is read.",
            left,
        )
        expect(
            added or sum(planned.values()),
            "Nothing was read: {}. Your stream began at the end of the topic. Leave "
            "`startingOffsets` at `earliest`.",
            left,
        )
        other_name = any(set(commit.checkpoint or ()) - {IDENTIFIER} for commit in added)
        skipped = 0 if other_name else sum(n for b, n in planned.items() if b <= known)
        expect(
            not skipped,
            "Exit 0, and {}. Of the {:,} messages that your stream planned, {:,} were in batches "
            "up to {}. Under the identifier of the old stream they are skipped, because their "
            "number is not above {}. (Under another one, Hudi refused them.)",
            left,
            sum(planned.values()),
            skipped,
            known,
            known,
        )
        expect(missing, "Every order is there, and {} are doubled or old. Was it an upsert?", wrong)
    expect(
        not missing and not wrong,
        "Afterwards {}. Did your stream read the topic from its beginning?",
        left,
    )
    expect(
        checkpoint in made,
        "The copy agrees with the ledger, but at the path for the checkpoint there is none: the "
        "next call could not go on from here.",
    )
    plans = {file for file in lab.files(checkpoint) if "/offsets/" in file.key}
    with own_streams_stopped(lab.spark, STREAM_TIMEOUT_S), session_spared():
        continue_stream(path, checkpoint)
    expect(
        plans <= set(lab.files(checkpoint)) and not sum(_differences(lab, path)),
        "The first call repairs the copy. The second one began anew, instead of where the first "
        "one had ended.",
    )
    expect_history(lab, path, before)
    return (
        f"{gap} orders were missing or old; now the copy agrees with the ledger, and the next call "
        "goes on from there."
    )


def _differences(lab, path: str) -> Counts:
    """Count a table's missing orders and wrong ones, by comparing it with the ledger."""
    found = lab.ledger(lab.topic("orders")).reconcile_table(rows_of(path).to_pandas())
    return found.missing, found.stale + found.duplicate + found.ghost + found.altered


def _checkpoints(lab) -> set[str]:
    """Return the paths of all of the lesson's checkpoints."""
    keys = (file.key for file in lab.files(lab.base) if file.key.endswith(FIRST_OFFSETS))
    return {f"s3a://{lab.endpoints.bucket}/{key.removesuffix(f'/{FIRST_OFFSETS}')}" for key in keys}


@check("17.3")
def delivers_once(lab, deliver):
    """Send two batches through the sink, with crashes before, between and after its commits."""
    if not isinstance(deliver, FunctionType):
        raise Unreadable("A function `deliver(rows, batch, table)` is expected.")
    with chdir(lab.folder):  # a file of a relative name is found there, too
        return _delivers_once(lab, deliver)


def _delivers_once(lab, deliver: FunctionType) -> str:
    table = lab.scratch("delivered")
    first, second = _batch(lab, 0), _batch(lab, 1)
    sent, next_sent = (Counter(map(tuple, rows.collect())) for rows in (first, second))
    failing = F.raise_error(F.lit("power failure")).cast("string")
    with suppress(Exception):  # the process dies before it has written the rows
        new_process(deliver)(first.withColumn("message", failing), BATCH, table)
    before, earlier = _outside(lab, table), _commits(lab, table)
    new_process(deliver)(first, BATCH, table)
    written = _outside(lab, table) - before
    found = _messages(lab, table)
    own = store.key_of(table) + "/"
    expect(
        found or not any(name.startswith(own) and name.endswith(".parquet") for name in written),
        "Your function wrote files to `table`, and they are no table of Hudi.",
    )
    expect(
        found,
        "Crashed after the receipt: the batch is missing. Your receipt was there before the rows "
        "were, and the next process believed it.",
    )
    expect(
        len(found) >= len(sent),
        "{} messages were sent, and of {} the table has no row. Two messages may have the same "
        "text: `id` tells them apart.",
        len(sent),
        len(sent) - len(found),
    )
    expect(
        found == sent,
        "{} messages were sent, and the table has {} rows, or others. Write the rows as they come.",
        len(sent),
        found.total(),
    )
    _forget(lab, written)  # the process dies before it has written anything but the table
    added = [instant for name, instant in _commits(lab, table).items() if name not in earlier]
    if len(added) > 1:
        half = lab.scratch("delivered")
        copy_table(lab, table, half, hidden=sorted(added, key=lambda i: i.requested)[1:])
        new_process(deliver)(first, BATCH, half)
        expect(
            _messages(lab, half) == sent,
            "Your write makes two commits. Crashed between them: {} messages, {} rows. Put the "
            "receipt into the commit of the rows.",
            len(sent),
            _messages(lab, half).total(),
        )
    new_process(deliver)(first, BATCH, table)
    _expect_once(lab, table, sent, bool(written))
    before_second = completed_instants(lab, table)
    for _ in range(2):
        new_process(deliver)(second, BATCH + 1, table)
    found = _messages(lab, table)
    of_second = Counter({row: times for row, times in found.items() if row in next_sent})
    expect(
        of_second == next_sent,
        "The first batch is there once. The next one, of {} messages, came twice, and the table "
        "has {} rows of it.",
        len(next_sent),
        of_second.total(),
    )
    kept = found - next_sent
    expect(
        kept == sent,
        "The next batch is there, and of the {} messages before it only {} are left. Your write "
        "replaces what the table held.",
        len(sent),
        kept.total(),
    )
    expect_added(lab, table, before_second, writes=2, services={"clean"})
    return (
        f"{len(sent)} and {len(next_sent)} messages, each once: after a crash before the write, "
        "and after one between the commit and the return."
    )


def _expect_once(lab, table: str, sent: Counter, outside: bool) -> None:
    """Check that the table has each row of a redelivered batch exactly once.

    `outside` is True if the sink also wrote something outside the table.
    """
    found, noted = _messages(lab, table), receipts_in(lab, table, "_stream_batch")
    expect(found, "The batch came again, and afterwards none of its rows are left.")
    why = "Some of them are in the table twice."
    if outside:
        why = "Two places cannot be written in one step; put the receipt into the commit."
    elif not noted:
        why = (
            "No commit carries `_stream_batch`. A receipt in a variable is gone after the restart; "
            "one in the commit stays."
        )
    elif len(noted) > len(set(noted)):
        why = (
            "Both commits carry the receipt, and yet you wrote twice. `receipts_in` gives text "
            f"({noted}); `batch` is a number."
        )
    rows = f"{len(sent)} messages, {found.total()} rows"
    expect(found == sent, "The batch came again after a crash: {}. {}", rows, why)


def _batch(lab, number: int) -> DataFrame:
    """Return messages of two topic partitions with the same offsets; some have the same text."""
    count = 40 - 10 * number + secrets.randbelow(9)
    return lab.spark.range(0, count, 1, 1).selectExpr(
        f"concat_ws('-', 'payments', id % 2, {number * 1000} + id div 2) AS id",
        "int(id % 2) AS partition",
        f"{number * 1000} + id div 2 AS offset",
        "concat('message ', id % 30) AS message",
    )


def _messages(lab, table: str) -> Counter:
    """Count each message's rows in a table; empty if there is no table."""
    if not _commits(lab, table):
        return Counter()
    rows = rows_of(table)
    for name, kind in MESSAGE.items():
        found = str(rows.schema.field(name).type) if name in rows.column_names else "missing"
        expect(
            found == kind, "The column `{}` of your table is {}. Write all columns.", name, found
        )
    columns = [rows[name].to_pylist() for name in MESSAGE]
    return Counter(zip(*columns, strict=True))


def _commits(lab, table: str) -> dict[str, Instant]:
    """Return a table's completed writes by requested time; empty if there is no table."""
    return lab.xray(table).completed_writes if lab.files(f"{table}/.hoodie/timeline") else {}


def _outside(lab, table: str) -> set[str]:
    """Return the lesson's local files and object keys that are not part of the table."""
    own = store.key_of(table) + "/"
    listed = [*lab.files(lab.base), *store.list_objects(lab.endpoints, "warehouse/")]
    keys = {found.key for found in listed if not _is_part(found.key, own)}
    return keys | {str(path) for path in lab.folder.rglob("*") if path.is_file()}


def _is_part(key: str, own: str) -> bool:
    name = key.rpartition("/")[2]
    hudi = key.startswith(f"{own}.hoodie/") or name.startswith(".hoodie_partition_metadata")
    return key.startswith(own) and (hudi or parse_data_name(name) is not None)


def _forget(lab, written: set[str]) -> None:
    """Delete what a sink wrote outside the table, as if it had died before that."""
    for name in written:
        if name.startswith("/"):
            Path(name).unlink(missing_ok=True)
        else:
            store.delete(lab.endpoints, name)


def new_process(function: FunctionType) -> Callable:
    """Return a copy of a notebook's function, in the state that it would have in a new process.

    Also copies all collections and instances of the notebook's classes that the function and its
    callees use as variables, closures, defaults or attributes. So a call of the copy changes
    nothing that a later copy could see.
    """
    function = unwatched(function)
    names: dict = dict(function.__globals__)
    copies: dict[int, Any] = {}  # by the identity of the original

    def renewed(value: Any) -> Any:
        if id(value) in copies:
            return copies[id(value)]
        if isinstance(value, FunctionType) and value.__globals__ is function.__globals__:
            return renew(value)
        own = type(value).__module__ == function.__module__
        if own or isinstance(value, list | set | dict | deque):
            copies[id(value)] = value  # where it cannot be copied
            with suppress(Exception):
                copies[id(value)] = deepcopy(value)
            return copies[id(value)]
        return value

    def renew(found: FunctionType) -> FunctionType:
        cells = tuple(CellType() for _ in found.__closure__ or ())
        made = FunctionType(found.__code__, names, found.__name__, None, cells or None)
        copies[id(found)] = made
        for name in _names_of(found.__code__):
            if name in names:
                names[name] = renewed(names[name])
        for cell, old in zip(cells, found.__closure__ or (), strict=True):
            with suppress(ValueError):  # an empty cell
                cell.cell_contents = renewed(old.cell_contents)
        made.__defaults__ = deepcopy(found.__defaults__)
        made.__kwdefaults__ = deepcopy(found.__kwdefaults__)
        made.__dict__.update({name: renewed(value) for name, value in found.__dict__.items()})
        return made

    return renew(function)


def _names_of(code) -> list[str]:
    """Return the global names that a code object and its inner functions use."""
    inner = [
        name for part in code.co_consts if hasattr(part, "co_names") for name in _names_of(part)
    ]
    return [*code.co_names, *inner]


@check("17.4")
def counts_missing_messages(lab, missing_messages):
    """Call the function twice, with rows of three topic partitions with gaps and duplicates."""
    for _ in range(2):
        partitions = made_partitions(Random())
        rows = ((number, offset) for number, offsets in enumerate(partitions) for offset in offsets)
        values = ", ".join(f"({number}, {offset}L)" for number, offset in rows)
        frame = lab.spark.sql(f"SELECT * FROM VALUES {values} AS message(partition, offset)")
        said = as_int(missing_messages(frame))
        missing, doubled, before_first, _ = ways_of_counting(partitions)
        mistakes = {
            missing - doubled: f"{doubled} messages are there twice, and each of them hides one "
            "that is missing. Count different offsets.",
            missing + before_first: "A topic may begin later than at 0: count from the first row.",
            missing - len(partitions): "From 5 to 7 are three offsets, not two.",
        }
        why = mistakes.get(said, "Offsets are numbered per partition: look at each of them alone.")
        expect(said == missing, "You count {} missing messages. {}", said, why)
    return f"{missing} messages are missing, and {doubled} rows too many hide none of them."


def made_partitions(rng: Random) -> list[list[int]]:
    """Return offsets of three topic partitions, with gaps and duplicates.

    Every wrong way of counting gives a wrong number for them.
    """
    while True:
        partitions = []
        for _ in range(3):
            begin, gap = rng.randint(1, 30), rng.randint(3, 10)
            offsets = list(range(begin, begin + rng.randint(20, 39)))
            del offsets[gap : gap + rng.randint(1, 5)]
            partitions.append(offsets + offsets[: rng.randint(2, 5)])
        missing, doubled, before_first, mixed = ways_of_counting(partitions)
        if len({missing, missing - doubled, missing + before_first, missing - 3, mixed}) == 5:
            return partitions


def ways_of_counting(partitions: list[list[int]]) -> tuple[int, int, int, int]:
    """Return the number of missing offsets, and the figures behind wrong ways of counting.

    Returns:
        Missing offsets; duplicate rows; offsets below the first one of each topic partition; and
        missing offsets if all topic partitions are counted as one.
    """
    kept = [set(offsets) for offsets in partitions]
    missing = sum(max(found) - min(found) + 1 - len(found) for found in kept)
    rows = [offset for offsets in partitions for offset in offsets]
    doubled, mixed = len(rows) - sum(map(len, kept)), max(rows) - min(rows) + 1 - len(set(rows))
    return missing, doubled, sum(map(min, kept)), mixed


@check("17.5")
def who_misses_a_file(lab, count):
    """Call the function for an intact copy of a table, and for one without its base file.

    It is called for the second copy with and without the metadata table.
    """
    intact, lost, paid = _intact_and_lost(lab)
    whole, left = (RIGHT[0], paid), (RIGHT[1], paid)
    with _session_left_alone(lab):
        said = _two_counts(count(intact, True))
        expect(
            said == whole,
            "You say that the intact copy has {}. {}",
            _in_words(said),
            "Nothing is paid there: the log file was not read. A snapshot query merges it."
            if said == (whole[0], 0)
            else "First the orders, then those of them that are paid.",
        )
        listed = _counts_unless_lost(count, lost, True)
        expect(
            listed is None,
            "Without its base file the copy has {} orders left. With `metadata=True` you say {}, "
            "and there was no error. Did this read list the folders, or did your function catch "
            "the error?",
            left[0],
            listed and _in_words(listed),
        )
        found = _counts_unless_lost(count, lost, False)
        expect(
            found,
            "With `metadata=False` your read failed: the metadata table named the base file that "
            "is lost. Hudi reads that table unless the option of the read says no.",
        )
        expect(
            found == left,
            "Without its base file the copy has {} orders left. With `metadata=False` you say {}.",
            left[0],
            found and _in_words(found),
        )
    return (
        f"{_in_words(whole)} in the intact copy. Without its base file: an error with the metadata "
        f"table, and {_in_words(left)} without it, as if nothing were lost."
    )


def _intact_and_lost(lab) -> tuple[str, str, int]:
    """Copy the table `fragile` twice, the second time without its base file.

    Returns both paths and the number of paid orders in the copies, which is random.
    """
    source = lab.path("fragile")
    current = list(lab.xray(source).current) if lab.files(source) else []
    if [len(part.logs) for part in current] != [1]:
        raise Unreadable("Run the cell that writes the table `fragile` first, and only once.")
    base, (log,) = current[0].base, current[0].logs
    intact, unpaid = scratch_copy(lab, source, "intact"), 1 + secrets.randbelow(RIGHT[1] - 1)
    # Blocks of a log have no checksum, so other numbers need no other write.
    key = f"{store.key_of(intact)}/{log.key}"
    rows = store.read(lab.endpoints, key).replace(b"paid", b"void", unpaid)
    store.client(lab.endpoints).put_object(Bucket=lab.endpoints.bucket, Key=key, Body=rows)
    lost = scratch_copy(lab, intact, "lost")
    store.delete(lab.endpoints, f"{store.key_of(lost)}/{base.key}")
    return intact, lost, RIGHT[1] - unpaid


@contextmanager
def _session_left_alone(lab) -> Generator[None]:
    """Check that the body does not change the session's metadata setting; always restore it."""
    setting = lab.spark.conf
    before = setting.get(LIST_FILES, None)
    try:
        yield
        expect(
            setting.get(LIST_FILES, None) == before,
            "The numbers are right. But you set `{}` for the whole session, and the next query "
            "goes by it, too: give it to the reader.",
            LIST_FILES,
        )
    finally:
        if before is None:
            setting.unset(LIST_FILES)
        else:
            setting.set(LIST_FILES, before)


def _counts_unless_lost(count, address: str, metadata: bool) -> Counts | None:
    """Return the function's counts for a table; None if it fails with a missing file."""
    try:
        said = count(address, metadata)
    except Exception as error:  # Spark's own exception comes through Py4J
        if "FileNotFoundException" not in str(error):
            raise
        return None
    return _two_counts(said)


def _two_counts(answer) -> Counts:
    said: list = []
    with suppress(Unreadable):  # its message names a list, or one column of a table
        said = as_list(answer)
    if len(said) != 2 or isinstance(answer, Mapping):
        raise Unreadable(
            "Two numbers are expected, as a tuple, a list or a row: the orders, and the paid ones "
            "among them."
        )
    return as_int(said[0]), as_int(said[1])


def _in_words(counts: Counts) -> str:
    return f"{counts[0]} orders, {counts[1]} paid"
