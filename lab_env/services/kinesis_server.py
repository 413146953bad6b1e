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

    def split_and_move_last(stream: Stream, parent: str, first_hash_of_second: str) -> None:
        split(stream, parent, first_hash_of_second)
        stream.shards[parent] = stream.shards.pop(parent)  # now searched last

    Stream.split_shard = split_and_move_last


if __name__ == "__main__":
    fix_split()
    main(sys.argv[1:])
