"""A checkpoint's files show what each batch read and whether it was committed."""

import pytest

from lab_env.lessons.l03.figures import draw_batches
from lab_env.pipeline.checkpoint import Batch, batches_of, newest_batch
from lab_env.platform.errors import LabError

HEADER = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}\n'
FILES = {
    "metadata": '{"id":"8a"}',
    "sources/0/0": '\x00v1\n{"t":{"0":5,"1":0}}',
    "offsets/0": HEADER + '{"t":{"0":10,"1":4}}',
    "commits/0": 'v1\n{"nextBatchWatermarkMs":0}',
    "offsets/1": HEADER + '{"t":{"0":10,"1":9}}',
}


def batches(files: dict[str, str]) -> list[Batch]:
    return batches_of(set(files), lambda name: files[name].encode())


def test_a_batch_begins_where_the_one_before_it_ended():
    assert batches(FILES) == [
        Batch(0, {0: 5, 1: 0}, {0: 10, 1: 4}, committed=True),
        Batch(1, {0: 10, 1: 4}, {0: 10, 1: 9}, committed=False),
    ]


def test_where_the_oldest_batch_left_began_is_not_guessed():
    aged = {f"offsets/{n}": HEADER + f'{{"t":{{"0":{n}}}}}' for n in (7, 8, 9)}
    assert [batch.number for batch in batches(FILES | aged)] == [0, 1, 7, 8, 9]
    del (left := FILES | aged)["offsets/0"], left["offsets/1"]
    assert [batch.number for batch in batches(left)] == [8, 9]


def test_the_newest_batch_begins_at_the_one_before_or_where_the_stream_began():
    def newest(files: dict[str, str]) -> Batch | None:
        return newest_batch(set(files), lambda name: files[name].encode())

    assert newest(FILES) == batches(FILES)[-1]
    first = {name: text for name, text in FILES.items() if name != "offsets/1"}
    assert newest(first) == batches(FILES)[0]
    assert newest({"metadata": FILES["metadata"]}) is None


def test_a_stream_of_another_source_is_refused():
    with pytest.raises(LabError, match="Kafka topic"):
        batches(FILES | {"offsets/0": HEADER + '{"logOffset":3}'})


def test_the_picture_shows_a_missing_commit():
    whole, broken = batches(FILES)
    assert ">?<" not in draw_batches([whole], "a")
    assert draw_batches([whole, broken], "a").count(">?<") == 1
