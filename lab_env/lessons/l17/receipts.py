"""Reads the five receipts (files or metadata) that stream and table store for each batch.

Spark is not needed, so receipts can be read while a writer is frozen or dead.
"""

from dataclasses import dataclass
from functools import lru_cache

from lab_env.course.answers import Unreadable, as_choice, as_int, as_list, kind_of
from lab_env.platform import store
from lab_env.tables.hudi.commits import decode_commit, read_avro
from lab_env.tables.hudi.timeline import parse_data_name, parse_timeline_key

NONE = -1  # no batch
IDENTIFIER = "default_single_writer"  # under which the streaming sink stores its batch by default


@dataclass(frozen=True)
class Receipts:
    """The receipts of a checkpoint's newest planned batch; missing batch numbers are `NONE`."""

    offsets: int  # newest batch in `offsets`
    commits: int  # newest batch in `commits`
    table: int  # newest batch in a completed commit of the table, under the stream's identifier
    instant: str  # requested time of the table's newest write; empty without one
    completed: bool  # whether that write is complete
    markers: int  # marker files below `.hoodie/.temp`
    data: int  # base files of that write


def read_receipts(lab, table: str, checkpoint: str) -> Receipts:
    """Read the receipts that are in the store now; table and checkpoint need not exist yet."""
    planned, done = (_numbers(lab, f"{checkpoint}/{part}") for part in ("offsets", "commits"))
    keys = [found.key for found in lab.files(table)]
    instants = [
        (instant, key)
        for key in keys
        if (instant := parse_timeline_key(key)) is not None and instant.writes
    ]
    complete = {instant.requested: (instant, key) for instant, key in instants if instant.completed}
    newest = max((instant.requested for instant, _ in instants), default="")
    names = (key.rpartition("/")[2] for key in keys if "/.hoodie/" not in key)
    parsed = (parse_data_name(name) for name in names)
    return Receipts(
        offsets=max(planned, default=NONE),
        commits=max(done, default=NONE),
        table=_newest_batch(lab, complete),
        instant=newest,
        completed=newest in complete,
        markers=sum("/.hoodie/.temp/" in key for key in keys),
        data=sum(name is not None and name.instant == newest for name in parsed),
    )


def receipts_in(lab, table: str, name: str) -> list[str]:
    """Return the values of a key in the extra metadata of completed commits, oldest first.

    Commits without the key, for example compactions and clusterings, are omitted. The table need
    not exist yet.
    """
    if not lab.files(f"{table}/.hoodie/timeline"):
        return []
    picture = lab.xray(table)
    commits = (picture.commit(requested) for requested in sorted(picture.completed_writes))
    return [commit.extra[name] for commit in commits if name in commit.extra]


def as_restart(answer) -> tuple[int, str, str]:
    """Convert an answer to 17.1 to batch number, `again` or `new`, and `write` or `skip`.

    Raises `Unreadable` for any other answer.
    """
    three = as_list(answer) if answer is not None else []
    if len(three) != 3:
        raise Unreadable(
            'Three things are expected: the batch, "again" or "new", "write" or "skip". Your '
            f"function returned {kind_of(answer)}."
        )
    batch, messages, does = three
    return (
        as_int(batch), as_choice(messages, ("again", "new")), as_choice(does, ("write", "skip"))
    )  # fmt: skip


def _numbers(lab, folder: str) -> list[int]:
    names = (found.key.rpartition("/")[2] for found in lab.files(folder))
    return [int(name) for name in names if name.isdigit()]


def _newest_batch(lab, complete: dict) -> int:
    """Return the batch stored in the newest commit that has one, as Hudi does."""
    for requested in sorted(complete, reverse=True):
        instant, key = complete[requested]
        batches = _batches(lab.endpoints, key, instant)
        if IDENTIFIER in batches:
            return int(batches[IDENTIFIER])
    return NONE


@lru_cache(maxsize=256)
def _batches(endpoints, key: str, instant) -> dict[str, str]:
    """Return a completed commit's batch by writer identifier; cached, because it never changes."""
    commit = decode_commit(read_avro(store.read(endpoints, key)), instant)
    return commit.checkpoint or {}
