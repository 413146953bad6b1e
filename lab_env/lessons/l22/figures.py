"""The examiner as a notebook meets it: the requirements, the exam with its cards, a key's life."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache

import pandas as pd

from lab_env.capstone import certificate
from lab_env.capstone.exam import PHASES, Exam, Phase, Record, fresh_seed, variant_named
from lab_env.capstone.job import pack
from lab_env.capstone.process import JobProcess
from lab_env.capstone.story import DEAD_LETTERS, FIRST, VERSION_2, Variant
from lab_env.display.card import card
from lab_env.display.html import table

_waiting: dict[str, JobProcess] = {}  # by namespace: warm, for the next call


class Requirements:
    """What a variant's users want, as a page in the notebook.

    Args:
        variant: whose.
    """

    def __init__(self, variant: Variant):
        self.variant = variant

    def _repr_html_(self) -> str:
        variant = self.variant
        fields = table(("field", "meaning"), variant.fields.items(), align="left")
        asked = [(a.name, a.asks, ", ".join(a.columns)) for a in _answers(variant)]
        answers = table(("answer", "question", "columns"), asked, align="left")
        valid = "; ".join(variant.valid)
        note = f"{variant.wish}\n\n**Valid** is a message if {valid}.\n\n{variant.changes}"
        return card(variant.title, None, note=note) + fields + answers

    def __repr__(self) -> str:
        variant = self.variant
        lines = [variant.title, "", variant.wish, ""]
        lines += [f"{name}: {meaning}" for name, meaning in variant.fields.items()]
        lines += ["", f"Valid is a message if {'; '.join(variant.valid)}.", variant.changes, ""]
        lines += [f"{a.name} ({', '.join(a.columns)}): {a.asks}" for a in _answers(variant)]
        return "\n".join(lines)


def requirements(variant: str) -> Requirements:
    """What is wanted of a variant.

    Args:
        variant: clickstream, iot or fraud.
    """
    return Requirements(variant_named(variant))


def samples(variant: str, seed: int) -> list[tuple[str, str]]:
    """One message of each version and three malformed ones: what it is, and its text."""
    story = variant_named(variant).story(seed)
    found = []
    for delivery in (FIRST, VERSION_2):
        events = [sent for sent in story.deliveries[delivery] if sent.send.kind == "event"]
        found.append((delivery, events[0].send.value.decode()))
    bad = [sent for sent in story.deliveries[FIRST] if sent.event is None]
    return found + [(sent.send.kind, sent.send.value.decode()) for sent in bad[:3]]


class ExamResult:
    """An exam that was taken; shows its phases.

    Args:
        record: what is kept of it.
        answers: to the questions, as pandas tables; empty if they were not asked.
    """

    def __init__(self, record: Record, answers: dict[str, pd.DataFrame]):
        self.record, self.answers = record, answers

    @property
    def passed(self) -> bool:
        """Whether all six phases are passed."""
        return self.record.passed

    @property
    def life(self) -> pd.DataFrame:
        """Each message of one key, and what the table showed after its delivery."""
        return pd.DataFrame(self.record.biography)

    def _title(self) -> str:
        done = "passed" if self.passed else "not passed"
        return f"Exam {self.record.variant}, seed {self.record.seed}: {done}"

    def _repr_html_(self) -> str:
        return card(self._title(), self.passed) + certificate.phases_html(self.record)

    def __repr__(self) -> str:
        return f"{self._title()}\n{certificate.phases_text(self.record)}"


def sit_exam(
    lab, variant: str, build: Callable, answers: Callable, seed: int | None = None, note: str = ""
) -> ExamResult:
    """Take the exam: six phases, each reported when it is over.

    Args:
        lab: the lesson's handle.
        variant: clickstream, iot or fraud.
        build: the learner's.
        answers: the learner's.
        seed: of the events; a fresh one without it, which is printed.
        note: the decision note, for the record.
    """
    seed = fresh_seed() if seed is None else seed
    print(f"seed {seed}")

    def report(phase: Phase) -> None:
        print(f"{phase.name}: {phase.verdict} ({phase.seconds:.0f} s)")

    with examiner(lab, variant, pack(build, answers), seed, PHASES, report) as exam:
        record = exam.run(note)
    certificate.keep(record)
    stop_waiting(lab)
    return ExamResult(record, exam.answers)


@contextmanager
def examiner(
    lab,
    variant: str,
    job: bytes,
    seed: int,
    phases: tuple[str, ...] = PHASES,
    progress: Callable[[Phase], object] = lambda phase: None,
) -> Generator[Exam]:
    """An exam in the lesson's process, which stays warm for the next one."""
    process = _waiting.pop(lab.namespace, None)
    exam = Exam(lab, variant_named(variant), job, seed, progress, process, phases)
    try:
        yield exam
    except BaseException:
        exam.close()
        raise
    if exam.process is not None and exam.process.alive:
        _waiting[lab.namespace] = exam.process


def stop_waiting(lab) -> None:
    """End the lesson's process."""
    if process := _waiting.pop(lab.namespace, None):
        process.kill()


@cache
def _answers(variant: Variant):
    return (variant.rows, *variant.questions, DEAD_LETTERS)
