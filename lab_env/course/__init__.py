"""Runs the exercises: checks answers, shows hints and solutions, and records progress.

The exercises of lesson NN are in `lab_env/lessons/lNN/NN_slug.py`, and their checks are in
`checks.py` in the same folder.
"""
