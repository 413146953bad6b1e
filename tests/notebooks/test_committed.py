"""Committed notebooks match their sources, without outputs, and pytest collects them all.

The plugin `lab_env.course.authoring.pytest_plugin` checks the outcomes of their exercises while
nbmake runs them.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from own_lab import allowed

from lab_env.course.authoring.build import COURSE
from lab_env.course.copies import known_demos
from lab_env.course.registry import lessons

NOTEBOOKS = sorted([*COURSE.learner.rglob("*.ipynb"), *COURSE.worked.rglob("*.ipynb")])


def test_every_lesson_and_demo_keeps_the_template():
    command = [sys.executable, "-m", "lab_env.cli", "author", "check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=allowed(60))
    assert done.returncode == 0, done.stderr


def test_pytest_collects_every_notebook_on_disk():
    command = [sys.executable, "-m", "pytest", "--nbmake", "--collect-only", "-q"]
    # Without what the caller adds: another verbosity lists them in another way.
    plain = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    done = subprocess.run(
        [*command, "notebooks", "solutions"],
        cwd=COURSE.root, env=plain, capture_output=True, text=True, timeout=allowed(120),
    )  # fmt: skip
    collected = {line.split("::")[0] for line in done.stdout.splitlines() if ".ipynb::" in line}
    # A worked demo has the code of its clean notebook, so only that one runs.
    run = {path for path in NOTEBOOKS if path.parent != COURSE.worked / "demos"}
    assert collected == {str(path.relative_to(COURSE.root)) for path in run}
    assert len(collected) == 2 * len(lessons()) + len(known_demos()) > len(known_demos()) > 0


@pytest.mark.parametrize("demo", known_demos())
def test_a_worked_demo_has_the_code_of_the_demo_that_runs(demo):
    def code(folder: Path) -> list[str]:
        text = (folder / "demos" / f"{demo.removeprefix('demo-')}.ipynb").read_text("utf-8")
        return [c["source"] for c in json.loads(text)["cells"] if c["cell_type"] == "code"]

    assert code(COURSE.learner) == code(COURSE.worked) != []
