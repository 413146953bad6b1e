"""The watched pipelines: those of the lab's writers, and those that a lesson adds.

A writer that was killed, failed or stalled stays watched, so that an alert can fire. A writer that
was stopped on purpose, or has read all its input, is no longer watched.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from lab_env.pipeline.layout import TABLES, checkpoint_path, table_path
from lab_env.platform.store import key_of

WATCHED = "watched.json"  # in a lesson's folder
DEFAULT_WRITER = "pipeline"


@dataclass(frozen=True)
class Pipeline:
    """One streaming query: the topic it reads and its files in the store."""

    namespace: str  # of the lesson, for example `lesson-19`, or `tour`
    name: str  # unique in its namespace, for example `cow`
    topic: str  # that it reads
    checkpoint: str  # its `checkpointLocation`, `s3a://...`
    table: str = ""  # path of the Hudi table that it writes; empty if it writes none

    @property
    def labels(self) -> dict[str, str]:
        """Metric labels of the pipeline."""
        return {"namespace": self.namespace, "pipeline": self.name}


def watched(home: Path) -> list[Pipeline]:
    """Return the watched pipelines of a lab, ordered by label."""
    found = {
        (pipeline.namespace, pipeline.name): pipeline
        for pipeline in (*_of_writers(home / "writers"), *_of_lessons(home / "lessons"))
    }
    return [found[key] for key in sorted(found)]


def watch(folder: Path, pipeline: Pipeline) -> None:
    """Add a pipeline to a lesson's folder, replacing one of the same name."""
    named = {other.name: other for other in _read(folder / WATCHED)}
    _write(folder / WATCHED, named | {pipeline.name: pipeline})


def unwatch(folder: Path, name: str) -> bool:
    """Remove a pipeline from a lesson's folder; return False if none has this name."""
    named = {other.name: other for other in _read(folder / WATCHED)}
    if name not in named:
        return False
    del named[name]
    _write(folder / WATCHED, named)
    return True


def _of_writers(folder: Path) -> Iterator[Pipeline]:
    for path in sorted(folder.glob("*/job.json")):
        job, state = _json(path), _json(path.with_name("state.json"))
        if not job or state.get("state") == "stopped":
            continue
        if not {"name", "base", "topic", "sinks"} <= job.keys():
            continue  # not a job of this version
        if job.get("source", "kafka") != "kafka":
            continue  # Kinesis has its own metric for the age of records read
        namespace, _, writer = job["name"].removeprefix("writer-").rpartition("-")
        for sink in job["sinks"]:
            yield Pipeline(
                namespace or key_of(job["base"]),
                sink if writer == DEFAULT_WRITER else f"{writer}.{sink}",
                job["topic"],
                checkpoint_path(job["base"], sink),
                table_path(job["base"], sink) if sink in TABLES else "",
            )


def _of_lessons(folder: Path) -> Iterator[Pipeline]:
    for path in sorted(folder.glob(f"*/{WATCHED}")):
        yield from _read(path)


def _read(path: Path) -> list[Pipeline]:
    """Read the pipelines in a file; skip invalid entries."""
    names = {field.name for field in fields(Pipeline)}
    found = []
    listed = _json(path).get("pipelines")
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, dict) and names - {"table"} <= one.keys() <= names:
            found.append(Pipeline(**one))
    return found


def _write(path: Path, pipelines: dict[str, Pipeline]) -> None:
    """Replace the file atomically, because the exporter may read it at any time."""
    partial = path.with_suffix(".new")
    partial.write_text(json.dumps({"pipelines": [asdict(one) for one in pipelines.values()]}))
    os.replace(partial, path)


def _json(path: Path) -> dict:
    """Read a JSON file; empty if it is missing, incomplete or not an object."""
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
