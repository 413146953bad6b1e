"""What each sink asks of the store, counted by the store itself: one bucket a sink, MinIO's own metrics.

The counters are exact and there at once, they see every program that uses the bucket, and they tell
requests apart as a cloud's bill does.
"""

import base64
import hashlib
import hmac
import json
import re
import time
import urllib.request
from dataclasses import asdict, dataclass, replace

from botocore.exceptions import ClientError

from lab_env import store
from lab_env.errors import LabError
from lab_env.settings import Endpoints, settings

METRICS = "/minio/metrics/v3/bucket/api/"  # and the bucket
TOTAL = re.compile(r'^minio_bucket_api_total\{.*?name="(\w+)".*\} (\S+)$', re.M)
TRAFFIC = re.compile(r"^minio_bucket_api_traffic_(received|sent)_bytes\{.*\} (\S+)$", re.M)
PROBE = b"x" * 4321

# A bill knows three kinds. What is in none of them is a read, the cheapest that is paid for.
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
class Usage:
    """What was asked of a bucket.

    Args:
        puts: requests that write an object or a part of one.
        lists: requests for a listing.
        gets: requests for an object, a part of it, or its size and date.
        deletes: requests that delete; clouds do not charge for them.
        bytes_written: content of all objects written.
        bytes_read: content sent to readers.
    """

    puts: int = 0
    lists: int = 0
    gets: int = 0
    deletes: int = 0
    bytes_written: int = 0
    bytes_read: int = 0

    def __sub__(self, earlier: "Usage") -> "Usage":
        before = asdict(earlier)
        return Usage(**{name: value - before[name] for name, value in asdict(self).items()})


def usage_in(metrics: str, written: str) -> Usage:
    """The usage that a bucket's metrics tell.

    Args:
        metrics: the text in Prometheus' form.
        written: which of the two traffic counters, `sent` or `received`, counts what is written.
    """
    counts = {"puts": 0, "lists": 0, "gets": 0, "deletes": 0}
    for name, count in TOTAL.findall(metrics):
        kinds = {"puts": WRITES, "lists": LISTS, "deletes": DELETES}
        kind = next((kind for kind, names in kinds.items() if name in names), "gets")
        counts[kind] += int(float(count))
    traffic = {name: int(float(count)) for name, count in TRAFFIC.findall(metrics)}
    other = {"sent": "received", "received": "sent"}[written]
    return Usage(**counts, bytes_written=traffic.get(written, 0), bytes_read=traffic.get(other, 0))


class Bucket:
    """A sink's own bucket.

    Args:
        endpoints: where the store is.
        sink: whose; it is the end of the bucket's name.
    """

    def __init__(self, endpoints: Endpoints, sink: str):
        self.endpoints = replace(endpoints, bucket=f"{endpoints.bucket}-bench-{sink}")
        self._written = ""

    @property
    def name(self) -> str:
        """For example `lakehouse-bench-cow`."""
        return self.endpoints.bucket

    def make(self) -> None:
        """Have the bucket, empty, and find out how its store counts.

        Raises:
            LabError: the store does not tell what is asked of it.
        """
        self.remove()
        s3 = store.client(self.endpoints)
        s3.create_bucket(Bucket=self.name)
        before = self._metrics()
        s3.put_object(Bucket=self.name, Key="probe/put", Body=PROBE)
        after = self._metrics()
        # Releases of MinIO differ in which end of the line "sent" and "received" are seen from.
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

    def usage(self) -> Usage:
        """What was asked of it since it, or the store, began."""
        return usage_in(self._metrics(), self._written)

    def clear(self) -> None:
        """Delete what is in it."""
        pages = store.client(self.endpoints).get_paginator("list_objects_v2")
        for page in pages.paginate(Bucket=self.name, Delimiter="/"):
            for folder in page.get("CommonPrefixes", ()):
                store.delete_prefix(self.endpoints, folder["Prefix"])

    def remove(self) -> None:
        """Delete the bucket with all that is in it, when it is there."""
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
                f"The store at {self.endpoints.s3_endpoint} tells no metrics ({error}).",
                "run it on the lab's own MinIO: unset LAB_S3_ENDPOINT."
                if settings().s3_endpoint
                else "look at `lab status`.",
            ) from None


def _token(endpoints: Endpoints) -> str:
    """A token for MinIO's metrics, signed with the lab's own key (RFC 7519, HS512)."""

    def part(content: bytes) -> bytes:
        return base64.urlsafe_b64encode(content).rstrip(b"=")

    claims = {"exp": int(time.time()) + 600, "sub": endpoints.s3_access_key, "iss": "prometheus"}
    text = part(b'{"alg":"HS512","typ":"JWT"}') + b"." + part(json.dumps(claims).encode())
    signature = hmac.new(endpoints.s3_secret_key.encode(), text, hashlib.sha512).digest()
    return (text + b"." + part(signature)).decode()
