"""`lab cloud` with an emulated AWS: settings, the writer's job request, deletion of a stack."""

import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import MagicMock, patch

import boto3
import botocore.session
import pytest
from botocore.validate import ParamValidator
from cloud_template import ACCOUNT, REGION, STACK, of_type, resolved, template
from moto.emrserverless.models import emrserverless_backends
from typer.testing import CliRunner

from lab_env.cli import app
from lab_env.pipeline import session
from lab_env.platform.errors import LabError
from lab_env.platform.settings import REPOSITORY
from lab_env.workbench.cloud import TEMPLATE, cost, emr_writer, environment, job, stack, teardown

BUCKET = f"{STACK}-{ACCOUNT}-{REGION}"
BROKERS = "boot-1.kafka-serverless.example.org:9098"
SHOW = """
from lab_env.platform.settings import settings
found = settings()
print(found.s3_endpoint, found.s3_region, found.s3_bucket, bool(found.s3_access_key))
"""


def client(service: str):
    return boto3.client(service, region_name=REGION)


def deploy(stream: str = "none") -> None:
    """Create a stack with the template's bucket, log group and outputs, and a running job.

    The emulator's CloudFormation has no EMR application and cannot delete a route table. So the
    application is created through EMR's own API, and the network is left out.
    """
    emr = client("emr-serverless")
    application = emr.create_application(
        name=STACK, releaseLabel="emr-7.13.0", type="SPARK", clientToken="token"
    )["applicationId"]
    emr.start_application(applicationId=application)
    run = emr.start_job_run(
        applicationId=application,
        executionRoleArn=f"arn:aws:iam::{ACCOUNT}:role/JobRole",
        clientToken="token",
        jobDriver={"sparkSubmit": {"entryPoint": "s3://nowhere/job.py"}},
    )["jobRunId"]
    # The emulator's jobs have ended as soon as they begin.
    emrserverless_backends[ACCOUNT][REGION].get_job_run(application, run).state = "RUNNING"
    found = resolved(template(), Stream=stream)
    outputs = found["Outputs"]
    outputs["Application"]["Value"] = application
    if stream == "msk":
        answer = client("kafka").create_cluster_v2(
            ClusterName=STACK, Serverless={"VpcConfigs": [{"SubnetIds": ["subnet-1"]}]}
        )
        outputs["Kafka"]["Value"] = answer["ClusterArn"]
    if stream == "kinesis":
        outputs["Kinesis"]["Value"] = STACK
    # The emulator knows the older policy only; the template's differs where a creation fails.
    found["Resources"]["Bucket"]["DeletionPolicy"] = "Retain"
    body = {
        "Description": template()["Description"],
        "Resources": {name: found["Resources"][name] for name in ("Bucket", "LogGroup")},
        "Outputs": outputs,
    }
    client("cloudformation").create_stack(StackName=STACK, TemplateBody=json.dumps(body))


def lab(*arguments: str, typed: str | None = None):
    """Run a `lab cloud` command in this process; `typed` is the user's answer at a terminal."""
    with patch("lab_env.cli._at_terminal", return_value=typed is not None):
        return CliRunner().invoke(app, ["cloud", *arguments, "--region", REGION], input=typed)


def submitted() -> dict:
    """Return what `lab cloud job` submits to Spark."""
    return json.loads(lab("job", STACK).stdout)["jobDriver"]["sparkSubmit"]


def is_untouched() -> bool:
    """Return True if the stack is there, and its job runs."""
    return job_states() == {"RUNNING"} and stack.Account(REGION).stack(STACK) is not None


def objects() -> int:
    return client("s3").list_objects_v2(Bucket=BUCKET)["KeyCount"]


def fill() -> None:
    """Put a table and an unfinished upload into the bucket."""
    for number in range(3):
        client("s3").put_object(Bucket=BUCKET, Key=f"tour/orders_cow/{number}", Body=b"x" * 1000)
    client("s3").create_multipart_upload(Bucket=BUCKET, Key="tour/orders_cow/half")


def job_states() -> set[str]:
    emr = client("emr-serverless")
    ids = [one["id"] for one in emr.list_applications()["applications"]]
    return {run["state"] for one in ids for run in emr.list_job_runs(applicationId=one)["jobRuns"]}


# ---- lab cloud env -------------------------------------------------------------------------------


def test_the_settings_of_a_stack_are_lines_that_a_shell_and_the_lab_take(emulator):
    deploy()
    done = lab("env", STACK)
    assert done.exit_code == 0, done.output
    script = f"{done.stdout}\n{shlex.quote(sys.executable)} -c {shlex.quote(SHOW)}"
    shell = subprocess.run(
        ["sh", "-c", script],
        capture_output=True, text=True, cwd=REPOSITORY, timeout=60,
        env=os.environ | {"LAB_S3_ACCESS_KEY": "of another store"},
    )  # fmt: skip
    wanted = [f"https://s3.{REGION}.amazonaws.com", REGION, BUCKET, "False"]
    assert shell.stdout.split() == wanted, shell.stderr


def test_what_is_not_wired_yet_is_a_comment_and_no_setting(emulator):
    deploy("msk")
    lines = lab("env", STACK).stdout.splitlines()
    assert [line for line in lines if "kafka" in line.lower() and not line.startswith("#")] == []
    assert [line for line in lines if line.startswith("# Kafka: arn:aws:kafka:")]
    assert [line for line in lines if line.startswith("# Glue database: ")]


def test_the_settings_of_a_stack_with_kinesis_send_the_lab_there(emulator):
    deploy("kinesis")
    lines = lab("env", STACK).stdout.splitlines()
    endpoint = f"https://kinesis.{REGION}.amazonaws.com"
    assert {f"export LAB_KINESIS_ENDPOINT={endpoint}", "export LAB_SOURCE=kinesis"} <= set(lines)
    assert [line for line in lines if f"lab load --topic {STACK};" in line]


def test_an_output_for_an_unknown_setting_is_an_error():
    with pytest.raises(LabError, match="LAB_S3_BUKCET"):
        environment.settings_of({"LabS3Bukcet": "x"})


# ---- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["env", "job"])
def test_a_stack_that_is_not_there_gets_a_next_step(emulator, verb):
    done = lab(verb, "elsewhere")
    assert isinstance(done.exception, LabError)
    assert "no stack elsewhere" in done.exception.what and "--region" in done.exception.next_step


@pytest.mark.parametrize("verb", ["env", "down"])
def test_a_stack_of_somebody_else_is_left_alone(emulator, verb):
    body = {"Description": "x", "Resources": {"B": {"Type": "AWS::S3::Bucket"}}}
    client("cloudformation").create_stack(StackName="other", TemplateBody=json.dumps(body))
    done = lab(verb, "other")
    assert "not made from this course's template" in str(done.exception)
    (stack,) = client("cloudformation").describe_stacks(StackName="other")["Stacks"]
    assert stack["StackStatus"] == "CREATE_COMPLETE"


@pytest.mark.parametrize(
    ("status", "what", "next_step"),
    [
        ("CREATE_IN_PROGRESS", "is not ready", "wait"),
        ("ROLLBACK_COMPLETE", "cannot be used", "describe-stack-events"),
    ],
)
def test_a_stack_that_is_not_complete_is_not_used(emulator, monkeypatch, status, what, next_step):
    deploy()
    found = replace(stack.Account(REGION).stack(STACK), status=status)
    monkeypatch.setattr(stack.Account, "stack", lambda self, name: found)
    with pytest.raises(LabError, match=what) as error:
        stack.Account(REGION).complete_stack(STACK)
    assert next_step in error.value.next_step


def test_a_machine_without_credentials_or_region_is_told_so(credentials, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    assert "no usable AWS credentials" in str(lab("env", STACK).exception)
    bare = CliRunner().invoke(app, ["cloud", "env", STACK])
    assert "No AWS region is chosen." in str(bare.exception)
    monkeypatch.setenv("AWS_PROFILE", "nowhere")  # the lab's other commands leave it out
    wrong = CliRunner().invoke(app, ["cloud", "env", STACK])
    assert "nowhere" in str(wrong.exception)


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("AccessDenied", "AWS denied access"),
        ("ExpiredToken", "no longer accepts"),
        ("Throttling", "AWS returned an error"),
    ],
)
def test_an_answer_of_aws_becomes_one_sentence(code, what):
    error = stack.ClientError({"Error": {"Code": code, "Message": "no"}}, "DescribeStacks")
    with pytest.raises(LabError, match=what) as found, stack.aws_errors():
        raise error
    assert found.value.next_step


# ---- lab cloud down ------------------------------------------------------------------------------


def test_a_stack_stays_until_yes_is_said_also_without_a_terminal(emulator):
    deploy()
    done = lab("down", STACK)
    assert f"lab cloud down lake --region {REGION} --yes" in done.exception.next_step
    assert is_untouched()
    assert lab("down", STACK, typed="n\n").exit_code == 1
    assert is_untouched()


def test_the_jobs_end_first_and_the_data_stays(emulator):
    deploy()
    fill()
    done = lab("down", STACK, "--yes")
    assert done.exit_code == 0, done.output
    assert job_states() == {"CANCELLED"}
    states = [a["state"] for a in client("emr-serverless").list_applications()["applications"]]
    assert states == ["STOPPED"]
    assert stack.Account(REGION).stack(STACK) is None
    assert f"Kept: s3://{BUCKET} (3 objects, 0.0 MB)" in done.stdout
    assert f"lab cloud down {STACK} --region {REGION} --delete-data {BUCKET}" in done.stdout
    assert objects() == 3


@pytest.mark.parametrize("typed", ["y\n\n", "y\nyes\n", f"y\n{BUCKET}x\n"])
def test_anything_but_the_buckets_name_keeps_it(emulator, typed):
    deploy()
    fill()
    done = lab("down", STACK, typed=typed)
    assert "Kept: " in done.output and objects() == 3


def test_the_typed_name_deletes_the_bucket_for_good(emulator):
    deploy()
    fill()
    done = lab("down", STACK, typed=f"y\n{BUCKET}\n")
    assert done.exit_code == 0 and f"Deleted: s3://{BUCKET} with 3 objects." in done.output
    assert client("s3").list_buckets()["Buckets"] == []


def test_it_can_be_run_again_at_any_point(emulator):
    deploy()
    fill()
    client("s3").put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
    client("s3").delete_object(Bucket=BUCKET, Key="tour/orders_cow/1")
    lab("down", STACK, "--yes")
    done = lab("down", STACK, "--delete-data", BUCKET)
    assert done.exit_code == 0, done.output
    assert f"There is no stack {STACK}" in done.output and "Deleted: " in done.output
    again = lab("down", STACK)
    assert again.exit_code == 0 and "Nothing is left" in again.output


def test_another_buckets_name_is_refused_before_anything_is_deleted(emulator):
    deploy()
    here = {"LocationConstraint": REGION}
    client("s3").create_bucket(Bucket="precious", CreateBucketConfiguration=here)
    done = lab("down", STACK, "--yes", "--delete-data", "precious")
    assert "precious is not the bucket of lake" in done.exception.what
    assert is_untouched()


def test_a_resource_that_cannot_be_deleted_is_named(emulator):
    deploy()
    account = stack.Account(REGION)
    stuck, ask = MagicMock(), account.client  # CloudFormation cannot delete a subnet in use
    stuck.describe_stacks.return_value = {"Stacks": [{"StackStatus": "DELETE_FAILED"}]}
    one = {"LogicalResourceId": "PrivateA", "ResourceStatus": "DELETE_FAILED"}
    one["ResourceStatusReason"] = "has dependencies"
    stuck.describe_stack_resources.return_value = {"StackResources": [one]}
    account.client = lambda service: stuck if service == "cloudformation" else ask(service)
    with pytest.raises(LabError, match="PrivateA: has dependencies") as error:
        teardown.take_apart(account, stack.Account(REGION).stack(STACK), lambda _: None)
    assert f"lab cloud down {STACK}" in error.value.next_step


def test_a_job_that_does_not_end_is_an_error_and_not_a_wait_for_ever(emulator, monkeypatch):
    deploy()
    monkeypatch.setattr(teardown, "STOP_SECONDS", 0.1)
    monkeypatch.setattr(teardown, "ACTIVE", (*teardown.ACTIVE, "CANCELLED"))
    account = stack.Account(REGION)
    with pytest.raises(LabError, match="the job runs of lake did not end"):
        teardown.take_apart(account, account.stack(STACK), lambda _: None)


# ---- lab cloud job -------------------------------------------------------------------------------


def test_the_request_of_the_writer_has_the_form_that_aws_takes(emulator, monkeypatch):
    deploy("msk")
    monkeypatch.setattr(job, "brokers_of", lambda *_: BROKERS)  # the emulator has none
    done = lab("job", STACK, "--topic", "shop.orders")
    assert done.exit_code == 0, done.output
    request = json.loads(done.stdout)
    model = botocore.session.get_session().get_service_model("emr-serverless")
    shape = model.operation_model("StartJobRun").input_shape
    # The AWS CLI adds the token itself.
    report = ParamValidator().validate(request | {"clientToken": "token"}, shape)
    assert not report.has_errors(), report.generate_report()
    assert request["mode"] == "STREAMING" and request["executionTimeoutMinutes"] == 240
    words = request["jobDriver"]["sparkSubmit"]["entryPointArguments"]
    read = emr_writer._parse(words)
    assert (read.bucket, read.topic, read.region) == (BUCKET, "shop.orders", REGION)
    assert read.brokers == BROKERS


def test_the_writer_reads_the_stacks_stream_in_the_pipelines_session_with_one_round_of_tasks(
    emulator,
):
    deploy("kinesis")
    submit = submitted()
    words = submit["sparkSubmitParameters"].split()  # no value needs quotes
    conf = dict(word.split("=", 1) for word in words[1::2])
    assert set(words[::2]) == {"--conf"} and len(conf) == len(words) / 2
    wanted = session.LAKEHOUSE | session.KEPT_REPORTS
    del wanted[session.PLANS_HIDE]  # these sign in without a password:
    assert "password" not in str(emr_writer.SECURITY)
    assert wanted.items() <= conf.items()
    cores = int(conf["spark.executor.instances"]) * int(conf["spark.executor.cores"])
    assert int(conf["spark.sql.shuffle.partitions"]) == cores
    read = emr_writer._parse(submit["entryPointArguments"])
    assert read.cores == cores  # a new table gets a bucket for each core, and keeps that number
    assert (read.source, read.topic, read.brokers) == ("kinesis", STACK, "")
    variables = "spark.emr-serverless.driverEnv.LAB"
    assert conf[f"{variables}_KINESIS_ENDPOINT"] == f"https://kinesis.{REGION}.amazonaws.com"
    assert conf[f"{variables}_S3_REGION"] == REGION


def test_the_brokers_are_those_for_iam(emulator, monkeypatch):
    deploy("msk")
    found = stack.Account(REGION).stack(STACK)
    kafka = MagicMock()  # MSK, which returns a broker address for each way to log in
    kafka.get_bootstrap_brokers.return_value = {
        "BootstrapBrokerStringSaslIam": BROKERS, "BootstrapBrokerStringTls": "x:9094",
    }  # fmt: skip
    account = stack.Account(REGION)
    monkeypatch.setattr(account, "client", lambda service: {"kafka": kafka}[service])
    assert job.brokers_of(account, found) == BROKERS
    kafka.get_bootstrap_brokers.assert_called_once_with(ClusterArn=found.outputs["Kafka"])


def test_without_a_stream_there_is_no_request(emulator):
    deploy()
    assert "deploy it with Stream=msk" in lab("job", STACK).exception.next_step


def test_the_writer_fits_into_what_the_template_allows():
    most = of_type(resolved(template()), "EMRServerless::Application")["Application"]
    workers = 1 + int(job.CONF["spark.executor.instances"])
    cores = int(job.CONF["spark.driver.cores"])
    assert job.CONF["spark.executor.cores"] == str(cores)
    # Spark adds a tenth for what is not heap, and EMR rounds up.
    heap = int(job.CONF["spark.driver.memory"].removesuffix("g"))
    gigabytes = -(-heap * 11 // 10)
    assert (workers * cores, workers * gigabytes) == (cost.VCPUS, cost.MEMORY_GB)
    capacity = most["MaximumCapacity"]
    assert int(capacity["Cpu"].split()[0]) >= cost.VCPUS
    assert int(capacity["Memory"].split()[0]) >= cost.MEMORY_GB


# ---- the writer on EMR ---------------------------------------------------------------------------

DOCKERFILE = (TEMPLATE.parent / "Dockerfile").read_text()


def test_the_image_has_all_packages_that_the_writer_imports_at_the_locked_versions():
    pins = dict(re.findall(r"([a-z0-9-]+)==([\w.]+)", DOCKERFILE))
    lock = (REPOSITORY / "requirements.lock").read_text()
    assert [name for name in pins if f"{name}=={pins[name]} " not in lock] == []
    direct = {name.replace("-", "_") for name in pins} | {"pydantic", "pydantic_core", "botocore"}
    direct |= {"pyspark", "py4j"}  # of EMR
    program = """
import ast, sys, importlib
importlib.import_module("lab_env.workbench.cloud.emr_writer")
found = set()
for name, module in list(sys.modules.items()):
    if name.split(".")[0] != "lab_env" or not getattr(module, "__file__", None):
        continue
    for node in ast.parse(open(module.__file__).read()).body:
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else (
            [node.module] if isinstance(node, ast.ImportFrom) else [])
        found |= {one.split(".")[0] for one in names}
print(*sorted(found - sys.stdlib_module_names - {"lab_env"}))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=REPOSITORY, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) <= direct


def report(second: int, **metrics: str) -> dict:
    """Return Spark's report of the third batch."""
    source = {"description": "KafkaV2[Subscribe[orders]]", "metrics": metrics}
    report = {"name": "cow", "batchId": 3, "timestamp": f"2026-01-01T00:00:{second:02}"}
    report |= {"numInputRows": 5, "durationMs": {"triggerExecution": 1500}}
    return report | {"sources": [source]}


def test_the_writer_prints_each_report_once_in_the_form_that_the_metric_reads():
    seen: dict[str, str] = {}
    first = [report(0, maxOffsetsBehindLatest="17")]
    lines = list(emr_writer.new_lines(first, seen))
    assert lines == [{"sink": "cow", "batch": 3, "rows": 5, "seconds": 1.5, "behind": 17}]
    assert list(emr_writer.new_lines(first, seen)) == []
    # An idle query is alive: its next report has the same batch.
    idle = [report(10)]
    assert [line["behind"] for line in emr_writer.new_lines(idle, seen)] == [0]
    # Of landed files Spark does not know how many wait, so the line does not say it is none.
    idle[0] |= {"name": "json", "sources": [{"description": "FileStreamSource[s3a://x/landing]"}]}
    (line,) = emr_writer.new_lines(idle, seen)
    assert set(line) == {"sink", "batch", "rows", "seconds"}
    pattern = of_type(resolved(template()), "Logs::MetricFilter")["BehindMetric"]["FilterPattern"]
    assert re.findall(r"\$\.(\w+)", pattern) == ["behind"]


@pytest.mark.parametrize(
    ("dead", "said"),
    [
        ({"isActive": False, "exception": lambda: "null key"}, "query mor failed: null key"),
        ({"isActive": True}, "no progress of json, cow, mor, dead for 0 s"),
    ],
)
def test_a_writer_whose_query_fails_or_hangs_ends_its_jvm_at_once(monkeypatch, capsys, dead, said):
    query = SimpleNamespace(name="mor", recentProgress=[], **dead)
    session = MagicMock()
    monkeypatch.setattr("pyspark.sql.SparkSession.builder", session)
    monkeypatch.setattr(emr_writer.parsing, "read_topic", MagicMock())
    monkeypatch.setattr(emr_writer, "_claim", lambda *_: {})
    monkeypatch.setattr(emr_writer, "Topic", MagicMock())
    monkeypatch.setattr(emr_writer, "TopicWatch", lambda *_: MagicMock(error=None, options={}))
    monkeypatch.setattr(emr_writer, "Tasks", lambda _: MagicMock(went_on=set))
    monkeypatch.setattr(emr_writer.sinks, "start_query", lambda *_: query)
    words = ("endpoint", "region", "bucket", "folder", "brokers", "topic")
    arguments = [f"--{word}=x" for word in words]
    assert emr_writer.main([*arguments, "--stall=0"]) == 1
    assert said in capsys.readouterr().err
    runtime = session.appName().getOrCreate().sparkContext._jvm.java.lang.Runtime
    runtime.getRuntime().halt.assert_called_once_with(1)
    iam = emr_writer.parsing.read_topic.call_args.kwargs
    assert iam["kafka.sasl.mechanism"] == "AWS_MSK_IAM"
