"""Exercises at run time: outcomes, cards, hints, solutions and progress over the whole course.

What the exercises of lesson NN are (its source, `NN_slug.py`) and how each is judged (`checks.py`)
stands in `lab_env/lessons/lNN`.
"""

from lab_env.course.checking import NotYet, Passed, check_of

__all__ = ["NotYet", "Passed", "check_of"]
