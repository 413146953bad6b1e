"""HTTP requests of this Spark process to the object store, counted by its S3A client.

The client counts each request that it sends, so the figures are exact and available immediately.
They are complete only if driver and tasks share one JVM, as in the lab; on a cluster each executor
has its own counters.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

# Names in org.apache.hadoop.fs.s3a.Statistic; `store_io_request` counts every request.
COUNTERS = {
    "get": "action_http_get_request",
    "head": "action_http_head_request",
    "list": "object_list_request",
    "total": "store_io_request",
    "bytes": "stream_read_bytes",
}


@dataclass
class Requests:
    """Requests sent during a block; all 0 until the block has ended."""

    get: int = 0  # for (a part of) an object
    head: int = 0  # for an object's size and date
    list: int = 0  # for a listing
    total: int = 0  # all requests, including those that write or delete
    bytes: int = 0  # bytes read from objects


@contextmanager
def count_requests(spark) -> Generator[Requests]:
    """Count the requests of a session in a `with` block, including those of other threads.

    The counts are filled in at the end of the block.
    """
    before = _counters(spark)
    sent = Requests()
    yield sent
    after = _counters(spark)
    for name in asdict(sent):
        setattr(sent, name, after[name] - before[name])


def _counters(spark) -> dict[str, int]:
    statistics = spark._jvm.org.apache.hadoop.fs.FileSystem.getGlobalStorageStatistics()
    s3a = statistics.get("S3AStorageStatistics")  # None until the first use of the store
    return {name: (s3a.getLong(key) or 0) if s3a else 0 for name, key in COUNTERS.items()}
