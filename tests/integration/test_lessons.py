"""A lesson on servers shared with another lesson is run, resumed and started again.

`lesson_elsewhere.py` is the lesson, in its own LAB_HOME without running services. This test run's
lab provides the external servers.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from instance import Instance
from own_lab import lab_environment

from lab_env.lab.handle import Lab, namespace_of, reset_lesson
from lab_env.platform import services as lab_services
from lab_env.platform import store
from lab_env.platform.brokers.topics import ensure_topic, topic_end_offsets
from lab_env.platform.services import hive

pytestmark = pytest.mark.services

LESSON, NEIGHBOUR = "01", "02"
SCRIPT = Path(__file__).with_name("lesson_elsewhere.py")
WRITTEN = {"rows": 1, "rows_by_name": 1, "messages": 1, "end_offset": 1}


@dataclass(frozen=True)
class Run:
    """Results that the lesson reports after its writes, `Lab.resume` and a second `Lab.start`.

    `in_store`: whether the table, its catalog name and the topic exist on the servers; `processes`:
    how many still run from the lesson's LAB_HOME; `neighbour`: the other lesson's objects, messages
    and files after the run.
    """

    written: dict
    resumed: dict
    restarted: dict
    in_store: tuple[bool, bool, bool]
    processes: int
    neighbour: tuple[int, int, int]


@pytest.fixture(scope="module")
def run(services, tmp_path_factory) -> Run:
    """Run the lesson to completion, and start another lesson meanwhile."""
    lab_services.up(["metastore"], progress=lambda line: None)
    metastore = lab_services.service("metastore").address()
    home = tmp_path_factory.mktemp("elsewhere") / "a lab"
    external = {
        "LAB_S3_ENDPOINT": services.s3_endpoint,
        "LAB_S3_ACCESS_KEY": services.s3_access_key,
        "LAB_S3_SECRET_KEY": services.s3_secret_key,
        "LAB_KAFKA_BOOTSTRAP": services.kafka_bootstrap,
        "LAB_METASTORE_URI": metastore,
        "LAB_SPARK_MASTER": "local[1]",
    }
    instance = Instance(home, lab_environment(home) | external)
    reset_lesson(LESSON)
    lesson = subprocess.Popen(
        [sys.executable, SCRIPT],
        env=instance.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def next_facts() -> dict:
        line = next((line for line in lesson.stdout if line.startswith("{")), None)
        assert line, "the lesson ended early; its error is on stderr"
        return json.loads(line)

    def proceed() -> None:
        lesson.stdin.write("\n")
        lesson.stdin.flush()

    try:
        written = next_facts()
        neighbour = start_neighbour()
        in_store = (
            any(store.list_objects(services, f"{namespace_of(LESSON)}/orders/.hoodie/")),
            hive.call(metastore, "get_all_tables", "lesson_01") == ["orders"],
            topic_end_offsets(services.kafka_bootstrap, "lesson-01.orders") == {0: 1},
        )
        proceed()
        resumed = next_facts()
        processes = len(instance.processes())
        proceed()
        restarted = next_facts()
        left_to_neighbour = neighbour()
        proceed()
        assert lesson.wait(60) == 0
    finally:
        lesson.kill()
        lesson.communicate()
        if instance.processes():  # if a test below fails, nothing may be left running
            instance.lab("down")
        for number in (LESSON, NEIGHBOUR):
            reset_lesson(number)
    return Run(written, resumed, restarted, in_store, processes, left_to_neighbour)


def start_neighbour() -> Callable[[], tuple[int, int, int]]:
    """Start another lesson; return a function that counts its objects, messages and files."""
    lab = Lab.start(NEIGHBOUR)
    s3 = store.client(lab.endpoints)
    s3.put_object(Bucket=lab.endpoints.bucket, Key=f"{lab.namespace}/orders/a", Body=b"mine")
    ensure_topic(lab.endpoints.kafka_bootstrap, lab.topic("orders"), 1)
    lab.replay(n=5)
    (lab.folder / "notes.txt").write_text("mine")
    assert lab.spark.range(3).count() == 3  # a second Spark, beside the other lesson's
    lab.spark.stop()

    def count() -> tuple[int, int, int]:
        messages = topic_end_offsets(lab.endpoints.kafka_bootstrap, lab.topic("orders"))
        return (
            len(lab.files(lab.path("orders"))),
            sum(messages.values()),
            len(list(lab.folder.iterdir())),
        )

    return count


def test_a_session_writes_and_reads_on_servers_that_the_lab_did_not_start(run):
    assert run.written.items() >= WRITTEN.items()
    assert run.in_store == (True, True, True)
    assert run.processes == 0


def test_the_session_uses_the_spark_master_of_the_settings(run):
    assert run.written["master"] == "local[1]"


def test_a_lesson_started_in_another_process_leaves_this_one_alone(run):
    assert run.resumed.items() >= WRITTEN.items()


def test_a_resumed_lesson_keeps_its_session_tables_topics_and_files(run):
    assert run.resumed == {"same_session": True, "notes": "mine"} | WRITTEN


def test_a_start_clears_its_own_lesson_and_no_other(run):
    assert run.restarted["objects"] == 0
    assert run.restarted["topics"] == []
    assert "lesson_01" not in run.restarted["databases"]
    assert run.neighbour == (1, 5, 1)
