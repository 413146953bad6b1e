"""Requests to one bucket and their bytes, counted exactly by MinIO for all clients together.

The benchmark gives each sink its own bucket and prices the requests as a cloud would.
"""

import base64
import hashlib
import hmac
import json
import time
import urllib.request
from collections import defaultdict
from dataclasses import asdict, dataclass, replace

from botocore.exceptions import ClientError
from prometheus_client.parser import text_string_to_metric_families

from lab_env.platform import store
from lab_env.platform.errors import LabError
from lab_env.platform.settings import Endpoints, settings

METRICS = "/minio/metrics/v3/bucket/api/"  # followed by the name of the bucket
REQUESTS = "minio_bucket_api"  # the parser drops `_total` from the names of counters
TRAFFIC = "minio_bucket_api_traffic_{}_bytes"
PROBE = b"x" * 4321

# A bill has three kinds. Every other request counts as a read, the cheapest kind that is charged.
WRITES = (
    "PutObject",
    "PutObjectPart",
    "CopyObject",
    "NewMultipartUpload",
    "CompleteMultipartUpload",
)
LISTS = ("ListObjectsV1", "ListObjectsV2", "ListObjectVersions", "ListMultipartUploads")
DELETES = ("DeleteObject", "DeleteMultipleObjects", "AbortMultipartUpload")


@dataclass(frozen=True)
class BucketUsage:
    """Requests to a bucket, and their bytes."""

    puts: int = 0  # that write an object or a part of one
    lists: int = 0
    gets: int = 0  # for an object, for a part of it, or for its size and date
    deletes: int = 0  # clouds do not charge for these
    bytes_written: int = 0  # total size of the objects written
    bytes_read: int = 0  # total size of the content sent to readers

    @property
    def requests(self) -> int:
        """Number of all requests."""
        return self.puts + self.lists + self.gets + self.deletes

    def __sub__(self, earlier: "BucketUsage") -> "BucketUsage":
        before = asdict(earlier)
        return BucketUsage(**{name: value - before[name] for name, value in asdict(self).items()})


def usage_in(metrics: str, written: str) -> BucketUsage:
    """Compute a bucket's usage from its metrics.

    Args:
        written: name of the counter of bytes written, `sent` or `received`; it depends on MinIO's
            release.
    """
    kinds = {**dict.fromkeys(WRITES, "puts"), **dict.fromkeys(LISTS, "lists")}
    kinds |= dict.fromkeys(DELETES, "deletes")
    totals: dict[str, float] = defaultdict(float)
    for family in text_string_to_metric_families(metrics):
        for sample in family.samples:
            of_requests = family.name == REQUESTS
            key = kinds.get(sample.labels["name"], "gets") if of_requests else family.name
            totals[key] += sample.value
    read = {"sent": "received", "received": "sent"}[written]
    counters = (
        "puts", "lists", "gets", "deletes", TRAFFIC.format(written), TRAFFIC.format(read)
    )  # fmt: skip
    return BucketUsage(*(int(totals[name]) for name in counters))


class MeteredBucket:
    """A bucket for one sink, whose usage MinIO counts; its name ends with the sink's name."""

    def __init__(self, endpoints: Endpoints, sink: str):
        self.endpoints = replace(endpoints, bucket=f"{endpoints.bucket}-bench-{sink}")
        self._written = ""

    @property
    def name(self) -> str:
        """Name of the bucket, for example `lakehouse-bench-cow`."""
        return self.endpoints.bucket

    def make(self) -> None:
        """Recreate the bucket, and find out which of MinIO's counters counts the bytes written.

        Raises `LabError` if the store has no such metrics.
        """
        self.remove()
        s3 = store.client(self.endpoints)
        s3.create_bucket(Bucket=self.name)
        before = self._metrics()
        s3.put_object(Bucket=self.name, Key="probe/put", Body=PROBE)
        after = self._metrics()
        # Releases of MinIO differ in whether "sent" means sent by the client or by the server.
        for counter in ("sent", "received"):
            grown = usage_in(after, counter).bytes_written - usage_in(before, counter).bytes_written
            if grown == len(PROBE):
                self._written = counter
        if not self._written:
            raise LabError(
                f"The store at {self.endpoints.s3_endpoint} does not count bytes as MinIO does.",
                "run it on the lab's own MinIO: unset LAB_S3_ENDPOINT.",
            )
        self.clear()

    def usage(self) -> BucketUsage:
        """Return the usage since the bucket was created or, if later, MinIO was started."""
        return usage_in(self._metrics(), self._written)

    def clear(self) -> None:
        """Delete all objects."""
        pages = store.client(self.endpoints).get_paginator("list_objects_v2")
        for page in pages.paginate(Bucket=self.name, Delimiter="/"):
            for folder in page.get("CommonPrefixes", ()):
                store.delete_prefix(self.endpoints, folder["Prefix"])

    def remove(self) -> None:
        """Delete the bucket with its objects, if it exists."""
        try:
            self.clear()
            store.client(self.endpoints).delete_bucket(Bucket=self.name)
        except ClientError as error:
            if error.response["Error"]["Code"] != "NoSuchBucket":
                raise

    def _metrics(self) -> str:
        request = urllib.request.Request(
            f"{self.endpoints.s3_endpoint}{METRICS}{self.name}",
            headers={"Authorization": f"Bearer {_token(self.endpoints)}"},
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=5) as answer:
                return answer.read().decode()
        except OSError as error:
            raise LabError(
                f"The store at {self.endpoints.s3_endpoint} does not return metrics ({error}).",
                "run it on the lab's own MinIO: unset LAB_S3_ENDPOINT."
                if settings().s3_endpoint
                else "run: lab status",
            ) from None


def _token(endpoints: Endpoints) -> str:
    """Return a token for MinIO's metrics, signed with the lab's own key (RFC 7519, HS512)."""

    def part(content: bytes) -> bytes:
        return base64.urlsafe_b64encode(content).rstrip(b"=")

    claims = {"exp": int(time.time()) + 600, "sub": endpoints.s3_access_key, "iss": "prometheus"}
    text = part(b'{"alg":"HS512","typ":"JWT"}') + b"." + part(json.dumps(claims).encode())
    signature = hmac.new(endpoints.s3_secret_key.encode(), text, hashlib.sha512).digest()
    return (text + b"." + part(signature)).decode()
