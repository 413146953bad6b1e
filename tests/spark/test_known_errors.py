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

TABLE = {
    "hoodie.table.name": "orders",
    "hoodie.datasource.write.recordkey.field": "order_id",
    "hoodie.datasource.write.precombine.field": "version",
    "hoodie.metadata.enable": "false",
    "hoodie.embed.timeline.server": "false",
}
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

    def write(self, rows, path: str = "", **options: str) -> None:
        """Upsert rows into a table, created on the first call."""
        chosen = TABLE | {name.replace("__", "."): value for name, value in options.items()}
        rows.write.format("hudi").options(**chosen).mode("append").save(path or self.path)

    def orders(self, *numbers: int, schema: str = ROWS):
        """Return orders of version 1, with these numbers in their ids and as their amounts."""
        return self.spark.createDataFrame([(f"O-{n}", 1, float(n)) for n in numbers], schema)

    def ask_a_folder_that_is_no_table(self) -> None:
        Path(self.path).mkdir()
        self.spark.read.format("hudi").load(self.path).count()

    def misspell_a_format(self) -> None:
        self.spark.read.format("hoodie").load(self.path)

    def change_the_record_key(self) -> None:
        self.write(self.orders(1))
        self.write(self.orders(2), hoodie__datasource__write__recordkey__field="amount")

    def leave_the_record_key_empty(self) -> None:
        self.write(self.spark.createDataFrame([(None, 1, 1.0)], ROWS))

    def misspell_the_record_key(self) -> None:
        self.write(self.orders(1), hoodie__datasource__write__recordkey__field="ordr_id")

    def ask_for_changes_of_a_table_without_them(self) -> None:
        self.write(self.orders(1))
        reader = self.spark.read.format("hudi")
        reader = reader.option("hoodie.datasource.query.type", "incremental")
        reader = reader.option("hoodie.datasource.query.incremental.format", "cdc")
        reader.option("hoodie.datasource.read.begin.instanttime", "0").load(self.path).collect()

    def add_a_column_that_is_never_null(self) -> None:
        self.write(self.orders(1))
        rows = self.orders(2).selectExpr("*", "'web' AS channel")
        self.write(rows)

    def leave_out_a_column(self) -> None:
        self.write(self.orders(1))
        self.write(self.orders(2).drop("amount"))

    def read_a_damaged_base_file(self) -> None:
        self.write(self.orders(1))
        (file,) = Path(self.path).glob("*.parquet")
        file.write_bytes(file.read_bytes()[:-20])
        Path(self.path, f".{file.name}.crc").unlink(missing_ok=True)
        self.spark.read.format("hudi").load(self.path).collect()

    def read_files_that_somebody_removed(self) -> None:
        source = str(self.folder / "plain")
        self.orders(1).write.parquet(source)
        rows = self.spark.read.parquet(source)
        for file in Path(source).glob("part-*"):
            file.unlink()
        rows.collect()

    def stream_with_another_state(self) -> None:
        source, checkpoint = self.folder / "source", str(self.folder / "checkpoint")
        source.mkdir()
        for number, key in enumerate(("order_id", "amount")):
            self.orders(number).coalesce(1).write.mode("append").json(str(source))
            rows = self.spark.readStream.schema(ROWS).json(str(source))
            counts = rows.groupBy(key).count().writeStream.outputMode("update").format("noop")
            counts = counts.option("checkpointLocation", checkpoint)
            counts.trigger(availableNow=True).start().awaitTermination()

    def stream_beside_other_writers_without_a_name(self) -> None:
        source = self.folder / "source"
        self.orders(1).coalesce(1).write.json(str(source))
        lock = "org.apache.hudi.client.transaction.lock.InProcessLockProvider"
        options = TABLE | {
            "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
            "hoodie.write.lock.provider": lock,
            "checkpointLocation": str(self.folder / "checkpoint"),
        }
        rows = self.spark.readStream.schema(ROWS).json(str(source))
        stream = rows.writeStream.format("hudi").options(**options).trigger(availableNow=True)
        stream.start(self.path).awaitTermination()

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
        self.write(self.orders(1), **{name.replace(".", "__"): v for name, v in options.items()})

    def write_to_a_store_that_is_down(self) -> None:
        # A bucket with an endpoint of its own: the lab's store may be up in this run.
        down = {"fs.s3a.bucket.nowhere.endpoint": "http://127.0.0.1:1"}
        impatient = {"fs.s3a.attempts.maximum": "1", "fs.s3a.retry.limit": "0"}
        self.orders(1).write.options(**down, **impatient).json("s3a://nowhere/orders")

    def read_from_a_broker_that_is_down(self) -> None:
        reader = self.spark.read.format("kafka").option("subscribe", "orders")
        reader = reader.option("kafka.bootstrap.servers", "127.0.0.1:1")
        reader.option("kafka.default.api.timeout.ms", "1000").option(
            "kafka.request.timeout.ms", "1000"
        ).load().count()

    def misspell_a_column(self) -> None:
        self.orders(1).select("amout")

    def misspell_a_keyword(self) -> None:
        self.spark.sql("SELECT * FORM orders")

    def misspell_a_table(self) -> None:
        self.spark.sql("SELECT * FROM ordrs")

    def read_a_folder_that_is_not_there(self) -> None:
        self.spark.read.json(str(self.folder / "nowhere"))

    def raise_an_error_in_a_query(self) -> None:
        self.spark.sql("SELECT raise_error('no such rate')").collect()

    def fail_in_a_function_of_their_own(self) -> None:
        half = udf(lambda amount: amount / 0, "double")
        self.orders(1).select(half("amount")).collect()

    def write_where_something_is(self) -> None:
        self.orders(1).write.json(str(self.folder))

    def name_no_topic(self) -> None:
        self.spark.read.format("kafka").option("kafka.bootstrap.servers", "127.0.0.1:1").load()


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


@pytest.mark.parametrize(
    "mistake",
    [
        "misspell_a_column",
        "misspell_a_keyword",
        "misspell_a_table",
        "read_a_folder_that_is_not_there",
        "raise_an_error_in_a_query",
        "fail_in_a_function_of_their_own",
        "write_where_something_is",
        "name_no_topic",
    ],
)
def test_the_page_has_nothing_of_other_mistakes_and_sparks_own_words_are_a_card(
    spark, tmp_path, mistake
):
    with pytest.raises((PySparkException, Py4JJavaError)) as raised:
        getattr(Mistakes(spark, tmp_path), mistake)()
    assert bool(card_of(raised.value)) == isinstance(raised.value, PySparkException)
    stack = getattr(raised.value, "stackTrace", str(raised.value))  # which is searched, too
    assert "at org.apache.spark" in stack
    assert explain(raised.value) is None
