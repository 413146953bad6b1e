"""Instants, file slices, visible files and changes, derived from file names and metadata."""

import pytest
from xray_tables import (
    DAY,
    OTHER_DAY,
    T1,
    T2,
    T3,
    T4,
    base,
    cleaned,
    committed,
    done,
    history_of,
    log,
    plan_of,
    snapshot,
    stat,
)

from lab_env.tables.hudi.reader import UnsupportedTable


def test_a_log_belongs_to_the_base_file_that_it_changes():
    seen = snapshot(*done(T1), *done(T2), base(T1), log(T2))
    (found,) = seen.slices
    assert (found.base.instant, [file.instant for file in found.logs]) == (T1, [T2])
    assert found.current


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


def test_files_of_a_write_that_did_not_finish_are_in_no_slice():
    pending = f".hoodie/timeline/{T2}.deltacommit.inflight"
    seen = snapshot(*done(T1), pending, base(T1), log(T2))
    assert [file.instant for file in seen.uncommitted] == [T2]
    assert seen.slices[0].logs == ()


def test_files_of_archived_instants_count_and_younger_unknown_ones_do_not():
    seen = snapshot(*done(T2), base(T1), base(T2), base(T3, group="b-0"))
    assert [file.instant for file in seen.uncommitted] == [T3]
    assert [found.instant for found in seen.slices] == [T1, T2]


def test_a_pending_instant_shows_its_furthest_state():
    requested, inflight = f"{T2}.commit.requested", f"{T2}.inflight"
    seen = snapshot(*done(T1), *(f".hoodie/timeline/{name}" for name in (requested, inflight)))
    assert (seen.instants[1].action, seen.instants[1].state) == ("commit", "inflight")
    assert seen.instants[1].completed == ""


def test_replaced_file_groups_are_not_current():
    commit = done(T2, "replacecommit")
    content = {commit[0]: committed("INSERT_OVERWRITE", replaced={DAY: ["a-0"]})}
    seen = snapshot(*done(T1), *commit, base(T1), base(T2, group="b-0"), contents=content)
    assert [found.group for found in seen.current] == ["b-0"]


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


def test_nothing_changed_is_an_empty_difference():
    assert (snapshot(*done(T1), base(T1)) - snapshot(*done(T1), base(T1))).empty


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


def test_a_clean_lists_the_files_that_it_deleted():
    clean = cleaned(T3, base(T1))
    (gone,) = snapshot(*done(T1), *done(T2), *done(T3, "clean"), base(T2), contents=clean).cleaned
    assert (gone.partition, gone.group, gone.instant, gone.cleaned) == (DAY, "a-0", T1, T3)


def test_a_savepoint_is_an_instant_beside_the_write_that_it_protects():
    seen = snapshot(*done(T1), *done(T1, "savepoint"), *done(T2), base(T1))
    assert [i.action for i in seen.instants] == ["deltacommit", "savepoint", "deltacommit"]
    assert seen.files[0].committed and seen.commit(T1).action == "deltacommit"


def test_the_newest_manifest_lists_the_archived_instants():
    insert = committed("UPSERT", stat(base(T1), written=7, inserted=7))
    past = history_of((T2, "commit", committed("COMPACT")), (T1, "deltacommit", insert))
    seen = snapshot(*done(T3), base(T1), contents=past)
    assert [(i.requested, i.action) for i in seen.history] == [
        (T1, "deltacommit"), (T2, "compaction"),
    ]  # fmt: skip
    assert seen.commit(T1).inserted == 7 and seen.files[0].rows == 7
    assert seen.files[0].committed


def test_files_of_a_write_that_was_rolled_back_are_not_committed():
    seen = snapshot(*done(T1), *done(T3, "rollback"), *done(T4), base(T1), base(T2), base(T4))
    assert [file.instant for file in seen.uncommitted] == [T2]


def test_a_log_compaction_is_a_write_of_its_own_name():
    plan = f".hoodie/timeline/{T2}.logcompaction.requested"
    seen = snapshot(
        *done(T1), plan, base(T1), log(T2),
        contents={done(T2)[0]: committed("LOG_COMPACT", stat(log(T2), written=3))},
    )  # fmt: skip
    assert [i.action for i in seen.instants] == ["deltacommit", "logcompaction"]
    assert not seen.uncommitted and seen.commit().operation == "LOG_COMPACT"


def test_a_table_of_an_old_version_is_refused_with_its_version():
    with pytest.raises(UnsupportedTable, match="is of version 6"):
        snapshot(properties="hoodie.table.version=6\n")
