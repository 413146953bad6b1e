"""What Spark reads from the store while it works: taken from what its S3 client says of itself."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pandas as pd

from lab_env.lab import Lab

CLIENT = "org.apache.hadoop.fs.s3a.S3AInputStream"

_REQUEST = re.compile(r"reopen\(s3a://[^/]+/(\S+)\) for .*? range\[(\d+)-\d+\]")
_STREAM = re.compile(r"Statistics of stream (\S+)\nStreamStatistics\{counters=\((.*)\);\n")
_BYTES = re.compile(r"\(stream_read_bytes=(\d+)\)")


class Reads:
    """What was read; filled when the body of `watch` has ended.

    Args:
        log: the client's own words.
    """

    def __init__(self, log: str = ""):
        self.log = log

    def frame(self) -> pd.DataFrame:
        """Each object that was read, by its key: places (different offsets asked for), bytes."""
        places: dict[str, set[str]] = {}
        for key, start in _REQUEST.findall(self.log):
            places.setdefault(key, set()).add(start)
        sizes = dict.fromkeys(places, 0)
        for key, counters in _STREAM.findall(self.log):
            sizes[key] = sizes.get(key, 0) + int(_BYTES.search(counters)[1])
        rows = {key: (len(places.get(key, ())), size) for key, size in sizes.items()}
        return pd.DataFrame.from_dict(rows, orient="index", columns=["places", "bytes"])


@contextmanager
def watch(lab: Lab) -> Iterator[Reads]:
    """Note what this lesson's Spark driver reads from the store while the body runs.

    Args:
        lab: whose session; on a cluster the executors' requests are not seen.

    Yields:
        The reads, to be asked afterwards.
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
