"""Starts, freezes and kills the shop's writer, and discards a dead Spark session."""

import atexit
import contextlib
import io
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil

from lab_env.lab.faults.freeze import frozen
from lab_env.lab.faults.freeze import kill as kill_tree
from lab_env.pipeline.failure import why_failed as why_failed
from lab_env.pipeline.handle import lesson_environment
from lab_env.platform.errors import LabError
from lab_env.platform.processes import supervisor
from lab_env.platform.processes.environment import mark_of_lesson, programs_of_lesson
from lab_env.platform.processes.tree import jvm_below, kill_processes

SLOW_LOOK = 0.5  # seconds between two looks before the first batch is done
# Later the process runs in slices between two looks, and is frozen while it is looked at: a fast
# machine cannot slip through. Seconds, before and after there is a marker of the next write.
LONG_SLICE, SHORT_SLICE = 0.15, 0.03
SETTLED_LOOKS, SETTLED_EVERY, SETTLED_WITHIN = 3, 0.25, 30  # equal looks, seconds, seconds


class WriterProcess:
    """A Python program with a Spark session, started by a notebook; `log` is its output file."""

    def __init__(self, process: subprocess.Popen, log: Path):
        self.process = process
        self.log = log
        self._frozen = ExitStack()
        self._jvm: psutil.Process | None = None

    @property
    def jvm(self) -> psutil.Process | None:
        """The JVM, which does all work on table and checkpoint; None if there is none yet."""
        if self._jvm is None:
            self._jvm = jvm_below(self.process.pid)
        return self._jvm

    def freeze_when(
        self, look: Callable[[], Any], condition: Callable[[Any], bool], seconds: float = 300
    ) -> Any:
        """Freeze the process as soon as the store is in a given state; return that state.

        Once it has committed a batch, the process runs in short slices, and the store is read only
        while the process is frozen. A frozen process may have requests in flight, so the state is
        accepted only if it still holds once several reads in a row agree; otherwise the process
        resumes. It then stays frozen until it is killed.

        Args:
            look: reads the state, for example with `read_receipts`.
            condition: returns True for the state in which to freeze.

        Raises:
            LabError: the process ended first, or the state was not seen in time.
        """
        deadline, begun, near = time.monotonic() + seconds, False, False
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise self._ended()
            if not begun or self.jvm is None:
                begun = getattr(look(), "commits", 0) >= 0
                time.sleep(0 if begun else SLOW_LOOK)
                continue
            with contextlib.suppress(psutil.NoSuchProcess):
                self._frozen.enter_context(frozen(self.jvm.pid))
                seen = look()
                if condition(seen) and condition(seen := _settled(look)):
                    return seen
                near = getattr(seen, "markers", 1) > 0 and not getattr(seen, "completed", False)
            self._frozen.close()
            time.sleep(SHORT_SLICE if near else LONG_SLICE)
        raise LabError(
            f"The writer came to no such moment in {seconds:.0f} s.",
            f"look at its log: {self.log}",
        )

    def kill(self) -> None:
        """Kill the JVM and the process (SIGKILL), frozen or not, and wait until both have ended."""
        if self._jvm is not None:  # first: it must not go on when its parent is gone
            kill_processes([self._jvm])
        if self.process.poll() is None:  # later its number may belong to another process
            kill_tree(self.process.pid)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
        self._frozen.close()

    def _ended(self) -> LabError:
        last = self.log.read_text(errors="replace").strip().splitlines()[-12:]
        return LabError(
            f"The writer ended by itself, with status {self.process.returncode}.",
            "run the lesson from its first cell again.",
            "\n".join(last),
        )


def start_writer(lab, script: Path) -> WriterProcess:
    """Start a Python program as a separate process; it is killed when the notebook's kernel ends.

    First kills any writer left behind by an earlier kernel of this lesson.
    """
    kill_processes(programs_of_lesson(lab.namespace))
    log = supervisor.log_path(f"{lab.namespace}-{script.stem}")
    told = lesson_environment(lab.endpoints) | mark_of_lesson(lab.namespace)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, str(script)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **told},
        )
    writer = WriterProcess(process, log)
    atexit.register(writer.kill)
    return writer


def jvm_of_session() -> subprocess.Popen:
    """Return the process of this notebook's Spark JVM."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    return gateway.proc


def last_error(lab, text: str) -> str:
    """Return the last line of the lesson's Spark log that contains a text; empty if none does."""
    lines = lab.spark_log.read_text(errors="replace").splitlines()
    return next((line.strip() for line in reversed(lines) if text in line), "")


@contextlib.contextmanager
def without_tracebacks() -> Generator[None]:
    """Hide the errors that Py4J and PySpark write to stderr when a JVM dies during a call.

    The root logger stays at CRITICAL after the body, because Py4J logs again when it later
    releases objects of the dead JVM.
    """
    logging.getLogger().setLevel(logging.CRITICAL)
    with contextlib.redirect_stderr(io.StringIO()):
        yield
        time.sleep(1)  # PySpark's own thread writes a moment later than the call fails


def forget_dead_session(lab) -> None:
    """Forget a Spark session whose JVM has ended, so that `lab.spark` starts a new one.

    Otherwise PySpark would use the dead JVM until the Python process ends. Raises `LabError` if
    the JVM is still running.
    """
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    gateway: Any = SparkContext._gateway
    if gateway is not None and gateway.proc.poll() is None:
        raise LabError("The session is alive.", "stop it with spark.stop().")
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None
    lab._session = None


def _settled(look: Callable[[], Any]) -> Any:
    """Repeat `look` until several results in a row agree or time is up; return the last result."""
    deadline, equal, before = time.monotonic() + SETTLED_WITHIN, 1, look()
    while equal < SETTLED_LOOKS and time.monotonic() < deadline:
        time.sleep(SETTLED_EVERY)
        now = look()
        equal = equal + 1 if now == before else 1
        before = now
    return before
