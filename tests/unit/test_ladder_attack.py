"""Climbing with a simulated function: no Spark, no Kafka, no store."""

import json
import signal
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from xml.dom import minidom

import pandas as pd
import pytest
from ladder_ledger import sent

from lab_env.course import progress
from lab_env.lab import handle
from lab_env.lab.handle import Lab
from lab_env.lab.job import worker
from lab_env.lab.job.process import JobFailed
from lab_env.lab.ladder import attack as ladder
from lab_env.lab.ladder import disturbances
from lab_env.lab.ladder import stage as stages
from lab_env.lab.ladder.fall import read_fall
from lab_env.lab.ladder.history import Look, shortest
from lab_env.lab.ladder.rungs import RUNGS, SENDS, WRITES
from lab_env.lab.ladder.target import EachMessageOnce, in_words
from lab_env.platform.errors import LabError
from lab_env.platform.settings import Endpoints

ENDPOINTS = Endpoints("http://s3", "k", "s", "eu", "lake", "kafka:1")


def start_table(events, path, checkpoint):
    return None


class PlayedGate:
    """Gate at which the awaited request comes if the stage says so."""

    def __init__(self, stage):
        self.stage, self.url = stage, "http://gate"

    def obey(self, *rules):
        self.stage.armed += [(rule.kind, rule.action) for rule in rules]
        for rule in rules:
            rule.request = SimpleNamespace() if self.stage.hit else None

    def arm(self, kind, action, k=1, part="", seconds=0):
        self.stage.armed.append((kind, action))
        request = SimpleNamespace(key=f"{part}/orders_cow/f.parquet") if self.stage.hit else None
        return SimpleNamespace(wait=lambda seconds: self.stage.hit, request=request)

    def last(self, n):
        return [SimpleNamespace(at=float("inf"))]

    disarm = drop = close = lambda self: None


class PlayedProcess:
    """Process whose function makes the table right, except for what the stage changes."""

    def __init__(self, stage, endpoints):
        assert endpoints.s3_endpoint == "http://gate"
        self.stage, self.killed = stage, False
        stage.processes.append(self)

    @property
    def busy(self):
        return self.stage.hit

    def load(self, job):
        assert job

    def begin(self, task, **arguments):
        assert task == "run" and arguments["exercise"] == "04.2"
        self.stage.calls.append("begun")

    def finish(self):
        self.stage.call()

    def kill(self):
        self.killed = True


class Stage:
    """The sends so far, and the rows of the table after the last call."""

    def __init__(self):
        self.sent, self.rows, self.calls, self.processes, self.armed = [], [], [], [], []
        self.removed, self.hit, self.edit, self.error = [], True, lambda rows: rows, None

    def call(self):
        self.calls.append("called")
        if self.error:
            raise self.error
        newest = {}
        for send in sorted(self.sent, key=lambda send: send.order_ts):
            if not send.kind.startswith("malformed"):
                newest[send.order_id] = send
        rows = [(s.order_id, s.event_id, s.order_ts) for s in newest.values() if s.op != "erase"]
        self.rows = self.edit(rows)


class PlayedLedger(stages.Ledger):
    stage: Stage

    def frame(self):
        return sent(self.stage.sent)


@pytest.fixture
def stage(home, monkeypatch):
    played = Stage()

    def send(bootstrap, topic, folder, sends):
        played.sent += sends

    def read(endpoints, table, columns):
        return pd.DataFrame(played.rows, columns=["order_id", "event_id", "order_ts"])

    def remove(endpoints, prefix):
        played.removed.append(prefix)
        played.sent, played.rows = [], []

    monkeypatch.setattr(PlayedLedger, "stage", played, raising=False)
    monkeypatch.setattr(stages, "Ledger", PlayedLedger)
    monkeypatch.setattr(stages, "Gate", lambda address: PlayedGate(played))
    monkeypatch.setattr(stages, "JobProcess", lambda at, *_: PlayedProcess(played, at))
    monkeypatch.setattr(stages, "HELD_S", 0)
    monkeypatch.setattr(stages, "replay", send)
    monkeypatch.setattr(stages, "read_rows", read)
    monkeypatch.setattr(stages, "topic_end_offsets", lambda at, topic: {0: len(played.sent)})
    monkeypatch.setattr(disturbances, "paused", lambda name: nullcontext())
    monkeypatch.setattr(disturbances, "AWAY_S", 0)
    monkeypatch.setattr(disturbances, "add_partitions", lambda at, topic, total: None)
    monkeypatch.setattr(stages, "delete_topic", lambda at, topic: played.removed.append(topic))
    monkeypatch.setattr(stages.store, "delete_prefix", remove)
    monkeypatch.setattr(stages.store, "list_objects", lambda endpoints, prefix: ["there"])
    return played


def climb(*numbers: int, said: list | None = None, shrink: bool = False):
    say = (lambda line: None) if said is None else said.append
    return ladder.attack(ENDPOINTS, "lesson-04", "04.2", start_table, numbers, 17, say, shrink)


def test_a_right_answer_climbs_all_rungs_and_leaves_nothing(stage):
    said = []
    done = climb(said=said)
    rungs = len(RUNGS["04.2"])
    assert done.held and [result.number for result in done.results] == list(range(1, rungs + 1))
    assert all("matches the ledger" in result.found for result in done.results)
    assert len(said) == 1 + 2 * rungs
    assert done.results[2].found.endswith("Killed after orders_cow/f.parquet.")
    assert stage.armed[:2] == [("data", "hold_after"), ("commits", "hold_before")]
    assert [action for _, action in stage.armed[2:]] == ["hold_after", "error", "lost"]
    assert all(process.killed for process in stage.processes)
    assert len(stage.removed) == 2 * rungs  # topic and folder of each
    assert f"held {rungs} of {rungs} rungs" in repr(done) and done._repr_html_()
    assert "No rung recreates the topic" in repr(done)


def test_a_process_lives_until_a_rung_kills_it(stage):
    climb(1, 2)
    assert len(stage.processes) == 1
    climb(3)
    assert len(stage.processes) == 3  # killed once, then started again


def test_an_answer_falls_with_a_history_and_a_command_that_repeats_it(stage):
    stage.edit = lambda rows: [*rows[1:], rows[0], rows[0]]
    done = climb()
    (result,) = done.results
    assert not done.held and result.number == 1 and not result.held
    assert "1 order is in the output more than once (o-s17-" in result.found
    assert result.history.wrong and result.history.steps[-1].text.startswith("2 rows: ")
    text = repr(done)
    assert "<-- here" in text and "lab attack 04.2 --rung 1 --seed 17" in text
    assert "Exercise 04.2: fell on rung 1 of 7" in text
    assert "--seed 17 --answer wrong-1" in repr(replace(done, which="wrong-1"))
    given = repr(replace(done, given="append"))
    assert "Exercise 04.2, append: fell on rung 1" in given
    assert 'lab.attack("04.2", 1, answer=append, seed=17)' in given and "`shrink=True`" in given


def test_a_notebook_shows_the_picture_and_a_terminal_the_text(stage):
    stage.edit = lambda rows: rows[1:]
    done = climb(1)
    shown = done._repr_html_()
    assert "<svg" in shown and "sent      new at" not in shown and "sent      new at" in repr(done)


def test_a_fall_is_saved_and_read_again(stage, home):
    stage.edit = lambda rows: rows[1:]
    done = climb(3)
    files = done.keep()
    name = str(home / "ladder" / "04.2-rung-3-seed-17")
    assert files == {"picture": Path(f"{name}.svg"), "events": Path(f"{name}.json")}
    facts = json.loads(files["events"].read_text())
    assert (facts["rung"], facts["seed"], facts["answer"]) == (3, 17, "own")
    assert facts["sends"][0]["value"].startswith('{"event_id"')
    assert {send["delivery"] for send in facts["sends"]} == {1}
    again = read_fall(files["events"])
    assert again.history == done.results[-1].history and len(again.sends) == len(facts["sends"])
    assert minidom.parse(str(files["picture"]))


def test_an_error_of_the_function_is_a_fall_without_a_history_and_a_picture(stage):
    stage.edit = lambda rows: rows[1:]
    assert "picture" in climb(2).keep()
    stage.error = JobFailed("KeyError: 'x'.")
    failed = climb(2)
    (result,) = failed.results
    assert not result.held and result.history is None
    assert result.found.startswith("In delivery 1, of ") and result.found.endswith("KeyError: 'x'.")
    files = failed.keep()
    assert list(files) == ["events"] and read_fall(files["events"]).history is None
    assert not files["events"].with_suffix(".svg").exists()


def test_only_the_learners_own_whole_climb_counts(stage):
    climb(1).keep()
    reference = replace(climb(), which="reference")
    reference.keep()
    assert "counts your own answer, not `reference`" in repr(reference)
    replace(climb(), given="append").keep()
    assert progress.read()["ladder"] == {}
    climb().keep()
    best = progress.read()["ladder"]["04.2"]
    assert (best["held"], best["of"]) == (len(RUNGS["04.2"]),) * 2
    stage.edit = lambda rows: rows[1:]
    climb().keep()
    assert progress.read()["ladder"]["04.2"] == best


def test_a_notebook_attacks_its_own_answer_or_another_function(stage, monkeypatch):
    main = sys.modules["__main__"]
    monkeypatch.setattr(handle.services, "require_reachable", lambda endpoints: None)
    monkeypatch.setattr(main, "start_table", ..., raising=False)
    lab = Lab("04", ENDPOINTS)
    lab.use_reference("04.2")
    assert lab.attack("04.2").which == "reference"
    assert lab.attack("04.2", answer=start_table).given == "start_table"
    assert progress.read()["ladder"] == {}
    monkeypatch.setattr(main, "start_table", start_table)
    own = lab.attack("04.2", seed=17)
    assert (own.which, own.given, own.seed) == ("", "", 17)
    assert progress.read()["ladder"]["04.2"]["held"] == len(RUNGS["04.2"])


def test_a_fall_shrinks_to_the_events_of_one_order(stage):
    stage.edit = lambda rows: [row for row in rows if row[0] != rows[0][0]]
    whole, said = climb(1).results[0], []
    (small,) = climb(1, said=said, shrink=True).results
    assert len(small.fall.sends) < 10 < len(whole.fall.sends)
    assert small.history.wrong and small.history.key == whole.history.key
    assert "messages, too." in small.shrunk and len(said) == 5
    assert len(stage.removed) == 2 * 3  # topic and folder of each run


def test_a_fall_that_needs_other_orders_is_not_shrunk_to_one(stage):
    def full(rows):
        return rows if len(rows) < 10 else rows[1:]

    stage.edit, said = full, []
    (small,) = climb(1, said=said, shrink=True).results
    whole = climb(1).results[0]
    assert small.history.wrong and 10 < len(small.fall.sends) < len(whole.fall.sends)
    stage.edit = lambda rows: rows if len(stage.sent) < SENDS // 3 else rows[1:]
    (same,) = climb(1, said=said, shrink=True).results
    assert same.shrunk == "Not shrunk: with fewer messages it holds."
    assert same.history == whole.history
    stage.error = JobFailed("KeyError: 'x'.")
    (failed,) = climb(1, shrink=True).results
    assert failed.shrunk == "Not shrunk: no single order shows what went wrong."


def test_a_request_that_never_comes_is_a_fall(stage):
    stage.hit = False
    (unfinished,), (small,) = climb(4).results, climb(5).results
    assert not unfinished.held and not small.held
    assert "recorded no finished batch in the checkpoint that it was given" in unfinished.found
    assert "wrote so little that the store had no time for trouble" in small.found


def test_a_second_process_writes_while_the_first_one_is_held(stage, monkeypatch):
    monkeypatch.setattr(type(ladder.target_of("04.2")), "writers", 2)
    monkeypatch.setitem(RUNGS, "04.2", (WRITES,))
    assert climb().held and stage.armed == [("data", "hold_after")]
    assert len(stage.processes) == 2 and all(process.killed for process in stage.processes)
    held = stage.calls.index("begun", 4)  # after two calls, in one process after the other
    assert stage.calls[held : held + 4] == ["begun", "begun", "called", "called"]
    stage.hit = False
    assert climb().results[0].found.startswith("The two jobs never met")


def test_a_service_that_the_exercise_needs_must_be_running(stage, monkeypatch):
    down = SimpleNamespace(running=lambda: False)
    monkeypatch.setattr(ladder.services, "service", lambda name: down)
    with pytest.raises(LabError, match=r"18\.1 needs zookeeper.*\n.*lab up zookeeper"):
        ladder.attack(ENDPOINTS, "lesson-18", "18.1", start_table, (), 1, print)


def test_an_output_that_cannot_be_read_is_a_fall(stage, monkeypatch):
    def fetch(self, task, **arguments):
        raise JobFailed("FileNotFoundException: gone.")

    monkeypatch.setattr(PlayedProcess, "fetch", fetch, raising=False)
    monkeypatch.setattr(type(ladder.target_of("04.2")), "rows", lambda self, stage: stage.look())
    (result,) = climb(1).results
    assert result.found == "The output cannot be read: FileNotFoundException: gone."


def test_an_error_while_removing_hides_neither_a_fall_nor_an_error(stage, monkeypatch):
    def away(endpoints, prefix):
        raise OSError("the store is away")

    monkeypatch.setattr(stages.store, "delete_prefix", away)
    left = "Its topic, output and ledger could not all be removed: the store is away"
    stage.edit = lambda rows: rows[1:]
    (result,) = climb(1).results
    assert not result.held and "missing from the output" in result.found
    assert result.found.endswith(left) and result.fall
    stage.error = LabError("Kafka does not answer.")
    with pytest.raises(LabError, match="Kafka does not answer") as caught:
        climb(1)
    assert caught.value.__notes__ == [left]
    assert all(process.killed for process in stage.processes)


def test_an_interrupted_attack_removes_everything(stage):
    stage.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        climb()
    assert len(stage.removed) == 2 and all(process.killed for process in stage.processes)


def test_ctrl_c_while_a_rung_kills_a_process_leaves_none(stage, monkeypatch):
    kill, pressed = PlayedProcess.kill, []

    def interrupted_once(process):
        if not pressed:
            pressed.append(process)
            raise KeyboardInterrupt
        kill(process)

    monkeypatch.setattr(PlayedProcess, "kill", interrupted_once)
    with pytest.raises(KeyboardInterrupt):
        climb(3)
    assert pressed == stage.processes and all(process.killed for process in stage.processes)


def test_ctrl_c_while_the_attack_cleans_up_waits_for_its_end(stage, monkeypatch):
    def remove(endpoints, prefix):
        signal.raise_signal(signal.SIGINT)
        stage.removed.append(prefix)

    monkeypatch.setattr(stages.store, "delete_prefix", remove)
    with pytest.raises(KeyboardInterrupt):
        climb(1)
    assert len(stage.removed) == 2 and all(process.killed for process in stage.processes)


@pytest.mark.parametrize(
    ("exercise", "answer", "numbers", "why"),
    [
        ("04.2", ..., (), "is not solved yet"),
        ("04.2", start_table, (9,), "There is no rung 9"),
        ("04.1", start_table, (), r"has no ladder.*\n.*04\.2"),
        ("04.2", 5, (), "is of type int"),
    ],
)
def test_what_cannot_be_attacked_is_said(stage, exercise, answer, numbers, why):
    with pytest.raises(LabError, match=why):
        ladder.attack(ENDPOINTS, "lesson-04", exercise, answer, numbers, 1, print)
    assert not stage.processes


def test_a_store_behind_tls_is_refused(stage):
    at = Endpoints("https://s3", "k", "s", "eu", "lake", "kafka:1")
    with pytest.raises(LabError, match="plain HTTP"):
        ladder.attack(at, "lesson-04", "04.2", start_table, (), 1, print)


def test_an_error_in_a_function_that_a_stream_calls_back_names_its_line():
    message = (
        "[STREAM_FAILED] Query terminated with exception: An exception was raised by the Python "
        f'Proxy. Traceback\n  File "{worker.OWN}/lab/x.py", line 3, in call\n'
        '  File "/x/site-packages/py4j/j.py", line 4, in wrap\n'
        '  File "<cell 27>", line 5, in write\nTypeError: no first row\n'
    )
    told = worker.failure(RuntimeError(message))
    assert told["frames"] == [("<cell 27>", 5, "write")]


def test_an_output_with_an_empty_key_or_event_is_judged():
    each = EachMessageOnce()
    sends = each.keyed(sent(RUNGS["04.2"][0].deliveries(17)[0][:2]))
    rows = pd.DataFrame({"key": ["0:0", "0:1", None], "event": ["0:0", None, "0:2"]})
    found = each.judge(sends, rows)
    assert found.wrong == ("0:1", "None")
    looks = [Look(1, rows)]
    told = shortest(["None"], each, sends, looks)
    assert told.steps[-1].text == "0:2; it must show no row"


def test_the_ledgers_findings_are_said_in_words():
    told = in_words({"missing": (1, "O-1"), "ghost": (2, "O-2")}, "order")
    missing, ghosts = told.split("; ")
    assert missing == "1 order is missing from the output (O-1)"
    assert ghosts == "2 orders are in the output although erased (for example O-2)."
