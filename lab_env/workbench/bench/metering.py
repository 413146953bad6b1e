"""Meters a worker's task: time, processor time of worker and MinIO, requests and bytes."""

import time
from dataclasses import dataclass

from lab_env.platform.processes import supervisor
from lab_env.tables.probes.bucket_usage import BucketUsage
from lab_env.workbench.bench.worker_client import WorkerClient


@dataclass(frozen=True)
class ResourceUsage:
    """Resources used by a task, or since the processes started."""

    seconds: float
    cpu_seconds: float
    store_cpu_seconds: float
    bucket: BucketUsage

    def __sub__(self, earlier: "ResourceUsage") -> "ResourceUsage":
        return ResourceUsage(
            round(self.seconds - earlier.seconds, 4),
            round(self.cpu_seconds - earlier.cpu_seconds, 4),
            round(self.store_cpu_seconds - earlier.store_cpu_seconds, 4),
            self.bucket - earlier.bucket,
        )


class Meter:
    """Meters the tasks of one worker."""

    def __init__(self, worker: WorkerClient):
        self._worker = worker
        self._minio = supervisor.processes_of("minio")[0]

    def call(self, task: str, **arguments) -> tuple[dict, ResourceUsage]:
        """Run a task; return the worker's reply and the resources used."""
        before = self.read()
        reply = self._worker.call(task, **arguments)
        return reply, self.read() - before

    def read(self) -> ResourceUsage:
        """Return the resources used since the processes started."""
        return ResourceUsage(
            time.monotonic(),
            self._worker.cpu_seconds(),
            sum(self._minio.cpu_times()[:2]),
            self._worker.bucket.usage(),
        )
