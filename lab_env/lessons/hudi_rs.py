"""Reads a lesson's table by hudi-rs in the notebook's own process.

A check asks the tables of every answer. By Spark such a question takes a third of a processor second,
by hudi-rs a tenth of that.
"""

import pyarrow as pa
from hudi import HudiTableBuilder


def rows_of(path: str) -> pa.Table:
    """A table's newest rows. Spark's session has put the store's address and keys into the environment.

    Args:
        path: of the table, `s3a://...`.
    """
    builder = HudiTableBuilder.from_base_uri(path.replace("s3a://", "s3://"))
    return pa.Table.from_batches(builder.build().read())
