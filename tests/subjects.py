"""The subjects with a proof of their own, and the folders whose changes call for it.

`make test` runs what any change can break. `make prove SUBJECT=campaign` runs the tests marked
`proof("campaign")`, which only changes below these folders can break.
"""

from dataclasses import dataclass

import pytest

INSTALL = ("lab_env/platform/install/", "requirements.lock", "pyproject.toml", "Makefile")


@dataclass(frozen=True)
class Subject:
    """A proof: a phrase that says what it shows, and the paths whose changes call for it."""

    shows: str
    paths: tuple[str, ...]


SUBJECTS = {
    "answers": Subject(
        "each right and wrong answer of each exercise gets its verdict",
        ("lab_env/lessons/", "lab_env/course/"),
    ),
    "benchmark": Subject(
        "every part of `lab bench`, on small sizes",
        ("lab_env/workbench/bench/", "lab_env/lessons/recorded/"),
    ),
    "campaign": Subject(
        "all 18 faults of `lab campaign --size small`",
        ("lab_env/workbench/campaign/", "lab_env/lab/faults/", "lab_env/pipeline/"),
    ),
    "capstone": Subject(
        "right and wrong designs of lesson 22, through all phases",
        ("lab_env/lessons/capstone/", "lab_env/lessons/l22/", "lab_env/lab/job/"),
    ),
    "capture": Subject(
        "PostgreSQL and Debezium: kills, exact values, resets",
        ("lab_env/platform/services/", "lab_env/pipeline/"),
    ),
    "cloud": Subject(
        "the writer of the cloud, from Kafka and Kinesis, killed",
        ("lab_env/workbench/cloud/", "lab_env/pipeline/"),
    ),
    "cluster": Subject(
        "a writer on a cluster, broker and store of another network",
        ("lab_env/pipeline/", "lab_env/platform/services/"),
    ),
    "eject": Subject(
        "the ejected job agrees with the ledger after a kill, and its tests pass on each Python",
        ("lab_env/workbench/eject/", "lab_env/pipeline/", "pyproject.toml"),
    ),
    "engines": Subject(
        "metastore and Trino: partitions, kills, a lost store",
        ("lab_env/platform/services/", "lab_env/platform/install/versions.toml"),
    ),
    "goto": Subject(
        "`lab goto` into a copy with answers, and into a running kernel",
        ("lab_env/course/",),
    ),
    "hang": Subject(
        "a known deadlock of Hudi's sink, and the halt that ends it",
        ("lab_env/pipeline/", "lab_env/platform/install/versions.toml"),
    ),
    "kinesis": Subject(
        "live load on Kinesis through a split shard and a killed writer",
        ("lab_env/pipeline/", "lab_env/shop/", "lab_env/platform/brokers/"),
    ),
    "ladder": Subject(
        "three more climbs and a fall",
        ("lab_env/lab/ladder/", "lab_env/lab/job/", "lab_env/lessons/"),
    ),
    "seats": Subject(
        "a room with twenty seats; twenty labs that start at once",
        ("lab_env/course/room/", "lab_env/platform/processes/"),
    ),
    "setup": Subject("set-up of a bare machine, its tour, the bundle, other Pythons", INSTALL),
    "store": Subject(
        "a tour on VersityGW, where it has been built",
        ("lab_env/platform/store.py", "lab_env/platform/services/minio.py"),
    ),
    "tables": Subject(
        "the X-ray against Hudi's own procedures, in every state; what readers see of a table",
        ("lab_env/tables/", "lab_env/platform/install/versions.toml"),
    ),
    "writer": Subject(
        "backfill, transactions, cleaning, archived batches, a hanging writer, a tour of 180 s",
        ("lab_env/pipeline/",),
    ),
}


def subject_of(item: pytest.Item) -> str:
    """Return the subject of a test's proof; empty if the test belongs to `make test`."""
    mark = item.get_closest_marker("proof")
    return mark.args[0] if mark else ""
