"""The exam's six phases with a simulated job: no Spark, no Kafka, no store."""

from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from lab_env.lab.job.process import JobFailed, PendingWrite
from lab_env.lessons.capstone import VARIANTS, exam
from lab_env.lessons.capstone.exam import PHASES, Exam
from lab_env.lessons.capstone.story import CRASHES, FIRST, LATE, VERSION_2
from lab_env.lessons.l22.figures import end_process, examiner

SEED = 815


class PlayedJob:
    """Simulated job process, which knows what was delivered; a test can make it lose rows or fail.

    Args:
        stage: the fixture of this name.
    """

    def __init__(self, stage):
        self.stage, self.alive = stage, True
        stage.processes.append(self)

    def call(self, task, **arguments):
        return getattr(self, task)(**arguments) or {}

    fetch = call

    def load(self, job):
        assert job == b"job"

    def run(self, source, base):
        self.stage.runs += 1
        if self.stage.fails:
            raise JobFailed("KeyError: 'x'.")
        self.stage.written = self.stage.course().delivered

    def begin(self, task, **arguments): ...

    def finish(self): ...

    def cpu_seconds(self):
        return 1.0

    def kill_in_mid_write(self, base, table="", data=0):
        self.stage.tries += 1
        self.stage.wanted.append((table.removeprefix(base), data))
        if self.stage.tries < self.stage.caught_at:
            self.run({}, base)
            return None
        self.alive = False
        return PendingWrite(f"{base}/rows", "20261123010203004", "commit", 1)

    def answer(self, base, names):
        course, variant = self.stage.course(), self.stage.variant
        known = course.known()
        frames = variant.oracle(course.story.events(self.stage.written))
        messages = course.story.messages(self.stage.written)
        places = [known.places[sent.send.send_id] for sent in messages if sent.event is None]
        frames["dead_letters"] = pd.DataFrame(places, columns=["partition", "offset"])
        if self.stage.lost:
            frames[self.stage.lost] = frames[self.stage.lost][2:]
        return {name: frames[name] for name in names}

    def count(self, tables):
        return {"rows": dict.fromkeys(tables, 1)}

    def scan(self, tables, ids):
        assert ids
        return {"found": dict.fromkeys(tables, self.stage.hidden)}

    def count_as_of(self, table, instant):
        if self.stage.cleaned:
            raise JobFailed("FileNotFoundException.")
        return {"rows": 1}

    def kill(self):
        self.alive = False


@pytest.fixture
def stage(monkeypatch):
    """Settings of the simulated job: variant, mistakes, and the try at which a kill succeeds."""
    played = SimpleNamespace(
        variant=VARIANTS["iot"], written=(), tries=0, caught_at=1, fails=False, hidden=0, files=3,
        cleaned=False, processes=[], wanted=[], runs=0, lost="", sent=[],
        taken=None,
    )  # fmt: skip
    played.course = lambda: played.taken.course

    def sent_so_far():
        rows = [(send.send_id, "acked", n % 3, n // 3) for n, send in enumerate(played.sent)]
        return pd.DataFrame(rows, columns=["send_id", "state", "partition", "offset"])

    def table(files):
        parts = [SimpleNamespace(files=[SimpleNamespace(kind="base")]) for _ in range(played.files)]
        return SimpleNamespace(current=parts, completed_writes=dict.fromkeys("12345"))

    monkeypatch.setattr(exam, "JobProcess", lambda *given: PlayedJob(played))
    monkeypatch.setattr(exam, "Ledger", lambda folder: SimpleNamespace(frame=sent_so_far))
    monkeypatch.setattr(exam, "ledger_directory", lambda topic: Path(topic))
    monkeypatch.setattr(exam, "check_services", lambda endpoints: None)
    monkeypatch.setattr(exam, "largest_table", lambda endpoints, base: f"{base}/rows")
    monkeypatch.setattr(exam, "tables_below", lambda endpoints, base: [f"{base}/rows"])
    monkeypatch.setattr(exam, "read_table", table)
    monkeypatch.setattr(exam.store, "list_objects", lambda endpoints, prefix: ())
    monkeypatch.setattr(exam, "replay", lambda *to, sends: played.sent.extend(sends))
    return played


LAB = SimpleNamespace(
    namespace="lesson-22",
    endpoints=SimpleNamespace(kafka_bootstrap="kafka:1"),
    topic=lambda name: f"lesson-22.{name}",
    scratch=lambda name: f"s3a://lake/lesson-22/scratch/{name}",
)


def take(stage, **options):
    stage.taken = Exam(LAB, stage.variant, b"job", SEED)
    return stage.taken.run(**options)


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=list(VARIANTS))
def test_a_job_that_is_right_passes_all_six_phases(stage, variant):
    stage.variant = variant
    record = take(stage)
    assert record.passed, record.refusal
    assert [phase.name for phase in record.phases] == list(PHASES)
    assert all(phase.example for phase in record.phases)
    assert record.visible == "none" and record.killed_rows > 50 and record.files == 3
    assert len(stage.processes) == 2, "the kill ends the first process"
    shown = {row["the table then showed"] for row in record.biography}
    assert shown and "" not in shown


def test_all_that_was_generated_is_delivered_once_whenever_the_kill_succeeds(stage):
    stage.caught_at = 2
    record = take(stage)
    assert record.passed
    assert len(stage.sent) == len(stage.course().story.messages())
    assert stage.course().delivered == (FIRST, *CRASHES, LATE, VERSION_2)


def test_the_kill_waits_for_files_of_the_largest_table_and_at_last_for_any_write(stage):
    stage.caught_at = 3
    assert take(stage).passed
    assert stage.wanted == [("/rows", 1), ("/rows", 1), ("", 0)]


def test_a_job_that_is_never_in_mid_write_is_refused(stage):
    stage.caught_at = 9
    record = take(stage)
    assert "Three times the job wrote nothing" in record.refusal
    assert [phase.verdict for phase in record.phases[:3]] == ["passed", "refused", "not run"]


def test_a_job_that_fails_is_refused_with_its_error_and_the_exam_ends(stage):
    stage.fails = True
    record = take(stage)
    assert record.refusal == "KeyError: 'x'."
    assert [phase.verdict for phase in record.phases] == ["refused", *["not run"] * 5]


@pytest.mark.parametrize(
    ("changes", "phase", "said"),
    [
        ({"hidden": 7}, "late", "keeps them: `rows` has 7 rows with events of D-05, D-11"),
        ({"files": 99}, "footprint", "A query opens 99 files for"),
        ({"cleaned": True}, "footprint", "3 commits ago fails: its files have been cleaned"),
        ({"lost": "means"}, "questions", "2 rows of `means` are missing"),
        ({"lost": "dead_letters"}, "deliver", "2 messages are in neither the table nor the dead"),
    ],
)
def test_each_phase_can_refuse(stage, changes, phase, said):
    vars(stage).update(changes)
    record = take(stage)
    (refused,) = [one for one in record.phases if one.verdict == "refused"]
    assert refused.name == phase and said in refused.message


def test_a_rehearsal_kills_nothing_and_delivers_all_but_version_2(stage):
    record = take(stage, phases=("deliver", "late", "questions"))
    assert record.passed and len(stage.processes) == 1
    assert VERSION_2 not in stage.course().delivered


def test_a_second_rehearsal_uses_the_tables_of_an_unchanged_build_and_no_other(stage):
    runs = []
    for build in (b"one", b"one", b"other"):
        with examiner(LAB, "iot", b"job", SEED, build, go_on=True) as stage.taken:
            assert stage.taken.run(("deliver", "late", "questions")).passed
        runs.append(stage.runs)
    assert runs == [2, 2, 4]
    assert len(stage.processes) == 1, "the process stays for the next exam"
    end_process(LAB)
    assert not stage.processes[0].alive


def test_an_interrupted_rehearsal_leaves_no_process(stage):
    with pytest.raises(KeyboardInterrupt), examiner(LAB, "iot", b"job", SEED) as stage.taken:
        stage.taken.call_build(FIRST)
        raise KeyboardInterrupt
    assert not stage.processes[0].alive
