"""Samples memory, and each sink's files, at fixed intervals during a measurement."""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import psutil

from lab_env.pipeline.sinks import FOLDERS, SINKS
from lab_env.platform import store
from lab_env.platform.processes.system import memory_of
from lab_env.platform.settings import Endpoints
from lab_env.tables.hudi.timeline import parse_timeline_key, to_seconds


class Sampler:
    """A context manager that calls a function at a fixed interval in its own thread.

    If the function raises, the exception is stored in `error` and sampling ends.
    """

    def __init__(self, seconds: float, sample: Callable[[], None]):
        self._seconds = seconds
        self._sample = sample
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.error: Exception | None = None

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *exc_info):
        self._stop.set()
        self._thread.join(timeout=30)

    def _run(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                self._sample()
            except Exception as error:  # raised by the caller, who needs the samples
                self.error = error
                return
            self._stop.wait(max(0.0, self._seconds - (time.monotonic() - began)))


@dataclass
class MemorySamples:
    """Memory of groups of processes over time: PSS on Linux (see `memory_of`)."""

    groups: dict[str, Callable[[], Iterable[psutil.Process]]]
    rows: list[dict] = field(default_factory=list)

    def take(self) -> None:
        """Take one sample: MB of each group."""
        row = {"at": time.time()}
        seen: set[int] = set()
        for name, processes in self.groups.items():
            total = 0
            for process in processes():
                if process.pid not in seen:
                    seen.add(process.pid)
                    total += memory_of(process)
            row[name] = total / 1e6
        self.rows.append(row)

    def peak(self) -> dict[str, float]:
        """Return the sample with the highest sum: MB of each group and `total`."""
        with_totals = [
            row | {"total": sum(v for k, v in row.items() if k != "at")} for row in self.rows
        ]
        return max(with_totals, key=lambda row: row["total"], default={"total": 0.0})


@dataclass
class StoreSamples:
    """Files, bytes and completed commits of each sink over time, listed from the store."""

    endpoints: Endpoints
    prefix: str  # folder of the pipeline's tables, for example `tour`
    rows: list[dict] = field(default_factory=list)
    completions: dict[str, dict[str, float]] = field(default_factory=dict)

    def take(self) -> None:
        """Take one sample of every sink."""
        for sink in SINKS:
            name = FOLDERS[sink]
            files = size = 0
            commits = self.completions.setdefault(sink, {})
            for entry in store.list_objects(self.endpoints, f"{self.prefix}/{name}/"):
                files += 1
                size += entry.size
                commit = commit_of(entry)
                if commit:
                    commits.setdefault(*commit)
            self.rows.append({"at": time.time(), "sink": sink, "files": files, "bytes": size})


def commit_of(entry: store.StoredObject) -> tuple[str, float] | None:
    """Return the commit that an object completes, and the time at which it became visible.

    Returns:
        For the timeline file of a completed Hudi write, its requested time; for a log entry of a
        file sink, its batch number; both with the completion time (s since 1970). None for any
        other object.
    """
    folder, _, name = entry.key.rpartition("/")
    if folder.endswith("/_spark_metadata"):
        # `9.compact` replaces batch 9 and repeats the older ones; temporary files are not commits.
        batch = name.removesuffix(".compact")
        return (batch, entry.modified.timestamp()) if batch.isdigit() else None
    instant = parse_timeline_key(entry.key)
    ingestion = "deltacommit" if "orders_mor" in entry.key else "commit"
    if instant and instant.completed and instant.action == ingestion:
        return instant.requested, to_seconds(instant.completed)
    return None


def is_compaction(entry: store.StoredObject) -> bool:
    """Return True if an object marks a completed compaction of the MOR table (action `commit`)."""
    instant = parse_timeline_key(entry.key) if "/orders_mor/" in entry.key else None
    return bool(instant and instant.completed and instant.action == "commit")
