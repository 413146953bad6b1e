"""The emulated Kinesis starts on request, maps keys to shards like AWS, and stops with the lab."""

from hashlib import md5

import psutil
import pytest
from own_lab import listening

from lab_env.lab.faults.outages import paused
from lab_env.lab.handle import reset_lesson
from lab_env.platform import services as lab_services
from lab_env.platform.services import SERVICES

pytestmark = pytest.mark.services

STREAM = "lesson-98.orders"


@pytest.fixture(scope="module")
def kinesis(services):
    """Client of the running emulation, with a stream of four shards."""
    lab_services.up(["kinesis"], progress=lambda line: None)
    client = SERVICES["kinesis"].client()
    client.create_stream(StreamName=STREAM, ShardCount=4)
    yield client
    SERVICES["kinesis"].clear("lesson-98")


def listed():
    return next(row for row in lab_services.status() if row.name == "kinesis")


def test_it_is_ready_and_listens_on_this_machine_only(kinesis):
    row = listed()
    assert (row.state, row.address) == ("ready", SERVICES["kinesis"].address())
    assert listening([psutil.Process(row.pid)]) == {"127.0.0.1"}


def test_a_record_is_in_the_shard_whose_range_contains_the_hash_of_its_key(kinesis):
    shards = kinesis.list_shards(StreamName=STREAM)["Shards"]
    keys = [f"c-{number:04d}" for number in range(200)]
    answer = kinesis.put_records(
        StreamName=STREAM, Records=[{"Data": b"x", "PartitionKey": key} for key in keys]
    )
    for key, placed in zip(keys, answer["Records"], strict=True):
        value = int.from_bytes(md5(key.encode()).digest(), "big")
        owner = next(
            shard["ShardId"]
            for shard in shards
            if int(shard["HashKeyRange"]["StartingHashKey"])
            <= value
            <= int(shard["HashKeyRange"]["EndingHashKey"])
        )
        assert placed["ShardId"] == owner
    assert len({placed["ShardId"] for placed in answer["Records"]}) == 4


def test_after_a_split_new_records_go_to_the_new_shards_and_every_hash_has_one(kinesis):
    before = {shard["ShardId"]: shard for shard in kinesis.list_shards(StreamName=STREAM)["Shards"]}
    full = "shardId-000000000001"
    first, last = (int(end) for end in before[full]["HashKeyRange"].values())
    cut = (first + last) // 2
    kinesis.split_shard(StreamName=STREAM, ShardToSplit=full, NewStartingHashKey=str(cut))
    after = kinesis.list_shards(StreamName=STREAM)["Shards"]
    open_shards = [s for s in after if "EndingSequenceNumber" not in s["SequenceNumberRange"]]
    ranges = sorted(
        (int(s["HashKeyRange"]["StartingHashKey"]), int(s["HashKeyRange"]["EndingHashKey"]))
        for s in open_shards
    )
    assert [begin for begin, _ in ranges[1:]] == [end + 1 for _, end in ranges[:-1]]
    for value in (first, cut - 2, cut, last - 1):
        placed = kinesis.put_record(
            StreamName=STREAM, Data=b"x", PartitionKey="any", ExplicitHashKey=str(value)
        )
        assert placed["ShardId"] in {shard["ShardId"] for shard in open_shards} - before.keys()


def test_a_reset_removes_the_streams_of_its_lesson_and_no_other(kinesis):
    kinesis.create_stream(StreamName="lesson-97.orders", ShardCount=1)
    assert reset_lesson("97")["streams"] == 1
    left = kinesis.list_streams()["StreamNames"]
    assert STREAM in left and "lesson-97.orders" not in left


def test_a_paused_service_answers_nothing_and_continues_afterwards(kinesis):
    with paused("kinesis"):
        assert listed().state.startswith("not ready")
    assert listed().state == "ready"
