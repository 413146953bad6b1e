"""Settings and helpers to run lesson 14's small batches quickly and to completion."""

import time

from lab_env.course.answers import Unreadable, kind_of
from lab_env.platform.errors import LabError

TIMEOUT_S = 180

QUICK = {
    # One store of state to look into, and one task after each shuffle.
    "spark.sql.shuffle.partitions": "1",
    # In this lesson a small batch took 0.75 of the processor time that it takes with the default,
    # which goes through Hadoop's FileContext.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.FileSystemBasedCheckpointFileManager"
    ),
    # The default of 100 would lose a query's first reports after a quarter of an hour without
    # orders, and `figures.arrivals` needs all of them.
    "spark.sql.streaming.numRecentProgressUpdates": "2000",
}
EXTRA_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"


def finish(query, timeout_s: float = TIMEOUT_S):
    """Wait until a started query on Kafka has read its source, and stop it; return the query.

    Raises `Unreadable` if the argument is not a query, and `LabError` if the query is still
    reading after `timeout_s` seconds.
    """
    if not hasattr(query, "recentProgress"):
        raise Unreadable(
            f"Your function returned {kind_of(query)}; the running query is expected, which "
            "`start()` gives."
        )
    deadline = time.monotonic() + timeout_s
    while not query.awaitTermination(0.5) and not is_idle(query):
        if time.monotonic() > deadline:
            query.stop()
            raise LabError(
                f"The query was still reading after {timeout_s:.0f} s.",
                "give it the trigger availableNow=True, and run the cell again.",
            )
    query.stop()
    if error := query.exception():
        raise error
    return query


def is_idle(query) -> bool:
    """Return True if a query is waiting and its last batch reached the end of every Kafka topic.

    Waiting alone proves nothing: a query whose trigger has an interval also waits between batches.
    """
    status, last = query.status, query.lastProgress
    waits = status["message"].startswith("Waiting for") and not status["isTriggerActive"]
    return bool(
        waits
        and last
        and all(source["endOffset"] == source.get("latestOffset") for source in last["sources"])
    )
