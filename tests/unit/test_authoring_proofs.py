"""Proof cells: where assertions are allowed, and what a proof may do."""

import json

import pytest

from lab_env.course.authoring.build import notebook
from lab_env.course.authoring.demo_rules import slide_type
from lab_env.course.authoring.proof_rules import problems_of_proofs
from lab_env.course.source import Lesson, read_lesson

FRONT = "# ---\n# title: A\n# ---\n\n"


@pytest.fixture
def lesson(tmp_path):
    def read(cells: str) -> Lesson:
        path = tmp_path / "77_sample.py"
        path.write_text(FRONT + cells)
        return read_lesson(path)

    return read


def test_a_proof_is_a_collapsed_cell_with_its_claim(lesson):
    source = lesson('# %% name="three" proof="Three, as \\"they\\" say."\nx = 3\nassert x == 3\n')
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
def test_a_broken_rule_of_proofs_is_named(lesson, cells, message):
    (problem,) = problems_of_proofs(lesson(cells))
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
def test_what_the_rules_allow(lesson, cells):
    assert list(problems_of_proofs(lesson(cells))) == []
