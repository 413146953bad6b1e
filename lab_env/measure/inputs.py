"""The bytes that Spark's tasks read, as the Spark UI shows them in the column *Input*.

Spark counts what its tasks take from the file system, so the log files of a Merge-on-Read table are
in it, and the driver's own reads (the timeline, the table's settings) are not.
"""

import json
import uuid
from urllib.request import urlopen


class InputBytes:
    """Counts the input of the jobs that run inside a `with` block.

    Args:
        spark: the session; its UI must be on, because the numbers are asked of its REST pages.
    """

    def __init__(self, spark):
        self._context = spark.sparkContext
        self._group = f"input-{uuid.uuid4().hex[:8]}"
        #: Bytes, known after the block.
        self.bytes = 0

    def __enter__(self) -> "InputBytes":
        self._context.setJobGroup(self._group, "counted for its input")
        return self

    def __exit__(self, *raised) -> None:
        self._context._jsc.clearJobGroup()
        # The UI learns of finished tasks by events; wait until it has heard of all.
        self._context._jsc.sc().listenerBus().waitUntilEmpty()
        self.bytes = input_of(self._group, self._page("jobs"), self._page("stages"))

    def _page(self, name: str) -> list[dict]:
        address = f"{self._context.uiWebUrl}/api/v1/applications/{self._context.applicationId}"
        with urlopen(f"{address}/{name}", timeout=20) as answer:
            return json.load(answer)


def input_of(group: str, jobs: list[dict], stages: list[dict]) -> int:
    """The input of one job group.

    Args:
        group: its id.
        jobs: the page `jobs` of Spark's REST interface.
        stages: the page `stages`; an attempt that failed counts too, because it has read.

    Returns:
        Bytes.
    """
    wanted = {stage for job in jobs if job.get("jobGroup") == group for stage in job["stageIds"]}
    return sum(stage["inputBytes"] for stage in stages if stage["stageId"] in wanted)
