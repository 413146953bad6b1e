"""A Spark session that set-up runs once, to archive the classes that a lesson loads first.

`python -m lab_env.pipeline.first_session ARCHIVE FOLDER`; its JVM writes the class data sharing
archive as it exits (`platform.install.cds_archive`). It needs no server: its tables are in FOLDER.
"""

import contextlib
import sys

from pyspark import SparkContext
from pyspark.sql import SparkSession

from lab_env.pipeline.session import LESSON_JAVA_OPTIONS, spark_conf
from lab_env.platform.install.jars import jar_folder
from lab_env.platform.settings import Endpoints

NOWHERE = Endpoints("http://127.0.0.1:1", "", "", "us-east-1", "nobody", "127.0.0.1:1")


def first_session(archive: str, folder: str) -> None:
    """Write and read a small table of each type, and try to read from a missing object store."""
    at_exit = f'"-XX:ArchiveClassesAtExit={archive}"'
    conf: dict[str, float | str | None] = {
        **spark_conf(NOWHERE, jar_folder("spark")),
        "spark.driver.extraJavaOptions": f"{LESSON_JAVA_OPTIONS} {at_exit}",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.port": "0",
        "spark.sql.warehouse.dir": f"file://{folder}/warehouse",
        "spark.hadoop.fs.s3a.attempts.maximum": "1",
        "spark.hadoop.fs.s3a.retry.limit": "0",
    }
    spark = SparkSession.builder.config(map=conf).getOrCreate()
    for table_type in ("COPY_ON_WRITE", "MERGE_ON_READ"):
        path = f"file://{folder}/{table_type}"
        rows = spark.range(10).selectExpr("id", "1 AS ts", "'a' AS day")
        options = {
            "hoodie.table.name": "first",
            "hoodie.datasource.write.table.type": table_type,
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.table.ordering.fields": "ts",
            "hoodie.datasource.write.partitionpath.field": "day",
        }
        for _ in range(2):
            rows.write.format("hudi").options(**options).mode("append").save(path)
        spark.read.format("hudi").load(path).groupBy("day").count().toPandas()
    # No server answers, but the classes of the S3 client are loaded.
    with contextlib.suppress(Exception):
        spark.read.text("s3a://nobody/nothing")
    java = SparkContext._gateway.proc
    spark.stop()
    SparkContext._gateway.shutdown()
    java.stdin.close()  # PySpark's JVM exits when its input ends, and writes the archive then
    java.wait()


if __name__ == "__main__":
    first_session(*sys.argv[1:])
