"""The targets of lessons 15, 17 and 18: what a function gets, and what can be judged offline."""

import io
import json
import sys
from dataclasses import asdict
from types import SimpleNamespace
from zlib import crc32

import pandas as pd
import pytest

from lab_env.course.answers import Unreadable
from lab_env.lab.job.packing import pack, unpack
from lab_env.lab.ladder.answers import find_answer
from lab_env.lab.ladder.rungs import DISTURBED, late_and_twice
from lab_env.lab.ladder.target import Task, check_ended
from lab_env.lab.ladder.worker import LadderWorker
from lab_env.lessons.l15 import ladder as l15
from lab_env.lessons.l17 import ladder as l17
from lab_env.lessons.l18 import checks
from lab_env.lessons.l18 import ladder as l18
from lab_env.platform.processes.state import folder
from lab_env.platform.settings import Endpoints
from lab_env.shop.model import Send

ENDPOINTS = Endpoints("http://s3", "k", "s", "eu", "lake", "kafka:1", "zookeeper:1")
TASK = Task("kafka:1", "attacked", "s3a://lake/attack", 1, {})
CONFLICT = "Caused by: org.apache.hudi.exception.HoodieWriteConflictException: two writes"


@pytest.mark.parametrize(
    ("exercise", "target"),
    [
        ("15.2", l15.TARGETS["15.2"]),
        ("17.2", l17.TARGETS["17.2"]),
        ("17.3", l17.TARGETS["17.3"]),
        ("18.1", l18.TARGETS["18.1"]),
    ],
)
def test_a_function_travels_without_the_variables_that_it_is_given(exercise, target):
    function = find_answer(exercise, ENDPOINTS, "reference")
    there = unpack(pack(bound=True, answer=function), "the session")["answer"]
    assert not set(target.given) & set(there.__globals__)
    assert set(target.variables(None, TASK)) == set(target.given)


def test_a_module_that_the_notebook_wrote_travels_with_the_function(home, monkeypatch):
    path = folder("lessons") / "lesson-99"
    path.mkdir()
    (path / "shop_made.py").write_text("NUMBER = 7\n\n\ndef number():\n    return NUMBER\n")
    monkeypatch.syspath_prepend(path)
    names = {"__name__": "__main__"}
    exec("from shop_made import number\ndef answer(): return number()", names)
    job = pack(answer=names["answer"])
    monkeypatch.delitem(sys.modules, "shop_made")
    (path / "shop_made.py").unlink()
    assert unpack(job, "the session")["answer"]() == 7


def test_the_lessons_module_is_made_from_its_cells():
    shop = l17.shop_writer()
    assert shop.ORDERS["hoodie.datasource.write.recordkey.field"] == "order_id"
    assert all(callable(getattr(shop, name)) for name in l17.SHOP if name != "ORDERS")


def test_the_topic_of_15_2_is_the_attacks():
    kafka = l15.TARGETS["15.2"].variables(None, TASK)["KAFKA"]
    assert kafka == {"kafka.bootstrap.servers": "kafka:1", "subscribe": "attacked"}


def test_a_batch_above_the_limit_is_said():
    l15.check_limit([])
    l15.check_limit([l15.BOUND, l15.BOUND + 1, 3])
    with pytest.raises(Unreadable, match=f"=20, .* called `apply` with {l15.BOUND * 3}"):
        l15.check_limit([3, l15.BOUND * 3])


def test_the_output_of_15_2_is_all_finished_files(monkeypatch):
    def parquet(*offsets):
        file = io.BytesIO()
        pd.DataFrame({"partition": 0, "offset": offsets}).to_parquet(file)
        return file.getvalue()

    files = {
        "attack/applied/0/part-0.parquet": parquet(0, 1),
        "attack/applied/0/_SUCCESS": b"",
        "attack/applied/1/part-0.parquet": parquet(2),
        "attack/applied/2/_temporary/0/part-0.parquet": parquet(3),
    }
    monkeypatch.setattr(
        l15.store,
        "list_objects",
        lambda at, prefix: map(lambda key: SimpleNamespace(key=key), files),
    )
    monkeypatch.setattr(l15.store, "read", lambda at, key: files[key])
    stage = SimpleNamespace(endpoints=ENDPOINTS, folder="attack")
    assert list(l15.TARGETS["15.2"].rows(stage)["key"]) == ["0:0", "0:1", "0:2"]
    files.clear()
    assert l15.TARGETS["15.2"].rows(stage).empty


def test_a_stream_that_still_runs_is_stopped_and_said():
    stopped = []
    query = SimpleNamespace(stop=lambda: stopped.append(1))
    check_ended(SimpleNamespace(streams=SimpleNamespace(active=[])))
    with pytest.raises(Unreadable, match="was still running"):
        check_ended(SimpleNamespace(streams=SimpleNamespace(active=[query])))
    assert stopped


def test_the_old_stream_has_the_first_delivery_for_itself():
    def fail(table, checkpoint):
        raise AssertionError

    worker = LadderWorker(None)
    worker.functions["answer"] = fail
    assert worker.run("17.2", asdict(TASK)) == {}


@pytest.mark.parametrize("seed", range(30))
def test_each_of_two_jobs_changes_orders_of_the_first_day_that_the_other_could_lose(seed):
    parts = late_and_twice(seed)
    before = [send for part in parts[: DISTURBED - 1] for send in part]
    now = parts[DISTURBED - 1]
    assert {_day(send) for send in before} >= {"2026-01-05"}
    for job in range(len(l18.JOBS)):
        own = [send for send in now if _job(send) == job and _day(send) == "2026-01-05"]
        assert _shown(before) != _shown(before + own)


def _job(send: Send) -> int:
    return crc32(send.order_id.encode()) % len(l18.JOBS)


def _day(send: Send) -> str:
    return json.loads(send.value)["partition_date"]


def _shown(sends: list[Send]) -> dict[str, str]:
    newest = {send.order_id: send for send in sorted(sends, key=lambda send: send.order_ts)}
    return {order: send.event_id for order, send in newest.items() if send.op != "erase"}


def test_a_write_is_repeated_after_a_conflict_only(monkeypatch):
    errors = [CONFLICT, CONFLICT]
    written = []

    def write(rows, table, options):
        if errors:
            raise RuntimeError(errors.pop())
        written.append(table)

    monkeypatch.setattr(checks, "write", write)
    l18._write("stream", None, "t", {})
    assert written == ["t"]
    errors += [CONFLICT] * l18.TRIES
    with pytest.raises(Unreadable, match="The stream had a conflict 3 times: HoodieWriteConf"):
        l18._write("stream", None, "t", {})
    errors += ["Caused by: java.io.FileNotFoundException: no file"]
    with pytest.raises(Unreadable, match="not because of a conflict: FileNotFoundException"):
        l18._write("stream", None, "t", {})
