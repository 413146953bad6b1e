"""Runs in each kernel of the lab's JupyterLab before the first cell, so that errors have cards.

The names of this file would be the notebook's, so it leaves none.
"""

__import__("lab_env.course.known_errors", fromlist=["_"]).explain_errors()
