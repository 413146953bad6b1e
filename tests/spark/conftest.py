"""A Spark session without services or web UI, shared by these tests."""

import pytest

from lab_env.pipeline.session import LESSON_JAVA_OPTIONS, prepare_environment, spark_conf
from lab_env.pipeline.tasks import heartbeat
from lab_env.platform.install import cds_archive, java
from lab_env.platform.install.jars import jar_folder
from lab_env.platform.services.minio import credentials
from lab_env.platform.settings import Endpoints


@pytest.fixture(scope="package")
def spark(tmp_path_factory):
    """A small local session in UTC."""
    # A JVM keeps its class path, options and environment, the keys of the store among them. Here
    # they are those of the lab's own sessions, so that both may run in one process, in any order.
    _, access_key, secret_key = credentials()
    # No service answers at this address, so a unit test that needs one fails.
    nowhere = Endpoints(
        "http://127.0.0.1:1", access_key, secret_key, "us-east-1", "lakehouse", "127.0.0.1:1"
    )
    prepare_environment(nowhere, java.java_home())
    from pyspark.sql import SparkSession

    conf = spark_conf(nowhere, jar_folder("spark")) | heartbeat(patience=5)
    conf |= {
        "spark.master": "local[1]",
        "spark.driver.extraJavaOptions": cds_archive.java_options(LESSON_JAVA_OPTIONS),
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.sql.shuffle.partitions": "1",
    }
    session = SparkSession.builder.config(map=conf).getOrCreate()
    yield session
    session.stop()
