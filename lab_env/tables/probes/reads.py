"""Objects that this Spark driver read, with their offsets and bytes, from S3A's debug log."""

import re
from collections.abc import Generator
from contextlib import contextmanager

import pandas as pd

CLIENT = "org.apache.hadoop.fs.s3a.S3AInputStream"

_REQUEST = re.compile(r"reopen\(s3a://[^/]+/(\S+)\) for .*? range\[(\d+)-\d+\]")
_STREAM = re.compile(
    r"Statistics of stream (\S+)\nStreamStatistics\{counters=\(.*\(stream_read_bytes=(\d+)\).*\);\n"
)


class Reads:
    """Objects that were read, according to the S3A client's debug log; empty until `watch` ends."""

    def __init__(self, log: str = ""):
        self.log = log

    def frame(self) -> pd.DataFrame:
        """Return one row per object: key, places (number of distinct offsets) and bytes."""
        places: dict[str, set[str]] = {}
        for key, start in _REQUEST.findall(self.log):
            places.setdefault(key, set()).add(start)
        sizes = dict.fromkeys(places, 0)
        for key, count in _STREAM.findall(self.log):
            sizes[key] = sizes.get(key, 0) + int(count)
        rows = {key: (len(places.get(key, ())), size) for key, size in sizes.items()}
        return pd.DataFrame.from_dict(rows, orient="index", columns=["places", "bytes"])


@contextmanager
def watch(lab) -> Generator[Reads]:
    """Record the reads of a lab's Spark driver in a `with` block; complete after the block.

    If Spark runs on a cluster, the executors' reads are not recorded.
    """
    reads = Reads()
    begin = lab.spark_log.stat().st_size
    _log_level(lab.spark, "DEBUG")
    try:
        yield reads
    finally:
        _log_level(lab.spark, "ERROR")
    with lab.spark_log.open("rb") as log:
        log.seek(begin)
        reads.log = log.read().decode(errors="replace")


def _log_level(spark, level: str) -> None:
    log4j = spark._jvm.org.apache.logging.log4j
    log4j.core.config.Configurator.setLevel(CLIENT, getattr(log4j.Level, level))
