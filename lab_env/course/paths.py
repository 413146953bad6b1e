"""The ways through the course: in one day, in one week, or all of it."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from lab_env.course import progress
from lab_env.course.registry import LessonEntry
from lab_env.platform.errors import LabError

ALL = "all"  # every lesson; this one needs no list


@dataclass(frozen=True)
class Step:
    """A lesson of a path, or some of its sections."""

    lesson: LessonEntry
    minutes: int
    sections: tuple[str, ...] = ()  # letters, as in `lab goto 03a`; empty for the whole lesson
    given: tuple[str, ...] = ()  # exercises whose reference answers are taken

    @property
    def part(self) -> str:
        """The part to work through, in words."""
        names = ", ".join(f"{self.lesson.number}{letter}" for letter in self.sections) or "whole"
        return names + (f"; given: {', '.join(self.given)}" if self.given else "")

    @property
    def first(self) -> str:
        """The section to begin with, as `lab goto` takes it."""
        return self.lesson.number + (self.sections[0] if self.sections else "a")

    @property
    def exercises(self) -> set[str]:
        """Ids of the exercises to solve."""
        from lab_env.course.sections import sections

        if not self.sections:
            return {exercise.id for exercise in self.lesson.exercises}
        found = sections(self.lesson.number)
        inside = {i for part in found if part.name[2:] in self.sections for i in part.exercises}
        return inside - set(self.given)


@dataclass(frozen=True)
class Way:
    """A way through the course."""

    name: str
    title: str
    steps: tuple[Step, ...]

    @property
    def hours(self) -> float:
        """Hours for one person who reads every word and solves every exercise."""
        return sum(step.minutes for step in self.steps) / 60


def ways(lessons: Mapping[str, LessonEntry]) -> dict[str, Way]:
    """Return the ways by name, shortest first."""
    text = files("lab_env.course").joinpath("paths.toml").read_text("utf-8")
    found = {
        name: Way(name, way["title"], tuple(_step(lessons, **step) for step in way["steps"]))
        for name, way in tomllib.loads(text).items()
    }
    whole = tuple(_step(lessons, number) for number in lessons)
    return found | {ALL: Way(ALL, "The whole course", whole)}


def _step(lessons, lesson: str, minutes: int = 0, sections=(), given=()) -> Step:
    entry = lessons[lesson]
    return Step(entry, minutes or entry.teach + entry.do, tuple(sections), tuple(given))


def choose(name: str, lessons: Mapping[str, LessonEntry]) -> Way:
    """Record the learner's way, which `lab progress` then shows."""
    known = ways(lessons)
    if name not in known:
        raise LabError(f"There is no path {name!r}.", f"choose from: {', '.join(known)}")
    progress.change(lambda kept: kept.update(path=name))
    return known[name]


def open_steps(way: Way, course: progress.CourseProgress) -> list[Step]:
    """Return the steps with exercises that are not passed, in order."""
    return [s for s in way.steps if s.exercises & set(course.open_exercises(s.lesson))]
