"""Runs moto's server with one repair: after a split, new records go to the new shards.

moto 5.2.5 looks for a key's shard among all shards in the order of their making, and so finds the
closed one first. Amazon's developer guide, *Reshard a stream*: records that would have gone to the
parent go to its children.
"""

import sys

from moto.kinesis.models import Stream
from moto.server import main


def repair_split() -> None:
    """Make `Stream.split_shard` retire the shard that it closes."""
    split = Stream.split_shard

    def split_and_retire(stream: Stream, parent: str, first_hash_of_second: str) -> None:
        split(stream, parent, first_hash_of_second)
        stream.shards[parent] = stream.shards.pop(parent)  # looked at last from now on

    Stream.split_shard = split_and_retire


if __name__ == "__main__":
    repair_split()
    main(sys.argv[1:])
