"""A writer's handle reports the lag of each sink, even while the topic grows."""

import pytest
from memory_store import MemoryStore

from lab_env.pipeline.handle import Writer
from lab_env.pipeline.writer import Job
from lab_env.platform.errors import LabError
from lab_env.platform.settings import Endpoints

HERE = Endpoints("http://127.0.0.1:1", "key", "secret", "us-east-1", "lakehouse", "127.0.0.1:1")


@pytest.fixture
def writer(home, monkeypatch):
    reached = {"cow": {0: 10, 1: 7}, "mor": {}}
    monkeypatch.setattr(Writer, "committed", lambda self, endpoints: reached)
    return Writer("writer-test")


def test_what_a_sink_has_read_beyond_the_given_offsets_makes_up_for_nothing(writer):
    assert writer.lag(HERE, {0: 12, 1: 4}) == {"cow": 2, "mor": 16}
    # Else a wait for the sink would never end while events are being sent.
    assert writer.lag(HERE, {0: 9, 1: 7})["cow"] == 0


def test_a_batch_whose_offsets_are_gone_does_not_count_and_damaged_offsets_are_named(
    home, monkeypatch
):
    base, objects = "x/_checkpoints/cow", MemoryStore()
    objects.install(monkeypatch)
    objects |= {f"{base}/commits/{n}": b"v1" for n in (5, 6, 7)}
    objects |= {f"{base}/offsets/{n}": f'v1\n{{}}\n{{"t":{{"0":{n}}}}}'.encode() for n in (5, 6, 8)}
    objects[f"{base}/offsets/.9.tmp"] = b""
    job = Job("w", "t", "s3a://b/x", str(home / "w"), "log", "jars", "java", sinks=("cow",))
    writer = Writer("writer-test")
    writer.folder = job.save().parent
    assert writer.committed(HERE) == {"cow": {0: 6}}
    objects[f"{base}/offsets/6"] = b""
    with pytest.raises(LabError, match="is damaged"):
        writer.committed(HERE)
