"""State kept between commands: folders, ports and passwords, under LAB_HOME.

Every change is made under one lock file, so two terminals can run commands simultaneously.
"""

import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from secrets import token_hex

from lab_env.platform.errors import LabError
from lab_env.platform.processes.locks import exclusive
from lab_env.platform.settings import settings

# The lab's own files in LAB_HOME, except `run`, which holds the lock.
PURGED = (
    "bench",
    "campaign",
    "capstone",
    "ladder",
    "ledger",
    "lessons",
    "logs",
    "progress.json",
    "progress.lock",
    "room.json",
    "slides",
    "spark",
    "tmp",
    "tour",
    "writers",
    "secrets.json",
    "state.json",
)

PASSWORDS = ("s3_access_key", "s3_secret_key", "postgres_password", "cluster_secret")

# Marks a folder that the lab created, or found empty: only such a folder is ever cleared.
MARKER = ".streaming-lakehouse"


def home() -> Path:
    """Absolute path of LAB_HOME; if missing, it is created and marked as the lab's."""
    path = settings().home
    try:
        path.mkdir(parents=True, exist_ok=True)
        if not any(path.iterdir()):
            (path / MARKER).write_text("`lab down --purge` may clear this folder.\n")
    except OSError as error:
        raise LabError(
            f"LAB_HOME={path} cannot be used: {error.strerror}.",
            "set LAB_HOME to a folder that you can write to.",
        ) from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise LabError(
            f"You cannot write to LAB_HOME={path}.",
            "set LAB_HOME to a folder that you can write to.",
        )
    return path


def folder(name: str, mode: int = 0o755) -> Path:
    """Absolute path of a folder in LAB_HOME, created with these permissions if missing."""
    path = home() / name
    path.mkdir(mode=mode, exist_ok=True)
    return path


def lab_lock():
    """Lock this LAB_HOME: only one command at a time may start or stop services."""
    return exclusive(folder("run", 0o700) / "lock")


def write_private(path: Path, text: str) -> None:
    """Write a file atomically; only its owner can read it."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(text)
    os.replace(temporary, path)


def purge_home(folders: Iterable[str]) -> None:
    """Remove the lab's files from LAB_HOME, and nothing else.

    If the lab did not create LAB_HOME, raise `LabError` and remove nothing.
    """
    if not (home() / MARKER).exists():
        raise LabError(
            f"LAB_HOME={home()} had other files before the lab used it, so nothing was removed.",
            "remove by hand what you do not need, and set LAB_HOME to a separate folder.",
        )
    for name in (*PURGED, *folders):
        path = home() / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def read_state() -> dict:
    """Content of `state.json`: ports and other values of each service."""
    return _read_json(home() / "state.json")


def update_state(service: str, **values) -> None:
    """Add or replace values that are saved for a service."""
    with lab_lock():
        state = read_state()
        state.setdefault(service, {}).update(values)
        write_private(home() / "state.json", json.dumps(state, indent=2) + "\n")


def new_secret() -> str:
    """Make a secret from 192 random bits.

    It has only characters that no renderer changes, so that a search finds a leaked secret. Two
    hyphens, for example, would become a dash in Markdown.
    """
    return token_hex(24)


def secrets() -> dict[str, str]:
    """Generated passwords of this lab, made at first use and kept in a file of mode 0600."""
    path = home() / "secrets.json"
    if not path.exists():
        with lab_lock():
            if not path.exists():
                made = {name: new_secret() for name in PASSWORDS}
                write_private(path, json.dumps(made) + "\n")
    return _read_json(path)


def _read_json(path: Path) -> dict:
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except json.JSONDecodeError:
        raise LabError(
            f"{path} is damaged.", f"remove it (rm {path}), then run the command again."
        ) from None
