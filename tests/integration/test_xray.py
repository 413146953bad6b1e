"""The X-ray against tables that Hudi wrote: what it draws is what Hudi itself reads."""

import pytest

from lab_env.errors import LabError
from lab_env.lab import Lab, reset_lesson
from lab_env.pipeline.options import KEYS, METADATA

ROWS = "SELECT * FROM VALUES {} AS t(order_id, status, order_ts, partition_date)"
TWO_DAYS = ROWS.format("('A','new',1L,'d1'), ('B','new',1L,'d1'), ('C','new',1L,'d2')")


@pytest.fixture(scope="module")
def lab(services):
    handle = Lab("xray", services)
    yield handle
    handle.spark.stop()
    reset_lesson("xray")


def write(lab: Lab, path: str, rows: str, table_type: str, **options: str) -> None:
    """One batch write."""
    chosen = (
        KEYS
        | METADATA
        | {
            "hoodie.table.name": "orders",
            "hoodie.datasource.write.table.type": table_type,
            "hoodie.compact.inline": "false",
            **{name.replace("__", "."): value for name, value in options.items()},
        }
    )
    lab.spark.sql(rows).write.format("hudi").options(**chosen).mode("append").save(path)


def files_read(lab: Lab, path: str) -> set[str]:
    """The base files that Hudi's own reader opens for the newest state."""
    table = lab.spark.read.format("hudi").load(path)
    return {row[0] for row in table.select("_hoodie_file_name").distinct().collect()}


def test_an_update_of_a_cow_table_adds_a_version_of_one_file(lab):
    path = lab.scratch("cow")
    write(lab, path, TWO_DAYS, "COPY_ON_WRITE")
    before = lab.xray(path)
    write(lab, path, ROWS.format("('A','paid',2L,'d1')"), "COPY_ON_WRITE")
    after = lab.xray(path, since=before)
    assert [instant.action for instant in after.instants] == ["commit", "commit"]
    assert all(i.requested < i.completed for i in after.instants)
    assert [f.partition for f in after.new_files] == ["partition_date=d1"]
    assert {s.base.name for s in after.current} == files_read(lab, path)
    assert len(after.slices) == 3 and not after.uncommitted
    changes = after - before
    assert list(changes.query("part == 'base'")["change"]) == ["new"]
    assert after.objects == len(lab.files(path))


def test_a_mor_table_shows_logs_and_their_compaction(lab):
    path = lab.scratch("mor")
    write(lab, path, TWO_DAYS, "MERGE_ON_READ")
    write(lab, path, ROWS.format("('A','paid',2L,'d1')"), "MERGE_ON_READ")
    table = lab.xray(path)
    (with_log,) = [found for found in table.slices if found.logs]
    assert with_log.base and with_log.partition == "partition_date=d1"
    assert [instant.action for instant in table.instants] == ["deltacommit", "deltacommit"]
    compact = "options=>'hoodie.compact.inline.max.delta.commits=1'"
    for op in ("schedule", "run"):
        lab.spark.sql(f"CALL run_compaction(op=>'{op}', path=>'{path}', {compact})").collect()
    table = lab.xray(path)
    assert table.instants[-1].action == "compaction" and table.instants[-1].completed
    (current,) = [s for s in table.current if s.partition == "partition_date=d1"]
    assert current.instant == table.instants[-1].requested and not current.logs


def test_an_overwritten_partition_leaves_its_old_file_group_behind(lab):
    path = lab.scratch("overwrite")
    write(lab, path, TWO_DAYS, "COPY_ON_WRITE")
    write(
        lab, path, ROWS.format("('Z','new',1L,'d1')"), "COPY_ON_WRITE",
        hoodie__datasource__write__operation="insert_overwrite",
    )  # fmt: skip
    table = lab.xray(path)
    assert len(table.replaced) == 1
    assert {found.base.name for found in table.current} == files_read(lab, path)
    assert len(table.files) == 3 and len(table.current) == 2


def test_a_path_without_a_table_is_named(lab):
    with pytest.raises(LabError) as refused:
        lab.xray(lab.path("nothing"))
    assert "There is no Hudi table" in refused.value.what and "nothing lies there" in str(
        refused.value
    )
