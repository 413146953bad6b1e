"""A lesson's SparkSession: soon there, plain, and silent about passwords."""

import os
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

from lab_env.errors import LabError
from lab_env.lab import Lab
from lab_env.runtime import class_archive

pytestmark = pytest.mark.services

START = """
from lab_env.lab import Lab
from lab_env import services
Lab("pytest", services.endpoints()).spark.stop()
"""


def test_its_classes_come_from_the_archive(services):
    spark = Lab("pytest", services).spark
    try:
        jvm = spark.sparkContext._jvm
        pid = str(jvm.java.lang.ProcessHandle.current().pid())
        archive = str(class_archive.class_archive())
        # The JVM maps the archive only where it fits; else it goes on without a word.
        assert archive in (Path("/proc") / pid / "maps").read_text()
    finally:
        spark.stop()


def test_another_spark_of_the_machine_is_not_picked_up(services, tmp_path):
    old = {"SPARK_HOME": str(tmp_path), "JAVA_HOME": str(tmp_path), "SPARK_CONF_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", START],
        env=os.environ | old,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    # What the JVM prints goes to the lab's log, not into a learner's notebook.
    assert done.stderr == ""


def test_the_password_of_the_store_shows_on_no_page_of_spark(services):
    spark = Lab("pytest", services).spark
    try:
        page = urlopen(f"{spark.sparkContext.uiWebUrl}/environment/", timeout=20).read().decode()
        assert "fs.s3a.endpoint" in page
        assert services.s3_secret_key not in page
        assert services.s3_secret_key not in str(spark.sparkContext.getConf().getAll())
    finally:
        spark.stop()


@pytest.mark.parametrize("lesson", ["99", "hello", "tour", 5])
def test_what_is_no_lesson_is_not_started_and_nothing_is_cleared(lesson):
    with pytest.raises(LabError, match="There is no lesson") as error:
        Lab.start(lesson)
    assert "00" in error.value.next_step
