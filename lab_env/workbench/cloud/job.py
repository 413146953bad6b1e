"""Builds the request that starts the writer on EMR Serverless, in the format of the AWS CLI.

The request has never been sent to AWS; only its format is tested (docs/cloud.md).
"""

import shlex

from lab_env.pipeline.session import KEPT_REPORTS, LAKEHOUSE, PLANS_HIDE, shuffles
from lab_env.platform.errors import LabError
from lab_env.platform.install.maven import file_name
from lab_env.platform.install.versions import versions
from lab_env.workbench.cloud.environment import settings_of
from lab_env.workbench.cloud.stack import Account, Stack

IMAGE_FOLDER = "/opt/lab"  # of the Dockerfile
IAM_JAR = "aws-msk-iam-auth-2.3.2-all.jar"
# Jars of the course's Spark that EMR lacks. EMR's own S3A stays.
GROUPS = ("org.apache.hudi", "org.apache.spark", "org.apache.kafka", "org.apache.commons")
EXECUTORS = 2
CORES = 2  # of each executor, and of the driver
# A writer that signs in by IAM has no password to hide in its plans. So no value of the request
# needs quotes, which EMR might read differently from a shell.
SESSION = {name: value for name, value in LAKEHOUSE.items() if name != PLANS_HIDE} | KEPT_REPORTS
CONF = {
    **SESSION,
    **shuffles(EXECUTORS * CORES),
    # Two cores and 8 GB per worker, with 10 % overhead: 6 vCPU and 24 GB of the 8 and 32 that
    # lake.yaml allows.
    "spark.driver.cores": str(CORES),
    "spark.driver.memory": "7g",
    "spark.executor.cores": str(CORES),
    "spark.executor.memory": "7g",
    "spark.executor.instances": str(EXECUTORS),
    "spark.dynamicAllocation.enabled": "false",
    "spark.emr-serverless.driverEnv.PYSPARK_PYTHON": "/usr/bin/python3.11",
    "spark.emr-serverless.driverEnv.PYSPARK_DRIVER_PYTHON": "/usr/bin/python3.11",
    "spark.emr-serverless.driverEnv.PYTHONPATH": IMAGE_FOLDER,
    "spark.executorEnv.PYSPARK_PYTHON": "/usr/bin/python3.11",
}


# Tells the driver where its stream is (`lab_env.platform.brokers.streams`).
KINESIS_SETTINGS = ("LAB_KINESIS_ENDPOINT", "LAB_S3_REGION")


def jar_names() -> list[str]:
    """Return the names of the jars in the image's folder `jars`."""
    pins = versions()["jars"]["spark"]
    ours = [file_name(jar) for jar in pins if jar.split(":")[0] in GROUPS]
    return [*ours, IAM_JAR]


def brokers_of(account: Account, stack: Stack) -> str:
    """Return the bootstrap brokers of the stack's MSK cluster for IAM authentication."""
    if "Kafka" not in stack.outputs:
        raise LabError(
            f"The stack {stack.name} has no stream for the writer to read.",
            "deploy it with Stream=msk or Stream=kinesis.",
        )
    answer = account.client("kafka").get_bootstrap_brokers(ClusterArn=stack.outputs["Kafka"])
    return answer["BootstrapBrokerStringSaslIam"]


def source_of(account: Account, stack: Stack, topic: str) -> dict[str, str]:
    """Return the writer's source arguments: the stack's Kinesis stream, or a topic of its Kafka."""
    if "Kinesis" in stack.outputs:
        return {"source": "kinesis", "topic": stack.outputs["Kinesis"]}
    return {"source": "kafka", "brokers": brokers_of(account, stack), "topic": topic}


def job_request(stack: Stack, source: dict[str, str], minutes: int) -> dict:
    """Build the StartJobRun request.

    Args:
        source: result of `source_of`.
        minutes: time limit of the job, so that a forgotten job costs only an afternoon.
    """
    bucket = stack.output("LabS3Bucket")
    jars = ",".join(f"local://{IMAGE_FOLDER}/jars/{name}" for name in jar_names())
    settings = CONF | {"spark.jars": jars, "spark.sql.warehouse.dir": f"s3a://{bucket}/warehouse"}
    settings |= {
        f"spark.emr-serverless.driverEnv.{name}": value
        for name, value in settings_of(stack.outputs).items()
        if name in KINESIS_SETTINGS
    }
    arguments = {
        "endpoint": stack.output("LabS3Endpoint"),
        "region": stack.output("LabS3Region"),
        "bucket": bucket,
        "folder": "pipeline",
        "cores": str(EXECUTORS * CORES),
    }
    logs = {
        "enabled": True,
        "logGroupName": stack.output("LogGroup"),
        "logTypes": {"SPARK_DRIVER": ["STDOUT", "STDERR"]},
    }
    return {
        "applicationId": stack.output("Application"),
        "executionRoleArn": stack.output("JobRole"),
        "name": "lakehouse-writer",
        "mode": "STREAMING",
        "executionTimeoutMinutes": minutes,
        "retryPolicy": {"maxFailedAttemptsPerHour": 3},
        "jobDriver": {
            "sparkSubmit": {
                "entryPoint": f"local://{IMAGE_FOLDER}/lab_env/workbench/cloud/emr_writer.py",
                "entryPointArguments": [
                    word
                    for name, value in (arguments | source).items()
                    for word in (f"--{name}", value)
                ],
                "sparkSubmitParameters": " ".join(
                    f"--conf {shlex.quote(f'{key}={value}')}" for key, value in settings.items()
                ),
            }
        },
        "configurationOverrides": {
            "monitoringConfiguration": {
                "cloudWatchLoggingConfiguration": logs,
                "s3MonitoringConfiguration": {"logUri": f"s3://{bucket}/logs/emr"},
            }
        },
    }
