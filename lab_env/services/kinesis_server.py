"""Runs moto's server with one fix: after a split, new records go to the new shards.

moto 5.2.5 searches all shards for a key in order of creation, so it finds the closed parent first.
Amazon's developer guide, *Reshard a stream*: records that would have gone to the parent go to its
children.
"""

import sys

from moto.kinesis.models import Stream
from moto.server import main


def fix_split() -> None:
    """Make `Stream.split_shard` move the shard that it closes to the end of the search."""
    split = Stream.split_shard

    def split_and_move_last(
        stream: Stream, shard_to_split: str, new_starting_hash_key: str
    ) -> None:
        split(stream, shard_to_split, new_starting_hash_key)
        stream.shards[shard_to_split] = stream.shards.pop(shard_to_split)  # now searched last

    # ty: a function in place of a function is what a patch is.
    Stream.split_shard = split_and_move_last  # ty: ignore[invalid-assignment]


if __name__ == "__main__":
    fix_split()
    main(sys.argv[1:])
