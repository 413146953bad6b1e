"""Rules for proof cells and for demos: every violation is reported."""

import json
from pathlib import Path

import pytest

from lab_env.course.authoring.build import notebook
from lab_env.course.authoring.demo_rules import demo_sources, problems_of_demo, slide_type
from lab_env.course.authoring.proof_rules import problems_of_proofs
from lab_env.course.source import LESSONS, Lesson, read_lesson

FRONT = "# ---\n# title: A\n# ---\n\n"


def lesson(folder: Path, text: str) -> Lesson:
    path = folder / "snapshot.py"
    path.write_text(text)
    return read_lesson(path)


def test_a_proof_is_a_collapsed_cell_with_its_claim(tmp_path):
    cell = '# %% name="three" proof="Three, as \\"they\\" say."\nx = 3\nassert x == 3\n'
    source = lesson(tmp_path, FRONT + cell)
    for worked in (True, False):
        (cell,) = json.loads(notebook(source, worked))["cells"]
        assert cell["id"] == "three"
        assert "".join(cell["source"]) == (
            'with lab.proof("Three, as \\"they\\" say."):\n    x = 3\n    assert x == 3'
        )
        assert cell["metadata"] == {
            "tags": ["proof", "hide-input"], "jupyter": {"source_hidden": True},
        }  # fmt: skip
    assert slide_type(source.cells[0]) == "skip"  # a slide shows no proof


PROOF = '# %% proof="It holds."\n'


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ("# %%\nrows = 3\nassert rows == 3\n", "Move this assertion to a cell of its own"),
        ("# %%\ndef f(x):\n    assert x\n", "Move this assertion to a cell of its own"),
        ("# %%\npd.testing.assert_frame_equal(a, b)\n", "Move this assertion to a cell of its own"),
        ('# %% exercise="77.1"\nx = 1  # SOLUTION\nassert x\n', "Move this assertion to a cell"),
        ("# %%\nif rows != 3:\n    raise ValueError\n", "does not raise by itself"),
        (PROOF + "rows == 3\n", "A proof cell asserts something."),
        ('# %% [markdown] proof="It holds."\n# assert\n', "A proof is a code cell of its own."),
        (PROOF + "assert rows\nprint(rows)\n", "move print() out of it"),
        (PROOF + "assert rows\nlab.record_actual('77.p1', 3)\n", "move record_actual() out of it"),
        (PROOF + "assert rows.cache().count()\n", "move cache() out of it"),
        (PROOF + "spark.sql('CREATE VIEW v AS SELECT 1')\nassert rows\n", "move CREATE out of it"),
        (PROOF + "rows = 3\nassert rows\n\n# %%\nrows + 1\n", "uses 'rows' from a proof cell"),
        ("# %%\nrow = 1\n\n" + PROOF + "for row in rows:\n    assert row\n\n# %%\nrow\n", "'row'"),
        (PROOF + "import os\nassert os\n\n# %%\nos.name\n", "uses 'os' from a proof cell"),
    ],
)
def test_a_broken_rule_of_proofs_is_named(tmp_path, cells, message):
    (problem,) = problems_of_proofs(lesson(tmp_path, FRONT + cells))
    assert message in problem.what


@pytest.mark.parametrize(
    "cells",
    [
        PROOF + "rows = 3\nassert rows\n\n# %%\nrows = 4\nrows\n",
        PROOF + "rows = 3\nassert rows\n\n" + PROOF + "assert rows\n",
        PROOF + "assert all(row for row in rows)\n\n# %%\nrow\n",
        PROOF + "for row in rows:\n    assert row\n\n# %%\n[row for row in rows]\n",
        PROOF + "for row in rows:\n    assert row\n\n# %%\ndef f(row):\n    return row\n",
        '# %% tags=["teaches-assert"]\nassert rows\n',
        "# %%\ndef f(x):\n    raise ValueError(x)\n",
        "# %%\n%%writefile job.py\nassert True\n",
        '# %% wrong="77.1"\n# expect: x\nassert rows\n',
    ],
)
def test_what_the_rules_allow(tmp_path, cells):
    assert list(problems_of_proofs(lesson(tmp_path, FRONT + cells))) == []


PROOF_OF_SNAPSHOT = '# %% proof="The write made one log and no base file."'
SNAPSHOT = (LESSONS / "demos" / "snapshot.py").read_text()


def test_there_are_six_demos_and_all_keep_the_rules():
    demos = [read_lesson(path) for path in demo_sources(LESSONS)]
    names = ["cdc", "exactly-once", "incremental", "read-optimised", "snapshot", "time-travel"]
    assert [demo.name for demo in demos] == names
    assert [problem for demo in demos for problem in problems_of_demo(demo)] == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('lesson: "09"', 'hour: "09"', "The front matter of a demo needs"),
        ("# # Demo · Who", "# # Who", "The first cell begins with the heading"),
        ("demo-snapshot", "demo-other", 'No cell calls Lab.start("demo-snapshot")'),
        ("## The twist", "## The turn", "The headings of a demo are"),
        ("assert in_the_log", "in_the_log", "A proof cell asserts something"),
        (PROOF_OF_SNAPSHOT, "# %%\n1\n\n" + PROOF_OF_SNAPSHOT, "and a proof cell right after it"),
        ('name="decisive"', "", "one code cell with name"),
        ("**Common error:**", "Error:", "need **Common error:**"),
        ("# %%\ndef status", '# %% exercise="09.1"\nseen[', "A demo has no exercise"),
    ],
)
def test_a_broken_rule_of_demos_is_named(tmp_path, old, new, said):
    assert old in SNAPSHOT
    demo = lesson(tmp_path, SNAPSHOT.replace(old, new))
    found = "\n".join(map(str, problems_of_demo(demo)))
    assert said.lower() in found.lower()
