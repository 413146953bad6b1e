"""The tour reads commits and freshness from the store, and fails if a sink is wrong."""

import json
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from lab_env.platform.errors import LabError
from lab_env.platform.store import StoredObject, copy_prefix, delete_prefix
from lab_env.shop.ledger.reconcile import TABLE, Reconciliation
from lab_env.tables.probes.freshness import batch_completions, event_freshness
from lab_env.workbench.sampling import commit_of, is_compaction
from lab_env.workbench.tour import tour as tour_module
from lab_env.workbench.tour.tour import Tour

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
        "tour/orders_mor/.hoodie/metadata/.hoodie/timeline/1_2.deltacommit",
        "tour/orders_json/_spark_metadata/.3.tmp",
        "tour/orders_json/part-0.json",
    ]
    assert [commit_of(stored(key)) for key in others] == [None] * len(others)


def test_a_finished_compaction_is_a_commit_on_the_mor_table():
    timeline = "tour/orders_mor/.hoodie/timeline/20261121115950000"
    assert is_compaction(stored(f"{timeline}_20261121120000250.commit"))
    assert not is_compaction(stored(f"{timeline}.compaction.requested"))
    assert not is_compaction(stored(f"{timeline}_20261121120000250.deltacommit"))


def test_a_file_sink_is_complete_when_its_log_entry_stands():
    entry = "tour/orders_json/_spark_metadata/9.compact"
    assert commit_of(stored(entry)) == ("9", NOON.timestamp())


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


def test_a_tour_that_breaks_off_leaves_no_older_success(tmp_path, monkeypatch):
    monkeypatch.setattr(tour_module, "folder", lambda name: tmp_path)
    (tmp_path / "report.json").write_text('{"ok": true}')
    (tmp_path / "index.html").write_text("an older page")

    def breaks(tour, console):
        raise LabError("the writer ended")

    monkeypatch.setattr(tour_module, "_run", breaks)
    with pytest.raises(LabError):
        tour_module.main(console=Console(quiet=True))
    facts = json.loads((tmp_path / "report.json").read_text())
    assert not facts["ok"] and "the writer ended" in facts["problems"][0]
    assert not (tmp_path / "index.html").exists()


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


@pytest.mark.parametrize(("source", "target"), [("07/orders", "07/x/"), ("07/orders/", "07/x")])
def test_a_copy_takes_no_neighbour_with_a_longer_name(source, target):
    with pytest.raises(ValueError, match="end with a slash"):
        copy_prefix(None, source, target)
