"""Counts how much of each lesson's code uses the taught systems, and how much learners write.

Counted are method-call chains of Spark, Kafka, DuckDB or Trino, the creation of Kafka clients, SQL
statements and Hudi options; for Locust, user and load-shape classes, tasks, wait times and reports.
A chain is recognised by its first name (`spark`, `F`, or a variable that holds the result of such a
chain) or by a method that only these systems have.
"""

import ast
import inspect
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import confluent_kafka
import confluent_kafka.admin
import duckdb
import pandas as pd
import pyspark.sql as spark_sql
import pyspark.sql.streaming as spark_streaming
import trino.dbapi

from lab_env.course.authoring.build import COURSE
from lab_env.course.source import Cell, Lesson, read_lesson, sources

_TAUGHT = (
    spark_sql.SparkSession, spark_sql.DataFrame, spark_sql.Column, spark_sql.DataFrameReader,
    spark_sql.DataFrameWriter, spark_sql.GroupedData, spark_sql.Window,
    spark_streaming.DataStreamReader, spark_streaming.DataStreamWriter,
    spark_streaming.StreamingQuery, confluent_kafka.Producer, confluent_kafka.Consumer,
    confluent_kafka.admin.AdminClient, duckdb.DuckDBPyConnection, trino.dbapi.Cursor,
)  # fmt: skip
# Methods of other things, too, so they tell nothing by themselves.
_COMMON = (str, bytes, list, dict, set, Path, pd.DataFrame, pd.Series)
_ROOTS = {"spark", "F", "Window"}
# Kafka's client begins with a constructor, not with a method.
_CONSTRUCTORS = {"Producer", "Consumer", "TopicPartition", "AdminClient", "NewTopic"}
# Of Locust, by name: importing it changes this process. A task and a pace count where they are
# called, a class of users or of a shape where it is extended.
_LOCUST_CALLS = {
    *("task", "constant", "constant_pacing", "constant_throughput", "between", "poisson"),
    *("fire", "add_listener", "get_run_time", "get_current_user_count"),
}
_LOCUST_CLASSES = {"User", "LoadTestShape", "SequentialTaskSet", "TaskSet"}
_SQL = re.compile(
    r"\s*(--.*\n\s*)*(SELECT|WITH|MERGE|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|CALL|SHOW|DESCRIBE)\b"
)


@dataclass(frozen=True)
class LessonStats:
    """Counts for one lesson's visible code; `seconds` is the worked notebook's CPU time."""

    number: str
    lines: int
    uses: int
    learner: int
    longest: int
    asserts: int
    seconds: float | None = None

    @property
    def share(self) -> float:
        return self.learner / self.uses if self.uses else 0.0


def course_stats() -> list[LessonStats]:
    return [lesson_stats(read_lesson(path)) for path in sources()]


def lesson_stats(lesson: Lesson) -> LessonStats:
    cells = [cell for cell in lesson.cells if _is_visible_code(cell)]
    systems = Systems()
    uses = learner = 0
    lines: set[tuple[int, int]] = set()
    for place, cell in enumerate(cells):
        given = _lines_of(cell.versions.stub, Systems(systems.names))
        found = _lines_of(cell.versions.worked, systems)
        lines |= {(place, line) for line in found}
        uses += len(found)
        learner += len(found) - len(given)
    return LessonStats(
        lesson.number,
        len(lines),
        uses,
        learner,
        max(len(cell.versions.worked.splitlines()) for cell in cells),
        sum(
            isinstance(node, ast.Assert)
            for cell in cells
            for node in ast.walk(_tree_of(cell.versions.worked))
        ),
        _seconds_of(COURSE.executed / "solutions" / f"{lesson.name}.ipynb"),
    )


class Systems:
    """Finds uses of the taught systems in code cells, which must be passed in running order."""

    def __init__(self, names: Iterable[str] = ()):
        self.names = {*_ROOTS, *names}

    def uses(self, tree: ast.AST) -> Iterator[int]:
        """Yield the line of each use in a cell, and remember the variables that it assigns."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and self._is_of_system(node.value):
                self.names |= {t.id for t in node.targets if isinstance(t, ast.Name)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.expr | ast.stmt):
                continue
            is_call = isinstance(node, ast.Call) and self._is_of_system(node)
            if is_call or _is_of_locust(node) or _is_text_of_system(node):
                yield node.lineno

    def _is_of_system(self, node: ast.AST) -> bool:
        methods: set[str] = set()
        while isinstance(node, ast.Call | ast.Attribute | ast.Subscript):
            if isinstance(node, ast.Attribute):
                methods.add(node.attr)
            node = node.func if isinstance(node, ast.Call) else node.value
        begins = node.id if isinstance(node, ast.Name) else ""
        if begins in _CONSTRUCTORS or not methods.isdisjoint(_CONSTRUCTORS):
            return True
        if begins in ("lab", "Lab"):
            return "spark" in methods
        return begins in self.names or not methods.isdisjoint(_methods())


def _is_of_locust(node: ast.AST) -> bool:
    """True if a node calls a Locust function, or defines a subclass of a Locust class."""
    match node:
        case ast.Call(func=ast.Name(id=name)):
            return name in _LOCUST_CALLS
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in _LOCUST_CALLS - {"task", "constant", "between"}
        case ast.ClassDef(bases=bases):
            names = {getattr(base, "id", getattr(base, "attr", "")) for base in bases}
            return not names.isdisjoint(_LOCUST_CLASSES)
    return False


def _is_text_of_system(node: ast.AST) -> bool:
    """True if a node is a SQL statement or the name of a Hudi option."""
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return False
    return bool(_SQL.match(node.value)) or node.value.startswith("hoodie.")


@cache
def _methods() -> frozenset[str]:
    """Return methods that only these systems have, and properties that start a read or write."""
    found = {
        name
        for kind in _TAUGHT
        for name, _ in inspect.getmembers(kind, callable)
        if not name.startswith("_")
    }
    common = {name for kind in _COMMON for name in dir(kind)}
    return frozenset(found - common) | {"read", "readStream", "write", "writeStream"}


def _lines_of(code: str, systems: Systems) -> list[int]:
    return list(systems.uses(_tree_of(code)))


def _tree_of(code: str) -> ast.Module:
    """Parse a cell without its line magics; return an empty module for a cell magic."""
    if code.lstrip().startswith("%%"):
        return ast.parse("")
    return ast.parse("\n".join("" if line[:1] in "%!" else line for line in code.splitlines()))


def _is_visible_code(cell: Cell) -> bool:
    return cell.kind == "code" and cell.shown and not (cell.instructor or "proof" in cell.options)


def _seconds_of(executed: Path) -> float | None:
    if not executed.exists():
        return None
    return json.loads(executed.read_text("utf-8"))["metadata"].get("processor_seconds")
