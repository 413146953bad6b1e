"""Starts the sinks' worker processes and calls their tasks."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor

import psutil

from lab_env.pipeline import session
from lab_env.platform.errors import LabError
from lab_env.platform.install import cds_archive, java
from lab_env.platform.install.jars import jar_folder
from lab_env.platform.jvm import explained
from lab_env.platform.processes import supervisor
from lab_env.platform.processes.environment import clean_environment, mark
from lab_env.platform.processes.tree import end_processes, process_tree, wait_until_ended
from lab_env.tables.probes.bucket_usage import MeteredBucket


class WorkerClient:
    """A worker process and its JVM; see `worker`."""

    def __init__(
        self,
        sink: str,
        bucket: MeteredBucket,
        java_options: str,
        spark: dict[str, str] | None = None,
    ):
        self.sink, self.bucket = sink, bucket
        self._log = supervisor.log_path(f"bench-{sink}")
        told = session.session_environment(
            bucket.endpoints,
            jar_folder("spark"),
            java.java_home(),
            cds_archive.java_options(java_options),
        )
        program = [sys.executable, "-m", "lab_env.workbench.bench.worker"]
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [*program, sink, json.dumps(spark or {})],
                env=clean_environment() | mark() | told,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._tree = [psutil.Process(self._process.pid)]

    def wait(self) -> None:
        """Wait until the worker has its Spark session."""
        self._reply()
        self._tree = process_tree(self._process.pid)

    def call(self, task: str, **arguments) -> dict:
        """Run a task in the worker; return its reply."""
        try:
            self._process.stdin.write(json.dumps({"task": task} | arguments) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None
        return self._reply()

    def cpu_seconds(self) -> float:
        """Return the processor time of the driver and its JVM since their start."""
        return sum(sum(process.cpu_times()[:2]) for process in self._tree)

    def ask_to_exit(self) -> None:
        """Ask the worker to exit after its current task; do not wait."""
        with contextlib.suppress(BrokenPipeError):  # it ended before it read its last task
            self._process.stdin.close()

    def stop(self) -> None:
        """Stop the worker, and wait until its JVM has ended, too."""
        self.ask_to_exit()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(15)
        end_processes(wait_until_ended(self._tree, 15))

    def _reply(self) -> dict:
        line = self._process.stdout.readline()
        if not line:
            raise self._ended()
        reply = json.loads(line)
        if "error" in reply:
            raise LabError(f"The {self.sink} sink failed: {reply['error']}", f"read {self._log}")
        return reply

    def _ended(self) -> LabError:
        tail = supervisor.log_tail(f"bench-{self.sink}")
        what = explained(f"The process of the {self.sink} sink ended.", self._log)
        return LabError(what, f"read {self._log}", tail)


@contextlib.contextmanager
def running_workers(
    buckets: dict[str, MeteredBucket], java_options: str, spark: dict[str, dict[str, str]]
) -> Generator[dict[str, WorkerClient]]:
    """Start each sink's worker and create its bucket; at the end stop and remove both.

    Args:
        buckets: each sink's bucket.
        spark: additional Spark properties of each sink's session.
    """
    with contextlib.ExitStack() as cleanup:
        workers = {}
        for sink, bucket in buckets.items():
            cleanup.callback(bucket.remove)
            bucket.make()
            workers[sink] = WorkerClient(sink, bucket, java_options, spark[sink])
            cleanup.callback(workers[sink].stop)
        for worker in workers.values():
            cleanup.callback(worker.ask_to_exit)  # runs before `stop`, so that all exit together
        in_parallel(WorkerClient.wait, workers.values())
        yield workers


def in_parallel(task, items) -> list:
    """Call a function with each item, each in its own thread; return the results in order."""
    items = list(items)
    with ThreadPoolExecutor(len(items)) as pool:
        return list(pool.map(task, items))
