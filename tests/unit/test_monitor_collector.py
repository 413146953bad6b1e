"""A part that hangs or fails is soon reported as unreadable, and affects no other part."""

import json
import threading
import time
from pathlib import Path
from unittest.mock import Mock

import pytest
from fakes import Clock
from xray_tables import PROPERTIES, T1, FilesInMemory, base, done

from lab_env.lab.monitor import collector, exporter
from lab_env.lab.monitor.collector import Collector, Latest
from lab_env.lab.monitor.metrics import Position, Sample, Topic
from lab_env.lab.monitor.readers import _Remembered
from lab_env.lab.monitor.watched import Pipeline, unwatch, watch, watched
from lab_env.platform.errors import LabError
from lab_env.platform.services import ServiceStatus
from lab_env.platform.settings import Endpoints
from lab_env.tables.hudi.history import HISTORY
from lab_env.tables.hudi.reader import read_table
from lab_env.workbench import live

NOWHERE = Endpoints("http://127.0.0.1:1", "k", "s", "us-east-1", "lakehouse", "127.0.0.1:1")
ORDERS = Pipeline("lesson-19", "orders", "lesson-19.orders", "s3a://b/c", "s3a://b/t")


def writer(home, name: str, state: str | None = None, sinks=("cow", "json")) -> None:
    """Write the files that a pipeline's writer leaves in LAB_HOME."""
    folder = home / "writers" / name
    folder.mkdir(parents=True)
    job = {"name": name, "topic": "tour.orders", "base": "s3a://lakehouse/tour", "sinks": sinks}
    (folder / "job.json").write_text(json.dumps(job))
    if state:
        (folder / "state.json").write_text(json.dumps({"state": state}))


@pytest.mark.parametrize("state", [None, "starting", "running", "failed", "stalled"])
def test_a_writer_is_watched_by_sink_whatever_became_of_it(tmp_path, state):
    writer(tmp_path, "writer-tour-pipeline", state)
    cow, as_json = watched(tmp_path)
    assert cow.labels == {"namespace": "tour", "pipeline": "cow"}
    assert cow.table == "s3a://lakehouse/tour/orders_cow"
    assert cow.checkpoint == "s3a://lakehouse/tour/_checkpoints/cow"
    assert (as_json.name, as_json.table) == ("json", "")


@pytest.mark.parametrize("end", [', "source": "kinesis"}', ""], ids=["Kinesis", "half written"])
def test_a_writer_that_is_stopped_on_kinesis_or_half_written_is_not_watched(tmp_path, end):
    writer(tmp_path, "writer-tour-pipeline")
    path = tmp_path / "writers" / "writer-tour-pipeline" / "job.json"
    path.write_text(path.read_text().removesuffix("}") + end)
    writer(tmp_path, "writer-tour-second", "stopped")  # on purpose: it need not keep up
    assert watched(tmp_path) == []


def test_two_writers_of_a_lesson_have_different_labels(tmp_path):
    writer(tmp_path, "writer-lesson-17-pipeline", sinks=("cow",))
    writer(tmp_path, "writer-lesson-17-second", sinks=("cow",))
    labels = [tuple(pipeline.labels.values()) for pipeline in watched(tmp_path)]
    assert labels == [("lesson-17", "cow"), ("lesson-17", "second.cow")]


@pytest.fixture
def lesson(tmp_path) -> Path:
    folder = tmp_path / "lessons" / "lesson-19"
    folder.mkdir(parents=True)
    watch(folder, ORDERS)
    return folder


def test_what_a_lesson_names_is_watched_until_it_is_taken_away(tmp_path, lesson):
    watch(lesson, Pipeline("lesson-19", "other", "t", "s3a://b/x"))
    watch(lesson, ORDERS)
    assert [pipeline.name for pipeline in watched(tmp_path)] == ["orders", "other"]
    assert unwatch(lesson, "other") and not unwatch(lesson, "other")
    assert watched(tmp_path) == [ORDERS]


@pytest.mark.parametrize("content", ["[]", '{"pipelines": [1, {"name": "x"}]}', '{"pipelines": 0}'])
def test_a_file_that_is_wrong_hides_no_other_pipeline(tmp_path, lesson, content):
    other = tmp_path / "lessons" / "lesson-18"
    other.mkdir()
    (other / "watched.json").write_text(content)
    assert watched(tmp_path) == [ORDERS]


def test_a_reading_that_hangs_is_not_waited_for_and_its_predecessor_soon_expires():
    clock, go_on, values = Clock(), threading.Event(), iter([1, 2, 3])

    def read() -> int:
        value = next(values)
        if value == 2:
            go_on.wait()
        return value

    latest = Latest(read, clock)
    latest.begin()
    assert latest.get(5) == 1
    latest.begin()
    clock.now = 4
    assert latest.get(0.01) == 1
    clock.now = 6
    assert latest.get(0.01) is None
    latest.begin()  # the second still runs: there is no third yet
    go_on.set()
    assert latest.get(5) is None  # it may have read its facts long ago
    latest.begin()
    assert latest.get(5) == 3


def test_two_scrapes_at_once_wait_for_the_same_reading(monkeypatch):
    """The second scrape arrives before the first one's reading thread has started."""
    starting, start = threading.Event(), threading.Thread.start

    def start_late(thread):
        if thread.name == "first":
            return start(thread)
        starting.set()
        time.sleep(0.2)
        return start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_late)
    latest = Latest(lambda: 1)
    latest.begin()
    starting.clear()
    first = threading.Thread(target=latest.begin, name="first")
    first.start()
    assert starting.wait(5) and latest.get(5) == 1
    first.join(5)


def test_what_is_stopped_begins_no_reading():
    """A stop closes the connection, which a later reading would still use."""
    latest = Latest(Mock(side_effect=[1, 2]))
    latest.begin()
    assert latest.get(5) == 1 and latest.stop()
    latest.begin()
    assert latest.get(5) == 1


@pytest.fixture
def parts(monkeypatch):
    """The reader of each part of a pipeline; a test can replace it with one that fails."""
    parts = {
        "checkpoint": lambda: Position({0: 4}, 2),
        "topic": lambda position: Topic({0: 5}, position, {0: time.time() - 7}, {}),
        "table": lambda: read_table(FilesInMemory("t", PROPERTIES, [*done(T1), base(T1)])),
    }

    class Reader:
        """Reader of a topic or a table, depending on the arguments of `read`."""

        def __init__(self, *place):
            pass

        def read(self, *position):
            return parts["topic" if position else "table"](*position)

        def close(self):
            parts["closed"] = True

    monkeypatch.setattr(collector, "TopicReader", Reader)
    monkeypatch.setattr(collector, "TableReader", Reader)
    monkeypatch.setattr(collector, "read_position", lambda *_: parts["checkpoint"]())
    return parts


@pytest.fixture
def watching(tmp_path, lesson, parts) -> Collector:
    return Collector(tmp_path, NOWHERE)


def by_name(samples: list[Sample]) -> dict[str, float]:
    return {s.metric.removeprefix("pipeline_") + s.labels.get("part", ""): s.value for s in samples}


def test_all_parts_that_answer_are_up(watching):
    found = by_name(watching.samples(5))
    assert [found[f"up{part}"] for part in ("topic", "checkpoint", "table")] == [1, 1, 1]
    assert found["watched"] == 1 and found["lag_messages"] == 1
    assert 7 <= found["oldest_unread_seconds"] < 9
    assert found["file_slices"] == 1


@pytest.mark.parametrize(
    ("broken", "absent", "there"),
    [
        ("checkpoint", {"lag_messages", "oldest_unread_seconds"}, {"file_slices"}),
        ("topic", {"lag_messages", "oldest_unread_seconds"}, {"file_slices", "batch"}),
        ("table", {"file_slices", "last_commit_seconds"}, {"lag_messages", "batch"}),
    ],
)
@pytest.mark.parametrize("how", ["fails", "hangs"])
def test_a_part_that_is_down_takes_its_own_numbers_along(
    watching, parts, broken, absent, there, how
):
    go_on = threading.Event()

    def down(*_):
        if how == "hangs":
            go_on.wait(20)
        raise LabError("It does not answer.")

    parts[broken] = down
    began = time.monotonic()
    # The parts that answer need a moment, too, on a machine that does other work.
    found = by_name(watching.samples(2 if how == "hangs" else 20))
    go_on.set()
    assert time.monotonic() - began < 15
    assert found[f"up{broken}"] == 0
    assert sum(found[f"up{part}"] for part in ("topic", "checkpoint", "table")) == 2
    assert not absent & found.keys() and there <= found.keys()


def test_what_is_no_longer_watched_is_closed(watching, parts, lesson):
    watching.samples(5)
    unwatch(lesson, "orders")
    assert by_name(watching.samples(5)) == {"watched": 0}
    assert parts["closed"]


def test_why_a_part_cannot_be_read_is_reported_once_and_so_is_its_return(watching, parts):
    lines: list[str] = []
    watching._report = lines.append
    watching.samples(5)
    readable = parts["table"]

    parts["table"] = Mock(side_effect=LabError("The store does not answer."))
    for _ in range(3):
        assert by_name(watching.samples(5))["uptable"] == 0  # at once
    assert lines == ["lesson-19/orders, table: LabError: The store does not answer."]
    parts["table"] = readable
    watching.samples(5)
    assert lines[1:] == ["lesson-19/orders, table: can be read again"]


def test_a_collector_that_ends_closes_its_connections(watching, parts):
    watching.samples(5)
    watching.close()
    assert parts["closed"]


@pytest.mark.parametrize(
    ("name", "fetches"), [("manifest_3", 1), ("000_1_0.parquet", 1), ("_version_", 2)]
)
def test_the_archived_history_is_fetched_once_and_its_version_each_time(name, fetches):
    key = f"{HISTORY}{name}"
    files = FilesInMemory("t", PROPERTIES, [key])
    fetched: list[str] = []
    files.read = lambda key: (fetched.append(key), b"x" * files.sizes()[key])[1]
    remembered = _Remembered(files)
    for _ in range(2):
        remembered.sizes()
        remembered.read(key)
    assert len(fetched) == fetches


def test_a_timeline_file_is_fetched_once_and_forgotten_when_it_is_archived():
    files = FilesInMemory("t", PROPERTIES, [*done(T1), base(T1)])
    fetched: list[str] = []
    fetch = files.read
    files.read = lambda key: (fetched.append(key), fetch(key) or b"x")[1]
    remembered = _Remembered(files)
    for _ in range(2):
        remembered.sizes()
        remembered.read(done(T1)[0])
        remembered.read(".hoodie/hoodie.properties")
    assert fetched.count(done(T1)[0]) == 1
    assert fetched.count(".hoodie/hoodie.properties") == 2
    files.keys = {}
    remembered.sizes()
    assert remembered._contents == {}


LABELS = {"namespace": "lesson-19", "pipeline": "orders"}


def test_a_scrape_gets_prometheus_text():
    text = exporter.exposition(
        [
            Sample("pipeline_up", {**LABELS, "part": "topic"}, 1),
            Sample("pipeline_watched", {}, 1),
            Sample("pipeline_up", {**LABELS, "part": "table"}, 0),
        ]
    ).decode()
    assert text.count("# TYPE pipeline_up gauge") == 1
    assert 'pipeline_up{namespace="lesson-19",part="table",pipeline="orders"} 0.0' in text
    assert "pipeline_watched 1.0" in text


def test_a_measurement_ends_before_the_scrape_gives_up():
    assert exporter.budget("1") < 1
    assert exporter.budget(None) > 1


def test_plain_lines_name_services_and_pipelines_and_leave_out_what_is_not_known():
    samples = [
        Sample("pipeline_lag_messages", {**LABELS, "partition": "0"}, 1230),
        Sample("pipeline_lag_messages", {**LABELS, "partition": "1"}, 4),
        Sample("pipeline_oldest_unread_seconds", LABELS, 12.34),
        Sample("pipeline_up", {**LABELS, "part": "table"}, 0),
    ]
    service, pipeline = live.plain_lines([ServiceStatus("kafka", "ready")], samples)
    assert service.endswith(" service kafka: ready")
    assert pipeline.partition(" ")[2] == (
        "pipeline lesson-19/orders: unread 1,234, oldest unread 12.3 s, table not readable"
    )
    _, without = live.plain_lines([ServiceStatus("kafka", "stopped")], None)
    assert without.endswith("pipelines: the services are not running")
