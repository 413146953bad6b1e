"""Exercises at run time: outcomes, cards, hints, solutions and progress over the whole course.

The exercises of lesson NN are in its source `lab_env/lessons/lNN/NN_slug.py`, their checks in
`checks.py` beside it.
"""

from lab_env.course.checking import NotYet, Passed, check_of

__all__ = ["NotYet", "Passed", "check_of"]
