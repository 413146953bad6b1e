"""What this lab remembers between two commands: folders, ports and passwords, under LAB_HOME.

Every change happens under one lock file, so two terminals can give commands at once.
"""

import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from secrets import token_hex

from lab_env.errors import LabError
from lab_env.processes.locks import exclusive
from lab_env.settings import settings

# What the lab itself writes into LAB_HOME, except `run`, which holds the lock.
PURGED = (
    "bench",
    "campaign",
    "capstone",
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

# What `secrets` generates; a lab of an earlier version gets those that it lacks.
PASSWORDS = ("s3_access_key", "s3_secret_key", "postgres_password", "cluster_secret")

# The access key of every lab of an earlier version.
PUBLIC_KEY = "lab"

# Marks a folder that the lab made, or found empty: only such a one is ever cleared.
MARKER = ".streaming-lakehouse"


def home() -> Path:
    """The absolute path of LAB_HOME; made, and marked as the lab's, when it is missing.

    Raises:
        LabError: the folder cannot be made or written.
    """
    path = settings().home
    try:
        path.mkdir(parents=True, exist_ok=True)
        if not any(path.iterdir()):
            (path / MARKER).write_text("`lab down --purge` may clear this folder.\n")
    except OSError as error:
        raise LabError(
            f"LAB_HOME={path} cannot be used: {error.strerror}.",
            "set LAB_HOME to a folder that you may write.",
        ) from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise LabError(
            f"LAB_HOME={path} is not writable for you.",
            "set LAB_HOME to a folder that you may write.",
        )
    return path


def folder(name: str, mode: int = 0o755) -> Path:
    """The absolute path of a folder in LAB_HOME, made when it is missing.

    Args:
        name: for example `logs`.
        mode: permissions of a folder made now.
    """
    path = home() / name
    path.mkdir(mode=mode, exist_ok=True)
    return path


def lab_lock():
    """The lock of this LAB_HOME: services start and stop one command at a time."""
    return exclusive(folder("run", 0o700) / "lock")


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read; a reader sees the old text or the new one."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(text)
    os.replace(temporary, path)


def purge_home(folders: Iterable[str]) -> None:
    """Remove what the lab wrote into LAB_HOME, and nothing else that may lie there.

    Args:
        folders: names of the services' folders.

    Raises:
        LabError: the lab did not create LAB_HOME; nothing was removed.
    """
    if not (home() / MARKER).exists():
        raise LabError(
            f"LAB_HOME={home()} held other files before the lab came, so nothing was removed.",
            "remove by hand what you do not need, and set LAB_HOME to a folder of its own.",
        )
    for name in (*PURGED, *folders):
        path = home() / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def read_state() -> dict:
    """The content of `state.json`: by service, its ports and what else it remembers."""
    return _read_json(home() / "state.json")


def update_state(service: str, **values) -> None:
    """Remember values of a service beside those that it remembers already."""
    with lab_lock():
        state = read_state()
        state.setdefault(service, {}).update(values)
        write_private(home() / "state.json", json.dumps(state, indent=2) + "\n")


def new_secret() -> str:
    """192 random bits in characters that no renderer changes, so that a leak is found.

    Of the URL-safe alphabet Markdown makes another text: of two hyphens a dash, for example.
    """
    return token_hex(24)


def secrets() -> dict[str, str]:
    """The generated passwords of this lab, made at first use and kept in a file of mode 0600."""
    path = home() / "secrets.json"
    known = _read_json(path)
    if known.keys() >= {*PASSWORDS}:
        return known
    with lab_lock():
        made = {name: new_secret() for name in PASSWORDS}
        write_private(path, json.dumps(made | _read_json(path)) + "\n")
    return _read_json(path)


def has_public_key() -> bool:
    """Whether this lab's access key is still that of every lab of an earlier version."""
    return _read_json(home() / "secrets.json").get("s3_access_key") == PUBLIC_KEY


def replace_public_key() -> None:
    """Give a lab of an earlier version an access key of its own.

    MinIO and its clients keep the key that they were started with: call it while none runs.
    """
    with lab_lock():
        if has_public_key():
            path = home() / "secrets.json"
            own = _read_json(path) | {"s3_access_key": new_secret()}
            write_private(path, json.dumps(own) + "\n")


def _read_json(path: Path) -> dict:
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except json.JSONDecodeError:
        raise LabError(
            f"{path} is damaged.", f"remove it (rm {path}) and run the command again."
        ) from None
