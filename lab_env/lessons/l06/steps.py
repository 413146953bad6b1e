"""Writes one batch to a table of lesson 06, queries its revenue, and measures both."""

import time
from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lab_env.lessons.l06.figures import Step
from lab_env.tables.hudi.table import Snapshot
from lab_env.tables.probes.inputs import InputBytes


def take_step(
    lab,
    path: str,
    batch: int,
    rows: DataFrame,
    options: Mapping[str, str | int],
    before: Snapshot | None,
) -> Step:
    """Upsert rows into the table at `path`, then query the sum of `amount`; return what both cost.

    Args:
        batch: number of the write.
        options: all Hudi options of the write.
        before: X-ray of the table before the write; None if there is no table.
    """
    writer = rows.write.format("hudi").options(**options).mode("append")
    began = time.time()
    writer.save(path)
    ended = time.time()
    with InputBytes(lab.spark, path) as read:
        table = lab.spark.read.format("hudi").load(path)
        revenue = table.agg(F.sum("amount")).first()[0]
        answered = time.time()
    picture = lab.xray(path, since=before)
    return Step(batch, began, ended, answered, read.bytes, revenue, picture)
