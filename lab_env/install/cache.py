"""The cache: what set-up fetched or built, shared by all clones of this machine.

Each entry is made in `partial/` and moved to its place in one step. So an entry is complete or
absent, and a killed set-up goes on where it stopped.
"""

import os
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from lab_env.errors import LabError
from lab_env.processes.locks import exclusive
from lab_env.settings import settings

Progress = Callable[[str], None]  # receives one line of progress at a time


def cache() -> Path:
    """The absolute path of LAB_CACHE; made when it is missing.

    Raises:
        LabError: the folder cannot be made.
    """
    path = settings().cache
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LabError(
            f"LAB_CACHE={path} cannot be used: {error.strerror}.",
            "set LAB_CACHE to a folder that you may write.",
        ) from None
    return path


def cache_lock(report_progress: Progress = print) -> AbstractContextManager[None]:
    """The lock of the cache: one set-up at a time, whatever clone it runs in."""
    return exclusive(
        cache() / "lock", lambda: report_progress("another set-up is running; waiting for it")
    )


def partial_folder(name: str) -> Path:
    """An empty folder in which a cache entry is made."""
    folder = cache() / "partial" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def move_into_place(partial: Path, target: Path) -> None:
    """Make a finished folder the cache entry, in one step."""
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(partial, target)


def clear_partial() -> None:
    """Remove unfinished entries: only a set-up that goes on after a failure would use them."""
    shutil.rmtree(cache() / "partial", ignore_errors=True)
