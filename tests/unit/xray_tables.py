"""Small made-up tables for the X-ray's tests: names as Hudi gives them, records as it writes them."""

import io
from datetime import UTC, datetime

import fastavro

from lab_env.hudi.reader import snapshot
from lab_env.store import StoredObject

PROPERTIES = """#Properties
hoodie.table.name=orders
hoodie.table.type=MERGE_ON_READ
hoodie.table.version=9
"""
DAY, OTHER_DAY = "day=2026-11-20", "day=2026-11-21"
T1, T2, T3, T4, T5 = (f"2026112009{minute:02d}00000" for minute in (1, 2, 3, 4, 5))
NOW = datetime(2026, 11, 20, tzinfo=UTC)

COUNTS = ("numWrites", "numInserts", "numUpdateWrites", "numDeletes", "fileSizeInBytes")
STAT = {
    "type": "record",
    "name": "HoodieWriteStat",
    "fields": [
        *({"name": name, "type": "string"} for name in ("fileId", "path", "prevBaseFile")),
        *({"name": name, "type": "long"} for name in COUNTS),
        {"name": "cdcStats", "type": ["null", {"type": "map", "values": "long"}]},
    ],
}
COMMIT = {
    "type": "record",
    "name": "HoodieReplaceCommitMetadata",
    "fields": [
        {"name": "operationType", "type": "string"},
        {
            "name": "partitionToWriteStats",
            "type": {"type": "map", "values": {"type": "array", "items": STAT}},
        },
        {"name": "extraMetadata", "type": {"type": "map", "values": "string"}},
        {
            "name": "partitionToReplaceFileIds",
            "type": {"type": "map", "values": {"type": "array", "items": "string"}},
        },
    ],
}
OPERATION = {
    "type": "record",
    "name": "HoodieCompactionOperation",
    "fields": [{"name": "fileId", "type": "string"}],
}
PLAN = {
    "type": "record",
    "name": "HoodieCompactionPlan",
    "fields": [{"name": "operations", "type": {"type": "array", "items": OPERATION}}],
}
CLEAN = {
    "type": "record",
    "name": "HoodieCleanMetadata",
    "fields": [
        {
            "name": "partitionMetadata",
            "type": {
                "type": "map",
                "values": {
                    "type": "record",
                    "name": "HoodieCleanPartitionMetadata",
                    "fields": [
                        {"name": "successDeleteFiles", "type": {"type": "array", "items": "string"}}
                    ],
                },
            },
        }
    ],
}


def end(instant: str) -> str:
    """Each action takes two seconds."""
    return f"{instant[:12]}02{instant[14:]}"


def done(instant: str, action: str = "deltacommit", end_of: str | None = None) -> list[str]:
    """The timeline files of a finished action."""
    return [
        f".hoodie/timeline/{instant}_{end(end_of or instant)}.{action}",
        f".hoodie/timeline/{instant}.{action}.requested",
        f".hoodie/timeline/{instant}.{action}.inflight",
    ]


def base(instant: str, group: str = "a-0", day: str = DAY) -> str:
    """Key of a base file."""
    return f"{day}/{group}_0-12-34_{instant}.parquet".lstrip("/")


def log(instant: str, group: str = "a-0", day: str = DAY, version: int = 1) -> str:
    """Key of a log file."""
    return f"{day}/.{group}_{instant}.log.{version}_0-12-34".lstrip("/")


def avro(schema: dict, record: dict) -> bytes:
    """A timeline file: an Avro container with one record."""
    file = io.BytesIO()
    fastavro.writer(file, fastavro.parse_schema(dict(schema)), [record])
    return file.getvalue()


def stat(key: str, written=0, inserted=0, updated=0, deleted=0, size=1000, group="a-0", **more):
    """What a write says of one of its files."""
    counts = (written, inserted, updated, deleted, size)
    return {
        "fileId": group, "path": key, "prevBaseFile": "", "cdcStats": None,
        **dict(zip(COUNTS, counts, strict=True)), **more,
    }  # fmt: skip


def committed(operation: str, *stats: dict, replaced=None, **extra: str) -> bytes:
    """The content of the timeline file that ends a write."""
    partitions: dict[str, list[dict]] = {}
    for told in stats:
        partitions.setdefault(told["path"].rpartition("/")[0], []).append(told)
    return avro(
        COMMIT,
        {
            "operationType": operation,
            "partitionToWriteStats": partitions,
            "extraMetadata": extra,
            "partitionToReplaceFileIds": replaced or {},
        },
    )


def table(*keys: str, since=None, contents=None, properties=PROPERTIES, partitions=(DAY,)):
    """A snapshot of a table with these objects, of 1,000 bytes each, and these contents."""
    markers = [f"{day}/.hoodie_partition_metadata" for day in partitions]
    names = dict.fromkeys([".hoodie/hoodie.properties", *markers, *keys, *(contents or {})])
    objects = {key: StoredObject(f"t/{key}", 1000, NOW) for key in names}
    return snapshot("s3a://lakehouse/t", properties, objects, contents, since)
