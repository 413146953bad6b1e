"""Exercises at run time: outcomes, cards, hints, solutions and progress over the whole course.

What the exercises are stands in `registry/` (made from the lessons' sources by `lab author build`);
how each is judged stands in `checks/`, one file a lesson.
"""

from lab_env.course.checking import NotYet, Passed, check_of

__all__ = ["NotYet", "Passed", "check_of"]
