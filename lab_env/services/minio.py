"""MinIO, the object store that holds every table and checkpoint."""

import urllib.error
import urllib.request

from lab_env.errors import LabError
from lab_env.install.cache import Progress
from lab_env.install.go_build import build_program
from lab_env.processes.state import folder, secrets
from lab_env.processes.supervisor import Program
from lab_env.services.base import NotReady, Service
from lab_env.services.minio_program import find_minio
from lab_env.settings import settings


class MinIO(Service):
    """The S3 endpoint of the lab, with its web console."""

    name = "minio"
    has_login = True
    variables = "LAB_S3_ENDPOINT, LAB_S3_ACCESS_KEY, LAB_S3_SECRET_KEY and LAB_S3_BUCKET"

    @property
    def title(self) -> str:
        """Another store need not be a MinIO."""
        return "The S3 store" if self.external else "MinIO"

    def preferred_ports(self) -> dict[str, int]:
        """The S3 API and the web console."""
        return {"api": settings().minio_port, "console": settings().minio_console_port}

    def external_address(self) -> str:
        """LAB_S3_ENDPOINT."""
        return settings().s3_endpoint

    def fetch(self, report_progress: Progress) -> None:
        """Build MinIO, unless this machine has one that is new enough."""
        if find_minio() is None:
            build_program(self.name, report_progress)

    def program(self, ports: dict[str, int]) -> Program:
        """MinIO on one folder of LAB_HOME."""
        found = find_minio()
        if found is None:
            raise LabError("MinIO is not here yet.", "run: make setup")
        keys = secrets()
        place = folder("minio")
        # Paths are relative to the working folder: MinIO gives braces and dots in a path a meaning.
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
            cwd=place,
        )

    def check(self) -> None:
        """Ask its health address."""
        try:
            # Without the proxy variables: they are not for servers of this machine.
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(f"{self.address()}/minio/health/ready", timeout=2):
                pass
        except urllib.error.HTTPError as error:
            if not self.external:  # another store may have no such address; it answered, though
                raise NotReady(f"its health address says {error.code}") from None
        except OSError as error:
            raise NotReady(f"it does not answer ({error})") from None

    def probe(self) -> None:
        """Ask its health address, then open the bucket with our keys; make it when missing."""
        self.check()
        from botocore.exceptions import BotoCoreError, ClientError

        from lab_env.store import s3_client  # boto3 takes half a second to import

        try:
            _ensure_bucket(s3_client(*credentials(), settings().s3_region))
        except ClientError as error:
            code = error.response["ResponseMetadata"].get("HTTPStatusCode")
            if code in (401, 403):
                why = f"it refuses these keys for the bucket {settings().s3_bucket} ({code})"
                raise NotReady(why) from None
            raise NotReady(str(error)) from None
        except BotoCoreError as error:
            raise NotReady(str(error)) from None

    def address(self) -> str:
        """The S3 endpoint."""
        return self.external_address() or f"http://{settings().client_host}:{self.port('api')}"

    def links(self) -> dict[str, str]:
        """The web console."""
        if self.external:
            return {}
        return {"MinIO console": f"http://{settings().client_host}:{self.port('console')}"}


def _ensure_bucket(client) -> None:
    from botocore.exceptions import ClientError

    bucket = settings().s3_bucket
    try:
        client.head_bucket(Bucket=bucket)
    except ClientError as error:
        if error.response["Error"]["Code"] != "404":
            raise
        client.create_bucket(Bucket=bucket, **_location(settings().s3_region))


def _location(region: str) -> dict:
    """Where S3 is to make a bucket: it wants to be told, except in the first of its regions."""
    if region == "us-east-1":
        return {}
    return {"CreateBucketConfiguration": {"LocationConstraint": region}}


def credentials() -> tuple[str, str, str]:
    """Endpoint, access key and secret key of the object store in use."""
    if settings().s3_endpoint:
        keys = settings().s3_access_key, settings().s3_secret_key
    else:
        keys = secrets()["s3_access_key"], secrets()["s3_secret_key"]
    return (MinIO().address(), *keys)
