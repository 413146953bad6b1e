"""The tour reads commits and freshness from the store, and fails if a sink is wrong."""

import fcntl
import json
import os
from datetime import UTC, datetime
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from lab_env.platform import store
from lab_env.platform.errors import LabError
from lab_env.platform.processes.state import folder
from lab_env.platform.store import StoredObject, copy_prefix, delete_prefix
from lab_env.shop.ledger.reconcile import TABLE, Reconciliation
from lab_env.tables.probes.freshness import batch_completions, event_freshness
from lab_env.workbench.sampling import commit_of, is_compaction
from lab_env.workbench.tour import tour as tour_module
from lab_env.workbench.tour.tour import KEPT_COMMITS, Tour, middle_commit

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def stored(key: str) -> StoredObject:
    return StoredObject(key, 10, NOON)


def test_only_completed_writes_of_the_table_itself_are_commits():
    timeline = "tour/orders_mor/.hoodie/timeline/20261121115950000"
    done = stored(f"{timeline}_20261121120000250.deltacommit")
    assert commit_of(done) == ("20261121115950000", NOON.timestamp() + 0.25)
    others = [
        f"{timeline}.deltacommit.requested",
        f"{timeline}.deltacommit.inflight",
        f"{timeline}_20261121120000250.commit",  # a finished compaction, no write of a batch
        f"{timeline}_20261121120000250.clean",
        f"{timeline}.compaction.requested",
        "tour/orders_mor/.hoodie/metadata/.hoodie/timeline/1_2.deltacommit",
        "tour/orders_json/_spark_metadata/.3.tmp",
        "tour/orders_json/part-0.json",
    ]
    assert [commit_of(stored(key)) for key in others] == [None] * len(others)
    assert [key for key in (done.key, *others) if is_compaction(stored(key))] == [others[2]]


def test_freshness_counts_from_sent_to_the_completion_of_the_batch_that_holds_the_event():
    sends = pd.DataFrame(
        {
            "partition": [0, 0, 1, 1],
            "offset": [0, 4, 1, 9],
            "sent_at": [1_000_000, 2_000_000, 3_000_000, 4_000_000],
        }
    )
    batches = pd.DataFrame({"batch": [0, 1], "end_offsets": [{"0": 4, "1": 2}, {"0": 5, "1": 9}]})
    seconds = event_freshness(sends, batches, {"0": 10.0, "1": 20.0})
    # The last event lies beyond both batches: no commit holds it.
    np.testing.assert_array_equal(seconds, [9.0, 18.0, 7.0, np.nan])


def test_a_table_with_another_number_of_commits_than_batches_is_not_measured():
    batches = pd.DataFrame({"batch": [0, 1], "end_offsets": [{}, {}]})
    assert np.isnan(batch_completions(batches, {"20261121115950000": 1.0})).all()


def test_a_tour_that_breaks_off_leaves_no_older_success(home, monkeypatch):
    target = folder("tour")
    (target / "report.json").write_text('{"ok": true}')
    (target / "index.html").write_text("an older page")

    def breaks(tour, console):
        raise LabError("the writer ended")

    monkeypatch.setattr(tour_module, "_run", breaks)
    with pytest.raises(LabError):
        tour_module.main(console=Console(quiet=True))
    facts = json.loads((target / "report.json").read_text())
    assert not facts["ok"] and "the writer ended" in facts["problems"][0]
    assert not (target / "index.html").exists()


def test_a_second_tour_says_at_once_that_one_is_running(home, monkeypatch, lab_command):
    lock, says = home / "run" / "tour.lock", []

    def runs(tour, console):
        with lock.open("a") as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        says.append(lock.read_text())
        raise LabError("the writer ended")

    monkeypatch.setattr(tour_module, "_run", runs)
    with pytest.raises(LabError):
        tour_module.main(console=Console(quiet=True))
    (home / "tour" / "report.json").write_text("of the first")
    with lock.open("a") as first:  # as the process of the first one holds it
        fcntl.flock(first, fcntl.LOCK_EX)
        done = lab_command("tour", LAB_HOME=str(home))
    assert done.returncode == 1 and len(says) == 1
    assert f"A tour is already running: process {os.getpid()}, since " in done.stderr
    assert (home / "tour" / "report.json").read_text() == "of the first"


@pytest.mark.parametrize(("commits", "middle"), [(1, 0), (2, 0), (5, 2), (10, 4), (40, 34)])
def test_time_travel_goes_to_a_commit_that_the_cleaner_keeps(commits, middle):
    assert middle_commit({f"{n:03}": 0.0 for n in range(commits)}) == f"{middle:03}"
    kept = KEPT_COMMITS * 5 // 6  # on the MOR table each fifth write is followed by a compaction
    assert middle >= commits - kept


def test_a_tour_whose_sink_differs_has_failed():
    tour = Tour(500, 60)
    tour.judge("cow", Reconciliation("cow", TABLE, rows=3, expected=3))
    assert tour.ok
    tour.judge("mor", Reconciliation("mor", TABLE, rows=3, expected=3, ghost=1))
    assert not tour.ok
    assert "1 ghost" in tour.problems[0]


def test_a_prefix_without_a_slash_is_not_cleared():
    with pytest.raises(ValueError, match="slash"):
        delete_prefix(None, "lesson-0")


def test_an_object_that_the_store_does_not_delete_is_named(monkeypatch):
    keys = [f"07/{n}" for n in range(4)]
    gone = [{"Key": "07/1", "Code": "NoSuchKey"}]
    refusals = [{"Key": "07/2", "Code": "AccessDenied"}, {"Key": "07/3", "Code": "SlowDown"}]
    pages = SimpleNamespace(
        paginate=lambda **_: ({"Contents": [{"Key": k} for k in keys[n : n + 2]]} for n in (0, 2))
    )
    answers = iter([{"Errors": gone}, {"Errors": refusals}])
    client = SimpleNamespace(
        get_paginator=lambda name: pages, delete_objects=lambda **_: next(answers)
    )
    monkeypatch.setattr(store, "client", lambda endpoints: client)
    with pytest.raises(LabError, match=r"not delete 07/2: AccessDenied\. 2 objects .* deleted\."):
        delete_prefix(SimpleNamespace(bucket="lake"), "07/")


@pytest.mark.parametrize(("source", "target"), [("07/orders", "07/x/"), ("07/orders/", "07/x")])
def test_a_copy_takes_no_neighbour_with_a_longer_name(source, target):
    with pytest.raises(ValueError, match="end with a slash"):
        copy_prefix(None, source, target)
