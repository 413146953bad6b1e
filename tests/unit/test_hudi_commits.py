"""The metadata of a write, decoded from the timeline's Avro files."""

import pytest
from xray_tables import DAY, OTHER_DAY, T1, T2, T3, base, committed, done, end, log, snapshot, stat

from lab_env.tables.hudi.table import CommitNotFound

SCHEMA = """{"type": "record", "name": "orders", "fields": [
  {"name": "order_id", "type": "string"},
  {"name": "amount", "type": ["null", {"type": "fixed", "name": "f", "size": 5,
    "logicalType": "decimal", "precision": 10, "scale": 2}]},
  {"name": "order_ts", "type": {"type": "long", "logicalType": "timestamp-micros"}}]}"""

INSERT = committed(
    "UPSERT",
    stat(base(T1), written=5, inserted=5, size=400),
    stat(base(T1, "b-0", OTHER_DAY), written=3, inserted=3, size=300, group="b-0"),
    schema=SCHEMA,
)
UPDATE = committed(
    "UPSERT",
    stat(log(T2), written=2, updated=2, size=90),
    stat(base(T2, "b-0", OTHER_DAY), written=3, inserted=1, updated=1, deleted=1, size=310,
         group="b-0", prevBaseFile="old.parquet"),
    _hudi_streaming_sink_checkpoint='{"pipeline":"7"}', note="x",
)  # fmt: skip
CONTENTS = {done(T1)[0]: INSERT, done(T2)[0]: UPDATE}
FILES = (*done(T1), *done(T2), base(T1), base(T1, "b-0", OTHER_DAY), log(T2))


def orders(**contents: bytes):
    return snapshot(*FILES, contents=CONTENTS | contents)


def test_a_commit_counts_the_records_and_bytes_of_its_files():
    commit = orders().commit(T1)
    assert (commit.operation, commit.action) == ("UPSERT", "deltacommit")
    assert (commit.inserted, commit.updated, commit.deleted) == (8, 0, 0)
    assert (commit.records_written, commit.bytes_written, len(commit.files)) == (8, 700, 2)
    assert (commit.requested, commit.completed) == (T1, end(T1))


def test_the_newest_completed_write_is_the_default():
    commit = orders().commit()
    assert commit.requested == T2
    assert (commit.inserted, commit.updated, commit.deleted) == (1, 3, 1)
    assert [file.kind for file in commit.files] == ["log", "base"]
    assert commit.files[1].replaces == "old.parquet"
    assert list(commit.frame()["size"]) == [90, 310]


def test_newest_means_completed_last_and_a_pending_write_does_not_count():
    compaction = [f".hoodie/timeline/{T1}.compaction.requested", done(T1, "commit", end_of=T3)[0]]
    contents = {compaction[1]: committed("COMPACT"), done(T2)[0]: UPDATE}
    late = snapshot(
        *compaction, *done(T2), f".hoodie/timeline/{T3}.deltacommit.inflight", contents=contents
    )
    assert (late.commit().requested, late.commit().action) == (T1, "compaction")


def test_the_schema_and_the_streams_batch_are_decoded():
    assert orders().commit(T1).schema == {
        "order_id": "string",
        "amount": "decimal(10,2)",
        "order_ts": "timestamp-micros",
    }
    commit = orders().commit(T2)
    assert commit.checkpoint == {"pipeline": "7"} and commit.extra == {"note": "x"}
    assert orders().commit(T1).checkpoint is None


@pytest.mark.parametrize("operation", ["COMPACT", "CLUSTER"])
def test_a_rewrite_changes_no_record(operation):
    content = committed(operation, stat(base(T2), written=9, inserted=4, updated=3, deleted=2))
    commit = orders(**{done(T2)[0]: content}).commit(T2)
    assert (commit.inserted, commit.updated, commit.deleted) == (0, 0, 0)
    assert commit.records_written == 9


def test_replaced_file_groups_are_listed():
    key = done(T3, "replacecommit")[0]
    content = committed("INSERT_OVERWRITE", replaced={DAY: ["a-0"]})
    commit = orders(**{key: content}).commit()
    assert commit.replaced == ((DAY, "a-0"),)


def test_a_change_data_log_counts_as_a_file_and_its_bytes_too():
    file = stat(base(T2), written=1, updated=1, size=500, cdcStats={f"{DAY}/.a-0.cdc": 40})
    commit = orders(**{done(T2)[0]: committed("UPSERT", file)}).commit()
    assert [(file.kind, file.size) for file in commit.files] == [("base", 500), ("cdc", 40)]
    assert (commit.updated, commit.bytes_written) == (1, 540)


def test_an_unknown_or_pending_instant_is_refused_by_name():
    with pytest.raises(CommitNotFound, match=f"no instant {T3}"):
        orders().commit(T3)
    pending = snapshot(*FILES, f".hoodie/timeline/{T3}.deltacommit.inflight", contents=CONTENTS)
    with pytest.raises(CommitNotFound, match=f"deltacommit {T3} is inflight"):
        pending.commit(T3)
    with pytest.raises(CommitNotFound, match="No write"):
        snapshot().commit()
