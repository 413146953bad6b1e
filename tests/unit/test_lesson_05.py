"""Lesson 05 counts the bytes of each write, and tells Hudi's defaults from the lesson's options."""

import pytest

from lab_env.lessons.l05.checks import MOR, _is_quick
from lab_env.lessons.l05.figures import WriteHeat, data_files
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


def picture(files: dict[str, int], since: Snapshot | None = None) -> Snapshot:
    """Return the X-ray of a table with these files (name to bytes); a name starts with the kind."""
    data = tuple(
        DataFile("day", "g", "1", name.split("-")[0], name, size, True)
        for name, size in files.items()
        if not name.startswith("metadata")
    )
    kept = tuple(("metadata", n, size) for n, size in files.items() if n.startswith("metadata"))
    return Snapshot("s3a://b/t", "t", "COPY_ON_WRITE", 9, (), data, (), kept, since)


FIRST = picture({"base-1": 20_000, "metadata-1": 500})
SECOND = picture({"base-1": 20_000, "log-1": 900, "metadata-1": 500}, FIRST)


def test_only_what_is_new_since_the_picture_before_is_counted():
    steps = {"insert": FIRST, "update": SECOND}
    kinds = ("COPY_ON_WRITE", "MERGE_ON_READ")
    heat = WriteHeat({(step, kind): seen for step, seen in steps.items() for kind in kinds})
    table = heat.frame()["MERGE_ON_READ"]
    assert list(table.columns) == ["base", "log", "metadata", "timeline"]
    assert list(table.loc["insert"]) == [20_000, 0, 500, 0]
    assert list(table.loc["update"]) == [0, 900, 0, 0]
    assert data_files(picture({"base-1": 20_000}, SECOND)) == "none"  # files that are gone
