"""Ways through the course, and a lesson's exercises alone."""

import pytest

from lab_env.course import copies, paths, progress
from lab_env.course.progress import CourseProgress
from lab_env.course.registry import lessons
from lab_env.course.sections import is_proof, notebook_of, sections
from lab_env.course.testout import exercises_alone
from lab_env.platform.errors import LabError

WAYS = paths.ways(lessons())


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_step_names_sections_and_exercises_that_exist(way):
    for step in way.steps:
        entry = step.lesson
        known = {section.name[2:] for section in sections(entry.number)}
        assert set(step.sections) <= known
        assert set(step.given) <= {exercise.id for exercise in entry.exercises}
        assert 0 < step.minutes <= entry.teach + entry.do
        assert step.exercises


def test_a_day_takes_six_to_eight_hours_and_the_week_contains_it():
    assert 6 <= WAYS["day"].hours <= 8
    day, week = ({step.lesson.number for step in WAYS[name].steps} for name in ("day", "week"))
    assert day < week < lessons().keys()


def test_the_chosen_way_is_kept_and_its_open_steps_are_those_to_solve(tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "progress_file", lambda: tmp_path / "progress.json")
    way = paths.choose("day", lessons())
    assert progress.read()["path"] == "day"
    with pytest.raises(LabError, match="no path 'month'"):
        paths.choose("month", lessons())
    first, second, *_ = way.steps
    done = {name: {"outcome": "passed"} for name in first.exercises}
    course = CourseProgress(lessons(), {"exercises": done, "predictions": {}})
    assert paths.open_steps(way, course)[0] == second
    assert second.first == "01a" and "01.3" not in second.exercises


@pytest.mark.parametrize("lesson", lessons())
def test_exercises_alone_run_the_lessons_own_cells_and_show_only_tasks(lesson):
    notebook = notebook_of(lesson)
    code = [c.source for c in notebook.cells if c.cell_type == "code" and not is_proof(c)]
    alone = exercises_alone(notebook, copies.name_of(lesson)).cells
    assert [c.source for c in alone if c.cell_type == "code"] == code
    shown = [
        c for c in alone if c.cell_type == "code" and "given" not in c.metadata.get("tags", [])
    ]
    text = "\n".join(c.source for c in shown)
    for exercise in lessons()[lesson].exercises:
        assert f'lab.check("{exercise.id}"' in text
    assert sum(c.cell_type == "markdown" for c in alone) == 1 + len(lessons()[lesson].exercises)
