"""The tasks of the capstone's job: `python -m lab_env.lessons.capstone.worker`."""

import pickle
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import functions as F

from lab_env.course.answers import Unreadable, as_frame
from lab_env.lab.job.worker import JobWorker, serve_tasks

KAFKA = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    "timestampType INT"
)


class CapstoneWorker(JobWorker):
    """Calls the learner's `split`, `build` and `answers`, and reads the tables."""

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
        with self.endless_streams_stopped("build"):
            self.functions["build"](self.spark, source, base)
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


if __name__ == "__main__":
    serve_tasks("capstone", CapstoneWorker)
