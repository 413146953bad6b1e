"""Finds damaged files of a table before a reader fails on them or silently skips them.

Some readers skip a damaged log file without an error and show old rows, or show a value whose bytes
have changed. This check compares the files of the latest state with the commits' metadata, walks
through the blocks of the log files and verifies the checksums of the base files' pages, and that
each row names the file it is in. So it reads all these files in full. It cannot find changed bytes
in a log: blocks have no checksum.

Sources: Apache Hudi's technical specification, section on the log file format; Parquet's format,
section on checksumming.
"""

import contextlib
import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from lab_env.tables.hudi.commits import WrittenFile, read_avro, written_files
from lab_env.tables.hudi.files import TableFiles
from lab_env.tables.hudi.reader import METADATA, TIMELINE, read_table
from lab_env.tables.hudi.table import DataFile, Snapshot
from lab_env.tables.hudi.timeline import parse_data_name, parse_timeline_key

MAGIC = b"#HUDI#"
LENGTH = 8  # bytes of each of a block's two lengths
PARQUET = b"PAR1"
FILE_NAME = "_hoodie_file_name"


@dataclass(frozen=True, order=True)
class Damage:
    """One damaged file: its path in the table's folder, and a description of the damage."""

    key: str
    why: str

    def __str__(self) -> str:
        return f"{self.key}: {self.why}"


def damaged_files(files: TableFiles) -> list[Damage]:
    """Return the damaged files of the timeline and of the table's latest state.

    Stop all writers first, because a file that one has just cleaned would count as missing. Raises
    `TableNotFound` if there is no Hudi table at the path.
    """
    sizes = files.sizes()
    if unreadable := list(_unreadable_instants(files, sizes)):
        return unreadable
    snapshot = read_table(files)
    recorded = {
        (file.partition, file.name): file
        for record in snapshot.records.values()
        for file in written_files(record)
    }
    found = [damage for file in snapshot.read_files if (damage := _damage(files, file, recorded))]
    return sorted([*found, *_missing(snapshot), *damaged_metadata(files)])


def damaged_metadata(files: TableFiles) -> list[Damage]:
    """Return damaged logs of the metadata table, in which writers and readers look up files.

    Hudi skips unreadable logs there, so writers overlook files and readers miss rows.
    """
    found = []
    for key in files.sizes():
        name = parse_data_name(key.rpartition("/")[2]) if key.startswith(METADATA) else None
        if name is None or name.kind != "log":
            continue
        with contextlib.suppress(FileNotFoundError):  # cleaned meanwhile
            if why := log_damage(files.read(key)):
                found.append(Damage(key, why))
    return found


def log_damage(content: bytes) -> str:
    """Describe the damage of a log file's blocks; empty if there is none."""
    place, number = 0, 0
    while place < len(content):
        number += 1
        begin = place + len(MAGIC) + LENGTH
        if content[place : place + len(MAGIC)] != MAGIC:
            return f"block {number} does not begin with the mark of a block"
        if begin > len(content):
            return f"block {number} ends within its first length"
        (length,) = struct.unpack(">q", content[begin - LENGTH : begin])
        end = begin + length
        if length < LENGTH or end > len(content):
            return f"block {number} should end at byte {end:,}, but the file has {len(content):,}"
        (total,) = struct.unpack(">q", content[end - LENGTH : end])
        if total != length + len(MAGIC):
            return f"the two lengths of block {number} differ: {length:,} and {total:,}"
        place = end
    return "" if number else "the file has no block"


def _unreadable_instants(files: TableFiles, sizes: dict[str, int]) -> Iterator[Damage]:
    """Yield completed writes whose metadata cannot be decoded."""
    for key in sizes:
        instant = parse_timeline_key(key) if key.startswith(TIMELINE) else None
        if instant is None or not instant.completed or not instant.writes:
            continue
        try:
            whole = bool(read_avro(files.read(key)))
        except FileNotFoundError:  # archived meanwhile
            continue
        except Exception as error:  # fastavro raises various errors
            yield Damage(key, f"it cannot be decoded ({type(error).__name__})")
            continue
        if not whole:
            yield Damage(key, "it is empty")


def _damage(
    files: TableFiles, file: DataFile, recorded: dict[tuple[str, str], WrittenFile]
) -> Damage | None:
    written = recorded.get((file.partition, file.name))
    why = ""
    if written and written.size != file.size:
        why = f"{file.size:,} bytes, but its commit recorded {written.size:,}"
    elif file.kind == "log":
        why = log_damage(files.read(file.key))
    elif file.name.endswith(".parquet"):
        why = parquet_damage(files.read(file.key), file.name)
    return Damage(file.key, why) if why else None


def parquet_damage(content: bytes, name: str) -> str:
    """Describe the damage of a base file; empty if its pages are as they were written to this name.

    A store that returns the bytes of another file, or of an earlier version, is found by the file
    name that Hudi writes into each row.
    """
    if not content[:4] == PARQUET == content[-4:]:
        return "it does not end like a Parquet file"
    import pyarrow.parquet as pq  # a writer that only looks for damaged metadata needs none of it

    try:
        file = pq.ParquetFile(io.BytesIO(content), page_checksum_verification=True)
        names: set[str] = set()
        for number in range(file.num_row_groups):
            rows = file.read_row_group(number)
            if FILE_NAME in rows.column_names:  # a table can be without Hudi's columns
                names |= {*rows[FILE_NAME].unique().to_pylist()}
    except (OSError, ValueError) as error:  # pyarrow's own errors are of these kinds
        return f"a page cannot be read, or not what was written ({error})"
    other = min(names - {name}, default="")
    return f"its rows are of another file, {other}" if other else ""


def _missing(snapshot: Snapshot) -> Iterator[Damage]:
    """Yield files of the newest slices that commits record but that are missing."""
    present = {(file.partition, file.name) for file in snapshot.files}
    replaced = dict(snapshot.replaced)
    groups: dict[tuple[str, str], list[tuple[str, WrittenFile]]] = {}
    active = {instant.requested for instant in snapshot.instants}
    for (_, requested), record in snapshot.records.items():
        if requested not in active:
            continue
        for file in written_files(record):
            if file.kind != "cdc" and file.group not in replaced:
                groups.setdefault((file.partition, file.group), []).append((requested, file))
    for writes in groups.values():
        newest = max((at for at, file in writes if file.kind == "base"), default="")
        for at, file in writes:
            if at >= newest and (file.partition, file.name) not in present:
                key = f"{file.partition}/{file.name}" if file.partition else file.name
                yield Damage(key, f"missing, but the commit {at} wrote it")
