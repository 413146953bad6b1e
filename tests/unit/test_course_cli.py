"""`lab progress` fits a terminal and needs no running services."""

import json

from lab_env.course.registry import lessons


def test_progress_in_a_new_lab_is_two_lines(lab_command, tmp_path):
    done = lab_command("progress", LAB_PROGRESS=str(tmp_path / "none yet.json"))
    assert done.returncode == 0, done.stderr
    last, total = done.stdout.splitlines()
    assert last.startswith("not begun: 00 01 02 ") and len(last) <= 80
    assert total.startswith("0 of ") and total.endswith(" exercises passed.")


def test_progress_over_the_whole_course_fits_a_terminal(lab_command, tmp_path):
    names = [exercise.id for lesson in lessons().values() for exercise in lesson.exercises]
    tried = {name: {"outcome": "passed" if name == "05.1" else "not yet"} for name in names}
    guesses = {
        "05.p1": {"expected": "3", "actual": "4", "tolerance": "1"},
        "05.p2": {"expected": "base", "actual": "log", "tolerance": "0"},
        "05.p3": {"expected": "base"},
    }
    file = tmp_path / "progress.json"
    file.write_text(json.dumps({"exercises": tried, "predictions": guesses}))
    lines = lab_command("progress", LAB_PROGRESS=str(file)).stdout.splitlines()
    assert len(lines) <= 40 and max(map(len, lines)) <= 80
    (cow,) = (line for line in lines if line.startswith("05_cow_and_mor "))
    assert cow.endswith(" 1 of 4 passed  open: 05.2, 05.3, 05.4")
    total = f"1 of {len(names)} exercises passed. 1 of 2 predictions were right."
    assert lines[-1] == total


def test_progress_shows_the_best_climb_of_each_ladder(lab_command, tmp_path):
    file = tmp_path / "progress.json"
    best = {"17.3": {"held": 2, "of": 4}, "04.2": {"held": 7, "of": 7}}
    file.write_text(json.dumps({"exercises": {}, "predictions": {}, "ladder": best}))
    lines = lab_command("progress", LAB_PROGRESS=str(file)).stdout.splitlines()
    assert "Ladder of faults: 04.2 7 of 7, 17.3 2 of 4." in lines
    file.write_text(json.dumps({"ladder": {f"{n:02d}.1": best["17.3"] for n in range(20)}}))
    lines = lab_command("progress", LAB_PROGRESS=str(file)).stdout.splitlines()
    assert max(map(len, lines)) <= 80 and len(lines) < 10
