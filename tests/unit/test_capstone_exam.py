"""Parts of an exam that need no service: its record, the certificate, and packing the job."""

import linecache
import subprocess
import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from lab_env.lab.job import process
from lab_env.lab.job.packing import pack
from lab_env.lab.job.process import (
    JobProcess,
    PendingWrite,
    describe_failure,
    largest_table,
    pending_writes,
    tables_below,
)
from lab_env.lessons.capstone import certificate
from lab_env.lessons.capstone.exam import PHASES, Exam, Phase, Record, variant_named
from lab_env.platform import store
from lab_env.platform.errors import LabError
from lab_env.platform.settings import Endpoints

ENDPOINTS = Endpoints("http://s3", "k", "s", "eu", "lake", "kafka:1")
ROOT = "lesson-22/scratch/iot-1"
BASE, T = f"s3a://lake/{ROOT}", f"{ROOT}/readings"
LIFE = (
    {"delivery": "first", "place": "1:7", "event": "i1-1", "says": "reading, celsius 4.0"},
    {"delivery": "late", "place": "1:99", "event": "i1-9", "says": "correction, celsius <b>5</b>"},
)
RECORD = Record(
    variant="iot",
    title="Cold rooms",
    seed=4_711,
    taken="2026-11-23T03:00:00+00:00",
    phases=tuple(Phase(n, "passed", {"rows": 10}, f"example of {n}", "", 1.5) for n in PHASES),
    biography=LIFE,
    key="D-01 at 10:00",
    visible_after_kill=0,
    files=5,
    cpu_seconds=41.5,
    note="First.\n\nSecond <script>.",
)


def refused():
    phases = (RECORD.phases[0], Phase("kill", "refused", message="3 keys show an older event"))
    rest = tuple(Phase(name, "not run") for name in PHASES[2:])
    return replace(RECORD, phases=phases + rest, taken="2026-11-23T04:00:00+00:00", seed=5)


@pytest.fixture
def objects(monkeypatch):
    """Objects of a fake store, which the test fills: sizes in bytes by key."""
    held: dict[str, int] = {}

    def list_objects(endpoints, prefix):
        keys = (key for key in sorted(held) if key.startswith(prefix))
        return (store.StoredObject(key, held[key], None) for key in keys)

    monkeypatch.setattr(store, "list_objects", list_objects)
    return held


def test_a_record_survives_its_file_and_tells_its_phases_in_words():
    assert Record.from_json(RECORD.to_json()) == RECORD
    assert RECORD.passed and not refused().passed
    assert refused().refusal == "3 keys show an older event"
    said = certificate.phases_text(refused())
    assert "2 kill: refused" in said and "6 footprint: not run" in said


def test_what_a_query_shows_after_the_kill_is_one_of_the_choices():
    for visible, said in {None: "unknown", 0: "none", 7: "some", 60: "all"}.items():
        assert replace(RECORD, killed_rows=60, visible_after_kill=visible).visible == said


def test_the_certificate_shows_the_run_offline_and_escapes_what_learners_write():
    predictions = {
        "22.p1": {"expected": "none", "actual": "none"},
        "05.p1": {"expected": "2", "actual": "9", "tolerance": "1"},
        "22.p2": {"actual": "5"},
    }
    page = certificate.certificate_html(RECORD, predictions)
    shown = ("4711", "Cold rooms", "D-01 at 10:00", "1:99", *PHASES, "1 of 2 predictions")
    assert [text for text in (*shown, "rows of the killed") if text not in page] == []
    assert "proves a run, not its author" in page
    assert "<script>" not in page and "<b>5</b>" not in page
    assert "http" not in page.replace("http-equiv", "")
    assert "Ladder of faults" not in page
    page = certificate.certificate_html(RECORD, {}, {"04.2": {"held": 7, "of": 7}})
    assert "Ladder of faults: 04.2 7 of 7." in page


def test_the_newest_passed_exam_gets_the_certificate(tmp_path, monkeypatch):
    monkeypatch.setattr(certificate, "folder", lambda name: tmp_path)
    with pytest.raises(LabError, match="No exam was taken"):
        certificate.newest_passed()
    certificate.keep(refused())
    with pytest.raises(LabError, match="seed 5, failed: 3 keys show"):
        certificate.newest_passed()
    certificate.keep(RECORD)
    assert certificate.newest_passed("iot") == RECORD
    with pytest.raises(LabError, match="No exam of the variant fraud was taken"):
        certificate.newest_passed("fraud")


def test_a_variant_that_does_not_exist_is_refused_with_those_that_do():
    with pytest.raises(LabError, match="no variant 'taxi'"):
        variant_named("taxi")


def test_a_write_is_pending_until_its_instant_is_complete(objects):
    objects |= {
        f"{T}/.hoodie/hoodie.properties": 1,
        f"{T}/.hoodie/timeline/20261123010000000_20261123010001000.commit": 1,
        f"{T}/.hoodie/timeline/20261123010000000.commit.requested": 1,
        f"{T}/.hoodie/timeline/20261123020000000.commit.requested": 1,
        f"{T}/.hoodie/timeline/20261123020000000.inflight": 1,
        f"{T}/.hoodie/timeline/20261123020500000.compaction.requested": 1,
        f"{T}/.hoodie/metadata/.hoodie/timeline/20261123030000000.deltacommit.requested": 1,
        f"{T}/day=1/aa-0_0-1-1_20261123020000000.parquet": 9,
    }
    table = f"{BASE}/readings"
    expected = [PendingWrite(table, "20261123020000000", "commit", 1)]
    assert pending_writes(ENDPOINTS, BASE, set()) == expected
    assert pending_writes(ENDPOINTS, BASE, {"20261123020000000"}) == []


def test_the_tables_are_found_wherever_they_lie_without_their_metadata_tables(objects):
    objects |= {
        f"{T}/.hoodie/hoodie.properties": 1,
        f"{T}/.hoodie/metadata/.hoodie/hoodie.properties": 1,
        f"{T}/a.parquet": 100,
        f"{ROOT}/deep/dead/.hoodie/hoodie.properties": 500,
        f"{ROOT}/deep/dead/b.parquet": 10,
        f"{ROOT}2/x/.hoodie/hoodie.properties": 1,
    }
    assert tables_below(ENDPOINTS, BASE) == [f"{BASE}/deep/dead", f"{BASE}/readings"]
    assert largest_table(ENDPOINTS, BASE) == f"{BASE}/readings"


@pytest.mark.parametrize(
    ("key", "beside"),
    [
        ("readings/day=1/a.parquet", False),
        ("stream/commits/0", False),
        ("readings/.hoodie/metadata/files/b.hfile", False),
        ("dead/part-0.json.gz", True),
        ("readings-2/a.parquet", True),
    ],
)
def test_files_beside_the_tables_and_the_checkpoints_are_found(objects, key, beside):
    for known in ("readings/.hoodie/hoodie.properties", "stream/metadata", key):
        objects[f"{ROOT}/{known}"] = 1
    exam = object.__new__(Exam)
    exam.lab, exam.base = SimpleNamespace(endpoints=ENDPOINTS), BASE
    assert exam.has_other_files() is beside


Lab = type("Lab", (), {"__module__": "lab_env.lab.handle"})  # stands in for the lesson's handle


def test_what_belongs_to_the_notebook_is_named_also_behind_a_helper():
    names = {"__name__": "__main__", "lab": Lab()}
    exec("def helper(): return lab.base\ndef build(spark, source, base): return helper()", names)
    with pytest.raises(LabError, match="`build` uses `lab` of this notebook"):
        pack(build=names["build"])


def test_a_failure_names_the_line_of_the_learner():
    linecache.cache["<cell 7>"] = (10, None, ["a = 1\n", "raise KeyError('x')\n"], "<cell 7>")
    frames = [("<cell 7>", 2, "write_batch"), ("/usr/lib/python3/x.py", 10**6, "call")]
    reply = {"error": "KeyError", "why": "'x'", "frames": frames, "readable": False}
    said = describe_failure(reply)
    assert said == "KeyError: 'x'. It was raised in `write_batch`: `raise KeyError('x')`"
    assert describe_failure(reply | {"readable": True, "why": "No column x."}) == "No column x."


def test_a_job_that_has_ended_is_not_killed_when_python_ends(home, monkeypatch):
    handlers, popen = [], subprocess.Popen

    def start(command, **options):
        return popen([sys.executable, "-c", "input()"], **options)

    handled = SimpleNamespace(register=handlers.append, unregister=handlers.remove)
    monkeypatch.setattr(process, "atexit", handled)
    monkeypatch.setattr(process.subprocess, "Popen", start)
    killed, ended = (JobProcess(ENDPOINTS, "lesson-22", "a.job") for _ in range(2))
    assert len(handlers) == 2
    killed.kill()
    ended._process.communicate("")
    give_up = time.monotonic() + 20
    while handlers and time.monotonic() < give_up:
        time.sleep(0.02)
    assert handlers == []
