"""What runs in the process of the learner's functions; the capstone and the ladder add their tasks.

Each line of input is a task as a JSON object; each line of output is a reply. The output of the
functions and their JVM goes to the log. The examiner may kill this process at any time.
"""

import re
import threading
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from lab_env.course.answers import Unreadable
from lab_env.lab.job.packing import unpack
from lab_env.pipeline.failure import why_failed
from lab_env.pipeline.session import SHORT_LIFE, session_of_environment
from lab_env.platform.processes.tasks import serve

POLL_S, IDLE_POLLS = 2.0, 10  # a stream that is seen waiting this many times in a row never ends
OWN, PACKAGES = str(Path(__file__).parents[2]), "site-packages"
FRAME = re.compile(r'File "(.+?)", line (\d+), in (\w+)')


class JobWorker:
    """Serves the tasks; each method handles one kind of task and returns its reply."""

    def __init__(self, spark: SparkSession):
        self.spark = spark
        self.functions: dict[str, Callable] = {}

    def load(self, job: str) -> dict:
        """Load functions pickled by `packing.pack`; forget earlier ones and their table names.

        Table names outlive the functions that registered them, and would point to an old folder.
        """
        if self.functions:
            # Not `catalog.listTables`: without generated code it cannot decode a view (Spark 3.5.7)
            for table in self.spark.sql("SHOW TABLES").collect():
                kind = "VIEW" if table["isTemporary"] else "TABLE"
                self.spark.sql(f"DROP {kind} IF EXISTS `{table['tableName']}`")
            self.spark.catalog.clearCache()
        self.functions = unpack(Path(job).read_bytes(), self.spark)
        return {}

    @contextmanager
    def endless_streams_stopped(self, function: str) -> Generator[None]:
        """Stop each stream that keeps waiting for messages; afterwards raise Unreadable.

        `function` is the name of the learner's function that the body calls.
        """
        done, endless = threading.Event(), []
        watch = threading.Thread(target=_stop_endless, args=(self.spark, done, endless))
        watch.start()
        try:
            yield
        finally:
            done.set()
            watch.join()
        if endless:
            raise Unreadable(
                f"`{function}` did not return: a stream waits for messages that nobody sends. With "
                "`trigger(availableNow=True)` it stops once it has read everything available."
            )


def _stop_endless(spark: SparkSession, done: threading.Event, endless: list) -> None:
    """Until `done` is set, stop each stream that only waits, and add it to `endless`."""
    idle: dict[str, int] = {}
    while not done.wait(POLL_S):
        for query in spark.streams.active:
            waits = query.status["message"].startswith("Waiting for")
            idle[query.id] = idle.get(query.id, 0) + 1 if waits else 0
            if idle[query.id] >= IDLE_POLLS:
                endless.append(query.id)
                query.stop()


def failure(error: Exception) -> dict:
    """Describe a task's error: type, message, and the lines of the learner's own code."""
    why = str(error) if isinstance(error, Unreadable) else why_failed(error)
    trace = traceback.extract_tb(error.__traceback__)
    frames = [(frame.filename, frame.lineno, frame.name) for frame in trace]
    # A function that a stream has called back raises in the middle of the stream's own message.
    frames += [(file, int(line), name) for file, line, name in FRAME.findall(str(error))]
    frames = [
        frame for frame in frames if not frame[0].startswith(OWN) and PACKAGES not in frame[0]
    ]
    kind = type(error).__name__
    return {"error": kind, "why": why[:600], "frames": frames, "readable": kind == "Unreadable"}


def serve_tasks(app: str, kind: type[JobWorker]) -> None:
    """Start a Spark session and serve the tasks of a worker of this kind until stdin closes."""
    worker = serve(lambda: kind(session_of_environment(app, SHORT_LIFE)), failure)
    worker.spark.stop()
