"""The cloud template as CloudFormation would read it, and the rules that it keeps.

`resolved` replaces parameters, conditions and functions. A rule looks at the result and returns
what is wrong. `TWINS` has for each rule a change that breaks it, and must break it alone.
"""

import copy
import re
from collections.abc import Callable, Iterator
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
    """The template, parsed and writable."""
    return copy.deepcopy(_parsed())


@cache
def _parsed() -> dict:
    return _plain(cfn_yaml.load(str(TEMPLATE)))


def _plain(node):
    """Without the parser's own classes."""
    if isinstance(node, dict):
        return {str(key): _plain(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_plain(value) for value in node]
    return str(node) if isinstance(node, str) else node


def resolved(source: dict, **parameters: str) -> dict:
    """The template's resources and outputs for these parameters, all functions replaced.

    A reference to a resource becomes its name where it has one, else its logical id in angle
    brackets; its ARN likewise.
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
                name, _, attribute = (
                    argument.partition(".")
                    if isinstance(argument, str)
                    else (argument[0], ".", argument[1])
                )
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
    """The properties of the resources of a type, by logical id."""
    return {
        name: one.get("Properties", {})
        for name, one in found["Resources"].items()
        if one["Type"] == f"AWS::{kind}"
    }


def many(value) -> list:
    """A list, also where CloudFormation allows one value instead."""
    return value if isinstance(value, list) else [value]


def statements(found: dict, role: str | None = None) -> Iterator[dict]:
    """The statements of the policies that roles get; of one role, where it is named."""
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


Rule = Callable[[dict], list[str]]
RULES: dict[str, Rule] = {}


def rule(function: Rule) -> Rule:
    """Register a rule by its name."""
    RULES[function.__name__] = function
    return function


@rule
def everything_is_encrypted_at_rest(found: dict) -> list[str]:
    """S3, Kinesis and the host's disk; MSK Serverless and logs are by themselves."""
    stores = {
        name: bool(one.get("BucketEncryption"))
        for name, one in of_type(found, "S3::Bucket").items()
    }
    stores |= {
        name: one.get("StreamEncryption", {}).get("EncryptionType") == "KMS"
        for name, one in of_type(found, "Kinesis::Stream").items()
    }
    for name, one in of_type(found, "EC2::Instance").items():
        stores[name] = all(disk["Ebs"].get("Encrypted") for disk in one["BlockDeviceMappings"])
    return [name for name, encrypted in stores.items() if not encrypted]


@rule
def no_object_can_be_public(found: dict) -> list[str]:
    wanted = {"BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets"}
    return [
        name
        for name, one in of_type(found, "S3::Bucket").items()
        if one.get("PublicAccessBlockConfiguration") != dict.fromkeys(wanted, True)
    ]


@rule
def the_bucket_refuses_plain_http(found: dict) -> list[str]:
    bucket = f"arn:aws:s3:::{STACK}-{ACCOUNT}-{REGION}"
    for one in of_type(found, "S3::BucketPolicy").values():
        for statement in one["PolicyDocument"]["Statement"]:
            if (
                statement["Effect"] == "Deny"
                and statement["Principal"] == "*"
                and statement["Action"] == "s3:*"
                and set(statement["Resource"]) == {bucket, f"{bucket}/*"}
                and statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
            ):
                return []
    return ["the bucket"]


@rule
def no_role_gets_a_star(found: dict) -> list[str]:
    """Neither `*` as a resource, nor all actions of a service, nor an administrator's policy."""
    allowed = "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"
    stars = [
        str(statement)
        for statement in statements(found)
        if "NotAction" in statement
        or "NotResource" in statement
        or any(re.fullmatch(r"[*]|arn:aws:\w+:::[*]", one) for one in many(statement["Resource"]))
        or any("*" in one for one in many(statement["Action"]))
    ]
    return stars + [
        policy
        for one in of_type(found, "IAM::Role").values()
        for policy in one.get("ManagedPolicyArns", ())
        if policy.startswith("arn:") and policy != allowed
    ]


@rule
def the_writer_cannot_grow_without_limit(found: dict) -> list[str]:
    return [
        name
        for name, one in of_type(found, "EMRServerless::Application").items()
        if one.get("MaximumCapacity", {}).get("Cpu") != "8 vCPU" or "InitialCapacity" in one
    ]


@rule
def an_idle_application_stops(found: dict) -> list[str]:
    return [
        name
        for name, one in of_type(found, "EMRServerless::Application").items()
        if not one.get("AutoStopConfiguration", {}).get("Enabled")
        or one["AutoStopConfiguration"].get("IdleTimeoutMinutes", 999) > 15
    ]


@rule
def the_data_and_its_policy_outlive_the_stack(found: dict) -> list[str]:
    """And nothing else does: what is left behind costs money."""
    kept = {
        name
        for name, one in found["Resources"].items()
        if one.get("UpdateReplacePolicy") == "Retain"
        and one.get("DeletionPolicy") == "RetainExceptOnCreate"
    }
    return sorted(kept ^ {"Bucket", "BucketPolicy"})


@rule
def s3_removes_no_file_of_a_table(found: dict) -> list[str]:
    """Rules may end uploads and expire logs; versioning would keep what Hudi cleans."""
    wrong = []
    for name, one in of_type(found, "S3::Bucket").items():
        wrong += [name] if "VersioningConfiguration" in one else []
        for rule in one["LifecycleConfiguration"]["Rules"]:
            only_uploads = set(rule) == {"Id", "Status", "AbortIncompleteMultipartUpload"}
            if not only_uploads and rule.get("Prefix") != "logs/":
                wrong.append(rule["Id"])
    return wrong


@rule
def only_this_application_gets_the_writers_role(found: dict) -> list[str]:
    wanted = {
        "StringEquals": {"aws:SourceAccount": ACCOUNT},
        "ArnEquals": {
            "aws:SourceArn": (
                f"arn:aws:emr-serverless:{REGION}:{ACCOUNT}:/applications/<Application>"
            )
        },
    }
    return [
        str(statement)
        for one in of_type(found, "IAM::Role").values()
        for statement in one["AssumeRolePolicyDocument"]["Statement"]
        if statement["Principal"] == {"Service": "emr-serverless.amazonaws.com"}
        and statement.get("Condition") != wanted
    ]


@rule
def a_role_is_passed_to_emr_serverless_only(found: dict) -> list[str]:
    wanted = {"StringEquals": {"iam:PassedToService": "emr-serverless.amazonaws.com"}}
    return [
        str(statement)
        for statement in statements(found)
        if "iam:PassRole" in many(statement["Action"])
        and (
            statement.get("Condition") != wanted
            or statement["Resource"] != f"arn:aws:iam::{ACCOUNT}:role/JobRole"
        )
    ]


@rule
def nothing_is_reached_from_outside(found: dict) -> list[str]:
    open_groups = [
        name
        for name, one in of_type(found, "EC2::SecurityGroup").items()
        for ingress in one.get("SecurityGroupIngress", ())
        if not ingress.get("CidrIp", "10.").startswith("10.")
    ]
    groups = of_type(found, "EC2::SecurityGroupIngress")
    return open_groups + [name for name, one in groups.items() if "CidrIp" in one]


@rule
def the_private_subnets_have_no_way_out(found: dict) -> list[str]:
    subnets = of_type(found, "EC2::Subnet")
    routes = of_type(found, "EC2::Route").values()
    outside = {route["RouteTableId"] for route in routes}
    wrong = [name for name in ("PrivateA", "PrivateB") if subnets[name].get("MapPublicIpOnLaunch")]
    for one in of_type(found, "EC2::SubnetRouteTableAssociation").values():
        if one["SubnetId"] in ("<PrivateA>", "<PrivateB>") and one["RouteTableId"] in outside:
            wrong.append(one["SubnetId"])
    return wrong


@rule
def kafka_takes_iam_and_nothing_else(found: dict) -> list[str]:
    return [
        name
        for name, one in of_type(found, "MSK::ServerlessCluster").items()
        if one["ClientAuthentication"] != {"Sasl": {"Iam": {"Enabled": True}}}
    ]


@rule
def the_host_gives_its_role_to_no_forwarded_request(found: dict) -> list[str]:
    return [
        name
        for name, one in of_type(found, "EC2::Instance").items()
        if one.get("MetadataOptions", {}).get("HttpTokens") != "required"
    ]


@rule
def a_writer_that_is_silent_is_an_alarm(found: dict) -> list[str]:
    return [
        name
        for name, one in of_type(found, "CloudWatch::Alarm").items()
        if name != "HostIdle" and one.get("TreatMissingData") != "breaching"
    ]


@rule
def somebody_is_told_of_alarms_and_of_the_bill(found: dict) -> list[str]:
    """Where an address is given."""
    if not of_type(found, "SNS::Topic"):
        return []
    alarms = of_type(found, "CloudWatch::Alarm").items()
    silent = [name for name, one in alarms if not one.get("AlarmActions")]
    budgets = of_type(found, "Budgets::Budget")
    told = [one for one in budgets.values() if one.get("NotificationsWithSubscribers")]
    return silent if told else [*silent, "Budget"]


def _properties(name: str, change: Callable[[dict], object]) -> Callable[[dict], object]:
    return lambda source: change(source["Resources"][name]["Properties"])


def _statement(name: str, number: int, **changes) -> Callable[[dict], object]:
    def change(one: dict) -> None:
        policy = one if "PolicyDocument" in one else one["Policies"][0]
        policy["PolicyDocument"]["Statement"][number].update(changes)

    return _properties(name, change)


# Each breaks one rule, and that one only.
TWINS: list[tuple[str, Callable[[dict], object]]] = [
    ("everything_is_encrypted_at_rest", _properties("Bucket", lambda p: p.pop("BucketEncryption"))),
    (
        "everything_is_encrypted_at_rest",
        _properties("Kinesis", lambda p: p.pop("StreamEncryption")),
    ),
    (
        "everything_is_encrypted_at_rest",
        _properties("Host", lambda p: p["BlockDeviceMappings"][0]["Ebs"].pop("Encrypted")),
    ),
    (
        "no_object_can_be_public",
        _properties(
            "Bucket", lambda p: p["PublicAccessBlockConfiguration"].pop("IgnorePublicAcls")
        ),
    ),
    (
        "no_object_can_be_public",
        _properties("Bucket", lambda p: p.pop("PublicAccessBlockConfiguration")),
    ),
    ("the_bucket_refuses_plain_http", _statement("BucketPolicy", 0, Effect="Allow")),
    (
        "the_bucket_refuses_plain_http",
        _statement("BucketPolicy", 0, Resource=[{"Fn::GetAtt": ["Bucket", "Arn"]}]),
    ),
    ("no_role_gets_a_star", _statement("LakePolicy", 2, Resource="*")),
    ("no_role_gets_a_star", _statement("LakePolicy", 1, Resource="arn:aws:s3:::*")),
    ("no_role_gets_a_star", _statement("LakePolicy", 1, Action="s3:*")),
    ("no_role_gets_a_star", _statement("UseKafka", 1, Resource="*")),
    ("no_role_gets_a_star", _statement("JobRole", 0, Action=["logs:*"])),
    (
        "no_role_gets_a_star",
        _properties(
            "JobRole",
            lambda p: p["ManagedPolicyArns"].append("arn:aws:iam::aws:policy/AmazonS3FullAccess"),
        ),
    ),
    (
        "the_writer_cannot_grow_without_limit",
        _properties("Application", lambda p: p.pop("MaximumCapacity")),
    ),
    (
        "an_idle_application_stops",
        _properties("Application", lambda p: p["AutoStopConfiguration"].update(Enabled=False)),
    ),
    (
        "the_data_and_its_policy_outlive_the_stack",
        lambda source: source["Resources"]["Bucket"].pop("UpdateReplacePolicy"),
    ),
    (
        "the_data_and_its_policy_outlive_the_stack",
        lambda source: source["Resources"]["BucketPolicy"].update(DeletionPolicy="Delete"),
    ),
    (
        "s3_removes_no_file_of_a_table",
        _properties("Bucket", lambda p: p["LifecycleConfiguration"]["Rules"][1].pop("Prefix")),
    ),
    (
        "s3_removes_no_file_of_a_table",
        _properties("Bucket", lambda p: p.update(VersioningConfiguration={"Status": "Enabled"})),
    ),
    (
        "only_this_application_gets_the_writers_role",
        _properties(
            "JobRole", lambda p: p["AssumeRolePolicyDocument"]["Statement"][0].pop("Condition")
        ),
    ),
    (
        "a_role_is_passed_to_emr_serverless_only",
        _statement("HostRole", 2, Condition={"StringLike": {"iam:PassedToService": "*"}}),
    ),
    (
        "nothing_is_reached_from_outside",
        _properties(
            "HostGroup",
            lambda p: p.update(
                SecurityGroupIngress=[
                    {"IpProtocol": "tcp", "FromPort": 8888, "ToPort": 8888, "CidrIp": "0.0.0.0/0"}
                ]
            ),
        ),
    ),
    (
        "the_private_subnets_have_no_way_out",
        _properties("RoutesOfPrivateB", lambda p: p.update(RouteTableId={"Ref": "PublicRoutes"})),
    ),
    (
        "kafka_takes_iam_and_nothing_else",
        _properties(
            "Kafka", lambda p: p["ClientAuthentication"]["Sasl"]["Iam"].update(Enabled=False)
        ),
    ),
    (
        "the_host_gives_its_role_to_no_forwarded_request",
        _properties("Host", lambda p: p["MetadataOptions"].update(HttpTokens="optional")),
    ),
    (
        "a_writer_that_is_silent_is_an_alarm",
        _properties("WriterBehind", lambda p: p.pop("TreatMissingData")),
    ),
    (
        "a_writer_that_is_silent_is_an_alarm",
        _properties("IteratorAge", lambda p: p.update(TreatMissingData="missing")),
    ),
    (
        "somebody_is_told_of_alarms_and_of_the_bill",
        _properties("IteratorAge", lambda p: p.pop("AlarmActions")),
    ),
    (
        "somebody_is_told_of_alarms_and_of_the_bill",
        _properties("Budget", lambda p: p.pop("NotificationsWithSubscribers")),
    ),
]


def broken(source: dict, choices: list[dict[str, str]]) -> dict[str, list[str]]:
    """The rules that the template breaks with some of these parameters, and where."""
    found: dict[str, list[str]] = {}
    for choice in choices:
        stack = resolved(source, **choice)
        for name, check in RULES.items():
            if wrong := check(stack):
                found.setdefault(name, []).extend(wrong)
    return found
