"""Copies a group's tables and checkpoints, damages the copies, and checks what readers return."""

import contextlib
import io
import time
from collections.abc import Callable
from functools import partial
from itertools import product

import pandas as pd
import pyarrow.parquet as pq

from lab_env.lab.faults.freeze import frozen
from lab_env.lessons.recorded.campaign_plan import SINKS, Case
from lab_env.pipeline.guard import read_state, table_receipt, what_differs
from lab_env.pipeline.handle import Writer
from lab_env.pipeline.sinks import checkpoint_path, table_path
from lab_env.platform import services, store
from lab_env.platform.errors import LabError
from lab_env.platform.processes import supervisor
from lab_env.platform.settings import Endpoints
from lab_env.tables.hudi.intact import damaged_files
from lab_env.tables.hudi.table import DataFile
from lab_env.tables.hudi_rs import KEYS, read_rows
from lab_env.tables.xray import StoredTable, xray
from lab_env.workbench.campaign.group import RECOVERY_SECONDS, Group, Stuck
from lab_env.workbench.campaign.judge import Judgement, judge_rows, judge_table

CUT_BYTES = 40
OLDER_BATCHES = 2  # missing from an older copy of a checkpoint
LOG_WAITS = 8


class Clone:
    """A copy of a group's tables and checkpoints with its own writer, on the same topic.

    The group's writer must not run while they are copied.
    """

    def __init__(self, group: Group, case: Case):
        self.group = group
        self.base = f"{group.base}/clones/{case.id}"
        self.writer = Writer(f"{group.writer.name}-{case.id}")
        for folder in (table_path, checkpoint_path):
            for sink in SINKS:
                source, target = (store.key_of(folder(b, sink)) for b in (group.base, self.base))
                store.copy_prefix(group.endpoints, f"{source}/", f"{target}/")

    def newest_offsets(self, sink: str) -> str:
        """Return the object key of a sink's newest planned batch."""
        path = checkpoint_path(self.base, sink)
        newest = read_state(self.group.endpoints, path).planned
        return f"{store.key_of(path)}/offsets/{newest}"

    def delete(self, key: str) -> str:
        """Delete an object, and its checksum file if there is one; return the key."""
        store.delete(self.group.endpoints, key)
        return key

    def run(self, **options) -> str:
        """Run a writer on the copy until it has caught up; return the error that ended it.

        Raises:
            Stuck: the writer neither caught up nor failed in time.
        """
        group, ends = self.group, self.group.ends()
        deadline = time.monotonic() + RECOVERY_SECONDS
        try:
            self.writer.start(group.endpoints, group.topic, self.base, **group.job(), **options)
            while (state := self.writer.state())["state"] in ("starting", "running"):
                with contextlib.suppress(LabError):  # the checkpoint may be unreadable: damaged
                    if not any(self.writer.lag(group.endpoints, ends).values()):
                        return ""
                if time.monotonic() > deadline:
                    raise Stuck(f"the writer on the copy has not caught up: {state}")
                time.sleep(1)
            return str(state.get("error") or f"{state['state']} without a reason")
        finally:
            group.count(self.writer.processes())
            self.writer.stop()
            supervisor.remove(self.writer.name)

    def judge(self) -> list[Judgement]:
        """Compare the copy's tables with everything sent.

        Tables that cannot be read are left out, because a read error is not a silent loss.
        """
        judged = []
        for sink in SINKS:
            try:
                rows = read_rows(self.group.endpoints, table_path(self.base, sink))
            except Exception:
                continue
            judged.append(judge_rows(self.group.feeder.ledger.frame(), rows, sink))
        return judged

    def wrong_up_to_its_batch(self) -> bool:
        """Return True if a readable table lacks events up to its newest batch or has wrong rows."""
        group, wrong = self.group, False
        for sink in SINKS:
            with contextlib.suppress(Exception):  # an error, so not silent
                judged = judge_table(group.endpoints, self.base, sink, group.feeder.ledger)
                wrong |= not judged.ok
        return wrong


def damaged_table(group: Group, case: Case) -> tuple[str, str]:
    """Damage a copy of a table; return its path, and the damaged file's key relative to it."""
    source = table_path(group.base, case.sink)
    for _ in range(LOG_WAITS):
        with frozen(group.jvm().pid):
            target = f"{group.base}/damaged/{case.id}/{source.rpartition('/')[2]}"
            prefix = f"{store.key_of(target)}/"
            store.delete_prefix(group.endpoints, prefix)
            store.copy_prefix(group.endpoints, f"{store.key_of(source)}/", prefix)
        key = _file_to_damage(group, case, target)
        if key:
            break
        group.feeder.send(100)  # the newest slices have no log: they have just been compacted
        group.recover()
    else:
        raise RuntimeError(f"{source} has no file to damage")
    FILE_DAMAGE[case.fault](group.endpoints, f"{prefix}{key}")
    return target, key


def read_damaged(group: Group, table: str, sink: str) -> dict[str, str]:
    """Read a damaged table with hudi-rs and the project's checks.

    Returns:
        `right`, `wrong: ...` or `error: ...` by reader; `found: ...` or `nothing found` by check.
    """
    told = {"hudi-rs": verdict_of(group, lambda: read_rows(group.endpoints, table), sink)}
    try:
        damage = damaged_files(StoredTable(group.endpoints, table))
        told["check of the files"] = f"found: {damage[0]}" if damage else "nothing found"
    except Exception as error:
        told["check of the files"] = f"found: {error}"
    path = checkpoint_path(group.base, sink)
    receipt = None
    with contextlib.suppress(Exception):  # its newest commit is unreadable
        receipt = table_receipt(group.endpoints, table)
    differs = what_differs(read_state(group.endpoints, path), receipt, table, path)
    told["check of the stream"] = f"found: {differs}" if differs else "nothing found"
    return told


def verdict_of(group: Group, read: Callable[[], pd.DataFrame], sink: str) -> str:
    """Compare the rows that a reader returns with everything sent; return the verdict as text."""
    try:
        rows = read()
    except Exception as error:
        return f"error: {why(error)}"
    judged = judge_rows(group.feeder.ledger.frame(), rows[list(KEYS)], sink)
    counts = ", ".join(f"{n} {name}" for name, n in judged.wrong.items())
    return "right" if judged.ok else f"wrong: {counts}"


def why(error: Exception) -> str:
    """Shorten an error to one line; for a Java stack trace, use its last cause."""
    lines = str(error).splitlines() or [""]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return (causes[-1] if causes else f"{type(error).__name__}: {lines[0]}")[:300]


def older_checkpoint(clone: Clone, case: Case) -> str:
    """Delete the newest batches of a copied checkpoint, as if an old backup had been restored."""
    path = checkpoint_path(clone.base, case.sink)
    newest = read_state(clone.group.endpoints, path).planned
    for number in range(newest - OLDER_BATCHES + 1, newest + 1):
        for folder in ("offsets", "commits"):
            clone.delete(f"{store.key_of(path)}/{folder}/{number}")
    return f"{store.key_of(path)} without its last {OLDER_BATCHES} batches"


def cut(endpoints: Endpoints, key: str, keep: int) -> str:
    """Truncate an object to its first `keep` bytes, or by as many if negative; return the key."""
    _put(endpoints, key, store.read(endpoints, key)[:keep])
    return key


def _put(endpoints: Endpoints, key: str, content: bytes) -> None:
    store.client(endpoints).put_object(Bucket=endpoints.bucket, Key=key, Body=content)


def _halve(endpoints: Endpoints, key: str) -> None:
    cut(endpoints, key, len(store.read(endpoints, key)) // 2)


def _change_page(endpoints: Endpoints, key: str) -> None:
    """Flip a bit of a base file after which a row has another value, without an error."""

    def values(of: bytes) -> list[tuple]:
        with contextlib.suppress(OSError, ValueError):
            read = pq.read_table(io.BytesIO(of), columns=list(KEYS)).to_pydict()
            return list(zip(*read.values(), strict=True))
        return []

    content = store.read(endpoints, key)
    right, group = values(content), pq.ParquetFile(io.BytesIO(content)).metadata.row_group(0)
    for column in map(group.column, range(group.num_columns)):
        if column.path_in_schema in KEYS:
            end = column.data_page_offset + column.total_compressed_size
            for place, bit in product(reversed(range(column.data_page_offset, end)), range(8)):
                found = values(flipped := _flipped(content, place, bit))
                if len(found) == len(right) and found != right:
                    _put(endpoints, key, flipped)
                    return
    raise RuntimeError(f"No bit of {key} changes a value")


def _rot(endpoints: Endpoints, key: str) -> None:
    """Flip a bit of an object on the disk of the lab's own store."""
    folder = services.service("minio").folder / "data" / endpoints.bucket / key
    parts = [path for path in folder.rglob("*") if path.is_file()]
    largest = max(parts, key=lambda path: path.stat().st_size)
    content = largest.read_bytes()
    largest.write_bytes(_flipped(content, len(content) // 2))


def _answer_older(endpoints: Endpoints, key: str) -> None:
    """Replace a base file by the version before it, as a store could return it."""

    def instant(of: str) -> str:
        return of.rpartition("_")[2]

    folder, _, name = key.rpartition("/")
    group = f"{folder}/{name.partition('_')[0]}_"
    versions = [entry.key for entry in store.list_objects(endpoints, group)]
    before = max((of for of in versions if instant(of) < instant(key)), key=instant)
    _put(endpoints, key, store.read(endpoints, before))


def _flipped(content: bytes, place: int, bit: int = 0) -> bytes:
    return content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :]


FILE_DAMAGE: dict[str, Callable[[Endpoints, str], object]] = {
    **dict.fromkeys(("log_cut", "footer_cut"), partial(cut, keep=-CUT_BYTES)),
    "instant_cut": _halve,
    "instant_gone": store.delete,
    "page_changed": _change_page,
    "store_rotten": _rot,
    "older_answer": _answer_older,
}


def _file_to_damage(group: Group, case: Case, table: str) -> str:
    """Return the key of the file to damage, relative to the table; empty if there is none."""
    picture = xray(group.endpoints, table)
    if case.fault in ("instant_cut", "instant_gone"):
        newest = max(picture.completed_writes.values(), key=lambda write: write.completed)
        receipt = table_receipt(group.endpoints, table)
        if receipt and receipt.instant in picture.completed_writes:
            newest = picture.completed_writes[receipt.instant]
        return f".hoodie/timeline/{newest.requested}_{newest.completed}.{newest.action}"
    kind = "log" if case.fault == "log_cut" else "base"
    files: list[DataFile] = [f for part in picture.current for f in part.files if f.kind == kind]
    return max(files, key=lambda file: (file.instant, file.size)).key if files else ""
