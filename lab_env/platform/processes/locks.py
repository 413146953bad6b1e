"""Lock files for work that only one process, and one thread of it, may do at a time."""

import errno
import fcntl
import os
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from lab_env.platform.errors import LabError

NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)

# `flock` excludes other processes, but not other threads of this one: they take turns at a thread
# lock of the same path.
_thread_locks: dict[Path, threading.RLock] = {}
_held: set[Path] = set()


@contextmanager
def exclusive(path: Path, on_wait: Callable[[], None] = lambda: None) -> Generator[None]:
    """Hold a lock file; other processes and threads wait. The same thread may take it again.

    `on_wait` is called once if another process holds the lock. The file is not removed.
    """
    with _thread_locks.setdefault(path, threading.RLock()):
        if path in _held:
            yield
            return
        # Programs started under the lock must not inherit it: os.open is close-on-exec.
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if not _lock(handle, path, fcntl.LOCK_EX | fcntl.LOCK_NB):
                on_wait()
                _lock(handle, path, fcntl.LOCK_EX)
            _held.add(path)
            yield
        finally:
            _held.discard(path)
            os.close(handle)


def wait_until_free(path: Path, on_wait: Callable[[], None]) -> None:
    """Wait until no other process holds a lock file, and call `on_wait` every second meanwhile."""
    while not is_free(path):
        on_wait()
        time.sleep(1)


def is_free(path: Path) -> bool:
    """True if no other process holds a lock file; it is created if missing."""
    if path in _held:
        return True
    with path.open("a") as file:
        return _lock(file.fileno(), path, fcntl.LOCK_SH | fcntl.LOCK_NB)


def _lock(handle: int, path: Path, kind: int) -> bool:
    """Lock an open file; return False if another process holds its lock."""
    try:
        fcntl.flock(handle, kind)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        raise LabError(
            f"The file system of {path.parent} has no file locks.",
            "set LAB_HOME, LAB_CACHE and, if you use it, LAB_PROGRESS to a local disk.",
        ) from None
    return True
