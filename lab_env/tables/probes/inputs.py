"""Bytes that Spark's tasks read, as in the Spark UI's column *Input*.

The count includes the log files of a Merge-on-Read table, each about once. It excludes the driver's
reads (timeline, settings, schema). More bytes cross the network: the reader opens each log twice,
first for its header, and S3A requests the rest of the file each time. S3A's own counter
`stream_read_total_bytes` counts the bytes transferred to this Java process.
"""

import json
import uuid
from urllib.request import urlopen


class InputBytes:
    """Counts the input of the jobs that run inside a `with` block.

    The session's UI must be enabled, because the numbers come from its REST API. `sent` comes from
    S3A's counter for the bucket of `path`.
    """

    def __init__(self, spark, path: str):
        self._path = path
        self._context = spark.sparkContext
        self._group = f"input-{uuid.uuid4().hex[:8]}"
        #: Bytes that the tasks read, known after the block.
        self.bytes = 0
        #: Bytes that the store sent to this Java process: on a cluster, to the driver only.
        self.sent = 0

    def __enter__(self) -> "InputBytes":
        self.sent = -self._sent_so_far()
        self._context.setJobGroup(self._group, "counted for its input")
        return self

    def __exit__(self, *raised) -> None:
        self._context._jsc.clearJobGroup()
        # Events tell the UI about finished tasks; wait until all have arrived.
        self._context._jsc.sc().listenerBus().waitUntilEmpty()
        self.bytes = input_of(self._group, self._page("jobs"), self._page("stages"))
        self.sent += self._sent_so_far()

    def _sent_so_far(self) -> int:
        path = self._context._jvm.org.apache.hadoop.fs.Path(self._path)
        store = path.getFileSystem(self._context._jsc.hadoopConfiguration())
        return store.getStorageStatistics().getLong("stream_read_total_bytes")

    def _page(self, name: str) -> list[dict]:
        address = f"{self._context.uiWebUrl}/api/v1/applications/{self._context.applicationId}"
        with urlopen(f"{address}/{name}", timeout=20) as answer:
            return json.load(answer)


def input_of(group: str, jobs: list[dict], stages: list[dict]) -> int:
    """Sum the input bytes of one job group in responses of Spark's REST API.

    Failed attempts of a stage count too, because they also read data.
    """
    wanted = {stage for job in jobs if job.get("jobGroup") == group for stage in job["stageIds"]}
    return sum(stage["inputBytes"] for stage in stages if stage["stageId"] in wanted)
