"""Commit metadata of a completed write, decoded from the timeline.

A timeline file of table version 8 and later is an Avro container with its schema inside. fastavro
reads it as Hudi wrote it, archived instants included. hudi-rs reads the same files, but it exposes
no pending instants and no completion times, and it estimates sizes and rows.

Source: `HoodieCommitMetadata` and `HoodieWriteStat` of Apache Hudi's timeline model.
"""

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import fastavro
import pandas as pd

from lab_env.tables.hudi.timeline import Instant, parse_data_name

# The streaming sink stores the query's batch under this name.
CHECKPOINT = "_hudi_streaming_sink_checkpoint"
REWRITES = ("COMPACT", "LOG_COMPACT", "CLUSTER")


@dataclass(frozen=True)
class WrittenFile:
    """One file of a write.

    Args:
        partition: its folder below the table.
        group: id of its file group.
        name: the last part of its key.
        kind: base, log or cdc.
        written: records written: all rows of a base file, the upserted records of a log.
        inserted: records that are new in the file.
        updated: records that the file changes.
        deleted: records that the file removes.
        size: bytes.
        replaces: name of the base file that it supersedes; empty without one.
    """

    partition: str
    group: str
    name: str
    kind: str
    written: int
    inserted: int
    updated: int
    deleted: int
    size: int
    replaces: str

    @property
    def changes(self) -> int:
        """Rows of a base file; changed and deleted records of a log."""
        return self.written + (self.deleted if self.kind == "log" else 0)


@dataclass(frozen=True)
class Commit:
    """Metadata of one completed write.

    Args:
        requested: requested time, as an instant time.
        completed: completion time.
        action: commit, deltacommit, compaction, clustering, replacecommit.
        operation: UPSERT, INSERT, DELETE, COMPACT, CLUSTER and so on, as Hudi recorded it.
        files: the files that it wrote.
        replaced: partition and id of each file group that it replaced.
        schema: column to type of the rows; empty if the write recorded no schema.
        checkpoint: of a streaming write, the query's identifier to its batch number.
        extra: all other metadata, by name.
    """

    requested: str
    completed: str
    action: str
    operation: str
    files: tuple[WrittenFile, ...]
    replaced: tuple[tuple[str, str], ...]
    schema: dict[str, str]
    checkpoint: dict[str, str] | None
    extra: dict[str, str]

    @property
    def rewrites(self) -> bool:
        """True if it only reorganises rows, as compaction and clustering do."""
        return self.operation in REWRITES

    @property
    def inserted(self) -> int:
        """Number of records that are new in the table; 0 for a rewrite."""
        return 0 if self.rewrites else sum(file.inserted for file in self.files)

    @property
    def updated(self) -> int:
        """Number of changed records; 0 for a rewrite."""
        return 0 if self.rewrites else sum(file.updated for file in self.files)

    @property
    def deleted(self) -> int:
        """Number of deleted records, without those in replaced file groups; 0 for a rewrite."""
        return 0 if self.rewrites else sum(file.deleted for file in self.files)

    @property
    def records_written(self) -> int:
        """Number of records in its files, including unchanged ones that were copied."""
        return sum(file.written for file in self.files)

    @property
    def bytes_written(self) -> int:
        """Bytes of its data files, including change logs, which Hudi's own total leaves out."""
        return sum(file.size for file in self.files)

    def frame(self) -> pd.DataFrame:
        """Return its files as a DataFrame, one row per file."""
        return pd.DataFrame(self.files, columns=list(WrittenFile.__dataclass_fields__))


@lru_cache(maxsize=256)
def read_avro(content: bytes) -> dict:
    """Return the only record of an Avro container; empty for an empty file.

    The record is cached, so do not change it. A snapshot needs the records of a whole timeline, and
    most of them are the same as in the previous snapshot.
    """
    records: Iterator[Any] = fastavro.reader(io.BytesIO(content)) if content else iter(())
    return next(records, {})


def decode_commit(record: dict, instant: Instant) -> Commit:
    """Decode the commit of a completed write.

    Args:
        record: its `HoodieCommitMetadata` or `HoodieReplaceCommitMetadata`, from `read_avro`.
    """
    extra = dict(record.get("extraMetadata") or {})
    schema, checkpoint = extra.pop("schema", ""), extra.pop(CHECKPOINT, "")
    return Commit(
        requested=instant.requested,
        completed=instant.completed,
        action=instant.action,
        operation=record.get("operationType") or "UNKNOWN",
        files=written_files(record),
        replaced=replaced_groups(record),
        schema=_columns(schema),
        checkpoint=json.loads(checkpoint) if checkpoint else None,
        extra=extra,
    )


def written_files(record: dict) -> tuple[WrittenFile, ...]:
    """Return the files of a write, ordered by partition, from its decoded metadata."""
    stats = record.get("partitionToWriteStats") or {}
    return tuple(
        file
        for partition in sorted(stats)
        for s in stats[partition]
        for file in _files(partition, s)
    )


def replaced_groups(record: dict) -> tuple[tuple[str, str], ...]:
    """Return partition and id of each file group that a write replaced, from its metadata."""
    groups = record.get("partitionToReplaceFileIds") or {}
    return tuple((partition, group) for partition, found in groups.items() for group in found)


def _files(partition: str, stat: dict) -> list[WrittenFile]:
    """File of one write statistic, and its change logs."""
    name = stat["path"].rpartition("/")[2]
    parsed = parse_data_name(name)
    file = WrittenFile(
        partition=partition,
        group=stat["fileId"],
        name=name,
        kind=parsed.kind if parsed else "base",
        written=stat["numWrites"],
        inserted=stat["numInserts"],
        updated=stat["numUpdateWrites"],
        deleted=stat["numDeletes"],
        size=stat["fileSizeInBytes"],
        replaces=stat.get("prevBaseFile") or "",
    )
    change_logs = (stat.get("cdcStats") or {}).items()
    return [file] + [
        WrittenFile(partition, stat["fileId"], path.rpartition("/")[2], "cdc", 0, 0, 0, 0, size, "")
        for path, size in change_logs
    ]


def _columns(schema: str) -> dict[str, str]:
    """Column to type of an Avro record schema: `double`, `decimal(10,2)`, `array`."""
    fields = json.loads(schema).get("fields", ()) if schema else ()
    return {field["name"]: _type(field["type"]) for field in fields}


def _type(avro: object) -> str:
    if isinstance(avro, list):  # nullable: a union with null
        return " or ".join(_type(part) for part in avro if part != "null")
    if isinstance(avro, dict):
        logical = avro.get("logicalType")
        if logical == "decimal":
            return f"decimal({avro['precision']},{avro.get('scale', 0)})"
        return logical or _type(avro["type"])
    return str(avro)
