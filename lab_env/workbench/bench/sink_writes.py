"""Writes, maintains and queries the three sinks of the benchmark.

The JSON files must do everything that the tables do: a query returns the newest state of each
order, an incremental query reads only the batches it needs, and the files are compacted, too.
"""

import json
from abc import ABC, abstractmethod

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter

from lab_env.pipeline import options
from lab_env.pipeline.session import endpoints_of_environment
from lab_env.pipeline.sinks import WRITERS, table_path
from lab_env.platform import store
from lab_env.tables.hudi.timeline import parse_timeline_name
from lab_env.workbench.bench.stream import LAST_DAY, RANGE

SCHEMA = (
    "event_id STRING, op STRING, order_id STRING, customer_id STRING, product_id STRING, "
    "amount DECIMAL(12,2), status STRING, order_ts TIMESTAMP, sent_at TIMESTAMP, "
    "partition_date STRING"
)


class Sink(ABC):
    """One sink in one round.

    Args:
        base: folder of this round, `s3a://...`.
        extra_options: Hudi options in addition to the pipeline's.
    """

    def __init__(self, spark: SparkSession, name: str, base: str, extra_options: dict[str, str]):
        self.spark, self.name, self.base, self.extra_options = spark, name, base, extra_options
        self.path = table_path(base, name)

    @abstractmethod
    def writer(self, parsed: DataFrame) -> DataStreamWriter:
        """Return the writer that streams the pipeline's events into this sink."""

    @abstractmethod
    def table(self) -> DataFrame:
        """Return the newest state, one row per order."""

    @abstractmethod
    def changed_since(self, batch: int) -> DataFrame:
        """Return the newest state of the orders that were changed after a batch."""

    @abstractmethod
    def as_of(self, batch: int) -> DataFrame:
        """Return the state after a batch, one row per order."""

    @abstractmethod
    def run_table_services(self) -> None:
        """Compact the sink, and delete versions that readers of the newest state do not need."""

    def run_query(self, query: str, table: DataFrame) -> DataFrame:
        """Count the `rows` of an open table and sum their `cents`.

        Args:
            query: `point:<order_id>`, `range` or `aggregate`; any other text sums the whole table.
        """
        kind, _, order = query.partition(":")
        if kind == "point":
            table = table.where(F.col("order_id") == order)
        if kind == "range":
            in_range = F.col("amount").between(RANGE[0] / 100, RANGE[1] / 100)
            table = table.where((F.col("partition_date") == LAST_DAY) & in_range)
        cents = F.coalesce(F.sum(F.col("amount") * 100).cast("long"), F.lit(0))
        return table.agg(F.count("*").alias("rows"), cents.alias("cents"))

    def _hadoop(self, path: str):
        """Return a path as a Hadoop `Path` object, and its file system."""
        place = self.spark._jvm.org.apache.hadoop.fs.Path(path)
        return place, place.getFileSystem(self.spark._jsc.hadoopConfiguration())


class JsonFiles(Sink):
    """Files with one line of JSON per event; a reader must find the newest line of each order."""

    def writer(self, parsed: DataFrame) -> DataStreamWriter:
        return WRITERS["json"](parsed, self.path).option("compression", options.CODEC)

    def table(self) -> DataFrame:
        done, files = self._hadoop(f"{self._tidied}/_SUCCESS")
        if files.exists(done):  # of the table services, which leave one line per order
            return self._read(self._tidied)
        return newest(self._read(self.path))

    def changed_since(self, batch: int) -> DataFrame:
        return newest(self._read(*self._files(lambda number: number > batch)))

    def as_of(self, batch: int) -> DataFrame:
        return newest(self._read(*self._files(lambda number: number <= batch)))

    def run_table_services(self) -> None:
        (
            self.table()
            .write.partitionBy("partition_date")
            .option("compression", options.CODEC)
            .json(self._tidied)
        )
        place, files = self._hadoop(self.path)
        files.delete(place, True)

    @property
    def _tidied(self) -> str:
        return f"{self.path}_tidied"

    def _read(self, *paths: str) -> DataFrame:
        base = paths[0].split("/partition_date=")[0]
        return self.spark.read.schema(SCHEMA).option("basePath", base).json(list(paths))

    def _files(self, wanted) -> list[str]:
        """Look up the files of the wanted batches in the sink's log, which lists them by batch."""
        endpoints = endpoints_of_environment()
        paths = []
        for entry in store.list_objects(endpoints, f"{store.key_of(self.path)}/_spark_metadata/"):
            if wanted(int(entry.key.rpartition("/")[2])):
                lines = store.read(endpoints, entry.key).decode().splitlines()[1:]
                paths += [json.loads(line)["path"] for line in lines]
        return paths


class HudiTable(Sink):
    """A Hudi table of either type."""

    def writer(self, parsed: DataFrame) -> DataStreamWriter:
        return WRITERS[self.name](parsed, self.path).options(
            **options.COMPACTION_OFF, **self.extra_options
        )

    def table(self) -> DataFrame:
        return self.spark.read.format("hudi").load(self.path)

    def changed_since(self, batch: int) -> DataFrame:
        return (
            self.spark.read.format("hudi")
            .option("hoodie.datasource.query.type", "incremental")
            .option("hoodie.datasource.read.begin.instanttime", self._instants()[batch][1])
            .load(self.path)
        )

    def as_of(self, batch: int) -> DataFrame:
        instant = self._instants()[batch][0]
        return self.spark.read.format("hudi").option("as.of.instant", instant).load(self.path)

    def run_table_services(self) -> None:
        jobs = as_text(options.METADATA | self.extra_options)
        if self.name == "mor":
            compact(self.spark, self.path, jobs)
        name = f"bench_{self.name}_{self.base.rpartition('/')[2].replace('-', '_')}"
        self.spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{self.path}'")
        self.spark.sql(
            f"CALL run_clean(table => '{name}', retain_commits => 1, options => '{jobs}')"
        )
        self.spark.sql(f"DROP TABLE {name}")

    def _instants(self) -> list[tuple[str, str]]:
        """Read each commit's requested and completion times from the timeline's file names."""
        place, files = self._hadoop(f"{self.path}/.hoodie/timeline")
        names = [status.getPath().getName() for status in files.listStatus(place)]
        action = {"cow": "commit", "mor": "deltacommit"}[self.name]
        instants = filter(None, map(parse_timeline_name, names))
        return sorted(
            (i.requested, i.completed) for i in instants if i.completed and i.action == action
        )


SINKS = {"json": JsonFiles, "cow": HudiTable, "mor": HudiTable}


def as_text(table_options: dict[str, str]) -> str:
    """Format Hudi options as the `options` argument of Hudi's procedures."""
    return ",".join(f"{key}={value}" for key, value in table_options.items())


def compact(spark: SparkSession, path: str, jobs: str) -> None:
    """Compact a Merge-on-Read table, even after a single commit; `jobs` comes from `as_text`."""
    spark.sql(
        f"CALL run_compaction(op => 'scheduleandexecute', path => '{path}',"
        f" options => '{jobs},hoodie.compact.inline.max.delta.commits=1')"
    )


def newest(events: DataFrame) -> DataFrame:
    """Return the last event of each order by event time."""
    by_time = Window.partitionBy("order_id").orderBy(F.desc("order_ts"))
    return events.withColumn("place", F.row_number().over(by_time)).where("place = 1").drop("place")
