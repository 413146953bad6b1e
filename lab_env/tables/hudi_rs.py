"""Reads a table with hudi-rs: in this process, without Spark, also while its writer is dead."""

from collections.abc import Sequence

import pandas as pd
import pyarrow as pa
from hudi import HudiReadOptions, HudiTableBuilder

from lab_env.platform import store
from lab_env.platform.settings import Endpoints

KEYS = ("order_id", "event_id", "order_ts")
META = ("_hoodie_commit_time", "_hoodie_file_name")


def read_rows(endpoints: Endpoints, table: str, columns: Sequence[str] = KEYS) -> pd.DataFrame:
    """Read some columns, and those of `META`, of a table's latest state.

    The store's address and keys are set as environment variables of this process.
    """
    store.export_environment(endpoints)
    built = HudiTableBuilder.from_base_uri(table.replace("s3a://", "s3://")).build()
    batches = built.read(HudiReadOptions())
    if not batches:
        return pd.DataFrame(columns=[*columns, *META])
    return pa.Table.from_batches(batches).select([*columns, *META]).to_pandas()
