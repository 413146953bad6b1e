"""The Hudi options of the course's tables, with a reason for each that differs from its default.

Unless a comment says otherwise, ratios are medians of interleaved runs on two cores, relative to
the default (1.0). A small commit is 1,000 rows into 20,000 orders in four partitions, with the
quick compiler and its whole code cache.
"""

KEYS = {
    # Identity of a row, its winning version, its place.
    "hoodie.datasource.write.recordkey.field": "order_id",
    "hoodie.table.ordering.fields": "order_ts",
    "hoodie.datasource.write.partitionpath.field": "partition_date",
    # Folders named partition_date=2026-11-21: readable, and other engines expect it.
    "hoodie.datasource.write.hive_style_partitioning": "true",
    # A late event must not overwrite a newer one. Fixed when the table is created.
    "hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING",
}

DEFAULT_BUCKETS = 2
BUCKETS_NOTE = "_lab_buckets"  # Hudi keeps options that begin with _ in each commit

INDEX = {
    # The key's hash names its file group: no look-up. data/backlog.json.gz has the backlog's
    # rows/s, together with METADATA and CLEANING against QUICK_START; data/growth.json.gz has the
    # seconds and bytes of small commits against a Bloom index.
    "hoodie.index.type": "BUCKET",
    # Buckets per partition: one for each of two cores. Fixed when the table is created.
    "hoodie.bucket.index.num.buckets": str(DEFAULT_BUCKETS),
}

METADATA = {
    # The file listing stays in the metadata table. Column statistics only serve data skipping,
    # which lesson 08 switches on, and cost up to half of each small commit: in one run, without
    # them it took 0.52 of the time on COW and 0.61 on MOR.
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.index.partition.stats.enable": "false",
}

CLEANING = {
    # Clean after every fifth commit, not after each: a clean is itself a commit, also to the
    # metadata table. In one run of small commits with something to clean, the time was 0.71 (COW)
    # and 1.0 (MOR).
    "hoodie.clean.trigger.max.commits": "5",
}

WRITE = {
    # The default, written out because lesson 04 shows the effect of the others.
    "hoodie.datasource.write.operation": "upsert",
}

ORDERS = KEYS | INDEX | METADATA | CLEANING | WRITE

COW = ORDERS | {
    "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
    # This stream has no timeline server: Hudi's sink starts none by default, and would close it
    # after a batch, because no service runs asynchronously. So each task that writes opens the
    # metadata table with all its log files. Compacted after the default of ten commits, a commit
    # takes 1.42 of the requests; the time, 1.24, is within the noise (data/commit.json.gz).
    "hoodie.metadata.compact.max.delta.commits": "3",
}

MOR = ORDERS | {
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    # The stream continues while a second thread turns log files into base files ...
    "hoodie.datasource.compaction.async.enable": "true",
    # ... after each fifth commit (the default, written out because lesson 06 changes it).
    "hoodie.compact.inline.max.delta.commits": "5",
    # With a timeline server the driver reads the metadata table for all tasks; without one, each
    # task reads it: a commit takes 1.4 of the time and 2.1 of the requests (data/commit.json.gz).
    # Hudi's streaming sink has none unless this is set.
    "hoodie.embed.timeline.server": "true",
}

SHORT_LIVED = {
    # For tables of a few minutes and a few files, such as the tour's: readers and writers list the
    # folders instead of keeping a metadata table, and base files have no bloom filter, which the
    # bucket index does not read. A commit takes 0.64 (COW) and 0.74 (MOR) of the pipeline's time
    # (data/commit.json.gz). A table that grows needs the metadata table.
    "hoodie.metadata.enable": "false",
    "hoodie.parquet.bloom.filter.enabled": "false",
    "hoodie.parquet.compression.codec": "zstd",
}

CHANGES = COW | {
    # Changes of a database: transactions in the order of their commits, then by position in the
    # log. The position alone would let a snapshot's reads win over a transaction open at that time.
    # One field, because hudi-rs 0.5 refuses a table with two.
    "hoodie.table.ordering.fields": "log_position",
}

MINUTES = {
    **(KEYS | METADATA | CLEANING | WRITE),
    "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
    # Revenue per minute: one row per minute. Its count of orders only grows, so it orders
    # the versions; a recount that finds fewer needs a new table.
    "hoodie.datasource.write.recordkey.field": "minute",
    "hoodie.table.ordering.fields": "orders",
    # A day has 1,440 rows at most.
    "hoodie.upsert.shuffle.parallelism": "1",
}

# Number of times a losing writer repeats its whole write, without a pause. Alongside a busy stream
# it may lose each time: then divide the work (lesson 18), or repeat it later.
LOCK_RETRIES = 3


def shared(zookeeper: str, path: str) -> dict[str, str]:
    """Additional options for every writer of a table that several jobs write.

    If two jobs write the same file group, the second one fails when it commits, and retries. A
    stream of the pipeline adds these to its own options; any other job uses `second_writer`. The
    lock's path in ZooKeeper is the table's, beginning with the bucket, so two buckets never share a
    lock.

    Args:
        zookeeper: `host:port` of ZooKeeper, or several, comma-separated.
    """
    folder, table = lock_place(path).rsplit("/", 1)
    return {
        # Compare files before each commit. Failed writes are then rolled back only by cleaning, and
        # only when their heartbeat has expired: another job's unfinished write may be alive.
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        "hoodie.write.lock.provider": (
            "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider"
        ),
        # Host and port: Hudi 1.1 ignores hoodie.write.lock.zookeeper.port.
        "hoodie.write.lock.zookeeper.url": zookeeper,
        "hoodie.write.lock.zookeeper.base_path": folder,
        "hoodie.write.lock.zookeeper.lock_key": table,
        "hoodie.write.num.retries.on.conflict.failures": str(LOCK_RETRIES),
    }


def buckets(number: int) -> dict[str, str]:
    """Options that set a table's number of buckets; **all its writers need the same number**."""
    if number == DEFAULT_BUCKETS:
        return {}
    # Hudi does not store the number, so each commit has a note of it.
    return {"hoodie.bucket.index.num.buckets": str(number), BUCKETS_NOTE: str(number)}


def reachable(first_port: int) -> dict[str, str]:
    """Options for a driver that executors can reach only on some ports.

    `first_port` is LAB_SPARK_DRIVER_PORTS; 0 if all are open.
    """
    # Each table's writer has a timeline server, which takes the next free port.
    return {"hoodie.embed.timeline.server.port": str(first_port + 40)} if first_port else {}


def lock_place(path: str) -> str:
    """Path in ZooKeeper of a table's lock, or of the locks of all tables below a folder.

    The lock of `s3a://lakehouse/tour/orders_cow` is in `/lakehouse/tour/orders_cow`.
    """
    return "/" + path.rstrip("/").split("://", 1)[1]


def second_writer(
    table: dict[str, str], zookeeper: str, path: str, number_of_buckets: int = DEFAULT_BUCKETS
) -> dict[str, str]:
    """All options of a job that writes one of the pipeline's tables alongside its stream.

    They include the table's own options, because the index decides how Hudi detects conflicts: a
    writer without the bucket index would put rows into other files, and only compare file names.

    They leave the table services to the stream. A batch write to a Merge-on-Read table compacts by
    default, and first executes a pending plan, which the stream may be executing. When many writers
    clean, they roll back the same failed writes simultaneously, and most commits are followed by an
    error (measured with twenty, Hudi 1.1.1).

    Args:
        table: the table's options: `COW`, `MOR`, `CHANGES`.
        zookeeper: `host:port` of ZooKeeper, or several, comma-separated.
        number_of_buckets: the table's number of buckets, from `guard.table_receipt`.
    """
    name = {"hoodie.table.name": path.rstrip("/").rsplit("/", 1)[-1]}
    services = COMPACTION_OFF | {"hoodie.clean.automatic": "false"}
    lock = shared(zookeeper, path)
    return table | buckets(number_of_buckets) | services | lock | name


DEMO_OPTIONS = {
    # For demonstration tables of a few rows: with all of these a small commit takes 0.7 of the time
    # that it takes with the pipeline's options, and every answer is the same. A table that grows
    # needs the metadata table, cleaning and more than one task.
    "hoodie.metadata.enable": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.upsert.shuffle.parallelism": "1",
    # Tasks when a global index moves a row: Hudi's default is 60 in each of five steps.
    "hoodie.global.index.reconcile.parallelism": "1",
}

COMPACTION_OFF = {
    # The benchmark runs compaction itself, between its timed parts, to measure ingest with and
    # without it; alongside the stream it would fall into any of the batches. And if two writers
    # share a table, only one compacts.
    "hoodie.datasource.compaction.async.enable": "false",
    "hoodie.compact.inline": "false",
}

QUICK_START = {
    # Hudi's defaults, as in its quick start: the benchmark's baseline.
    "hoodie.index.type": "SIMPLE",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.partition.stats.enable": "true",
    "hoodie.clean.trigger.max.commits": "1",
}

PARQUET_LOGS = {
    # Log files of Parquet blocks, which Spark writes from its own rows; the default is Avro.
    # Measured on large batches: an eighth of the bytes at about the same rows/s, see
    # data/backlog.json.gz. The course's tables keep Avro, which the X-ray and the engines of lesson
    # 13 are tested with.
    "hoodie.logfile.data.block.format": "parquet",
    "hoodie.write.record.merge.custom.implementation.classes": (
        "org.apache.hudi.DefaultSparkRecordMerger"
    ),
}

# Compression of JSON files in the benchmark: the codec of Hudi's Parquet files.
CODEC = "gzip"
