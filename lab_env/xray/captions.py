"""What the X-ray says of its parts, in words: for the text form and under the pointer."""

from lab_env.display.text import duration_text, size_text
from lab_env.hudi.model import CleanedFile, DataFile, FileSlice, Instant, Snapshot
from lab_env.hudi.timeline import seconds_between

SHORT = {"base": "parquet", "log": "log", "cdc": "cdc log"}
MOST = 200  # names under one pointer


def clock(instant: str) -> str:
    """The time of day of an instant time: `09:15:00.705` for `20261120091500705`."""
    time = f"{instant[8:10]}:{instant[10:12]}:{instant[12:14]}"
    return f"{time}.{instant[14:17]}" if len(instant) >= 17 else time


def date(instant: str) -> str:
    """The date of an instant time: `2026-11-20`."""
    return f"{instant[:4]}-{instant[4:6]}-{instant[6:8]}"


def instant(table: Snapshot, told: Instant) -> str:
    """One instant: action, state, both times, and what a clean, rollback, savepoint or restore did."""
    if told.completed:
        took = duration_text(seconds_between(told.requested, told.completed))
        words = f"requested {told.requested}  completed {told.completed} ({took} later)"
    else:
        words = f"requested {told.requested}  {told.state}, not complete"
    more = _did(table, told)
    return f"{told.action}: {words}{f'; {more}' if more else ''}"


def earlier(table: Snapshot, count: int) -> str:
    """The instants without a column of their own."""
    first = [instant(table, told) for told in table.instants[:count]]
    archived = [f"archived {instant(table, told)}" for told in table.history]
    names = [*archived, *first]
    if not names:
        return "files of instants that the timeline no longer tells"
    more = [f"and {len(names) - MOST} more"] if len(names) > MOST else []
    return "\n".join([*names[:MOST], *more])


def file(table: Snapshot, told: DataFile) -> str:
    """One file with its full name."""
    rows = ""
    if told.rows is not None:
        rows = f", {counted(told.rows, 'change' if told.kind == 'log' else 'row')}"
    new = f" · {change(table, told)} since the last look" if told in table.new_files else ""
    state = "" if told.committed else " · not committed, no reader sees it"
    return f"{told.name}: {told.size:,} bytes{rows}, of the instant {told.instant}{state}{new}"


def change(table: Snapshot, told: DataFile) -> str:
    """What a new file is to the earlier snapshot: `new`, or `rewritten` where its file group had a
    base file already."""
    return "rewritten" if told in table.rewritten_files else "new"


def removed(told: DataFile) -> str:
    """A file that the earlier snapshot had."""
    return f"{told.name}: {told.size:,} bytes, removed since the last look"


def cleaned(told: CleanedFile) -> str:
    """A file that a clean deleted."""
    return f"{told.name}: deleted by the clean {told.cleaned}"


def state(table: Snapshot, told: FileSlice) -> str:
    """Whether readers use a slice, and what is to become of it."""
    replaced = dict(table.replaced).get(told.group)
    words = "current" if told.current else "older"
    if replaced:
        words = f"replaced at {replaced}"
    elif told.planned:
        words = f"begun by the pending compaction {told.instant}"
    plans = [(at, action) for group, at, action in table.planned if group == told.group]
    if plans and told.current and not told.planned:
        words += "".join(f", {action} {at} pending" for at, action in plans)
    return words


def slice_of(table: Snapshot, told: FileSlice, indent: int = 0) -> str:
    """A file slice: its group's full id, its state and its files, one line each."""
    files = [file(table, part) for part in told.files] or ["no file yet"]
    head = f"file group {told.group}, slice {told.instant} ({state(table, told)})"
    return "\n".join([head, *(" " * indent + line for line in files)])


def rows(count: int) -> str:
    """A number for small places: `950`, `1,234`, `12.3k`, `4.0M`."""
    for scale, unit in ((1e6, "M"), (1e4, "k")):
        if count >= scale:
            return f"{count / (1e6 if unit == 'M' else 1e3):.1f}{unit}"
    return f"{count:,}"


def content(table: Snapshot, partition: str, group: str) -> str:
    """What a file group holds now: rows and changes, or why readers leave it out."""
    replaced = dict(table.replaced).get(group)
    if replaced:
        return f"replaced {clock(replaced)[:8]}"
    now = [
        f for s in table.current if (s.partition, s.group) == (partition, group) for f in s.files
    ]
    if not now:
        here = any((f.partition, f.group) == (partition, group) for f in table.files)
        return "not read" if here else "removed"
    base = [f.rows for f in now if f.kind == "base"]
    logs = [f.rows for f in now if f.kind == "log"]
    if None in base or None in logs:
        return ""
    parts = [plural(sum(base), "row")] if base else []
    parts += [plural(sum(logs), "change")] if logs else []
    planned = any(found == group and action == "clustering" for found, _, action in table.planned)
    return " + ".join(parts) + (" · in a planned clustering" if planned else "")


def plural(count: int, word: str) -> str:
    """A number with its word, for small places."""
    return f"{rows(count)} {word}{'' if count == 1 else 's'}"


def counted(count: int, word: str) -> str:
    """An exact number with its word."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def totals(table: Snapshot) -> str:
    """Data files, their bytes, and rows where they are known."""
    bytes_ = size_text(sum(f.size for f in table.files))
    words = f"{plural(len(table.files), 'data file')} · {bytes_}"
    return words if table.rows is None else f"{plural(table.rows, 'row')} · {words}"


def parts(table: Snapshot) -> list[tuple[str, str]]:
    """Each part of the table with its objects and bytes."""
    return [
        (row.Index, f"{row.Index} {row.objects} ({size_text(row.bytes)})")
        for row in table.parts().itertuples()
    ]


def metadata(table: Snapshot) -> list[str]:
    """Each partition of the metadata table with its objects and bytes."""
    return [
        f"{row.Index} {row.objects} ({size_text(row.bytes)})"
        for row in table.metadata_partitions.itertuples()
    ]


def short_group(group: str) -> str:
    """A file group's id, short enough to draw: its first 8 characters and what follows the last `-`."""
    if len(group) <= 12:
        return group
    return f"{group[:8]}…{group.rpartition('-')[2]}" if "-" in group else f"{group[:8]}…"


def _did(table: Snapshot, told: Instant) -> str:
    record = table.records.get((told.action, told.requested), {})
    if told.action == "clean":
        return f"{counted(sum(f.cleaned == told.requested for f in table.cleaned), 'file')} deleted"
    if told.action == "rollback" and record.get("commitsRollback"):
        return f"rolled back {', '.join(record['commitsRollback'])}"
    if told.action == "restore" and "instantsToRollback" in record:
        undone = sorted(record["instantsToRollback"])
        return f"undid {counted(len(undone), 'instant')}{': ' if undone else ''}{', '.join(undone)}"
    if told.action == "savepoint" and record.get("partitionMetadata"):
        kept = record["partitionMetadata"].values()
        return f"keeps {counted(sum(len(part['savepointDataFile']) for part in kept), 'data file')}"
    return ""
