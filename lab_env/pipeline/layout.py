"""Paths of the pipeline's tables and checkpoints, without Spark."""

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
    """Path of a sink's files, below the folder of the pipeline's tables."""
    return f"{base}/{FOLDERS[sink]}"


def checkpoint_path(base: str, sink: str) -> str:
    """Path of a sink's checkpoint."""
    return f"{base}/_checkpoints/{sink}"
