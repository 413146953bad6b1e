"""A lesson's SparkSession: it starts quickly, is plain Spark, and reveals no passwords."""

import os
import socket
import subprocess
import sys
from urllib.request import urlopen

import psutil
import pytest
from linux import mapped_files, needs_linux
from own_lab import wait_until
from py4j.protocol import Py4JJavaError

from lab_env.course.known_errors import explain
from lab_env.lab.handle import Lab
from lab_env.platform.errors import LabError
from lab_env.platform.install import cds_archive
from lab_env.platform.jvm import EXIT_SECONDS

pytestmark = pytest.mark.services

START = """
import time
import psutil
from lab_env.lab.handle import Lab
from lab_env.platform import services
lab = Lab("pytest", services.endpoints())
before = time.process_time()
spark = lab.spark
java = spark.sparkContext._jvm.java
pid = java.lang.ProcessHandle.current().pid()
used = psutil.Process(pid).cpu_times()
print(time.process_time() - before + used.user + used.system, pid)
latch = java.util.concurrent.CountDownLatch(1)
runnable = java.lang.Class.forName("java.lang.Runnable")
hook = java.beans.EventHandler.create(runnable, latch, "await")
java.lang.Runtime.getRuntime().addShutdownHook(java.lang.Thread(hook))
"""


@pytest.fixture(scope="module")
def started(services, tmp_path_factory) -> subprocess.CompletedProcess:
    """Result of a program whose session's JVM has an endless shutdown hook."""
    other = str(tmp_path_factory.mktemp("other"))
    old = {"SPARK_HOME": other, "JAVA_HOME": other, "SPARK_CONF_DIR": other}
    return subprocess.run(
        [sys.executable, "-c", START],
        env=os.environ | old,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture(scope="module")
def spark(services):
    session = Lab("pytest", services).spark
    yield session
    session.stop()


def test_it_starts_soon_and_silently_and_picks_up_no_other_spark(started):
    # What the JVM prints goes to the lab's log, not into a learner's notebook.
    assert (started.returncode, started.stderr) == (0, "")
    # Processor seconds, which other work on the machine changes little. Alone on two cores a
    # session takes about as many seconds as it uses.
    assert float(started.stdout.split()[0]) <= 6


def test_it_has_a_page_on_another_port_where_all_of_spark_are_taken(services):
    with socket.create_server(("127.0.0.1", 0)) as other:
        busy = {"spark.ui.port": str(other.getsockname()[1]), "spark.port.maxRetries": "0"}
        code = f"from lab_env.lab.handle import Lab; from lab_env.platform import services\n\
print(Lab('pytest', services.endpoints()).start_spark({busy}).sparkContext.uiWebUrl)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.startswith("http://127.0.0.1:"), done.stderr
    assert busy["spark.ui.port"] not in done.stdout


def test_a_jvm_that_does_not_exit_halts_itself(started):
    pid = int(started.stdout.split()[1])
    wait_until(lambda: not psutil.pid_exists(pid), EXIT_SECONDS + 5)


@needs_linux
def test_its_classes_come_from_the_archive(spark):
    pid = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    # The JVM maps the archive only where it fits; else it goes on without a word.
    assert cds_archive.cds_archive() in mapped_files(pid)


def test_the_password_of_the_store_shows_on_no_page_of_spark(services, spark):
    page = urlopen(f"{spark.sparkContext.uiWebUrl}/environment/", timeout=20).read().decode()
    assert "fs.s3a.endpoint" in page
    for key in (services.s3_access_key, services.s3_secret_key):
        assert key not in page
        assert key not in str(spark.sparkContext.getConf().getAll())


def test_keys_that_the_store_refuses_are_explained(services, spark):
    other, s3a = "fs.s3a.bucket.other", "org.apache.hadoop.fs.s3a"
    stale = {
        f"{other}.aws.credentials.provider": f"{s3a}.SimpleAWSCredentialsProvider",
        f"{other}.access.key": "of-another-lab",
        f"{other}.secret.key": services.s3_secret_key,
    }
    with pytest.raises(Py4JJavaError) as refused:
        spark.range(1).write.options(**stale).parquet("s3a://other/rows")
    assert "Restart the kernel" in explain(refused.value).advice


@pytest.mark.parametrize("lesson", ["99", "hello", "tour", 5])
def test_what_is_no_lesson_is_not_started_and_nothing_is_cleared(lesson):
    with pytest.raises(LabError, match="There is no lesson") as error:
        Lab.start(lesson)
    assert "00" in error.value.next_step
