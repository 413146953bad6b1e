"""`lab` without an argument shows the state of each program and one sensible next step."""

import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from lab_env.cli import _status_table
from lab_env.course.jupyterlab.running import RunningJupyterLab
from lab_env.course.next_step import next_step, typed
from lab_env.course.progress import CourseProgress
from lab_env.course.registry import lessons
from lab_env.platform.services import ServiceStatus


def said(*passed: str, tried: str = "", state: str = "stopped", of: str = "minio", **facts) -> str:
    """Return the next step after these exercises were passed in turn, and one was tried."""
    kept = {
        name: {"outcome": "passed", "at": f"2026-01-01T00:00:{second:02}"}
        for second, name in enumerate(passed)
    }
    if tried:
        kept[tried] = {"outcome": "wrong", "at": "2026-01-02"}
    rows = [ServiceStatus("kafka", "stopped"), ServiceStatus(of, state)]
    course = CourseProgress(lessons(), {"exercises": kept, "predictions": {}})
    return next_step(rows, course, **facts)


def all_of(number: str) -> list[str]:
    return [exercise.id for exercise in lessons()[number].exercises]


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (said(), "lab jupyter, then begin with lesson 00, exercise 00.1"),
        (said("00.1"), "lab jupyter, then go on with lesson 00, exercise 00.2"),
        (said(tried="05.2"), "then go on with lesson 05, exercise 05.1"),  # who began elsewhere
        (said(*all_of("05")), "then go on with lesson 06, exercise 06.1"),
        (said(*all_of("22")), "then go on with lesson 00, exercise 00.1"),
        (said(*(name for number in lessons() for name in all_of(number))), "lab certificate;"),
        (said(state="fatal"), "lab doctor says what is wrong with minio"),
        (said(state="not ready: it does not answer"), "lab doctor says what is wrong with minio"),
        (
            said(state="fatal", of="writer-lesson-17"),
            "lab logs writer-lesson-17 says what is wrong",
        ),
        (said(state="fatal", needs_setup=True), "make setup;"),  # without its jars nothing starts
    ],
)
def test_the_next_step_follows_from_what_was_done(step, expected):
    assert expected in step


def test_where_jupyterlab_runs_its_page_of_the_lesson_is_named_and_no_second_one():
    running = RunningJupyterLab("http://127.0.0.1:8888", "secret")
    step = said("05.1", jupyterlab=running)
    assert step.startswith("go on with lesson 05, exercise 05.2") and "lab jupyter" not in step
    assert step.endswith("http://127.0.0.1:8888/lab/tree/work/05_cow_and_mor.ipynb?token=secret")


def test_a_command_has_its_folder_unless_that_is_on_the_path(monkeypatch, tmp_path):
    program = tmp_path / "lab"  # another one, of that name
    program.touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert typed("up") == ".venv/bin/lab up"
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    assert typed("up") == "lab up"


def test_lab_alone_shows_the_state_and_the_next_step(lab_command, tmp_path):
    done = lab_command(LAB_PROGRESS=str(tmp_path / "none.json"), LAB_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("service ")
    assert "lab jupyter, then begin with lesson 00" in done.stdout
    assert "lab --help" in done.stdout


def test_the_state_of_each_program_is_whole_at_80_columns():
    console = Console(file=StringIO(), width=80)
    facts = {"pid": 123456, "uptime": 12345.0, "memory_mb": 1234.0}
    row = ServiceStatus("writer-tour-pipeline", "ready", "http://127.0.0.1:9002", **facts)
    console.print(_status_table([row, replace(row, restarts=2)]))
    shown = console.file.getvalue()
    assert shown.count(" ready") == 2 and "ready, 2 " in shown
    assert max(map(len, shown.splitlines())) <= 80 and "…" not in shown


def test_where_set_up_did_not_come_to_its_end_it_is_the_next_step(lab_command, tmp_path):
    done = lab_command(LAB_CACHE=str(tmp_path / "cache"), LAB_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "Next step: make setup;" in done.stdout
