"""A Spark session that `lab doctor` starts: it tries what every lesson needs first."""

from threading import Timer

from lab_env.pipeline import hadoop, session
from lab_env.pipeline.first_session import NOWHERE
from lab_env.platform import services
from lab_env.platform.errors import LabError
from lab_env.platform.install import cds_archive, java
from lab_env.platform.install.jars import jar_folder
from lab_env.platform.jvm import explained
from lab_env.platform.processes import supervisor

PATIENCE_S = 60


def try_session() -> None:
    """Start a session, a Python worker and, if the services run, a request to the store.

    Raises:
        LabError: one of them fails.
    """
    log = supervisor.log_path("spark-doctor")
    try:
        endpoints = services.endpoints()
    except LabError:  # not running
        endpoints = NOWHERE
    jars, home = jar_folder("spark"), java.java_home()
    options = cds_archive.java_options(session.LESSON_JAVA_OPTIONS)
    conf = {"spark.driver.extraJavaOptions": options} | session.SHORT_LIFE
    try:
        with session.build_session(endpoints, jars, home, "lab doctor", conf, log) as spark:
            # A cluster without a free core would keep it waiting.
            limit = Timer(PATIENCE_S, spark.sparkContext.cancelAllJobs)
            limit.start()
            try:
                spark.sparkContext.parallelize([1], 1).map(str).collect()
            finally:
                limit.cancel()
            if endpoints != NOWHERE:
                hadoop.exists(spark, f"s3a://{endpoints.bucket}/")
    except Exception as error:  # Py4J's, PySpark's and Java's have no common class
        lines = str(error).splitlines() or [type(error).__name__]
        # The first line of a Java error names only the method that was called.
        told = next((line[2:] for line in lines if line.startswith(": ")), lines[0])
        reason = explained(told, log)
        raise LabError(
            f"A Spark session fails: {reason}", "look for the first error: lab logs spark-doctor"
        ) from error
