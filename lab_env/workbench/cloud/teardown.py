"""Deletes a stack and its jobs, and separately the bucket, which remains after the stack."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from botocore.exceptions import ClientError

from lab_env.platform.errors import LabError
from lab_env.workbench.cloud.stack import Account, Stack

Progress = Callable[[str], None]

ACTIVE = ("SUBMITTED", "PENDING", "SCHEDULED", "RUNNING", "QUEUED", "CANCELLING")
AT_REST = ("CREATED", "STOPPED", "TERMINATED")  # states in which an application can be deleted
STOP_SECONDS = 600.0
DELETE_SECONDS = 3600.0  # an MSK cluster takes long
POLL_SECONDS = 5.0


@dataclass(frozen=True)
class Kept:
    """A bucket that remains after its stack is deleted."""

    bucket: str
    objects: int
    size: int  # bytes

    def __str__(self) -> str:
        return f"s3://{self.bucket} ({self.objects:,} objects, {self.size / 1e6:,.1f} MB)"


def bucket_of(account: Account, name: str) -> str:
    """Derive a bucket's name from its stack's name; the stack may already be deleted."""
    number = account.client("sts").get_caller_identity()["Account"]
    return f"{name}-{number}-{account.region}"


def take_apart(account: Account, stack: Stack, report_progress: Progress) -> None:
    """Cancel the job runs, stop the application and delete the stack; wait for each."""
    if "Application" in stack.outputs:
        _stop_application(account.client("emr-serverless"), stack, report_progress)
    cloudformation = account.client("cloudformation")
    report_progress(f"{stack.name}: deleting")
    cloudformation.delete_stack(StackName=stack.id)
    _wait(lambda: _is_gone(cloudformation, stack, report_progress), DELETE_SECONDS, stack.name)


def kept(account: Account, bucket: str) -> Kept | None:
    """Return a bucket with the number and size of its objects; None if it does not exist."""
    client = account.client("s3")
    try:
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
        sizes = [entry["Size"] for page in pages for entry in page.get("Contents", ())]
    except ClientError as error:
        if error.response["Error"]["Code"] in ("NoSuchBucket", "404"):
            return None
        raise
    return Kept(bucket, len(sizes), sum(sizes))


def delete_bucket(account: Account, bucket: str, report_progress: Progress) -> int:
    """Permanently delete a bucket and everything in it; return the number of objects."""
    client = account.client("s3")
    for page in client.get_paginator("list_multipart_uploads").paginate(Bucket=bucket):
        for upload in page.get("Uploads", ()):
            client.abort_multipart_upload(
                Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"]
            )
    deleted = 0
    # Delete versions too, in case somebody switched versioning on.
    for page in client.get_paginator("list_object_versions").paginate(Bucket=bucket):
        found = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
        keys = [{"Key": entry["Key"], "VersionId": entry["VersionId"]} for entry in found]
        if not keys:
            continue
        answer = client.delete_objects(Bucket=bucket, Delete={"Objects": keys, "Quiet": True})
        if failed := answer.get("Errors"):
            raise LabError(
                f"{len(failed)} objects of {bucket} were not deleted: {failed[0]['Message']}",
                "run the same command again.",
            )
        deleted += len(keys)
        report_progress(f"{bucket}: {deleted:,} objects deleted")
    client.delete_bucket(Bucket=bucket)
    return deleted


def _stop_application(client, stack: Stack, report_progress: Progress) -> None:
    application = stack.outputs["Application"]
    try:
        client.get_application(applicationId=application)
    except client.exceptions.ResourceNotFoundException:
        return

    def no_job_is_active() -> bool:
        pages = client.get_paginator("list_job_runs").paginate(
            applicationId=application, states=list(ACTIVE)
        )
        runs = [run for page in pages for run in page["jobRuns"]]
        for run in runs:
            report_progress(f"job run {run['id']}: {run['state'].lower()}")
            if run["state"] != "CANCELLING":
                client.cancel_job_run(applicationId=application, jobRunId=run["id"])
        return not runs

    def is_at_rest() -> bool:
        state = client.get_application(applicationId=application)["application"]["state"]
        report_progress(f"application {application}: {state.lower()}")
        if state == "STARTED":
            client.stop_application(applicationId=application)
        return state in AT_REST

    _wait(no_job_is_active, STOP_SECONDS, f"the job runs of {stack.name}")
    _wait(is_at_rest, STOP_SECONDS, f"the application of {stack.name}")


def _is_gone(client, stack: Stack, report_progress: Progress) -> bool:
    """Return True if the stack is deleted; raise a `LabError` if a resource cannot be deleted."""
    try:
        status = client.describe_stacks(StackName=stack.id)["Stacks"][0]["StackStatus"]
    except ClientError as error:
        if "does not exist" in str(error):
            return True
        raise
    report_progress(f"{stack.name}: {status.lower()}")
    if status == "DELETE_FAILED":
        resources = client.describe_stack_resources(StackName=stack.id)["StackResources"]
        reasons = [
            f"{one['LogicalResourceId']}: {one.get('ResourceStatusReason', 'no reason given')}"
            for one in resources
            if one["ResourceStatus"] == "DELETE_FAILED"
        ]
        raise LabError(
            f"CloudFormation could not delete all of {stack.name}. {' '.join(reasons)}",
            f"remove the cause, then run: lab cloud down {stack.name}",
        )
    return status == "DELETE_COMPLETE"


def _wait(condition: Callable[[], bool], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise LabError(
                f"{what} did not end in {seconds / 60:.0f} minutes.",
                "nothing is lost: run the same command again.",
            )
        time.sleep(POLL_SECONDS)
