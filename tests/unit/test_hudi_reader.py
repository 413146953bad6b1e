"""The reader opens only the files that it needs, and can be used in other projects."""

import subprocess
import sys
from types import SimpleNamespace

import pytest
from xray_tables import PROPERTIES, T1, T2, FilesInMemory, base, committed, done, stat

from lab_env.tables.hudi.reader import TableNotFound, read_table

CONTENTS = {
    done(T1, "commit")[0]: committed("INSERT", stat(base(T1), written=3, inserted=3)),
    done(T2, "commit")[0]: committed("UPSERT", stat(base(T2), written=3, updated=1)),
}
KEYS = [*done(T1, "commit"), *done(T2, "commit"), base(T1), base(T2), ".hoodie/metadata/files/x"]
COW = PROPERTIES.replace("MERGE_ON_READ", "COPY_ON_WRITE")

# Runs the example of the package's docstring, and lists what it imported.
EXAMPLE = """
import doctest, sys
import lab_env.tables.hudi
assert doctest.testmod(lab_env.tables.hudi).failed == 0
print(*sys.modules)
"""


class RecordedFiles(FilesInMemory):
    """Files in memory that log each read; reading a file in `gone` fails, as if it were deleted."""

    def __init__(self, *gone: str):
        super().__init__("t", COW, KEYS, CONTENTS)
        self.gone, self.reads = gone, []

    def read(self, key: str) -> bytes:
        self.reads.append(key)
        if key in self.gone:
            raise FileNotFoundError(key)
        return super().read(key)


def test_it_reads_only_the_properties_and_what_completes_an_action():
    files = RecordedFiles()
    table = read_table(files)
    assert sorted(files.reads) == sorted([".hoodie/hoodie.properties", *CONTENTS])
    assert (table.rows, table.commit().updated) == (3, 1)


def test_an_instant_that_is_archived_meanwhile_does_not_stop_it():
    table = read_table(RecordedFiles(done(T1, "commit")[0]))
    assert [instant.requested for instant in table.instants] == [T1, T2]
    assert table.rows == 3


def test_a_folder_without_a_table_is_named():
    elsewhere = SimpleNamespace(path="t", sizes=lambda: {"readme.txt": 1})
    with pytest.raises(TableNotFound, match=r"no Hudi table at t: 1 objects lie below it"):
        read_table(elsewhere)


def test_the_docstrings_example_runs_as_written_without_spark_and_the_lab(tmp_path):
    files = FilesInMemory("t", COW, KEYS, CONTENTS)
    for key in files.sizes():
        path = tmp_path / "orders" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(files.read(key))
        path.with_name(f".{path.name}.crc").write_bytes(b"crc")  # as Spark writes on local disks
    run = subprocess.run(
        [sys.executable, "-c", EXAMPLE], cwd=tmp_path, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout + run.stderr
    modules = set(run.stdout.split())
    assert not modules & {"pyspark", "boto3", "matplotlib"}
    own = {name.removeprefix("lab_env.tables") for name in modules if name.startswith("lab_env.")}
    parts = ("commits", "files", "history", "reader", "table", "timeline")
    assert ".hudi.reader" in own and own <= {"", ".hudi", *(f".hudi.{name}" for name in parts)}
