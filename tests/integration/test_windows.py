"""Both ends of an incremental window, on the two table versions that Hudi 1.x writes.

Lesson 11 shows both ends on version 9 and states that version 8 gives the same answers.
"""

import pytest

from lab_env.lab.handle import Lab, reset_lesson
from lab_env.pipeline.options import DEMO_OPTIONS, KEYS
from lab_env.tables.hudi.timeline import from_seconds, to_seconds

VERSIONS = {"8": {"hoodie.write.table.version": "8", "hoodie.write.auto.upgrade": "false"}, "9": {}}


@pytest.fixture(scope="module")
def lab(services):
    handle = Lab("windows", services)
    yield handle
    handle.spark.stop()
    reset_lesson("windows")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_window_begins_after_a_completion_and_ends_with_one(lab, version):
    path = lab.path(f"version_{version}")
    options = DEMO_OPTIONS | KEYS | {"hoodie.table.name": "orders"} | VERSIONS[version]
    for minute, keys in enumerate((("O-1", "O-2"), ("O-2",))):
        lab.spark.createDataFrame([(key,) for key in keys], "order_id string").selectExpr(
            "order_id",
            f"timestamp'2026-11-20 12:0{minute}:00' AS order_ts",
            "'2026-11-20' AS partition_date",
        ).write.format("hudi").options(**options).mode("append").save(path)
    table = lab.xray(path)
    assert str(table.version) == version
    second = table.instants[1]
    just_before = from_seconds(to_seconds(second.completed) - 0.001)

    def window(begin: str, end: str | None = None):
        reader = (
            lab.spark.read.format("hudi")
            .option("hoodie.datasource.query.type", "incremental")
            .option("hoodie.datasource.read.begin.instanttime", begin)
        )
        if end:
            reader = reader.option("hoodie.datasource.read.end.instanttime", end)
        return reader.load(path)

    def holds_second(begin: str, end: str | None = None) -> bool:
        of_second = f"_hoodie_commit_time = '{second.requested}'"
        return not window(begin, end).where(of_second).isEmpty()

    assert holds_second(second.requested) and holds_second(just_before)
    assert not holds_second(second.completed)
    assert not holds_second("000", second.requested) and not holds_second("000", just_before)
    assert holds_second("000", second.completed)
    if version == "9":  # the query sheet says it of these
        query = f"SELECT * FROM hudi_table_changes('{path}', 'latest_state', 'earliest')"
        assert window("earliest").count() < window("000").count() == lab.spark.sql(query).count()
