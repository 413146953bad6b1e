"""What unit tests share: a Spark without services, connectors or a web page."""

import pytest

from lab_env.pipeline.session import LESSON_JAVA_OPTIONS, prepare_environment, spark_conf
from lab_env.runtime import class_archive, fetch, java
from lab_env.settings import Endpoints

# Nothing answers there: a unit test that asks a service fails.
NOWHERE = Endpoints("http://127.0.0.1:1", "", "", "us-east-1", "lakehouse", "127.0.0.1:1")


@pytest.fixture(scope="package")
def spark():
    """A small local session in UTC."""
    prepare_environment(NOWHERE, java.java_home())
    from pyspark.sql import SparkSession

    # A JVM keeps what the first session of its process has given it. This is what the lab's own
    # sessions give it, so that one of them may follow in this process, or come before.
    conf = spark_conf(NOWHERE, fetch.jars("spark"))
    jvm = {name: value for name, value in conf.items() if name.startswith("spark.driver.")}
    jvm["spark.driver.extraJavaOptions"] = class_archive.java_options(LESSON_JAVA_OPTIONS)
    session = (
        SparkSession.builder.master("local[1]")
        .config(map=jvm)
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )
    yield session
    session.stop()
