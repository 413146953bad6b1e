"""Makes Jupyter's *Interrupt* stop what the cell has started in Spark.

Without it the interrupt ends the cell's Python only: the JVM goes on with the job, and the next
cell would wait for its answer.
"""

import sys
from typing import Any

from lab_env.platform.display.card import card


def card_of_interrupt() -> str:
    """Cancel the jobs of the interrupted cell; return a card about it, empty without a session."""
    pyspark = sys.modules.get("pyspark")
    context = pyspark and pyspark.SparkContext._active_spark_context
    if not context:
        return ""
    # This thread's connection still waits for the answer to the interrupted call.
    context._gateway._gateway_client.thread_connection.connection = None
    streams = _streams(context)
    tracker = context.statusTracker()
    active = {*tracker.getActiveJobsIds()}  # first: a stream may begin a job meanwhile
    of_streams = {id for q in streams for id in tracker.getJobIdsForGroup(str(q.runId))}
    cancelled = active - of_streams
    for job in cancelled:
        context._jsc.sc().cancelJob(job)
    note = [f"Spark jobs that were cancelled: {len(cancelled)}."]
    for query in streams:
        name = query.name or query.id
        note.append(
            f"The stream {name} goes on. To stop it: `spark.streams.get('{query.id}').stop()`"
        )
    return card("The cell was interrupted", "warn", note="\n\n".join(note))


def _streams(context) -> list[Any]:
    from pyspark.sql import SparkSession

    session = SparkSession._instantiatedSession
    return session.streams.active if session and session.sparkContext is context else []
