"""The pipeline survives kills and hangs, and every message ends up in exactly one place."""

import io
import json
import re
import time
from random import Random

import pandas as pd
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions
from instance import programs_showing
from linux import LINUX, mapped_files
from own_lab import allowed, wait_until
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lab_env.lab.faults.freeze import frozen
from lab_env.lab.faults.outages import refuse_client
from lab_env.lab.faults.writers import jvm_of, kill_in_mid_batch, open_batches
from lab_env.lab.handle import Lab, reset_lesson
from lab_env.pipeline import guard, options, parsing
from lab_env.pipeline.checkpoint import open_batch, read_checkpoint
from lab_env.pipeline.layout import checkpoint_path
from lab_env.pipeline.revenue import minutes_in_a_batch
from lab_env.pipeline.session import SHORT_LIFE
from lab_env.pipeline.sinks import FOLDERS, SINKS
from lab_env.platform import services as lab_services
from lab_env.platform import store
from lab_env.platform.brokers.topics import delete_topic, ensure_topic, topic_end_offsets
from lab_env.platform.errors import LabError
from lab_env.platform.install import cds_archive
from lab_env.platform.processes import supervisor
from lab_env.platform.processes.tree import is_alive
from lab_env.shop.events import EVENT_DDL, MALFORMED_KINDS, encode, malform
from lab_env.tables.hudi.commits import CHECKPOINT
from lab_env.tables.hudi_rs import read_rows
from lab_env.workbench.eject.project import eject
from lab_env.workbench.sampling import is_compaction

SHORT = {"short": True, "spark": SHORT_LIFE}
AT = "2026-11-20T10:00:00.000000Z"
KEYS = ("order_id", "event_id", "order_ts")
REST = ("C-1", "P-1", 995, "new", AT, AT[:10], AT)  # of an event
ONE_ROW = "SELECT 'o-1' AS order_id, 1 AS order_ts, '2026-01-05' AS partition_date, 1 AS amount"
META = ("commit_time", "commit_seqno", "record_key", "partition_path", "file_name")


@pytest.fixture(scope="module")
def spark(services):
    session = Lab("pytest", services).spark
    for name, value in SHORT_LIFE.items():
        if session.conf.isModifiable(name):
            session.conf.set(name, value)
    yield session
    session.stop()


@pytest.fixture
def lab(services, request):
    """A lab with a separate namespace for one test, cleared afterwards."""
    namespace = "t-" + request.node.name.replace("_", "-")[5:30].strip("-")
    handle = Lab(namespace, services)
    ensure_topic(services.kafka_bootstrap, handle.topic("orders"))
    yield handle
    lab_services.up(progress=lambda line: None)
    reset_lesson(namespace)


def assert_reconciles(lab: Lab, spark) -> None:
    """Check that every sink matches the ledger and every event is accounted for."""
    ledger = lab.ledger()
    json_rows = spark.read.schema(EVENT_DDL).json(lab.path(FOLDERS["json"]))
    verdict = ledger.reconcile_log(json_rows, "json")
    assert verdict.ok, str(verdict)
    dead = spark.read.parquet(lab.path(FOLDERS["dead"])).toPandas()
    verdict = ledger.reconcile_dead(dead)
    assert verdict.ok, str(verdict)
    for sink in ("cow", "mor"):
        table = spark.read.format("hudi").load(lab.path(FOLDERS[sink])).select(*KEYS).toPandas()
        verdict = ledger.reconcile_table(table, sink)
        assert verdict.ok and verdict.rows > 1000, str(verdict)
        account = ledger.account(table, dead)
        assert account.ok and account.superseded and account.duplicate, str(account)


def leave_as_if_killed_while_it_was_made(lab: Lab, table: str) -> None:
    """Create the folders that Hudi creates before it writes a new table's properties."""
    for folder in ("", "timeline/", "timeline/history/"):
        key = f"{store.key_of(table)}/.hoodie/{folder}"
        store.client(lab.endpoints).put_object(Bucket=lab.endpoints.bucket, Key=key)


def ends(lab: Lab) -> dict[int, int]:
    return topic_end_offsets(lab.endpoints.kafka_bootstrap, lab.topic("orders"))


def test_a_pipeline_outlives_its_jvm_and_its_store_and_goes_with_a_reset(services, lab, spark):
    lab.replay(n=7000)
    every_sink = (*SINKS, "minutes")
    job = SHORT | {"trigger_seconds": 1, "max_offsets": 1000, "sinks": every_sink}
    leave_as_if_killed_while_it_was_made(lab, lab.path(FOLDERS["cow"]))
    writer = lab.writer().start(lab.endpoints, lab.topic("orders"), lab.base, **job)

    def cow_commits() -> int:
        return (writer.progress()["sink"] == "cow").sum()

    writer.wait_until(lambda: cow_commits() >= 2, "two commits of the COW table")
    # Its JVM mapped the class archive: where that does not fit, the JVM goes on without a word.
    if LINUX:
        assert cds_archive.cds_archive() in mapped_files(jvm_of(writer).pid)
    left_open = kill_in_mid_batch(writer, lab.endpoints)
    assert left_open == open_batches(writer, lab.endpoints)
    for sink, number in left_open.items():
        batch = open_batch(lab.endpoints, checkpoint_path(lab.base, sink))
        assert batch and batch.number == number and sum(batch.end.values()) <= 1000 * (number + 1)
    wait_until(lambda: writer.state()["state"] != "running")
    assert writer.state()["state"] == "failed" and "JVM" in writer.state()["error"]

    before = cow_commits()
    writer.start(lab.endpoints, lab.topic("orders"), lab.base, **job)
    writer.wait_until(lambda: cow_commits() > before, "a commit of the COW table")
    assert programs_showing(lab.endpoints.s3_secret_key) == []
    refuse_client("minio", jvm_of(writer))
    # The writer may ride over the gap, or end with its reason: then it is started again.
    for _ in range(3):
        try:
            writer.wait_caught_up(lab.endpoints, ends(lab), seconds=100)
            break
        except LabError:
            writer.start(lab.endpoints, lab.topic("orders"), lab.base, **job)
    assert not any(writer.lag(lab.endpoints, ends(lab)).values())
    for sink, number in left_open.items():
        batches = read_checkpoint(lab.endpoints, f"{lab.base}/_checkpoints/{sink}")
        assert batches[number].committed  # the same batch, done again
    # Its compaction is due after each fifth commit, beside the stream.
    wait_until(lambda: any(map(is_compaction, lab.files(lab.path(FOLDERS["mor"])))))
    assert_reconciles(lab, spark)
    assert_minutes_equal_a_batch(lab, spark)
    assert_reset_leaves_others_alone(services, lab, spark)


def assert_minutes_equal_a_batch(lab: Lab, spark) -> None:
    """Check that the table of revenue per minute equals the result of a batch query."""
    events = spark.read.schema(EVENT_DDL).json(lab.path(FOLDERS["json"]))
    twin = minutes_in_a_batch(events)
    table = spark.read.format("hudi").load(lab.path(FOLDERS["minutes"])).select(twin.columns)
    streamed = sorted(table.collect())
    assert len(streamed) > 1 and streamed == sorted(twin.collect())


def assert_reset_leaves_others_alone(services, lab: Lab, spark) -> None:
    """Check that resetting a lab with tables and a running writer leaves another lesson alone."""
    other = Lab("97", services)
    reset_lesson("97")
    other.replay(n=500)
    stream_into_a_table(other, spark)
    others = what_is_there(other)
    writer = lab.writer()
    assert writer.state()["state"] == "running"
    family = writer.processes()

    cleared = reset_lesson(lab.lesson)
    assert cleared["objects"] > 50
    assert (cleared["topics"], cleared["ledgers"], cleared["writers"]) == (1, 1, 1)
    assert lab.files(lab.base) == [] and lab.ledger().frame().empty
    assert [process for process in family if process.is_running()] == []
    assert what_is_there(other) == others
    reset_lesson("97")


@pytest.mark.proof("writer")
def test_a_backfill_beside_the_stream_loses_nothing_and_makes_the_stream_lose_nothing(lab, spark):
    lab_services.up(["zookeeper"], progress=lambda line: None)
    lab.replay(n=600)
    tables = {"cow": options.COW, "mor": options.MOR}
    lock = lab.endpoints.zookeeper
    job = SHORT | {"sinks": tuple(tables), "trigger_seconds": 0.1, "max_offsets": 300}
    writer = lab.writer().start(lab.endpoints, lab.topic("orders"), lab.base, lock=lock, **job)
    writer.wait_until(lambda: {*writer.progress()["sink"]} == {*tables}, "a commit of each table")
    backfilled = {sink: [] for sink in tables}
    for number, sink in enumerate((*tables, *tables)):
        lab.replay(skip=600 * (number + 1), n=600)  # the stream is never done before the backfill
        table, began = lab.path(FOLDERS[sink]), time.time()
        # New orders in the stream's own file groups: whoever commits second loses.
        rows = spark.read.format("hudi").load(table).where("order_id NOT LIKE 'B%'").limit(20)
        rows = rows.drop(*(f"_hoodie_{name}" for name in META))
        rows = rows.withColumn("order_id", F.concat(F.lit(f"B{number}-"), "order_id"))
        frame = spark.createDataFrame(rows.collect(), rows.schema)
        upsert_again_and_again(frame, table, options.second_writer(tables[sink], lock, table))
        backfilled[sink].append((began, time.time()))
    writer.wait_caught_up(lab.endpoints, ends(lab))
    writer.stop()
    assert writer.state()["state"] == "stopped", writer.state()
    batches = writer.progress()
    for sink in tables:
        table = lab.path(FOLDERS[sink])
        assert overlapping(batches[batches["sink"] == sink], backfilled[sink]), sink
        with lab.zookeeper() as client:
            assert client.exists(options.lock_place(table))
        found = spark.read.format("hudi").load(table).select(*KEYS).toPandas()
        own = found["order_id"].str.startswith("B")
        assert own.sum() == 40
        verdict = lab.ledger().reconcile_table(found[~own], sink)
        assert verdict.ok and verdict.rows > 500, str(verdict)


def overlapping(batches: pd.DataFrame, writes: list[tuple[float, float]]) -> int:
    """Count a stream's batches that overlap one of the writes (start and end, s since 1970)."""
    began = pd.to_datetime(batches["started"], utc=True).map(pd.Timestamp.timestamp)
    spans = list(zip(began, began + batches["seconds"], strict=True))
    return sum(any(a < end and begin < b for a, b in writes) for begin, end in spans)


def upsert_again_and_again(rows: DataFrame, table: str, shared: dict[str, str]) -> None:
    """Upsert like a backfill, and retry a write that raises an error.

    Against a stream that never pauses, the write may lose a conflict more times than Hudi retries.
    It may also fail when it looks for the heartbeat of a write that is just ending (Hudi 1.1.1).
    """
    for attempt in range(10):
        try:
            return rows.write.format("hudi").options(**shared).mode("append").save(table)
        except Py4JJavaError:
            if attempt == 9:
                raise


@pytest.mark.proof("writer")
def test_malformed_events_are_dead_letters_and_a_writer_that_hangs_is_ended(lab):
    writer = lab.writer()
    job = SHORT | {"sinks": ("dead", "cow"), "trigger_seconds": 1, "stall_seconds": allowed(15)}
    writer.start(lab.endpoints, lab.topic("orders"), lab.base, **job)
    wait_until(lambda: supervisor.status_of(writer.name).state == "RUNNING")
    writer.kill()
    assert writer.state()["state"] == "ended"

    sent = send_malformed(lab, count=1000)
    writer.start(lab.endpoints, lab.topic("orders"), lab.base, **job)
    writer.wait_caught_up(lab.endpoints, ends(lab), seconds=allowed(180))
    assert_dead_letters(lab, sent)

    jvm = jvm_of(writer)
    with frozen(jvm.pid):
        wait_until(lambda: writer.state()["state"] != "running")
    state = writer.state()
    assert state["state"] == "stalled"
    quiet = re.search(r"no progress of (dead|cow) for (\d+)", state["error"])
    assert quiet and int(quiet[2]) >= job["stall_seconds"], state["error"]
    wait_until(lambda: not supervisor.status_of(writer.name).alive)
    assert not is_alive(jvm)


def assert_dead_letters(lab: Lab, sent: dict[tuple[int, int], tuple[str, bytes]]) -> None:
    """Check that each malformed event is a dead letter exactly once, unchanged, with its reason."""
    files = lab.files(lab.path(FOLDERS["dead"]))
    tables = [
        pq.read_table(io.BytesIO(store.read(lab.endpoints, file.key)))
        for file in files
        if file.key.endswith(".parquet")
    ]
    letters = [row for table in tables for row in table.to_pylist()]
    assert len(letters) == len(sent) == 1000
    assert {
        (row["partition"], row["offset"]): (row["reason"], row["value"] or b"") for row in letters
    } == {place: (kind, value or b"") for place, (kind, value) in sent.items()}


@pytest.mark.proof("writer")
def test_a_stream_reads_neither_aborted_messages_nor_erases_too_early_nor_another_topic(lab):
    kafka, topic = lab.endpoints.kafka_bootstrap, lab.topic("orders")
    writer = lab.writer()
    send(lab, "create", range(60), transaction="committed")
    send(lab, "create", range(100, 160), transaction="aborted")  # the topic ends with markers
    job = SHORT | {"sinks": ("cow",), "trigger_seconds": 1, "max_offsets": 60}
    writer.start(lab.endpoints, topic, lab.base, **job)
    writer.wait_caught_up(lab.endpoints, ends(lab))

    send(lab, "create", range(200, 800), partition=0)  # a backlog in front of what moves
    send(lab, "create", range(800, 900))
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_partitions([NewPartitions(topic, 6)])[topic].result()
    wait_until(lambda: len(ends(lab)) == 6)
    send(lab, "erase", range(800, 900))
    writer.wait_caught_up(lab.endpoints, ends(lab))
    assert "Partitions were added" in writer.state()["reading"]
    rows = read_rows(lab.endpoints, lab.path(FOLDERS["cow"]))
    assert sorted(rows["order_id"]) == sorted(f"O-{n}" for n in (*range(60), *range(200, 800)))

    delete_topic(kafka, topic)
    ensure_topic(kafka, topic, partitions=6)
    wait_until(lambda: writer.state()["state"] == "failed")
    assert "deleted and recreated" in writer.state()["error"]


def send(lab: Lab, op: str, orders: range, transaction: str = "", partition: int = -1) -> None:
    """Send an event for each order.

    Args:
        transaction: `committed` or `aborted`; empty sends without a transaction.
        partition: topic partition; by default chosen by key.
    """
    named = {"transactional.id": lab.topic(transaction)} if transaction else {}
    options = {"bootstrap.servers": lab.endpoints.kafka_bootstrap, **named}
    producer = Producer(options | {"partitioner": "murmur2_random"})
    if transaction:
        producer.init_transactions()
        producer.begin_transaction()
    at = f"2026-11-20T1{int(op == 'erase')}:00:00.000000Z"
    rest = ("C-1", "P-1", 995, "new", at, "2026-11-20", at)
    for number in orders:
        value = encode(f"E-{op}-{number}", op, f"O-{number}", *rest)
        producer.produce(lab.topic("orders"), value, f"O-{number}", partition)
    producer.flush(30)
    if transaction:
        end = producer.commit_transaction if transaction == "committed" else None
        (end or producer.abort_transaction)()


@pytest.mark.proof("writer")
def test_the_guards_of_lab_and_project_find_a_batch_that_hudi_has_archived(
    lab, spark, tmp_path, monkeypatch
):
    table = lab.path("orders")
    row = spark.sql(ONE_ROW)
    wanted = options.COW | options.DEMO_OPTIONS | {"hoodie.table.name": "orders"}
    # Hudi keeps 20 commits by default.
    wanted |= {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}
    for receipt in ({"a-stream": "7"}, {"another": "9"}, {}, {}, {}, {}):
        # Hudi keeps options that begin with _ in the commit, as its sink does with the batch.
        note = {CHECKPOINT: json.dumps(receipt)} if receipt else {}
        row.write.format("hudi").options(**wanted, **note).mode("append").save(table)
    eject(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    from orders import guard as ejected

    archived = {instant.requested for instant in lab.xray(table).history}
    for stream, batch in (("a-stream", 7), ("another", 9), ("a third", 9)):
        found = guard.table_receipt(lab.endpoints, table, stream)
        assert found.batch == batch and found.instant in archived
        assert ejected.table_receipt(spark, table, stream) == ejected.Receipt(**vars(found))


def send_malformed(lab: Lab, count: int) -> dict[tuple[int, int], tuple[str, bytes]]:
    """Send malformed events among good ones; return the malformed ones by partition and offset."""
    rng, sent = Random(11), {}
    producer = Producer({"bootstrap.servers": lab.endpoints.kafka_bootstrap})

    def remember(kind, value):
        def delivered(error, message):
            assert error is None
            sent[(message.partition(), message.offset())] = (kind, value)

        return delivered

    for number in range(count):
        kind = MALFORMED_KINDS[number % len(MALFORMED_KINDS)]
        topic, key = lab.topic("orders"), f"O-{number}"
        good = encode(f"E-{number}", "create", key, *REST)
        value = malform(kind, good, rng)
        producer.produce(topic, value, key, on_delivery=remember(kind, value))
        producer.produce(topic, good, key)
        producer.poll(0)
    producer.flush(30)
    return sent


def stream_into_a_table(lab: Lab, spark) -> None:
    """Stream a topic's events into a Hudi table with a checkpoint, as a lesson does."""
    records = parsing.read_topic(spark, lab.endpoints.kafka_bootstrap, lab.topic("orders"))
    rows = parsing.with_deletes(parsing.valid_events(parsing.parse(records)))
    query = (
        rows.writeStream.format("hudi")
        .options(**options.COW, **options.DEMO_OPTIONS)
        .option("hoodie.table.name", "orders")
        .option("checkpointLocation", lab.path("checkpoints/orders"))
        .trigger(availableNow=True)
        .start(lab.path("orders"))
    )
    query.awaitTermination()


@pytest.mark.proof("writer")
def test_a_table_of_the_pipeline_is_cleaned_after_each_fifth_commit(lab, spark):
    table = lab.path("orders")
    row = spark.sql(ONE_ROW)
    wanted = options.COW | {
        "hoodie.table.name": "orders",
        # With the default of 10 commits there would be nothing to clean for long.
        "hoodie.clean.commits.retained": "1",
        "hoodie.metadata.enable": "false",
    }
    cleans = []
    for _ in range(6):
        row.write.format("hudi").options(**wanted).mode("append").save(table)
        actions = [instant.action for instant in lab.xray(table).instants if instant.completed]
        cleans.append(actions.count("clean"))
    assert cleans == [0, 0, 0, 0, 1, 1]


def what_is_there(lab: Lab) -> tuple:
    return lab.files(lab.base), ends(lab), lab.ledger().frame()["state"].tolist()
