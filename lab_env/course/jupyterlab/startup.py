"""Startup script of each kernel in the lab's JupyterLab: shows errors as cards.

Names defined here would be visible in the notebook, so it defines none.
"""

__import__("lab_env.course.known_errors", fromlist=["_"]).explain_errors()
