"""List, read, copy and delete objects in the object store, without Spark."""

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from lab_env.platform.errors import LabError
from lab_env.platform.settings import Endpoints


@dataclass(frozen=True)
class StoredObject:
    """One object of the bucket."""

    key: str  # without the bucket
    size: int  # bytes
    modified: datetime  # when it became visible (UTC, milliseconds)


COPIES_AT_A_TIME = 8


@lru_cache(maxsize=4)
def s3_client(
    endpoint: str, access_key: str, secret_key: str, region: str, session_token: str = ""
):
    """Make a boto3 S3 client that gives up quickly when the store does not answer.

    Clients are thread-safe and slow to make, so they are cached. Without an access key, boto3 looks
    for the machine's own credentials.
    """
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=access_key or None,
        aws_secret_access_key=secret_key or None,
        aws_session_token=session_token or None,
        region_name=region,
        config=Config(
            connect_timeout=2,
            read_timeout=20,
            retries={"total_max_attempts": 2},
            s3={"addressing_style": "path"},
            proxies={},
        ),
    )


def client(endpoints: Endpoints):
    """Client of the lab's object store."""
    return s3_client(
        endpoints.s3_endpoint,
        endpoints.s3_access_key,
        endpoints.s3_secret_key,
        endpoints.s3_region,
        endpoints.s3_session_token,
    )


def export_environment(endpoints: Endpoints) -> None:
    """Set the environment variables by which libraries in this process find the store.

    If the endpoints have no keys, the machine's own apply. hudi-rs 0.5 passes its storage options
    to the table, but not to the table's metadata table. Without these variables it looks for the
    metadata table at Amazon, gives up, and lists folders instead.
    """
    os.environ["AWS_ENDPOINT"] = endpoints.s3_endpoint
    os.environ["AWS_REGION"] = endpoints.s3_region
    os.environ["AWS_ALLOW_HTTP"] = str(endpoints.s3_endpoint.startswith("http:")).lower()
    if endpoints.s3_access_key:
        if os.environ.get("AWS_ACCESS_KEY_ID") != endpoints.s3_access_key:
            os.environ.pop("AWS_SESSION_TOKEN", None)  # it belongs to other keys
        os.environ.update(keys_as_variables(endpoints))


def keys_as_variables(endpoints: Endpoints) -> dict[str, str]:
    """The store's keys as environment variables; empty keys are left out.

    An empty variable would hide the machine's own role or profile.
    """
    keys = {
        "AWS_ACCESS_KEY_ID": endpoints.s3_access_key,
        "AWS_SECRET_ACCESS_KEY": endpoints.s3_secret_key,
        "AWS_SESSION_TOKEN": endpoints.s3_session_token,
    }
    return {name: key for name, key in keys.items() if key}


def key_of(path: str) -> str:
    """Key (or prefix) in the bucket, from an `s3a://bucket/key` path."""
    return path.split("://", 1)[1].split("/", 1)[1]


def list_objects(endpoints: Endpoints, prefix: str) -> Iterator[StoredObject]:
    """Yield every object below a prefix like `tour/orders/`, in key order, minus folder markers."""
    pages = client(endpoints).get_paginator("list_objects_v2")
    for page in pages.paginate(Bucket=endpoints.bucket, Prefix=prefix):
        for entry in page.get("Contents", ()):
            if not entry["Key"].endswith("/"):
                yield StoredObject(entry["Key"], entry["Size"], entry["LastModified"])


def read(endpoints: Endpoints, key: str) -> bytes:
    """Content of one object."""
    return client(endpoints).get_object(Bucket=endpoints.bucket, Key=key)["Body"].read()


def delete(endpoints: Endpoints, key: str) -> None:
    """Delete an object, if it exists."""
    client(endpoints).delete_object(Bucket=endpoints.bucket, Key=key)


def copy_prefix(endpoints: Endpoints, source: str, target: str) -> int:
    """Copy every object from one prefix to another; return their number. Both must end with `/`."""
    if not (source.endswith("/") and target.endswith("/")):
        raise ValueError(f"prefixes to copy must end with a slash: {source!r}, {target!r}")
    keys = [entry.key for entry in list_objects(endpoints, source)]
    copy_objects(endpoints, {key: target + key.removeprefix(source) for key in keys})
    return len(keys)


def copy_objects(endpoints: Endpoints, targets: Mapping[str, str]) -> None:
    """Copy objects to new keys, several at a time; `targets` has the new key of each object."""
    s3, bucket = client(endpoints), endpoints.bucket

    def copy(key: str) -> None:
        source = {"Bucket": bucket, "Key": key}
        s3.copy_object(Bucket=bucket, Key=targets[key], CopySource=source)

    with ThreadPoolExecutor(COPIES_AT_A_TIME) as copies:
        list(copies.map(copy, targets))  # raises the first error


def delete_prefix(endpoints: Endpoints, prefix: str, markers_only: bool = False) -> int:
    """Delete every object below a prefix, and return their number, folder markers included.

    The prefix must end with `/`, so that a sibling with a longer name is spared. With
    `markers_only`, delete only the empty objects that mark folders.

    Raises:
        LabError: the store refused to delete an object.
    """
    if not prefix.endswith("/"):
        raise ValueError(f"a prefix to delete must end with a slash: {prefix!r}")
    s3 = client(endpoints)
    deleted = 0
    pages = s3.get_paginator("list_objects_v2")
    for page in pages.paginate(Bucket=endpoints.bucket, Prefix=prefix):
        found = [entry["Key"] for entry in page.get("Contents", ())]
        keys = [{"Key": key} for key in found if not markers_only or key.endswith("/")]
        if keys:
            delete = {"Objects": keys, "Quiet": True}  # quiet: the answer lists only failures
            answer = s3.delete_objects(Bucket=endpoints.bucket, Delete=delete)
            errors = answer.get("Errors", [])
            refused = [error for error in errors if error["Code"] != "NoSuchKey"]  # gone already
            deleted += len(keys) - len(refused)
            if refused:
                raise _not_deleted(refused[0], deleted)
    return deleted


def _not_deleted(refused: Mapping[str, str], deleted: int) -> LabError:
    return LabError(
        f"The store did not delete {refused['Key']}: {refused['Code']}. {deleted:,} objects below"
        " the same prefix were deleted.",
        "run it again; if it fails again, check that the store's key may delete objects.",
    )


class StoredTable:
    """A table's files in the lab's store; implements `lab_env.tables.hudi.files.TableFiles`."""

    def __init__(self, endpoints: Endpoints, path: str):
        self.path = path
        self._endpoints = endpoints
        self._prefix = key_of(path).rstrip("/") + "/"

    def sizes(self) -> dict[str, int]:
        """Size of each object in bytes, by its key in the table's folder."""
        objects = list_objects(self._endpoints, self._prefix)
        return {entry.key.removeprefix(self._prefix): entry.size for entry in objects}

    def read(self, key: str) -> bytes:
        """Content of one object."""
        try:
            return read(self._endpoints, self._prefix + key)
        except ClientError as error:
            if error.response["Error"]["Code"] == "NoSuchKey":
                raise FileNotFoundError(key) from error
            raise
