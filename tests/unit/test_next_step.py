"""What `lab` says without an argument: what runs, and one next step that makes sense."""

import pytest

from lab_env.course.progress import CourseProgress
from lab_env.course.registry import lessons
from lab_env.next_step import next_step
from lab_env.services import ServiceStatus


def said(*passed: str, tried: str = "", state: str = "stopped") -> str:
    """The next step after some exercises were passed, one after the other, and one was tried."""
    kept = {
        name: {"outcome": "passed", "at": f"2026-01-01T00:00:{second:02}"}
        for second, name in enumerate(passed)
    }
    if tried:
        kept[tried] = {"outcome": "wrong", "at": "2026-01-02"}
    rows = [ServiceStatus("minio", state), ServiceStatus("kafka", "stopped")]
    return next_step(rows, CourseProgress(lessons(), {"exercises": kept, "predictions": {}}))


def all_of(number: str) -> list[str]:
    return [exercise.id for exercise in lessons()[number].exercises]


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (said(), "lab jupyter, then begin with lesson 00, exercise 00.1:"),
        (said("00.1"), "lab jupyter, then go on with lesson 00, exercise 00.2:"),
        (said(tried="05.2"), "then go on with lesson 05, exercise 05.1:"),  # who began elsewhere
        (said(*all_of("05")), "then go on with lesson 06, exercise 06.1:"),
        (said(*all_of("22")), "then go on with lesson 00, exercise 00.1:"),
        (said(state="fatal"), "lab doctor says what is wrong with minio"),
        (said(state="not ready: it does not answer"), "lab doctor says what is wrong with minio"),
    ],
)
def test_the_next_step_follows_from_what_was_done(step, expected):
    assert expected in step


def test_who_has_passed_everything_has_the_certificate_left():
    assert said(*(name for number in lessons() for name in all_of(number))).startswith(
        "lab certificate"
    )


def test_lab_alone_shows_the_state_and_the_next_step(lab_command, tmp_path):
    done = lab_command(LAB_PROGRESS=str(tmp_path / "none.json"), LAB_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("service ")
    assert "Next step: lab jupyter, then begin with lesson 00" in done.stdout
    assert "lab --help" in done.stdout
