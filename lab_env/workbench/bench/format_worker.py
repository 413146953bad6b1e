"""Tasks of the workers `hudi`, `delta` and `iceberg`: apply the same changes to each table.

Each format is written as its own guide recommends: Hudi by an upsert, which keeps the newest event
of each order; the others by MERGE, from a source reduced to the newest event of each order.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lab_env.lessons.recorded.contenders import (
    CATALOG,
    CONTENDERS,
    DELTA,
    HUDI,
    ICEBERG,
    MOR,
    Contender,
)
from lab_env.pipeline import parsing
from lab_env.pipeline.session import endpoints_of_environment
from lab_env.platform import store
from lab_env.tables.hudi.timeline import parse_timeline_key
from lab_env.workbench.bench.order_stream import COLUMNS
from lab_env.workbench.bench.sink_writes import SCHEMA, as_text, compact, newest

TIME = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'"
MERGE = """
    MERGE INTO {target} t USING changes s
    ON t.partition_date = s.partition_date AND t.order_id = s.order_id {partitions}
    WHEN MATCHED AND s.order_ts >= t.order_ts AND s.op = 'erase' THEN DELETE
    WHEN MATCHED AND s.order_ts >= t.order_ts THEN UPDATE SET *
    WHEN NOT MATCHED AND s.op <> 'erase' THEN INSERT *
"""


class Table(ABC):
    """One contender's table in the folder `base`; `extra` holds additional table properties."""

    def __init__(
        self, spark: SparkSession, contender: Contender, base: str, name: str, extra: dict[str, str]
    ):
        self.spark, self.contender = spark, contender
        self.properties = contender.all_options | extra
        self.name = name
        self.path = f"{base}/{name}"

    @abstractmethod
    def append(self, orders: DataFrame) -> None:
        """Add new orders; create the table if it is missing."""

    @abstractmethod
    def upsert(self, events: DataFrame, days: list[str]) -> None:
        """Apply changes in one commit; `days` are the table partitions that they touch."""

    @abstractmethod
    def read(self) -> DataFrame:
        """Return the newest state, one row per order."""

    @abstractmethod
    def start_of_changes(self) -> str:
        """Return the start position for reading the newest commit's changes."""

    @abstractmethod
    def changed(self, start: str) -> DataFrame:
        """Return the newest version of each row that was changed since a start position."""

    @abstractmethod
    def compact(self) -> None:
        """Compact logged changes and small files with the format's own procedure."""


class HudiTable(Table):
    """A table written by Hudi's own upsert; incremental queries need no preparation."""

    def append(self, orders: DataFrame) -> None:
        self._write(orders, "insert")

    def upsert(self, events: DataFrame, days: list[str]) -> None:
        self._write(events, "upsert")

    def _write(self, rows: DataFrame, operation: str) -> None:
        table = {"hoodie.table.name": self.name, "hoodie.datasource.write.operation": operation}
        write = parsing.with_deletes(rows).write.format("hudi")
        write.options(**self.properties | table).mode("append").save(self.path)

    def read(self) -> DataFrame:
        return self.spark.read.format("hudi").options(**self.contender.read).load(self.path)

    def start_of_changes(self) -> str:
        prefix = f"{store.key_of(self.path)}/.hoodie/timeline/"
        keys = (entry.key for entry in store.list_objects(endpoints_of_environment(), prefix))
        instants = filter(None, map(parse_timeline_key, keys))
        writes = {"commit", "deltacommit"}
        before, _ = sorted(i.completed for i in instants if i.completed and i.action in writes)[-2:]
        return before  # excluded by the reader

    def changed(self, start: str) -> DataFrame:
        return (
            self.spark.read.format("hudi")
            .option("hoodie.datasource.query.type", "incremental")
            .option("hoodie.datasource.read.begin.instanttime", start)
            .load(self.path)
        )

    def compact(self) -> None:
        if self.contender.kind == MOR:
            compact(self.spark, self.path, as_text(self.properties))


class MergedTable(Table):
    """A table written by MERGE, from a source with the newest event of each order."""

    @property
    @abstractmethod
    def target(self) -> str:
        """Name of the table in SQL."""

    def upsert(self, events: DataFrame, days: list[str]) -> None:
        newest(events).createOrReplaceTempView("changes")
        partitions = ""
        if self.contender.name_partitions:
            partitions = "AND t.partition_date IN ({})".format(", ".join(f"'{d}'" for d in days))
        self.spark.sql(MERGE.format(target=self.target, partitions=partitions))

    def append(self, orders: DataFrame) -> None:
        self._create()
        orders.createOrReplaceTempView("orders")
        columns = ", ".join(field.split()[0] for field in SCHEMA.split(", "))
        self.spark.sql(f"INSERT INTO {self.target} ({columns}) SELECT {columns} FROM orders")

    def _create(self) -> None:
        properties = ", ".join(f"'{k}' = '{v}'" for k, v in self.properties.items())
        self.spark.sql(
            f"CREATE TABLE IF NOT EXISTS {self.target} ({SCHEMA}) USING {self.contender.format}"
            " PARTITIONED BY (partition_date)"
            + (f" TBLPROPERTIES ({properties})" if properties else "")
        )


class DeltaTable(MergedTable):
    """A Delta table that is identified by its path, without a metastore."""

    @property
    def target(self) -> str:
        return f"delta.`{self.path}`"

    def read(self) -> DataFrame:
        return self.spark.read.format("delta").load(self.path)

    def start_of_changes(self) -> str:
        history = self.spark.sql(f"DESCRIBE HISTORY {self.target} LIMIT 1")
        return str(history.collect()[0]["version"])

    def changed(self, start: str) -> DataFrame:
        return (
            self.spark.read.format("delta")
            .option("readChangeFeed", "true")
            .option("startingVersion", start)
            .load(self.path)
            .where("_change_type IN ('insert', 'update_postimage')")
        )

    def compact(self) -> None:
        self.spark.sql(f"OPTIMIZE {self.target}")


class IcebergTable(MergedTable):
    """An Iceberg table in a Hadoop catalogue."""

    @property
    def target(self) -> str:
        return f"{CATALOG}.db.`{self.name}`"

    def read(self) -> DataFrame:
        return self.spark.table(self.target)

    def start_of_changes(self) -> str:
        if self.contender.row_lineage:
            log = self.spark.table(f"{self.target}.metadata_log_entries")
            (newest_commit,) = log.agg(F.max("latest_sequence_number")).collect()[0]
            return str(newest_commit - 1)
        history = self.spark.table(f"{self.target}.history").orderBy(F.desc("made_current_at"))
        return str(history.limit(1).collect()[0]["parent_id"])  # excluded by the reader

    def changed(self, start: str) -> DataFrame:
        if self.contender.row_lineage:
            return self.read().where(F.col("_last_updated_sequence_number") > int(start))
        # create_changelog_view compares whole rows. An event has one id, so these columns suffice
        # to tell rewritten rows from copied ones, in half the view's time with 320,000 orders.
        changes = self.spark.read.option("start-snapshot-id", start).table(f"{self.target}.changes")
        written = F.when(F.col("_change_type") == "INSERT", 1).otherwise(-1)
        versions = changes.groupBy("order_id", "event_id", "amount")
        return versions.agg(F.sum(written).alias("left")).where(F.col("left") == 1)

    def compact(self) -> None:
        # By default: groups of five files, or files with 30 % of their rows deleted.
        dangling = ", 'remove-dangling-deletes', 'true'" if self.contender.kind == MOR else ""
        self.spark.sql(
            f"CALL {CATALOG}.system.rewrite_data_files(table => 'db.{self.name}', options =>"
            f" map('min-input-files', '2', 'delete-file-threshold', '1'{dangling}))"
        )


TABLES = {HUDI: HudiTable, DELTA: DeltaTable, ICEBERG: IcebergTable}


class FormatTables:
    """Tables of one format; each public method is a task of the worker."""

    def __init__(self, spark: SparkSession):
        self.spark = spark
        self.tables: dict[str, Table] = {}
        self.table: Table
        self._session: dict[str, str] = {}

    def begin(self, contender: str, base: str, name: str, extra: dict[str, str]) -> dict:
        """Choose the table for the next tasks; the arguments are those of `Table`."""
        chosen = CONTENDERS[contender]
        if name not in self.tables:
            self.tables[name] = TABLES[chosen.format](self.spark, chosen, base, name, extra)
        self.table = self.tables[name]
        for key in self._session:
            self.spark.conf.unset(key)
        for key, value in chosen.session.items():
            self.spark.conf.set(key, value)
        self._session = chosen.session
        return {}

    def append(self, file: str) -> dict:
        """Add the new orders in a file; return `seconds`."""
        return self._timed(lambda: self.table.append(self._events(file)))

    def upsert(self, batches: list[tuple[str, list[str]]]) -> dict:
        """Apply each batch (a file, and the table partitions it changes) in its own commit."""

        def commit() -> None:
            for file, days in batches:
                self.table.upsert(self._events(file), days)

        return self._timed(commit)

    def compact(self) -> dict:
        """Compact the table; return `seconds`."""
        return self._timed(self.table.compact)

    def run_query(self, query: str, order: str = "") -> dict:
        """Open the table and run a query; return `seconds` and `answer` (rows, sum of cents).

        Args:
            query: `point`, `aggregate`, or `changes` (rows of the newest commit).
            order: id of the order, for a point query.
        """
        start = self.table.start_of_changes() if query == "changes" else ""

        def ask() -> list[int]:
            rows = self.table.changed(start) if start else self.table.read()
            if query == "point":
                rows = rows.where(F.col("order_id") == order)
            cents = F.coalesce(F.sum(F.col("amount") * 100).cast("long"), F.lit(0))
            return list(rows.agg(F.count("*"), cents).collect()[0])

        return self._timed(ask)

    def write_rows(self, file: str) -> dict:
        """Write the table's rows to a file, one per line, for comparison with the oracle."""
        rows = self.table.read().withColumn("order_ts", F.date_format("order_ts", TIME))
        lines = rows.select(F.concat_ws("|", *(F.col(column) for column in COLUMNS))).collect()
        Path(file).write_text("\n".join(line[0] for line in lines))
        return {}

    def _events(self, file: str) -> DataFrame:
        return self.spark.read.schema(SCHEMA).json(Path(file).as_uri())

    @staticmethod
    def _timed(task: Callable[[], object]) -> dict:
        began = time.monotonic()
        answer = task()
        return {"seconds": time.monotonic() - began, "answer": answer}
