"""A table's past, rebuilt from its instants: made-up tables, each with one special case.

`tests/integration/test_xray.py` compares the past of real Hudi tables with file listings.
"""

import pytest
from xray_tables import (
    DAY,
    OTHER_DAY,
    T1,
    T2,
    T3,
    T4,
    T5,
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
