"""Find a streaming writer's JVM and unfinished batches, and kill the JVM during a batch."""

import time

import psutil

from lab_env.lab.faults.freeze import frozen
from lab_env.pipeline.checkpoint import read_checkpoint
from lab_env.pipeline.handle import Writer
from lab_env.pipeline.layout import checkpoint_path
from lab_env.pipeline.writer import Job
from lab_env.platform.processes.tree import kill_processes
from lab_env.platform.settings import Endpoints


def jvm_of(writer: Writer) -> psutil.Process:
    """Return a running writer's JVM, the process that writes tables and checkpoints."""
    (jvm,) = [process for process in writer.processes() if "java" in process.name()]
    return jvm


def open_batches(
    writer: Writer, endpoints: Endpoints, sinks: tuple[str, ...] = ("cow", "mor")
) -> dict[str, int]:
    """Return, by sink, the batch that a writer has planned but not committed.

    Such a batch has an offset file and no commit file in its checkpoint; after a restart Spark
    replays it. Every sink must have planned at least one batch.
    """
    base = Job.load(writer.folder / "job.json").base
    newest = {sink: read_checkpoint(endpoints, checkpoint_path(base, sink))[-1] for sink in sinks}
    return {sink: batch.number for sink, batch in newest.items() if not batch.committed}


def kill_in_mid_batch(
    writer: Writer,
    endpoints: Endpoints,
    sinks: tuple[str, ...] = ("cow", "mor"),
    seconds: float = 60,
) -> dict[str, int]:
    """Kill a writer's JVM while a batch of at least one sink is open, and return the open batches.

    The JVM is frozen for each check, so that the state is unchanged when it is killed. If every
    check finds all batches committed, raise `TimeoutError`. See `open_batches`.
    """
    jvm = jvm_of(writer)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with frozen(jvm.pid):
            time.sleep(0.2)  # the store finishes earlier requests
            if left_open := open_batches(writer, endpoints, sinks):
                kill_processes([jvm])
                return left_open
        time.sleep(0.2)
    raise TimeoutError(f"No batch of {writer.name} was open in {seconds:.0f} s.")
