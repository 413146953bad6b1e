"""What one write recorded about itself: its commit, decoded from the timeline file that ends it.

A timeline file of table version 8 and later is an Avro container, schema inside; fastavro reads it
exactly as Hudi wrote it, archived instants included. hudi-rs reads the same files but knows neither
pending instants nor completion times, and estimates sizes and rows; so it is not needed here.

Source: `HoodieCommitMetadata` and `HoodieWriteStat` of Apache Hudi's timeline model.
"""

import io
import json
from dataclasses import dataclass
from html import escape

import fastavro
import pandas as pd

from lab_env.hudi.timeline import clock, data_name, duration_text, seconds_between

# The streaming sink records under this name which batch of which query a commit holds.
CHECKPOINT = "_hudi_streaming_sink_checkpoint"
FILE_KINDS = ("base", "log", "cdc")
REWRITES = ("COMPACT", "LOG_COMPACT", "CLUSTER")


@dataclass(frozen=True)
class WrittenFile:
    """One file that a write made.

    Args:
        partition: its folder below the table.
        group: id of its file group.
        name: the last part of its key.
        kind: base, log or cdc.
        written: records written into it: all rows of a base file, the upserted records of a log.
        inserted: records that are new in it.
        updated: records that it changes.
        deleted: records that it removes.
        size: bytes.
        replaces: name of the base file whose place it takes, empty without one.
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
        """Of a base file its rows, of a log the records that it changes or deletes."""
        return self.written + (self.deleted if self.kind == "log" else 0)


@dataclass(frozen=True, repr=False)
class Commit:
    """One completed write, as it recorded itself.

    Args:
        requested: when it was asked for: digits, year to millisecond, UTC.
        completed: when it was complete, in the same form.
        action: commit, deltacommit, compaction, clustering, replacecommit.
        operation: UPSERT, INSERT, DELETE, COMPACT, CLUSTER and so on, as Hudi recorded it.
        files: what it wrote.
        replaced: partition and id of the file groups whose rows it replaced.
        schema: column to type of the rows, as the write recorded them; empty when it did not.
        checkpoint: of a streaming write, the query's identifier to the number of its batch.
        extra: everything else that it recorded, by name.
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
        """Whether it only lays rows out anew, as compaction and clustering do."""
        return self.operation in REWRITES

    @property
    def inserted(self) -> int:
        """Records that are new in the table; 0 for a rewrite, which changes none."""
        return 0 if self.rewrites else sum(file.inserted for file in self.files)

    @property
    def updated(self) -> int:
        """Records changed; 0 for a rewrite."""
        return 0 if self.rewrites else sum(file.updated for file in self.files)

    @property
    def deleted(self) -> int:
        """Records removed one by one; 0 for a rewrite, and for whole file groups replaced."""
        return 0 if self.rewrites else sum(file.deleted for file in self.files)

    @property
    def records_written(self) -> int:
        """Records put into its files, the unchanged ones that were copied included."""
        return sum(file.written for file in self.files)

    @property
    def bytes_written(self) -> int:
        """Bytes of its data files, change logs too, which Hudi's own total leaves out."""
        return sum(file.size for file in self.files)

    def frame(self) -> pd.DataFrame:
        """Its files as a table, one row each."""
        return pd.DataFrame(self.files, columns=list(WrittenFile.__dataclass_fields__))

    def facts(self) -> dict[str, str]:
        """What its card and its text tell, in order."""
        kinds = ", ".join(f"{n} {kind}" for kind in FILE_KINDS if (n := self._count(kind)))
        files = f"{len(self.files):,} file{_s(self.files)} ({kinds or 'none'})"
        rows = {
            "operation": f"{self.operation} ({self.action})",
            "requested": _moment(self.requested),
            "completed": f"{_moment(self.completed)}, "
            f"{duration_text(seconds_between(self.requested, self.completed))} later",
            "records": f"{self.inserted:,} inserted · {self.updated:,} updated · "
            f"{self.deleted:,} deleted",
            "written": f"{self.records_written:,} record{'' if self.records_written == 1 else 's'}, "
            f"{files}, {self.bytes_written:,} bytes",
        }
        if self.replaced:
            rows["replaced"] = f"{len(self.replaced):,} file group{_s(self.replaced)}"
        if self.checkpoint:
            rows["checkpoint"] = ", ".join(
                f"batch {batch} of {query}" for query, batch in self.checkpoint.items()
            )
        if self.schema:
            rows["schema"] = ", ".join(f"{name} {kind}" for name, kind in self.schema.items())
        return rows

    def _count(self, kind: str) -> int:
        return sum(file.kind == kind for file in self.files)

    def __repr__(self) -> str:
        facts = [f"  {name:11}{value}" for name, value in self.facts().items()]
        files = [f"  file       {_file_line(file)}" for file in self.files]
        return "\n".join([f"{self.action} {self.requested}", *facts, *files])

    def _repr_html_(self) -> str:
        from lab_env.xray.colours import ACTION, INK, OTHER_ACTION, PANEL

        cell = "padding:2px 14px 2px 0;text-align:left;vertical-align:top"
        rows = "".join(
            f"<tr><td style='{cell};opacity:.7'>{escape(name)}</td>"
            f"<td style='{cell};white-space:normal'>{escape(value)}</td></tr>"
            for name, value in self.facts().items()
        )
        files = "".join(
            f"<li style='margin:1px 0'>{escape(_file_line(f))}</li>" for f in self.files
        )
        return (
            "<div style='display:inline-block;max-width:920px;padding:8px 14px;margin:2px 0;"
            f"font-size:13px;border-left:4px solid {ACTION.get(self.action, OTHER_ACTION)};"
            f"background:{PANEL};color:{INK}'>"
            f"<b style='font-size:14px'>{escape(self.action)} {escape(self.requested)}</b>"
            "<table style='border-collapse:collapse;background:none;color:inherit;font-size:inherit;"
            f"margin:4px 0 2px'>{rows}</table>"
            f"<details><summary style='cursor:pointer'>its files</summary>"
            f"<ul style='margin:4px 0;padding-left:18px;overflow-wrap:anywhere'>{files}</ul>"
            "</details></div>"
        )


def read_avro(content: bytes) -> dict:
    """The only record of an Avro container file; empty for an empty file.

    Args:
        content: its bytes.
    """
    return next(iter(fastavro.reader(io.BytesIO(content))), {}) if content else {}


def commit_of(record: dict, requested: str, completed: str, action: str) -> Commit:
    """A commit from its decoded metadata.

    Args:
        record: `HoodieCommitMetadata` or `HoodieReplaceCommitMetadata`.
        requested: the instant's requested time.
        completed: its completion time.
        action: its action.
    """
    stats = record.get("partitionToWriteStats") or {}
    extra = dict(record.get("extraMetadata") or {})
    schema, checkpoint = extra.pop("schema", ""), extra.pop(CHECKPOINT, "")
    return Commit(
        requested=requested,
        completed=completed,
        action=action,
        operation=record.get("operationType") or "UNKNOWN",
        files=tuple(f for part in sorted(stats) for s in stats[part] for f in _written(part, s)),
        replaced=tuple(
            (partition, group)
            for partition, groups in (record.get("partitionToReplaceFileIds") or {}).items()
            for group in groups
        ),
        schema=_columns(schema),
        checkpoint=json.loads(checkpoint) if checkpoint else None,
        extra=extra,
    )


def _written(partition: str, stat: dict) -> list[WrittenFile]:
    """The file of one write statistic, and the change-data log beside it if there is one."""
    name = stat["path"].rpartition("/")[2]
    told = data_name(name)
    file = WrittenFile(
        partition=partition,
        group=stat["fileId"],
        name=name,
        kind=told.kind if told else "base",
        written=stat["numWrites"],
        inserted=stat["numInserts"],
        updated=stat["numUpdateWrites"],
        deleted=stat["numDeletes"],
        size=stat["fileSizeInBytes"],
        replaces=stat.get("prevBaseFile") or "",
    )
    changes = (stat.get("cdcStats") or {}).items()
    return [file] + [
        WrittenFile(partition, stat["fileId"], path.rpartition("/")[2], "cdc", 0, 0, 0, 0, size, "")
        for path, size in changes
    ]


def _columns(schema: str) -> dict[str, str]:
    """Column to type of an Avro record schema, in plain words: `double`, `decimal(10,2)`, `array`."""
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


def _s(things: tuple) -> str:
    return "" if len(things) == 1 else "s"


def _moment(instant: str) -> str:
    return f"{clock(instant)} ({instant})"


def _file_line(file: WrittenFile) -> str:
    where = f"{file.partition}/" if file.partition else ""
    if file.kind == "cdc":
        return f"{where}{file.name}: {file.size:,} bytes, change log"
    counts = f"{file.inserted:,} inserted, {file.updated:,} updated, {file.deleted:,} deleted"
    return f"{where}{file.name}: {file.size:,} bytes, records: {file.written:,} written, {counts}"
