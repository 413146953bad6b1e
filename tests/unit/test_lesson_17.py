"""Lesson 17 reads five receipts, freezes a writer, and accepts no wrong way of counting."""

import subprocess
import sys
from collections import Counter, defaultdict, deque
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from unittest.mock import Mock

import psutil
import pytest

from lab_env.lessons.l17 import crash
from lab_env.lessons.l17.checks import made_partitions, new_process, ways_of_counting
from lab_env.lessons.l17.crash import WriterProcess, last_error, why_failed
from lab_env.lessons.l17.damage import show_verdicts, verdict
from lab_env.lessons.l17.figures import RUNGS, draw_ladder, rungs_of
from lab_env.lessons.l17.receipts import NONE, Receipts, read_receipts
from lab_env.platform.errors import LabError
from lab_env.platform.processes.tree import is_alive
from lab_env.platform.store import StoredObject

KNOWN: set[int] = set()


def remember(number):
    KNOWN.add(number)


def deliver(number, seen=[]):  # noqa: B006  it is what this test is about
    remember(number)
    seen.append(number)
    return sorted(KNOWN), list(seen)


def test_a_new_process_remembers_nothing_of_the_last_one():
    first = new_process(deliver)
    assert first(1) == ([1], [1]) and first(2) == ([1, 2], [1, 2])
    assert new_process(deliver)(3) == ([3], [3])
    assert not KNOWN


class Memory:
    """A class like one in a notebook; its instance holds a sink's state."""

    def __init__(self):
        self.seen = []


@pytest.mark.parametrize(
    ("memory", "add"),
    [
        (set(), lambda memory, number: memory.add(number)),
        (deque(), lambda memory, number: memory.append(number)),
        (defaultdict(int), lambda memory, number: memory.update({number: 1})),
        (Counter(), lambda memory, number: memory.update([number])),
        (Memory(), lambda memory, number: memory.seen.append(number)),
    ],
)
def test_a_new_process_forgets_what_a_closure_or_an_object_remembered(memory, add):
    def known():
        return list(memory.seen if isinstance(memory, Memory) else memory)

    def deliver_with_memory(number, retry=True):
        add(memory, number)
        return deliver_with_memory(number, retry=False) if retry else set(known())

    assert new_process(deliver_with_memory)(1) == {1}
    assert new_process(deliver_with_memory)(2) == {2}
    assert not known()


def test_no_wrong_way_of_counting_is_lucky():
    for seed in range(300):
        missing, doubled, before_first, mixed = ways_of_counting(made_partitions(Random(seed)))
        assert missing > 0 < doubled and before_first and mixed != missing


FROZEN = Receipts(offsets=1, commits=0, table=0, instant="2026", completed=False, markers=1, data=1)
DONE = replace(FROZEN, commits=1, table=1, completed=True, markers=0)


def lab_with(*keys):
    def files(path):
        return [StoredObject(key, 1, None) for key in keys if key.startswith(f"{path}/")]

    return SimpleNamespace(endpoints=None, files=files)


def test_without_table_and_checkpoint_every_receipt_is_missing():
    assert read_receipts(lab_with(), "t", "c") == Receipts(NONE, NONE, NONE, "", False, 0, 0)


def test_the_receipts_of_a_batch_that_has_written_its_data():
    lab = lab_with(
        "c/offsets/0", "c/offsets/1", "c/commits/0", "c/metadata",
        "t/.hoodie/timeline/20261122000000001.commit.requested",
        "t/.hoodie/timeline/20261122000000001.inflight",
        "t/.hoodie/.temp/20261122000000001/day=1/f-0_0-1-1_20261122000000001.parquet.marker.MERGE",
        "t/day=1/f-0_0-1-1_20261122000000001.parquet",
        "t/day=1/f-0_0-0-0_20261121000000000.parquet",
    )  # fmt: skip
    assert read_receipts(lab, "t", "c") == Receipts(
        1, 0, NONE, "20261122000000001", completed=False, markers=1, data=1
    )


@pytest.mark.parametrize(
    ("receipts", "states"),
    [
        (FROZEN, ["there", "there", "there", "missing", "missing"]),
        (replace(FROZEN, data=0), ["there", "there", "missing", "missing", "missing"]),
        (DONE, ["there", "removed", "there", "there", "there"]),
        (replace(DONE, commits=0), ["there", "removed", "there", "there", "missing"]),
    ],
)
def test_the_ladder_says_which_receipts_are_there(receipts, states):
    assert [rungs_of(receipts)[rung][0] for rung in RUNGS] == states


def test_the_ladder_names_its_moments_and_escapes_nothing_into_the_page():
    drawn = draw_ladder({"frozen & <killed>": FROZEN, "after": DONE})
    assert drawn.startswith("<svg") and "<killed>" not in drawn and "after" in drawn


@contextmanager
def noted(pid, calls):
    calls.append("frozen")
    yield
    calls.append("goes on")


@pytest.fixture
def writer(monkeypatch, tmp_path):
    """A writer that never ends, and the list of freezes and resumes of its JVM."""
    calls = []
    process = SimpleNamespace(pid=1, poll=lambda: None)
    monkeypatch.setattr(WriterProcess, "jvm", SimpleNamespace(pid=2))
    monkeypatch.setattr(crash, "frozen", lambda pid: noted(pid, calls))
    for seconds in ("SLOW_LOOK", "LONG_SLICE", "SHORT_SLICE", "SETTLED_EVERY"):
        monkeypatch.setattr(crash, seconds, 0)
    return WriterProcess(process, tmp_path / "log"), calls


def test_a_writer_is_looked_at_only_while_it_is_frozen_and_stays_frozen_at_the_moment(writer):
    victim, calls = writer
    looks = iter([replace(FROZEN, commits=NONE), DONE, DONE, FROZEN, FROZEN, FROZEN, FROZEN])
    frozen_at = []

    def look():
        frozen_at.append(calls.count("frozen") - calls.count("goes on"))
        return next(looks)

    assert victim.freeze_when(look, lambda seen: seen == FROZEN) == FROZEN
    assert calls == ["frozen", "goes on", "frozen"]
    assert frozen_at == [0, 0, 1, 1, 1, 1, 1]


LATER = replace(FROZEN, data=2)


@pytest.mark.parametrize(
    ("looks", "freezes"),
    [
        ([DONE, FROZEN, DONE, DONE, DONE, *[LATER] * 4], 2),  # the moment has passed
        ([DONE, FROZEN, FROZEN, *[LATER] * 3], 1),  # a request is on its way
    ],
)
def test_the_moment_is_waited_for_until_nothing_changes_any_more(writer, looks, freezes):
    (victim, calls), left = writer, iter(looks)
    assert victim.freeze_when(lambda: next(left), lambda seen: not seen.completed) == LATER
    assert calls == ["frozen", "goes on", "frozen"][: 2 * freezes - 1]


def test_the_jvm_of_a_writer_is_killed_although_its_parent_is_gone(monkeypatch, tmp_path):
    jvm = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    process = SimpleNamespace(pid=1, poll=lambda: 1, wait=lambda seconds: 1)
    victim = WriterProcess(process, tmp_path / "log")
    victim._jvm = psutil.Process(jvm.pid)
    victim.kill()
    assert not is_alive(victim._jvm)


def test_a_writer_that_ended_first_shows_its_last_words(tmp_path):
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"], stdout=output)
    process.wait(30)
    log.write_text("first\nno such topic\n")
    with pytest.raises(LabError, match="status 3") as failure:
        WriterProcess(process, log).freeze_when(lambda: 0, bool, seconds=5)
    assert "no such topic" in failure.value.log


IN_PYTHON = (
    "Query terminated with exception: An exception was raised by the Python Proxy. Return"
    " Message: Traceback\n"
)


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (
            "[STREAM_FAILED] Query [id = 1] terminated with exception: Set(a-0) are gone.\nMore.",
            "Set(a-0) are gone.",
        ),
        (f"{IN_PYTHON}  File x\nRuntimeError: power failure\n", "RuntimeError: power failure"),
        (
            f"{IN_PYTHON}py4j.protocol.Py4JJavaError: An error occurred\n"
            ": java.io.IOException: No such file: a\n\tat b.c(D.java:1)\n",
            "java.io.IOException: No such file: a",
        ),
    ],
)
def test_the_line_that_says_why_a_query_failed(message, why):
    assert why_failed(Exception(message)) == why


def test_the_last_line_with_a_text_is_found_in_the_log(tmp_path):
    log = tmp_path / "spark.log"
    log.write_text("recordKey 1\n  recordKey 2\nothers\n")
    lab = SimpleNamespace(spark_log=log)
    assert last_error(lab, "recordKey") == "recordKey 2" and last_error(lab, "nothing") == ""


def test_a_verdict_is_what_the_reader_said_or_that_it_failed():
    no_footer = RuntimeError("Invalid Parquet file. Corrupt footer")
    assert verdict(lambda: (100, 30)) == "100 orders, 30 paid"
    assert verdict(Mock(side_effect=OSError("no such file"))) == "error: OSError"
    assert verdict(Mock(side_effect=no_footer)) == "error: footer"
    with pytest.raises(TypeError):
        verdict(lambda: None)  # who says nothing has passed no verdict on the damage


def test_only_a_wrong_answer_without_an_error_is_called_silent():
    table = show_verdicts({"cut <b>": {"a": "error: OSError", "b": "100 orders, 0 paid"}})
    assert table.count("silently") == 1 and "100 orders, 0 paid · silently" in table
    assert "<b>" not in table
