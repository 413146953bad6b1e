"""The archived part of a timeline: `.hoodie/timeline/history`, an LSM tree of Parquet files.

`_version_` names the newest manifest, and the manifest lists the valid files. The folder also
contains files that a compaction of the history has replaced.

Source: `HoodieLSMTimelineInstant` of Apache Hudi's timeline model.
"""

import io
import json
from collections.abc import Mapping
from functools import lru_cache

import pyarrow.parquet as pq

from lab_env.tables.hudi.commits import read_avro
from lab_env.tables.hudi.timeline import Instant

HISTORY = ".hoodie/timeline/history/"
REWRITE_ACTIONS = {"COMPACT": "compaction", "LOG_COMPACT": "logcompaction", "CLUSTER": "clustering"}


def is_manifest(key: str) -> bool:
    """Return True for the history's `_version_` file and manifests, but not its data files."""
    return key.startswith(HISTORY) and not key.endswith(".parquet")


def valid_files(contents: Mapping[str, bytes]) -> list[str]:
    """Return the keys of the history's valid files, given its `_version_` and manifests by key."""
    version = contents.get(f"{HISTORY}_version_", b"").decode().strip()
    manifest = contents.get(f"{HISTORY}manifest_{version}")
    if not manifest:
        return []
    return [f"{HISTORY}{file['fileName']}" for file in json.loads(manifest).get("files", ())]


def archived_instants(contents: Mapping[str, bytes]) -> list[tuple[Instant, dict]]:
    """Return the archived instants and their decoded metadata, ordered by requested time."""
    instants = []
    for key in valid_files(contents):
        if key in contents:
            instants += _instants(contents[key])
    return sorted(instants, key=lambda pair: pair[0].requested)


@lru_cache(maxsize=64)
def _instants(content: bytes) -> list[tuple[Instant, dict]]:
    """Read one file's instants; cached, because files never change and are read every second."""
    # One thread: these files are tiny, and idle Arrow threads outlive short programs.
    rows = pq.read_table(io.BytesIO(content), use_threads=False).to_pylist()
    return [_instant(row) for row in rows]


def _instant(row: dict) -> tuple[Instant, dict]:
    record = read_avro(row["metadata"] or b"")
    action = REWRITE_ACTIONS.get(record.get("operationType"), row["action"])
    return Instant(row["instantTime"], row["completionTime"], action, "completed"), record
