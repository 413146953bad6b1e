"""Create and read Kinesis streams, the counterpart of `topics`; failures raise `LabError`.

A Kinesis record has no headers. So its partition key contains two parts, `o-17 run-0042`: the
order, and the id of the send, by which the ledger finds a send of unknown outcome. The explicit
hash key is computed from the order alone; it selects the shard, so all events of an order are in
the same shard.
"""

import time
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from hashlib import md5

from lab_env.platform.brokers import Arrival, check_topic_name
from lab_env.platform.errors import LabError
from lab_env.platform.settings import settings

TIMEOUT_S = 10.0
PAGE = 10_000  # records, Kinesis's maximum per request
EMULATOR_KEY = "lab"  # the emulator accepts any key, but a request must be signed with one


def client(address: str, seconds: float = TIMEOUT_S):
    """Make a boto3 client of Kinesis.

    The lab's emulator gets a dummy key, any other server the keys that boto3 finds: the variables
    AWS_*, or the machine's role.
    """
    import boto3  # half a second
    from botocore.config import Config

    external = bool(settings().kinesis_endpoint)
    key = {} if external else dict.fromkeys(("access_key_id", "secret_access_key"), EMULATOR_KEY)
    # A separate session: boto3's common one keeps the keys that it found first.
    return boto3.Session().client(
        "kinesis",
        endpoint_url=address,
        region_name=settings().s3_region,
        config=Config(
            connect_timeout=2,
            read_timeout=seconds,
            # A hidden retry could send a record twice. Readers retry themselves.
            retries={"total_max_attempts": 1},
            proxies=None if external else {},  # they do not apply to servers of this machine
        ),
        **{f"aws_{name}": value for name, value in key.items()},
    )


def partition_key(key: str, send_id: str) -> str:
    """Partition key of a record: the order's key and the send's id, separated by a space."""
    return f"{key} {send_id}"


def split_partition_key(text: str) -> tuple[str, str]:
    """Key and send id of a record; the id is empty if another program sent it."""
    key, _, send_id = text.rpartition(" ")
    return (key, send_id) if key else (text, "")


def hash_key(key: str) -> str:
    """Hash of a key, by which Kinesis chooses a shard if a record has no explicit hash key."""
    return str(int.from_bytes(md5(key.encode(), usedforsecurity=False).digest(), "big"))


def shard_number(shard_id: str) -> int:
    """Number in `shardId-000000000007`: ledger and dead letters record it as the partition."""
    return int(shard_id.rpartition("-")[2])


def ensure_stream(address: str, stream: str, shards: int = 2) -> None:
    """Create the stream in the emulator if it does not exist, and wait until it is active.

    On any other server it must already exist, because a stream costs money by the hour.
    """
    check_topic_name(stream)
    kinesis = client(address)
    with refusals(address, stream):
        try:
            kinesis.describe_stream_summary(StreamName=stream)
        except kinesis.exceptions.ResourceNotFoundException:
            if settings().kinesis_endpoint:
                raise
            kinesis.create_stream(StreamName=stream, ShardCount=shards)
        deadline = time.monotonic() + TIMEOUT_S
        while _summary(kinesis, stream)["StreamStatus"] not in ("ACTIVE", "UPDATING"):
            if time.monotonic() > deadline:
                raise LabError(f"The stream {stream} is not active yet.", "try again in a minute.")
            time.sleep(0.2)


def made_at(kinesis, stream: str) -> str:
    """Creation time of a stream, which distinguishes it from a later stream of the same name."""
    return _summary(kinesis, stream)["StreamCreationTimestamp"].isoformat()


def _summary(kinesis, stream: str) -> dict:
    return kinesis.describe_stream_summary(StreamName=stream)["StreamDescriptionSummary"]


def list_shards(kinesis, stream: str) -> list[dict]:
    """All shards that Kinesis lists for a stream, including closed ones, ordered by id."""
    pages = kinesis.get_paginator("list_shards").paginate(StreamName=stream)
    found = [shard for page in pages for shard in page["Shards"]]
    return sorted(found, key=lambda shard: shard["ShardId"])


def iterator_after(kinesis, stream: str, shard_id: str, sequence: str = "") -> str:
    """Iterator that begins after a record; without a sequence number, at the oldest record."""
    begin = {"ShardIteratorType": "TRIM_HORIZON"}
    if sequence:
        begin["ShardIteratorType"] = "AFTER_SEQUENCE_NUMBER"
        begin["StartingSequenceNumber"] = sequence
    answer = kinesis.get_shard_iterator(StreamName=stream, ShardId=shard_id, **begin)
    return answer["ShardIterator"]


def more_waits(page: dict, limit: int = PAGE) -> bool:
    """True if a shard may have records after a page.

    A full page counts, too, because the emulator may round a lag below a millisecond to zero.
    """
    return page["MillisBehindLatest"] > 0 or len(page["Records"]) == limit


def arrivals(address: str, stream: str) -> Iterator[Arrival]:
    """All records of the stream, shard by shard, in sequence."""
    kinesis = client(address)
    with refusals(address, stream):
        for shard in list_shards(kinesis, stream):
            shard_id = shard["ShardId"]
            iterator: str | None = iterator_after(kinesis, stream, shard_id)
            while iterator:
                page = kinesis.get_records(ShardIterator=iterator, Limit=PAGE)
                iterator = page.get("NextShardIterator") if more_waits(page) else None
                for record in page["Records"]:
                    yield Arrival(
                        split_partition_key(record["PartitionKey"])[1],
                        shard_number(shard_id),
                        int(record["SequenceNumber"]),
                        int(record["ApproximateArrivalTimestamp"].timestamp() * 1e6),
                    )


def count_records(address: str, stream: str) -> dict[int, int]:
    """Number of records by shard number, counted by reading, as Kinesis does not report it."""
    return dict(Counter(arrival.partition for arrival in arrivals(address, stream)))


@contextmanager
def refusals(address: str, stream: str) -> Generator[None]:
    """Convert Kinesis and network errors in the body to a `LabError`."""
    from botocore.exceptions import BotoCoreError, ClientError

    external = settings().kinesis_endpoint
    try:
        yield
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code == "ResourceNotFoundException":
            what = f"Kinesis at {address} has no stream {stream}, or lost it with its restart."
            made = f"aws kinesis create-stream --stream-name {stream} --shard-count 2"
            own = f"send something first: lab load --topic {stream}   (with LAB_SOURCE=kinesis)"
            raise LabError(what, f"run: {made}" if external else own) from None
        message = error.response["Error"].get("Message", "")
        raise LabError(
            f"Kinesis at {address} refuses ({code}): {message}".rstrip(". ") + ".",
            "check the permissions of the keys in use, and LAB_S3_REGION."
            if external
            else "run: lab logs kinesis",
        ) from None
    except BotoCoreError as error:
        raise LabError(
            f"Kinesis at {address} does not answer: {error}".rstrip(". ") + ".",
            "check LAB_KINESIS_ENDPOINT, and that the machine has keys for it."
            if external
            else "run: lab status   (to start it: lab up kinesis)",
        ) from None
