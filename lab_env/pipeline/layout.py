"""Where the pipeline keeps what each of its queries writes; known without Spark."""

FOLDERS = {
    "json": "orders_json",
    "cow": "orders_cow",
    "mor": "orders_mor",
    "dead": "dead_letters",
    "minutes": "revenue_per_minute",
    "changes": "orders_changes",
    "dead_changes": "dead_changes",
}
TABLES = ("cow", "mor", "minutes", "changes")  # the sinks that are Hudi tables


def table_path(base: str, sink: str) -> str:
    """Where a sink writes.

    Args:
        base: folder of the pipeline's tables, for example `s3a://lakehouse/tour`.
        sink: one of `FOLDERS`.

    Returns:
        The path of the sink's files.
    """
    return f"{base}/{FOLDERS[sink]}"


def checkpoint_path(base: str, sink: str) -> str:
    """Where the query of a sink keeps its checkpoint."""
    return f"{base}/_checkpoints/{sink}"
