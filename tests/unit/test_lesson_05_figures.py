"""The heat table shows the bytes that each operation added to each part of a table."""

from lab_env.lessons.l05.figures import WriteHeat, data_files
from lab_env.tables.hudi.table import DataFile, Snapshot


def picture(files: dict[str, int], since: Snapshot | None = None) -> Snapshot:
    """Return the X-ray of a table with these files (name to bytes); a name starts with its kind."""
    data = tuple(
        DataFile("day", "g", "1", name.split("-")[0], name, size, True)
        for name, size in files.items()
        if not name.startswith("metadata")
    )
    kept = tuple(("metadata", n, size) for n, size in files.items() if n.startswith("metadata"))
    return Snapshot("s3a://b/t", "t", "COPY_ON_WRITE", 9, (), data, (), kept, since)


FIRST = picture({"base-1": 20_000, "metadata-1": 500})
PICTURES = {
    ("insert", "COPY_ON_WRITE"): FIRST,
    ("insert", "MERGE_ON_READ"): FIRST,
    ("update", "COPY_ON_WRITE"): picture(
        {"base-1": 20_000, "base-2": 21_000, "metadata-1": 500}, FIRST
    ),
    ("update", "MERGE_ON_READ"): picture(
        {"base-1": 20_000, "log-1": 900, "metadata-1": 500}, FIRST
    ),
}


def test_only_what_is_new_since_the_picture_before_is_counted():
    table = WriteHeat(PICTURES).frame()
    assert table.loc["insert", ("COPY_ON_WRITE", "base")] == 20_000
    assert table.loc["update", ("COPY_ON_WRITE", "base")] == 21_000
    assert table.loc["update", ("COPY_ON_WRITE", "metadata")] == 0
    assert (
        table.loc["update", ("MERGE_ON_READ", "base")] == 0
        and table.loc["update", ("MERGE_ON_READ", "log")] == 900
    )


def test_files_that_are_gone_are_not_files_that_were_written():
    cleaned = picture({"base-2": 21_000}, PICTURES["update", "COPY_ON_WRITE"])
    assert data_files(cleaned) == "none"
