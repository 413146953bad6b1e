"""The lock on tables that several jobs write: its options, and the error without ZooKeeper."""

import json
import socket

import pytest

from lab_env.pipeline import handle, options, writer
from lab_env.platform.errors import LabError
from lab_env.platform.settings import Endpoints, settings

PATH = "s3a://lakehouse/lesson-18/orders_cow"
PREFIX = "hoodie.write.lock.zookeeper"


def test_all_writers_of_a_table_get_the_same_lock_and_other_tables_another():
    mine, other = (options.shared("zoo:2181", path) for path in (PATH, PATH + "/"))
    assert mine == other
    # Hudi 1.1.1 connects to the url alone; its own option for the port has no effect.
    assert mine[f"{PREFIX}.url"] == "zoo:2181" and f"{PREFIX}.port" not in mine
    assert mine["hoodie.write.concurrency.mode"] == "OPTIMISTIC_CONCURRENCY_CONTROL"
    assert mine[f"{PREFIX}.base_path"] == "/lakehouse/lesson-18"
    assert mine[f"{PREFIX}.lock_key"] == "orders_cow"
    assert options.shared("zoo:2181", "s3a://lakehouse/lesson-18/orders_mor") != mine
    assert options.shared("zoo:2181", "s3a://another/lesson-18/orders_cow") != mine


@pytest.mark.parametrize("table", [options.COW, options.MOR, options.CHANGES])
def test_a_second_writer_writes_and_locks_like_the_stream_and_leaves_table_services_to_it(table):
    given = options.second_writer(table, "zoo:2181", PATH)
    assert given["hoodie.table.name"] == "orders_cow"
    for fixed in (options.KEYS, options.INDEX, options.shared("zoo:2181", PATH)):
        changed = {"hoodie.table.ordering.fields"} if table is options.CHANGES else set()
        assert {n: given[n] for n in fixed.keys() - changed} == {
            n: fixed[n] for n in fixed.keys() - changed
        }
    # Without a word, a batch write to a Merge-on-Read table compacts.
    assert given["hoodie.compact.inline"] == "false"
    assert given["hoodie.datasource.compaction.async.enable"] == "false"
    assert given["hoodie.clean.automatic"] == "false"
    assert (
        given["hoodie.datasource.write.table.type"] == table["hoodie.datasource.write.table.type"]
    )


@pytest.mark.parametrize("lock", ["zoo:2181", ""])
def test_a_writer_with_a_lock_uses_it_for_each_table_of_hudi(monkeypatch, tmp_path, lock):
    monkeypatch.setattr(writer.guard, "drop_unmade", lambda *_: None)
    monkeypatch.setattr(writer.guard, "check_clock", lambda *_: None)
    # Without a name of its own Hudi refuses a stream that shares its table.
    named = {writer.guard.IDENTIFIER: "a-stream"}
    monkeypatch.setattr(writer.guard, "claim_table", lambda *_: named)
    job = writer.Job("n", "t", "s3a://lakehouse/tour", str(tmp_path), "l", "j", "h", lock=lock)
    given = writer.claim(Endpoints("http://s3", "a", "b", "r", "lakehouse", "k:1"), job, "cow")
    assert given == named | (
        options.shared(lock, "s3a://lakehouse/tour/orders_cow") if lock else {}
    )


@pytest.fixture
def started(home, monkeypatch):
    """Function that calls `Writer.start` without starting a process, and returns the job."""
    monkeypatch.setattr(handle.supervisor, "remove", lambda name: None)
    monkeypatch.setattr(handle.supervisor, "start", lambda program: None)
    for room, name in ((handle.java, "java_home"), (handle, "jar_folder")):
        monkeypatch.setattr(room, name, lambda *a: home)
    monkeypatch.setattr(handle.cds_archive, "java_options", lambda text: text)

    def started(zookeeper: str) -> writer.Job:
        endpoints = Endpoints("http://s3", "a", "b", "r", "lakehouse", "kafka:9092", zookeeper)
        made = handle.Writer("writer-test").start(endpoints, "t", "s3a://lakehouse/tour")
        return writer.Job.load(made.folder / "job.json")

    return started


def test_only_with_the_setting_a_writer_locks_in_the_zookeeper_that_answers(started, configure):
    assert started("127.0.0.1:1").lock == ""
    configure(lock="zookeeper")
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert started(address).lock == address
        assert started(f"127.0.0.1:1,{address}").lock.endswith(address)
    with pytest.raises(LabError) as error:
        started("127.0.0.1:1")
    assert error.value.next_step == "run: lab up zookeeper"


def test_another_word_for_the_lock_is_refused_with_those_that_exist(configure):
    configure(lock="zk")
    with pytest.raises(LabError, match="zookeeper") as error:
        settings()
    assert error.value.next_step == "set LAB_LOCK to none or zookeeper, or unset it."


def test_a_job_of_an_earlier_version_can_still_be_read(tmp_path):
    job = writer.Job("n", "t", "b", str(tmp_path), "l", "j", "h")
    old = json.loads(job.save().read_text())
    del old["lock"]
    (tmp_path / "job.json").write_text(json.dumps(old))
    assert writer.Job.load(tmp_path / "job.json") == job
