"""Runs the capstone exam from a notebook, and shows requirements, results and a key's history."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache

import pandas as pd

from lab_env.course.answers import Unreadable
from lab_env.course.checking import NotYet
from lab_env.course.exercises import REFERENCE
from lab_env.lab.job.packing import pack
from lab_env.lessons.capstone import certificate
from lab_env.lessons.capstone.exam import (
    PRACTICE_SEED,
    DeliverySchedule,
    Exam,
    Phase,
    Record,
    fresh_seed,
    variant_named,
)
from lab_env.lessons.capstone.story import DEAD_LETTERS, FIRST, VERSION_2, Variant
from lab_env.platform.display.card import card
from lab_env.platform.display.html import table

REFERENCE_VARIANT = "iot"  # of the lesson's reference answers
_kept: dict[str, tuple[bytes, Exam]] = {}  # by namespace: the last `build`, and its exam


class Requirements:
    """A variant's requirements: its events, its questions, and when a message is valid."""

    def __init__(self, variant: Variant):
        self.variant = variant

    def _repr_html_(self) -> str:
        variant = self.variant
        fields = table(("field", "meaning"), variant.fields.items(), align="left")
        asked = [(a.name, a.asks, ", ".join(a.columns)) for a in _answers(variant)]
        answers = table(("answer", "question", "columns"), asked, align="left")
        valid = "; ".join(variant.valid)
        note = f"{variant.wish}\n\nA message is **valid** if {valid}.\n\n{variant.changes}"
        return card(variant.title, None, note=note) + fields + answers

    def __repr__(self) -> str:
        variant = self.variant
        lines = [variant.title, "", variant.wish, ""]
        lines += [f"{name}: {meaning}" for name, meaning in variant.fields.items()]
        lines += ["", f"A message is valid if {'; '.join(variant.valid)}.", variant.changes, ""]
        lines += [f"{a.name} ({', '.join(a.columns)}): {a.asks}" for a in _answers(variant)]
        return "\n".join(lines)


def requirements(variant: str) -> Requirements:
    """Return the requirements of clickstream, iot or fraud."""
    return Requirements(variant_named(variant))


def samples(variant: str) -> list[tuple[str, str]]:
    """Return one message of each version and three malformed ones, each as its kind and text."""
    story = variant_named(variant).story(PRACTICE_SEED)
    found = []
    for version, delivery in (("version 1", FIRST), ("version 2", VERSION_2)):
        events = [sent for sent in story.deliveries[delivery] if sent.send.kind == "event"]
        found.append((version, events[0].send.value.decode()))
    bad = [sent for sent in story.deliveries[FIRST] if sent.event is None]
    return found + [(sent.send.kind, sent.send.value.decode()) for sent in bad[:3]]


class ExamResult:
    """The result of an exam, shown as its phases; `answers` has one table per question."""

    def __init__(self, record: Record, answers: dict[str, pd.DataFrame]):
        self.record, self.answers = record, answers

    @property
    def passed(self) -> bool:
        """True if all six phases passed."""
        return self.record.passed

    @property
    def life(self) -> pd.DataFrame:
        """The messages of one key, and the table's state after the delivery of each."""
        return pd.DataFrame(self.record.biography)

    def _title(self) -> str:
        done = "passed" if self.passed else "not passed"
        return f"Exam {self.record.variant}, seed {self.record.seed}: {done}"

    def _repr_html_(self) -> str:
        return card(self._title(), self.passed) + certificate.phases_html(self.record)

    def __repr__(self) -> str:
        return f"{self._title()}\n{certificate.phases_text(self.record)}"


def practice_topic(lab, variant: str) -> dict[str, str]:
    """Send the practice seed's first delivery to a new topic; return Spark's options to read it."""
    schedule = DeliverySchedule(lab, variant_named(variant).story(PRACTICE_SEED))
    schedule.deliver(FIRST)
    return schedule.source


def sit_exam(
    lab, variant: str, build: Callable, answers: Callable, seed: int | None = None, note: str = ""
) -> ExamResult:
    """Run the exam; print the seed, by default a random one, and each phase as it ends.

    The reference answers always take the exam of their own variant, and get no certificate. `note`
    is the learner's decision note, which is saved in the record.
    """
    code = getattr(answers, "__code__", None)
    is_reference = code is not None and code.co_filename.startswith(REFERENCE)
    if is_reference:
        variant = REFERENCE_VARIANT
        print(f"The reference answers for {variant!r} take this exam. It gives no certificate.")
    if not is_reference and not note.strip():
        print("There is no decision note: the certificate will have none.")
    seed = fresh_seed() if seed is None else seed
    print(f"seed {seed}")

    def report(phase: Phase) -> None:
        print(f"{phase.name}: {phase.verdict} ({phase.seconds:.0f} s)")

    job = pack(build=build, answers=answers)
    with examiner(lab, variant, job, seed, progress=report) as exam:
        record = exam.run(note=note)
    if not is_reference:
        certificate.keep(record)
    end_process(lab)
    return ExamResult(record, exam.answers)


@contextmanager
def examiner(
    lab,
    variant: str,
    job: bytes,
    seed: int = PRACTICE_SEED,
    build: bytes = b"",
    go_on: bool = False,
    progress: Callable[[Phase], object] = lambda phase: None,
) -> Generator[Exam]:
    """Yield an exam; its process, with a warm Spark session, is reused by the next one.

    Args:
        build: the pickled `build` alone.
        go_on: reuse the last exam's tables if they were written by the same `build`.
        progress: called with each phase as it ends.
    """
    last_build, last = _kept.pop(lab.namespace, (b"", None))
    process = last.process if last is not None else None
    same = last is not None and (last.variant.name, last.seed) == (variant, seed)
    if go_on and same and build == last_build and last.has_tables():
        exam = last
        exam.go_on(job)
    else:
        exam = Exam(lab, variant_named(variant), job, seed, progress, process)
    try:
        yield exam
    except (NotYet, Unreadable):
        _kept[lab.namespace] = b"", exam  # its process stays, its tables are not used again
        raise
    except BaseException:
        exam.close()
        raise
    _kept[lab.namespace] = build, exam


def end_process(lab) -> None:
    """Kill the process of the last exam."""
    _, exam = _kept.pop(lab.namespace, (b"", None))
    if exam is not None:
        exam.close()


@cache
def _answers(variant: Variant):
    return (variant.rows, *variant.questions, DEAD_LETTERS)
