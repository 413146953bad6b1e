"""A Spark session that `lab doctor` starts: it tries what every lesson needs first."""

from threading import Timer

from lab_env.lab.handle import Lab
from lab_env.pipeline import hadoop, session
from lab_env.pipeline.first_session import NOWHERE
from lab_env.platform import services
from lab_env.platform.errors import LabError
from lab_env.platform.jvm import explained

PATIENCE_S = 60


def try_session() -> None:
    """Start a lesson's session, a Python worker and, if the services run, ask the store.

    Raises:
        LabError: one of them fails.
    """
    try:
        endpoints = services.endpoints()
    except LabError:  # not running
        endpoints = NOWHERE
    lab = Lab("doctor", endpoints)
    try:
        with lab.start_spark(session.SHORT_LIFE) as spark:
            # A cluster without a free core would keep it waiting.
            limit = Timer(PATIENCE_S, spark.sparkContext.cancelAllJobs)
            limit.start()
            try:
                spark.sparkContext.parallelize([1], 1).map(str).collect()
            finally:
                limit.cancel()
            if endpoints != NOWHERE:
                hadoop.exists(spark, f"{lab.base}/")
    except LabError:
        raise
    except Exception as error:  # Py4J's, PySpark's and Java's have no common class
        lines = str(error).splitlines() or [type(error).__name__]
        # The first line of a Java error names only the method that was called.
        told = next((line[2:] for line in lines if line.startswith(": ")), lines[0])
        raise LabError(
            f"A Spark session fails: {explained(told, lab.spark_log)}",
            f"look for the first error: lab logs {lab.spark_log.stem}",
        ) from error
