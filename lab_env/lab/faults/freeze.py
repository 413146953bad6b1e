"""Freeze or kill a process and its children."""

import contextlib
from collections.abc import Generator

import psutil

from lab_env.platform.processes.tree import kill_processes, process_tree


@contextlib.contextmanager
def frozen(pid: int) -> Generator[None]:
    """Freeze a process tree (SIGSTOP) while the body runs, then continue it (SIGCONT).

    From outside, the program seems to hang: it is alive and its sockets accept connections, but it
    does nothing. A frozen program can be killed.
    """
    psutil.Process(pid).suspend()  # first, so that it cannot start another process
    tree = process_tree(pid)
    try:
        for process in tree[1:]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.suspend()
        yield
    finally:
        for process in tree:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()


def kill(pid: int) -> None:
    """Kill a process tree (SIGKILL), as a machine crash would, and wait until it has ended."""
    kill_processes(process_tree(pid))
