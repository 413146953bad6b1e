"""Lesson 07 counts requests and rewritten files; its checks hide the last write and all cleans."""

from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from lab_env.course.answers import Unreadable
from lab_env.lessons.l07.checks import _since_the_last_write
from lab_env.lessons.l07.figures import current_sizes, older_sizes
from lab_env.tables.hudi.table import DataFile, Snapshot
from lab_env.tables.hudi.timeline import Instant
from lab_env.tables.probes.s3_requests import COUNTERS, Requests, count_requests


def test_the_board_hides_the_last_write_and_all_cleans_and_needs_both():
    actions = ("commit", "clustering", "commit", "clean")
    instants = [Instant(str(at), f"{at}9", act, "completed") for at, act in enumerate(actions)]
    hidden = _since_the_last_write(SimpleNamespace(instants=instants))
    assert [instant.requested for instant in hidden] == ["2", "3"]
    with pytest.raises(Unreadable, match="they write and clean the table"):
        _since_the_last_write(SimpleNamespace(instants=instants[:3]))


class FakeStatistics:
    """Stand-in for Hadoop's storage statistics, which do not exist before the first request."""

    def __init__(self, values):
        self.values = values

    def get(self, name):
        assert name == "S3AStorageStatistics"
        return self if self.values else None

    def getLong(self, name):
        return self.values.get(name)


def session(statistics):
    spark = MagicMock()
    files = spark._jvm.org.apache.hadoop.fs.FileSystem
    files.getGlobalStorageStatistics.return_value = statistics
    return spark


def test_only_what_was_sent_inside_is_counted():
    statistics = FakeStatistics({COUNTERS["get"]: 5, COUNTERS["total"]: 9})
    with count_requests(session(statistics)) as sent:
        assert sent == Requests()
        statistics.values = {COUNTERS["get"]: 7, COUNTERS["list"]: 1, COUNTERS["total"]: 12}
    assert sent == Requests(get=2, list=1, total=3)


def test_a_session_that_never_used_the_store_has_sent_nothing():
    statistics = FakeStatistics({})
    with count_requests(session(statistics)) as sent:
        statistics.values = {COUNTERS["head"]: 3, COUNTERS["total"]: 3}
    assert sent == Requests(head=3, total=3)


def test_a_file_that_was_rewritten_is_older():
    instants = tuple(Instant(f"{n}", f"{n}5", "commit", "completed") for n in (1, 2))
    files = tuple(
        DataFile("day", "g", f"{n}", "base", f"g_{n}.parquet", 1000 * n, True) for n in (1, 2)
    )
    rewritten = Snapshot("s3a://b/t", "t", "COPY_ON_WRITE", 9, instants, files)
    assert (current_sizes(rewritten), older_sizes(rewritten)) == ([2000], [1000])
