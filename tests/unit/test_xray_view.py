"""`lab.xray` reads a snapshot from the lab's store, and adds cards, texts and helpful errors."""

from types import SimpleNamespace

import pytest
from botocore.exceptions import ClientError
from xray_tables import (
    DAY,
    OTHER_DAY,
    T1,
    T2,
    T3,
    T4,
    FilesInMemory,
    base,
    cleaned,
    committed,
    done,
    end,
    history_of,
    log,
    plan_of,
    stat,
    table,
)

from lab_env.platform import store as lab_store
from lab_env.platform.display.units import duration_text, size_text
from lab_env.platform.errors import LabError
from lab_env.platform.store import StoredObject
from lab_env.tables.xray import xray
from lab_env.tables.xray.captions import clock

PROPERTIES = "hoodie.table.name=orders\nhoodie.table.version={}\n"
UPDATE = committed(
    "UPSERT",
    stat(log(T2), written=2, updated=2, size=90),
    stat(base(T2, "b-0", OTHER_DAY), written=3, inserted=1, updated=1, deleted=1, size=310,
         group="b-0"),
    _hudi_streaming_sink_checkpoint='{"pipeline":"7"}',
)  # fmt: skip


@pytest.fixture
def store(monkeypatch):
    """The lab's store with one table, whose files a test can replace."""
    state = SimpleNamespace(files=None, error="")

    def listed(endpoints, prefix):
        return [StoredObject(prefix + key, size, None) for key, size in state.files.sizes().items()]

    def read(endpoints, key):
        if state.error and key.endswith(".deltacommit"):
            raise ClientError({"Error": {"Code": state.error}}, "GetObject")
        return state.files.read(key.removeprefix("t/"))

    monkeypatch.setattr(lab_store, "list_objects", listed)
    monkeypatch.setattr(lab_store, "read", read)
    state.files = FilesInMemory(
        "t", PROPERTIES.format(9), [*done(T2), base(T2)], {done(T2)[0]: UPDATE}
    )
    return state


def test_an_object_that_is_deleted_meanwhile_does_not_stop_it(store):
    store.error = "NoSuchKey"
    assert [instant.requested for instant in xray(None, "s3a://lakehouse/t").instants] == [T2]


def test_any_other_refusal_of_the_store_is_raised(store):
    store.error = "AccessDenied"
    with pytest.raises(ClientError, match="AccessDenied"):
        xray(None, "s3a://lakehouse/t")


def test_an_old_table_is_refused_with_a_next_step(store):
    store.files = FilesInMemory("t", PROPERTIES.format(6), [])
    with pytest.raises(LabError, match="is of version 6") as refused:
        xray(None, "s3a://lakehouse/t")
    assert "Hudi 1.x" in refused.value.next_step


def test_a_commit_that_does_not_exist_is_refused_with_those_that_do():
    picture = table(*done(T1), *done(T2), f".hoodie/timeline/{T3}.deltacommit.inflight")
    with pytest.raises(LabError, match=f"deltacommit {T3} is inflight") as refused:
        picture.commit(T3)
    assert refused.value.next_step == f"choose one of: {T1}, {T2}"
    with pytest.raises(LabError, match="No write") as refused:
        table().commit()
    assert refused.value.next_step == "write to the table first."


def test_a_commits_text_and_card_state_the_same():
    picture = table(*done(T2), log(T2), contents={done(T2)[0]: UPDATE})
    commit = picture.commit(T2)
    for form in (repr(commit), commit._repr_html_()):
        for fact in ("UPSERT", T2, end(T2), "1 inserted", "3 updated", "1 deleted",
                     "400 bytes", "batch 7 of pipeline", "2.0 s"):  # fmt: skip
            assert fact in form, fact
    assert all(file.name in repr(commit) for file in commit.files)


def test_the_text_says_why_readers_skip_a_file():
    pending = table(*done(T1), f".hoodie/timeline/{T2}.deltacommit.inflight", base(T1), log(T2))
    assert "not committed" in repr(pending)
    overwrite = done(T2, "replacecommit")
    content = {overwrite[0]: committed("INSERT_OVERWRITE", replaced={DAY: ["a-0"]})}
    replaced = table(*done(T1), *overwrite, base(T1), base(T2, group="b-0"), contents=content)
    assert f"replaced at {T2}" in repr(replaced) and "1 file group" in repr(replaced.commit())


def test_a_planned_compaction_shows_the_base_file_to_come():
    picture = table(*done(T1), *done(T2), base(T1), log(T2), contents=plan_of(T3, "a-0"))
    assert "to come" in picture._repr_html_() and f"compaction {T3} pending" in repr(picture)


def test_a_clean_names_what_it_deleted():
    clean = cleaned(T3, base(T1))
    picture = table(*done(T1), *done(T2), *done(T3, "clean"), base(T2), contents=clean)
    for form in (repr(picture), picture._repr_html_()):
        assert f"deleted by the clean {T3}" in form and "1 file deleted" in form


@pytest.mark.parametrize("left", [T1, T3])
def test_archived_instants_are_shown_even_if_none_of_their_files_is_left(left):
    past = history_of((T2, "commit", committed("COMPACT")), (T1, "deltacommit", b""))
    picture = table(*done(T3), base(left), contents=past)
    assert f"archived deltacommit: requested {T1}" in repr(picture)
    assert "2 earlier" in picture._repr_html_()


def test_files_of_a_write_that_was_rolled_back_stand_in_its_place():
    picture = table(*done(T1), *done(T3, "rollback"), *done(T4), base(T1), base(T2), base(T4))
    svg = picture._repr_html_()
    assert svg.index(T1) < svg.index(f"rolled back: requested {T2}") < svg.index("rollback: ")


def test_times_and_sizes_read_well():
    assert clock("20261120091500705") == "09:15:00.705" and clock("20261120091500") == "09:15:00"
    spans = (0.42, 12.3, 90, 5400, 86400, 400_000)
    assert [duration_text(n) for n in spans] == [
        "0.4 s", "12 s", "1.5 min", "1.5 h", "1 d", "4.6 d",
    ]  # fmt: skip
    assert [size_text(n) for n in (912, 2056, 445_000, 12_345_678)] == [
        "912 B", "2.1 KB", "445 KB", "12 MB",
    ]  # fmt: skip
