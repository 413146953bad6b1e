"""The process in which the learner's job runs: `python -m lab_env.lessons.capstone.worker`.

Each line of input is a task as a JSON object; each line of output is a reply. The output of the job
and its JVM goes to the log. The examiner may kill this process at any time.
"""

import pickle
import threading
import traceback
from base64 import b64decode
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lab_env.course.answers import Unreadable, as_frame
from lab_env.pipeline.failure import why_failed
from lab_env.pipeline.session import SHORT_LIFE, session_of_environment
from lab_env.platform.processes.tasks import serve

POLL_S, IDLE_POLLS = 2.0, 10  # a stream that is seen waiting this many times in a row never ends
KAFKA = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    "timestampType INT"
)
OWN = str(Path(__file__).parents[2])


class JobWorker:
    """Serves the tasks; each method handles one kind of task and returns its reply."""

    def __init__(self, spark: SparkSession):
        self.spark = spark
        self.functions: dict[str, Callable] = {}

    def load(self, job: str) -> dict:
        """Load functions pickled by `job.pack`; forget those of an earlier job and its table names.

        Table names outlive the job that registered them, and would point to its old folder.
        """
        if self.functions:
            # Not `catalog.listTables`: without generated code it cannot decode a view (Spark 3.5.7)
            for table in self.spark.sql("SHOW TABLES").collect():
                kind = "VIEW" if table["isTemporary"] else "TABLE"
                self.spark.sql(f"DROP {kind} IF EXISTS `{table['tableName']}`")
            self.spark.catalog.clearCache()
        self.functions = cloudpickle.loads(Path(job).read_bytes())
        return {}

    def split(self, messages: list, target: str) -> dict:
        """Call `split` on Kafka messages; write its two tables to a file.

        Args:
            messages: tuples of Base64 value, partition and offset.
        """
        rows = [
            (None, bytearray(b64decode(value)), "hidden", partition, offset, None, 0)
            for value, partition, offset in messages
        ]
        parts = self.functions["split"](self.spark.createDataFrame(rows, KAFKA))
        if not isinstance(parts, tuple | list) or len(parts) != 2:
            raise Unreadable(
                "`split` must return two DataFrames: the valid events and the dead letters."
            )
        Path(target).write_bytes(pickle.dumps([as_frame(part) for part in parts]))
        return {}

    def run(self, source: dict, base: str) -> dict:
        """Call `build`; stop a stream that keeps waiting for messages, and raise Unreadable."""
        done, endless = threading.Event(), []
        watch = threading.Thread(target=_stop_endless, args=(self.spark, done, endless))
        watch.start()
        try:
            self.functions["build"](self.spark, source, base)
        finally:
            done.set()
            watch.join()
        if endless:
            raise Unreadable(
                "`build` did not return: a stream waits for messages that nobody sends. With "
                "`trigger(availableNow=True)` it stops once it has read everything available."
            )
        return {}

    def answer(self, base: str, names: list[str], target: str) -> dict:
        """Call `answers`, and write the requested tables to a file."""
        given = self.functions["answers"](self.spark, base)
        if not isinstance(given, Mapping):
            raise Unreadable(f"`answers` returns a {type(given).__name__}, not a dictionary.")
        if missing := [name for name in names if name not in given]:
            raise Unreadable(
                f"`answers` has no {', '.join(missing)}; it has {', '.join(map(str, given))}."
            )
        frames = {name: as_frame(given[name]) for name in names}
        Path(target).write_bytes(pickle.dumps(frames))
        return {}

    def count(self, tables: list[str]) -> dict:
        """Count the rows of each Hudi table."""
        return {"rows": {t: self.spark.read.format("hudi").load(t).count() for t in tables}}

    def scan(self, tables: list[str], ids: list[str]) -> dict:
        """Count the rows of each Hudi table that contain one of the ids in any text column."""
        found = {}
        for table in tables:
            rows = self.spark.read.format("hudi").load(table)
            holds = F.lit(False)
            for name, kind in rows.dtypes:
                if kind == "string" and not name.startswith("_hoodie_"):
                    holds |= F.col(name).isin(ids)
            found[table] = rows.where(holds).count()
        return {"found": found}

    def mentioned(self, tables: list[str], pattern: str) -> dict:
        """Return all text in the Hudi tables, in any column, that matches a regular expression."""
        found: set[str] = set()
        for table in tables:
            rows = self.spark.read.format("hudi").load(table)
            columns = [
                F.col(f"`{name}`").cast("string") if kind == "binary" else F.col(f"`{name}`")
                for name, kind in rows.dtypes
                if not name.startswith("_hoodie_")
            ]
            texts = F.regexp_extract_all(F.to_json(F.struct(*columns)), F.lit(pattern), F.lit(0))
            found |= {row[0] for row in rows.select(F.explode(texts)).distinct().collect()}
        return {"found": sorted(found)}

    def count_as_of(self, table: str, instant: str) -> dict:
        """Count the rows of a Hudi table as of an instant."""
        reader = self.spark.read.format("hudi").option("as.of.instant", instant)
        return {"rows": reader.load(table).count()}


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
    frames = [
        (frame.filename, frame.lineno, frame.name)
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(OWN) and "site-packages" not in frame.filename
    ]
    kind = type(error).__name__
    return {"error": kind, "why": why[:600], "frames": frames, "readable": kind == "Unreadable"}


def main() -> None:
    """Serve tasks until stdin closes."""
    worker = serve(lambda: JobWorker(session_of_environment("capstone", SHORT_LIFE)), failure)
    worker.spark.stop()


if __name__ == "__main__":
    main()
