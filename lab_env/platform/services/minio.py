"""MinIO, the object store that holds every table and checkpoint."""

import shutil
import subprocess
import urllib.error
from collections.abc import Iterator
from pathlib import Path

from lab_env.platform.errors import LabError
from lab_env.platform.install.cache import Progress
from lab_env.platform.install.go_build import build_program
from lab_env.platform.install.versions import versions
from lab_env.platform.processes.state import secrets
from lab_env.platform.processes.supervisor import Program
from lab_env.platform.services.base import Finding, NotReady, Service, open_local
from lab_env.platform.services.minio_program import find_minio, minio_on_path, objection
from lab_env.platform.settings import Endpoints, machine_credentials, settings

LEAST_FREE = 0.01  # of the disk


class MinIO(Service):
    name = "minio"
    port_names = ("api", "console")
    external_setting = "s3_endpoint"
    contents = "tables"
    # It requires keys, but accepts some writes with a forged signature: see versions.toml.
    has_login = False
    variables = (
        "LAB_S3_ENDPOINT, LAB_S3_ACCESS_KEY, LAB_S3_SECRET_KEY, LAB_S3_SESSION_TOKEN and"
        " LAB_S3_BUCKET"
    )

    @property
    def title(self) -> str:  # ty: ignore[incompatible-property-override]: nothing sets a title
        """Name of the store in messages; an external one need not be MinIO."""
        return "The S3 store" if self.external else "MinIO"

    def fetch(self, report_progress: Progress) -> None:
        """Build MinIO, unless this machine has a usable one."""
        if find_minio() is None:
            build_program(self.name, report_progress)

    def program(self, ports: dict[str, int]) -> Program:
        found = find_minio()
        if found is None:
            raise LabError("MinIO is not installed.", "run: make setup")
        if why := disk_refused(self.folder):
            raise LabError(why, "free some space, or set LAB_HOME to a folder on another disk")
        keys = secrets()
        # Paths are relative to the working folder: MinIO interprets braces and dots in a path.
        return Program(
            name=self.name,
            argv=[
                str(found.path),
                "server",
                *("--address", f"{settings().bind}:{ports['api']}"),
                *("--console-address", f"{settings().bind}:{ports['console']}"),
                *("--certs-dir", "certificates"),
                "data",
            ],
            env={
                "MINIO_ROOT_USER": keys["s3_access_key"],
                "MINIO_ROOT_PASSWORD": keys["s3_secret_key"],
                "MINIO_REGION": settings().s3_region,
                "MINIO_UPDATE": "off",
            },
            cwd=self.folder,
        )

    def check(self) -> None:
        try:
            open_local(f"{self.address()}/minio/health/ready").close()
        except urllib.error.HTTPError as error:
            if not self.external:  # an external store may lack this endpoint, but it answered
                raise NotReady(f"its health endpoint answers {error.code}") from None
        except OSError as error:
            raise NotReady(f"it does not answer ({error})") from None

    def probe(self) -> None:
        """Check the store and open the bucket; create it only in the lab's own store."""
        self.check()
        from botocore.exceptions import BotoCoreError, ClientError

        from lab_env.platform.store import client  # imports boto3: half a second

        try:
            _ensure_bucket(client(self._store()), create=not self.external)
        except ClientError as error:
            code, why = error.response["ResponseMetadata"].get("HTTPStatusCode"), str(error)
            if code in (401, 403):
                why = f"it refuses these keys for the bucket {settings().s3_bucket} ({code})"
            raise NotReady(why) from None
        except BotoCoreError as error:
            raise NotReady(str(error)) from None

    def links(self) -> dict[str, str]:
        return {} if self.external else {"MinIO console": self.url("console")}

    def endpoints(self) -> dict[str, str]:
        endpoint, access_key, secret_key = credentials()
        return {
            "s3_endpoint": endpoint,
            "s3_access_key": access_key,
            "s3_secret_key": secret_key,
            "s3_region": settings().s3_region,
            "bucket": settings().s3_bucket,
            "s3_session_token": session_token(),
        }

    def clear(self, namespace: str) -> dict[str, int]:
        """Delete the lesson's folder in the bucket."""
        from lab_env.platform.store import delete_prefix  # imports boto3: half a second

        return {"objects": delete_prefix(self._store(), f"{namespace}/")}

    def _store(self) -> Endpoints:
        return Endpoints(**self.endpoints(), kafka_bootstrap="")

    def diagnose(self) -> Iterator[Finding]:
        """Report the MinIO in use, and the reason why one on PATH is not used."""
        if self.external:
            return
        on_path = minio_on_path()
        if on_path and not settings().minio_binary and (why := objection(on_path, again=True)):
            fact = f"{on_path}, found on PATH, is not used: {why}"
            yield Finding(self.name, "warn", fact, "nothing, or update it, or remove it from PATH")
        found = find_minio()
        if found is None:
            yield Finding(self.name, "fail", "MinIO is not installed", "run: make setup")
            return
        answer = subprocess.run([found.path, "--version"], capture_output=True, text=True)
        if answer.returncode:
            fact, fix = f"{found.path} does not run", "remove it, then run: make setup"
            yield Finding(self.name, "fail", fact, fix)
        elif found.origin == "set-up":
            version = versions()["go"][self.name]["version"]
            yield Finding(self.name, "ok", f"{version} from set-up")
        else:
            version = "".join(answer.stdout.splitlines()[:1])
            yield Finding(self.name, "ok", f"{version} from {found.origin} ({found.path})")


def disk_refused(folder: Path) -> str:
    """Say why MinIO would accept no write on the disk of a folder; empty if it does."""
    total, _, free = shutil.disk_usage(folder)
    if free >= LEAST_FREE * total:
        return ""
    return (
        f"MinIO refuses writes on a disk with less than 1 % free; this one has {free / 1e9:.1f} GB"
    )


def _ensure_bucket(client, create: bool) -> None:
    from botocore.exceptions import ClientError

    bucket = settings().s3_bucket
    try:
        client.head_bucket(Bucket=bucket)
    except ClientError as error:
        if error.response["Error"]["Code"] != "404":
            raise
        if not create:
            # A bucket costs money, and its owner decides its settings.
            raise NotReady(
                f"it has no bucket {bucket}; create it there, or choose another"
            ) from None
        client.create_bucket(Bucket=bucket, **_location(settings().s3_region))


def _location(region: str) -> dict:
    """Location for a new bucket, which S3 requires outside us-east-1."""
    place = {"CreateBucketConfiguration": {"LocationConstraint": region}}
    return {} if region == "us-east-1" else place


def credentials() -> tuple[str, str, str]:
    """Endpoint, access key and secret key of the object store in use; the keys may be empty."""
    if settings().s3_endpoint:
        access, secret = settings().s3_access_key, settings().s3_secret_key
        return MinIO().address(), access.get_secret_value(), secret.get_secret_value()
    return MinIO().address(), secrets()["s3_access_key"], secrets()["s3_secret_key"]


def session_token() -> str:
    """Session token of an external store's keys; empty otherwise."""
    return settings().s3_session_token.get_secret_value() if settings().s3_endpoint else ""


def credentials_as(access_variable: str, secret_variable: str) -> dict[str, str]:
    """Keys as environment variables with these names, for a program that reads the store.

    For a store without keys of its own, these are the machine's AWS variables.
    """
    _, access_key, secret_key = credentials()
    keys = {access_variable: access_key, secret_variable: secret_key}
    if token := session_token():
        keys["AWS_SESSION_TOKEN"] = token
    return keys if access_key else machine_credentials()
