"""What the X-ray reads from names alone: instants, file slices, what readers see, what is new."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from xray_tables import (
    CLEAN,
    DAY,
    OTHER_DAY,
    PLAN,
    T1,
    T2,
    T3,
    T4,
    avro,
    base,
    committed,
    done,
    end,
    log,
    stat,
    table,
)

from lab_env.errors import LabError
from lab_env.hudi.timeline import clock, data_name, duration_text, size_text, timeline_name


def test_a_log_belongs_to_the_base_file_that_it_changes():
    seen = table(*done(T1), *done(T2), base(T1), log(T2))
    (found,) = seen.slices
    assert (found.base.instant, [file.instant for file in found.logs]) == (T1, [T2])
    assert found.current


def test_a_compaction_begins_a_new_slice_and_leaves_the_old_one():
    plan = f".hoodie/timeline/{T3}.compaction.requested"
    seen = table(
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
    seen = table(
        *done(T1), *done(T2, end_of=T4), *done(T3, "commit"),
        base(T1), log(T2), base(T3),
    )  # fmt: skip
    older, newer = seen.slices
    assert older.logs == ()
    assert [file.instant for file in newer.logs] == [T2]


def test_files_of_a_write_that_did_not_finish_are_in_no_slice():
    pending = f".hoodie/timeline/{T2}.deltacommit.inflight"
    seen = table(*done(T1), pending, base(T1), log(T2))
    assert [file.instant for file in seen.uncommitted] == [T2]
    assert seen.slices[0].logs == ()
    assert "not committed" in repr(seen)


def test_files_of_archived_instants_count_and_younger_unknown_ones_do_not():
    seen = table(*done(T2), base(T1), base(T2), base(T3, group="b-0"))
    assert [file.instant for file in seen.uncommitted] == [T3]
    assert [found.instant for found in seen.slices] == [T1, T2]


def test_a_pending_instant_shows_its_furthest_state():
    requested, inflight = f"{T2}.commit.requested", f"{T2}.inflight"
    seen = table(*done(T1), *(f".hoodie/timeline/{name}" for name in (requested, inflight)))
    assert (seen.instants[1].action, seen.instants[1].state) == ("commit", "inflight")
    assert seen.instants[1].completed is None


def test_replaced_file_groups_are_not_current():
    commit = done(T2, "replacecommit")
    content = {commit[0]: committed("INSERT_OVERWRITE", replaced={DAY: ["a-0"]})}
    seen = table(*done(T1), *commit, base(T1), base(T2, group="b-0"), contents=content)
    assert [found.group for found in seen.current] == ["b-0"]
    assert f"replaced at {T2}" in repr(seen)


def test_since_marks_what_is_new():
    before = table(*done(T1), base(T1))
    after = table(*done(T1), *done(T2), base(T1), log(T2), since=before)
    assert [instant.requested for instant in after.new_instants] == [T2]
    assert [file.instant for file in after.new_files] == [T2]
    assert after._repr_html_().count(">new</text>") == 1
    assert "new since last look" in after._repr_html_()
    assert "new" not in before._repr_html_().replace("newest", "")


def test_a_new_base_file_of_a_known_file_group_is_a_rewrite_and_lost_files_are_gone():
    before = table(*done(T1), base(T1), base(T1, "b-0"))
    after = table(*done(T1), *done(T2), base(T2), base(T2, "c-0"), since=before)
    assert [file.group for file in after.rewritten_files] == ["a-0"]
    assert {file.group for file in after.new_files} == {"a-0", "c-0"}
    assert [(file.group, file.instant) for file in after.gone_files] == [("a-0", T1), ("b-0", T1)]


def test_a_difference_lists_new_and_gone_objects():
    before = table(*done(T1), base(T1), base(T1, group="b-0", day=OTHER_DAY))
    after = table(*done(T1), *done(T2), base(T1), log(T2))
    rows = (after - before).query("part in ('base', 'log')")
    assert list(rows[["change", "part", "partition", "file_group"]].itertuples(index=False)) == [
        ("gone", "base", OTHER_DAY, "b-0"),
        ("new", "log", DAY, "a-0"),
    ]
    assert len((after - before).query("part == 'timeline'")) == 3


def test_nothing_changed_is_an_empty_difference():
    assert (table(*done(T1), base(T1)) - table(*done(T1), base(T1))).empty


def test_text_and_drawing_tell_the_same_facts():
    seen = table(*done(T1), *done(T2), base(T1), log(T2), base(T1, "c-0", OTHER_DAY))
    for form in (repr(seen), seen._repr_html_()):
        for fact in ("MERGE_ON_READ", DAY, OTHER_DAY, "deltacommit", "a-0", "c-0", "parquet"):
            assert fact in form
        assert T1 in form and end(T2) in form  # requested and completed, in full
        assert f"{seen.objects} objects" in form


def plan_of(instant: str, *groups: str) -> dict[str, bytes]:
    """A compaction's plan, by its key."""
    operations = [{"fileId": group} for group in groups]
    return {
        f".hoodie/timeline/{instant}.compaction.requested": avro(PLAN, {"operations": operations})
    }


def test_a_planned_compaction_begins_a_slice_and_queries_read_both():
    plan = plan_of(T3, "a-0")
    early = table(*done(T1), *done(T2), base(T1), base(T1, "b-0"), log(T2), contents=plan)
    older, begun, other = early.slices
    assert (begun.instant, begun.files, begun.planned, begun.current) == (T3, (), True, False)
    assert older.current and other.current and not other.planned
    assert "to come" in early._repr_html_() and f"compaction {T3} pending" in repr(early)
    late = table(*done(T1), *done(T2), *done(T4), base(T1), log(T2), log(T4), contents=plan)
    older, begun = late.slices
    assert [file.instant for file in older.logs] == [T2]
    assert [file.instant for file in begun.logs] == [T4]
    assert older.current and begun.current  # until it is compacted, a query merges both


def test_a_clean_tells_what_it_deleted():
    (end_of_clean, *_) = names = done(T3, "clean")
    lost = base(T1)
    record = {"partitionMetadata": {DAY: {"successDeleteFiles": [lost.rpartition("/")[2]]}}}
    seen = table(
        *done(T1), *done(T2), *names, base(T2), contents={end_of_clean: avro(CLEAN, record)}
    )
    (cleaned,) = seen.cleaned
    assert (cleaned.partition, cleaned.group, cleaned.instant, cleaned.cleaned) == (
        DAY,
        "a-0",
        T1,
        T3,
    )
    for form in (repr(seen), seen._repr_html_()):
        assert f"deleted by the clean {T3}" in form and "1 file deleted" in form


def test_a_savepoint_stands_beside_the_write_that_it_keeps():
    seen = table(*done(T1), *done(T1, "savepoint"), *done(T2), base(T1))
    assert [i.action for i in seen.instants] == ["deltacommit", "savepoint", "deltacommit"]
    assert seen.files[0].committed and seen.commit(T1).action == "deltacommit"


def history_of(*rows: tuple[str, str, bytes]) -> dict[str, bytes]:
    """The files of an archived timeline: instant, action, and what it recorded."""
    folder = ".hoodie/timeline/history"
    names = {
        "instantTime": [instant for instant, _, _ in rows],
        "completionTime": [end(instant) for instant, _, _ in rows],
        "action": [action for _, action, _ in rows],
        "metadata": [content for _, _, content in rows],
    }
    file = io.BytesIO()
    pq.write_table(pa.table(names), file)
    return {
        f"{folder}/_version_": b"2",
        f"{folder}/manifest_1": b'{"files": [{"fileName": "old.parquet"}]}',
        f"{folder}/manifest_2": b'{"files": [{"fileName": "new.parquet"}]}',
        f"{folder}/old.parquet": b"replaced by a later manifest",
        f"{folder}/new.parquet": file.getvalue(),
    }


def test_archived_instants_are_told_by_the_newest_manifest():
    insert = committed("UPSERT", stat(base(T1), written=7, inserted=7))
    past = history_of((T2, "commit", committed("COMPACT")), (T1, "deltacommit", insert))
    seen = table(*done(T3), base(T1), contents=past)
    assert [(i.requested, i.action) for i in seen.history] == [
        (T1, "deltacommit"), (T2, "compaction"),
    ]  # fmt: skip
    assert seen.commit(T1).inserted == 7 and seen.files[0].rows == 7
    assert seen.files[0].committed
    assert f"archived deltacommit: requested {T1}" in repr(seen)
    assert "2 earlier" in seen._repr_html_()
    cleaned = table(*done(T3), base(T3), contents=past)
    assert "2 earlier" in cleaned._repr_html_()  # also when none of their files is left


def test_files_of_a_write_that_was_rolled_back_stand_in_its_place():
    seen = table(*done(T1), *done(T3, "rollback"), *done(T4), base(T1), base(T2), base(T4))
    assert [file.instant for file in seen.uncommitted] == [T2]
    svg = seen._repr_html_()
    assert svg.index(T1) < svg.index(f"rolled back: requested {T2}") < svg.index("rollback: ")


def test_a_log_compaction_is_a_write_of_its_own_name():
    plan = f".hoodie/timeline/{T2}.logcompaction.requested"
    seen = table(
        *done(T1), plan, base(T1), log(T2),
        contents={f".hoodie/timeline/{T2}_{end(T2)}.deltacommit": committed("LOG_COMPACT", stat(log(T2), written=3))},
    )  # fmt: skip
    assert [i.action for i in seen.instants] == ["deltacommit", "logcompaction"]
    assert not seen.uncommitted and seen.commit().operation == "LOG_COMPACT"


def test_a_table_of_an_old_version_is_refused_with_its_version():
    with pytest.raises(LabError, match="is of version 6"):
        table(properties="hoodie.table.version=6\n")


@pytest.mark.parametrize(
    ("name", "kind", "group"),
    [
        ("8c1e-2f-0_0-12-34_20261120090100000.parquet", "base", "8c1e-2f-0"),
        (".8c1e-2f-0_20261120090100000.log.1_0-12-34", "log", "8c1e-2f-0"),
        (".8c1e-2f-0_20261120090100000.log.1_0-12-34.cdc", "cdc", "8c1e-2f-0"),
    ],
)
def test_the_name_of_a_data_file_tells_its_group_and_kind(name, kind, group):
    assert (data_name(name).kind, data_name(name).group) == (kind, group)


@pytest.mark.parametrize("name", [".hoodie_partition_metadata", "part-0000.parquet", "a.json"])
def test_other_files_are_no_data_files(name):
    assert data_name(name) is None


def test_a_completed_instant_tells_both_its_times():
    told = timeline_name(f"{T1}_{T2}.commit")
    assert (told.requested, told.completed, told.state) == (T1, T2, "completed")


def test_times_and_sizes_read_well():
    assert clock("20261120091500705") == "09:15:00.705"
    spans = (0.42, 12.3, 90, 5400, 86400, 400_000)
    assert [duration_text(n) for n in spans] == [
        "0.4 s", "12 s", "1.5 min", "1.5 h", "1 d", "4.6 d",
    ]  # fmt: skip
    assert [size_text(n) for n in (912, 2056, 445_000, 12_345_678)] == [
        "912 B", "2.1 KB", "445 KB", "12 MB",
    ]  # fmt: skip
