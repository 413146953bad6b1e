"""The capstone's examiner: good designs pass all six phases; bad ones fail with the reason.

Lesson 22's own answer is the third design: Merge-on-Read with buckets, variant iot. The bad
ones are that answer with at most three lines changed; each is examined up to the phase that refuses
it. One process serves all exams until a kill ends it.
"""

import json
from pathlib import Path

import pytest

from lab_env.course.registry import exercise
from lab_env.lab.handle import Lab, reset_lesson
from lab_env.lab.job.packing import pack
from lab_env.lessons.capstone.exam import PHASES, Exam, variant_named
from lab_env.platform.settings import REPOSITORY

DESIGNS = Path(__file__).with_name("capstone_designs")
SEED = 4_711
IMPORTS = """
import os
from pathlib import Path
from pyspark.sql import functions as F
SEEN = Path({seen!r})
"""
QUICK = "insert"  # the mistake that `make test` tries; `make prove` tries all
BAD = {
    "the day of arrival as partition": (
        ("deliver",),
        {'F.date_format("ts"': 'F.date_format("received_at"'},
        "keys of `readings` have more than one row",
    ),
    "the last write wins": (
        ("deliver", "late"),
        {'"hoodie.table.ordering.fields": "revision",\n': ""},
        "of `readings` show an older event",
    ),
    "insert": (
        ("deliver",),
        {
            'format("hudi").options': (
                'format("hudi").option("hoodie.datasource.write.operation", "insert").options'
            ),
            '"hoodie.index.type": "BUCKET",\n': "",
        },
        "every message became a row",
    ),
    "forgotten once": (
        ("deliver", "late"),
        {'gone = tables.load(f"{base}/forgotten")': "gone = valid.where(\"op = 'forget'\")"},
        "who must be forgotten for good",
    ),
    "a new checkpoint at the end of the topic": (
        ("deliver", "kill"),
        {
            'f"{base}/_checkpoint"': 'f"{base}/_checkpoint-{os.getpid()}"',
            '"startingOffsets", "earliest"': '"startingOffsets", begin',
            "def build(spark, source, base):\n": (
                "def build(spark, source, base):\n"
                "    begin = 'latest' if SEEN.exists() else SEEN.touch() or 'earliest'\n"
            ),
        },
        "messages after the kill were never read",
    ),
}


@pytest.fixture(scope="module")
def lab(services):
    handle = Lab("capstone", services)
    yield handle
    reset_lesson("capstone")


@pytest.fixture(scope="module")
def warm():
    """List for the process that one exam leaves for the next; holds at most one."""
    kept = []
    yield kept
    for process in kept:
        process.kill()


def lesson_answer(seen: Path) -> str:
    """Return the code of lesson 22's reference answers.

    Args:
        seen: a file that a bad solution may create.
    """
    notebook = json.loads((REPOSITORY / "solutions" / "22_capstone.ipynb").read_text())
    cells = ("".join(cell["source"]) for cell in notebook["cells"])
    options = next(cell for cell in cells if cell.startswith("SMALL_TABLE"))
    answers = (exercise(f"22.{number}").solution for number in (1, 2, 3))
    return "\n\n".join([IMPORTS.format(seen=str(seen)), options, *answers])


def job_of(code: str) -> bytes:
    """Return the functions that the code defines, packed the way the notebook submits them."""
    names: dict = {"__name__": "__main__"}
    exec(compile(code, "<design>", "exec"), names)
    return pack(build=names["build"], answers=names["answers"])


def examine(lab, warm, variant, code, phases=PHASES):
    """Run an exam in the warm process, which stays for the next exam; return the exam's record."""
    process = warm.pop() if warm else None
    exam = Exam(lab, variant_named(variant), job_of(code), SEED, process=process)
    try:
        return exam.run(phases)
    finally:
        if exam.process is not None:
            warm.append(exam.process)


@pytest.mark.parametrize(
    "mistake",
    [QUICK, *(pytest.param(m, marks=pytest.mark.proof("capstone")) for m in BAD if m != QUICK)],
)
def test_a_bad_solution_is_refused_with_its_own_message(lab, warm, tmp_path, mistake):
    phases, changes, message = BAD[mistake]
    code = lesson_answer(tmp_path / "seen")
    for old, new in changes.items():
        assert old in code, old
        code = code.replace(old, new)
    record = examine(lab, warm, "iot", code, phases)
    assert message in record.refusal
    assert not record.passed


@pytest.mark.proof("capstone")
@pytest.mark.parametrize("design", ["fraud_record_index", "clickstream_merge"])
def test_another_right_design_passes_all_six_phases(lab, warm, design):
    code = (DESIGNS / f"{design}.py").read_text()
    record = examine(lab, warm, design.partition("_")[0], code)
    assert record.passed, record.refusal
    assert record.visible == "none"
    assert len(record.biography) >= 2
