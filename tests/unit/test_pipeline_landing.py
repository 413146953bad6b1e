"""A stream is landed exactly once, in shard order, despite crashes, two readers and reshards.

Kinesis is moto in this process, with the lab server's fixes; the object store is a dict.
"""

import io
import time
from datetime import UTC, datetime

import boto3
import pyarrow.parquet as pq
import pytest
from botocore.exceptions import ClientError
from memory_store import MemoryStore
from moto import mock_aws

from lab_env.pipeline import landing
from lab_env.pipeline.landing import Landing, LandingThread, files_in_log
from lab_env.platform.brokers import streams
from lab_env.platform.errors import LabError
from lab_env.platform.services.kinesis_server import fix_moto
from lab_env.platform.settings import Endpoints

ENDPOINTS = Endpoints("http://s3", "key", "secret", "us-east-1", "lake", "", kinesis="http://k")
FOLDER = "s3a://lake/tour/landing"

fix_moto()


@pytest.fixture
def bucket(monkeypatch) -> MemoryStore:
    made = MemoryStore()
    made.install(monkeypatch)
    return made


@pytest.fixture(scope="module")
def emulator():
    with mock_aws():
        key = {"aws_access_key_id": "lab", "aws_secret_access_key": "lab"}
        yield boto3.client("kinesis", region_name="us-east-1", **key)


@pytest.fixture
def kinesis(emulator, monkeypatch):
    """A client of a Kinesis with the stream `orders`, which has two shards."""
    monkeypatch.setattr(streams, "client", lambda address, seconds=10.0: emulator)
    emulator.create_stream(StreamName="orders", ShardCount=2)
    yield emulator
    emulator.delete_stream(StreamName="orders")


def put(kinesis, *names: str) -> None:
    records = [
        {
            "Data": name.encode(),
            "PartitionKey": streams.partition_key(key, f"send-{name}"),
            "ExplicitHashKey": streams.hash_key(key),
        }
        for name in names
        for key in [name.partition(".")[0]]
    ]
    kinesis.put_records(StreamName="orders", Records=records)


def split(kinesis, shard: int = 0) -> None:
    hashes = kinesis.list_shards(StreamName="orders")["Shards"][shard]["HashKeyRange"]
    middle = (int(hashes["StartingHashKey"]) + int(hashes["EndingHashKey"])) // 2
    name = f"shardId-{shard:012d}"
    kinesis.split_shard(StreamName="orders", ShardToSplit=name, NewStartingHashKey=str(middle))


def merge(kinesis) -> None:
    kinesis.merge_shards(
        StreamName="orders",
        ShardToMerge="shardId-000000000000",
        AdjacentShardToMerge="shardId-000000000001",
    )


def landed(bucket: MemoryStore) -> list[dict]:
    tables = (pq.read_table(io.BytesIO(bucket[key])) for key in sorted(bucket))
    return [row for table in tables for row in table.to_pylist()]


def values(bucket: MemoryStore) -> list[str]:
    return [row["value"].decode() for row in landed(bucket)]


def many(prefix: str) -> list[str]:
    return [f"o-{number}.{prefix}" for number in range(20)]


def test_a_landed_row_has_kafkas_columns_and_the_sequence_number(kinesis, bucket):
    put(kinesis, "o-1.a")
    assert Landing(ENDPOINTS, "orders", FOLDER).land_all() == 1
    (row,) = landed(bucket)
    assert (row["key"], row["value"], row["topic"]) == (b"o-1", b"o-1.a", "orders")
    assert row["partition"] in (0, 1) and len(row["offset"]) == 56
    assert abs((row["timestamp"] - datetime.now(UTC)).total_seconds()) < 60


def test_one_who_starts_again_goes_on_after_the_newest_file(kinesis, bucket):
    put(kinesis, *many("a"))
    Landing(ENDPOINTS, "orders", FOLDER).land_all()
    put(kinesis, *many("b"))
    assert Landing(ENDPOINTS, "orders", FOLDER).land_all() == 40
    assert sorted(values(bucket)) == sorted(many("a") + many("b"))


def test_one_who_dies_before_the_file_is_written_has_read_nothing(kinesis, bucket, monkeypatch):
    first = Landing(ENDPOINTS, "orders", FOLDER)
    put(kinesis, *many("a"))
    with monkeypatch.context() as dying:
        dying.setattr(bucket, "put_object", lambda **_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            first.land()
    assert Landing(ENDPOINTS, "orders", FOLDER).land_all() == 20
    assert sorted(values(bucket)) == sorted(many("a"))


def test_one_whose_second_shard_fails_reads_the_first_one_again(kinesis, bucket, monkeypatch):
    stream = Landing(ENDPOINTS, "orders", FOLDER)
    stream.land()  # it keeps an iterator of each shard from here on
    put(kinesis, *many("a"))
    with monkeypatch.context() as failing:
        read = stream._read
        failing.setattr(
            stream, "_read", lambda name, *at: 1 / 0 if name[-1] == "1" else read(name, *at)
        )
        with pytest.raises(ZeroDivisionError):
            stream.land()
    assert stream.land_all() == 20


def test_of_two_readers_one_is_refused_and_goes_on_after_the_other(kinesis, bucket):
    sleeper, other = (Landing(ENDPOINTS, "orders", FOLDER) for _ in range(2))
    put(kinesis, *many("a"))
    other.land_all()
    with pytest.raises(ClientError, match="PreconditionFailed"):
        sleeper.land()
    put(kinesis, *many("b"))
    assert sleeper.land_all() == 40
    assert sorted(values(bucket)) == sorted(many("a") + many("b"))


@pytest.mark.parametrize("reshard", [split, merge])
def test_children_are_read_after_their_parents(kinesis, bucket, monkeypatch, reshard):
    monkeypatch.setattr(landing, "MOST_RECORDS", 5)  # the parents end in a later file
    monkeypatch.setattr(streams, "PAGE", 3)
    stream = Landing(ENDPOINTS, "orders", FOLDER)
    put(kinesis, *many("a"))
    assert stream.land()  # more waits
    put(kinesis, *many("b"))
    reshard(kinesis)
    put(kinesis, *many("c"))
    stream.land_all()
    found = values(bucket)
    assert sorted(found) == sorted(many("a") + many("b") + many("c"))
    for order in (name.partition(".")[0] for name in many("a")):
        assert [v for v in found if v.startswith(f"{order}.")] == [f"{order}.{x}" for x in "abc"]


def test_a_reshard_while_nobody_reads_is_no_different(kinesis, bucket):
    Landing(ENDPOINTS, "orders", FOLDER)
    put(kinesis, *many("a"))
    split(kinesis)
    put(kinesis, *many("b"))
    merge_of_the_others = Landing(ENDPOINTS, "orders", FOLDER)
    assert merge_of_the_others.land_all() == 40
    ended = merge_of_the_others.position.shards["shardId-000000000000"]
    assert ended.ended and ended.records > 0


def test_the_emulators_zero_may_mean_half_a_millisecond(kinesis):
    whole = {"MillisBehindLatest": 0, "Records": [{}] * streams.PAGE}
    assert streams.more_waits(whole)
    assert not streams.more_waits({"MillisBehindLatest": 0, "Records": [{}]})
    assert streams.more_waits({"MillisBehindLatest": 7, "Records": []})


def test_a_stream_that_was_made_anew_is_not_continued(kinesis, bucket):
    put(kinesis, "o-1.a")
    Landing(ENDPOINTS, "orders", FOLDER).land_all()
    kinesis.delete_stream(StreamName="orders")
    kinesis.create_stream(StreamName="orders", ShardCount=2)
    with pytest.raises(LabError, match=r"recreated .* not the one") as raised:
        Landing(ENDPOINTS, "orders", FOLDER)
    assert "new folder" in raised.value.next_step


def test_a_shard_that_is_gone_before_it_was_read_is_an_error(kinesis, bucket, monkeypatch):
    stream = Landing(ENDPOINTS, "orders", FOLDER)
    put(kinesis, *many("a"))
    stream.land_all()
    shards = streams.list_shards(kinesis, "orders")
    monkeypatch.setattr(streams, "list_shards", lambda client, name: shards[1:])
    with pytest.raises(LabError, match="no longer has shardId-000000000000"):
        stream.land()


def test_an_iterator_that_expired_is_renewed(kinesis, bucket, monkeypatch):
    stream = Landing(ENDPOINTS, "orders", FOLDER)
    put(kinesis, *many("a"))
    stream.land_all()
    put(kinesis, *many("b"))
    expired = list(stream._iterators.values())
    real = kinesis.get_records

    def get_records(ShardIterator: str, Limit: int):
        if ShardIterator in expired:
            expired.remove(ShardIterator)  # the emulator's new one is the same text
            error = {"Error": {"Code": "ExpiredIteratorException", "Message": "old"}}
            raise kinesis.exceptions.ExpiredIteratorException(error, "GetRecords")
        return real(ShardIterator=ShardIterator, Limit=Limit)

    monkeypatch.setattr(kinesis, "get_records", get_records)
    assert stream.land_all() == 40 and not expired


def test_a_stream_that_is_missing_is_named_with_the_next_step(kinesis, bucket):
    with pytest.raises(LabError, match="has no stream absent") as raised:
        Landing(ENDPOINTS, "absent", FOLDER)
    assert "lab load --topic absent" in raised.value.next_step


def test_a_failure_that_passes_is_survived_and_one_that_lasts_is_told(kinesis, bucket, monkeypatch):
    stream = Landing(ENDPOINTS, "orders", FOLDER)
    put(kinesis, *many("a"))
    steps = iter(["the machine sleeps", "fail", "land"])

    def land() -> bool:
        step = next(steps, "fail")
        if step == "fail":
            raise LabError("no answer")
        if step == "land":
            return Landing.land(stream)
        time.sleep(0.3)
        return False

    monkeypatch.setattr(stream, "land", land)
    thread = LandingThread(stream, seconds=0.01, patience=0.1)
    thread.start()
    thread.join(10)
    assert str(thread.error).startswith("no answer") and len(values(bucket)) == 20


def test_a_failure_that_nobody_expected_is_told_at_once(kinesis, bucket, monkeypatch):
    stream = Landing(ENDPOINTS, "orders", FOLDER)
    monkeypatch.setattr(stream, "land", lambda: 1 / 0)
    thread = LandingThread(stream, seconds=0.01, patience=60)
    thread.start()
    thread.join(10)
    assert isinstance(thread.error, ZeroDivisionError)


def test_a_foreign_file_in_the_folder_is_told():
    file = io.BytesIO()
    pq.write_table(landing.SCHEMA.empty_table(), file)
    with pytest.raises(LabError, match="no Kinesis position"):
        landing.position_in(file.getvalue())


def test_files_of_a_source_log_are_counted_up_to_an_offset():
    def entries(*numbers: int) -> str:
        return "v1\n" + "\n".join(f'{{"path":"f{number}"}}' for number in numbers)

    log = {f"sources/0/{number}": entries(number) for number in range(12)}
    log["sources/0/9.compact"] = entries(*range(10))
    assert files_in_log(set(log), 3, log.__getitem__) == 4
    assert files_in_log(set(log), 11, log.__getitem__) == 12
    del log["sources/0/2"]  # Spark removes what a compaction has
    assert files_in_log(set(log), 10, log.__getitem__) == 11


def test_a_committed_batch_leads_to_sequence_numbers(kinesis, bucket):
    checkpoint = "s3a://lake/tour/_checkpoints/cow"
    assert landing.committed_position(ENDPOINTS, checkpoint, FOLDER) is None
    stream = Landing(ENDPOINTS, "orders", FOLDER)
    put(kinesis, *many("a"))
    stream.land()
    reached = stream.position
    put(kinesis, *many("b"))
    stream.land()
    prefix = "tour/_checkpoints/cow"
    for number, file in enumerate(landing.landed_files(ENDPOINTS, FOLDER)):
        entry = f'v1\n{{"path":"s3a://lake/{file}","timestamp":1,"batchId":{number}}}'
        bucket[f"{prefix}/sources/0/{number}"] = entry.encode()
        bucket[f"{prefix}/offsets/{number}"] = f'v1\n{{}}\n{{"logOffset":{number}}}'.encode()
    bucket[f"{prefix}/commits/0"] = bucket[f"{prefix}/commits/1"] = b"v1\n{}"
    # Two of three files are committed: the empty one and the first with records.
    assert landing.committed_position(ENDPOINTS, checkpoint, FOLDER) == reached
