"""Learners work on copies: updates reach untouched ones, and no answer is lost unasked."""

import pytest

from lab_env.course import copies
from lab_env.errors import LabError


@pytest.fixture
def course(tmp_path):
    lessons, work = tmp_path / "notebooks", tmp_path / "work"
    (lessons / "demos").mkdir(parents=True)
    for name in ("00_welcome.ipynb", "04_table.ipynb", "demos/snapshot.ipynb"):
        (lessons / name).write_text(f"{name}, first edition")
    assert copies.make_copies(lessons, work) == []
    return lessons, work


def test_every_lesson_has_a_copy(course):
    _, work = course
    names = sorted(str(path.relative_to(work)) for path in work.rglob("*.ipynb"))
    assert names == ["00_welcome.ipynb", "04_table.ipynb", "demos/snapshot.ipynb"]
    assert (work / "04_table.ipynb").read_text() == "04_table.ipynb, first edition"


def test_an_untouched_copy_follows_the_update(course):
    lessons, work = course
    (lessons / "04_table.ipynb").write_text("second edition")
    assert copies.make_copies(lessons, work) == []
    assert (work / "04_table.ipynb").read_text() == "second edition"


def test_a_copy_that_was_worked_on_is_kept_and_the_update_is_told(course):
    lessons, work = course
    (work / "04_table.ipynb").write_text("my answers")
    assert copies.make_copies(lessons, work) == []  # no update to tell of
    (lessons / "04_table.ipynb").write_text("second edition")
    assert copies.make_copies(lessons, work) == ["04_table.ipynb"]
    assert (work / "04_table.ipynb").read_text() == "my answers"
    assert copies.was_worked_on("04_table.ipynb", work)


def test_a_fresh_copy_replaces_one_lesson_only(course):
    lessons, work = course
    for name in ("00_welcome.ipynb", "04_table.ipynb"):
        (work / name).write_text("my answers")
    assert copies.renew("04", lessons, work).read_text() == "04_table.ipynb, first edition"
    assert not copies.was_worked_on("04_table.ipynb", work)
    assert (work / "00_welcome.ipynb").read_text() == "my answers"


def test_an_unknown_lesson_has_no_copy(course):
    with pytest.raises(LabError, match="There is no lesson '77'"):
        copies.renew("77", *course)


def test_lost_notes_lose_no_answers(course):
    lessons, work = course
    (work / ".origins.json").unlink()
    (work / "04_table.ipynb").write_text("my answers")
    copies.make_copies(lessons, work)
    assert (work / "04_table.ipynb").read_text() == "my answers"
