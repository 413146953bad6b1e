"""The cloud writer, run by spark-submit on the lab's own Kafka or Kinesis, and MinIO.

EMR itself and Kafka's IAM login are not available here. The rest is as in the cloud: an installed
Spark, the options of `lab cloud job`, and a line of JSON per report.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import distribution

import pytest
from own_lab import allowed, wait_until

from lab_env.lab.handle import Lab, reset_lesson
from lab_env.pipeline.guard import table_receipt
from lab_env.pipeline.session import LESSON_JAVA_OPTIONS, spark_conf
from lab_env.pipeline.sinks import FOLDERS, SINKS
from lab_env.platform import services as lab_services
from lab_env.platform import store
from lab_env.platform.install import cds_archive, java
from lab_env.platform.install.jars import jar_folder
from lab_env.tables.hudi_rs import read_rows
from lab_env.workbench.cloud import emr_writer, job

pytestmark = pytest.mark.proof("cloud")

SPACE = "t-cloud"
EVENTS = 2000
# Of the lab's session what EMR has by itself, or has otherwise: the class path and the store.
OF_THE_MACHINE = ("spark.driver.", "spark.hadoop.", "spark.ui.")


def submit(lab: Lab, services, source: str, output) -> subprocess.Popen:
    """Start the writer as EMR does, with the settings of the job request."""
    home = distribution("pyspark").locate_file("pyspark")
    local = spark_conf(services, jar_folder("spark"))
    conf = {name: value for name, value in local.items() if name.startswith(OF_THE_MACHINE)}
    conf["spark.driver.extraJavaOptions"] = cds_archive.java_options(LESSON_JAVA_OPTIONS)
    conf |= {
        name: value
        for name, value in job.CONF.items()
        if name.startswith(("spark.serializer", "spark.kryo", "spark.sql", "spark.scheduler"))
    }
    words = {
        "endpoint": services.s3_endpoint,
        "region": services.s3_region,
        "bucket": services.bucket,
        "folder": lab.base.removeprefix(f"s3a://{services.bucket}/"),
        "source": source,
        "brokers": services.kafka_bootstrap,
        "topic": lab.topic("orders"),
        "security": "plaintext",
        "seconds": "5",
        "cores": "3",
    }
    environment = os.environ | store.keys_as_variables(services)
    environment |= {
        "SPARK_HOME": str(home),
        "JAVA_HOME": str(java.java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "LAB_KINESIS_ENDPOINT": services.kinesis,
        "LAB_S3_REGION": services.s3_region,
    }
    return subprocess.Popen(
        [
            str(home / "bin" / "spark-submit"),
            "--master=local[2]",
            *(f"--conf={name}={value}" for name, value in conf.items()),
            emr_writer.__file__,
            *(f"--{name}={value}" for name, value in words.items()),
        ],
        env=environment,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


@pytest.fixture(params=["kafka", "kinesis"])
def source(request, services) -> Iterator[str]:
    """The writer's source: Kafka, which always runs, or Kinesis, which runs only for its test."""
    lab_services.up([request.param], progress=lambda line: None)
    yield request.param
    lab_services.up(progress=lambda line: None)  # this stops Kinesis
    reset_lesson(SPACE)


def test_the_writer_of_the_cloud_keeps_what_the_ledger_says(source, tmp_path):
    services = lab_services.endpoints()
    lab = Lab(SPACE, services)
    lab.replay(source=source, n=EVENTS)
    log = tmp_path / "driver.log"

    def lines() -> list[dict]:
        found = [line for line in log.read_text().splitlines() if line.startswith('{"sink"')]
        return [json.loads(line) for line in found]

    def rows() -> dict[str, int]:
        """Return the number of messages that each query has read."""
        found = lines()
        return {sink: sum(o["rows"] for o in found if o["sink"] == sink) for sink in SINKS}

    with log.open("wb") as output:
        process = submit(lab, services, source, output)
        try:
            wait_until(
                lambda: process.poll() is not None or min(rows().values()) >= EVENTS,
                allowed(300),
            )
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert rows() == dict.fromkeys(SINKS, EVENTS), log.read_text()[-3000:]
    assert lines()[-1].get("behind") == (0 if source == "kafka" else None)
    for sink in ("cow", "mor"):
        verdict = lab.ledger().reconcile_table(read_rows(services, lab.path(FOLDERS[sink])), sink)
        assert verdict.ok and verdict.rows > 1000, str(verdict)
        assert table_receipt(services, lab.path(FOLDERS[sink])).buckets == 3
