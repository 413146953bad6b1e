"""Reads a lesson's table with hudi-rs: in the notebook's process, and faster than with Spark."""

import pyarrow as pa
from hudi import HudiTableBuilder


def rows_of(path: str) -> pa.Table:
    """Return the newest rows of the table at `s3a://...`.

    The store's address and keys are read from environment variables that the Spark session has set.
    """
    builder = HudiTableBuilder.from_base_uri(path.replace("s3a://", "s3://"))
    return pa.Table.from_batches(builder.build().read())
