"""Freeze or kill a process and its children."""

import contextlib
import subprocess
from collections.abc import Generator

import psutil

from lab_env.platform.processes.tree import kill_processes, process_tree


@contextlib.contextmanager
def frozen(pid: int, at_most: float | None = None) -> Generator[None]:
    """Freeze a process tree (SIGSTOP) while the body runs, then continue it (SIGCONT).

    From outside, the program seems to hang: it is alive and its sockets accept connections, but it
    does nothing. A frozen program can be killed. After `at_most` seconds it goes on in any case,
    even if the process that froze it was killed.
    """
    psutil.Process(pid).suspend()  # first, so that it cannot start another process
    tree = process_tree(pid)
    with contextlib.ExitStack() as thaw:
        for process in tree:
            thaw.callback(_resume, process)
        if at_most is not None:
            thaw.enter_context(_woken(tree, at_most))
        for process in tree[1:]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.suspend()
        yield


def _resume(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.resume()


@contextlib.contextmanager
def _woken(tree: list[psutil.Process], seconds: float) -> Generator[None]:
    """Continue processes after a time, by another process, which ends with the body."""
    wake = f"sleep {seconds}; kill -CONT {' '.join(str(process.pid) for process in tree)}"
    with subprocess.Popen(["sh", "-c", wake], start_new_session=True) as waker:
        try:
            yield
        finally:
            kill(waker.pid)


def kill(pid: int) -> None:
    """Kill a process tree (SIGKILL), as a machine crash would, and wait until it has ended."""
    kill_processes(process_tree(pid))
