"""Lesson 13 draws which files each engine reads, and judges queries that repeat its readers."""

import pandas as pd
import pytest

from lab_env.course.answers import Unreadable
from lab_env.course.checking import NotYet
from lab_env.lessons.l13.checks import _expect_read
from lab_env.lessons.l13.figures import draw_bookmarks, draw_reads
from lab_env.tables.hudi.table import DataFile, Snapshot
from lab_env.tables.hudi.timeline import Instant

FIRST, SECOND = (
    Instant(f"2026112012000{n}000", f"2026112012000{n}500", "deltacommit", "COMPLETED")
    for n in (1, 2)
)
FILES = pd.DataFrame(
    [
        ("O-1", "new", "20", "old"),
        ("O-9", "new", "20", "old"),  # deleted since
        ("O-1", "new", "20", "base"),
        ("O-2", "new", "21", "base"),
        ("O-2", "paid", "21", "log"),
    ],
    columns=["order_id", "status", "partition_date", "kind"],
)
KNOWN = pd.DataFrame({"partition_date": ["20"]})


def stored(day: str, group: str, kind: str, name: str) -> DataFile:
    folder = f"partition_date={day}"
    return DataFile(folder, group, FIRST.requested, kind, name, size=1, committed=True, rows=1)


def test_a_cell_is_amber_where_an_engine_takes_other_orders_than_the_first():
    files = (stored("20", "a", "base", "a.parquet"), stored("20", "a", "log", ".a.log"))
    table = Snapshot(
        "", "orders", "MERGE_ON_READ", 9, (FIRST,), (*files, stored("21", "b", "base", "b.parquet"))
    )
    taken = {"Spark SQL": {"a.parquet": 990, "a": 10, "b.parquet": 7}, "Trino": {"a.parquet": 990}}
    page = draw_reads(table, ["partition_date=20"], taken)
    assert page.count("230, 159, 0") == 2  # Trino: no log, and not the day of `b`
    assert page.count("not listed") == 1 and "990" in page


def test_bookmarks_are_drawn_with_a_count_for_each_engine():
    delivered = pd.DataFrame([{"Spark SQL": 20, "Trino": None}, {"Spark SQL": 0, "Trino": None}])
    drawing = draw_bookmarks([FIRST, SECOND], delivered)
    assert "Spark SQL: 20" in drawing and "Trino: left out" in drawing


@pytest.mark.parametrize(
    ("reader", "sql", "reason"),
    [
        ("Trino", "FROM files WHERE kind = 'base'", "that `known` does not list"),
        ("read-optimised", "FROM files WHERE kind <> 'old'", "from logs"),
        ("snapshot", "FROM files WHERE order_id <> 'O-2' OR kind = 'log'", "old base files"),
        ("snapshot", "FROM files WHERE kind <> 'old'", "twice"),
        ("folder", "SELECT DISTINCT * FROM files WHERE kind = 'old'", "lacks 2"),
    ],
)
def test_a_query_that_reads_other_rows_is_named(reader, sql, reason):
    wanted = {
        "snapshot": FILES.iloc[[2, 4]],
        "read-optimised": FILES.iloc[[2, 3]],
        "Trino": FILES.iloc[[2]],
        "folder": FILES.iloc[:4],
    }
    with pytest.raises(NotYet, match=reason):
        _expect_read(reader, sql, FILES, KNOWN, wanted[reader])


def test_a_query_that_duckdb_refuses_is_unreadable():
    with pytest.raises(Unreadable, match="Trino: DuckDB does not run"):
        _expect_read("Trino", "SELECT nothing FROM nowhere", FILES, KNOWN, FILES)
