"""The cloud template without a cloud: linted, resolved, and deployed to an emulator.

An emulator accepts much that AWS refuses and skips what it does not know, with the status
CREATE_COMPLETE. So a test names exactly what it made and what it skipped.
"""

import json
import re
import warnings

import boto3
import pytest
from cfnlint.api import ManualArgs, lint
from cloud_template import (
    CHOICES,
    EVERYTHING,
    REGION,
    RULES,
    STACK,
    TWINS,
    broken,
    of_type,
    resolved,
    template,
)
from moto import mock_aws

from lab_env.course.copies import known_demos, known_lessons
from lab_env.lab.handle import OTHER_NAMESPACES, namespace_of
from lab_env.platform.settings import Settings
from lab_env.workbench.cloud import TEMPLATE, cost, environment

TEXT = TEMPLATE.read_text(encoding="utf-8")
NEEDED_BY_DOWN_AND_JOB = {
    "Application",
    "JobRole",
    "LogGroup",
    "Database",
    "Kafka",
    "Kinesis",
    "Host",
}


def linted(text: str) -> list[str]:
    """What cfn-lint says of a template, in two regions."""
    return [str(one) for one in lint(text, config=ManualArgs(regions=["us-east-1", REGION]))]


def test_the_linter_finds_nothing_in_two_regions_but_a_mistake_in_a_twin():
    assert linted(TEXT) == []
    assert "IdleMinutes" in " ".join(linted(TEXT.replace("IdleTimeoutMinutes", "IdleMinutes")))


@pytest.mark.parametrize("name", RULES)
def test_the_template_keeps_the_rule_whatever_is_chosen(name):
    wrong = [(choice, RULES[name](resolved(template(), **choice))) for choice in CHOICES]
    assert [one for one in wrong if one[1]] == []


@pytest.mark.parametrize(
    ("name", "change"), TWINS, ids=[f"{n}-{i}" for i, (n, _) in enumerate(TWINS)]
)
def test_a_template_that_breaks_a_rule_fails_that_one_alone(name, change):
    twin = template()
    change(twin)
    assert list(broken(twin, EVERYTHING)) == [name]


def test_every_rule_has_a_twin():
    assert {name for name, _ in TWINS} == set(RULES)


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
    assert set(outputs) - settings <= NEEDED_BY_DOWN_AND_JOB


def test_all_outputs_together_are_the_ones_that_the_code_knows():
    named = {name for one in EVERYTHING for name in resolved(template(), **one)["Outputs"]}
    assert {name for name in named if not name.startswith("Lab")} == NEEDED_BY_DOWN_AND_JOB


@pytest.mark.parametrize(
    ("release", "new_enough"),
    [
        ("emr-7.13.0", True),
        ("emr-7.20.1", True),
        ("emr-8.0.0", True),
        ("emr-7.12.0", False),
        ("emr-7.9.0", False),
        ("emr-6.15.0", False),
        ("7.13.0", False),
    ],
)
def test_an_old_release_of_emr_is_refused(release, new_enough):
    pattern = template()["Parameters"]["EmrRelease"]["AllowedPattern"]
    assert bool(re.fullmatch(pattern, release)) == new_enough


def test_the_dashboard_is_json_that_shows_what_the_alarms_watch():
    found = resolved(template(), **EVERYTHING[0])
    body = json.loads(of_type(found, "CloudWatch::Dashboard")["Dashboard"]["DashboardBody"])
    assert len(body["widgets"]) == 4
    metric = of_type(found, "Logs::MetricFilter")["BehindMetric"]["MetricTransformations"][0]
    alarm = of_type(found, "CloudWatch::Alarm")["WriterBehind"]
    assert [metric["MetricNamespace"], metric["MetricName"]] in [
        one["properties"].get("metrics", [[]])[0] for one in body["widgets"]
    ]
    assert (alarm["Namespace"], alarm["MetricName"]) == (
        metric["MetricNamespace"],
        metric["MetricName"],
    )


def test_the_bill_counts_what_the_template_has():
    for choice in EVERYTHING:
        found = resolved(template(), **choice)
        interfaces = [
            one
            for one in of_type(found, "EC2::VPCEndpoint").values()
            if one["VpcEndpointType"] == "Interface"
        ]
        assert all(len(one["SubnetIds"]) == 1 for one in interfaces)
        assert len(interfaces) == cost.ENDPOINTS + (choice["Stream"] == "kinesis")
        host = of_type(found, "EC2::Instance")["Host"]
        assert host["InstanceType"] == cost.ITEMS["host"].removesuffix("-hour")
        assert host["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"] == cost.DISK_GB
        alarms = of_type(found, "CloudWatch::Alarm")
        assert len(alarms) == 2  # one of the stream, one of the host
    assert of_type(found, "Kinesis::Stream")["Kinesis"]["ShardCount"] == cost.SHARDS


# What moto 5.2.5 does with the template. Skipped means: CREATE_COMPLETE, and nothing is there.
SKIPPED = {"BucketPolicy", "Catalog", "Application", "BehindMetric", "Budget"}
SKIPPED_TOO = {
    "none": {"HostIdle"},
    "msk": {"HostIdle", "Kafka", "WriterBehind"},
    "kinesis": {"HostIdle", "IteratorAge"},
}


@pytest.fixture
def emulator(monkeypatch):
    """An empty AWS in this process."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    with mock_aws(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


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
    # The services agree: it is not only CloudFormation's own list that lacks them.
    ours = dict(region_name=REGION)
    assert boto3.client("emr-serverless", **ours).list_applications()["applications"] == []
    assert boto3.client("glue", **ours).get_databases()["DatabaseList"] == []
    bucket = next(o["OutputValue"] for o in stack["Outputs"] if o["OutputKey"] == "LabS3Bucket")
    s3 = boto3.client("s3", **ours)
    with pytest.raises(s3.exceptions.ClientError, match="NoSuchBucketPolicy"):
        s3.get_bucket_policy(Bucket=bucket)
