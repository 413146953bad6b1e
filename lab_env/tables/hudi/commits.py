"""Commit metadata of a completed write, decoded from the timeline.

A timeline file of table version 8 and later is an Avro container with an embedded schema. fastavro
returns everything that Hudi wrote, also for archived instants. hudi-rs, by contrast, exposes no
pending instants or completion times, and estimates sizes and rows.

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
    """One file that a write produced."""

    partition: str  # its folder below the table
    group: str  # id of its file group
    name: str
    kind: str  # base, log or cdc
    written: int  # records: all rows of a base file, or the upserted records of a log
    inserted: int
    updated: int
    deleted: int
    size: int  # bytes
    replaces: str  # name of the base file that it supersedes; empty if there is none

    @property
    def changes(self) -> int:
        """Number of rows in a base file, or of changed and deleted records in a log."""
        return self.written + (self.deleted if self.kind == "log" else 0)


@dataclass(frozen=True)
class Commit:
    """Metadata of one completed write."""

    requested: str  # an instant time (see `timeline`), like `completed`
    completed: str
    action: str  # commit, deltacommit, compaction, clustering, replacecommit
    operation: str  # as Hudi recorded it: UPSERT, INSERT, DELETE, COMPACT, CLUSTER and so on
    files: tuple[WrittenFile, ...]
    replaced: tuple[tuple[str, str], ...]  # partition and id of each replaced file group
    schema: dict[str, str]  # type of each column; empty if the write recorded no schema
    checkpoint: dict[str, str] | None  # batch number of a streaming write, by query identifier
    extra: dict[str, str]  # all other metadata, by name

    @property
    def rewrites(self) -> bool:
        """True if it only reorganises existing rows, as compaction and clustering do."""
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
        """Number of deleted records, excluding those in replaced file groups; 0 for a rewrite."""
        return 0 if self.rewrites else sum(file.deleted for file in self.files)

    @property
    def records_written(self) -> int:
        """Number of records in its files, including those copied unchanged."""
        return sum(file.written for file in self.files)

    @property
    def bytes_written(self) -> int:
        """Bytes in its data files, including change logs, which Hudi's own total leaves out."""
        return sum(file.size for file in self.files)

    def frame(self) -> pd.DataFrame:
        """Return its files as a DataFrame, one row per file."""
        return pd.DataFrame(self.files, columns=list(WrittenFile.__dataclass_fields__))


@lru_cache(maxsize=256)
def read_avro(content: bytes) -> dict:
    """Return the only record of an Avro container; empty for an empty file.

    The record is cached, so do not change it. A snapshot decodes the whole timeline, most of which
    was already decoded for the previous snapshot.
    """
    records: Iterator[Any] = fastavro.reader(io.BytesIO(content)) if content else iter(())
    return next(records, {})


def decode_commit(record: dict, instant: Instant) -> Commit:
    """Convert a write's decoded metadata, from `read_avro`, to a `Commit`."""
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
    """Return the partition and id of each file group that a write replaced."""
    groups = record.get("partitionToReplaceFileIds") or {}
    return tuple((partition, group) for partition, found in groups.items() for group in found)


def _files(partition: str, stat: dict) -> list[WrittenFile]:
    """Return the file that a write statistic describes, and its change logs."""
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
    """Return the type of each column of an Avro schema: `double`, `decimal(10,2)`, `array`."""
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
