"""The cache: everything set-up fetched or built, shared by all clones on this machine.

Each entry is built in `partial/` and moved to its place in one step, so a killed set-up leaves no
half-built entry and can be started again.
"""

import os
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from lab_env.platform.errors import LabError
from lab_env.platform.processes.locks import exclusive
from lab_env.platform.settings import settings

Progress = Callable[[str], None]  # receives one line of progress at a time


def cache() -> Path:
    """Absolute path of LAB_CACHE, created if missing."""
    path = settings().cache
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LabError(
            f"LAB_CACHE={path} cannot be used: {error.strerror}.",
            "set LAB_CACHE to a folder that you can write to.",
        ) from None
    return path


def is_writable() -> bool:
    """True if this user can add to the cache."""
    return os.access(cache(), os.W_OK)


def cache_lock(report_progress: Progress = print) -> AbstractContextManager[None]:
    """Lock the cache: only one set-up runs at a time, even from several clones.

    A cache that this user cannot write to, such as that of a class, is as it was set up.
    """
    if not is_writable():
        return nullcontext()
    return exclusive(
        cache() / "lock", lambda: report_progress("another set-up is running; waiting for it")
    )


def partial_folder(name: str) -> Path:
    """Create an empty folder in which to build a cache entry."""
    folder = cache() / "partial" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def move_into_place(partial: Path, target: Path) -> None:
    """Move a finished folder to its place in the cache, in one step."""
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(partial, target)


def clear_partial() -> None:
    """Remove unfinished entries; only the next run of an interrupted set-up could use them."""
    shutil.rmtree(cache() / "partial", ignore_errors=True)
