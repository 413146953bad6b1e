"""The Hive Metastore: the catalog where engines look up a table's columns and location by name.

PySpark's own jars contain it (Hive 2.3); it keeps its tables in an embedded Derby database.
"""

import os
import sys
from pathlib import Path
from xml.sax.saxutils import escape

from lab_env.platform.errors import LabError
from lab_env.platform.install.cache import Progress
from lab_env.platform.install.jars import fetch_jars, jar_folder
from lab_env.platform.install.java import java_program
from lab_env.platform.install.maven import pyspark_home
from lab_env.platform.jvm import QUICK_COMPILER, SAME_EVERYWHERE
from lab_env.platform.processes.supervisor import Program
from lab_env.platform.services import glue, hive
from lab_env.platform.services.base import LOG4J2, NotReady, Service
from lab_env.platform.services.minio import credentials, credentials_as
from lab_env.platform.settings import settings

JAVA_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", *QUICK_COMPILER, *SAME_EVERYWHERE)

PROPERTIES = {
    # Relative to the working folder: a path may contain characters with a meaning in a JDBC URL.
    "javax.jdo.option.ConnectionURL": "jdbc:derby:;databaseName=db;create=true",
    "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
    # The first start creates Derby's tables itself; there is no schema version to verify.
    "datanucleus.schema.autoCreateAll": "true",
    "hive.metastore.schema.verification": "false",
    "fs.s3a.path.style.access": "true",
    # A stopped store must be an error within seconds; the metastore only looks up folders there.
    "fs.s3a.attempts.maximum": "1",
    "fs.s3a.retry.limit": "1",
    "fs.s3a.connection.establish.timeout": "2000",
    "fs.s3a.connection.timeout": "5000",
}

LOGGING = f"""{LOG4J2}
logger.datanucleus.name = DataNucleus
logger.datanucleus.level = error
"""


class Metastore(Service):
    name = "metastore"
    port_names = ("thrift",)
    scheme = "thrift://"  # as in `hive.metastore.uris`
    contents = "table names"
    variables = "LAB_METASTORE_URI and LAB_CATALOG"
    needs = ("minio",)

    @property
    def title(self) -> str:  # ty: ignore[incompatible-property-override]: nothing sets a title
        return "AWS Glue" if settings().catalog == "glue" else "Hive Metastore"

    def external_address(self) -> str:
        if settings().catalog == "glue":
            return f"{glue.SCHEME}{settings().s3_region}"
        return settings().metastore_uri

    def fetch(self, report_progress: Progress) -> None:
        """Fetch the one jar that PySpark lacks."""
        fetch_jars(self.name, report_progress)

    def program(self, ports: dict[str, int]) -> Program:
        _write_configuration(self.folder)
        return Program(
            name=self.name,
            argv=[
                *(sys.executable, "-I", "-m", "lab_env.platform.services.metastore_server"),
                *(str(java_program()), _class_path()),
                *(settings().bind, str(ports["thrift"]), *JAVA_OPTIONS),
            ],
            env=credentials_as("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
            cwd=self.folder,
        )

    def check(self) -> None:
        try:
            self._client.call(self.address(), "get_all_databases", seconds=3)
        except hive.HiveError as error:
            raise NotReady(f"it does not answer ({error})") from None

    def partitions(self, database: str, table: str) -> list[str]:
        """Partitions registered for a table, for example `partition_date=2026-11-21`."""
        return self._call("get_partition_names", database, table, -1)  # -1: no limit

    def clear(self, namespace: str) -> dict[str, int]:
        """Drop the lesson's database with its table names; the tables' files stay."""
        database = database_of(namespace)
        if database not in self._call("get_all_databases"):
            return {"table names": 0}
        tables = self._call("get_all_tables", database)
        self._call("drop_database", database, False, True, seconds=30)
        return {"table names": len(tables)}

    @property
    def _client(self):
        return glue if settings().catalog == "glue" else hive

    def _call(self, method: str, *arguments, seconds: float = 5):
        try:
            return self._client.call(self.address(), method, *arguments, seconds=seconds)
        except hive.HiveError as error:
            what = f"{self.title} at {self.address()} failed at {method}: {error}."
            raise LabError(what, "run: lab status") from None


def database_of(namespace: str) -> str:
    """Database of a namespace: `lesson_05` for `lesson-05`, as Hive allows no hyphen."""
    return namespace.replace("-", "_")


def _write_configuration(folder: Path) -> None:
    conf = folder / "conf"
    conf.mkdir(exist_ok=True)
    endpoint, _, _ = credentials()
    properties = PROPERTIES | {
        "hive.metastore.warehouse.dir": f"s3a://{settings().s3_bucket}/warehouse",
        "fs.s3a.endpoint": endpoint,
        "fs.s3a.endpoint.region": settings().s3_region,
        "fs.s3a.connection.ssl.enabled": str(endpoint.startswith("https")).lower(),
    }
    lines = [
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
        for name, value in properties.items()
    ]
    text = "\n".join(["<configuration>", *lines, "</configuration>"])
    (conf / "hive-site.xml").write_text(text + "\n")
    (conf / "log4j2.properties").write_text(LOGGING)


def _class_path() -> str:
    """Class path with Hive from PySpark and S3A from the lab's jars.

    Hudi's jar is left out because it bundles another Hive.
    """
    spark = pyspark_home() / "jars"
    lab = [jar for jar in sorted(jar_folder("spark").glob("*.jar")) if "hudi" not in jar.name]
    (py4j,) = spark.glob("py4j-*.jar")
    parts = ["conf", py4j, f"{spark}/*", *lab, f"{jar_folder('metastore')}/*"]
    return os.pathsep.join(map(str, parts))
