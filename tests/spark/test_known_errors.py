"""Real mistakes with Spark, Hudi, Kafka and S3A raise errors that the troubleshooting page lists.

Other mistakes raise errors that the page does not list, with an equally long Java stack trace.
"""

from pathlib import Path

import pyarrow as pa
import pytest
from py4j.clientserver import ClientServer, JavaParameters, PythonParameters
from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

from lab_env.course.known_errors import card_of, explain

RECORD_KEY = "hoodie.datasource.write.recordkey.field"
TABLE = {
    "hoodie.table.name": "orders",
    RECORD_KEY: "order_id",
    "hoodie.datasource.write.precombine.field": "version",
    "hoodie.metadata.enable": "false",
    "hoodie.embed.timeline.server": "false",
}
BROKER = "kafka.bootstrap.servers"
ROWS = "order_id STRING, version LONG, amount DOUBLE"


class Mistakes:
    """Each method makes a mistake, and raises the error that a learner would see.

    Args:
        spark: the session.
        folder: an empty folder.
    """

    def __init__(self, spark: SparkSession, folder: Path):
        self.spark, self.folder = spark, folder
        self.path = str(folder / "orders")

    def write(self, rows, **options: str) -> None:
        """Upsert rows into a table, created on the first call."""
        rows.write.format("hudi").options(**TABLE | options).mode("append").save(self.path)

    def order(self, number: int):
        """Return an order of version 1, with this number in its id and as its amount."""
        return self.spark.createDataFrame([(f"O-{number}", 1, float(number))], ROWS)

    def ask_a_folder_that_is_no_table(self) -> None:
        Path(self.path).mkdir()
        self.spark.read.format("hudi").load(self.path).count()

    def misspell_a_format(self) -> None:
        self.spark.read.format("hoodie").load(self.path)

    def change_the_record_key(self) -> None:
        self.write(self.order(1))
        self.write(self.order(2), **{RECORD_KEY: "amount"})

    def leave_the_record_key_empty(self) -> None:
        self.write(self.spark.createDataFrame([(None, 1, 1.0)], ROWS))

    def misspell_the_record_key(self) -> None:
        self.write(self.order(1), **{RECORD_KEY: "ordr_id"})

    def ask_for_changes_of_a_table_without_them(self) -> None:
        self.write(self.order(1))
        reader = self.spark.read.format("hudi")
        reader = reader.option("hoodie.datasource.query.type", "incremental")
        reader = reader.option("hoodie.datasource.query.incremental.format", "cdc")
        reader.option("hoodie.datasource.read.begin.instanttime", "0").load(self.path).collect()

    def add_a_column_that_is_never_null(self) -> None:
        self.write(self.order(1))
        self.write(self.order(2).selectExpr("*", "'web' AS channel"))

    def leave_out_a_column(self) -> None:
        self.write(self.order(1))
        self.write(self.order(2).drop("amount"))

    def read_a_damaged_base_file(self) -> None:
        self.write(self.order(1))
        (file,) = Path(self.path).glob("*.parquet")
        file.write_bytes(file.read_bytes()[:-20])
        Path(self.path, f".{file.name}.crc").unlink(missing_ok=True)
        self.spark.read.format("hudi").load(self.path).collect()

    def read_files_that_somebody_removed(self) -> None:
        source = str(self.folder / "plain")
        self.order(1).write.parquet(source)
        rows = self.spark.read.parquet(source)
        for file in Path(source).glob("part-*"):
            file.unlink()
        rows.collect()

    def stream_with_another_state(self) -> None:
        source, checkpoint = self.folder / "source", str(self.folder / "checkpoint")
        source.mkdir()
        for number, key in enumerate(("order_id", "amount")):
            self.order(number).coalesce(1).write.mode("append").json(str(source))
            rows = self.spark.readStream.schema(ROWS).json(str(source))
            counts = rows.groupBy(key).count().writeStream.outputMode("update").format("noop")
            counts = counts.option("checkpointLocation", checkpoint)
            counts.trigger(availableNow=True).start().awaitTermination()

    def stream_beside_other_writers_without_a_name(self) -> None:
        source = self.folder / "source"
        self.order(1).coalesce(1).write.json(str(source))
        lock = "org.apache.hudi.client.transaction.lock.InProcessLockProvider"
        options = TABLE | {
            "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
            "hoodie.write.lock.provider": lock,
            "checkpointLocation": str(self.folder / "checkpoint"),
        }
        rows = self.spark.readStream.schema(ROWS).json(str(source))
        stream = rows.writeStream.format("hudi").options(**options).trigger(availableNow=True)
        stream.start(self.path).awaitTermination()

    def create_a_table_twice(self) -> None:
        self.write(self.order(1))
        for _ in range(2):
            self.spark.sql(f"CREATE TABLE twice USING hudi LOCATION '{self.path}'")

    def repeat_a_bulk_insert(self) -> None:
        buckets = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}
        for operation in ("bulk_insert", "bulk_insert", "upsert"):
            self.write(self.order(1), **buckets, **{"hoodie.datasource.write.operation": operation})

    def write_to_a_folder_twice(self) -> None:
        for _ in range(2):
            self.order(1).write.json(str(self.folder / "lines"))

    def start_a_stream_twice(self) -> None:
        rows = self.spark.readStream.format("rate").load()
        first = rows.writeStream.format("memory").queryName("twice").start()
        try:
            rows.writeStream.format("memory").queryName("twice").start()
        finally:
            first.stop()

    def go_on_without_a_jvm(self) -> None:
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=1))
        gateway.jvm.java.lang.System.currentTimeMillis()

    def go_on_without_the_jvm_of_a_session(self) -> None:
        gateway = ClientServer(JavaParameters(port=1), PythonParameters(eager_load=False))
        gateway.jvm.java.lang.System.currentTimeMillis()

    def ask_arrow_for_a_table_of_no_batches(self) -> None:
        pa.Table.from_batches([])

    def write_with_a_lock_that_nobody_holds(self) -> None:
        lock = "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider"
        options = {
            "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
            "hoodie.write.lock.provider": lock,
            "hoodie.write.lock.zookeeper.url": "127.0.0.1:1",
            "hoodie.write.lock.zookeeper.base_path": "/locks",
            "hoodie.write.lock.zookeeper.lock_key": "orders",
            "hoodie.write.lock.zookeeper.connection_timeout_ms": "500",
            "hoodie.write.lock.client.num_retries": "1",
            "hoodie.write.lock.num_retries": "1",
            "hoodie.write.lock.wait_time_ms": "500",
            "hoodie.write.lock.client.wait_time_ms_between_retry": "100",
        }
        self.write(self.order(1), **options)

    def write_to_a_store_that_is_down(self) -> None:
        # A bucket with an endpoint of its own: the lab's store may be up in this run.
        down = {"fs.s3a.bucket.nowhere.endpoint": "http://127.0.0.1:1"}
        impatient = {"fs.s3a.attempts.maximum": "1", "fs.s3a.retry.limit": "0"}
        self.order(1).write.options(**down, **impatient).json("s3a://nowhere/orders")

    def read_from_a_broker_that_is_down(self) -> None:
        reader = self.spark.read.format("kafka").option("subscribe", "orders")
        reader = reader.option(BROKER, "127.0.0.1:1")
        reader = reader.option("kafka.default.api.timeout.ms", "1000")
        reader.option("kafka.request.timeout.ms", "1000").load().count()

    def fail_in_a_function_of_their_own(self) -> None:
        half = udf(lambda amount: amount / 0, "double")
        self.order(1).select(half("amount")).collect()


SECTION = {
    "ask_a_folder_that_is_no_table": "`TableNotFoundException",
    "misspell_a_format": "Failed to find data source",
    "change_the_record_key": "`HoodieException: Config conflict",
    "leave_the_record_key_empty": "`HoodieKeyException",
    "misspell_the_record_key": "`HoodieKeyException",
    "ask_for_changes_of_a_table_without_them": "`It isn't a CDC hudi table",
    "add_a_column_that_is_never_null": "`SchemaBackwardsCompatibilityException",
    "leave_out_a_column": "`MissingSchemaFieldException",
    "read_a_damaged_base_file": "`is not a Parquet file",
    "read_files_that_somebody_removed": "A report fails with `SparkFileNotFoundException`",
    "stream_with_another_state": "`Provided schema doesn't match",
    "stream_beside_other_writers_without_a_name": "`For multi-writer scenarios",
    "create_a_table_twice": "A cell ran twice",
    "repeat_a_bulk_insert": "`Find multiple files",
    "write_to_a_folder_twice": "A cell ran twice",
    "start_a_stream_twice": "A cell ran twice",
    "go_on_without_a_jvm": "`Py4JNetworkError`",
    "go_on_without_the_jvm_of_a_session": "`Py4JNetworkError`",
    "ask_arrow_for_a_table_of_no_batches": "`Must pass schema",
    "write_with_a_lock_that_nobody_holds": "`Unable to acquire lock`",
    "write_to_a_store_that_is_down": "`Unable to execute HTTP request`",
    "read_from_a_broker_that_is_down": "`Timed out waiting for a node assignment`",
}


@pytest.mark.parametrize("mistake", SECTION)
def test_a_mistake_is_explained_by_its_section(spark, tmp_path, mistake):
    with pytest.raises(Exception) as raised:
        getattr(Mistakes(spark, tmp_path), mistake)()
    known = explain(raised.value)
    assert known and known.heading.startswith(SECTION[mistake]), str(raised.value)


NOT_LISTED = {
    "a misspelt column": lambda our: our.order(1).select("amout"),
    "a misspelt keyword": lambda our: our.spark.sql("SELECT * FORM orders"),
    "a misspelt table": lambda our: our.spark.sql("SELECT * FROM ordrs"),
    "no such folder": lambda our: our.spark.read.json(str(our.folder / "nowhere")),
    "an error raised by a query": lambda our: our.spark.sql("SELECT raise_error('x')").collect(),
    "a function that fails": Mistakes.fail_in_a_function_of_their_own,
    "no topic": lambda our: our.spark.read.format("kafka").option(BROKER, "127.0.0.1:1").load(),
}


@pytest.mark.parametrize("mistake", NOT_LISTED)
def test_the_page_has_nothing_of_other_mistakes_and_sparks_own_words_are_a_card(
    spark, tmp_path, mistake
):
    with pytest.raises((PySparkException, Py4JJavaError)) as raised:
        NOT_LISTED[mistake](Mistakes(spark, tmp_path))
    assert bool(card_of(raised.value)) == isinstance(raised.value, PySparkException)
    stack = getattr(raised.value, "stackTrace", str(raised.value))  # which is searched, too
    assert "at org.apache.spark" in stack
    assert explain(raised.value) is None
