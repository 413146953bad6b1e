"""Learners work on copies: an update replaces unchanged ones, and never overwrites answers."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier, BrokenBarrierError

import pytest
from jupyter_client.kernelspec import get_kernel_spec

from lab_env.course import copies
from lab_env.platform.errors import LabError


def write(path: Path, text: str, **metadata) -> None:
    path.write_text(json.dumps({"cells": [{"source": text}], "metadata": metadata}))


def read(path: Path) -> str:
    return json.loads(path.read_text())["cells"][0]["source"]


@pytest.fixture
def course(tmp_path, configure, monkeypatch):
    lessons, work = tmp_path / "notebooks", tmp_path / "work"
    configure(work=work)
    monkeypatch.setattr(copies, "LESSONS", lessons)
    (lessons / "demos").mkdir(parents=True)
    for name in ("00_welcome.ipynb", "04_table.ipynb", "demos/snapshot.ipynb"):
        write(lessons / name, f"{name}, first edition")
    assert copies.make_copies() == []
    return lessons, work


def test_every_lesson_has_a_copy(course):
    _, work = course
    names = sorted(str(path.relative_to(work)) for path in work.rglob("*.ipynb"))
    assert names == ["00_welcome.ipynb", "04_table.ipynb", "demos/snapshot.ipynb"]
    assert read(work / "04_table.ipynb") == "04_table.ipynb, first edition"


def test_a_copy_that_was_worked_on_is_kept_and_the_update_is_told(course):
    lessons, work = course
    write(work / "04_table.ipynb", "my answers")
    assert copies.make_copies() == []  # no update to tell of
    write(lessons / "04_table.ipynb", "second edition")
    assert copies.make_copies() == ["04_table.ipynb"]
    assert read(work / "04_table.ipynb") == "my answers"
    assert copies.was_worked_on("04_table.ipynb")


def test_a_fresh_copy_replaces_one_lesson_only(course):
    _, work = course
    for name in ("00_welcome.ipynb", "04_table.ipynb"):
        write(work / name, "my answers")
    assert read(copies.renew("04")) == "04_table.ipynb, first edition"
    assert not copies.was_worked_on("04_table.ipynb")
    assert read(work / "00_welcome.ipynb") == "my answers"
    with pytest.raises(LabError, match="There is no lesson '77'"):
        copies.renew("77")


def test_lost_notes_lose_no_answers(course):
    _, work = course
    (work / ".origins.json").unlink()
    write(work / "04_table.ipynb", "my answers")
    copies.make_copies()
    assert read(work / "04_table.ipynb") == "my answers"


def test_two_commands_that_copy_at_the_same_time_lose_nothing(course, monkeypatch):
    _, work = course
    (work / ".origins.json").unlink()
    replace, both = copies._replace, Barrier(2)

    def replace_together(path, text):
        with suppress(BrokenBarrierError):
            both.wait(0.2)
        replace(path, text)

    monkeypatch.setattr(copies, "_replace", replace_together)
    names = ["00_welcome.ipynb", "04_table.ipynb"]
    with ThreadPoolExecutor() as commands:
        list(commands.map(copies.take, names))
    assert [copies.was_worked_on(name) for name in names] == [False, False]


def test_a_copy_names_its_kernel_as_jupyterlab_would(course):
    _, work = course
    metadata = json.loads((work / "04_table.ipynb").read_text())["metadata"]
    assert metadata["kernelspec"]["display_name"] == get_kernel_spec("python3").display_name
    assert metadata["language_info"]["version"] == sys.version.split()[0]


def test_a_saved_copy_with_the_same_cells_is_untouched(course):
    lessons, work = course
    write(work / "04_table.ipynb", "04_table.ipynb, first edition", saved="by JupyterLab")
    assert not copies.was_worked_on("04_table.ipynb")
    write(lessons / "04_table.ipynb", "second edition")
    assert copies.make_copies() == []
    assert read(work / "04_table.ipynb") == "second edition"
