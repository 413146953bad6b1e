"""Check before a stream starts that its checkpoint and its Hudi table belong together.

Hudi stores the number of each batch in the table's commits, under the identifier of the stream, and
skips a batch whose number is not above the newest one. If the checkpoint was deleted or replaced,
Spark restarts batch numbering at 0, and the sink skips new events without an error. If the table
was deleted or restored, the stream continues after events that the table no longer has.

A stream that creates its table uses its checkpoint's id as its identifier. So each commit names its
checkpoint, and batches of another checkpoint are never mistaken for batches of this one.
"""

import json
import re
import secrets
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain
from zoneinfo import ZoneInfo

from lab_env.pipeline import options
from lab_env.pipeline.checkpoint import batch_numbers, files_in
from lab_env.platform import store
from lab_env.platform.errors import LabError
from lab_env.platform.settings import Endpoints
from lab_env.tables.hudi.commits import Commit, decode_commit, read_avro
from lab_env.tables.hudi.history import archived_instants, is_manifest, valid_files
from lab_env.tables.hudi.intact import damaged_metadata
from lab_env.tables.hudi.timeline import parse_timeline_key, to_datetime
from lab_env.tables.xray import StoredTable

IDENTIFIER = "hoodie.datasource.write.streaming.checkpoint.identifier"
DEFAULT_IDENTIFIER = "default_single_writer"  # of a stream without another
NONE = -1  # no batch
REPLAY = "LAB_REPLAY_STREAM=true"
ERASED_RETURN = (
    "An erased order then comes back until its erasure is read again, and for good if the topic no "
    "longer has that."
)
CLOCK_SKEW = timedelta(seconds=10)  # between two machines with synchronised clocks


class Refused(LabError):
    """The stream must not start, because rows would be lost without an error."""


@dataclass(frozen=True)
class Receipt:
    """Stream, batch and buckets recorded in a table's newest streaming commit.

    `instant` is the commit's requested time. A writer with a different number of buckets per table
    partition would look for rows in the wrong file groups, and Hudi would not notice
    (apache/hudi#13241).
    """

    identifier: str
    batch: int
    instant: str
    buckets: int = options.DEFAULT_BUCKETS

    @property
    def family(self) -> str:
        """Id of the checkpoint whose stream wrote it: the identifier minus any replay suffix."""
        return self.identifier.partition(".")[0]


@dataclass(frozen=True)
class Checkpoint:
    """Id of a checkpoint (empty if there is none), and its newest planned and committed batch."""

    id: str = ""
    planned: int = NONE
    done: int = NONE


def table_receipt(endpoints: Endpoints, table: str, stream: str = "") -> Receipt | None:
    """Newest receipt in a table's complete commits; None if no table or streaming commit exists.

    A receipt of the checkpoint with the id `stream` is preferred; see `newest_receipt`.
    """
    return newest_receipt((receipts_in(one) for one in _writes(endpoints, table)), stream)


def receipts_in(commit: Commit) -> list[Receipt]:
    """Receipts in a commit; a compaction or a batch write has none."""
    buckets = int(commit.extra.get(options.BUCKETS_NOTE, options.DEFAULT_BUCKETS))
    batches = (commit.checkpoint or {}).items()
    return [Receipt(name, int(batch), commit.requested, buckets) for name, batch in batches]


def newest_receipt(commits: Iterable[list[Receipt]], stream: str) -> Receipt | None:
    """Newest receipt of a stream; else the newest of Hudi's default stream, else of any other.

    The receipt need not be in the newest commit: other jobs may have written the table since.

    Args:
        commits: receipts of each commit, newest commit first; read only as far as needed.
        stream: id of the stream's checkpoint; empty for any stream.
    """
    nameless = other = None
    for receipt in chain.from_iterable(commits):
        if not stream or receipt.family == stream:
            return receipt
        if receipt.family == DEFAULT_IDENTIFIER:
            nameless = nameless or receipt
        else:
            other = other or receipt
    return nameless or other


def _writes(endpoints: Endpoints, table: str) -> Iterator[Commit]:
    prefix = store.key_of(table).rstrip("/") + "/"
    keys = [
        entry.key.removeprefix(prefix)
        for entry in store.list_objects(endpoints, f"{prefix}.hoodie/timeline/")
    ]
    found = [(instant, key) for key in keys if (instant := parse_timeline_key(key))]
    for instant, key in sorted(found, key=lambda pair: pair[0].requested, reverse=True):
        if instant.completed and instant.writes:
            yield decode_commit(read_avro(store.read(endpoints, prefix + key)), instant)
    history = {key: store.read(endpoints, prefix + key) for key in keys if is_manifest(key)}
    # A file's name begins with its oldest and its newest instant.
    for key in sorted(valid_files(history), key=lambda key: key.split("_")[1:], reverse=True):
        content = {key: store.read(endpoints, prefix + key)}
        for instant, record in reversed(archived_instants(history | content)):
            if instant.writes:
                yield decode_commit(record, instant)


def read_state(endpoints: Endpoints, path: str) -> Checkpoint:
    """Read a checkpoint; all fields are empty if there is none."""
    names, read = files_in(endpoints, path)
    query = json.loads(read("metadata")) if "metadata" in names else {}
    planned, done = (
        max(batch_numbers(names, folder), default=NONE) for folder in ("offsets", "commits")
    )
    return Checkpoint(query.get("id", ""), planned, done)


def claim_table(
    endpoints: Endpoints, table: str, path: str, cores: int, replay: bool = False
) -> dict[str, str]:
    """Check that a checkpoint belongs to its table, and choose the stream's identifier.

    If the stream has no checkpoint yet, create its file with the query's id, which Spark keeps.

    Args:
        cores: number of cores of all executors. A new table gets one bucket per core, at least two;
        an existing one keeps its number.
        replay: if the checkpoint does not belong to the table, let the stream write everything it
        reads, under a new identifier.

    Returns:
        Options of the sink: the stream's identifier, and the table's number of buckets.

    Raises:
        Refused: the checkpoint does not belong to the table, or its metadata table is damaged.
    """
    _check_metadata(endpoints, table)
    known = read_state(endpoints, path)
    state = known if known.id else replace(known, id=str(uuid.uuid4()))
    receipt = table_receipt(endpoints, table, known.id)
    identifier = identify(state, receipt, table, path, replay)
    if not known.id:
        _write_id(endpoints, path, state.id)
    number = receipt.buckets if receipt else max(options.DEFAULT_BUCKETS, cores)
    return options.buckets(number) | {IDENTIFIER: identifier}


def identify(
    state: Checkpoint, receipt: Receipt | None, table: str, path: str, replay: bool
) -> str:
    """Return the identifier under which a stream must write; a replay gets a new one.

    Raises:
        Refused: the checkpoint does not belong to the table.
    """
    problem = what_differs(state, receipt, table, path)
    if not problem:
        return receipt.identifier if receipt else state.id
    behind = receipt is not None and receipt.batch >= state.done
    if replay and behind:
        return f"{state.id}.{secrets.token_hex(3)}"
    again = f"set {REPLAY} for one start to read the topic again under a new name. {ERASED_RETURN}"
    if behind:
        raise Refused(problem, f"put the right checkpoint back, or {again}")
    raise Refused(problem, f"put the right table back, or delete {path} and {again}")


def what_differs(state: Checkpoint, receipt: Receipt | None, table: str, path: str) -> str:
    """Explain why a checkpoint does not belong to a table; empty if it does."""
    if receipt is None:
        if state.done == NONE:
            return ""
        return (
            f"The checkpoint {path} says that batches 0 to {state.done} are done, but the table "
            f"{table} has none of them. It was deleted, or is another one: the rows of these "
            "batches would stay missing."
        )
    known = f"The table {table} has batch {receipt.batch} of its stream"
    if state.planned == NONE:
        return (
            f"{known}, but there is no checkpoint in {path}. It was deleted: Hudi would skip each "
            f"new batch up to number {receipt.batch} without an error."
        )
    if receipt.family not in (DEFAULT_IDENTIFIER, state.id):
        return (
            f"{known} by the checkpoint {receipt.family}, but the one in {path} is {state.id}. It "
            "was replaced: events between the two would be missing."
        )
    if receipt.batch > state.planned:
        return (
            f"{known}, but the checkpoint {path} ends at batch {state.planned}. It is an older "
            f"copy: Hudi would skip each new batch up to number {receipt.batch} without an error."
        )
    if receipt.batch < state.done:
        return (
            f"The checkpoint {path} says that batch {state.done} is done, but the newest in the "
            f"table {table} is {receipt.batch}. The table was restored or lost commits: the rows "
            "of the batches between would stay missing."
        )
    return ""


def drop_unmade(endpoints: Endpoints, table: str) -> None:
    """Delete the remains of a table whose writer was killed while creating it.

    Hudi creates the folders of `.hoodie`, then the file with the table's properties, then the first
    instant. If only the folders exist, no stream into the table can start (1.1.1). Hudi Streamer
    recreates such a table (apache/hudi#6862), but a stream's sink does not. Call this only if no
    other job writes the table, or it may delete the folders of a table that is being created.
    """
    prefix = store.key_of(table).rstrip("/") + "/"
    if not any(store.list_objects(endpoints, prefix)):  # list_objects skips folder markers
        store.delete_prefix(endpoints, f"{prefix}.hoodie/", markers_only=True)


def _check_metadata(endpoints: Endpoints, table: str) -> None:
    if damage := damaged_metadata(StoredTable(endpoints, table)):
        raise Refused(
            f"The metadata table of {table} is damaged: {damage[0]}. A reader may overlook files, "
            "and lose their rows without an error.",
            "put the right file back, from a copy or an earlier version.",
        )


def check_clock(endpoints: Endpoints, table: str, java_options: str) -> None:
    """Refuse a clock that is behind the newest instant of a table.

    Hudi orders the versions of a file by instants, which it takes from the JVM's clock and time
    zone. If the clock was set back, or the time zone was changed, new versions look old. If
    `java_options` set the time zone twice, the last one counts.
    """
    zones = re.findall(r"-Duser\.timezone=(\S+)", java_options)
    now = datetime.now(ZoneInfo(zones[-1] if zones else "UTC"))
    folder = store.key_of(table).rstrip("/") + "/.hoodie/timeline/"
    instants = (parse_timeline_key(entry.key) for entry in store.list_objects(endpoints, folder))
    newest = max((i.requested for i in instants if i and i.completed), default="")
    if newest and to_datetime(newest).replace(tzinfo=None) > now.replace(tzinfo=None) + CLOCK_SKEW:
        raise Refused(
            f"The clock of this writer shows {now:%Y-%m-%d %H:%M:%S} ({now.tzname()}), but the "
            f"table {table} has an instant of {to_datetime(newest):%Y-%m-%d %H:%M:%S}: new rows "
            "would look older, and be missing without an error.",
            "set the clock right, or -Duser.timezone to the one that wrote the table.",
        )


def _write_id(endpoints: Endpoints, path: str, identifier: str) -> None:
    key = store.key_of(path).rstrip("/") + "/metadata"
    body = json.dumps({"id": identifier}, separators=(",", ":")).encode()
    store.client(endpoints).put_object(Bucket=endpoints.bucket, Key=key, Body=body)
