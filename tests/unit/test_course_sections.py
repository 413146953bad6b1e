"""Sections of lessons: their numbers, and the cells that `lab goto` runs before each of them."""

import re

import pytest

from lab_env.course.sections import full_name, notebook_of, recorded_seconds, section, sections
from lab_env.course.source import Lesson, read_lesson, sources
from lab_env.platform.errors import LabError

LESSONS = {path.name[:2]: read_lesson(path) for path in sources()}


def source_cells_above(lesson: Lesson, title: str) -> list[str]:
    """Return the learner's code cells above a heading, read from the source; skip proof cells."""
    heading = re.compile(rf"^## {re.escape(title)}$", re.MULTILINE)
    end = next(n for n, cell in enumerate(lesson.cells) if heading.search(cell.text))
    return [
        cell.versions.stub
        for cell in lesson.cells[:end]
        if cell.kind == "code" and cell.shown and not cell.instructor and not cell.proof
    ]


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_section_is_entered_with_the_code_that_its_lesson_has_above_it(lesson):
    # In that order CI runs it, in a fresh kernel, as the learner's notebook.
    notebook = notebook_of(lesson)
    for found in sections(lesson):
        above = [cell.source for cell in found.cells_above(notebook)]
        assert above == source_cells_above(LESSONS[lesson], found.title) != []


@pytest.mark.parametrize("lesson", LESSONS)
def test_sections_are_numbered_and_have_each_exercise_once(lesson):
    known = sections(lesson)
    assert [found.name[2:] for found in known] == list("abcde")[: len(known)]
    exercises = [exercise for found in known for exercise in found.exercises]
    assert exercises == [cell.exercise for cell in LESSONS[lesson].cells if cell.exercise]
    assert {"Start", "Key points"}.isdisjoint(found.title for found in known)


def test_the_lessons_first_digit_can_be_left_out():
    wanted = {"4.2": "04.2", "6b": "06b", "7": "07", "04.2": "04.2", "12": "12", "12c": "12c"}
    assert {place: full_name(place) for place in wanted} == wanted


def test_what_is_no_section_is_refused_with_those_there_are():
    with pytest.raises(LabError, match=r"no section or exercise '06\.9'") as refused:
        section("06.9")
    assert "06a, 06b, 06c, 06d, 06.1, 06.2, 06.3, 06.4" in refused.value.next_step
    with pytest.raises(LabError, match="no lesson '66'"):
        section("66.1")


def test_recorded_seconds_are_those_of_sections_that_there_are():
    recorded = recorded_seconds()
    assert recorded
    assert recorded.keys() <= {found.name for lesson in LESSONS for found in sections(lesson)}
    for lesson in LESSONS:
        own = [recorded[name] for name in sorted(recorded) if name.startswith(lesson)]
        assert own == sorted(own)  # each section begins later than the one before it


def test_lab_goto_lists_the_sections_of_a_lesson_with_their_exercises(lab_command):
    listed = lab_command("goto", "07").stdout
    assert "not measured" not in listed
    assert re.search(r"07b +Sized while writing", listed)
    assert re.search(r"07c +Clustering.* 07\.2, 07\.3", listed)
    measured = lab_command("goto", "06").stdout
    assert "about 21 s" in measured and "quiet machine" in measured
    assert re.search(r"06a .* \d+ s", measured)
    recorded = {name[:2] for name in recorded_seconds()}
    unmeasured = lab_command("goto", min(LESSONS.keys() - recorded)).stdout
    assert "ready after" not in unmeasured and "not measured" not in unmeasured


def test_an_exercise_is_entered_at_its_own_heading():
    notebook, entered = notebook_of("00"), section("00.2")
    assert "### Exercise 00.2 ·" in notebook.cells[entered.cell].source
    above = [cell.source for cell in entered.cells_above(notebook)]
    assert 'lab.use_reference("00.1")' in above and 'lab.use_reference("00.2")' not in above
    assert entered.fragment == "#heading=Exercise-00.2-%C2%B7-What-did-the-table-say-before%3F"


@pytest.mark.parametrize("lesson", sorted(LESSONS.keys() - {"00", "22"}))  # 22 needs your own code
def test_a_place_to_pause_names_the_place_that_follows(lesson):
    cells = notebook_of(lesson).cells
    notes = [
        n for n, cell in enumerate(cells) if re.search(r"^\*\*.*place to pause", cell.source, re.M)
    ]
    places = [*sections(lesson), *(section(e) for s in sections(lesson) for e in s.exercises)]
    assert notes or lesson == "01"
    for note in notes:
        name = re.search(r"`lab goto (\S+)`", cells[note].source)[1]
        # A note may share its cell with the heading that follows it, or with its section's.
        assert section(name).cell == min(place.cell for place in places if place.cell >= note)
