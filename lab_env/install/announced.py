"""A set-up that goes on while JupyterLab is open: what needs its result waits for it.

Its lock file is this lab's own and has the newest line of progress in it. A lock ends with its
holder, however that ends.
"""

from collections.abc import Generator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from lab_env.install.cache import Progress
from lab_env.processes.locks import exclusive, is_free, wait_until_free
from lab_env.processes.state import folder

REPORT_EVERY_S = 10
BEGUN = "it has just begun"


@contextmanager
def announced(report_progress: Progress) -> Generator[Progress]:
    """Let others wait for the set-up of the body; yields what reports its progress to them, too."""
    lock = _lock_file()

    def report(line: str) -> None:
        report_progress(line)
        lock.write_text(line, encoding="utf-8")

    with exclusive(lock, lambda: report_progress("another set-up is running; waiting for it")):
        lock.write_text(BEGUN)
        yield report


def wait_for_set_up(report_progress: Progress) -> None:
    """Wait for an announced set-up of another process to end, whether it succeeds or not."""
    lock, seconds = _lock_file(), count()

    def on_wait() -> None:
        if next(seconds) % REPORT_EVERY_S == 0:
            report_progress(f"set-up is still running: {_newest_line(lock)}")

    wait_until_free(lock, on_wait)


def running_set_up() -> str:
    """The newest line of an announced set-up that runs now; empty if none does."""
    lock = _lock_file()
    return "" if is_free(lock) else _newest_line(lock)


def _newest_line(lock: Path) -> str:
    # A line is cut off before the next one is written.
    return lock.read_text(encoding="utf-8") or BEGUN


def _lock_file() -> Path:
    return folder("run", 0o700) / "set-up"
