"""A writer's diary: what each query committed, and which of them has fallen silent."""

import json

import pytest

from lab_env.pipeline.writer import Job, ProgressLog


def progress(name: str, batch: int, second: int, rows: int = 5, ran: bool = True) -> dict:
    return {
        "name": name,
        "batchId": batch,
        "timestamp": f"2026-11-21T02:00:{second:02d}.000Z",
        "numInputRows": rows,
        "durationMs": {"triggerExecution": 1500} | ({"addBatch": 1000} if ran else {}),
        "sources": [{"startOffset": None, "endOffset": {"orders": {"0": 5 * batch}}}],
    }


class Clock:
    """A clock that a test moves."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def diary(tmp_path, clock):
    return ProgressLog(tmp_path, clock)


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


def test_one_silent_query_is_noticed_while_the_others_go_on(diary, clock):
    diary.running(("json", "mor"), patience=60)
    clock.now += 50
    diary.note(progress("json", 1, second=1))
    clock.now += 20
    assert diary.silence() == ("mor", 70)


def test_an_idle_query_that_reports_is_not_silent(diary, clock):
    diary.running(("json",), patience=60)
    clock.now += 50
    diary.note(progress("json", 1, second=1, ran=False))
    assert diary.silence() == ("json", 0)


def test_a_query_that_has_ended_need_not_report(diary, clock):
    diary.running(("json", "mor"), patience=60)
    clock.now += 50
    diary.ended("mor")
    diary.note(progress("json", 1, second=1))
    assert diary.silence() == ("json", 0)
    diary.ended("json")
    assert diary.silence() == ("none", 0)


def test_a_job_survives_being_written_down(tmp_path):
    job = Job(
        "w", "t", "s3a://b/x", str(tmp_path / "a folder"), "w.log", "jars", "java", sinks=("cow",)
    )
    assert Job.load(job.save()) == job


def test_the_first_word_on_how_it_ended_stands(diary, tmp_path):
    diary.state("stalled", error="no progress of mor for 25 s")
    diary.state("failed", error="Answer from Java side is empty")
    told = json.loads((tmp_path / "state.json").read_text())
    assert told["state"] == "stalled" and "mor" in told["error"]
