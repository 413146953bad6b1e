"""What this lab remembers between two commands: folders, ports and passwords, under LAB_HOME.

Every change happens under one lock file, so two terminals can give commands at once.
"""

import fcntl
import json
import os
import secrets as randomness
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab_env.errors import LabError
from lab_env.settings import settings

# All that the lab writes into LAB_HOME, except `run`, which holds the lock.
PURGED = (
    "bench",
    "kafka",
    "kinesis",
    "ledger",
    "lessons",
    "logs",
    "metastore",
    "minio",
    "progress.json",
    "progress.lock",
    "slides",
    "spark",
    "tour",
    "trino",
    "writers",
    "secrets.json",
    "state.json",
)

# Marks a folder that the lab made, or found empty: only such a one is ever cleared.
MARKER = ".streaming-lakehouse"

_held: dict[Path, int] = {}
_threads = threading.RLock()


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
    """A folder of LAB_HOME, made when it is missing.

    Args:
        name: its name, for example `logs`.
        mode: permissions of a folder made now.

    Returns:
        The absolute path.
    """
    path = home() / name
    path.mkdir(mode=mode, exist_ok=True)
    return path


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


@contextmanager
def exclusive(path: Path, on_wait=lambda: None) -> Iterator[None]:
    """Hold a lock file; other processes and threads wait. May be nested in one thread.

    Args:
        path: the lock file; it stays afterwards.
        on_wait: called once when somebody else holds the lock.
    """
    with _threads:
        if path in _held:
            yield
            return
        # Programs started under the lock must not inherit it: os.open is close-on-exec.
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                on_wait()
                fcntl.flock(handle, fcntl.LOCK_EX)
            _held[path] = handle
            yield
        finally:
            _held.pop(path, None)
            os.close(handle)


def lab_lock():
    """The lock of this LAB_HOME: services start and stop one command at a time."""
    return exclusive(folder("run", 0o700) / "lock")


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, in one step.

    Args:
        path: the file.
        text: its new content.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(text)
    os.replace(temporary, path)


def purge_home() -> None:
    """Remove what the lab wrote into LAB_HOME: only names that it knows, in a folder it made.

    Raises:
        LabError: LAB_HOME is a folder of somebody else; nothing was removed.
    """
    if not (home() / MARKER).exists():
        raise LabError(
            f"LAB_HOME={home()} held other files before the lab came, so nothing was removed.",
            "remove by hand what you do not need, and set LAB_HOME to a folder of its own.",
        )
    for name in PURGED:
        path = home() / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def read_state() -> dict:
    """What `state.json` holds: for each service its ports and what it keeps."""
    return _read_json(home() / "state.json")


def update_state(service: str, **values) -> None:
    """Remember values of a service.

    Args:
        service: its name.
        values: what to add to what is remembered.
    """
    with lab_lock():
        state = read_state()
        state.setdefault(service, {}).update(values)
        write_private(home() / "state.json", json.dumps(state, indent=2) + "\n")


def secrets() -> dict[str, str]:
    """The generated passwords of this lab, made at first use and kept in a 0600 file."""
    path = home() / "secrets.json"
    if not path.exists():
        with lab_lock():
            if not path.exists():
                made = {"s3_access_key": "lab", "s3_secret_key": randomness.token_urlsafe(24)}
                write_private(path, json.dumps(made) + "\n")
    return _read_json(path)


def choose_ports(service: str, preferred: dict[str, int]) -> dict[str, int]:
    """Decide the ports of a service that is about to start, and remember them.

    The last choice is kept while the wish is the same and the port is free; a busy port gives the
    next free one.

    Args:
        service: its name.
        preferred: for each of its ports the number from the settings.

    Returns:
        For each of its ports the number to listen on.
    """
    with lab_lock():
        state = read_state()
        known = state.get(service, {})
        others = {
            port
            for name, values in state.items()
            if name != service
            for port in values.get("ports", {}).values()
        }
        chosen: dict[str, int] = {}
        for name, wish in preferred.items():
            first = wish
            if known.get("preferred", {}).get(name) == wish:
                first = known["ports"][name]
            taken = others | set(chosen.values())
            chosen[name] = _free_port(first, wish, taken)
        update_state(service, preferred=preferred, ports=chosen)
        return chosen


def port_is_free(port: int) -> bool:
    """Whether a server could listen on the port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings().bind, port))
        except OSError:
            return False
        return True


def free_port(wish: int) -> int:
    """The wished port, or the next free one.

    Args:
        wish: the port to try first.

    Returns:
        A port that is free now.
    """
    return _free_port(wish, wish, set())


def _free_port(first: int, wish: int, taken: set[int]) -> int:
    last = min(wish + 500, 65536)
    for port in [first, *range(wish, last)]:
        if port not in taken and port_is_free(port):
            return port
    raise LabError(
        f"No port from {wish} to {last - 1} is free on {settings().bind}.",
        "end a program that uses one of them, or set other ports (LAB_..._PORT).",
    )


def _read_json(path: Path) -> dict:
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except json.JSONDecodeError:
        raise LabError(
            f"{path} is damaged.", f"remove it (rm {path}) and run the command again."
        ) from None
