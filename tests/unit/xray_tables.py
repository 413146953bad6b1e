"""Small made-up tables with Hudi's file names and Hudi's metadata."""

import io
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from lab_env.tables.hudi.reader import read_table
from lab_env.tables.hudi.table import Snapshot
from lab_env.tables.xray import XRay
from lab_env.tables.xray.view import shown_as

PROPERTIES = """#Properties
hoodie.table.name=orders
hoodie.table.type=MERGE_ON_READ
hoodie.table.version=9
"""
NOTHING: Mapping[str, bytes] = MappingProxyType({})
PROPERTIES_KEY = ".hoodie/hoodie.properties"
DAY, OTHER_DAY = "day=2026-11-20", "day=2026-11-21"
T1, T2, T3, T4, T5 = (f"2026112009{minute:02d}00000" for minute in (1, 2, 3, 4, 5))


def record(name: str, **types) -> dict:
    """Return the Avro schema of a record with these fields."""
    fields = [{"name": field, "type": kind} for field, kind in types.items()]
    return {"type": "record", "name": name, "fields": fields}


def array(items) -> dict:
    return {"type": "array", "items": items}


def mapping(values) -> dict:
    return {"type": "map", "values": values}


COUNTS = ("numWrites", "numInserts", "numUpdateWrites", "numDeletes", "fileSizeInBytes")
STAT = record(
    "HoodieWriteStat",
    **dict.fromkeys(("fileId", "path", "prevBaseFile"), "string"),
    **dict.fromkeys(COUNTS, "long"),
    cdcStats=["null", mapping("long")],
)
COMMIT = record(
    "HoodieReplaceCommitMetadata",
    operationType="string",
    partitionToWriteStats=mapping(array(STAT)),
    extraMetadata=mapping("string"),
    partitionToReplaceFileIds=mapping(array("string")),
)
OPERATION = record("HoodieCompactionOperation", fileId="string")
PLAN = record("HoodieCompactionPlan", operations=array(OPERATION))
CLEANED = record("HoodieCleanPartitionMetadata", successDeleteFiles=array("string"))
CLEAN = record("HoodieCleanMetadata", partitionMetadata=mapping(CLEANED))
RESTORE = record("HoodieRestoreMetadata", instantsToRollback=array("string"))


def end(instant: str) -> str:
    """Return the completion time of an instant, two seconds after its requested time."""
    return f"{instant[:12]}02{instant[14:]}"


def done(instant: str, action: str = "deltacommit", end_of: str | None = None) -> list[str]:
    return [
        f".hoodie/timeline/{instant}_{end(end_of or instant)}.{action}",
        f".hoodie/timeline/{instant}.{action}.requested",
        f".hoodie/timeline/{instant}.{action}.inflight",
    ]


def base(instant: str, group: str = "a-0", day: str = DAY) -> str:
    return f"{day}/{group}_0-12-34_{instant}.parquet".lstrip("/")


def log(instant: str, group: str = "a-0", day: str = DAY, version: int = 1) -> str:
    return f"{day}/.{group}_{instant}.log.{version}_0-12-34".lstrip("/")


def avro(schema: dict, record: dict) -> bytes:
    """Return a timeline file: an Avro container with one record."""
    file = io.BytesIO()
    fastavro.writer(file, fastavro.parse_schema(dict(schema)), [record])
    return file.getvalue()


def stat(key: str, written=0, inserted=0, updated=0, deleted=0, size=1000, group="a-0", **more):
    counts = (written, inserted, updated, deleted, size)
    return {
        "fileId": group, "path": key, "prevBaseFile": "", "cdcStats": None,
        **dict(zip(COUNTS, counts, strict=True)), **more,
    }  # fmt: skip


def committed(operation: str, *stats: dict, replaced=None, **extra: str) -> bytes:
    partitions: dict[str, list[dict]] = {}
    for file in stats:
        partitions.setdefault(file["path"].rpartition("/")[0], []).append(file)
    return avro(
        COMMIT,
        {
            "operationType": operation,
            "partitionToWriteStats": partitions,
            "extraMetadata": extra,
            "partitionToReplaceFileIds": replaced or {},
        },
    )


def wrote(instant: str, *keys: str, operation="UPSERT", action="deltacommit", end_of=None, **more):
    """Return the timeline file that completes a write of these files: its content by key."""
    stats = [
        stat(key, written=3, size=1000, group=key.rpartition("/")[2].lstrip(".").split("_")[0])
        for key in keys
    ]
    return {done(instant, action, end_of)[0]: committed(operation, *stats, **more)}


def cleaned(instant: str, *keys: str) -> dict[str, bytes]:
    names = {DAY: {"successDeleteFiles": [key.rpartition("/")[2] for key in keys]}}
    return {done(instant, "clean")[0]: avro(CLEAN, {"partitionMetadata": names})}


def restored(instant: str, *undone: str) -> dict[str, bytes]:
    return {done(instant, "restore")[0]: avro(RESTORE, {"instantsToRollback": [*undone]})}


def plan_of(instant: str, *groups: str) -> dict[str, bytes]:
    operations = [{"fileId": group} for group in groups]
    return {
        f".hoodie/timeline/{instant}.compaction.requested": avro(PLAN, {"operations": operations})
    }


def history_of(*rows: tuple[str, str, bytes]) -> dict[str, bytes]:
    """Return the contents by key of an archive of actions: instant, action and metadata of each."""
    folder = ".hoodie/timeline/history"
    names = {
        "instantTime": [instant for instant, _, _ in rows],
        "completionTime": [end(instant) for instant, _, _ in rows],
        "action": [action for _, action, _ in rows],
        "metadata": [content for _, _, content in rows],
    }
    file = io.BytesIO()
    pq.write_table(pa.table(names), file)
    return {
        f"{folder}/_version_": b"2",
        f"{folder}/manifest_1": b'{"files": [{"fileName": "old.parquet"}]}',
        f"{folder}/manifest_2": b'{"files": [{"fileName": "new.parquet"}]}',
        f"{folder}/old.parquet": b"replaced by a later manifest",
        f"{folder}/new.parquet": file.getvalue(),
    }


class FilesInMemory:
    """`TableFiles` in memory, each listed with 1,000 bytes; `contents` has the non-empty ones."""

    def __init__(
        self, path: str, properties: str, keys: Iterable[str], contents: Mapping = NOTHING
    ):
        self.path = path
        self.contents = {PROPERTIES_KEY: properties.encode(), **contents}
        self.keys = dict.fromkeys([*self.contents, *keys])

    def sizes(self) -> dict[str, int]:
        return dict.fromkeys(self.keys, 1000)

    def read(self, key: str) -> bytes:
        return self.contents.get(key, b"")


def snapshot(
    *keys: str, since=None, contents=NOTHING, properties=PROPERTIES, partitions=(DAY,)
) -> Snapshot:
    markers = [f"{day}/.hoodie_partition_metadata" for day in partitions]
    files = FilesInMemory("s3a://lakehouse/t", properties, [*markers, *keys], contents)
    return read_table(files, since)


def table(*keys: str, **options) -> XRay:
    """Return the table of `snapshot` as an `XRay`, which can be drawn."""
    return shown_as(XRay, snapshot(*keys, **options))
