"""Committed notebooks match their sources, have no outputs, and are all collected by pytest.

The plugin `lab_env.course.authoring.pytest_plugin` checks the outcomes of their exercises while
nbmake runs them.
"""

import json
import os
import subprocess
import sys

import pytest
from own_lab import allowed

from lab_env.course.authoring.build import COURSE
from lab_env.course.checking import checks_of_lesson
from lab_env.course.copies import known_demos
from lab_env.course.registry import lessons

NOTEBOOKS = sorted([*COURSE.learner.rglob("*.ipynb"), *COURSE.worked.rglob("*.ipynb")])


def test_every_lesson_and_demo_keeps_the_template():
    command = [sys.executable, "-m", "lab_env.cli", "author", "check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=allowed(60))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_committed_notebook_carries_no_outputs(path):
    code = [c for c in json.loads(path.read_text("utf-8"))["cells"] if c["cell_type"] == "code"]
    assert code
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in code)


@pytest.mark.parametrize("number", lessons())
def test_exercises_and_checks_have_the_same_ids(number):
    declared = {exercise.id for exercise in lessons()[number].exercises}
    assert set(checks_of_lesson(number)) == declared != set()


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
    name = f"demos/{demo.removeprefix('demo-')}.ipynb"
    clean, worked = (
        [
            c["source"]
            for c in json.loads(path.read_text("utf-8"))["cells"]
            if c["cell_type"] == "code"
        ]
        for path in (COURSE.learner / name, COURSE.worked / name)
    )
    assert clean == worked != []
