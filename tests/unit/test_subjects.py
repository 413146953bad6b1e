"""The subjects of `make prove`: their tests, their paths, and the places that repeat the list."""

import re

import pytest
import yaml
from subjects import SUBJECTS

from lab_env.platform.settings import REPOSITORY

PATHS = {path for subject in SUBJECTS.values() for path in subject.paths}


def test_each_subject_has_a_test_and_each_mark_a_subject():
    files = (REPOSITORY / "tests").rglob("*.py")
    marked = {name for file in files for name in re.findall(r'proof\("(\w+)"\)', file.read_text())}
    assert marked == SUBJECTS.keys()


@pytest.mark.parametrize("path", sorted(PATHS))
def test_a_path_exists(path):
    assert (REPOSITORY / path).is_dir() if path.endswith("/") else (REPOSITORY / path).is_file()


def test_a_push_that_changes_a_path_runs_the_proofs():
    workflow = yaml.safe_load((REPOSITORY / ".github/workflows/prove.yml").read_text())
    pushed = workflow[True]["push"]["paths"]  # YAML reads `on` as true
    assert sorted(pushed) == sorted(f"{p}**" if p.endswith("/") else p for p in PATHS)
    assert "schedule" in workflow[True]
    assert workflow["jobs"]["prove"]["steps"][-1] == {"run": "make prove"}


def test_contributing_lists_them():
    page = (REPOSITORY / "CONTRIBUTING.md").read_text()
    for name, subject in SUBJECTS.items():
        paths = ", ".join(f"`{path}`" for path in subject.paths)
        assert f"| `{name}` | {subject.shows} | {paths} |" in page
