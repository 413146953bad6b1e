"""A user's commands in a clone: `make site`, `make clean`, and `lab reset` on a lesson's copy.

The clone has the code of this repository, a course of two tiny lessons, and a ready `.venv`: its
Python finds this repository's packages and the clone's own `lab_env`.
"""

import os
import pty
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from small_site import course, execute, write_lesson

from lab_env.course.authoring.build import Tree
from lab_env.platform.processes.environment import MARK
from lab_env.platform.processes.state import MARKER, folder
from lab_env.platform.settings import REPOSITORY
from lab_env.shop.ledger.book import ledger_directory

LAB = '#!/bin/sh\nexec "$(dirname "$0")/python" -I -m lab_env.cli "$@"\n'
OWN_CODE = ("lab_env", "Makefile", "pyproject.toml", "requirements.lock")


class Clone:
    """A clone that is set up, with a course of two tiny lessons."""

    def __init__(self, root: Path):
        self.root = root
        root.mkdir()
        for name in OWN_CODE:
            source = REPOSITORY / name
            (shutil.copytree if source.is_dir() else shutil.copy2)(source, root / name)
        self.tree: Tree = course(root)
        self._make_venv()

    def _make_venv(self) -> None:
        """Make a `.venv` in which `make setup` finds nothing to do."""
        venv = self.root / ".venv"
        packages = Path(sysconfig.get_path("purelib"))
        own_packages = venv / packages.relative_to(sys.prefix)
        own_packages.mkdir(parents=True)
        (own_packages / "clone.pth").write_text(f"{self.root}\n{packages}\n")
        shutil.copy2(Path(sys.prefix) / "pyvenv.cfg", venv)
        (venv / "bin").mkdir()
        (venv / "bin" / "python").symlink_to(Path(sys.executable).resolve())
        (venv / "bin" / "lab").write_text(LAB)
        (venv / "bin" / "lab").chmod(0o755)
        install = self.root / "lab_env" / "platform" / "install"
        bootstrap = runpy.run_path(str(install / "bootstrap.py"))
        (venv / "complete").write_text(bootstrap["_expected_stamp"]())

    def make(self, target: str, **variables: str) -> subprocess.CompletedProcess:
        """Run `make` for a user whose only lab variable is the cache."""
        cache = {name: value for name, value in os.environ.items() if name == "LAB_CACHE"}
        unset = ("LAB_", "MAKE", "MFLAGS")
        environment = {k: v for k, v in os.environ.items() if not k.startswith(unset)}
        return subprocess.run(
            ["make", f"PYTHON={sys.executable}", target],
            cwd=self.root,
            env=environment | cache | variables,
            capture_output=True,
            text=True,
            timeout=120,
        )


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Clone:
    """A clone in a path with a space."""
    return Clone(tmp_path_factory.mktemp("make") / "a clone")


# make site --------------------------------------------------------------------------------------


def test_make_site_builds_from_executed_notebooks_and_refuses_a_changed_one(clone):
    cells = [new_markdown_cell("# 02 · Two?"), new_code_cell("2 + 2")]
    write_lesson(clone.tree, "02_two", cells)
    refused = clone.make("site")
    assert refused.returncode != 0
    assert "solutions/02_two.ipynb was changed after it was executed" in refused.stderr
    assert "Next step: run: make test" in refused.stderr
    assert not clone.tree.site.exists()
    execute(clone.tree, "02_two")
    built = clone.make("site")
    assert built.returncode == 0, built.stdout + built.stderr
    assert f"2 notebooks and the guides: open {clone.tree.site}/index.html" in built.stdout
    page = clone.tree.site / "solutions" / "02_two.html"
    assert "a drawn table" in page.read_text()  # an output: nothing ran now


# make clean -------------------------------------------------------------------------------------


def test_make_clean_ends_the_lab_and_removes_all_but_the_cache(tmp_path):
    clone = Clone(tmp_path / "a clone")
    home, cache = clone.root / ".lab", tmp_path / "a cache"
    for kept_in in (home / "minio", home / "kafka", home / "ledger", cache / "jars"):
        kept_in.mkdir(parents=True)
        (kept_in / "data").touch()
    (home / MARKER).touch()
    program = subprocess.Popen(["sleep", "600"], env=os.environ | {MARK: str(home)})
    try:
        done = clone.make("clean", LAB_CACHE=str(cache))
        assert done.returncode == 0, done.stdout + done.stderr
        assert program.wait(10) != 0
    finally:
        program.kill()
        program.wait()
    assert not (clone.root / ".venv").exists()
    assert not (clone.root / "build").exists()
    assert {path.name for path in home.iterdir()} == {"run", MARKER}
    assert (cache / "jars" / "data").exists()
    assert (clone.root / "solutions" / "01_one.ipynb").exists()


# lab reset --------------------------------------------------------------------------------------


@pytest.fixture
def worked_on(clone, services) -> Path:
    """Path of a learner's copy of lesson 01 with an answer; an earlier run's ledger exists."""
    lessons = clone.tree.learner
    lessons.mkdir(exist_ok=True)
    nbformat.write(new_notebook(cells=[new_code_cell("answer = ...")]), lessons / "01_one.ipynb")
    copy = clone.root / "work" / "01_one.ipynb"
    copy.parent.mkdir(exist_ok=True)
    nbformat.write(new_notebook(cells=[new_code_cell("answer = 42")]), copy)
    ledger_directory("lesson-01.orders").mkdir(parents=True, exist_ok=True)
    return copy


def reset(clone: Clone, *options: str, answer: str | None) -> tuple[int, str]:
    """Run `lab reset 01` on this run's lab; return exit status and output.

    Args:
        answer: text typed at the terminal; None to run without a terminal.
    """
    keyboard, terminal = pty.openpty()
    if answer:
        os.write(keyboard, f"{answer}\n".encode())
    try:
        done = subprocess.run(
            [clone.root / ".venv" / "bin" / "lab", "reset", "01", *options],
            stdin=terminal if answer else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=os.environ | {"LAB_WORK": str(clone.root / "work")},
            text=True,
            timeout=60,
        )
    finally:
        os.close(keyboard)
        os.close(terminal)
    return done.returncode, done.stdout


QUESTION = "Your copy of lesson 01 has work of yours in it. Discard it?"


@pytest.mark.services
@pytest.mark.parametrize("answer", ["n", None])
def test_reset_without_consent_keeps_the_work_and_clears_nothing(clone, worked_on, answer):
    status, output = reset(clone, answer=answer)
    assert status != 0
    assert QUESTION in output
    assert ("lab reset 01 --yes" in output) == (answer is None)
    assert "answer = 42" in worked_on.read_text()
    assert (folder("ledger") / "lesson-01.orders").exists()


@pytest.mark.services
@pytest.mark.parametrize(("options", "answer"), [([], "y"), (["--yes"], None)])
def test_reset_with_consent_gives_a_fresh_copy(clone, worked_on, options, answer):
    status, output = reset(clone, *options, answer=answer)
    assert status == 0, output
    assert (QUESTION in output) == (answer == "y")
    assert re.search(r"lesson-01: removed .*1 ledger\.", output), output
    assert "answer = 42" not in worked_on.read_text()
    assert not (folder("ledger") / "lesson-01.orders").exists()
