"""Settings that make the small batches of lesson 14 cheap, in its notebook and in its checks."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager

QUICK = {
    # One store of state to look into, and one task after each shuffle.
    "spark.sql.shuffle.partitions": "1",
    # The default starts a process for each file of a checkpoint on the local disk. Without that a
    # small batch takes 0.75 of the processor time. On the object store it is the default.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.FileSystemBasedCheckpointFileManager"
    ),
}
EXTRA_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"


@contextmanager
def spark_settings(spark, names: Mapping[str, str]) -> Generator[None]:
    """Set SQL settings while the body of the `with` runs, and put back what was there."""
    before = {name: spark.conf.get(name, None) for name in names}
    for name, value in names.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)
