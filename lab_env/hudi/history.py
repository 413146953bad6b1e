"""The archived part of a timeline: `.hoodie/timeline/history`, an LSM tree of Parquet files.

`_version_` names the newest manifest, and the manifest the files that count: a listing alone would
mix in files that a later compaction of the history has replaced.

Source: `HoodieLSMTimelineInstant` of Apache Hudi's timeline model.
"""

import io
import json
from collections.abc import Mapping

import pyarrow.parquet as pq

from lab_env.hudi.commits import read_avro
from lab_env.hudi.model import Instant

HISTORY = ".hoodie/timeline/history/"
PLANNED = {"COMPACT": "compaction", "LOG_COMPACT": "logcompaction", "CLUSTER": "clustering"}


def current_files(contents: Mapping[str, bytes]) -> list[str]:
    """Keys of the history's files that count.

    Args:
        contents: bytes of `_version_` and of the manifests, by key; other keys do not matter.
    """
    version = contents.get(f"{HISTORY}_version_", b"").decode().strip()
    manifest = contents.get(f"{HISTORY}manifest_{version}")
    if not manifest:
        return []
    return [f"{HISTORY}{file['fileName']}" for file in json.loads(manifest).get("files", ())]


def archived(contents: Mapping[str, bytes]) -> list[tuple[Instant, dict]]:
    """The archived instants, each with what it recorded, by requested time.

    Args:
        contents: bytes of the history's manifests and files, by key.
    """
    found = []
    for key in current_files(contents):
        if key in contents:
            # One thread: these files are tiny, and idle Arrow threads outlive short programs.
            table = pq.read_table(io.BytesIO(contents[key]), use_threads=False)
            found += [_instant(row) for row in table.to_pylist()]
    return sorted(found, key=lambda pair: pair[0].requested)


def _instant(row: dict) -> tuple[Instant, dict]:
    record = read_avro(row["metadata"] or b"")
    # Completed, a compaction is called commit, and a clustering replacecommit.
    action = PLANNED.get(record.get("operationType"), row["action"])
    return Instant(row["instantTime"], row["completionTime"], action, "completed"), record
