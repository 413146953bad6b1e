"""Live load on Kinesis reaches the pipeline's sinks exactly once, despite a reshard and a kill."""

import io
import json
from collections.abc import Iterator

import pandas as pd
import pyarrow.parquet as pq
import pytest
from instance import programs_showing

from lab_env.lab.handle import Lab, reset_lesson
from lab_env.pipeline import landing
from lab_env.pipeline.layout import checkpoint_path, table_path
from lab_env.pipeline.session import SHORT_LIFE
from lab_env.platform import services as lab_services
from lab_env.platform import store
from lab_env.platform.brokers import broker
from lab_env.platform.brokers.streams import shard_number
from lab_env.platform.processes import supervisor
from lab_env.platform.services import SERVICES
from lab_env.tables.hudi_rs import read_rows

pytestmark = [pytest.mark.services, pytest.mark.proof("kinesis")]

SINKS = ("json", "cow", "dead")


@pytest.fixture
def lab(services) -> Iterator[Lab]:
    lab_services.up(["kinesis"], progress=lambda line: None)
    handle = Lab("t-kinesis", lab_services.endpoints())
    yield handle
    lab_services.up(progress=lambda line: None)
    reset_lesson("t-kinesis")


def files_of(lab: Lab, sink: str) -> Iterator[bytes]:
    """Yield the content of each file committed by a file sink; skip files of a killed batch."""
    log = {}
    for file in lab.files(f"{table_path(lab.base, sink)}/_spark_metadata"):
        number, _, kind = file.key.rpartition("/")[2].partition(".")
        if number:  # a killed writer leaves `.7.UUID.tmp`
            log[int(number), kind] = file.key
    whole = max((number for number, kind in log if kind == "compact"), default=-1)
    for (number, kind), key in log.items():
        if number < whole or (number == whole and kind != "compact"):
            continue  # the compacted file has it
        for line in store.read(lab.endpoints, key).splitlines()[1:]:
            yield store.read(lab.endpoints, store.key_of(json.loads(line)["path"]))


def assert_reconciles(lab: Lab) -> None:
    ledger = lab.ledger()
    settled = ledger.settle(lab.endpoints.kinesis, lab.topic("orders"))
    assert settled.ok and settled.messages > 500, settled
    lines = b"".join(files_of(lab, "json")).splitlines()
    events = pd.DataFrame({"event_id": [json.loads(line)["event_id"] for line in lines]})
    dead = pd.concat(pq.read_table(io.BytesIO(file)).to_pandas() for file in files_of(lab, "dead"))
    table = read_rows(lab.endpoints, table_path(lab.base, "cow"))
    verdicts = (
        ledger.reconcile_log(events, "json"),
        ledger.reconcile_dead(dead),
        ledger.reconcile_table(table, "cow"),
        ledger.account(table, dead),
    )
    for verdict in verdicts:
        assert verdict.ok, str(verdict)
    assert len(dead) > 20


def split_fullest(lab: Lab) -> str:
    """Split the shard with the most records in the middle of its hash range; return its id."""
    kinesis, stream = SERVICES["kinesis"].client(), lab.topic("orders")
    counts = broker.end_offsets(lab.endpoints.kinesis, stream)
    shards = kinesis.list_shards(StreamName=stream)["Shards"]
    full = max(shards, key=lambda shard: counts.get(shard_number(shard["ShardId"]), 0))
    first, last = (int(end) for end in full["HashKeyRange"].values())
    begin = str((first + last) // 2)
    kinesis.split_shard(StreamName=stream, ShardToSplit=full["ShardId"], NewStartingHashKey=begin)
    return full["ShardId"]


def test_live_load_on_kinesis_outlives_a_split_shard_and_a_killed_writer(lab):
    stream = lab.topic("orders")
    job = {"source": "kinesis", "sinks": SINKS, "trigger_seconds": 2}
    job |= {"short": True, "spark": SHORT_LIFE}
    shares = {"malformed": 0.03}
    writer = lab.writer()
    with lab.load(source="kinesis", rate=150, show=False, shares=shares) as load:
        writer.start(lab.endpoints, stream, lab.base, **job)
        writer.wait_until(lambda: (writer.progress()["rows"] > 0).any(), "a batch with rows")
        parent = split_fullest(lab)
        writer.kill()
        writer.start(lab.endpoints, stream, lab.base, **job)
        writer.wait_running()  # the stream has gone on meanwhile
    assert load.failures == 0
    ends = broker.end_offsets(lab.endpoints.kinesis, stream)
    writer.wait_caught_up(lab.endpoints, ends)
    assert programs_showing(lab.endpoints.s3_secret_key) == []
    assert_reconciles(lab)
    assert_children_follow_their_parent(lab, parent)
    assert_each_commit_has_its_sequence_numbers(lab, writer)
    assert_no_key_is_written_down(lab, writer)
    assert_a_second_application_reads_the_same(lab, sum(ends.values()))


def assert_children_follow_their_parent(lab: Lab, parent: str) -> None:
    """Check that the child shards' records are landed after the split shard's last record."""
    files = landing.landed_files(lab.endpoints, landing.landing_path(lab.base))
    landed = pd.concat(
        pq.read_table(io.BytesIO(store.read(lab.endpoints, key))).to_pandas().assign(file=number)
        for number, key in enumerate(files)
    )
    by_shard = landed.groupby("partition")["file"]
    last_of_parent = by_shard.max()[shard_number(parent)]
    children = [number for number in by_shard.groups if number > 1]
    assert len(children) == 2
    assert all(by_shard.min()[child] > last_of_parent for child in children)
    assert not landed.duplicated(["partition", "offset"]).any()


def assert_each_commit_has_its_sequence_numbers(lab: Lab, writer) -> None:
    """Check that the checkpoint yields each shard's newest sequence number in the table."""
    path = checkpoint_path(lab.base, "cow")
    at = landing.committed_position(lab.endpoints, path, landing.landing_path(lab.base))
    frame = lab.ledger().frame()
    newest = frame[frame["state"] == "acked"].groupby("partition")["offset"].max()
    reached = {shard_number(name): int(shard.sequence) for name, shard in at.shards.items()}
    assert reached == newest.to_dict()


def assert_no_key_is_written_down(lab: Lab, writer) -> None:
    """Check that no file, log, checkpoint or landed file of the writer contains the secret."""
    secret = lab.endpoints.s3_secret_key.encode()
    written = [supervisor.log_path(writer.name), *writer.folder.iterdir()]
    assert not any(secret in path.read_bytes() for path in written)
    stored = [*lab.files(f"{lab.base}/_checkpoints"), *lab.files(landing.landing_path(lab.base))]
    assert stored
    assert not any(secret in store.read(lab.endpoints, file.key) for file in stored)


def assert_a_second_application_reads_the_same(lab: Lab, records: int) -> None:
    """Check that another reader of the stream has its own position and receives all records."""
    other = landing.Landing(lab.endpoints, lab.topic("orders"), lab.path("other/landing"))
    assert other.land_all() == records
