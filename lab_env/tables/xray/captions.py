"""Descriptions of the X-ray's parts, for its text form and its hover texts."""

import pandas as pd

from lab_env.platform.display.units import duration_text, size_text
from lab_env.tables.hudi.table import CleanedFile, DataFile, FileSlice, Instant, Snapshot
from lab_env.tables.hudi.timeline import seconds_between

SHORT = {"base": "base file", "log": "log", "cdc": "cdc log"}
MOST = 200  # maximum number of instants in one hover text


def clock(instant: str) -> str:
    """Return the time of day of an instant time: `09:15:00.705` for `20261120091500705`."""
    time = f"{instant[8:10]}:{instant[10:12]}:{instant[12:14]}"
    return f"{time}.{instant[14:17]}" if len(instant) >= 17 else time


def date(instant: str) -> str:
    """Return the date of an instant time: `2026-11-20`."""
    return f"{instant[:4]}-{instant[4:6]}-{instant[6:8]}"


def instant(table: Snapshot, which: Instant) -> str:
    """Describe an instant: action, state, both times, and its `effect` if it has one."""
    if which.completed:
        took = duration_text(seconds_between(which.requested, which.completed))
        words = f"requested {which.requested}  completed {which.completed} ({took} later)"
    else:
        words = f"requested {which.requested}  {which.state}, not complete"
    if which.requested in table.writers:
        words += f", by {table.writers[which.requested]}"
    did = effect(table, which)
    return f"{which.action}: {words}{f'; {did}' if did else ''}"


def earlier(table: Snapshot, count: int) -> str:
    """Describe the instants that share the drawing's first column."""
    first = [instant(table, which) for which in table.instants[:count]]
    archived = [f"archived {instant(table, which)}" for which in table.history]
    names = [*archived, *first]
    if not names:
        return "files of instants that are no longer on the timeline"
    more = [f"and {len(names) - MOST} more"] if len(names) > MOST else []
    return "\n".join([*names[:MOST], *more])


def file(table: Snapshot, which: DataFile) -> str:
    """Describe a file with its full name."""
    rows = ""
    if which.rows is not None:
        rows = f", {counted(which.rows, 'change' if which.kind == 'log' else 'row')}"
    mark = f" · {change(table, which)} since {table.compared_with}"
    new = mark if which in table.new_files else ""
    state = "" if which.committed else " · not committed, no reader sees it"
    damage = f" · damaged: {table.damage[which.key]}" if which.key in table.damage else ""
    about = f"{which.size:,} bytes{rows}, of the instant {which.instant}"
    return f"{which.name}: {about}{state}{new}{damage}"


def change(table: Snapshot, which: DataFile) -> str:
    """Return `rewritten` for a new base file whose file group already had one, else `new`."""
    return "rewritten" if which in table.rewritten_files else "new"


def removed(table: Snapshot, which: DataFile) -> str:
    """Describe a file of the earlier snapshot that no longer exists."""
    return f"{which.name}: {which.size:,} bytes, removed since {table.compared_with}"


def cleaned(which: CleanedFile) -> str:
    """Describe a file that a clean deleted."""
    return f"{which.name}: deleted by the clean {which.cleaned}"


def state(table: Snapshot, part: FileSlice) -> str:
    """Describe a slice's state: whether readers use it, and its pending actions."""
    replaced = dict(table.replaced).get(part.group)
    words = "current" if part.current else "older"
    if replaced:
        words = f"replaced at {replaced}"
    elif part.planned:
        words = f"started by the pending compaction {part.instant}"
    plans = [(at, action) for group, at, action in table.planned if group == part.group]
    if plans and part.current and not part.planned:
        words += "".join(f", {action} {at} pending" for at, action in plans)
    return words


def slice_of(table: Snapshot, part: FileSlice, indent: int = 0) -> str:
    """Describe a file slice: its group's full id and its state, then one line per file."""
    files = [file(table, which) for which in part.files] or ["no file yet"]
    head = f"file group {part.group}, slice {part.instant} ({state(table, part)})"
    return "\n".join([head, *(" " * indent + line for line in files)])


def rows(count: int) -> str:
    """Abbreviate a number: `950`, `1,234`, `12.3k`, `4.0M`."""
    if count >= 1e6:
        return f"{count / 1e6:.1f}M"
    return f"{count / 1e3:.1f}k" if count >= 1e4 else f"{count:,}"


def content(table: Snapshot, partition: str, group: str) -> str:
    """Describe a file group's rows and changes, or why readers skip it."""
    replaced = dict(table.replaced).get(group)
    if replaced:
        return f"replaced {clock(replaced)[:8]}"
    now = [
        f for s in table.current if (s.partition, s.group) == (partition, group) for f in s.files
    ]
    if not now:
        here = any((f.partition, f.group) == (partition, group) for f in table.files)
        return "not read" if here else "removed"
    if any(f.rows is None for f in now if f.kind != "cdc"):
        return ""
    base = [f.rows or 0 for f in now if f.kind == "base"]
    logs = [f.rows or 0 for f in now if f.kind == "log"]
    parts = [plural(sum(base), "row")] if base else []
    parts += [plural(sum(logs), "change")] if logs else []
    planned = any(found == group and action == "clustering" for found, _, action in table.planned)
    return " + ".join(parts) + (" · in a planned clustering" if planned else "")


def plural(count: int, word: str) -> str:
    """Return an abbreviated number with its noun."""
    return f"{rows(count)} {word}{'' if count == 1 else 's'}"


def counted(count: int, word: str) -> str:
    """Return an exact number with its noun."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def totals(table: Snapshot) -> str:
    """Describe the number of data files, their bytes, and the rows if known."""
    bytes_ = size_text(sum(f.size for f in table.files))
    words = f"{plural(len(table.files), 'data file')} · {bytes_}"
    return words if table.rows is None else f"{plural(table.rows, 'row')} · {words}"


def parts(counts: pd.DataFrame) -> list[str]:
    """Describe each row of `Snapshot.parts` or `metadata_partitions`: its objects and bytes."""
    return [f"{row.Index} {row.objects} ({size_text(row.bytes)})" for row in counts.itertuples()]


def short_group(group: str) -> str:
    """Shorten a file group's id to its first 8 characters and those after its last `-`."""
    if len(group) <= 12:
        return group
    return f"{group[:8]}…{group.rpartition('-')[2]}" if "-" in group else f"{group[:8]}…"


def effect(table: Snapshot, which: Instant) -> str:
    """Describe the effect of a clean, rollback, savepoint or restore; empty for other instants."""
    record = table.records.get((which.action, which.requested), {})
    if which.action == "clean":
        deleted = sum(file.cleaned == which.requested for file in table.cleaned)
        return f"{counted(deleted, 'file')} deleted"
    if which.action == "rollback" and record.get("commitsRollback"):
        return f"rolled back {', '.join(record['commitsRollback'])}"
    if which.action == "restore" and "instantsToRollback" in record:
        undone = sorted(record["instantsToRollback"])
        return f"undid {counted(len(undone), 'instant')}{': ' if undone else ''}{', '.join(undone)}"
    if which.action == "savepoint" and record.get("partitionMetadata"):
        kept = record["partitionMetadata"].values()
        return f"keeps {counted(sum(len(part['savepointDataFile']) for part in kept), 'data file')}"
    return ""
