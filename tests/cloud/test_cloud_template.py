"""The cloud template without a cloud: linted, resolved, and deployed to an emulator.

The emulator accepts much that AWS refuses, and reports CREATE_COMPLETE even for unknown resources,
which it skips. So one test lists exactly which resources it creates and which ones it skips.
"""

import re
from collections.abc import Callable

import boto3
import pytest
from cfnlint.api import ManualArgs, lint
from cloud_template import (
    ACCOUNT,
    CHOICES,
    EVERYTHING,
    REGION,
    STACK,
    many,
    of_type,
    resolved,
    statements,
    template,
)

from lab_env.course.copies import known_demos, known_lessons
from lab_env.lab.handle import OTHER_NAMESPACES, namespace_of
from lab_env.platform.settings import Settings
from lab_env.workbench.cloud import TEMPLATE, cost, environment

TEXT = TEMPLATE.read_text(encoding="utf-8")
NEEDED_BY_DOWN_AND_JOB = {"Application", "JobRole", "LogGroup", "Database"}
OPTIONAL = {"Kafka": "msk", "Kinesis": "kinesis", "Host": "yes"}  # needed with this choice
PUBLIC = ("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets")
# MSK Serverless and logs are encrypted by themselves. A dead writer reports nothing, so missing
# data must be an alarm.
REQUIRED = {
    "Bucket.PublicAccessBlockConfiguration": dict.fromkeys(PUBLIC, True),
    "Bucket.BucketEncryption.ServerSideEncryptionConfiguration.0"
    ".ServerSideEncryptionByDefault.SSEAlgorithm": "AES256",
    "Kinesis.StreamEncryption.EncryptionType": "KMS",
    "Kafka.ClientAuthentication": {"Sasl": {"Iam": {"Enabled": True}}},
    "Host.BlockDeviceMappings.0.Ebs.Encrypted": True,
    "Host.MetadataOptions.HttpTokens": "required",
    "Application.MaximumCapacity.Cpu": "8 vCPU",
    "Application.AutoStopConfiguration": {"Enabled": True, "IdleTimeoutMinutes": 15},
    "WriterBehind.TreatMissingData": "breaching",
    "IteratorAge.TreatMissingData": "breaching",
}


def at(node, path: str):
    """Return the node at a dotted path."""
    for part in path.split("."):
        node = node[int(part) if isinstance(node, list) else part]
    return node


@pytest.mark.parametrize(("path", "value"), REQUIRED.items(), ids=REQUIRED)
def test_stores_are_encrypted_and_closed_the_writer_limited_and_a_dead_one_noticed(path, value):
    resource, _, inside = path.partition(".")
    properties = template()["Resources"][resource]["Properties"]
    assert at(properties, inside) == value
    assert "InitialCapacity" not in properties


# ---- rules: each returns what is wrong with a resolved template ----------------------------------


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


def no_role_gets_a_star(found: dict) -> list[str]:
    """Find `*` resources, `*` in actions, NotAction, NotResource, and AWS policies except SSM's."""
    allowed = "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"
    stars = [
        str(statement)
        for statement in statements(found)
        if {"NotAction", "NotResource"} & set(statement)
        or any(re.fullmatch(r"[*]|arn:aws:\w+:::[*]", one) for one in many(statement["Resource"]))
        or any("*" in one for one in many(statement["Action"]))
    ]
    return stars + [
        policy
        for one in of_type(found, "IAM::Role").values()
        for policy in one.get("ManagedPolicyArns", ())
        if policy.startswith("arn:") and policy != allowed
    ]


def only_the_data_and_its_policy_outlive_the_stack(found: dict) -> list[str]:
    """Any other resource that is left behind costs money."""
    kept = {
        name
        for name, one in found["Resources"].items()
        if one.get("UpdateReplacePolicy") == "Retain"
        and one.get("DeletionPolicy") == "RetainExceptOnCreate"
    }
    return sorted(kept ^ {"Bucket", "BucketPolicy"})


def s3_removes_no_file_of_a_table(found: dict) -> list[str]:
    """Bucket rules may abort uploads and expire logs; versioning would keep files Hudi cleans."""
    bucket = of_type(found, "S3::Bucket")["Bucket"]
    wrong = ["versioning"] if "VersioningConfiguration" in bucket else []
    for rule in bucket["LifecycleConfiguration"]["Rules"]:
        only_uploads = set(rule) == {"Id", "Status", "AbortIncompleteMultipartUpload"}
        if not only_uploads and rule.get("Prefix") != "logs/":
            wrong.append(rule["Id"])
    return wrong


def only_this_application_gets_the_writers_role(found: dict) -> list[str]:
    arn = f"arn:aws:emr-serverless:{REGION}:{ACCOUNT}:/applications/<Application>"
    wanted = {"ArnEquals": {"aws:SourceArn": arn}}
    wanted |= {"StringEquals": {"aws:SourceAccount": ACCOUNT}}
    return [
        str(statement)
        for one in of_type(found, "IAM::Role").values()
        for statement in one["AssumeRolePolicyDocument"]["Statement"]
        if statement["Principal"] == {"Service": "emr-serverless.amazonaws.com"}
        and statement.get("Condition") != wanted
    ]


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


def nothing_is_reached_from_outside(found: dict) -> list[str]:
    open_groups = [
        name
        for name, one in of_type(found, "EC2::SecurityGroup").items()
        for ingress in one.get("SecurityGroupIngress", ())
        if not ingress.get("CidrIp", "10.").startswith("10.")
    ]
    groups = of_type(found, "EC2::SecurityGroupIngress")
    return open_groups + [name for name, one in groups.items() if "CidrIp" in one]


def the_private_subnets_have_no_way_out(found: dict) -> list[str]:
    subnets = of_type(found, "EC2::Subnet")
    outside = {route["RouteTableId"] for route in of_type(found, "EC2::Route").values()}
    wrong = [name for name in ("PrivateA", "PrivateB") if subnets[name].get("MapPublicIpOnLaunch")]
    for one in of_type(found, "EC2::SubnetRouteTableAssociation").values():
        if one["SubnetId"] in ("<PrivateA>", "<PrivateB>") and one["RouteTableId"] in outside:
            wrong.append(one["SubnetId"])
    return wrong


def alarms_and_the_bill_reach_the_address(found: dict) -> list[str]:
    if not of_type(found, "SNS::Topic"):
        return []
    alarms = of_type(found, "CloudWatch::Alarm").items()
    silent = [name for name, one in alarms if not one.get("AlarmActions")]
    told = of_type(found, "Budgets::Budget")["Budget"].get("NotificationsWithSubscribers")
    return silent if told else [*silent, "Budget"]


# For each rule, changes that break it alone: a path below the resources and a value; None removes.
POLICY = "Properties.PolicyDocument.Statement"
OPEN = [{"IpProtocol": "tcp", "FromPort": 8888, "ToPort": 8888, "CidrIp": "0.0.0.0/0"}]
ANY_SERVICE = {"StringLike": {"iam:PassedToService": "*"}}
TWINS: dict[Callable[[dict], list[str]], list[tuple[str, object]]] = {
    the_bucket_refuses_plain_http: [
        (f"BucketPolicy.{POLICY}.0.Effect", "Allow"),
        (f"BucketPolicy.{POLICY}.0.Resource", [{"Fn::GetAtt": ["Bucket", "Arn"]}]),
    ],
    no_role_gets_a_star: [
        (f"LakePolicy.{POLICY}.2.Resource", "*"),
        (f"LakePolicy.{POLICY}.1.Resource", "arn:aws:s3:::*"),
        (f"LakePolicy.{POLICY}.1.Action", "s3:*"),
        (f"UseKafka.{POLICY}.1.Resource", "*"),
        ("JobRole.Properties.Policies.0.PolicyDocument.Statement.0.Action", ["logs:*"]),
        ("JobRole.Properties.ManagedPolicyArns", ["arn:aws:iam::aws:policy/AmazonS3FullAccess"]),
    ],
    only_the_data_and_its_policy_outlive_the_stack: [
        ("Bucket.UpdateReplacePolicy", None),
        ("BucketPolicy.DeletionPolicy", "Delete"),
    ],
    s3_removes_no_file_of_a_table: [
        ("Bucket.Properties.LifecycleConfiguration.Rules.1.Prefix", None),
        ("Bucket.Properties.VersioningConfiguration", {"Status": "Enabled"}),
    ],
    only_this_application_gets_the_writers_role: [
        ("JobRole.Properties.AssumeRolePolicyDocument.Statement.0.Condition", None),
    ],
    a_role_is_passed_to_emr_serverless_only: [
        ("HostRole.Properties.Policies.0.PolicyDocument.Statement.2.Condition", ANY_SERVICE),
    ],
    nothing_is_reached_from_outside: [("HostGroup.Properties.SecurityGroupIngress", OPEN)],
    the_private_subnets_have_no_way_out: [
        ("RoutesOfPrivateB.Properties.RouteTableId", {"Ref": "PublicRoutes"}),
    ],
    alarms_and_the_bill_reach_the_address: [
        ("IteratorAge.Properties.AlarmActions", None),
        ("Budget.Properties.NotificationsWithSubscribers", None),
    ],
}


def linted(text: str) -> list[str]:
    """Return cfn-lint's findings on a template in two regions."""
    return [str(one) for one in lint(text, config=ManualArgs(regions=["us-east-1", REGION]))]


def test_the_linter_finds_nothing_in_two_regions_but_a_mistake_in_a_twin():
    assert linted(TEXT) == []
    assert "IdleMinutes" in " ".join(linted(TEXT.replace("IdleTimeoutMinutes", "IdleMinutes")))


@pytest.mark.parametrize("rule", TWINS, ids=lambda rule: rule.__name__)
def test_the_template_keeps_the_rule_whatever_is_chosen_and_a_twin_breaks_it_alone(rule):
    assert [found for one in CHOICES if (found := rule(resolved(template(), **one)))] == []
    for path, value in TWINS[rule]:
        twin = template()
        place, _, key = path.rpartition(".")
        parent = at(twin["Resources"], place)
        if value is None:
            del parent[key]
        else:
            parent[key] = value
        stacks = [resolved(twin, **one) for one in EVERYTHING]
        assert [one for one in TWINS if any(map(one, stacks))] == [rule], path


def test_no_expiring_prefix_is_a_folder_of_tables():
    spaces = [*known_lessons(), *OTHER_NAMESPACES, *known_demos()]
    folders = {f"{namespace_of(one)}/" for one in spaces} | {"warehouse/"}
    rules = of_type(resolved(template()), "S3::Bucket")["Bucket"]["LifecycleConfiguration"]["Rules"]
    expiring = [one["Prefix"] for one in rules if "ExpirationInDays" in one]
    assert expiring == ["logs/"]
    assert not [f for f in folders for prefix in expiring if f.startswith(prefix)]


@pytest.mark.parametrize("choice", CHOICES, ids=lambda one: "-".join(one.values()))
def test_the_outputs_are_settings_that_the_code_reads_and_names_that_it_needs(choice):
    outputs = resolved(template(), **choice)["Outputs"]
    settings = {name for name in outputs if name.startswith(environment.PREFIX)}
    fields = {environment.setting_of(name) for name in settings}
    stream = {"kinesis_endpoint", "source"} if choice["Stream"] == "kinesis" else set()
    assert fields == {"s3_endpoint", "s3_region", "s3_bucket"} | stream
    assert fields <= set(Settings.model_fields)
    assert outputs["LabS3Endpoint"]["Value"] == f"https://s3.{REGION}.amazonaws.com"
    chosen = {name for name, value in OPTIONAL.items() if value in choice.values()}
    assert set(outputs) - settings == NEEDED_BY_DOWN_AND_JOB | chosen


@pytest.mark.parametrize(
    ("release", "new_enough"), [("emr-7.13.0", True), ("emr-8.0.0", True), ("emr-7.9.0", False)]
)
def test_an_old_release_of_emr_is_refused(release, new_enough):
    pattern = template()["Parameters"]["EmrRelease"]["AllowedPattern"]
    assert bool(re.fullmatch(pattern, release)) == new_enough


def test_the_alarm_watches_the_metric_that_is_made_of_the_writers_lines():
    found = resolved(template(), **EVERYTHING[0])
    metric = of_type(found, "Logs::MetricFilter")["BehindMetric"]["MetricTransformations"][0]
    alarm = of_type(found, "CloudWatch::Alarm")["WriterBehind"]
    assert alarm["Namespace"] == metric["MetricNamespace"]
    assert alarm["MetricName"] == metric["MetricName"]


def test_the_bill_counts_what_the_template_has():
    for choice in EVERYTHING:
        found = resolved(template(), **choice)
        endpoints = of_type(found, "EC2::VPCEndpoint").values()
        interfaces = [one for one in endpoints if one["VpcEndpointType"] == "Interface"]
        assert all(len(one["SubnetIds"]) == 1 for one in interfaces)
        assert len(interfaces) == cost.ENDPOINTS + (choice["Stream"] == "kinesis")
        host = of_type(found, "EC2::Instance")["Host"]
        assert host["InstanceType"] == cost.ITEMS["host"].removesuffix("-hour")
        assert host["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"] == cost.DISK_GB
        assert len(of_type(found, "CloudWatch::Alarm")) == 2  # one of the stream, one of the host
    assert of_type(found, "Kinesis::Stream")["Kinesis"]["ShardCount"] == cost.SHARDS


# What moto 5.2.5 does with the template. Skipped means: CREATE_COMPLETE, and nothing is there.
SKIPPED = {"BucketPolicy", "Catalog", "Application", "BehindMetric", "Budget", "HostIdle"}
SKIPPED_TOO = {"none": set(), "msk": {"Kafka", "WriterBehind"}, "kinesis": {"IteratorAge"}}


@pytest.mark.parametrize("stream", ["none", "msk", "kinesis"])
def test_an_emulator_makes_exactly_this_and_silently_skips_exactly_that(emulator, stream):
    chosen = {"Stream": stream, "NotebookHost": "yes", "AlarmEmail": "a@b.org"}
    client = boto3.client("cloudformation", region_name=REGION)
    client.create_stack(
        StackName=STACK,
        TemplateBody=TEXT,
        Capabilities=["CAPABILITY_IAM"],
        Parameters=[{"ParameterKey": k, "ParameterValue": v} for k, v in chosen.items()],
    )
    stack = client.describe_stacks(StackName=STACK)["Stacks"][0]
    assert stack["StackStatus"] == "CREATE_COMPLETE"
    found = client.describe_stack_resources(StackName=STACK)["StackResources"]
    made = {one["LogicalResourceId"] for one in found if "LogicalResourceId" in one}
    wanted = set(resolved(template(), **chosen)["Resources"])
    assert wanted - made == SKIPPED | SKIPPED_TOO[stream]
    assert made <= wanted
