"""`picture.commit()`: what a write recorded about itself, decoded from the timeline's Avro files."""

import pytest
from xray_tables import (
    DAY,
    OTHER_DAY,
    T1,
    T2,
    T3,
    base,
    committed,
    done,
    end,
    log,
    stat,
    table,
)

from lab_env.errors import LabError

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


def seen(**contents: bytes):
    return table(*FILES, contents=CONTENTS | contents)


def test_a_commit_counts_the_records_and_bytes_of_its_files():
    commit = seen().commit(T1)
    assert (commit.operation, commit.action) == ("UPSERT", "deltacommit")
    assert (commit.inserted, commit.updated, commit.deleted) == (8, 0, 0)
    assert (commit.records_written, commit.bytes_written, len(commit.files)) == (8, 700, 2)
    assert (commit.requested, commit.completed) == (T1, end(T1))


def test_the_newest_completed_write_is_the_default():
    commit = seen().commit()
    assert commit.requested == T2
    assert (commit.inserted, commit.updated, commit.deleted) == (1, 3, 1)
    assert [file.kind for file in commit.files] == ["log", "base"]
    assert commit.files[1].replaces == "old.parquet"
    assert list(commit.frame()["size"]) == [90, 310]


def test_newest_means_complete_last_and_a_pending_write_is_none():
    compaction = [f".hoodie/timeline/{T1}.compaction.requested", done(T1, "commit", end_of=T3)[0]]
    contents = {compaction[1]: committed("COMPACT"), done(T2)[0]: UPDATE}
    late = table(
        *compaction, *done(T2), f".hoodie/timeline/{T3}.deltacommit.inflight", contents=contents
    )
    assert (late.commit().requested, late.commit().action) == (T1, "compaction")


def test_the_schema_and_the_streams_batch_are_told():
    assert seen().commit(T1).schema == {
        "order_id": "string",
        "amount": "decimal(10,2)",
        "order_ts": "timestamp-micros",
    }
    commit = seen().commit(T2)
    assert commit.checkpoint == {"pipeline": "7"} and commit.extra == {"note": "x"}
    assert seen().commit(T1).checkpoint is None


@pytest.mark.parametrize("operation", ["COMPACT", "CLUSTER"])
def test_a_rewrite_changes_no_record(operation):
    content = committed(operation, stat(base(T2), written=9, inserted=4, updated=3, deleted=2))
    commit = seen(**{done(T2)[0]: content}).commit(T2)
    assert (commit.inserted, commit.updated, commit.deleted) == (0, 0, 0)
    assert commit.records_written == 9


def test_replaced_file_groups_are_told():
    key = done(T3, "replacecommit")[0]
    content = committed("INSERT_OVERWRITE", replaced={DAY: ["a-0"]})
    commit = seen(**{key: content}).commit()
    assert commit.replaced == ((DAY, "a-0"),)
    assert "1 file group" in repr(commit)


def test_a_change_data_log_counts_as_a_file_and_its_bytes_too():
    told = stat(base(T2), written=1, updated=1, size=500, cdcStats={f"{DAY}/.a-0.cdc": 40})
    commit = seen(**{done(T2)[0]: committed("UPSERT", told)}).commit()
    assert [(file.kind, file.size) for file in commit.files] == [("base", 500), ("cdc", 40)]
    assert (commit.updated, commit.bytes_written) == (1, 540)


def test_text_and_card_tell_the_same():
    commit = seen().commit(T2)
    for form in (repr(commit), commit._repr_html_()):
        for fact in ("UPSERT", T2, end(T2), "1 inserted", "3 updated", "1 deleted",
                     "400 bytes", "batch 7 of pipeline", "2.0 s"):  # fmt: skip
            assert fact in form, fact
    assert all(file.name in repr(commit) for file in commit.files)


def test_an_unknown_or_pending_instant_is_refused_by_name():
    with pytest.raises(LabError, match=f"no instant {T3}"):
        seen().commit(T3)
    pending = table(*FILES, f".hoodie/timeline/{T3}.deltacommit.inflight", contents=CONTENTS)
    with pytest.raises(LabError, match=f"deltacommit {T3} is inflight"):
        pending.commit(T3)
    with pytest.raises(LabError, match="No write"):
        table().commit()
