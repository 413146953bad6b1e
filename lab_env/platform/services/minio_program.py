"""Find the MinIO to run: LAB_MINIO_BINARY, a `minio` on PATH that works, or set-up's own build.

A `minio` on PATH may be anything, so its version text is not enough: it must first serve a bucket
from a temporary folder. The result is kept until that file changes.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from lab_env.platform.errors import LabError
from lab_env.platform.install.cache import cache
from lab_env.platform.install.go_build import built_program
from lab_env.platform.install.versions import versions
from lab_env.platform.processes.environment import clean_environment
from lab_env.platform.processes.state import write_private
from lab_env.platform.settings import settings, without_credentials

START_TIMEOUT_S = 20
BUCKET, KEY = "trial", "object"


@dataclass(frozen=True)
class MinioProgram:
    """A MinIO that the lab can run."""

    path: Path
    origin: str  # LAB_MINIO_BINARY, PATH or set-up


def find_minio() -> MinioProgram | None:
    """Find the MinIO to run; None if there is none.

    Raises:
        LabError: the file in LAB_MINIO_BINARY is not a program.
    """
    chosen = settings().minio_binary
    if chosen:
        if not (chosen.is_file() and os.access(chosen, os.X_OK)):
            raise LabError(
                f"LAB_MINIO_BINARY={chosen} is not a program.",
                "set it to a MinIO program, or unset it.",
            )
        return MinioProgram(chosen, "LAB_MINIO_BINARY")
    on_path = minio_on_path()
    if on_path and not objection(on_path):
        return MinioProgram(on_path, "PATH")
    built = built_program("minio")
    return MinioProgram(built, "set-up") if built.exists() else None


def minio_on_path() -> Path | None:
    """The `minio` on PATH, whether it works or not."""
    found = shutil.which("minio")
    return Path(found) if found else None


def objection(program: Path, again: bool = False) -> str:
    """Reason why the lab does not use a `minio` on PATH; empty if it does.

    Args:
        again: repeat the trial if it failed before.
    """
    oldest = versions()["go"]["minio"]["oldest_release"]
    facts = program.stat()
    tried = [str(program), facts.st_mtime_ns, facts.st_size, oldest]
    result = cache() / "path-minio.json"
    try:
        kept = json.loads(result.read_text())
    except (OSError, ValueError):
        kept = {}
    why = kept.get("objection", "")
    if kept.get("tried") != tried or (again and why):
        why = _too_old(program, oldest) or _failure(program)
        with contextlib.suppress(PermissionError):  # the cache of a class
            write_private(result, json.dumps({"tried": tried, "objection": why}))
    return why


def _too_old(program: Path, oldest: str) -> str:
    try:
        answer = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=10
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return "it does not print its version"
    release = re.search(r"RELEASE\.(\d{4}-\d{2}-\d{2})T", answer)
    if release is None:
        return "its version names no release"
    return "" if release[1] >= oldest else f"its release of {release[1]} is older than {oldest}"


def _failure(program: Path) -> str:
    """Reason why the program fails to serve a temporary folder; empty if it succeeds."""
    from lab_env.platform.store import s3_client  # imports boto3: half a second

    address = "127.0.0.1", 0
    with socket.create_server(address) as first, socket.create_server(address) as second:
        api, console = (f"127.0.0.1:{server.getsockname()[1]}" for server in (first, second))
    options = ["--address", api, "--console-address", console, "--certs-dir", "certificates"]
    user, password = "trial", os.urandom(12).hex()
    inherited = without_credentials(clean_environment())
    own = {name: value for name, value in inherited.items() if not name.startswith("MINIO_")}
    own |= {"MINIO_ROOT_USER": user, "MINIO_ROOT_PASSWORD": password, "MINIO_UPDATE": "off"}
    with tempfile.TemporaryDirectory(prefix="lab-minio-") as folder:
        try:
            process = subprocess.Popen(
                [program, "server", *options, "data"],
                cwd=folder,
                env=own,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            return f"it does not start ({error.strerror})"
        try:
            client = s3_client(f"http://{api}", user, password, "us-east-1")
            return _wait_for_bucket(process, client) or _wrong_answer(client)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait_for_bucket(process: subprocess.Popen, client) -> str:
    """Create the bucket as soon as the store allows it; return the reason for a failure, or ''."""
    from botocore.exceptions import BotoCoreError, ClientError

    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            return "it exits immediately instead of serving a folder"
        with contextlib.suppress(ClientError, BotoCoreError):
            client.create_bucket(Bucket=BUCKET)
            return ""
        time.sleep(0.05)
    return f"it makes no bucket within {START_TIMEOUT_S} s"


def _wrong_answer(client) -> str:
    """Test that a store writes, lists and honours If-None-Match; return its defect, or ''."""
    from botocore.exceptions import BotoCoreError, ClientError

    def put(body: bytes) -> None:
        client.put_object(Bucket=BUCKET, Key=KEY, Body=body, IfNoneMatch="*")

    try:
        put(b"first")
        listed = client.list_objects_v2(Bucket=BUCKET).get("Contents", [])
        if [entry["Key"] for entry in listed] != [KEY]:
            return "it does not list the object that was written"
    except (ClientError, BotoCoreError) as error:
        return f"it cannot write and list an object ({error})"
    try:
        put(b"second")
    except ClientError as error:
        refused = error.response["ResponseMetadata"].get("HTTPStatusCode") == 412
        return "" if refused else f"it fails at a conditional write ({error})"
    except BotoCoreError as error:
        return f"it fails at a conditional write ({error})"
    return "it ignores If-None-Match and overwrites the object"
