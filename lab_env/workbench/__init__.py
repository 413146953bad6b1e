"""Programs that measure the pipeline, test it under faults, or export it.

Only the `lab` command imports them.
"""
