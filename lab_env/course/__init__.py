"""Exercises at run time: outcomes, cards, hints, solutions and progress over the whole course.

The exercises of lesson NN are in its source `lab_env/lessons/lNN/NN_slug.py`, their checks in
`checks.py` beside it.
"""
