"""The Spark settings of a session: pinned jars, object store, Hudi extensions, JVM options.

The tour, the writers and the notebooks build their sessions here; the appendix of lesson 03 builds
a small session by hand.
"""

import json
import os
import shlex
import socket
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from importlib.metadata import distribution
from pathlib import Path

from lab_env.platform.jvm import (
    EXIT_SECONDS,
    JOL_OPTIONS,
    QUICK_COMPILER,
    SAME_EVERYWHERE,
    start_mark,
)
from lab_env.platform.settings import CONF_FOLDERS, Endpoints, settings
from lab_env.platform.store import export_environment, keys_as_variables

ANYWHERE = (*SAME_EVERYWHERE, *JOL_OPTIONS)

JAVA_OPTIONS = " ".join(
    (
        *ANYWHERE,
        # Warnings would bury errors in a learner's notebook, so only errors are logged.
        f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}",
    )
)

# A lesson's session lives a minute or two, so it uses the quick compiler. Measured processor time
# of session, first Hudi write and later small write: 4.7, 4.5 and 1.0 s with it; 6.3, 9.3 and 1.9 s
# without. Long streams are faster without it. Nor does it need a collector that works beside the
# program to keep pauses short: on two cores the parallel one took 3 of lesson 04's 44 s less than
# the default, G1, and the tour's peak of memory was 0.9 of G1's.
LESSON_JAVA_OPTIONS = " ".join((JAVA_OPTIONS, *QUICK_COMPILER, "-XX:+UseParallelGC"))

# Spark without its code generation. To compile a query for a few hundred rows costs more than it
# saves: without, the writer of lesson 17 used 0.84 of the processor time.
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}

# A program that lives for half a minute needs no web page, either.
SHORT_LIFE = INTERPRETED | {"spark.ui.enabled": "false"}


PROGRAM = "LAKEHOUSE_PROGRAM"  # the variable with what a program of the lab is told, as JSON


def environment(endpoints: Endpoints, **more: str) -> dict[str, str]:
    """Environment variables that pass the services' addresses and the store's keys to a program."""
    told = {
        "s3_endpoint": endpoints.s3_endpoint,
        "s3_region": endpoints.s3_region,
        "bucket": endpoints.bucket,
        "kafka_bootstrap": endpoints.kafka_bootstrap,
        "kinesis": endpoints.kinesis,
    }
    return keys_as_variables(endpoints) | {PROGRAM: json.dumps(told | more)}


def endpoints_of_environment() -> Endpoints:
    """Read the endpoints from the variables that `environment` returns."""
    told = _told()
    return Endpoints(
        s3_endpoint=told["s3_endpoint"],
        s3_access_key=os.environ.get("AWS_ACCESS_KEY_ID", ""),
        s3_secret_key=os.environ.get("AWS_SECRET_ACCESS_KEY", ""),
        s3_region=told["s3_region"],
        bucket=told["bucket"],
        kafka_bootstrap=told["kafka_bootstrap"],
        kinesis=told["kinesis"],
        s3_session_token=os.environ.get("AWS_SESSION_TOKEN", ""),
    )


def session_environment(
    endpoints: Endpoints, jars: Path, java_home: Path, java_options: str
) -> dict[str, str]:
    """Environment variables for a program that starts its session with `session_of_environment`."""
    return environment(
        endpoints, jars=str(jars), java_home=str(java_home), java_options=java_options
    )


def session_of_environment(app: str, extra: dict[str, str] | None = None, log: Path | None = None):
    """Start the session of a program that was started with `session_environment`.

    `extra` and `log` are as in `build_session`.
    """
    told = _told()
    return build_session(
        endpoints_of_environment(),
        Path(told["jars"]),
        Path(told["java_home"]),
        app,
        {"spark.driver.extraJavaOptions": told["java_options"]} | (extra or {}),
        log,
    )


def _told() -> dict[str, str]:
    return json.loads(os.environ[PROGRAM])


DAY, MICROSECOND = timedelta(days=1), timedelta(microseconds=1)
# One day more: the local time of a place may be behind UTC.
FIRST_DAY_ENDS_US = (datetime.min - datetime(1970, 1, 1) + 2 * DAY) // MICROSECOND

PLANS_HIDE = "spark.sql.redaction.string.regex"

# What every session needs that reads Kafka and writes Hudi tables to an S3 store, wherever it runs.
LAKEHOUSE = {
    # Hudi asks for Kryo, and for its SQL parser and catalogue (MERGE INTO, CALL, time travel).
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    "spark.sql.session.timeZone": "UTC",
    # Plans show the options of a source, and with them how it signs in to Kafka.
    PLANS_HIDE: r'(username|password)\s*=\s*"(\\.|[^"\\])*"',
    # Streaming queries in one process share the cores, so that none waits for another.
    "spark.scheduler.mode": "FAIR",
    "spark.hadoop.fs.s3a.path.style.access": "true",
    # Keeping directory markers saves the deletes that S3A otherwise sends after each write.
    "spark.hadoop.fs.s3a.directory.marker.retention": "keep",
    # Rows that go to a Python worker together. 10,000 messages of a megabyte, by default, are more
    # than an Arrow column can hold; with events as they are, they take 0.8 of the parse's time.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "200",
    # Hudi writes a time before 1900 as it is, but not Spark's name into the file; for such a file
    # Spark by default refuses to read the time, and with it the table.
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    # A store that is down must be an error within a minute; by default S3A retries for many.
    "spark.hadoop.fs.s3a.attempts.maximum": "5",
    "spark.hadoop.fs.s3a.connection.timeout": "20000",
    # Parquet writes a checksum with each page, and by default no reader looks at it. In a base file
    # compressed with zstd, half of all single bits that change give another value, and no error.
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
}

# Every poll of a writer fetches all reports that Spark keeps, one call each, so it keeps few.
KEPT_REPORTS = {"spark.sql.streaming.numRecentProgressUpdates": "20"}

WEEK_MS = 7 * 24 * 3600 * 1000

# Glue in the place of a metastore: AWS's client, which EMR has on its class path.
GLUE = "spark.hadoop.hive.metastore.client.factory.class"
GLUE_CLIENT = "com.amazonaws.glue.catalog.metastore.AWSGlueDataCatalogHiveClientFactory"


def spark_conf(endpoints: Endpoints, jars: Path) -> dict[str, str]:
    """Spark properties of a session that reads Kafka and writes Hudi tables to the store.

    They do not include the object store's keys: S3A takes these from the environment
    (`prepare_environment`), so they appear on no web page and in no log.
    """
    chosen = settings()
    return LAKEHOUSE | {
        "spark.master": chosen.spark_master,
        # A class path instead of spark.jars.packages: no resolution and no copying of jars at
        # start. Measured: session in 2.7 s instead of 5.8 s.
        "spark.driver.extraClassPath": f"{jars}/*",
        "spark.driver.memory": chosen.spark_memory,
        "spark.driver.extraJavaOptions": JAVA_OPTIONS,
        **driver_address(),
        "spark.ui.port": str(chosen.spark_ui_port),
        # A page for each session of a class on one server: Spark tries 16 ports and then fails.
        "spark.port.maxRetries": "16" if chosen.spark_driver_ports else "256",
        "spark.ui.showConsoleProgress": "false",
        # Tables without a LOCATION also go to the store, not to the notebook's folder.
        "spark.sql.warehouse.dir": f"s3a://{endpoints.bucket}/{chosen.prefix}warehouse",
        **shuffles(chosen.cores),
        **python_workers(chosen.spark_master),
        **slept(chosen.spark_master),
        # By default it is in /tmp, even if Java's temporary folder is another.
        "spark.hadoop.fs.s3a.buffer.dir": "${java.io.tmpdir}/hadoop-${user.name}/s3a",
        "spark.hadoop.fs.s3a.endpoint": endpoints.s3_endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": endpoints.s3_region,
        "spark.hadoop.fs.s3a.connection.ssl.enabled": str(
            endpoints.s3_endpoint.startswith("https")
        ).lower(),
    }


def shuffles(cores: int) -> dict[str, str]:
    """Spark properties for one shuffle partition per core, but at least two: one round of tasks.

    The default of 200 is for large clusters. Adaptive execution does not lower it: Spark switches
    that off in a stream, and Hudi's own stages do not use it.

    The checkpoint keeps the number from a stream's first start, so set it before that; else it
    keeps 200. The number takes effect from the second start on, because at first Hudi starts as
    many tasks as the rows have partitions. Tasks of two small commits, measured at the first and
    the second start: 53 and 1,240 if not set; 71 and 64 if set to 4; 1,240 if set to 4 at the
    second start only.
    """
    return {"spark.sql.shuffle.partitions": str(max(2, cores))}


def python_workers(master: str) -> dict[str, str]:
    """Spark properties for quick Python tasks, if the executors run this Python.

    Measured with 40 tiny tasks: 2.8 s instead of 4.6 s (`pipeline/python_workers.py` says why).
    """
    chosen = settings()
    if chosen.spark_python or not chosen.runs_here(master):
        return {}
    return {"spark.python.daemon.module": "lab_env.pipeline.python_workers"}


def slept(master: str) -> dict[str, str]:
    """Spark properties of a session that goes on after the computer was asleep.

    Without them a local session that was silent for two minutes gives up its only executor, the
    driver itself. Its jobs still run, but it hears no heartbeats any more and logs an error each
    time.
    """
    if not master.startswith("local"):
        return {}
    return {"spark.storage.blockManagerHeartbeatTimeoutMs": f"{WEEK_MS}"}


def driver_address() -> dict[str, str]:
    """Spark properties for the driver's addresses, and its ports if the settings specify them."""
    chosen = settings()
    host = chosen.spark_driver_host or chosen.client_host
    # A loopback address would be of no use to executors elsewhere.
    bind = chosen.bind if chosen.reachable_from_outside else host
    address = {"spark.driver.host": host, "spark.driver.bindAddress": bind}
    if first := chosen.spark_driver_ports:
        address["spark.driver.port"] = str(first)
        address["spark.driver.blockManager.port"] = str(first + 20)
    return address


def cluster_conf(conf: Mapping[str, str], jars: Path) -> dict[str, str]:
    """Additional properties of a session on a cluster; empty for any other session."""
    master = conf["spark.master"]
    if master.startswith("local"):
        return {}
    chosen = settings()
    shared = {
        "spark.executor.memory": chosen.spark_executor_memory,
        "spark.executor.cores": str(chosen.spark_executor_cores),
        "spark.cores.max": str(chosen.spark_cores),
        "spark.executor.extraJavaOptions": " ".join(ANYWHERE),
    }
    if master == chosen.own_master:
        # Its executors run on this machine: they read the same jars, and the same archive of them.
        return shared | {
            "spark.executor.extraClassPath": f"{jars}/*",
            "spark.executor.extraJavaOptions": conf["spark.driver.extraJavaOptions"],
            # A dead executor on this machine refuses at once; who fetches from it asks the driver
            # at the next try whether it is alive, by default five seconds later.
            "spark.shuffle.io.retryWait": "1s",
        }
    # The driver hands the jars to executors on other machines.
    return shared | {"spark.jars": ",".join(map(str, sorted(jars.glob("*.jar"))))}


def metastore_conf(uri: str) -> dict[str, str]:
    """Properties of a session that keeps table names in a Hive Metastore or in Glue.

    `uri` is `thrift://host:port` of the metastore, or `glue://region`.
    """
    if uri.startswith("glue://"):
        return {"spark.sql.catalogImplementation": "hive", GLUE: GLUE_CLIENT}
    return {
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.hive.metastore.uris": uri,
        # A metastore that is down must be an error within seconds, not minutes.
        "spark.hadoop.hive.metastore.connect.retries": "1",
        "spark.hadoop.hive.metastore.client.socket.timeout": "20s",
    }


def prepare_environment(endpoints: Endpoints, java_home: Path) -> None:
    """Set the environment variables that a Spark driver in this process reads.

    They keep Spark from using another SPARK_HOME, Java or Python of this machine, and include the
    object store's address and keys.
    """
    os.environ["SPARK_HOME"] = str(distribution("pyspark").locate_file("pyspark"))
    for name in {*CONF_FOLDERS, "PYSPARK_SUBMIT_ARGS"} - settings().conf_folders.keys():
        os.environ.pop(name, None)
    os.environ["JAVA_HOME"] = str(java_home)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYSPARK_PYTHON"] = settings().spark_python or sys.executable
    os.environ["SPARK_LOCAL_IP"] = driver_address()["spark.driver.bindAddress"]
    # Else Spark looks up this machine's name, which need not resolve.
    os.environ["SPARK_LOCAL_HOSTNAME"] = driver_address()["spark.driver.host"]
    export_environment(endpoints)
    _let_python_read_the_year_1()


def _let_python_read_the_year_1() -> None:
    """Let `collect` return 0001-01-01, the zero time of Go and .NET.

    Otherwise Python looks a day back for a clock change, finds the year 0, and raises ValueError.
    """
    from pyspark.sql.types import TimestampType

    def from_internal(self: TimestampType, ts: int) -> datetime:
        if ts is None or ts >= FIRST_DAY_ENDS_US:
            return read(self, ts)
        return read(self, ts + DAY // MICROSECOND) - DAY

    read = TimestampType.fromInternal
    if read.__module__ != __name__:  # another session has done it
        TimestampType.fromInternal = from_internal


def build_session(
    endpoints: Endpoints,
    jars: Path,
    java_home: Path,
    app: str,
    extra: dict[str, str] | None = None,
    log: Path | None = None,
):
    """Start this process's SparkSession on Java 17, or return the running one.

    Args:
        extra: additional Spark properties; they override the others.
        log: file for the JVM's output; by default it goes to this process's output.
    """
    prepare_environment(endpoints, java_home)
    from pyspark.sql import SparkSession  # after the environment is right

    running = SparkSession.getActiveSession()
    builder = SparkSession.builder.appName(app)
    conf = spark_conf(endpoints, jars) | (extra or {})
    if conf["spark.master"] == settings().own_master:
        # From a file, because anyone can read the arguments of a JVM.
        file = shlex.quote(str(settings().cluster_properties))
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"--properties-file {file} pyspark-shell"
    if settings().runs_here(conf["spark.master"]):
        conf["spark.driver.extraJavaOptions"] += _own_name(endpoints)
    if running is None and conf.get("spark.ui.enabled") != "false":
        conf |= _page(conf)
    for key, value in (cluster_conf(conf, jars) | conf).items():
        builder = builder.config(key, value)
    with _output_to(log):
        session = builder.getOrCreate()
    if running is None:
        _limit_time_to_exit(session.sparkContext._gateway)
    return session


def _page(conf: Mapping[str, str]) -> dict[str, str]:
    """Let a page have any free port if all that Spark tries are taken: it would end its JVM."""
    first = int(conf["spark.ui.port"])
    last = min(first + int(conf["spark.port.maxRetries"]), 65_535)
    for port in range(first, last + 1):
        with suppress(OSError), socket.create_server((conf["spark.driver.bindAddress"], port)):
            return {}
    return {"spark.ui.port": "0"}


def _own_name(endpoints: Endpoints) -> str:
    """Java option for a machine whose name is not in its list of hosts, and may not resolve.

    Spark asks for the address of that name even if it was told one. With the option Java knows the
    names in a file and no others, so it is left out if a server has another name.
    """
    servers = (endpoints.s3_endpoint, endpoints.kafka_bootstrap, settings().metastore_uri)
    name, hosts = socket.gethostname(), Path("/etc/hosts")
    elsewhere = any(server and "127.0.0.1" not in server for server in servers)
    if elsewhere or (hosts.exists() and name in hosts.read_text().split()):
        return ""
    own = settings().home / "run" / "hosts"
    own.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    own.write_text(f"127.0.0.1 localhost {name}\n")
    return f' "-Djdk.net.hosts.file={own}"'


def _limit_time_to_exit(gateway) -> None:
    """Make this JVM halt if it is still running EXIT_SECONDS after its exit began.

    A JVM that exits waits for its shutdown hooks, and one of Hudi's may never end: when the
    asynchronous compaction of a native sink has stopped by itself, its thread waits for itself
    while it holds a lock, and the hook waits for that lock (1.1.1, `HoodieStreamingSink.reset`).
    Without the limit the program would exit and leave its JVM running. The JVM is halted by a
    daemon thread and not by a separate process, because a notebook's kernel terminates all of its
    processes when it ends.
    """
    jvm = gateway.jvm
    runnable = jvm.java.lang.Class.forName("java.lang.Runnable")

    def call(target, method: str, *arguments):
        passed = gateway.new_array(jvm.java.lang.Object, len(arguments))
        for position, argument in enumerate(arguments):
            passed[position] = argument
        statement = jvm.java.beans.Statement(target, method, passed)
        return jvm.java.beans.EventHandler.create(runnable, statement, "execute")

    process = jvm.java.lang.Runtime.getRuntime()
    timer = jvm.org.apache.spark.util.ThreadUtils.newDaemonSingleThreadScheduledExecutor("exit")
    nanoseconds = jvm.java.util.concurrent.TimeUnit.NANOSECONDS  # too many for an int, so a long
    halt = call(process, "halt", 1)
    limit = call(timer, "schedule", halt, EXIT_SECONDS * 10**9, nanoseconds)
    process.addShutdownHook(jvm.java.lang.Thread(limit))


@contextmanager
def _output_to(log: Path | None) -> Generator[None]:
    """Redirect the output of processes started in the body, for as long as they run."""
    if log is None:
        yield
        return
    sys.stdout.flush()
    sys.stderr.flush()
    kept = {descriptor: os.dup(descriptor) for descriptor in (1, 2)}
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(target, f"{start_mark()}\n".encode())
    try:
        for descriptor in kept:
            os.dup2(target, descriptor)
        yield
    finally:
        for descriptor, original in kept.items():
            os.dup2(original, descriptor)
            os.close(original)
        os.close(target)
