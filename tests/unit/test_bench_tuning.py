"""A tuning knob is judged by all rounds of both settings; an aborted measurement loses no run."""

import json
from types import SimpleNamespace

import pytest

from lab_env.lessons import recorded
from lab_env.lessons.recorded.knobs import KNOBS, METRICS, compared
from lab_env.platform.errors import LabError
from lab_env.tables.probes.bucket_usage import BucketUsage
from lab_env.workbench.bench import tuning
from lab_env.workbench.bench.metering import ResourceUsage
from lab_env.workbench.bench.tuning import SETTINGS, TuningConfig
from lab_env.workbench.bench.worker import reached

CONFIG = TuningConfig(batch=50, batches=5, rate=20, seconds=16, rounds=2, java_options="")


def run_of(**requests: list[int]) -> dict:
    """Return a recorded run: the number of requests that each setting needed, round by round."""
    return {
        "runs": [
            {"setting": setting.replace("_", " "), "round": number, "requests": count}
            for setting, counts in requests.items()
            for number, count in enumerate(counts, 1)
        ]
    }


def test_a_knob_is_judged_by_the_rounds_that_both_of_its_settings_have():
    run = run_of(plain=[100, 104, 98], eight_buckets=[300, 310], eight_tasks=[99, 105, 103])
    found = compared(run)[["ratio", "verdict", "rounds"]]
    assert tuple(found.loc["buckets", "requests"]) == (305 / 102, "higher", 2)
    assert tuple(found.loc["shuffle tasks", "requests"])[1:] == ("inconclusive", 3)
    assert "commit interval" not in found.index.get_level_values("knob")


def test_one_round_tells_counts_apart_that_differ_by_more_than_their_noise_and_no_time():
    runs = [
        {"setting": "plain", "round": 1, "requests": 100, "files": 20, "batch s": 1.0},
        {"setting": "eight tasks", "round": 1, "requests": 150, "files": 20, "batch s": 3.0},
    ]
    found = compared({"runs": runs})["verdict"].loc["shuffle tasks"]
    assert dict(found) == {"batch s": "inconclusive", "requests": "higher", "files": "inconclusive"}


def test_the_delivered_run_has_both_settings_of_every_knob():
    run = recorded.delivered("tuning")
    assert run["problems"] == []
    measured = {row["setting"] for row in run["runs"]}
    assert measured == set(SETTINGS)
    assert set(compared(run).index.get_level_values("knob")) == set(KNOBS)


def test_each_knob_compares_two_settings_that_differ_in_it_alone():
    for before, after, _ in KNOBS.values():
        one, other = SETTINGS[before], SETTINGS[after]
        changed = {key for key, _ in one.table.items() ^ other.table.items()}
        if one.interval != other.interval:
            assert changed == set()
        elif one.compacts_beside != other.compacts_beside:
            assert all("compact" in key for key in changed)
        else:
            assert len(changed) == 1
        assert one.kind == other.kind


def test_where_a_stream_is_stands_in_its_last_report():
    report = {"sources": [{"endOffset": {"bench.tuning": {"0": 7, "1": 9}}}]}
    assert reached(report) == {0: 7, 1: 9}
    assert reached(None) == reached({"sources": [{"endOffset": None}]}) == {}


# A measurement whose worker, bucket and broker are made up --------------------------------------


class Worker:
    """A worker that fails with eight buckets, and otherwise answers immediately."""

    answer = (0, 0)

    def __init__(self, *_):
        self.options = {}

    wait = stop = lambda self: None

    def call(self, task, **given):
        self.options = given.get("extra_options", self.options)
        if task == "settle" and self.options.get("hoodie.bucket.index.num.buckets") == "8":
            raise LabError("The stream ended.", "read its log")
        batch = {"rows": 10, "seconds": 1.5, "end_offsets": {"0": 10}}
        return {
            "stop_following": {"batches": [batch | {"batch": number} for number in range(5)]},
            "run_query": {"answer": list(Worker.answer)},
        }.get(task, {})


class Follower:
    def __init__(self, lab, worker, *_):
        self.worker = worker

    def send(self, rate):
        self.worker.call("settle")

    def stop(self):
        fresh = {"p50": 2.0, "p95": 3.0, "measured": 310}
        return self.worker.call("stop_following")["batches"], fresh


class Meter:
    def __init__(self, worker):
        self.worker = worker

    def read(self):
        return ResourceUsage(0.0, 0.0, 0.0, BucketUsage())

    def call(self, task, **given):
        return self.worker.call(task, **given), self.read()


@pytest.fixture
def tune(monkeypatch, tmp_path):
    """Measure with stubs in place of everything that a measurement needs."""
    quiet = SimpleNamespace(name="b", endpoints=None, usage=BucketUsage)
    quiet.make = quiet.remove = quiet.clear = int
    lab = SimpleNamespace(endpoints=None, topic=lambda name: name)
    replaced = {
        "services": SimpleNamespace(up=lambda **_: None, endpoints=lambda: None),
        "reset_lesson": lambda name: {},
        "Lab": lambda *_: lab,
        "MeteredBucket": lambda *_: quiet,
        "WorkerClient": Worker,
        "Meter": Meter,
        "send": lambda *_: None,
        "_wait_for_next": lambda seconds: None,
        "QUIET_S": 0,
        "xray": lambda *_: SimpleNamespace(files=(), current=(), completed_writes={}, planned=()),
    }
    for name, value in replaced.items():
        monkeypatch.setattr(tuning, name, value)
    monkeypatch.setattr(tuning.latency, "Follower", Follower)
    stream = tuning.record(tuning.Scenario(tuning.UPDATES, tuning.UNIFORM, 50, 50, 4))
    monkeypatch.setattr(Worker, "answer", stream.answers()["aggregate"])
    return lambda config=CONFIG, say=lambda line: None: tuning.tune(config, tmp_path, say)


def test_a_run_that_fails_is_a_problem_and_the_others_count(tune):
    found = tune()
    assert not found["complete"]
    failed = [problem.partition(":")[0] for problem in found["problems"]]
    assert failed == ["round 1, eight buckets", "round 2, eight buckets"]
    assert len(found["runs"]) == 2 * (len(SETTINGS) - 1)
    assert set(METRICS) <= {key for run in found["runs"] for key in run}


def test_a_wrong_answer_is_a_problem(tune, monkeypatch):
    monkeypatch.setattr(Worker, "answer", (1, 2))
    problems = tune()["problems"]
    assert any("plain: the table answers [1, 2]" in problem for problem in problems)


def test_a_measurement_that_ended_early_goes_on_and_a_complete_one_begins_anew(tune, tmp_path):
    early = TuningConfig(**{**vars(CONFIG), "minutes": -1})
    lines: list[str] = []
    assert tune(early, lines.append)["runs"] == []
    assert "run the same command to continue" in lines[-1]
    first = tune()
    (tmp_path / "2-plain.json").unlink()
    kept = json.loads((tmp_path / "1-plain.json").read_text()) | {"CPU s": 77}
    (tmp_path / "1-plain.json").write_text(json.dumps(kept))
    again = tune()
    assert len(again["runs"]) == len(first["runs"])
    assert kept in again["runs"]
    assert kept not in tune()["runs"]
