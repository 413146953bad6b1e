"""Programs behind `lab` commands that measure the pipeline, test it under faults, or export it.

No other part of the project imports them.
"""
