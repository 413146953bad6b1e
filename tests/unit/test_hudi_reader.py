"""How the X-ray reads a store: what it asks for, and what it does while a writer works on the table."""

from types import SimpleNamespace

import pytest
from botocore.exceptions import ClientError
from xray_tables import NOW, PROPERTIES, T1, T2, base, committed, done, stat

from lab_env import store as lab_store
from lab_env.store import StoredObject
from lab_env.xray import xray

CONTENTS = {
    ".hoodie/hoodie.properties": PROPERTIES.encode(),
    done(T1)[0]: committed("INSERT", stat(base(T1), written=3, inserted=3)),
    done(T2)[0]: committed("UPSERT", stat(base(T2), written=3, updated=1)),
}


@pytest.fixture
def store(monkeypatch):
    """A store with one table; `reads` are the keys asked for, `gone` those deleted meanwhile."""
    keys = [*CONTENTS, *done(T1)[1:], *done(T2)[1:], base(T1), base(T2), ".hoodie/metadata/files/x"]
    state = SimpleNamespace(reads=[], gone=set(), error="NoSuchKey")

    def read(endpoints, key):
        key = key.removeprefix("t/")
        state.reads.append(key)
        if key in state.gone:
            raise ClientError({"Error": {"Code": state.error}}, "GetObject")
        return CONTENTS[key]

    def listed(endpoints, prefix):
        return [StoredObject(prefix + key, 1000, NOW) for key in keys]

    monkeypatch.setattr(lab_store, "list_objects", listed)
    monkeypatch.setattr(lab_store, "read", read)
    return state


def test_it_reads_only_what_ends_an_action(store):
    picture = xray(None, "s3a://lakehouse/t")
    assert sorted(store.reads) == sorted(CONTENTS)
    assert (picture.rows, picture.commit().updated) == (3, 1)


def test_an_instant_that_is_archived_meanwhile_does_not_stop_it(store):
    store.gone = {done(T1)[0]}
    picture = xray(None, "s3a://lakehouse/t")
    assert [instant.requested for instant in picture.instants] == [T1, T2]
    assert picture.rows == 3


def test_any_other_refusal_of_the_store_is_told(store):
    store.gone, store.error = {done(T1)[0]}, "AccessDenied"
    with pytest.raises(ClientError, match="AccessDenied"):
        xray(None, "s3a://lakehouse/t")
