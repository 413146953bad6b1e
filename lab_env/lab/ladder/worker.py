"""Calls the attacked function: `python -m lab_env.lab.ladder.worker`."""

from collections.abc import Callable

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from lab_env.course.answers import Unreadable, kind_of
from lab_env.lab.job.worker import JobWorker, serve_tasks
from lab_env.lab.ladder.rungs import SINK
from lab_env.pipeline import parsing
from lab_env.pipeline.layout import checkpoint_path, table_path


def stream_of_orders(
    function: Callable, spark: SparkSession, bootstrap: str, topic: str, base: str
) -> None:
    """Call `start_table(events, path, checkpoint)` of exercise 04.2; wait until it has ended."""
    records = parsing.read_topic(spark, bootstrap, topic)
    events = parsing.valid_events(parsing.parse(records))
    query = function(events, table_path(base, SINK), checkpoint_path(base, SINK))
    if not isinstance(query, StreamingQuery):
        raise Unreadable(f"The function returned {kind_of(query)}, not the query that it started.")
    query.awaitTermination()


CALLS = {"04.2": stream_of_orders}


class LadderWorker(JobWorker):
    """Calls an exercise's function, as the lesson does."""

    def run(self, exercise: str, bootstrap: str, topic: str, base: str) -> dict:
        """Call the function on everything in a topic that it has not read yet."""
        function = self.functions["answer"]
        with self.endless_streams_stopped(getattr(function, "__name__", "your function")):
            CALLS[exercise](function, self.spark, bootstrap, topic, base)
        return {}


if __name__ == "__main__":
    serve_tasks("ladder", LadderWorker)
