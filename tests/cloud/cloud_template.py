"""Evaluates the cloud template like CloudFormation, replacing parameters and functions."""

import json
import re
from collections.abc import Iterator
from functools import cache
from itertools import product

from cfnlint.decode import cfn_yaml

from lab_env.workbench.cloud import TEMPLATE

ACCOUNT, REGION, STACK = "123456789012", "eu-central-1", "lake"
CHOICES = [
    {"Stream": stream, "NotebookHost": host, "AlarmEmail": email}
    for stream, host, email in product(("none", "msk", "kinesis"), ("no", "yes"), ("", "a@b.org"))
]
EVERYTHING = [
    {"Stream": stream, "NotebookHost": "yes", "AlarmEmail": "a@b.org"}
    for stream in ("msk", "kinesis")
]
PSEUDO = {
    "AWS::AccountId": ACCOUNT,
    "AWS::Region": REGION,
    "AWS::StackName": STACK,
    "AWS::StackId": f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/{STACK}/id",
    "AWS::Partition": "aws",
    "AWS::URLSuffix": "amazonaws.com",
}
NOTHING = object()  # AWS::NoValue


def template() -> dict:
    """Return a new copy of the parsed template, which a test may change."""
    return json.loads(_parsed())


@cache
def _parsed() -> str:
    return json.dumps(cfn_yaml.load(str(TEMPLATE)))


def resolved(source: dict, **parameters: str) -> dict:
    """Return the template's resources and outputs for these parameters, with functions evaluated.

    A reference to a resource becomes its name if it has one, else its logical id in angle brackets.
    References to ARNs work only for buckets, roles and Kinesis streams.
    """
    values = {name: one.get("Default") for name, one in source["Parameters"].items()}
    return _Resolver(source, PSEUDO | values | parameters).template()


class _Resolver:
    def __init__(self, source: dict, values: dict):
        self.source, self.values = source, values

    def template(self) -> dict:
        return {
            part: {
                name: self.value({k: v for k, v in one.items() if k != "Condition"})
                for name, one in self.source[part].items()
                if self.holds(one.get("Condition"))
            }
            for part in ("Resources", "Outputs")
        }

    def holds(self, condition) -> bool:
        if condition is None:
            return True
        if isinstance(condition, str):
            return self.holds(self.source["Conditions"][condition])
        ((function, argument),) = condition.items()
        match function:
            case "Fn::Equals":
                return self.value(argument[0]) == self.value(argument[1])
            case "Fn::Not":
                return not self.holds(argument[0])
            case "Fn::And":
                return all(map(self.holds, argument))
        raise NotImplementedError(function)

    def value(self, node):
        if isinstance(node, list):
            return [found for one in node if (found := self.value(one)) is not NOTHING]
        if not isinstance(node, dict):
            return node
        if len(node) == 1:
            ((function, argument),) = node.items()
            if function == "Ref" or function.startswith("Fn::"):
                return self.call(function, argument)
        found = {key: self.value(value) for key, value in node.items()}
        return {key: value for key, value in found.items() if value is not NOTHING}

    def call(self, function: str, argument):
        match function:
            case "Ref":
                return self.reference(argument)
            case "Fn::GetAtt":
                name, attribute = argument
                assert attribute == "Arn", attribute
                return self.arn(name)
            case "Fn::Sub":
                return re.sub(r"\$\{([^}]+)\}", lambda found: self.inside(found[1]), argument)
            case "Fn::If":
                return self.value(argument[1] if self.holds(argument[0]) else argument[2])
            case "Fn::Select":
                return self.value(argument[1])[argument[0]]
            case "Fn::GetAZs":
                return [f"{REGION}a", f"{REGION}b"]
            case "Fn::Base64":
                return self.value(argument)
        raise NotImplementedError(function)

    def inside(self, text: str) -> str:
        name, _, attribute = text.partition(".")
        return self.arn(name) if attribute else str(self.reference(name))

    def reference(self, name: str):
        if name == "AWS::NoValue":
            return NOTHING
        return self.values[name] if name in self.values else self.name_of(name)

    def name_of(self, name: str) -> str:
        properties = self.source["Resources"][name].get("Properties", {})
        for key in ("BucketName", "LogGroupName"):
            if key in properties:
                return self.value(properties[key])
        return f"<{name}>"

    def arn(self, name: str) -> str:
        match self.source["Resources"][name]["Type"]:
            case "AWS::S3::Bucket":
                return f"arn:aws:s3:::{self.name_of(name)}"
            case "AWS::IAM::Role":
                return f"arn:aws:iam::{ACCOUNT}:role/{name}"
            case "AWS::Kinesis::Stream":
                return f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/{STACK}"
        raise NotImplementedError(name)


def of_type(found: dict, kind: str) -> dict[str, dict]:
    """Return the properties of all resources of a type, by logical id.

    Args:
        kind: the type without `AWS::`.
    """
    return {
        name: one.get("Properties", {})
        for name, one in found["Resources"].items()
        if one["Type"] == f"AWS::{kind}"
    }


def many(value) -> list:
    """Return a value as a list: CloudFormation allows a single value in place of a list."""
    return value if isinstance(value, list) else [value]


def statements(found: dict, role: str | None = None) -> Iterator[dict]:
    """Yield the policy statements of all roles, or of one role."""
    managed = of_type(found, "IAM::ManagedPolicy")
    for name, one in of_type(found, "IAM::Role").items():
        if role in (None, name):
            for policy in one.get("Policies", ()):
                yield from policy["PolicyDocument"]["Statement"]
            for attached in one.get("ManagedPolicyArns", ()):
                if attached.strip("<>") in managed:
                    yield from managed[attached.strip("<>")]["PolicyDocument"]["Statement"]
    for one in of_type(found, "IAM::Policy").values():
        if role is None or f"<{role}>" in one["Roles"]:
            yield from one["PolicyDocument"]["Statement"]
