"""Settings that make the small batches of lesson 14 cheap, in its notebook and in its checks."""

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
