"""Let commands wait for a set-up that runs while JupyterLab is open.

The set-up's lock file belongs to this lab and contains the newest line of progress. The lock is
released when its holder ends, even if it crashes.
"""

from collections.abc import Generator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from lab_env.platform.install.cache import Progress
from lab_env.platform.processes.locks import exclusive, is_free, wait_until_free
from lab_env.platform.processes.state import folder

REPORT_EVERY_S = 10
BEGUN = "it has just started"


@contextmanager
def announced(report_progress: Progress) -> Generator[Progress]:
    """Announce the set-up in the body; yield a progress reporter that other processes can read."""
    lock = _lock_file()

    def report(line: str) -> None:
        report_progress(line)
        lock.write_text(line, encoding="utf-8")

    with exclusive(lock, lambda: report_progress("another set-up is running; waiting for it")):
        lock.write_text(BEGUN)
        yield report


def wait_for_set_up(report_progress: Progress) -> None:
    """Wait until a set-up announced by another process ends, successfully or not."""
    lock, seconds = _lock_file(), count()

    def on_wait() -> None:
        if next(seconds) % REPORT_EVERY_S == 0:
            report_progress(f"set-up is still running: {_newest_line(lock)}")

    wait_until_free(lock, on_wait)


def running_set_up() -> str:
    """Newest progress line of an announced set-up that is running; empty if none is."""
    lock = _lock_file()
    return "" if is_free(lock) else _newest_line(lock)


def _newest_line(lock: Path) -> str:
    # The reader may see a line cut short.
    return lock.read_text(encoding="utf-8") or BEGUN


def _lock_file() -> Path:
    return folder("run", 0o700) / "set-up"
