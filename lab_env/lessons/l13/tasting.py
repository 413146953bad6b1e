"""What each reader of a Merge-on-Read table returns, by asking it, and the rows of the files.

A reader is named `snapshot`, `read-optimised`, `Trino` or `folder`, which reads all Parquet files.
"""

import io
from collections.abc import Callable

import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from hudi import HudiReadOptions, HudiTableBuilder
from pyarrow.fs import S3FileSystem

from lab_env.lessons.hudi_rs import rows_of
from lab_env.lessons.l13.shop import MOR, SPARK, TRINO, Ask
from lab_env.platform import store

COLUMNS = ["order_id", "status", "partition_date"]
SNAPSHOT, READ_OPTIMISED, FOLDER = "snapshot", "read-optimised", "folder"
BASE, OLD, LOG = "base", "old", "log"  # kinds of files
ONLY_BASE = "hoodie.read.use.read_optimized.mode"  # hudi-rs's option


def rows_in_files(lab, path: str) -> pd.DataFrame:
    """Return one row for each order and file, with the file's `kind` and `commit`.

    Kinds are `base` (the newest base file of its file group), `old` (an earlier one) and `log`: the
    newest version of an order in the logs. Commits are requested times.
    """
    table, folder = lab.xray(path), store.key_of(path)
    newest = {part.base for part in table.current}
    found = []
    for file in table.files:
        if file.kind == BASE:
            parquet = io.BytesIO(store.read(lab.endpoints, f"{folder}/{file.key}"))
            rows = pq.read_table(parquet, columns=COLUMNS).to_pandas()
            kind = BASE if file in newest else OLD
            found.append(rows.assign(kind=kind, commit=file.instant))
    merged = rows_of(path).to_pandas()
    # Instead of a file's name, a row that comes from a log has the id of its file group.
    in_logs = merged[~merged["_hoodie_file_name"].str.endswith(".parquet")]
    found.append(in_logs[COLUMNS].assign(kind=LOG, commit=in_logs["_hoodie_commit_time"]))
    return pd.concat(found, ignore_index=True)


def known_days(lab, table: str) -> pd.DataFrame:
    """Return the partitions that the metastore lists for a table, in a column `partition_date`."""
    days = [name.partition("=")[2] for name in lab.known_partitions(table)]
    return pd.DataFrame({"partition_date": days}, dtype=object)


def read_optimised(path: str) -> pd.DataFrame:
    """Return what hudi-rs reads from base files alone."""
    table = HudiTableBuilder.from_base_uri(path.replace("s3a://", "s3://")).build()
    batches = table.read(HudiReadOptions().with_hudi_option(ONLY_BASE, "true"))
    return pa.Table.from_batches(batches).select(COLUMNS).to_pandas()


def whole_folder(lab, path: str) -> pd.DataFrame:
    """Return the rows of all Parquet files of a folder, read as if it were no Hudi table."""
    scheme, _, endpoint = lab.endpoints.s3_endpoint.partition("://")
    region = lab.endpoints.s3_region
    files = S3FileSystem(endpoint_override=endpoint, scheme=scheme, region=region)
    folder = ds.dataset(path.removeprefix("s3a://"), filesystem=files, format="parquet")
    return folder.to_table(COLUMNS).to_pandas()


def unnamed_boards(lab, engines: dict[str, Ask]) -> pd.DataFrame:
    """Return orders by status of `orders_mor` from three readers, as columns without their names.

    Without Trino, there is no column A.
    """
    sql = f"SELECT {', '.join(COLUMNS)} FROM "
    lab.spark.sql(f"REFRESH TABLE {MOR}_ro")  # the session has read it before
    readers: dict[str, Callable[[], pd.DataFrame]] = {
        "B": lambda: whole_folder(lab, lab.path(MOR)),
        "C": lambda: engines[SPARK](f"{sql}{MOR}_ro"),
    }
    if TRINO in engines:
        readers = {"A": lambda: engines[TRINO](f"{sql}{MOR}")} | readers
    boards = {letter: read()["status"].value_counts() for letter, read in readers.items()}
    return pd.DataFrame(boards).fillna(0).astype(int).sort_index()
