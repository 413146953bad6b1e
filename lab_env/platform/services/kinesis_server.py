"""Run moto's server with the Kinesis features that readers need and moto 5.2.5 lacks.

The fixes follow Amazon's developer guide (*Reshard a stream*) and API reference:

- A shard that was split or merged keeps its records and takes no new ones; new ones go to its
  children. moto puts them into the closed parent, and copies all records of two merged shards.
- The last page of a closed shard has no `NextShardIterator`: this tells readers that it has ended.
- Sequence numbers have 56 digits and grow with time, those of children above their parents'. moto
  counts from 1 in each shard.
- A record has one sequence number, even when two requests arrive simultaneously.
"""

import sys
import threading
import time
from collections import OrderedDict
from functools import wraps

from moto.kinesis.models import KinesisBackend, Record, Shard, Stream
from moto.kinesis.utils import decompose_shard_iterator
from moto.server import main

FIRST_SEQUENCE_NUMBER = 49 * 10**54
_lock = threading.RLock()
_newest = FIRST_SEQUENCE_NUMBER


def next_sequence_number() -> int:
    """Return a number above all earlier ones; call this only under the lock."""
    global _newest
    _newest = max(_newest + 1, FIRST_SEQUENCE_NUMBER + time.time_ns())
    return _newest


def put_record(shard: Shard, partition_key: str, data: str, explicit_hash_key: str) -> str:
    """Replace `Shard.put_record`: number the record as Kinesis does."""
    number = next_sequence_number()
    record = Record(partition_key, data, number, explicit_hash_key)
    shard.records[number] = record  # ty: ignore[invalid-assignment]  moto's __new__ hides the class
    return str(number)


def closing(reshard):
    """Wrap `Stream.split_shard` or `merge_shards` to leave the closed shards' records alone."""

    @wraps(reshard)
    def wrapper(stream: Stream, *arguments: str) -> None:
        kept = {name: shard.records for name, shard in stream.shards.items()}
        for shard in stream.shards.values():
            shard.records = OrderedDict()
        try:
            reshard(stream, *arguments)
        finally:
            for name, records in kept.items():
                stream.shards[name].records = records
        # moto gives a record to the first shard whose range contains its hash, so closed shards go
        # last.
        stream.shards = dict(sorted(stream.shards.items(), key=lambda item: not item[1].is_open))

    return wrapper


def ending(get_records):
    """Wrap `KinesisBackend.get_records` to return no iterator after a closed shard's end."""

    @wraps(get_records)
    def wrapper(backend, stream_arn, iterator, limit):
        following, records, behind = get_records(backend, stream_arn, iterator, limit)
        stream_name, shard_id, newest = decompose_shard_iterator(following)
        stream = backend.describe_stream(stream_arn=stream_arn, stream_name=stream_name)
        shard = stream.get_shard(shard_id)
        at_end = int(newest) >= shard.get_max_sequence_number()
        return None if at_end and not shard.is_open else following, records, behind

    return wrapper


def one_at_a_time(method):
    """Run the method under the lock: moto answers each request in its own thread."""

    @wraps(method)
    def wrapper(*arguments, **named):
        with _lock:
            return method(*arguments, **named)

    return wrapper


def fix_moto() -> None:
    """Install the fixes."""
    Shard.put_record = one_at_a_time(put_record)
    for name in ("split_shard", "merge_shards"):
        setattr(Stream, name, one_at_a_time(closing(getattr(Stream, name))))
    KinesisBackend.get_records = one_at_a_time(ending(KinesisBackend.get_records))


if __name__ == "__main__":
    fix_moto()
    main(sys.argv[1:])
