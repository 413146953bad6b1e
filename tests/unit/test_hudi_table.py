"""A table and its past, from file names and metadata: made-up tables, each with a special case.

`tests/integration/test_xray.py` compares the past of real Hudi tables with file listings.
"""

import subprocess
import sys
from types import SimpleNamespace

import pytest
from xray_tables import (
    DAY,
    OTHER_DAY,
    PROPERTIES,
    T1,
    T2,
    T3,
    T4,
    T5,
    FilesInMemory,
    base,
    cleaned,
    committed,
    done,
    end,
    history_of,
    log,
    plan_of,
    restored,
    snapshot,
    stat,
    wrote,
)

from lab_env.tables.hudi.past import Past, past_of
from lab_env.tables.hudi.reader import TableNotFound, read_table
from lab_env.tables.hudi.table import CommitNotFound


def test_a_compaction_begins_a_new_slice_and_leaves_the_old_one():
    plan = f".hoodie/timeline/{T3}.compaction.requested"
    seen = snapshot(
        *done(T1), *done(T2), *done(T3, "commit"), *done(T4), plan,
        base(T1), log(T2), base(T3), log(T4),
    )  # fmt: skip
    older, newer = seen.slices
    assert [file.instant for file in older.files] == [T1, T2] and not older.current
    assert [file.instant for file in newer.files] == [T3, T4] and newer.current
    assert [i.action for i in seen.instants] == [
        "deltacommit", "deltacommit", "compaction", "deltacommit",
    ]  # fmt: skip


def test_a_log_that_was_complete_only_after_a_compaction_began_belongs_to_the_new_slice():
    # Requested before the compaction, complete after it: the compaction cannot have read it.
    seen = snapshot(
        *done(T1), *done(T2, end_of=T4), *done(T3, "commit"),
        base(T1), log(T2), base(T3),
    )  # fmt: skip
    older, newer = seen.slices
    assert older.logs == ()
    assert [file.instant for file in newer.logs] == [T2]


def test_files_of_archived_instants_count_and_younger_unknown_ones_do_not():
    seen = snapshot(*done(T2), *done(T4), base(T1), base(T2), base(T3, group="b-0"))
    assert [file.instant for file in seen.uncommitted] == [T3]
    assert [found.instant for found in seen.slices] == [T1, T2]


def test_a_pending_instant_shows_its_furthest_state():
    requested, inflight = f"{T2}.commit.requested", f"{T2}.inflight"
    seen = snapshot(*done(T1), *(f".hoodie/timeline/{name}" for name in (requested, inflight)))
    assert (seen.instants[1].action, seen.instants[1].state) == ("commit", "inflight")
    assert seen.instants[1].completed == ""


def test_since_marks_what_is_new():
    before = snapshot(*done(T1), base(T1))
    after = snapshot(*done(T1), *done(T2), base(T1), log(T2), since=before)
    assert [instant.requested for instant in after.new_instants] == [T2]
    assert [file.instant for file in after.new_files] == [T2]


def test_a_new_base_file_of_a_known_file_group_is_a_rewrite_and_lost_files_are_gone():
    before = snapshot(*done(T1), base(T1), base(T1, "b-0"))
    after = snapshot(*done(T1), *done(T2), base(T2), base(T2, "c-0"), since=before)
    assert [file.group for file in after.rewritten_files] == ["a-0"]
    assert {file.group for file in after.new_files} == {"a-0", "c-0"}
    assert [(file.group, file.instant) for file in after.gone_files] == [("a-0", T1), ("b-0", T1)]


def test_a_difference_lists_new_and_gone_objects():
    before = snapshot(*done(T1), base(T1), base(T1, group="b-0", day=OTHER_DAY))
    after = snapshot(*done(T1), *done(T2), base(T1), log(T2))
    rows = (after - before).query("part in ('base', 'log')")
    assert list(rows[["change", "part", "partition", "file_group"]].itertuples(index=False)) == [
        ("gone", "base", OTHER_DAY, "b-0"),
        ("new", "log", DAY, "a-0"),
    ]
    assert len((after - before).query("part == 'timeline'")) == 3


def test_a_planned_compaction_begins_a_slice_and_queries_read_both():
    plan = plan_of(T3, "a-0")
    early = snapshot(*done(T1), *done(T2), base(T1), base(T1, "b-0"), log(T2), contents=plan)
    older, begun, other = early.slices
    assert (begun.instant, begun.files, begun.planned, begun.current) == (T3, (), True, False)
    assert older.current and other.current and not other.planned
    late = snapshot(*done(T1), *done(T2), *done(T4), base(T1), log(T2), log(T4), contents=plan)
    older, begun = late.slices
    assert [file.instant for file in older.logs] == [T2]
    assert [file.instant for file in begun.logs] == [T4]
    assert older.current and begun.current  # until it is compacted, a query merges both


def test_the_newest_manifest_lists_the_archived_instants():
    insert = committed("UPSERT", stat(base(T1), written=7, inserted=7))
    past = history_of((T2, "commit", committed("COMPACT")), (T1, "deltacommit", insert))
    seen = snapshot(*done(T3), base(T1), contents=past)
    assert [(i.requested, i.action) for i in seen.history] == [
        (T1, "deltacommit"), (T2, "compaction"),
    ]  # fmt: skip
    assert seen.commit(T1).inserted == 7 and seen.files[0].rows == 7
    assert seen.files[0].committed


def test_a_log_compaction_is_a_write_of_its_own_name():
    plan = f".hoodie/timeline/{T2}.logcompaction.requested"
    seen = snapshot(
        *done(T1), plan, base(T1), log(T2),
        contents={done(T2)[0]: committed("LOG_COMPACT", stat(log(T2), written=3))},
    )  # fmt: skip
    assert [i.action for i in seen.instants] == ["deltacommit", "logcompaction"]
    assert not seen.uncommitted and seen.commit().operation == "LOG_COMPACT"


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


def test_a_change_data_log_counts_as_a_file_and_its_bytes_too():
    file = stat(base(T2), written=1, updated=1, size=500, cdcStats={f"{DAY}/.a-0.cdc": 40})
    commit = orders(**{done(T2)[0]: committed("UPSERT", file)}).commit()
    assert [(file.kind, file.size) for file in commit.files] == [("base", 500), ("cdc", 40)]
    assert (commit.updated, commit.bytes_written) == (1, 540)


def test_an_unknown_instant_is_refused_by_name():
    with pytest.raises(CommitNotFound, match=f"no instant {T3}"):
        orders().commit(T3)


def cow_table() -> FilesInMemory:
    first, second = done(T1, "commit"), done(T2, "commit")
    contents = {
        first[0]: committed("INSERT", stat(base(T1), written=3, inserted=3)),
        second[0]: committed("UPSERT", stat(base(T2), written=3, updated=1)),
    }
    properties = PROPERTIES.replace("MERGE_ON_READ", "COPY_ON_WRITE")
    keys = [*first, *second, base(T1), base(T2), ".hoodie/metadata/files/x"]
    return FilesInMemory("t", properties, keys, contents)


# Runs the example of the package's docstring, and lists what it imported.
EXAMPLE = """
import doctest, sys
import lab_env.tables.hudi
assert doctest.testmod(lab_env.tables.hudi).failed == 0
print(*sys.modules)
"""


def test_it_reads_only_the_properties_and_what_completes_an_action(monkeypatch):
    files = cow_table()
    reads, read = [], files.read
    monkeypatch.setattr(files, "read", lambda key: reads.append(key) or read(key))
    table = read_table(files)
    completed = [done(instant, "commit")[0] for instant in (T1, T2)]
    assert sorted(reads) == sorted([".hoodie/hoodie.properties", *completed])
    assert (table.rows, table.commit().updated) == (3, 1)


def test_a_folder_without_a_table_is_named():
    elsewhere = SimpleNamespace(path="t", sizes=lambda: {"readme.txt": 1})
    with pytest.raises(TableNotFound, match=r"no Hudi table at t: 1 objects lie below it"):
        read_table(elsewhere)


def test_the_docstrings_example_runs_as_written_without_spark_and_the_lab(tmp_path):
    files = cow_table()
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


def past(*listed: str, last: int = 30, **contents: bytes) -> Past:
    """Return the past of a table with these timeline files and the listed data files."""
    return past_of(snapshot(*listed, contents=contents), last)


def names(moment) -> list[str]:
    """Return the keys of the data files that existed at a moment."""
    return sorted(file.key for file in moment.table.files)


def read(moment) -> list[str]:
    """Return the keys of the files that a snapshot query would have read at a moment."""
    return sorted(file.key for part in moment.table.current for file in part.files)


def test_a_cleaned_file_is_there_until_its_clean():
    writes = wrote(T1, base(T1)) | wrote(T2, base(T2)) | cleaned(T3, base(T1))
    found = past(base(T2), **writes)
    assert [m.instant.action for m in found.moments] == ["deltacommit", "deltacommit", "clean"]
    assert [names(m) for m in found.moments] == [[base(T1)], [base(T1), base(T2)], [base(T2)]]
    assert [read(m) for m in found.moments] == [[base(T1)], [base(T2)], [base(T2)]]
    first, second, clean = found.moments
    assert [(f.key, f.size, f.rows) for f in first.added] == [(base(T1), 1000, 3)]
    assert [f.key for f in second.superseded] == [base(T1)] and not second.removed
    assert [f.key for f in clean.removed] == [base(T1)] and not (clean.added or clean.superseded)
    assert (found.completed, found.unknown, found.older_files, found.lost) == (3, (), (), ())


def test_completion_decides_the_order_and_what_is_there():
    writes = wrote(T1, base(T1), end_of=T5) | wrote(T2, base(T2, "b-0"))
    early, late = past(base(T1), base(T2, "b-0"), **writes).moments
    assert [early.instant.requested, late.instant.requested] == [T2, T1]
    assert names(early) == [base(T2, "b-0")] and late.instant.completed == end(T5)
    assert [(i.requested, i.state) for i in early.table.instants] == [
        (T1, "pending"), (T2, "completed"),
    ]  # fmt: skip
    assert {i.state for i in late.table.instants} == {"completed"}


def test_a_replaced_file_group_is_stored_but_not_read():
    writes = wrote(T1, base(T1), base(T1, "b-0")) | wrote(
        T2, base(T2, "c-0"), operation="CLUSTER", action="replacecommit",
        replaced={DAY: ["a-0", "b-0"]},
    )  # fmt: skip
    before, after = past(base(T1), base(T1, "b-0"), base(T2, "c-0"), **writes).moments
    assert read(before) == [base(T1), base(T1, "b-0")] and before.table.replaced == ()
    assert read(after) == [base(T2, "c-0")] and len(names(after)) == 3
    assert [file.group for file in after.superseded] == ["a-0", "b-0"]


def test_a_change_log_is_added_but_never_replaced_because_no_query_of_the_newest_state_reads_it():
    stats = stat(base(T2), written=3, cdcStats={log(T2) + ".cdc": 70})
    second = {done(T2)[0]: committed("UPSERT", stats)}
    stored = (base(T1), base(T2), log(T2) + ".cdc", base(T3))
    _, update, third = past(*stored, **wrote(T1, base(T1)), **second, **wrote(T3, base(T3))).moments
    assert [(f.kind, f.size) for f in update.added] == [("base", 1000), ("cdc", 70)]
    assert [f.kind for f in third.superseded] == ["base"]


def test_while_a_compaction_was_pending_both_slices_were_read():
    plan = plan_of(T2, "a-0")
    writes = wrote(T1, base(T1)) | wrote(T3, log(T3))
    compaction = wrote(T2, base(T2), operation="COMPACT", action="commit", end_of=T4)
    found = past(base(T1), base(T2), log(T3), **writes, **compaction, **plan)
    assert [m.instant.action for m in found.moments] == ["deltacommit", "deltacommit", "compaction"]
    meanwhile, after = found.moments[1:]
    assert meanwhile.table.planned == (("a-0", T2, "compaction"),) and not after.table.planned
    assert read(meanwhile) == [log(T3), base(T1)] and read(after) == [log(T3), base(T2)]
    still_pending = past(base(T1), log(T3), **writes, **plan).moments[-1]
    assert read(still_pending) == read(meanwhile)


def test_archived_instants_have_a_moment_too():
    old = wrote(T1, base(T1)) | cleaned(T3, base(T1))
    archive = history_of(
        (T1, "deltacommit", old[done(T1)[0]]), (T3, "clean", old[done(T3, "clean")[0]])
    )
    found = past(base(T2), **wrote(T2, base(T2)), **archive)
    assert [m.instant.requested for m in found.moments] == [T1, T2, T3]
    assert [len(names(m)) for m in found.moments] == [1, 2, 1] and found.completed == 3


def test_the_past_begins_after_a_clean_of_files_whose_write_is_not_recorded():
    writes = wrote(T2, base(T2)) | cleaned(T3, base(T1)) | wrote(T4, base(T4, "b-0"))
    found = past(base(T2), base(T4, "b-0"), **writes)
    assert [i.requested for i in found.unknown] == [T2] and found.completed == 3
    assert [names(m) for m in found.moments] == [[base(T2)], [base(T2), base(T4, "b-0")]]
    clean, write = found.moments
    assert clean.table.since is None and not (clean.added or clean.superseded or clean.removed)
    assert [file.key for file in write.added] == [base(T4, "b-0")]


def test_a_stored_file_whose_write_is_not_recorded_is_there_from_the_beginning():
    found = past(base(T1, "b-0"), base(T2), **wrote(T2, base(T2)))
    (moment,) = found.moments
    assert names(moment) == [base(T2), base(T1, "b-0")] and moment.table.since is None
    assert [file.key for file in found.older_files] == [base(T1, "b-0")]


def test_what_a_restore_undid_has_no_moment_and_is_named():
    found = past(base(T1), **wrote(T1, base(T1)), **restored(T4, T2, T3))
    assert [m.instant.action for m in found.moments] == ["deltacommit", "restore"]
    assert found.undone == (T2, T3) and names(found.moments[-1]) == [base(T1)]


def test_a_savepoint_appears_when_it_is_complete_and_not_when_its_write_was_requested():
    savepoint = {f".hoodie/timeline/{T1}_{end(T3)}.savepoint": b""}
    writes = wrote(T1, base(T1)) | wrote(T2, base(T2)) | savepoint
    found = past(base(T1), base(T2), **writes)
    assert [m.instant.action for m in found.moments] == ["deltacommit", "deltacommit", "savepoint"]
    assert [len(m.table.instants) for m in found.moments] == [1, 2, 3]
    assert found.moments[-1].table.commit(T1).action == "deltacommit"


def test_files_that_the_listing_and_the_timeline_disagree_on_are_named():
    pending = f".hoodie/timeline/{T3}.deltacommit.inflight"
    found = past(base(T2), base(T3, "b-0"), pending, **wrote(T1, base(T1)), **wrote(T2, base(T2)))
    assert [file.key for file in found.lost] == [base(T1)]
    assert [file.key for file in found.uncommitted] == [base(T3, "b-0")]
    assert base(T3, "b-0") not in names(found.moments[-1])


@pytest.mark.parametrize("last", [1, 2, 3, 9])
def test_only_the_last_moments_are_taken_and_the_first_is_compared_with_the_one_before(last):
    times = (T1, T2, T3)
    files = [base(t, f"{t}-0", OTHER_DAY) for t in times]
    contents = {k: v for t, f in zip(times, files, strict=True) for k, v in wrote(t, f).items()}
    found = past(*files, last=last, **contents)
    assert [m.instant.requested for m in found.moments] == list(times[-last:])
    assert [[f.key for f in m.added] for m in found.moments] == [[f] for f in files[-last:]]
    assert found.completed == 3


def test_a_table_without_a_write_has_no_moment():
    assert past().moments == () and past().completed == 0
