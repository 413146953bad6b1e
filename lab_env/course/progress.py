"""Stores a learner's progress in a small file: outcomes, hints, predictions, climbs.

Several notebooks may run at the same time, so every change is atomic and made under a lock. An
outcome is kept with a hash of its task. If an update has changed the task, the exercise counts as
not attempted; an outcome from before there were hashes stays valid.
"""

import json
import os
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path

from lab_env.course.registry import Exercise, LessonEntry
from lab_env.platform.display.html import table
from lab_env.platform.errors import LabError
from lab_env.platform.processes.locks import exclusive
from lab_env.platform.settings import settings


def progress_file() -> Path:
    """Return the progress file's path: `LAB_PROGRESS`, by default `progress.json` in LAB_HOME."""
    chosen = settings()
    return chosen.progress or chosen.home / "progress.json"


def read() -> dict:
    """Return the stored `exercises`, `predictions` and `ladder` by id; LabError if damaged."""
    path = progress_file()
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        kept = {}
    except json.JSONDecodeError:
        raise LabError(f"{path} is damaged.", "move it away; progress then starts over.") from None
    return {"exercises": {}, "predictions": {}, "ladder": {}} | kept


def change(edit: Callable[[dict], None]) -> dict:
    """Let `edit` change the stored progress atomically, while other notebooks wait; return it."""
    path = progress_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(path.with_suffix(".lock")):
        kept = read()
        edit(kept)
        temporary = path.with_name(f"{path.name}.{os.getpid()}")
        temporary.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", "utf-8")
        os.replace(temporary, path)
    return kept


def record_outcome(exercise: Exercise, kind: str) -> int:
    """Record an attempt and return the attempts so far; a stub is not counted and returns 0.

    A passed exercise stays passed.
    """
    if kind == "not attempted":
        return 0

    def edit(kept: dict) -> None:
        entry = _entry(kept, exercise)
        entry["attempts"] = entry.get("attempts", 0) + 1
        if entry.get("outcome") != "passed":
            entry["outcome"] = kind
            entry["at"] = _now()
        kept["exercises"][exercise.id] = entry

    return change(edit)["exercises"][exercise.id]["attempts"]


def next_hint(exercise: Exercise) -> int:
    """Record that a hint is shown; return its index, which does not go beyond the last hint."""
    number = 0

    def edit(kept: dict) -> None:
        nonlocal number
        entry = _entry(kept, exercise)
        number = min(entry.get("hints", 0), len(exercise.hints) - 1)
        kept["exercises"][exercise.id] = entry | {"hints": number + 1}

    change(edit)
    return number


def attempted(exercise: Exercise) -> bool:
    return _entry(read(), exercise).get("attempts", 0) > 0


def passed(exercise: Exercise) -> bool:
    return _entry(read(), exercise).get("outcome") == "passed"


def _entry(kept: dict, exercise: Exercise) -> dict:
    """Return what is stored of an exercise, with its task; nothing else if the task has changed."""
    stored = {} if _is_outdated(kept, exercise) else kept["exercises"].get(exercise.id, {})
    return stored | {"task": exercise.task}


def _is_outdated(kept: dict, exercise: Exercise) -> bool:
    """True if an update has changed the task of what is stored."""
    stored = kept["exercises"].get(exercise.id, {})
    return stored.get("task", exercise.task) != exercise.task


def keep_prediction(prediction_id: str, **values: object) -> dict:
    """Store `expected` and `tolerance`, or `actual`; return all stored values, as text."""

    def edit(kept: dict) -> None:
        entry = kept["predictions"].setdefault(prediction_id, {})
        entry |= {name: str(value)[:200] for name, value in values.items()} | {"at": _now()}

    return change(edit)["predictions"][prediction_id]


def record_climb(exercise_id: str, held: int, of: int) -> None:
    """Record how many rungs of its ladder an answer held; a lower climb changes nothing."""

    def edit(kept: dict) -> None:
        best = kept["ladder"].get(exercise_id, {"held": -1})
        if held >= best["held"]:
            kept["ladder"][exercise_id] = {"held": held, "of": of, "at": _now()}

    change(edit)


def ladder_text(ladder: dict[str, dict]) -> str:
    """Return the best climbs as text, `04.2 7 of 7, 17.3 2 of 4`; empty without any."""
    return ", ".join(
        f"{name} {best['held']} of {best['of']}" for name, best in sorted(ladder.items())
    )


@dataclass(frozen=True, repr=False)
class CourseProgress:
    """Progress through the whole course: a summary in a terminal, a table in a notebook."""

    lessons: dict[str, LessonEntry]
    kept: dict

    def total(self) -> str:
        """Return a sentence with the number of passed exercises and of right predictions."""
        from lab_env.course.answers import agree  # imports pandas: half a second

        every = sum(len(lesson.exercises) for lesson in self.lessons.values())
        still_open = sum(len(self.open_exercises(lesson)) for lesson in self.lessons.values())
        sentence = f"{every - still_open} of {every} exercises passed."
        right = [
            agree(entry["expected"], entry["actual"], float(entry.get("tolerance", 0)))
            for entry in self.kept["predictions"].values()
            if {"expected", "actual"} <= entry.keys()
        ]
        return (
            f"{sentence} {sum(right)} of {len(right)} predictions were right."
            if right
            else sentence
        )

    def rows(self) -> list[tuple[str, str, str]]:
        """Return the number, title and progress of each lesson."""
        return [
            (number, lesson.title, self._state(lesson)) for number, lesson in self.lessons.items()
        ]

    def predictions(self) -> list[tuple[str, str, str]]:
        """Return the id, expected value and measured value of each prediction."""
        return [
            (name, entry.get("expected", "nothing"), entry.get("actual", "not seen yet"))
            for name, entry in sorted(self.kept["predictions"].items())
        ]

    def next_exercise(self) -> tuple[LessonEntry, str] | None:
        """Return the lesson to continue with and its first open exercise; None if all are passed.

        The lesson is that of the newest attempt if unfinished, else the next unfinished lesson
        after it, else the first unfinished one.
        """
        tried = self.kept["exercises"]
        newest = max(tried, key=lambda name: tried[name].get("at", ""), default="")[:2]
        later = [number for number in self.lessons if number >= newest]
        for number in (*later, *self.lessons):
            lesson = self.lessons[number]
            if open_ids := self.open_exercises(lesson):
                return lesson, open_ids[0]
        return None

    def open_exercises(self, lesson: LessonEntry) -> list[str]:
        """Return the ids of a lesson's exercises that have not been passed."""
        return [e.id for e in lesson.exercises if self._outcome(e) != "passed"]

    def after(self, exercise_id: str) -> tuple[str, str]:
        """Return a sentence and a link to the next lesson; both are empty until all are passed."""
        lesson = self.lessons[exercise_id[:2]]
        if self.open_exercises(lesson):
            return "", ""
        count = len(lesson.exercises)
        done = f"Lesson {lesson.number}: {count} of {count} exercises passed."
        later = (entry for number, entry in self.lessons.items() if number > lesson.number)
        if (following := next(later, None)) is None:
            return f"{done} That was the last lesson.", ""
        return f"{done} Next: lesson {following.number}.", f"{following.name}.ipynb"

    def _outcome(self, exercise: Exercise) -> str:
        return _entry(self.kept, exercise).get("outcome", "")

    def _outdated(self) -> list[str]:
        """Return the line about tried exercises that an update has changed, if there are any."""
        every = [e for lesson in self.lessons.values() for e in lesson.exercises]
        tried = (e for e in every if "outcome" in self.kept["exercises"].get(e.id, {}))
        number = sum(_is_outdated(self.kept, e) for e in tried)
        text = f"Changed by an update, so not attempted: {number} of {len(every)} exercises."
        return [text] if number else []

    def _passed(self, lesson: LessonEntry) -> str:
        number = len(lesson.exercises)
        return f"{number - len(self.open_exercises(lesson))} of {number} passed"

    def _state(self, lesson: LessonEntry) -> str:
        outcomes = {e.id: self._outcome(e) for e in lesson.exercises}
        words = [f"{i} {kind}".strip() for i, kind in outcomes.items() if kind != "passed"]
        return self._passed(lesson) + (f"; open: {', '.join(words)}" if words else "")

    def __repr__(self) -> str:
        begun = {name[:2] for name in self.kept["exercises"]}
        lines = []
        for number in sorted(begun & self.lessons.keys()):
            lesson = self.lessons[number]
            open_ids = ", ".join(self.open_exercises(lesson))
            still_open = f"  open: {open_ids}" if open_ids else ""
            lines.append(f"{lesson.name:<26} {self._passed(lesson)}{still_open}")
        if later := self.lessons.keys() - begun:
            lines.append(f"not begun: {' '.join(sorted(later))}")
        ladder = [textwrap.fill(line, 78, subsequent_indent="  ") for line in self._ladder()]
        return "\n".join([*lines, *ladder, *self._outdated(), self.total()])

    def _repr_html_(self) -> str:
        tables = [table(("lesson", "", "exercises"), self.rows(), align="left")]
        if self.predictions():
            heads = ("prediction", "you expected", "measured")
            tables.append(table(heads, self.predictions(), align="left"))
        lines = (self.total(), *self._outdated(), *self._ladder())
        sentences = "".join(f"<p>{escape(text)}</p>" for text in lines)
        return sentences + "".join(tables)

    def _ladder(self) -> list[str]:
        """Return the line of the best climbs, if there is any."""
        told = ladder_text(self.kept.get("ladder", {}))
        return [f"Ladder of faults: {told}."] if told else []


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
