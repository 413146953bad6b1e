"""A learner's progress, kept in one small file: outcomes, hints taken, predictions.

Notebooks may run side by side, so every change is made under a lock and in one step.
"""

import fcntl
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from lab_env.course.registry import LessonEntry
from lab_env.platform.display.html import table
from lab_env.platform.errors import LabError
from lab_env.platform.settings import settings


def progress_file() -> Path:
    """The file of progress: `LAB_PROGRESS`, else `progress.json` in LAB_HOME."""
    chosen = settings()
    return (chosen.progress or chosen.home / "progress.json").expanduser().resolve()


def read() -> dict:
    """Read the file: `exercises` by id, and `predictions` by id.

    Raises:
        LabError: the file is damaged.
    """
    path = progress_file()
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        kept = {}
    except json.JSONDecodeError:
        raise LabError(f"{path} is damaged.", "move it away; progress then starts over.") from None
    return {"exercises": {}, "predictions": {}} | kept


def change(edit: Callable[[dict], None]) -> dict:
    """Change what is kept, in one step; other notebooks wait.

    Args:
        edit: changes the dictionary that `read` returns.

    Returns:
        What is kept now.
    """
    path = progress_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kept = read()
        edit(kept)
        temporary = path.with_name(f"{path.name}.{os.getpid()}")
        temporary.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", "utf-8")
        os.replace(temporary, path)
    return kept


def record_outcome(exercise_id: str, kind: str) -> int:
    """Keep an attempt. What was passed once stays passed; an empty stub is no attempt.

    Args:
        exercise_id: for example `04.1`.
        kind: of the outcome.

    Returns:
        The number of attempts so far; 0 for a stub.
    """
    if kind == "not attempted":
        return 0

    def edit(kept: dict) -> None:
        entry = kept["exercises"].setdefault(exercise_id, {})
        entry["attempts"] = entry.get("attempts", 0) + 1
        if entry.get("outcome") != "passed":
            entry["outcome"] = kind
            entry["at"] = _now()

    return change(edit)["exercises"][exercise_id]["attempts"]


def next_hint(exercise_id: str, available: int) -> int:
    """Count a hint.

    Args:
        exercise_id: for example `04.1`.

    Returns:
        The number of the hint to show, from 0; the last one again when there is no other.
    """
    number = 0

    def edit(kept: dict) -> None:
        nonlocal number
        entry = kept["exercises"].setdefault(exercise_id, {})
        number = min(entry.get("hints", 0), available - 1)
        entry["hints"] = number + 1

    change(edit)
    return number


def attempted(exercise_id: str) -> bool:
    """True if the learner has tried the exercise."""
    return read()["exercises"].get(exercise_id, {}).get("attempts", 0) > 0


def passed(exercise_id: str) -> bool:
    """True if the exercise was passed once."""
    return read()["exercises"].get(exercise_id, {}).get("outcome") == "passed"


def keep_prediction(prediction_id: str, **values: object) -> dict:
    """Keep what the learner expects, or what was measured.

    Args:
        prediction_id: for example `05.p1`.
        values: `expected` with its `tolerance`, or `actual`.

    Returns:
        All that is kept of this prediction, as text.
    """

    def edit(kept: dict) -> None:
        entry = kept["predictions"].setdefault(prediction_id, {})
        entry |= {name: str(value)[:200] for name, value in values.items()} | {"at": _now()}

    return change(edit)["predictions"][prediction_id]


@dataclass(frozen=True, repr=False)
class CourseProgress:
    """Progress over the whole course: short in a terminal, a table in a notebook.

    Args:
        lessons: all lessons, by number.
        kept: what `read` returned.
    """

    lessons: dict[str, LessonEntry]
    kept: dict

    def total(self) -> str:
        """One sentence: the exercises passed, and the predictions that were right."""
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
        """For each lesson: its number, its title, how far the learner is."""
        return [
            (number, lesson.title, self._state(lesson)) for number, lesson in self.lessons.items()
        ]

    def predictions(self) -> list[tuple[str, str, str]]:
        """For each prediction: its id, what was expected, what was measured."""
        return [
            (name, entry.get("expected", "nothing"), entry.get("actual", "not seen yet"))
            for name, entry in sorted(self.kept["predictions"].items())
        ]

    def next_exercise(self) -> tuple[LessonEntry, str] | None:
        """The lesson to go on with and its first open exercise; None when all are passed.

        That is the lesson of the newest attempt, or the next one after it that is not done.
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
        """The exercises of a lesson that are not passed."""
        return [e.id for e in lesson.exercises if self._outcome(e.id) != "passed"]

    def _outcome(self, exercise_id: str) -> str:
        return self.kept["exercises"].get(exercise_id, {}).get("outcome", "")

    def _passed(self, lesson: LessonEntry) -> str:
        number = len(lesson.exercises)
        return f"{number - len(self.open_exercises(lesson))} of {number} passed"

    def _state(self, lesson: LessonEntry) -> str:
        words = [f"{i} {self._outcome(i)}".strip() for i in self.open_exercises(lesson)]
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
        return "\n".join([*lines, self.total()])

    def _repr_html_(self) -> str:
        tables = [table(("lesson", "", "exercises"), self.rows(), align="left")]
        if self.predictions():
            heads = ("prediction", "you expected", "measured")
            tables.append(table(heads, self.predictions(), align="left"))
        return f"<p>{self.total()}</p>{''.join(tables)}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
