"""Startup script of every kernel in the lab's JupyterLab: shows errors as cards.

It defines no names, because they would be visible in the notebook.
"""

__import__("lab_env.course.known_errors", fromlist=["_"]).explain_errors()
