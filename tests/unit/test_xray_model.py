"""What the X-ray reads from names alone: instants, file slices, what readers see, what is new."""

import pytest
from xray_tables import DAY, OTHER_DAY, T1, T2, T3, T4, base, committed, done, end, log, table

from lab_env.xray.names import clock, data_name, size_text, timeline_name


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
    assert after._repr_html_().count("· new<") == 1
    assert "new since last look" in after._repr_html_()
    assert "new" not in before._repr_html_().replace("newest", "")


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


def test_a_long_timeline_is_cut_and_says_so():
    many = [f"20261120{hour:02d}0000000" for hour in range(20)]
    seen = table(*[name for instant in many for name in done(instant)], base(many[0]))
    assert "12 earlier instants" in seen._repr_html_()
    assert all(instant in repr(seen) for instant in many)


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
    assert [size_text(n) for n in (912, 2056, 445_000, 12_345_678)] == [
        "912 B", "2.1 KB", "445 KB", "12 MB",
    ]  # fmt: skip
