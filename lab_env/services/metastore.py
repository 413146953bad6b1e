"""The Hive Metastore: the directory in which engines look up a table's name, columns and place.

It is the one that PySpark's own jars hold (Hive 2.3), with its tables in an embedded Derby database.
"""

import os
import sys
from pathlib import Path
from xml.sax.saxutils import escape

from lab_env.install.cache import Progress
from lab_env.install.jars import fetch_jars, jar_folder
from lab_env.install.java import java_program
from lab_env.install.maven import pyspark_home
from lab_env.jvm import QUICK_COMPILER
from lab_env.processes.state import folder
from lab_env.processes.supervisor import Program
from lab_env.services import thrift
from lab_env.services.base import NotReady, Service
from lab_env.services.minio import credentials
from lab_env.settings import machine_credentials, settings

JAVA_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", *QUICK_COMPILER, "-Duser.timezone=UTC")

PROPERTIES = {
    # Relative to the working folder, so that no character of LAB_HOME meets the syntax of a JDBC URL.
    "javax.jdo.option.ConnectionURL": "jdbc:derby:;databaseName=db;create=true",
    "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
    # The first start makes the tables of the database itself; there is no version table to compare.
    "datanucleus.schema.autoCreateAll": "true",
    "hive.metastore.schema.verification": "false",
    "fs.s3a.path.style.access": "true",
    # A store that is down must be an error within seconds: the metastore asks it for folders only.
    "fs.s3a.attempts.maximum": "1",
    "fs.s3a.retry.limit": "1",
    "fs.s3a.connection.establish.timeout": "2000",
    "fs.s3a.connection.timeout": "5000",
}

# Its last twenty lines must explain a failure, so only warnings are logged.
LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yyyy-MM-dd HH:mm:ss.SSS} %-5p %c{1}: %m%n%ex{short}
logger.datanucleus.name = DataNucleus
logger.datanucleus.level = error
"""


class Metastore(Service):
    """The metastore of the lab."""

    name = "metastore"
    title = "The Hive Metastore"
    variables = "LAB_METASTORE_URI"
    needs = ("minio",)

    def preferred_ports(self) -> dict[str, int]:
        """Thrift."""
        return {"thrift": settings().metastore_port}

    def external_address(self) -> str:
        """LAB_METASTORE_URI."""
        return settings().metastore_uri

    def fetch(self, report_progress: Progress) -> None:
        """Fetch the one jar that PySpark lacks."""
        fetch_jars(self.name, report_progress)

    def program(self, ports: dict[str, int]) -> Program:
        """The metastore on one folder of LAB_HOME."""
        place = folder("metastore")
        _write_configuration(place)
        _, access_key, secret_key = credentials()
        keys = {"AWS_ACCESS_KEY_ID": access_key, "AWS_SECRET_ACCESS_KEY": secret_key}
        return Program(
            name=self.name,
            argv=[
                *(sys.executable, "-I", "-m", "lab_env.services.metastore_server"),
                *(str(java_program()), _class_path()),
                *(settings().bind, str(ports["thrift"]), *JAVA_OPTIONS),
            ],
            # Without keys, the machine's own role or variables count.
            env=keys if access_key else machine_credentials(),
            cwd=place,
        )

    def check(self) -> None:
        """Ask for the names of the databases."""
        try:
            thrift.databases(self.address(), seconds=3)
        except thrift.ThriftError as error:
            raise NotReady(f"it does not answer ({error})") from None

    def address(self) -> str:
        """Its URI, as `hive.metastore.uris` wants it."""
        return self.external_address() or f"thrift://{settings().client_host}:{self.port('thrift')}"

    def partitions(self, database: str, table: str) -> list[str]:
        """The partitions that it knows of a table, for example `partition_date=2026-11-21`.

        Args:
            database: its name.
            table: its name.

        Raises:
            ThriftError: it does not answer, or there is no such table.
        """
        return thrift.partitions(self.address(), database, table)

    def drop_database(self, name: str) -> list[str]:
        """Forget a database and its tables; their files stay. Nothing when the service does not run.

        Args:
            name: of the database.

        Returns:
            The names of the tables that it had.
        """
        if not (self.external or self.running()):
            return []
        if name not in thrift.databases(self.address()):
            return []
        found = thrift.tables(self.address(), name)
        thrift.drop_database(self.address(), name)
        return found


def _write_configuration(place: Path) -> None:
    (place / "conf").mkdir(exist_ok=True)
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
    (place / "conf" / "hive-site.xml").write_text(text + "\n")
    (place / "conf" / "log4j2.properties").write_text(LOGGING)


def _class_path() -> str:
    """Hive from PySpark, S3A from the jars of the course's sessions. No Hudi: it brings a Hive, too."""
    spark = pyspark_home() / "jars"
    s3a = [jar for jar in sorted(jar_folder("spark").glob("*.jar")) if "aws" in jar.name]
    (py4j,) = spark.glob("py4j-*.jar")
    parts = ["conf", py4j, f"{spark}/*", *s3a, f"{jar_folder('metastore')}/*"]
    return os.pathsep.join(map(str, parts))
