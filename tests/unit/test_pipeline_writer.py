"""A writer's progress log lists each query's batches, and notices a query that hangs."""

import json
from types import SimpleNamespace

import pytest
from fakes import Clock

from lab_env.pipeline import writer
from lab_env.pipeline.changes import LOG_ENDS
from lab_env.pipeline.checkpoint import Batch
from lab_env.pipeline.landing import LandingThread
from lab_env.pipeline.writer import (
    LOOK_SECONDS,
    START_SECONDS,
    AwakeClock,
    Job,
    ProgressLog,
    noted_batches,
)
from lab_env.platform.errors import LabError


def progress(name: str, batch: int, second: int, rows: int = 5, ran: bool = True) -> dict:
    return {
        "name": name,
        "batchId": batch,
        "timestamp": f"2026-11-21T02:00:{second:02d}.000Z",
        "numInputRows": rows,
        "durationMs": {"triggerExecution": 1500} | ({"addBatch": 1000} if ran else {}),
        "sources": [{"startOffset": None, "endOffset": {"orders": {"0": 5 * batch}}}],
    }


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def diary(tmp_path, clock):
    return ProgressLog(tmp_path, clock)


def running(diary: ProgressLog, *sinks: str) -> None:
    """Register queries that have made progress and may be silent for up to 60 s."""
    diary.running(sinks, patience=60)
    for sink in sinks:
        diary.went_on(sink)


def written(tmp_path) -> list[tuple[str, int, int]]:
    lines = (tmp_path / "progress.jsonl").read_text().splitlines()
    return [(d["sink"], d["batch"], d["rows"]) for d in map(json.loads, lines)]


def test_each_batch_is_noted_once_however_often_it_is_reported(diary, tmp_path):
    for _ in range(3):
        diary.note(progress("cow", 1, second=1))
    diary.note(progress("cow", 2, second=5))
    diary.note(progress("cow", 1, second=1))
    assert written(tmp_path) == [("cow", 1, 5), ("cow", 2, 5)]


def test_an_empty_batch_counts_and_an_idle_trigger_does_not(diary, tmp_path):
    diary.note(progress("cow", 0, second=1, rows=0))
    diary.note(progress("cow", 1, second=9, rows=0, ran=False))
    assert written(tmp_path) == [("cow", 0, 0)]


def test_a_torn_line_costs_only_the_batch_that_it_is_about(diary, tmp_path):
    diary.note(progress("cow", 1, second=1))
    whole = (tmp_path / "progress.jsonl").read_text()
    torn = whole[: whole.rindex("}", 0, -2) + 1]  # it ends as an inner object does
    (tmp_path / "progress.jsonl").write_text(whole + torn)
    ProgressLog(tmp_path).note(progress("cow", 2, second=5))
    assert [batch["batch"] for batch in noted_batches(tmp_path / "progress.jsonl")] == [1, 2]


def test_the_diary_stays_small_and_keeps_how_far_a_databases_log_has_come(
    diary, tmp_path, monkeypatch
):
    monkeypatch.setattr(writer, "MOST_BYTES", 10_000)

    def change(position: int, hour: int) -> dict:
        end = {"position": f"{position:042d}", "committed_ms": hour * 3_600_000}
        return {"observedMetrics": {LOG_ENDS: {"newest": end, "furthest": end}}}

    diary.note(progress("changes", 1, second=1) | change(7000, hour=1))
    for number in range(2, 200):
        diary.note(progress("changes", number, second=2))
    path = tmp_path / "progress.jsonl"
    assert path.stat().st_size <= 10_000
    kept = [batch["batch"] for batch in noted_batches(path)]
    assert kept[0] == 1 and kept[1] > 100 and kept[1:] == list(range(kept[1], 200))
    with pytest.raises(LabError, match="has gone back"):
        ProgressLog(tmp_path).note(progress("changes", 200, second=3) | change(6000, hour=2))


def test_one_silent_query_is_noticed_while_the_others_go_on(diary, clock):
    running(diary, "json", "mor")
    clock.now += 50
    diary.note(progress("json", 1, second=1, ran=False))  # it is idle, and says so
    clock.now += 20
    assert diary.hung() == ("mor", 70)


def test_a_batch_may_last_as_long_as_its_tasks_go_on(diary, clock):
    running(diary, "cow", "mor")
    for _ in range(20):
        clock.now += 50
        diary.went_on("cow")
        diary.went_on("mor")
        diary.went_on("of another query")
        assert diary.hung() is None
    clock.now += 50
    diary.went_on("mor")
    clock.now += 50
    assert diary.hung() == ("cow", 100)


def test_a_first_batch_that_has_not_moved_yet_has_the_time_of_a_start(diary, clock):
    diary.running(("cow", "mor"), patience=60)
    clock.now += START_SECONDS - 1
    diary.went_on("mor")
    assert diary.hung() is None
    clock.now += 1
    assert diary.hung() == ("cow", START_SECONDS)


def test_a_pause_of_the_whole_machine_is_not_a_hang(tmp_path, clock):
    diary = ProgressLog(tmp_path, AwakeClock(clock))
    running(diary, "cow")

    def look_for(seconds: float):
        for _ in range(int(seconds / LOOK_SECONDS)):
            clock.now += LOOK_SECONDS
            if found := diary.hung():
                return found
        return None

    assert look_for(50) is None
    clock.now += 3600
    assert look_for(5) is None
    assert look_for(5) == ("cow", 60)


def test_a_query_that_has_ended_need_not_report(diary, clock):
    running(diary, "json", "mor")
    clock.now += 50
    diary.ended("mor")
    diary.note(progress("json", 1, second=1))
    clock.now += 50
    assert diary.hung() is None
    diary.ended("json")
    clock.now += 5000
    assert diary.hung() is None


def test_a_batch_that_is_left_open_twice_is_named_with_its_offsets(diary, tmp_path):
    batch = Batch(1, {0: 1200, 2: 5}, {0: 2400, 1: 7, 2: 5}, committed=False)
    for sink in ("cow", "mor", "dead"):
        diary.found_open(sink, batch, "orders")
    diary.note(progress("cow", 1, second=1))
    text = diary.end("failed", "A task failed.", "mor")
    assert (
        json.loads((tmp_path / "state.json").read_text())["error"]
        == text
        == (
            "Batch 1 of mor was left open by an earlier run, and this one has not finished it"
            " either: topic orders, partition 0 offsets 1,200 to 2,399, partition 1 offsets 0 to 6."
            " A task failed."
        )
    )
    assert diary.end("failed", "Its batch is done.", "cow") == "Its batch is done."
    everyone = diary.end("failed", "The JVM ended.")  # it may have been any query
    assert "mor" in everyone and "dead" in everyone and "cow" not in everyone


def test_a_query_on_a_landed_stream_fails_with_its_own_reason(diary, tmp_path):
    job = Job("w", "orders", "s3a://lake/w", str(tmp_path), str(tmp_path / "log"), "jars", "java")
    query = SimpleNamespace(name="cow", exception=lambda: "The bucket is gone.")
    assert writer._failed(job, diary, query, LandingThread(None, 5, 60)) == 1
    told = json.loads((tmp_path / "state.json").read_text())
    assert (told["state"], told["error"]) == ("failed", "The bucket is gone.")


def test_the_first_word_on_how_it_ended_stands(diary, tmp_path):
    diary.state("stalled", error="no progress of mor for 25 s")
    diary.state("failed", error="Answer from Java side is empty")
    told = json.loads((tmp_path / "state.json").read_text())
    assert told["state"] == "stalled" and "mor" in told["error"]
