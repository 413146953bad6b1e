"""A second object store on a disk small enough to fill: a tmpfs in its own mount namespace.

It uses no space on this machine's disks and leaves nothing behind, because the namespace disappears
with the store. The user must be allowed to create namespaces.
"""

import contextlib
import subprocess
import tempfile
import time
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import psutil
from botocore.exceptions import BotoCoreError, ClientError

from lab_env.lab.faults.outages import pid_of
from lab_env.platform import store
from lab_env.platform.processes.environment import mark
from lab_env.platform.processes.ports import free_port
from lab_env.platform.processes.system import allows, as_seen_by, environment_of, with_small_disk
from lab_env.platform.processes.tree import kill_processes, process_tree
from lab_env.platform.settings import Endpoints, settings

MEGABYTE = 1024 * 1024
PORTS_ABOVE = 300  # the lab's own servers take the first free port above their preferred one
KEPT_VARIABLES = ("MINIO_ROOT_USER", "MINIO_ROOT_PASSWORD", "MINIO_REGION", "MINIO_UPDATE")


class SmallStore:
    """An object store on a small disk; `disk` is the path of the disk as this process sees it."""

    def __init__(self, endpoints: Endpoints, disk: Path):
        self.endpoints = endpoints
        self._ballast = disk / "ballast"

    def fill(self) -> int:
        """Fill the disk completely; return the number of bytes written."""
        written = 0
        with self._ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                written += file.write(b"x" * MEGABYTE)
        return written

    def make_room(self, seconds: float = 30) -> None:
        """Delete the file written by `fill`, and wait until the store accepts objects again."""
        self._ballast.unlink()
        client, deadline = store.client(self.endpoints), time.monotonic() + seconds
        probe = {"Bucket": self.endpoints.bucket, "Key": "probe"}
        while time.monotonic() < deadline:
            with contextlib.suppress(ClientError, BotoCoreError):
                client.put_object(Body=b"x" * MEGABYTE, **probe)
                client.delete_object(**probe)
                return
            time.sleep(0.2)
        raise TimeoutError("the store has no room although its ballast was deleted")


@contextlib.contextmanager
def small_store(endpoints: Endpoints, megabytes: int = 256) -> Generator[SmallStore | None]:
    """Run a second MinIO of the same version on a small disk while the body runs.

    Yield the store with an empty bucket, or None if this machine does not allow such a disk or the
    store does not start. The lab's own MinIO must be running.
    """
    with tempfile.TemporaryDirectory(prefix="lab-small-store-") as folder:
        disk = Path(folder) / "data"
        disk.mkdir()
        words = with_small_disk(disk, megabytes)
        if not allows(words):
            yield None
            return
        host = endpoints.s3_endpoint.removeprefix("http://").rpartition(":")[0]
        port = free_port(settings().minio_port + PORTS_ABOVE)
        address, console = f"{host}:{port}", f"{host}:{free_port(port + 1)}"
        options = ("--address", address, "--console-address", console)
        process = _start_minio(words, (*options, str(disk)), folder)
        try:
            own = replace(endpoints, s3_endpoint=f"http://{address}")
            ready = _is_ready(own, process)
            yield SmallStore(own, as_seen_by(process.pid, disk)) if ready else None
        finally:
            kill_processes(process_tree(process.pid))
            process.wait(10)


def _start_minio(
    words: tuple[str, ...], arguments: tuple[str, ...], folder: str
) -> subprocess.Popen:
    minio = psutil.Process(pid_of("minio"))
    variables = environment_of(minio)
    kept = {name: variables[name] for name in KEPT_VARIABLES if name in variables}
    return subprocess.Popen(
        [*words, minio.exe(), "server", *arguments],
        cwd=folder,
        env={"HOME": folder, **kept, **mark()},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _is_ready(endpoints: Endpoints, process: subprocess.Popen, seconds: float = 20) -> bool:
    """Create the bucket; return False if the store exits or does not respond."""
    deadline = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < deadline:
        try:
            store.client(endpoints).create_bucket(Bucket=endpoints.bucket)
            return True
        except (ClientError, BotoCoreError):
            time.sleep(0.2)
    return False
