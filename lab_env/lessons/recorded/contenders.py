"""The tables that `lab bench formats` compares: three formats, each with defaults and tuned.

A default table follows its format's quick start. A tuned one adds options that the format's
documentation recommends for small upserts, each with its link. Hudi's tuned options are those of
the tour's short-lived tables.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from lab_env.pipeline import options, session
from lab_env.platform.settings import settings

HUDI, DELTA, ICEBERG = "hudi", "delta", "iceberg"
FORMATS = {HUDI: "Apache Hudi", DELTA: "Delta Lake", ICEBERG: "Apache Iceberg"}
COW, MOR = "cow", "mor"

HUDI_DOCS = "https://hudi.apache.org/docs"
DELTA_DOCS = "https://docs.delta.io"
ICEBERG_DOCS = "https://iceberg.apache.org/docs/1.10.1"

CATALOG = "compared"  # Iceberg's catalogue of the tables
FEED = "delta-dv-tuned"  # has a twin with a change data feed; only this one, to save time

# Jar sets of versions.toml, in addition to those of every session of the lab.
JARS = {DELTA: "delta", ICEBERG: "iceberg"}


@dataclass(frozen=True)
class Advice:
    """One tuning step, with the page that documents it.

    Args:
        table: table properties; for Hudi, options of each write.
        session: session properties, where the format has no table property.
        read: options of every query of the table's state.
    """

    what: str
    guide: str
    table: dict[str, str] = field(default_factory=dict)
    session: dict[str, str] = field(default_factory=dict)
    read: dict[str, str] = field(default_factory=dict)

    @property
    def all_options(self) -> dict[str, str]:
        """All properties and options of this step."""
        return self.table | self.session | self.read


@dataclass(frozen=True)
class Contender:
    """A table of one format with one set of options."""

    key: str  # short name, also used in the table's name
    format: str  # one of `FORMATS`
    kind: str  # `COW` or `MOR`: whether a small change rewrites files or is merged by readers
    title: str
    table: dict[str, str]  # properties of the table; for Hudi, options of each write
    advice: tuple[Advice, ...] = ()  # steps of tuning; none for a default table
    name_partitions: bool = False  # True if MERGE names the table partitions that it changes

    @property
    def tuned(self) -> bool:
        """True if it has any tuning steps."""
        return bool(self.advice)

    @property
    def all_options(self) -> dict[str, str]:
        """All properties of the table, including those of the tuning steps."""
        return self.table | _merged(advice.table for advice in self.advice)

    @property
    def session(self) -> dict[str, str]:
        """Properties of the Spark session that writes and reads this table."""
        return _merged(advice.session for advice in self.advice)

    @property
    def read(self) -> dict[str, str]:
        """Options of every query of the table's state."""
        return _merged(advice.read for advice in self.advice)

    @property
    def changes_table(self) -> dict[str, str]:
        """Table properties that must be set at creation so that changes can be read later.

        They make each commit more expensive, so only a second, otherwise equal table has them.
        Empty if the table needs none.
        """
        return {"delta.enableChangeDataFeed": "true"} if self.key == FEED else {}

    @property
    def row_lineage(self) -> bool:
        """True if each row of an Iceberg table records the commit that last changed it."""
        return self.all_options.get("format-version") == "3"

    @property
    def tells_changes(self) -> bool:
        """True if a reader can query the rows that a given commit changed."""
        if self.format == DELTA:
            return bool(self.changes_table)
        return (self.format, self.kind) != (ICEBERG, MOR) or self.row_lineage


def _merged(properties: Iterable[dict[str, str]]) -> dict[str, str]:
    return {key: value for some in properties for key, value in some.items()}


# Default tables keep their default codecs: gzip in Hudi, snappy in Delta. Tuned, all have
# Iceberg's.
CODEC = "zstd"

HUDI_GUIDE = (
    Advice(
        "a bucket index: the key's hash gives the file, so no look-up is needed",
        f"{HUDI_DOCS}/indexes",
        options.INDEX,
    ),
    Advice(
        "no column statistics, which are only used for data skipping",
        f"{HUDI_DOCS}/metadata_indexing",
        options.METADATA,
    ),
    # Without it each query would open every bucket (lesson 08).
    Advice(
        "readers use the index, so a query for a key opens one bucket per partition",
        f"{HUDI_DOCS}/configurations#hoodiebucketindexquerypruning",
        read=options.INDEX | {"hoodie.bucket.index.hash.field": "order_id"},
    ),
    Advice("cleaning after every fifth commit", f"{HUDI_DOCS}/cleaning", options.CLEANING),
    # The pipeline has the rest only for tables that live a few minutes (`options.SHORT_LIVED`).
    Advice(
        "no metadata table: to list folders of a few files takes less than to read it",
        f"{HUDI_DOCS}/metadata",
        {"hoodie.metadata.enable": "false"},
    ),
    Advice(
        "no bloom filter in the files, which this index does not read",
        f"{HUDI_DOCS}/configurations#hoodieparquetbloomfilterenabled",
        {"hoodie.parquet.bloom.filter.enabled": "false"},
    ),
    Advice(
        f"compression with {CODEC}, Iceberg's default",
        f"{HUDI_DOCS}/configurations#hoodieparquetcompressioncodec",
        {"hoodie.parquet.compression.codec": CODEC},
    ),
)
NAMED_PARTITIONS = "a MERGE condition that lists the partitions in the batch"
DELTA_GUIDE = (
    Advice(NAMED_PARTITIONS, f"{DELTA_DOCS}/delta-update/#performance-tuning"),
    Advice(
        "optimized writes: a shuffle into larger files per partition, in place of MERGE's own",
        f"{DELTA_DOCS}/optimizations-oss/#optimized-write",
        {"delta.autoOptimize.optimizeWrite": "true"},
    ),
    Advice(
        "column statistics of the key only",
        f"{DELTA_DOCS}/optimizations-oss/#data-skipping",
        {"delta.dataSkippingStatsColumns": "order_id"},
    ),
    # Delta 3.3 ignores a codec in the table's properties (delta-io/delta 3313 and 6803).
    Advice(
        f"compression with {CODEC}, Iceberg's default",
        "https://spark.apache.org/docs/3.5.7/sql-data-sources-parquet.html#configuration",
        session={"spark.sql.parquet.compression.codec": CODEC},
    ),
)
ICEBERG_GUIDE = (
    # Not in its guide; the change shows that Iceberg pushes down such a MERGE condition.
    Advice(NAMED_PARTITIONS, "https://github.com/apache/iceberg/pull/4023"),
    Advice(
        "column statistics of the key only",
        f"{ICEBERG_DOCS}/configuration/#write-properties",
        {
            "write.metadata.metrics.default": "none",
            "write.metadata.metrics.column.order_id": "truncate(16)",
        },
    ),
)
ICEBERG_VECTORS = Advice(
    "format version 3: deletion vectors replace position delete files",
    # The guide of 1.10 still says "1 or 2".
    "https://iceberg.apache.org/spec/#deletion-vectors",
    {"format-version": "3"},
)

_HUDI = options.KEYS | options.WRITE
_HUDI_COW = _HUDI | {"hoodie.datasource.write.table.type": "COPY_ON_WRITE"}
_HUDI_MOR = (
    _HUDI
    | {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
    | options.COMPACTION_OFF  # compaction is measured separately, for all formats
)
_DELETION_VECTORS = {"delta.enableDeletionVectors": "true"}
_MERGE_ON_READ = {
    f"write.{command}.mode": "merge-on-read" for command in ("delete", "update", "merge")
}


def _pair(
    key: str, format: str, kind: str, title: str, table: dict[str, str], *advice: Advice
) -> tuple[Contender, Contender]:
    """Make a default table and a tuned one."""
    default = Contender(key, format, kind, title, table)
    return default, replace(
        default,
        key=f"{key}-tuned",
        title=f"{title}, tuned",
        advice=advice,
        name_partitions=format != HUDI,
    )


CONTENDERS = {
    contender.key: contender
    for contender in (
        *_pair("hudi-cow", HUDI, COW, "Hudi Copy-on-Write", _HUDI_COW, *HUDI_GUIDE),
        *_pair("hudi-mor", HUDI, MOR, "Hudi Merge-on-Read", _HUDI_MOR, *HUDI_GUIDE),
        *_pair("delta", DELTA, COW, "Delta", {}, *DELTA_GUIDE),
        *_pair(
            "delta-dv", DELTA, MOR, "Delta with deletion vectors", _DELETION_VECTORS, *DELTA_GUIDE
        ),
        *_pair("iceberg-cow", ICEBERG, COW, "Iceberg copy-on-write", {}, *ICEBERG_GUIDE),
        *_pair(
            "iceberg-mor", ICEBERG, MOR, "Iceberg merge-on-read", _MERGE_ON_READ,
            *ICEBERG_GUIDE, ICEBERG_VECTORS,
        ),
    )
}  # fmt: skip


def options_of_all() -> dict[str, dict[str, str]]:
    """Return the write and read options of each contender."""
    return {
        key: contender.all_options | contender.session | contender.read
        for key, contender in CONTENDERS.items()
    }


def session_properties(format: str, jars: list[str], warehouse: str) -> dict[str, str]:
    """Return the Spark properties of a format's quick start, in addition to the lab's own.

    Hudi needs none: the lab's own properties are those for Hudi.

    Args:
        warehouse: folder for Iceberg's tables, `s3a://...`.
    """
    if format == HUDI:
        return {}
    catalog = "spark.sql.catalog"
    common = {"spark.jars": ",".join(jars), "spark.kryo.registrator": ""}
    if format == DELTA:
        shuffles = session.shuffles(settings().cores)
        return common | {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            f"{catalog}.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            # Each commit computes the table's state with this many tasks; the default of 50 suits
            # large clusters. Here all formats have the same number of shuffle partitions.
            "spark.databricks.delta.snapshotPartitions": shuffles["spark.sql.shuffle.partitions"],
        }
    return common | {
        "spark.sql.extensions": (
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
        ),
        f"{catalog}.spark_catalog": "org.apache.iceberg.spark.SparkSessionCatalog",
        f"{catalog}.spark_catalog.type": "hadoop",
        f"{catalog}.spark_catalog.warehouse": f"{warehouse}/session",
        f"{catalog}.{CATALOG}": "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.{CATALOG}.type": "hadoop",
        f"{catalog}.{CATALOG}.warehouse": warehouse,
    }
