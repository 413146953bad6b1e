"""What unit tests share: a Spark without services, connectors or a web page."""

import os
import sys

import pytest


@pytest.fixture(scope="package")
def spark():
    """A small local session in UTC."""
    # Else Spark starts its Python workers with whatever `python3` is on PATH.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )
    yield session
    session.stop()
