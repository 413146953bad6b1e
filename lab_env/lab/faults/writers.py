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
    """Return the batches that a writer has planned but not committed, according to its checkpoints.

    Such a batch has an offset file and no commit file. After a restart Spark replays it.

    Args:
        sinks: the sinks to check; each must have planned a batch.

    Returns:
        Batch number by sink; sinks whose newest batch is committed are left out.
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
    """Kill a writer's JVM while a batch of at least one sink is planned and not committed.

    The JVM is frozen for each check, so that the state is unchanged when it is killed.

    Args:
        writer: a running writer; each of the sinks must have planned a batch.

    Returns:
        Number of the uncommitted batch, by sink.

    Raises:
        TimeoutError: every check found all batches committed.
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
