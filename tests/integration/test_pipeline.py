"""The pipeline survives kills and hangs, and every message ends in exactly one place."""

import signal
import time
from pathlib import Path
from random import Random

import psutil
import pytest
from confluent_kafka import Producer
from own_lab import allowed

from lab_env import services as lab_services
from lab_env.errors import LabError
from lab_env.lab import Lab, reset_lesson
from lab_env.pipeline import events, options
from lab_env.pipeline.sinks import FOLDERS
from lab_env.runtime import class_archive, supervisor
from lab_env.shop.events import EVENT_DDL, MALFORMED_KINDS, encode, malform
from lab_env.shop.topics import ensure_topic, topic_end_offsets

KEYS = ("order_id", "event_id", "order_ts")


@pytest.fixture(scope="module")
def spark(services):
    session = Lab("pytest", services).spark
    yield session
    session.stop()


@pytest.fixture
def lab(services, request):
    """A space of its own for one test, cleared afterwards."""
    space = "t-" + request.node.name.replace("_", "-")[5:30].strip("-")
    handle = Lab(space, services)
    ensure_topic(services.kafka_bootstrap, handle.topic("orders"))
    yield handle
    lab_services.up(progress=lambda line: None)
    reset_lesson(space)


def assert_reconciles(lab: Lab, spark) -> None:
    """Every sink holds what the ledger says, and every event is accounted for."""
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


def ends(lab: Lab) -> dict[int, int]:
    return topic_end_offsets(lab.endpoints.kafka_bootstrap, lab.topic("orders"))


def test_a_writer_killed_in_mid_batch_and_restarted_loses_and_doubles_nothing(lab, spark):
    lab.replay(n=6000)
    job = {"trigger_seconds": 1, "max_offsets": 1000, "short": True}
    writer = lab.writer().start(lab.endpoints, lab.topic("orders"), lab.base, **job)
    two_cow_commits = lambda: (writer.progress()["sink"] == "cow").sum() >= 2  # noqa: E731
    writer.wait_until(two_cow_commits, "two commits of the COW table")
    writer.kill()
    assert writer.state()["state"] == "ended"
    behind = writer.lag(lab.endpoints, ends(lab))
    assert behind["cow"] > 0 and behind["mor"] > 0  # it was killed with work left
    writer.start(lab.endpoints, lab.topic("orders"), lab.base, **job)
    writer.wait_caught_up(lab.endpoints, ends(lab))
    writer.stop()
    assert writer.state()["state"] == "stopped"
    assert_reconciles(lab, spark)


def test_a_store_killed_under_the_writer_loses_nothing(lab, spark):
    lab.replay(n=4000)
    job = {"trigger_seconds": 1, "max_offsets": 1000, "short": True}
    writer = lab.writer().start(lab.endpoints, lab.topic("orders"), lab.base, **job)
    writer.wait_first_batches()
    psutil.Process(supervisor.status_of("minio").pid).send_signal(signal.SIGKILL)
    lab_services.up(progress=lambda line: None)
    # The writer may ride over the gap, or end with its reason: then it is started again.
    for _ in range(3):
        try:
            writer.wait_caught_up(lab.endpoints, ends(lab), seconds=100)
            break
        except LabError:
            writer.start(lab.endpoints, lab.topic("orders"), lab.base, **job)
    assert not any(writer.lag(lab.endpoints, ends(lab)).values())
    writer.stop()
    assert_reconciles(lab, spark)


def test_a_thousand_malformed_events_land_in_the_dead_letters_with_their_reason(lab, spark):
    sent = send_malformed(lab, count=1000)
    writer = lab.writer().start(
        lab.endpoints, lab.topic("orders"), lab.base, short=True, sinks=("dead",), trigger_seconds=0
    )
    writer.wait_caught_up(lab.endpoints, ends(lab))
    letters = spark.read.parquet(lab.path(FOLDERS["dead"])).collect()
    told = {(row["partition"], row["offset"]): (row["reason"], row["value"]) for row in letters}
    assert len(letters) == len(told) == len(sent) == 1000
    assert {place: reason for place, (reason, _) in told.items()} == {
        place: kind for place, (kind, _) in sent.items()
    }
    assert all(bytes(told[place][1] or b"") == (value or b"") for place, (_, value) in sent.items())


def send_malformed(lab: Lab, count: int) -> dict[tuple[int, int], tuple[str, bytes]]:
    """Send malformed events among good ones; where each malformed one lies, by the broker's word."""
    rng, sent = Random(11), {}
    producer = Producer({"bootstrap.servers": lab.endpoints.kafka_bootstrap})

    def remember(kind, value):
        def delivered(error, message):
            assert error is None
            sent[(message.partition(), message.offset())] = (kind, value)

        return delivered

    for number in range(count):
        kind = MALFORMED_KINDS[number % len(MALFORMED_KINDS)]
        good = encode(
            f"E-{number}",
            "create",
            f"O-{number}",
            "C-1",
            "P-1",
            995,
            "new",
            "2026-11-20T10:00:00.000000Z",
            "2026-11-20",
            "2026-11-20T10:00:01.000000Z",
        )
        value = malform(kind, good, rng)
        topic, key = lab.topic("orders"), f"O-{number}"
        producer.produce(topic, value, key, on_delivery=remember(kind, value))
        producer.produce(topic, good, key)
        producer.poll(0)
    producer.flush(30)
    return sent


def test_a_writer_that_hangs_is_ended_by_its_watchdog_with_the_reason(lab):
    writer = lab.writer().start(
        lab.endpoints, lab.topic("orders"), lab.base, short=True, sinks=("dead",), stall_seconds=25
    )
    writer.wait_running()
    java = next(p for p in writer.processes() if "java" in p.name())
    java.suspend()  # what a hanging JVM looks like from outside
    deadline = time.monotonic() + 90
    while writer.state()["state"] == "running" and time.monotonic() < deadline:
        time.sleep(0.5)
    state = writer.state()
    assert state["state"] == "stalled" and "no progress of dead for 2" in state["error"]
    while supervisor.status_of(writer.name).alive and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not java.is_running() or java.status() == psutil.STATUS_ZOMBIE


def test_a_writer_whose_jvm_dies_says_so(lab):
    writer = lab.writer().start(
        lab.endpoints, lab.topic("orders"), lab.base, short=True, sinks=("dead",)
    )
    writer.wait_running()
    java = next(p for p in writer.processes() if "java" in p.name())
    # It mapped the class archive: where that does not fit, the JVM goes on without a word.
    assert str(class_archive.class_archive()) in Path(f"/proc/{java.pid}/maps").read_text()
    java.kill()
    deadline = time.monotonic() + 30
    while writer.state()["state"] == "running" and time.monotonic() < deadline:
        time.sleep(0.2)
    assert writer.state()["state"] == "failed"
    assert "JVM" in writer.state()["error"]


def stream_into_a_table(lab: Lab, spark) -> None:
    """A topic's events in a Hudi table, with a checkpoint, as a lesson leaves them."""
    records = events.read_topic(spark, lab.endpoints.kafka_bootstrap, lab.topic("orders"))
    rows = events.with_deletes(events.valid_events(events.parse(records)))
    query = (
        rows.writeStream.format("hudi")
        .options(**options.COW, **options.TINY)
        .option("hoodie.table.name", "orders")
        .option("checkpointLocation", lab.path("checkpoints/orders"))
        .trigger(availableNow=True)
        .start(lab.path("orders"))
    )
    query.awaitTermination()


def test_a_table_of_the_pipeline_is_cleaned_after_each_fifth_commit(lab, spark):
    table = lab.path("orders")
    row = spark.sql(
        "SELECT 'o-1' AS order_id, 1 AS order_ts, '2026-01-05' AS partition_date, 1 AS amount"
    )
    wanted = options.COW | {
        "hoodie.table.name": "orders",
        # With the default of 10 commits there would be nothing to clean for long.
        "hoodie.clean.commits.retained": "1",
        "hoodie.metadata.enable": "false",
    }
    cleans = []
    for _ in range(6):
        row.write.format("hudi").options(**wanted).mode("append").save(table)
        timeline = lab.files(f"{table}/.hoodie/timeline")
        cleans.append(sum(file.key.endswith(".clean") for file in timeline))
    assert cleans == [0, 0, 0, 0, 1, 1]


def what_is_there(lab: Lab) -> tuple:
    return lab.files(lab.base), ends(lab), lab.ledger().frame()["state"].tolist()


def test_a_reset_takes_at_most_20_seconds_and_leaves_the_other_lessons_alone(services, spark):
    mine, other = Lab("98", services), Lab("97", services)
    for lesson in (mine, other):
        reset_lesson(lesson.lesson)
        lesson.replay(n=500)
    stream_into_a_table(other, spark)
    # Four tables, their checkpoints, and the writer is still at it.
    mine.writer().start(services, mine.topic("orders"), mine.base, short=True).wait_first_batches()
    others = what_is_there(other)

    began = time.monotonic()
    cleared = reset_lesson("98")
    assert time.monotonic() - began < allowed(20)
    assert cleared["objects"] > 50
    assert (cleared["topics"], cleared["ledgers"], cleared["writers"]) == (1, 1, 1)
    assert mine.files(mine.base) == [] and mine.ledger().frame().empty
    assert what_is_there(other) == others
    reset_lesson("97")
