"""The X-ray in plain text: the same facts as the drawing, and none left out."""

from lab_env.xray.model import DataFile, FileSlice, Snapshot
from lab_env.xray.names import size_text

SHORT = {"base": "parquet", "log": "log", "cdc": "cdc log"}


def as_text(table: Snapshot) -> str:
    """A snapshot as text.

    Args:
        table: what to tell.

    Returns:
        Lines: the table, its timeline, its file slices by partition, its bookkeeping.
    """
    lines = [f"{table.name} · {table.table_type} · table version {table.version} · {table.path}"]
    lines += ["timeline"]
    for instant in table.instants:
        end = f"completed {instant.completed}" if instant.completed else instant.state
        mark = "  new" if instant in table.new_instants else ""
        lines.append(f"  {instant.action:13} requested {instant.requested}  {end}{mark}")
    for partition in table.partitions:
        lines.append(partition or "(no partitions)")
        slices = [s for s in table.slices if s.partition == partition]
        lines += [f"  {_slice(table, found)}" for found in slices]
        for file in table.uncommitted:
            if file.partition == partition:
                lines.append(f"  file group {file.group}  not committed: {_file(table, file)}")
    lines.append(bookkeeping_line(table))
    return "\n".join(lines)


def bookkeeping_line(table: Snapshot) -> str:
    """Objects and bytes of each part of the table, in one line."""
    parts = ", ".join(
        f"{row.Index} {row.objects} ({size_text(row.bytes)})" for row in table.parts().itertuples()
    )
    return f"{table.objects} objects: {parts}"


def short_group(group: str) -> str:
    """A file group's id, short enough to draw: its first 8 characters and what follows the last `-`."""
    if len(group) <= 12:
        return group
    return f"{group[:8]}…{group.rpartition('-')[2]}" if "-" in group else f"{group[:8]}…"


def _slice(table: Snapshot, found: FileSlice) -> str:
    state = "current" if found.current else "older"
    replaced = dict(table.replaced).get(found.group)
    if replaced:
        state = f"replaced at {replaced}"
    files = " + ".join(_file(table, file) for file in found.files)
    return f"file group {found.group}  slice {found.instant} ({state}): {files}"


def _file(table: Snapshot, file: DataFile) -> str:
    new = ", new" if file in table.new_files else ""
    return f"{SHORT[file.kind]} of {file.instant} ({size_text(file.size)}{new})"
