"""Run the exercises: judge answers, show hints and solutions, and record the learner's progress.

The exercises of lesson NN are in `lab_env/lessons/lNN/NN_slug.py`, and their checks are in
`checks.py` in the same folder.
"""
