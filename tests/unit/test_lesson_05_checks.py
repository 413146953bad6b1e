"""Lesson 05 distinguishes tables with Hudi's defaults from tables with the lesson's options."""

import pytest

from lab_env.lessons.l05.checks import MOR, _is_quick
from lab_env.tables.hudi.table import DataFile, Snapshot


@pytest.mark.parametrize(
    ("base_bytes", "metadata", "quick"),
    [
        (19_000, ["files"], True),
        (440_000, ["files"], False),
        (19_000, ["files", "column_stats"], False),
        (19_000, [], False),
    ],
)
def test_defaults_are_told_from_quick_by_the_filter_or_by_the_metadata(base_bytes, metadata, quick):
    files = (DataFile("day", "g", "1", "base", "base-1", base_bytes, True),)
    kept = tuple(("metadata", f".hoodie/metadata/{part}/file", 1) for part in metadata)
    assert _is_quick(Snapshot("s3a://b/t", "t", MOR, 9, (), files, (), kept)) == quick
