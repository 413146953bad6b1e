"""Starts, calls, watches and kills the process of the learner's functions."""

import atexit
import contextlib
import json
import linecache
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import psutil

from lab_env.lab.faults.freeze import frozen
from lab_env.pipeline.handle import lesson_environment
from lab_env.platform import store
from lab_env.platform.errors import LabError
from lab_env.platform.jvm import explained
from lab_env.platform.processes import supervisor
from lab_env.platform.processes.environment import clean_environment, mark_of_lesson
from lab_env.platform.processes.tree import jvm_below, kill_processes, process_tree
from lab_env.platform.settings import Endpoints
from lab_env.tables.hudi.timeline import parse_data_name, parse_timeline_key

POLL_S = 0.02  # between two listings of the store
CALL_SECONDS = 900.0  # limit of one call
SETTLED_S = 0.3  # a frozen process may still have a request in flight
DATA_WRITES = ("commit", "deltacommit", "replacecommit")


class JobFailed(Exception):
    """The learner's job raised an error, ended or took too long; the message has the details."""


@dataclass(frozen=True)
class PendingWrite:
    """A write that was requested but is not complete."""

    table: str  # path of its table
    requested: str  # its instant
    action: str  # one of `DATA_WRITES`
    data: int  # number of the instant's data files in the store


class JobProcess:
    """A process with its own Spark session that runs the learner's functions.

    Resetting the lesson's namespace also ends it.

    Args:
        package: the package whose module `worker` runs in the process, for example
            `lab_env.lessons.capstone`. The log has the name of the package's last part.
        call_seconds: limit of one call.
        number: of several processes; each has a log of its own.
    """

    def __init__(
        self,
        endpoints: Endpoints,
        namespace: str,
        package: str,
        call_seconds: float = CALL_SECONDS,
        number: int = 0,
    ):
        self.endpoints = endpoints
        self.call_seconds = call_seconds
        name = package.rpartition(".")[2] + (f"-{number}" if number else "")
        self.log = supervisor.log_path(name)
        with self.log.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"{package}.worker"],
                env=clean_environment() | lesson_environment(endpoints) | mark_of_lesson(namespace),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        atexit.register(self.kill)
        self._replies: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()
        self._ready = False
        self._spent = 0.0
        self._folder = tempfile.TemporaryDirectory(prefix=f"{name}-")

    @property
    def alive(self) -> bool:
        """True if both the process and its JVM are running."""
        return self._process.poll() is None and (not self._ready or self.jvm is not None)

    @property
    def busy(self) -> bool:
        """True until the reply to the task started last has come, or the process has ended."""
        return self._replies.empty()

    @property
    def jvm(self) -> psutil.Process | None:
        """The process's JVM; None if there is none."""
        return jvm_below(self._process.pid)

    def cpu_seconds(self) -> float:
        """Return the CPU seconds that the process and its JVM have used so far."""
        if self._process.poll() is None:
            self._spent = 0.0
            for process in process_tree(self._process.pid):
                with contextlib.suppress(psutil.Error):
                    self._spent += sum(process.cpu_times()[:2])
        return self._spent

    def call(self, task: str, **arguments) -> dict:
        """Run a task in the process; return its reply, or raise `JobFailed`."""
        self.begin(task, **arguments)
        return self.finish()

    def load(self, job: bytes) -> None:
        """Load functions pickled by `packing.pack`, replacing those loaded earlier."""
        path = Path(self._folder.name) / "job"
        path.write_bytes(job)
        self.call("load", job=str(path))

    def fetch(self, task: str, **arguments) -> Any:
        """Run a task in the process that returns its result in a file, for example tables."""
        path = Path(self._folder.name) / "result"
        self.call(task, target=str(path), **arguments)
        return pd.read_pickle(path)

    def begin(self, task: str, **arguments) -> None:
        """Start a task without waiting for it."""
        if not self._ready:
            self._reply()
            self._ready = True
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps({"task": task} | arguments) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def finish(self) -> dict:
        """Wait for the task started last; return its reply, or raise `JobFailed`."""
        reply = self._reply()
        if "error" in reply:
            raise JobFailed(describe_failure(reply))
        return reply

    def kill_in_mid_write(self, base: str, table: str = "", data: int = 0) -> PendingWrite | None:
        """Kill the process while a write is requested but not complete.

        Args:
            table: path of the table to watch; by default, any table.
            data: minimum number of data files that the write must have stored.

        Returns:
            The write; None if the task ended before it could be killed.
        """
        known = {write.requested for write in pending_writes(self.endpoints, base, set())}
        known |= completed_writes(self.endpoints, base)

        def look() -> list[PendingWrite]:
            pending = pending_writes(self.endpoints, base, known)
            return [w for w in pending if table in ("", w.table) and w.data >= data]

        while self.busy:
            if look():
                jvm = self.jvm
                if jvm is None:
                    return None
                with contextlib.suppress(psutil.NoSuchProcess), frozen(jvm.pid):
                    if still := self._settled(look):
                        self.kill()
                        return still[0]
            time.sleep(POLL_S)
        return None

    def kill(self) -> None:
        """Kill the process and its JVM (SIGKILL), and wait until both have ended."""
        self.cpu_seconds()
        if self._process.poll() is None:
            kill_processes(process_tree(self._process.pid))
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)

    def _settled(self, look: Callable[[], list]) -> list:
        before, now = None, look()
        while now != before:
            time.sleep(SETTLED_S)
            before, now = now, look()
        return now

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._replies.put(line)
        self._replies.put("")
        self._process.wait()
        atexit.unregister(self.kill)  # there is nothing left to kill

    def _reply(self) -> dict:
        try:
            line = self._replies.get(timeout=self.call_seconds)
        except queue.Empty:
            self.kill()
            raise JobFailed(f"It did not end within {self.call_seconds:.0f} s.") from None
        if not line:
            raise self._ended()
        return json.loads(line)

    def _ended(self) -> JobFailed:
        self._process.wait(10)
        return JobFailed(
            f"Its process ended by itself, with exit status {self._process.returncode}. "
            + explained("", self.log)
            + _last_line(self.log)
        )


def objects_below(endpoints: Endpoints, base: str) -> Iterator[store.StoredObject]:
    """List the objects below a folder."""
    return store.list_objects(endpoints, store.key_of(base) + "/")


def pending_writes(endpoints: Endpoints, base: str, known: set[str]) -> list[PendingWrite]:
    """Return the requested but incomplete writes to tables below a folder, oldest first."""
    keys = [found.key for found in objects_below(endpoints, base)]
    begun: dict[tuple[str, str], str] = {}
    complete = set()
    for key in keys:
        instant = parse_timeline_key(key)
        if instant is None or instant.action not in DATA_WRITES or instant.requested in known:
            continue
        table = key.partition("/.hoodie/")[0]
        begun[instant.requested, table] = instant.action
        if instant.completed:
            complete.add((instant.requested, table))
    names = (parse_data_name(key.rpartition("/")[2]) for key in keys if "/.hoodie/" not in key)
    written = [name.instant for name in names if name is not None]
    return [
        PendingWrite(
            f"s3a://{endpoints.bucket}/{table}", requested, action, written.count(requested)
        )
        for (requested, table), action in sorted(begun.items())
        if (requested, table) not in complete
    ]


def completed_writes(endpoints: Endpoints, base: str) -> set[str]:
    """Return the requested times of all completed writes to tables below a folder."""
    instants = (parse_timeline_key(found.key) for found in objects_below(endpoints, base))
    return {instant.requested for instant in instants if instant and instant.completed}


def tables_below(endpoints: Endpoints, base: str) -> list[str]:
    """Return the paths of all Hudi tables below a folder, except metadata tables."""
    mark = "/.hoodie/hoodie.properties"
    return sorted(
        f"s3a://{endpoints.bucket}/{key.removesuffix(mark)}"
        for key in (found.key for found in objects_below(endpoints, base))
        if key.endswith(mark) and "/.hoodie/metadata/" not in key
    )


def largest_table(endpoints: Endpoints, base: str) -> str:
    """Return the path of the Hudi table below a folder that has the most bytes of data."""
    sizes = dict.fromkeys(tables_below(endpoints, base), 0)
    for found in objects_below(endpoints, base):
        if "/.hoodie/" not in found.key:
            for table in sizes:
                if found.key.startswith(store.key_of(table) + "/"):
                    sizes[table] += found.size
    return max(sizes, key=lambda table: sizes[table], default="")


def describe_failure(reply: dict) -> str:
    """Describe a failure in one or two sentences, with the line of the learner's own code."""
    if reply["readable"]:
        return reply["why"]
    text = f"{reply['error']}: {reply['why']}".rstrip(".")
    for file, number, name in reversed(reply["frames"]):
        if line := linecache.getline(file, number).strip():
            return f"{text}. It was raised in `{name}`: `{line}`"
    return f"{text}."


def _last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if "Exception" in line or "Error" in line]
    return f" Its log: {errors[-1][:300]}" if errors else ""


def check_services(endpoints: Endpoints) -> None:
    """Raise a LabError unless the object store responds."""
    try:
        next(store.list_objects(endpoints, "is-the-store-there/"), None)
    except Exception as error:
        raise LabError(f"The object store does not answer: {error}", "run: lab up") from None
