"""Reads a deployed stack from CloudFormation, and adds a suggested next step to AWS errors."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
)

from lab_env.platform.errors import LabError

OURS = "The streaming lakehouse on AWS"  # how the template's description begins
REFUSALS = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation")
EXPIRED = ("ExpiredToken", "ExpiredTokenException", "InvalidClientTokenId", "RequestExpired")


@dataclass(frozen=True)
class Stack:
    """A stack made from this course's template."""

    name: str
    id: str  # its ARN, which identifies it even after it was deleted
    region: str
    status: str
    outputs: dict[str, str]  # empty while the stack is being created, or if that failed

    def output(self, name: str) -> str:
        """Return the value of one output, or raise a `LabError` if there is none."""
        if name not in self.outputs:
            raise LabError(
                f"The stack {self.name} has no output {name}; its state is {self.status}.",
                "wait until it is complete; or deploy this course's template: lab cloud template",
            )
        return self.outputs[name]


class Account:
    """Makes clients for one AWS account and region, with this machine's credentials.

    By default, the region comes from AWS_REGION or the AWS profile.
    """

    def __init__(self, region: str | None = None):
        with aws_errors():
            found = region or os.environ.get("AWS_REGION") or boto3.Session().region_name
        if not found:
            raise LabError("No AWS region is chosen.", "add --region, for example eu-central-1.")
        self.region: str = found

    def client(self, service: str):
        """Make a boto3 client of an AWS service."""
        config = Config(retries={"mode": "standard"})
        return boto3.client(service, region_name=self.region, config=config)

    def stack(self, name: str) -> Stack | None:
        """Find a stack that was made from this course's template; None if there is none."""
        try:
            found = self.client("cloudformation").describe_stacks(StackName=name)["Stacks"][0]
        except ClientError as error:
            if "does not exist" in str(error):
                return None
            raise
        if not found.get("Description", "").startswith(OURS):
            raise LabError(
                f"The stack {name} in {self.region} is not made from this course's template.",
                "look up the name: aws cloudformation list-stacks",
            )
        outputs = {one["OutputKey"]: one["OutputValue"] for one in found.get("Outputs", ())}
        return Stack(
            found["StackName"], found["StackId"], self.region, found["StackStatus"], outputs
        )

    def complete_stack(self, name: str) -> Stack:
        """Find a stack that is ready for use, or raise a `LabError`."""
        stack = self.stack(name)
        if stack is None:
            raise LabError(
                f"There is no stack {name} in {self.region}.",
                "add --region if it is in another region; to create it, see docs/cloud.md.",
            )
        if stack.status.endswith("_IN_PROGRESS"):
            raise LabError(
                f"The stack {name} is not ready: {stack.status}.", "wait, then run this again."
            )
        if stack.status not in ("CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE"):
            raise LabError(
                f"The stack {name} cannot be used: {stack.status}.",
                f"aws cloudformation describe-stack-events --stack-name {name}"
                f"   (to remove it: lab cloud down {name})",
            )
        return stack


@contextmanager
def aws_errors() -> Generator[None]:
    """Turn boto3's errors in the body into `LabError`."""
    try:
        yield
    except (NoCredentialsError, PartialCredentialsError, ProfileNotFound) as error:
        raise LabError(
            f"This machine has no usable AWS credentials: {error}.",
            "set AWS_PROFILE, or run: aws configure",
        ) from None
    except ClientError as error:
        code = error.response["Error"].get("Code", "")
        if code in EXPIRED:
            raise LabError(
                f"AWS no longer accepts these credentials: {code}.", "sign in again."
            ) from None
        if code in REFUSALS:
            raise LabError(
                f"AWS denied access: {error}", "use credentials with this permission."
            ) from None
        raise LabError(f"AWS returned an error: {error}", "see docs/cloud.md.") from None
    except BotoCoreError as error:
        raise LabError(
            f"AWS cannot be reached: {error}",
            "check the network and the region, then run this again.",
        ) from None
